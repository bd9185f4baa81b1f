// cuda_overrun.cu - a kernel with the name and parameters of ours that writes past the end of C: cuda_provider.sh checks that
// replay --guard catches it on a real GPU.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cuda_fp16.h>

#define OVERRUN(name)                                                                                                                              \
    extern "C" __global__ void name(const half *, const uint32_t *, const uint32_t *, const half *, const int32_t *, half *c, int32_t m, int32_t n, \
                                    int32_t, int32_t, int32_t, int64_t, int64_t ldc)                                                                \
    {                                                                                                                                              \
        if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0 && threadIdx.y == 0)                                                            \
            for (int i = 0; i < 4096; i++)                                                                                                         \
                c[(m - 1) * ldc + n + i] = __float2half(1.0f);                                                                                     \
    }
OVERRUN(td_gptq_gemm_4bit_f32)
OVERRUN(td_gptq_gemm_8bit_f32)
