/* main.c - the program `gate`: replay a recording on a new build, compare, and end with one line
 * and an exit code.
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/args.h"
#include "common/fs.h"
#include "common/log.h"
#include "gate/run.h"

#define MAX_ROUNDS 16

struct gate {
    const char *fixture, *server, *baseline_server, *build, *baseline_build, *provider, *checkpoint;
    const char *lanes, *policy, *json, *junit, *keep, *timing, *repeat, *api, *timeout, *max_ops,
        *op_repeat, *deadline;
    struct td_arg_list calibrate, headers, only, build_env, baseline_env;
    int64_t rounds;
    bool smoke, verbose;
    char folder[TD_PATH_MAX];                                        /* where the replays go */
    char replayed[MAX_ROUNDS][TD_PATH_MAX], live[MAX_ROUNDS][TD_PATH_MAX];
    char replayed_words[32];
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
    (void)sig;
    stop = 1;
}

/* Print the last line for a gate that could not reach a verdict, and return its exit code. */
static int print_broken(const struct gate *g, const char *cause)
{
    fflush(stderr);
    if (g->smoke)
        printf("smoke: failed: %s\n", cause);
    else
        printf("verdict: broken cause=\"%s\"\n", cause);
    return TD_EXIT_BROKEN;
}

static int usage_error(const char *sentence)
{
    td_log(TD_LOG_ERROR, "gate", "%s", sentence);
    return TD_EXIT_USAGE;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Run one program to its end. Returns 0: it did its work; else the exit code of gate, with
 * everything printed. */
static int run_program(const struct gate *g, struct td_command *c, const char *what)
{
    struct td_outcome out;
    struct td_error err = {0, ""};
    char cause[700];

    if (td_run(c, false, &stop, &out, &err))
        return print_broken(g, err.msg);
    if (out.exited && out.code == TD_EXIT_OK)
        return 0;
    if (out.exited && out.code == TD_EXIT_USAGE) /* it printed why */
        return TD_EXIT_USAGE;
    snprintf(cause, sizeof cause, "%s: %s", what, *out.cause ? out.cause : out.ended);
    return print_broken(g, cause);
}

static void add_list(struct td_command *c, const char *option, const struct td_arg_list *list)
{
    int i;

    for (i = 0; i < list->n; i++)
        td_command_opt(c, option, list->item[i]);
}

/* Replay the requests on `server` (NULL: none) and, when with_ops, the ops on the build. */
static int replay(struct gate *g, const char *server, bool with_ops, const char *output,
                  const char *what)
{
    struct td_command c;
    struct td_error err = {0, ""};

    if (td_command_init(&c, "replay", &err))
        return print_broken(g, err.msg);
    td_command_add(&c, g->fixture);
    td_command_opt(&c, "-o", output);
    if (server) {
        td_command_opt(&c, "--server", server);
        td_command_opt(&c, "--api", g->api);
        td_command_opt(&c, "--timing", g->timing);
        td_command_opt(&c, "--repeat", g->repeat);
        td_command_opt(&c, "--timeout", g->timeout);
        add_list(&c, "--header", &g->headers);
    }
    if (with_ops) {
        td_command_opt(&c, "--build", g->build);
        td_command_opt(&c, "--baseline-build", g->baseline_build);
        td_command_opt(&c, "--provider", g->provider);
        td_command_opt(&c, "--checkpoint", g->checkpoint);
        td_command_opt(&c, "--max-ops", g->max_ops);
        td_command_opt(&c, "--op-repeat", g->op_repeat);
        td_command_opt(&c, "--deadline", g->deadline);
        add_list(&c, "--only", &g->only);
        add_list(&c, "--build-env", &g->build_env);
        add_list(&c, "--baseline-env", &g->baseline_env);
    }
    return run_program(g, &c, what);
}

static int path_in(const struct gate *g, char *out, const char *name, int round)
{
    return snprintf(out, TD_PATH_MAX, "%s/%s-%d", g->folder, name, round) < TD_PATH_MAX
               ? 0
               : TD_EXIT_BROKEN;
}

/* With a baseline server the two take turns, so that a change of the machine's speed hits both. */
static int replay_all(struct gate *g)
{
    bool ops = g->build || g->provider;
    int round, rc = 0;

    for (round = 0; round < g->rounds && !rc; round++) {
        if (path_in(g, g->replayed[round], "candidate", round) ||
            path_in(g, g->live[round], "baseline", round))
            return print_broken(g, "the path of the temporary folder is too long");
        if (g->baseline_server)
            rc = replay(g, g->baseline_server, false, g->live[round],
                        "replay on the baseline server");
        if (!rc)
            rc = replay(g, g->server, ops && round == 0, g->replayed[round], "replay");
    }
    return rc;
}

/* What was replayed, in the words of `differ --replayed`: differ knows which lanes judge it. */
static const char *replayed_words(struct gate *g)
{
    const bool ops = g->build || g->provider;

    snprintf(g->replayed_words, sizeof g->replayed_words, "%s%s%s", g->server ? "answers" : "",
             ops ? g->server ? ",ops" : "ops" : "",
             g->baseline_server || g->baseline_build ? ",pairs" : "");
    return g->replayed_words;
}

/* Run differ. Its report goes to our stdout, and its verdict line is the last one. */
static int compare(struct gate *g)
{
    struct td_command c;
    struct td_outcome out;
    struct td_error err = {0, ""};
    char cause[700];
    int round;

    if (td_command_init(&c, "differ", &err))
        return print_broken(g, err.msg);
    td_command_add(&c, g->fixture);
    td_command_add(&c, g->replayed[0]);
    for (round = 1; round < g->rounds; round++)
        td_command_opt(&c, "--new", g->replayed[round]);
    for (round = 0; g->baseline_server && round < g->rounds; round++)
        td_command_opt(&c, "--baseline-live", g->live[round]);
    if (g->lanes)
        td_command_opt(&c, "--lanes", g->lanes);
    else
        td_command_opt(&c, "--replayed", replayed_words(g));
    td_command_opt(&c, "--policy", g->policy);
    td_command_opt(&c, "--json", g->json);
    td_command_opt(&c, "--junit", g->junit);
    add_list(&c, "--calibrate", &g->calibrate);
    if (g->verbose)
        td_command_add(&c, "--verbose");
    if (td_run(&c, true, &stop, &out, &err))
        return print_broken(g, err.msg);
    if (out.exited && out.code >= 0 && out.code <= TD_EXIT_BROKEN)
        return out.code;
    snprintf(cause, sizeof cause, "differ: %s", *out.cause ? out.cause : out.ended);
    return print_broken(g, cause);
}

/* Have differ check --policy and --lanes, so that a typing error is found before the replay. */
static int check_options(struct gate *g)
{
    struct td_command c;
    struct td_error err = {0, ""};
    int i;

    for (i = 0; i < g->calibrate.n; i++)
        if (!td_fs_is_dir(g->calibrate.item[i])) {
            td_log(TD_LOG_ERROR, "gate",
                   "--calibrate %s: no such fixture; gate --keep DIR keeps a replay",
                   g->calibrate.item[i]);
            return TD_EXIT_USAGE;
        }
    if (!g->policy && !g->lanes)
        return 0;
    if (td_command_init(&c, "differ", &err))
        return print_broken(g, err.msg);
    td_command_add(&c, "--check-options");
    td_command_opt(&c, "--policy", g->policy);
    td_command_opt(&c, "--lanes", g->lanes);
    return run_program(g, &c, "differ");
}

static bool has_manifest(const char *fixture)
{
    char path[TD_PATH_MAX];

    return !td_fs_join(path, sizeof path, fixture, "manifest.json", NULL) && td_fs_exists(path);
}

static int run_smoke(struct gate *g)
{
    struct td_command c;
    struct td_outcome out;
    struct td_error err = {0, ""};
    char suite[TD_PATH_MAX], dir[TD_PATH_MAX], cause[700];

    if (td_command_init(&c, "record", &err) || td_fs_self_dir(dir, sizeof dir, &err))
        return print_broken(g, err.msg);
    if (td_fs_join(suite, sizeof suite, dir, "../fixtures/suites/smoke.jsonl", &err))
        return print_broken(g, err.msg);
    if (!td_fs_exists(suite)) /* a program under build/san/bin */
        td_fs_join(suite, sizeof suite, dir, "../../../fixtures/suites/smoke.jsonl", &err);
    if (path_in(g, g->replayed[0], "smoke", 0))
        return print_broken(g, "the path of the temporary folder is too long");
    td_command_opt(&c, "--server", g->server);
    td_command_opt(&c, "--suite", suite);
    td_command_opt(&c, "--repeat", "1");
    td_command_opt(&c, "--gemms", "off");
    td_command_opt(&c, "--scores", "off");
    td_command_opt(&c, "--timeout", g->timeout);
    td_command_opt(&c, "--api", g->api);
    add_list(&c, "--header", &g->headers);
    td_command_opt(&c, "-o", g->replayed[0]);
    if (td_run(&c, false, &stop, &out, &err))
        return print_broken(g, err.msg);
    if (out.exited && out.code == TD_EXIT_USAGE) /* it printed why */
        return TD_EXIT_USAGE;
    if ((!out.exited || out.code != TD_EXIT_OK) && !has_manifest(g->replayed[0])) {
        snprintf(cause, sizeof cause, "record: %s", *out.cause ? out.cause : out.ended);
        return print_broken(g, cause);
    } /* the server was reached, but no request succeeded: differ reports that */
    if (td_command_init(&c, "differ", &err))
        return print_broken(g, err.msg);
    td_command_opt(&c, "--smoke", g->replayed[0]);
    if (g->verbose)
        td_command_add(&c, "--verbose");
    if (td_run(&c, true, &stop, &out, &err))
        return print_broken(g, err.msg);
    return out.exited && out.code >= 0 ? out.code : print_broken(g, out.ended);
}

/* ---- the folder ------------------------------------------------------------------------------ */

static int make_folder(struct gate *g, struct td_error *err)
{
    const char *tmp = getenv("TMPDIR");

    if (g->keep) {
        snprintf(g->folder, sizeof g->folder, "%s", g->keep);
        if (td_fs_exists(g->keep))
            return td_fail(err, TD_EEXIST, "--keep %s: exists already; name a new folder", g->keep);
        return td_fs_mkdirs(g->keep, err);
    }
    snprintf(g->folder, sizeof g->folder, "%s/tapedeck-gate-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(g->folder))
        return td_fail(err, TD_EIO,
                       "%s: cannot make a temporary folder (set TMPDIR, or use --keep DIR)",
                       g->folder);
    return TD_OK;
}

/* Do the options fit together? Returns 0, or the exit code with the error printed. */
static int check_usage(const struct gate *g, int operands)
{
    if (g->smoke)
        return !g->server ? usage_error("--smoke needs --server HOST:PORT")
               : operands ? usage_error("--smoke takes no fixture")
                          : 0;
    if (operands != 1)
        return usage_error(operands ? "one fixture at a time"
                                    : "which fixture? gate FIXTURE --server HOST:PORT or --build "
                                      "PATH (record makes one)");
    if (!g->server && !g->build && !g->provider)
        return usage_error(
            "what is to be judged? name a candidate: --server HOST:PORT, --build PATH, or both");
    if (g->baseline_server && !g->server)
        return usage_error("--baseline-server is compared with the candidate's --server");
    if (g->baseline_build && !g->build && !g->provider)
        return usage_error("--baseline-build is compared with the candidate's --build");
    return 0;
}

static int run_gate(struct gate *g)
{
    struct td_error err = {0, ""};
    int code;

    if (!g->smoke && !td_fs_is_dir(g->fixture)) {
        snprintf(err.msg, sizeof err.msg,
                 "%.300s: no such fixture; record makes one: record --server HOST:PORT",
                 g->fixture);
        td_log(TD_LOG_ERROR, "gate", "%s", err.msg);
        return print_broken(g, err.msg);
    }
    code = check_options(g);
    if (code)
        return code;
    if (make_folder(g, &err)) {
        td_log(TD_LOG_ERROR, "gate", "%s", err.msg);
        return err.code == TD_EEXIST ? TD_EXIT_USAGE : print_broken(g, err.msg);
    }
    if (g->smoke) {
        code = run_smoke(g);
    } else {
        code = replay_all(g);
        if (!code)
            code = compare(g);
    }
    if (!g->keep)
        td_fs_remove_tree(g->folder, &err);
    return code;
}

static struct gate gate;

static const struct td_arg OPTIONS[] = {
    {"server", 0, TD_ARG_STR, &gate.server, "HOST:PORT",
     "the candidate's server: replay the requests on it", 0, 0},
    {"baseline-server", 0, TD_ARG_STR, &gate.baseline_server, "HOST:PORT",
     "the baseline's server: both take turns, and speed is judged", 0, 0},
    {"build", 0, TD_ARG_STR, &gate.build, "PATH",
     "the candidate's kernels (a library, a folder of ggml's, a venv with vLLM, a .fatbin, "
     ".cubin or .hsaco): replay the recorded ops with it",
     0, 0},
    {"baseline-build", 0, TD_ARG_STR, &gate.baseline_build, "PATH",
     "the baseline's kernels: errors and speed are compared side by side", 0, 0},
    {"build-env", 0, TD_ARG_LIST, &gate.build_env, "N=V",
     "an environment variable for the build (may be repeated)", 0, 0},
    {"baseline-env", 0, TD_ARG_LIST, &gate.baseline_env, "N=V",
     "an environment variable for the baseline's build (may be repeated)", 0, 0},
    {"provider", 0, TD_ARG_STR, &gate.provider, "NAME",
     "the provider that runs the ops; replay --help lists them (default: detected)", 0, 0},
    {"checkpoint", 0, TD_ARG_STR, &gate.checkpoint, "DIR", "where the model's checkpoint is now",
     0, 0},
    {"lanes", 0, TD_ARG_STR, &gate.lanes, "LIST",
     "the lanes to judge: differ --help lists them (default: those that fit what is named above)",
     0, 0},
    {"policy", 0, TD_ARG_STR, &gate.policy, "FILE", "thresholds, as JSON (docs/verdicts.md)",
     0, 0},
    {"calibrate", 0, TD_ARG_LIST, &gate.calibrate, "DIR",
     "a replay of an honest build: its forks are noise (may be repeated)", 0, 0},
    {"json", 0, TD_ARG_STR, &gate.json, "FILE", "write the full report as JSON", 0, 0},
    {"junit", 0, TD_ARG_STR, &gate.junit, "FILE", "write the report as JUnit XML", 0, 0},
    {"keep", 0, TD_ARG_STR, &gate.keep, "DIR", "keep the replays in this new folder", 0, 0},
    {"timing", 0, TD_ARG_STR, &gate.timing, "HOW",
     "when requests are sent: asap (default), recorded, xN", 0, 0},
    {"repeat", 0, TD_ARG_STR, &gate.repeat, "K", "repeats of each request (default: as recorded)",
     0, 0},
    {"timeout", 0, TD_ARG_STR, &gate.timeout, "S",
     "the longest wait for an answer, and for a model to load (default 600; --smoke: 300)",
     0, 0},
    {"rounds", 0, TD_ARG_I64, &gate.rounds, "N",
     "rounds of both servers with --baseline-server (default 3)", 1, MAX_ROUNDS},
    {"api", 0, TD_ARG_STR, &gate.api, "KIND",
     "dialect of the servers: vllm, openai, llamacpp, sglang (default: detected)", 0, 0},
    {"header", 0, TD_ARG_LIST, &gate.headers, "K:V",
     "send this header with every request (may be repeated)", 0, 0},
    {"only", 0, TD_ARG_LIST, &gate.only, "PATTERN",
     "only ops whose layer or kernel matches (may be repeated)", 0, 0},
    {"max-ops", 0, TD_ARG_STR, &gate.max_ops, "N", "replay at most N ops, a fair sample", 0, 0},
    {"op-repeat", 0, TD_ARG_STR, &gate.op_repeat, "N",
     "run each op N times, to find results that vary", 0, 0},
    {"deadline", 0, TD_ARG_STR, &gate.deadline, "S",
     "an op that runs longer counts as hung (default 20)", 0, 0},
    {"smoke", 0, TD_ARG_FLAG, &gate.smoke, NULL,
     "no fixture: does --server answer four kinds of prompt soundly?", 0, 0},
    {"verbose", 'v', TD_ARG_FLAG, &gate.verbose, NULL, "show every fork, collapse and op", 0, 0},
    {NULL, 0, TD_ARG_FLAG, NULL, NULL, NULL, 0, 0},
};

/* Read the command line into g. Returns -1: go on; else the exit code, with help or the error
 * printed. */
static int read_options(struct gate *g, int argc, char **argv)
{
    struct td_error err = {0, ""};
    struct td_args args = {
        .program = "gate",
        .usage = "gate FIXTURE --server HOST:PORT [--build PATH] [options] | gate --smoke --server "
                 "HOST:PORT",
        .about = "The pre-merge gate: replay a recording on a new server, a new build of the "
                 "kernels, or both, and compare.\n"
                 "The last line is the verdict. Exit: 0 pass, 1 regressed, 3 inconclusive, 4 "
                 "broken, 2 usage.",
        .table = OPTIONS,
        .examples =
            "  gate fixtures/qwen --server localhost:8000 --build lib/libtdkernels.so\n"
            "  gate fixtures/qwen --build new/libtdkernels.so --baseline-build "
            "old/libtdkernels.so\n"
            "  gate fixtures/qwen --server localhost:8001 --baseline-server localhost:8000\n"
            "  gate fixtures/llama --server localhost:8080 --build llama.cpp/build/bin\n"
            "  gate fixtures/vllm --build new-venv/bin/python --baseline-build venv/bin/python\n"
            "  gate --smoke --server localhost:8000\n"};
    int rc = td_args_parse(&args, argc, argv, &err);

    if (rc)
        return rc > 0 ? TD_EXIT_OK : usage_error(err.msg);
    rc = check_usage(g, args.n_rest);
    if (rc)
        return rc;
    g->fixture = args.rest[0];
    if (!g->baseline_server)
        g->rounds = 1;
    else if (g->rounds == 0)
        g->rounds = 3;
    return -1;
}

int main(int argc, char **argv)
{
    struct sigaction sa = {.sa_handler = on_signal};
    int rc;

    td_log_program("gate");
    rc = read_options(&gate, argc, argv);
    if (rc >= 0)
        return rc;
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
    return run_gate(&gate);
}
