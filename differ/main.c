/* main.c - the program `differ`: compare a baseline with a candidate, lane by lane, and print
 * the verdict.
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/args.h"
#include "common/invocation.h"
#include "common/log.h"
#include "common/memory.h"
#include "common/out_of_memory.h"
#include "common/proc.h"
#include "common/streams.h"
#include "differ/judge_pair.h"
#include "differ/lanes.h"
#include "differ/pairs.h"
#include "differ/policy_explain.h"
#include "report/report.h"
#include "report/report_unfinished.h"

struct options {
    const char *policy, *terms, *goodput, *percentiles;
    struct td_judge_options judge;
    struct td_report_outputs out;
    bool smoke, check_only, exact, explain_policy;
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    stop = number;
}

static int print_error(const struct td_error *err)
{
    td_log(TD_LOG_ERROR, "diff", "%s", err->msg);
    return td_exit_code(err->code);
}

/* Read the policy, and check the names of the lanes. */
static int read_options(struct options *opt, struct td_error *err)
{
    struct td_lane lanes[TD_N_LANES];
    int rc;

    td_lanes_init(lanes);
    td_policy_default(&opt->judge.policy);
    rc = opt->policy ? td_policy_load(opt->policy, &opt->judge.policy, err) : TD_OK;
    opt->judge.policy_file = opt->policy;
    opt->judge.policy.tokens_exact |= opt->exact;
    if (!rc)
        rc = td_lanes_ask(lanes, opt->judge.lanes, err);
    if (!rc)
        rc = td_lanes_ask_for_replayed(lanes, opt->judge.replayed, err);
    td_lanes_release(lanes);
    opt->judge.terms = opt->terms || opt->goodput || opt->percentiles;
    if (!rc && opt->terms)
        rc = td_dialect_parse(opt->terms, &opt->judge.dialect, err);
    return rc ? rc : td_wanted_read(opt->goodput, opt->percentiles, opt->judge.dialect, &opt->judge.wanted, err);
}

static int explain_policy(const struct td_policy *p)
{
    struct td_buf text = TD_BUF_INIT(1 << 16);

    td_policy_explain(p, &text);
    fputs(td_buf_str(&text), stdout);
    td_buf_release(&text);
    return TD_EXIT_OK;
}

/* ---- judging --------------------------------------------------------------------------------- */

static cJSON *judge(const struct options *opt, const struct td_pair *pair)
{
    const char *named = pair->base ? pair->base : pair->candidate;
    struct td_error interrupted = {0, ""};
    cJSON *report;

    if (pair->why.code)
        return td_judge_broken(named, &pair->why);
    report = stop ? NULL : td_judge_pair(&opt->judge, pair->base, pair->candidate);
    if (!stop)
        return report;
    cJSON_Delete(report);
    td_fail(&interrupted, TD_EINTR, "interrupted by SIG%s", sigabbrev_np(stop));
    return td_judge_broken(named, &interrupted);
}

/* One of several compared nothing: the report of all may have no room for its cause. */
static void say_cause(const cJSON *report)
{
    if (report && !cJSON_IsObject(td_json_get(report, "names")))
        td_log(TD_LOG_ERROR, "diff", "%s", td_json_get_str(report, "cause", "no cause is known"));
}

/* Compare two fixtures, or each pair of two folders, also after one has failed. */
static cJSON *judge_all(const struct options *opt, const char *base, const char *candidate)
{
    struct td_error err = {0, ""};
    struct td_pairs pairs;
    cJSON **reports = NULL, *joined;
    size_t i;
    int rc = td_pairs_find(base, candidate, &pairs, &err);

    if (!rc && !(reports = calloc(pairs.n + 1, sizeof *reports)))
        rc = td_fail(&err, TD_ENOMEM, "out of memory for %zu reports", pairs.n);
    if (rc) {
        td_pairs_release(&pairs);
        return td_judge_broken(base, &err);
    }
    for (i = 0; i < pairs.n; i++) {
        reports[i] = judge(opt, &pairs.pair[i]);
        if (pairs.n > 1)
            say_cause(reports[i]);
    }
    joined = pairs.n == 1 ? reports[0] : td_report_join(reports, pairs.n);
    for (i = 0; i < pairs.n && pairs.n != 1; i++)
        cJSON_Delete(reports[i]);
    free(reports);
    td_pairs_release(&pairs);
    return joined;
}

/* Write the files, print the text, and return the exit code. A file that cannot be written makes
 * the run broken; files_fit: none was refused before. */
