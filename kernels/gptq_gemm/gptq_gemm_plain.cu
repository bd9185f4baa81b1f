/* gptq_gemm_plain.cu - C = A * dequant(W) for GPTQ weights on a GPU: plain and right, no tensor cores, no atomics.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Names, parameters, layouts and promises: gptq_gemm_cu.h. A block computes 8 rows by 32 columns of C.
 * Thread (x, y) holds 4 columns, so that 8 neighbours read 128 bytes of a row of qweight, and computes word
 * y of every 32 words of K; the 32 partial sums of an element meet in shared memory and are added in their
 * order. So an element depends on its row of A and its column of W alone, and repeats bit for bit.
 * (q - zero) has at most 9 bits and a scale 11, so that a weight is exact in float. */
#include "kernels/simt/gpu.h"
#include "kernels/gptq_gemm/gptq_gemm_cu.h"
#include "kernels/gptq_gemm/gptq_gemm_cu_steps.h"

#define COLUMNS TD_GPTQ_CU_COLUMNS
#define ROWS TD_GPTQ_CU_ROWS
#define SLICES TD_GPTQ_CU_SLICES
#define THREADS (COLUMNS / 4 * SLICES)
#define CHUNK (SLICES * 8)     /* rows of W between two loads of A, at most: 32 words of 8 or 4 */

struct gptq_launch {
    const __half *a;
    const uint32_t *qweight, *qzeros;
    const __half *scales;
    const int32_t *order;      /* g_idx or perm */
    __half *c;
    int m, n, k, group_size, zero_offset;
    int64_t lda, ldc;
};

/* What a block has in common. */
struct gptq_shared {
    __half a[ROWS][CHUNK];
    float sum[SLICES][ROWS][COLUMNS];
};

/* Zero points and scales of a group, for four columns. */
struct gptq_group { int at, zero[4]; float scale[4]; };

template <int BITS> __device__ __forceinline__ void take_group(const gptq_launch &x, int at, int first, gptq_group &g)
{
    const int pack = 32 / BITS, column = STEP_COLUMN(x, first);
    const uint32_t word = x.qzeros[(int64_t)at * (x.n / pack) + column / pack] >> BITS * (column % pack);
    const uint2 halves = *(const uint2 *)(x.scales + (int64_t)at * x.n + column);

    g.at = at;
    for (int v = 0; v < 4; v++) {
        const uint32_t pair = v < 2 ? halves.x : halves.y;

        g.zero[v] = STEP_ZERO(x, (int)(word >> BITS * v & ((1u << BITS) - 1)) + x.zero_offset);
        g.scale[v] = __half2float(__ushort_as_half((unsigned short)(v & 1 ? pair >> 16 : pair & 0xffff)));
    }
}

/* Integer i of a word. */
template <int BITS, bool EXLLAMA> __device__ __forceinline__ int integer_of(uint32_t word, int i)
{
    const int place = EXLLAMA && BITS == 4 ? i / 2 + i % 2 * 4 : i;

    return (int)(word >> BITS * place & ((1u << BITS) - 1));
}

/* Load the chunk of A for rows of W from k0 on, in the order of W; zeros where A ends. */
template <int BITS, bool EXLLAMA> __device__ __forceinline__ void load_a(const gptq_launch &x, gptq_shared &s, int k0, int row0)
{
    const int chunk = SLICES * (32 / BITS);

    for (int i = (int)(threadIdx.y * blockDim.x + threadIdx.x); i < ROWS * chunk; i += THREADS) {
        const int row = row0 + i / chunk, k = k0 + i % chunk;
        const bool is_there = row < x.m && k < x.k;
        const int from = is_there && EXLLAMA && x.order ? x.order[k] : k;

        s.a[i / chunk][i % chunk] = is_there ? x.a[row * x.lda + from] : __ushort_as_half(0);
    }
}

/* Partial sums of a word in f16, for rows of even and of odd k, as a half2 holds them. */
struct gptq_halves { __half part[ROWS][4][2]; };

__device__ __forceinline__ void start_halves(gptq_halves &h)
{
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < 4; v++)
            h.part[r][v][0] = h.part[r][v][1] = __ushort_as_half(0);
}

__device__ __forceinline__ void flush_halves(gptq_halves &h, const gptq_group &g, float (&sum)[ROWS][4])
{
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < 4; v++)
            sum[r][v] = fmaf(__fadd_rn(__half2float(h.part[r][v][0]), __half2float(h.part[r][v][1])), g.scale[v], sum[r][v]);
    start_halves(h);
}

