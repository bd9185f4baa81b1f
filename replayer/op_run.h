/* op_run.h - run ops of a replay on the builds, and time them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_RUN_H
#define TD_REPLAYER_OP_RUN_H

#include <stdatomic.h>

#include "common/progress.h"
#include "replayer/build_pair.h"
#include "replayer/op_item.h"
#include "replayer/op_list.h"
#include "replayer/op_stats.h"

/* What is known of a group while its ops are replayed. */
struct td_op_run_group {
    int crashes, hangs;
    uint32_t reached;                  /* the last stage that a crashed or hung op of it came to */
    int64_t done;                      /* ops that were judged before there was a plan */
    double cost_s, beside_s;           /* the least that one took; and would take where the stages work at once */
};

/* What all ops of a replay share. */
struct td_op_run {
    const struct td_replay_options *opt;
    struct td_op_replay_stats *stats;
    struct td_op_list list;
    struct td_op_run_group *groups;    /* [list.n_groups] */
    struct td_op_loader *loader;
    struct td_build_pair *builds;
    bool has_baseline;
    int hangs;                         /* of the candidate, in all groups */
    bool told_untimed;                 /* a warning said why an op was not timed */
    atomic_llong ran, judged;          /* for the progress: an op is half done when it ran */
    char now[160];                     /* what is being done */
    struct td_progress progress;
};

/* Load the op of it->rec, and check it. False: it can be neither run nor judged, and has its status. */
bool td_op_run_load(struct td_op_loader *loader, struct td_op_item *it);
/* Run a loaded op on the builds. Its status says what came of it; it->run_ns is what loading and running took, it->aside_ns what
 * waiting for a build that hung took beside. Errors are those of replay itself. */
int td_op_run(struct td_op_run *r, struct td_op_item *it, struct td_error *err);
/* Time those of n ops that are due: they ran on both builds. Returns what that took, in ns. */
int64_t td_op_run_time(struct td_op_run *r, struct td_op_item *items, int n);
void td_op_run_show_progress(struct td_op_run *r);

#endif
