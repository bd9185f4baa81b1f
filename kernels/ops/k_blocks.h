/* k_blocks.h - blocks along K, the inner size of a product.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_OPS_K_BLOCKS_H
#define TD_KERNELS_OPS_K_BLOCKS_H

#include <stdint.h>

/* Blocks of `size` values of k; the last may have fewer.
 *   order : [count] which block comes first, second ...; NULL: in the order of k */
struct td_k_blocks { int64_t size; const int32_t *order; };

static inline int64_t td_k_blocks_count(const struct td_k_blocks *b, int64_t k)
{
    return (k + b->size - 1) / b->size;
}

/* The i-th block. Returns its size; *first: its first k. */
static inline int64_t td_k_block_at(const struct td_k_blocks *b, int64_t k, int64_t i, int64_t *first)
{
    *first = (b->order ? b->order[i] : i) * b->size;
    return k - *first < b->size ? k - *first : b->size;
}

/* sums : [m, n], of k0 <= k < k0 + kn; until tell returns */
typedef void td_block_sums_fn(void *ctx, int64_t k0, int64_t kn, const double *sums);

#endif
