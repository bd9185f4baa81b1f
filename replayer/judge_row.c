/* judge_row.c - judge a row of an output, all of whose numbers are finite.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Plain loops, of which the compiler makes vectors (-O3, Makefile), compiled for each instruction set; the
 * same operations in the same order, so the same numbers as element by element (judge.c). */
#include "replayer/judge_row.h"

#include <float.h>
#include <math.h>

#include "kernels/cpu_isa.h"
#include "model/ggml_blocks.h"

#define INLINE static inline __attribute__((always_inline))

/* 0 is added to the sums where there is no slack, which changes none. */
INLINE bool score_all(const struct td_judge_row *p, const bool has_slack)
{
    const double *restrict c = p->c, *restrict r = p->r1, *restrict mag = p->mag, *restrict slack = p->slack;
    double *restrict score = p->score, *restrict diff = p->diff, *restrict denom = p->denom;
    long long bad = 0;

    for (int64_t j = 0; j < p->n; j++) {
        const double denominator = p->u_out * fabs(r[j]) + p->u_sum * mag[j] + p->tiny + (has_slack ? slack[j] : 0), d = c[j] - r[j],
                     s = fabs(d) / denominator;

        score[j] = s;
        diff[j] = d;
        denom[j] = denominator;
        bad |= (long long)!(fabs(c[j]) <= DBL_MAX) | (long long)!(fabs(r[j]) <= DBL_MAX) | (long long)!(denominator <= DBL_MAX) |
               (long long)!(s <= DBL_MAX);
    }
    return !bad;
}

static bool score_plain(const struct td_judge_row *p)
{
    return p->slack ? score_all(p, true) : score_all(p, false);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static bool score_avx2(const struct td_judge_row *p)
{
    return p->slack ? score_all(p, true) : score_all(p, false);
}
#else
#define score_avx2 score_plain
#endif

bool td_judge_row_score(const struct td_judge_row *p)
{
    if (p->dtype != TD_DT_F16 && p->dtype != TD_DT_BF16 && p->dtype != TD_DT_F32)
        return false;
    td_ggml_split_row(p->dtype, p->image, p->n, p->c, NULL);
    return td_cpu_can_run(TD_CPU_AVX2) ? score_avx2(p) : score_plain(p);
}

/* same: r0 is r1, so that its sums are. */
INLINE void add_all(const struct td_judge_row *p, struct td_judge_row_sums *sums, const bool same)
{
    struct td_judge_row_sums s = *sums;

    for (int64_t j = 0; j < p->n; j++) {
        const double diff = fabs(p->diff[j]), r = p->r1[j], score = p->score[j];

        s.score = score > s.score ? score : s.score;
        s.max_abs = diff > s.max_abs ? diff : s.max_abs;
        s.d2 += diff * diff;
        s.r2 += r * r;
        s.row += score * score;
        s.zero += p->c[j] == 0;
        s.ref_nonzero += r != 0;
        if (!same) {
            const double diff0 = fabs(p->c[j] - p->r0[j]);

            s.d02 += diff0 * diff0;
            s.r02 += p->r0[j] * p->r0[j];
        }
    }
    if (same) {
        s.d02 = s.d2;
        s.r02 = s.r2;
    }
    *sums = s;
}

void td_judge_row_add(const struct td_judge_row *p, struct td_judge_row_sums *s)
{
    if (p->r0 == p->r1 && s->d02 == s->d2 && s->r02 == s->r2)
        add_all(p, s, true);
    else
        add_all(p, s, false);
}

void td_judge_row_add_columns(const struct td_judge_row *p, double *restrict sum)
{
    const double *restrict score = p->score;

    for (int64_t j = 0; j < p->n; j++)
        sum[j] += score[j] * score[j];
}

void td_judge_row_add_tiles(const struct td_judge_row *p, int64_t wide, double *sum)
{
    for (int64_t j0 = 0; j0 < p->n; j0 += wide, sum++) {
        const int64_t end = p->n - j0 < wide ? p->n : j0 + wide;
        double s = *sum;

        for (int64_t j = j0; j < end; j++)
            s += p->score[j] * p->score[j];
        *sum = s;
    }
}
