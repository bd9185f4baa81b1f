/* block_sums.c - the sums of a product's parts along K, by its kind.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/block_sums.h"

#include <string.h>

#include "kernels/ops/gemm_ref.h"
#include "kernels/ops/gptq_any_ref.h"

int td_block_sums(const struct td_op_call *op, const struct td_k_blocks *b, td_block_sums_fn *tell, void *ctx, struct td_error *err)
{
    struct td_gptq_op q;
    struct td_gemm g;
    int rc;

    if (b->size <= 0)
        return td_fail(err, TD_EINVAL, "%s: a block of K has no rows", op->kind);
    if (!strcmp(op->kind, "gptq_gemm")) {
        rc = td_gptq_op_of(op, &q, err);
        return rc ? rc : td_gptq_op_block_sums(&q, b, tell, ctx, err);
    }
    if (strcmp(op->kind, "gemm") != 0)
        return td_fail(err, TD_EUNSUPPORTED, "%s: no sums of parts of K", op->kind);
    rc = td_gemm_of(op, &g, err);
    return rc ? rc : td_gemm_block_sums(&g, b, tell, ctx, err);
}
