/* fake_gptq.h - vLLM's gptq kernels for tests of the tap: the real symbols and parameters, computed
 * on the host by one plain loop, always right.
 * SPDX-License-Identifier: Apache-2.0
 *
 * lib_fake_gptq.c has the same kernels for tests of replay. It follows the real kernels block by
 * block, sums in float16 as they do, and can be told to be wrong.
 *
 * Symbols and parameters: vLLM 0.26, as cuobjdump and CUPTI show them on an H200 (offset+size):
 *   0+8 a   8+8 qweight   16+8 qzeros   24+8 scales   32+8 c   40+4 m   44+4 n   48+4 k
 *   52+4 groups   56+1 use_v2_format   64+8 perm          before use_v2_format was added: 56+8 perm
 * A block computes eight rows, and a kernel of its own computes the rows left over: 20 rows are one
 * launch of 16 rows and one of 4. For more than 50 rows vLLM launches reconstruct_exllama (0+8 8+8
 * 16+8 24+8 32+4 36+4 40+4 44+1 48+8), which dequantises W, and then calls cublasHgemm. Grid
 * (ceil(n / 512), ceil(m / rows), k / 128), block 128. */
#ifndef TD_TESTS_HELPERS_FAKE_GPTQ_H
#define TD_TESTS_HELPERS_FAKE_GPTQ_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/fake_cuda/fake_cuda.h"
#include "tests/helpers/fake_product.h"

#define FAKE_GPTQ_4BIT(rows) "_ZN4vllm4gptq33gemm_half_q_half_gptq_4bit_kernelILb1ELi" #rows "EEEvPK6__halfPKjS6_S4_PS2_iiiibPKi"
#define FAKE_GPTQ_8BIT(rows) "_ZN4vllm4gptq33gemm_half_q_half_gptq_8bit_kernelILb1ELi" #rows "EEEvPK6__halfPKjS6_S4_PS2_iiiibPKi"
#define FAKE_GPTQ_4BIT_OLD(rows) "_ZN4vllm4gptq33gemm_half_q_half_gptq_4bit_kernelILb1ELi" #rows "EEEvPK6__halfPKjS6_S4_PS2_iiiiPKi"
#define FAKE_RECONSTRUCT "_ZN4vllm4gptq31reconstruct_exllama_4bit_kernelEPKjPKiS2_PK6__halfiiibPS5_"
#define FAKE_HGEMM "_Z15fake_hgemm_fp16PK6__halfS1_PS_iii"
#define FAKE_LINEAR "_Z16fake_linear_fp16PK6__halfS1_PS_iii"
#define FAKE_OTHER "_ZN2at6native29vectorized_elementwise_kernelILi4EEEviPf"

/* By bits: ldexpf() took two thirds of what the tests of twins need. */
static inline float fake_gptq_float(uint16_t h)
{
    const uint32_t e = h >> 10 & 31, f = h & 1023;
    const union { uint32_t bits; float value; } normal = {(e + 112) << 23 | f << 13};
    float v = e == 31 ? f ? NAN : INFINITY : e ? normal.value : (float)f * 0x1p-24f;

    return h & 0x8000 ? -v : v;
}

/* Round to float16 as IEEE 754 and __float2half_rn do: to nearest, ties to even, Inf from 65520
 * on. By bits, as fake_gptq_float(). */
static inline uint16_t fake_gptq_half(float f)
{
    const uint16_t sign = f < 0 ? 0x8000 : 0;
    const float a = fabsf(f);
    union { float value; uint32_t bits; } u = {a};

    if (isnan(f))
        return 0x7e00;
    if (a >= 65520)
        return sign | 0x7c00;
    if (a < 0x1p-14f) {
        u.value = a + 0.5f;            /* its last bit is the last one of a half's subnormals */
        return (uint16_t)(sign | (u.bits - 0x3f000000));
    }
    return (uint16_t)(sign | ((u.bits - (112u << 23) + 0xfff + (u.bits >> 13 & 1)) >> 13));
}

/* bits as element j of a word lies: 4 bits in the order 0 2 4 6 1 3 5 7, 8 bits as they are */
static inline unsigned fake_gptq_element(const uint32_t *qweight, int bits, int64_t n, int64_t row, int64_t col)
{
    int per = 32 / bits, j = (int)(row % per);
    uint32_t word = qweight[row / per * n + col];

    return word >> (bits == 4 ? 4 * (j / 2) + 16 * (j % 2) : 8 * j) & ((1u << bits) - 1);
}

