/* scaled_quant_kind.c - ops of kind "scaled_quant": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Numbers become codes of 8 bits: c = a / scale [+ zero point], rounded to nearest even, at most the largest code.
 *   a     : [m, cols] float, in vectors of n, cols a multiple of n
 *   part 0: the codes, [m, cols] I8 or F8_E4M3
 *   part 1: the scales, F32, one for each vector or, of "per_tensor" 1, one; part 2: the zero points, I32, of attribute azp 1
 *   scale : F32, where it is given and no output: one, or a matrix, one for each block of [m / rows, cols / columns]
 *   azp   : I32, one, given with such a scale            upper : F32, one: the largest magnitude that counts for a scale
 *   attributes m, n, code (1: I8, 2: F8_E4M3)
 * Scales that are made: of I8, the largest magnitude / 127, with zero points (largest - smallest) / 255; of F8_E4M3 the largest
 * magnitude / 448, of a vector at least 1 / (448 * 512).
 *
 * r0 is the code, and any other one is wrong but for beside_op.h. Not judged: rows with NaN or Inf, all of whose numbers are one (with zero points)
 * or zero (of a tensor's F8_E4M3), or whose zero point lies half-way between two.
 *
 * Source: vLLM 0.26, csrc/libtorch_stable/quantization/w8a8/int8/scaled_quant.cu and fp8/common.cu. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops/beside_op.h"
#include "kernels/ops/op_kind.h"
#include "kernels/ops/store_rounded.h"

#define CODES (TD_DT_BIT(TD_DT_I8) | TD_DT_BIT(TD_DT_F8_E4M3))
#define LARGEST_E4M3 448.0
#define LEAST_SCALE (1.0 / (448.0 * 512.0))

struct quant {
    int64_t m, n, vectors, part;         /* vectors of a row */
    bool integers, per_tensor, has_azp, is_given; /* is_given: scale is an input */
    struct td_matrix a, scale, azp, upper;
    double least, most;                  /* of the codes */
};

/* The scale and zero point of a vector. exact_azp: before it is rounded. */
struct scaling { double scale, exact_azp; bool unjudged; };

/* ---- reading --------------------------------------------------------------------------------- */

static int read_attrs(const struct td_op_call *op, struct quant *x, struct td_error *err)
{
    int64_t code, per_tensor, azp;
    int rc;

    if ((rc = td_op_check_attr(op, "m", 0, INT64_MIN, &x->m, err)) || (rc = td_op_check_attr(op, "n", 1, INT64_MIN, &x->n, err)) ||
        (rc = td_op_check_attr(op, "code", 1, INT64_MIN, &code, err)) || (rc = td_op_check_attr(op, "per_tensor", 0, 0, &per_tensor, err)) ||
        (rc = td_op_check_attr(op, "azp", 0, 0, &azp, err)))
        return rc;
    if (code > 2 || (azp && code != 1))
        return td_fail(err, TD_EUNSUPPORTED, "%s: this version knows codes of I8 (1), with zero points or without, and F8_E4M3 (2)", op->kind);
    x->integers = code == 1, x->per_tensor = per_tensor, x->has_azp = azp;
    x->is_given = td_op_in(op, "scale");
    x->least = x->integers ? -128 : -LARGEST_E4M3, x->most = x->integers ? 127 : LARGEST_E4M3;
    return td_beside_part(op, x->is_given ? 1 : x->has_azp ? 3 : 2, &x->part, err);
}

static int read_given(const struct td_op_call *op, struct quant *x, struct td_error *err)
{
    const unsigned f32 = TD_DT_BIT(TD_DT_F32);
    const struct td_tensor *t = td_op_in(op, "scale");
    const int64_t lines = t->ndim == 2 ? t->shape[0] : 1;
    int rc = t->ndim == 2 ? td_beside_matrix(op, "scale", f32, lines, &x->scale, err) : td_beside_vector(op, "scale", f32, 1, &x->scale, err);

    if (!rc && t->ndim == 2 && (lines < 1 || x->m % lines || x->a.cols % x->scale.cols))
        return td_fail(err, TD_EINVAL, "%s: scales [%lld, %lld] are no blocks of [%lld, %lld]", op->kind, (long long)lines, (long long)x->scale.cols,
                       (long long)x->m, (long long)x->a.cols);
    if (!rc && td_op_in(op, "azp"))
        rc = td_beside_vector(op, "azp", TD_DT_BIT(TD_DT_I32), 1, &x->azp, err);
    return rc;
}

