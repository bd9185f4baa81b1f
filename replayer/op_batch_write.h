/* op_batch_write.h - judge a batch of ops that ran, and write it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_BATCH_WRITE_H
#define TD_REPLAYER_OP_BATCH_WRITE_H

#include "replayer/op_batch.h"

/* Judge what ran. *took_ns: how long that took. */
int td_op_batch_judge(struct td_op_batches *b, struct td_op_batch *of, int64_t *took_ns, struct td_error *err);

/* Write what ran, but for what lacked memory: that is tried again.
 *   took_ns : the judging */
int td_op_batch_write(struct td_op_batches *b, struct td_op_batch *of, int64_t took_ns, struct td_error *err);

#endif
