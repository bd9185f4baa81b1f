/* bias_groups.c - the ops that bias is judged of, by groups.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/bias_groups.h"

#include <stdlib.h>
#include <string.h>

#include "differ/bias.h"
#include "differ/judged_slices.h"

static int by_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

static int by_kernel(const struct td_judged_op *p, const struct td_judged_op *q)
{
    int c = by_text(p->kind, q->kind);

    if (c == 0)
        c = by_text(p->shape, q->shape);
    return c ? c : by_text(p->dtype, q->dtype);
}

static int by_inputs(const struct td_slice_op *a, const struct td_slice_op *b)
{
    const int c = by_text(a->op->layer, b->op->layer);

    return c ? c : (a->input > b->input) - (a->input < b->input);
}

static int by_group(const void *a, const void *b)
{
    const struct td_slice_op *p = a, *q = b;
    int c = by_kernel(p->op, q->op);

    if (c == 0)
        c = p->op->m_class - q->op->m_class;
    return c ? c : by_inputs(p, q);
}

static int by_kernel_alone(const void *a, const void *b)
{
    const struct td_slice_op *p = a, *q = b;
    const int c = by_kernel(p->op, q->op);

    return c ? c : by_inputs(p, q);
}

/* Are these sums of outputs of one size, over the same slices? */
static bool are_alike(const struct td_slices *a, const struct td_slices *b)
{
    return a->rows == b->rows && a->cols == b->cols && a->first_tail == b->first_tail;
}

/* The sums of both sides, where both are known and alike. */
static bool has_slices(struct td_judged_op *op, struct td_slice_op *out)
{
    const struct td_op_error *base = td_op_baseline(op);

    if (op->status != TD_OP_OK || !base || !base->slices || !op->candidate.slices ||
        !are_alike(base->slices, op->candidate.slices))
        return false;
    *out = (struct td_slice_op){op, base->slices, op->candidate.slices, NULL,
                                op->origin ? op->origin->input : op->input, false};
    if (op->halves.slices && are_alike(op->halves.slices, base->slices))
        out->halves = op->halves.slices;
    return true;
}

/* Is this an op that should have slices: a product that was judged? Where only a digest of the baseline's
 * output was recorded, it has none. */
static bool wants_slices(const struct td_judged_op *op, int thinned)
{
    return op->status == TD_OP_OK && !op->without_reference && op->k > 0 && td_judged_slices_kept(op, thinned);
}

/* Divide sorted ops into parts, where pooled without regard to the class of M. Returns how many. */
static size_t divide(const struct td_slice_op *ops, size_t n, bool pooled, struct td_bias_part *out)
{
    size_t i, parts = 0;

    for (i = 0; i < n; i++) {
        const bool same = i > 0 && by_kernel(ops[i].op, ops[i - 1].op) == 0 &&
                          (pooled || ops[i].op->m_class == ops[i - 1].op->m_class) &&
                          ops[i].now->cols == ops[i - 1].now->cols;

        if (!same)
            out[parts++] = (struct td_bias_part){i, 0, pooled};
        out[parts - 1].n++;
    }
    return parts;
}

/* Move the parts that hold too few ops to the end, sorted and divided anew without classes of M. */
static int pool_small_parts(struct td_bias_groups *g)
{
    struct td_slice_op *small = malloc((g->n + 1) * sizeof *small);
    size_t p, kept = 0, at = 0, n = 0;

    if (!small)
        return TD_ENOMEM;
    for (p = 0; p < g->n_parts; p++) {
        const struct td_bias_part from = g->part[p];

        if (td_slice_blocks(g->ops + from.first, from.n) < TD_BIAS_LEAST_OPS) {
            memcpy(small + n, g->ops + from.first, from.n * sizeof *small);
            n += from.n;
            continue;
        }
        memmove(g->ops + at, g->ops + from.first, from.n * sizeof *small);
        g->part[kept++] = (struct td_bias_part){at, from.n, false};
        at += from.n;
    }
    qsort(small, n, sizeof *small, by_kernel_alone);
    memcpy(g->ops + at, small, n * sizeof *small);
    g->n_parts = kept + divide(g->ops + at, n, true, g->part + kept);
    for (p = kept; p < g->n_parts; p++)
        g->part[p].first += at;
    free(small);
    return TD_OK;
}

/* Is there an op that gives another output than the recorded one, which nobody knows? Then those with a digest that
 * give the recorded one are no fair sample: each of them would say that there is no difference. */
static bool some_unknown(const struct td_judged_ops *set)
{
    size_t i = 0;

    while (i < set->n && !(set->op[i].status == TD_OP_OK && set->op[i].digest_differs && !td_op_baseline(&set->op[i])))
        i++;
    return i < set->n;
}

/* Is only that op's digest, and no output, there to compare with? */
static bool has_digest_alone(const struct td_judged_op *op)
{
    return op->digest_found ? td_op_baseline(op) == &op->recorded : op->digest_differs && !td_op_baseline(op);
}

int td_bias_groups_find(struct td_judged_ops *candidate, struct td_bias_groups *g)
{
    const bool unknown = some_unknown(candidate);
    size_t i;

    memset(g, 0, sizeof *g);
    g->ops = malloc((candidate->n + 1) * sizeof *g->ops);
    g->part = malloc((candidate->n + 1) * sizeof *g->part);
    if (!g->ops || !g->part)
        return TD_ENOMEM;
    for (i = 0; i < candidate->n; i++) {
        if (unknown && has_digest_alone(&candidate->op[i]))
            g->digests += wants_slices(&candidate->op[i], candidate->thinned);
        else if (has_slices(&candidate->op[i], &g->ops[g->n]))
            g->n++;
        else
            g->without += wants_slices(&candidate->op[i], candidate->thinned);
    }
    qsort(g->ops, g->n, sizeof *g->ops, by_group);
    g->n_parts = divide(g->ops, g->n, false, g->part);
    return pool_small_parts(g);
}

void td_bias_groups_release(struct td_bias_groups *g)
{
    free(g->ops);
    free(g->part);
    memset(g, 0, sizeof *g);
}
