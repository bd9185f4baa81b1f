/* report_unfinished.c - what stands in the report files while a run is under way, and after a command
 * line that was refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/report_unfinished.h"

#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "common/outfile.h"

/* The path, if the report at the end will replace what is written there now; else NULL. */
static const char *only_files(const char *path)
{
    return path && td_outfile_is_replaced(path) ? path : NULL;
}

static struct td_report_outputs only_replaced(const struct td_report_outputs *o)
{
    return (struct td_report_outputs){.json = only_files(o->json),
                                      .junit = only_files(o->junit),
                                      .markdown = only_files(o->markdown),
                                      .csv = only_files(o->csv)};
}

void td_report_write_over(const cJSON *report, const struct td_report_outputs *o)
{
    const struct td_report_outputs files = only_replaced(o);
    struct td_error err = {0, ""};

    if (report)
        td_report_write(report, &files, &err);
}

int td_report_write_unfinished(const char *tool, const struct td_report_outputs *o,
                               struct td_error *err)
{
    const struct td_report_outputs files = only_replaced(o);
    cJSON *report;
    int rc;

    if (!files.json && !files.junit && !files.markdown && !files.csv)
        return TD_OK;
    report = td_report_broken(tool, TD_EXIT_BROKEN,
                              "the run did not come to its end: it was killed, or the machine "
                              "stopped");
    rc = report ? td_report_write(report, &files, err)
                : td_fail(err, TD_ENOMEM, "out of memory for the report");
    cJSON_Delete(report);
    return rc;
}

/* ---- a command line that was refused --------------------------------------------------------- */

/* The value of an option, as it was typed: "--json FILE", "--json=FILE". NULL: there is none. */
static const char *value_of(const char *option, int argc, char **argv)
{
    const size_t n = strlen(option);
    int i;

    for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (!strncmp(argv[i], option, n) && argv[i][n] == '=' && argv[i][n + 1])
            return argv[i] + n + 1;
        if (!strcmp(argv[i], option) && i + 1 < argc && *argv[i + 1] && *argv[i + 1] != '-')
            return argv[i + 1];
    }
    return NULL;
}

/* Is it a report of this format, or nothing yet? A command line that is wrong may name any file. */
static bool is_report(const char *path, const char *begins, const char *holds)
{
    char head[4096];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(head, 1, sizeof head - 1, f) : 0;
    const bool missing = !f && !td_fs_exists(path);

    if (f)
        fclose(f);
    head[n] = '\0';
    return missing || (f && (n == 0 || (!strncmp(head, begins, strlen(begins)) && strstr(head, holds))));
}

static const char *only_report(const char *path, const char *begins, const char *holds)
{
    path = path ? only_files(path) : NULL;
    return path && is_report(path, begins, holds) ? path : NULL;
}

void td_report_write_refused(const char *tool, int argc, char **argv, const char *cause)
{
    const struct td_report_outputs files = {
        .json = only_report(value_of("--json", argc, argv), "{", "\"tapedeck-report"),
        .junit = only_report(value_of("--junit", argc, argv), "<?xml", "<testsuites>"),
        .markdown = only_report(value_of("--markdown", argc, argv), "### ", "verdict: "),
        .csv = only_report(value_of("--csv", argc, argv), "row,fixture,", "candidate")};
    struct td_error err = {0, ""};
    cJSON *report;

    if (!files.json && !files.junit && !files.markdown && !files.csv)
        return;
    report = td_report_broken(tool, TD_EXIT_USAGE, "the command line was refused: %s", cause);
    if (report && !td_report_outputs_check(&files, &err))
        td_report_write(report, &files, &err);
    cJSON_Delete(report);
}