static int check_out(const struct td_op_call *op, const struct quant *x, struct td_error *err)
{
    if (x->part == 0)
        return td_beside_check_out(op, TD_DT_BIT(x->integers ? TD_DT_I8 : TD_DT_F8_E4M3), x->m, x->a.cols, err);
    return td_beside_check_out(op, TD_DT_BIT(x->part == 1 ? TD_DT_F32 : TD_DT_I32), x->per_tensor ? 1 : x->m * x->vectors, 1, err);
}

static int read_op(const struct td_op_call *op, struct quant *x, struct td_error *err)
{
    static const char *const roles[] = {"a", "scale", "azp", "upper", NULL};
    int rc;

    memset(x, 0, sizeof *x);
    if ((rc = td_beside_check_known(op, roles, err)) || (rc = read_attrs(op, x, err)) || (rc = td_beside_matrix(op, "a", TD_DT_FLOATS, x->m, &x->a, err)))
        return rc;
    if (x->a.cols % x->n)
        return td_fail(err, TD_EINVAL, "%s: rows of %lld are no multiple of n %lld", op->kind, (long long)x->a.cols, (long long)x->n);
    x->vectors = x->a.cols / x->n;
    if (x->is_given && (rc = read_given(op, x, err)))
        return rc;
    if (td_op_in(op, "upper") && (rc = td_beside_vector(op, "upper", TD_DT_BIT(TD_DT_F32), 1, &x->upper, err)))
        return rc;
    return check_out(op, x, err);
}

static int check(const struct td_op_call *op, struct td_error *err)
{
    struct quant x;

    return read_op(op, &x, err);
}

/* ---- scales ---------------------------------------------------------------------------------- */

struct range { double low, high, most; bool finite; };

static void widen(struct range *r, const struct quant *x, int64_t i, int64_t from, int64_t n)
{
    for (int64_t j = from; j < from + n; j++) {
        const double d = td_matrix_get(&x->a, i, j);

        r->finite &= isfinite(d) != 0;
        r->low = fmin(r->low, d), r->high = fmax(r->high, d), r->most = fmax(r->most, fabs(d));
    }
}

static struct scaling with_zero_point(const struct range *r)
{
    struct scaling s = {.scale = (r->high - r->low) / 255};

    s.unjudged = !(s.scale > 0);
    s.exact_azp = s.unjudged ? 0 : -128 - r->low / s.scale;
    return s;
}

static struct scaling scaling_of(const struct quant *x, const struct range *r)
{
    struct scaling s = {.scale = r->most / (x->integers ? 127 : LARGEST_E4M3)};

    if (x->has_azp)
        s = with_zero_point(r);
    if (!x->integers && !x->per_tensor)
        s.scale = fmax((x->upper.t ? fmin(r->most, td_matrix_get(&x->upper, 0, 0)) : r->most) / LARGEST_E4M3, LEAST_SCALE);
    s.unjudged |= !r->finite || (x->per_tensor && !(s.scale > 0));
    return s;
}

static struct scaling scaling_of_vector(const struct quant *x, int64_t i, int64_t v)
{
    struct range r = {INFINITY, -INFINITY, 0, true};

    if (x->per_tensor)
        for (int64_t k = 0; k < x->m; k++)
            widen(&r, x, k, 0, x->a.cols);
    else
        widen(&r, x, i, v * x->n, x->n);
    return scaling_of(x, &r);
}

/* ---- codes ----------------------------------------------------------------------------------- */

static double given_scale(const struct quant *x, int64_t i, int64_t j)
{
    const int64_t lines = x->scale.t->ndim == 2 ? x->scale.rows : 1;

    return td_matrix_get(&x->scale, i / (x->m / lines), j / (x->a.cols / x->scale.cols));
}

static double code_of(const struct quant *x, double r, double azp)
{
    const double clamped = fmin(fmax(r, x->least * 0x1p30), x->most * 0x1p30);

    return x->integers ? fmin(fmax(rint(clamped) + azp, x->least), x->most) : td_rounded_to(TD_DT_F8_E4M3, clamped);
}

