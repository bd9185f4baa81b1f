/* op_plan.c - share the time among the groups of ops.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double least_cost(const struct td_op_plan_cost *c)
{
    return c->cost_s > 1e-9 ? c->cost_s : 1e-9;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How many ops of a group fit into `seconds`, beside those that it has whatever comes. */
static int64_t ops_in(const struct td_op_plan_cost *c, int64_t least, double seconds)
{
    const double fit = floor(seconds / least_cost(c));

    return fit >= (double)c->have ? c->have : larger(least, (int64_t)fit);
}

/* Seconds for what is not done yet. */
static double time_for(const struct td_op_plan_cost *c, int64_t keep)
{
    return (double)larger(keep - c->done, 0) * least_cost(c);
}

static double time_of_share(const struct td_op_plan_cost *cost, size_t n, const int64_t *least, double seconds)
{
    double sum = 0;
    size_t g;

    for (g = 0; g < n; g++)
        sum += time_for(&cost[g], ops_in(&cost[g], least[g], seconds));
    return sum;
}

/* One op of each group, or one of each layer. Returns the seconds that takes. */
static double set_floor(const struct td_op_plan_cost *cost, size_t n, bool each_layer, int64_t *least)
{
    double sum = 0;
    size_t g;

    for (g = 0; g < n; g++) {
        least[g] = smaller(cost[g].have, larger(cost[g].done, each_layer ? cost[g].layers : 1));
        sum += time_for(&cost[g], least[g]);
    }
    return sum;
}

void td_op_plan_fit(const struct td_op_plan_cost *cost, size_t n, double left_s, int64_t *keep)
{
    double low = 0, high = fmax(left_s, 0);
    size_t g;
    int i;

    if (set_floor(cost, n, true, keep) > left_s)
        set_floor(cost, n, false, keep);
    for (g = 0; g < n; g++)
        high = fmax(high, (double)cost[g].have * least_cost(&cost[g]));
    if (time_of_share(cost, n, keep, high) <= left_s)
        low = high;
    for (i = 0; i < 64 && low < high; i++) {
        const double middle = (low + high) / 2;

        if (time_of_share(cost, n, keep, middle) <= left_s)
            low = middle;
        else
            high = middle;
    }
    for (g = 0; g < n; g++)
        keep[g] = ops_in(&cost[g], keep[g], low);
}

/* ---- the share ------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Kernels, shapes, classes of M and layers that differ, of the ops that match or are chosen. */
static int64_t count_kinds(const struct td_op_list *l, bool chosen, bool with_layer, uint64_t *room)
{
    int64_t kinds = 0;
    size_t i, n = 0;

    for (i = 0; i < l->n; i++)
        if (chosen ? l->items[i].chosen : l->items[i].matches)
            room[n++] = (uint64_t)l->items[i].group << 32 | (with_layer ? l->items[i].layer : 0);
    qsort(room, n, sizeof *room, by_number);
    for (i = 0; i < n; i++)
        kinds += !i || room[i] != room[i - 1];
    return kinds;
}

int td_op_plan_share(const struct td_op_list *l, struct td_op_share *out, struct td_error *err)
{
    uint64_t *room = malloc((l->n + 1) * sizeof *room);
    size_t i;

    *out = (struct td_op_share){0, 0, false, false};
    if (!room)
        return td_fail(err, TD_ENOMEM, "out of memory for a plan of %zu ops", l->n);
    for (i = 0; i < l->n; i++) {
        out->planned += l->items[i].chosen;
        out->of += l->items[i].matches;
    }
    out->each_shape = count_kinds(l, true, false, room) == count_kinds(l, false, false, room);
    out->each_layer = out->each_shape && count_kinds(l, true, true, room) == count_kinds(l, false, true, room);
    free(room);
    return TD_OK;
}

const char *td_op_share_words(const struct td_op_share *s, char out[TD_OP_SHARE_WORDS])
{
    snprintf(out, TD_OP_SHARE_WORDS, "judging %lld of %lld ops%s", (long long)s->planned, (long long)s->of,
             s->each_layer   ? ", each kernel, shape, M class and layer at least once"
             : s->each_shape ? ", each kernel, shape and M class at least once"
                             : "");
    return out;
}
