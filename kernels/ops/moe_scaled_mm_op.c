/* moe_scaled_mm_op.c - what a recorded "moe_scaled_mm" means: its roles, its rules, whose rows are whose.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/moe_scaled_mm_op.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/ops/op_check.h"
#include "kernels/ops/op_rounding.h"

#define FLOATS_8 (TD_DT_BIT(TD_DT_F8_E4M3) | TD_DT_BIT(TD_DT_F8_E5M2))

/* Refuse what this version would leave out of the product. */
static int check_unknown(const struct td_op_call *op, struct td_error *err)
{
    static const char *const roles[] = {"a",        "w",              "a_scales",
                                        "w_scales", "expert_offsets", "problem_sizes"};
    struct td_op_rounding rounding;

    if (!td_op_rounding_read(op->act_rounding, &rounding) || rounding.bias_after ||
        strcmp(rounding.factors, "none"))
        return td_fail(err, TD_EUNSUPPORTED, "%s: the rounding \"%s\" is not known", op->kind,
                       op->act_rounding);
    for (int t = 0; t < op->n_in; t++) {
        size_t r = 0;

        while (r < sizeof roles / sizeof *roles && strcmp(op->in[t].role, roles[r]))
            r++;
        if (r == sizeof roles / sizeof *roles)
            return td_fail(err, TD_EUNSUPPORTED, "%s: this version does not know what \"%s\" does",
                           op->kind, op->in[t].role);
    }
    return 0;
}

static int read_sizes(const struct td_op_call *op, struct td_moe_scaled_mm *x, struct td_error *err)
{
    int rc;

    if ((rc = td_op_check_attr(op, "m", 0, INT64_MIN, &x->all.m, err)) ||
        (rc = td_op_check_attr(op, "n", 1, INT64_MIN, &x->all.n, err)) ||
        (rc = td_op_check_attr(op, "k", 1, INT64_MIN, &x->all.k, err)) ||
        (rc = td_op_check_attr(op, "experts", 1, INT64_MIN, &x->experts, err)))
        return rc;
    if (x->experts > TD_MOE_SCALED_MAX_EXPERTS)
        return td_fail(err, TD_EINVAL, "%s: %lld experts are more than an op can have", op->kind,
                       (long long)x->experts);
    return 0;
}

/* W, dense, as one matrix of all experts' rows. */
static int read_weights(const struct td_op_call *op, struct td_moe_scaled_mm *x, struct td_error *err)
{
    const struct td_tensor *w = td_op_in(op, "w");
    const int64_t n = x->all.n, k = x->all.k;
    struct td_tensor flat;
    int rc;

    if (!w || w->ndim != 3 || w->shape[0] != x->experts || w->shape[1] != n || w->shape[2] != k ||
        w->strides[2] != 1 || w->strides[1] != k || w->strides[0] != n * k)
        return td_fail(err, TD_EINVAL,
                       "%s: tensor \"w\" is not a dense [%lld, %lld] for each of %lld experts",
                       op->kind, (long long)n, (long long)k, (long long)x->experts);
    flat = *w;
    flat.ndim = 2;
    flat.shape[0] = x->experts * n; /* 12 and 31 bits */
    flat.shape[1] = flat.strides[0] = k;
    flat.strides[1] = 1;
    rc = td_op_check_tensor(
        op, &flat, &(struct td_op_expect){"w", FLOATS_8, 2, flat.shape[0], k}, NULL, err);
    if (!rc && !flat.data)
        rc = td_fail(err, TD_EINVAL, "%s: tensor \"w\" has no data", op->kind);
    x->all.w = flat.data, x->all.ldw = k, x->all.w_dtype = w->dtype;
    return rc;
}

static int read_activations(const struct td_op_call *op, struct td_moe_scaled_mm *x,
                            struct td_error *err)
{
    struct td_scaled_mm *o = &x->all;
    struct td_op_rounding r;
    const void *a = NULL;
    int rc = td_op_check_in(op, &(struct td_op_expect){"a", FLOATS_8, 2, o->m, o->k}, &o->lda, &a, err);

    if (rc)
        return rc;
    o->sums_cut = td_op_rounding_read(op->act_rounding, &r) && r.sums_cut;
    o->a = a, o->a_dtype = td_op_in(op, "a")->dtype;
    o->c = op->out.data, o->c_dtype = op->out.dtype;
    return td_op_check_tensor(op, &op->out, &(struct td_op_expect){"c", TD_DT_FLOATS, 2, o->m, o->n},
                              &o->ldc, err);
}

