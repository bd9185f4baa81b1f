/* main.c - the program `gate`: replay recordings on a new build, compare, and end with one line and
 * an exit code.
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/invocation.h"
#include "common/log.h"
#include "common/memory.h"
#include "common/outside_fixtures.h"
#include "common/proc.h"
#include "common/streams.h"
#include "gate/accept_file.h"
#include "gate/artifacts.h"
#include "gate/gate_accept.h"
#include "gate/gate_judge.h"
#include "gate/gate_verdict.h"
#include "gate/run.h"
#include "report/report_unfinished.h"

static void on_signal(int number)
{
    td_gate_signal = number;
}

/* differ knows the thresholds. */
static int explain_policy(const struct td_gate_options *o)
{
    struct td_error err = {0, ""};
    struct td_command c;
    struct td_outcome out;

    if (!td_command_init(&c, "differ", &err)) {
        td_command_add(&c, "--explain-policy");
        td_command_opt(&c, "--policy", o->policy);
        if (o->exact)
            td_command_add(&c, "--exact");
        if (!td_run(&c, TD_RUN_TO_STDOUT, &out, &err)) {
            if (!out.exited || out.code)
                td_log(TD_LOG_ERROR, "gate", "%s", out.cause);
            return out.exited ? out.code : TD_EXIT_BROKEN;
        }
    }
    td_log(TD_LOG_ERROR, "gate", "%s", err.msg);
    return td_exit_code(err.code);
}

/* Judge one fixture, or the server alone. What a signal interrupts, or comes after one, is not
 * judged. */
static cJSON *judge(const struct td_gate_plan *p, const struct td_gate_item *it)
{
    struct td_error err = {0, ""};
    cJSON *report = NULL;

    if (!td_gate_signal)
        report = p->opt->smoke ? td_gate_smoke(p->opt, it) : td_gate_judge(p->opt, it);
    if (!td_gate_signal)
        return report;
    cJSON_Delete(report);
    td_fail(&err, TD_EINTR, "interrupted by SIG%s", sigabbrev_np((int)td_gate_signal));
    return p->opt->smoke ? td_gate_broken_smoke(&err) : td_gate_broken(it->fixture, &err);
}

/* One of several compared nothing: the report of all may have no room for its cause. */
static void say_cause(const cJSON *report)
{
    if (report && !cJSON_IsObject(td_json_get(report, "names")))
        td_log(TD_LOG_ERROR, "gate", "%s", td_json_get_str(report, "cause", "no cause is known"));
}

static const char *id_of(const cJSON *report)
{
    return td_json_get_str(cJSON_GetArrayItem(td_json_get(report, "fixtures"), 0), "id", "");
}

/* A copy or a pack of a recording has its id, and adds nothing but time. */
static void say_copies(const struct td_gate_plan *p, cJSON *const *reports)
{
    size_t i, j;

    for (i = 0; i < p->n; i++)
        for (j = 0; j < i && *id_of(reports[i]); j++)
            if (!strcmp(id_of(reports[i]), id_of(reports[j]))) {
                td_log(TD_LOG_WARN, "gate", "%s and %s are one recording: both were judged",
                       p->item[j].fixture, p->item[i].fixture);
                break;
            }
}

/* Judge each fixture, also after one has failed. Returns one report. */
static cJSON *judge_all(const struct td_gate_plan *p)
{
    cJSON **reports = calloc(p->n + 1, sizeof *reports), *report;
    size_t i;

    if (!reports)
        return NULL;
    for (i = 0; i < p->n; i++) {
        if (p->n > 1)
            td_log_note("fixture %zu of %zu: %s", i + 1, p->n, p->item[i].fixture);
        reports[i] = judge(p, &p->item[i]);
        if (p->n > 1)
            say_cause(reports[i]);
    }
    say_copies(p, reports);
    report = p->n == 1 ? reports[0] : td_report_join(reports, p->n);
    for (i = 0; i < p->n && p->n != 1; i++)
        cJSON_Delete(reports[i]);
    free(reports);
    return report;
}

/* Artifacts that cannot be written make the run broken, as any other report; report : taken. */
static cJSON *keep_artifacts(const struct td_gate_plan *plan, cJSON *report)
{
    struct td_error err = {0, ""};

    if (!td_artifacts_keep(plan, report, &err))
        return report;
    if (!strcmp(td_report_verdict(report), "broken")) {
        td_log(TD_LOG_WARN, "gate", "%s", err.msg);
        return report;
    }
    cJSON_Delete(report);
    return td_gate_broken(NULL, &err);
}

