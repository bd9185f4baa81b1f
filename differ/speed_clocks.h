/* speed_clocks.h - were two builds timed at the same GPU clocks? If not, their times cannot be
 * compared.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_SPEED_CLOCKS_H
#define TD_DIFFER_SPEED_CLOCKS_H

#include "differ/lane.h"
#include "differ/judged_ops.h"
#include "differ/speed.h"

/* An op is not judged when the mean clocks of its two builds differ by more than this share ... */
#define TD_CLOCKS_DIFFER 0.03
/* ... or when power or heat held one build's clocks down in a share of its samples that is
 * larger by this much. */
#define TD_THROTTLED_DIFFERS 0.25

/* May the op's pairs be judged? Counts the op in s either way. */
bool td_speed_clocks_even(struct td_speed *s, const struct td_judged_op *op);
/* Note what was counted. */
void td_speed_clocks_judge(const struct td_speed *s, struct td_lane *lane);

#endif
