/* main.c - the program `differ`: compare a baseline with a candidate, lane by lane, and print
 * the verdict.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/args.h"
#include "common/json.h"
#include "common/log.h"
#include "differ/compare.h"
#include "differ/lanes.h"
#include "differ/reports.h"
#include "differ/smoke.h"
#include "report/excerpt.h"

struct options {
    const char *json, *junit, *lanes, *replayed, *policy;
    struct td_arg_list calibrate, live, more;
    bool smoke, verbose, check_only;
};

static int print_error(const struct td_error *err)
{
    td_log(TD_LOG_ERROR, "diff", "%s", err->msg);
    return td_exit_code(err->code);
}

/* A fixture that cannot be opened: the verdict is broken, and its line is the last one of the
 * output. */
static int print_broken(const struct td_error *err)
{
    td_log(TD_LOG_ERROR, "diff", "%s", err->msg);
    printf("verdict: broken cause=\"%s\"\n", err->msg);
    return TD_EXIT_BROKEN;
}

static int open_sides(struct td_comparison *c, const char *base, const char *candidate,
                      const struct options *opt, struct td_error *err)
{
    const struct { enum td_role role; const struct td_arg_list *dirs; int first; } more[] = {
        {TD_NEW, &opt->more, 1}, {TD_LIVE, &opt->live, 0}, {TD_CALIBRATE, &opt->calibrate, 0}};
    size_t i;
    int j, rc;

    c->side = calloc(2 + 3 * TD_ARG_LIST_MAX, sizeof *c->side);
    if (!c->side)
        return td_fail(err, TD_ENOMEM, "no memory");
    rc = td_side_open(base, TD_BASE, 0, &c->side[c->n_sides++], err);
    if (!rc)
        rc = td_side_open(candidate, TD_NEW, 0, &c->side[c->n_sides++], err);
    for (i = 0; i < sizeof more / sizeof more[0]; i++)
        for (j = 0; j < more[i].dirs->n && !rc; j++)
            rc = td_side_open(more[i].dirs->item[j], more[i].role, more[i].first + j,
                              &c->side[c->n_sides++], err);
    return rc;
}

static int run_smoke(const char *dir, const struct options *opt)
{
    struct td_error err = {0, ""};
    struct td_side side;
    struct td_smoke s;
    struct td_buf line = TD_BUF_INIT(4096);
    size_t i;

    if (td_side_open(dir, TD_NEW, 0, &side, &err)) {
        td_log(TD_LOG_ERROR, "diff", "%s", err.msg);
        printf("smoke: failed: %s\n", err.msg);
        return TD_EXIT_BROKEN;
    }
    td_smoke_check(side.xs, side.n_xs, &s);
    td_smoke_line(&s,
                  td_json_get_str(td_json_get(td_fixture_manifest(side.fx), "server"), "model", ""),
                  &line);
    for (i = 0; opt->verbose && i < side.n_xs; i++) {
        struct td_buf b = TD_BUF_INIT(1 << 16);

        td_excerpt(side.xs[i].text ? side.xs[i].text : "", side.xs[i].text_len, 0, 0, 100, &b);
        printf("  %s: %s\n", side.xs[i].prompt_id,
               side.xs[i].error ? side.xs[i].error : td_buf_str(&b));
        td_buf_release(&b);
    }
    printf("%s\n", td_buf_str(&line));
    td_buf_release(&line);
    td_side_close(&side);
    return td_verdict_exit(s.verdict);
}

/* Read the policy and the lanes that are asked for from the options. */
static int read_options(const struct options *opt, struct td_comparison *c, struct td_error *err)
{
    int rc;

    td_lanes_init(c->lane);
    td_policy_default(&c->policy);
    rc = opt->policy ? td_policy_load(opt->policy, &c->policy, err) : TD_OK;
    if (!rc)
        rc = td_lanes_ask(c->lane, opt->lanes, err);
    if (!rc)
        rc = td_lanes_ask_for_replayed(c->lane, opt->replayed, err);
    return rc;
}

