/* gptq_product_ref.c - the right answer of every form of gptq_gemm, by blocks (product_ref.h).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Scales and zero points are decoded once for all rows of W that share them; then a weight costs a
 * shift, a subtraction and a product in double, sixteen columns at a time. */
#include <stdlib.h>

#include "common/memory.h"
#include "kernels/ops/gptq_any_ref.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/product_share.h"
#include "model/ggml_blocks.h"

#define INLINE static inline __attribute__((always_inline))
#define STRIP TD_PRODUCT_STRIP

struct form {
    const struct td_gptq_op *x;
    struct td_gptq_row_scale *row;  /* [m]; NULL: rows are not rounded */
    float *scale;                   /* [groups, n] */
    int32_t *zero;                  /* [groups, n], with zero_offset */
    int64_t k_from;                 /* the row of W that counts as the first: of a product of a part of K */
};

static void read_row(const void *ctx, int64_t i, int64_t k0, int64_t kn, double *stored, double *rounded)
{
    const struct form *f = ctx;

    td_ggml_split_row(f->x->dtype, (const char *)f->x->a + (size_t)(i * f->x->lda + f->k_from + k0) * td_dtype_size(f->x->dtype), kn, stored, NULL);
    if (rounded)
        td_gptq_op_round_row(&f->row[i], stored, kn, rounded);
}

static void decode_groups(const struct form *f)
{
    const struct td_gptq_op *x = f->x;
    const int pack = 32 / x->bits;
    const uint32_t mask = (1u << x->bits) - 1;

    for (int64_t g = 0; g < x->groups; g++)
        for (int64_t n = 0; n < x->n; n++) {
            f->scale[g * x->n + n] = (float)td_dtype_get(x->scales_dtype, x->scales, (size_t)(g * x->n + n));
            f->zero[g * x->n + n] =
                (int32_t)(x->qzeros[g * (x->n / pack) + n / pack] >> (x->bits * (n % pack)) & mask) + x->zero_offset;
        }
}

static int64_t group_of(const struct td_gptq_op *x, int64_t k)
{
    return x->g_idx ? x->g_idx[k] : k / x->group_size;
}

/* One strip of a block; cols is STRIP, as a constant, but at the right edge of W. */
INLINE void weight_strip(const struct form *f, const struct td_product_part *p, int64_t n0, const int cols, double *w)
{
    const struct td_gptq_op *x = f->x;
    const int pack = 32 / x->bits, bits = x->bits;
    const uint32_t mask = (1u << bits) - 1;

    for (int64_t j = 0; j < p->kn; j++, w += STRIP) {
        const int64_t k = f->k_from + p->k0 + j, g = group_of(x, k) * x->n + n0;
        const uint32_t *q = x->qweight + k / pack * x->n + n0;
        const int32_t *zero = f->zero + g;
        const float *scale = f->scale + g;
        const int shift = bits * (int)(k % pack);

        for (int i = 0; i < cols; i++)
            w[i] = (double)((int32_t)(q[i] >> shift & mask) - zero[i]) * (double)scale[i];
    }
}

INLINE void exact_weights(const struct form *f, const struct td_product_part *p, double *w)
{
    for (int64_t s = 0; s < p->cols; s += STRIP) {
        if (p->cols - s >= STRIP)
            weight_strip(f, p, p->n0 + s, STRIP, w + s * p->kn);
        else
            weight_strip(f, p, p->n0 + s, (int)(p->cols - s), w + s * p->kn);
    }
}

static void exact_plain(const struct form *f, const struct td_product_part *p, double *w)
{
    exact_weights(f, p, w);
}

#if defined(__clang__)
#define WIDEST
#else
#define WIDEST ",prefer-vector-width=512" /* for these loops gcc would take 256 bits */
#endif

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void exact_avx2(const struct form *f, const struct td_product_part *p, double *w)
{
    exact_weights(f, p, w);
}

__attribute__((target("avx512f" WIDEST)))
static void exact_avx512(const struct form *f, const struct td_product_part *p, double *w)
{
    exact_weights(f, p, w);
}
#else
#define exact_avx2 exact_plain
#define exact_avx512 exact_plain
#endif

/* The weights of a column that are of one group and stored as one number are one: with 4 bits, 16 in a group. */
struct known_weights { int64_t group; uint32_t known; double weight[16]; };

static double rounded_weight(const struct form *f, int64_t g, int q, struct known_weights *k)
{
    const struct td_gptq_op *x = f->x;

    if (x->bits != 4)
        return td_gptq_op_round_weight(x->rounding, q, f->zero[g], (double)f->scale[g]);
    if (g != k->group) {
        k->group = g;
        k->known = 0;
    }
    if (!(k->known >> q & 1)) {
        k->weight[q] = td_gptq_op_round_weight(x->rounding, q, f->zero[g], (double)f->scale[g]);
        k->known |= 1u << q;
    }
    return k->weight[q];
}

