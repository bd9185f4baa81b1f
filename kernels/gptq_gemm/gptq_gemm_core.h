/* gptq_gemm_core.h - the CPU kernel, written once over a vector of columns; each variant gives it a width and a few primitives.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file defines, before:
 *   WIDTH, VECTORS                    columns of a vector; vectors at once for a single row of A
 *   vf, vu                            vectors of WIDTH float, uint32_t (GCC's vector extension)
 *   vf splat(float)                   vu load_words(const uint32_t *)
 *   vf load_halves(const uint16_t *)  void store_halves(uint16_t *, vf)   vf round_halves(vf): to f16 and back
 *   vf madd(vf a, vf b, vf c)         vf to_float(vu): values below 2^31
 *   vu load_zeros(const uint32_t *row, int n, int bits): WIDTH stored zero points from column n on
 *
 * Order of the sum, the same for every M: K is cut into blocks of at most BLOCK rows of W, none across a
 * group, and a block into words of 32/bits rows. In a word the products a * (q - zero) of even and of odd
 * rows are added up apart (as dot22_8_f of vLLM's q_gemm.cu does), then  sum += (even + odd) * scale.
 * With act-order, rows of W come in the order of their groups, each group filled up to whole words with
 * rows whose activation is 0; A is gathered to match, and words are put together as they are needed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gptq_gemm/gptq_gemm.h"
#include "kernels/gptq_gemm/gptq_gemm_steps.h"
#include "common/f16.h"

#define BLOCK 32
#define ROWS 4 /* of A at once, or one */
#define INLINE static inline __attribute__((always_inline))
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* sanitized builds: saves a minute of compiling */
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

struct block { int32_t first, end, group; }; /* places [first, end) in the order of the sum */

/* The arrays lie in one allocation, in this order. */
struct plan {
    float *a;             /* [ROWS, len] a chunk of A in the order of the sum */
    struct block *blocks;
    int32_t *perm;        /* [len] act-order: the row of W at each place, -1 = none; NULL: in order */
    int32_t *groups;      /* [groups] act-order: where each group starts, then where its next row goes */
    int n_blocks, len;    /* len: k, with what fills up groups */
    void *memory;
};

/* ---- plan ------------------------------------------------------------------------------------ */

static void add_blocks(struct plan *p, int32_t first, int32_t end, int32_t group)
{
    for (; first < end; first += BLOCK)
        p->blocks[p->n_blocks++] = (struct block){first, end - first < BLOCK ? end : first + BLOCK, group};
}

/* Counting sort of the rows by group, stable. p->groups is zeroed. */
static int sort_rows(const struct td_gptq_gemm_args *x, struct plan *p, int32_t groups)
{
    const int32_t pack = 32 / x->bits;
    int32_t at = 0;

    for (int32_t k = 0; k < x->k; k++) {
        if (x->g_idx[k] < 0 || x->g_idx[k] >= groups)
            return TD_KERNEL_EINVAL;
        p->groups[x->g_idx[k]]++;
    }
    for (int32_t g = 0; g < groups; g++) {
        const int32_t first = at;

        at += (p->groups[g] + pack - 1) / pack * pack;
        add_blocks(p, first, at, g);
        p->groups[g] = first;
    }
    p->len = at;
    for (int32_t i = 0; i < at; i++)
        p->perm[i] = -1;
    for (int32_t k = 0; k < x->k; k++)
        p->perm[p->groups[x->g_idx[k]]++] = k;
    return TD_KERNEL_OK;
}

