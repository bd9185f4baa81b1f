/* report_advice.h - what a comparison did not check, and what a person can do next.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_ADVICE_H
#define TD_DIFFER_REPORT_ADVICE_H

#include "common/json.h"
#include "differ/lane.h"

/* The provider whose kernels of ours ran the ops, when no build did; else NULL. */
const char *td_own_kernels(const struct td_comparison *c);
/* Write the member "not_checked": a list of what no lane looked at, in words. */
void td_advice_write_not_checked(const struct td_comparison *c, struct td_jw *w);
/* Write the member "next": a list of {text, command}; command is null where there is none. */
void td_advice_write_next(const struct td_comparison *c, struct td_jw *w);

#endif
