/* record.c - the order of a recording: server, warm-up, timed repeats, tapped repeats, facts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/record.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "wire/api_facts.h"

#define WARMUP_TOKENS 8
#define LLAMACPP_RINGS 2            /* it computes on one thread, a prompt of many tokens at once ... */
#define LLAMACPP_RING (64LL << 20)
#define ALL_OPS_RING (256LL << 20)  /* ... and with every node a step brings its K/V cache several times */
#define HOW_TO_TAP "start the server with `record … --run -- COMMAND`, or in a shell after eval \"$(record --tap-env)\""

struct session {
    const struct td_record_options *opt;
    const volatile sig_atomic_t *stop;
    struct td_sampling sampling;
    struct td_suite suite;
    struct td_api_server server;
    struct td_started started;
    struct td_writer *writer;
    struct td_tap_client *links;
    struct td_figures figures;
    struct td_exchange sample;    /* the first answer without an error: its extras are facts */
    bool have_sample, interrupted, server_gone;
    uint32_t next_stream;
    char dir[TD_PATH_MAX], url[512], nonce[TD_TAP_CLIENT_NONCE], no_tap[512];
    struct td_rows_requests tapped; /* by which rows of steps are named */
    struct td_tap_client_state ops;
    bool have_ops, collapse_kept;
    struct td_fill_ids *whole;       /* stands before on_exchange */
    struct td_scores scores;      /* sees what passes on_exchange */
    struct td_extras extras;
    struct td_metrics metrics[2]; /* before and after the timed phase */
    int64_t made_whole;           /* answers whose token ids came from a second request */
    bool ask_again;               /* the warm-up request was refused for a field that is left out now */
    char engine[600];             /* why nothing is answered though /health was 200, or "" */
};

/* ---- facts ---------------------------------------------------------------------------------------------------------- */

static void fact(struct session *s, const char *section, const char *key, cJSON *v)
{
    td_writer_fact(s->writer, section, key, v);
    cJSON_Delete(v);
}

static void write_facts(struct session *s)
{
    const struct td_record_options *o = s->opt;
    char hex[TD_HASH_HEX];

    td_host_facts(s->writer);
    td_hash_hex(s->suite.hash, hex);
    td_writer_fact_str(s->writer, "suite", "name", s->suite.name);
    fact(s, "suite", "prompts", cJSON_CreateNumber((double)s->suite.n));
    fact(s, "suite", "repeat", cJSON_CreateNumber((double)o->repeat));
    td_writer_fact_str(s->writer, "suite", "hash", hex);
    fact(s, "options", "concurrency", cJSON_CreateNumber((double)o->concurrency));
    fact(s, "options", "tapped_repeat", cJSON_CreateNumber((double)o->tapped_repeat));
    td_writer_fact_str(s->writer, "options", "gemms", o->gemms);
    td_writer_fact_str(s->writer, "options", "request_id_nonce", s->nonce);
    if (s->started.proc.pid > 0)
        fact(s, "server", "pid", cJSON_CreateNumber(s->started.proc.pid));
    if (o->command) {
        cJSON *argv = cJSON_CreateStringArray((const char *const *)o->command, 1);
        char **a;

        for (a = o->command + 1; *a; a++)
            cJSON_AddItemToArray(argv, cJSON_CreateString(*a));
        fact(s, "server", "command", argv);
    }
}

/* ---- where the fixture goes ----------------------------------------------------------------------------------------- */

/* "fixtures/MODEL-20261121T111730Z" */
static void default_dir(struct session *s)
{
    const char *slash = strrchr(s->server.model, '/'), *model = slash && slash[1] ? slash + 1 : s->server.model;
    char name[65], stamp[32];
    size_t i;

    for (i = 0; i < sizeof name - 1 && model[i]; i++)
        name[i] = isalnum((unsigned char)model[i]) || (i && strchr("._-", model[i])) ? model[i] : '_';
    name[i] = '\0';
    td_clock_stamp(td_clock_wall_ns(), stamp, sizeof stamp);
    snprintf(s->dir, sizeof s->dir, "fixtures/%s-%s", *name ? name : "model", stamp);
}

