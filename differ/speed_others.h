/* speed_others.h - were two servers timed while other programs left them the same machine? If not, their times cannot be compared.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A round is disturbed where other programs
 *   - took shares of the machine's cores that lie further apart than `limit` while the baseline and while the candidate was timed, or
 *   - took more than `limit` at one side, and programs waited for a core in more than `limit` of that time, or nobody knows: then what
 *     others took says nothing of what they would have taken, so that equal figures are not equal conditions.
 * It is left out with both its sides, whatever its times are: so nothing is chosen by what it would show. */
#ifndef TD_DIFFER_SPEED_OTHERS_H
#define TD_DIFFER_SPEED_OTHERS_H

#include "differ/align.h"
#include "differ/speed.h"

#define TD_SPEED_ROUNDS_LEAST 2 /* that a live baseline is judged by */
#define TD_SPEED_ROUNDS_ENOUGH 11 /* in turn, for intervals of four totals beside ops to have ends: then others are not timed */

/* Read what the replays' manifests say of other programs. *out is freed by the caller. TD_OK or TD_ENOMEM. */
int td_speed_others_read(const struct td_side *side, size_t n_sides, struct td_speed_block **out, size_t *n);
/* Mark the blocks of disturbed rounds as left out, and fill s->left_out, s->disturbed and s->others_unknown. */
void td_speed_others_leave_out(struct td_speed *s, double limit);
/* Fill s->whole. Servers that are asked in turn meet the same machine, and the same requests at the same distances; others do not, and
 * beside enough such rounds they are not timed. */
void td_speed_others_count_whole(struct td_speed *s);
/* Is a round neither left out nor one of these? */
bool td_speed_others_is_timed(const struct td_speed *s, int round);
/* Compare the candidate's replay with the starts of a recording by the same rule; what differs goes to s->other_host, unless a reason
 * stands there.
 *   base, now : manifests; a recording that did not measure it is not compared */
void td_speed_others_compare_starts(const cJSON *base, const cJSON *now, double limit, struct td_speed *s);

#endif
