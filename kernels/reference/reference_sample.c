/* reference_sample.c - elements of a reference, computed again in plain C.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/reference/reference_sample.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/ops/gemm_ref.h"
#include "kernels/ops/gptq_any_ref.h"

struct sums { double r0, r1, mag; };

/* Both may be no number, or the same Inf. */
static bool agree(double a, double b, double mag)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= TD_REFERENCE_ROOM * mag;
}

static int check_element(const struct td_op_ref *ref, int64_t i, int64_t j, const struct sums *s, struct td_error *err)
{
    const int64_t at = i * ref->cols + j;

    if (agree(ref->r0[at], s->r0, s->mag) && agree(ref->r1[at], s->r1, s->mag) && agree(ref->mag[at], s->mag, s->mag))
        return TD_OK;
    return td_fail(err, TD_ECORRUPT, "the GPU's reference is wrong: at row %lld, column %lld it has %.17g, and |A||W| %.17g; "
                   "the reference in C has %.17g, and %.17g (--reference cpu judges without a GPU)",
                   (long long)i, (long long)j, ref->r1[at], ref->mag[at], s->r1, s->mag);
}

static struct sums sums_of(int64_t k, const double *a0, const double *a1, const double *w0, const double *w1)
{
    struct sums s = {0};

    for (int64_t i = 0; i < k; i++) {
        s.r0 += a0[i] * w0[i];
        s.r1 += a1[i] * w1[i];
        s.mag += fabs(a1[i] * w1[i]);
    }
    return s;
}

/* How many places spread() gives of n: one of each of `most` equal parts, and the last of all. */
static int64_t places(int64_t most, int64_t n)
{
    return n <= most ? n : most + 1;
}

/* The j-th of these places. */
static int64_t spread(int64_t j, int64_t most, int64_t n, uint64_t *seed)
{
    const int64_t from = n * j / most, room = n * (j + 1) / most - from;

    if (n <= most)
        return j;
    if (j == most)
        return n - 1;
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return from + (int64_t)((*seed >> 33) % (uint64_t)room);
}

typedef void column_fn(const void *x, int64_t n, double *stored, double *rounded);
typedef void row_fn(const void *x, int64_t i, double *stored, double *rounded);

static int sample(const void *x, int64_t k, row_fn *row, column_fn *column, bool own_a, bool own_w, const struct td_op_ref *ref, uint64_t seed,
                  struct td_error *err)
{
    const int64_t rows = places(TD_REFERENCE_SAMPLE_ROWS, ref->rows), cols = places(TD_REFERENCE_SAMPLE_COLS, ref->cols);
    double *memory = malloc((size_t)k * (size_t)(2 * rows + 2) * sizeof *memory + 1), *w0, *w1;
    int64_t at[TD_REFERENCE_SAMPLE_ROWS + 1];
    int rc = TD_OK;

    if (!memory)
        return td_fail(err, TD_ENOMEM, "out of memory for a sample of a reference");
    w0 = memory + 2 * rows * k;
    w1 = own_w ? w0 + k : w0;
    for (int64_t i = 0; i < rows; i++) {
        double *a = memory + 2 * i * k;

        at[i] = spread(i, TD_REFERENCE_SAMPLE_ROWS, ref->rows, &seed);
        row(x, at[i], a, own_a ? a + k : a);
    }
    for (int64_t j = 0; !rc && j < cols; j++) {
        const int64_t n = spread(j, TD_REFERENCE_SAMPLE_COLS, ref->cols, &seed);

        column(x, n, w0, w1);
        for (int64_t i = 0; !rc && i < rows; i++) {
            const double *a = memory + 2 * i * k;
            const struct sums s = sums_of(k, a, own_a ? a + k : a, w0, w1);

            rc = check_element(ref, at[i], n, &s, err);
        }
    }
    free(memory);
    return rc;
}

