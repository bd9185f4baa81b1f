/* speed_ops.c - pairs of timings of single ops, as rows of kernel, shape and class of M.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/speed_ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/speed_clocks.h"

static double log_ratio(const double *pair)
{
    return log(pair[1] / pair[0]);
}

static int by_ratio(const void *a, const void *b)
{
    const double x = log_ratio(a), y = log_ratio(b);

    return (x > y) - (x < y);
}

/* The pair in the middle, by its ratio, of n pairs; of an even number the geometric mean of the two in the middle.
 *   pairs : [n][2], n > 0; sorted here */
static void find_middle(double (*pairs)[2], size_t n, double middle[2])
{
    const double *a, *b;

    qsort(pairs, n, sizeof *pairs, by_ratio);
    a = pairs[(n - 1) / 2];
    b = pairs[n / 2];
    middle[0] = sqrt(a[0] * b[0]);
    middle[1] = sqrt(a[1] * b[1]);
}

/* Make a pair part of the sample of a start that the row has already. */
static void merge(struct td_ratios *r, struct td_shared_start *at, const double pair[2])
{
    const double weight = 1.0 / (double)++at->ops;
    const size_t i = at->sample;

    r->base[i] *= pow(pair[0] / r->base[i], weight);
    r->now[i] *= pow(pair[1] / r->now[i], weight);
    r->log_ratio[i] = log(r->now[i] / r->base[i]);
}

/* Add a sample to the row: a start of an op. Processes that live through several ops make all of them faster or slower, so ops that
 * share a start are one sample. */
static int add_sample(struct td_speed_row *row, const struct td_judged_op *op, size_t start, const double pair[2])
{
    struct td_shared_start *at = op->starts_of ? td_shared_starts_find(&row->shared, op->starts_of, start) : NULL;
    const size_t first = row->pairs.n;
    int rc;

    if (at) {
        merge(&row->pairs, at, pair);
        return TD_OK;
    }
    rc = td_ratios_add(&row->pairs, pair[0], pair[1], false);
    if (rc || row->pairs.n == first || !op->starts_of)
        return rc;
    return td_shared_starts_add(&row->shared, op->starts_of, start, first);
}

/* Count an op, and its starts that are slower: noise that lasts for a while makes a few starts slower, not
 * most of them, and not those of every op.
 *   ratio : [n], log ratios of its starts, n > 0 */
static void count_op(struct td_speed_row *row, const double *ratio, size_t n)
{
    const double median = td_stat_median(ratio, n);
    size_t i;

    row->least_op = row->ops ? fmin(row->least_op, median) : median;
    row->ops++;
    row->starts += n;
    for (i = 0; i < n; i++)
        row->starts_slower += ratio[i] > 0;
}

/* Add the starts of one op to the row. The pairs of one start share the memory in which both processes
 * lie, which makes one of them faster or slower for as long as they live; so a start is a sample, and its
 * pairs are not. A replay that counted no starts gives each pair as a sample.
 *   pairs : [n][2], in order of the starts, equally many of each */
static int add_starts(struct td_speed_row *row, const struct td_judged_op *op, const double *pairs, size_t n)
{
    const size_t each = op->starts > 1 && n % op->starts == 0 ? n / op->starts : 1;
    double(*copy)[2] = malloc((n + 1) * sizeof *copy), *ratio = calloc(n + 1, sizeof *ratio), middle[2];
    size_t i, start;
    int rc = copy && ratio ? TD_OK : TD_ENOMEM;

    for (i = 0; i < n && !rc; i++)
        memcpy(copy[i], pairs + i * 2, sizeof copy[i]);
    for (start = 0; start * each < n && !rc; start++) {
        find_middle(copy + start * each, each, middle);
        ratio[start] = log_ratio(middle);
        rc = add_sample(row, op, start, middle);
    }
    if (!rc)
        count_op(row, ratio, start);
    free(copy);
    free(ratio);
    return rc;
}

/* Add one op's pairs to the row of its group and to the total.
 *   pairs : [n][2], baseline and candidate in ns, positive and finite */
static int add_op(struct td_speed *s, enum td_speed_metric m, const struct td_judged_op *op, const double *pairs, size_t n)
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
    rc = row ? add_starts(row, op, pairs, n) : TD_ENOMEM;
    if (rc)
        return rc;
    row = td_speed_row(s, m, "total", true);
    return row ? add_starts(row, op, pairs, n) : TD_ENOMEM;
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

double td_speed_ops_effect(const struct td_speed_row *row, const struct td_policy *policy)
{
    return row->shared.n ? policy->gpu_effect : policy->ops_effect;
}

double td_speed_ops_noise(const struct td_speed_row *row, const struct td_policy *policy)
{
    return row->shared.n ? policy->gpu_noise : policy->ops_noise;
}
