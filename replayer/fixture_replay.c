/* fixture_replay.c - replay one fixture into another.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/fixture_replay.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/hidden.h"
#include "common/json.h"
#include "common/shell_command.h"
#include "common/log.h"
#include "common/new_folder.h"
#include "format/host_facts.h"
#include "format/fixture_check.h"
#include "format/planned.h"
#include "replayer/build_pair.h"
#include "replayer/op_filter.h"
#include "replayer/op_plan.h"
#include "replayer/replay_times.h"
#include "wire/allowed_requests.h"

#define MAX_PATHS 65 /* one more than a writer takes, so that it refuses what is too much */

struct replay {
    const struct td_replay_options *opt;
    struct td_fixture_replay_result *res;
    struct td_fixture *fx;
    const cJSON *manifest;
    uint64_t n_exchanges, n_ops;      /* by the manifest */
    int64_t lost_ops;                 /* of frames that could not be read */
    struct td_api_server server;
    struct td_op_replay *ops;         /* NULL: none are replayed */
    struct td_writer *w;
};

void td_fixture_replay_result_release(struct td_fixture_replay_result *r)
{
    td_op_replay_stats_release(&r->ops);
    td_client_lag_release(&r->requests.lag);
    memset(r, 0, sizeof *r);
}

/* ---- what will be replayed ------------------------------------------------------------------- */

static uint64_t count_records(const cJSON *manifest, const char *file)
{
    struct td_file_fact f;

    return td_manifest_get_file(manifest, file, &f) ? 0 : f.records;
}

/* The first shard sends all requests, for their concurrency is part of what is replayed; ops are
 * shared among the shards. */
static bool wants_requests(const struct replay *s)
{
    return s->n_exchanges && s->opt->shard.index == 1 && s->opt->server;
}

static bool wants_ops(const struct replay *s)
{
    return s->n_ops &&
           (s->opt->build || s->opt->baseline_build || s->opt->provider || !s->opt->names_target);
}

static int check_asked_targets(const struct replay *s, struct td_error *err)
{
    const struct td_replay_options *o = s->opt;
    const char *dir = td_fixture_dir(s->fx);
    bool named_build = o->build || o->baseline_build || o->provider;

    if (!s->n_exchanges && !s->n_ops)
        return td_fail(err, TD_ENOTFOUND, "%s: holds neither requests nor ops, there is nothing to replay", dir);
    if (!o->names_target && !s->n_ops)
        return td_fail(err, TD_EINVAL,
                       "%s: which server? Its %llu requests go to the one that --server HOST:PORT "
                       "names, never to the recorded address",
                       dir, (unsigned long long)s->n_exchanges);
    if (o->server && !s->n_exchanges && !(named_build && s->n_ops))
        return td_fail(err, TD_ENOTFOUND, "%s: holds no requests for --server; its %llu ops are replayed with --build PATH", dir,
                       (unsigned long long)s->n_ops);
    if (named_build && !s->n_ops && !(o->server && s->n_exchanges))
        return td_fail(
            err, TD_ENOTFOUND,
            "%s: holds no ops for a build; record them with the server under `{record} --run -- ...`",
            dir);
    if (o->server && !s->n_exchanges)
        td_log(TD_LOG_WARN, "replay", "%s: holds no requests, --server is not used", dir);
    if (named_build && !s->n_ops)
        td_log(TD_LOG_WARN, "replay", "%s: holds no ops, the build is not used; record them with `{record} --run -- ...`", dir);
    return TD_OK;
}

/* Refuse requests that must not be sent, and those that do not fit the server's context: that they
 * are cut or refused says nothing about the candidate. */
