/* op_judge.h - judge the runs of a batch of ops against their references, on several threads.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_JUDGE_H
#define TD_REPLAYER_OP_JUDGE_H

#include "replayer/op_item.h"
#include "replayer/ref_cache.h"
#include "replayer/reference_batch.h"

/* Called by the thread that called td_op_judge_batch(), each time it has done a part, and at the end. n: items
 * judged by all threads so far. */
typedef void td_op_judged_fn(void *ctx, int n);

/* How many threads should judge: one for each CPU that this process may use, sixteen at most, and no more than its address
 * space has room for. */
int td_op_judge_threads(void);

/* Judge n items with `threads` threads, by references that are found in the cache or that makers compute; some may have a status other than ok already. Every item ends with its status, its
 * results and rec.judge filled. Items with equal weights should stand next to each other: they share one reference
 * computation. Returns TD_ENOMEM when the batch could not be judged at all; a single op's failure is its status. */
int td_op_judge_batch(struct td_op_item *items, int n, struct td_reference_makers *makers, struct td_ref_cache *cache, int threads,
                      td_op_judged_fn *tell, void *ctx, struct td_error *err);

#endif
