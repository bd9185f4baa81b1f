/* render_report.c - render a report file, so that tests can give the renderers any report.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: render_report json|junit|csv|markdown|text|verbose|quiet REPORT.json */
#include <stdio.h>
#include <string.h>

#include "report/report.h"

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*make)(const cJSON *report, struct td_buf *out, struct td_error *err);
    } FORMATS[] = {{"json", td_report_json},
                   {"junit", td_report_junit},
                   {"csv", td_report_csv},
                   {"markdown", td_report_markdown}};
    struct td_buf out = TD_BUF_INIT(TD_REPORT_MAX);
    struct td_error err = {0, ""};
    cJSON *report = argc == 3 ? td_report_load(argv[2], &err) : NULL;
    size_t i, n = sizeof FORMATS / sizeof FORMATS[0];
    int rc = 1;

    for (i = 0; report && i < n; i++)
        if (!strcmp(argv[1], FORMATS[i].name) && !FORMATS[i].make(report, &out, &err))
            rc = fwrite(td_buf_str(&out), 1, out.len, stdout) != out.len;
    if (report && (!strcmp(argv[1], "text") || !strcmp(argv[1], "verbose") || !strcmp(argv[1], "quiet"))) {
        const struct td_report_outputs o = {.verbose = argv[1][0] == 'v', .quiet = argv[1][0] == 'q'};

        td_report_print(report, stdout, &o);
        rc = 0;
    }
    if (rc)
        fprintf(stderr, "%s\n", *err.msg ? err.msg : "usage: render_report FORMAT REPORT.json");
    cJSON_Delete(report);
    td_buf_release(&out);
    return rc;
}
