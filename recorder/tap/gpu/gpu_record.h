/* gpu_record.h - record one launch: its weights, copies of its inputs and output, and the entry
 * that describes them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For the holder of the gate. Call begin before the launch and end after it; no other entry may be
 * put into the queue between them. The copies run on the launch's own stream, so they read what the
 * launch reads and what it wrote. */
#ifndef TD_RECORDER_TAP_GPU_GPU_RECORD_H
#define TD_RECORDER_TAP_GPU_GPU_RECORD_H

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/gpu/gpu_steps.h"
#include "recorder/tap/gpu/gpu_weight_sets.h"

#pragma GCC visibility push(hidden)

/* Before a launch of the step at hand.
 *   stream           : the number of l->stream
 *   library_function : static; the function that multiplies with the W this launch dequantises;
 *                      NULL: the launch does all
 *   joined           : it computes the next rows of the GEMM before, which was recorded
 * Adds the time this took to s->used_ns. Returns TAP_OPS_SENT: recorded; else the reason why not,
 * which is not counted yet. */
enum tap_count tap_gpu_record_begin(struct tap_gpu_steps *s, const struct tap_gpu_launch *l,
                                    uint64_t stream, const struct tap_gpu_kernel *k,
                                    const struct td_gpu_work *w, const char *library_function,
                                    bool joined);
/* Do the weights of the set go with this step, where they have not gone before? NULL: there are none.
 * Returns TAP_OPS_SENT: all are on their way; else why the launch cannot be recorded. */
enum tap_count tap_gpu_record_weights(struct tap_gpu_steps *s, struct tap_gpu_weight_set *set,
                                      void *stream);
/* Is there room for a launch whose operands have so many bytes? */
bool tap_gpu_record_fits(uint64_t bytes);
/* After the launch; ok: the driver took it. False: it is not recorded, and is counted as failed. */
bool tap_gpu_record_end(struct tap_gpu_steps *s, const struct tap_gpu_launch *l, bool ok);

#pragma GCC visibility pop
#endif
