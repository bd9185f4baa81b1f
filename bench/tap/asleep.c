/* asleep.c - measure nanoseconds per call of a function that the tap intercepts: the median of many short loops.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: asleep demo      td_gptq_gemm (a GEMM)
 *        asleep llamacpp  ggml_backend_sched_graph_compute_async (a step)
 *        asleep vllm      at::linear (a GEMM) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/tap/nothing.h"

enum { LOOPS = 301, CALLS = 50000 };

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int demo(int calls)
{
    struct td_gptq_gemm_args args = {.struct_size = sizeof args};
    int sum = 0;

    while (calls--)
        sum += td_gptq_gemm(&args);
    return sum;
}

static int llamacpp(int calls)
{
    int sum = 0;

    while (calls--)
        sum += ggml_backend_sched_graph_compute_async(NULL, NULL);
    return sum;
}

static int vllm(int calls)
{
    struct { const void *tensor; _Bool has; } none = {0};
    char x[4], w[2][4], ret[8];
    int sum = 0;

    while (calls--)                    /* weights change from call to call, as a model's layers do */
        sum += at_linear(ret, x, w[calls & 1], &none) != ret;
    return sum;
}

int main(int argc, char **argv)
{
    int (*loop)(int) = argc != 2 ? NULL : !strcmp(argv[1], "demo") ? demo : !strcmp(argv[1], "llamacpp") ? llamacpp : !strcmp(argv[1], "vllm") ? vllm : NULL;
    struct timespec pause = {0, 20000000};
    double ns[LOOPS];
    int i, sum;

    if (!loop)
        return 2;
    sum = loop(1);                     /* starts the tap's thread */
    nanosleep(&pause, NULL);
    for (i = 0; i < LOOPS; i++) {
        double t = now_ns();

        sum += loop(CALLS);
        ns[i] = (now_ns() - t) / CALLS;
    }
    qsort(ns, LOOPS, sizeof *ns, by_size);
    printf("%.4f\n", ns[LOOPS / 2]);
    return sum;
}
