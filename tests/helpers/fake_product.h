/* fake_product.h - the products of the fake GPU: sums in double, in the order of K, by weights that are decoded once.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Fake kernels multiply whole layers in each step of a fake server, so this takes most of what their tests take. The sums
 * are those of the plain loop over one column, bit for bit: vectors hold columns, never parts of a sum. A weight that was
 * decoded is kept with a copy of what it was made of, and is used again while that is the same, byte for byte. */
#ifndef TD_TESTS_HELPERS_FAKE_PRODUCT_H
#define TD_TESTS_HELPERS_FAKE_PRODUCT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_COLUMNS = 16, FAKE_WEIGHTS = 96 };
typedef double fake_doubles __attribute__((vector_size(64)));
typedef float fake_floats __attribute__((vector_size(32)));

/* What a weight is made of, and its size; behind the last part lies one of 0 bytes. */
struct fake_part { const void *at; size_t bytes; };
/* Set element (r, j) of `to` by fake_set(). */
typedef void fake_decode_fn(const void *of, int64_t k, int64_t n, float *to);
struct fake_weight { fake_decode_fn *decode; int64_t k, n; size_t bytes; unsigned char *made_of; float *w; };

static struct fake_weight fake_weights[FAKE_WEIGHTS];
static unsigned fake_weights_made;
static pthread_mutex_t fake_weights_lock = PTHREAD_MUTEX_INITIALIZER;

static inline void fake_set(float *w, int64_t k, int64_t r, int64_t j, float value)
{
    w[(j / FAKE_COLUMNS * k + r) * FAKE_COLUMNS + j % FAKE_COLUMNS] = value;
}

/* sums [m, FAKE_COLUMNS] = a [m, k] times w [k, FAKE_COLUMNS] */
#define FAKE_PRODUCT_BODY                                                                   \
    for (int64_t i = 0; i < m; i++) {                                                       \
        fake_doubles low = {0}, high = {0};                                                 \
        fake_floats w0, w1;                                                                 \
                                                                                            \
        for (int64_t r = 0; r < k; r++) {                                                   \
            memcpy(&w0, w + r * FAKE_COLUMNS, sizeof w0);                                   \
            memcpy(&w1, w + r * FAKE_COLUMNS + 8, sizeof w1);                               \
            low += a[i * k + r] * __builtin_convertvector(w0, fake_doubles);                \
            high += a[i * k + r] * __builtin_convertvector(w1, fake_doubles);               \
        }                                                                                   \
        memcpy(sums + i * FAKE_COLUMNS, &low, sizeof low);                                  \
        memcpy(sums + i * FAKE_COLUMNS + 8, &high, sizeof high);                            \
    }

#ifdef __x86_64__
__attribute__((target("avx512f"))) static inline void fake_columns_avx512(int64_t m, int64_t k, const double *a, const float *w, double *sums)
{
    FAKE_PRODUCT_BODY
}

__attribute__((target("avx2"))) static inline void fake_columns_avx2(int64_t m, int64_t k, const double *a, const float *w, double *sums)
{
    FAKE_PRODUCT_BODY
}
#endif

static inline void fake_columns(int64_t m, int64_t k, const double *a, const float *w, double *sums)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f")) {
        fake_columns_avx512(m, k, a, w, sums);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        fake_columns_avx2(m, k, a, w, sums);
        return;
    }
#endif
    FAKE_PRODUCT_BODY
}

static inline bool fake_weight_is(const struct fake_weight *x, fake_decode_fn *decode, int64_t k, int64_t n, const struct fake_part *parts)
{
    size_t at = 0;

    if (x->decode != decode || x->k != k || x->n != n)
        return false;
    for (; parts->bytes; at += parts->bytes, parts++)
        if (at + parts->bytes > x->bytes || memcmp(x->made_of + at, parts->at, parts->bytes) != 0)
            return false;
    return at == x->bytes;
}

static inline const float *fake_weight_of(fake_decode_fn *decode, const void *of, int64_t k, int64_t n, const struct fake_part *parts)
{
    struct fake_weight *x;
    const struct fake_part *p;
    size_t at = 0;

    for (x = fake_weights; x < fake_weights + FAKE_WEIGHTS; x++)
        if (x->w && fake_weight_is(x, decode, k, n, parts))
            return x->w;
    x = &fake_weights[fake_weights_made++ % FAKE_WEIGHTS];
    free(x->made_of);
    free(x->w);
    *x = (struct fake_weight){decode, k, n, 0, NULL, calloc((size_t)((n + FAKE_COLUMNS - 1) / FAKE_COLUMNS * FAKE_COLUMNS * k) + 1, sizeof *x->w)};
    for (p = parts; p->bytes; p++)
        x->bytes += p->bytes;
    x->made_of = malloc(x->bytes + 1);
    if (!x->w || !x->made_of)
        abort();
    for (p = parts; p->bytes; at += p->bytes, p++)
        memcpy(x->made_of + at, p->at, p->bytes);
    decode(of, k, n, x->w);
    return x->w;
}

/* sums [m, n] = a [m, k] times the weight that `decode` makes of `parts`, which the caller frees */
static inline double *fake_product(int64_t m, int64_t n, int64_t k, const double *a, fake_decode_fn *decode, const void *of, const struct fake_part *parts)
{
    double *sums = malloc((size_t)(m * n) * sizeof *sums + 1), *some = malloc((size_t)(m * FAKE_COLUMNS) * sizeof *some + 1);
    const float *w;

    if (!sums || !some)
        abort();
    pthread_mutex_lock(&fake_weights_lock);
    w = fake_weight_of(decode, of, k, n, parts);
    for (int64_t j = 0; j < n; j += FAKE_COLUMNS) {
        fake_columns(m, k, a, w + j * k, some);
        for (int64_t i = 0; i < m; i++)
            memcpy(sums + i * n + j, some + i * FAKE_COLUMNS, (size_t)(n - j < FAKE_COLUMNS ? n - j : FAKE_COLUMNS) * sizeof *sums);
    }
    pthread_mutex_unlock(&fake_weights_lock);
    free(some);
    return sums;
}

#endif