static inline double *fake_doubles_of(const uint16_t *halves, int count)
{
    double *d = malloc((size_t)count * sizeof *d + 1);

    if (!d)
        abort();
    for (int i = 0; i < count; i++)
        d[i] = fake_gptq_float(halves[i]);
    return d;
}

static inline void fake_halves_of(const double *sums, int count, uint16_t *to)
{
    for (int i = 0; i < count; i++)
        to[i] = fake_gptq_half((float)sums[i]);
}

struct fake_gptq_weight { const uint32_t *qweight, *qzeros; const uint16_t *scales; int groups, bits; bool v2; };

/* A scale times an integer is exact, and so is that times an activation: the order of the sum alone counts. */
static inline void fake_gptq_decode(const void *of, int64_t k, int64_t n, float *to)
{
    const struct fake_gptq_weight *w = of;
    const int bits = w->bits, per = 32 / bits;

    for (int64_t r = 0; r < k; r++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t g = r / (k / w->groups);
            const int zero = (int)(w->qzeros[g * (n / per) + j / per] >> (bits * (j % per)) & ((1u << bits) - 1)) + !w->v2;

            fake_set(to, k, r, j, fake_gptq_float(w->scales[g * n + j]) * (float)((int)fake_gptq_element(w->qweight, bits, n, r, j) - zero));
        }
}

static inline void fake_gptq_run(const struct fake_cuda_launch *l, int bits, bool v1)
{
    const uint16_t *a = *(const uint16_t **)l->params[0];
    uint16_t *c = *(uint16_t **)l->params[4];
    const int m = *(int *)l->params[5], n = *(int *)l->params[6], k = *(int *)l->params[7], groups = *(int *)l->params[8];
    const struct fake_gptq_weight w = {*(const uint32_t **)l->params[1], *(const uint32_t **)l->params[2], *(const uint16_t **)l->params[3], groups, bits,
                                       !v1 && *(uint8_t *)l->params[9]};
    const int form[] = {groups, bits, w.v2};
    const struct fake_part parts[] = {{form, sizeof form}, {w.qweight, (size_t)(k * n) * (size_t)bits / 8}, {w.qzeros, (size_t)(groups * n) * (size_t)bits / 8},
                                      {w.scales, (size_t)(groups * n) * 2}, {NULL, 0}};
    const int *perm = *(const int **)l->params[v1 ? 9 : 10];
    double *rows = malloc((size_t)(m * k) * sizeof *rows + 1), *sums;
    int i, r;

    if (!rows)
        abort();
    for (i = 0; i < m; i++)
        for (r = 0; r < k; r++)
            rows[(size_t)i * (size_t)k + (size_t)r] = fake_gptq_float(a[i * k + (perm ? perm[r] : r)]);
    sums = fake_product(m, n, k, rows, fake_gptq_decode, &w, parts);
    fake_halves_of(sums, m * n, c);
    free(sums);
    free(rows);
}

/* Parameters: qweight, perm, qzeros, scales, k, n, groups, v2, b [k, n], the dequantised W. */
static inline void fake_reconstruct_run(const struct fake_cuda_launch *l, void *user)
{
    const uint32_t *qweight = *(const uint32_t **)l->params[0], *qzeros = *(const uint32_t **)l->params[2];
    const uint16_t *scales = *(const uint16_t **)l->params[3];
    const int *perm = *(const int **)l->params[1];
    int k = *(int *)l->params[4], n = *(int *)l->params[5], groups = *(int *)l->params[6], r, j;
    bool v2 = *(uint8_t *)l->params[7];
    uint16_t *b = *(uint16_t **)l->params[8];

    (void)user;
    for (r = 0; r < k; r++)
        for (j = 0; j < n; j++) {
            int g = r / (k / groups), zero = (int)(qzeros[g * (n / 8) + j / 8] >> (4 * (j % 8)) & 15) + !v2;

            b[(perm ? perm[r] : r) * n + j] = fake_gptq_half(fake_gptq_float(scales[g * n + j]) * (float)((int)fake_gptq_element(qweight, 4, n, r, j) - zero));
        }
}

static inline void fake_half_decode(const void *of, int64_t k, int64_t n, float *to)
{
    for (int64_t r = 0; r < k; r++)
        for (int64_t j = 0; j < n; j++)
            fake_set(to, k, r, j, fake_gptq_float(((const uint16_t *)of)[r * n + j]));
}

static inline void fake_half_decode_transposed(const void *of, int64_t k, int64_t n, float *to)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t r = 0; r < k; r++)
            fake_set(to, k, r, j, fake_gptq_float(((const uint16_t *)of)[j * k + r]));
}

