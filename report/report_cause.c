/* report_cause.c - why a run compared nothing, said once.
 * SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "common/log.h"
#include "report/report.h"

bool td_report_has_text(const cJSON *report, bool smoke)
{
    return smoke || td_report_is_joined(report) || td_report_exit(report) != TD_EXIT_USAGE;
}

/* Do both lead to one terminal, one file or one pipe? */
static bool is_one_place(FILE *a, FILE *b)
{
    struct stat x, y;

    return !fstat(fileno(a), &x) && !fstat(fileno(b), &y) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

void td_report_say_cause(const cJSON *report, const struct td_report_outputs *o, bool smoke)
{
    const char *cause = td_json_get_str(report, "cause", NULL);

    if (!cause || td_report_is_joined(report) || cJSON_IsObject(td_json_get(report, "names")))
        return;
    if (!td_report_has_text(report, smoke) || !is_one_place(td_report_text_stream(o), stderr))
        td_log(TD_LOG_ERROR, "report", "%s", cause);
}
