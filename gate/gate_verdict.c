/* gate_verdict.c - the end of a run: what the verdict means for the exit code, the files, the text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/gate_verdict.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/out_of_memory.h"
#include "gate/gate_judge.h"
#include "gate/run.h"
#include "report/report.h"
#include "report/report_unfinished.h"

/* In rising order of gravity. */
static const int GRAVITY[] = {TD_EXIT_OK, TD_EXIT_INCONCLUSIVE, TD_EXIT_REGRESSED, TD_EXIT_BROKEN,
                              TD_EXIT_USAGE};

static int graver(int a, int b)
{
    size_t i;
    int worst = a;

    for (i = 0; i < sizeof GRAVITY / sizeof GRAVITY[0]; i++)
        if (GRAVITY[i] == a || GRAVITY[i] == b)
            worst = GRAVITY[i];
    return worst;
}

static int exit_of_verdict(const char *verdict)
{
    return !strcmp(verdict, "pass")           ? TD_EXIT_OK
           : !strcmp(verdict, "inconclusive") ? TD_EXIT_INCONCLUSIVE
           : !strcmp(verdict, "regressed")    ? TD_EXIT_REGRESSED
                                              : TD_EXIT_BROKEN;
}

/* What is said of a lane beside that it regressed: the gravest note. */
static int exit_of_other_notes(const cJSON *lane)
{
    const cJSON *note;
    int code = TD_EXIT_OK;

    cJSON_ArrayForEach(note, td_json_get(lane, "notes")) {
        const char *verdict = td_json_get_str(note, "verdict", "note");

        if (!strcmp(verdict, "inconclusive") || !strcmp(verdict, "broken"))
            code = graver(code, exit_of_verdict(verdict));
    }
    return code;
}

/* Of one comparison that regressed: the gravest lane among those that count. */
static int exit_without(const cJSON *report, enum td_fail_on fail_on)
{
    const cJSON *lane;
    int code = TD_EXIT_OK;

    cJSON_ArrayForEach(lane, td_json_get(report, "lanes")) {
        const bool is_speed = strcmp(lane->string, "speed") == 0;
        int of_lane = exit_of_verdict(td_json_get_str(lane, "verdict", "broken"));

        if (!td_json_get_bool(lane, "asked", false) ||
            !strcmp(td_json_get_str(lane, "verdict", "broken"), "not judged"))
            continue;
        if (of_lane == TD_EXIT_REGRESSED && is_speed != (fail_on == TD_FAIL_ON_SLOWER))
            of_lane = exit_of_other_notes(lane);
        code = graver(code, of_lane);
    }
    return code;
}

int td_gate_exit(const cJSON *report, enum td_fail_on fail_on)
{
    const cJSON *one;
    int code = td_report_exit(report);

    if (fail_on == TD_FAIL_ON_ANY || code != TD_EXIT_REGRESSED)
        return code;
    if (!td_report_is_joined(report))
        return exit_without(report, fail_on);
    code = TD_EXIT_OK;
    cJSON_ArrayForEach(one, td_json_get(report, "reports"))
        code = graver(code, td_gate_exit(one, fail_on));
    return code;
}

static void set_exit(cJSON *report, int code)
{
    cJSON_ReplaceItemInObjectCaseSensitive(report, "exit", cJSON_CreateNumber(code));
}

/* The verdict stays; the exit code is the user's choice, and it is said why it is no 1. */
static void apply_fail_on(const struct td_gate_options *o, cJSON *report)
{
    const int code = td_gate_exit(report, o->fail_on);

    if (code == td_report_exit(report))
        return;
    td_log(TD_LOG_WARN, "gate", "exit code %d instead of 1: --fail-on %s, and it is %s", code,
           o->fail_on == TD_FAIL_ON_WRONG ? "wrong" : "slower",
           o->fail_on == TD_FAIL_ON_WRONG ? "slower only" : "not slower");
    set_exit(report, code);
}

int td_gate_finish(const struct td_gate_options *o, bool files_fit, cJSON **report)
{
    struct td_error err = {0, ""};

    if (!*report) {
        printf("verdict: broken cause=\"out of memory\"\n");
        return TD_EXIT_BROKEN;
    }
    td_report_hide(*report);
    if (td_gate_signal)
        set_exit(*report, 128 + (int)td_gate_signal);
    else
        apply_fail_on(o, *report);
    if (td_out_of_memory_check("gate", &err) ||
        (td_report_write(*report, &o->out, &err) && files_fit)) {
        cJSON_Delete(*report);
        *report = td_gate_broken(NULL, &err);
        td_report_hide(*report);
        if (files_fit)
            td_report_write_over(*report, &o->out);
    }
    return td_report_show(*report, &o->out, o->smoke) ? TD_EXIT_BROKEN : td_report_exit(*report);
}
