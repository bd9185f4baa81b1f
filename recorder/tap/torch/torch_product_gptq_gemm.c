/* torch_product_gptq_gemm.c - the attributes of a product by a GPTQ weight.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "recorder/tap/gpu/gpu_gemm.h"
#include "recorder/tap/torch/torch_product_kinds.h"

/* vLLM 0.26, csrc/libtorch_stable/quantization/gptq/q_gemm.cu: MAX_Q_GEMM_ROWS, and of 8 bits */
#define MOST_ROWS 50
#define MOST_ROWS_8BIT 24

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
static int bits_of_type(int64_t type, bool has_zeros)
{
    if (has_zeros)
        return type == TD_GPU_VLLM_U4 ? 4 : type == TD_GPU_VLLM_U8 ? 8 : 0;
    return type == TD_GPU_VLLM_U4B8 ? 4 : type == TD_GPU_VLLM_U8B128 ? 8 : 0;
}

/* 0: none that is known here. */
static int bits_of(const struct tap_torch_meaning *m, const td_torch_value *stack, bool has_zeros)
{
    const struct tap_torch_arg *arg = m->schema->arg;
    int64_t bits;

    if (m->type >= 0)
        return bits_of_type(tap_torch_int_of(&arg[m->type], stack[m->type], 0), has_zeros);
    bits = m->bits >= 0 ? tap_torch_int_of(&arg[m->bits], stack[m->bits], 0) : m->row->w_bits;
    return bits == 4 || bits == 8 ? (int)bits : 0;
}

/* Inputs that share a scale; 0: that cannot be. */
static int64_t group_size_of(const struct tap_torch_meaning *m, const td_torch_value *stack,
                             const struct td_gpu_work *w)
{
    const struct td_gpu_operand *scales = operand(w, "scales");
    int64_t groups, size;

    if (m->group_size >= 0) {
        size = tap_torch_int_of(&m->schema->arg[m->group_size], stack[m->group_size], -1);
        size = size == -1 ? w->k : size;
    } else {
        groups = scales && scales->ndim == 2 ? scales->shape[0] : 0;
        size = groups > 0 && w->k % groups == 0 ? w->k / groups : 0;
    }
    return size >= 1 && size <= w->k && w->k % size == 0 ? size : 0;
}

static const char *rounding_of(enum tap_torch_rounds rounds, const struct td_gpu_work *w, bool bf16,
                               bool scaled_zeros)
{
    if (rounds == TAP_TORCH_ROUNDS_W_IN_GROUPS && w->group_size == w->k)
        return NULL;
    if (rounds == TAP_TORCH_ROUNDS_W_OF_MANY_ROWS &&
        w->m <= (w->bits == 8 ? MOST_ROWS_8BIT : MOST_ROWS))
        return NULL;
    if (scaled_zeros)
        return bf16 ? "zero-bf16" : "zero-f16";
    return bf16 ? "weight-bf16" : "weight-f16";
}

bool tap_torch_product_gptq_gemm(const struct tap_torch_meaning *m, const td_torch_value *stack,
                                 struct td_gpu_work *w)
{
    const char *dtype = tap_gpu_gemm_operand(w, TD_GPU_IN)->dtype;
    const struct td_gpu_operand *zeros = operand(w, "qzeros");
    const bool bf16 = !strcmp(dtype, "BF16");

    w->bits = bits_of(m, stack, zeros);
    w->group_size = (int)group_size_of(m, stack, w);
    if ((!bf16 && strcmp(dtype, "F16")) || !w->bits || !w->group_size ||
        (zeros && strcmp(zeros->dtype, m->row->scaled_zeros ? dtype : "I32")))
        return false;
    w->zero_offset =
        m->v2 < 0 || !tap_torch_number_of(&m->schema->arg[m->v2], stack[m->v2], 0);
    w->act_order = operand(w, "perm") != NULL;
    w->rounding = rounding_of(m->row->rounds, w, bf16, zeros && m->row->scaled_zeros);
    if (m->row->bias_after && operand(w, "bias"))
        w->rounding = td_gpu_rounding_bias_after(w->rounding);
    return true;
}

/* Source: vLLM 0.26, csrc/libtorch_stable/quantization/gptq_allspark/allspark_qgemm_w8a16.cu: one group;
 * outputs are padded to a multiple of 32. */
bool tap_torch_product_allspark(const struct tap_torch_meaning *m, const td_torch_value *stack,
                                struct td_gpu_work *w)
{
    const struct td_gpu_operand *qweight = operand(w, "qweight"), *scales = operand(w, "scales"),
                                *a = operand(w, "a");
    int64_t padded;

    w->n = tap_torch_number_of(&m->schema->arg[m->number[0]], stack[m->number[0]], 0);
    if (w->n < 1 || w->n > TD_GPU_MAX_SIZE || !tap_torch_product_gptq_gemm(m, stack, w))
        return false;
    padded = (w->n + 31) / 32 * 32;
    return w->group_size == w->k && qweight && scales && !strcmp(qweight->dtype, "U8") &&
           qweight->ndim == 2 && qweight->shape[0] == padded && qweight->shape[1] == w->k &&
           !strcmp(scales->dtype, a->dtype) && scales->ndim == 2 && scales->shape[0] == 1 &&
           scales->shape[1] == padded;
}
