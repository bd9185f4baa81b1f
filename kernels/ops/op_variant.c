/* op_variant.c - the variants that take an op as it is, as a table, and what the portable ones share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/op_variant.h"

#include <string.h>

#define LINE(table, name) &td_##table##_##name,
static const struct td_op_variant *const all[] = {
#define TD_VARIANT_gptq_any(name, cpu, what) LINE(gptq_any, name)
#define TD_VARIANT_ggml_mul_mat(name, cpu, what) LINE(ggml_mul_mat, name)
#define TD_VARIANT_gemm(name, cpu, what) LINE(gemm, name)
#include "kernels/kernels.def"
    NULL,
};

const struct td_op_variant *const *td_op_variants(void)
{
    return all;
}

const struct td_op_variant *td_op_variant_find(const char *kind, const char *name)
{
    for (const struct td_op_variant *const *v = all; *v; v++)
        if (!strcmp((*v)->kind, kind) && (!name || !strcmp((*v)->name, name)) && (*v)->cpu == TD_CPU_ANY)
            return *v;
    return NULL;
}

float td_dot_f32(const float *a, const float *b, int64_t k)
{
    float part[8] = {0};
    int64_t j = 0;

    for (; j + 8 <= k; j += 8)
        for (int i = 0; i < 8; i++)
            part[i] += a[j + i] * b[j + i];
    for (; j < k; j++)
        part[j % 8] += a[j] * b[j];
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

void td_store_f32(enum td_dtype dt, void *base, int64_t i, float f)
{
    uint16_t h;

    if (dt == TD_DT_F32) {
        ((float *)base)[i] = f;
        return;
    }
    h = dt == TD_DT_F16 ? td_f32_to_f16(f) : td_f32_to_bf16(f);
    ((uint16_t *)base)[i] = h;
}
