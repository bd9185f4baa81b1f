/* cut_sums_ref.c - sums of 8-bit floats as the tensor cores of Hopper keep them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/cut_sums.h"

#include <math.h>
#include <string.h>

#define BITS 13             /* of fraction, of a sum and of what is added to it */
#define ZERO_EXPONENT -126  /* of a number that is 0: below any other's */
#define LEAST -60           /* of numbers of which one is not 0: a product has -28, a sum 13 less */

/* Of a number that is no subnormal of float, and at least `least`. */
static int16_t exponent_of(float x, int least)
{
    uint32_t bits;
    int e;

    memcpy(&bits, &x, sizeof bits);
    e = (int)(bits >> 23 & 255) - 127;
    return (int16_t)(x == 0 ? ZERO_EXPONENT : e < least ? least : e);
}

void td_cut_row_read(enum td_dtype dtype, const unsigned char *from, int64_t k, struct td_cut_row to)
{
    const int least = dtype == TD_DT_F8_E4M3 ? -6 : -14;

    for (int64_t j = 0; j < k; j++) {
        to.value[j] = dtype == TD_DT_F8_E4M3 ? td_e4m3_to_f32(from[j]) : td_e5m2_to_f32(from[j]);
        to.exponent[j] = exponent_of(to.value[j], least);
    }
}

static int16_t largest(const int16_t *a, const int16_t *w, int n, int16_t most)
{
    for (int j = 0; j < n; j++) {
        const int16_t e = (int16_t)(a[j] + w[j]);

        most = e > most ? e : most;
    }
    return most;
}

/* The products, each cut to an integer. They have at most 16 bits. */
static int32_t add_cut(const float *a, const float *w, int n, float scale)
{
    int32_t sum = 0;

    for (int j = 0; j < n; j++)
        sum += (int32_t)(a[j] * w[j] * scale);
    return sum;
}

static float cut(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    bits &= ~(((uint32_t)1 << (23 - BITS)) - 1);
    memcpy(&x, &bits, sizeof x);
    return x;
}

struct td_cut_sum td_cut_sum_of(struct td_cut_row a, struct td_cut_row w, int64_t from, int64_t k)
{
    double variance = 0;
    float c = 0;

    for (int64_t j = from; j < from + k; j += TD_CUT_STEP) {
        const int n = from + k - j < TD_CUT_STEP ? (int)(from + k - j) : TD_CUT_STEP;
        const int16_t most = largest(a.exponent + j, w.exponent + j, n, exponent_of(c, ZERO_EXPONENT));
        double place;

        if (most < LEAST)
            continue;
        place = ldexp(1, most - BITS);
        c = cut((float)((add_cut(a.value + j, w.value + j, n, ldexpf(1, BITS - most)) +
                         (int32_t)(c * ldexpf(1, BITS - most))) * place));
        variance += (n + 1) / 3.0 * place * place;
    }
    return (struct td_cut_sum){(double)c, variance};
}
