/* main.c - replay: the requests of a recording on a server, its ops on a build.
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fixture_folders.h"
#include "common/fixture_lock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/memory.h"
#include "common/outside_fixtures.h"
#include "common/proc.h"
#include "common/streams.h"
#include "common/replay_args.h"
#include "format/fixture_folder.h"
#include "format/header_args.h"
#include "format/own_files.h"
#include "kernels/providers/providers.h"
#include "replayer/build_detect.h"
#include "replayer/fixture_replay.h"
#include "replayer/own_json.h"
#include "replayer/replay_beside.h"
#include "replayer/reference_fill.h"
#include "replayer/summary.h"
#include "replayer/list_kernels.h"
#include "wire/allowed_requests.h"

#define NOT_GIVEN (-1)
#define MAX_OPS 20000
#define PROVIDER_NAMES 120             /* bytes for a list of providers */

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
    stop = sig;
}

/* ---- one fixture, or a folder of them -------------------------------------------------------- */

/* Ops were to be run, and not one came as far as its kernel, as when the build has no such kernel. Of a shard
 * that says little. */
static bool ran_nothing(const struct td_replay_options *opt, const struct td_fixture_replay_result *r)
{
    return opt->shard.of <= 1 && r->did_ops && r->ops.replayed && !r->ops.came_to_run;
}

/* TD_EIO: the summary could not be printed. The replay is none the worse; gate, which reads it, takes
 * the summary for a message. */
static int flush_summary(const struct td_replay_options *opt, const char *path)
{
    char what[TD_PATH_MAX + 80];
    struct td_error err = {0};

    snprintf(what, sizeof what, "the summary of %s, which is replayed", path);
    if (!td_stream_flush(stdout, what, &err) || opt->for_differ)
        return TD_OK;
    td_log(TD_LOG_ERROR, "replay", "%s", err.msg);
    return err.code;
}

static bool driver_hangs; /* the GPU's, in a thread of this process */

static int replay_one(const char *dir, const char *output, const struct td_replay_options *opt)
{
    struct td_fixture_replay_result res;
    struct td_error err = {0};
    int rc = td_fixture_replay(dir, output, opt, &res, &err), unread = TD_OK;

    driver_hangs = driver_hangs || res.ops.driver_hangs;
    if (rc)
        td_log(TD_LOG_ERROR, "replay", "%s", err.code ? err.msg : td_code_name(rc));
    if (rc == TD_OK || rc == TD_EINTR) {
        td_summary_print(opt, &res);
        unread = flush_summary(opt, res.path);
    }
    if (!rc && !opt->for_differ && ran_nothing(opt, &res)) {
        rc = TD_EUNSUPPORTED;
        td_log(TD_LOG_ERROR, "replay", "%s: no op could run, none of %lld came as far as its kernel (%s)", dir,
               (long long)res.ops.replayed, res.ops.refusal);
    }
    td_fixture_replay_result_release(&res);
    return rc == TD_EINTR && stop ? 128 + stop : td_exit_code(rc ? rc : unread);
}

/* The exit code that counts: a usage error outranks a failure, which outranks success. */
static int worse_exit(int a, int b)
{
    return a == TD_EXIT_USAGE || b == TD_EXIT_USAGE ? TD_EXIT_USAGE : a > b ? a : b;
}

/* The folder of a fixture's replay: "monday" of "all/monday.tdz". */
static int name_output(char *out, const char *folder, const char *fixture)
{
    const char *slash = strrchr(fixture, '/'), *last = slash ? slash + 1 : fixture;
    const size_t stem = td_fixture_pack_stem(last);
    char name[TD_PATH_MAX];

    snprintf(name, sizeof name, "%.*s", (int)(stem ? stem : strlen(last)), last);
    return td_fs_join(out, TD_PATH_MAX, folder, name, NULL);
}

/* Replay every fixture below `dir`, also after one has failed. One whose manifest is lost
 * fails, and is named. */