static int read_scales(const struct td_op_call *op, struct td_moe_scaled_mm *x, struct td_error *err)
{
    const struct td_tensor *a = td_op_in(op, "a_scales"), *w = td_op_in(op, "w_scales");
    const void *of_a = NULL, *of_w = NULL;
    int rc;

    x->all.by_row = a && a->ndim == 1 && a->shape[0] == x->all.m;
    x->all.by_column = w && w->ndim == 2;
    rc = td_op_check_in(op,
                        &(struct td_op_expect){"a_scales", TD_DT_BIT(TD_DT_F32), 1,
                                               x->all.by_row ? x->all.m : 1, 1},
                        NULL, &of_a, err);
    if (!rc)
        rc = td_op_check_in(op,
                            &(struct td_op_expect){"w_scales", TD_DT_BIT(TD_DT_F32),
                                                   x->all.by_column ? 2 : 1, x->experts,
                                                   x->all.by_column ? x->all.n : 1},
                            NULL, &of_w, err);
    x->all.a_scales = of_a, x->all.w_scales = of_w;
    return rc;
}

/* ---- whose rows are whose -------------------------------------------------------------------- */

int64_t td_moe_scaled_mm_first(const struct td_moe_scaled_mm *x, int64_t e)
{
    return x->offsets[e];
}

int64_t td_moe_scaled_mm_rows(const struct td_moe_scaled_mm *x, int64_t e)
{
    const int32_t *s = x->sizes + 3 * e;

    return s[1] == x->all.n ? s[0] : s[1]; /* equal, if both are n */
}

/* seen : bits, zeroed, one for each row */
static int check_rows(const struct td_op_call *op, const struct td_moe_scaled_mm *x,
                      unsigned char *seen, struct td_error *err)
{
    for (int64_t e = 0; e < x->experts; e++) {
        const int32_t *s = x->sizes + 3 * e;
        const int64_t first = x->offsets[e], rows = td_moe_scaled_mm_rows(x, e);

        if ((s[0] != x->all.n && s[1] != x->all.n) || s[2] != x->all.k || rows < 0)
            return td_fail(err, TD_EINVAL, "%s: problem_sizes of expert %lld are %d, %d and %d, n is %lld and k %lld",
                           op->kind, (long long)e, s[0], s[1], s[2], (long long)x->all.n,
                           (long long)x->all.k);
        if (rows && (first < 0 || first > x->all.m || rows > x->all.m - first))
            return td_fail(err, TD_EINVAL, "%s: expert %lld has %lld rows from row %lld, A has %lld",
                           op->kind, (long long)e, (long long)rows, (long long)first,
                           (long long)x->all.m);
        for (int64_t i = first; i < first + rows; i++) {
            if (seen[i / 8] >> i % 8 & 1)
                return td_fail(err, TD_EINVAL, "%s: two experts have row %lld", op->kind, (long long)i);
            seen[i / 8] |= (unsigned char)(1u << i % 8);
        }
    }
    return 0;
}

static int read_routing(const struct td_op_call *op, struct td_moe_scaled_mm *x, struct td_error *err)
{
    const void *offsets = NULL, *sizes = NULL;
    unsigned char *seen;
    int rc;

    if ((rc = td_op_check_in(
             op, &(struct td_op_expect){"expert_offsets", TD_DT_BIT(TD_DT_I64), 1, x->experts, 1},
             NULL, &offsets, err)) ||
        (rc = td_op_check_in(
             op, &(struct td_op_expect){"problem_sizes", TD_DT_BIT(TD_DT_I32), 2, x->experts, 3},
             NULL, &sizes, err)))
        return rc;
    x->offsets = offsets, x->sizes = sizes;
    if (!(seen = calloc((size_t)x->all.m / 8 + 1, 1)))
        return td_fail(err, TD_ENOMEM, "%s: out of memory for %lld rows", op->kind, (long long)x->all.m);
    rc = check_rows(op, x, seen, err);
    free(seen);
    return rc;
}

int td_moe_scaled_mm_of(const struct td_op_call *op, struct td_moe_scaled_mm *x, struct td_error *err)
{
    int rc;

    memset(x, 0, sizeof *x);
    if ((rc = check_unknown(op, err)) || (rc = read_sizes(op, x, err)) ||
        (rc = read_activations(op, x, err)) || (rc = read_weights(op, x, err)) ||
        (rc = read_scales(op, x, err)))
        return rc;
    return read_routing(op, x, err);
}

struct td_scaled_mm td_moe_scaled_mm_expert(const struct td_moe_scaled_mm *x, int64_t e)
{
    const int64_t first = td_moe_scaled_mm_first(x, e), rows = td_moe_scaled_mm_rows(x, e);
    struct td_scaled_mm o = x->all;

    o.m = rows;
    o.w += e * o.n * o.k;
    o.w_scales += o.by_column ? e * o.n : e;
    if (!rows)
        return o;                    /* the offset may be anything */
    o.a += first * o.lda;
    o.a_scales += o.by_row ? first : 0;
    o.c = o.c ? o.c + first * o.ldc * (int64_t)td_dtype_size(o.c_dtype) : NULL;
    return o;
}