static int finish(const struct options *opt, bool files_fit, cJSON *report)
{
    struct td_error err = {0, ""};
    int code;

    if (report && stop)
        cJSON_ReplaceItemInObjectCaseSensitive(report, "exit", cJSON_CreateNumber(128 + stop));
    if (!report || td_out_of_memory_check("differ", &err) ||
        (td_report_write(report, &opt->out, &err) && files_fit)) {
        td_fail(&err, TD_ENOMEM, "out of memory");
        cJSON_Delete(report);
        report = td_judge_broken(NULL, &err);
        if (files_fit)
            td_report_write_over(report, &opt->out);
    }
    code = td_report_show(report, &opt->out, opt->smoke) ? TD_EXIT_BROKEN : td_report_exit(report);
    cJSON_Delete(report);
    return code;
}

/* TD_EINVAL: a report would be written over a fixture or the policy. */
static int spare_inputs(struct options *opt, const struct td_args *args, struct td_error *err)
{
    const struct td_arg_list *const lists[] = {&opt->judge.more, &opt->judge.live,
                                               &opt->judge.calibrate};
    int i, rc = td_report_outputs_spare(&opt->out, opt->policy, err);
    size_t l;

    for (i = 0; i < args->n_rest; i++)
        rc |= td_report_outputs_spare(&opt->out, args->rest[i], err);
    for (l = 0; l < sizeof lists / sizeof lists[0]; l++)
        for (i = 0; i < lists[l]->n; i++)
            rc |= td_report_outputs_spare(&opt->out, lists[l]->item[i], err);
    rc |= td_report_outputs_stay_outside(&opt->out, err);
    return rc ? err->code : TD_OK;
}

static int run_differ(struct options *opt, const struct td_args *args)
{
    struct td_error err = {0, ""};

    if (opt->explain_policy || opt->check_only) {
        if (read_options(opt, &err))
            return print_error(&err);
        return opt->explain_policy ? explain_policy(&opt->judge.policy) : TD_EXIT_OK;
    }
    if (spare_inputs(opt, args, &err) || td_report_outputs_check(&opt->out, &err) ||
        td_report_write_unfinished(TD_DIFFER_TOOL, &opt->out, &err))
        return finish(opt, false, td_judge_broken(NULL, &err));
    if (read_options(opt, &err))
        return finish(opt, true, td_judge_broken(NULL, &err));
    return finish(opt, true,
                  opt->smoke ? td_judge_smoke(args->rest[0])
                             : judge_all(opt, args->rest[0], args->rest[1]));
}

/* ---- command line ---------------------------------------------------------------------------- */

/* How many operands are missing or too many? And do the options go together? */
static int check_operands(const struct options *opt, const struct td_args *args,
                          struct td_error *err)
{
    if (opt->smoke && (opt->terms || opt->goodput || opt->percentiles))
        return td_fail(err, TD_EINVAL, "--smoke prints no times in other terms: {fixture} stats RECORDING does");
    if (opt->check_only || opt->explain_policy || args->n_rest == (opt->smoke ? 1 : 2))
        return TD_OK;
    return opt->smoke ? td_fail(err, TD_EINVAL, "--smoke needs one recording")
                      : td_fail(err, TD_EINVAL,
                                "two fixtures are needed, BASE and NEW; got %d", args->n_rest);
}

