/* gptq_any_ref.c - the numbers that every form of gptq_gemm multiplies: BF16 or F16, with what servers round on the way.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/gptq_any_ref.h"

#include <math.h>

#define STRIP 16 /* columns: the words of a row of qweight are read together */

/* vLLM's quantize_row_int8; all steps are in float, as there. */
struct td_gptq_row_scale td_gptq_op_row_scale(const struct td_gptq_op *x, int64_t i)
{
    struct td_gptq_row_scale s = {.finite = true};
    float amax = 0;

    for (int64_t j = 0; j < x->k; j++) {
        const double a = td_dtype_get(x->dtype, x->a, (size_t)(i * x->lda + j));

        amax = fmaxf(amax, fabsf((float)a));
        s.finite = s.finite && isfinite(a);
    }
    amax = fmaxf(amax, 1e-7f);
    s.scale = amax / 127;
    s.inverse = 127 / amax;
    return s;
}

void td_gptq_op_round_row(const struct td_gptq_row_scale *s, const double *stored, int64_t n, double *rounded)
{
    for (int64_t j = 0; j < n; j++)
        rounded[j] = s->finite ? (double)s->scale * nearbyint((double)((float)stored[j] * s->inverse)) : (double)NAN;
}

void td_gptq_op_row(const struct td_gptq_op *x, int64_t i, double *stored, double *rounded)
{
    struct td_gptq_row_scale s;

    for (int64_t j = 0; j < x->k; j++)
        stored[j] = td_dtype_get(x->dtype, x->a, (size_t)(i * x->lda + j));
    if (rounded != stored && x->rounding == TD_GPTQ_UINT8_TOKEN) {
        s = td_gptq_op_row_scale(x, i);
        td_gptq_op_round_row(&s, stored, x->k, rounded);
    } else
        for (int64_t j = 0; rounded != stored && j < x->k; j++)
            rounded[j] = stored[j];
}

static double round_to(enum td_dtype dtype, double x)
{
    return dtype == TD_DT_BF16 ? td_bf16_to_f32(td_f32_to_bf16((float)x))
                               : td_f16_to_f32(td_f32_to_f16((float)x));
}

/* The weight as the kernel multiplies it. Float holds scales of 16 bits times integers of 8 exactly;
 * so is their sum with such a product, unless it is a denormal. */
double td_gptq_op_round_weight(enum td_gptq_rounding how, int q, int zero, double scale)
{
    switch (how) {
    case TD_GPTQ_WEIGHT_BF16: return round_to(TD_DT_BF16, (q - zero) * scale);
    case TD_GPTQ_WEIGHT_F16: return round_to(TD_DT_F16, (q - zero) * scale);
    case TD_GPTQ_ZERO_BF16: return round_to(TD_DT_BF16, q * scale + round_to(TD_DT_BF16, -scale * zero));
    case TD_GPTQ_ZERO_F16: return round_to(TD_DT_F16, q * scale + round_to(TD_DT_F16, -scale * zero));
    default: return (q - zero) * scale;
    }
}

/* Scale and zero point of group g, columns n0 .. n0 + cols. */
static void read_group(const struct td_gptq_op *x, int64_t g, int64_t n0, int64_t cols, double *scale, int *zero)
{
    const int pack = 32 / x->bits;
    const uint32_t mask = (1u << x->bits) - 1;

    for (int64_t i = 0; i < cols; i++) {
        const int64_t n = n0 + i;

        scale[i] = td_dtype_get(x->scales_dtype, x->scales, (size_t)(g * x->n + n));
        zero[i] = (int)(x->qzeros[g * (x->n / pack) + n / pack] >> (x->bits * (n % pack)) & mask) + x->zero_offset;
    }
}

void td_gptq_op_columns(const struct td_gptq_op *x, int64_t n0, int64_t cols, double *exact, double *rounded)
{
    const int pack = 32 / x->bits;
    const uint32_t mask = (1u << x->bits) - 1;
    double scale[STRIP];
    int zero[STRIP];
    int64_t group = -1;

    for (int64_t k = 0; k < x->k; k++) {
        const int64_t g = x->g_idx ? x->g_idx[k] : k / x->group_size;

        if (g != group)
            read_group(x, group = g, n0, cols, scale, zero);
        for (int64_t i = 0; i < cols; i++) {
            const int q = (int)(x->qweight[k / pack * x->n + n0 + i] >> (x->bits * (k % pack)) & mask);

            exact[i * x->k + k] = (q - zero[i]) * scale[i];
            if (rounded != exact)
                rounded[i * x->k + k] = td_gptq_op_round_weight(x->rounding, q, zero[i], scale[i]);
        }
    }
}
