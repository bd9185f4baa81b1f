/* simt.h - what stands for cuda_runtime.h and cuda_fp16.h when a .cu file is compiled for the CPU.
 * SPDX-License-Identifier: Apache-2.0
 *
 * C++17 without the C++ library. Only names in use are here, so that another one does not compile rather
 * than mean something else. What CUDA spells in ways that no C++ compiler takes has a macro that works
 * everywhere (gpu.h): TD_LAUNCH for <<<>>>, TD_DYNAMIC_SHARED for extern __shared__. Where the emulator is
 * stricter than a GPU: block.c. */
#ifndef TD_KERNELS_SIMT_SIMT_H
#define TD_KERNELS_SIMT_SIMT_H

#include <math.h>
#include <utility>

#include "kernels/simt/simt_half.h"
#include "kernels/simt/simt_thread.h"
#include "kernels/simt/simt_types.h"

/* ---- the language ---------------------------------------------------------------------------- */

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("td_simt_shared"))) /* not inside a template: gcc puts those elsewhere */

#define threadIdx (td_simt_now.thread)
#define blockIdx (td_simt_now.block)
#define blockDim (td_simt_now.block_dim)
#define gridDim (td_simt_now.grid_dim)
#define warpSize (td_simt_now.warp_size)

/* ---- meeting others -------------------------------------------------------------------------- */

#define TD_SIMT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE() /* of the caller */

static inline void __syncthreads(TD_SIMT_SITE) { td_simt_barrier({"__syncthreads", file, line}); }
static inline void __syncwarp(uint64_t mask = 0xffffffffu, TD_SIMT_SITE)
{
    td_simt_meet_warp({"__syncwarp", file, line}, mask, 0, -1);
}
static inline uint64_t __ballot_sync(uint64_t mask, int predicate, TD_SIMT_SITE)
{
    return td_simt_meet_warp({"__ballot_sync", file, line}, mask, predicate != 0, -1);
}
static inline int __any_sync(uint64_t mask, int predicate, TD_SIMT_SITE)
{
    return td_simt_meet_warp({"__any_sync", file, line}, mask, predicate != 0, -1) != 0;
}
static inline int __all_sync(uint64_t mask, int predicate, TD_SIMT_SITE)
{
    return td_simt_meet_warp({"__all_sync", file, line}, mask, predicate == 0, -1) == 0;
}