/* c [m, n] = a [m, k] times w: [k, n], or transposed [n, k] */
static inline void fake_half_product(int m, int n, int k, const uint16_t *a, const uint16_t *w, bool transposed, uint16_t *c)
{
    const struct fake_part parts[] = {{w, (size_t)(k * n) * 2}, {NULL, 0}};
    double *rows = fake_doubles_of(a, m * k), *sums = fake_product(m, n, k, rows, transposed ? fake_half_decode_transposed : fake_half_decode, w, parts);

    fake_halves_of(sums, m * n, c);
    free(sums);
    free(rows);
}

/* a [m, k], w [k, n], c [m, n], m, n, k */
static inline void fake_hgemm_run(const struct fake_cuda_launch *l, void *user)
{
    const int m = *(int *)l->params[3], n = *(int *)l->params[4], k = *(int *)l->params[5];

    (void)user;
    fake_half_product(m, n, k, *(const uint16_t **)l->params[0], *(const uint16_t **)l->params[1], false, *(uint16_t **)l->params[2]);
}

/* a [m, k], w [n, k], c [m, n], m, n, k */
static inline void fake_linear_run(const struct fake_cuda_launch *l, void *user)
{
    const int m = *(int *)l->params[3], n = *(int *)l->params[4], k = *(int *)l->params[5];

    (void)user;
    fake_half_product(m, n, k, *(const uint16_t **)l->params[0], *(const uint16_t **)l->params[1], true, *(uint16_t **)l->params[2]);
}

static inline void fake_gptq_run_4(const struct fake_cuda_launch *l, void *user) { (void)user; fake_gptq_run(l, 4, false); }
static inline void fake_gptq_run_8(const struct fake_cuda_launch *l, void *user) { (void)user; fake_gptq_run(l, 8, false); }
static inline void fake_gptq_run_old(const struct fake_cuda_launch *l, void *user) { (void)user; fake_gptq_run(l, 4, true); }

#define FAKE_GPTQ_PARAMS {0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 4}, {44, 4}, {48, 4}, {52, 4}
#define FAKE_GPTQ_KERNELS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)

static inline void fake_gptq_add(const struct fake_cuda_api *api)
{
    static const struct fake_cuda_kernel all[] = {
#define FAKE_GPTQ_ENTRIES(r) \
        {.symbol = FAKE_GPTQ_4BIT(r), .n_params = 11, .param = {FAKE_GPTQ_PARAMS, {56, 1}, {64, 8}}, .run = fake_gptq_run_4}, \
        {.symbol = FAKE_GPTQ_8BIT(r), .n_params = 11, .param = {FAKE_GPTQ_PARAMS, {56, 1}, {64, 8}}, .run = fake_gptq_run_8}, \
        {.symbol = FAKE_GPTQ_4BIT_OLD(r), .n_params = 10, .param = {FAKE_GPTQ_PARAMS, {56, 8}}, .run = fake_gptq_run_old},
        FAKE_GPTQ_KERNELS(FAKE_GPTQ_ENTRIES)
        {.symbol = FAKE_RECONSTRUCT, .n_params = 9, .param = {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 4}, {36, 4}, {40, 4}, {44, 1}, {48, 8}}, .run = fake_reconstruct_run},
        {.symbol = FAKE_HGEMM, .n_params = 6, .param = {{0, 8}, {8, 8}, {16, 8}, {24, 4}, {28, 4}, {32, 4}}, .run = fake_hgemm_run},
        {.symbol = FAKE_LINEAR, .n_params = 6, .param = {{0, 8}, {8, 8}, {16, 8}, {24, 4}, {28, 4}, {32, 4}}, .run = fake_linear_run},
        {.symbol = FAKE_OTHER, .n_params = 2, .param = {{0, 4}, {8, 8}}},
    };
    size_t i;

    for (i = 0; i < sizeof all / sizeof *all; i++)
        api->add_kernel(&all[i]);
}

/* The image of a module that holds all these kernels. */
#define FAKE_GPTQ_NAMES(r) FAKE_GPTQ_4BIT(r) " " FAKE_GPTQ_8BIT(r) " " FAKE_GPTQ_4BIT_OLD(r) " "
#define FAKE_GPTQ_IMAGE "TDFAKE " FAKE_GPTQ_KERNELS(FAKE_GPTQ_NAMES) FAKE_RECONSTRUCT " " FAKE_HGEMM " " FAKE_LINEAR " " FAKE_OTHER

#endif
