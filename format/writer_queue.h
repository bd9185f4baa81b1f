/* writer_queue.h - the bounded queue between the callers of a writer and its thread.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Also here, from format/fixture.h: td_writer_pause, td_writer_resume, td_writer_commit. */
#ifndef TD_FORMAT_WRITER_QUEUE_H
#define TD_FORMAT_WRITER_QUEUE_H

#include "format/writer_state.h"

/* ---- callers, any thread ---- */

/* An item with a copy of n bytes; data NULL: they are set later. NULL: out of memory. */
struct td_writer_item *td_writer_item_new(enum td_writer_item_type type, const void *data, size_t n);
/* Queue the item, which the queue owns from here on; waits while the queue is full. NULL: TD_ENOMEM. Returns TD_OK, or
 * the code of the writer's first failure (the item is freed then). */
int td_writer_queue_push(struct td_writer *w, struct td_writer_item *it);
/* Queue a copy of a wire record, beside others in one item. Waits and returns as td_writer_queue_push() does. */
int td_writer_queue_wire(struct td_writer *w, const struct td_wire *rec);
/* The code of the writer's first failure, TD_OK when there is none. */
int td_writer_failure(struct td_writer *w);
/* Note the first failure, and wake every caller that waits for room. */
void td_writer_note_failure(struct td_writer *w, const struct td_error *why);

/* ---- the writer's thread ---- */

/* Take the items that pass the others, or else a part of the others, in order; wait for some until a
 * commit is due. NULL: none came.
 *   pending_ns : when the oldest record was queued that was taken and is not committed; 0: none
 *   *stop      : the writer is being closed and the queue is empty */
struct td_writer_item *td_writer_queue_take(struct td_writer *w, int64_t pending_ns, bool *stop);
/* An item was handled: free it, and let callers have its room. */
void td_writer_queue_done(struct td_writer *w, struct td_writer_item *it);

#endif
