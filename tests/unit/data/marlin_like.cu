// marlin_like.cu - kernels with the names and the parameters of vLLM 0.26's Marlin, and no more: what a build looks like to the provider.
// SPDX-License-Identifier: Apache-2.0
//
// The fake driver runs functions of lib_fake_marlin.c in their place. Names and parameters: see kernels/adapters/adapter.c. Made with nvcc 13.0:
//   nvcc -std=c++17 -fatbin -Xfatbin -compress-all -gencode arch=compute_90,code=sm_90 marlin_like.cu -o marlin_like.fatbin
//   nvcc -std=c++17 -fatbin -Xfatbin -compress-all -gencode arch=compute_90,code=sm_90 -DFEW marlin_like.cu -o marlin_few.fatbin    (one instance)
// Their symbols, to compare with tests/helpers/fake_marlin.h:  cuobjdump -elf marlin_like.fatbin | grep -o '_ZN6marlin[^ ]*' | sort -u
#include <cstdint>

#define PARAMS                                                                                                                                         \
    const int4 *__restrict__ A, const int4 *__restrict__ B, int4 *__restrict__ C, int4 *__restrict__ C_tmp, const int4 *__restrict__ bias,              \
        const float *__restrict__ a_s, const int4 *__restrict__ s, const float *__restrict__ g_s, const int4 *__restrict__ zp,                          \
        const int *__restrict__ g_idx, int groups, int m, int n, int k, int lda, int *locks, bool has_bias, bool use_atomic_add, bool use_fp32_reduce, \
        int max_shared_mem

namespace marlin {

template <const int64_t a, const int64_t b, const int64_t c, const int64_t scales, const int threads, const int m_blocks, const int n_blocks, const int k_blocks,
          const bool m_block_size_8, const int stages, const int group_blocks, const bool is_zp_float>
__global__ void Marlin(PARAMS)
{
    if (m < 0)
        C[0] = A[threads + m_blocks + n_blocks + k_blocks + group_blocks];
}

constexpr int64_t F16 = 1125899906910725, BF16 = 1125899906909960, U4 = 1125899906843648, U4B8 = 1125899907892224, U8B128 = 1125899923621888;
constexpr int n1 = -1;

#define X(a, b, threads, m, n, k, eight, groups) template __global__ void Marlin<a, b, a, a, threads, m, n, k, eight, 4, groups, false>(PARAMS);
#include "../../helpers/fake_marlin.h"
#ifdef FEW
X(F16, U4B8, 128, 1, 4, 8, 0, 4)
#else
FAKE_MARLIN_INSTANCES(X)
#endif

} // namespace marlin