static int open_fixture(struct session *s, struct td_error *err)
{
    const struct td_record_options *o = s->opt;
    struct td_redaction redaction = {.json_paths = *o->redact ? o->redact : NULL, .no_text = o->no_text};
    struct td_writer_options wo = {.tool = "record", .redaction = &redaction};
    char parent[TD_PATH_MAX], *slash;
    int rc = TD_OK;

    if (o->out)
        snprintf(s->dir, sizeof s->dir, "%s", o->out);
    else
        default_dir(s);
    snprintf(parent, sizeof parent, "%s", s->dir);
    slash = strrchr(parent, '/');
    if (slash && slash > parent) {
        *slash = '\0';
        rc = td_fs_mkdirs(parent, err);
    }
    if (!rc)
        rc = td_writer_create(s->dir, &wo, &s->writer, err);
    if (!rc)
        write_facts(s);
    return rc;
}

/* ---- sending -------------------------------------------------------------------------------------------------------- */

static void on_failed_warmup(struct session *s, const struct td_exchange *x)
{
    s->ask_again = td_api_note_refusal(&s->server, x);
    if (s->ask_again)
        td_log(TD_LOG_INFO, "record", "the server refuses a field that can be left out, and is asked without it: %s", x->error);
    else if (!*s->engine && !s->server_gone &&
             td_api_explain_failure(&s->server, s->opt->headers, x, s->engine, sizeof s->engine))
        td_log(TD_LOG_WARN, "record", "%s", s->engine);
}

static int on_exchange(void *arg, struct td_exchange *x, struct td_error *err)
{
    struct session *s = arg;
    int rc = td_writer_exchange(s->writer, x);

    if (!rc)
        rc = td_scores_add(&s->scores, x, err);
    if (x->error && x->phase == TD_PHASE_WARMUP && !td_json_get(x->extra, "role"))
        on_failed_warmup(s, x);
    if (!td_scores_role(x))
        td_figures_add(&s->figures, x);
    if (x->phase == TD_PHASE_TAPPED && s->links && !td_rows_add(&s->tapped, x))
        rc = TD_ENOMEM;
    if (x->phase == TD_PHASE_TAPPED && !s->collapse_kept)
        s->collapse_kept = td_flight_watch(s->links, s->opt, x);
    s->made_whole += td_json_get(x->extra, "ids_from") != NULL;
    if (x->error)
        td_log(TD_LOG_INFO, "record", "%s, repeat %d: %s: %s", x->prompt_id, x->repeat, x->error_kind, x->error);
    if (!s->have_sample && !x->error) {
        s->sample = *x;
        s->have_sample = true;
        memset(x, 0, sizeof *x);
    }
    return rc ? td_fail(err, rc, "%s: cannot write an exchange", s->dir) : TD_OK;
}

static void request_id(void *arg, uint32_t stream, char out[64])
{
    const struct session *s = arg;

    td_tap_client_request_id(s->nonce, stream, out);
}

static int send_plan(struct session *s, const struct td_plan *plan, const char *progress, struct td_error *err)
{
    struct td_send_stats st;
    struct td_send_options o = {.server = &s->server,
                                .headers = s->opt->headers,
                                .idle_timeout_ms = (int)(s->opt->timeout_s * 1000),
                                .writer = s->writer,
                                .emit = td_fill_ids_add,
                                .emit_arg = s->whole,
                                .request_id = request_id,
                                .request_id_arg = s,
                                .first_stream = s->next_stream,
                                .stop = s->stop,
                                .alive = td_started_alive,
                                .alive_arg = &s->started,
                                .progress = progress};
    int rc = td_send_plan(plan, &o, &st, err);

    s->next_stream = st.next_stream;
    s->server_gone |= st.server_gone;
    td_writer_count(s->writer, "exchanges.planned", (int64_t)plan->n, 0);
    td_writer_count(s->writer, "exchanges.sent", st.sent, st.bytes_sent);
    td_writer_count(s->writer, "wire.received", st.records, st.bytes_received);
    if (st.failed)
        td_writer_count(s->writer, "exchanges.failed.transfer", st.failed, 0);
    if (st.unsent)
        td_writer_count(s->writer, "exchanges.dropped.server_gone", st.unsent, 0);
    if ((int64_t)plan->n > st.sent + st.unsent)
        td_writer_count(s->writer, "exchanges.dropped.interrupted", (int64_t)plan->n - st.sent - st.unsent, 0);
    if (rc == TD_EINTR) {
        s->interrupted = true;
        td_error_clear(err);
        rc = TD_OK;
    }
    return rc;
}

