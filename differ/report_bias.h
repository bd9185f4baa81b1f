/* report_bias.h - bias and coarseness of groups of ops in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_REPORT_BIAS_H
#define TD_DIFFER_REPORT_BIAS_H

#include "common/json.h"
#include "differ/bias.h"
#include "differ/repeats.h"

/* Write the member "bias" of "ops". */
void td_bias_write_json(struct td_jw *w, const struct td_bias *b);
/* Write the member "repeats". */
void td_repeats_write_json(struct td_jw *w, const struct td_repeats *r);

#endif
