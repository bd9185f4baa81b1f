/* bias_unsure.c - ops of which the data does not tell whether they have the bias of their kernel.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/bias_unsure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "differ/bias_groups.h"
#include "differ/op_decide.h"
#include "differ/stats.h"

#define ALPHA 0.01      /* of the interval of what these ops have */
#define HALF 0.5        /* of the bias that was found */

/* The clearest finding of the kernel; NULL: there is none. */
static const struct td_bias_finding *find_of_kernel(const struct td_bias *b, const char *kind)
{
    size_t i;

    for (i = 0; i < b->n; i++)
        if (!strcmp(b->found[i].kind, kind))
            return &b->found[i];
    return NULL;
}

/* Of two ops or more with different inputs. A coarseness is a ratio: its half lies half-way in the logarithm. */
static bool lacks_coarseness(const struct td_bias_finding *f, const struct td_slice_op *ops, size_t n)
{
    struct td_slice_test t;

    td_slice_coarse(ops, n, 1, 1e-9, &t);
    return t.blocks >= 2 && log(t.est) + td_stat_t_limit(ALPHA, t.dof) * t.error < HALF * log(f->test.est);
}

static bool lacks_bias(const struct td_bias_finding *f, const struct td_slice_op *ops, size_t n)
{
    struct td_slice_test made[TD_SLICE_TESTS_MAX];
    const struct td_slice *want = &f->test.slice;
    size_t tests, i;

    if (isnan(td_slice_estimate(ops, n, want, f->test.measure)))
        return !td_slice_is_unknown(ops, n, want);
    tests = td_slice_tests(ops, n, 2, made);
    for (i = 0; i < tests; i++) {
        const struct td_slice_test *t = &made[i];

        if (t->measure == f->test.measure && t->slice.kind == want->kind && t->slice.mod == want->mod && t->slice.rest == want->rest)
            return t->est / f->test.est + td_stat_t_limit(ALPHA, t->dof) * t->error / fabs(f->test.est) < HALF;
    }
    return false;
}

static bool lacks(const struct td_bias_finding *f, const struct td_slice_op *ops, size_t n)
{
    return f->test.measure == TD_SLICE_COARSE ? lacks_coarseness(f, ops, n) : lacks_bias(f, ops, n);
}

static bool is_same_layer(const struct td_slice_op *a, const struct td_slice_op *b)
{
    return !strcmp(a->op->layer ? a->op->layer : "", b->op->layer ? b->op->layer : "");
}

/* ops: [n] of one group */
static int mark_part(const struct td_bias *b, const struct td_slice_op *ops, size_t n)
{
    const struct td_bias_finding *f = n ? find_of_kernel(b, ops[0].op->kind) : NULL;
    struct td_slice_op *rest;
    size_t left = 0, i, j, end;

    if (!f)
        return TD_OK;
    rest = malloc(n * sizeof *rest);
    if (!rest)
        return TD_ENOMEM;
    for (i = 0; i < n; i++)
        if (!ops[i].op->bias)
            rest[left++] = ops[i];
    for (i = left && lacks(f, rest, left) ? left : 0; i < left; i = end) {
        for (end = i; end < left && is_same_layer(&rest[end], &rest[i]); end++)
            ;
        if (!lacks(f, rest + i, end - i))
            for (j = i; j < end; j++)
                rest[j].op->bias_unsure = true;
    }
    free(rest);
    return TD_OK;
}

int td_bias_mark_unsure(struct td_judged_ops *candidate, const struct td_bias *b, struct td_error *err)
{
    struct td_bias_groups g;
    size_t i;
    int rc;

    if (!b->n)
        return TD_OK;
    for (i = 0; i < candidate->n; i++) /* no sums of the old output's errors: td_bias_groups_find() leaves it out */
        candidate->op[i].bias_unsure |= candidate->op[i].digest_differs && !td_op_baseline(&candidate->op[i]) &&
                                        find_of_kernel(b, candidate->op[i].kind);
    rc = td_bias_groups_find(candidate, &g);
    for (i = 0; i < g.n_parts && !rc; i++)
        rc = mark_part(b, g.ops + g.part[i].first, g.part[i].n);
    td_bias_groups_release(&g);
    return rc ? td_fail(err, TD_ENOMEM, "no memory for the slices of %zu ops", candidate->n) : TD_OK;
}
