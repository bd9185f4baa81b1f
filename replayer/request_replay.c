/* request_replay.c - replay a fixture's requests on a running server.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/request_replay.h"

#include <string.h>

#include "common/cpu_others.h"
#include "common/cpu_probe.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/number_words.h"
#include "format/host_facts.h"
#include "format/planned.h"
#include "wire/api_facts.h"

#define WARMUP_ID "warmup"

int td_request_replay_probe(const struct td_replay_options *opt, const char *url,
                            struct td_api_server *server, struct td_error *err)
{
    struct td_api_options o = {.server = url,
                               .timeout_ms = (int)((opt->wait > 0 ? (double)opt->wait : opt->timeout_s) * 1000),
                               .wait_unreachable = opt->wait != 0,
                               .stop = opt->stop};
    const char *headers[TD_ARG_LIST_MAX + 1] = {NULL};

    memcpy(headers, opt->headers.item, (size_t)opt->headers.n * sizeof *headers);
    o.headers = headers;
    if (opt->api && td_api_parse(opt->api, &o.kind, err))
        return err ? err->code : TD_EINVAL;
    return td_api_probe(&o, server, err);
}

/* ---- answers --------------------------------------------------------------------------------- */

struct collector {
    struct td_writer *w;
    struct td_request_replay_stats *stats;
    struct td_exchange *sample; /* the first complete answer: which extras did the server honour? */
    struct td_api_server *server;
    const char *const *headers, *const *allow_paths;
    struct td_fill_ids *fill_ids; /* gets each exchange first, then calls collect_exchange */
    struct td_scores scores;
    struct td_extras extras;
    bool ask_again;             /* the warm-up was refused for a field; it is left out now */
    char engine[600];           /* why a server with a good /health does not answer; "": it does */
};

/* A request failed: find out whether the server as such is to blame, not the request. */
static void handle_failure(struct collector *c, const struct td_exchange *x)
{
    if (x->phase == TD_PHASE_WARMUP && !td_json_get(x->extra, "role"))
        c->ask_again = td_api_note_refusal(c->server, x);
    if (c->ask_again)
        td_log(TD_LOG_WARN, "replay", "the server refuses a field that can be left out, and is asked without it: %s", x->error);
    else if (!*c->engine && x->phase == TD_PHASE_WARMUP &&
             td_api_explain_failure(c->server, c->headers, x, c->engine, sizeof c->engine))
        td_log(TD_LOG_WARN, "replay", "%s", c->engine);
}

static int collect_exchange(void *arg, struct td_exchange *x, struct td_error *err)
{
    struct collector *c = arg;
    int rc;

    td_writer_redact_error(c->w, x);
    rc = td_writer_exchange(c->w, x);
    if (rc)
        return td_fail(err, rc, "cannot write an exchange");
    if (td_scores_role(x))
        return td_scores_add(&c->scores, x, err);
    if (x->error_kind)
        handle_failure(c, x);
    td_client_lag_add(&c->stats->lag, x);
    if (x->phase != TD_PHASE_WARMUP)
        *(x->error_kind ? &c->stats->failed : &c->stats->answered) += 1;
    if (!x->error_kind && c->sample && !c->sample->request) {
        *c->sample = *x;
        memset(x, 0, sizeof *x);
    }
    return TD_OK;
}

/* ---- sending --------------------------------------------------------------------------------- */

static int send_warmup(const struct td_plan *plan, const struct td_send_options *base,
                       struct td_error *err)
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
    it.group = it.loop = it.connection = 0;
    it.before = 0;
    opt.first_stream = 0;
    opt.progress = NULL;
    rc = td_plan_add(&one, &it, err);
    if (!rc)
        rc = td_send_plan(&one, &opt, &st, err);
    if (!rc && (st.failed || st.unsent))
        td_log(TD_LOG_WARN, "replay", "%s: was ready, but %s", base->server->url,
               st.unseen ? "this machine lacked files, memory or ports for the warm-up request; its exchange says which"
                         : "did not answer the warm-up request; look at the server's log");
    td_plan_release(&one);
    return rc;
}

