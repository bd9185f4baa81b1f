/* absent.h - what a comparison lacks: one entry for each thing, fixture and lane.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_ABSENT_H
#define TD_DIFFER_ABSENT_H

#include "differ/align.h"
#include "differ/lane.h"

/* One thing that is absent: less was seen than was planned. */
struct td_absent {
    const char *what;        /* the name in absence.def */
    enum td_lane_id lane;    /* a lane that was asked for */
    enum td_role role; int round; /* of the fixture that lacks it */
    int64_t planned, seen;
    enum td_verdict verdict; /* of the lane, for this alone; NOT_JUDGED: information */
    char *text;
};
struct td_absences { struct td_absent *list; size_t n; };

#endif