static int run_differ(const struct td_args *args, const struct options *opt)
{
    struct td_error err = {0, ""};
    struct td_comparison c;
    int rc, code;

    memset(&c, 0, sizeof c);
    rc = read_options(opt, &c, &err);
    if (rc)
        return print_error(&err);
    if (opt->check_only)
        return TD_EXIT_OK;
    rc = open_sides(&c, args->rest[0], args->rest[1], opt, &err);
    if (!rc)
        rc = td_compare(&c, &err);
    if (rc) {
        code = rc == TD_EINVAL ? print_error(&err) : print_broken(&err);
        td_comparison_release(&c);
        return code;
    }
    if (opt->json)
        rc = td_report_json(&c, opt->json, &err);
    if (!rc && opt->junit)
        rc = td_report_junit(&c, opt->junit, &err);
    td_report_text(&c, stdout, td_log_colour(1), opt->verbose);
    code = td_verdict_exit(c.verdict);
    td_comparison_release(&c);
    return rc ? print_broken(&err) : code; /* a report could not be written: broken */
}

int main(int argc, char **argv)
{
    char lanes[TD_LANES_LIST_MAX], lanes_help[TD_LANES_LIST_MAX + 80];
    struct options opt;
    struct td_error err = {0, ""};
    int rc;

    memset(&opt, 0, sizeof opt);
    snprintf(lanes_help, sizeof lanes_help,
             "%s: what to judge (default: what there is evidence for)", td_lanes_list(",", lanes));
    const struct td_arg table[] = {
        {"lanes", 0, TD_ARG_STR, &opt.lanes, "LIST", lanes_help, 0, 0},
        /* for gate: ask for the lanes that judge what it replayed */
        {"replayed", 0, TD_ARG_STR, &opt.replayed, "LIST", NULL, 0, 0},
        {"policy", 0, TD_ARG_STR, &opt.policy, "FILE", "thresholds, as JSON (docs/verdicts.md)", 0,
         0},
        {"calibrate", 0, TD_ARG_LIST, &opt.calibrate, "DIR",
         "a replay of an honest build: its forks are noise (may be repeated)", 0, 0},
        {"new", 0, TD_ARG_LIST, &opt.more, "DIR",
         "one more round of the candidate (may be repeated)", 0, 0},
        {"baseline-live", 0, TD_ARG_LIST, &opt.live, "DIR",
         "a round of the baseline's live server, which took turns with NEW (may be repeated)", 0,
         0},
        {"json", 0, TD_ARG_STR, &opt.json, "FILE", "write the full report as JSON", 0, 0},
        {"junit", 0, TD_ARG_STR, &opt.junit, "FILE", "write the report as JUnit XML", 0, 0},
        {"smoke", 0, TD_ARG_FLAG, &opt.smoke, NULL,
         "judge one recording by absolute rules, without a baseline", 0, 0},
        {"verbose", 'v', TD_ARG_FLAG, &opt.verbose, NULL, "show every fork, collapse and op", 0, 0},
        /* for gate: check --policy and --lanes before the replay */
        {"check-options", 0, TD_ARG_FLAG, &opt.check_only, NULL, NULL, 0, 0},
        {NULL, 0, TD_ARG_FLAG, NULL, NULL, NULL, 0, 0}};
    struct td_args args = {
        .program = "differ",
        .usage = "differ BASE NEW [options] | differ --smoke RECORDING",
        .about = "Compare a baseline (a recording) with a candidate (a replay) and say whether it "
                 "regressed.\n"
                 "Exit: 0 pass, 1 regressed, 3 inconclusive, 4 broken, 2 usage or fixtures that "
                 "must not be compared.",
        .table = table,
        .examples = "  differ fixtures/qwen replay-1\n  differ fixtures/qwen replay-1 --lanes "
                    "tokens,ops --json report.json\n"
                    "  differ fixtures/qwen replay-1 --calibrate replay-of-an-honest-build\n"};

    td_log_program("differ");
    rc = td_args_parse(&args, argc, argv, &err);
    if (rc)
        return rc > 0 ? TD_EXIT_OK : print_error(&err);
    if (args.n_rest != (opt.smoke ? 1 : 2) && !opt.check_only) {
        td_fail(&err, TD_EINVAL,
                opt.smoke ? "--smoke needs one recording"
                          : "two fixtures are needed, BASE and NEW; got %d",
                args.n_rest);
        return print_error(&err);
    }
    return opt.smoke ? run_smoke(args.rest[0], &opt) : run_differ(&args, &opt);
}