static int send_phase(struct session *s, enum td_phase phase, int64_t from, int64_t repeats, const char *progress, struct td_error *err)
{
    struct td_suite_sending how = {(int32_t)from, (int32_t)repeats, (int32_t)s->opt->concurrency, phase};
    struct td_plan plan = TD_PLAN_INIT;
    int rc = td_suite_plan(&s->suite, &s->server, &s->sampling, &how, &plan, err);

    if (!rc)
        rc = send_plan(s, &plan, progress, err);
    td_plan_release(&plan);
    return rc;
}

static int warm_up_once(struct session *s, struct td_error *err)
{
    struct td_prompt first = s->suite.prompts[0];
    struct td_suite one = {.name = s->suite.name, .prompts = &first, .n = 1};
    struct td_suite_sending how = {0, 1, 1, TD_PHASE_WARMUP};
    struct td_plan plan = TD_PLAN_INIT;
    int rc;

    first.max_tokens = WARMUP_TOKENS;
    rc = td_suite_plan(&one, &s->server, &s->sampling, &how, &plan, err);
    if (!rc)
        rc = send_plan(s, &plan, NULL, err);
    td_plan_release(&plan);
    return rc;
}

/* One short request: the tap's socket exists from the first op on, caches are warm, and fields that this server refuses show. */
static int warm_up(struct session *s, struct td_error *err)
{
    int rc;

    do {
        s->ask_again = false;
        rc = warm_up_once(s, err);
    } while (!rc && s->ask_again && !s->interrupted);
    return rc;
}

/* The timed repeats, with what the server counts itself before and after. Where no salt keeps its prefix cache from making equal
 * prefills none, and the cache can be emptied, that is done before each repeat. */
static int timed_phase(struct session *s, struct td_error *err)
{
    bool reset = td_extras_reset_cache(&s->extras, &s->server, s->opt->headers);
    bool singly = reset && (s->server.without >> TD_FIELD_SALT & 1 || s->server.kind == TD_API_SGLANG);
    int64_t from, step = singly ? 1 : s->opt->repeat;
    int rc = TD_OK;

    td_extras_metrics(&s->extras, &s->server, s->opt->headers, &s->metrics[0]);
    for (from = 0; from < s->opt->repeat && !rc && !s->interrupted && !s->server_gone; from += step) {
        if (from)
            td_extras_reset_cache(&s->extras, &s->server, s->opt->headers);
        rc = send_phase(s, TD_PHASE_TIMED, from, step, "recording", err);
    }
    if (!s->interrupted && !s->server_gone)
        td_extras_metrics(&s->extras, &s->server, s->opt->headers, &s->metrics[1]);
    return rc;
}

/* Outside of what is timed: ids that the stream lost. */
static int complete_ids(struct session *s, struct td_error *err)
{
    struct td_plan plan = TD_PLAN_INIT;
    int rc = s->interrupted || s->server_gone ? TD_OK : td_fill_ids_plan(s->whole, &s->server, s->opt->headers, &plan, err), end;

    if (!rc && plan.n)
        rc = send_plan(s, &plan, NULL, err);
    td_plan_release(&plan);
    end = td_fill_ids_end(s->whole, rc ? NULL : err);
    return rc ? rc : end;
}

static int send_scores(void *arg, const struct td_plan *plan, struct td_error *err)
{
    return send_plan(arg, plan, "scoring answers", err);
}

