/* gptq_any_ref.c - every form of gptq_gemm in double: BF16 or F16, with a bias, with what servers round on the way.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/gptq_any_ref.h"

#include <math.h>
#include <stdlib.h>

#include "common/memory.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/rowdot.h"

#define STRIP 16 /* columns: the words of a row of qweight are read together */

/* ---- what the kernel multiplies -------------------------------------------------------------- */

/* vLLM's quantize_row_int8; all steps are in float, as there. */
static void round_uint8(const double *row, int64_t k, double *out)
{
    float amax = 0, scale, inverse;
    bool finite = true;

    for (int64_t j = 0; j < k; j++) {
        amax = fmaxf(amax, fabsf((float)row[j]));
        finite = finite && isfinite(row[j]);
    }
    amax = fmaxf(amax, 1e-7f);
    scale = amax / 127;
    inverse = 127 / amax;
    for (int64_t j = 0; j < k; j++)
        out[j] = finite ? (double)scale * nearbyint((double)((float)row[j] * inverse)) : (double)NAN;
}

void td_gptq_op_row(const struct td_gptq_op *x, int64_t i, double *stored, double *rounded)
{
    for (int64_t j = 0; j < x->k; j++)
        stored[j] = td_dtype_get(x->dtype, x->a, (size_t)(i * x->lda + j));
    if (rounded != stored && x->rounding == TD_GPTQ_UINT8_TOKEN)
        round_uint8(stored, x->k, rounded);
    else
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
static double round_weight(enum td_gptq_rounding how, int q, int zero, double scale)
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
                rounded[i * x->k + k] = round_weight(x->rounding, q, zero[i], scale[i]);
        }
    }
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void multiply_strips(const struct td_gptq_op *x, double *a0, double *a1, double *w0, double *w1, struct td_op_ref *ref)
{
    for (int64_t i = 0; i < x->m; i++)
        td_gptq_op_row(x, i, a0 + i * x->k, a1 + i * x->k);
    for (int64_t n0 = 0; n0 < x->n; n0 += STRIP) {
        const int64_t cols = x->n - n0 < STRIP ? x->n - n0 : STRIP;

        td_gptq_op_columns(x, n0, cols, w0, w1);
        for (int64_t i = 0, n = n0; i < cols; i++, n++)
            td_rowdot(&(struct td_rowdot){x->k, x->m, w0 + i * x->k, w1 + i * x->k, a0, a1, ref->r0 + n,
                                          ref->r1 != ref->r0 ? ref->r1 + n : NULL, ref->mag + n, x->n});
    }
    if (x->bias_after)
        td_op_ref_allow_rounding(ref, x->dtype);
    td_op_ref_add_bias(ref, x->bias);
}

int td_gptq_op_ref(const struct td_gptq_op *x, struct td_op_ref *ref, struct td_error *err)
{
    const bool own_r1 = x->rounding != TD_GPTQ_NONE, own_a = x->rounding == TD_GPTQ_UINT8_TOKEN, own_w = own_r1 && !own_a;
    const int64_t rows = x->m * x->k, strip = STRIP * x->k;
    double *memory;
    int rc = td_op_ref_new(ref, x->m, x->n, x->k, own_r1, err);

    if (rc)
        return rc;
    if ((x->bias_after && (rc = td_op_ref_new_slack(ref, err))) ||
        (rc = td_memory_room((uint64_t)(rows + strip) * 2 * sizeof *memory, "the reference of a gptq_gemm", err))) {
        td_op_ref_release(ref);
        return rc;
    }
    if (!(memory = malloc((size_t)(rows + strip) * 2 * sizeof *memory))) {
        td_op_ref_release(ref);
        return td_fail(err, TD_ENOMEM, "gptq_gemm: out of memory for the reference");
    }
    multiply_strips(x, memory, own_a ? memory + rows : memory, memory + rows * 2,
                    own_w ? memory + rows * 2 + strip : memory + rows * 2, ref);
    free(memory);
    return 0;
}
