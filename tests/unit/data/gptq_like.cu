// gptq_like.cu - kernels with the names and the parameters of vLLM's gptq kernels and of ours, and no more: what a build looks like to the provider.
// SPDX-License-Identifier: Apache-2.0
//
// The fake drivers run functions of lib_fake_gptq.c and lib_fake_simt.c in their place. Names and parameters: see kernels/adapters/adapter.c. Made with nvcc 13.0:
//   nvcc -fatbin -Xfatbin -compress-all -gencode arch=compute_90,code=sm_90 gptq_like.cu -o gptq_like.fatbin
//   nvcc -fatbin -Xfatbin -compress-all -gencode arch=compute_90,code=sm_90 -DOTHER gptq_like.cu -o gptq_other.fatbin        (one parameter more)
//   nvcc -fatbin -Xfatbin -compress-all -gencode arch=compute_80,code=compute_80 gptq_like.cu -o gptq_ptx.fatbin   (PTX alone)
//   nvcc -cubin -arch=sm_80 -DFEW gptq_like.cu -o gptq_sm80.cubin                                     (another GPU's)
// and with hipcc 5.2.3, in the folder of the Makefile:
//   hipcc -std=c++17 -I. -O3 --genco --offload-arch=gfx90a -x hip tests/unit/data/gptq_like.cu -o tests/unit/data/gptq_like.hsaco
#include <cstdint>
#ifdef __HIPCC__
#include "kernels/simt/hip.h"
#else
#include <cuda_fp16.h>
#endif

#ifdef OTHER
#define MORE , const float alpha
#else
#define MORE
#endif
#define KERNEL(bits)                                                                                                                               \
    template <bool first_block, int m_count>                                                                                                       \
    __global__ void gemm_half_q_half_gptq_##bits##bit_kernel(const half *a, const uint32_t *qweight, const uint32_t *qzeros, const half *scales,    \
                                                             half *c, const int m, const int n, const int k, const int groups, const bool v2,      \
                                                             const int *perm MORE)                                                                 \
    {                                                                                                                                              \
        __shared__ half rows[m_count][128];                                                                                                        \
        rows[0][threadIdx.x] = a[threadIdx.x];                                                                                                     \
        if (m < 0)                                                                                                                                 \
            c[0] = rows[m_count - 1][n];                                                                                                           \
    }
#define INSTANCE(bits, m_count)                                                                                                                    \
    template __global__ void gemm_half_q_half_gptq_##bits##bit_kernel<true, m_count>(const half *, const uint32_t *, const uint32_t *, const half *, \
                                                                                     half *, const int, const int, const int, const int, const bool, const int *MORE);

namespace vllm {
namespace gptq {
KERNEL(4)
KERNEL(8)
#undef MORE
#ifdef OTHER
#define MORE , const float
#else
#define MORE
#endif
#define RECONSTRUCT(bits)                                                                                                                          \
    __global__ void reconstruct_exllama_##bits##bit_kernel(const uint32_t *qweight, const int *perm, const uint32_t *qzeros, const half *scales,   \
                                                           const int k, const int n, const int groups, const bool v2, half *b)                     \
    {                                                                                                                                              \
        if (k < 0)                                                                                                                                 \
            b[0] = scales[n];                                                                                                                      \
    }
INSTANCE(4, 1)
#ifndef FEW
INSTANCE(4, 4)
INSTANCE(4, 8)
INSTANCE(8, 1)
INSTANCE(8, 4)
INSTANCE(8, 8)
#endif
#if !defined(OTHER) && !defined(FEW)
RECONSTRUCT(4)
RECONSTRUCT(8)
#endif
} // namespace gptq
} // namespace vllm

// kernels/gptq_gemm/gptq_gemm_cu.h
#if !defined(OTHER) && !defined(FEW)
#define OURS(name)                                                                                                                                 \
    extern "C" __global__ void name(const half *a, const uint32_t *, const uint32_t *, const half *, const int32_t *, half *c, int32_t m, int32_t,  \
                                    int32_t, int32_t, int32_t, int64_t, int64_t)                                                                    \
    {                                                                                                                                              \
        if (m < 0)                                                                                                                                 \
            c[0] = a[0];                                                                                                                           \
    }
OURS(td_gptq_gemm_4bit_f32)
OURS(td_gptq_gemm_8bit_f32)
OURS(td_gptq_gemm_exllama_4bit_f32)
OURS(td_gptq_gemm_exllama_8bit_f32)
#endif
