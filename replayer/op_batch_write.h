/* op_batch_write.h - judge a batch of ops that ran, and write it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_BATCH_WRITE_H
#define TD_REPLAYER_OP_BATCH_WRITE_H

#include "replayer/op_batch.h"

/* Judge what ran. Several batches at once may be judged.
 *   threads : that take part, the caller's included */
int td_op_batch_judge(struct td_op_batches *b, struct td_op_batch *of, int threads, struct td_error *err);

/* Write what ran and was judged, but for what lacked memory: that is tried again. */
int td_op_batch_write(struct td_op_batches *b, struct td_op_batch *of, struct td_error *err);

#endif
