/* gptq_gemm_avx2.c - AVX2, FMA and F16C: vectors of 8 columns, fp32 accumulation. Called only where the machine has all three.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gptq_gemm/gptq_gemm.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>
#include <stdint.h>

#define WIDTH 8
#define VECTORS 4

typedef float vf __attribute__((vector_size(32)));
typedef uint32_t vu __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));

static inline vf splat(float f) { return (vf)_mm256_set1_ps(f); }
static inline vf to_float(vu q) { return (vf)_mm256_cvtepi32_ps((__m256i)q); }
static inline vu load_words(const uint32_t *p) { return (vu)_mm256_loadu_si256((const __m256i *)p); }
static inline vf load_halves(const uint16_t *p) { return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }

__attribute__((unused)) static inline vf madd(vf a, vf b, vf c)
{
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

static inline void store_halves(uint16_t *p, vf v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
}

__attribute__((unused)) static inline vf round_halves(vf v)
{
    return (vf)_mm256_cvtph_ps(_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
}

static inline vu load_zeros(const uint32_t *row, int n, int bits);

#include "kernels/gptq_gemm/gptq_gemm_core.h"

/* 4 bit: one word; 8 bit: two. n is a multiple of 8 or (8 bit) of 4. */
static inline vu load_zeros(const uint32_t *row, int n, int bits)
{
    const uint32_t *w = row + n / (32 / bits), step = (uint32_t)STEP_ZERO_BITS(bits), second = bits == 4 ? w[0] : w[1];
    const vu words = {w[0], w[0], w[0], w[0], second, second, second, second};
    const vu shift = {0, step, 2 * step, 3 * step, bits == 4 ? 16 : 0, bits == 4 ? 20 : step, bits == 4 ? 24 : 2 * step,
                      bits == 4 ? 28 : 3 * step};

    return (words >> shift) & ((1u << bits) - 1);
}

int td_gptq_gemm_avx2(const struct td_gptq_gemm_args *x)
{
    return x->n < WIDTH ? td_gptq_gemm_c(x) : run_core(x); /* 8 bit, N = 4 */
}

#else
int td_gptq_gemm_avx2(const struct td_gptq_gemm_args *x)
{
    (void)x;
    return TD_KERNEL_EUNSUPPORTED;
}
#endif
