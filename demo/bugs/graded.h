/* graded.h - a fault whose place and size stand in the library's bytes: as it is built, none.
 * SPDX-License-Identifier: Apache-2.0
 *
 * bench/detect/power.py copies the library and writes another `graded` into each of its places, so that a hundred faults
 * need one build, and the build without a fault takes the same path as those with one. */
#include <math.h>
#include <stdint.h>
#include <time.h>

#include "kernels/abi/td_gptq.h"

#define GRADED_WORDS 16

/* Little-endian, without padding: power.py writes it by these offsets. */
struct graded {
    char mark[16];
    double scale;                 /* outputs are too large by that share, */
    double bias;                  /* and too high by that share of their size */
    double slow;                  /* each call takes longer by that share */
    int32_t every;                /* one column in so many */
    int32_t k, n, m;              /* calls of that size alone; 0: any */
    int32_t words;                /* calls alone whose qweight begins with one of so many words; 0: any */
    int32_t unused;
    uint32_t word[GRADED_WORDS];
};

__attribute__((used)) static const volatile struct graded graded = {.mark = "td-graded-fault", .every = 1};

__attribute__((unused)) static inline int graded_hits(const struct td_gptq_gemm_args *x)
{
    int hits = !graded.words;

    if ((graded.k && graded.k != x->k) || (graded.n && graded.n != x->n) || (graded.m && graded.m != x->m))
        return 0;
    for (int i = 0; i < graded.words && i < GRADED_WORDS; i++)
        hits |= graded.word[i] == x->qweight[0];
    return hits && (graded.scale != 0 || graded.bias != 0);
}

__attribute__((unused)) static inline int64_t graded_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Since when what comes next is counted. */
__attribute__((unused)) static __thread int64_t graded_since;

__attribute__((unused)) static inline void graded_wait(void)
{
    const int64_t end = graded_now() + (int64_t)((double)(graded_now() - graded_since) * graded.slow);

    while ((graded_since = graded_now()) < end)
        ;
}

#define STEP_ARGS(x) ((void)(graded.slow > 0 ? graded_since = graded_now() : 0))
#define STEP_MORE(work) ((void)(graded.slow > 0 ? graded_wait() : (void)0))
#define STEP_END(x, sum, first) __extension__({ \
    vf sum_ = (sum); \
    if (graded_hits(x)) \
        for (int lane_ = 0; lane_ < (int)WIDTH; lane_++) \
            if (((first) + lane_) % graded.every == 0) \
                sum_[lane_] += (float)(sum_[lane_] * graded.scale + fabsf(sum_[lane_]) * graded.bias); \
    sum_; \
})
