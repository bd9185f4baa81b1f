/* gpu_gemm.c - a launch, and the GEMM that it computes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "recorder/tap/gpu/gpu_gemm.h"

#define SLOT_ALIGN 256u

const struct td_gpu_operand *tap_gpu_gemm_operand(const struct td_gpu_work *w, enum td_gpu_use use)
{
    int i;

    for (i = 0; i < w->n_op; i++)
        if (w->op[i].use == use && w->op[i].address)
            return &w->op[i];
    return NULL;
}

const struct td_gpu_operand *tap_gpu_gemm_output(const struct td_gpu_work *w)
{
    const struct td_gpu_operand *o = tap_gpu_gemm_operand(w, TD_GPU_OUT);

    return o ? o : tap_gpu_gemm_operand(w, TD_GPU_OUT_ZEROED);
}

void tap_gpu_gemm_set_output(struct td_gpu_work *w, const struct tap_gpu_launch *l)
{
    int i;

    for (i = 0; l->output && i < w->n_op; i++)
        if (w->op[i].use == TD_GPU_OUT)
            w->op[i].address = l->output;
}

uint64_t tap_gpu_gemm_weights(const struct td_gpu_work *w)
{
    const struct td_gpu_operand *o = tap_gpu_gemm_operand(w, TD_GPU_WEIGHT);

    return o ? o->address : 0;
}

static uint64_t element_bytes(const struct td_gpu_operand *o)
{
    uint64_t n = (uint64_t)o->shape[0] * (uint64_t)(o->ndim > 1 ? o->shape[1] : 1);

    return n ? o->bytes / n : 0;
}

uint64_t tap_gpu_operand_rows(const struct td_gpu_operand *o)
{
    return o->ndim > 1 ? (uint64_t)o->shape[0] : 1;
}

uint64_t tap_gpu_operand_pitch(const struct td_gpu_operand *o)
{
    return o->ndim > 1 ? (uint64_t)o->row_stride * element_bytes(o) : o->bytes;
}

uint64_t tap_gpu_operand_end(const struct td_gpu_operand *o)
{
    return o->address + tap_gpu_operand_rows(o) * tap_gpu_operand_pitch(o);
}

bool tap_gpu_operand_is_copied(const struct td_gpu_operand *o)
{
    return o->address && o->use != TD_GPU_WEIGHT && o->use < TD_GPU_SCRATCH;
}

bool tap_gpu_operand_is_output(const struct td_gpu_operand *o)
{
    return o->address && (o->use == TD_GPU_OUT || o->use == TD_GPU_OUT_ZEROED);
}

int tap_gpu_gemm_outputs(const struct td_gpu_work *w)
{
    int i, n = 0;

    for (i = 0; i < w->n_op; i++)
        n += tap_gpu_operand_is_output(&w->op[i]);
    return n;
}

uint64_t tap_gpu_gemm_copied_bytes(const struct td_gpu_work *w)
{
    uint64_t n = 0;
    int i;

    for (i = 0; i < w->n_op; i++)
        if (tap_gpu_operand_is_copied(&w->op[i]))
            n += w->op[i].bytes;
    return n;
}

uint64_t tap_gpu_gemm_slot_offset(const struct td_gpu_work *w, int i)
{
    uint64_t n = 0;
    int j;

    for (j = 0; j < i; j++)
        if (tap_gpu_operand_is_copied(&w->op[j]))
            n += tap_round_up(w->op[j].bytes, SLOT_ALIGN);
    return n;
}

bool tap_gpu_gemm_read(const struct tap_gpu_launch *l, const struct tap_gpu_kernel *k,
                       struct td_gpu_work *w)
{
    struct td_gpu_values v;

    return td_gpu_values_read(k->adapter, k->params, l->params, l->packed, l->packed_bytes, &v) &&
           td_gpu_work_read(k->adapter, &v, w) && tap_gpu_gemm_output(w) && tap_gpu_gemm_weights(w);
}

static void add_operand(struct td_gpu_work *w, const char *role, enum td_gpu_use use,
                        uint64_t address, int64_t rows, int64_t cols, int64_t stride)
{
    w->op[w->n_op++] = (struct td_gpu_operand){.role = role,
                                               .dtype = "F16",
                                               .use = use,
                                               .address = address,
                                               .ndim = 2,
                                               .shape = {rows, cols},
                                               .row_stride = stride,
                                               .bytes = (uint64_t)rows * (uint64_t)cols * 2};
}

bool tap_gpu_gemm_by_library(const struct td_gpu_work *dequant, uint64_t a, uint64_t c, int64_t m,
                             int64_t n, int64_t k, int64_t lda, int64_t ldc, struct td_gpu_work *w)
{
    if (!a || !c || dequant->n != n || dequant->k != k || m < 1 || m > INT32_MAX || lda < k || ldc < n)
        return false;
    *w = *dequant;
    w->m = m;
    /* The library multiplies with the dequantised W in float16. */
    w->rounding = "weight-f16";
    w->n_op--;                         /* the dequantised W, which is the last operand */
    add_operand(w, "a", TD_GPU_IN, a, m, k, lda);
    add_operand(w, "c", TD_GPU_OUT, c, m, n, ldc);
    return true;
}

struct tap_gpu_last_launch tap_gpu_last_launch_of(uint64_t stream, const struct td_gpu_work *w)
{
    const struct td_gpu_operand *a = tap_gpu_gemm_operand(w, TD_GPU_IN);

    /* What stands beside products may read weights alone. */
    return (struct tap_gpu_last_launch){w->adapter,
                                        stream,
                                        tap_gpu_gemm_weights(w),
                                        a ? tap_gpu_operand_end(a) : 0,
                                        tap_gpu_operand_end(tap_gpu_gemm_output(w)),
                                        w->n,
                                        w->k,
                                        false,
                                        false};
}

bool tap_gpu_gemm_joins(const struct tap_gpu_last_launch *p, uint64_t stream,
                        const struct td_gpu_work *w)
{
    return !w->whole && p->adapter && !strcmp(p->adapter->family, w->adapter->family) && p->stream == stream &&
           p->weights == tap_gpu_gemm_weights(w) && p->n == w->n && p->k == w->k &&
           p->a_end == tap_gpu_gemm_operand(w, TD_GPU_IN)->address &&
           p->c_end == tap_gpu_gemm_output(w)->address;
}
