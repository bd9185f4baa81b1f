/* reference_product.cu - the sums of a reference on a GPU, in double.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Names, parameters, promises: reference_cu.h. A block computes 64 rows by 64 columns, 16 of k at a time;
 * a thread 4 by 4. While a block loads numbers, other blocks multiply. */
#include "kernels/simt/gpu.h"
#include "kernels/reference/reference_cu.h"

#define TILE TD_REFERENCE_TILE
#define DEPTH 16
#define WIDTH (TILE + 2) /* of a row in shared memory: its 4 neighbours lie in other banks */

struct reference_launch {
    const void *a, *w;
    const uint32_t *qzeros;
    const void *scales;
    const int32_t *g_idx;
    const float *row_scales;
    double *r0, *r1, *mag;
    int m, n, k, group_size, bits, zero_offset, a_type, w_type, rounding;
};

/* Of a step: A and W, as stored and as they are rounded. */
struct reference_tile { double a[DEPTH][WIDTH], w[DEPTH][WIDTH]; };

struct reference_sums { double r0[4][4], r1[4][4], mag[4][4]; };

__device__ __forceinline__ float half_of(uint32_t bits)
{
    return __half2float(__ushort_as_half((unsigned short)bits));
}

__device__ __forceinline__ double number_at(const void *from, int64_t i, int type)
{
    if (type == TD_REFERENCE_F32)
        return (double)((const float *)from)[i];
    if (type == TD_REFERENCE_BF16)
        return (double)__uint_as_float((uint32_t)((const uint16_t *)from)[i] << 16);
    return (double)half_of(((const uint16_t *)from)[i]);
}

__device__ __forceinline__ double round_bf16(double x)
{
    const float f = (float)x;
    const uint32_t u = __float_as_uint(f);

    if (f != f)
        return (double)f;
    return (double)__uint_as_float((u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u);
}

__device__ __forceinline__ double round_f16(double x)
{
    return (double)__half2float(__float2half_rn((float)x));
}

__device__ __forceinline__ double rounded_weight(int how, int q, int zero, double scale)
{
    switch (how) {
    case TD_REFERENCE_WEIGHT_BF16: return round_bf16((q - zero) * scale);
    case TD_REFERENCE_WEIGHT_F16: return round_f16((q - zero) * scale);
    case TD_REFERENCE_ZERO_BF16: return round_bf16(q * scale + round_bf16(-scale * zero));
    case TD_REFERENCE_ZERO_F16: return round_f16(q * scale + round_f16(-scale * zero));
    default: return (q - zero) * scale;
    }
}

/* 64 rows of A, 16 of k from k0 on; 0 where there is none. Each thread takes 4 of k of a row. */
template <bool ROUNDED>
__device__ __forceinline__ void load_a(const reference_launch &x, int row0, int k0, reference_tile &stored, reference_tile &rounded)
{
    const int i = (int)threadIdx.x / 4, row = row0 + i;

    for (int v = 0; v < 4; v++) {
        const int j = (int)threadIdx.x % 4 * 4 + v, k = k0 + j;
        const double a = row < x.m && k < x.k ? number_at(x.a, (int64_t)row * x.k + k, x.a_type) : 0.0;

        stored.a[j][i] = a;
        if (ROUNDED) {
            double r = a;

            if (x.row_scales && row < x.m && k < x.k) {
                const float *s = x.row_scales + (int64_t)row * 3;

                r = s[2] != 0.0f ? (double)s[0] * rint((double)((float)a * s[1])) : (double)__uint_as_float(0x7fc00000u);
            }
            rounded.a[j][i] = r;
        }
    }
}

/* The same of 64 columns of W. Each thread takes 4 of k of a column, which lie in one word. */
template <bool ROUNDED>
__device__ __forceinline__ void load_gptq(const reference_launch &x, int column0, int k0, reference_tile &stored, reference_tile &rounded)
{
    const int i = (int)threadIdx.x % TILE, n = column0 + i, j0 = (int)threadIdx.x / TILE * 4, first = k0 + j0, pack = 32 / x.bits;
    const uint32_t mask = (1u << x.bits) - 1;
    const bool is_there = n < x.n && first < x.k; /* k is a multiple of 4 */
    const uint32_t word = is_there ? ((const uint32_t *)x.w)[(int64_t)(first / pack) * x.n + n] >> x.bits * (first % pack) : 0;
    int group = -1, zero = 0;
    double scale = 0;

    for (int v = 0; v < 4; v++) {
        const int q = (int)(word >> x.bits * v & mask);

        if (is_there) {
            const int g = x.g_idx ? x.g_idx[first + v] : (first + v) / x.group_size;

            if (g != group) {
                group = g;
                zero = (int)(x.qzeros[(int64_t)g * (x.n / pack) + n / pack] >> x.bits * (n % pack) & mask) + x.zero_offset;
                scale = number_at(x.scales, (int64_t)g * x.n + n, x.w_type);
            }
        }
        stored.w[j0 + v][i] = is_there ? (q - zero) * scale : 0.0;
        if (ROUNDED)
            rounded.w[j0 + v][i] = is_there ? rounded_weight(x.rounding, q, zero, scale) : 0.0;
    }
}

__device__ __forceinline__ void load_dense(const reference_launch &x, int column0, int k0, reference_tile &stored)
{
    const int i = (int)threadIdx.x / 4, n = column0 + i;

    for (int v = 0; v < 4; v++) {
        const int j = (int)threadIdx.x % 4 * 4 + v, k = k0 + j;

        stored.w[j][i] = n < x.n && k < x.k ? number_at(x.w, (int64_t)n * x.k + k, x.w_type) : 0.0;
    }
}

template <bool ROUNDED>
__device__ __forceinline__ void add_step(const reference_tile &stored, const reference_tile &rounded, reference_sums &s)
{
    const int ty = (int)threadIdx.x / 16 * 4, tx = (int)threadIdx.x % 16 * 4;

#pragma unroll 4
    for (int j = 0; j < DEPTH; j++) {
        double a[4], w[4];

        for (int v = 0; v < 4; v++) {
            a[v] = stored.a[j][ty + v];
            w[v] = stored.w[j][tx + v];
        }
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++)
                s.r0[r][c] = fma(a[r], w[c], s.r0[r][c]);
        if (ROUNDED) {
            for (int v = 0; v < 4; v++) {
                a[v] = rounded.a[j][ty + v];
                w[v] = rounded.w[j][tx + v];
            }
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++)
                    s.r1[r][c] = fma(a[r], w[c], s.r1[r][c]);
        }
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++)
                s.mag[r][c] = fma(fabs(a[r]), fabs(w[c]), s.mag[r][c]);
    }
}

