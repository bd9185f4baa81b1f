/* rowdot_ref.c - the inner loop of the references; compiled for speed (Makefile), twice, to the same results.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/rowdot.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

typedef double vd __attribute__((vector_size(32))); /* without AVX two halves, with the same sums */

struct sums { vd r0[2], r1[2], mag[2]; };

INLINE void magnitude(vd *v)
{
    const long long mask = 0x7fffffffffffffff;
    typedef long long vi __attribute__((vector_size(32)));
    vi bits;

    memcpy(&bits, v, sizeof bits);
    bits &= (vi){mask, mask, mask, mask};
    memcpy(v, &bits, sizeof bits);
}

INLINE double total(const vd *part)
{
    const vd s = part[0] + part[1];

    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* One row of activations; both: R1 differs from R0. */
INLINE void one_row(const struct td_rowdot *x, int64_t i, const int both)
{
    const double *a0 = x->a0 + i * x->k, *a1 = x->a1 + i * x->k;
    struct sums s = {0};
    double r0, r1, mag;
    int64_t j;

    for (j = 0; j + 8 <= x->k; j += 8)
        for (int h = 0; h < 2; h++) {
            vd w, a, p;

            memcpy(&w, x->w1 + j + h * 4, sizeof w);
            memcpy(&a, a1 + j + h * 4, sizeof a);
            p = w * a;
            s.r1[h] += p;
            magnitude(&p);
            s.mag[h] += p;
            if (both) {
                memcpy(&w, x->w0 + j + h * 4, sizeof w);
                memcpy(&a, a0 + j + h * 4, sizeof a);
                s.r0[h] += w * a;
            }
        }
    r0 = total(s.r0);
    r1 = total(s.r1);
    mag = total(s.mag);
    for (; j < x->k; j++) {
        r0 += x->w0[j] * a0[j];
        r1 += x->w1[j] * a1[j];
        mag += fabs(x->w1[j] * a1[j]);
    }
    x->mag[i * x->ld] = mag;
    x->r0[i * x->ld] = both ? r0 : r1;
    if (both)
        x->r1[i * x->ld] = r1;
}

INLINE void rows(const struct td_rowdot *x)
{
    if (x->r1)
        for (int64_t i = 0; i < x->m; i++)
            one_row(x, i, 1);
    else
        for (int64_t i = 0; i < x->m; i++)
            one_row(x, i, 0);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void rows_avx2(const struct td_rowdot *x)
{
    rows(x);
}

static int have_avx2(void)
{
    return __builtin_cpu_supports("avx2") != 0;
}
#else
static void rows_avx2(const struct td_rowdot *x) { rows(x); }
static int have_avx2(void) { return 0; }
#endif

static void rows_plain(const struct td_rowdot *x)
{
    rows(x);
}

void td_rowdot(const struct td_rowdot *x)
{
    (have_avx2() ? rows_avx2 : rows_plain)(x);
}
