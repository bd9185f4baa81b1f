/* gate_options.c - read the command line of `gate`, and refuse what does not fit together.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/gate_options.h"

#include <stdio.h>
#include <string.h>

#include "common/header_file.h"
#include "common/invocation.h"
#include "common/log.h"
#include "common/replay_args.h"
#include "format/header_args.h"

/* Of two servers, unless --rounds says it. Three are not timed where lanes of answers read them. Where ops are timed as well, intervals
 * have ends from 11 others on, those of four categories from 13; one more may be disturbed (docs/verdicts.md). It is doubled twice, up
 * to the most: TD_SPEED_LOOKS in differ/speed.h. */
#define ROUNDS 17
#define MOST_ROUNDS 64
#define ROUNDS_WITHOUT_SPEED 3 /* of other lanes, which take the live baseline's answers as what chance does */

static struct td_gate_options given;
static const char *fail_on;

static const struct td_arg OPTIONS[] = {
    {"server", 's', TD_ARG_STR, &given.server, "HOST:PORT",
     "the candidate's server: replay the requests on it", 0, 0},
    {"baseline-server", 0, TD_ARG_STR, &given.baseline_server, "HOST:PORT",
     "the baseline's server: both take turns, and speed is judged", 0, 0},
    TD_REPLAY_BUILD(TD_ARG_STR, &given.build),
    TD_REPLAY_BASELINE_BUILD(TD_ARG_STR, &given.baseline_build),
    TD_REPLAY_AS(TD_ARG_STR, &given.as),
    TD_REPLAY_BUILD_ENV(TD_ARG_LIST, &given.build_env),
    TD_REPLAY_BASELINE_ENV(TD_ARG_LIST, &given.baseline_env),
    TD_REPLAY_OPS(TD_ARG_STR, &given.ops),
    {"provider", 0, TD_ARG_STR, &given.provider, "NAME",
     "the provider that runs the ops; {replay} --help lists them (default: detected)", 0, 0},
    TD_REPLAY_CHECKPOINT(TD_ARG_STR, &given.checkpoint),
    TD_REPLAY_SERVED_AS(TD_ARG_STR, &given.served_as),
    TD_REPLAY_WAIT(TD_ARG_MAYBE, &given.wait),
    {"lanes", 0, TD_ARG_STR, &given.lanes, "LIST",
     "the lanes to judge: {differ} --help lists them (default: those that fit what is named above)",
     0, 0},
    {"exact", 0, TD_ARG_FLAG, &given.exact, NULL,
     "an answer that differs from every repeat of the baseline is a regression", 0, 0},
    {"policy", 0, TD_ARG_STR, &given.policy, "FILE", "thresholds, as JSON (docs/policy.md)",
     0, 0},
    {"explain-policy", 0, TD_ARG_FLAG, &given.explain_policy, NULL,
     "print each threshold: its value, its meaning and its source", 0, 0},
    {"fail-on", 0, TD_ARG_STR, &fail_on, "KIND",
     "regressions that end with exit 1: wrong, slower, any (default)", 0, 0},
    {"accept", 0, TD_ARG_STR, &given.accept, "REASON",
     "accept what this run finds, for a reason and until a date (docs/ci.md)", 0, 0},
    {"until", 0, TD_ARG_STR, &given.until, "YYYY-MM-DD", "the last day of --accept", 0, 0},
    {"calibrate", 0, TD_ARG_LIST, &given.calibrate, "DIR",
     "a replay of an honest build: its forks are noise (may be repeated)", 0, 0},
    {"json", 0, TD_ARG_STR, &given.out.json, "FILE", "write the full report as JSON (-: stdout)",
     0, 0},
    {"junit", 0, TD_ARG_STR, &given.out.junit, "FILE", "write the report as JUnit XML", 0, 0},
    {"markdown", 0, TD_ARG_STR, &given.out.markdown, "FILE",
     "write the report as Markdown, for a pull request", 0, 0},
    {"csv", 0, TD_ARG_STR, &given.out.csv, "FILE", "write the figures as CSV", 0, 0},
    {"metrics-as", 0, TD_ARG_STR, &given.metrics_as, "TOOL",
     "also report TTFT, ITL and the like of each fixture, in terms of tapedeck, vllm, guidellm, aiperf or inference-perf "
     "(docs/metrics.md)", 0, 0},
    {"goodput", 0, TD_ARG_STR, &given.goodput, "LIMITS",
     "and count the exchanges that keep all of these limits, such as ttft:200ms,itl:50ms", 0, 0},
    {"percentiles", 0, TD_ARG_STR, &given.percentiles, "LIST", "and which percentiles (default 50,90,95,99)", 0, 0},
    {"keep", 0, TD_ARG_STR, &given.keep, "DIR", "keep the replays in this new folder", 0, 0},
    {"artifacts", 0, TD_ARG_STR, &given.artifacts, "DIR",
     "unless it passes, keep reports, replays and the first bad op in this new folder", 0, 0},
    TD_REPLAY_TIMING(TD_ARG_STR, &given.timing),
    TD_REPLAY_REPEAT(TD_ARG_STR, &given.repeat),
    {"timeout", 't', TD_ARG_STR, &given.timeout, "S",
     "the longest wait for an answer, and for a model to load (default 600; --smoke: 300)",
     0, 0},
    {"rounds", 0, TD_ARG_I64, &given.rounds, "N",
     "rounds of both servers with --baseline-server (default 17, up to 64 where their times vary; without lane speed 3)", 1, TD_GATE_MAX_ROUNDS},
    TD_REPLAY_API(TD_ARG_STR, &given.api),
    TD_REPLAY_HEADER(TD_ARG_LIST, &given.headers),
    TD_REPLAY_SHOW_HEADER(TD_ARG_LIST, &given.show_headers),
    TD_REPLAY_REDACT_HEADER(TD_ARG_LIST, &given.redact_headers),
    TD_REPLAY_ALLOW_PATH(TD_ARG_LIST, &given.allow_paths),
    TD_REPLAY_MAX_BODY(TD_ARG_I64, &given.max_body_mib),
    TD_REPLAY_ONLY(TD_ARG_LIST, &given.only),
    TD_REPLAY_MAX_OPS(TD_ARG_STR, &given.max_ops),
    TD_REPLAY_TIME(&given.time),
    TD_REPLAY_PLAN(&given.plan),
    TD_REPLAY_CACHE(&given.cache),
    TD_REPLAY_CACHE_SIZE(&given.cache_size),
    TD_REPLAY_OP_REPEAT(TD_ARG_STR, &given.op_repeat, 0),
    TD_REPLAY_REFERENCE(TD_ARG_STR, &given.reference),
    TD_REPLAY_DEADLINE(TD_ARG_STR, &given.deadline),
    {"smoke", 0, TD_ARG_FLAG, &given.smoke, NULL,
     "no fixture: does --server answer four kinds of prompt soundly?", 0, 0},
    {"verbose", 'v', TD_ARG_FLAG, &given.out.verbose, NULL, "show forks, collapses, groups of ops, speed, limits",
     0, 0},
    {NULL, 0, TD_ARG_FLAG, NULL, NULL, NULL, 0, 0},
};

