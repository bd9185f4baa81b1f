/* junit.h - build a JUnit XML report: one test suite, its properties and its cases.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPORT_JUNIT_H
#define TD_REPORT_JUNIT_H

#include "common/buf.h"
#include "common/error.h"

enum td_junit_result { TD_JUNIT_PASSED, TD_JUNIT_SKIPPED, TD_JUNIT_ERROR, TD_JUNIT_FAILED };

struct td_junit {
    struct td_buf properties, cases; /* XML; a text that is not UTF-8 is mended on the way in */
    size_t n, failures, errors, skipped;
};

void td_junit_init(struct td_junit *j);
void td_junit_property(struct td_junit *j, const char *name, const char *value);
/* Append a case of class "tapedeck.<class>". message: shown unless the case passed. */
void td_junit_case(struct td_junit *j, const char *class, const char *name,
                   enum td_junit_result result, const char *message);
/* Write the file in one step. TD_ELIMIT: the report is larger than 256 MiB; TD_EIO. */
int td_junit_save(const struct td_junit *j, const char *path, struct td_error *err);
void td_junit_release(struct td_junit *j);

#endif
