/* geometry.h - from an op to the launches of a build's kernels that compute it: which kernel, which
 * rows, grid, block and parameters. SPDX-License-Identifier: Apache-2.0
 *
 * The rules are those of the code that launches these kernels in the server, by family of adapter:
 *   gptq_exllama, _8bit  vLLM's csrc/quantization/gptq/q_gemm.cu (gemm_half_q_half_cuda,
 *                        gemm_half_q_half_cuda_part; the version that has use_v2_format): rows in
 *                        eights by the kernel <true, 8>, the rest by <true, rest>; grid (n / 512,
 *                        rows / m_count, k / 128) rounded up, block 128, no dynamic shared memory
 *   reconstruct_exllama, _8bit  the same file, for more than 50 rows (24 with 8 bits): one launch
 *                        writes the dequantised W, [k, n] in float16; grid (n / 128, k / 128)
 * rounded up, block 128. Then cublasHgemm multiplies (blas.h) td_gptq
 * kernels/gptq_gemm/gptq_gemm_cu.h marlin_...           geometry_marlin.h Kernels of every other
 * family are refused by name. */
#ifndef TD_KERNELS_GPU_GEOMETRY_H
#define TD_KERNELS_GPU_GEOMETRY_H

#include "kernels/adapters/adapter.h"
#include "kernels/ops/gptq_gemm_op.h"

#define TD_GPU_PLAN_MAX 16

/* A kernel that a build has, and the adapter that knows it. */
struct td_gpu_offer { const char *symbol; const struct td_gpu_adapter *adapter; };

struct td_gpu_launch {
    int offer;                     /* index */
    int64_t row0, rows;            /* of A and C */
    uint32_t grid[3], block[3], shared_bytes;
};

struct td_gpu_plan {
    struct td_gpu_launch launch[TD_GPU_PLAN_MAX]; int n;
    bool dequant_w;                /* the launch writes W; td_gpu_blas_product() then computes C = A W */
};

/* Addresses of the tensors on the device; 0: there is none. lda, ldc: elements from row to row there. */
struct td_gpu_places {
    uint64_t a, qweight, qzeros, scales, order, c; /* order: g_idx or perm */
    int64_t lda, ldc;
    uint64_t bias, c_tmp, locks;   /* of Marlin alone */
    uint64_t dequant_w;            /* the dequantised W, where a launch writes it */
};

/* The kernel that vLLM launches instead of the adapter's for an op of so many rows
 * ("reconstruct_exllama_4bit_kernel"). NULL: none. */
const char *td_gpu_dequant_of(const struct td_gpu_adapter *adapter, const struct td_gptq_op *op);

/* Plan the launches that make up op. offers : [n], kernels of one name in the source.
 * NULL: *plan is filled. Else why not, in why[size] or static. */
const char *td_gpu_plan_gptq(const struct td_gptq_op *op, const struct td_gpu_offer *offers, int n,
                             struct td_gpu_plan *plan, char *why, size_t size);

/* Fill *v with the parameters of one launch. They are read back by the adapter's own formulas, which must
 * give what was asked for. TD_EUNSUPPORTED: they do not, or the adapter has a parameter that this
 * function does not know. */
int td_gpu_values_gptq(const struct td_gptq_op *op, const struct td_gpu_adapter *adapter,
                       const struct td_gpu_launch *l, const struct td_gpu_places *at,
                       struct td_gpu_values *v, struct td_error *err);

#endif