static int check_requests(const struct replay *s, struct td_error *err)
{
    const char *allowed[TD_ARG_LIST_MAX + 1] = {NULL};
    struct td_exchange *xs = NULL;
    size_t n = 0, bad = 0, i;
    int rc = td_fixture_exchanges(s->fx, &xs, &n, &bad, err);

    memcpy(allowed, s->opt->allow_paths.item, (size_t)s->opt->allow_paths.n * sizeof *allowed);
    for (i = 0; i < n && !rc; i++)
        rc = td_allowed_request(s->server.kind, xs[i].method ? xs[i].method : "POST",
                                xs[i].path ? xs[i].path : "", allowed, err);
    if (rc)
        td_fail_at(err, "%s", td_fixture_dir(s->fx));
    if (!rc && s->server.max_model_len > 0)
        rc = td_request_plan_check_context(xs, n, &s->server, err);
    td_exchanges_free(xs, n);
    return rc;
}

/* Refuse another model, whose answers say nothing about the build. Requests ask for a model by
 * name; model_meta tells two models of one name apart. */
static int check_model(const struct replay *s, struct td_error *err)
{
    const cJSON *server = td_json_get(s->manifest, "server");
    const char *model = td_json_get_str(server, "model", ""), *meta = td_json_get_str(server, "model_meta", "");
    /* early recordings hold a path */
    const char *slash = s->server.kind == TD_API_LLAMACPP ? strrchr(model, '/') : NULL;
    bool same_meta = !*meta || !*s->server.meta || !strcmp(meta, s->server.meta);
    bool named_alike = !*model || !strcmp(slash ? slash + 1 : model, s->server.model) ||
                       (s->opt->served_as && !strcmp(s->opt->served_as, s->server.model));
    struct td_buf word = TD_BUF_INIT(1 << 16);

    if (named_alike && same_meta)
        return TD_OK;
    if (same_meta) /* the name is the server's, and somebody pastes it into a shell */
        td_shell_add_word(&word, s->server.model);
    td_fail(err, TD_EINVAL,
            "these must not be compared: the recording was made with the model %s%s%s%s, "
            "but %s serves %s%s%s%s%s%s",
            model, *meta ? " (" : "", meta, *meta ? ")" : "", s->server.url, s->server.model,
            *s->server.meta ? " (" : "", s->server.meta, *s->server.meta ? ")" : "",
            same_meta ? "; if that is the same model, say --served-as " : "",
            td_buf_str(&word));
    td_buf_release(&word);
    return TD_EINVAL;
}

/* Probe the server before anything is written. A fixture names the server that it was recorded on;
 * that address is never called, for the user's headers would go there. */
static int reach_server(struct replay *s, struct td_error *err)
{
    int rc = td_request_replay_probe(s->opt, s->opt->server, &s->server, err);

    if (!rc)
        rc = check_model(s, err);
    if (!rc)
        rc = check_requests(s, err);
    if (rc)
        return rc;
    s->res->did_requests = true;
    snprintf(s->res->server, sizeof s->res->server, "%s (%s%s%s, model %s)", s->server.url, td_api_name(s->server.kind),
             s->server.version[0] ? " " : "", s->server.version, s->server.model);
    return TD_OK;
}

/* ---- the output ------------------------------------------------------------------------------ */

/* The last part of the model's name, in characters that every file system takes. */
static void file_name_of_model(const struct replay *s, char *out, size_t n)
{
    const char *named = s->res->did_requests ? s->server.model : td_json_get_str(td_json_get(s->manifest, "server"), "model", "");
    char *shown = td_hidden_copy(named, strlen(named));
    const char *m = shown ? shown : "", *slash;
    size_t i;

    while ((slash = strrchr(m, '/')) && !slash[1] && slash > m) /* a path with a slash at its end has no last name */
        m = "";
    m = slash ? slash + 1 : m;
    snprintf(out, n, "%.60s", *m ? m : "unnamed");
    free(shown);
    for (i = 0; out[i]; i++)
        if (!isalnum((unsigned char)out[i]) && !strchr("._-", out[i]))
            out[i] = '-';
}

static int make_output_folder(const struct replay *s, char out[TD_PATH_MAX], struct td_error *err)
{
    char model[64], stamp[32], path[160];

    file_name_of_model(s, model, sizeof model);
    td_clock_stamp(td_clock_wall_ns(), stamp, sizeof stamp);
    snprintf(path, sizeof path, "fixtures/replay-%s-%s", model, stamp);
    return td_new_folder(path, out, err);
}