static int replay_folder(const char *dir, const struct td_replay_options *opt)
{
    struct td_fixture_folders found = {0};
    struct td_replay_options each = *opt;
    struct td_error err = {0};
    int code = TD_EXIT_OK;
    size_t i;

    if (td_fixture_folders_add(&found, dir, &err)) {
        td_log(TD_LOG_ERROR, "replay", "%s", err.msg);
        code = TD_EXIT_BROKEN;
    } else if (found.n == 1 && !strcmp(found.path[0], dir)) {
        if (!td_own_folder(dir, TD_ENOTFOUND, &err))
            td_fail(&err, TD_ENOTFOUND, "%s: neither a fixture nor a folder that holds some (no manifest.json); "
                    "`{fixture} repair %s` helps when the recording was killed", dir, dir);
        td_log(TD_LOG_ERROR, "replay", "%s", err.msg);
        code = TD_EXIT_BROKEN;
    } else {
        td_fixture_folders_say(&found, "replay");
        for (i = 0; i < found.n && !stop; i++) {
            char to[TD_PATH_MAX];

            if (opt->output && name_output(to, opt->output, found.path[i]))
                continue;
            if (!td_log_quiet())
                printf("%s%s\n", i ? "\n" : "", found.path[i]);
            if (driver_hangs && opt->reference == TD_REFERENCE_AUTO)
                each.reference = TD_REFERENCE_CPU;
            code = worse_exit(code, replay_one(found.path[i], opt->output ? to : NULL, &each));
        }
    }
    td_fixture_folders_release(&found);
    return code;
}

/* ---- command line ---------------------------------------------------------------------------- */

static int check_env(const char *option, const struct td_arg_list *env, struct td_error *err)
{
    int i;

    for (i = 0; i < env->n; i++)
        if (env->item[i][0] == '=' || !strchr(env->item[i], '='))
            return td_fail(err, TD_EINVAL, "--%s: the value of number %d is not NAME=VALUE; it is not shown, for it may be a key",
                           option, i + 1);
    if (env->n == TD_ARG_LIST_MAX)
        return td_fail(err, TD_EINVAL, "--%s: at most %d of them", option, TD_ARG_LIST_MAX - 1);
    return TD_OK;
}

/* Our own providers need no build, the others run what --build names. */
static int check_provider(const struct td_replay_options *o, struct td_error *err)
{
    bool own = o->provider && td_build_own_provider(o->provider);
    bool of_builds = o->provider && td_provider_name_find(o->provider, strlen(o->provider), TD_PROVIDER_OF_BUILD);
    char ours[PROVIDER_NAMES], others[PROVIDER_NAMES];

    if (o->provider && !own && !of_builds)
        return td_fail(err, TD_EINVAL,
                       "--provider: \"%s\" is none of %s (our own kernels), %s (of --build)",
                       o->provider, td_provider_names(TD_PROVIDER_OURS, ours, sizeof ours),
                       td_provider_names(TD_PROVIDER_OF_BUILD, others, sizeof others));
    if (own && o->build)
        return td_fail(err, TD_EINVAL, "--build and --provider %s both name the candidate; give one", o->provider);
    if (of_builds && !o->build)
        return td_fail(err, TD_EINVAL, "--provider %s runs a build; name it with --build", o->provider);
    return TD_OK;
}

static int check_allow_paths(const struct td_arg_list *paths, struct td_error *err)
{
    int i, rc = TD_OK;

    for (i = 0; i < paths->n && !rc; i++)
        rc = td_allowed_path_check(paths->item[i], err);
    return rc;
}