namespace td_simt {

/* The value that warp lane `from` of this thread's part of the warp (width lanes) brought; the thread's own
 * value if from lies outside that part. */
template <class T> static inline T shuffle(const td_simt_site &site, uint64_t mask, T value, int from, int width)
{
    static_assert(sizeof(T) <= 8, "shuffles move up to 8 bytes");
    const int first = td_simt_now.lane / width * width;
    uint64_t bits = 0;

    memcpy(&bits, &value, sizeof value);
    bits = td_simt_meet_warp(site, mask, bits, from < 0 || from >= width ? td_simt_now.lane : first + from);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int lane_in(int width) { return td_simt_now.lane % width; }

} // namespace td_simt

template <class T> static inline T __shfl_sync(uint64_t mask, T value, int lane, int width = warpSize, TD_SIMT_SITE)
{
    return td_simt::shuffle({"__shfl_sync", file, line}, mask, value, (int)((unsigned)lane % (unsigned)width), width);
}
template <class T> static inline T __shfl_up_sync(uint64_t mask, T value, unsigned delta, int width = warpSize, TD_SIMT_SITE)
{
    return td_simt::shuffle({"__shfl_up_sync", file, line}, mask, value, td_simt::lane_in(width) - (int)delta, width);
}
template <class T> static inline T __shfl_down_sync(uint64_t mask, T value, unsigned delta, int width = warpSize, TD_SIMT_SITE)
{
    return td_simt::shuffle({"__shfl_down_sync", file, line}, mask, value, td_simt::lane_in(width) + (int)delta, width);
}
template <class T> static inline T __shfl_xor_sync(uint64_t mask, T value, int with, int width = warpSize, TD_SIMT_SITE)
{
    return td_simt::shuffle({"__shfl_xor_sync", file, line}, mask, value, td_simt::lane_in(width) ^ with, width);
}

/* ---- memory: threads are fibres, so nothing comes between ------------------------------------ */

template <class T> static inline T td_simt_add(T *at, T value)
{
    const T old = *at;

    *at = old + value;
    return old;
}
static inline int atomicAdd(int *at, int value) { return td_simt_add(at, value); }
static inline unsigned atomicAdd(unsigned *at, unsigned value) { return td_simt_add(at, value); }
static inline unsigned long long atomicAdd(unsigned long long *at, unsigned long long value) { return td_simt_add(at, value); }
static inline float atomicAdd(float *at, float value) { return td_simt_add(at, value); }
static inline __half atomicAdd(__half *at, __half value)
{
    const __half old = *at;

    *at = __hadd(old, value);
    return old;
}
static inline __half2 atomicAdd(__half2 *at, __half2 value)
{
    const __half2 old = *at;

    *at = __hadd2(old, value);
    return old;
}
static inline void __threadfence(void) {}
template <class T> static inline T __ldg(const T *p) { return *p; }

/* ---- numbers --------------------------------------------------------------------------------- */

#define TD_SIMT_MIN_MAX(T) \
    static inline T min(T a, T b) { return b < a ? b : a; } \
    static inline T max(T a, T b) { return a < b ? b : a; }
TD_SIMT_MIN_MAX(int)
TD_SIMT_MIN_MAX(unsigned)
TD_SIMT_MIN_MAX(long)
TD_SIMT_MIN_MAX(unsigned long)
TD_SIMT_MIN_MAX(long long)
TD_SIMT_MIN_MAX(unsigned long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }

static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline unsigned __float_as_uint(float f) { return td_f32_bits(f); }
static inline float __uint_as_float(unsigned u) { return td_f32_from_bits(u); }
static inline int __popc(unsigned u) { return __builtin_popcount(u); }

/* ---- kernels by name ------------------------------------------------------------------------- */

namespace td_simt {

/* Where nvcc puts the parameters of a kernel: each at the next multiple of its alignment. */
template <class... A> struct layout {
    td_gpu_param at[sizeof...(A) + 1];

    constexpr layout() : at{}
    {
        uint32_t offset = 0;
        int i = 0;

        ((offset = (offset + (uint32_t)alignof(A) - 1) / (uint32_t)alignof(A) * (uint32_t)alignof(A), at[i].offset = offset,
          at[i].size = (uint32_t)sizeof(A), offset += (uint32_t)sizeof(A), i++),
         ...);
    }
};

template <auto K> struct kernel;

template <class... A, void (*K)(A...)> struct kernel<K> {
    static constexpr layout<A...> params{};

    template <size_t... I> static void call(void *const *p, std::index_sequence<I...>)
    {
        (void)p;
        K(*(A *)p[I]...);
    }
    static void run(void *const *p) { call(p, std::index_sequence_for<A...>{}); }

    static void launch(const char *symbol, dim3 grid, dim3 block, size_t shared_bytes, A... args)
    {
        const td_simt_kernel k = {symbol, params.at, (int)sizeof...(A), run};
        void *p[] = {(void *)&args..., nullptr};

        td_simt_launch_note(&k, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, p);
    }
};

} // namespace td_simt

#define TD_LAUNCH(kernel_, grid, block, shared, stream, ...)                                       \
    ((void)(stream), td_simt::kernel<&kernel_>::launch(#kernel_, grid, block, shared, __VA_ARGS__))
#define TD_DYNAMIC_SHARED(type, name) type *const name = (type *)td_simt_dynamic_shared()
#define TD_GPU_KERNELS(file)                                         \
    extern "C" __attribute__((visibility("default"))) const struct td_simt_kernel td_simt_kernels_##file[]; \
    const struct td_simt_kernel td_simt_kernels_##file[] = {
#define TD_GPU_KERNEL(name)                                                                        \
    {#name, td_simt::kernel<&name>::params.at,                                                     \
     (int)(sizeof td_simt::kernel<&name>::params / sizeof(td_gpu_param)) - 1,                      \
     td_simt::kernel<&name>::run},
#define TD_GPU_KERNELS_END {nullptr, nullptr, 0, nullptr}};

#endif
