/* speed_answer.h - what one answer took.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_SPEED_ANSWER_H
#define TD_DIFFER_SPEED_ANSWER_H

#include "differ/speed.h"
#include "format/records.h"

#define TD_SERVER_METRICS TD_OP_HOT /* the first of enum td_speed_metric */

struct td_answer_speed { double v[TD_SERVER_METRICS]; int32_t tokens; }; /* NaN: not known */

/* TTFT and E2E as wire/derive.h has them, in ns; ITL: mean of the gaps of one answer; throughput: tokens per second of E2E. */
void td_speed_of_answer(const struct td_exchange *x, struct td_answer_speed *f);
/* Does it say how fast the server is? A timed answer with tokens does. */
bool td_speed_is_evidence(const struct td_exchange *x);

#endif