/* --as NAME is TD_OPERATOR=NAME for the build. */
static int set_operator(struct td_replay_options *o, struct td_error *err)
{
    static char variable[160] = "TD_OPERATOR=";
    const size_t n = o->as ? strlen(o->as) : 0;
    int i;

    if (!o->as)
        return TD_OK;
    if (!o->build)
        return td_fail(err, TD_EINVAL, "--as names an operator of --build, which is not given");
    if (!n || n > 120 ||
        strspn(o->as, strstr(o->as, "::") ? "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:."
                                          : "abcdefghijklmnopqrstuvwxyz0123456789_") != n)
        return td_fail(err, TD_EINVAL, "--as: \"%.60s\" is no name of an operator", o->as);
    for (i = 0; i < o->build_env.n; i++)
        if (!strncmp(o->build_env.item[i], variable, strlen(variable)))
            return td_fail(err, TD_EINVAL, "--as and --build-env %s both name an operator", variable);
    if (o->build_env.n == TD_ARG_LIST_MAX)
        return td_fail(err, TD_EINVAL, "--as: there are too many --build-env");
    strcat(variable, o->as);
    o->build_env.item[o->build_env.n++] = variable;
    return TD_OK;
}

static int check_options(struct td_replay_options *o, const char *shard, const char *timing,
                         const char *guard, const char *op_timing, const char *scores, const char *reference,
                         struct td_error *err)
{
    if (shard && td_shard_parse(shard, &o->shard, err))
        return err->code;
    if (strcmp(o->connections, "as-recorded") && strcmp(o->connections, "pooled") && strcmp(o->connections, "never"))
        return td_fail(err, TD_EINVAL, "--connections %.40s: give as-recorded, pooled or never", o->connections);
    if (td_timing_parse(timing, &o->speed, err))
        return err->code;
    if (strcmp(guard, "on") && strcmp(guard, "off"))
        return td_fail(err, TD_EINVAL, "--guard: \"%s\" is neither on nor off", guard);
    o->guard = !strcmp(guard, "on");
    if (strcmp(op_timing, "on") && strcmp(op_timing, "off"))
        return td_fail(err, TD_EINVAL, "--op-timing: \"%s\" is neither on nor off", op_timing);
    o->op_timing = !strcmp(op_timing, "on");
    if (strcmp(scores, "on") && strcmp(scores, "off"))
        return td_fail(err, TD_EINVAL, "--scores: \"%s\" is neither on nor off", scores);
    o->scores = !strcmp(scores, "on");
    if (td_reference_choice_parse(reference, &o->reference, err))
        return err->code;
    if (check_env("build-env", &o->build_env, err) || check_env("baseline-env", &o->baseline_env, err))
        return err->code;
    if (set_operator(o, err))
        return err->code;
    if (o->baseline_env.n && !o->baseline_build)
        return td_fail(err, TD_EINVAL, "--baseline-env is for --baseline-build, which is not given");
    if (o->ops && td_own_json_variable(o->ops, &o->ops_variable, err))
        return err->code;
    if (td_header_args_check(&o->headers, &o->show_headers, &o->redact_headers, err))
        return err->code;
    if (check_provider(o, err) || check_allow_paths(&o->allow_paths, err))
        return err->code;
    o->names_target = o->server || o->build || o->baseline_build || o->provider;
    return TD_OK;
}

/* A plan says by itself which ops. */
static int check_plan(struct td_replay_options *o, const char *time, struct td_error *err)
{
    if (o->plan && (o->max_ops != NOT_GIVEN || o->only.n))
        return td_fail(err, TD_EINVAL, "--plan says which ops are replayed; --only and --max-ops do not go with it");
    if (o->max_ops == NOT_GIVEN)
        o->max_ops = o->plan ? 0 : MAX_OPS;
    return td_time_parse(time, &o->time_s, err);
}

/* Nothing is printed of what may be a key. */
static int hide_secrets(const struct td_replay_options *o, struct td_error *err)
{
    int rc = td_header_args_hide(&o->headers, err);

    if (!rc)
        rc = td_header_args_hide_named(o->build_env.item, o->build_env.n, err);
    return rc ? rc : td_header_args_hide_named(o->baseline_env.item, o->baseline_env.n, err);
}

