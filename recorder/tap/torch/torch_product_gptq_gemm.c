/* torch_product_gptq_gemm.c - the attributes of a product by a GPTQ weight.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/torch/torch_product_kinds.h"

/* What vLLM's id of a type says; 0: a type with zero points, or not known here. */
static int bits_of(int64_t type)
{
    return type == TD_GPU_VLLM_U4B8 ? 4 : type == TD_GPU_VLLM_U8B128 ? 8 : 0;
}

bool tap_torch_product_gptq_gemm(const struct tap_torch_meaning *m, const td_torch_value *stack,
                                 struct td_gpu_work *w)
{
    const struct tap_torch_arg *arg = m->schema->arg;
    const char *dtype = tap_gpu_gemm_operand(w, TD_GPU_IN)->dtype;
    int64_t group = tap_torch_int_of(&arg[m->group_size], stack[m->group_size], -1);

    w->rounding = !strcmp(dtype, "BF16") ? "weight-bf16" : "weight-f16";
    w->bits = bits_of(tap_torch_int_of(&arg[m->type], stack[m->type], 0));
    group = group == -1 ? w->k : group;
    if ((strcmp(dtype, "BF16") && strcmp(dtype, "F16")) || !w->bits || group < 1 || group > w->k ||
        w->k % group)
        return false;
    w->group_size = (int)group;
    w->zero_offset = 1;
    return true;
}
