/* gate_judge.c - one fixture, or one smoke test, from replay to report: run the programs, read what
 * differ found.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/gate_judge.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fixture_lock.h"
#include "common/fs.h"
#include "common/hash.h"
#include "common/invocation.h"
#include "common/log.h"
#include "common/pack_manifest.h"
#include "gate/accept_file.h"
#include "gate/next_options.h"
#include "gate/run.h"

#define REPORT_NAME "differ.json"
#define TIME "120s" /* for the ops of a fixture; a plan that is given is done whatever it takes */
#define ANSWER_ROUNDS 3
#define LONGEST_TO_DOUBLE_S 300 /* rounds that took longer are not doubled without being asked for */
#define MANIFEST_MAX ((size_t)64 << 20)

static int exit_code_of(const struct td_error *err)
{
    return err->code == TD_EINTR ? 128 + (int)td_gate_signal : td_exit_code(err->code);
}

/* Name the fixture in a report that differ had no part in. */
static void name_fixture(cJSON *report, const char *fixture)
{
    cJSON *list = cJSON_GetObjectItemCaseSensitive(report, "fixtures"), *one;

    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list))
        return;
    one = cJSON_CreateObject();
    cJSON_AddStringToObject(one, "role", "baseline");
    cJSON_AddStringToObject(one, "dir", fixture);
    cJSON_AddItemToArray(list, one);
}

