/* product_ref.c - sums of products in double, by blocks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Compiled with -O3 and with fused additions (Makefile), three times, and chosen when it runs. A block
 * is TD_PRODUCT_DEPTH deep: 64 columns of it are 128 KB, so that they and their magnitudes stay in a
 * second-level cache; of A 12 rows stay in the first level. */
#include "kernels/ops/product_ref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

#define INLINE static inline __attribute__((always_inline))
#define STRIP TD_PRODUCT_STRIP
#define PANEL 12      /* rows of A that are packed together */
#define MOST_ROWS 264 /* of A, in one pass over the weights; a multiple of PANEL */

/* ---- a tile: up to 12 rows by 16 columns ------------------------------------------------------- */

typedef double v8 __attribute__((vector_size(64)));
typedef double v4 __attribute__((vector_size(32)));
typedef double v2 __attribute__((vector_size(16)));

/* acc[i][.] += a[.][i] w[.][.] of `rows` rows and two vectors of columns; rows is a constant where it
 * is called. a : [kn][PANEL]; w : [kn][STRIP]; acc : [PANEL][STRIP] */
#define DEFINE_TILE(V)                                                                             \
    INLINE void tile_##V(const int rows, int64_t kn, const double *a, const double *w, double *acc)\
    {                                                                                              \
        enum { WIDTH = sizeof(V) / sizeof(double) };                                               \
        V s[PANEL][2], x, y;                                                                       \
                                                                                                   \
        for (int i = 0; i < rows; i++) {                                                           \
            memcpy(&s[i][0], acc + i * STRIP, sizeof(V));                                          \
            memcpy(&s[i][1], acc + i * STRIP + WIDTH, sizeof(V));                                  \
        }                                                                                          \
        for (int64_t j = 0; j < kn; j++, a += PANEL, w += STRIP) {                                 \
            memcpy(&x, w, sizeof(V));                                                              \
            memcpy(&y, w + WIDTH, sizeof(V));                                                      \
            for (int i = 0; i < rows; i++) {                                                       \
                s[i][0] += a[i] * x;                                                               \
                s[i][1] += a[i] * y;                                                               \
            }                                                                                      \
        }                                                                                          \
        for (int i = 0; i < rows; i++) {                                                           \
            memcpy(acc + i * STRIP, &s[i][0], sizeof(V));                                          \
            memcpy(acc + i * STRIP + WIDTH, &s[i][1], sizeof(V));                                  \
        }                                                                                          \
    }                                                                                              \
    /* all columns of a strip, `rows` rows at a time */                                            \
    INLINE void strip_##V(const int rows, int from, int64_t kn, const double *a, const double *w, double *acc) \
    {                                                                                              \
        enum { COLS = 2 * sizeof(V) / sizeof(double) };                                            \
                                                                                                   \
        for (int c = 0; c < STRIP; c += COLS)                                                      \
            tile_##V(rows, kn, a + from, w + c, acc + from * STRIP + c);                           \
    }
DEFINE_TILE(v8)
DEFINE_TILE(v4)
DEFINE_TILE(v2)

/* All rows of a panel, so many at a time as there are registers for. */
INLINE void panel_v8(int rows, int64_t kn, const double *a, const double *w, double *acc)
{
    int i = 0;

    if (rows > 8)
        strip_v8(12, 0, kn, a, w, acc), i = 12;
    else if (rows > 4)
        strip_v8(8, 0, kn, a, w, acc), i = 8;
    for (; i < rows && rows - i > 2; i += 4)
        strip_v8(4, i, kn, a, w, acc);
    for (; i < rows; i++)
        strip_v8(1, i, kn, a, w, acc);
}

INLINE void panel_v4(int rows, int64_t kn, const double *a, const double *w, double *acc)
{
    int i = 0;

    for (; rows - i > 4; i += 6)
        strip_v4(6, i, kn, a, w, acc);
    for (; rows - i > 2; i += 4)
        strip_v4(4, i, kn, a, w, acc);
    for (; i < rows; i++)
        strip_v4(1, i, kn, a, w, acc);
}

INLINE void panel_v2(int rows, int64_t kn, const double *a, const double *w, double *acc)
{
    int i = 0;

    for (; rows - i > 2; i += 4)
        strip_v2(4, i, kn, a, w, acc);
    for (; i < rows; i++)
        strip_v2(1, i, kn, a, w, acc);
}

typedef void panel_fn(int rows, int64_t kn, const double *a, const double *w, double *acc);

