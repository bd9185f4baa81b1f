/* geometry_marlin.c - from an op to the launches of vLLM's Marlin kernels that compute it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpu/geometry_marlin.h"

#include <stdio.h>
#include <string.h>

#include "kernels/gpucode/mangled.h"
#include "model/marlin_layout.h"

#define TILE 16
#define MOST_M_BLOCKS 4
#define SMALL_N 4096
#define MOST_PARTS 16              /* parts of 64 rows in one launch; more with a small N: */
#define MOST_PARTS_SMALL_N 128
#define SLACK_BYTES 512            /* that no pipeline may take */
#define ABSURD (1 << 20)           /* of a template argument: larger ones fit no GPU, and no product of two overflows */

/* An instance of the template, by the arguments in its symbol from the fifth on. */
struct instance { int64_t threads, m_blocks, n_blocks, k_blocks, m_block_size_8, stages, group_blocks; };

/* A choice of vLLM's. */
struct tiles { int k, n, threads; };
static const struct tiles small_batch[] = {{128, 128, 256}, {64, 128, 128}, {128, 64, 128}};
static const struct tiles large_batch[] = {{64, 256, 256}, {64, 128, 128}, {128, 64, 128}};
static const struct tiles few_tiles = {128, 64, 128};

struct job {
    const struct td_gptq_op *op;
    const struct td_gpu_offer *offers; int n;
    const struct td_gpu_facts *gpu;
    bool symmetric;
};

static struct instance read_instance(const char *symbol)
{
    int64_t v[7];