static const struct td_arg_env environment[] = {
    {"TMPDIR", "where replays and unpacked packs go until the verdict is known (default /tmp)"},
    {"TD_*", "what {replay} --help lists"},
    {NULL, NULL},
};

static struct td_args args = {
    .program = "gate",
    .usage = "{gate} FIXTURE|FOLDER ... --server HOST:PORT [--build PATH] [options]\n"
             "{gate} --smoke --server HOST:PORT",
    .about = "The pre-merge gate: replay recordings on a new server, a new build of the kernels, "
             "or both, and compare. "
             "The last line is the verdict. Exit: 0 pass, 1 regressed, 3 inconclusive, 4 broken, "
             "2 usage.",
    .table = OPTIONS,
    .examples =
        "  {gate} fixtures/qwen --server localhost:8000 --build lib/libtdkernels.so\n"
        "  {gate} fixtures/qwen --build new/libtdkernels.so --baseline-build old/libtdkernels.so\n"
        "  {gate} fixtures/qwen --server localhost:8001 --baseline-server localhost:8000\n"
        "  {gate} fixtures/llama --server localhost:8080 --build llama.cpp/build/bin\n"
        "  {gate} fixtures --server localhost:8000 --wait --junit gate.xml --artifacts failed\n"
        "  {gate} fixtures/qwen --build new/libtdkernels.so --accept \"ticket 12\" "
        "--until 2027-01-31\n"
        "  {gate} --smoke --server localhost:8000\n",
    .environment = environment};

static struct td_error refused; /* the usage error that was printed */

static int usage_error(const char *sentence)
{
    char text[480];

    td_fail(&refused, TD_EINVAL, "%s", td_invocation_expand(sentence, text, sizeof text));
    td_log(TD_LOG_ERROR, "gate", "%s", refused.msg);
    return TD_EXIT_USAGE;
}

