/* awq_operators.h - products by AWQ's own operators, as vLLM's AutoAWQLinearMethod has them: for lib_cuda_model.c, whose
 * layers they stand for.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Few rows go to awq_gemm, others (AWQ_ROWS, vLLM has 256) to awq_dequantize and cublasGemmEx, as torch.matmul asks it. An
 * address of the device is one of the host here; operators compute at once. TD_GPU_MODEL_UNREAD: such products are scaled,
 * as none of a layer is; "again": then other floats come to lie where W lay, and are multiplied with as W would be. */
#ifndef TD_TESTS_HELPERS_AWQ_OPERATORS_H
#define TD_TESTS_HELPERS_AWQ_OPERATORS_H

#include <stdlib.h>
#include <string.h>

#include "tests/helpers/fake_gptq.h"
#include "tests/helpers/fake_torch.h"

enum { AWQ_ROWS = 16 };
#define AWQ_GEMM "awq_gemm(Tensor _in_feats, Tensor _kernel, Tensor _scaling_factors, Tensor _zeros, SymInt split_k_iters) -> Tensor" /* vLLM 0.26 */
#define AWQ_DEQUANTIZE "awq_dequantize(Tensor _kernel, Tensor _scaling_factors, Tensor _zeros, SymInt split_k_iters, int thx, int thy) -> Tensor"

int cublasGemmEx(void *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda, const void *b, int b_type,
                 int ldb, const void *beta, void *c, int c_type, int ldc, int compute, int algorithm);

struct awq_layer { int n, k, groups; uint32_t *w, *zeros; uint16_t *scales; };

/* Where column j of eight lies in a word. */
static inline int awq_shift(int j)
{
    return 4 * (j % 8 / 2 + (j & 1) * 4);
}

static inline int awq_number(const uint32_t *words, int n, int row, int col)
{
    return (int)(words[row * (n / 8) + col / 8] >> awq_shift(col) & 15);
}

static inline void awq_put(uint32_t *words, int n, int row, int col, uint32_t number)
{
    words[row * (n / 8) + col / 8] |= number << awq_shift(col);
}

/* A layer of GPTQ's tensors, whose zero points are stored less one. */
static inline struct awq_layer awq_layer_new(int n, int k, int groups, const uint32_t *qweight, const uint32_t *qzeros, const uint16_t *scales,
                                             uint64_t (*upload)(const void *from, size_t bytes))
{
    const size_t bytes = (size_t)(k * n / 2), zero_bytes = (size_t)(groups * n / 2);
    uint32_t *w = calloc(1, bytes), *zeros = calloc(1, zero_bytes);
    struct awq_layer l = {n, k, groups, NULL, NULL, NULL};
    int i, j;

    for (i = 0; i < k; i++)
        for (j = 0; j < n; j++)
            awq_put(w, n, i, j, qweight[i / 8 * n + j] >> (4 * (i % 8)) & 15);
    for (i = 0; i < groups; i++)
        for (j = 0; j < n; j++)
            awq_put(zeros, n, i, j, (qzeros[i * (n / 8) + j / 8] >> (4 * (j % 8)) & 15) + 1);
    l.w = (void *)upload(w, bytes), l.zeros = (void *)upload(zeros, zero_bytes);
    l.scales = (void *)upload(scales, (size_t)(groups * n) * 2);
    free(w);
    free(zeros);
    return l;
}

static uint16_t *awq_result;           /* of the next call of an operator; the model sets it */
static void (*awq_between)(void);      /* NULL, or what is launched after W is made and before it is used */

struct awq_weight { const uint32_t *w, *zeros; const uint16_t *scales; int group; };

/* An element of W [k, n] in float16, rounded once. */
static inline uint16_t awq_half(const struct awq_weight *w, int n, int i, int j)
{
    return fake_gptq_half(fake_gptq_float(w->scales[i / w->group * n + j]) * (float)(awq_number(w->w, n, i, j) - awq_number(w->zeros, n, i / w->group, j)));
}

static inline void awq_decode(const void *of, int64_t k, int64_t n, float *to)
{
    for (int i = 0; i < k; i++)
        for (int j = 0; j < n; j++)
            fake_set(to, k, i, j, fake_gptq_float(awq_half(of, (int)n, i, j)));
}

static inline struct awq_weight awq_weight_of(const struct fake_torch_tensor *w, const struct fake_torch_tensor *s, const struct fake_torch_tensor *z)
{
    return (struct awq_weight){w->data, z->data, s->data, (int)(w->sizes[0] / s->sizes[0])};
}

