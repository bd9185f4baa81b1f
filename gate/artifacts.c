/* artifacts.c - what a run that did not pass leaves for whoever looks into it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/artifacts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/outfile.h"
#include "common/replay_args.h"
#include "common/shell_command.h"
#include "gate/next_options.h"
#include "gate/run.h"

#define CUT_NAME "first-bad-op"

static void warn(const struct td_error *err)
{
    td_log(TD_LOG_WARN, "gate", "--artifacts: %s", err->msg);
}

/* The report as text, too: what the log of the job shows. */
static int write_text(const char *path, const cJSON *report, struct td_error *err)
{
    const struct td_report_outputs verbose = {.verbose = true};
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    int rc = f ? td_report_print(report, f, &verbose) : TD_ENOMEM;

    if ((f && fclose(f)) || rc)
        rc = td_fail(err, TD_ENOMEM, "%s: out of memory", path);
    if (!rc)
        rc = td_outfile_write(path, text, n, err);
    free(text);
    return rc;
}

static int write_reports(const char *folder, const cJSON *report, struct td_error *err)
{
    static const char *const NAMES[] = {"report.json", "report.xml", "report.md", "report.csv", "report.txt"};
    static char path[5][TD_PATH_MAX];
    const struct td_report_outputs o = {.json = path[0], .junit = path[1], .markdown = path[2], .csv = path[3]};
    size_t i;
    int rc = TD_OK, text;

    for (i = 0; !rc && i < 5; i++)
        rc = td_fs_join(path[i], sizeof path[i], folder, NAMES[i], err);
    if (rc)
        return rc;
    rc = td_report_write(report, &o, err);
    text = write_text(path[4], report, err);
    return rc ? rc : text;
}

/* ---- the first bad op ------------------------------------------------------------------------ */

/* A command that gates the cut alone, with the builds of this run; results only, for one op is too
 * little to judge speed by. */
static void write_command(const struct td_gate_options *o, const char *cut, const cJSON *report,
                          struct td_buf *out)
{
    const cJSON *first = td_json_get(td_json_get(report, "blame"), "first");

    td_shell_add_program(out, "gate");
    td_shell_add_word(out, cut);
    td_gate_add_builds(o, out);
    if (td_json_get_i64(td_json_get(first, "candidate"), "unstable", 0) > 0)
        td_buf_adds(out, " " TD_MORE_RUNS);
    if (o->baseline_build)
        td_buf_adds(out, " --lanes ops");
}

/* Take the step with this text out. */
static void drop_step(cJSON *next, const char *text)
{
    cJSON *item;

    cJSON_ArrayForEach(item, next)
        if (!strcmp(td_json_get_str(item, "text", ""), text)) {
            cJSON_Delete(cJSON_DetachItemViaPointer(next, item));
            return;
        }
}

/* What NEXT advises is done already: say where, and what to do with it. */
static void point_at_cut(const struct td_gate_options *o, const char *cut, cJSON *report)
{
    cJSON *next = cJSON_GetObjectItemCaseSensitive(report, "next"), *item;
    struct td_buf text = TD_BUF_INIT(1 << 16), command = TD_BUF_INIT(1 << 16);

    td_buf_addf(&text, "the first bad op is cut out: %s; gate it alone", cut);
    write_command(o, cut, report, &command);
    cJSON_ArrayForEach(item, next) {
        if (strcmp(td_json_get_str(item, "text", ""), TD_NEXT_EXTRACT) != 0)
            continue;
        cJSON_ReplaceItemInObjectCaseSensitive(item, "text", cJSON_CreateString(td_buf_str(&text)));
        cJSON_ReplaceItemInObjectCaseSensitive(item, "command",
                                               cJSON_CreateString(td_buf_str(&command)));
    }
    drop_step(next, TD_NEXT_GATE_CUT);
    td_buf_release(&text);
    td_buf_release(&command);
}

/* Cut the first bad op out of the recording, so that it can be looked at without the rest. */
static void cut_first_bad_op(const struct td_gate_options *o, const struct td_gate_item *it,
                             cJSON *report)
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
    if (!err.code)
        point_at_cut(o, output, report);
    else if (err.code != TD_EINTR)
        warn(&err);
}

int td_artifacts_keep(const struct td_gate_plan *p, cJSON *report, struct td_error *err)
{
    cJSON *one;
    size_t i = 0;

    if (!p->opt->artifacts || !*p->folder || !report)
        return TD_OK;
    if (!strcmp(td_report_verdict(report), "pass")) {
        td_fs_remove_tree(p->folder, NULL);
        return TD_OK;
    }
    if (!td_report_is_joined(report) && p->n == 1)
        cut_first_bad_op(p->opt, &p->item[0], report);
    cJSON_ArrayForEach(one, td_json_get(report, "reports"))
        if (i < p->n)
            cut_first_bad_op(p->opt, &p->item[i++], one);
    return write_reports(p->folder, report, err) ? td_fail_at(err, "--artifacts") : TD_OK;
}
