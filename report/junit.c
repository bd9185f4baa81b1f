/* junit.c - build JUnit XML: suites, their properties and their cases.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/junit.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/clean.h"

#define SUITE_MAX ((size_t)1 << 28)
#define VALUE_MAX 4096 /* bytes of a name, a message or a property */
#define BODY_MAX  65536

/* ---- texts ---------------------------------------------------------------------------------- */

/* Append text[len], which td_clean made, as XML. */
static void add_xml(const char *text, size_t len, struct td_buf *out)
{
    size_t i;

    for (i = 0; i < len; i++) {
        if (text[i] == '<')
            td_buf_adds(out, "&lt;");
        else if (text[i] == '>')
            td_buf_adds(out, "&gt;");
        else if (text[i] == '&')
            td_buf_adds(out, "&amp;");
        else if (text[i] == '"')
            td_buf_adds(out, "&quot;");
        else
            td_buf_addc(out, text[i]);
    }
}

/* Append the text on one line, as the value of an attribute. Blanks around it are left out and runs
 * of blanks become one, as the schemas' type "token" wants it. missing: stands for an empty
 * text. */
static void add_value(const char *text, const char *missing, struct td_buf *out)
{
    struct td_buf clean = TD_BUF_INIT(VALUE_MAX * 8);
    size_t i, n = 0;

    td_clean_line(text, VALUE_MAX, &clean);
    for (i = 0; i < clean.len; i++)
        if (clean.data[i] != ' ' || (n > 0 && clean.data[n - 1] != ' '))
            clean.data[n++] = clean.data[i];
    while (n > 0 && clean.data[n - 1] == ' ')
        n--;
    if (n == 0)
        td_buf_adds(out, missing);
    add_xml(td_buf_str(&clean), n, out);
    td_buf_release(&clean);
}

/* Append the text as the content of an element, line by line. */
static void add_lines(const char *text, struct td_buf *out)
{
    size_t left = BODY_MAX;

    while (text && *text) {
        const size_t len = strcspn(text, "\n"), shown = len < left ? len : left;
        struct td_buf clean = TD_BUF_INIT(BODY_MAX * 8);

        td_clean_bytes(text, shown, &clean);
        add_xml(td_buf_str(&clean), clean.len, out);
        td_buf_release(&clean);
        left -= shown;
        if (shown < len || (left == 0 && text[len])) {
            td_buf_adds(out, "...");
            return;
        }
        text += len;
        if (*text) {
            td_buf_addc(out, '\n');
            text++;
        }
    }
}

/* ---- a suite -------------------------------------------------------------------------------- */

void td_junit_init(struct td_junit *j, const char *name)
{
    memset(j, 0, sizeof *j);
    td_buf_init(&j->properties, 1 << 20);
    td_buf_init(&j->cases, SUITE_MAX);
    snprintf(j->name, sizeof j->name, "%s", name);
}

void td_junit_property(struct td_junit *j, const char *name, const char *value)
{
    td_buf_adds(&j->properties, "      <property name=\"");
    add_value(name, "unnamed", &j->properties);
    td_buf_adds(&j->properties, "\" value=\"");
    add_value(value, "", &j->properties);
    td_buf_adds(&j->properties, "\"/>\n");
}

/* "tapedeck.<suite>": dots and slashes of the suite's name would open further packages. */
static void add_package(const struct td_junit *j, struct td_buf *out)
{
    char word[sizeof j->name];
    size_t i;

    for (i = 0; j->name[i]; i++)
        word[i] =
            strchr("./\\", j->name[i]) || isspace((unsigned char)j->name[i]) ? '_' : j->name[i];
    word[i] = '\0';
    td_buf_adds(out, "tapedeck.");
    add_value(word, "unnamed", out);
}

static double sound_time(double seconds)
{
    return isfinite(seconds) && seconds > 0 && seconds < 1e9 ? seconds : 0;
}

void td_junit_add(struct td_junit *j, const struct td_junit_case *c)
{
    static const char *const TAG[] = {NULL, "skipped", "error", "failure"};
    const char *tag = TAG[c->result];
    struct td_buf *out = &j->cases;

    j->n++;
    j->skipped += c->result == TD_JUNIT_SKIPPED;
    j->failures += c->result == TD_JUNIT_FAILED;
    j->errors += c->result == TD_JUNIT_ERROR;
    td_buf_adds(out, "    <testcase classname=\"");
    add_package(j, out);
    td_buf_addf(out, ".%s\" name=\"", c->class);
    add_value(c->name, "unnamed", out);
    td_buf_addf(out, "\" time=\"%.3f\"", sound_time(c->seconds));
    if (!tag) {
        td_buf_adds(out, "/>\n");
        return;
    }
    td_buf_addf(out, ">\n      <%s message=\"", tag);
    add_value(c->message, "", out);
    if (c->result == TD_JUNIT_SKIPPED) {
        td_buf_adds(out, "\"/>\n    </testcase>\n");
        return;
    }
    td_buf_addf(out, "\" type=\"%s\">", c->type);
    add_lines(c->body, out);
    td_buf_addf(out, "</%s>\n    </testcase>\n", tag);
}

/* Append the 19 characters "2026-11-23T08:19:17" of an ISO 8601 time. */
static void add_timestamp(const char *text, struct td_buf *out)
{
    static const char FORM[] = "dddd-dd-ddTdd:dd:dd";
    size_t i = 0;

    while (FORM[i] && (FORM[i] == 'd' ? isdigit((unsigned char)text[i]) : text[i] == FORM[i]))
        i++;
    td_buf_addf(out, "%.19s", FORM[i] ? "1970-01-01T00:00:00" : text);
}

void td_junit_write(const struct td_junit *j, size_t id, const char *timestamp, double seconds,
                    const char *output, struct td_buf *out)
{
    td_buf_adds(out, "  <testsuite name=\"");
    add_value(j->name, "unnamed", out);
    td_buf_addf(out, "\" id=\"%zu\" package=\"", id);
    add_package(j, out);
    td_buf_adds(out, "\" hostname=\"localhost\" timestamp=\"");
    add_timestamp(timestamp, out);
    td_buf_addf(out,
                "\" time=\"%.3f\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\">\n",
                sound_time(seconds), j->n, j->failures, j->errors, j->skipped);
    if (j->properties.len)
        td_buf_addf(out, "    <properties>\n%s    </properties>\n", j->properties.data);
    else
        td_buf_adds(out, "    <properties/>\n");
    td_buf_add(out, td_buf_str(&j->cases), j->cases.len);
    td_buf_adds(out, "    <system-out>");
    add_lines(output, out);
    td_buf_adds(out, "</system-out>\n    <system-err/>\n  </testsuite>\n");
    out->failed |= j->cases.failed || j->properties.failed;
}

void td_junit_release(struct td_junit *j)
{
    td_buf_release(&j->properties);
    td_buf_release(&j->cases);
}

void td_junit_begin(struct td_buf *out)
{
    td_buf_adds(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
}

void td_junit_end(struct td_buf *out)
{
    td_buf_adds(out, "</testsuites>\n");
}
