/* geometry.c - from an op to the launches of a build's kernels that compute it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpu/geometry.h"

#include <stdio.h>
#include <string.h>

#include "kernels/adapters/adapters.h"
#include "kernels/gptq_gemm/gptq_gemm_cu.h"
#include "kernels/gpucode/mangled.h"

/* q_gemm.cu: BLOCK_KN_SIZE, BLOCK_M_SIZE_MAX, (most rows: adapters.h) */
#define EXLLAMA_BLOCK 128
#define EXLLAMA_ROWS 8
#define EXLLAMA_K 32               /* K and groups are read in steps of this */

static bool starts_with(const char *s, const char *start)
{
    return !strncmp(s, start, strlen(start));
}

/* ---- vLLM's exllama kernels ------------------------------------------------------------------ */

/* The index of the instance <true, m_count>; -1: the build has none. */
static int instance_of(const struct td_gpu_offer *offers, int n, int64_t m_count)
{
    int i = 0;

    while (i < n && (td_gpu_symbol_argument(offers[i].symbol, 0) != 1 || td_gpu_symbol_argument(offers[i].symbol, 1) != m_count))
        i++;
    return i < n ? i : -1;
}

static const char *add_exllama(const struct td_gptq_op *op, const struct td_gpu_offer *offers,
                               int n, int64_t row0, int64_t rows, int64_t m_count,
                               struct td_gpu_plan *plan, char *why, size_t size)
{
    struct td_gpu_launch *l = &plan->launch[plan->n];
    int at = instance_of(offers, n, m_count);

    if (at < 0) {
        snprintf(why, size, "the build has %s, but not for %lld rows at a time (<true, %lld>)",
                 offers[0].adapter->identifier, (long long)m_count, (long long)m_count);
        return why;
    }
    *l = (struct td_gpu_launch){.offer = at, .row0 = row0, .rows = rows, .block = {EXLLAMA_BLOCK, 1, 1}};
    l->grid[0] = (uint32_t)((op->n + EXLLAMA_BLOCK * 4 - 1) / (EXLLAMA_BLOCK * 4));
    l->grid[1] = (uint32_t)((rows + m_count - 1) / m_count);
    l->grid[2] = (uint32_t)((op->k + EXLLAMA_BLOCK - 1) / EXLLAMA_BLOCK);
    plan->n++;
    return NULL;
}

const char *td_gpu_dequant_of(const struct td_gpu_adapter *adapter, const struct td_gptq_op *op)
{
    if (!strcmp(adapter->family, "gptq_exllama") && op->m > TD_GPU_EXLLAMA_MOST_ROWS(4))
        return "reconstruct_exllama_4bit_kernel";
    return !strcmp(adapter->family, "gptq_exllama_8bit") && op->m > TD_GPU_EXLLAMA_MOST_ROWS(8)
               ? "reconstruct_exllama_8bit_kernel"
               : NULL;
}

static const char *check_exllama(const struct td_gptq_op *op)
{
    return op->group_size % EXLLAMA_K || op->k % EXLLAMA_K
               ? "vLLM's kernel reads K and its groups in 32s, this op does not divide so"
               : NULL;
}

static const char *plan_exllama(const struct td_gptq_op *op, const struct td_gpu_offer *offers,
                                int n, struct td_gpu_plan *plan, char *why, size_t size)
{
    const int64_t eights = op->m / EXLLAMA_ROWS * EXLLAMA_ROWS;
    const char *no = NULL;

    if (td_gpu_dequant_of(offers[0].adapter, op)) {
        snprintf(why, size, "%lld rows: vLLM launches %s and cuBLAS for so many", (long long)op->m,
                 td_gpu_dequant_of(offers[0].adapter, op));
        return why;
    }
    no = check_exllama(op);
    if (!no && eights)
        no = add_exllama(op, offers, n, 0, eights, EXLLAMA_ROWS, plan, why, size);
    if (!no && op->m > eights)
        no = add_exllama(op, offers, n, eights, op->m - eights, op->m - eights, plan, why, size);
    return no;
}

static const char *plan_dequant_w(const struct td_gptq_op *op, struct td_gpu_plan *plan)
{
    const char *no = check_exllama(op);

    if (no)
        return no;
    plan->launch[0] = (struct td_gpu_launch){.rows = op->m, .block = {EXLLAMA_BLOCK, 1, 1}};
    plan->launch[0].grid[0] = (uint32_t)((op->n + EXLLAMA_BLOCK - 1) / EXLLAMA_BLOCK);
    plan->launch[0].grid[1] = (uint32_t)((op->k + EXLLAMA_BLOCK - 1) / EXLLAMA_BLOCK);
    plan->launch[0].grid[2] = 1;
    plan->n = 1;
    plan->dequant_w = true;
    return NULL;
}

