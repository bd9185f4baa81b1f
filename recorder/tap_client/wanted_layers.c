/* wanted_layers.c - ops of layers that --layers does not want: dropped, counted, and refused to the tap, which then copies no more of them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A layer's name is known when its weights are settled, at its first op. That op, and what is on its way by then, is dropped here. */
#include <stdio.h>

#include "recorder/tap_client/client_state.h"

bool client_wants_layer(struct td_tap_client *l, const char *layer)
{
    return !l->filter || td_layer_filter_wants(l->filter, layer);
}

bool client_wants(struct td_tap_client *l, const struct client_op *op, const struct client_set *set)
{
    const char *name = set && !set->named_by_call ? set->layer : op->name;

    if (!l->filter || (set && !set->named_by_call && !set->unwanted))
        return true;
    l->nameless |= !name;
    return set && set->unwanted ? false : td_layer_filter_wants(l->filter, name);
}

void client_refuse(struct client_ring *r, uint32_t weight)
{
    if (weight && weight < TAP_UNWANTED)
        atomic_fetch_or(&r->shared->unwanted[weight / 64], (uint64_t)1 << weight % 64);
}

bool td_tap_client_layers_said(struct td_tap_client *l, char *to, size_t n)
{
    char unused[512];
    bool some;
    int at = 0;

    if (!l->filter)
        return false;
    pthread_mutex_lock(&l->lock);
    some = td_layer_filter_unused(l->filter, unused, sizeof unused);
    if (some)
        at = snprintf(to, n, "--layers: no layer that was seen has a name that fits %s", unused);
    if (l->nameless && at >= 0 && (size_t)at < n)
        snprintf(to + at, n - (size_t)at, "%sops without a layer's name were dropped%s%s", some ? "; " : "--layers: ", l->why_no_layers ? ": " : "",
                 l->why_no_layers ? l->why_no_layers : "");
    some |= l->nameless;
    pthread_mutex_unlock(&l->lock);
    return some;
}
