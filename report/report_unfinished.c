/* report_unfinished.c - what stands in the report files while a run is under way.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/report_unfinished.h"

#include "common/outfile.h"

/* The path, if the report at the end will replace what is written there now; else NULL. */
static const char *only_files(const char *path)
{
    return path && td_outfile_is_replaced(path) ? path : NULL;
}

int td_report_write_unfinished(const char *tool, const struct td_report_outputs *o,
                               struct td_error *err)
{
    const struct td_report_outputs files = {.json = only_files(o->json),
                                            .junit = only_files(o->junit),
                                            .markdown = only_files(o->markdown),
                                            .csv = only_files(o->csv)};
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
