/* scaled_mm_c.c - portable C for products of 8-bit numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/op_variant.h"
#include "kernels/ops/scaled_mm_ref.h"

static size_t scaled_mm_work_bytes(const struct td_op_call *op)
{
    struct td_scaled_mm x;

    return td_scaled_mm_of(op, &x, NULL) ? 0 : td_scaled_mm_f32_work(&x) * sizeof(float);
}

static void run_scaled_mm(const struct td_op_call *op, void *work)
{
    struct td_scaled_mm x;

    if (!td_scaled_mm_of(op, &x, NULL))
        td_scaled_mm_f32(&x, work);
}

const struct td_op_variant td_scaled_mm_c = {"scaled_mm", "c", TD_CPU_ANY, scaled_mm_work_bytes,
                                             run_scaled_mm};
