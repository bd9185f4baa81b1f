/* lane_ops.h - the lane "ops": does every replayed op compute what the baseline's did, and which
 * one went wrong first?
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_LANE_OPS_H
#define TD_DIFFER_LANE_OPS_H

#include "differ/blame.h"
#include "differ/lane.h"
#include "differ/numerics.h"

/* The lane's measurement. */
struct td_ops_found {
    struct td_numerics numerics;
    bool blamed;              /* some op is worse */
    struct td_blame blame;    /* which ones, and the first of them; valid when blamed */
};

/* Note what the numerics mean (docs/verdicts.md, "Ops").
 *   ops_recorded : how many ops the baseline's fixture holds */
void td_numerics_judge(const struct td_numerics *n, const struct td_judged_ops *candidate,
                       size_t ops_recorded, struct td_lane *lane);

#endif