cJSON *td_gate_broken(const char *fixture, const struct td_error *err)
{
    cJSON *report = td_report_broken(TD_GATE_TOOL, exit_code_of(err), "%s", err->msg);

    if (report && fixture && *fixture)
        name_fixture(report, fixture);
    return report;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Run one program to its end. TD_OK: it did its work; else err says how it failed, with the
 * program's own words. What the program prints as its result is shown with --verbose alone: the
 * report says what came of it. Its progress, warnings and errors are always shown. */
static int run_program(const struct td_gate_options *o, struct td_command *c, const char *what,
                       struct td_error *err)
{
    struct td_outcome out;

    if (td_run(c, o->out.verbose ? TD_RUN_TO_STDERR : TD_RUN_DROP, &out, err))
        return err->code;
    if (out.exited && out.code == TD_EXIT_OK)
        return TD_OK;
    return td_fail(err, out.exited && out.code == TD_EXIT_USAGE ? TD_EINVAL : TD_EIO, "%s: %s",
                   what, out.cause);
}

static void add_list(struct td_command *c, const char *option, const struct td_arg_list *list)
{
    int i;

    for (i = 0; i < list->n; i++)
        td_command_opt(c, option, list->item[i]);
}

static void add_headers(struct td_command *c, const struct td_gate_options *o)
{
    c->headers = &o->headers;
    add_list(c, "--show-header", &o->show_headers);
    add_list(c, "--redact-header", &o->redact_headers);
}

static void add_max_body(struct td_command *c, const struct td_gate_options *o, char text[32])
{
    snprintf(text, 32, "%lld", (long long)o->max_body_mib);
    td_command_opt(c, "--max-body", o->max_body_mib ? text : NULL);
}

static void add_flag(struct td_command *c, const char *option, bool given)
{
    if (given)
        td_command_add(c, option);
}

/* "--wait", or "--wait=30" in `text`. */
static void add_wait(struct td_command *c, int64_t wait, char *text, size_t n)
{
    if (wait == TD_ARG_ALONE)
        snprintf(text, n, "--wait");
    else
        snprintf(text, n, "--wait=%lld", (long long)wait);
    if (wait)
        td_command_add(c, text);
}

/* A server that is asked in turn with another, answer by answer. */
struct beside { const char *server, *output; bool begins; };

/* Replay the requests on `server` (NULL: none) and, when with_ops, the ops on the build. is_timed_alone: no lane reads the answers, so
 * one repeat is enough, without scores. beside: the other server; NULL: there is none. */
static int replay(const struct td_gate_options *o, const char *fixture, const char *server, bool with_ops, bool is_timed_alone,
                  const char *output, const struct beside *beside, const char *what, struct td_error *err)
{
    struct td_command c;
    char wait[32], max_body[32];

    if (td_command_init(&c, "replay", err))
        return err->code;
    td_command_add(&c, fixture);
    td_command_add(&c, "--for-differ");
    td_command_opt(&c, "-o", output);
    add_flag(&c, "--quiet", td_log_quiet());
    if (server) {
        td_command_opt(&c, "--server", server);
        td_command_opt(&c, "--served-as", o->served_as);
        td_command_opt(&c, "--api", o->api);
        td_command_opt(&c, "--timing", o->timing);
        td_command_opt(&c, "--repeat", o->repeat ? o->repeat : is_timed_alone ? "1" : NULL);
        td_command_opt(&c, "--timeout", o->timeout);
        add_wait(&c, o->wait, wait, sizeof wait);
        add_headers(&c, o);
        add_list(&c, "--allow-path", &o->allow_paths);
        add_max_body(&c, o, max_body);
        if (is_timed_alone || (!td_gate_judges(o, "scores") && !td_gate_judges(o, "tokens")))
            td_command_opt(&c, "--scores", "off"); /* no other lane reads them */
    }
    if (beside) {
        td_command_opt(&c, "--beside", beside->server);
        td_command_opt(&c, "--beside-out", beside->output);
        add_flag(&c, "--begins", !beside->begins);
    }
    if (with_ops) {
        td_command_opt(&c, "--build", o->build);
        td_command_opt(&c, "--baseline-build", o->baseline_build);
        td_command_opt(&c, "--provider", o->provider);
        td_command_opt(&c, "--ops", o->ops);
        td_command_opt(&c, "--as", o->as);
        td_command_opt(&c, "--checkpoint", o->checkpoint);
        td_command_opt(&c, "--max-ops", o->max_ops);
        td_command_opt(&c, "--time", o->time ? o->time : o->plan ? NULL : TIME);
        td_command_opt(&c, "--plan", o->plan);
        td_command_opt(&c, "--cache", o->cache);
        td_command_opt(&c, "--cache-size", o->cache_size);
        td_command_opt(&c, "--op-repeat", o->op_repeat);
        td_command_opt(&c, "--deadline", o->deadline);
        td_command_opt(&c, "--reference", o->reference);
        if (o->baseline_build && !td_gate_judges(o, "speed"))
            td_command_opt(&c, "--op-timing", "off"); /* timing takes longer than all else */
        add_list(&c, "--only", &o->only);
        add_list(&c, "--build-env", &o->build_env);
        add_list(&c, "--baseline-env", &o->baseline_env);
    }
    return run_program(o, &c, what, err);
}

/* ---- the rounds of one fixture --------------------------------------------------------------- */

struct rounds {
    char candidate[TD_GATE_MAX_ROUNDS][TD_PATH_MAX], live[TD_GATE_MAX_ROUNDS][TD_PATH_MAX];
};

static int path_in(const struct td_gate_item *it, char *out, const char *name, int round,
                   struct td_error *err)
{
    return snprintf(out, TD_PATH_MAX, "%s/%s-%d", it->folder, name, round) < TD_PATH_MAX
               ? TD_OK
               : td_fail(err, TD_ELIMIT, "the path of the folder for replays is too long");
}

/* Which server begins a round? That is drawn, so what slows the machine for a while is as likely to slow either. Where nothing
 * can be drawn, they take turns in it. */
static bool candidate_begins(int round)
{
    unsigned char drawn;

    return getrandom(&drawn, 1, GRND_NONBLOCK) == 1 ? drawn & 1 : round & 1;
}

/* Does a round serve the lane speed alone? The others read the first ones (TD_ANSWER_ROUNDS in differ/align.h). */
static bool is_timed_alone(const struct td_gate_options *o, int round)
{
    return round >= ANSWER_ROUNDS ||
           (o->baseline_server && td_gate_judges(o, "speed") && !td_gate_judges(o, "tokens") && !td_gate_judges(o, "collapse") &&
            !td_gate_judges(o, "scores"));
}

/* One round: of the candidate, and with a baseline server of both. Where answers are timed, and not read, both are asked in turn, answer
 * by answer, unless --timing asks for a pace of its own. Ops are replayed in the first: the baseline begins it, for they take long,
 * and would lie between the two. */
static int replay_round(const struct td_gate_options *o, const struct td_gate_item *it, struct rounds *r, int round, struct td_error *err)
{
    const bool ops = (o->build || o->provider) && round == 0, alone = is_timed_alone(o, round);
    const bool first = o->baseline_server && !ops && candidate_begins(round);
    const struct beside baseline = {o->baseline_server, r->live[round], !first};
    int rc = path_in(it, r->candidate[round], "candidate", round, err);

    if (!rc)
        rc = path_in(it, r->live[round], "baseline", round, err);
    if (!rc && o->baseline_server && alone && !ops && !o->timing && o->rounds > 1)
        return replay(o, it->fixture, o->server, false, true, r->candidate[round], &baseline, "replay on both servers in turn", err);
    if (!rc && first)
        rc = replay(o, it->fixture, o->server, ops, alone, r->candidate[round], NULL, "replay", err);
    if (!rc && o->baseline_server)
        rc = replay(o, it->fixture, o->baseline_server, false, alone, r->live[round], NULL, "replay on the baseline server", err);
    if (!rc && !first)
        rc = replay(o, it->fixture, o->server, ops, alone, r->candidate[round], NULL, "replay", err);
    return rc;
}

/* What was replayed, in the words of `differ --replayed`: differ knows which lanes judge it. */
static const char *replayed_words(const struct td_gate_options *o, char *out, size_t n)
{
    const bool ops = o->build || o->provider;

    snprintf(out, n, "%s%s%s", o->server ? "answers" : "", ops ? o->server ? ",ops" : "ops" : "",
             o->baseline_server || o->baseline_build ? ",pairs" : "");
    return out;
}

/* Run differ, and read its report. differ leaves one however it ends, unless it crashes. */
static cJSON *read_differ(struct td_command *c, const char *json, struct td_error *err)
{
    struct td_outcome out;
    cJSON *report;

    td_command_opt(c, "--json", json);
    td_command_add(c, "--quiet");
    if (td_run(c, TD_RUN_DROP, &out, err))
        return NULL;
    report = out.exited && td_fs_exists(json) ? td_report_load(json, err) : NULL;
    unlink(json);
    if (report && out.is_error && strcmp(out.cause, td_json_get_str(report, "cause", "")))
        td_log(TD_LOG_ERROR, "gate", "%s", out.cause); /* no report has it */
    if (!report)
        td_fail(err, out.exited && out.code == TD_EXIT_USAGE ? TD_EINVAL : TD_EIO, "differ: %s",
                out.cause);
    return report;
}

/* Compare what was replayed in the first `rounds` rounds. */
static cJSON *compare(const struct td_gate_options *o, const struct td_gate_item *it,
                      const struct rounds *r, int64_t rounds, struct td_error *err)
{
    struct td_buf builds = TD_BUF_INIT(1 << 16), servers = TD_BUF_INIT(1 << 16);
    char json[TD_PATH_MAX], words[32];
    struct td_command c;
    cJSON *report;
    int round;

    if (td_fs_join(json, sizeof json, it->folder, REPORT_NAME, err) ||
        td_command_init(&c, "differ", err))
        return NULL;
    td_gate_add_builds(o, &builds);
    td_gate_add_servers(o, &servers);
    td_command_opt(&c, "--called-as", td_invocation_folder());
    td_command_opt(&c, "--gate-builds", builds.len ? td_buf_str(&builds) : NULL);
    td_command_opt(&c, "--gate-servers", servers.len ? td_buf_str(&servers) : NULL);
    td_command_add(&c, it->fixture);
    td_command_add(&c, r->candidate[0]);
    for (round = 1; round < rounds; round++)
        td_command_opt(&c, "--new", r->candidate[round]);
    for (round = 0; o->baseline_server && round < rounds; round++)
        td_command_opt(&c, "--baseline-live", r->live[round]);
    if (o->lanes)
        td_command_opt(&c, "--lanes", o->lanes);
    else
        td_command_opt(&c, "--replayed", replayed_words(o, words, sizeof words));
    td_command_opt(&c, "--policy", o->policy);
    td_command_opt(&c, "--metrics-as", o->metrics_as);
    td_command_opt(&c, "--goodput", o->goodput);
    td_command_opt(&c, "--percentiles", o->percentiles);
    add_flag(&c, "--exact", o->exact);
    add_list(&c, "--calibrate", &o->calibrate);
    add_flag(&c, "--verbose", o->out.verbose);
    report = read_differ(&c, json, err);
    td_buf_release(&builds);
    td_buf_release(&servers);
    return report;
}

/* Is there a file of findings that were accepted? */
static bool has_acceptances(const struct td_gate_options *o)
{
    char path[TD_PATH_MAX];

    return !td_accept_path(o->policy, path, sizeof path, NULL) && td_fs_exists(path);
}

/* Does another lane than speed keep the gate from passing, whatever speed says? What has regressed may have been accepted, which is not
 * known yet. */
static bool others_decide(const struct td_gate_options *o, const cJSON *report)
{
    const bool accepted = has_acceptances(o);
    const cJSON *lane;

    cJSON_ArrayForEach(lane, td_json_get(report, "lanes")) {
        const char *verdict = td_json_get_str(lane, "verdict", "");

        if (strcmp(lane->string, "speed") &&
            (!strcmp(verdict, "inconclusive") || !strcmp(verdict, "broken") || (!strcmp(verdict, "regressed") && !accepted)))
            return true;
    }
    return false;
}

/* Is it the speed of the servers that is not certain, so that more rounds would tell? */
static bool wants_more_rounds(const struct td_gate_options *o, const cJSON *report)
{
    const cJSON *lane = td_json_get(td_json_get(report, "lanes"), "speed");

    return !strcmp(td_json_get_str(lane, "verdict", ""), "inconclusive") &&
           td_json_get_i64(td_json_get(report, "speed"), "rounds_needed", 0) > 0 &&
           (o->fail_on == TD_FAIL_ON_SLOWER || !others_decide(o, report));
}

/* Replay the rounds and compare; where the servers' times vary too much, as many rounds again, and once more, up to the most. differ counts on that:
 * TD_SPEED_LOOKS in differ/speed.h. */
static cJSON *judge_rounds(const struct td_gate_options *o, const struct td_gate_item *it, struct rounds *r, struct td_error *err)
{
    int64_t until = o->rounds, began_ns = 0;
    int round = 0;

    for (;;) {
        double took_s;
        int64_t more;
        cJSON *report;

        for (; round < until; round++) {
            if (round == 1) /* the first has the ops */
                began_ns = td_clock_mono_ns();
            if (replay_round(o, it, r, round, err))
                return NULL;
        }
        took_s = (double)(td_clock_mono_ns() - began_ns) * 1e-9;
        report = compare(o, it, r, until, err);
        more = 2 * until < o->most_rounds ? until : o->most_rounds - until;
        if (!report || more <= 0 || !wants_more_rounds(o, report))
            return report;
        if (took_s > LONGEST_TO_DOUBLE_S) {
            td_log_note("the servers' times vary too much for a verdict after %lld rounds, which took %.0f s: --rounds %lld takes more",
                        (long long)until, took_s, (long long)(until + more));
            return report;
        }
        cJSON_Delete(report);
        td_log_note("the servers' times vary too much for a verdict after %lld rounds: %lld more follow", (long long)until, (long long)more);
        until += more;
    }
}

/* The hash of a fixture's manifest, which has the checksums of all else; of a pack of the manifest in
 * it. Zeros where it cannot be read: replay says why. */
static struct td_hash hash_manifest(const char *fixture)
{
    struct td_buf text = TD_BUF_INIT(MANIFEST_MAX);
    struct td_hash hash = {0, 0};
    char path[TD_PATH_MAX];

    if (!td_fs_is_dir(fixture)) {
        cJSON *manifest = td_pack_manifest(fixture, MANIFEST_MAX);
        struct td_jw w;

        td_jw_init(&w, &text, false);
        if (manifest)
            td_jw_value(&w, NULL, manifest);
        cJSON_Delete(manifest);
    } else if (!td_fs_join(path, sizeof path, fixture, "manifest.json", NULL)) {
        td_fs_read_member(path, MANIFEST_MAX, &text, NULL);
    }
    if (text.len && !text.failed)
        hash = td_hash_bytes(text.data, text.len);
    td_buf_release(&text);
    return hash;
}

/* Replays and compares. A fixture that another took the place of meanwhile is told as that, whatever
 * replay and differ say: they may have met it while it was away. One that is gone keeps their words. */
static cJSON *judge_as_it_is(const struct td_gate_options *o, const struct td_gate_item *it,
                             struct rounds *r, struct td_error *err)
{
    const struct td_hash began_as = hash_manifest(it->fixture), gone = {0, 0};
    cJSON *report = judge_rounds(o, it, r, err);
    const struct td_hash ended_as = hash_manifest(it->fixture);
    const bool judged = report && strcmp(td_report_verdict(report), "broken");

    if (td_hash_eq(ended_as, began_as) || (!judged && td_hash_eq(ended_as, gone)))
        return report;
    td_error_clear(err);
    td_fail(err, TD_EIO, "%.300s: it was replaced by another while it was judged; run the gate again, "
                         "and leave it alone", it->fixture);
    cJSON_Delete(report);
    return NULL;
}

cJSON *td_gate_judge(const struct td_gate_options *o, const struct td_gate_item *it)
{
    const int64_t began_ns = td_clock_mono_ns();
    static struct rounds r;
    struct td_error err = {0, ""};
    cJSON *report = NULL;

    if (td_fixture_lock_check(it->fixture, &err))
        ; /* it is being written: err names who does */
    else if (!td_fs_exists(it->fixture))
        td_fail(&err, TD_ENOTFOUND,
                "%.300s: no such fixture; {record} makes one: {record} --server HOST:PORT",
                it->fixture);
    else
        report = judge_as_it_is(o, it, &r, &err);
    if (report)
        cJSON_ReplaceItemInObjectCaseSensitive(report, "tool", cJSON_CreateString(TD_GATE_TOOL));
    else
        report = td_gate_broken(it->fixture, &err);
    td_report_stamp(report, began_ns);
    return report;
}

/* ---- smoke ----------------------------------------------------------------------------------- */

/* The suite lies beside the programs; those under build/san/bin are two folders deeper. */
static int find_suite(char *suite, size_t n, struct td_error *err)
{
    char dir[TD_PATH_MAX];
    int rc = td_fs_self_dir(dir, sizeof dir, err);

    if (!rc)
        rc = td_fs_join(suite, n, dir, "../fixtures/suites/smoke.jsonl", err);
    if (!rc && !td_fs_exists(suite))
        rc = td_fs_join(suite, n, dir, "../../../fixtures/suites/smoke.jsonl", err);
    return rc;
}

/* TD_OK: there is a recording, whatever the requests came to; differ reports that. */
static int record_smoke(const struct td_gate_options *o, const char *output, struct td_error *err)
{
    char suite[TD_PATH_MAX], manifest[TD_PATH_MAX], wait[32], max_body[32];
    struct td_command c;
    int rc;

    if (td_command_init(&c, "record", err) || find_suite(suite, sizeof suite, err) ||
        td_fs_join(manifest, sizeof manifest, output, "manifest.json", err))
        return err->code;
    td_command_opt(&c, "--server", o->server);
    td_command_opt(&c, "--suite", suite);
    td_command_opt(&c, "--repeat", "1");
    td_command_opt(&c, "--gemms", "off");
    td_command_opt(&c, "--timeout", o->timeout);
    add_wait(&c, o->wait, wait, sizeof wait);
    td_command_opt(&c, "--api", o->api);
    add_headers(&c, o);
    add_max_body(&c, o, max_body);
    td_command_opt(&c, "-o", output);
    add_flag(&c, "--quiet", td_log_quiet());
    rc = run_program(o, &c, "record", err);
    if (rc == TD_EIO && td_fs_exists(manifest)) {
        td_log(TD_LOG_WARN, "gate", "%s", err->msg);
        td_error_clear(err);
        rc = TD_OK;
    }
    return rc;
}

cJSON *td_gate_broken_smoke(const struct td_error *err)
{
    cJSON *report = td_gate_broken(NULL, err);
    char line[sizeof err->msg + 32];

    snprintf(line, sizeof line, "smoke: failed: %s", err->msg);
    cJSON_ReplaceItemInObjectCaseSensitive(report, "line", cJSON_CreateString(line));
    return report;
}

cJSON *td_gate_smoke(const struct td_gate_options *o, const struct td_gate_item *it)
{
    char recording[TD_PATH_MAX], json[TD_PATH_MAX];
    struct td_error err = {0, ""};
    struct td_command c;
    cJSON *report = NULL;

    if (!path_in(it, recording, "smoke", 0, &err) &&
        !td_fs_join(json, sizeof json, it->folder, REPORT_NAME, &err) &&
        !record_smoke(o, recording, &err) && !td_command_init(&c, "differ", &err)) {
        td_command_opt(&c, "--smoke", recording);
        report = read_differ(&c, json, &err);
    }
    return report ? report : td_gate_broken_smoke(&err);
}
