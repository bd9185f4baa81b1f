/* torch_product_moe_gemm.c - the attributes of a product with the experts of a mixture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: vLLM 0.26, csrc/libtorch_stable/moe/marlin_moe_wna16/ops.cu (which sizes the tensors have,
 * when there are zero points and act-order) and marlin_template.h (what is rounded);
 * csrc/libtorch_stable/moe/moe_wna16.cu (the same of the other layout). */
#include <string.h>

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/torch/torch_product_kinds.h"

enum { TOP_K, BLOCK_SIZE, MULTIPLIES, FLOAT_ZEROS }; /* the row's numbers; wna16 has the first two */

static const struct td_gpu_operand *operand(const struct td_gpu_work *w, const char *role)
{
    int i;

    for (i = 0; i < w->n_op && strcmp(w->op[i].role, role); i++)
        ;
    return i < w->n_op ? &w->op[i] : NULL;
}

static int64_t number(const struct tap_torch_meaning *m, const td_torch_value *stack, int i)
{
    return tap_torch_number_of(&m->schema->arg[m->number[i]], stack[m->number[i]], -1);
}

static void add_attr(struct td_gpu_work *w, const char *name, int64_t value)
{
    w->attr[w->n_attr++] = (struct td_gpu_attr){name, value};
}

/* Bits and zero points, by vLLM's id of the type. False: not known here, or zero points where the
 * type has none. */
static bool read_type(struct td_gpu_work *w, int64_t type)
{
    const bool zeros = operand(w, "qzeros");

    w->bits = type == TD_GPU_VLLM_U4 || type == TD_GPU_VLLM_U4B8 ? 4 : type == TD_GPU_VLLM_U8B128 ? 8 : 0;
    w->zero_offset = !zeros;
    return w->bits && zeros == (type == TD_GPU_VLLM_U4);
}

/* Experts and groups, which the scales [experts, groups, n] say. */
static bool read_sizes(struct td_gpu_work *w, int64_t *experts)
{
    const struct td_gpu_operand *scales = operand(w, "scales"), *qweight = operand(w, "qweight");
    int64_t groups;

    if (!scales || scales->ndim != 3 || qweight->ndim != 3 || scales->shape[0] != qweight->shape[0])
        return false;
    *experts = scales->shape[0];
    groups = scales->shape[1];
    if (w->k < 1 || w->k % groups)
        return false;
    w->group_size = (int)(w->k / groups);
    w->act_order = operand(w, "g_idx") && operand(w, "perm");
    return true;
}

static const char *rounds_weights(const char *dtype)
{
    return !strcmp(dtype, "BF16") ? "weight-bf16" : !strcmp(dtype, "F16") ? "weight-f16" : NULL;
}

bool tap_torch_add_routing(struct td_gpu_work *w, int64_t experts, int64_t top_k, int64_t block)
{
    if (top_k < 1 || top_k > TD_GPU_MAX_SIZE / w->m || block < 1 || block > TD_GPU_MAX_SIZE)
        return false;
    w->c_rows = w->m * top_k;
    add_attr(w, "experts", experts);
    add_attr(w, "top_k", top_k);
    add_attr(w, "block_size", block);
    return true;
}

static bool add_routing(const struct tap_torch_meaning *m, const td_torch_value *stack,
                        struct td_gpu_work *w, int64_t experts)
{
    return tap_torch_add_routing(w, experts, number(m, stack, TOP_K), number(m, stack, BLOCK_SIZE));
}

bool tap_torch_product_moe_gemm(const struct tap_torch_meaning *m, const td_torch_value *stack,
                                struct td_gpu_work *w)
{
    const char *rounding = rounds_weights(tap_gpu_gemm_operand(w, TD_GPU_IN)->dtype);
    int64_t experts;

    if (!rounding || !read_sizes(w, &experts) ||
        !read_type(w, tap_torch_int_of(&m->schema->arg[m->type], stack[m->type], 0)) ||
        number(m, stack, FLOAT_ZEROS) || !add_routing(m, stack, w, experts))
        return false;
    if (w->group_size < w->k)         /* one group: the scale meets the sum, not the weights */
        w->rounding = rounding;
    if (m->row->bias_after && operand(w, "bias"))
        w->rounding = td_gpu_rounding_bias_after(w->rounding);
    add_attr(w, "mul_topk_weights", number(m, stack, MULTIPLIES));
    add_attr(w, "round_topk_weights", 1);
    return true;
}

/* ---- moe_wna16_gemm: weights lie output after output, in bytes ----------------------------------- */

static bool is_stack(const struct td_gpu_operand *o, const char *dtype, int64_t d0, int64_t d1, int64_t d2)
{
    return o && o->ndim == 3 && !strcmp(o->dtype, dtype) && o->shape[0] == d0 && o->shape[1] == d1 &&
           o->shape[2] == d2;
}

/* n, bits and groups, which the tensors say; A's type is dtype. */
static bool read_wna16(struct td_gpu_work *w, const char *dtype, int64_t bits)
{
    const struct td_gpu_operand *q = operand(w, "qweight"), *scales = operand(w, "scales"),
                                *zeros = operand(w, "qzeros");
    int64_t groups;

    if ((bits != 4 && bits != 8) || q->ndim != 3 || !scales || scales->ndim != 3)
        return false;
    w->n = q->shape[1];
    w->bits = (int)bits;
    groups = scales->shape[2];
    if (groups < 1 || w->k % groups || w->n * bits % 8 || w->k * bits % 32)
        return false;
    w->group_size = (int)(w->k / groups);
    w->zero_offset = !zeros;
    return is_stack(q, "U8", q->shape[0], w->n, w->k * bits / 8) &&
           is_stack(scales, dtype, q->shape[0], w->n, groups) &&
           (!zeros || is_stack(zeros, "U8", q->shape[0], w->n * bits / 8, groups));
}

bool tap_torch_product_moe_wna16(const struct tap_torch_meaning *m, const td_torch_value *stack,
                                 struct td_gpu_work *w)
{
    const char *dtype = tap_gpu_gemm_operand(w, TD_GPU_IN)->dtype;

    w->rounding = rounds_weights(dtype);
    if (!w->rounding ||
        !read_wna16(w, dtype, tap_torch_int_of(&m->schema->arg[m->bits], stack[m->bits], 0)) ||
        !add_routing(m, stack, w, operand(w, "qweight")->shape[0]))
        return false;
    add_attr(w, "mul_topk_weights", operand(w, "topk_weights") != NULL);
    add_attr(w, "round_topk_weights", 0);
    return true;
}
