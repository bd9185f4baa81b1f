/* cublas_linear.c - a layer that is not quantised, multiplied by cuBLAS: read by an adapter of its
 * own, as if the library's call were one launch.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every call of this form is taken for a layer, and its factor W for weights: attention multiplies
 * in batches, by other functions. Where it is none after all, the op is right as it stands (W is
 * copied before the call, as A is), and it is not recorded again once W is not what was sent
 * (gpu_sender.c). One case cannot be told apart: a step that begins anew at such an address. */
#include <errno.h>
#include <stdlib.h>

#include "recorder/tap/cuda/cublas_linear.h"
#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_threads.h"

enum { A, W, BIAS, C, M, N, K, LDA, LDC, N_FIELDS };
/* As in adapter.c: no product of two sizes by 8 overflows. */
enum { MOST = 1 << 28 };
static const struct td_gpu_field fields[N_FIELDS] = {
    [A] = {"a", 8, TD_GPU_IN},           [W] = {"w", 8, TD_GPU_WEIGHT},
    [BIAS] = {"bias", 8, TD_GPU_WEIGHT}, [C] = {"c", 8, TD_GPU_OUT},
    [M] = {"m", 4, TD_GPU_SCALAR},       [N] = {"n", 4, TD_GPU_SCALAR},
    [K] = {"k", 4, TD_GPU_SCALAR},       [LDA] = {"lda", 4, TD_GPU_SCALAR},
    [LDC] = {"ldc", 4, TD_GPU_SCALAR}};

static void add(struct td_gpu_work *w, int field, const struct td_gpu_values *v, const char *dtype,
                int64_t rows, int64_t cols, int64_t stride)
{
    w->op[w->n_op++] = (struct td_gpu_operand){.role = fields[field].name,
                                               .dtype = dtype,
                                               .use = fields[field].use,
                                               .address = v->value[field],
                                               .ndim = 2,
                                               .shape = {rows, cols},
                                               .row_stride = stride,
                                               .bytes = (uint64_t)rows * (uint64_t)cols * 2};
}

static void add_bias(struct td_gpu_work *w, const struct td_gpu_values *v, const char *dtype)
{
    w->op[w->n_op++] = (struct td_gpu_operand){.role = fields[BIAS].name,
                                               .dtype = dtype,
                                               .use = TD_GPU_WEIGHT,
                                               .address = v->value[BIAS],
                                               .ndim = 1,
                                               .shape = {w->n},
                                               .row_stride = w->n,
                                               .bytes = (uint64_t)w->n * 2};
}

static bool read_linear(const struct td_gpu_values *v, const char *dtype, struct td_gpu_work *w)
{
    const int64_t lda = (int32_t)v->value[LDA], ldc = (int32_t)v->value[LDC];

    w->m = (int32_t)v->value[M];
    w->n = (int32_t)v->value[N];
    w->k = (int32_t)v->value[K];
    w->whole = true;
    if (!v->value[A] || !v->value[W] || !v->value[C] || w->n < 1 || w->k < 1 || w->n > MOST ||
        w->k > MOST || lda < w->k || ldc < w->n || lda > MOST || ldc > MOST)
        return false;
    add(w, A, v, dtype, w->m, w->k, lda);
    add(w, W, v, dtype, w->n, w->k, w->k);
    if (v->value[BIAS])
        add_bias(w, v, dtype);
    add(w, C, v, dtype, w->m, w->n, ldc);
    return true;
}

static bool read_f16(const struct td_gpu_adapter *row, const struct td_gpu_values *v,
                     struct td_gpu_work *w)
{
    (void)row;
    return read_linear(v, "F16", w);
}

static bool read_bf16(const struct td_gpu_adapter *row, const struct td_gpu_values *v,
                      struct td_gpu_work *w)
{
    (void)row;
    return read_linear(v, "BF16", w);
}

#define ADAPTER(function, read) \
    {function, function, "gemm", "checkpoint", fields, N_FIELDS, 0, NULL, 0, read}
#define ADAPTERS(function) {ADAPTER(function, read_f16), ADAPTER(function, read_bf16)}
#define CALLS(call, function) \
    {{.adapter = &adapters[call][0], .symbol = function}, \
     {.adapter = &adapters[call][1], .symbol = function}}
static const struct td_gpu_adapter adapters[][2] = {
    [TAP_CUBLAS_GEMM_EX] = ADAPTERS("cublasGemmEx"),
    [TAP_CUBLAS_LT_MATMUL] = ADAPTERS("cublasLtMatmul"),
};
static const struct tap_gpu_kernel calls[][2] = {
    [TAP_CUBLAS_GEMM_EX] = CALLS(TAP_CUBLAS_GEMM_EX, "cublasGemmEx"),
    [TAP_CUBLAS_LT_MATMUL] = CALLS(TAP_CUBLAS_LT_MATMUL, "cublasLtMatmul")};

bool tap_cublas_linear_wanted(void)
{
    static _Atomic int wanted;         /* 0: not known yet; 1: no; 2: yes */
    int now = atomic_load_explicit(&wanted, memory_order_relaxed);
    const char *set;

    if (!now) {
        set = getenv("TD_TAP_CUBLAS");
        now = set && *set == '0' ? 1 : 2;
        atomic_store_explicit(&wanted, now, memory_order_relaxed);
    }
    return now == 2;
}

#define PARAMS(x) \
    {[A] = &x.a, [W] = &x.w, [BIAS] = &x.bias, [C] = &x.c,    [M] = &x.m, \
     [N] = &x.n, [K] = &x.k, [LDA] = &x.lda,   [LDC] = &x.ldc}

uint64_t tap_cublas_linear_enter(const struct tap_cublas_linear *p, enum tap_cublas_call call,
                                 bool bf16, struct tap_gpu_launch *l)
{
    struct tap_cublas_linear x = *p;
    void *params[N_FIELDS] = PARAMS(x);
    uint64_t token;

    l->params = params;
    l->context = tap_gpu_context_of(l->stream);
    token = tap_gpu_gate_enter(l, &calls[call][bf16]);
    l->params = NULL;
    return token;
}

void tap_cublas_linear_captured(const struct tap_gpu_capture_mark *mark,
                                const struct tap_cublas_linear *p, enum tap_cublas_call call,
                                bool bf16, struct tap_gpu_launch *l)
{
    struct tap_cublas_linear x = *p;
    void *params[N_FIELDS] = PARAMS(x);
    struct td_gpu_work w;

    l->params = params;
    if (tap_gpu_gemm_read(l, &calls[call][bf16], &w))
        tap_gpu_capture_ends(mark, l, &calls[call][bf16], &w);
    l->params = NULL;
}

void tap_cublas_linear_leave(uint64_t token, struct tap_gpu_launch *l, bool in_library_call,
                             bool done)
{
    int e = errno;

    tap_gpu_set_in_library_call(in_library_call);
    if (token && tap_gpu_come_in()) {
        tap_gpu_gate_leave(token, l, done);
        tap_gpu_go_out();
    }
    errno = e;
}
