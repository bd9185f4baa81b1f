/* absence_type.h - a line of absence.def, and the function that counts it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_ABSENCE_TYPE_H
#define TD_DIFFER_ABSENCE_TYPE_H

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

/* What can be done about frames that are corrupt. */
#define TD_ABSENCE_FRAMES "fixture verify DIR names them, fixture repair DIR derives what it can"

/* A number of the plan; 0 where it is not known. */
static inline int64_t td_absence_known(int64_t n)
{
    return n > 0 ? n : 0;
}
/* Count the planned answers of one fixture, and those that are there without an error. */
void td_absence_count_answered(const struct td_side *side, const struct td_planned *p,
                               struct td_absence_count *out);

/* td_count_<name>(), of each line of absence.def. */
#define ABSENCE(name, ...) td_absence_count_fn td_count_##name;
#include "differ/absence.def"
#undef ABSENCE

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
