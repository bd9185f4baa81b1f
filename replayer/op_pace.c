/* op_pace.c - how long the ops of a replay take: find it out from a few, make a plan, keep to the time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_pace.h"

#include <math.h>
#include <stdlib.h>

#include "common/clock.h"
#include "replayer/op_plan.h"
#include "replayer/op_timing.h"

#define CHEAP 0.01      /* of the time: a group whose ops take more is measured with one op */
#define PLANNED 0.9     /* of what is left: a plan that takes a little longer than expected ends in time */
#define PATIENCE 2      /* times what was expected, before a plan is given up */

/* ---- the order while it measures ------------------------------------------------------------- */

static int by_turn(const void *a, const void *b, void *list)
{
    const struct td_op_list *l = list;
    const struct td_op_choice *x = &l->items[*(const int32_t *)a], *y = &l->items[*(const int32_t *)b];

    if (x->turn != y->turn)
        return x->turn < y->turn ? -1 : 1;
    return (x->weights > y->weights) - (x->weights < y->weights);
}

int32_t *td_op_pace_measure(struct td_op_pace *p, const struct td_op_list *l, size_t *n)
{
    int32_t *which = malloc((l->n + 1) * sizeof *which);
    size_t i;

    *n = 0;
    p->measures = true;
    for (i = 0; which && i < l->n; i++)
        if (l->items[i].chosen && l->items[i].turn < TD_OP_PACE_TURNS)
            which[(*n)++] = (int32_t)i;
    if (which)
        qsort_r(which, *n, sizeof *which, by_turn, (void *)(uintptr_t)l);
    return which;
}

/* So many ops of a group are judged whatever they take. What is timed is judged. */
static int least_ops(const struct td_replay_options *o)
{
    return o->baseline_build && o->op_timing ? TD_OP_TIMING_PER_GROUP : 1;
}

static bool is_too_dear(const struct td_op_pace *p, const struct td_op_run *r, const struct td_op_choice *c)
{
    return c->turn >= least_ops(r->opt) && r->groups[c->group].cost_s > p->time_s * CHEAP;
}

static double spent_s(const struct td_op_pace *p)
{
    return (double)(td_clock_mono_ns() - p->began_ns - p->aside_ns) / TD_NS_PER_S;
}

bool td_op_pace_is_late(struct td_op_pace *p, const struct td_op_run *r)
{
    p->late = p->stop_s > 0 && atomic_load(&r->ran) > 0 && spent_s(p) >= p->stop_s;
    return p->late;
}

const struct td_op_choice *td_op_pace_next(struct td_op_pace *p, const struct td_op_run *r, struct td_op_window *w,
                                           bool is_first, struct td_error *err)
{
    const struct td_op_choice *next = td_op_window_peek(w);
    struct td_op unwanted = {0};

    while (p->measures && next && is_too_dear(p, r, next)) {
        if (td_op_window_next(w, &unwanted, err) < 0)
            return NULL;
        td_op_release(&unwanted);
        next = td_op_window_peek(w);
    }
    if (!next)
        return NULL;
    if (p->measures && !is_first && next->turn != p->turn && next->turn >= least_ops(r->opt)) /* what an op takes decides about the next */
        return NULL;
    p->turn = next->turn;
    return next;
}

/* ---- the clock ------------------------------------------------------------------------------- */

void td_op_pace_begin(struct td_op_pace *p, double time_s)
{
    *p = (struct td_op_pace){.time_s = time_s, .began_ns = td_clock_mono_ns()};
}

void td_op_pace_ran(struct td_op_pace *p, const struct td_op_item *it)
{
    p->aside_ns += it->aside_ns;
}

void td_op_pace_rest(struct td_op_pace *p, int64_t timed_ns)
{
    p->aside_ns += timed_ns;
}