/* Send one request before the clock counts, so that the server compiles, allocates and fills its
 * caches. A server that does not answer was reached all the same: the replay goes on, and requests
 * that it does not answer either are the result. */
static int warm_up(struct collector *c, struct td_plan *plan, const struct td_send_options *base, struct td_error *err)
{
    int rc;

    do {
        c->ask_again = false;
        rc = send_warmup(plan, base, err);
        if (!rc && c->ask_again)
            rc = td_plan_strip(plan, c->server, err);
    } while (!rc && c->ask_again);
    return rc;
}

/* Ask again, outside of what is timed, for token ids that streams lost. */
static int fill_missing_ids(struct collector *c, const struct td_send_options *base,
                            struct td_error *err)
{
    struct td_plan plan = TD_PLAN_INIT;
    struct td_send_options opt = *base;
    struct td_send_stats st;
    int rc = c->stats->server_gone
                 ? TD_OK
                 : td_fill_ids_plan(c->fill_ids, c->server, c->headers, &plan, err),
        end;

    opt.first_stream = c->stats->next_stream;
    opt.progress = NULL;
    if (!rc && plan.n) {
        rc = td_send_plan(&plan, &opt, &st, err);
        c->stats->next_stream = st.next_stream;
        td_writer_count(c->w, "exchanges.planned", (int64_t)plan.n, 0);
        td_writer_count(c->w, "exchanges.sent", st.sent, st.bytes_sent);
    }
    td_plan_release(&plan);
    end = td_fill_ids_end(c->fill_ids, rc ? NULL : err);
    return rc ? rc : end;
}

struct score_sending { struct collector *c; const struct td_send_options *base; };

static int send_scoring_plan(void *arg, const struct td_plan *plan, struct td_error *err)
{
    const struct score_sending *s = arg;
    struct td_send_options opt = *s->base;
    struct td_send_stats st;
    int rc;

    opt.first_stream = s->c->stats->next_stream;
    opt.progress = "scoring answers";
    rc = td_send_plan(plan, &opt, &st, err);
    s->c->stats->next_stream = st.next_stream;
    td_writer_count(s->c->w, "exchanges.planned", (int64_t)plan->n, 0);
    td_writer_count(s->c->w, "exchanges.sent", st.sent, st.bytes_sent);
    if (st.unsent)
        td_writer_count(s->c->w, "exchanges.dropped.server_gone", st.unsent, 0);
    if (rc == TD_EINTR)
        td_writer_count(s->c->w, "exchanges.dropped.interrupted", (int64_t)plan->n - st.sent - st.unsent, 0);
    return rc;
}

