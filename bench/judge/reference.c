/* reference.c - micro benchmark of the judge's references: products and sums a second of one core.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: bench-reference [ROUNDS]
 * The plain loop, the blocks of each instruction set that this machine has, and dense float16 weights are timed in
 * turn, ROUNDS times over. Printed: the median of 10^9 products of A and W a second. Each makes two sums, R0 and
 * |A||W|; so a library's dgemm, which makes one, compares with twice that number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/ops/gptq_any_ref.h"
#include "kernels/ops/op_kinds.h"
#include "tests/unit/kernels/gptq_gemm/gptq_case.h"

#define MAX_ROUNDS 64

static const struct { int k, n; } sizes[] = {{2048, 3072}, {2048, 22016}, {11008, 2048}};
static const int rows[] = {1, 8, 32, 64, 256};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct td_tensor matrix(const char *role, enum td_dtype dtype, int64_t d0, int64_t d1, void *data)
{
    struct td_tensor t = {.dtype = dtype, .ndim = 2, .shape = {d0, d1}, .strides = {d1, 1}, .data = data,
                          .size_bytes = (size_t)(d0 * d1) * td_dtype_size(dtype)};

    snprintf(t.role, sizeof t.role, "%s", role);
    return t;
}

static double time_plain(const struct gptq_case *c, double *r, double *mag)
{
    const double start = now_s();

    if (td_gptq_gemm_ref(&c->x, r, mag))
        exit(4);
    return now_s() - start;
}

static double time_kind(const char *kind, const struct td_op_call *op)
{
    struct td_op_ref ref;
    struct td_error err = {0};
    const double start = now_s();

    if (td_op_kind_find(kind)->reference(op, &ref, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        exit(4);
    }
    const double end = now_s();

    td_op_ref_release(&ref);
    return end - start;
}

static void bench(int m, int k, int n, int rounds)
{
    const struct gptq_shape s = {m, n, k, 4, 128, 1, false, 0, 0};
    const double products = (double)m * n * k;
    const size_t count = (size_t)m * (size_t)n;
    double t[3][MAX_ROUNDS], *r = malloc(count * sizeof *r), *mag = malloc(count * sizeof *mag);
    uint16_t *dense = malloc((size_t)n * (size_t)k * sizeof *dense);
    struct gptq_case c;

    case_new(&c, &s, true);
    for (size_t i = 0; i < (size_t)n * (size_t)k; i++)
        dense[i] = (uint16_t)(0x2000 + (i * 2654435761u >> 20) % 4096);
    const struct td_op_call quantised = {
        .kind = "gptq_gemm", .n_attrs = 6, .n_in = 4,
        .attrs = {{"m", m}, {"n", n}, {"k", k}, {"bits", 4}, {"group_size", 128}, {"zero_offset", 1}},
        .in = {matrix("a", TD_DT_F16, m, k, c.a.data), matrix("qweight", TD_DT_I32, k / 8, n, c.qweight.data),
               matrix("qzeros", TD_DT_I32, k / 128, n / 8, c.qzeros.data), matrix("scales", TD_DT_F16, k / 128, n, c.scales.data)},
        .out = matrix("c", TD_DT_F16, m, n, NULL)};
    const struct td_op_call plain = {.kind = "gemm", .n_attrs = 3, .n_in = 2, .attrs = {{"m", m}, {"n", n}, {"k", k}},
                                     .in = {matrix("a", TD_DT_F16, m, k, c.a.data), matrix("w", TD_DT_F16, n, k, dense)},
                                     .out = matrix("c", TD_DT_F16, m, n, NULL)};

    for (int i = 0; i < rounds; i++) {
        t[0][i] = time_plain(&c, r, mag);
        t[1][i] = time_kind("gptq_gemm", &quantised);
        t[2][i] = time_kind("gemm", &plain);
    }
    printf("%5d %6d %6d", m, k, n);
    for (int b = 0; b < 3; b++) {
        qsort(t[b], (size_t)rounds, sizeof t[b][0], ascending);
        printf(" %12.2f", products / t[b][rounds / 2] * 1e-9);
    }
    printf("\n");
    fflush(stdout);
    case_release(&c);
    free(dense);
    free(r);
    free(mag);
}

int main(int argc, char **argv)
{
    const int asked = argc > 1 ? atoi(argv[1]) : 3, rounds = asked < 1 ? 1 : asked > MAX_ROUNDS ? MAX_ROUNDS : asked;

    printf("10^9 products a second, one core; R0 and |A||W| of each\n%5s %6s %6s %12s %12s %12s\n", "M", "K", "N", "plain loop",
           "gptq blocks", "gemm f16");
    for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            bench(rows[i], sizes[z].k, sizes[z].n, rounds);
    return 0;
}
