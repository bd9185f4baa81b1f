/* op_order.c - the order in which the ops of a group are taken when not all of them are.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_order.h"

#include <stdlib.h>
#include <string.h>

/* An op on its way to its rank. */
struct place {
    int32_t item;
    int32_t round;      /* its turn among the ops of its layer */
    uint32_t layer;     /* which layer comes first within a round */
};

static int by_layer_and_step(const void *a, const void *b, void *list)
{
    const struct td_op_list *l = list;
    const struct td_op_choice *x = &l->items[((const struct place *)a)->item],
                              *y = &l->items[((const struct place *)b)->item];

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return (x->op > y->op) - (x->op < y->op);
}

static int by_round(const void *a, const void *b, void *list)
{
    const struct place *x = a, *y = b;
    const struct td_op_list *l = list;
    const int32_t g = l->items[x->item].group, h = l->items[y->item].group;

    if (g != h)
        return g < h ? -1 : 1;
    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

static uint32_t reverse_bits(uint32_t v, int bits)
{
    uint32_t r = 0;

    for (; bits-- > 0; v >>= 1)
        r = r << 1 | (v & 1);
    return r;
}

/* Give n ops of one layer their turns. Counting by reversed bits halves the largest gap with each bit (van
 * der Corput's sequence). It starts at the last op: where turn 0 lies, shift ops before it. */
static void give_turns(struct place *p, int32_t n, int32_t shift)
{
    int32_t turn = 0;
    uint32_t i;
    int bits = 0;

    while ((int64_t)1 << bits < n)
        bits++;
    for (i = 0; turn < n; i++) {
        const uint32_t at = reverse_bits(i, bits);

        if (at < (uint32_t)n)
            p[n - 1 - (int32_t)(((int64_t)at + shift) % n)].round = turn++;
    }
}

static uint32_t mix(uint32_t v)
{
    v = (v ^ v >> 16) * 0x7feb352du;
    v = (v ^ v >> 15) * 0x846ca68bu;
    return v ^ v >> 16;
}

/* The layer of the op that ran last comes first, with that op; of the others each begins at a step of its
 * own, so that one op of each layer is no single step. */
static void give_turns_to_group(const struct td_op_list *l, struct place *p, int32_t n)
{
    const struct td_op_choice *last = &l->items[p[0].item];
    int32_t i, from;

    for (i = 0; i < n; i++)
        if (l->items[p[i].item].op > last->op)
            last = &l->items[p[i].item];
    for (from = 0; from < n; from = i) {
        const uint32_t layer = l->items[p[from].item].layer;
        int32_t shift;

        for (i = from; i < n && l->items[p[i].item].layer == layer; i++)
            p[i].layer = layer == last->layer ? 0 : mix(layer) | 1;
        for (shift = 0; layer == last->layer && l->items[p[i - 1 - shift].item].op != last->op;)
            shift++;
        if (layer != last->layer)
            shift = (int32_t)(mix(layer + 1) % (uint32_t)(i - from));
        give_turns(p + from, i - from, shift);
    }
}

int td_op_order_make(struct td_op_list *l, struct td_error *err)
{
    struct place *p = malloc((l->n + 1) * sizeof *p);
    size_t i, n;

    free(l->order);
    l->order = malloc((l->n + 1) * sizeof *l->order);
    if (!p || !l->order) {
        free(p);
        return td_fail(err, TD_ENOMEM, "out of memory for the order of %zu ops", l->n);
    }
    for (i = 0; i < l->n; i++)
        p[i] = (struct place){.item = (int32_t)i};
    qsort_r(p, l->n, sizeof *p, by_layer_and_step, l);
    for (i = 0; i < l->n; i += n) {
        struct td_op_group *g = &l->groups[l->items[p[i].item].group];

        n = (size_t)g->seen;
        g->first = (int64_t)i;
        give_turns_to_group(l, p + i, (int32_t)n);
    }
    qsort_r(p, l->n, sizeof *p, by_round, l);
    for (i = 0; i < l->n; i++) {
        l->order[i] = p[i].item;
        l->items[p[i].item].rank = (int32_t)((int64_t)i - l->groups[l->items[p[i].item].group].first);
    }
    free(p);
    return TD_OK;
}
