/* judge.c - how far an output lies from the reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replayer/judge_order.h"
#include "replayer/judge_row.h"
#include "replayer/judge_slices.h"

/* One line per output dtype that can be judged; a kind may have its own line before the general one (kind NULL).
 * floor: the score under which no difference is ever called worse. An honest float32 accumulation scores at most about 1
 * by construction; 4 leaves room for one more rounding of the result (split-K partial sums kept in the output's dtype).
 * ggml sums a block's integers exactly and keeps the rest in float, result included: no further rounding to leave room for. Real
 * builds score 0.003 to 0.11 over 13 weight types and K 64 to 2048 (tests/unit/data/ggml_make.py), most at small K, where the
 * two or three roundings of a product weigh more than sqrt(K) says: 3.5 / sqrt(32) = 0.6 is the most that K 32 allows.
 * Codes of scaled_quant are right or wrong: tiny is the smallest step between two of them / 128, and the reference has room for the
 * one that is as near (scaled_quant_kind.c). So are those of cache_rows, whose other numbers are copied, as those of permute_cols. */
static const struct { const char *kind; enum td_dtype out; struct td_judge_limits lim; } limits[] = {
    {"ggml_mul_mat", TD_DT_F32, {0x1p-24, 0x1p-24, 0x1p-150, 1}},
    {"scaled_quant", TD_DT_I8, {0x1p-24, 0x1p-24, 0x1p-7, 4}},
    {"scaled_quant", TD_DT_F8_E4M3, {0x1p-24, 0x1p-24, 0x1p-16, 4}},
    {"scaled_quant", TD_DT_I32, {0x1p-24, 0x1p-24, 0x1p-7, 4}},
    {"cache_rows", TD_DT_F8_E4M3, {0x1p-24, 0x1p-24, 0x1p-16, 4}},
    {"cache_rows", TD_DT_F8_E5M2, {0x1p-24, 0x1p-24, 0x1p-23, 4}},
    {"cache_rows", TD_DT_F16, {0x1p-40, 0x1p-24, 0x1p-40, 4}},
    {"cache_rows", TD_DT_BF16, {0x1p-40, 0x1p-24, 0x1p-160, 4}},
    {"cache_rows", TD_DT_F32, {0x1p-40, 0x1p-24, 0x1p-160, 4}},
    {"permute_cols", TD_DT_F16, {0x1p-40, 0x1p-24, 0x1p-40, 4}},
    {"permute_cols", TD_DT_BF16, {0x1p-40, 0x1p-24, 0x1p-160, 4}},
    {NULL, TD_DT_F16,  {0x1p-11, 0x1p-24, 0x1p-25, 4}},
    {NULL, TD_DT_BF16, {0x1p-8, 0x1p-24, 0x1p-134, 4}},
    {NULL, TD_DT_F32,  {0x1p-24, 0x1p-24, 0x1p-150, 4}},
};

int td_judge_limits_find(const char *kind, enum td_dtype out, struct td_judge_limits *lim, struct td_error *err)
{
    size_t i;

    for (i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].out == out && (!limits[i].kind || !strcmp(limits[i].kind, kind))) {
            *lim = limits[i].lim;
            return TD_OK;
        }
    return td_fail(err, TD_EUNSUPPORTED, "%s: no limits for an output of dtype %s, so it cannot be judged", kind,
                   td_dtype_name(out));
}

/* ---- elements of an image ------------------------------------------------------------------------------------------ */

int64_t td_judge_rows(const struct td_tensor *out)
{
    int64_t rows = 1;
    int d;

    for (d = 0; d < out->ndim - 1; d++)
        rows *= out->shape[d];
    return rows;
}

int64_t td_judge_cols(const struct td_tensor *out)
{
    return out->ndim ? out->shape[out->ndim - 1] : 1;
}

int64_t td_judge_offset(const struct td_tensor *out, int64_t i, int64_t j)
{
    int64_t at = out->ndim ? j * out->strides[out->ndim - 1] : 0;
    int d;

    for (d = out->ndim - 2; d >= 0; d--) {
        at += i % out->shape[d] * out->strides[d];
        i /= out->shape[d];
    }
    return at;
}