static int check_listing(const struct td_replay_options *o, const struct td_args *args, struct td_error *err)
{
    if (o->names_target || o->output || args->command)
        return td_fail(err, TD_EINVAL,
                       "--kernels only lists the kernels of a file; it takes words to search for, "
                       "and no options of a replay");
    return TD_OK;
}

static void free_text(char **text)
{
    free(*text);
}

static int fail_usage(const struct td_error *err)
{
    td_log(TD_LOG_ERROR, "replay", "%s", err->msg);
    return TD_EXIT_USAGE;
}

static const char *provider_help(void)
{
    static char help[2 * PROVIDER_NAMES + 80];
    char ours[PROVIDER_NAMES], others[PROVIDER_NAMES];

    snprintf(help, sizeof help, "our own kernels: %s; of a build: %s (default: found out)",
             td_provider_names(TD_PROVIDER_OURS, ours, sizeof ours),
             td_provider_names(TD_PROVIDER_OF_BUILD, others, sizeof others));
    return help;
}

static int run_command_line(int argc, char **argv)
{
    struct td_replay_options o = {.shard = {1, 1},
                                  .connections = "as-recorded",
                                  .op_repeat = 3,
                                  .max_ops = NOT_GIVEN,
                                  .deadline_s = 20,
                                  .timeout_s = 600,
                                  .stop = &stop};
    static const struct td_arg_env environment[] = {
        {"TD_CUDA_KERNEL, TD_HIP_KERNEL", "a part of the name that kernels of a GPU build must have"},
        {"TD_CUDA_LIBRARY, TD_HIP_LIBRARY", "the GPU's driver library to load"},
        {"TD_GPU_PATIENCE", "seconds that the GPU's driver may take for a job of the judge (default 60)"},
        {"TD_CUBLAS_LIBRARY", "the cuBLAS to load; a build needs it when it brings none"},
        {"TD_OPERATOR", "what --as sets for --build"},
        {"TD_OPS_LOAD", "the library to load in place of those that the file of --ops names"},
        {"TD_OPS_ROWS", "set by {replay} itself: what the file of --ops says"},
        {"TD_HIPBLAS_LIBRARY", "the hipBLAS to load"},
        {"TD_NVML_LIBRARY", "the NVML to load, for the GPU's clocks"},
        {"TD_SIMT", "options of a .simt.so build: f32, f16, checkpoint, exllama, seed=N, warp=N"},
        {"TD_KERNEL", "of libtdkernels.so: the variant to run (default: the fastest on this CPU)"},
        {NULL, NULL},
    };
    bool references_only = false;
    const char *shard = NULL, *timing = NULL, *guard = "on", *op_timing = "on",
               *scores = "on", *reference = "auto", *time = "all", *cache_size = "4G", *kernels = NULL;
    const struct td_arg table[] = {
        {"out", 'o', TD_ARG_STR, &o.output, "DIR",
         "the fixture to write (default: fixtures/replay-MODEL-TIME)", 0, 0},
        {"output", 0, TD_ARG_STR, &o.output, "DIR", NULL, 0, 0}, /* its old name */
        {"server", 's', TD_ARG_STR, &o.server, "HOST:PORT",
         "send the recorded requests to this server", 0, 0},
        TD_REPLAY_API(TD_ARG_STR, &o.api),
        TD_REPLAY_SERVED_AS(TD_ARG_STR, &o.served_as),
        TD_REPLAY_WAIT(TD_ARG_MAYBE, &o.wait),
        TD_REPLAY_TIMING(TD_ARG_STR, &timing),
        {"connections", 0, TD_ARG_STR, &o.connections, "as-recorded|pooled|never",
         "keep connections for later requests, or make a new one for each (default as-recorded)", 0, 0},
        TD_REPLAY_REPEAT(TD_ARG_I64, &o.repeat),
        TD_REPLAY_HEADER(TD_ARG_LIST, &o.headers),
        TD_REPLAY_SHOW_HEADER(TD_ARG_LIST, &o.show_headers),
        TD_REPLAY_REDACT_HEADER(TD_ARG_LIST, &o.redact_headers),
        TD_REPLAY_ALLOW_PATH(TD_ARG_LIST, &o.allow_paths),
        {"scores", 0, TD_ARG_STR, &scores, "on|off",
         "have the server score the recorded answers token by token, if the recording has scores "
         "(default on)",
         0, 0},
        TD_REPLAY_MAX_BODY(TD_ARG_I64, &o.max_body_mib),
        {"timeout", 't', TD_ARG_NUM, &o.timeout_s, "S",
         "longest wait for one answer, and for the model to load (default 600)", 0.1, 86400},
        TD_REPLAY_BUILD(TD_ARG_STR, &o.build),
        TD_REPLAY_BASELINE_BUILD(TD_ARG_STR, &o.baseline_build),
        TD_REPLAY_AS(TD_ARG_STR, &o.as),
        TD_REPLAY_BUILD_ENV(TD_ARG_LIST, &o.build_env),
        TD_REPLAY_BASELINE_ENV(TD_ARG_LIST, &o.baseline_env),
        TD_REPLAY_OPS(TD_ARG_STR, &o.ops),
        {"provider", 0, TD_ARG_STR, &o.provider, "NAME", provider_help(), 0, 0},
        TD_REPLAY_ONLY(TD_ARG_LIST, &o.only),
        {"kernel-filter", 0, TD_ARG_LIST, &o.only, "PATTERN", NULL, 0, 0},
        TD_REPLAY_OP_REPEAT(TD_ARG_I64, &o.op_repeat, TD_PROTO_MAX_REPEATS),
        TD_REPLAY_MAX_OPS(TD_ARG_I64, &o.max_ops),
        TD_REPLAY_TIME(&time),
        TD_REPLAY_PLAN(&o.plan),
        TD_REPLAY_CACHE(&o.cache),
        TD_REPLAY_CACHE_SIZE(&cache_size),
        TD_REPLAY_CHECKPOINT(TD_ARG_STR, &o.checkpoint),
        {"guard", 0, TD_ARG_STR, &guard, "on|off",
         "catch accesses beyond a tensor's end by a forbidden page (default on)", 0, 0},
        {"op-timing", 0, TD_ARG_STR, &op_timing, "on|off",
         "time the kernels of --build beside those of --baseline-build (default on)", 0, 0},
        TD_REPLAY_REFERENCE(TD_ARG_STR, &reference),
        TD_REPLAY_DEADLINE(TD_ARG_NUM, &o.deadline_s),
        {"shard", 0, TD_ARG_STR, &shard, "I/N",
         "replay part I of N of the ops; part 1 also sends the requests", 0, 0},
        {"references-only", 0, TD_ARG_FLAG, &references_only, NULL, NULL, 0, 0}, /* of fixture judge */
        {"for-differ", 0, TD_ARG_FLAG, &o.for_differ, NULL, NULL, 0, 0}, /* gate's, as the next three */
        {"beside", 0, TD_ARG_STR, &o.beside, NULL, NULL, 0, 0},
        {"beside-out", 0, TD_ARG_STR, &o.beside_output, NULL, NULL, 0, 0},
        {"begins", 0, TD_ARG_FLAG, &o.begins, NULL, NULL, 0, 0},
        {"kernels", 0, TD_ARG_STR, &kernels, "PATH",
         "list the GPU kernels of a library, fat binary, cubin or code object whose lines hold "
         "every WORD",
         0, 0},
        {NULL, 0, TD_ARG_FLAG, NULL, NULL, NULL, 0, 0},
    };
    struct td_args args = {
        .program = "replay",
        .usage = "{replay} FIXTURE|FOLDER [--server HOST:PORT] [--build PATH] [options]\n{replay} --kernels PATH [WORD ...]",
        .about = "Send the requests of a recording to a server again, and run its ops on a new build, each judged against a "
                 "reference in double precision. Writes a fixture of the same format, for {differ}. Requests are sent to the "
                 "server that --server names, never to the recorded address. Without --server, --build and --provider ops "
                 "are replayed with our own CPU kernels.\n"
                 "A build that crashes or hangs is a result. Exit: 0 done, 2 usage, 4 could not, or no op could run, 130 or 143 after a signal.",
        .table = table,
        .examples = "  {replay} fixtures/tiny --server localhost:8000\n"
                    "  {replay} fixtures/tiny --build new/libtdkernels.so --baseline-build old/libtdkernels.so\n"
                    "  {replay} fixtures/tiny --build new/libtdkernels.so --only down_proj -o fixtures/down\n"
                    "  {replay} fixtures/llama --build new/build/bin --baseline-build old/build/bin\n"
                    "  {replay} fixtures/llama --build venv/lib/python3.11/site-packages/llama_cpp/lib\n"
                    "  {replay} fixtures/vllm --build venv/bin/python\n"
                    "  {replay} --kernels site-packages/vllm/_C_stable_libtorch.abi3.so gptq sm_90\n"
                    "  {differ} fixtures/tiny fixtures/down\n",
        .environment = environment,
    };
    char *rows __attribute__((cleanup(free_text))) = NULL; /* o.ops_variable */
    struct td_error err = {0};
    int rc = td_header_args_hide_named((const char *const *)argv, argc, &err);

    if (!rc)
        rc = td_args_parse(&args, argc, argv, &err);
    if (rc > 0)
        return TD_EXIT_OK;
    if (!rc)
        rc = hide_secrets(&o, &err);
    if (!rc)
        rc = check_options(&o, shard, timing, guard, op_timing, scores, reference, &err);
    if (!rc)
        rc = check_plan(&o, time, &err);
    if (!rc)
        rc = td_cache_size_parse(cache_size, &o.cache_bytes, &err);
    rows = o.ops_variable;
    if (!rc && o.beside && (!o.server || !o.output || !o.beside_output))
        rc = td_fail(&err, TD_EINVAL, "--beside needs --server, --out and --beside-out");
    if (references_only)
        td_log_program("fixture");
    if (!rc && kernels)
        rc = check_listing(&o, &args, &err);
    else if (!rc && (args.n_rest != 1 || args.command))
        rc = td_fail(&err, TD_EINVAL, args.n_rest ? "one fixture or folder at a time ({replay} --help)"
                                                  : "which fixture? {replay} FIXTURE --server HOST:PORT ({replay} --help)");
    if (!rc)
        rc = td_outside_fixtures_option("-o", o.output, &err);
    if (!rc && o.cache && strcmp(o.cache, "off"))
        rc = td_outside_fixtures_folder_option("--cache", o.cache, &err);
    if (rc)
        return fail_usage(&err);
    if (kernels)
        return td_list_kernels(kernels, args.rest, args.n_rest);
    if (td_fixture_lock_check(args.rest[0], &err)) {
        td_log(TD_LOG_ERROR, "replay", "%s", err.msg);
        return td_exit_code(err.code);
    }
    if (references_only)
        return td_reference_fill_run(args.rest[0], &o);
    if (!td_fixture_is(args.rest[0]) && td_fs_is_dir(args.rest[0]))
        return replay_folder(args.rest[0], &o);
    return o.beside ? td_replay_beside(args.rest[0], &o, replay_one) : replay_one(args.rest[0], o.output, &o);
}

int main(int argc, char **argv)
{
    struct sigaction sa = {.sa_handler = on_signal};
    int code;

    td_streams_begin();
    td_memory_begin();
    td_log_program("replay");
    td_proc_catch_file_limit();
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
    code = td_streams_end(run_command_line(argc, argv));
    if (driver_hangs) { /* it may hang in what it does at an exit, too */
        td_fixture_folder_remove_all();
        _exit(code);
    }
    return code;
}