static inline void awq_return(td_torch_value *stack, uint64_t n_args, int rows, int cols)
{
    struct fake_torch_tensor *t = calloc(1, sizeof *t);

    *t = (struct fake_torch_tensor){.ndim = 2, .sizes = {rows, cols}, .strides = {cols, 1}, .dtype = TD_TORCH_F16, .device = TD_TORCH_CUDA, .data = awq_result};
    memset(stack, 0, n_args * sizeof *stack);
    stack[0] = (uintptr_t)t;
}

static inline void awq_dequantize_operator(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *w = (void *)stack[0];
    const struct awq_weight all = awq_weight_of(w, (void *)stack[1], (void *)stack[2]);
    const int k = (int)w->sizes[0], n = (int)w->sizes[1] * 8;
    int i, j;

    (void)n_results;
    for (i = 0; i < k; i++)
        for (j = 0; j < n; j++)
            awq_result[i * n + j] = awq_half(&all, n, i, j);
    awq_return(stack, n_args, k, n);
}

static inline void awq_gemm_operator(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *a = (void *)stack[0], *w = (void *)stack[1];
    const struct awq_weight all = awq_weight_of(w, (void *)stack[2], (void *)stack[3]);
    const int m = (int)a->sizes[0], k = (int)a->sizes[1], n = (int)w->sizes[1] * 8;
    const size_t groups = (size_t)(k / all.group * n);
    const struct fake_part parts[] = {{&all.group, sizeof all.group}, {all.w, (size_t)(k * n) / 2}, {all.zeros, groups / 2}, {all.scales, groups * 2}, {NULL, 0}};
    double *rows = fake_doubles_of(a->data, m * k), *sums;

    (void)n_results;
    sums = fake_product(m, n, k, rows, awq_decode, &all, parts);
    fake_halves_of(sums, m * n, awq_result);
    free(sums);
    free(rows);
    awq_return(stack, n_args, m, n);
}

/* A [rows, k] at a by the layer, into c. w: room for the floats of W. handle: of cuBLAS. */
static inline int awq_multiply(const struct awq_layer *l, int rows, uint16_t *a, uint16_t *c, uint16_t *w, void *handle, fake_torch_call_fn *call)
{
    const char *unread = getenv("TD_GPU_MODEL_UNREAD");
    const float factor = unread ? 2 : 1, one = 1, zero = 0;
    struct fake_torch_tensor t[4] = {{.ndim = 2, .sizes = {rows, l->k}, .dtype = TD_TORCH_F16, .data = a},
                                     {.ndim = 2, .sizes = {l->k, l->n / 8}, .dtype = TD_TORCH_I32, .data = l->w},
                                     {.ndim = 2, .sizes = {l->groups, l->n}, .dtype = TD_TORCH_F16, .data = l->scales},
                                     {.ndim = 2, .sizes = {l->groups, l->n / 8}, .dtype = TD_TORCH_I32, .data = l->zeros}};
    td_torch_value gemm[5] = {(uintptr_t)&t[0], (uintptr_t)&t[1], (uintptr_t)&t[2], (uintptr_t)&t[3], 8},
                   floats[6] = {(uintptr_t)&t[1], (uintptr_t)&t[2], (uintptr_t)&t[3], 0, 0, 0};
    int i, rc;

    for (i = 0; i < 4; i++)
        t[i].strides[0] = t[i].sizes[1], t[i].strides[1] = 1, t[i].device = TD_TORCH_CUDA;
    if (rows < AWQ_ROWS) {
        awq_result = c;
        rc = call("_C::awq_gemm", "CUDA", gemm, 5, 1);
        free((void *)gemm[0]);
        return rc;
    }
    awq_result = w;
    rc = call("_C::awq_dequantize", "CUDA", floats, 6, 1);
    if (awq_between)
        awq_between();
    rc = rc || cublasGemmEx(handle, 0, 0, l->n, rows, l->k, &factor, w, 2, l->n, a, 2, l->k, &zero, c, 2, l->n, 68, 99);
    if (unread && !strcmp(unread, "again")) {
        for (i = 0; i < l->n * l->k; i++)
            w[i] = 0x2000;
        rc = rc || cublasGemmEx(handle, 0, 0, l->n, rows, l->k, &one, w, 2, l->n, a, 2, l->k, &zero, c, 2, l->n, 68, 99);
    }
    free((void *)floats[0]);
    return rc;
}

static inline int awq_register(td_torch_library library, td_torch_library cuda, td_torch_def *def, td_torch_impl_version *impl)
{
    return def(library, AWQ_GEMM) || def(library, AWQ_DEQUANTIZE) || impl(cuda, "awq_gemm", awq_gemm_operator, 1) ||
           impl(cuda, "awq_dequantize", awq_dequantize_operator, 1);
}

#endif
