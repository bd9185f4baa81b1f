/* lib_fake_gptq.c - plugin of the fake CUDA driver for tests of replay: vLLM's gptq kernels as C
 * functions that work block by block, right or wrong.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A block of the launch does what a block of the kernel does (vLLM
 * csrc/quantization/gptq/q_gemm.cu): it computes m_count rows, 512 columns and 128 of K, and adds
 * the sums in float16. The order of the blocks changes from launch to launch, so results repeat no
 * better than the real kernel's. TD_FAKE_GPTQ=<word>:
 *   steady    right, always in one order, as a device may do for a few launches
 *   exact     right, one sum in float: results repeat bit for bit
 *   overrun   the last block writes one row too many
 *   behind    write one element behind C (or behind the dequantised W)
 *   notzero   add C to itself at the end, as if C had not been cleared
 *   scale     from column 64 on, use the next column's scale
 *   hole      leave out the last row of the dequantised W
 *   fault     follow a NULL pointer */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/f16.h"
#include "tests/helpers/fake_cuda/fake_cuda.h"

#define KN 128
#define MAX_K 4096

struct gemm {
    const uint16_t *a, *scales;
    const uint32_t *qweight, *qzeros;
    uint16_t *c;
    int m, n, k, groups, zero_offset, bits;
    const int32_t *perm;
    int shift;                     /* use the next column's scales */
};

static int mode_is(const char *word)
{
    const char *env = getenv("TD_FAKE_GPTQ");

    return env && !strcmp(env, word);
}

static struct gemm read_params(void **p, int bits)
{
    struct gemm g = {*(void **)p[0], *(void **)p[3], *(void **)p[1], *(void **)p[2], *(void **)p[4], *(int *)p[5], *(int *)p[6], *(int *)p[7], *(int *)p[8],
                     !*(char *)p[9], bits, *(void **)p[10], mode_is("scale")};

    return g;
}

/* Row k, column n of the shuffled words. */
static int integer_at(const struct gemm *g, int k, int n)
{
    int per_word = 32 / g->bits, i = k % per_word, at = g->bits == 4 ? 4 * (i / 2) + 16 * (i % 2) : 8 * i;

    return (int)(g->qweight[(size_t)(k / per_word) * (size_t)g->n + (size_t)n] >> at & ((1u << g->bits) - 1));
}

static double weight_at(const struct gemm *g, int k, int n)
{
    int group = k / (g->k / g->groups), per_word = 32 / g->bits, from = g->shift && n >= 64 ? (n + 1) % g->n : n;
    uint32_t z = g->qzeros[(size_t)group * (size_t)(g->n / per_word) + (size_t)(n / per_word)] >> (n % per_word * g->bits) & ((1u << g->bits) - 1);

    return (integer_at(g, k, n) - (int)z - g->zero_offset) * (double)td_f16_load(g->scales[(size_t)group * (size_t)g->n + (size_t)from]);
}

/* Mode fault: the NULL pointer must become an error of the GPU, not of the sanitizer. */
__attribute__((no_sanitize("undefined"))) static double sum_of(const struct gemm *g, int row, const double *w, int k0, int k1)
{
    double sum = 0;

    for (int k = k0; k < k1; k++)
        sum += (double)td_f16_load(g->a[(size_t)row * (size_t)g->k + (size_t)(g->perm ? g->perm[k] : k)]) * w[k - k0];
    return sum;
}

static void add(uint16_t *c, double value)
{
    *c = td_f16_round(td_f16_load(*c) + td_f16_load(td_f16_round((float)value)));
}

/* Rows [row, last) of one column, K [k0, k1). */
static void run_column(const struct gemm *g, int row, int last, int n, int k0, int k1, int adds)
{
    double w[MAX_K];

    for (int k = k0; k < k1; k++)
        w[k - k0] = weight_at(g, k, n);
    for (; row < last; row++) {
        uint16_t *c = &g->c[(size_t)row * (size_t)g->n + (size_t)n];

        if (row >= g->m) /* one row too many */
            *c = 0x3c00;
        else if (adds)
            add(c, sum_of(g, row, w, k0, k1));
        else
            *c = td_f16_round((float)sum_of(g, row, w, k0, k1));
    }
}

