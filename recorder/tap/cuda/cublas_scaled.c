/* cublas_scaled.c - a product of 8-bit floats by cublasLtMatmul: an op of kind "scaled_mm".
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/cuda/cublas_scaled.h"

#include "recorder/tap/gpu/gpu_driver.h"
#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_threads.h"

enum { MOST = 1 << 28, HOPPER = 90 };  /* MOST: no product of two sizes by 8 overflows */

static const struct td_gpu_adapter adapter = {.family = "cublasLtMatmul",
                                              .identifier = "cublasLtMatmul",
                                              .kind = "scaled_mm",
                                              .layout = "checkpoint"};
static const struct tap_gpu_kernel kernel = {.adapter = &adapter, .symbol = "cublasLtMatmul"};

static void add(struct td_gpu_work *w, enum td_gpu_use use, const char *role, const char *dtype,
                int bytes, uint64_t address, int64_t rows, int64_t cols, int64_t stride)
{
    w->op[w->n_op++] = (struct td_gpu_operand){.role = role,
                                               .dtype = dtype,
                                               .use = use,
                                               .address = address,
                                               .ndim = cols ? 2 : 1,
                                               .shape = {rows, cols},
                                               .row_stride = cols ? stride : rows,
                                               .bytes = (uint64_t)rows * (uint64_t)(cols ? cols : 1) *
                                                        (uint64_t)bytes};
}

/* False: sizes that no op has. */
static bool read(const struct tap_cublas_linear *p, const struct tap_cublas_scaled *s,
                 struct td_gpu_work *w)
{
    *w = (struct td_gpu_work){.adapter = &adapter, .m = p->m, .n = p->n, .k = p->k, .whole = true};
    w->rounding = tap_gpu_capability() == HOPPER ? "sum-e8m13" : "none";
    if (!p->a || !p->w || !p->c || p->m < 1 || p->n < 1 || p->k < 1 || p->m > MOST || p->n > MOST ||
        p->k > MOST || p->lda < p->k || p->ldc < p->n || p->lda > MOST || p->ldc > MOST)
        return false;
    add(w, TD_GPU_IN, "a", s->a_type, 1, p->a, p->m, p->k, p->lda);
    add(w, TD_GPU_WEIGHT, "w", s->w_type, 1, p->w, p->n, p->k, p->k);
    add(w, TD_GPU_IN, "a_scales", "F32", 4, s->a_scales, s->by_row ? p->m : 1, 0, 0);
    add(w, TD_GPU_WEIGHT, "w_scales", "F32", 4, s->w_scales, s->by_column ? p->n : 1, 0, 0);
    if (p->bias)
        add(w, TD_GPU_WEIGHT, "bias", s->c_type, 2, p->bias, p->n, 0, 0);
    add(w, TD_GPU_OUT, "c", s->c_type, 2, p->c, p->m, p->n, p->ldc);
    return true;
}

uint64_t tap_cublas_scaled_enter(const struct tap_cublas_linear *p, const struct tap_cublas_scaled *s,
                                 struct tap_gpu_launch *l)
{
    struct td_gpu_work w;

    if (!read(p, s, &w))
        return 0;
    l->context = tap_gpu_context_of(l->stream);
    return tap_gpu_gate_enter_work(l, &kernel, &w);
}

void tap_cublas_scaled_captured(const struct tap_gpu_capture_mark *mark,
                                const struct tap_cublas_linear *p, const struct tap_cublas_scaled *s,
                                struct tap_gpu_launch *l)
{
    struct td_gpu_work w;

    if (read(p, s, &w))
        tap_gpu_capture_ends(mark, l, &kernel, &w);
}
