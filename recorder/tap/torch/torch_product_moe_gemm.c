/* torch_product_moe_gemm.c - the attributes of a product with the experts of a mixture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: vLLM 0.26, csrc/libtorch_stable/moe/marlin_moe_wna16/ops.cu (which sizes the tensors have,
 * when there are zero points and act-order) and marlin_template.h (what is rounded). */
#include <string.h>

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/torch/torch_product_kinds.h"

enum { TOP_K, BLOCK_SIZE, MULTIPLIES, FLOAT_ZEROS }; /* the row's numbers */

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

bool tap_torch_product_moe_gemm(const struct tap_torch_meaning *m, const td_torch_value *stack,
                                struct td_gpu_work *w)
{
    const char *dtype = tap_gpu_gemm_operand(w, TD_GPU_IN)->dtype;
    const int64_t top_k = number(m, stack, TOP_K), block = number(m, stack, BLOCK_SIZE);
    int64_t experts;

    if (strcmp(dtype, "BF16") && strcmp(dtype, "F16"))
        return false;
    if (!read_sizes(w, &experts) ||
        !read_type(w, tap_torch_int_of(&m->schema->arg[m->type], stack[m->type], 0)))
        return false;
    if (top_k < 1 || top_k > TD_GPU_MAX_SIZE / w->m || block < 1 || block > TD_GPU_MAX_SIZE ||
        number(m, stack, FLOAT_ZEROS))
        return false;
    if (w->group_size < w->k)         /* one group: the scale meets the sum, not the weights */
        w->rounding = !strcmp(dtype, "BF16") ? "weight-bf16" : "weight-f16";
    w->c_rows = w->m * top_k;
    add_attr(w, "experts", experts);
    add_attr(w, "top_k", top_k);
    add_attr(w, "block_size", block);
    add_attr(w, "mul_topk_weights", number(m, stack, MULTIPLIES));
    add_attr(w, "round_topk_weights", 1);
    return true;
}
