/* artifacts.h - what a run that did not pass leaves for whoever looks into it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GATE_ARTIFACTS_H
#define TD_GATE_ARTIFACTS_H

#include "gate/gate_plan.h"

/* --artifacts: unless the run passed, put the report in every format into the folder of the plan,
 * beside the replays, and cut the first bad op of each fixture out of its recording. A run that
 * passed leaves no folder. What cannot be cut out is said on stderr. Does nothing without
 * --artifacts.
 *   report : its `next` points at what was cut out, from then on
 * TD_EIO, TD_ENOMEM: a report could not be written there. */
int td_artifacts_keep(const struct td_gate_plan *p, cJSON *report, struct td_error *err);

#endif
