/* bias.c - are the errors of a kernel biased, or coarser than the baseline's, over all of its ops?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/bias.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number_words.h"
#include "differ/bias_groups.h"
#include "differ/stats.h"

static int by_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

/* ---- one run of all tests -------------------------------------------------------------------- */

/* left_out: ops that stand far out and are not among these */
struct found_test { struct td_slice_test test; size_t part; const char *layer; size_t ops, left_out; };

struct run {
    struct td_bias_groups g;
    struct found_test *test; size_t n_tests, cap;
    const struct td_policy *policy;
    struct td_bias *out;
};

/* Sizes are in units of which a right element may be the floor off. Where the judge holds a kind of op to a lower floor than the policy's
 * (ggml_mul_mat), limits of sizes are lowered alike. */
static double lowered(const struct run *r, size_t part)
{
    const struct td_judged_op *op = r->g.ops[r->g.part[part].first].op;
    const double floor = td_policy_floor(r->policy, op->kind, op->dtype, op->judge_floor);

    return floor > 0 && floor < r->policy->floor ? floor / r->policy->floor : 1;
}

static double bias_of(const struct run *r, size_t part)
{
    return r->policy->bias * lowered(r, part);
}

static double coarse_floor_of(const struct run *r, size_t part)
{
    return r->policy->coarse_floor * lowered(r, part);
}

static int add_tests_of(struct run *r, size_t part, const char *layer, const struct td_slice_op *ops, size_t n,
                        size_t left_out)
{
    struct td_slice_test made[TD_SLICE_TESTS_MAX + 1];
    size_t tests = td_slice_tests(ops, n, TD_BIAS_LEAST_OPS, made), i;

    td_slice_coarse(ops, n, r->policy->coarse, coarse_floor_of(r, part), &made[tests]);
    tests += made[tests].blocks >= TD_BIAS_LEAST_OPS;
    if (r->n_tests + tests > r->cap) {
        const size_t cap = 2 * (r->n_tests + tests);
        struct found_test *grown = realloc(r->test, cap * sizeof *grown);

        if (!grown)
            return TD_ENOMEM;
        r->test = grown;
        r->cap = cap;
    }
    for (i = 0; i < tests; i++)
        r->test[r->n_tests++] = (struct found_test){made[i], part, layer, n, left_out};
    return TD_OK;
}

/* Copy the ops that do not stand far out. Returns how many. */
static size_t leave_out_odd(const struct td_slice_op *ops, size_t n, struct td_slice_op *out)
{
    size_t i, kept = 0;

    for (i = 0; i < n; i++)
        if (!ops[i].odd)
            out[kept++] = ops[i];
    return kept;
}

/* Test these ops, and once more without those that stand far out. */
static int add_tests(struct run *r, size_t part, const char *layer, const struct td_slice_op *ops, size_t n)
{
    struct td_slice_op *few = malloc((n + 1) * sizeof *few);
    const size_t kept = few ? leave_out_odd(ops, n, few) : 0;
    int rc = few ? add_tests_of(r, part, layer, ops, n, 0) : TD_ENOMEM;

    if (!rc && kept < n && td_slice_blocks(few, kept) >= TD_BIAS_LEAST_OPS)
        rc = add_tests_of(r, part, layer, few, kept, n - kept);
    free(few);
    return rc;
}

/* Test a part as a whole, and each of its layers. */
static int test_part(struct run *r, size_t p)
{
    struct td_slice_op *ops = r->g.ops + r->g.part[p].first;
    const size_t n = r->g.part[p].n;
    size_t i, end, layers = 0;
    int rc;

    td_slice_mark_odd(ops, n, bias_of(r, p));
    rc = add_tests(r, p, NULL, ops, n);
    for (i = 0; i < n; i = end, layers++)
        for (end = i; end < n && by_text(ops[end].op->layer, ops[i].op->layer) == 0; end++)
            ;
    for (i = 0; i < n && !rc && layers > 1; i = end) {
        for (end = i; end < n && by_text(ops[end].op->layer, ops[i].op->layer) == 0; end++)
            ;
        if (ops[i].op->layer && td_slice_blocks(ops + i, end - i) >= TD_BIAS_LEAST_OPS)
            rc = add_tests(r, p, ops[i].op->layer, ops + i, end - i);
    }
    return rc;
}