/* A quotient of two zeros has the code of 0 in kernels of the field. */
static void set_code(const struct quant *x, double a, double scale, double azp, double *r0, double *mag)
{
    const double r = a == 0 ? 0 : a / scale, error = fabs(r) * TD_CODE_FLOAT_ERROR;

    *r0 = code_of(x, r, azp);
    *mag = fabs(code_of(x, r + error, azp) - code_of(x, r - error, azp)) * TD_CODE_ROOM_OF_STEP;
}

/* May float32 round this zero point to another integer? */
static bool is_half_way(double exact_azp)
{
    const double error = (fabs(exact_azp) + 128) * TD_CODE_FLOAT_ERROR;

    return rint(exact_azp - error) != rint(exact_azp + error);
}

/* False: the row is not judged. */
static bool code_row_given(const struct quant *x, int64_t i, double *r0, double *mag)
{
    const double azp = x->azp.t ? td_matrix_get(&x->azp, 0, 0) : 0;
    bool judged = true;

    for (int64_t j = 0; j < x->a.cols; j++) {
        const double a = td_matrix_get(&x->a, i, j), scale = given_scale(x, i, j);

        judged &= isfinite(a) && isfinite(scale) && scale > 0;
        set_code(x, a, scale, azp, &r0[j], &mag[j]);
    }
    return judged;
}

static bool code_row(const struct quant *x, int64_t i, const struct scaling *of_tensor, double *r0, double *mag)
{
    bool judged = true;

    for (int64_t v = 0; v < x->vectors; v++) {
        const struct scaling s = of_tensor ? *of_tensor : scaling_of_vector(x, i, v);

        judged &= !s.unjudged && (!x->has_azp || !is_half_way(s.exact_azp));
        for (int64_t j = v * x->n; j < (v + 1) * x->n; j++)
            set_code(x, td_matrix_get(&x->a, i, j), s.scale, rint(s.exact_azp), &r0[j], &mag[j]);
    }
    return judged;
}

static void leave_out(struct td_op_ref *ref, int64_t i)
{
    ref->unjudged[i] = 1;
    memset(ref->r0 + i * ref->cols, 0, (size_t)ref->cols * sizeof *ref->r0);
    memset(ref->mag + i * ref->cols, 0, (size_t)ref->cols * sizeof *ref->mag);
}

static void compute_codes(const struct quant *x, struct td_op_ref *ref)
{
    const struct scaling of_tensor = x->per_tensor ? scaling_of_vector(x, 0, 0) : (struct scaling){0};

    for (int64_t i = 0; i < x->m; i++) {
        double *r0 = ref->r0 + i * ref->cols, *mag = ref->mag + i * ref->cols;

        if (!(x->is_given ? code_row_given(x, i, r0, mag) : code_row(x, i, x->per_tensor ? &of_tensor : NULL, r0, mag)))
            leave_out(ref, i);
    }
}

/* Scales or zero points: an element for each vector. */
static void compute_scalings(const struct quant *x, struct td_op_ref *ref, int64_t n)
{
    for (int64_t e = 0; e < n; e++) {
        const struct scaling s = scaling_of_vector(x, e / x->vectors, e % x->vectors);

        ref->r0[e] = x->part == 1 ? s.scale : rint(s.exact_azp);
        ref->mag[e] = x->part == 1 ? s.scale : is_half_way(s.exact_azp) ? TD_CODE_ROOM_OF_STEP : 0;
        if (s.unjudged && ref->cols == 1)
            leave_out(ref, e);
    }
}

static int compute_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct quant x;
    int64_t rows, cols;
    int rc = read_op(op, &x, err);

    memset(ref, 0, sizeof *ref);
    if (rc)
        return rc;
    rows = x.part ? (x.per_tensor ? 1 : x.m * x.vectors) : x.m, cols = x.part ? 1 : x.a.cols;
    if (x.part && op->out.ndim == 1)
        cols = rows, rows = 1;           /* as the judge counts a vector */
    if ((rc = td_op_ref_new(ref, rows, cols, TD_CODE_INNER, false, err)))
        return rc;
    if (!(ref->unjudged = calloc((size_t)rows + 1, 1))) {
        td_op_ref_release(ref);
        return td_fail(err, TD_ENOMEM, "%s: out of memory for the reference", op->kind);
    }
    if (x.part)
        compute_scalings(&x, ref, rows * cols);
    else
        compute_codes(&x, ref);
    return 0;
}

const struct td_op_kind td_scaled_quant_kind = {"scaled_quant", check, compute_reference};
