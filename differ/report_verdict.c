/* report_verdict.c - how a verdict looks in each kind of report.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_verdict.h"

void td_page_verdict(const struct td_page *p, enum td_verdict v, const char *text, int width)
{
    static const enum td_colour COLOUR[] = {TD_PLAIN, TD_GREEN, TD_YELLOW, TD_RED, TD_RED};

    td_page_paint(p, COLOUR[v], text, width);
}

void td_junit_verdict(struct td_junit *j, const char *class, const char *name, enum td_verdict v,
                      const char *message)
{
    static const enum td_junit_result RESULT[] = {TD_JUNIT_SKIPPED, TD_JUNIT_PASSED, TD_JUNIT_ERROR,
                                                  TD_JUNIT_FAILED, TD_JUNIT_ERROR};

    td_junit_case(j, class, name, RESULT[v], message);
}