/* Last of all requests: they are the only ones whose cost to the server nobody has tried on it before. */
static int score_phase(struct session *s, struct td_error *err)
{
    return s->interrupted || s->server_gone ? TD_OK : td_scores_ask(&s->scores, &s->server, send_scores, s, err);
}

static void write_ids_extra(struct session *s)
{
    char why[120] = "";

    if (s->figures.ids_incomplete)
        snprintf(why, sizeof why, "ids are missing in %lld answers", (long long)s->figures.ids_incomplete);
    else if (s->made_whole)
        snprintf(why, sizeof why, "in %lld answers by a second request, unstreamed", (long long)s->made_whole);
    td_extras_set(&s->extras, "token_ids_complete", s->figures.ids_incomplete ? "no" : "yes", why);
}

static void write_extras(struct session *s)
{
    cJSON *change;

    if (!s->interrupted && !s->server_gone)
        td_extras_server_info(&s->extras, &s->server, s->opt->headers, s->writer);
    if (s->have_sample)
        td_extras_check_answer(&s->extras, &s->server, &s->sample, s->nonce);
    if (s->have_sample && s->sample.token_ids)
        write_ids_extra(s);
    td_scores_extra(&s->scores, &s->server, &s->extras);
    td_extras_write_fact(&s->extras, s->writer);
    if (s->metrics[0].n && s->metrics[1].n) {
        change = td_metrics_change(&s->metrics[0], &s->metrics[1]);
        fact(s, "metrics", "timed", change);
    }
    if (*s->engine)
        td_writer_fact_str(s->writer, "server", "engine", s->engine);
}

/* ---- the tap -------------------------------------------------------------------------------------------------------- */

static int find_tap(struct session *s, struct td_error *err)
{
    const struct td_record_options *o = s->opt;
    struct td_tap_client_target target = {.socket = o->tap_socket, .pid = s->started.proc.pid, .port = td_host_local_port(s->url),
                                     .wait_ms = s->started.proc.pid > 0 ? 5000 : 500};
    struct td_tap_client_options lo = {.writer = s->writer, .nonce = s->nonce, .checkpoint = o->checkpoint ? o->checkpoint : s->server.root,
                                  .weights_by_reference = o->weights_by_reference, .no_code = o->no_code, .wanted_layers = o->layers, .keep = o->keep};
    struct td_error why = {0};

    if (s->server.kind == TD_API_LLAMACPP) {
        lo.rings = o->mode.all_kinds ? 1 : LLAMACPP_RINGS;
        lo.ring_bytes = o->mode.all_kinds ? ALL_OPS_RING : LLAMACPP_RING;
    }
    if (o->ring_mib)
        lo.ring_bytes = o->ring_mib << 20;
    if (o->mode.take == TD_TAP_CLIENT_OFF)
        snprintf(s->no_tap, sizeof s->no_tap, "--gemms off");
    else if (*s->no_tap)
        ; /* --run could not put it in */
    else if (!target.socket && !target.pid && !target.port)
        snprintf(s->no_tap, sizeof s->no_tap, "the server runs on another machine; run record there to get its GEMMs");
    else if (td_tap_client_open(&target, &lo, &s->links, &why))
        snprintf(s->no_tap, sizeof s->no_tap, "%.300s", why.msg);
    td_tap_client_facts(s->links, s->writer, s->links ? NULL : s->no_tap);
    if (s->links || o->mode.take == TD_TAP_CLIENT_OFF)
        return TD_OK;
    if (o->gemms_required)
        return td_fail(err, TD_ENOTFOUND, "%s%s needs a tap: %s", o->mode.all_kinds ? "--all-ops" : "--gemms ", o->mode.all_kinds ? "" : o->gemms, s->no_tap);
    td_log(TD_LOG_WARN, "record", "no tap, so no GEMMs: %s", s->no_tap);
    if (!strstr(s->no_tap, "--run"))
        td_log(TD_LOG_WARN, "record", "to get them, %s", HOW_TO_TAP);
    return TD_OK;
}

