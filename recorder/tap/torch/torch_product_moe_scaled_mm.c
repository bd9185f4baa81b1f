/* torch_product_moe_scaled_mm.c - a product of 8-bit floats with the experts of a mixture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: vLLM 0.26, csrc/libtorch_stable/quantization/w8a8/cutlass/moe/get_group_starts.cuh: which
 * scales are read. */
#include <string.h>

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/torch/torch_product_kinds.h"

enum { PER_TOKEN, PER_CHANNEL };      /* the row's numbers */

static struct td_gpu_operand *operand(struct td_gpu_work *w, const char *role)
{
    int i;

    for (i = 0; i < w->n_op; i++)
        if (!strcmp(w->op[i].role, role))
            return &w->op[i];
    return NULL;
}

static bool number(const struct tap_torch_meaning *m, const td_torch_value *stack, int i)
{
    return tap_torch_number_of(&m->schema->arg[m->number[i]], stack[m->number[i]], 0) != 0;
}

static bool has_8_bit_floats(const struct td_gpu_operand *o)
{
    return !strncmp(o->dtype, "F8_", 3);
}

/* One number, the first of those that are given, or one for each of m rows. */
static bool read_a_scales(struct td_gpu_operand *o, bool each, int64_t m)
{
    const int64_t count = o->shape[0] * (o->ndim > 1 ? o->shape[1] : 1);

    if (strcmp(o->dtype, "F32") || count < 1 || (each && count != m))
        return false;
    o->ndim = 1;
    o->shape[0] = o->row_stride = each ? m : 1;
    o->bytes = (uint64_t)o->shape[0] * 4;
    return true;
}

/* One number for each expert, or for each of its n columns. */
static bool read_w_scales(struct td_gpu_operand *o, bool each, int64_t experts, int64_t n)
{
    int64_t count = 1;
    int i;

    for (i = 0; i < o->ndim; i++)
        count *= o->shape[i];
    if (strcmp(o->dtype, "F32") || o->shape[0] != experts || count != experts * (each ? n : 1))
        return false;
    o->ndim = each ? 2 : 1;
    o->shape[1] = n;
    o->row_stride = each ? n : experts;
    return true;
}

static bool is_routing(const struct td_gpu_operand *offsets, const struct td_gpu_operand *sizes,
                       int64_t experts)
{
    return offsets && sizes && !strcmp(offsets->dtype, "I64") && offsets->ndim == 1 &&
           offsets->shape[0] == experts && !strcmp(sizes->dtype, "I32") && sizes->ndim == 2 &&
           sizes->shape[0] == experts && sizes->shape[1] == 3;
}

bool tap_torch_product_moe_scaled_mm(const struct tap_torch_meaning *m, const td_torch_value *stack,
                                     struct td_gpu_work *w)
{
    const struct td_gpu_operand *a = operand(w, "a"), *b = operand(w, "w");
    struct td_gpu_operand *a_scales = operand(w, "a_scales"), *w_scales = operand(w, "w_scales");
    int64_t experts;

    w->rounding = tap_torch_cuts_sums() ? "sum-e8m13" : "none";
    if (!a || !b || !a_scales || !w_scales || !has_8_bit_floats(a) || !has_8_bit_floats(b) ||
        b->ndim != 3 || b->shape[2] != w->k || a->row_stride != w->k)
        return false;
    experts = b->shape[0];
    w->n = b->shape[1];
    w->attr[w->n_attr++] = (struct td_gpu_attr){"experts", experts};
    return read_a_scales(a_scales, number(m, stack, PER_TOKEN), w->m) &&
           read_w_scales(w_scales, number(m, stack, PER_CHANNEL), experts, w->n) &&
           is_routing(operand(w, "expert_offsets"), operand(w, "problem_sizes"), experts);
}
