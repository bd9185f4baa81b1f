/* artifacts.c - what a run that did not pass leaves for whoever looks into it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/artifacts.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "gate/run.h"

#define CUT_NAME "first-bad-op"

static void warn(const struct td_error *err)
{
    td_log(TD_LOG_WARN, "gate", "--artifacts: %s", err->msg);
}

/* The report as text, too: what the log of the job shows. */
static void write_text(const char *folder, const cJSON *report)
{
    const struct td_report_outputs verbose = {.verbose = true};
    char path[TD_PATH_MAX];
    FILE *f = td_fs_join(path, sizeof path, folder, "report.txt", NULL) ? NULL : fopen(path, "w");

    if (!f) {
        td_log(TD_LOG_WARN, "gate", "--artifacts: cannot write report.txt in %s", folder);
        return;
    }
    td_report_print(report, f, &verbose);
    fclose(f);
}

static void write_reports(const char *folder, const cJSON *report)
{
    static const char *const NAMES[] = {"report.json", "report.xml", "report.md", "report.csv"};
    static char path[4][TD_PATH_MAX];
    struct td_report_outputs o = {0};
    struct td_error err = {0, ""};
    size_t i;

    for (i = 0; i < 4; i++)
        if (td_fs_join(path[i], sizeof path[i], folder, NAMES[i], &err)) {
            warn(&err);
            return;
        }
    o.json = path[0];
    o.junit = path[1];
    o.markdown = path[2];
    o.csv = path[3];
    if (td_report_write(report, &o, &err))
        warn(&err);
    write_text(folder, report);
}

/* Cut the first bad op out of the recording, so that it can be looked at without the rest. */
static void cut_first_bad_op(const struct td_gate_item *it, const cJSON *report)
{
    const cJSON *first = td_json_get(td_json_get(report, "blame"), "first");
    char output[TD_PATH_MAX], number[32];
    struct td_error err = {0, ""};
    struct td_command c;
    struct td_outcome out;

    if (!first || td_json_get_i64(first, "op", -1) < 0)
        return;
    snprintf(number, sizeof number, "%lld", (long long)td_json_get_i64(first, "op", 0));
    if (!td_fs_join(output, sizeof output, it->folder, CUT_NAME, &err) &&
        !td_command_init(&c, "fixture", &err)) {
        td_command_add(&c, "extract");
        td_command_add(&c, it->fixture);
        td_command_opt(&c, "-o", output);
        td_command_opt(&c, "--op", number);
        td_command_add(&c, "--no-requests");
        if (!td_run(&c, TD_RUN_DROP, &out, &err) && (!out.exited || out.code))
            td_fail(&err, TD_EIO, "fixture extract: %s", out.cause);
    }
    if (err.code && err.code != TD_EINTR)
        warn(&err);
}

void td_artifacts_keep(const struct td_gate_plan *p, const cJSON *report)
{
    const cJSON *one;
    size_t i = 0;

    if (!p->opt->artifacts || !*p->folder || !report)
        return;
    if (!strcmp(td_report_verdict(report), "pass")) {
        td_fs_remove_tree(p->folder, NULL);
        return;
    }
    write_reports(p->folder, report);
    if (!td_report_is_joined(report) && p->n == 1)
        cut_first_bad_op(&p->item[0], report);
    cJSON_ArrayForEach(one, td_json_get(report, "reports"))
        if (i < p->n)
            cut_first_bad_op(&p->item[i++], one);
}