/* The replay redacts what the recording redacted, beside what is always redacted and what was sent. */
static void copy_redaction(const cJSON *manifest, const struct td_arg_list *more, struct td_redaction *r,
                           const char **headers, const char **paths)
{
    const cJSON *rules = td_json_get(manifest, "redaction"), *v;
    int n = 0;

    cJSON_ArrayForEach(v, td_json_get(rules, "headers"))
        if (cJSON_IsString(v) && n < MAX_PATHS)
            headers[n++] = v->valuestring;
    memcpy(headers + n, more->item, (size_t)more->n * sizeof *headers);
    n += more->n;
    r->headers = n ? headers : NULL;
    n = 0;
    cJSON_ArrayForEach(v, td_json_get(rules, "json_paths"))
        if (cJSON_IsString(v) && n < MAX_PATHS)
            paths[n++] = v->valuestring;
    r->json_paths = n ? paths : NULL;
    r->no_text = td_json_get_bool(rules, "no_text", false);
}

static int create_output(struct replay *s, const char *output, struct td_error *err)
{
    const char *headers[MAX_PATHS + TD_ARG_LIST_MAX + 1] = {NULL}, *paths[MAX_PATHS + 1] = {NULL};
    const char *sent[TD_ARG_LIST_MAX + 1] = {NULL}, *shown[TD_ARG_LIST_MAX + 1] = {NULL};
    struct td_redaction red = {.sent = sent, .shown = shown};
    struct td_writer_options wo = {.tool = "replay", .redaction = &red};
    char path[sizeof s->res->path];
    int rc = TD_OK;

    copy_redaction(s->manifest, &s->opt->redact_headers, &red, headers, paths);
    memcpy(sent, s->opt->headers.item, (size_t)s->opt->headers.n * sizeof *sent);
    memcpy(shown, s->opt->show_headers.item, (size_t)s->opt->show_headers.n * sizeof *shown);
    if (output)
        rc = snprintf(path, sizeof path, "%s", output) < (int)sizeof path
                 ? TD_OK
                 : td_fail(err, TD_ELIMIT, "%.60s...: path too long", output);
    else
        rc = make_output_folder(s, path, err);
    if (!rc)
        rc = td_writer_create(path, &wo, &s->w, err);
    if (!rc)
        memcpy(s->res->path, path, sizeof path);
    return rc;
}

/* ---- facts ----------------------------------------------------------------------------------- */

static void write_hash_fact(struct td_writer *w, const char *key, const char *path)
{
    char hex[TD_HASH_HEX];

    if (path && td_build_hash(path, hex))
        td_writer_fact_str(w, "replay", key, hex);
}

static void write_replay_facts(struct replay *s)
{
    const struct td_replay_options *o = s->opt;
    char shard[48];

    td_writer_fact_str(s->w, "replay", "of", td_fixture_id(s->fx));
    td_writer_fact_str(s->w, "replay", "of_dir", td_fixture_dir(s->fx));
    td_host_facts_write(s->w);
    if (o->shard.of > 1) {
        snprintf(shard, sizeof shard, "%lld/%lld", (long long)o->shard.index, (long long)o->shard.of);
        td_writer_fact_str(s->w, "replay", "shard", shard);
    }
    if (!s->res->did_ops)
        return;
    td_writer_fact_str(s->w, "replay", "provider", s->res->ops.provider);
    if (o->build)
        td_writer_fact_str(s->w, "replay", "build", o->build);
    if (o->baseline_build)
        td_writer_fact_str(s->w, "replay", "baseline_build", o->baseline_build);
    if (s->res->ops.build[0])
        td_writer_fact_str(s->w, "replay", "build_words", s->res->ops.build);
    if (s->res->ops.baseline_build[0])
        td_writer_fact_str(s->w, "replay", "baseline_build_words", s->res->ops.baseline_build);
    write_hash_fact(s->w, "build_hash", o->build);
    write_hash_fact(s->w, "baseline_build_hash", o->baseline_build);
    td_writer_fact_num(s->w, "replay", "op_repeat", (double)o->op_repeat);
    td_writer_fact_num(s->w, "replay", "max_ops", (double)o->max_ops);
    td_writer_fact_str(s->w, "replay", "guard", o->guard ? "on" : "off");
}

