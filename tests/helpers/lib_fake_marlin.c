/* lib_fake_marlin.c - plugin of the fake CUDA driver: vLLM's Marlin kernels as C functions, right
 * or wrong.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Weights lie as model/marlin_layout.h describes; the formulas here were written separately. As in
 * the real kernel, a weight of several groups is rounded after scaling, products are added in
 * float, the blocks of the grid share the tiles of K and N, and their sums meet in c_tmp. So the
 * shape of the launch decides the bits of a result, and the bits repeat. TD_FAKE_MARLIN=<word>:
 *   scale     read the scales in the checkpoint's order: a wrong layout
 *   lock      leave a lock taken at the end
 *   overrun   write c_tmp behind the memory that vLLM gives it */
#include <stdlib.h>
#include <string.h>

#include "common/f16.h"
#include "tests/helpers/fake_cuda/fake_cuda.h"
#include "tests/helpers/fake_marlin.h"

enum type { F16, BF16, U4, U4B8, U8B128 };
struct instance { enum type a, b; int threads, m_blocks, n_blocks, k_blocks, eight, group_blocks; };

struct gemm {
    const struct instance *x;
    const uint16_t *a, *scales, *bias;
    const uint32_t *b, *zeros;
    const int32_t *g_idx;
    uint16_t *c;
    float *c_tmp;
    int32_t *locks;
    int groups, m, n, k, lda, bits, grid, wrong_scales;
};

static int mode_is(const char *word)
{
    const char *env = getenv("TD_FAKE_MARLIN");

    return env && !strcmp(env, word);
}

