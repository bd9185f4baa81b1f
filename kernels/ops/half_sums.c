/* half_sums.c - what a right kernel gives that keeps its sums in halves.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/half_sums.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/f16.h"
#include "kernels/ops/block_sums.h"

static double half(double x)
{
    return (double)td_f16_load(td_f16_round((float)x));
}

int td_half_sums_pack(struct td_half_sums h)
{
    return h.block | h.step << 16 | (int)h.eights << 24;
}

struct td_half_sums td_half_sums_unpack(int packed)
{
    return (struct td_half_sums){packed & 0xffff, packed >> 16 & 0xff, packed >> 24 & 1};
}

int td_half_sums_least(struct td_half_sums h)
{
    return h.step && h.step < h.block ? h.step : h.block;
}

/* ---- adding ---------------------------------------------------------------------------------- */

/*   of_block : [n] the sum of the block that is being added; NULL: a block comes whole
 *   half     : [n] of all blocks */
struct adding { struct td_half_sums how; int64_t n, k; double *half, *of_block, *exact; };

/* x with the 11 significant bits of a half, however small it is. */
static double round_bits(double x)
{
    const float f = (float)x, t = f * 8193.0f; /* Veltkamp's splitting */

    return (double)(t - (t - f));
}

/* The sum of eight products in two chains of four halves. A chain rounds four partial sums, which hold 1 to 4 of the products: 2 x 10
 * products of roundings in all, where the rounding of the sum of eight has 8. Partial sums of a random walk have errors of
 * that size, whatever they are; their roundings are taken to be that of the whole, and larger by the root of 20 / 8. */
static double sum_of_chains(double sum)
{
    return sum + sqrt(20.0 / 8) * (round_bits(sum) - sum);
}

static void add_sums(void *ctx, int64_t k0, int64_t kn, const double *sums)
{
    const struct adding *a = ctx;
    const bool ends = (k0 + kn) % a->how.block == 0 || k0 + kn == a->k;

    for (int64_t i = 0; i < a->n; i++) {
        double sum = a->how.eights ? sum_of_chains(sums[i]) : sums[i];

        a->exact[i] += sums[i];
        if (a->of_block) {
            a->of_block[i] = a->how.step ? half(a->of_block[i] + half(sum)) : a->of_block[i] + sum;
            if (!ends)
                continue;
            sum = a->of_block[i];
            a->of_block[i] = 0;
        }
        a->half[i] = half(a->half[i] + half(sum));
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

/* The parts of K that are summed before anything is rounded: a part of a block, or a block. */
static int64_t part_of(struct td_half_sums how)
{
    return how.eights ? 8 : how.step ? how.step : how.block;
}

static int add_in_halves(const struct td_op_call *op, struct adding *a, struct td_error *err)
{
    const int64_t part = part_of(a->how), each = a->how.block / part, parts = td_k_blocks_count(&(struct td_k_blocks){part, NULL}, a->k),
                  blocks = td_k_blocks_count(&(struct td_k_blocks){a->how.block, NULL}, a->k);
    int32_t *block = malloc((size_t)(blocks + 1) * sizeof *block), *order = malloc((size_t)(parts + 1) * sizeof *order);
    int64_t n = 0;
    int rc = block && order ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory for the order of %lld parts of K", (long long)parts);

    if (!rc) {
        draw_order(op, block, blocks);
        for (int64_t i = 0; i < blocks; i++)
            for (int64_t p = block[i] * each; p < (block[i] + 1) * each && p < parts; p++)
                order[n++] = (int32_t)p;
        rc = td_block_sums(op, &(struct td_k_blocks){part, order}, add_sums, a, err);
    }
    free(block);
    free(order);
    return rc;
}

int td_half_sums_loss(const struct td_op_call *op, struct td_half_sums how, double *loss, struct td_error *err)
{
    const int64_t n = td_op_attr(op, "m", 0) * td_op_attr(op, "n", 0), k = td_op_attr(op, "k", 0);
    struct adding a = {how, n, k, loss, NULL, NULL};
    int rc;

    if (op->out.dtype != TD_DT_F16 || !td_op_in(op, "a") || k <= 0)
        return td_fail(err, TD_EUNSUPPORTED, "%s: no sums of halves", op->kind);
    if (how.block > 0 && (how.block >= k || how.block == TD_HALF_SUMS_ALL)) /* one block, of whole parts */
        a.how.block = (int)(td_k_blocks_count(&(struct td_k_blocks){part_of(how), NULL}, k) * part_of(how));
    if (how.block <= 0 || a.how.block % part_of(how) || (how.eights && how.step) || n < 0 || k > INT32_MAX / 2)
        return td_fail(err, TD_EINVAL, "%s: sums of halves of blocks of %d, in steps of %d", op->kind, how.block, how.step);
    a.exact = calloc((size_t)n + 1, sizeof *a.exact);
    if (part_of(a.how) < a.how.block)
        a.of_block = calloc((size_t)n + 1, sizeof *a.of_block);
    memset(loss, 0, (size_t)n * sizeof *loss);
    rc = a.exact && (a.of_block || part_of(a.how) == a.how.block) ? add_in_halves(op, &a, err)
                                                                  : td_fail(err, TD_ENOMEM, "out of memory for sums in halves");
    for (int64_t i = 0; i < n && !rc; i++)
        loss[i] -= a.exact[i];
    free(a.of_block);
    free(a.exact);
    return rc;
}
