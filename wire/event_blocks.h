/* event_blocks.h - take records of the wire on the path of an event, and pass them on in another thread.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Putting a record costs one copy into a block of memory. A lock, an allocation or a system call comes only
 * once in about 1 MiB of records. A thread takes them from there to two receivers, in their order:
 *   soon : within a tenth of a second (the writer, which commits twice a second)
 *   late : at the next drain, or when more than TD_EVENT_BLOCKS_LATE of bytes wait (parsing)
 * so that nothing is parsed or written where a byte's time is taken, and parsing waits, where it can, until
 * the server has nothing to do. Put from one thread only. */
#ifndef TD_WIRE_EVENT_BLOCKS_H
#define TD_WIRE_EVENT_BLOCKS_H

#include "common/error.h"
#include "format/records.h"

#define TD_EVENT_BLOCKS_LATE ((size_t)64 << 20)
#define TD_EVENT_BLOCKS_MAX ((size_t)256 << 20) /* then putting waits */

/* Gets one record, valid for the call. Anything but TD_OK ends the passing on: the drain returns it. */
typedef int td_event_blocks_fn(void *arg, const struct td_wire *rec, struct td_error *err);

struct td_event_blocks;
/* soon, late: NULL: nobody. TD_ENOMEM, TD_EIO: no thread. */
int td_event_blocks_new(td_event_blocks_fn *soon, td_event_blocks_fn *late, void *arg, struct td_event_blocks **out,
                        struct td_error *err);
/* Copy a record. What goes wrong is told by the next drain. */
void td_event_blocks_put(struct td_event_blocks *b, const struct td_wire *rec);
/* Wait until both receivers have all that was put. Returns what the first failure was, each time. What the
 * receivers did has happened before it returns. */
int td_event_blocks_drain(struct td_event_blocks *b, struct td_error *err);
/* End the thread; what was not drained is dropped. NULL is allowed. */
void td_event_blocks_free(struct td_event_blocks *b);

#endif