static void round_weights(const struct form *f, const struct td_product_part *p, double *w)
{
    const struct td_gptq_op *x = f->x;
    const int pack = 32 / x->bits;
    const uint32_t mask = (1u << x->bits) - 1;

    for (int64_t i = 0; i < p->cols; i++) {
        struct known_weights of_column = {.group = -1};

        for (int64_t j = 0; j < p->kn; j++) {
            const int64_t k = f->k_from + p->k0 + j, n = p->n0 + i, g = group_of(x, k) * x->n + n;
            const int q = (int)(x->qweight[k / pack * x->n + n] >> (x->bits * (int)(k % pack)) & mask);

            w[TD_PRODUCT_AT(p->kn, j, i)] = rounded_weight(f, g, q, &of_column);
        }
    }
}

static void read_weights(const void *ctx, const struct td_product_part *p, double *stored, double *rounded)
{
    if (td_cpu_can_run(TD_CPU_AVX512))
        exact_avx512(ctx, p, stored);
    else if (td_cpu_can_run(TD_CPU_AVX2))
        exact_avx2(ctx, p, stored);
    else
        exact_plain(ctx, p, stored);
    if (rounded)
        round_weights(ctx, p, rounded);
}

static int make_form(const struct td_gptq_op *x, struct form *f, struct td_error *err)
{
    const size_t weights = (size_t)x->groups * (size_t)x->n;
    const int rc = td_memory_room(weights * (sizeof *f->scale + sizeof *f->zero), "the reference of a gptq_gemm", err);

    *f = (struct form){.x = x};
    if (rc)
        return rc;
    f->scale = malloc(weights * sizeof *f->scale);
    f->zero = malloc(weights * sizeof *f->zero);
    if (x->rounding == TD_GPTQ_UINT8_TOKEN)
        f->row = malloc((size_t)(x->m + 1) * sizeof *f->row);
    if (!f->scale || !f->zero || (x->rounding == TD_GPTQ_UINT8_TOKEN && !f->row))
        return td_fail(err, TD_ENOMEM, "gptq_gemm: out of memory for the reference");
    decode_groups(f);
    for (int64_t i = 0; f->row && i < x->m; i++)
        f->row[i] = td_gptq_op_row_scale(x, i);
    return 0;
}

int td_gptq_op_ref_new(const struct td_gptq_op *x, struct td_op_ref *ref, struct td_error *err)
{
    int rc = td_op_ref_new(ref, x->m, x->n, x->k, x->rounding != TD_GPTQ_NONE, err);

    if (!rc && x->bias_after && (rc = td_op_ref_new_slack(ref, err)))
        td_op_ref_release(ref);
    return rc;
}

void td_gptq_op_ref_finish(const struct td_gptq_op *x, struct td_op_ref *ref)
{
    if (x->bias_after)
        td_op_ref_allow_rounding(ref, x->dtype);
    td_op_ref_add_bias(ref, x->bias);
}

int td_gptq_op_ref(const struct td_gptq_op *x, struct td_op_ref *ref, struct td_error *err)
{
    struct form f = {0};
    int rc = td_gptq_op_ref_new(x, ref, err);

    if (rc)
        return rc;
    if (!(rc = make_form(x, &f, err)) &&
        (rc = td_product_run(&(struct td_product){x->m, x->n, x->k, read_row, read_weights, &f, x->rounding == TD_GPTQ_UINT8_TOKEN,
                                                  td_gptq_rounds_weights(x->rounding), ref->r0, ref->r1, ref->mag})))
        td_fail(err, rc, "gptq_gemm: out of memory for the reference");
    free(f.scale);
    free(f.zero);
    free(f.row);
    if (rc)
        td_op_ref_release(ref);
    else
        td_gptq_op_ref_finish(x, ref);
    return rc;
}

int td_gptq_op_block_sums(const struct td_gptq_op *x, const struct td_k_blocks *b, td_block_sums_fn *tell, void *ctx, struct td_error *err)
{
    struct form f = {0};
    double *sums = malloc(((size_t)x->m * (size_t)x->n + 1) * sizeof *sums);
    int rc = sums ? make_form(x, &f, err) : td_fail(err, TD_ENOMEM, "gptq_gemm: out of memory for sums of a part of K");

    for (int64_t i = 0; i < td_k_blocks_count(b, x->k) && !rc; i++) {
        const int64_t kn = td_k_block_at(b, x->k, i, &f.k_from);
        const struct td_product p = {.m = x->m, .n = x->n, .k = kn, .row = read_row, .weights = read_weights, .ctx = &f, .r0 = sums};

        if ((rc = td_product_columns(&p, 0, x->n)))
            td_fail(err, rc, "gptq_gemm: out of memory for sums of a part of K");
        else
            tell(ctx, f.k_from, kn, sums);
    }
    free(f.scale);
    free(f.zero);
    free(f.row);
    free(sums);
    return rc;
}
