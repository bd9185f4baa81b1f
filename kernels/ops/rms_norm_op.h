/* rms_norm_op.h - what a recorded "rms_norm" or "fused_add_rms_norm" means.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   c = a / sqrt(mean of a^2 + epsilon) * w, over each n neighbours of a row
 *   a, c : [m, cols] float, cols a multiple of n     w : [n] float, or there is none
 *   eps  : epsilon, one F32     attributes m, n
 * fused_add_rms_norm has a residual [m, n] of a's type besides. Part 1 of its call is a + residual, rounded to that type, and
 * part 0 the norm of part 1.
 *
 * Source: vLLM 0.26, csrc/libtorch_stable/layernorm_kernels.cu. */
#ifndef TD_KERNELS_OPS_RMS_NORM_OP_H
#define TD_KERNELS_OPS_RMS_NORM_OP_H

#include "kernels/ops/beside_op.h"

struct td_rms_norm {
    int64_t m, n, cols, part;
    double epsilon;
    struct td_matrix a, residual, w;  /* t NULL: there is none */
};

/* adds: the op is a fused_add_rms_norm. 0, TD_EINVAL or TD_EUNSUPPORTED with a sentence. */
int td_rms_norm_of(const struct td_op_call *op, bool adds, struct td_rms_norm *x, struct td_error *err);
int td_rms_norm_reference(const struct td_op_call *op, bool adds, struct td_op_ref *ref, struct td_error *err);

#endif
