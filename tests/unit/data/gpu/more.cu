/* more.cu - kernels with what only later architectures have, for the tests of kernels/gpucode/image.h.
 * SPDX-License-Identifier: Apache-2.0 */
struct large { char byte[20000]; };
extern "C" __global__ void large_param(int n, const __grid_constant__ large b, float *o) { *o = b.byte[n]; }
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256) clustered(float *o) { *o = 1; }
extern "C" __global__ void __block_size__((64, 2, 1)) sized(float *o) { *o = 1; }
static __global__ void local_kernel(float *o) { *o = 2; }
void use_more(void) { local_kernel<<<1, 1>>>(0); }
