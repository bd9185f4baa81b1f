/* ggml_mul_mat_ref.c - the right answer of a ggml_mul_mat: every row of weights is dequantised once and meets all its rows of A.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/ggml_mul_mat_ref.h"

#include <math.h>
#include <stdlib.h>

#include "common/memory.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/rowdot.h"

/* An activation whose code is in doubt: both are right. by : what the other one changes in A; sum : and, beside that, in what a minimum
 * is multiplied with, which is rounded on its own. */
struct doubt { int64_t row, i; double by, sum; };

/* A row in which the other code was taken is off in all its columns. So that its rms score stays below half of any limit, the output may
 * be off by this many times as much. */
#define DOUBTED 4

struct work {
    struct doubt *doubts; int64_t n_doubts, room;
    int64_t step, width;  /* elements that share a minimum; k, and a column more for each minimum of a row */
    double *a0, *a1, *w;  /* [rows, width], [rows, width] (may be a0), [width] */
    void *memory;
};

/* Fill `to` with A as stored (TD_ACT_NONE) or rounded; behind each row stand the sums that are multiplied
 * by the minima. */
static void round_rows(const struct td_ggml_mul_mat *x, enum td_ggml_act act, const struct work *k, double *to)
{
    for (int64_t i3 = 0; i3 < x->b3; i3++)
        for (int64_t i2 = 0; i2 < x->b2; i2++)
            for (int64_t i = 0; i < x->m; i++, to += k->width)
                td_ggml_round_row(act, td_ggml_mul_mat_a(x, i3, i2, i), x->k, to, (int)k->step, to + x->k);
}

static int make_work(const struct td_ggml_mul_mat *x, struct work *k, int64_t rows, struct td_error *err)
{
    const bool rounds = x->act != TD_ACT_NONE;
    size_t bytes;

    k->step = td_ggml_min_step(x->w_dtype);
    k->width = x->k + (k->step ? x->k / k->step : 0);
    if (__builtin_mul_overflow((size_t)k->width * sizeof(double),
                               (size_t)rows * (rounds ? 2 : 1) + 1, &bytes))
        return td_fail(err, TD_ELIMIT, "ggml_mul_mat: %lld rows are beyond what a reference is made for", (long long)rows);
    if (td_memory_room(bytes, "the reference of a ggml_mul_mat", err))
        return TD_ENOMEM;
    if (!(k->memory = malloc(bytes)))
        return td_fail(err, TD_ENOMEM, "ggml_mul_mat: out of memory for %lld rows of a reference", (long long)rows);
    k->w = k->memory;
    k->a0 = k->a1 = k->w + k->width;
    round_rows(x, TD_ACT_NONE, k, k->a0);
    if (rounds)
        round_rows(x, x->act, k, k->a1 = k->a0 + rows * k->width);
    return 0;
}

static int add_doubt(struct work *k, const struct doubt *d, struct td_error *err)
{
    if (k->n_doubts == k->room) {
        const int64_t room = k->room ? 2 * k->room : 64;
        struct doubt *more = NULL;

        if (!td_memory_room((uint64_t)room * sizeof *more, "activations in doubt", err))
            more = realloc(k->doubts, (size_t)room * sizeof *more);
        if (!more)
            return td_fail(err, TD_ENOMEM, "ggml_mul_mat: out of memory for activations in doubt");
        k->doubts = more;
        k->room = room;
    }
    k->doubts[k->n_doubts++] = *d;
    return 0;
}

/* Find all activations of which two codes are right. */
static int find_doubts(const struct td_ggml_mul_mat *x, struct work *k, struct td_error *err)
{
    double *by = malloc((size_t)x->k * sizeof *by + 1);
    int rc = by ? 0 : td_fail(err, TD_ENOMEM, "ggml_mul_mat: out of memory for a row of a reference");

    for (int64_t row = 0; !rc && row < x->b3 * x->b2 * x->m; row++) {
        const int64_t i2 = row / x->m;
        int64_t left = td_ggml_row_doubts(x->act, td_ggml_mul_mat_a(x, i2 / x->b2, i2 % x->b2, row % x->m), x->k, by);

        for (int64_t i = 0; !rc && left; i++) {
            struct doubt d = {row, i, by[i], 0};

            if (!by[i])
                continue;
            left--;
            if (x->act == TD_ACT_Q8_1 && k->step)
                d.sum = 0x1p-10 * (fabs(k->a1[row * k->width + x->k + i / k->step]) + by[i]);
            rc = add_doubt(k, &d, err);
        }
    }
    free(by);
    return rc;
}

/* Column n of the rows that a row of weights was multiplied with may be off by what these change. */
static void allow_doubts(const struct td_ggml_mul_mat *x, const struct work *k, struct td_op_ref *ref, int64_t row, int64_t rows, int64_t n)
{
    for (const struct doubt *d = k->doubts; d < k->doubts + k->n_doubts; d++) {
        const double min = k->step ? k->w[x->k + d->i / k->step] : 0;

        if (d->row >= row && d->row < row + rows)
            ref->slack[d->row * x->n + n] += DOUBTED * (d->by * fabs(k->w[d->i] + min) + d->sum * fabs(min));
    }
}

/* Multiply matrix (j3, j2) of W with the batches that it serves, which are neighbours in both directions. */
static void multiply_matrix(const struct td_ggml_mul_mat *x, const struct work *k, struct td_op_ref *ref, int64_t j3, int64_t j2)
{
    const int64_t wide = x->b2 / x->w2, high = x->b3 / x->w3;

    for (int64_t n = 0; n < x->n; n++) {
        td_ggml_split_row(x->w_dtype, td_ggml_mul_mat_w(x, j3, j2, n), x->k, k->w, k->w + x->k);
        for (int64_t h = 0; h < high; h++) {
            const int64_t row = ((j3 * high + h) * x->b2 + j2 * wide) * x->m, at = row * x->n + n;

            td_rowdot(&(struct td_rowdot){
                k->width, wide * x->m, k->w, k->w, k->a0 + row * k->width, k->a1 + row * k->width,
                ref->r0 + at, ref->r1 != ref->r0 ? ref->r1 + at : NULL, ref->mag + at, x->n});
            if (ref->slack)
                allow_doubts(x, k, ref, row, wide * x->m, n);
        }
    }
}

int td_ggml_mul_mat_ref(const struct td_ggml_mul_mat *x, struct td_op_ref *ref, struct td_error *err)
{
    struct work k = {0};
    int64_t rows;
    int rc;

    if (__builtin_mul_overflow(x->b3 * x->b2, x->m, &rows))
        return td_fail(err, TD_ELIMIT, "ggml_mul_mat: too many rows for a reference");
    if ((rc = td_op_ref_new(ref, rows, x->n, x->k, x->act != TD_ACT_NONE, err)))
        return rc;
    if ((rc = make_work(x, &k, rows, err)) || (rc = find_doubts(x, &k, err)) ||
        (k.n_doubts && (rc = td_op_ref_new_slack(ref, err)))) {
        free(k.doubts);
        free(k.memory);
        td_op_ref_release(ref);
        return rc;
    }
    for (int64_t j3 = 0; j3 < x->w3; j3++)
        for (int64_t j2 = 0; j2 < x->w2; j2++)
            multiply_matrix(x, &k, ref, j3, j2);
    free(k.doubts);
    free(k.memory);
    return 0;
}