static int check_smoke(const struct td_gate_options *o)
{
    if (!o->server)
        return usage_error("--smoke needs --server HOST:PORT");
    if (o->n_operands)
        return usage_error("--smoke takes no fixture");
    if (o->accept)
        return usage_error("--accept is for fixtures; --smoke has none");
    if (o->metrics_as || o->goodput || o->percentiles)
        return usage_error("--smoke prints no times in other terms: {fixture} stats RECORDING does");
    return 0;
}

/* Do the options fit together? Returns 0, or the exit code with the error printed. */
static int check_usage(const struct td_gate_options *o)
{
    if (!o->accept != !o->until)
        return usage_error("--accept REASON and --until YYYY-MM-DD belong together");
    if (o->keep && o->artifacts)
        return usage_error("--keep and --artifacts both keep the replays; give one");
    if (o->smoke)
        return check_smoke(o);
    if (!o->n_operands)
        return usage_error("which fixture? {gate} FIXTURE --server HOST:PORT or --build PATH "
                           "({record} makes one)");
    if (!o->server && !o->build && !o->provider)
        return usage_error(
            "what is to be judged? name a candidate: --server HOST:PORT, --build PATH, or both");
    if (o->baseline_server && !o->server)
        return usage_error("--baseline-server is compared with the candidate's --server");
    if (o->baseline_build && !o->build && !o->provider)
        return usage_error("--baseline-build is compared with the candidate's --build");
    if (o->fail_on == TD_FAIL_ON_SLOWER && !o->baseline_build && !o->baseline_server)
        return usage_error("--fail-on slower: nothing tells how fast the old build is; give "
                           "--baseline-build PATH, or --baseline-server HOST:PORT");
    return 0;
}

static int read_fail_on(enum td_fail_on *out)
{
    static const char *const NAMES[] = {"any", "wrong", "slower"};
    char sentence[300];
    size_t i;

    for (i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (!fail_on || strcmp(fail_on, NAMES[i]) == 0) {
            *out = (enum td_fail_on)i;
            return 0;
        }
    snprintf(sentence, sizeof sentence, "--fail-on: \"%.200s\" is none of wrong, slower, any",
             fail_on);
    return usage_error(sentence);
}

const char *td_gate_options_error(void)
{
    return refused.msg;
}

static void note_header_files(void)
{
    int i;

    for (i = 0; i < given.headers.n; i++)
        if (given.headers.item[i][0] == '@')
            given.header_files.item[given.header_files.n++] = given.headers.item[i] + 1;
}

/* Nothing is printed or reported of what may be a key. */
static int hide_secrets(const struct td_gate_options *o, struct td_error *err)
{
    int rc = td_header_args_hide(&o->headers, err);

    if (!rc)
        rc = td_header_args_hide_named(o->build_env.item, o->build_env.n, err);
    return rc ? rc : td_header_args_hide_named(o->baseline_env.item, o->baseline_env.n, err);
}

bool td_gate_judges(const struct td_gate_options *o, const char *lane)
{
    const size_t n = strlen(lane);
    const char *p = o->lanes, *end;

    for (; p && *p; p = *end ? end + 1 : end) {
        end = strchrnul(p, ',');
        if ((size_t)(end - p) == n && !strncmp(p, lane, n))
            return true;
    }
    return !o->lanes;
}

/* How many rounds there are. */
static void choose_rounds(void)
{
    if (!given.baseline_server)
        given.rounds = 1;
    else if (given.rounds == 0 && !td_gate_judges(&given, "speed"))
        given.rounds = ROUNDS_WITHOUT_SPEED;
    given.most_rounds = given.rounds;
    if (given.rounds == 0) {
        given.rounds = ROUNDS;
        given.most_rounds = MOST_ROUNDS;
    }
}

int td_gate_options_read(struct td_gate_options *o, int argc, char **argv)
{
    struct td_error err = {0, ""};
    int rc = td_header_args_hide_named((const char *const *)argv, argc, &err);

    if (!rc)
        rc = td_args_parse(&args, argc, argv, &err);
    if (rc)
        return rc > 0 ? TD_EXIT_OK : usage_error(err.msg);
    given.operand = args.rest;
    given.n_operands = args.n_rest;
    note_header_files();
    if (td_header_file_expand(&given.headers, &err) || hide_secrets(&given, &err))
        return usage_error(err.msg);
    rc = read_fail_on(&given.fail_on);
    if (!rc && !given.explain_policy)
        rc = check_usage(&given);
    if (rc)
        return rc;
    choose_rounds();
    given.out.colour = td_log_colour(1);
    given.out.quiet = td_log_quiet();
    *o = given;
    return -1;
}
