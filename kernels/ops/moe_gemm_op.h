/* moe_gemm_op.h - from a recorded op of kind "moe_gemm", a product with the experts of a mixture, to plain numbers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each of m tokens was routed to top_k experts. Slot s = token * top_k + i stands for its i-th choice;
 * row s of C is the row s / top_k of A by the weights of that expert, plus the expert's bias, times
 * topk_weights[s] if mul_topk_weights. Which expert a slot has, the recorded routing says.
 *
 * Attributes: m n k experts top_k block_size, mul_topk_weights (default 0), round_topk_weights
 * (default 0; 1: the kernel rounds topk_weights to the type of c before it multiplies), and those of
 * gptq_gemm (gptq_gemm_op.h): bits group_size zero_offset act_order. Tensors, e = experts:
 *   a       [m, k] F16 or BF16, rows lda apart         qweight [e, k*bits/32, n] I32 or U32
 *   qzeros  [e, k/group_size, n*bits/32] I32 or U32    scales  [e, k/group_size, n] F16, BF16 or F32
 *   g_idx   [e, k] I32, with act-order                 bias    [e, n] any float, optional
 *   sorted_token_ids       I32, of any shape: slots, sorted by expert, in blocks of block_size. An
 *                          expert's last block is filled up with numbers of m * top_k or more, which
 *                          stand for no slot
 *   expert_ids             I32, of any shape: the expert of each block; -1: one that another rank of
 *                          expert parallelism has, so that the block is not computed
 *   num_tokens_post_padded I32, one number: so many entries of sorted_token_ids count. What lies
 *                          behind them, and behind their blocks in expert_ids, was never written
 *   topk_weights           F32, m * top_k of them in any shape; optional without mul_topk_weights
 *   c       [m * top_k, n] of a's dtype, rows ldc apart
 * All but a and c are dense. A slot that no block holds is not computed: what its row of C holds is
 * what was there before, and it is not judged.
 *
 * Roundings (act_rounding): none, weight-f16, weight-bf16, +bias-after, as of gptq_gemm.
 *
 * Sources: vLLM 0.26, vllm/model_executor/layers/fused_moe/moe_align_block_size.py (the routing),
 * vllm/model_executor/layers/fused_moe/experts/marlin_moe.py (the two products of a layer: the second
 * has m = tokens * top_k and top_k 1), csrc/libtorch_stable/moe/marlin_moe_wna16/ops.cu and
 * marlin_template.h (topk_weights are rounded), moe/moe_wna16.cu (they are not, and may be absent). */
#ifndef TD_KERNELS_OPS_MOE_GEMM_OP_H
#define TD_KERNELS_OPS_MOE_GEMM_OP_H

#include "kernels/ops/gptq_gemm_op.h"

#define TD_MOE_MAX_EXPERTS 4096
#define TD_MOE_MAX_BLOCK 4096

struct td_moe_op {
    struct td_gptq_op first;            /* expert 0, without its bias; m: rows of A, c and ldc: C */
    int64_t experts, top_k, slots, block_size, blocks; /* slots: rows of C; blocks: that count */
    bool mul_topk_weights, round_topk_weights;
    const int32_t *sorted_token_ids, *expert_ids;
    const float *topk_weights;          /* NULL: none, and mul_topk_weights is false */
    const struct td_tensor *bias;       /* [experts, n]; NULL: none */
};

/* Check everything: sizes, memory, that ids are in range and no slot is computed twice. Fill *x,
 * which borrows from op. 0; TD_EINVAL; TD_EUNSUPPORTED: this version does not know the rounding;
 * TD_ENOMEM. */
int td_moe_op_of(const struct td_op_call *op, struct td_moe_op *x, struct td_error *err);
/* The weights of expert e, in the place of first's. */
struct td_gptq_op td_moe_expert(const struct td_moe_op *x, int64_t e);

/* Sort the slots by expert: those of expert e are slot[first[e]] .. slot[first[e + 1] - 1].
 *   first : [experts + 1]      slot : [slots], of which first[experts] are filled */
void td_moe_sort_slots(const struct td_moe_op *x, int64_t *first, int32_t *slot);

/* What a slot's sum is multiplied by: exact, and as the kernel rounds it. 1 without mul_topk_weights. */
double td_moe_factor(const struct td_moe_op *x, int64_t slot);
double td_moe_factor_rounded(const struct td_moe_op *x, int64_t slot);
/* The bias of expert e, output n; 0: there is none. */
double td_moe_bias(const struct td_moe_op *x, int64_t e, int64_t n);

#endif
