/* absence_count.h - the counts behind absence.def.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_ABSENCE_COUNT_H
#define TD_DIFFER_ABSENCE_COUNT_H

#include "differ/comparison.h"
#include "format/planned.h"

/* Zeroed: nothing was planned, so nothing is absent. */
struct td_absence_count {
    int64_t planned, seen;
    char why[320];           /* "" or why it is absent, and what to do */
    char say[480];           /* "" or the whole sentence, where the usual one does not fit */
};

/* Count for one fixture. out is zeroed before.
 *   p : the plan of that fixture */
typedef void td_absence_count_fn(const struct td_comparison *c, const struct td_side *side,
                                 const struct td_planned *p, struct td_absence_count *out);

/* One line of absence.def. */
struct td_absence_type {
    const char *name, *noun;
    unsigned lanes, roles;   /* bits: 1 << enum td_lane_id, 1 << enum td_role */
    enum td_verdict verdict;
    td_absence_count_fn *count;
};
extern const struct td_absence_type td_absence_types[];
extern const size_t td_n_absence_types;

#endif
