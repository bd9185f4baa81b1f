/* gate_judge.h - one fixture, or one smoke test, from replay to report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GATE_JUDGE_H
#define TD_GATE_JUDGE_H

#include "gate/gate_plan.h"

#define TD_GATE_TOOL "tapedeck gate " TD_VERSION

/* Replay a fixture, have differ compare, and return differ's report. What goes wrong on the way
 * becomes a report as well: broken, with the cause. The caller frees it. NULL: out of memory. */
cJSON *td_gate_judge(const struct td_gate_options *o, const struct td_gate_item *it);
/* The same for a server alone: record the smoke suite, and have differ apply absolute rules. */
cJSON *td_gate_smoke(const struct td_gate_options *o, const struct td_gate_item *it);

/* A report of a fixture that could not be judged (err: why). NULL: out of memory. */
cJSON *td_gate_broken(const char *fixture, const struct td_error *err);
cJSON *td_gate_broken_smoke(const struct td_error *err);

#endif