static int run_command_line(int argc, char **argv)
{
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    char lanes[TD_LANES_LIST_MAX], lanes_help[TD_LANES_LIST_MAX + 80];
    const char *called_as = argv[0];
    static struct options opt;
    struct td_error err = {0, ""};
    int rc;

    snprintf(lanes_help, sizeof lanes_help,
             "%s: what to judge (default: what there is evidence for)", td_lanes_list(",", lanes));
    const struct td_arg table[] = {
        {"lanes", 0, TD_ARG_STR, &opt.judge.lanes, "LIST", lanes_help, 0, 0},
        /* for gate: by which path it was called, for the commands under NEXT */
        {"called-as", 0, TD_ARG_STR, &called_as, "PATH", NULL, 0, 0},
        /* for gate: its options, for the commands under NEXT */
        {"gate-builds", 0, TD_ARG_STR, &opt.judge.gate_builds, "OPTIONS", NULL, 0, 0},
        {"gate-servers", 0, TD_ARG_STR, &opt.judge.gate_servers, "OPTIONS", NULL, 0, 0},
        /* for gate: ask for the lanes that judge what it replayed */
        {"replayed", 0, TD_ARG_STR, &opt.judge.replayed, "LIST", NULL, 0, 0},
        {"policy", 0, TD_ARG_STR, &opt.policy, "FILE", "thresholds, as JSON (docs/policy.md)", 0,
         0},
        {"exact", 0, TD_ARG_FLAG, &opt.exact, NULL,
         "any token that differs from every repeat of the baseline is a regression", 0, 0},
        {"explain-policy", 0, TD_ARG_FLAG, &opt.explain_policy, NULL,
         "print each threshold: its value, its meaning and its source", 0, 0},
        {"calibrate", 0, TD_ARG_LIST, &opt.judge.calibrate, "DIR",
         "a replay of an honest build: its forks are noise (may be repeated)", 0, 0},
        {"new", 0, TD_ARG_LIST, &opt.judge.more, "DIR",
         "one more round of the candidate (may be repeated)", 0, 0},
        {"baseline-live", 0, TD_ARG_LIST, &opt.judge.live, "DIR",
         "a round of the baseline's live server, which took turns with NEW (may be repeated)", 0,
         0},
        {"json", 0, TD_ARG_STR, &opt.out.json, "FILE",
         "write the full report as JSON (-: standard output)", 0, 0},
        {"junit", 0, TD_ARG_STR, &opt.out.junit, "FILE", "write the report as JUnit XML", 0, 0},
        {"markdown", 0, TD_ARG_STR, &opt.out.markdown, "FILE",
         "write the report as Markdown, for a pull request", 0, 0},
        {"csv", 0, TD_ARG_STR, &opt.out.csv, "FILE", "write the figures as CSV", 0, 0},
        {"metrics-as", 0, TD_ARG_STR, &opt.terms, "TOOL",
         "also print TTFT, ITL and the like of each fixture, in terms of tapedeck, vllm, guidellm, aiperf or inference-perf (docs/metrics.md)", 0, 0},
        {"goodput", 0, TD_ARG_STR, &opt.goodput, "LIMITS",
         "and count the exchanges that keep all of these limits, such as ttft:200ms,itl:50ms", 0, 0},
        {"percentiles", 0, TD_ARG_STR, &opt.percentiles, "LIST", "and which percentiles (default 50,90,95,99)", 0, 0},
        {"smoke", 0, TD_ARG_FLAG, &opt.smoke, NULL,
         "judge one recording by absolute rules, without a baseline", 0, 0},
        {"verbose", 'v', TD_ARG_FLAG, &opt.out.verbose, NULL, "show forks, collapses, groups of ops, speed, limits",
         0, 0},
        /* for gate: check --policy and --lanes before the replay */
        {"check-options", 0, TD_ARG_FLAG, &opt.check_only, NULL, NULL, 0, 0},
        {NULL, 0, TD_ARG_FLAG, NULL, NULL, NULL, 0, 0}};
    static const struct td_arg_env environment[] = {
        {"TMPDIR", "where a pack is unpacked while it is read (default /tmp)"}, {NULL, NULL}};
    struct td_args args = {
        .program = "differ",
        .usage = "{differ} BASE NEW [options]\n{differ} --smoke RECORDING",
        .about = "Compare a baseline (a recording) with a candidate (a replay) and say whether it "
                 "regressed. "
                 "BASE and NEW may be folders of fixtures: each recording is compared with its own "
                 "replay.\n"
                 "Exit: 0 pass, 1 regressed, 3 inconclusive, 4 broken, 2 usage or fixtures that "
                 "must not be compared.",
        .table = table,
        .examples = "  {differ} fixtures/qwen replay-1\n"
                    "  {differ} fixtures/qwen replay-1 --lanes tokens,ops --json report.json\n"
                    "  {differ} fixtures/qwen replay-1 --calibrate replay-of-an-honest-build\n"
                    "  {differ} fixtures replays --junit differ.xml\n"
                    "  {differ} fixtures/qwen replay-1 --metrics-as vllm --goodput ttft:200ms,tpot:50ms\n",
        .environment = environment};

    rc = td_args_parse(&args, argc, argv, &err);
    opt.out.colour = td_log_colour(1);
    opt.out.quiet = td_log_quiet();
    td_invocation_called(called_as);
    if (!rc)
        rc = check_operands(&opt, &args, &err);
    if (rc < 0)
        td_report_write_refused(TD_DIFFER_TOOL, argc, argv, err.msg);
    if (rc)
        return rc > 0 ? TD_EXIT_OK : print_error(&err);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
    return run_differ(&opt, &args);
}

int main(int argc, char **argv)
{
    td_streams_begin();
    td_memory_begin();
    td_log_program("differ");
    td_proc_catch_file_limit();
    return td_streams_end(run_command_line(argc, argv));
}
