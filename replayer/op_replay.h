/* op_replay.h - replay a fixture's ops on one build, or on two side by side.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_REPLAY_H
#define TD_REPLAYER_OP_REPLAY_H

#include "replayer/build_pair.h"
#include "replayer/op_stats.h"

void td_op_replay_stats_release(struct td_op_replay_stats *s);

/* Open the builds, before anything is written: one that cannot be used leaves no fixture behind. *stats gets
 * the names of provider and builds. Errors are those of td_build_pair_open().
 *   out : for td_op_replay(), or td_build_pair_free() */
int td_op_replay_open(const struct td_replay_options *opt, struct td_build_pair **out, struct td_op_replay_stats *stats,
                      struct td_error *err);

/* Replay the ops that the options choose. Judged ops go to w, with outputs that differ from the
 * recorded ones. A candidate's crash is a result. Errors are those of the replayer: the build
 * cannot be opened (TD_EINVAL, TD_EIO ...), no memory, disk full. TD_EINTR: the user stopped it;
 * the ops replayed so far are written.
 *   builds : taken; NULL: they are opened here */
int td_op_replay(struct td_fixture *fx, struct td_writer *w, const struct td_replay_options *opt, struct td_build_pair *builds,
                 struct td_op_replay_stats *stats, struct td_error *err);

#endif