static int tapped_phase(struct session *s, struct td_error *err)
{
    int rc;

    if (!s->links || s->interrupted || s->server_gone)
        return TD_OK;
    rc = td_tap_client_arm(s->links, &s->opt->mode, err);
    if (rc)
        return rc;
    td_tap_client_facts(s->links, s->writer, NULL);
    rc = send_phase(s, TD_PHASE_TAPPED, 0, s->opt->tapped_repeat, "recording GEMMs", err);
    if (td_tap_client_disarm(s->links, rc ? NULL : err) && !rc)
        rc = err->code;
    td_tap_client_state(s->links, &s->ops);
    s->have_ops = true;
    td_flight_say(s->links, s->interrupted);
    if (!rc && !s->ops.ops_kept && !s->interrupted)
        td_log(TD_LOG_WARN, "record", "the tap is there, but kept no GEMM: does this server compute with a kernel that the tap knows?");
    return rc;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------ */

static int prepare(struct session *s, struct td_error *err)
{
    const struct td_record_options *o = s->opt;
    size_t i;
    int rc;

    s->sampling = (struct td_sampling)TD_SAMPLING_DEFAULT;
    s->sampling.max_tokens = o->max_tokens ? (int32_t)o->max_tokens : s->sampling.max_tokens;
    s->sampling.logprobs = (int32_t)o->logprobs;
    s->sampling.seed = o->seed;
    s->sampling.ignore_eos = o->ignore_eos;
    if (o->out && td_fs_exists(o->out))
        return td_fail(err, TD_EEXIST, "%s is there already, and a recording is never overwritten; choose another -o", o->out);
    rc = td_suite_load(o->suite, &s->suite, err);
    for (i = 0; !rc && o->max_tokens && i < s->suite.n; i++)
        s->suite.prompts[i].max_tokens = (int32_t)o->max_tokens;
    return rc ? rc : td_api_url(o->server, s->url, sizeof s->url, err);
}

static int reach_server(struct session *s, struct td_error *err)
{
    const struct td_record_options *o = s->opt;
    struct td_api_options api = {.server = o->server, .kind = o->api, .model = o->model, .headers = o->headers,
                                 .timeout_ms = (int)(o->timeout_s * 1000), .wait_unreachable = o->wait || o->command,
                                 .alive = td_started_alive, .alive_arg = &s->started, .stop = s->stop};
    int rc = TD_OK;

    if (o->command)
        rc = td_started_run(&s->started, o->command, s->url, o->mode.take != TD_TAP_CLIENT_OFF, o->graphs_mib, s->no_tap, sizeof s->no_tap, err);
    if (!rc && o->gemms_required && *s->no_tap)
        rc = td_fail(err, TD_ENOTFOUND, "--gemms %s: %s", o->gemms, s->no_tap);
    if (!rc)
        rc = td_api_probe(&api, &s->server, err);
    if (rc == TD_ECRASH)
        td_fail_at(err, "%s: %s", o->command[0], s->started.how);
    if (!rc) {
        td_log(TD_LOG_INFO, "record", "%s: %s %s, model %s", s->server.url, td_api_name(s->server.kind), s->server.version,
               s->server.model);
        if (*s->server.note)
            td_log(TD_LOG_WARN, "record", "%s", s->server.note);
    }
    return rc;
}

static int run_phases(struct session *s, struct td_error *err)
{
    int rc = warm_up(s, err);

    if (!rc && !s->interrupted)
        rc = find_tap(s, err);
    if (!rc && !s->interrupted)
        rc = timed_phase(s, err);
    if (!rc)
        rc = tapped_phase(s, err);
    if (!rc)
        rc = complete_ids(s, err);
    if (!rc) /* else not all requests are known */
        td_tap_client_name_rows(s->links, s->tapped.x, s->tapped.n);
    if (!rc)
        rc = score_phase(s, err);
    if (!rc && s->server_gone) /* what came before is a recording all the same */
        td_log(TD_LOG_WARN, "record", "%s ended while it was recorded (%s)", s->opt->command[0], s->started.how);
    return rc;
}

static void warn(const struct session *s)
{
    const struct td_figures *f = &s->figures;
    int64_t failed = f->phase[TD_PHASE_TIMED].failed + f->phase[TD_PHASE_TAPPED].failed;

    if (s->interrupted)
        td_log(TD_LOG_WARN, "record", "interrupted: the fixture holds what came until then");
    if (failed && !(s->interrupted && strstr(f->first_error, "stopped by the user")))
        td_log(TD_LOG_WARN, "record", "%lld requests failed, and are recorded as such; the first: %s", (long long)failed, f->first_error);
    if (f->collapsed)
        td_log(TD_LOG_WARN, "record", "%lld answers look collapsed; the first: %s", (long long)f->collapsed, f->first_collapse);
    if (f->ids_incomplete)
        td_log(TD_LOG_INFO, "record", "token ids are incomplete in %lld answers", (long long)f->ids_incomplete);
}

/* Close what is open; a fixture without a single answer is left as it is for repair, and said to be useless. */
static int finish(struct session *s, int rc, struct td_error *err)
{
    const struct td_figures *f = &s->figures;
    int64_t good = f->phase[TD_PHASE_TIMED].requests + f->phase[TD_PHASE_TAPPED].requests - f->phase[TD_PHASE_TIMED].failed -
                   f->phase[TD_PHASE_TAPPED].failed;
    struct td_error late = {0};

    td_api_write_facts(s->writer, &s->server, &s->sampling, s->have_sample ? &s->sample : NULL);
    write_extras(s);
    if (td_tap_client_close(s->links, &late))
        td_log(TD_LOG_WARN, "record", "the tap: %s", late.msg);
    s->links = NULL;
    memset(&late, 0, sizeof late);
    if (td_writer_close(s->writer, s->interrupted || s->server_gone || rc ? "interrupted" : "complete", &late)) {
        td_error_clear(err); /* what else went wrong followed from it */
        rc = td_fail(err, late.code, "%s; what was committed before is in %s (fixture repair %s)", late.msg, s->dir, s->dir);
    }
    s->writer = NULL;
    warn(s);
    if (!rc && !good && s->interrupted)
        rc = td_fail(err, TD_EINTR, "interrupted before the first answer; %s holds nothing to compare", s->dir);
    else if (!rc && !good)
        rc = td_fail(err, TD_EPROTO, "no request succeeded; %s%s (kept in %s)", *s->engine ? "" : "the first: ",
                     *s->engine ? s->engine : f->first_error, s->dir);
    if (!rc) {
        td_figures_print(&s->figures, s->suite.n, s->have_ops ? &s->ops : NULL, s->opt->mode.take == TD_TAP_CLIENT_OFF ? "--gemms off" : *s->no_tap ? "no tap in the server" : "not reached", stdout);
        printf("%s\n", s->dir);
    }
    return rc;
}

int td_record(const struct td_record_options *opt, const volatile sig_atomic_t *stop, struct td_error *err)
{
    struct session s = {.opt = opt, .stop = stop};
    bool useless;
    int rc;

    td_tap_client_nonce(s.nonce);
    td_scores_init(&s.scores, opt->scores);
    s.whole = td_fill_ids_new(on_exchange, &s);
    rc = s.whole ? prepare(&s, err) : td_fail(err, TD_ENOMEM, "out of memory");
    if (!rc)
        rc = reach_server(&s, err);
    if (!rc)
        rc = open_fixture(&s, err);
    if (!rc) {
        rc = run_phases(&s, err);
        useless = rc && !s.figures.phase[TD_PHASE_TIMED].requests; /* no tap where one is required, or no disk */
        rc = finish(&s, rc, err);
        if (useless)
            td_fs_remove_tree(s.dir, NULL);
    }
    td_started_end(&s.started);
    free(s.tapped.x);
    if (s.have_sample)
        td_exchange_release(&s.sample);
    td_fill_ids_free(s.whole);
    td_scores_release(&s.scores);
    td_metrics_release(&s.metrics[0]);
    td_metrics_release(&s.metrics[1]);
    td_figures_release(&s.figures);
    td_suite_release(&s.suite);
    return rc;
}
