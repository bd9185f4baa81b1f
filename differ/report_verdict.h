/* report_verdict.h - how a verdict looks in each kind of report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_VERDICT_H
#define TD_DIFFER_REPORT_VERDICT_H

#include "differ/verdict.h"
#include "report/junit.h"
#include "report/page.h"

/* Text: print text in the verdict's colour, padded to `width` columns. */
void td_page_verdict(const struct td_page *p, enum td_verdict v, const char *text, int width);
/* JUnit: add a case. Regressed is a <failure>; inconclusive and broken are an <error>, because
 * the build is not known to be good; not judged is <skipped>. */
void td_junit_verdict(struct td_junit *j, const char *class, const char *name, enum td_verdict v,
                      const char *message);

#endif
