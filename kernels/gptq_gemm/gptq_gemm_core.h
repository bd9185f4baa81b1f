/* gptq_gemm_core.h - the kernel, written once over a vector of columns; each variant gives it a width and a few primitives.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The including file defines, before:
 *   WIDTH, ROWS, VECTORS              columns of a vector; rows of A at once; vectors at once for a single row
 *   vf, vu                            vectors of WIDTH float, uint32_t (GCC's vector extension)
 *   vf splat(float)                   vu load_words(const uint32_t *)
 *   vf load_halves(const uint16_t *)  void store_halves(uint16_t *, vf)   vf round_halves(vf): to f16 and back
 *   vf madd(vf a, vf b, vf c)         vf to_float(vu): values below 2^31
 *   vu load_zeros(const uint32_t *row, int n, int bits): WIDTH stored zero points from column n on
 *
 * Order of the sum, the same whatever ROWS or M: K is cut into blocks of at most BLOCK rows of W, none across a group, and a
 * block into words of 32/bits rows. In a word the products a * (q - zero) of even and of odd rows are added up apart
 * (as dot22_8_f of vLLM's q_gemm.cu does), then  sum += (even + odd) * scale.
 * With act-order, rows of W are taken in the order of their groups, and A is gathered to match. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gptq_gemm/gptq_gemm.h"
#include "kernels/gptq_gemm/gptq_gemm_steps.h"
#include "model/f16.h"

#define BLOCK 32
#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

struct block { int32_t first, end, group; }; /* rows [first, end) in the order of the sum */

/* One allocation, laid out as the members stand here. */
struct plan {
    float *a;             /* [ROWS, k] a chunk of A in the order of the sum */
    struct block *blocks;
    int n_blocks;
    int32_t *perm;        /* [k] act-order: the row of W that comes i-th; NULL: in order */
    void *memory;
};

/* ---- plan ------------------------------------------------------------------------------------------------------ */

static void add_blocks(struct plan *p, int32_t first, int32_t end, int32_t group)
{
    for (; first < end; first += BLOCK)
        p->blocks[p->n_blocks++] = (struct block){first, end - first < BLOCK ? end : first + BLOCK, group};
}

/* Counting sort of the rows by group, stable. starts : [groups + 1], zeroed. */
static int sort_rows(const struct td_gptq_gemm_args *x, struct plan *p, int32_t *starts, int32_t groups)
{
    for (int32_t k = 0; k < x->k; k++) {
        if (x->g_idx[k] < 0 || x->g_idx[k] >= groups)
            return TD_KERNEL_EINVAL;
        starts[x->g_idx[k] + 1]++;
    }
    for (int32_t g = 0; g < groups; g++) {
        starts[g + 1] += starts[g];
        add_blocks(p, starts[g], starts[g + 1], g);
    }
    for (int32_t k = 0; k < x->k; k++)
        p->perm[starts[x->g_idx[k]]++] = k;
    return TD_KERNEL_OK;
}

static int make_plan(const struct td_gptq_gemm_args *x, struct plan *p)
{
    const size_t k = (size_t)x->k, groups = k / (size_t)x->group_size, max_blocks = k / BLOCK + groups + 1;
    unsigned char *at = p->memory = calloc(1, ROWS * k * sizeof *p->a + max_blocks * sizeof *p->blocks
                                                  + (x->g_idx ? k + groups + 1 : 0) * sizeof *p->perm);

    if (!at)
        return TD_KERNEL_ENOMEM;
    p->a = (void *)at;
    at += ROWS * k * sizeof *p->a;
    p->blocks = (void *)at;
    at += max_blocks * sizeof *p->blocks;
    p->n_blocks = 0;
    p->perm = x->g_idx ? (void *)at : NULL;
    if (x->g_idx)
        return sort_rows(x, p, p->perm + k, (int32_t)groups);
    for (int32_t g = 0; g < (int32_t)groups; g++)
        add_blocks(p, g * x->group_size, (g + 1) * x->group_size, g);
    return TD_KERNEL_OK;
}

static void gather_rows(const struct td_gptq_gemm_args *x, struct plan *p, int32_t row, int rows)
{
    for (int r = 0; r < rows; r++)
        for (int32_t i = 0; i < x->k; i++)
            p->a[(size_t)r * (size_t)x->k + (size_t)i] =
                td_f16_load(STEP_A_BITS(x->a[STEP_A_INDEX(x, (int64_t)(row + r), (int64_t)(p->perm ? p->perm[i] : i))]));
}

/* ---- kernel: a tile of R rows and V vectors of columns ---------------------------------------------------------- */

/* q[v] = the words from which row i (in the order of the sum) is the lowest value. */
INLINE void take_words(const struct td_gptq_gemm_args *x, const struct plan *p, int32_t i, int n, vu q[], const int V,
                       const int bits, const bool act_order)
{
    const int32_t k = act_order ? p->perm[i] : i, pack = 32 / bits;

    UNROLL
    for (int v = 0; v < V; v++) {
        q[v] = STEP_WORD(x, load_words(x->qweight + (int64_t)(k / pack) * x->n + n + v * WIDTH), k);
        if (act_order)
            q[v] >>= (uint32_t)(bits * (k % pack));
    }
}

