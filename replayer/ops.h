/* ops.h - replay a fixture's ops on one build, or on two side by side.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OPS_H
#define TD_REPLAYER_OPS_H

#include "replayer/opitem.h"
#include "replayer/oplist.h"

struct td_ops_row {                    /* of the summary: a kernel and a shape */
    char kernel[64], shape[TD_OP_SHAPE_WORDS];
    int64_t count[TD_OP_STATUS_COUNT];
    double worst, worst_baseline, worst_recorded; /* scores; -1: none */
    int64_t worst_op;
    char reason[200];                  /* the first that was not ok */
};

struct td_ops_stats {
    struct td_ops_row *rows; size_t n_rows;
    int64_t seen, replayed, count[TD_OP_STATUS_COUNT];
    int64_t not_matching, other_shards, not_sampled, bad_frames, timed, skipped_after_crashes;
    int64_t children;                  /* started for the candidate */
    double seconds;
    char provider[32], build[256], baseline_provider[32], baseline_build[256];
    bool interrupted;
};
void td_ops_stats_release(struct td_ops_stats *s);

/* Replay what the options choose and write the judged ops (and outputs that differ from the recorded ones) to w.
 * A candidate's crash is a result. Errors are those of the replayer: the build cannot be opened (TD_EINVAL, TD_EIO, ...),
 * no memory, disk full; TD_EINTR when the user stopped it (what was done is written). */
int td_ops_replay(struct td_fixture *fx, struct td_writer *w, const struct td_replay_options *opt, struct td_ops_stats *stats,
                  struct td_error *err);

/* Can these builds be opened at all? Asked before anything is written. *stats gets the names of provider and builds. */
int td_ops_probe(const struct td_replay_options *opt, struct td_ops_stats *stats, struct td_error *err);

#endif
