/* nothing.c - functions that take no time, so that a loop over them shows the cost of the tap in front of them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One function for each front: td_gptq_gemm (a GEMM), ggml's computing of a graph (a step), torch's at::linear (a GEMM) with the
 * functions of torch that describe a tensor, cudaGraphLaunch (a step), cublasGemmEx (a GEMM). */
#include "bench/tap/nothing.h"

int td_gptq_gemm(const struct td_gptq_gemm_args *args)
{
    return args->flags;
}

void td_step(const struct td_step_args *args)
{
    (void)args;
}

int ggml_backend_sched_graph_compute_async(void *sched, void *graph)
{
    return sched != graph;
}

void *at_linear(void *ret, const void *x, const void *w, const void *bias)
{
    (void)x, (void)w, (void)bias;
    return ret;
}

/* Every tensor is [1, 576] of bf16. */
static const int64_t sizes[] = {1, 576}, strides[] = {576, 1};

int32_t aoti_torch_get_dim(const void *t, int64_t *out) { (void)t; return *out = 2, 0; }
int32_t aoti_torch_get_sizes(const void *t, const int64_t **out) { (void)t; return *out = sizes, 0; }
int32_t aoti_torch_get_strides(const void *t, const int64_t **out) { (void)t; return *out = strides, 0; }
int32_t aoti_torch_get_dtype(const void *t, int32_t *out) { (void)t; return *out = 15, 0; }
int32_t aoti_torch_get_device_type(const void *t, int32_t *out) { (void)t; return *out = 0, 0; }
int32_t torch_get_const_data_ptr(const void *t, const void **out) { return *out = t, 0; }

int cudaGraphLaunch(void *exec, void *stream)
{
    return exec == stream;
}

int cublasGemmEx(void *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda,
                 const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc, int compute, int algorithm)
{
    (void)trans_a, (void)trans_b, (void)m, (void)n, (void)k, (void)alpha, (void)a_type, (void)lda, (void)b, (void)b_type, (void)ldb;
    (void)beta, (void)c, (void)c_type, (void)ldc, (void)compute, (void)algorithm;
    return handle == a;
}
