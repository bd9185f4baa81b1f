/* speed_starts.h - a server's speed against a recording that holds several starts of the server.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two starts of one server are not equally fast, so one start says little. A recording of N starts (record --starts N) shows how far
 * they lie apart. The candidate is one start more: is it further off than that? For each row the answers of a start come to one
 * figure, the median over prompts of how far the logarithm of its answers' time (the mean over repeats) lies from the mean of all
 * starts. The candidate's figure is held against Student's prediction interval for one more start,
 *     mean +- t(1 - row->alpha / 2, N - 1) * s * sqrt(1 + 1 / N)
 * (Hahn and Meeker, Statistical Intervals, 4.7; all rows together at the policy's level, by Bonferroni). It holds what differs
 * from start to start, and nothing of what differs from machine to machine: so both must be one machine. */
#ifndef TD_DIFFER_SPEED_STARTS_H
#define TD_DIFFER_SPEED_STARTS_H

#include "differ/align.h"
#include "differ/policy.h"
#include "differ/speed.h"

/* Find how many starts the baseline's manifest tells of, and which fact of the candidate's differs. Fills s->starts, s->repeats_of_start
 * and s->other_host.
 *   base, now : manifests
 *   others    : the policy's limit of what other programs may take (speed_others.h) */
void td_speed_starts_find(const cJSON *base, const cJSON *now, double others, struct td_speed *s);
/* Add the rows of s->starts, if both are one machine: total, each category, and each concurrency where there are several. A row has a
 * pair for each start: its figure, and the candidate's. TD_OK, TD_ENOMEM. */
int td_speed_starts_measure(const struct td_groups *g, struct td_speed *s, struct td_error *err);
/* Decide such a row: effect is the candidate's, with the interval above. REGRESSED: it is larger than `effect`, and the interval above
 * 0. Two starts at least. */
void td_speed_starts_decide(struct td_speed_row *row, double effect);
#define TD_SPEED_STARTS_MOST 200
/* About how many starts would make an estimate of `detect` certain in this row; 0: these do; TD_SPEED_STARTS_MOST: so many or more. */
size_t td_speed_starts_needed(const struct td_speed_row *row, double detect);

#endif
