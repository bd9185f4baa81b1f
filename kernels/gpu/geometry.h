/* geometry.h - from an op to the launches of a build's kernels that compute it: which kernel, which rows, grid, block, and every parameter.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The rules are those of the code that launches these kernels, by family of adapter.h:
 *   gptq_exllama, _8bit  vLLM csrc/quantization/gptq/q_gemm.cu (gemm_half_q_half_cuda, gemm_half_q_half_cuda_part; read in the version that has
 *                        use_v2_format): rows in eights by the kernel <true, 8>, what is left over by <true, rest>; grid (n / 512, rows / m_count,
 *                        k / 128) rounded up, block 128, no dynamic shared memory.
 *   reconstruct_exllama, _8bit  the same file, for more than 50 rows (24 with 8 bits): one launch makes W whole, [k, n] in float16, grid (n / 128,
 *                        k / 128) rounded up, block 128; then cublasHgemm multiplies (blas.h).
 *   td_gptq              kernels/gptq_gemm/gptq_gemm_cu.h
 *   marlin_...           geometry_marlin.h
 * Every other row is refused by name. */
#ifndef TD_KERNELS_GPU_GEOMETRY_H
#define TD_KERNELS_GPU_GEOMETRY_H

#include "kernels/adapters/adapter.h"
#include "kernels/ops/gptq_gemm_op.h"

#define TD_GPU_PLAN_MAX 16

struct td_gpu_offer { const char *symbol; const struct td_gpu_adapter *adapter; }; /* a kernel that a build has */

struct td_gpu_launch {
    int offer;                     /* index */
    int64_t row0, rows;            /* of A and C */
    uint32_t grid[3], block[3], shared_bytes;
};

struct td_gpu_plan {
    struct td_gpu_launch launch[TD_GPU_PLAN_MAX]; int n;
    bool dequant_w;                  /* the launch makes W whole; C = A W is then asked of td_gpu_blas_product() */
};

/* Where the tensors lie on the device; 0: there is none. lda, ldc: elements from row to row there. */
struct td_gpu_places {
    uint64_t a, qweight, qzeros, scales, order, c; /* order: what the row calls g_idx or perm */
    int64_t lda, ldc;
    uint64_t bias, c_tmp, locks;   /* of Marlin alone */
    uint64_t dequant_w;            /* the dequantised W, where a launch writes it */
};

/* The kernel that vLLM launches in the place of this one for so many rows ("reconstruct_exllama_4bit_kernel"); NULL: none. */
const char *td_gpu_dequant_of(const struct td_gpu_adapter *adapter, const struct td_gptq_op *op);

/* Launches of offers (of one name in the source) that make up op. NULL: *plan is filled; else why not, in why or static. */
const char *td_gpu_plan_gptq(const struct td_gptq_op *op, const struct td_gpu_offer *offers, int n, struct td_gpu_plan *plan, char *why, size_t size);

/* The parameters of one launch. Read back by the row's own formulas, they must say what was asked for: TD_EUNSUPPORTED else, or where the row
 * has a parameter that nobody here knows. */
int td_gpu_values_gptq(const struct td_gptq_op *op, const struct td_gpu_adapter *adapter, const struct td_gpu_launch *l, const struct td_gpu_places *at,
                       struct td_gpu_values *v, struct td_error *err);

#endif