/* ---- our own --------------------------------------------------------------------------------- */

static const char *plan_td(const struct td_gptq_op *op, struct td_gpu_plan *plan)
{
    struct td_gpu_launch *l = &plan->launch[0];

    *l = (struct td_gpu_launch){.rows = op->m};
    if (!td_gptq_cu_grid(op->m, op->n, l->grid, l->block))
        return "more rows than a grid holds";
    plan->n = 1;
    return NULL;
}

const char *td_gpu_plan_gptq(const struct td_gptq_op *op, const struct td_gpu_offer *offers, int n,
                             struct td_gpu_plan *plan, char *why, size_t size)
{
    const char *family = offers[0].adapter->family;

    memset(plan, 0, sizeof *plan);
    if (op->bits != offers[0].adapter->bits) {
        snprintf(why, size, "%s is for %d bits, this op has %d", offers[0].adapter->identifier,
                 offers[0].adapter->bits, op->bits);
        return why;
    }
    if (op->m == 0)
        return NULL;
    if (starts_with(family, "gptq_exllama"))
        return plan_exllama(op, offers, n, plan, why, size);
    if (starts_with(family, "reconstruct_exllama"))
        return plan_dequant_w(op, plan);
    if (starts_with(family, "td_gptq"))
        return plan_td(op, plan);
    snprintf(why, size,
             "the build has %s for this op, whose launches this version does not know how to make",
             offers[0].adapter->identifier);
    return why;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static bool parameter_value(const struct td_gptq_op *op, const char *name,
                            const struct td_gpu_launch *l, const struct td_gpu_places *at,
                            uint64_t *v)
{
    const struct { const char *name; uint64_t value;
    } all[] = {
        {"a", at->a + (uint64_t)(l->row0 * at->lda) * 2},
        {"c", at->c + (uint64_t)(l->row0 * at->ldc) * 2},
        {"qweight", at->qweight},
        {"qzeros", at->qzeros},
        {"scales", at->scales},
        {"perm", at->order},
        {"g_idx", at->order},
        {"m", (uint64_t)l->rows},
        {"n", (uint64_t)op->n},
        {"k", (uint64_t)op->k},
        {"groups", (uint64_t)op->groups},
        {"v2", !op->zero_offset},
        {"zero_offset", (uint64_t)op->zero_offset},
        {"lda", (uint64_t)at->lda},
        {"ldc", (uint64_t)at->ldc},
        {"b", at->dequant_w},
        {"bias", at->bias},
        {"has_bias", at->bias != 0},
        {"c_tmp", at->c_tmp},
        {"locks", at->locks},
        {"max_shared_mem", l->shared_bytes},
        {"use_atomic_add", 0},
        {"use_fp32_reduce", 1}, /* vLLM's defaults; a recording does not have them */
    };
    size_t i = 0, n = sizeof all / sizeof *all;

    while (i < n && strcmp(all[i].name, name))
        i++;
    *v = i < n ? all[i].value : 0;
    return i < n || !strcmp(name, "unused");
}

static bool describes_op(const struct td_gptq_op *op, const struct td_gpu_launch *l,
                         const struct td_gpu_places *at, const struct td_gpu_work *w)
{
    return (w->m == l->rows || td_gpu_field_at(w->adapter, "m") < 0) && w->n == op->n &&
           w->k == op->k && w->bits == op->bits && w->group_size == op->group_size &&
           w->act_order == (at->order != 0) &&
           (w->zero_offset == op->zero_offset ||
            !strcmp(w->adapter->layout,
                    "marlin")); /* Marlin stores true zero points whatever the offset */
}

int td_gpu_values_gptq(const struct td_gptq_op *op, const struct td_gpu_adapter *adapter,
                       const struct td_gpu_launch *l, const struct td_gpu_places *at,
                       struct td_gpu_values *v, struct td_error *err)
{
    struct td_gpu_work w;
    int i;

    memset(v, 0, sizeof *v);
    for (i = 0; i < adapter->n_fields; i++)
        if (!parameter_value(op, adapter->fields[i].name, l, at, &v->value[i]))
            return td_fail(err, TD_EUNSUPPORTED,
                           "%s: nobody knows what to give for its parameter %s",
                           adapter->identifier, adapter->fields[i].name);
    if (!td_gpu_work_read(adapter, v, &w) || !describes_op(op, l, at, &w))
        return td_fail(err, TD_EUNSUPPORTED, "%s cannot be asked for this op: its parameters cannot say %s", adapter->identifier,
                       op->zero_offset ? "its sizes" : "its sizes, or that stored zero points are the true ones (gptq_v2)");
    return TD_OK;
}
