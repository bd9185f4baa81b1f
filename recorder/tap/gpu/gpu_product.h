/* gpu_product.h - a product of a CUDA graph, as it was captured: what all launches of the graph have in
 * common.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It is looked at for each launch that is recorded, in the thread that launches, and an entry of the
 * queue refers to it. So what that thread needs comes first, and is worked out once. */
#ifndef TD_RECORDER_TAP_GPU_GPU_PRODUCT_H
#define TD_RECORDER_TAP_GPU_GPU_PRODUCT_H

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/gpu/gpu_weight_sets.h"

#pragma GCC visibility push(hidden)

struct tap_gpu_product {
    uint64_t weights;                 /* tap_gpu_gemm_weights() */
    uint64_t bytes;                   /* tap_gpu_gemm_copied_bytes() */
    uint64_t slot_bytes;              /* tap_gpu_slot_bytes() */
    struct tap_gpu_weight_set_found found; /* the holder of the gate's */
    const struct tap_gpu_kernel *kernel;
    struct tap_gpu_launch launch;     /* only its numbers */
    struct td_gpu_work work;
};

#pragma GCC visibility pop
#endif