int td_judge_check_image(const struct td_op_ref *ref, const struct td_tensor *out, struct td_error *err)
{
    int64_t last = 0;
    int d;

    if (td_judge_rows(out) != ref->rows || td_judge_cols(out) != ref->cols)
        return td_fail(err, TD_EINVAL, "the output has %lld x %lld elements, the reference %lld x %lld",
                       (long long)td_judge_rows(out), (long long)td_judge_cols(out), (long long)ref->rows, (long long)ref->cols);
    for (d = 0; d < out->ndim; d++) {
        if (out->shape[d] < 0 || out->strides[d] < 0)
            return td_fail(err, TD_EINVAL, "the output has a negative size or stride");
        last += out->shape[d] ? (out->shape[d] - 1) * out->strides[d] : 0;
    }
    if (ref->rows && ref->cols && (size_t)(last + 1) * td_dtype_size(out->dtype) > out->size_bytes)
        return td_fail(err, TD_EINVAL, "the output's shape and strides reach past its %zu bytes", out->size_bytes);
    return TD_OK;
}

int64_t td_judge_equal(const struct td_op_ref *ref, const struct td_tensor *out, const void *a, const void *b)
{
    int64_t rows = td_judge_rows(out), cols = td_judge_cols(out), i, j, equal = 0;
    size_t w = td_dtype_size(out->dtype);

    for (i = 0; i < rows; i++) {
        const size_t row = cols ? (size_t)td_judge_offset(out, i, 0) * w : 0, step = out->ndim ? (size_t)out->strides[out->ndim - 1] * w : w;
        const char *x = (const char *)a + row, *y = (const char *)b + row;

        if (ref && !td_op_ref_has_row(ref, i))
            continue;
        if (step == w && cols && !memcmp(x, y, (size_t)cols * w)) {
            equal += cols;
            continue;
        }
        for (j = 0; j < cols; j++, x += step, y += step)
            equal += w == 2 ? x[0] == y[0] && x[1] == y[1] : !memcmp(x, y, w);
    }
    return equal;
}

/* ---- scores -------------------------------------------------------------------------------------------------------- */

struct sums { /* squared scores, by row, column and tile */
    double *row, *col, *tile;
    int64_t tiles_across;
};

/* The largest finite number of the output, plus half its last place: from there on a result rounds to Inf. */
static double overflow_at(enum td_dtype dt)
{
    return dt == TD_DT_F16 ? 65520.0 : dt == TD_DT_BF16 ? 0x1.ffp127 : 0x1.ffffffp127;
}

static double denominator(const struct td_op_ref *ref, int64_t e, const struct td_judge_limits *lim, double root_k)
{
    return lim->u_out * fabs(ref->r1[e]) + lim->u_acc * root_k * ref->mag[e] + lim->tiny +
           (ref->slack ? ref->slack[e] : 0);
}

static double score_of(double c, double r, double denom, double overflow)
{
    if (!isfinite(r) || !isfinite(denom))
        return isfinite(c) ? INFINITY : 0;
    if (isnan(c))
        return INFINITY;
    if (isinf(c))
        return (c > 0) == (r > 0) && fabs(r) + denom >= overflow ? 0 : INFINITY;
    return fabs(c - r) / denom;
}

double td_judge_score(const struct td_op_ref *ref, const struct td_tensor *out, const void *image,
                      const struct td_judge_limits *lim, int64_t i, int64_t j)
{
    const size_t at = (size_t)td_judge_offset(out, i, j) * td_dtype_size(out->dtype);
    const int64_t e = i * ref->cols + j;
    const double root_k = sqrt((double)(ref->inner > 0 ? ref->inner : 1));

    if (!td_op_ref_has_row(ref, i))
        return 0;
    return score_of(td_dtype_get(out->dtype, (const char *)image + at, 0), ref->r1[e],
                    denominator(ref, e, lim, root_k), overflow_at(out->dtype));
}

static void count(struct td_judge_result *res, double c, double r)
{
    res->nan += isnan(c) != 0;
    res->inf += isinf(c) != 0;
    res->zero += c == 0;
    res->ref_nonzero += r != 0; /* NaN counts: it is not 0 */
    res->ref_nonfinite += !isfinite(r);
}