/* Add the products of one word of each of four columns: rows k .. of W. at : its place in the chunk. */
template <int BITS, bool EXLLAMA, bool HALF_SUMS>
__device__ __forceinline__ void add_word(const gptq_launch &x, const gptq_shared &s, int k, int at,
                                         int column, gptq_group &g, float (&sum)[ROWS][4])
{
    const int pack = 32 / BITS;
    const uint4 words = *(const uint4 *)(x.qweight + (int64_t)(k / pack) * x.n + column);
    const uint32_t word[4] = {words.x, words.y, words.z, words.w};
    const bool by_row = !EXLLAMA && x.order;
    const int group = by_row ? 0 : k / x.group_size; /* a word lies in one group */
    const bool half_sums = STEP_HALF_SUMS(x, BITS, HALF_SUMS);
    gptq_halves h;

    if (half_sums)
        start_halves(h);
    #pragma unroll
    for (int i = 0; i < pack; i++) {
        const int now = by_row ? x.order[k + i] : group;

        if (now != g.at) {
            if (half_sums && i)
                flush_halves(h, g, sum);
            take_group<BITS>(x, now, column, g);
        }
        for (int v = 0; v < 4; v++) {
            const int q = integer_of<BITS, EXLLAMA>(word[v], i) - g.zero[v];

            for (int r = 0; r < ROWS; r++)
                if (half_sums)
                    h.part[r][v][i & 1] = __hfma(__int2half_rn(q), s.a[r][at + i], h.part[r][v][i & 1]);
                else
                    sum[r][v] = fmaf(__half2float(s.a[r][at + i]), __fmul_rn((float)q, g.scale[v]), sum[r][v]);
        }
    }
    if (half_sums)
        flush_halves(h, g, sum);
}

/* Add up the slices of each element in their order, a thread an element, and store C. */
__device__ __forceinline__ void store(const gptq_launch &x, const gptq_shared &s, int row0, int column0)
{
    const int t = (int)(threadIdx.y * blockDim.x + threadIdx.x), row = row0 + t / COLUMNS, column = column0 + t % COLUMNS;
    float sum = 0.0f;

    for (int i = 0; i < SLICES; i++)
        sum = __fadd_rn(sum, s.sum[i][t / COLUMNS][t % COLUMNS]);
    if (row < x.m && column < STEP_WIDTH(x))
        x.c[row * x.ldc + column] = __float2half_rn(sum);
}

template <int BITS, bool EXLLAMA, bool HALF_SUMS> __device__ __forceinline__ void gptq_gemm(const gptq_launch &x, gptq_shared &s)
{
    const int pack = 32 / BITS, lane = (int)threadIdx.x, slice = (int)threadIdx.y;
    const int row0 = (int)blockIdx.y * ROWS, column0 = (int)blockIdx.x * COLUMNS, column = column0 + lane * 4;
    float sum[ROWS][4] = {};
    gptq_group g;

    g.at = -1;
    for (int k0 = 0; k0 < x.k; k0 += SLICES * pack) {
        const int k = k0 + slice * pack;

        load_a<BITS, EXLLAMA>(x, s, k0, row0);
        STEP_SYNC();
        if (k < x.k && column < STEP_WIDTH(x))
            add_word<BITS, EXLLAMA, HALF_SUMS>(x, s, k, slice * pack, column, g, sum);
        STEP_SYNC();
    }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < 4; v++)
            s.sum[slice][r][lane * 4 + v] = sum[r][v];
    STEP_SYNC();
    store(x, s, row0, column0);
}

#define KERNEL(name, bits, exllama, half_sums)                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS)                                          \
        name(const __half *a, const uint32_t *qweight, const uint32_t *qzeros,                     \
             const __half *scales, const int32_t *order, __half *c, int32_t m, int32_t n,          \
             int32_t k, int32_t groups, int32_t zero_offset, int64_t lda, int64_t ldc)             \
    {                                                                                              \
        __shared__ gptq_shared s;                                                                  \
                                                                                                   \
        gptq_gemm<bits, exllama, half_sums>(gptq_launch{a, qweight, qzeros, scales, order, c, m,   \
                                                        n, k, k / groups, zero_offset, lda, ldc},  \
                                            s);                                                    \
    }

KERNEL(td_gptq_gemm_4bit_f32, 4, false, false)
KERNEL(td_gptq_gemm_8bit_f32, 8, false, false)
KERNEL(td_gptq_gemm_4bit_f16, 4, false, true)
KERNEL(td_gptq_gemm_8bit_f16, 8, false, true)
KERNEL(td_gptq_gemm_exllama_4bit_f32, 4, true, false)
KERNEL(td_gptq_gemm_exllama_8bit_f32, 8, true, false)
KERNEL(td_gptq_gemm_exllama_4bit_f16, 4, true, true)
KERNEL(td_gptq_gemm_exllama_8bit_f16, 8, true, true)

TD_GPU_KERNELS(gptq_gemm_plain)
TD_GPU_KERNEL(td_gptq_gemm_4bit_f32)
TD_GPU_KERNEL(td_gptq_gemm_8bit_f32)
TD_GPU_KERNEL(td_gptq_gemm_4bit_f16)
TD_GPU_KERNEL(td_gptq_gemm_8bit_f16)
TD_GPU_KERNEL(td_gptq_gemm_exllama_4bit_f32)
TD_GPU_KERNEL(td_gptq_gemm_exllama_8bit_f32)
TD_GPU_KERNEL(td_gptq_gemm_exllama_4bit_f16)
TD_GPU_KERNEL(td_gptq_gemm_exllama_8bit_f16)
TD_GPU_KERNELS_END
