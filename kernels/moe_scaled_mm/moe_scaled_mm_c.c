/* moe_scaled_mm_c.c - portable C for products of 8-bit floats with the experts of a mixture: expert
 * after expert.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/moe_scaled_mm_op.h"
#include "kernels/ops/op_variant.h"
#include "kernels/ops/scaled_mm_ref.h"

static size_t moe_scaled_mm_work_bytes(const struct td_op_call *op)
{
    struct td_moe_scaled_mm x;

    return td_moe_scaled_mm_of(op, &x, NULL) ? 0 : td_scaled_mm_f32_work(&x.all) * sizeof(float);
}

static void run_moe_scaled_mm(const struct td_op_call *op, void *work)
{
    struct td_moe_scaled_mm x;

    if (td_moe_scaled_mm_of(op, &x, NULL))
        return;
    for (int64_t e = 0; e < x.experts; e++) {
        const struct td_scaled_mm o = td_moe_scaled_mm_expert(&x, e);

        if (o.m)
            td_scaled_mm_f32(&o, work);
    }
}

const struct td_op_variant td_moe_scaled_mm_c = {"moe_scaled_mm", "c", TD_CPU_ANY,
                                                 moe_scaled_mm_work_bytes, run_moe_scaled_mm};
