/* torch_product_scaled_mm.c - a product of 8-bit numbers: what its scales mean.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: dispatch_scaled_mm of vLLM 0.26,
 * csrc/libtorch_stable/quantization/w8a8/cutlass/c3x/scaled_mm_helper.hpp: numbers of scales that
 * fit a tensor, or its rows and columns, mean these; any other means blocks of 128. */
#include <string.h>

#include "recorder/tap/gpu/gpu_driver.h"
#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/torch/torch_product_kinds.h"

#define BLOCK 128
#define HOPPER 90                     /* its tensor cores cut sums; those of Blackwell do not */

static struct td_gpu_operand *operand(struct td_gpu_work *w, const char *role)
{
    int i;

    for (i = 0; i < w->n_op; i++)
        if (!strcmp(w->op[i].role, role))
            return &w->op[i];
    return NULL;
}

static bool has_type(const struct td_gpu_operand *o, const char *dtype)
{
    return !o || !strcmp(o->dtype, dtype);
}

static bool has_8_bit_floats(const struct td_gpu_operand *o)
{
    return !strncmp(o->dtype, "F8_", 3);
}

static int64_t elements(const struct td_gpu_operand *o)
{
    return o->shape[0] * (o->ndim > 1 ? o->shape[1] : 1);
}

/* One number, or one for each of n lines, as a vector. False: it is neither. NULL is true. */
static bool make_vector(struct td_gpu_operand *o, bool may_be_one, int64_t n)
{
    int64_t count = o ? elements(o) : n;

    if (count != n && !(may_be_one && count == 1))
        return false;
    if (o) {
        o->ndim = 1;
        o->shape[0] = o->row_stride = count;
    }
    return true;
}

static bool is_matrix(const struct td_gpu_operand *o, int64_t rows, int64_t cols)
{
    return o->ndim == 2 && o->shape[0] == rows && o->shape[1] == cols;
}

static int64_t blocks(int64_t size)
{
    return (size + BLOCK - 1) / BLOCK;
}

static bool read_scales(struct td_gpu_work *w)
{
    struct td_gpu_operand *a = operand(w, "a_scales"), *b = operand(w, "w_scales");

    if (!a || !b || !has_type(a, "F32") || !has_type(b, "F32"))
        return false;
    if ((elements(a) == 1 || elements(a) == w->m) && (elements(b) == 1 || elements(b) == w->n))
        return make_vector(a, true, w->m) && make_vector(b, true, w->n);
    w->attr[w->n_attr++] = (struct td_gpu_attr){"block", BLOCK};
    return is_matrix(a, blocks(w->k), w->m) && is_matrix(b, blocks(w->n), blocks(w->k));
}

bool tap_torch_cuts_sums(void)
{
    return tap_gpu_capability() == HOPPER;
}

bool tap_torch_product_scaled_mm(const struct tap_torch_meaning *m, const td_torch_value *stack,
                                 struct td_gpu_work *w)
{
    const struct td_gpu_operand *a = operand(w, "a"), *b = operand(w, "w");
    struct td_gpu_operand *adj = operand(w, "azp_adj"), *azp = operand(w, "azp");
    const bool integers = a && !strcmp(a->dtype, "I8");

    (void)m, (void)stack;
    w->rounding = !integers && tap_torch_cuts_sums() ? "sum-e8m13" : "none";
    if (!a || !b || !is_matrix(b, w->n, w->k) ||
        (integers ? !has_type(b, "I8") : !has_8_bit_floats(a) || !has_8_bit_floats(b)))
        return false;
    return read_scales(w) && has_type(adj, "I32") && has_type(azp, "I32") &&
           make_vector(adj, false, w->n) && make_vector(azp, false, w->m) &&
           make_vector(operand(w, "bias"), false, w->n);
}