static int make_plan(const struct td_gptq_gemm_args *x, struct plan *p)
{
    const size_t groups = (size_t)(x->k / x->group_size), max_blocks = (size_t)x->k / BLOCK + groups;
    const size_t max_len = (size_t)x->k + (x->g_idx ? groups * 7 : 0);
    unsigned char *at = calloc(1, ROWS * max_len * sizeof *p->a + max_blocks * sizeof *p->blocks
                                      + (x->g_idx ? max_len + groups : 0) * sizeof *p->perm);

    *p = (struct plan){.memory = at, .len = x->k};
    if (!at)
        return TD_KERNEL_ENOMEM;
    p->a = (void *)at;
    p->blocks = (void *)(at += ROWS * max_len * sizeof *p->a);
    if (x->g_idx) {
        p->perm = (void *)(at += max_blocks * sizeof *p->blocks);
        p->groups = p->perm + max_len;
        return sort_rows(x, p, (int32_t)groups);
    }
    for (int32_t g = 0; g < (int32_t)groups; g++)
        add_blocks(p, g * x->group_size, (g + 1) * x->group_size, g);
    return TD_KERNEL_OK;
}

static void gather_rows(const struct td_gptq_gemm_args *x, struct plan *p, int32_t row, int rows)
{
    for (int r = 0; r < rows; r++)
        for (int32_t i = 0; i < p->len; i++) {
            const int64_t k = p->perm ? p->perm[i] : i;

            p->a[(int64_t)r * p->len + i] = k < 0 ? 0.0f : td_f16_load(STEP_A_BITS(x->a[STEP_A_INDEX(x, (int64_t)(row + r), k)]));
        }
}

/* ---- kernel: a tile of R rows and V vectors of columns --------------------------------------- */

/* The word of places i .. i + 32/bits - 1 and columns from n on. */
INLINE vu take_word(const struct td_gptq_gemm_args *x, const struct plan *p, int32_t i, int n, const int bits)
{
    const int32_t pack = 32 / bits;
    vu word;

    if (!p->perm)
        return STEP_WORD(x, load_words(x->qweight + (int64_t)(i / pack) * x->n + n), i);
    word = (vu){0};
    for (int32_t j = 0, k; j < pack && (k = p->perm[i + j]) >= 0; j++) {
        const vu from = STEP_WORD(x, load_words(x->qweight + (int64_t)(k / pack) * x->n + n), k);

        word |= (from >> (uint32_t)(bits * (k % pack)) & ((1u << bits) - 1)) << (uint32_t)(bits * j);
    }
    return word;
}

/* sum[r][v] += a[r][i] * (lowest value of word[v] - zero[v]); the words move on to their next place. */
INLINE void add_row(const struct plan *p, int32_t i, vu word[], const vf zero[], vf sum[],
                    const int R, const int V, const int bits)
{
    UNROLL
    for (int v = 0; v < V; v++) {
        const vf w = to_float(word[v] & ((1u << bits) - 1)) - zero[v];

        UNROLL
        for (int r = 0; r < R; r++)
            sum[r * V + v] = madd(splat(p->a[(int64_t)r * p->len + i]), w, sum[r * V + v]);
        word[v] >>= (uint32_t)bits;
    }
}

INLINE void add_word(const struct td_gptq_gemm_args *x, const struct plan *p, int32_t i, int n, const vf zero[],
                     const vf scale[], vf sum[], const int R, const int V, const int bits)
{
    vf part[2][ROWS * VECTORS]; /* even, odd */
    vu word[VECTORS];

    UNROLL
    for (int j = 0; j < R * V; j++)
        part[0][j] = part[1][j] = splat(0.0f);
    UNROLL
    for (int v = 0; v < V; v++)
        word[v] = take_word(x, p, i, n + v * WIDTH, bits);
    UNROLL
    for (int j = 0; j < 32 / bits; j++)
        add_row(p, i + j, word, zero, part[j & 1], R, V, bits);
    UNROLL
    for (int j = 0; j < R * V; j++)
        sum[j] = STEP_SCALE_ADD(STEP_LANE(x, part[0][j]) + STEP_LANE(x, part[1][j]), scale[j % V], sum[j]);
}

