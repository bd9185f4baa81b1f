/* recording_starts.c - the timed repeats of a recording, on one start of the server after another.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/recording_starts.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/cpu_probe.h"
#include "format/host_facts.h"
#include "recorder/recording_state.h"
#include "recorder/send_requests.h"

int td_recording_probe(struct td_recording *r, struct td_api_server *out, struct td_error *err)
{
    const struct td_record_options *o = r->opt;
    struct td_api_options api = {.server = o->server,
                                 .kind = o->api,
                                 .model = o->model,
                                 .headers = o->headers,
                                 .timeout_ms = (int)((o->wait > 0 ? (double)o->wait : o->timeout_s) * 1000),
                                 .wait_unreachable = o->wait || o->command,
                                 .alive = td_run_server_is_coming,
                                 .alive_arg = &r->started,
                                 .stop = r->stop};

    return td_api_probe(&api, out, err);
}

/* Is there another repeat? Of a duration the plan grows with each that begins, so that what is cut off is missing. */
static bool has_next(struct td_recording *r, int64_t from, int64_t end, int64_t over_ns)
{
    if (r->interrupted || r->server_gone)
        return false;
    if (!r->load.until_time)
        return from < end;
    if (from && td_clock_mono_ns() >= over_ns)
        return false;
    td_recording_plan_repeat(r, from + 1);
    return true;
}

/* May the rest of a duration go in one loop, which drains nothing between two repeats? Not until a repeat came whole enough to
 * tell that the server answers. */
static bool goes_in_one_loop(const struct td_recording *r, bool singly, int64_t from, int lost)
{
    return r->load.until_time && !singly && r->opt->concurrency > 1 && from && !lost;
}

static bool all_failed_since(const struct td_recording *r, const struct td_phase_summary *then)
{
    const struct td_phase_summary *now = &r->summary.phase[TD_PHASE_TIMED];

    return now->failed - then->failed == now->requests - then->requests;
}

/* A duration would be spent on a server that is gone, or never meant to answer.
 *   lost : repeats one after the other of which nothing succeeded */
static bool is_given_up(const struct td_recording *r, int lost)
{
    if (!r->load.until_time || lost < 2)
        return false;
    if (!r->interrupted)
        td_log(TD_LOG_WARN, "record", "two repeats failed whole, so the rest of --duration is not spent");
    return true;
}

int td_recording_timed(struct td_recording *r, int64_t start, struct td_error *err)
{
    const char *const *headers = r->opt->headers;
    const int64_t each = r->load.repeats / r->opt->starts, first = start * each,
                  over_ns = td_clock_mono_ns() + (int64_t)(r->opt->duration_s * 1e9);
    const bool reset = td_extras_reset_cache(&r->extras, &r->server, headers),
               singly = reset && (r->server.without >> TD_FIELD_SALT & 1 || r->server.kind == TD_API_SGLANG);
    const int64_t step = r->load.until_time || (singly && !(r->opt->rate > 0)) ? 1 : each;
    const double before = r->opt->starts > 1 ? td_cpu_probe_ms() : 0;
    struct td_cpu_watch watch;
    int64_t from, sent = step;
    int rc = TD_OK, lost = 0;

    if (!start)
        td_extras_metrics(&r->extras, &r->server, headers, &r->metrics[0]);
    if (r->opt->starts > 1)
        td_cpu_watch_begin(&watch, r->server.url);
    for (from = first; !rc && !is_given_up(r, lost) && has_next(r, from, first + each, over_ns); from += sent) {
        const struct td_phase_summary before_it = r->summary.phase[TD_PHASE_TIMED];

        if (from > first)
            td_extras_reset_cache(&r->extras, &r->server, headers);
        sent = step;
        if (goes_in_one_loop(r, singly, from, lost))
            rc = td_recording_send_until(r, from, over_ns, &sent, err);
        else
            rc = td_recording_send_phase(r, TD_PHASE_TIMED, from, step, "recording", err);
        lost = all_failed_since(r, &before_it) ? lost + 1 : 0;
    }
    if (r->opt->starts > 1) {
        td_cpu_watch_end(&watch, &r->others[r->n_probes]);
        r->probe_ms[r->n_probes++] = (before + td_cpu_probe_ms()) / 2;
    }
    return rc;
}

/* Is it the same server? A repeat of another one would be noise that is none. */
static int check_same(const struct td_api_server *first, const struct td_api_server *now, struct td_error *err)
{
    if (strcmp(first->model, now->model) || strcmp(first->version, now->version))
        return td_fail(err, TD_EPROTO, "it is another server: model %.80s, version %.60s, and before %.80s, %.60s", now->model,
                       now->version, first->model, first->version);
    return TD_OK;
}

static int start_again(struct td_recording *r, int64_t start, struct td_error *err)
{
    struct td_api_server now;
    char no_tap[sizeof r->no_tap];
    int rc;

    td_run_server_stop(&r->started);
    rc = td_run_server_start(&r->started, r->opt->command, r->url, r->opt->mode.steps != TD_TAP_CLIENT_OFF, r->opt->graphs_mib, no_tap,
                             sizeof no_tap, err);
    if (!rc)
        rc = td_recording_probe(r, &now, err);
    if (rc == TD_EINTR) {
        r->interrupted = true;
        td_error_clear(err);
        return TD_OK;
    }
    if (!rc)
        rc = check_same(&r->server, &now, err);
    if (!rc)
        rc = td_recording_send_some(r, 1, TD_WARMUP_TOKENS, (int32_t)start, err);
    return rc ? td_fail_at(err, "start %lld of %lld", (long long)start + 1, (long long)r->opt->starts) : TD_OK;
}

int td_recording_more_starts(struct td_recording *r, struct td_error *err)
{
    int64_t start;
    int rc = TD_OK;

    for (start = 1; start < r->opt->starts && !rc && !r->interrupted && !r->server_gone; start++) {
        rc = start_again(r, start, err);
        if (!rc && !r->interrupted && !r->server_gone)
            rc = td_recording_timed(r, start, err);
    }
    td_host_facts_probes(r->writer, r->probe_ms, r->n_probes);
    td_host_facts_others(r->writer, r->others, r->n_probes);
    return rc;
}