static int make_tests(struct run *r)
{
    size_t p;
    int rc = TD_OK;

    for (p = 0; p < r->g.n_parts && !rc; p++) {
        if (td_slice_blocks(r->g.ops + r->g.part[p].first, r->g.part[p].n) < TD_BIAS_LEAST_OPS) {
            r->out->few++;
            continue;
        }
        r->out->groups++;
        r->out->ops += r->g.part[p].n;
        rc = test_part(r, p);
    }
    r->out->tests = r->n_tests;
    return rc;
}

/* ---- what counts ----------------------------------------------------------------------------- */

static int by_p(const void *a, const void *b)
{
    const double p = *(const double *)a, q = *(const double *)b;

    return (p > q) - (p < q);
}

/* The largest p that is evidence; below 0: none is. */
static double find_evidence(const struct run *r)
{
    double *p = malloc((r->n_tests + 1) * sizeof *p), most = -1;
    size_t i;

    if (!p)
        return -1;
    for (i = 0; i < r->n_tests; i++)
        p[i] = r->test[i].test.p;
    qsort(p, r->n_tests, sizeof *p, by_p);
    most = td_stat_holm(p, r->n_tests, r->n_tests, r->policy->slices_alpha);
    free(p);
    return most;
}

/* How large the effect is: of bias, how much more the candidate has. */
static double effect_of(const struct td_slice_test *t)
{
    return t->now_size - t->old_size;
}

static bool is_regression(const struct run *r, const struct found_test *t, double evidence)
{
    if (!(t->test.p <= evidence))
        return false;
    return t->test.measure == TD_SLICE_COARSE ? t->test.est > r->policy->coarse : effect_of(&t->test) >= bias_of(r, t->part);
}

/* Of two tests the one that says it more clearly: by the smaller p, else by the larger t. */
static bool is_clearer(const struct td_slice_test *a, const struct td_slice_test *b)
{
    if (a->p != b->p)
        return a->p < b->p;
    return fabs(a->est) * b->error > fabs(b->est) * a->error;
}

static double limit_of(const struct run *r, const struct found_test *t)
{
    return t->test.measure == TD_SLICE_COARSE ? r->policy->coarse * fmax(t->test.old_size, coarse_floor_of(r, t->part))
                                              : t->test.old_size + bias_of(r, t->part);
}

static void set_interval(struct td_bias_finding *f, const struct run *r)
{
    const double t = td_stat_t_limit(r->policy->slices_alpha / (double)r->n_tests, f->test.dof) * f->test.error;
    const bool ratio = f->test.measure == TD_SLICE_COARSE;

    f->lo = ratio ? f->test.est * exp(-t) : f->test.est - t;
    f->hi = ratio ? f->test.est * exp(t) : f->test.est + t;
}

/* Do these ops show the finding? At least half of the bias must be seen. */
static bool ops_show(const struct td_bias_finding *f, const struct td_slice_op *ops, size_t n)
{
    struct td_slice_test coarse;

    if (f->test.measure != TD_SLICE_COARSE)
        return td_slice_estimate(ops, n, &f->test.slice, f->test.measure) / f->test.est > 0.5;
    td_slice_coarse(ops, n, 1, 1e-9, &coarse);
    return coarse.blocks < 2 || coarse.est > sqrt(f->test.est);
}

/* Does the layer as a whole show the finding? Ops that the finding leaves out are asked only where there
 * are no others. */
static bool layer_shows(const struct td_bias_finding *f, const struct td_slice_op *ops, size_t n)
{
    struct td_slice_op *few = f->left_out ? malloc((n + 1) * sizeof *few) : NULL;
    const size_t kept = few ? leave_out_odd(ops, n, few) : 0;
    const bool shows = kept ? ops_show(f, few, kept) : ops_show(f, ops, n);

    free(few);
    return shows;
}

/* Is an op bad where its group is? One that the finding leaves out only if the candidate is worse in it. */
static bool is_marked(const struct td_bias_finding *f, const struct td_slice_op *op)
{
    return !f->left_out || !op->odd ||
           (op->now->sum[TD_SUM_EE][0] > op->old->sum[TD_SUM_EE][0] && ops_show(f, op, 1));
}

static void mark(struct td_bias_finding *f, struct td_judged_op *op)
{
    char words[160];

    f->marked++;
    if (!op->bias)
        op->bias = f;
    if (op->result != TD_RESULT_OK && op->result != TD_RESULT_UNDECIDED)
        return;
    td_bias_words(f, words, sizeof words);
    td_op_set_result(op, TD_RESULT_WORSE, "%s (over %zu ops of this kernel)", words, f->ops);
}