/* The spread of one element over all repeats, in the same measure as the score. */
static void judge_repeats(const struct td_tensor *out, const void *const *images, int n, size_t at, double denom,
                          struct td_judge_result *res)
{
    size_t w = td_dtype_size(out->dtype);
    double low, high;
    int r, finite;

    for (r = 1; r < n && !memcmp((const char *)images[0] + at, (const char *)images[r] + at, w); r++)
        ;
    if (r >= n)
        return;
    low = high = td_dtype_get(out->dtype, (const char *)images[0] + at, 0);
    finite = isfinite(low) != 0;
    for (r = 1; r < n; r++) {
        double c = td_dtype_get(out->dtype, (const char *)images[r] + at, 0);

        finite += isfinite(c) != 0;
        low = fmin(low, c);
        high = fmax(high, c);
    }
    res->unstable++;
    if (finite) /* NaN in every repeat, with other bits: unstable, but no distance */
        res->spread = fmax(res->spread, finite < n || !isfinite(denom) ? INFINITY : (high - low) / denom);
}

static bool same_elements(const struct td_op_ref *ref, const struct td_tensor *out, const char *a, const char *b)
{
    const size_t w = td_dtype_size(out->dtype);
    int64_t i, j;

    for (i = 0; i < td_judge_rows(out); i++)
        for (j = 0; td_op_ref_has_row(ref, i) && j < td_judge_cols(out); j++) {
            const size_t at = (size_t)td_judge_offset(out, i, j) * w;

            if (memcmp(a + at, b + at, w) != 0)
                return false;
        }
    return true;
}

/* Runs whose output is not the one that most runs gave: of n runs that all differ n - 1. */
static int count_odd_runs(const struct td_op_ref *ref, const struct td_tensor *out, const void *const *images, int n)
{
    int most = 1, i, j;

    for (i = 0; i + most < n; i++) {
        int alike = 1;

        for (j = i + 1; j < n; j++)
            alike += same_elements(ref, out, images[i], images[j]);
        most = alike > most ? alike : most;
    }
    return n - most;
}

static struct td_judge_spot worst_of(const double *sum, int64_t n, int64_t per_line, int64_t count_each)
{
    struct td_judge_spot w = {0, 0, 0};
    int64_t t;

    for (t = 0; t < n; t++) {
        double rms = sqrt(sum[t] / (double)count_each);

        if (rms > w.rms)
            w = (struct td_judge_spot){t / per_line, t % per_line, rms};
    }
    return w;
}

/* Tiles at the edges hold fewer elements than the others, so each is divided by its own count. */
static struct td_judge_spot worst_tile(const struct sums *s, int64_t rows, int64_t cols)
{
    int64_t down = (rows + TD_JUDGE_TILE_ROWS - 1) / TD_JUDGE_TILE_ROWS, ti, tj;
    struct td_judge_spot w = {0, 0, 0};

    for (ti = 0; ti < down; ti++)
        for (tj = 0; tj < s->tiles_across; tj++) {
            int64_t i = ti * TD_JUDGE_TILE_ROWS, j = tj * TD_JUDGE_TILE_COLS;
            int64_t h = rows - i < TD_JUDGE_TILE_ROWS ? rows - i : TD_JUDGE_TILE_ROWS;
            int64_t v = cols - j < TD_JUDGE_TILE_COLS ? cols - j : TD_JUDGE_TILE_COLS;
            double rms = sqrt(s->tile[ti * s->tiles_across + tj] / (double)(h * v));

            if (rms > w.rms)
                w = (struct td_judge_spot){i, j, rms};
        }
    return w;
}

static double relative(double d2, double r2)
{
    return d2 == 0 ? 0 : sqrt(d2 / (r2 > 0 ? r2 : 1e-300));
}

static void end_row(const struct td_op_ref *ref, int64_t i, struct td_judge_slices *slices)
{
    if (!td_op_ref_has_row(ref, i))
        slices->unfit = true;
    if (!slices->unfit)
        td_judge_slices_end_row(slices, i, ref->r1 + i * ref->cols);
}

