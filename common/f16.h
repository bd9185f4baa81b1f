/* f16.h - binary16 to binary32 and back, inline, for code that must not link anything of ours (kernels/gptq_gemm).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bit for bit what the F16C instructions give: round to nearest even, overflow to Inf, denormals kept, a NaN keeps the
 * top bits of its payload and becomes quiet. */
#ifndef TD_COMMON_F16_H
#define TD_COMMON_F16_H

#include <stdint.h>
#include <string.h>

static inline uint32_t td_f32_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float td_f32_from_bits(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

static inline float td_f16_load(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, mant = h & 0x3ffu, exp = (h >> 10) & 0x1fu;

    if (exp == 31)
        return td_f32_from_bits(sign | 0x7f800000u | (mant ? 0x400000u | mant << 13 : 0));
    if (exp == 0) /* a denormal half is mant * 2^-24, a normal float */
        return td_f32_from_bits(sign | td_f32_bits((float)mant * 0x1p-24f));
    return td_f32_from_bits(sign | (exp + 112) << 23 | mant << 13);
}

static inline uint16_t td_f16_round(float f)
{
    uint32_t u = td_f32_bits(f), sign = u >> 16 & 0x8000u, mag = u & 0x7fffffffu;

    if (mag > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (mag >> 13 & 0x1ffu));
    if (mag >= 0x477ff000u) /* 65520, half way between the largest half and the next */
        return (uint16_t)(sign | 0x7c00u);
    if (mag < 0x38800000u)  /* below 2^-14: adding 0.5 leaves mant * 2^-24 in the low bits, rounded to nearest even */
        return (uint16_t)(sign | (td_f32_bits(td_f32_from_bits(mag) + 0.5f) - 0x3f000000u));
    mag += 0xfffu + (mag >> 13 & 1u);
    return (uint16_t)(sign | (mag - 0x38000000u) >> 13);
}

#endif