static void run_block(const struct gemm *g, const struct fake_cuda_launch *l, unsigned x, unsigned y, unsigned z, int m_count)
{
    int k0 = (int)z * KN, k1 = k0 + KN < g->k ? k0 + KN : g->k, row = (int)y * m_count, last = row + m_count + (mode_is("overrun") && y + 1 == l->grid[1]);
    int exact = mode_is("exact");

    for (int n = (int)x * KN * 4; n < g->n && n < (int)(x + 1) * KN * 4; n++)
        if (!exact)
            run_column(g, row, last, n, k0, k1, 1);
        else if (!z)
            run_column(g, row, last, n, 0, g->k, 0);
}

static void run_gptq(const struct fake_cuda_launch *l, void *bits)
{
    static unsigned launches;      /* starts at the pid, so that processes differ */
    struct gemm g = read_params(l->params, (int)(intptr_t)bits);
    int m_count = (g.m + (int)l->grid[1] - 1) / (int)l->grid[1];
    unsigned turn, x, y, i;

    if (!launches)
        launches = (unsigned)getpid();
    turn = launches++;
    if (mode_is("fault") || g.k > MAX_K)
        g.a = NULL;
    for (y = 0; y < l->grid[1]; y++)
        for (x = 0; x < l->grid[0]; x++)
            for (i = 0; i < l->grid[2]; i++)
                run_block(&g, l, x, y, mode_is("steady") ? i : (i + turn) % l->grid[2], m_count);
    if (mode_is("notzero"))
        for (i = 0; i < (unsigned)(g.m * g.n); i++)
            add(&g.c[i], td_f16_load(g.c[i]));
    if (mode_is("behind"))
        g.c[(size_t)g.m * (size_t)g.n] = 0x3c00;
}

/* Parameters: qweight, perm, qzeros, scales, k, n, groups, v2, b [k, n]. b becomes the dequantised
 * W, its rows in the order of A's columns. */
__attribute__((no_sanitize("undefined"))) static void run_reconstruct(const struct fake_cuda_launch *l, void *bits)
{
    void **p = l->params;
    const struct gemm g = {.scales = *(void **)p[3], .qweight = *(void **)p[0], .qzeros = *(void **)p[2], .n = *(int *)p[5], .k = *(int *)p[4], .groups = *(int *)p[6],
                           .zero_offset = !*(char *)p[7], .bits = (int)(intptr_t)bits, .perm = *(void **)p[1], .shift = mode_is("scale")};
    uint16_t *b = mode_is("fault") ? NULL : *(void **)p[8];

    for (int k = 0; k < g.k - mode_is("hole") && l->grid[0] * KN >= (unsigned)g.n && l->grid[1] * KN >= (unsigned)g.k; k++)
        for (int n = 0; n < g.n; n++)
            b[(size_t)(g.perm ? g.perm[k] : k) * (size_t)g.n + (size_t)n] = td_f16_round((float)weight_at(&g, k, n));
    if (mode_is("behind"))
        b[(size_t)g.k * (size_t)g.n] = 0x3c00;
}

void fake_cuda_plugin(const struct fake_cuda_api *api);

void fake_cuda_plugin(const struct fake_cuda_api *api)
{
#define VLLM(bits, m) {"_ZN4vllm4gptq33gemm_half_q_half_gptq_" #bits "bit_kernelILb1ELi" #m "EEEvPK6__halfPKjS6_S4_PS2_iiiibPKi", bits}
#define RECONSTRUCT(bits) "_ZN4vllm4gptq31reconstruct_exllama_" #bits "bit_kernelEPKjPKiS2_PK6__halfiiibPS5_"
    static const struct { const char *symbol; int bits; } names[] = {VLLM(4, 1), VLLM(4, 4), VLLM(4, 8), VLLM(8, 1), VLLM(8, 4), VLLM(8, 8)};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct fake_cuda_kernel k = {.symbol = names[i].symbol, .n_params = 11, .run = run_gptq, .user = (void *)(intptr_t)names[i].bits,
                                     .param = {{0, 8}, {0, 8}, {0, 8}, {0, 8}, {0, 8}, {0, 4}, {0, 4}, {0, 4}, {0, 4}, {0, 1}, {0, 8}}};

        api->add_kernel(&k);
    }
    for (int bits = 4; bits <= 8; bits += 4) {
        struct fake_cuda_kernel k = {.symbol = bits == 4 ? RECONSTRUCT(4) : RECONSTRUCT(8), .n_params = 9, .run = run_reconstruct, .user = (void *)(intptr_t)bits,
                                     .param = {{0, 8}, {0, 8}, {0, 8}, {0, 8}, {0, 4}, {0, 4}, {0, 4}, {0, 1}, {0, 8}}};

        api->add_kernel(&k);
    }
}