/* Have this server score the recorded answers token by token (wire/scores.h). */
static int score_recorded_answers(struct collector *c, struct td_plan *plan,
                                  const struct td_send_options *base, struct td_error *err)
{
    struct score_sending how = {c, base};
    int rc = c->stats->server_gone ? TD_OK : td_plan_strip(plan, c->server, err);

    if (!rc && !c->stats->server_gone)
        rc = td_scores_send(&c->scores, plan, send_scoring_plan, &how, err);
    c->stats->scored = c->scores.count[TD_SCORED];
    c->stats->not_scored = (int64_t)plan->n - c->stats->scored;
    return rc;
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

static const char *recorded_model(struct td_fixture *fx)
{
    return td_json_get_str(td_json_get(td_fixture_manifest(fx), "server"), "model", "");
}

/* Note that the server has another name for the recorded model, for differ to know. */
static void write_model_facts(struct td_fixture *fx, struct td_writer *w,
                              const struct td_api_server *server)
{
    const char *model = recorded_model(fx);

    if (!*model || !strcmp(model, server->model))
        return;
    td_writer_fact_str(w, "replay", "recorded_model", model);
    td_writer_fact_str(w, "replay", "served_as", server->model);
}

/* "pooled" or "never": as asked, else as the recording says. */
static const char *connections_of(struct td_fixture *fx, const struct td_replay_options *opt)
{
    if (strcmp(opt->connections, "as-recorded"))
        return opt->connections;
    return td_json_get_str(td_json_get(td_fixture_manifest(fx), "options"), "connections", "pooled");
}

static void write_request_facts(struct td_fixture *fx, struct td_writer *w,
                        const struct td_replay_options *opt, const struct td_api_server *server,
                        const struct td_exchange *sample, const struct td_request_replay_stats *st)
{
    static const char *const copied[] = {"sampling", "suite"}; /* as recorded: equal requests */
    const cJSON *manifest = td_fixture_manifest(fx), *v;
    struct td_sampling sampling = recorded_sampling(manifest);
    size_t i;

    td_api_write_facts(w, server, &sampling, sample);
    for (i = 0; i < 2; i++)
        cJSON_ArrayForEach(v, td_json_get(manifest, copied[i]))
            td_writer_fact(w, copied[i], v->string, v);
    td_writer_fact_str(w, "replay", "server", server->url);
    if (opt->served_as)
        write_model_facts(fx, w, server);
    td_writer_fact_num(w, "replay", "timing", opt->speed >= 0 ? opt->speed : st->lag.lag_ns.seen > 0);
    if (opt->turns)
        td_writer_fact_num(w, "replay", "turns", (double)st->turns);
    if (strcmp(connections_of(fx, opt), "pooled"))
        td_writer_fact_str(w, "options", "connections", connections_of(fx, opt));
    if (st->plan.planned)
        td_writer_fact_num(w, "replay", "requests", (double)st->plan.planned);
    td_writer_fact_num(w, "replay", "lag_max_ms", st->lag_max_ms);
    td_writer_fact_num(w, "replay", "lag_mean_ms", st->lag_mean_ms);
    if (st->plan.by_token_ids)
        td_writer_fact_str(w, "replay", "prompts", "by token ids: the recording was redacted");
}

static void note_send_stats(struct td_writer *w, const struct td_send_stats *s,
                       struct td_request_replay_stats *stats)
{
    stats->seconds = (double)(s->t_end_ns - s->t_start_ns) / TD_NS_PER_S;
    stats->lag_max_ms = (double)s->lag_max_ns / TD_NS_PER_MS;
    stats->lag_mean_ms = s->lag_n ? (double)s->lag_sum_ns / (double)s->lag_n / TD_NS_PER_MS : 0;
    stats->not_sent = s->unsent;
    stats->server_gone = s->unsent > 0 || s->server_gone;
    stats->no_files = s->no_files;
    stats->next_stream = s->next_stream;
    stats->turns = s->turns;
    td_writer_count(w, "exchanges.planned", stats->plan.planned, 0);
    td_writer_count(w, "exchanges.sent", s->sent, s->bytes_sent);
    if (s->unsent)
        td_writer_count(w, "exchanges.dropped.server_gone", s->unsent, 0);
    if (stats->plan.skipped)
        td_writer_count(w, "exchanges.dropped.redacted", stats->plan.skipped, 0);
}

static void on_turn(void *arg, bool ours)
{
    td_cpu_watch_turn(arg, ours);
}

/* Send the requests in turn with those of the other server (opt->beside). */
static int send_in_turns(const struct td_plan *plan, const struct td_send_options *so, const struct td_replay_options *opt,
                         struct td_cpu_watch *watch, struct td_send_stats *st, struct td_error *err)
{
    struct td_send_options in_turns = *so;
    int rc;

    in_turns.turns = opt->turns;
    td_cpu_watch_begin_beside(watch, so->server->url, opt->beside, opt->partner);
    opt->turns->changed = on_turn;
    opt->turns->arg = watch;
    td_turns_meet(opt->turns);
    rc = td_send_plan(plan, &in_turns, st, err);
    td_turns_end(opt->turns);
    return rc;
}

/* Send the requests. A server that dies or hangs is a result, which its exchanges hold. */
static int send_requests(struct collector *c, const struct td_plan *plan,
                         const struct td_send_options *so, const struct td_replay_options *opt, struct td_error *err)
{
    struct td_cpu_others others;
    struct td_cpu_watch watch;
    struct td_send_stats st;
    int rc;

    if (opt->turns)
        rc = send_in_turns(plan, so, opt, &watch, &st, err);
    else {
        td_cpu_watch_begin(&watch, so->server->url);
        rc = td_send_plan(plan, so, &st, err);
    }
    td_cpu_watch_end(&watch, &others);
    td_host_facts_others(c->w, &others, 1);
    note_send_stats(c->w, &st, c->stats);
    if (rc == TD_EINTR) {
        td_writer_count(c->w, "exchanges.dropped.interrupted", (int64_t)plan->n - st.sent, 0);
        return td_fail(err, rc, "stopped after %lld of %zu requests", (long long)st.sent, plan->n);
    }
    if (!rc && c->stats->server_gone)
        td_log(TD_LOG_WARN, "replay", "%s; %lld requests were not sent",
               st.no_files ? TD_REPLAY_NO_FILES : TD_REPLAY_SERVER_GONE, (long long)st.unsent);
    return rc;
}

/* The same, with how fast the machine is: the recording says that of each start. */
static int send_between_probes(struct collector *c, const struct td_plan *plan, const struct td_send_options *so,
                               const struct td_replay_options *opt, struct td_error *err)
{
    const double before = td_cpu_probe_ms();
    int rc = send_requests(c, plan, so, opt, err);

    td_host_facts_probes(c->w, &(double){(before + td_cpu_probe_ms()) / 2}, 1);
    return rc;
}

static void write_extra_facts(struct collector *c)
{
    if (c->sample->request)
        td_extras_check_answer(&c->extras, c->server, c->sample, NULL);
    td_scores_extra(&c->scores, c->server, &c->extras);
    td_extras_write_fact(&c->extras, c->w);
    if (*c->engine)
        td_writer_fact_str(c->w, "replay", "engine", c->engine);
}

static int send_all_plans(struct td_fixture *fx, struct td_writer *w,
                          const struct td_replay_options *opt, struct td_plan *plan,
                          struct td_plan *texts, struct collector *c, struct td_error *err)
{
    struct td_send_options so = {.server = c->server,
                                 .headers = c->headers,
                                 .allow_paths = c->allow_paths,
                                 .total_timeout_ms = (int)(opt->timeout_s * 1000),
                                 .max_answer_bytes = opt->max_body_mib << 20,
                                 .own_connections = !strcmp(connections_of(fx, opt), "never"),
                                 .recorded_connections = !strcmp(opt->connections, "as-recorded"),
                                 .writer = w,
                                 .emit = td_fill_ids_add,
                                 .emit_arg = c->fill_ids,
                                 .first_stream = 1,
                                 .stop = opt->stop,
                                 .progress = opt->turns && !opt->beside_output ? NULL : "requests"}; /* one of two shows it */
    const bool is_timed = td_planned_starts(td_fixture_manifest(fx)) > 1;
    int rc = warm_up(c, plan, &so, err);

    td_extras_reset_cache(&c->extras, c->server, c->headers);
    if (!rc)
        rc = is_timed ? send_between_probes(c, plan, &so, opt, err) : send_requests(c, plan, &so, opt, err);
    if (!rc)
        rc = fill_missing_ids(c, &so, err);
    if (!rc)
        rc = score_recorded_answers(c, texts, &so, err);
    write_request_facts(fx, w, opt, c->server, c->sample->request ? c->sample : NULL, c->stats);
    write_extra_facts(c);
    return rc;
}

static int replay_with_collector(struct td_fixture *fx, struct td_writer *w,
                                 const struct td_replay_options *opt,
                                 const struct td_api_server *server, struct td_plan *plan,
                                 struct td_plan *texts, struct td_request_replay_stats *stats,
                                 struct td_error *err)
{
    const char *headers[TD_ARG_LIST_MAX + 1] = {NULL}, *allowed[TD_ARG_LIST_MAX + 1] = {NULL};
    struct td_exchange sample = {0};
    struct td_api_server own = *server; /* a copy: it learns which fields the server refuses */
    struct collector c = {.w = w,
                          .stats = stats,
                          .sample = &sample,
                          .server = &own,
                          .headers = headers,
                          .allow_paths = allowed};
    int rc;

    memcpy(headers, opt->headers.item, (size_t)opt->headers.n * sizeof *headers);
    memcpy(allowed, opt->allow_paths.item, (size_t)opt->allow_paths.n * sizeof *allowed);
    td_scores_init(&c.scores, texts->n > 0);
    c.fill_ids = td_fill_ids_new(collect_exchange, &c);
    rc = c.fill_ids ? send_all_plans(fx, w, opt, plan, texts, &c, err)
                    : td_fail(err, TD_ENOMEM, "out of memory");
    td_fill_ids_free(c.fill_ids);
    td_scores_release(&c.scores);
    td_exchange_release(&sample);
    return rc;
}

/* Was the text overwritten by --redact? */
static bool is_stars(const char *text)
{
    return *text && !text[strspn(text, "*")];
}

/* Was this the model of the recording, by whichever name the client asked for it? */
static bool is_for_model(const struct td_exchange *x, const char *from)
{
    return from && *from && (!strcmp(td_json_get_str(x->request, "model", ""), from) ||
                             !strcmp(td_json_get_str(x->extra, "response_model", ""), from));
}

/* Ask for the model by the name that this server has for it. from : that of the recording, NULL: it is the same;
 * a request whose name was overwritten asks for it, too */
static int rename_model(struct td_exchange *xs, size_t n, const char *from, const char *to,
                        struct td_error *err)
{
    size_t i;

    for (i = 0; i < n; i++) {
        const char *model = td_json_get_str(xs[i].request, "model", "");
        cJSON *name;

        if (!is_stars(model) && !(*model && is_for_model(&xs[i], from)))
            continue;
        name = cJSON_CreateString(to);
        if (!name || !cJSON_ReplaceItemInObjectCaseSensitive(xs[i].request, "model", name)) {
            cJSON_Delete(name);
            return td_fail(err, TD_ENOMEM, "out of memory for the requests");
        }
    }
    return TD_OK;
}

/* What is planned: all that the recording asked, also what redaction keeps from being sent. */
static void write_plan(struct td_writer *w, const struct td_request_plan_counts *plan, size_t texts)
{
    td_planned_write(w, "timed", plan->planned + plan->skipped);
    td_planned_write(w, "scores", (int64_t)texts);
}

int td_request_replay(struct td_fixture *fx, struct td_writer *w,
                      const struct td_replay_options *opt, const struct td_api_server *server,
                      struct td_request_replay_stats *stats, struct td_error *err)
{
    struct td_exchange *xs = NULL;
    struct td_plan plan = TD_PLAN_INIT, texts = TD_PLAN_INIT;
    size_t n = 0, bad = 0;
    int rc = td_fixture_exchanges(fx, &xs, &n, &bad, err);

    if (bad)
        td_writer_count(w, "exchanges.broken.frames", (int64_t)bad, 0);
    if (!rc)
        rc = rename_model(xs, n, opt->served_as ? recorded_model(fx) : NULL, server->model, err);
    if (!rc)
        rc = td_request_plan_make(xs, n, td_fixture_manifest(fx), opt->repeat, opt->speed, &plan,
                                  &stats->plan, err);
    if (!rc && !plan.n)
        rc = td_fail(
            err, TD_EUNSUPPORTED,
            "%s: none of %zu recorded request%s can be sent again: %lld redacted and without token ids, %lld not sent, or not "
            "seen whole when they were recorded",
            td_fixture_dir(fx), n, td_plural((int64_t)n), (long long)stats->plan.skipped, (long long)stats->plan.never_sent);
    if (!rc && opt->scores)
        rc = td_scores_plan_again(xs, n, &texts, err);
    td_exchanges_free(xs, n);
    if (!rc)
        rc = td_send_check_files(&plan, err);
    if (!rc)
        write_plan(w, &stats->plan, texts.n);
    if (!rc)
        rc = replay_with_collector(fx, w, opt, server, &plan, &texts, stats, err);
    td_plan_release(&plan);
    td_plan_release(&texts);
    return rc;
}
