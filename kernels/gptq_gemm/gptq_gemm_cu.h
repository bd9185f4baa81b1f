/* gptq_gemm_cu.h - our GPU kernels of gptq_gemm: their names, what they take, and how they are
 * launched. SPDX-License-Identifier: Apache-2.0
 *
 *   td_gptq_gemm_4bit_f32          td_gptq_gemm_8bit_f32           weights as in the checkpoint
 * (td_gptq.h) td_gptq_gemm_4bit_f16          td_gptq_gemm_8bit_f16           the same, products of
 * a word summed in f16: they overflow (below) td_gptq_gemm_exllama_4bit_f32
 * td_gptq_gemm_exllama_8bit_f32   weights as vLLM's exllama path has them at run time
 *   td_gptq_gemm_exllama_4bit_f16  td_gptq_gemm_exllama_8bit_f16
 *
 * Parameters, in this order (also in kernels/adapters/adapter_td_gptq.c):
 *   a       [m, k] f16, rows lda apart           qweight [k * bits / 32, n] i32, 16-byte aligned
 *   qzeros  [groups, n * bits / 32] i32          scales  [groups, n] f16, 8-byte aligned
 *   g_idx   [k] i32 or NULL (checkpoint), or perm [k] i32 or NULL (exllama): the place in A of row
 * i of W, rows sorted by group c       [m, n] f16, rows ldc apart; written in full, need not be
 * zero m n k groups zero_offset : i32;  lda ldc : i64, elements Sizes obey the rules of td_gptq.h;
 * group_size is k / groups. An index in g_idx or perm is not checked.
 *
 * Exllama's layout: model/exllama_layout.h. Rows of W are sorted by group with act-order; qzeros
 * and scales are as in the checkpoint.
 *
 * Promises of the _f32 kernels: those of gptq_gemm.h. The _f16 kernels round each partial sum of a
 * word, of weights not scaled yet, to f16, as dot22_8_f of vLLM's q_gemm.cu does, so that an
 * element is Inf or NaN once |a * (q - zero)| sums past 65504. */
#ifndef TD_KERNELS_GPTQ_GEMM_GPTQ_GEMM_CU_H
#define TD_KERNELS_GPTQ_GEMM_GPTQ_GEMM_CU_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/abi/td_gptq.h"

#define TD_GPTQ_CU_COLUMNS 32 /* of C, that a block computes: 8 threads of 4 each */
#define TD_GPTQ_CU_ROWS 8     /* of C */
#define TD_GPTQ_CU_SLICES 32  /* a word of K each, in turn */

/* Grid and block of a launch, x y z; there is no dynamic shared memory. False: m or n is not positive, or
 * there are more rows than a grid holds (524,280). */
static inline bool td_gptq_cu_grid(int64_t m, int64_t n, uint32_t grid[3], uint32_t block[3])
{
    const int64_t rows = (m + TD_GPTQ_CU_ROWS - 1) / TD_GPTQ_CU_ROWS, columns = (n + TD_GPTQ_CU_COLUMNS - 1) / TD_GPTQ_CU_COLUMNS;

    if (m <= 0 || n <= 0 || rows > 65535 || columns > INT32_MAX)
        return false;
    grid[0] = (uint32_t)columns;
    grid[1] = (uint32_t)rows;
    block[0] = TD_GPTQ_CU_COLUMNS / 4;
    block[1] = TD_GPTQ_CU_SLICES;
    grid[2] = block[2] = 1;
    return true;
}

#define TD_GPTQ_CU_PARAMS 13

/* The parameters of a launch. param points into the struct, as kernelParams of cuLaunchKernel does, so
 * the struct must stay in place. */
struct td_gptq_cu_call {
    const void *a, *qweight, *qzeros, *scales, *order;
    void *c;
    int32_t m, n, k, groups, zero_offset;
    int64_t lda, ldc;
    void *param[TD_GPTQ_CU_PARAMS];
};

/* Fill *p from checked arguments; for an exllama kernel x->g_idx holds perm. */
static inline void td_gptq_cu_call_of(const struct td_gptq_gemm_args *x, struct td_gptq_cu_call *p)
{
    const struct td_gptq_cu_call call = {x->a,
                                         x->qweight,
                                         x->qzeros,
                                         x->scales,
                                         x->g_idx,
                                         x->c,
                                         x->m,
                                         x->n,
                                         x->k,
                                         x->k / x->group_size,
                                         x->zero_offset,
                                         x->lda,
                                         x->ldc,
                                         {&p->a, &p->qweight, &p->qzeros, &p->scales, &p->order,
                                          &p->c, &p->m, &p->n, &p->k, &p->groups, &p->zero_offset,
                                          &p->lda, &p->ldc}};
    *p = call;
}

#endif
