/* gptq_cu_case.h - random GPTQ products for our GPU kernels, in either layout, each array between guard pages.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_KERNELS_GPTQ_GEMM_GPTQ_CU_CASE_H
#define TD_TESTS_UNIT_KERNELS_GPTQ_GEMM_GPTQ_CU_CASE_H

#include <stdio.h>

#include "kernels/gptq_gemm/gptq_gemm_cu.h"
#include "kernels/simt/simt_launch.h"
#include "tests/unit/kernels/gptq_gemm/gptq_case.h"

typedef int cu_launch_fn(const char *symbol, struct td_simt_dim grid, struct td_simt_dim block, size_t shared_bytes, void *const *params, uint64_t seed,
                         int warp, struct td_error *err);

/* x : as in the checkpoint, for the reference; args : what the kernel gets. */
struct gptq_cu_case {
    struct gptq_case x;
    struct td_gptq_gemm_args args;
    bool exllama;
    struct guarded words, perm;
};

static inline unsigned cu_case_q(const struct td_gptq_gemm_args *x, int64_t k, int64_t n)
{
    const int pack = 32 / x->bits;

    return x->qweight[k / pack * x->n + n] >> (x->bits * (k % pack)) & ((1u << x->bits) - 1);
}

/* Rows sorted by group, and 4-bit words in exllama's order of nibbles. */
static inline void cu_case_to_exllama(struct gptq_cu_case *t, bool at_end)
{
    const struct td_gptq_gemm_args *x = &t->x.x;
    const int pack = 32 / x->bits;
    int32_t *perm = NULL;
    uint32_t *words;
    int at = 0;

    t->words = guarded_new((size_t)x->k / (size_t)pack * (size_t)x->n * 4, at_end);
    words = t->words.data;
    if (x->g_idx) {
        t->perm = guarded_new((size_t)x->k * 4, at_end);
        perm = t->perm.data;
        for (int g = 0; g < x->k / x->group_size; g++)
            for (int k = 0; k < x->k; k++)
                if (x->g_idx[k] == g)
                    perm[at++] = k;
    }
    for (int k = 0; k < x->k; k++)
        for (int n = 0; n < x->n; n++) {
            static const int nibble[] = {0, 4, 1, 5, 2, 6, 3, 7}; /* k = 0 2 4 6 1 3 5 7 from the lowest bits on */
            const int place = x->bits == 4 ? nibble[k % 8] : k % 4;

            words[k / pack * x->n + n] |= cu_case_q(x, perm ? perm[k] : k, n) << (x->bits * place);
        }
    t->args.qweight = words;
    t->args.g_idx = perm;
}

static inline void cu_case_new(struct gptq_cu_case *t, const struct gptq_shape *s, bool exllama, bool at_end)
{
    memset(t, 0, sizeof *t);
    case_new(&t->x, s, at_end);
    t->args = t->x.x;
    t->exllama = exllama;
    if (exllama)
        cu_case_to_exllama(t, at_end);
}

/* sums : "f32" or "f16". m of t->x.x counts. */
static inline void cu_case_run(struct gptq_cu_case *t, cu_launch_fn *launch, const char *sums, uint64_t seed, int warp)
{
    struct td_gptq_cu_call call;
    uint32_t grid[3], block[3];
    struct td_error err = {0};
    char symbol[64];

    t->args.m = t->x.x.m;
    snprintf(symbol, sizeof symbol, "td_gptq_gemm_%s%dbit_%s", t->exllama ? "exllama_" : "", t->args.bits, sums);
    td_gptq_cu_call_of(&t->args, &call);
    if (!td_gptq_cu_grid(t->args.m, t->args.n, grid, block)
        || launch(symbol, (struct td_simt_dim){grid[0], grid[1], grid[2]}, (struct td_simt_dim){block[0], block[1], block[2]}, 0, call.param, seed, warp, &err)) {
        fprintf(stderr, "%s: %s\n", symbol, err.msg);
        abort();
    }
}

static inline void cu_case_release(struct gptq_cu_case *t)
{
    if (t->words.map)
        munmap(t->words.map, t->words.map_size);
    if (t->perm.map)
        munmap(t->perm.map, t->perm.map_size);
    case_release(&t->x);
}

#endif
