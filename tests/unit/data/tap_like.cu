// tap_like.cu - what a vLLM for AMD holds, as the tap sees it: the names and parameters of its gptq kernels, of one of torch's, of one of a BLAS library.
// SPDX-License-Identifier: Apache-2.0
//
// The fake runtime runs the functions of tests/helpers/fake_gptq.h in their place; their names are those that are checked there. Made with hipcc 5.2.3, in the
// folder of the Makefile:
//   hipcc -std=c++17 -I. -O3 --genco --offload-arch=gfx908 --offload-arch=gfx90a -x hip tests/unit/data/tap_like.cu -o tests/unit/data/tap_like.hsaco
#include <cstdint>
#include "kernels/simt/hip.h"

namespace vllm { namespace gptq {

template <bool first_block, int m_count>
__global__ void gemm_half_q_half_gptq_4bit_kernel(const half *a, const uint32_t *qweight, const uint32_t *qzeros, const half *scales, half *c, const int m, const int n,
                                                  const int k, const int groups,
                                                  const bool v2, const int *perm)
{
    if (m < 0)
        c[n + k + groups] = a[qweight[0] + qzeros[0] + perm[0]];
}

#define ROWS(m)                                                                                                                                    \
    template __global__ void gemm_half_q_half_gptq_4bit_kernel<true, m>(const half *, const uint32_t *, const uint32_t *, const half *, half *,     \
                                                                        const int, const int, const int, const int, const bool, const int *);
ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8)

__global__ void reconstruct_exllama_4bit_kernel(const uint32_t *qweight, const int *perm, const uint32_t *qzeros, const half *scales, const int k, const int n,
                                                const int groups, const bool v2, half *b)
{
    if (k < 0)
        b[n + groups] = scales[qweight[0] + qzeros[0] + perm[0]];
}

}} // namespace vllm::gptq

namespace at { namespace native {

template <int n>
__global__ void vectorized_elementwise_kernel(int count, float *p)
{
    if (count < 0)
        p[0] = n;
}
template __global__ void vectorized_elementwise_kernel<4>(int, float *);

}} // namespace at::native

__global__ void fake_hgemm_fp16(const half *a, const half *w, half *c, int m, int n, int k)
{
    if (m < 0)
        c[n + k] = a[w - a];
}
