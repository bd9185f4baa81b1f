/* asleep.c - nanoseconds per call of td_gptq_gemm, the median of many short loops.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/td_gptq.h"

enum { LOOPS = 301, CALLS = 200000 };

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

int main(void)
{
    struct td_gptq_gemm_args args = {.struct_size = sizeof args};
    struct timespec pause = {0, 20000000};
    double ns[LOOPS];
    int i, j, sum = 0;

    sum += td_gptq_gemm(&args);       /* starts the tap's thread */
    nanosleep(&pause, NULL);
    for (i = 0; i < LOOPS; i++) {
        double t = now_ns();

        for (j = 0; j < CALLS; j++)
            sum += td_gptq_gemm(&args);
        ns[i] = (now_ns() - t) / CALLS;
    }
    qsort(ns, LOOPS, sizeof *ns, by_size);
    printf("%.4f\n", ns[LOOPS / 2]);
    return sum;
}
