/* half_sums.c - what a right kernel gives that keeps its sums in halves.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/half_sums.h"

#include <stdlib.h>
#include <string.h>

#include "common/f16.h"
#include "kernels/ops/block_sums.h"

static double half(double x)
{
    return (double)td_f16_load(td_f16_round((float)x));
}

struct adding { int64_t n; double *half, *exact; };

static void add_block(void *ctx, int64_t k0, int64_t kn, const double *sums)
{
    const struct adding *a = ctx;

    (void)k0;
    (void)kn;
    for (int64_t i = 0; i < a->n; i++) {
        a->half[i] = half(a->half[i] + half(sums[i]));
        a->exact[i] += sums[i];
    }
}

/* An order that is drawn from the bytes of A. */
static void draw_order(const struct td_op_call *op, int32_t *order, int64_t n)
{
    const struct td_tensor *a = td_op_in(op, "a");
    uint64_t seed = td_hash64(a->data, a->size_bytes);

    for (int64_t i = 0; i < n; i++)
        order[i] = (int32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = (int64_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % (i + 1);
        const int32_t other = order[i];

        order[i] = order[j];
        order[j] = other;
    }
}

static int add_in_halves(const struct td_op_call *op, int64_t block, struct adding *a, struct td_error *err)
{
    const int64_t n = td_k_blocks_count(&(struct td_k_blocks){block, NULL}, td_op_attr(op, "k", 0));
    int32_t *order = malloc((size_t)(n + 1) * sizeof *order);
    int rc;

    if (!order)
        return td_fail(err, TD_ENOMEM, "out of memory for the order of %lld blocks", (long long)n);
    draw_order(op, order, n);
    rc = td_block_sums(op, &(struct td_k_blocks){block, order}, add_block, a, err);
    free(order);
    return rc;
}

int td_half_sums_loss(const struct td_op_call *op, int64_t block, double *loss, struct td_error *err)
{
    const int64_t n = td_op_attr(op, "m", 0) * td_op_attr(op, "n", 0);
    struct adding a = {n, loss, NULL};
    int rc;

    if (op->out.dtype != TD_DT_F16 || !td_op_in(op, "a") || td_op_attr(op, "k", 0) <= 0)
        return td_fail(err, TD_EUNSUPPORTED, "%s: no sums of halves", op->kind);
    if (block <= 0 || n < 0)
        return td_fail(err, TD_EINVAL, "%s: sums of halves of blocks of %lld", op->kind, (long long)block);
    if (!(a.exact = calloc((size_t)n + 1, sizeof *a.exact)))
        return td_fail(err, TD_ENOMEM, "out of memory for sums in halves");
    memset(loss, 0, (size_t)n * sizeof *loss);
    rc = add_in_halves(op, block, &a, err);
    for (int64_t i = 0; i < n && !rc; i++)
        loss[i] -= a.exact[i];
    free(a.exact);
    return rc;
}