static void panel_plain(int rows, int64_t kn, const double *a, const double *w, double *acc)
{
    panel_v2(rows, kn, a, w, acc);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void panel_avx2(int rows, int64_t kn, const double *a, const double *w, double *acc)
{
    panel_v4(rows, kn, a, w, acc);
}

__attribute__((target("avx512f,fma")))
static void panel_avx512(int rows, int64_t kn, const double *a, const double *w, double *acc)
{
    panel_v8(rows, kn, a, w, acc);
}
#else
#define panel_avx2 panel_plain
#define panel_avx512 panel_plain
#endif

/* ---- blocks ------------------------------------------------------------------------------------ */

struct work {
    const struct td_product *p;
    panel_fn *panel;
    int64_t i0, rows, k0, kn;       /* of the block of A */
    double *a0, *a1, *a_abs;        /* [panels][kn][PANEL]; a1 is a0 where A is not rounded */
    double *w0, *w1, *w_abs;        /* [TD_PRODUCT_COLS / STRIP][kn][STRIP]; likewise */
    double *line;                   /* [2][TD_PRODUCT_DEPTH] */
};

static void take_abs(const double *from, double *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = fabs(from[i]);
}

/* Rows beyond the last are 0. */
static void pack_rows(const struct work *w)
{
    const int64_t panels = (w->rows + PANEL - 1) / PANEL;
    double *stored = w->line, *rounded = w->line + TD_PRODUCT_DEPTH;

    for (int64_t i = 0; i < panels * PANEL; i++) {
        const int64_t at = i / PANEL * w->kn * PANEL + i % PANEL;

        if (i < w->rows)
            w->p->row(w->p->ctx, w->i0 + i, w->k0, w->kn, stored, w->p->rounds_a ? rounded : NULL);
        for (int64_t j = 0; j < w->kn; j++)
            w->a0[at + j * PANEL] = i < w->rows ? stored[j] : 0.0;
        for (int64_t j = 0; w->a1 != w->a0 && j < w->kn; j++)
            w->a1[at + j * PANEL] = i < w->rows ? rounded[j] : 0.0;
    }
    if (w->p->mag)
        take_abs(w->a1, w->a_abs, panels * PANEL * w->kn);
}

/* One sum of a tile: continue what earlier blocks left in r. r : its first element, rows n apart */
static void add_tile(const struct work *w, int rows, int cols, const double *a, const double *x, double *r)
{
    _Alignas(64) double acc[PANEL * STRIP] = {0};
    const int64_t n = w->p->n;

    for (int i = 0; w->k0 && i < rows; i++)
        memcpy(acc + i * STRIP, r + i * n, (size_t)cols * sizeof *r);
    w->panel(rows, w->kn, a, x, acc);
    for (int i = 0; i < rows; i++)
        memcpy(r + i * n, acc + i * STRIP, (size_t)cols * sizeof *r);
}

static void multiply_block(const struct work *w, int64_t n0, int64_t cols)
{
    const struct td_product *p = w->p;
    const bool rounds = p->rounds_a || p->rounds_w;

    for (int64_t i = 0; i < w->rows; i += PANEL)
        for (int64_t c = 0; c < cols; c += STRIP) {
            const int64_t a = i * w->kn, x = c * w->kn, at = (w->i0 + i) * p->n + n0 + c;
            const int rows = w->rows - i < PANEL ? (int)(w->rows - i) : PANEL,
                      wide = cols - c < STRIP ? (int)(cols - c) : STRIP;

            add_tile(w, rows, wide, w->a0 + a, w->w0 + x, p->r0 + at);
            if (rounds)
                add_tile(w, rows, wide, w->a1 + a, w->w1 + x, p->r1 + at);
            if (p->mag)
                add_tile(w, rows, wide, w->a_abs + a, w->w_abs + x, p->mag + at);
        }
}

static void multiply_rows(struct work *w, int64_t n_from, int64_t n_to)
{
    const struct td_product *p = w->p;

    for (w->k0 = 0; w->k0 < p->k; w->k0 += TD_PRODUCT_DEPTH) {
        w->kn = p->k - w->k0 < TD_PRODUCT_DEPTH ? p->k - w->k0 : TD_PRODUCT_DEPTH;
        pack_rows(w);
        for (int64_t n0 = n_from; n0 < n_to; n0 += TD_PRODUCT_COLS) {
            const struct td_product_part part = {w->k0, w->kn, n0, n_to - n0 < TD_PRODUCT_COLS ? n_to - n0 : TD_PRODUCT_COLS};

            p->weights(p->ctx, &part, w->w0, p->rounds_w ? w->w1 : NULL);
            if (p->mag)
                take_abs(w->w1, w->w_abs, TD_PRODUCT_COLS * w->kn);
            multiply_block(w, n0, part.cols);
        }
    }
}

static panel_fn *panel_of(enum td_cpu cpu)
{
    return cpu == TD_CPU_AVX512 ? panel_avx512 : cpu == TD_CPU_AVX2 ? panel_avx2 : panel_plain;
}

int td_product_columns_on(enum td_cpu cpu, const struct td_product *p, int64_t n_from, int64_t n_to)
{
    const int64_t passes = (p->m + MOST_ROWS - 1) / MOST_ROWS,
                  most = passes ? ((p->m + passes - 1) / passes + PANEL - 1) / PANEL * PANEL : 0; /* alike in all */
    const size_t a = (size_t)most * TD_PRODUCT_DEPTH, w = (size_t)TD_PRODUCT_COLS * TD_PRODUCT_DEPTH;
    double *memory = aligned_alloc(64, (3 * a + 3 * w + 2 * TD_PRODUCT_DEPTH) * sizeof *memory);
    struct work x = {.p = p, .panel = panel_of(cpu), .a0 = memory};

    if (!memory)
        return TD_ENOMEM;
    memset(memory, 0, (3 * a + 3 * w) * sizeof *memory);
    x.a1 = p->rounds_a ? memory + a : memory;
    x.a_abs = memory + 2 * a;
    x.w0 = memory + 3 * a;
    x.w1 = p->rounds_w ? x.w0 + w : x.w0;
    x.w_abs = x.w0 + 2 * w;
    x.line = x.w0 + 3 * w;
    for (x.i0 = 0; x.i0 < p->m; x.i0 += most) {
        x.rows = p->m - x.i0 < most ? p->m - x.i0 : most;
        multiply_rows(&x, n_from, n_to);
    }
    free(memory);
    return TD_OK;
}

int td_product_columns(const struct td_product *p, int64_t n_from, int64_t n_to)
{
    const enum td_cpu cpu = td_cpu_can_run(TD_CPU_AVX512) ? TD_CPU_AVX512 : td_cpu_can_run(TD_CPU_AVX2) ? TD_CPU_AVX2 : TD_CPU_ANY;

    return td_product_columns_on(cpu, p, n_from, n_to);
}
