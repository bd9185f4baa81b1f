/* sample.hip - kernels for AMD whose descriptions the tests of kernels/gpu/image.h know.
 * SPDX-License-Identifier: Apache-2.0 */
#include <hip/hip_runtime.h>

extern "C" __global__ void plain(const float *a, float *c, int m, bool v2)
{
    __shared__ float s[256];
    s[threadIdx.x] = a[m];
    __syncthreads();
    c[threadIdx.x] = v2 ? s[m & 255] : 0;
}
namespace {
template <int N> __global__ void __launch_bounds__(128) hidden(float *y, char z) { y[threadIdx.x] = N * z; }
}
extern "C" __global__ void asks_grid(float *y) { y[threadIdx.x] = (float)gridDim.x; }
void use(void) { hidden<3><<<1, 1>>>(0, 0); }