INLINE void take_group(const struct td_gptq_gemm_args *x, int32_t group, int n, vf zero[],
                       vf scale[], const int V, const int bits)
{
    UNROLL
    for (int v = 0; v < V; v++) {
        const int column = STEP_COLUMN(x, n + v * WIDTH);
        const vu stored = load_zeros(x->qzeros + (int64_t)group * x->n / (32 / bits), column, bits);

        zero[v] = STEP_ZERO(x, to_float(stored) + (float)x->zero_offset);
        scale[v] = STEP_SCALE(x, load_halves(x->scales + (int64_t)group * x->n + column));
    }
}

/* c : the first row of the chunk that lies in p->a; the tile starts at column n. */
INLINE void tile(const struct td_gptq_gemm_args *x, const struct plan *p, uint16_t *c, int n, const int R, const int V,
                 const int bits)
{
    vf sum[ROWS * VECTORS], zero[VECTORS], scale[VECTORS];
    int32_t group = p->blocks->group;

    take_group(x, group, n, zero, scale, V, bits);
    UNROLL
    for (int j = 0; j < R * V; j++)
        sum[j] = STEP_START(x, c + j / V * x->ldc + n + j % V * WIDTH);
    for (const struct block *b = p->blocks; b < p->blocks + p->n_blocks; b++) {
        if (b->group != group)
            take_group(x, group = b->group, n, zero, scale, V, bits);
        for (int32_t i = b->first; i < b->end; i += 32 / bits)
            add_word(x, p, i, n, zero, scale, sum, R, V, bits);
        UNROLL
        for (int j = 0; j < R * V; j++)
            sum[j] = STEP_BLOCK_END(x, sum[j]);
    }
    UNROLL
    for (int j = 0; j < R * V; j++)
        store_halves(c + j / V * x->ldc + n + j % V * WIDTH, STEP_END(x, sum[j], n + j % V * WIDTH));
}

/* ---- launcher -------------------------------------------------------------------------------- */

/* Columns [from, to). The last vector may start earlier and compute some columns twice, to the same result. */
INLINE void span(const struct td_gptq_gemm_args *x, const struct plan *p, uint16_t *c, int from,
                 int to, const int R, const int bits)
{
    int n = from;

    for (; R == 1 && n + VECTORS * WIDTH <= to; n += VECTORS * WIDTH)
        tile(x, p, c, n, 1, VECTORS, bits);
    for (; n < to; n += WIDTH)
        tile(x, p, c, n + WIDTH <= x->n ? n : x->n - WIDTH, R, 1, bits);
}

typedef void span_fn(const struct td_gptq_gemm_args *x, const struct plan *p, uint16_t *c, int from, int to);

#define SPAN(name, R, bits)                                                                                                   \
    static void name(const struct td_gptq_gemm_args *x, const struct plan *p, uint16_t *c, int from, int to)                  \
    {                                                                                                                         \
        span(x, p, c, from, to, R, bits);                                                                                     \
    }
SPAN(one_row_4, 1, 4)
SPAN(one_row_8, 1, 8)
SPAN(rows_4, ROWS, 4)
SPAN(rows_8, ROWS, 8)

static int run_core(const struct td_gptq_gemm_args *caller)
{
    static span_fn *const spans[2][2] = {{one_row_4, one_row_8}, {rows_4, rows_8}};
    struct td_gptq_gemm_args copy = *caller;
    const struct td_gptq_gemm_args *x = &copy;
    struct plan plan;
    int rc;

    STEP_ARGS(&copy);
    rc = make_plan(x, &plan);
    if (rc)
        goto done;
    STEP_PLAN(x, &plan);
    for (int32_t row = 0, rows; row < x->m; row += rows) {
        rows = x->m - row < ROWS ? 1 : ROWS; /* every further size costs compile time, 20 builds of it with the planted bugs */
        span_fn *const columns = spans[rows == ROWS][x->bits == 8];
        uint16_t *c = x->c + row * x->ldc;

        gather_rows(x, &plan, row, rows);
        columns(x, &plan, c, 0, x->n);
        STEP_MORE(columns(x, &plan, c, 0, x->n / 10));
    }
done:
    free(plan.memory);
    return rc;
}