static float load(const struct gemm *g, uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;

    if (g->x->a == F16)
        return td_f16_load(h);
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint16_t store(const struct gemm *g, float f)
{
    uint32_t bits;

    if (g->x->a == F16)
        return td_f16_round(f);
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static struct gemm read_params(const struct fake_cuda_launch *l, const struct instance *x)
{
    void **p = l->params;
    struct gemm g = {.x = x, .a = *(void **)p[0], .b = *(void **)p[1], .c = *(void **)p[2], .c_tmp = *(void **)p[3], .scales = *(void **)p[6], .zeros = *(void **)p[8],
                     .g_idx = *(void **)p[9], .groups = *(int *)p[10], .m = *(int *)p[11], .n = *(int *)p[12], .k = *(int *)p[13], .lda = *(int *)p[14],
                     .locks = *(void **)p[15], .bits = x->b == U8B128 ? 8 : 4, .grid = (int)l->grid[0], .wrong_scales = mode_is("scale")};

    if (*(char *)p[16])
        g.bias = *(void **)p[4];
    return g;
}

/* ---- the layout ------------------------------------------------------------------------------ */

static int integer_at(const struct gemm *g, int k, int n)
{
    int r = k % 16, c = n % 64, t = c % 8 * 4 + r % 8 / 2, i = r % 2 + r / 8 * 2, h = c % 16 / 8;
    const uint32_t *tile = g->b + (size_t)(k / 16) * (size_t)(g->n * g->bits / 2) + (size_t)(n / 64) * 32 * (size_t)g->bits;

    if (g->bits == 4)
        return (int)(tile[4 * t + c / 16] >> 4 * (i % 2 * 4 + h * 2 + i / 2) & 15);
    return (int)(tile[8 * t + c / 16 * 2 + h] >> 8 * (i % 2 * 2 + i / 2) & 255);
}

static int column_of_several(int n)
{
    return n / 64 * 64 + n % 8 * 8 + n % 64 / 8;
}

static int column_of_one(int n)
{
    return n / 32 * 32 + n % 8 / 2 * 8 + n % 32 / 8 * 2 + n % 2;
}

static float scale_at(const struct gemm *g, int group, int n)
{
    int at = g->wrong_scales ? n : g->groups > 1 ? column_of_several(n) : column_of_one(n);

    return load(g, g->scales[(size_t)group * (size_t)g->n + (size_t)at]);
}

static int zero_at(const struct gemm *g, int group, int n)
{
    int p = column_of_several(n), e = p % 8;

    if (g->x->b != U4)
        return g->x->b == U4B8 ? 8 : 128;
    return (int)(g->zeros[group * (g->n / 8) + p / 8] >> 4 * (e % 2 * 4 + e / 2) & 15);
}

/* ---- the product ----------------------------------------------------------------------------- */

static float weight_at(const struct gemm *g, int k, int n)
{
    int group = g->x->group_blocks == 0 ? g->g_idx[k] : k / (g->k / g->groups);
    float w = (float)(integer_at(g, k, n) - zero_at(g, group, n));

    return g->groups > 1 ? load(g, store(g, w * scale_at(g, group, n))) : w;
}

/* How far a block goes along K: the tiles are numbered down the columns, and each block gets as
 * many. */
static int share_of(const struct gemm *g)
{
    int tile = g->x->k_blocks * 16, tiles = g->k / tile * (g->n / (g->x->n_blocks * 16)), each = (tiles + g->grid - 1) / g->grid;

    return each * tile;
}

/* a: [m, k], decoded once for all columns */
static void run_column(const struct gemm *g, const float *a, const float *w, int n, int share)
{
    for (int i = 0; i < g->m; i++) {
        float *tmp = &g->c_tmp[i % 64], sum = 0;

        for (int k = 0; k < g->k; k++) {
            if (k % share == 0) {
                *tmp = k ? *tmp + sum : 0;
                sum = 0;
            }
            sum += a[(size_t)i * (size_t)g->k + (size_t)k] * w[k];
        }
        sum = *tmp + sum;
        sum = g->groups > 1 ? sum : sum * scale_at(g, 0, n);
        g->c[(size_t)i * (size_t)g->n + (size_t)n] = store(g, g->bias ? sum + load(g, g->bias[column_of_one(n)]) : sum);
    }
}

/* Check what the kernel relies on: geometry, shared memory, flags, free locks. */
static int is_launched_well(const struct gemm *g, const struct fake_cuda_launch *l)
{
    int ok = l->block[0] == (unsigned)g->x->threads && l->shared_bytes == (unsigned)*(int *)l->params[19] && l->shared_bytes > 48 << 10 && *(char *)l->params[18]
             && !*(char *)l->params[17] && (!g->x->eight || g->m <= 8);

    for (int i = 0; i < g->grid; i++)
        ok = ok && !g->locks[i];
    return ok;
}

static void run(const struct fake_cuda_launch *l, void *user)
{
    struct gemm g = read_params(l, user);
    const size_t rows = g.m > 64 ? 64 : (size_t)(g.m + 15) / 16 * 16, floats = (size_t)g.grid * rows * 256;
    int share = share_of(&g);
    float *w, *a;

    g.c_tmp[floats - 1 + (size_t)mode_is("overrun")] = 0;
    if (!is_launched_well(&g, l))
        return; /* C stays as it was */
    w = malloc((size_t)g.k * ((size_t)g.m + 1) * sizeof *w);
    a = w + g.k;
    for (int i = 0; i < g.m && w; i++)
        for (int k = 0; k < g.k; k++)
            a[(size_t)i * (size_t)g.k + (size_t)k] = load(&g, g.a[(size_t)i * (size_t)g.lda + (size_t)k]);
    for (int n = 0; n < g.n && w; n++) {
        for (int k = 0; k < g.k; k++)
            w[k] = weight_at(&g, k, n);
        run_column(&g, a, w, n, share);
    }
    g.locks[g.grid - 1] = mode_is("lock");
    free(w);
}

void fake_cuda_plugin(const struct fake_cuda_api *api);

void fake_cuda_plugin(const struct fake_cuda_api *api)
{
    enum { n1 = -1 };
#define ENTRY(a, b, threads, m, n, k, eight, groups) \
    {FAKE_MARLIN(FAKE_MARLIN_##a, FAKE_MARLIN_##b, threads, m, n, k, eight, #groups), {a, b, threads, m, n, k, eight, groups}},
    static const struct { const char *symbol; struct instance x; } all[] = {FAKE_MARLIN_INSTANCES(ENTRY)};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct fake_cuda_kernel k = {.symbol = all[i].symbol, .n_params = 20, .run = run, .user = (void *)(uintptr_t)&all[i].x};

        for (int p = 0; p < 20; p++)
            k.param[p].size = p < 10 || p == 15 ? 8 : p >= 16 && p < 19 ? 1 : 4;
        api->add_kernel(&k);
    }
}
