/* dot_f32.c - a dot product in float, and storing its result; for the portable CPU variants.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/dot_f32.h"

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
