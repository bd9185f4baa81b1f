/* junit.c - build a JUnit XML report: one test suite, its properties and its cases.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/junit.h"

#include <string.h>

#include "common/fs.h"
#include "common/json.h"

#define XML_MAX ((size_t)1 << 28)

void td_junit_init(struct td_junit *j)
{
    memset(j, 0, sizeof *j);
    td_buf_init(&j->properties, 1 << 20);
    td_buf_init(&j->cases, XML_MAX);
}

static void add_escaped(struct td_buf *b, const char *s)
{
    struct td_buf clean = TD_BUF_INIT(1 << 20);
    size_t i;

    td_utf8_clean(s, strlen(s), &clean);
    for (i = 0; i < clean.len; i++) {
        unsigned char c = (unsigned char)clean.data[i];

        if (c == '<')
            td_buf_adds(b, "&lt;");
        else if (c == '&')
            td_buf_adds(b, "&amp;");
        else if (c == '"')
            td_buf_adds(b, "&quot;");
        else if (c < 0x20)
            td_buf_addc(b, ' ');
        else
            td_buf_addc(b, (char)c);
    }
    td_buf_release(&clean);
}

void td_junit_property(struct td_junit *j, const char *name, const char *value)
{
    td_buf_addf(&j->properties, "<property name=\"%s\" value=\"", name);
    add_escaped(&j->properties, value);
    td_buf_adds(&j->properties, "\"/>");
}

void td_junit_case(struct td_junit *j, const char *class, const char *name,
                   enum td_junit_result result, const char *message)
{
    static const char *const TAG[] = {NULL, "skipped", "error", "failure"};

    j->n++;
    j->skipped += result == TD_JUNIT_SKIPPED;
    j->failures += result == TD_JUNIT_FAILED;
    j->errors += result == TD_JUNIT_ERROR;
    td_buf_addf(&j->cases, "    <testcase classname=\"tapedeck.%s\" name=\"", class);
    add_escaped(&j->cases, name);
    if (!TAG[result]) {
        td_buf_adds(&j->cases, "\"/>\n");
        return;
    }
    td_buf_addf(&j->cases, "\"><%s message=\"", TAG[result]);
    add_escaped(&j->cases, message);
    td_buf_adds(&j->cases, "\"/></testcase>\n");
}

int td_junit_save(const struct td_junit *j, const char *path, struct td_error *err)
{
    struct td_buf out = TD_BUF_INIT(XML_MAX + (1 << 20) + 4096);
    int rc;

    td_buf_addf(&out,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
                "  <testsuite name=\"tapedeck\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" "
                "skipped=\"%zu\">\n",
                j->n, j->failures, j->errors, j->skipped);
    if (j->properties.len)
        td_buf_addf(&out, "    <properties>%s</properties>\n", td_buf_str(&j->properties));
    td_buf_add(&out, td_buf_str(&j->cases), j->cases.len);
    td_buf_adds(&out, "  </testsuite>\n</testsuites>\n");
    rc = out.failed || j->cases.failed || j->properties.failed
             ? td_fail(err, TD_ELIMIT, "%s: the report is too large", path)
             : td_fs_write_atomic(path, out.data, out.len, err);
    td_buf_release(&out);
    return rc;
}

void td_junit_release(struct td_junit *j)
{
    td_buf_release(&j->properties);
    td_buf_release(&j->cases);
}
