/* reference_batch.h - compute the references of several ops with the same weights at once.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The weights are dequantised once for all of them. A row of a product depends on its row of A
 * alone, so the rows of several ops can be stacked into one op. Ops that are not of this form
 * (input "a" [m, k], attribute m) are computed one by one. */
#ifndef TD_REPLAYER_REFERENCE_BATCH_H
#define TD_REPLAYER_REFERENCE_BATCH_H

#include "kernels/ops/op_kind.h"
#include "replayer/reference_choice.h"

/* A pass over the weights takes so many rows (product_ref.c); and what the results of a batch take on
 * each thread is bounded: three doubles for each. */
#define TD_REFERENCE_BATCH_MAX_ROWS 264
#define TD_REFERENCE_BATCH_MAX_RESULTS ((int64_t)1 << 20)

struct td_reference_batch {
    struct td_op_ref all; bool joined;  /* joined: owns the memory of all references; else the first one does */
    bool by_gpu;                        /* a GPU computed them */
};

/* Can `next` be stacked below `first`? Kind, attributes but m, and the types of A and of the output are equal; a rounding on the
 * way to the output is one to its type. Strides may differ: rows are stacked by their own, and references are dense. That the
 * weights are equal the caller knows. */
bool td_reference_batch_fits(const struct td_op_call *first, const struct td_op_call *next);

/* Compute the references of n ops, each of which fits below the first.
 *   makers   : what the GPU cannot compute, cannot any more, or computed wrong, the CPU does
 *   weights  : of all these ops (td_op_weights_key)
 *   rounding : activation rounding of R1
 *   refs     : [n], filled
 *   how      : filled. td_op_ref_release() takes the owner.
 * Errors are those of kind->reference, or TD_ENOMEM. */
int td_reference_batch_compute(struct td_reference_makers *makers, const struct td_op_kind *kind,
                               const struct td_op_call *const *ops, int n, uint64_t weights,
                               const char *rounding, struct td_op_ref *refs, struct td_reference_batch *how,
                               struct td_error *err);

#endif
