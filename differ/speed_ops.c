/* speed_ops.c - pairs of timings of single ops, as rows of kernel, shape and class of M.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/speed_ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "differ/speed_clocks.h"

/* Count the starts of one op, and those that are slower by their own median: noise that lasts
 * for a while makes a few starts slower, not most of them.
 *   ratio : [n], log ratios in order of the starts, equally many of each */
static void count_starts(struct td_speed_row *row, const double *ratio, size_t n, size_t starts)
{
    size_t each, i;

    if (starts == 0 || n % starts)
        starts = 1;
    each = n / starts;
    row->ops++;
    row->starts += starts;
    for (i = 0; i < starts; i++)
        row->starts_slower += td_stat_median(ratio + i * each, each) > 0;
}

static int add_pairs(struct td_speed_row *row, const double *pairs, size_t n, size_t starts)
{
    double *ratio = malloc((n + 1) * sizeof *ratio);
    size_t i;
    int rc = ratio ? TD_OK : TD_ENOMEM;

    for (i = 0; i < n && !rc; i++) {
        ratio[i] = log(pairs[i * 2 + 1] / pairs[i * 2]);
        rc = td_ratios_add(&row->pairs, pairs[i * 2], pairs[i * 2 + 1], false);
    }
    if (!rc && n)
        count_starts(row, ratio, n, starts);
    free(ratio);
    return rc;
}

/* Add one op's pairs to the row of its group and to the total.
 *   pairs : [n][2], baseline and candidate in ns */
static int add_op(struct td_speed *s, enum td_speed_metric m, const struct td_judged_op *op,
                  const double *pairs, size_t n)
{
    struct td_speed_row *row;
    char *label;
    int rc;

    if (n == 0)
        return TD_OK;
    s->op_pairs += n;
    if (asprintf(&label, "%s %s %s", op->kind, op->shape, td_m_class_name(op->m_class)) < 0)
        return TD_ENOMEM;
    row = td_speed_row(s, m, label, false);
    free(label);
    rc = row ? add_pairs(row, pairs, n, op->starts) : TD_ENOMEM;
    if (rc)
        return rc;
    row = td_speed_row(s, m, "total", true);
    rc = row ? add_pairs(row, pairs, n, op->starts) : TD_ENOMEM;
    return rc;
}

int td_speed_ops(const struct td_judged_ops *set, struct td_speed *s, struct td_error *err)
{
    size_t i;
    int rc = TD_OK;

    for (i = 0; i < set->n && !rc; i++) {
        if (!set->op[i].n_hot && !set->op[i].n_cold)
            continue;
        if (!td_speed_clocks_even(s, &set->op[i]))
            continue;
        rc = add_op(s, TD_OP_HOT, &set->op[i], set->op[i].hot, set->op[i].n_hot);
        if (!rc)
            rc = add_op(s, TD_OP_COLD, &set->op[i], set->op[i].cold, set->op[i].n_cold);
    }
    return rc ? td_fail(err, rc, "no memory for %zu pairs of timings", s->op_pairs) : TD_OK;
}