static void gptq_row(const void *x, int64_t i, double *stored, double *rounded)
{
    td_gptq_op_row(x, i, stored, rounded);
}

static void gptq_column(const void *x, int64_t n, double *stored, double *rounded)
{
    td_gptq_op_columns(x, n, 1, stored, rounded);
}

int td_reference_sample_gptq(const struct td_gptq_op *x, const struct td_op_ref *ref, uint64_t seed, struct td_error *err)
{
    return sample(x, x->k, gptq_row, gptq_column, x->rounding == TD_GPTQ_UINT8_TOKEN, td_gptq_rounds_weights(x->rounding), ref, seed, err);
}

static void gemm_row(const void *ctx, int64_t i, double *stored, double *rounded)
{
    const struct td_gemm *x = ctx;

    (void)rounded;
    for (int64_t j = 0; j < x->k; j++)
        stored[j] = td_dtype_get(x->a_dtype, x->a, (size_t)(i * x->lda + j));
}

static void gemm_column(const void *ctx, int64_t n, double *stored, double *rounded)
{
    const struct td_gemm *x = ctx;

    (void)rounded;
    for (int64_t j = 0; j < x->k; j++)
        stored[j] = td_dtype_get(x->w_dtype, x->w, (size_t)(n * x->ldw + j));
}

int td_reference_sample_gemm(const struct td_gemm *x, const struct td_op_ref *ref, uint64_t seed, struct td_error *err)
{
    return sample(x, x->k, gemm_row, gemm_column, false, false, ref, seed, err);
}

/* Compare rows from, from + step, ... of a reference with those of another. */
static int compare_rows(const struct td_op_ref *ref, const struct td_op_ref *again, int64_t from, int64_t step, struct td_error *err)
{
    for (int64_t e = 0; e < again->rows * again->cols; e++) {
        const struct sums s = {again->r0[e], again->r1[e], again->mag[e]};
        const int rc = check_element(ref, from + e / ref->cols * step, e % ref->cols, &s, err);

        if (rc)
            return rc;
    }
    return TD_OK;
}

/* Every so many rows, so that at most `most` products are computed, or one row. */
static int64_t step_of(int64_t m, int64_t n, int64_t k, int64_t most)
{
    const int64_t by_size = most / (n * k > 0 ? n * k : 1), rows = by_size < 1 ? 1 : by_size;

    return m <= rows ? 1 : (m + rows - 1) / rows;
}

int td_reference_compare_gptq(const struct td_gptq_op *x, const struct td_op_ref *ref, int64_t most, uint64_t seed, struct td_error *err)
{
    const int64_t step = step_of(x->m, x->n, x->k, most), from = (int64_t)(seed % (uint64_t)step);
    struct td_gptq_op some = *x;
    struct td_op_ref again;
    int rc;

    some.m = (x->m - from + step - 1) / step;
    some.a = (const char *)x->a + (size_t)(from * x->lda) * td_dtype_size(x->dtype);
    some.lda = x->lda * step;
    if ((rc = td_gptq_op_ref(&some, &again, err)))
        return rc;
    rc = compare_rows(ref, &again, from, step, err);
    td_op_ref_release(&again);
    return rc;
}

int td_reference_compare_gemm(const struct td_gemm *x, const struct td_op_ref *ref, int64_t most, uint64_t seed, struct td_error *err)
{
    const int64_t step = step_of(x->m, x->n, x->k, most), from = (int64_t)(seed % (uint64_t)step);
    struct td_gemm some = *x;
    struct td_op_ref again;
    int rc;

    some.m = (x->m - from + step - 1) / step;
    some.a = (const unsigned char *)x->a + (size_t)(from * x->lda) * td_dtype_size(x->a_dtype);
    some.lda = x->lda * step;
    if ((rc = td_gemm_ref(&some, &again, err)))
        return rc;
    rc = compare_rows(ref, &again, from, step, err);
    td_op_ref_release(&again);
    return rc;
}
