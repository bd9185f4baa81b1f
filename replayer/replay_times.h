/* replay_times.h - what the stages of a replay spend their time on.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_REPLAY_TIMES_H
#define TD_REPLAYER_REPLAY_TIMES_H

#include "common/time_spent.h"

enum {
    TD_TIME_READ_RECORDS, TD_TIME_READ_BLOBS,
    TD_TIME_RUN_PACK, TD_TIME_RUN_WAIT, TD_TIME_RUN_IMAGES,
    /* in the builds' processes, by td_stage of child_protocol.h */
    TD_TIME_BUILD_LOAD, TD_TIME_BUILD_PREPARE, TD_TIME_BUILD_RUN, TD_TIME_BUILD_FETCH, TD_TIME_BUILD_RELEASE,
    /* of the threads that judge */
    TD_TIME_JUDGE_REFERENCES, TD_TIME_JUDGE_OUTPUTS, TD_TIME_JUDGE_VARIETY,
    TD_REPLAY_TIMES
};

extern struct td_time_span td_replay_times[TD_REPLAY_TIMES];

/* Add what went by since from_ns to one of them. Returns the clock. */
static inline int64_t td_replay_spent(int which, int64_t from_ns)
{
    return td_time_spent(&td_replay_times[which], from_ns);
}

/* Log all of them, and those of the references (kernels/reference/reference_times.h). */
void td_replay_times_log(void);

/* What a replay of ops comes to, one after the other. */
enum td_replay_point {
    TD_AT_BUILDS_OPEN, TD_AT_LISTED, TD_AT_FIRST_OP, TD_AT_LAST_OP, TD_AT_JUDGED, TD_AT_WRITTEN, TD_AT_END, TD_REPLAY_POINTS
};

/* A fixture's replay begins. */
void td_replay_points_begin(void);
/* It has come to that point. Of several times the first one counts, but of the last op. From one thread. */
void td_replay_is_at(enum td_replay_point point);
/* Log how long after the begin that was. */
void td_replay_points_log(void);

#endif
