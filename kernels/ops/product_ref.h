/* product_ref.h - sums of products in double, by blocks: the hot loop of the references.
 * SPDX-License-Identifier: Apache-2.0
 *
 * R0, R1 and |A||W| come from one pass over the weights: a block of them is dequantised once, into
 * memory that stays in the cache, and meets all rows of A.
 *
 * Each element's products are added one by one in the order of k, whatever the block sizes and the
 * instruction set. A product of two floats, or of a float and a dequantised weight with a scale of 16
 * bits, is exact in double, so it makes no difference whether it is fused with its addition: the sums
 * are then the same bit for bit on every machine, and those of the plain loop. Only a product of more
 * than 53 bits (of a row rounded to 8 bits and a weight with a scale in float) may differ in the last
 * bit between instruction sets. NaN and Inf go where IEEE arithmetic takes them. */
#ifndef TD_KERNELS_OPS_PRODUCT_REF_H
#define TD_KERNELS_OPS_PRODUCT_REF_H

#include <stdint.h>

#include "kernels/cpu_isa.h"

#define TD_PRODUCT_STRIP 16  /* columns that lie beside each other in a block of weights */
#define TD_PRODUCT_COLS 64   /* columns of a block, at most */
#define TD_PRODUCT_DEPTH 256 /* values of k of a block, at most */

/* Where element (k0 + j, n0 + i) lies in a block of depth kn. */
#define TD_PRODUCT_AT(kn, j, i) \
    (((i) / TD_PRODUCT_STRIP * (kn) + (j)) * TD_PRODUCT_STRIP + (i) % TD_PRODUCT_STRIP)

/* A part of W: k0 <= k < k0 + kn, n0 <= n < n0 + cols. */
struct td_product_part { int64_t k0, kn, n0, cols; };

struct td_product {
    int64_t m, n, k;
    /* Write a part of row i of A, k0 <= k < k0 + kn, as stored and as it is rounded. */
    void (*row)(const void *ctx, int64_t i, int64_t k0, int64_t kn, double *stored, double *rounded);
    /* Write a part of W at TD_PRODUCT_AT, as stored and as it is rounded. What lies beyond cols in
     * the last strip is left alone. */
    void (*weights)(const void *ctx, const struct td_product_part *p, double *stored, double *rounded);
    const void *ctx;
    bool rounds_a, rounds_w;  /* false: `rounded` is NULL */
    double *r0, *r1, *mag;    /* [m, n] dense: A W stored, A W rounded, |A| |W| rounded. r1 is not
                                 touched unless something is rounded; mag may be NULL */
};

/* Compute columns n_from to n_to. Memory: a few MB, whatever the sizes. TD_ENOMEM: there is none. */
int td_product_columns(const struct td_product *p, int64_t n_from, int64_t n_to);
/* The same with the code for one instruction set, which this machine must have. */
int td_product_columns_on(enum td_cpu cpu, const struct td_product *p, int64_t n_from, int64_t n_to);

#endif