    for (int i = 0; i < 7; i++) {
        v[i] = td_gpu_symbol_argument(symbol, 4 + i);
        if (v[i] < -1 || v[i] > ABSURD)
            v[i] = ABSURD;
    }
    return (struct instance){v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* ---- what an instance can do ----------------------------------------------------------------- */

/* vLLM's get_kernel_cache_size and get_scales_cache_size, for activations of 16 bits. */
static int64_t pipeline_bytes(const struct td_gptq_op *op, bool zeros, const struct instance *x)
{
    const int64_t k = x->k_blocks * TILE, n = x->n_blocks * TILE, m = x->m_blocks * TILE;
    const bool any_order = x->group_blocks == 0;
    const int64_t groups = x->group_blocks < 0 ? 1 : divide_up(k, any_order ? 32 : op->group_size);
    const int64_t b = x->stages * (k * n * op->bits / 32) * 4, reduce = m * (n + 8) * 2,
                  with_bias = (b < reduce ? b : reduce) + n * 2;
    int64_t most = b > reduce ? b : reduce, scales = groups * n * 2 * x->stages;

    if (with_bias > most)
        most = with_bias;
    if (any_order)
        scales = (groups * x->stages * 2 > 32 ? groups * x->stages * 2 : 32) * n * 2;
    return most + x->stages * m * k * 2 + scales + (zeros ? scales * op->bits / 16 : 0) + (any_order ? x->stages * k / 4 : 0);
}

static bool reads_zeros(const struct td_gpu_adapter *row)
{
    return td_gpu_field_at(row, "qzeros") >= 0;
}

/* Does the instance have the op's types: one of A, C and the scales, and one of the stored W? */
static bool has_types(const struct job *j, const struct td_gpu_offer *o)
{
    const int64_t type = j->op->dtype == TD_DT_BF16 ? TD_GPU_VLLM_BF16 : TD_GPU_VLLM_F16;

    return o->adapter->bits == j->op->bits && o->adapter->n_arguments &&
           o->adapter->arguments[0].value == type && j->op->scales_dtype == j->op->dtype &&
           (reads_zeros(o->adapter) || j->symmetric);
}

static bool has_groups(const struct td_gptq_op *op, const struct td_gpu_offer *o, int64_t group_blocks)
{
    if (group_blocks == 0)         /* rows of a group may lie anywhere: it reads g_idx */
        return td_gpu_field_at(o->adapter, "g_idx") >= 0 && op->groups > 1;
    return !op->g_idx && (group_blocks < 0 ? op->groups == 1 : op->groups > 1 && op->group_size == group_blocks * TILE);
}

static bool instance_can_compute(const struct job *j, const struct td_gpu_offer *o, int64_t rows)
{
    const struct instance x = read_instance(o->symbol);

    return x.threads >= 128 && x.threads <= 1024 && x.m_blocks >= 1 &&
           x.m_blocks <= MOST_M_BLOCKS && x.n_blocks >= 4 && x.n_blocks <= 16 && x.k_blocks >= 4 &&
           x.k_blocks <= 16 && x.stages >= 2 && x.stages <= 8 && has_types(j, o) &&
           has_groups(j->op, o, x.group_blocks) && j->op->n % (x.n_blocks * TILE) == 0 &&
           j->op->k % (x.k_blocks * TILE) == 0 && (!x.m_block_size_8 || rows <= 8);
}

/* ---- as recorded ----------------------------------------------------------------------------- */

static int find_recorded_offer(const struct job *j, const char *symbol)
{
    int i = 0;

    while (i < j->n && strcmp(j->offers[i].symbol, symbol))
        i++;
    return i < j->n ? i : -1;
}

/* Can the GPU make the recorded launch? Its blocks wait for each other, so all must run at once. */
static bool gpu_can_launch(const struct job *j, const struct td_op_launch *l, const struct td_gpu_offer *o)
{
    const struct instance x = read_instance(o->symbol);

    return l->grid[0] >= 1 && (int64_t)l->grid[0] <= j->gpu->multiprocessors && l->grid[1] == 1 &&
           l->grid[2] == 1 && l->block[0] == x.threads && l->block[1] == 1 && l->block[2] == 1 &&
           l->shared_bytes <= j->gpu->shared_max &&
           l->shared_bytes >= pipeline_bytes(j->op, reads_zeros(o->adapter), &x);
}

/* Plan the recorded launches. False: *why names what is missing. */
static bool plan_recorded(const struct job *j, const struct td_op_call *call, struct td_gpu_plan *plan, const char **why)
{
    int64_t row = 0;
    int i, at;

    *why = call->n_launches > TD_GPU_PLAN_MAX ? "more launches than this version makes" : "its launches were not recorded";
    for (i = 0; i < call->n_launches && i < TD_GPU_PLAN_MAX; i++) {
        const struct td_op_launch *l = &call->launches[i];

        *why = "the build lacks the instance that ran";
        if ((at = find_recorded_offer(j, l->symbol[0] ? l->symbol : call->symbol)) < 0)
            return false;
        *why = "the recorded launches are not those of this op, or not for this GPU";
        if (l->rows[0] != row || l->rows[1] <= row || l->rows[1] > j->op->m ||
            !instance_can_compute(j, &j->offers[at], l->rows[1] - row) ||
            !gpu_can_launch(j, l, &j->offers[at]) ||
            j->offers[at].adapter != j->offers[i ? plan->launch[0].offer : at].adapter)
            return false;
        plan->launch[i] = (struct td_gpu_launch){.offer = at,
                                                 .row0 = row,
                                                 .rows = l->rows[1] - row,
                                                 .grid = {l->grid[0], 1, 1},
                                                 .block = {l->block[0], 1, 1},
                                                 .shared_bytes = l->shared_bytes};
        row = l->rows[1];
    }
    plan->n = i;
    return i && i == call->n_launches && row == j->op->m;
}

/* ---- by vLLM's rules ------------------------------------------------------------------------- */

/* The index of the build's instance for these tiles; -1: it has none, or its pipeline does not fit. */
static int find_offer_by_tiles(const struct job *j, const struct tiles *t, int64_t m_blocks, int64_t rows, int64_t slack)
{
    int i;

    for (i = 0; i < j->n; i++) {
        struct instance x;

        if (!has_types(j, &j->offers[i]))
            continue;
        x = read_instance(j->offers[i].symbol);
        if (x.threads == t->threads && x.k_blocks * TILE == t->k && x.n_blocks * TILE == t->n &&
            x.m_blocks == m_blocks && x.m_block_size_8 == (rows <= 8) &&
            x.stages == (j->gpu->sm == 75 ? 2 : 4) &&
            (x.group_blocks == 0) == (j->op->g_idx != NULL) &&
            reads_zeros(j->offers[i].adapter) == !j->symmetric &&
            instance_can_compute(j, &j->offers[i], rows) &&
            pipeline_bytes(j->op, reads_zeros(j->offers[i].adapter), &x) <=
                (int64_t)j->gpu->shared_max - slack)
            return i;
    }
    return -1;
}

static int choose_instance(const struct job *j, int64_t m_blocks, int64_t rows)
{
    const struct tiles *all = m_blocks > 1 ? large_batch : small_batch;
    int i, at = -1, few;

    for (i = 0; i < 3 && at < 0; i++)
        at = find_offer_by_tiles(j, &all[i], m_blocks, rows, SLACK_BYTES);
    if (at < 0 || j->op->n / all[i - 1].n * divide_up(rows, m_blocks * TILE) * 4 > j->gpu->multiprocessors)
        return at;
    few = find_offer_by_tiles(j, &few_tiles, m_blocks, rows, 0);
    return few < 0 ? at : few;
}

/* How many of the `left` rows the next launch computes. */
static int64_t rows_of(const struct td_gptq_op *op, int64_t left, int64_t most_m_blocks)
{
    const int64_t most = op->n <= SMALL_N ? MOST_PARTS_SMALL_N : MOST_PARTS, parts = left / (most_m_blocks * TILE);

    return parts ? (parts < most ? parts : most) * most_m_blocks * TILE : left;
}

/* Plan as vLLM would. False: there is no instance for *rows rows; 0: there would be too many launches. */
static bool plan_by_rules(const struct job *j, int64_t m, struct td_gpu_plan *plan, int64_t *rows)
{
    int64_t most_m_blocks = MOST_M_BLOCKS, row = 0, m_blocks;
    int at;

    for (plan->n = 0; row < m; row += *rows) {
        do {
            *rows = rows_of(j->op, m - row, most_m_blocks);
            m_blocks = divide_up(*rows, TILE) < most_m_blocks ? divide_up(*rows, TILE) : most_m_blocks;
            at = choose_instance(j, m_blocks, *rows);
        } while (at < 0 && --most_m_blocks);
        if (at < 0)
            return false;
        if (plan->n == TD_GPU_PLAN_MAX) {
            *rows = 0;
            return false;
        }
        plan->launch[plan->n++] = (struct td_gpu_launch){
            .offer = at,
            .row0 = row,
            .rows = *rows,
            .grid = {(uint32_t)j->gpu->multiprocessors, 1, 1},
            .block = {(uint32_t)read_instance(j->offers[at].symbol).threads, 1, 1},
            .shared_bytes = j->gpu->shared_max};
    }
    return true;
}

/* ---- both ------------------------------------------------------------------------------------ */

static const char *refuse_marlin(const struct job *j, int64_t rows, const char *recorded, char *why, size_t size)
{
    const struct td_gptq_op *op = j->op;

    if (!rows)
        snprintf(why, size, "Marlin: more than %d launches for one op; this version makes no more", TD_GPU_PLAN_MAX);
    else
        snprintf(why, size,
                 "the build has Marlin, but no instance for this op (%s with %d bits, %s, groups "
                 "of %d%s, %lld x %lld, %lld rows at a time); %s",
                 td_dtype_name(op->dtype), op->bits,
                 j->symmetric ? "symmetric" : "with zero points", op->group_size,
                 op->g_idx ? " in any order" : "", (long long)op->k, (long long)op->n,
                 (long long)rows, recorded);
    return why;
}

const char *td_gpu_plan_marlin(const struct td_gptq_op *op, const struct td_op_call *call,
                               const struct td_gpu_offer *offers, int n,
                               const struct td_gpu_facts *gpu, struct td_gpu_plan *plan, char *why,
                               size_t size)
{
    const struct job j = {
        op, offers, n, gpu,
        td_marlin_zeros_are_symmetric(op->bits, op->groups, op->n, op->qzeros, op->zero_offset)};
    const char *recorded;
    int64_t rows;

    memset(plan, 0, sizeof *plan);
    if (op->k % TD_MARLIN_TILE_K || op->n % TD_MARLIN_TILE_N) {
        snprintf(why, size, "Marlin takes K in %ds and N in %ds, this op has %lld x %lld",
                 TD_MARLIN_TILE_K, TD_MARLIN_TILE_N, (long long)op->k, (long long)op->n);
        return why;
    }
    if (op->bias && op->bias->dtype != op->dtype) {
        snprintf(why, size, "Marlin takes a bias of A's type, this one is %s", td_dtype_name(op->bias->dtype));
        return why;
    }
    if (plan_recorded(&j, call, plan, &recorded))
        return NULL;
    if (!plan_by_rules(&j, op->m ? op->m : 1, plan, &rows))
        return refuse_marlin(&j, rows, recorded, why, size);
    plan->n = op->m ? plan->n : 0;
    return NULL;
}

size_t td_gpu_marlin_c_tmp_bytes(int64_t m, int64_t blocks)
{
    const int64_t rows = divide_up(m, TILE) * TILE, most = MOST_M_BLOCKS * TILE;

    return (size_t)(blocks * (rows < most ? rows : most)) * 256 * sizeof(float);
}
