/* wanted_layers.c - record the ops of wanted layers only (--layers).
 * SPDX-License-Identifier: Apache-2.0
 *
 * A layer's name is known when its weights are identified, at its first op. That op, and others of
 * the layer that are on their way by then, are dropped by the recorder. */
#include "recorder/tap_client/wanted_layers.h"

#include <stdio.h>

bool client_wants_layer(struct td_tap_client *c, const char *layer)
{
    return !c->filter || td_layer_filter_wants(c->filter, layer);
}

void client_refuse_weight(struct client_ring *r, uint32_t weight)
{
    if (weight && weight < TAP_REFUSABLE_SETS)
        atomic_fetch_or(&r->shared->refused_sets[weight / 64], (uint64_t)1 << weight % 64);
}

bool client_report_layers(struct td_tap_client *c, char *to, size_t n)
{
    char unused[512];
    bool some;
    int at = 0;

    if (!c->filter)
        return false;
    some = td_layer_filter_unused(c->filter, unused, sizeof unused);
    if (some)
        at = snprintf(to, n, "--layers: no layer that was seen has a name that fits %s", unused);
    if (c->nameless && at >= 0 && (size_t)at < n)
        snprintf(to + at, n - (size_t)at, "%sops without a layer's name were dropped%s%s",
                 some ? "; " : "--layers: ", c->why_no_layers ? ": " : "",
                 c->why_no_layers ? c->why_no_layers : "");
    return some || c->nameless;
}
