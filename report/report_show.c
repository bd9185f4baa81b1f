/* report_show.c - print a report for a person, its cause on stderr, and notice when that fails.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/streams.h"
#include "report/report_smoke.h"

/* A usage error has none: its sentence on stderr is all. A smoke test always has. */
static bool has_text(const cJSON *report, bool smoke)
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

/* Say on stderr why one run compared nothing; not where the text, which says it too, goes to the same
 * terminal or file. */
static void say_cause(const cJSON *report, const struct td_report_outputs *o, bool smoke)
{
    const char *cause = td_json_get_str(report, "cause", NULL);

    if (!cause || td_report_is_joined(report) || cJSON_IsObject(td_json_get(report, "names")))
        return;
    if (!has_text(report, smoke) || !is_one_place(td_report_text_stream(o), stderr))
        td_log(TD_LOG_ERROR, "report", "%s", cause);
}

/* Write out what is buffered. When that fails the rest is dropped, the verdict among it: it is not
 * the one that the exit code says. */
static int flush_text(FILE *to)
{
    struct td_error err = {0, ""};

    if (td_stream_flush(to, "the report", &err))
        td_log(TD_LOG_ERROR, "report", "%s", err.msg);
    return err.code;
}

int td_report_show(const cJSON *report, const struct td_report_outputs *o, bool smoke)
{
    FILE *to = td_report_text_stream(o);
    int rc = TD_OK, written;

    say_cause(report, o, smoke);
    fflush(stderr);
    if (smoke)
        rc = td_report_print_smoke(report, to, o->verbose);
    else if (has_text(report, false))
        rc = td_report_print(report, to, o);
    written = flush_text(to);
    return rc ? rc : written;
}
