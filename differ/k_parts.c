/* k_parts.c - the parts of K that the errors of bad ops come from.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/k_parts.h"

#include <math.h>
#include <string.h>

#include "common/number_words.h"
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

static bool is_of_shape(const struct td_judged_op *a, const struct td_judged_op *b)
{
    return is_asked(b) && !strcmp(a->kind, b->kind) && a->k == b->k && a->along_k->step == b->along_k->step &&
           a->along_k->of[0].n == b->along_k->of[0].n && a->along_k->of[1].n == b->along_k->of[1].n;
}

static size_t count_alike(const struct td_judged_ops *ops, const struct td_judged_op *like)
{
    size_t i, n = 0;

    for (i = 0; i < ops->n; i++)
        n += is_of_shape(like, &ops->op[i]);
    return n;
}

/* An op of the shape of which most were asked; NULL: none was. */
static const struct td_judged_op *find_shape(const struct td_judged_ops *ops)
{
    const struct td_judged_op *best = NULL;
    size_t i, most = 0;

    for (i = 0; i < ops->n; i++)
        if (is_asked(&ops->op[i]) && (!best || !is_of_shape(best, &ops->op[i]))) {
            const size_t n = count_alike(ops, &ops->op[i]);

            if (n > most) {
                best = &ops->op[i];
                most = n;
            }
        }
    return best;
}

/* The mean coefficient of parts [from, to) over the ops of a shape. */
struct part { double est, error, dof; };

static struct part join(const struct td_judged_ops *ops, const struct td_judged_op *like, int which, int from, int to)
{
    double sum = 0, squares = 0, variance = 0, n = 0, dof = INFINITY, scatter;
    struct part p;
    size_t i;

    for (i = 0; i < ops->n; i++) {
        const struct td_op_along_k *x = ops->op[i].along_k;
        double est = 0, v = 0;

        if (!is_of_shape(like, &ops->op[i]))
            continue;
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

static double explained(const struct td_judged_ops *ops, const struct td_judged_op *like, int which)
{
    double sum = 0, n = 0;
    size_t i;

    for (i = 0; i < ops->n; i++)
        if (is_of_shape(like, &ops->op[i])) {
            sum += ops->op[i].along_k->of[which].explained;
            n++;
        }
    return sum / n;
}

struct family { int which, n; struct part part[TD_K_PARTS_MOST]; bool named[TD_K_PARTS_MOST]; int n_named; double most; };

static void measure(const struct td_judged_ops *ops, const struct td_judged_op *like, int which, double alpha, struct family *f)
{
    memset(f, 0, sizeof *f);
    f->which = which;
    f->n = like->along_k->of[which].n;
    for (int i = 0; i < f->n; i++) {
        const struct part p = join(ops, like, which, i, i + 1);
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

static void add_part(const struct td_judged_ops *ops, const struct td_judged_op *like, const struct family *f, int from, int to, double alpha,
                     struct td_buf *out)
{
    const struct part p = join(ops, like, f->which, from, to);
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

void td_k_parts_add_words(const struct td_judged_ops *ops, struct td_buf *out)
{
    const struct td_judged_op *like = find_shape(ops);
    struct family pieces, classes;
    const struct family *f;
    double alpha;
    int runs, first;

    if (!like)
        return;
    alpha = TD_K_PARTS_ALPHA / (like->along_k->of[0].n + like->along_k->of[1].n);
    measure(ops, like, 0, alpha, &pieces);
    measure(ops, like, 1, alpha, &classes);
    f = classes.most > pieces.most ? &classes : &pieces;
    if (!f->n_named || 2 * f->n_named > f->n || !(explained(ops, like, f->which) >= EXPLAINED))
        return;
    first = clearest_run(f, &runs);
    add_part(ops, like, f, first, first + run_of(f, first), alpha, out);
    if (runs > 1)
        td_buf_addf(out, ", and %d more part%s of K", runs - 1, td_plural(runs - 1));
}
