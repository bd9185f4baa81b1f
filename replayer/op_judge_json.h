/* op_judge_json.h - the judgement of one op as JSON.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_JUDGE_JSON_H
#define TD_REPLAYER_OP_JUDGE_JSON_H

#include "replayer/op_item.h"

/* The judgement as docs/format.md, "judge", describes it. it->speed moves into the tree. The caller owns the tree. */
cJSON *td_op_judge_json(struct td_op_item *it);

#endif
