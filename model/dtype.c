/* dtype.c - element types: names, sizes, conversion of 16-bit floats.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/dtype.h"

#include <string.h>

#include "common/f16.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#define HAVE_F16C_TARGET 1
#endif

static const struct { const char *name; size_t size; int block;
} types[TD_DT_COUNT] = {
    [TD_DT_NONE] = {"none", 0, 0},     [TD_DT_F64] = {"F64", 8, 1},
    [TD_DT_F32] = {"F32", 4, 1},       [TD_DT_F16] = {"F16", 2, 1},
    [TD_DT_BF16] = {"BF16", 2, 1},     [TD_DT_I64] = {"I64", 8, 1},
    [TD_DT_I32] = {"I32", 4, 1},       [TD_DT_I16] = {"I16", 2, 1},
    [TD_DT_I8] = {"I8", 1, 1},         [TD_DT_U64] = {"U64", 8, 1},
    [TD_DT_U32] = {"U32", 4, 1},       [TD_DT_U16] = {"U16", 2, 1},
    [TD_DT_U8] = {"U8", 1, 1},         [TD_DT_BOOL] = {"BOOL", 1, 1},
    [TD_DT_Q4_0] = {"Q4_0", 18, 32},   [TD_DT_Q4_1] = {"Q4_1", 20, 32},
    [TD_DT_Q5_0] = {"Q5_0", 22, 32},   [TD_DT_Q5_1] = {"Q5_1", 24, 32},
    [TD_DT_Q8_0] = {"Q8_0", 34, 32},   [TD_DT_Q2_K] = {"Q2_K", 84, 256},
    [TD_DT_Q3_K] = {"Q3_K", 110, 256}, [TD_DT_Q4_K] = {"Q4_K", 144, 256},
    [TD_DT_Q5_K] = {"Q5_K", 176, 256}, [TD_DT_Q6_K] = {"Q6_K", 210, 256},
    [TD_DT_F8_E4M3] = {"F8_E4M3", 1, 1}, [TD_DT_F8_E5M2] = {"F8_E5M2", 1, 1},
};

const char *td_dtype_name(enum td_dtype dt)
{
    return (unsigned)dt < TD_DT_COUNT ? types[dt].name : types[TD_DT_NONE].name;
}

enum td_dtype td_dtype_parse(const char *name)
{
    for (int dt = TD_DT_NONE + 1; dt < TD_DT_COUNT; dt++)
        if (!strcmp(name, types[dt].name))
            return (enum td_dtype)dt;
    return TD_DT_NONE;
}

size_t td_dtype_size(enum td_dtype dt)
{
    return (unsigned)dt < TD_DT_COUNT ? types[dt].size : 0;
}

int td_dtype_block(enum td_dtype dt)
{
    return (unsigned)dt < TD_DT_COUNT ? types[dt].block : 0;
}

float td_f16_to_f32(uint16_t h)
{
    return td_f16_load(h);
}

uint16_t td_f32_to_f16(float f)
{
    return td_f16_round(f);
}

float td_bf16_to_f32(uint16_t h)
{
    return td_f32_from_bits((uint32_t)h << 16);
}

uint16_t td_f32_to_bf16(float f)
{
    uint32_t u = td_f32_bits(f);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

float td_e4m3_to_f32(uint8_t b)
{
    const uint32_t sign = (uint32_t)(b & 0x80) << 24, exp = b >> 3 & 15, mant = b & 7;
    const float subnormal = (float)mant * 0x1p-9f;

    if ((b & 0x7f) == 0x7f)
        return td_f32_from_bits(sign | 0x7fc00000u);
    if (!exp)
        return sign ? -subnormal : subnormal;
    return td_f32_from_bits(sign | (exp + 120) << 23 | mant << 20);
}

float td_e5m2_to_f32(uint8_t b)
{
    return td_f16_load((uint16_t)(b << 8));
}

/* ---- arrays ---------------------------------------------------------------------------------- */

#ifdef HAVE_F16C_TARGET
__attribute__((target("avx,f16c"))) static size_t widen_f16c(const uint16_t *src, float *dst, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
    return i;
}

__attribute__((target("avx,f16c"))) static size_t narrow_f16c(const float *src, uint16_t *dst, size_t n)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(dst + i), _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}

static int have_f16c(void)
{
    return __builtin_cpu_supports("avx2"); /* every machine with AVX2 has F16C, a name that clang 14 does not know */
}
#else
static size_t widen_f16c(const uint16_t *src, float *dst, size_t n) { (void)src; (void)dst; (void)n; return 0; }
static size_t narrow_f16c(const float *src, uint16_t *dst, size_t n) { (void)src; (void)dst; (void)n; return 0; }
static int have_f16c(void) { return 0; }
#endif

void td_f16_to_f32_n(const uint16_t *src, float *dst, size_t n)
{
    for (size_t i = have_f16c() ? widen_f16c(src, dst, n) : 0; i < n; i++)
        dst[i] = td_f16_load(src[i]);
}

void td_f32_to_f16_n(const float *src, uint16_t *dst, size_t n)
{
    for (size_t i = have_f16c() ? narrow_f16c(src, dst, n) : 0; i < n; i++)
        dst[i] = td_f16_round(src[i]);
}

/* ---- one element as double ------------------------------------------------------------------- */

#define GET(type) do { type v; memcpy(&v, p, sizeof v); return (double)v; } while (0)

double td_dtype_get(enum td_dtype dt, const void *base, size_t i)
{
    const unsigned char *p = (const unsigned char *)base + i * td_dtype_size(dt);
    uint16_t h;

    switch (dt) {
    case TD_DT_F64: GET(double);
    case TD_DT_F32: GET(float);
    case TD_DT_F16: memcpy(&h, p, sizeof h); return td_f16_load(h);
    case TD_DT_BF16: memcpy(&h, p, sizeof h); return td_bf16_to_f32(h);
    case TD_DT_I64: GET(int64_t);
    case TD_DT_I32: GET(int32_t);
    case TD_DT_I16: GET(int16_t);
    case TD_DT_I8: GET(int8_t);
    case TD_DT_U64: GET(uint64_t);
    case TD_DT_U32: GET(uint32_t);
    case TD_DT_U16: GET(uint16_t);
    case TD_DT_U8: GET(uint8_t);
    case TD_DT_BOOL: return *p ? 1.0 : 0.0;
    case TD_DT_F8_E4M3: return td_e4m3_to_f32(*p);
    case TD_DT_F8_E5M2: return td_e5m2_to_f32(*p);
    default: break;
    }
    return 0.0;
}

uint32_t td_dtype_bits(enum td_dtype from, const void *base, size_t i, enum td_dtype to)
{
    uint32_t bits = 0;
    float f;

    if (from == to) {
        memcpy(&bits, (const uint8_t *)base + i * td_dtype_size(to), td_dtype_size(to)); /* little-endian */
        return bits;
    }
    f = (float)td_dtype_get(from, base, i);
    if (to == TD_DT_F32)
        memcpy(&bits, &f, 4);
    else
        bits = to == TD_DT_BF16 ? td_f32_to_bf16(f) : td_f32_to_f16(f);
    return bits;
}
