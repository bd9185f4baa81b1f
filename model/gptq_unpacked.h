/* gptq_unpacked.h - a GPTQ weight in the checkpoint's layout that was made from a run-time layout.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The same tensors as struct td_gptq_weight (gptq.h), which borrows read-only arrays of a file. This
 * struct owns its arrays, which code that undoes a layout writes: those of vLLM's CPU build
 * (vllm_layout.h), exllama's and Marlin's. */
#ifndef TD_MODEL_GPTQ_UNPACKED_H
#define TD_MODEL_GPTQ_UNPACKED_H

#include <stdint.h>

#include "common/error.h"
#include "model/dtype.h"

struct td_gptq_unpacked {
    int bits;                  /* 4 or 8 */
    int64_t n, k, groups;      /* outputs, inputs, groups of inputs that share scales */
    enum td_dtype scale_dtype; /* F16 or BF16 */
    int zero_offset;           /* 1: qzeros holds zero - 1, as format "gptq"; 0: the zero itself */
    uint32_t *qweight;         /* [k*bits/32, n] */
    uint32_t *qzeros;          /* [groups, n*bits/32] */
    uint16_t *scales;          /* [groups, n] */
    int32_t *g_idx;            /* [k], or NULL: rows are in group order */
};

/* Allocate for these sizes: qweight and qzeros are zeros, scales are undefined, g_idx is NULL. Each
 * array is a block of malloc's of its own, so that a caller may take it. TD_EINVAL: sizes that no
 * layer of 4 or 8 bits can have (n and k at most 2^24, so that no product of them overflows);
 * TD_ENOMEM. */
int td_gptq_unpacked_init(struct td_gptq_unpacked *w, int bits, int64_t n, int64_t k, int64_t groups, struct td_error *err);
/* Make every zero point the one of a symmetric type, uint4b8 or uint8b128: 8 or 128. */
void td_gptq_unpacked_set_symmetric(struct td_gptq_unpacked *w);
void td_gptq_unpacked_release(struct td_gptq_unpacked *w); /* a zeroed struct is allowed */

#endif
