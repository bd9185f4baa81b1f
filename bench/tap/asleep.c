/* asleep.c - measure nanoseconds per call of a function that the tap intercepts: the median of many short loops.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: asleep demo      td_gptq_gemm (a GEMM)
 *        asleep llamacpp  ggml_backend_sched_graph_compute_async (a step)
 *        asleep vllm      at::linear (a GEMM)
 *        asleep graph     cudaGraphLaunch (a step), of 32 graphs in turn, after cuInit of the libcuda.so.1 that is found
 *        asleep cublas    cublasGemmEx (a GEMM), likewise */
#include <dlfcn.h>
#include <stdbool.h>
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

static int graph(int calls)
{
    static char graphs[32][64];
    int sum = 0;

    while (calls--)
        sum += cudaGraphLaunch(graphs[calls & 31], NULL);
    return sum;
}

static int cublas(int calls)
{
    static char a[4], w[4], c[4];
    const float one = 1, zero = 0;
    int sum = 0;

    while (calls--)
        sum += cublasGemmEx(NULL, 1, 0, 4096, 1, 4096, &one, w, 2, 4096, a, 2, 4096, &zero, c, 2, 4096, 68, 0);
    return sum;
}

/* The driver loads the tap when it is initialised. */
static int init_cuda(void)
{
    void *h = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    int (*init)(unsigned) = h ? (int (*)(unsigned))dlsym(h, "cuInit") : NULL;

    return init ? init(0) : -1;
}

static const struct { const char *name; int (*loop)(int); bool cuda; } functions[] = {
    {"demo", demo, false}, {"llamacpp", llamacpp, false}, {"vllm", vllm, false}, {"graph", graph, true}, {"cublas", cublas, true}};

int main(int argc, char **argv)
{
    int (*loop)(int) = NULL;
    struct timespec pause = {0, 20000000};
    double ns[LOOPS];
    int i, sum;

    for (i = 0; argc == 2 && i < (int)(sizeof functions / sizeof *functions); i++)
        if (!strcmp(argv[1], functions[i].name) && !(functions[i].cuda && init_cuda()))
            loop = functions[i].loop;
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
