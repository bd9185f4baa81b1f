/* op_batch_read.h - read a batch of ops for a replay, and put aside what is too large to lie beside others.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_BATCH_READ_H
#define TD_REPLAYER_OP_BATCH_READ_H

#include "replayer/op_batch.h"

#define TD_OP_BATCH_BESIDE_OPS 64 /* of one of several */

/* With so many bytes in all batches together none is begun. */
size_t td_op_batch_most_bytes(void);

/* Fill a batch with the next ops of the window, or with one that waits.
 *   to     : empty; has room for TD_OP_BATCH_OPS items, or TD_OP_BATCH_BESIDE_OPS
 *   beside : others are in memory, too
 * Empty afterwards: there are no more, or the next one is put aside, or the time is over. */
int td_op_batch_read(struct td_op_batches *b, struct td_op_batch *to, bool beside, struct td_error *err);

/* Put an op aside until it is alone. Its record stays, how fast it was, and what the candidate's run found. */
void td_op_batch_set_aside(struct td_op_batches *b, struct td_op_item *it);

#endif
