/* torch_product_gptq_gemm.c - the attributes of a product by a GPTQ weight.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/torch/torch_product_kinds.h"

static const struct td_gpu_operand *operand(const struct td_gpu_work *w, const char *role)
{
    int i;

    for (i = 0; i < w->n_op; i++)
        if (!strcmp(w->op[i].role, role))
            return &w->op[i];
    return NULL;
}

/* What vLLM's id of a type says; 0: not known here, or of the other sort. Types with zero points
 * are plain integers, the others have half of their range subtracted. */
static int bits_of(int64_t type, bool has_zeros)
{
    if (has_zeros)
        return type == TD_GPU_VLLM_U4 ? 4 : type == TD_GPU_VLLM_U8 ? 8 : 0;
    return type == TD_GPU_VLLM_U4B8 ? 4 : type == TD_GPU_VLLM_U8B128 ? 8 : 0;
}

/* Machete rounds W once to A's type. It gets zero points times their scales, rounded before. */
static const char *rounding_of(bool bf16, bool has_zeros)
{
    if (has_zeros)
        return bf16 ? "zero-bf16" : "zero-f16";
    return bf16 ? "weight-bf16" : "weight-f16";
}

bool tap_torch_product_gptq_gemm(const struct tap_torch_meaning *m, const td_torch_value *stack,
                                 struct td_gpu_work *w)
{
    const struct tap_torch_arg *arg = m->schema->arg;
    const char *dtype = tap_gpu_gemm_operand(w, TD_GPU_IN)->dtype;
    const struct td_gpu_operand *zeros = operand(w, "qzeros");
    int64_t group = tap_torch_int_of(&arg[m->group_size], stack[m->group_size], -1);

    w->rounding = rounding_of(!strcmp(dtype, "BF16"), zeros);
    w->bits = bits_of(tap_torch_int_of(&arg[m->type], stack[m->type], 0), zeros);
    group = group == -1 ? w->k : group;
    if ((strcmp(dtype, "BF16") && strcmp(dtype, "F16")) || (zeros && strcmp(zeros->dtype, dtype)) ||
        !w->bits || group < 1 || group > w->k || w->k % group)
        return false;
    w->group_size = (int)group;
    w->zero_offset = 1;
    return true;
}
