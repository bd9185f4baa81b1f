/* op_replay.h - replay a fixture's ops on one build, or on two side by side.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_REPLAY_H
#define TD_REPLAYER_OP_REPLAY_H

#include "replayer/op_stats.h"

void td_op_replay_stats_release(struct td_op_replay_stats *s);

/* Replay the ops that the options choose. Judged ops go to w, with outputs that differ from the
 * recorded ones. A candidate's crash is a result. Errors are those of the replayer: the build
 * cannot be opened (TD_EINVAL, TD_EIO ...), no memory, disk full. TD_EINTR: the user stopped it;
 * the ops replayed so far are written. */
int td_op_replay(struct td_fixture *fx, struct td_writer *w, const struct td_replay_options *opt,
                 struct td_op_replay_stats *stats, struct td_error *err);

/* Check that the builds can be opened, before anything is written. *stats gets the names of
 * provider and builds. */
int td_op_replay_probe(const struct td_replay_options *opt, struct td_op_replay_stats *stats,
                       struct td_error *err);

#endif