/* Of two ops of a group the cheaper one tells what the next will take: the dearer one met something else. */
static void note_cost(struct td_op_run_group *g, double cost_s, double beside_s)
{
    g->cost_s = g->done ? fmin(g->cost_s, cost_s) : cost_s;
    g->beside_s = g->done ? fmin(g->beside_s, beside_s) : beside_s;
    g->done++;
}

double td_op_pace_beside(double load_s, double run_s, double judge_s, double write_s, int cpus)
{
    return fmax(fmax(load_s, run_s), judge_s + (load_s + run_s) / cpus) + write_s;
}

void td_op_pace_judged(struct td_op_pace *p, struct td_op_run *r, const struct td_op_item *items, int n, int64_t judged_ns, int64_t wrote_ns)
{
    int64_t sum = 0;
    int i;

    for (i = 0; i < n; i++)
        sum += items[i].judge_ns;
    for (i = 0; p->measures && i < n; i++) {
        if (td_op_item_may_try_again(&items[i]))
            continue;

        const double part = sum > 0 ? (double)items[i].judge_ns / (double)sum : 1.0 / n, load = (double)items[i].load_ns,
                     run = (double)(items[i].run_ns - items[i].load_ns), judge = part * (double)judged_ns, write = part * (double)wrote_ns;

        note_cost(&r->groups[items[i].group], (load + run + judge + write) / TD_NS_PER_S,
                  td_op_pace_beside(load, run, judge, write, p->cpus > 1 ? p->cpus : 1) / TD_NS_PER_S);
    }
}

/* ---- the plan -------------------------------------------------------------------------------- */

static int by_group_and_layer(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* In how many layers lie the chosen ops of each group? */
static int count_layers(const struct td_op_list *l, struct td_op_plan_cost *cost)
{
    uint64_t *at = malloc((l->n + 1) * sizeof *at);
    size_t i, n = 0;

    if (!at)
        return TD_ENOMEM;
    for (i = 0; i < l->n; i++)
        if (l->items[i].chosen)
            at[n++] = (uint64_t)l->items[i].group << 32 | l->items[i].layer;
    qsort(at, n, sizeof *at, by_group_and_layer);
    for (i = 0; i < n; i++)
        cost[at[i] >> 32].layers += !i || at[i] != at[i - 1];
    free(at);
    return TD_OK;
}

/* What the rest of the plan will take. */
static double seconds_of(const struct td_op_plan_cost *cost, size_t n, const int64_t *keep)
{
    double s = 0;
    size_t g;

    for (g = 0; g < n; g++)
        s += (double)(keep[g] - cost[g].done) * cost[g].cost_s;
    return s;
}

static void fit(struct td_op_pace *p, struct td_op_run *r, struct td_op_plan_cost *cost, int64_t *keep)
{
    const double spent = spent_s(p), read_s = p->pass_s / TD_OP_WINDOW;
    const size_t n = r->list.n_groups;
    double longest;
    size_t g;

    for (g = 0; g < n; g++) {
        cost[g].have = r->list.groups[g].chosen;
        cost[g].done = r->groups[g].done;
        cost[g].cost_s = (p->overlaps ? r->groups[g].beside_s : r->groups[g].cost_s) + read_s;
    }
    td_op_plan_fit(cost, n, (p->time_s - spent - p->pass_s) * PLANNED, keep);
    longest = spent + p->pass_s + seconds_of(cost, n, keep);
    p->stop_s = PATIENCE * fmax(p->time_s, longest);
}

int td_op_pace_plan(struct td_op_pace *p, struct td_op_run *r, int64_t *left_out, struct td_error *err)
{
    const size_t n = r->list.n_groups;
    struct td_op_plan_cost *cost = calloc(n + 1, sizeof *cost);
    int64_t *keep = calloc(n + 1, sizeof *keep);
    int rc = cost && keep && !count_layers(&r->list, cost) ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory for a plan");

    if (!rc) {
        fit(p, r, cost, keep);
        *left_out = td_op_list_keep(&r->list, keep);
        p->measures = false;
    }
    free(cost);
    free(keep);
    return rc;
}
