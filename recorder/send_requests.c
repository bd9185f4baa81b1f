/* send_requests.c - send the requests of a recording, and pass on what comes back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/send_requests.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "recorder/flight_watch.h"
#include "recorder/recording_state.h"

/* ---- answers --------------------------------------------------------------------------------- */

/* Leave out a field that this server refuses, or find out why it answers nothing. */
static void on_failed_warmup(struct td_recording *r, const struct td_exchange *x)
{
    r->ask_again = td_api_note_refusal(&r->server, x);
    if (r->ask_again)
        td_log(TD_LOG_INFO, "record",
               "the server refuses a field that can be left out, and is asked without it: %s",
               x->error);
    else if (*r->engine || r->server_gone)
        return; /* said already, or about to be */
    else if (td_api_explain_failure(&r->server, r->opt->headers, x, r->engine, sizeof r->engine))
        td_log(TD_LOG_WARN, "record", "%s", r->engine);
    else if (!*r->warmup_error)
        snprintf(r->warmup_error, sizeof r->warmup_error, "%s", x->error);
}

static int on_tapped(struct td_recording *r, const struct td_exchange *x)
{
    int rc = r->client && !td_rows_add(&r->tapped, x) ? TD_ENOMEM : TD_OK;

    if (r->client && r->opt->flight && !r->collapse_dumped)
        r->collapse_dumped = td_flight_watch_answer(r->client, x);
    return rc;
}

