/* gptq_case.h - random GPTQ products for tests, each array between guard pages.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_KERNELS_GPTQ_GEMM_GPTQ_CASE_H
#define TD_TESTS_UNIT_KERNELS_GPTQ_GEMM_GPTQ_CASE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/gptq_gemm/gptq_gemm.h"
#include "kernels/ops/gptq_gemm_ref.h"
#include "common/f16.h"

#define POISON 0x7e00 /* a NaN no input holds */

struct guarded { unsigned char *map; size_t map_size; void *data; };

/* size bytes that end right before a page nobody may touch (at_end), or start right after one. */
static inline struct guarded guarded_new(size_t size, bool at_end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (size + page - 1) / page * page;
    struct guarded g = {.map_size = body + 2 * page};

    g.map = mmap(NULL, g.map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || (body && mprotect(g.map + page, body, PROT_READ | PROT_WRITE)))
        abort();
    g.data = g.map + page + (at_end ? body - size : 0);
    return g;
}

struct gptq_shape { int m, n, k, bits, group_size, zero_offset; bool act_order; int a_gap, c_gap; };

struct gptq_case {
    struct td_gptq_gemm_args x;
    struct guarded a, qweight, qzeros, scales, g_idx, c;
};

static uint64_t case_seed = 1;

static inline uint32_t case_random(void)
{
    case_seed = case_seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(case_seed >> 32);
}

/* about normal, variance 1 */
static inline float case_normal(void)
{
    float sum = -6.0f;

    for (int i = 0; i < 12; i++)
        sum += (float)(case_random() >> 8) * 0x1p-24f;
    return sum;
}

static inline void case_poison(struct gptq_case *t)
{
    for (int64_t i = 0; t->x.m > 0 && i < (t->x.m - 1) * t->x.ldc + t->x.n; i++)
        t->x.c[i] = POISON;
}

/* A normal, q and zeros uniform, scales around 0.01; the gaps between rows of A hold NaN. */
static inline void case_new(struct gptq_case *t, const struct gptq_shape *s, bool at_end)
{
    const size_t m = (size_t)s->m, n = (size_t)s->n, k = (size_t)s->k, groups = k / (size_t)s->group_size;
    const size_t lda = k + (size_t)s->a_gap, ldc = n + (size_t)s->c_gap, words = k * (size_t)s->bits / 32;
    uint16_t *half;
    uint32_t *word;
    int32_t *g_idx;

    memset(t, 0, sizeof *t);
    t->a = guarded_new(m ? ((m - 1) * lda + k) * 2 : 0, at_end);
    t->c = guarded_new(m ? ((m - 1) * ldc + n) * 2 : 0, at_end);
    t->qweight = guarded_new(words * n * 4, at_end);
    t->qzeros = guarded_new(groups * n * (size_t)s->bits / 8, at_end);
    t->scales = guarded_new(groups * n * 2, at_end);
    t->x = (struct td_gptq_gemm_args){sizeof t->x, s->m, s->n, s->k, s->bits, s->group_size, s->zero_offset, 0, t->a.data, (int64_t)lda,
                                      t->qweight.data, t->qzeros.data, t->scales.data, NULL, t->c.data, (int64_t)ldc};
    half = t->a.data;
    for (size_t i = 0; m && i < (m - 1) * lda + k; i++)
        half[i] = i % lda < k ? td_f16_round(case_normal()) : POISON;
    half = t->scales.data;
    for (size_t i = 0; i < groups * n; i++)
        half[i] = td_f16_round(0.01f + 0.002f * case_normal());
    word = t->qweight.data;
    for (size_t i = 0; i < words * n; i++)
        word[i] = case_random();
    word = t->qzeros.data;
    for (size_t i = 0; i < groups * n * (size_t)s->bits / 32; i++)
        word[i] = case_random();
    if (s->act_order) {
        t->g_idx = guarded_new(k * 4, at_end);
        t->x.g_idx = g_idx = t->g_idx.data;
        for (size_t i = 0; i < k; i++)
            g_idx[i] = (int32_t)(i / (size_t)s->group_size);
        for (size_t i = k - 1; i > 0; i--) {
            const size_t j = case_random() % (i + 1);
            const int32_t tmp = g_idx[i];

            g_idx[i] = g_idx[j];
            g_idx[j] = tmp;
        }
    }
    case_poison(t);
}

static inline void case_release(struct gptq_case *t)
{
    struct guarded *all[] = {&t->a, &t->qweight, &t->qzeros, &t->scales, &t->g_idx, &t->c};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->map)
            munmap(all[i]->map, all[i]->map_size);
    memset(t, 0, sizeof *t);
}

/* The error of one element in units of its tolerance (gptq_gemm.h); <= 1 is right. */
static inline double case_error(uint16_t got, double r, double mag, int k)
{
    const double c = td_f16_load(got);
    const double tolerance = TD_GPTQ_GEMM_U_OUT * fabs(r) + TD_GPTQ_GEMM_U_ACC * sqrt(k) * mag + 0x1p-25;

    if (isnan(r) || isnan(c))
        return isnan(r) && isnan(c) ? 0.0 : INFINITY;
    if (isinf(c)) /* the largest half is 65504; from 65520 on, rounding gives Inf */
        return (c > 0 ? r : -r) >= 65520.0 - tolerance ? 0.0 : INFINITY;
    return isinf(r) ? INFINITY : fabs(c - r) / tolerance;
}

/* The worst element of t->x.c against the reference. bad : elements beyond tolerance, or NULL. */
static inline double case_worst(const struct gptq_case *t, int64_t *bad)
{
    const size_t count = (size_t)t->x.m * (size_t)t->x.n + 1;
    double *r = malloc(count * sizeof *r), *mag = malloc(count * sizeof *mag), worst = 0.0;

    if (!r || !mag || td_gptq_gemm_ref(&t->x, r, mag))
        abort();
    if (bad)
        *bad = 0;
    for (int64_t i = 0; i < (int64_t)t->x.m * t->x.n; i++) {
        const double e = case_error(t->x.c[i / t->x.n * t->x.ldc + i % t->x.n], r[i], mag[i], t->x.k);

        if (bad && e > 1.0)
            ++*bad;
        if (e > worst)
            worst = e;
    }
    free(r);
    free(mag);
    return worst;
}

#endif
