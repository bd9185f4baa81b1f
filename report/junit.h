/* junit.h - build JUnit XML: suites, their properties and their cases.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The documents are valid by the schema of Ant's JUnit task (windyroad/JUnit-Schema) and by that of
 * Jenkins's xunit plugin (junit-10.xsd). Texts may hold anything: control characters, bytes that
 * are not UTF-8 and characters that XML has no place for are shown as escapes. */
#ifndef TD_REPORT_JUNIT_H
#define TD_REPORT_JUNIT_H

#include "common/buf.h"

enum td_junit_result { TD_JUNIT_PASSED, TD_JUNIT_SKIPPED, TD_JUNIT_ERROR, TD_JUNIT_FAILED };

/* One suite that is being built. */
struct td_junit {
    char name[256];                  /* of the suite; its cases are of "tapedeck.<name>" */
    struct td_buf properties, cases; /* XML */
    size_t n, failures, errors, skipped;
};

struct td_junit_case {
    const char *class, *name;        /* the case is of class "tapedeck.<suite>.<class>" */
    double seconds;
    enum td_junit_result result;
    const char *type;                /* of the failure or error */
    const char *message, *body;      /* not shown when the case passed; the body keeps its lines */
};

void td_junit_init(struct td_junit *j, const char *name);
void td_junit_property(struct td_junit *j, const char *name, const char *value);
void td_junit_add(struct td_junit *j, const struct td_junit_case *c);
/* Append the suite to a document that td_junit_begin opened.
 *   id        : 0, 1 ... in the document
 *   timestamp : ISO 8601; what is no time of this form becomes 1970-01-01T00:00:00
 *   output    : lines of text, shown as the suite's standard output
 * out->failed is set when the suite is too large. */
void td_junit_write(const struct td_junit *j, size_t id, const char *timestamp, double seconds,
                    const char *output, struct td_buf *out);
void td_junit_release(struct td_junit *j);

void td_junit_begin(struct td_buf *out); /* a document */
void td_junit_end(struct td_buf *out);

#endif
