/* dropped_ops.c - why ops that the tap saw are not in the fixture, in words, and what helps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/dropped_ops.h"

#include <stdio.h>

void td_dropped_ops_reason(const struct td_tap_client_state *ops, char *to, size_t n)
{
    const struct { int64_t n; const char *why; } reasons[] = {
        {ops->ops_sampling, "were outside the sample, so give a larger share or a longer phase (--tapped-repeat)"},
        {ops->ops_budget, "were beyond the budget, so give a larger one (--budget) or a longer phase (--tapped-repeat)"},
        {ops->ops_weights, "came before all of their weights, so give a longer phase (--tapped-repeat) or more room (--ring-mib)"},
        {ops->ops_ring, "found no room on the way, so give more (--ring-mib)"},
        {ops->ops_graph, "were in CUDA graphs that are not seen, so start vLLM with --enforce-eager"},
        {ops->ops_layers, "were of layers that --layers leaves out, so name others"},
        {ops->ops_dropped, "were dropped, and `fixture show DIR ledger` says why"}, /* for any reason */
    };
    size_t i, most = 0, last = sizeof reasons / sizeof *reasons - 1;

    for (i = 1; i < last; i++)
        most = reasons[i].n > reasons[most].n ? i : most;
    most = reasons[most].n ? most : last;
    *to = '\0';
    if (ops->ops_dropped)
        snprintf(to, n, "%lld of %lld that the tap saw %s", (long long)reasons[most].n,
                 (long long)(ops->ops_kept + ops->ops_dropped), reasons[most].why);
}

void td_dropped_ops_share(const struct td_tap_client_state *ops, int64_t dropped, char *to, size_t n)
{
    const double percent = 100.0 * (double)dropped / (double)(ops->ops_kept + ops->ops_dropped);

    if (percent < 0.1)
        snprintf(to, n, "under 0.1 %%");
    else
        snprintf(to, n, "%.1f %%", percent);
}