/* Name the recorded model where no server was asked, since differ refuses to compare other
 * models. */
static void copy_server_facts(struct replay *s)
{
    static const char *const keys[] = {"kind", "model", "version"};
    const cJSON *from = td_json_get(s->manifest, "server");
    size_t i;

    for (i = 0; i < 3; i++)
        if (td_json_get(from, keys[i]))
            td_writer_fact(s->w, "server", keys[i], td_json_get(from, keys[i]));
    td_writer_fact_str(s->w, "server", "note", "as recorded; this replay talked to no server");
}

/* ---- replaying ------------------------------------------------------------------------------- */

static int64_t planned_ops(const struct td_op_replay_stats *o)
{
    return o->seen - o->not_matching - o->other_shards - o->not_sampled - o->not_planned;
}

/* Count the ops of unreadable frames as broken. The manifest has the number of all ops. */
static void count_lost_ops(struct replay *s)
{
    struct td_op_replay_stats *o = &s->res->ops;
    int64_t lost = (int64_t)s->n_ops - o->seen;

    if (lost <= 0)
        return;
    td_writer_count(s->w, "ops.broken", lost, 0);
    o->count[TD_OP_BROKEN] += lost;
    s->lost_ops = lost;
    td_planned_write(s->w, "ops", planned_ops(o) + lost);
}

static int replay_into_output(struct replay *s, struct td_error *err)
{
    int rc = TD_OK;

    write_replay_facts(s);
    if (!s->res->did_requests)
        copy_server_facts(s);
    if (s->n_exchanges && !s->res->did_requests)
        td_writer_count(s->w, "exchanges.dropped.not_asked", (int64_t)s->n_exchanges, 0);
    if (s->n_ops && !s->res->did_ops)
        td_writer_count(s->w, "ops.dropped.not_asked", (int64_t)s->n_ops, 0);
    if (s->res->did_requests)
        rc = td_request_replay(s->fx, s->w, s->opt, &s->server, &s->res->requests, err);
    if (!rc && s->res->did_ops) {
        rc = td_op_replay_run(s->ops, s->w, err);
        count_lost_ops(s);
        if (s->res->ops.references[0])
            td_writer_fact_str(s->w, "replay", "references", s->res->ops.references);
    }
    return rc;
}

#define MAX_CAUSES 4
#define CAUSE_BYTES 120

/* Compare what came with what was planned, and write it down. That requests failed is the
 * candidate's result: replay has done its work, and differ judges them. Returns the state. */
static const char *write_state(struct replay *s, int rc)
{
    const struct td_request_replay_stats *q = &s->res->requests;
    const struct td_op_replay_stats *o = &s->res->ops;
    int64_t requests = q->plan.planned + q->plan.skipped, came = q->answered + q->failed,
            ops = planned_ops(o) + s->lost_ops;
    char text[MAX_CAUSES][CAUSE_BYTES];
    const char *causes[MAX_CAUSES];
    int n = 0, i;

    if (rc)
        snprintf(text[n++], CAUSE_BYTES, rc == TD_EINTR ? "stopped by a signal" : "replay failed");
    if (s->res->did_requests && q->failed)
        snprintf(text[n++], CAUSE_BYTES, "%lld of %lld requests failed", (long long)q->failed,
                 (long long)requests);
    if (s->res->did_requests && came < requests)
        snprintf(text[n++], CAUSE_BYTES, "%lld of %lld requests were not sent",
                 (long long)(requests - came), (long long)requests);
    if (s->res->did_ops && o->replayed < ops)
        snprintf(text[n++], CAUSE_BYTES, "%lld of %lld ops were not replayed%s",
                 (long long)(ops - o->replayed), (long long)ops,
                 o->late ? ": the time was over before the plan was done" : "");
    if (s->res->did_requests) {
        td_planned_seen(s->w, "timed", q->answered);
        td_planned_seen(s->w, "scores", q->scored);
    }
    if (s->res->did_ops)
        td_planned_seen(s->w, "ops", o->replayed);
    for (i = 0; i < n; i++)
        causes[i] = text[i];
    td_planned_causes(s->w, causes, n);
    return rc ? "interrupted" : n ? "incomplete" : "complete";
}

