/* cut_sums.h - sums of 8-bit floats as the tensor cores of Hopper keep them: "sum-e8m13".
 * SPDX-License-Identifier: Apache-2.0
 *
 * One instruction (wgmma) adds 32 products to a sum c. The 33 numbers are brought to the largest
 * exponent among them (of a product: the sum of its factors' exponents), each is cut after 13 bits
 * of fraction, toward zero; what they add up to is cut to 13 bits of fraction in the same way. The
 * numbers within one instruction are added as integers, so their order does not matter; that of the
 * instructions does, and is here the order of k.
 *
 * Sources, which tell what was measured on H100s: Xie and others, "MMA-Sim: Bit-Accurate Reference
 * Model of Tensor Cores and Matrix Cores" (arXiv:2511.10909); Khattak and Mikaitis, "Accurate Models
 * of NVIDIA Tensor Cores" (arXiv:2512.07004); DeepSeek-V3's report, section 3.3.2; SageAttention2
 * (the accumulator's 13 bits). */
#ifndef TD_KERNELS_OPS_CUT_SUMS_H
#define TD_KERNELS_OPS_CUT_SUMS_H

#include <stdint.h>

#include "model/dtype.h"

#define TD_CUT_STEP 32 /* products of one instruction */

/* Numbers taken apart: value, and the exponent by which they are aligned. */
struct td_cut_row { float *value; int16_t *exponent; };

/* Take k numbers of type F8_E4M3 or F8_E5M2 apart. to : [k] each */
void td_cut_row_read(enum td_dtype dtype, const unsigned char *from, int64_t k, struct td_cut_row to);

struct td_cut_sum {
    double sum;
    double variance; /* of the error, were each cut independent of the others: for slack */
};

/* The sum of the products of k pairs of numbers, from `from` on. All must be finite. */
struct td_cut_sum td_cut_sum_of(struct td_cut_row a, struct td_cut_row w, int64_t from, int64_t k);

#endif