/* What judge_elements() works on. */
struct elements {
    const struct td_op_ref *ref;
    const struct td_tensor *out;
    const void *const *images; int n_images;
    const struct td_judge_limits *lim;
    struct sums *s;
    struct td_judge_slices *slices;
    struct td_judge_result *res;
    double root_k, overflow, d2, r2, d02, r02;
    double *c, *score;             /* [cols] of a row */
};

static void judge_element(struct elements *x, int64_t i, int64_t j)
{
    const int64_t e = i * x->ref->cols + j;
    const size_t at = (size_t)td_judge_offset(x->out, i, j) * td_dtype_size(x->out->dtype);
    const double c = td_dtype_get(x->out->dtype, (const char *)x->images[0] + at, 0), r = x->ref->r1[e], r0 = x->ref->r0[e];
    const double denom = denominator(x->ref, e, x->lim, x->root_k), score = score_of(c, r, denom, x->overflow);
    const double diff = isinf(score) ? INFINITY : isfinite(c) && isfinite(r) ? fabs(c - r) : 0;
    const double diff0 = isinf(diff) ? INFINITY : isfinite(c) && isfinite(r0) ? fabs(c - r0) : 0;
    struct sums *s = x->s;

    count(x->res, c, r);
    x->res->score = fmax(x->res->score, score);
    x->res->max_abs = fmax(x->res->max_abs, diff);
    x->d2 += diff * diff;
    x->r2 += isfinite(r) ? r * r : 0;
    x->d02 += diff0 * diff0;
    x->r02 += isfinite(r0) ? r0 * r0 : 0;
    s->row[i] += score * score;
    s->col[j] += score * score;
    s->tile[i / TD_JUDGE_TILE_ROWS * s->tiles_across + j / TD_JUDGE_TILE_COLS] += score * score;
    td_judge_slices_put(x->slices, j, c - r, denom);
    if (x->n_images > 1)
        judge_repeats(x->out, x->images, x->n_images, at, denom, x->res);
}

/* The repeats of a row that judge_row() judged. */
static void judge_row_repeats(struct elements *x, int64_t i)
{
    const size_t w = td_dtype_size(x->out->dtype), at = (size_t)td_judge_offset(x->out, i, 0) * w;
    bool same = true;

    for (int r = 1; r < x->n_images; r++)
        same = same && (x->images[r] == x->images[0] ||
                        !memcmp((const char *)x->images[0] + at, (const char *)x->images[r] + at, (size_t)x->ref->cols * w));
    for (int64_t j = 0; !same && j < x->ref->cols; j++)
        judge_repeats(x->out, x->images, x->n_images, at + (size_t)j * w, denominator(x->ref, i * x->ref->cols + j, x->lim, x->root_k), x->res);
}

/* A whole row at once. False: it is one for judge_element(). */
static bool judge_row(struct elements *x, int64_t i)
{
    const struct td_op_ref *ref = x->ref;
    const int64_t e = i * ref->cols;
    const struct td_judge_row row = {x->out->dtype, ref->cols, (const char *)x->images[0] + (size_t)td_judge_offset(x->out, i, 0) * td_dtype_size(x->out->dtype),
                                     ref->r0 + e, ref->r1 + e, ref->mag + e, ref->slack ? ref->slack + e : NULL,
                                     x->lim->u_out, x->lim->u_acc * x->root_k, x->lim->tiny, x->c, x->score, x->slices->e, x->slices->x};
    struct td_judge_row_sums sums = {x->res->score, x->res->max_abs, x->d2, x->r2, x->d02, x->r02, x->s->row[i], 0, 0};

    if (x->out->ndim && x->out->strides[x->out->ndim - 1] != 1)
        return false;
    if (!td_judge_row_score(&row))
        return false;
    td_judge_row_add(&row, &sums);
    td_judge_row_add_columns(&row, x->s->col);
    td_judge_row_add_tiles(&row, TD_JUDGE_TILE_COLS, x->s->tile + i / TD_JUDGE_TILE_ROWS * x->s->tiles_across);
    x->res->score = sums.score;
    x->res->max_abs = sums.max_abs;
    x->d2 = sums.d2;
    x->r2 = sums.r2;
    x->d02 = sums.d02;
    x->r02 = sums.r02;
    x->s->row[i] = sums.row;
    x->res->zero += sums.zero;
    x->res->ref_nonzero += sums.ref_nonzero;
    if (x->n_images > 1)
        judge_row_repeats(x, i);
    return true;
}

