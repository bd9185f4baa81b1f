/* gptq_gemm_c.c - portable C: vectors of 4 columns, which every compiler can lower, fp32 accumulation without FMA.
 * SPDX-License-Identifier: Apache-2.0
 *
 * N is a multiple of 32/bits >= 4, so that there is no tail. */
#include <stdint.h>
#include <string.h>

#include "common/f16.h"

#define WIDTH 4
#define VECTORS 4

typedef float vf __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));

static inline vf splat(float f) { return (vf){f, f, f, f}; }
static inline vf madd(vf a, vf b, vf c) { return a * b + c; }
static inline vf to_float(vu q) { return __builtin_convertvector((vi)q, vf); }

static inline vu load_words(const uint32_t *p)
{
    return (vu){p[0], p[1], p[2], p[3]};
}

static inline vf load_halves(const uint16_t *p)
{
    return (vf){td_f16_load(p[0]), td_f16_load(p[1]), td_f16_load(p[2]), td_f16_load(p[3])};
}

static inline void store_halves(uint16_t *p, vf v)
{
    for (int i = 0; i < WIDTH; i++)
        p[i] = td_f16_round(v[i]);
}

__attribute__((unused)) static inline vf round_halves(vf v)
{
    uint16_t h[WIDTH];

    store_halves(h, v);
    return load_halves(h);
}

static inline vu load_zeros(const uint32_t *row, int n, int bits);

#include "kernels/gptq_gemm/gptq_gemm_core.h"

/* 4 bit: half a word; 8 bit: a word. */
static inline vu load_zeros(const uint32_t *row, int n, int bits)
{
    const uint32_t step = (uint32_t)STEP_ZERO_BITS(bits), word = row[n / (32 / bits)] >> (bits * (n % (32 / bits)));

    return ((vu){word, word, word, word} >> (vu){0, step, 2 * step, 3 * step}) & ((1u << bits) - 1);
}

int td_gptq_gemm_c(const struct td_gptq_gemm_args *x)
{
    return run_core(x);
}