/* From the plan to the report. */
static cJSON *run_plan(const struct td_gate_options *o)
{
    struct td_error err = {0, ""};
    struct td_gate_accept accept;
    struct td_gate_plan plan = {0};
    cJSON *report;

    if (td_gate_accept_open(o, &accept, &err)) {
        report = td_gate_broken(NULL, &err);
    } else if (td_gate_plan_make(o, &plan, &err)) {
        report = td_gate_broken(NULL, &err);
    } else {
        report = judge_all(&plan);
        td_report_hide(report);
        td_gate_accept_apply(o, &accept, &report);
        report = keep_artifacts(&plan, report);
    }
    td_gate_plan_end(&plan);
    td_gate_accept_close(&accept);
    return report;
}

/* TD_EINVAL: a report would be written over what the run reads beside its fixtures. */
static int spare_files(struct td_gate_options *o, struct td_error *err)
{
    const char *const files[] = {o->build, o->baseline_build, o->checkpoint, o->ops};
    int rc = TD_OK, i;

    for (i = 0; i < (int)(sizeof files / sizeof files[0]); i++)
        rc |= td_report_outputs_spare_input(&o->out, files[i], err);
    for (i = 0; i < o->header_files.n; i++)
        rc |= td_report_outputs_spare_input(&o->out, o->header_files.item[i], err);
    return rc;
}

/* TD_EINVAL: a report would be written over a fixture, the policy, what was accepted, or any other
 * file that is read. */
static int spare_inputs(struct td_gate_options *o, struct td_error *err)
{
    char accepted[TD_PATH_MAX];
    int i, rc = td_report_outputs_spare(&o->out, o->policy, err);

    rc |= td_accept_path(o->policy, accepted, sizeof accepted, err);
    if (!rc)
        rc |= td_report_outputs_spare(&o->out, accepted, err);
    for (i = 0; i < o->n_operands; i++)
        rc |= td_report_outputs_spare(&o->out, o->operand[i], err);
    for (i = 0; i < o->calibrate.n; i++)
        rc |= td_report_outputs_spare(&o->out, o->calibrate.item[i], err);
    rc |= spare_files(o, err);
    rc |= td_report_outputs_stay_outside(&o->out, err);
    return rc ? err->code : TD_OK;
}

/* TD_EINVAL: what is kept, a reference, or what is accepted, would be written into a fixture's folder. */
static int stay_outside(const struct td_gate_options *o, struct td_error *err)
{
    char accepted[TD_PATH_MAX];
    int rc = td_outside_fixtures_option("--keep", o->keep, err);

    if (!rc)
        rc = td_outside_fixtures_option("--artifacts", o->artifacts, err);
    if (!rc && o->cache && strcmp(o->cache, "off"))
        rc = td_outside_fixtures_folder_option("--cache", o->cache, err);
    if (!rc && o->accept && !(rc = td_accept_path(o->policy, accepted, sizeof accepted, err)))
        rc = td_outside_fixtures_option("--accept", accepted, err);
    return rc;
}

static int run_gate(struct td_gate_options *o)
{
    struct td_error err = {0, ""};
    const bool files_fit = !spare_inputs(o, &err) && !stay_outside(o, &err) && !td_report_outputs_check(&o->out, &err) &&
                           !td_report_write_unfinished(TD_GATE_TOOL, &o->out, &err);
    cJSON *report = files_fit ? run_plan(o) : td_gate_broken(NULL, &err);
    int code = td_gate_finish(o, files_fit, &report);

    cJSON_Delete(report);
    return code;
}

static int run_command_line(int argc, char **argv)
{
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    struct td_gate_options options;
    int rc = td_gate_options_read(&options, argc, argv);

    if (rc == TD_EXIT_USAGE)
        td_report_write_refused(TD_GATE_TOOL, argc, argv, td_gate_options_error());
    if (rc >= 0)
        return rc;
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
    return options.explain_policy ? explain_policy(&options) : run_gate(&options);
}

int main(int argc, char **argv)
{
    td_streams_begin();
    td_memory_begin();
    td_log_program("gate");
    td_proc_catch_file_limit();
    td_invocation_called(argv[0]);
    return td_streams_end(run_command_line(argc, argv));
}
