/* kernels.c - micro benchmark of td_gptq_gemm: every variant in the tree, and builds given as libraries, side by side.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: bench-kernels [LIBRARY ...]
 * All of a shape are timed in turn, ROUNDS times over, so that a slow moment of the machine meets all of them. Printed: weights
 * per second (median), and the time as a ratio to the first line (median of the ratios of a round, with its 95 % interval). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/kernels/gptq_gemm/gptq_case.h"

#define ROUNDS 61
#define MAX_BUILDS 64

struct build { const char *name; const struct td_gptq_gemm_variant *variant; int (*gemm)(const struct td_gptq_gemm_args *); };

static const struct gptq_shape shapes[] = {
    {1, 256, 640, 4, 128, 1, false, 0, 0}, {1, 640, 256, 4, 128, 1, false, 0, 0}, {1, 96, 256, 4, 128, 1, false, 0, 0},
    {8, 256, 640, 4, 128, 1, false, 0, 0}, {50, 256, 640, 4, 128, 1, false, 0, 0}, {1, 256, 640, 8, 32, 1, false, 0, 0},
    {8, 256, 640, 8, 32, 1, false, 0, 0}, {1, 256, 640, 4, 64, 0, true, 0, 0}, {8, 256, 640, 4, 64, 0, true, 0, 0},
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double time_s(const struct build *b, const struct td_gptq_gemm_args *x, int calls)
{
    const double start = now_s();

    for (int i = 0; i < calls; i++)
        if (b->variant ? td_gptq_gemm_run(b->variant, x) : b->gemm(x))
            exit(4);
    return (now_s() - start) / calls;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void bench_shape(const struct build *builds, int n, const struct gptq_shape *s)
{
    static double t[MAX_BUILDS][ROUNDS];
    const double weights = (double)s->k * s->n;
    const int calls = (int)(1e6 / weights / s->m * 8) + 1;
    struct gptq_case c;

    case_new(&c, s, true);
    for (int round = -1; round < ROUNDS; round++)
        for (int b = 0; b < n; b++)
            t[b][round < 0 ? 0 : round] = time_s(&builds[b], &c.x, calls);
    printf("\nM %d  N %d  K %d  %d bit, group %d%s\n", s->m, s->n, s->k, s->bits, s->group_size, s->act_order ? ", act-order" : "");
    for (int b = n - 1; b >= 0; b--) { /* ratios first: sorting loses the rounds */
        double ratio[ROUNDS], median[ROUNDS];

        for (int r = 0; r < ROUNDS; r++) {
            ratio[r] = t[b][r] / t[0][r];
            median[r] = t[b][r];
        }
        qsort(ratio, ROUNDS, sizeof *ratio, ascending);
        qsort(median, ROUNDS, sizeof *median, ascending);
        /* order statistics that hold the median in 95 % of samples: (n - 1.96 sqrt n) / 2 */
        printf("  %-26s %7.2f G weights/s  %8.2f us   x %.3f [%.3f, %.3f]\n", builds[b].name, weights / median[ROUNDS / 2] * 1e-9,
               median[ROUNDS / 2] * 1e6, ratio[ROUNDS / 2], ratio[22], ratio[38]);
    }
    case_release(&c);
}

int main(int argc, char **argv)
{
    struct build builds[MAX_BUILDS];
    int n = 0;

    for (const struct td_gptq_gemm_variant *v = td_gptq_gemm_variants; v->name; v++)
        if (td_gptq_gemm_can_run(v))
            builds[n++] = (struct build){v->name, v, NULL};
    for (int i = 1; i < argc && n < MAX_BUILDS; i++) {
        void *so = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL), *symbol = so ? dlsym(so, "td_gptq_gemm") : NULL;

        if (!symbol) {
            fprintf(stderr, "%s: %s\n", argv[i], dlerror());
            return 2;
        }
        builds[n].name = strstr(argv[i], "bugs/") ? strstr(argv[i], "bugs/") + 5 : argv[i];
        builds[n].variant = NULL;
        memcpy(&builds[n++].gemm, &symbol, sizeof symbol);
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        bench_shape(builds, n, &shapes[i]);
    return 0;
}
