/* requests.c - replay a fixture's requests on a running server.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/requests.h"

#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"

#define PROBE_TIMEOUT_MS 10000 /* of the recorded address, when no server is named; else --timeout */
#define WARMUP_ID "warmup"

int td_requests_probe(const struct td_replay_options *opt, const char *url, struct td_api_server *server, struct td_error *err)
{
    struct td_api_options o = {.server = url, .timeout_ms = opt->server ? (int)(opt->timeout_s * 1000) : PROBE_TIMEOUT_MS, .stop = opt->stop};
    const char *headers[TD_ARG_LIST_MAX + 1] = {NULL};

    memcpy(headers, opt->headers.item, (size_t)opt->headers.n * sizeof *headers);
    o.headers = headers;
    if (opt->api && td_api_parse(opt->api, &o.kind, err))
        return err ? err->code : TD_EINVAL;
    return td_api_probe(&o, server, err);
}

/* ---- what comes back ----------------------------------------------------------------------------------------------- */

struct collector {
    struct td_writer *w;
    struct td_requests_stats *stats;
    struct td_exchange *sample; /* the first complete answer, kept: it shows which extras the server honoured */
};

static int collect(void *arg, struct td_exchange *x, struct td_error *err)
{
    struct collector *c = arg;
    int rc = td_writer_exchange(c->w, x);

    if (rc)
        return td_fail(err, rc, "cannot write an exchange");
    if (x->phase != TD_PHASE_WARMUP)
        *(x->error_kind ? &c->stats->failed : &c->stats->answered) += 1;
    if (!x->error_kind && c->sample && !c->sample->request) {
        *c->sample = *x;
        memset(x, 0, sizeof *x);
    }
    return TD_OK;
}

/* ---- sending ------------------------------------------------------------------------------------------------------- */

/* One request before the clock counts: the server compiles, allocates and fills its caches now. A server that does not
 * answer it was reached all the same: what it does not answer either is the replay's result. */
static int warm_up(const struct td_plan *plan, const struct td_send_options *base, struct td_error *err)
{
    struct td_plan one = TD_PLAN_INIT;
    struct td_plan_item it = plan->items[0];
    struct td_send_options opt = *base;
    struct td_send_stats st;
    char id[] = WARMUP_ID;
    int rc;

    it.prompt_id = id;
    it.phase = TD_PHASE_WARMUP;
    it.repeat = 0;
    it.concurrency = 1;
    it.at_ns = -1;
    it.group = 0;
    opt.first_stream = 0;
    opt.progress = NULL;
    rc = td_plan_add(&one, &it, err);
    if (!rc)
        rc = td_suite_run(&one, &opt, &st, err);
    if (!rc && (st.failed || st.unsent))
        td_log(TD_LOG_WARN, "replay", "%s: was ready, but did not answer the warm-up request; look at the server's log", base->server->url);
    td_plan_release(&one);
    return rc;
}

static void number_fact(struct td_writer *w, const char *section, const char *key, double v)
{
    cJSON *n = cJSON_CreateNumber(v);

    td_writer_fact(w, section, key, n);
    cJSON_Delete(n);
}

static struct td_sampling recorded_sampling(const cJSON *manifest)
{
    const cJSON *s = td_json_get(manifest, "sampling");
    struct td_sampling m = TD_SAMPLING_DEFAULT;

    m.temperature = td_json_get_num(s, "temperature", m.temperature);
    m.top_p = td_json_get_num(s, "top_p", m.top_p);
    m.seed = td_json_get_i64(s, "seed", m.seed);
    m.max_tokens = (int32_t)td_json_get_i64(s, "max_tokens", m.max_tokens);
    m.logprobs = (int32_t)td_json_get_i64(s, "logprobs", m.logprobs);
    m.ignore_eos = td_json_get_bool(s, "ignore_eos", m.ignore_eos);
    m.stream = td_json_get_bool(s, "stream", m.stream);
    return m;
}

static void write_facts(struct td_fixture *fx, struct td_writer *w, const struct td_replay_options *opt,
                        const struct td_api_server *server, const struct td_exchange *sample, const struct td_requests_stats *st)
{
    static const char *const copied[] = {"sampling", "suite"}; /* what was asked is what was recorded */
    const cJSON *manifest = td_fixture_manifest(fx), *v;
    struct td_sampling sampling = recorded_sampling(manifest);
    size_t i;

    td_api_write_facts(w, server, &sampling, sample);
    for (i = 0; i < 2; i++)
        cJSON_ArrayForEach(v, td_json_get(manifest, copied[i]))
            td_writer_fact(w, copied[i], v->string, v);
    td_writer_fact_str(w, "replay", "server", server->url);
    number_fact(w, "replay", "timing", opt->speed);
    if (st->planned)
        number_fact(w, "replay", "requests", (double)st->planned);
    number_fact(w, "replay", "lag_max_ms", st->lag_max_ms);
    number_fact(w, "replay", "lag_mean_ms", st->lag_mean_ms);
    if (st->by_token_ids)
        td_writer_fact_str(w, "replay", "prompts", "by token ids: the recording was redacted");
}

