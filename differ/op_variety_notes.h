/* op_variety_notes.h - say which faults no recorded op could show, since the data does not vary enough.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_OP_VARIETY_NOTES_H
#define TD_DIFFER_OP_VARIETY_NOTES_H

#include <cjson/cJSON.h>

#include "differ/lane.h"

/* Add a sentence for each fault that the data of a kind of product cannot show, and what would show it. It is
 * information, whatever the verdict (docs/verdicts.md, "What a recording cannot show").
 *   variety : "replay.variety" of the candidate's manifest, which may be anything; NULL: an older replay */
void td_op_variety_notes(const cJSON *variety, struct td_lane *lane);

#endif
