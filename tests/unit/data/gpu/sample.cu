/* sample.cu - kernels whose descriptions the tests of kernels/gpucode/image.h know. What they compute does not matter.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cuda_fp16.h>

struct alignas(128) descriptor { unsigned long long word[16]; };
__device__ int counter;
__constant__ float table[4];

namespace {
template <int N> __global__ void hidden(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x] * N; }
}

#ifndef SMALL
namespace vllm { namespace gptq {
/* the parameters of vLLM's kernel of that name, with and without use_v2_format, and of none that is known */
template <bool FIRST, int ROWS>
__global__ void gemm_half_q_half_gptq_4bit_kernel(const half *a, const unsigned *w, const unsigned *z, const half *s, half *c, int m, int n, int k, int groups,
                                                  bool v2, const int *perm)
{
    c[threadIdx.x] = v2 ? a[m + n] : s[k + ROWS];
}
template <bool FIRST, int ROWS>
__global__ void gemm_half_q_half_gptq_8bit_kernel(const half *a, const unsigned *w, const unsigned *z, const half *s, half *c, int m, int n, int k, int groups,
                                                  const int *perm)
{
    c[threadIdx.x] = a[m + n + ROWS];
}
template __global__ void gemm_half_q_half_gptq_4bit_kernel<true, 1>(const half *, const unsigned *, const unsigned *, const half *, half *, int, int, int, int, bool, const int *);
template __global__ void gemm_half_q_half_gptq_4bit_kernel<true, 4>(const half *, const unsigned *, const unsigned *, const half *, half *, int, int, int, int, bool, const int *);
template __global__ void gemm_half_q_half_gptq_8bit_kernel<true, 1>(const half *, const unsigned *, const unsigned *, const half *, half *, int, int, int, int, const int *);
} }
#endif

extern "C" __global__ void plain(const half *a, const unsigned *b, half *c, int m, int n, bool v2, const int *perm)
{
    c[threadIdx.x] = v2 ? a[m] : __float2half(table[b[n] & 3]);
    if (perm)
        atomicAdd(&counter, perm[0]);
}
__global__ void __launch_bounds__(128) one_shared(float *x, int n)
{
    __shared__ float s[256];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[n];
}
extern "C" __global__ void with_struct(int n, const __grid_constant__ descriptor d, float *out) { out[n] = (float)d.word[n & 15]; }
extern "C" __global__ void no_params(void) {}
void use(void) { hidden<3><<<1, 1>>>(0, 0); }