static void note_stats(struct td_writer *w, const struct td_send_stats *s, struct td_requests_stats *stats)
{
    stats->seconds = (double)(s->t_end_ns - s->t_start_ns) / TD_NS_PER_S;
    stats->lag_max_ms = (double)s->lag_max_ns / TD_NS_PER_MS;
    stats->lag_mean_ms = s->lag_n ? (double)s->lag_sum_ns / (double)s->lag_n / TD_NS_PER_MS : 0;
    stats->not_sent = s->unsent;
    stats->server_gone = s->unsent > 0 || s->server_gone;
    td_writer_count(w, "exchanges.planned", stats->planned, 0);
    td_writer_count(w, "exchanges.sent", s->sent, s->bytes_sent);
    if (s->unsent)
        td_writer_count(w, "exchanges.dropped.server_gone", s->unsent, 0);
    if (stats->skipped)
        td_writer_count(w, "exchanges.dropped.redacted", stats->skipped, 0);
}

/* Send the plan. A server that dies or hangs is a result: its exchanges say so. */
static int send_plan(struct collector *c, const struct td_plan *plan, const struct td_send_options *so, struct td_error *err)
{
    struct td_send_stats st;
    int rc = td_suite_run(plan, so, &st, err);

    note_stats(c->w, &st, c->stats);
    if (rc == TD_EINTR) {
        td_writer_count(c->w, "exchanges.dropped.interrupted", (int64_t)plan->n - st.sent, 0);
        return td_fail(err, rc, "stopped after %lld of %zu requests", (long long)st.sent, plan->n);
    }
    if (!rc && c->stats->server_gone)
        td_log(TD_LOG_WARN, "replay", "the server died or hung in the middle of the replay; %lld requests were not sent", (long long)st.unsent);
    return rc;
}

static int replay_plan(struct td_fixture *fx, struct td_writer *w, const struct td_replay_options *opt,
                       const struct td_api_server *server, const struct td_plan *plan, struct td_requests_stats *stats,
                       struct td_error *err)
{
    const char *headers[TD_ARG_LIST_MAX + 1] = {NULL};
    struct td_exchange sample = {0};
    struct collector c = {.w = w, .stats = stats, .sample = &sample};
    struct td_send_options so = {.server = server, .headers = headers, .total_timeout_ms = (int)(opt->timeout_s * 1000),
                                 .writer = w, .emit = collect, .emit_arg = &c, .first_stream = 1, .stop = opt->stop,
                                 .progress = "requests"};
    int rc;

    memcpy(headers, opt->headers.item, (size_t)opt->headers.n * sizeof *headers);
    rc = warm_up(plan, &so, err);
    if (!rc)
        rc = send_plan(&c, plan, &so, err);
    write_facts(fx, w, opt, server, sample.request ? &sample : NULL, stats);
    td_exchange_release(&sample);
    return rc;
}

int td_requests_replay(struct td_fixture *fx, struct td_writer *w, const struct td_replay_options *opt,
                       const struct td_api_server *server, struct td_requests_stats *stats, struct td_error *err)
{
    struct td_exchange *xs = NULL;
    struct td_plan plan = TD_PLAN_INIT;
    size_t n = 0, bad = 0;
    int rc = td_fixture_exchanges(fx, &xs, &n, &bad, err);

    if (bad)
        td_writer_count(w, "exchanges.broken.frames", (int64_t)bad, 0);
    if (!rc)
        rc = td_requests_plan(xs, n, td_fixture_manifest(fx), opt->repeat, opt->speed, &plan, stats, err);
    if (!rc && !plan.n)
        rc = td_fail(err, TD_EUNSUPPORTED, "%s: %zu recorded requests, none of which can be sent again (%lld redacted and without "
                     "token ids)", td_fixture_dir(fx), n, (long long)stats->skipped);
    td_exchanges_free(xs, n);
    if (!rc)
        rc = replay_plan(fx, w, opt, server, &plan, stats, err);
    td_plan_release(&plan);
    return rc;
}
