/* repeats.c - where results of the baseline itself differ between runs: do the candidate's more often?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/repeats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/bias.h"
#include "differ/bias_groups.h"
#include "differ/stats.h"

/* Did both sides run this op equally often, and more than once? */
static bool is_paired(const struct td_judged_op *op)
{
    const struct td_op_error *old = td_op_baseline(op);

    return old && old->repeats > 1 && op->candidate.repeats == old->repeats;
}

/* Does the baseline's kernel of this kind give other bits each time? */
static bool baseline_varies(const struct td_bias_groups *g, const char *kind)
{
    size_t i;

    for (i = 0; i < g->n; i++) {
        const struct td_judged_op *op = g->ops[i].op;
        const struct td_op_error *old = td_op_baseline(op);

        if (is_paired(op) && (old->varies || old->unstable > 0) && strcmp(op->kind, kind) == 0)
            return true;
    }
    return false;
}

/* ---- one group ------------------------------------------------------------------------------- */

/* Sums over blocks: of both shares, of their difference d, and of its square. */
struct shares { double old, now, d, dd; size_t ops, blocks; int64_t runs; };

/* ops: [n], sorted by input */
static void sum_shares(const struct td_slice_op *ops, size_t n, struct shares *s)
{
    size_t i, end;

    for (i = 0; i < n; i = end) {
        double old = 0, now = 0, paired = 0;

        for (end = i; end < n && ops[end].input == ops[i].input; end++) {
            const struct td_judged_op *op = ops[end].op;
            const double elements = (double)ops[end].now->rows * (double)ops[end].now->cols;

            if (!is_paired(op))
                continue;
            old += (double)td_op_baseline(op)->unstable / elements;
            now += (double)op->candidate.unstable / elements;
            paired++;
            s->runs = op->candidate.repeats;
        }
        if (paired == 0)
            continue;
        s->ops += (size_t)paired;
        s->blocks++;
        s->old += old / paired;
        s->now += now / paired;
        s->d += (now - old) / paired;
        s->dd += (now - old) * (now - old) / paired / paired;
    }
}

/* alpha: of the interval. False: there are too few ops. */
static bool compare(const struct td_slice_op *ops, const struct td_bias_part *part, double alpha,
                    struct td_repeats_group *out)
{
    const struct td_judged_op *op = ops[part->first].op;
    struct shares s = {0};
    double n, d, error, t;

    sum_shares(ops + part->first, part->n, &s);
    if (s.blocks < TD_BIAS_LEAST_OPS)
        return false;
    n = (double)s.blocks;
    d = s.d / n;
    error = sqrt(fmax(0, s.dd - s.d * d) / (n - 1) / n);
    t = td_stat_t_limit(alpha, n - 1) * error;
    *out = (struct td_repeats_group){.kind = op->kind, .shape = op->shape, .dtype = op->dtype,
                                     .m_class = part->pooled ? -1 : op->m_class, .ops = s.ops, .blocks = s.blocks,
                                     .runs = s.runs, .old_share = s.old / n, .new_share = s.now / n, .lo = d - t, .hi = d + t};
    out->p = td_stat_t_p(d == 0 ? 0 : fabs(d) / error, n - 1);
    return true;
}

/* ---- all groups ------------------------------------------------------------------------------ */

static double more(const struct td_repeats_group *g)
{
    return g->new_share - g->old_share;
}

static int by_p(const void *a, const void *b)
{
    const struct td_repeats_group *p = a, *q = b;

    return (p->p > q->p) - (p->p < q->p);
}

/* Upwards by p, as Holm's procedure takes them. Returns the largest p that is evidence. */
static double find_evidence(struct td_repeats *r, double alpha)
{
    double *p = malloc((r->n + 1) * sizeof *p), most;
    size_t i;

    qsort(r->group, r->n, sizeof *r->group, by_p);
    for (i = 0; i < r->n && p; i++)
        p[i] = r->group[i].p;
    most = p ? td_stat_holm(p, r->n, r->n, alpha) : -1;
    free(p);
    return most;
}

/* Move the groups that are told to the front. The order of these stays. */
static void sort_out(struct td_repeats *r, double evidence)
{
    size_t i;

    for (i = 0; i < r->n; i++) {
        const struct td_repeats_group g = r->group[i];

        if (!(g.p <= evidence) || more(&g) < TD_REPEATS_LEAST)
            continue;
        memmove(r->group + r->less + 1, r->group + r->less, (i - r->less) * sizeof g);
        r->group[r->less++] = g;
    }
}

int td_repeats_measure(struct td_judged_ops *candidate, double alpha, struct td_repeats *out, struct td_error *err)
{
    struct td_bias_groups g;
    int rc = td_bias_groups_find(candidate, &g);
    size_t i;

    memset(out, 0, sizeof *out);
    if (!rc && !(out->group = calloc(g.n_parts + 1, sizeof *out->group)))
        rc = TD_ENOMEM;
    for (i = 0; i < g.n_parts && !rc; i++)
        if (baseline_varies(&g, g.ops[g.part[i].first].op->kind))
            out->n += compare(g.ops, &g.part[i], alpha / (double)g.n_parts, &out->group[out->n]);
    if (!rc)
        sort_out(out, find_evidence(out, alpha));
    td_bias_groups_release(&g);
    return rc ? td_fail(err, TD_ENOMEM, "no memory to compare the runs of %zu ops", candidate->n) : TD_OK;
}

void td_repeats_release(struct td_repeats *r)
{
    free(r->group);
    memset(r, 0, sizeof *r);
}

void td_repeats_words(const struct td_repeats_group *g, char *out, size_t n)
{
    snprintf(out, n, "%s %s%s%s: %.3g %% of elements differ between %lld runs, before %.3g %% [%+.3g, %+.3g]", g->kind,
             g->shape, g->m_class < 0 ? "" : ", ", g->m_class < 0 ? "" : td_m_class_name(g->m_class), 100 * g->new_share,
             (long long)g->runs, 100 * g->old_share, 100 * g->lo, 100 * g->hi);
}
