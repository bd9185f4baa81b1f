/* simt_kernels.cu - small kernels that test_simt.c runs in the emulator: right ones, and ones that are wrong on purpose.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/simt/gpu.h"

#define THREADS 96

__device__ static unsigned linear_thread(void)
{
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

__device__ static unsigned linear_block(void)
{
    return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}

/* out [blocks * threads]: where each thread is, packed; and the order in which threads came, by *clock */
extern "C" __global__ void t_place(uint32_t *out, uint32_t *order, uint32_t *clock)
{
    const unsigned per_block = blockDim.x * blockDim.y * blockDim.z, at = linear_block() * per_block + linear_thread();

    out[at] = threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16 | blockIdx.x << 20 | blockIdx.y << 24 | blockIdx.z << 28;
    order[at] = atomicAdd(clock, 1u);
}

/* out[i] = what a neighbour wrote; without the barrier it may not have written yet */
extern "C" __global__ void t_neighbour(float *out, int with_barrier)
{
    __shared__ float tile[THREADS];

    tile[threadIdx.x] = (float)threadIdx.x;
    if (with_barrier)
        __syncthreads();
    out[threadIdx.x] = tile[(threadIdx.x + 1) % blockDim.x];
}

extern "C" __global__ void t_uninitialised(uint32_t *out)
{
    __shared__ uint32_t tile[THREADS];

    out[linear_block() * blockDim.x + threadIdx.x] = tile[threadIdx.x];
    tile[threadIdx.x] = 1;
}

/* how 0: half of the threads wait; 1: one leaves; 2: two barriers, in two lines */
extern "C" __global__ void t_diverge(int how)
{
    if (how == 0 && threadIdx.x < 40)
        __syncthreads();
    if (how == 1) {
        if (threadIdx.x == 5)
            return;
        __syncthreads();
    }
    if (how == 2) {
        if (threadIdx.x & 1)
            __syncthreads();
        else
            __syncthreads();
    }
}

/* out [threads, 6]: sum by xor, sum of those behind by down, prefix sum by up, rank (shfl 3 of 8), ballot low, any + 2 * all */
extern "C" __global__ void t_warp(uint32_t *out)
{
    const unsigned i = threadIdx.x, lane = i % (unsigned)warpSize;
    uint32_t *row = out + i * 6, sum = i, up = i, down = i;

    for (int step = warpSize / 2; step; step /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    for (unsigned step = 1; step < (unsigned)warpSize; step *= 2) {
        const uint32_t from = __shfl_up_sync(0xffffffff, up, step);

        if (lane >= step)
            up += from;
    }
    for (int step = warpSize / 2; step; step /= 2)
        down += __shfl_down_sync(0xffffffff, down, (unsigned)step);
    row[0] = sum;
    row[1] = down;
    row[2] = up;
    row[3] = __shfl_sync(0xffffffff, i, 3, 8);
    row[4] = (uint32_t)__ballot_sync(0xffffffff, i % 3 == 0);
    row[5] = (uint32_t)(__any_sync(0xffffffff, lane == 7) + 2 * __all_sync(0xffffffff, lane < 64));
}

/* how 0: two halves of a warp on two ways, each with its mask: right; 1: half of it never comes; 2: own lane not in the mask; 3: reads a lane outside
 * the mask; 4: half at a barrier, half in a shuffle */
extern "C" __global__ void t_warp_parts(uint32_t *out, int how)
{
    const unsigned i = threadIdx.x;

    if (how == 0)
        out[i] = i < 16 ? __shfl_xor_sync(0xffff, i, 1) : __shfl_xor_sync(0xffff0000, i, 2);
    if (how == 1 && i < 16)
        out[i] = __shfl_xor_sync(0xffffffff, i, 1);
    if (how == 2)
        out[i] = __shfl_sync(0xff, i, 0);
    if (how == 3 && i < 16)
        out[i] = __shfl_xor_sync(0xffff, i, 16);
    if (how == 4) {
        if (i < 16)
            __syncthreads();
        else
            out[i] = __shfl_sync(0xffffffff, i, 0);
    }
}

extern "C" __global__ void t_atomics(float *f, __half *h, __half2 *h2, int *n, const float *values)
{
    const float v = values[blockIdx.x * blockDim.x + threadIdx.x];

    atomicAdd(f, v);
    atomicAdd(h, __float2half(v));
    atomicAdd(h2, __floats2half2_rn(v, -v));
    atomicAdd(n, 1);
}

/* out[i] = i, through dynamic shared memory turned round; `beyond` bytes past its end are written too */
extern "C" __global__ void t_dynamic(uint32_t *out, int beyond)
{
    TD_DYNAMIC_SHARED(uint32_t, words);
    const unsigned i = threadIdx.x;

    words[blockDim.x - 1 - i] = i;
    __syncthreads();
    out[blockDim.x - 1 - i] = words[i];
    if (beyond)
        ((unsigned char *)words)[blockDim.x * 4 + (unsigned)beyond - 1] = 1;
}

/* out [n, 8]: add sub mul fma max min of a, b, c; half of a float; the pair's fma, high half */
extern "C" __global__ void t_half(const __half *a, const __half *b, const __half *c, const float *f, __half *out, int n)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

    if (i >= n)
        return;
    out[i * 8] = __hadd_rn(a[i], b[i]);
    out[i * 8 + 1] = __hsub_rn(a[i], b[i]);
    out[i * 8 + 2] = __hmul_rn(a[i], b[i]);
    out[i * 8 + 3] = __hfma(a[i], b[i], c[i]);
    out[i * 8 + 4] = __hmax(a[i], b[i]);
    out[i * 8 + 5] = __hmin(a[i], b[i]);
    out[i * 8 + 6] = __float2half_rn(f[i]);
    out[i * 8 + 7] = __high2half(__hfma2(__halves2half2(b[i], a[i]), __halves2half2(c[i], b[i]), __halves2half2(a[i], c[i])));
}

/* Parameters of every size; their sum as bytes and a pair of halves */
extern "C" __global__ void t_params(uint8_t a, uint64_t b, uint16_t c, __half2 d, bool e, uint4 f, double *out)
{
    out[0] = a + (double)b + c + __low2float(d) + __high2float(d) + e + f.x + f.y + f.z + f.w;
    out[1] = __ldg(&out[0]) + min(3, 5) + max(2.5f, 1.0f);
}

#ifdef TD_SIMT
extern "C" void t_launch_by_macro(float *out, int threads, int with_barrier);
extern "C" __attribute__((visibility("default"))) void t_launch_by_macro(float *out, int threads, int with_barrier)
{
    TD_LAUNCH(t_neighbour, 1, dim3((unsigned)threads), 0, 0, out, with_barrier);
}
#endif

TD_GPU_KERNELS(simt_test)
TD_GPU_KERNEL(t_place)
TD_GPU_KERNEL(t_neighbour)
TD_GPU_KERNEL(t_uninitialised)
TD_GPU_KERNEL(t_diverge)
TD_GPU_KERNEL(t_warp)
TD_GPU_KERNEL(t_warp_parts)
TD_GPU_KERNEL(t_atomics)
TD_GPU_KERNEL(t_dynamic)
TD_GPU_KERNEL(t_half)
TD_GPU_KERNEL(t_params)
TD_GPU_KERNELS_END
