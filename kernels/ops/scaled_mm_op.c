/* scaled_mm_op.c - what a recorded "scaled_mm" means: its roles and its rules.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/scaled_mm_op.h"

#include <string.h>

#include "kernels/ops/op_check.h"
#include "kernels/ops/op_rounding.h"

#define BLOCK    128 /* the only one that a kernel of the field has */
#define FLOATS_8 (TD_DT_BIT(TD_DT_F8_E4M3) | TD_DT_BIT(TD_DT_F8_E5M2))

/* Refuse what this version would leave out of the product. */
static int check_unknown(const struct td_op_call *op, struct td_error *err)
{
    static const char *const roles[] = {"a", "w", "a_scales", "w_scales", "azp", "azp_adj", "bias"};

    struct td_op_rounding r;

    if (!td_op_rounding_read(op->act_rounding, &r) || r.bias_after || strcmp(r.factors, "none"))
        return td_fail(err, TD_EUNSUPPORTED,
                       "scaled_mm: the rounding of activations \"%s\" is not known",
                       op->act_rounding);
    for (int t = 0; t < op->n_in; t++) {
        size_t i = 0;

        while (i < sizeof roles / sizeof *roles && strcmp(op->in[t].role, roles[i]))
            i++;
        if (i == sizeof roles / sizeof *roles)
            return td_fail(err, TD_EUNSUPPORTED,
                           "scaled_mm: this version does not know what \"%s\" does",
                           op->in[t].role);
    }
    return 0;
}

static int read_sizes(const struct td_op_call *op, struct td_scaled_mm *x, struct td_error *err)
{
    int rc;

    if ((rc = td_op_check_attr(op, "m", 0, INT64_MIN, &x->m, err)) ||
        (rc = td_op_check_attr(op, "n", 1, INT64_MIN, &x->n, err)) ||
        (rc = td_op_check_attr(op, "k", 1, INT64_MIN, &x->k, err)) ||
        (rc = td_op_check_attr(op, "block", 0, 0, &x->block, err)))
        return rc;
    if (x->block && x->block != BLOCK)
        return td_fail(err, TD_EUNSUPPORTED,
                       "scaled_mm: blocks of %lld; this version knows blocks of %d",
                       (long long)x->block, BLOCK);
    return 0;
}

static int read_factors(const struct td_op_call *op, struct td_scaled_mm *x, struct td_error *err)
{
    const struct td_tensor *a = td_op_in(op, "a");
    const unsigned of_a = FLOATS_8 | TD_DT_BIT(TD_DT_I8);
    const void *p = NULL, *q = NULL;
    struct td_op_rounding r;
    int rc;

    x->integers = a && a->dtype == TD_DT_I8;
    x->sums_cut = !x->integers && td_op_rounding_read(op->act_rounding, &r) && r.sums_cut;
    if ((rc = td_op_check_in(op, &(struct td_op_expect){"a", of_a, 2, x->m, x->k}, &x->lda, &p,
                             err)) ||
        (rc = td_op_check_in(op,
                             &(struct td_op_expect){
                                 "w", x->integers ? TD_DT_BIT(TD_DT_I8) : FLOATS_8, 2, x->n, x->k},
                             &x->ldw, &q, err)) ||
        (rc = td_op_check_tensor(
             op, &op->out, &(struct td_op_expect){"c", TD_DT_FLOATS, 2, x->m, x->n}, &x->ldc, err)))
        return rc;
    if (x->integers && x->block)
        return td_fail(err, TD_EUNSUPPORTED, "scaled_mm: this version knows no blocks of I8");
    x->a = p, x->w = q, x->c = op->out.data;
    x->a_dtype = a->dtype, x->w_dtype = td_op_in(op, "w")->dtype, x->c_dtype = op->out.dtype;
    return 0;
}

/* The scales of A or W: one, or one for each of `lines` rows or columns, or [d0, d1] of the blocks.
 *   each : there is one for each line */
static int read_scales(const struct td_op_call *op, const char *role, const struct td_scaled_mm *x,
                       int64_t lines, int64_t d0, int64_t d1, bool *each, const float **scales,
                       struct td_error *err)
{
    const struct td_tensor *t = td_op_in(op, role);
    const void *p = NULL;
    int rc;

    *each = !x->block && t && t->ndim == 1 && t->shape[0] == lines;
    rc = x->block
             ? td_op_check_in(op, &(struct td_op_expect){role, TD_DT_BIT(TD_DT_F32), 2, d0, d1},
                              NULL, &p, err)
             : td_op_check_in(
                   op, &(struct td_op_expect){role, TD_DT_BIT(TD_DT_F32), 1, *each ? lines : 1, 1},
                   NULL, &p, err);
    *scales = p;
    return rc;
}

static int read_all_scales(const struct td_op_call *op, struct td_scaled_mm *x,
                           struct td_error *err)
{
    const int64_t b = x->block ? x->block : 1, kb = (x->k + b - 1) / b, nb = (x->n + b - 1) / b;
    const int rc = read_scales(op, "a_scales", x, x->m, kb, x->m, &x->by_row, &x->a_scales, err);

    return rc ? rc : read_scales(op, "w_scales", x, x->n, nb, kb, &x->by_column, &x->w_scales, err);
}

static int read_zero_points(const struct td_op_call *op, struct td_scaled_mm *x,
                            struct td_error *err)
{
    const bool has = td_op_in(op, "azp_adj");
    const void *adj = NULL, *azp = NULL;
    int rc = 0;

    if ((has || td_op_in(op, "azp")) && (!x->integers || !has))
        return td_fail(err, TD_EINVAL,
                       "scaled_mm: zero points belong to I8, and an azp to an azp_adj");
    if (has)
        rc = td_op_check_in(op, &(struct td_op_expect){"azp_adj", TD_DT_BIT(TD_DT_I32), 1, x->n, 1},
                            NULL, &adj, err);
    if (!rc && td_op_in(op, "azp"))
        rc = td_op_check_in(op, &(struct td_op_expect){"azp", TD_DT_BIT(TD_DT_I32), 1, x->m, 1},
                            NULL, &azp, err);
    x->azp_adj = adj, x->azp = azp;
    return rc;
}

int td_scaled_mm_of(const struct td_op_call *op, struct td_scaled_mm *x, struct td_error *err)
{
    int rc;

    memset(x, 0, sizeof *x);
    if ((rc = check_unknown(op, err)) || (rc = read_sizes(op, x, err)) ||
        (rc = read_factors(op, x, err)) || (rc = read_all_scales(op, x, err)) ||
        (rc = read_zero_points(op, x, err)))
        return rc;
    return td_op_check_bias(op, x->n, &x->bias, err);
}
