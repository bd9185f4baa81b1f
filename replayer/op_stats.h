/* op_stats.h - what came of the ops of a replay, for its summary.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_STATS_H
#define TD_REPLAYER_OP_STATS_H

#include "replayer/op_plan.h"
#include "replayer/op_rows.h"
#include "replayer/ref_cache.h"

struct td_op_replay_stats {
    struct td_op_replay_row *rows; size_t n_rows;
    int64_t seen, replayed, count[TD_OP_STATUS_COUNT];
    int64_t not_matching, other_shards, not_sampled, bad_frames, timed, skipped_after_crashes;
    int64_t not_planned;               /* left out by a plan */
    struct td_op_share share;
    const char *planned_by;            /* "all", "max-ops", "time", "plan"; NULL: there was nothing to plan */
    bool late;                         /* the time was over before the plan was done */
    int64_t children;                  /* processes started for the candidate */
    bool came_to_run;                  /* an op of the candidate came to its kernel */
    char refusal[480];                 /* why the first op did not; "" */
    struct td_ref_cache_counts cache;
    double seconds;
    char references[640];              /* who computed the references; "": the CPU, and nothing is to be said */
    bool driver_hangs;                 /* the GPU's driver: this process has to end by _exit() */
    char provider[32], build[256], baseline_provider[32], baseline_build[256];
    bool interrupted;
};

#endif
