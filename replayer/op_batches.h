/* op_batches.h - how ops go through a replay: read, run, judged, written, in batches.
 * SPDX-License-Identifier: Apache-2.0
 *
 *      reader            main thread            two judges
 *     reads a batch --->  runs it on  --->  one of them judges it, writes it in its turn,
 *                         the builds        and gives it back to be filled again
 *
 * There are TD_OP_BATCHES, each in one stage at a time, and no stage waits for another one as long as it has a batch. The
 * reader alone touches the window, the loader and what is put aside; the main thread the builds; the judges, with up to
 * 16 threads together, references; the one whose turn it is, writer and counts. The works of a batch end one after the other,
 * so a single judge's threads would wait for the last one of each batch. There are no locks but those of the queues between
 * the stages and of that turn, and each op has the result, and its place in the file, that it has where one stage works at a
 * time. One stage works at a time while builds are timed, while there is no plan yet, with one CPU, with less than 4 GiB of
 * --max-memory or 8 GiB of address space, and for an op of more than a third of what all batches may hold. Which ops were
 * written before a GPU was found wrong is chance where stages work at once.
 *
 * Memory: once the tensors and outputs of all batches take 1 GiB, or an eighth of --max-memory, no batch is begun; so they
 * take 1.5 GiB at most.
 *
 * An op for which there is no memory, while others hold theirs, is put aside. Once the stages are empty it is tried alone; what comes
 * of that counts. */
#ifndef TD_REPLAYER_OP_BATCHES_H
#define TD_REPLAYER_OP_BATCHES_H

#include "replayer/op_batch.h"

/* Will the stages work at once, now, or once there is a plan? */
bool td_op_batches_overlap(const struct td_op_batches *b);
/* Replay the window's ops until it is at its end, until the user stops it, or the time is over (pace->late): what was run by then is
 * judged and written. Errors are those of the replayer; of what was run, batches before the error are written. */
int td_op_batches_replay(struct td_op_batches *b, struct td_op_window *w, struct td_error *err);
void td_op_batches_release(struct td_op_batches *b);

#endif