/* sum[r][v] += a[r][i] * (q[v] - zero[v]); the words move on to their next row. */
INLINE void add_row(const struct td_gptq_gemm_args *x, const struct plan *p, int32_t i, vu q[], const vf zero[], vf sum[],
                    const int R, const int V, const int bits)
{
    UNROLL
    for (int v = 0; v < V; v++) {
        const vf w = to_float(q[v] & ((1u << bits) - 1)) - zero[v];

        UNROLL
        for (int r = 0; r < R; r++)
            sum[r * V + v] = STEP_MADD(splat(p->a[(int64_t)r * x->k + i]), w, sum[r * V + v]);
        q[v] >>= (uint32_t)bits;
    }
}

/* Rows i .. i + count - 1 of one group, count <= 32/bits; without act-order they are one word. */
INLINE void add_word(const struct td_gptq_gemm_args *x, const struct plan *p, int32_t i, int count, int n, const vf zero[],
                     const vf scale[], vf sum[], const int R, const int V, const int bits, const bool act_order)
{
    vf part[2][ROWS * VECTORS]; /* even, odd */
    vu q[VECTORS];

    UNROLL
    for (int j = 0; j < R * V; j++)
        part[0][j] = part[1][j] = splat(0.0f);
    take_words(x, p, i, n, q, V, bits, act_order);
    UNROLL
    for (int j = 0; j < 32 / bits; j++) {
        if (act_order && j == count)
            break;
        if (act_order && j > 0)
            take_words(x, p, i + j, n, q, V, bits, act_order);
        add_row(x, p, i + j, q, zero, part[j & 1], R, V, bits);
    }
    UNROLL
    for (int j = 0; j < R * V; j++)
        sum[j] = STEP_MADD(STEP_LANE(x, part[0][j]) + STEP_LANE(x, part[1][j]), scale[j % V], sum[j]);
}

INLINE void take_group(const struct td_gptq_gemm_args *x, int32_t group, int n, vf zero[], vf scale[], const int V, const int bits)
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
                 const int bits, const bool act_order)
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
            add_word(x, p, i, b->end - i, n, zero, scale, sum, R, V, bits, act_order);
        UNROLL
        for (int j = 0; j < R * V; j++)
            sum[j] = STEP_BLOCK_END(x, sum[j]);
    }
    UNROLL
    for (int j = 0; j < R * V; j++)
        store_halves(c + j / V * x->ldc + n + j % V * WIDTH, sum[j]);
}

/* ---- launcher -------------------------------------------------------------------------------------------------- */

/* Columns [from, to). The last vector may start earlier and compute some columns twice, to the same result. */
INLINE void span(const struct td_gptq_gemm_args *x, const struct plan *p, uint16_t *c, int from, int to, const int R,
                 const int bits, const bool act_order)
{
    int n = from;

    for (; R == 1 && n + VECTORS * WIDTH <= to; n += VECTORS * WIDTH)
        tile(x, p, c, n, 1, VECTORS, bits, act_order);
    for (; n < to; n += WIDTH)
        tile(x, p, c, n + WIDTH <= x->n ? n : x->n - WIDTH, R, 1, bits, act_order);
}

typedef void span_fn(const struct td_gptq_gemm_args *x, const struct plan *p, uint16_t *c, int from, int to);

#define SPAN(R, bits, act_order)                                                                                             \
    static void span_##R##_##bits##_##act_order(const struct td_gptq_gemm_args *x, const struct plan *p, uint16_t *c,        \
                                                int from, int to)                                                            \
    {                                                                                                                        \
        span(x, p, c, from, to, R, bits, act_order);                                                                         \
    }
#define SPANS(R) SPAN(R, 4, 0) SPAN(R, 4, 1) SPAN(R, 8, 0) SPAN(R, 8, 1)
SPANS(1) SPANS(2) SPANS(3) SPANS(4)

static int run_core(const struct td_gptq_gemm_args *caller)
{
#define SPAN_NAMES(R) {{span_##R##_4_0, span_##R##_4_1}, {span_##R##_8_0, span_##R##_8_1}}
    static span_fn *const spans[ROWS][2][2] = {SPAN_NAMES(1), SPAN_NAMES(2), SPAN_NAMES(3), SPAN_NAMES(4)};
    struct td_gptq_gemm_args copy = *caller;
    const struct td_gptq_gemm_args *x = &copy;
    struct plan plan;
    int rc;

    STEP_ARGS(&copy);
    rc = make_plan(x, &plan);
    if (rc)
        goto done;
    STEP_PLAN(x, &plan);
    for (int32_t row = 0; row < x->m; row += ROWS) {
        const int rows = x->m - row < ROWS ? x->m - row : ROWS;
        span_fn *const columns = spans[rows - 1][x->bits == 8][plan.perm != NULL];
        uint16_t *c = x->c + row * x->ldc;

        gather_rows(x, &plan, row, rows);
        columns(x, &plan, c, 0, x->n);
        STEP_MORE(columns(x, &plan, c, 0, x->n / 10));
    }
done:
    free(plan.memory);
    return rc;
}
