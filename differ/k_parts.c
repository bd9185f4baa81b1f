/* k_parts.c - the parts of K that the errors of bad ops come from.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/k_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/number_words.h"
#include "common/out_of_memory.h"
#include "differ/op_along_k.h"
#include "differ/stats.h"

#define CLASS 8
#define PERIOD 128
#define BLOCKS 6      /* ops from which on their scatter tells the error */
#define EXPLAINED 0.4
#define ALIKE 0.25    /* neighbours whose coefficients differ by less of the larger are one part */

/* ---- one shape ------------------------------------------------------------------------------- */

static bool is_asked(const struct td_judged_op *op)
{
    return op->along_k && op->result == TD_RESULT_WORSE;
}

/* Ops that were asked and have one shape, in their order. */
struct alike { const struct td_judged_op **op; size_t n; };

/* 0: they have one shape. */
static int compare_shapes(const struct td_judged_op *a, const struct td_judged_op *b)
{
    const struct td_op_along_k *x = a->along_k, *y = b->along_k;
    const int kinds = strcmp(a->kind, b->kind);

    if (kinds || a->k != b->k)
        return kinds ? kinds : a->k < b->k ? -1 : 1;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->of[0].n != y->of[0].n)
        return x->of[0].n < y->of[0].n ? -1 : 1;
    return (x->of[1].n > y->of[1].n) - (x->of[1].n < y->of[1].n);
}

/* By shape; the ops of one in the order in which they lie in memory. */
static int by_shape(const void *a, const void *b)
{
    const struct td_judged_op *x = *(const struct td_judged_op *const *)a, *y = *(const struct td_judged_op *const *)b;
    const int shapes = compare_shapes(x, y);

    return shapes ? shapes : (x > y) - (x < y);
}

/* The ops of the shape of which most were asked; of several, that of the first op. The caller frees memory->op. */
static struct alike find_shape(const struct td_judged_ops *ops, struct alike *memory)
{
    struct alike best = {NULL, 0};
    size_t i, end;

    *memory = (struct alike){malloc((ops->n + 1) * sizeof *memory->op), 0};
    if (!memory->op) {
        td_out_of_memory_note();
        return best;
    }
    for (i = 0; i < ops->n; i++)
        if (is_asked(&ops->op[i]))
            memory->op[memory->n++] = &ops->op[i];
    qsort(memory->op, memory->n, sizeof *memory->op, by_shape);
    for (i = 0; i < memory->n; i = end) {
        for (end = i + 1; end < memory->n && !compare_shapes(memory->op[i], memory->op[end]); end++)
            ;
        if (end - i > best.n || (end - i == best.n && memory->op[i] < best.op[0]))
            best = (struct alike){memory->op + i, end - i};
    }
    return best;
}

/* The mean coefficient of parts [from, to) over the ops of a shape. */
struct part { double est, error, dof; };

static struct part join(const struct alike *ops, int which, int from, int to)
{
    double sum = 0, squares = 0, variance = 0, n = 0, dof = INFINITY, scatter;
    struct part p;
    size_t i;

    for (i = 0; i < ops->n; i++) {
        const struct td_op_along_k *x = ops->op[i]->along_k;
        double est = 0, v = 0;

        for (int k = from; k < to; k++) {
            est += x->of[which].est[k] / (to - from);
            v += x->of[which].error[k] * x->of[which].error[k] / (to - from) / (to - from);
        }
        sum += est;
        squares += est * est;
        variance += v;
        dof = fmin(dof, x->dof);
        n++;
    }
    p = (struct part){sum / n, sqrt(variance) / n, dof};
    if (n < BLOCKS)
        return p;
    scatter = sqrt(fmax(0, squares - sum * sum / n) / (n - 1) / n);
    if (scatter >= p.error)
        p = (struct part){p.est, scatter, n - 1};
    return p;
}

static double explained(const struct alike *ops, int which)
{
    double sum = 0;

    for (size_t i = 0; i < ops->n; i++)
        sum += ops->op[i]->along_k->of[which].explained;
    return sum / (double)ops->n;
}

struct family { int which, n; struct part part[TD_K_PARTS_MOST]; bool named[TD_K_PARTS_MOST]; int n_named; double most; };

static void measure(const struct alike *ops, int which, double alpha, struct family *f)
{
    memset(f, 0, sizeof *f);
    f->which = which;
    f->n = ops->op[0]->along_k->of[which].n;
    for (int i = 0; i < f->n; i++) {
        const struct part p = join(ops, which, i, i + 1);
        const double t = p.est == 0 ? 0 : fabs(p.est) / p.error;

        f->part[i] = p;
        f->named[i] = t > td_stat_t_limit(alpha, p.dof) && fabs(p.est) >= TD_K_PARTS_LEAST;
        f->n_named += f->named[i];
        f->most = fmax(f->most, t);
    }
}

/* Parts from i on that are named and alike. */
static int run_of(const struct family *f, int i)
{
    int end = i;

    while (end < f->n && f->named[end] &&
           fabs(f->part[end].est - f->part[i].est) <= ALIKE * fmax(fabs(f->part[end].est), fabs(f->part[i].est)))
        end++;
    return end - i;
}

/* ---- words ----------------------------------------------------------------------------------- */

static void add_part(const struct alike *ops, const struct family *f, int from, int to, double alpha, struct td_buf *out)
{
    const struct td_judged_op *like = ops->op[0];
    const struct part p = join(ops, f->which, from, to);
    const double t = td_stat_t_limit(alpha, p.dof) * p.error;
    const int64_t step = f->which ? CLASS : like->along_k->step;
    int64_t last = to * step - 1;

    if (!f->which && last >= like->k)
        last = like->k - 1;
    td_buf_addf(out, f->which ? "K = %lld..%lld mod %d" : "K %lld..%lld", (long long)(from * step), (long long)last, PERIOD);
    td_buf_addf(out, ": %+.3g %% [%+.3g, %+.3g]", 100 * p.est, 100 * (p.est - t), 100 * (p.est + t));
}

/* The run of parts that shows it most clearly. Returns where it begins. */
static int clearest_run(const struct family *f, int *runs)
{
    int best = -1;
    double most = -1;

    *runs = 0;
    for (int i = 0; i < f->n;) {
        const int n = run_of(f, i);
        double t = 0;

        for (int k = i; k < i + n; k++)
            t = fmax(t, fabs(f->part[k].est) / f->part[k].error);
        if (n && t > most) {
            best = i;
            most = t;
        }
        *runs += n > 0;
        i += n ? n : 1;
    }
    return best;
}

static void add_words(const struct alike *ops, struct td_buf *out)
{
    const struct td_op_along_k *x = ops->op[0]->along_k;
    const double alpha = TD_K_PARTS_ALPHA / (x->of[0].n + x->of[1].n);
    struct family pieces, classes;
    const struct family *f;
    int runs, first;

    measure(ops, 0, alpha, &pieces);
    measure(ops, 1, alpha, &classes);
    f = classes.most > pieces.most ? &classes : &pieces;
    if (!f->n_named || 2 * f->n_named > f->n || !(explained(ops, f->which) >= EXPLAINED))
        return;
    first = clearest_run(f, &runs);
    add_part(ops, f, first, first + run_of(f, first), alpha, out);
    if (runs > 1)
        td_buf_addf(out, ", and %d more part%s of K", runs - 1, td_plural(runs - 1));
}

void td_k_parts_add_words(const struct td_judged_ops *ops, struct td_buf *out)
{
    struct alike memory;
    const struct alike most = find_shape(ops, &memory);

    if (most.n)
        add_words(&most, out);
    free(memory.op);
}
