/* ops_accepted.h - are the findings of lane ops those of an acceptance?
 * SPDX-License-Identifier: Apache-2.0
 *
 * The same fault is found again with another sample of the ops, and by another kernel of the same build. What
 * is compared, and what is random where results do not repeat, stands in docs/ci.md ("Accepting a finding"). */
#ifndef TD_GATE_OPS_ACCEPTED_H
#define TD_GATE_OPS_ACCEPTED_H

#include "common/json.h"

/* now      : td_findings_of() the report's lane ops
 * accepted : the lane in an entry, with "findings", "places" and "biases" */
bool td_ops_are_accepted(const cJSON *report, const cJSON *now, const cJSON *accepted);

#endif