/* Refuse what cannot be replayed before a server is asked or anything of a build is executed. */
static int check_ops_and_builds(const struct replay *s, struct td_error *err)
{
    struct td_build *found = calloc(2, sizeof *found);
    int rc = found ? td_op_filter_check(s->fx, &s->opt->only, err) : td_fail(err, TD_ENOMEM, "out of memory");

    if (!rc && s->opt->plan)
        rc = td_op_plan_check(s->opt->plan, s->fx, err);
    if (!rc && (rc = td_build_pair_detect(s->opt, found, err)) == TD_EINVAL)
        rc = err->code = TD_EUNSUPPORTED; /* not a usage error: this build cannot be used */
    free(found);
    return rc;
}

static int open_source(struct replay *s, const char *dir, struct td_error *err)
{
    int rc = td_fixture_open(dir, &s->fx, err);

    if (!rc)
        rc = td_fixture_check(s->fx, TD_FILES_JUDGED, err);
    if (rc)
        return rc;
    s->manifest = td_fixture_manifest(s->fx);
    s->n_exchanges = count_records(s->manifest, "exchanges.jsonl.zst");
    s->n_ops = count_records(s->manifest, "ops.jsonl.zst");
    return check_asked_targets(s, err);
}

int td_fixture_replay(const char *dir, const char *output, const struct td_replay_options *opt,
                      struct td_fixture_replay_result *res, struct td_error *err)
{
    struct replay s = {.opt = opt, .res = res};
    struct td_error late = {0};
    int rc;

    memset(res, 0, sizeof *res);
    td_replay_points_begin();
    rc = open_source(&s, dir, err);
    if (!rc && output && td_fs_exists(output))
        rc = td_fail(err, TD_EEXIST, "%s: exists already; replay never writes over a fixture", output);
    if (!rc && wants_ops(&s))
        rc = check_ops_and_builds(&s, err);
    if (!rc && wants_requests(&s))
        rc = reach_server(&s, err);
    res->did_ops = !rc && wants_ops(&s);
    if (!rc && res->did_ops && (rc = td_op_replay_open(s.fx, opt, !res->did_requests, &res->ops, &s.ops, err)) == TD_EINVAL)
        rc = err->code = TD_EUNSUPPORTED; /* not a usage error: this build cannot be used */
    if (!rc && !res->did_requests && !res->did_ops)
        rc = td_fail(err, TD_EUNSUPPORTED, "%s: nothing for this shard to replay; its requests belong to shard 1", dir);
    if (!rc)
        rc = create_output(&s, output, err);
    if (s.w) {
        rc = replay_into_output(&s, err);
        if (rc && rc != TD_EINTR) {
            char failure[64];

            snprintf(failure, sizeof failure, "failed: %s", td_code_name(rc));
            td_writer_fact_str(s.w, "replay", "failure", err && err->code ? err->msg : failure);
        }
        if (td_writer_close(s.w, write_state(&s, rc), &late)) {
            if (err)
                td_error_clear(err); /* earlier errors were its consequence */
            rc = td_fail(err, late.code,
                         "%s; what was committed before is in %s ({fixture} repair %s)", late.msg,
                         res->path, res->path);
        }
        td_replay_is_at(TD_AT_WRITTEN);
    }
    td_op_replay_close(s.ops);
    td_fixture_close(s.fx);
    td_replay_is_at(TD_AT_END);
    td_replay_points_log();
    return rc;
}