template <bool ROUNDED> __device__ __forceinline__ void store_sums(const reference_launch &x, const reference_sums &s)
{
    const int row0 = (int)blockIdx.y * TILE + (int)threadIdx.x / 16 * 4, n0 = (int)blockIdx.x * TILE + (int)threadIdx.x % 16 * 4;

    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++)
            if (row0 + r < x.m && n0 + c < x.n) {
                const int64_t at = (int64_t)(row0 + r) * x.n + n0 + c;

                x.r0[at] = s.r0[r][c];
                x.mag[at] = s.mag[r][c];
                if (ROUNDED)
                    x.r1[at] = s.r1[r][c];
            }
}

template <bool QUANTISED, bool ROUNDED>
__device__ __forceinline__ void multiply(const reference_launch &x, reference_tile &stored, reference_tile &rounded)
{
    const int row0 = (int)blockIdx.y * TILE, column0 = (int)blockIdx.x * TILE;
    reference_sums s = {};

    for (int k0 = 0; k0 < x.k; k0 += DEPTH) {
        load_a<ROUNDED>(x, row0, k0, stored, rounded);
        if (QUANTISED)
            load_gptq<ROUNDED>(x, column0, k0, stored, rounded);
        else
            load_dense(x, column0, k0, stored);
        __syncthreads();
        add_step<ROUNDED>(stored, rounded, s);
        __syncthreads();
    }
    store_sums<ROUNDED>(x, s);
}

#define PARAMETERS                                                                                 \
    const void *a, const void *w, const uint32_t *qzeros, const void *scales, const int32_t *g_idx, \
        const float *row_scales, double *r0, double *r1, double *mag, int32_t m, int32_t n,        \
        int32_t k, int32_t group_size, int32_t form
#define LAUNCH                                                                                     \
    reference_launch{a, w, qzeros, scales, g_idx, row_scales, r0, r1, mag, m, n, k, group_size,    \
                     form & 15, form >> 4 & 1, form >> 5 & 3, form >> 7 & 3, form >> 9}

extern "C" __global__ void __launch_bounds__(TD_REFERENCE_THREADS) td_reference_gptq(PARAMETERS)
{
    __shared__ reference_tile stored;

    multiply<true, false>(LAUNCH, stored, stored);
}

extern "C" __global__ void __launch_bounds__(TD_REFERENCE_THREADS) td_reference_gptq_rounded(PARAMETERS)
{
    __shared__ reference_tile stored, rounded;

    multiply<true, true>(LAUNCH, stored, rounded);
}

extern "C" __global__ void __launch_bounds__(TD_REFERENCE_THREADS) td_reference_gemm(PARAMETERS)
{
    __shared__ reference_tile stored;

    multiply<false, false>(LAUNCH, stored, stored);
}

TD_GPU_KERNELS(reference_product)
TD_GPU_KERNEL(td_reference_gptq)
TD_GPU_KERNEL(td_reference_gptq_rounded)
TD_GPU_KERNEL(td_reference_gemm)
TD_GPU_KERNELS_END