int td_recording_receive(void *arg, struct td_exchange *x, struct td_error *err)
{
    struct td_recording *r = arg;
    int rc;

    td_writer_redact_error(r->writer, x);
    rc = td_writer_exchange(r->writer, x);
    if (!rc)
        rc = td_scores_add(&r->scores, x, err);
    if (x->error && x->phase == TD_PHASE_WARMUP && !td_json_get(x->extra, "role"))
        on_failed_warmup(r, x);
    if (!td_scores_role(x))
        td_recording_summary_add(&r->summary, x);
    if (x->phase == TD_PHASE_TAPPED && on_tapped(r, x))
        rc = TD_ENOMEM;
    r->ids_filled += td_json_get(x->extra, "ids_from") != NULL;
    if (x->error)
        td_log(TD_LOG_INFO, "record", "%s, repeat %d: %s: %s", x->prompt_id, x->repeat,
               x->error_kind, x->error);
    if (!r->have_sample && !x->error) {
        r->sample = *x;
        r->have_sample = true;
        memset(x, 0, sizeof *x);
    }
    return rc ? td_fail(err, rc, "%s: cannot write an exchange", r->dir) : TD_OK;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void request_id(void *arg, uint32_t stream, char out[64])
{
    const struct td_recording *r = arg;

    td_tap_client_request_id(r->nonce, stream, out);
}

static void count_requests(struct td_writer *w, const struct td_plan *plan,
                           const struct td_send_stats *st)
{
    int64_t interrupted = (int64_t)plan->n - st->sent - st->unsent;

    td_writer_count(w, "exchanges.planned", (int64_t)plan->n, 0);
    td_writer_count(w, "exchanges.sent", st->sent, st->bytes_sent);
    td_writer_count(w, "wire.received", st->records, st->bytes_received);
    if (st->failed)
        td_writer_count(w, "exchanges.failed.transfer", st->failed, 0);
    if (st->unsent)
        td_writer_count(w, "exchanges.dropped.server_gone", st->unsent, 0);
    if (interrupted > 0)
        td_writer_count(w, "exchanges.dropped.interrupted", interrupted, 0);
}

#define WHOLE_ANSWER 10 /* times --timeout: a server that drips must not hold the recording for ever */

/* Repeats that are planned while others are sent. */
struct growing { struct td_recording *r; struct td_plan plan; int64_t next, over_ns; };

static int add_repeat(struct growing *g, struct td_error *err)
{
    const struct td_recording *r = g->r;
    const struct td_suite_sending how = {.first_repeat = (int32_t)g->next, .repeats = 1,
                                         .concurrency = (int32_t)r->opt->concurrency, .phase = TD_PHASE_TIMED};

    td_recording_plan_repeat(g->r, ++g->next);
    return td_suite_plan(&r->suite, &r->server, &r->sampling, &how, &g->plan, err);
}

/* A td_send_more_fn. A duration is not spent on a server that only fails. */
static int plan_more(void *arg, const struct td_send_stats *so_far, struct td_error *err)
{
    struct growing *g = arg;

    if (td_clock_mono_ns() >= g->over_ns || so_far->lost_in_row >= 2 * (int64_t)g->r->suite.n)
        return TD_OK;
    return add_repeat(g, err);
}

static int send_plan(struct td_recording *r, const struct td_plan *plan, struct growing *growing, const char *progress,
                     struct td_error *err)
{
    struct td_send_stats st;
    struct td_send_options o = {.server = &r->server,
                                .headers = r->opt->headers,
                                .total_timeout_ms = (int)(r->opt->timeout_s * 1000 * WHOLE_ANSWER),
                                .idle_timeout_ms = (int)(r->opt->timeout_s * 1000),
                                .max_answer_bytes = r->opt->max_body_mib << 20,
                                .own_connections = !strcmp(r->opt->connections, "never"),
                                .writer = r->writer,
                                .emit = td_fill_ids_add,
                                .emit_arg = r->fill_ids,
                                .request_id = request_id,
                                .request_id_arg = r,
                                .first_stream = r->next_stream,
                                .more = growing ? plan_more : NULL,
                                .more_arg = growing,
                                .growing = growing ? &growing->plan : NULL,
                                .stop = r->stop,
                                .alive = td_run_server_alive,
                                .alive_arg = &r->started,
                                .progress = progress,
                                .show_size = true};
    int rc = td_send_plan(plan, &o, &st, err);

    r->next_stream = st.next_stream;
    r->server_gone |= st.server_gone;
    count_requests(r->writer, plan, &st);
    if (rc == TD_EINTR) {
        r->interrupted = true;
        td_error_clear(err);
        rc = TD_OK;
    }
    return rc;
}

int td_recording_send_plan(struct td_recording *r, const struct td_plan *plan, const char *progress,
                           struct td_error *err)
{
    return send_plan(r, plan, NULL, progress, err);
}

int td_recording_send_until(struct td_recording *r, int64_t from, int64_t over_ns, int64_t *repeats, struct td_error *err)
{
    struct growing g = {.r = r, .plan = TD_PLAN_INIT, .next = from, .over_ns = over_ns};
    int rc = add_repeat(&g, err);

    if (!rc)
        rc = send_plan(r, &g.plan, &g, "recording", err);
    td_plan_release(&g.plan);
    *repeats = g.next - from;
    return rc;
}

int td_recording_send_phase(struct td_recording *r, enum td_phase phase, int64_t from,
                            int64_t repeats, const char *progress, struct td_error *err)
{
    struct td_suite_sending how = {.first_repeat = (int32_t)from, .repeats = (int32_t)repeats,
                                   .concurrency = (int32_t)r->opt->concurrency, .phase = phase};
    struct td_plan plan = TD_PLAN_INIT;
    int rc;

    if (phase == TD_PHASE_TIMED && !r->load.until_time) {
        how.most = r->load.requests - from * (int64_t)r->suite.n;
        how.arrival = r->opt->rate > 0 ? &r->opt->load : NULL;
    }
    rc = td_suite_plan(&r->suite, &r->server, &r->sampling, &how, &plan, err);
    if (!rc)
        rc = td_recording_send_plan(r, &plan, progress, err);
    td_plan_release(&plan);
    return rc;
}

int td_recording_send_warmup(struct td_recording *r, struct td_error *err)
{
    const int64_t prompts = (int64_t)r->suite.n;
    const struct td_suite_sending how = {.first_repeat = 1, .repeats = (int32_t)((r->opt->warmup + prompts - 1) / prompts),
                                         .concurrency = (int32_t)r->opt->concurrency, .phase = TD_PHASE_WARMUP,
                                         .most = r->opt->warmup};
    struct td_plan plan = TD_PLAN_INIT;
    int rc;

    rc = td_suite_plan(&r->suite, &r->server, &r->sampling, &how, &plan, err);
    if (!rc)
        rc = td_recording_send_plan(r, &plan, "warming up", err);
    td_plan_release(&plan);
    return rc;
}

#define SOME 8

int td_recording_send_some(struct td_recording *r, size_t n, int32_t tokens, int32_t repeat,
                           struct td_error *err)
{
    struct td_prompt some[SOME];
    struct td_suite part = {.name = r->suite.name, .prompts = some};
    const struct td_suite_sending how = {.first_repeat = repeat, .repeats = 1, .concurrency = (int32_t)r->opt->concurrency,
                                         .phase = TD_PHASE_WARMUP};
    struct td_plan plan = TD_PLAN_INIT;
    int rc;

    for (; part.n < n && part.n < SOME && part.n < r->suite.n; part.n++) {
        some[part.n] = r->suite.prompts[part.n];
        some[part.n].max_tokens = tokens;
    }
    rc = td_suite_plan(&part, &r->server, &r->sampling, &how, &plan, err);
    if (!rc)
        rc = td_recording_send_plan(r, &plan, NULL, err);
    td_plan_release(&plan);
    return rc;
}

int td_recording_send_first(struct td_recording *r, enum td_phase phase, int32_t tokens,
                            struct td_error *err)
{
    struct td_prompt first = r->suite.prompts[0];
    struct td_suite one = {.name = r->suite.name, .prompts = &first, .n = 1};
    const struct td_suite_sending how = {.repeats = 1, .concurrency = 1, .phase = phase};
    struct td_plan plan = TD_PLAN_INIT;
    int rc;

    first.max_tokens = tokens;
    rc = td_suite_plan(&one, &r->server, &r->sampling, &how, &plan, err);
    if (!rc)
        rc = td_recording_send_plan(r, &plan, NULL, err);
    td_plan_release(&plan);
    return rc;
}
