/* fuzz_report.c - fuzz the renderers of a report: whatever the document holds, each format keeps its
 * promises.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "tests/fuzz/fuzz_main.h"

#define MARKDOWN_MAX 65000

/* No control character but these. */
static void check_bytes(const struct td_buf *b, const char *allowed)
{
    size_t i;

    for (i = 0; i < b->len; i++) {
        const unsigned char c = (unsigned char)b->data[i];

        if ((c < 0x20 || c == 0x7F) && (!c || !strchr(allowed, c)))
            abort();
        if (c >= 0x80) {
            const int len = td_utf8_seq(b->data + i, b->len - i);

            if (len <= 0)
                abort();
            i += (size_t)len - 1;
        }
    }
}

/* Every row has as many cells as the header, and a cell in quotes is closed. */
static void check_csv(const struct td_buf *b)
{
    size_t i, cells = 0, head = 0;
    bool quoted = false;

    for (i = 0; i < b->len; i++) {
        quoted ^= b->data[i] == '"';
        cells += b->data[i] == ',' && !quoted;
        if (b->data[i] != '\n')
            continue;
        if (quoted || (head && cells != head))
            abort();
        head = head ? head : cells;
        cells = 0;
    }
    if (cells || !head)
        abort();
}

/* Tags are only those that are written here. */
static void check_xml(const struct td_buf *b)
{
    static const char *const TAGS[] = {"?xml",     "testsuite", "propert", "testcase",
                                       "failure",  "error",     "skipped", "system-out",
                                       "system-err"};
    const size_t n = sizeof TAGS / sizeof TAGS[0];
    size_t i, t;

    for (i = 0; i < b->len; i++) {
        const char *p = b->data + i + 1;

        if (b->data[i] != '<')
            continue;
        p += *p == '/';
        for (t = 0; t < n && strncmp(p, TAGS[t], strlen(TAGS[t])); t++)
            ;
        if (t == n)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct td_buf out = TD_BUF_INIT(TD_REPORT_MAX);
    cJSON *report = td_json_parse((const char *)data, n, NULL);

    if (report) {
        if (td_report_junit(report, &out, NULL))
            abort();
        check_bytes(&out, "\n");
        check_xml(&out);
        td_buf_clear(&out);
        if (td_report_csv(report, &out, NULL))
            abort();
        check_bytes(&out, "\r\n");
        check_csv(&out);
        td_buf_clear(&out);
        if (td_report_markdown(report, &out, NULL) || out.len > MARKDOWN_MAX)
            abort();
        check_bytes(&out, "\n");
    }
    cJSON_Delete(report);
    td_buf_release(&out);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/report", 60000)