static void mark_ops(struct td_bias_finding *f, const struct run *r, const struct td_bias_part *part)
{
    const struct td_slice_op *ops = r->g.ops + part->first;
    size_t i, j, end;

    for (i = 0; i < part->n; i = end) {
        for (end = i; end < part->n && by_text(ops[end].op->layer, ops[i].op->layer) == 0; end++)
            ;
        f->layers++;
        if (f->layer && by_text(f->layer, ops[i].op->layer) != 0)
            continue;
        if (f->layer || layer_shows(f, ops + i, end - i))
            for (j = i; j < end; j++)
                if (is_marked(f, &ops[j]))
                    mark(f, ops[j].op);
    }
}

static void add_finding(struct run *r, const struct found_test *best, size_t slices)
{
    const struct td_bias_part *part = &r->g.part[best->part];
    const struct td_judged_op *op = r->g.ops[part->first].op;
    struct td_bias_finding *f = &r->out->found[r->out->n++];

    *f = (struct td_bias_finding){.kind = op->kind, .shape = op->shape, .dtype = op->dtype, .layer = best->layer,
                                  .m_class = part->pooled ? -1 : op->m_class, .test = best->test,
                                  .ops = best->ops, .left_out = best->left_out, .slices = slices};
    f->part = best->part;
    f->limit = limit_of(r, best);
    set_interval(f, r);
}

/* Of a layer says less than of all of them. */
static bool says_more(const struct found_test *a, const struct found_test *b)
{
    if (!b || !a->layer != !b->layer)
        return !b || !a->layer;
    return is_clearer(&a->test, &b->test);
}

/* The clearest regression of a part, of bias or of coarseness; NULL: there is none. *slices: how many
 * tests of as many ops say so. */
static const struct found_test *find_clearest(const struct run *r, size_t first, size_t end, double evidence,
                                              bool coarse, size_t *slices)
{
    const struct found_test *best = NULL;
    size_t i, say_so[2] = {0};

    for (i = first; i < end; i++) {
        const struct found_test *t = &r->test[i];

        if ((t->test.measure == TD_SLICE_COARSE) != coarse || !is_regression(r, t, evidence))
            continue;
        say_so[t->left_out > 0]++;
        if (says_more(t, best))
            best = t;
    }
    *slices = best ? say_so[best->left_out > 0] : 0;
    return best;
}

/* Does this bias make errors as coarse as that? */
static bool explains(const struct run *r, const struct found_test *bias, const struct found_test *coarse)
{
    const struct td_slice_test *b = &bias->test, *c = &coarse->test;
    const double limit = limit_of(r, coarse);

    return c->now_size * c->now_size - b->share * b->now_size * b->now_size < limit * limit;
}

static void find_of_part(struct run *r, size_t first, size_t end, double evidence)
{
    size_t n_bias, n_coarse;
    const struct found_test *bias = find_clearest(r, first, end, evidence, false, &n_bias),
                            *coarse = find_clearest(r, first, end, evidence, true, &n_coarse);

    if (bias)
        add_finding(r, bias, n_bias);
    if (coarse && !(bias && explains(r, bias, coarse)))
        add_finding(r, coarse, n_coarse);
}

/* Is the baseline the coarser one, by the same rule? */
static bool is_finer(const struct run *r, const struct td_bias_part *part, struct td_slice_test *out)
{
    struct td_slice_op *swapped = malloc((part->n + 1) * sizeof *swapped);
    size_t i;

    for (i = 0; i < part->n && swapped; i++) {
        const struct td_slice_op *op = &r->g.ops[part->first + i];

        swapped[i] = (struct td_slice_op){op->op, op->now, op->old, NULL, op->input, false};
    }
    if (swapped)
        td_slice_coarse(swapped, part->n, r->policy->coarse, coarse_floor_of(r, (size_t)(part - r->g.part)), out);
    free(swapped);
    return swapped && out->blocks >= TD_BIAS_LEAST_OPS && out->p <= r->policy->slices_alpha / (double)r->g.n_parts;
}