static void judge_elements(struct elements *x)
{
    const struct td_op_ref *ref = x->ref;

    x->root_k = sqrt((double)(ref->inner > 0 ? ref->inner : 1));
    x->overflow = overflow_at(x->out->dtype);
    for (int64_t i = 0; i < ref->rows; i++) {
        if (td_op_ref_has_row(ref, i) && ref->cols && !judge_row(x, i))
            for (int64_t j = 0; j < ref->cols; j++)
                judge_element(x, i, j);
        end_row(ref, i, x->slices);
    }
    x->res->rel_l2 = relative(x->d2, x->r2);
    x->res->r0_rel_l2 = relative(x->d02, x->r02);
}

static int64_t judged_rows(const struct td_op_ref *ref)
{
    int64_t n = 0, i;

    for (i = 0; i < ref->rows; i++)
        n += td_op_ref_has_row(ref, i);
    return n;
}

int td_judge_output(const struct td_op_ref *ref, const struct td_tensor *out, const void *const *images, int n_images,
                    const struct td_judge_limits *lim, struct td_judge_result *res, struct td_error *err)
{
    int64_t across = (ref->cols + TD_JUDGE_TILE_COLS - 1) / TD_JUDGE_TILE_COLS;
    int64_t down = (ref->rows + TD_JUDGE_TILE_ROWS - 1) / TD_JUDGE_TILE_ROWS, judged = judged_rows(ref);
    struct sums s = {.tiles_across = across};
    struct td_judge_slices slices;
    struct elements x = {ref, out, images, n_images, lim, &s, &slices, res, 0, 0, 0, 0, 0, 0, NULL, NULL};

    memset(res, 0, sizeof *res);
    res->in_order = td_judge_ref_is_ordered(ref);
    res->repeats = n_images;
    res->total = judged * ref->cols;
    if (td_judge_check_image(ref, out, err))
        return err ? err->code : TD_EINVAL;
    s.row = calloc((size_t)(ref->rows + 3 * ref->cols + down * across + 1), sizeof *s.row);
    if (!s.row || td_judge_slices_init(&slices, ref->rows, ref->cols, NULL)) {
        free(s.row);
        return td_fail(err, TD_ENOMEM, "out of memory for the scores of %lld elements", (long long)res->total);
    }
    s.col = s.row + ref->rows;
    x.c = s.col + ref->cols;
    x.score = x.c + ref->cols;
    s.tile = x.score + ref->cols;
    slices.unfit = ref->ordered && !res->in_order; /* what such a sum loses is excused, and no rounding */
    judge_elements(&x);
    td_judge_slices_take(&slices, &res->slices);
    td_judge_slices_release(&slices);
    if (res->unstable)
        res->odd_runs = count_odd_runs(ref, out, images, n_images);
    res->worst_row = worst_of(s.row, ref->rows, 1, ref->cols);
    res->worst_col = worst_of(s.col, ref->cols, ref->cols, judged);
    res->worst_tile = worst_tile(&s, ref->rows, ref->cols);
    free(s.row);
    return TD_OK;
}

double td_judge_format_cost(const struct td_op_ref *ref)
{
    double d2 = 0, r2 = 0;
    int64_t e;

    if (ref->r0 == ref->r1)
        return 0;
    for (e = 0; e < ref->rows * ref->cols; e++)
        if (isfinite(ref->r0[e]) && isfinite(ref->r1[e])) {
            d2 += (ref->r1[e] - ref->r0[e]) * (ref->r1[e] - ref->r0[e]);
            r2 += ref->r0[e] * ref->r0[e];
        }
    return d2 == 0 ? 0 : r2 == 0 ? INFINITY : sqrt(d2 / r2);
}
