/* op_replay.h - replay a fixture's ops on one build, or on two side by side.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_REPLAY_H
#define TD_REPLAYER_OP_REPLAY_H

#include "replayer/op_stats.h"

void td_op_replay_stats_release(struct td_op_replay_stats *s);

struct td_op_replay;

/* Open what the ops need: load the builds, and meanwhile list the ops and, where these are many, open a GPU for
 * references. Nothing is written yet: a build that cannot be used leaves no fixture behind. *stats gets the names of
 * provider and builds. Errors are those of td_build_pair_begin() and td_build_pair_await(), and of the recording.
 *   at_once : the ops are replayed next. Else the builds end again, and are opened anew when the ops are replayed:
 *             a server that answers requests has the GPU for itself
 *   stats, opt : borrowed until td_op_replay_close() */
int td_op_replay_open(struct td_fixture *fx, const struct td_replay_options *opt, bool at_once, struct td_op_replay_stats *stats,
                      struct td_op_replay **out, struct td_error *err);

/* Replay the ops that the options choose. Judged ops go to w, with outputs that differ from the
 * recorded ones. A candidate's crash is a result. Errors are those of the replayer: the build
 * cannot be opened (TD_EINVAL, TD_EIO ...), no memory, disk full. TD_EINTR: the user stopped it;
 * the ops replayed so far are written. Builds and GPU end from then on. */
int td_op_replay_run(struct td_op_replay *j, struct td_writer *w, struct td_error *err);

/* Wait until builds and GPU have ended; stats->driver_hangs: it has not. NULL is allowed. */
void td_op_replay_close(struct td_op_replay *j);

#endif