/* Has the candidate clearly less of a bias in this part, or finer errors? */
static void find_better(struct run *r, size_t first, size_t end, double evidence)
{
    const struct td_bias_part *part = &r->g.part[r->test[first].part];
    struct td_slice_test finer = {0};
    const struct td_slice_test *less = NULL;
    size_t i;

    for (i = first; i < end && !less; i++)
        if (r->test[i].test.measure != TD_SLICE_COARSE && r->test[i].test.p <= evidence &&
            -effect_of(&r->test[i].test) >= bias_of(r, r->test[i].part))
            less = &r->test[i].test;
    if (!less && !is_finer(r, part, &finer))
        return;
    if (r->out->better++)
        return;
    r->out->better_kind = r->g.ops[part->first].op->kind;
    r->out->better_shape = r->g.ops[part->first].op->shape;
    r->out->better_old = less ? less->old_size : finer.now_size; /* the sides of finer are swapped */
    r->out->better_new = less ? less->now_size : finer.old_size;
}

static int by_clearness(const void *a, const void *b)
{
    const struct td_bias_finding *p = a, *q = b;

    return is_clearer(&q->test, &p->test) - is_clearer(&p->test, &q->test);
}

static int weigh(struct run *r)
{
    const double evidence = find_evidence(r);
    size_t i, end;

    r->out->found = calloc(2 * r->g.n_parts + 1, sizeof *r->out->found);
    if (!r->out->found)
        return TD_ENOMEM;
    for (i = 0; i < r->n_tests; i = end) {
        for (end = i; end < r->n_tests && r->test[end].part == r->test[i].part; end++)
            ;
        find_of_part(r, i, end, evidence);
        find_better(r, i, end, evidence);
    }
    qsort(r->out->found, r->out->n, sizeof *r->out->found, by_clearness);
    for (i = 0; i < r->out->n; i++)
        mark_ops(&r->out->found[i], r, &r->g.part[r->out->found[i].part]);
    return TD_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

int td_bias_measure(struct td_judged_ops *candidate, const struct td_policy *policy,
                    struct td_bias *out, struct td_error *err)
{
    struct run r = {.policy = policy, .out = out};
    int rc;

    memset(out, 0, sizeof *out);
    out->thinned = candidate->thinned;
    rc = td_bias_groups_find(candidate, &r.g);
    out->without = r.g.without;
    out->digests = r.g.digests;
    if (!rc)
        rc = make_tests(&r);
    if (!rc)
        rc = weigh(&r);
    td_bias_groups_release(&r.g);
    free(r.test);
    return rc ? td_fail(err, TD_ENOMEM, "no memory for the slices of %zu ops", candidate->n) : TD_OK;
}

void td_bias_release(struct td_bias *b)
{
    free(b->found);
    memset(b, 0, sizeof *b);
}

/* ---- words ----------------------------------------------------------------------------------- */

void td_bias_words(const struct td_bias_finding *f, char *out, size_t n)
{
    char slice[64];
    const double of = f->test.measure == TD_SLICE_SLOPE ? 100 : 1;

    td_slice_words(&f->test.slice, slice, sizeof slice);
    if (f->test.measure == TD_SLICE_COARSE)
        snprintf(out, n, "%s: rms error %.3g times %s [%.3g, %.3g]", slice, f->test.est,
                 f->test.beside_halves ? "that of right sums in halves" : "the baseline's", f->lo, f->hi);
    else
        snprintf(out, n, "%s: %+.3g%s [%+.3g, %+.3g]", slice, f->test.est * of,
                 f->test.measure == TD_SLICE_SLOPE ? " %" : " roundings", f->lo * of, f->hi * of);
}

void td_bias_place(const struct td_bias_finding *f, char *out, size_t n)
{
    int len = snprintf(out, n, "%s %s, ", f->kind, f->shape);

    if (len >= 0 && (size_t)len < n && f->m_class >= 0)
        len += snprintf(out + len, n - (size_t)len, "%s, ", td_m_class_name(f->m_class));
    if (len < 0 || (size_t)len >= n)
        return;
    if (f->layer)
        len += snprintf(out + len, n - (size_t)len, "%s, %zu op%s", f->layer, f->ops, td_plural((int64_t)f->ops));
    else
        len += snprintf(out + len, n - (size_t)len, "%zu op%s in %zu layer%s", f->ops, td_plural((int64_t)f->ops), f->layers,
                        td_plural((int64_t)f->layers));
    if (f->left_out && (size_t)len < n)
        snprintf(out + len, n - (size_t)len, ", without %zu op%s far off", f->left_out, td_plural((int64_t)f->left_out));
}
