/* derive_figures.c - times of one exchange: TTFT, E2E, ITL.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/derive.h"

int64_t td_exchange_ttft_ns(const struct td_exchange *x)
{
    return x->n_events && x->t_sent_ns ? x->events[0].t_ns - x->t_sent_ns : -1;
}

int64_t td_exchange_e2e_ns(const struct td_exchange *x)
{
    return x->t_sent_ns && x->t_end_ns ? x->t_end_ns - x->t_sent_ns : -1;
}

size_t td_exchange_gaps(const struct td_exchange *x, double *gaps, size_t max)
{
    size_t n = 0;
    int32_t i, j;

    for (i = 1; i < x->n_events; i++) {
        int32_t tokens = x->events[i].n_tokens;
        double gap = (double)(x->events[i].t_ns - x->events[i - 1].t_ns) / (tokens > 0 ? tokens : 1);

        for (j = 0; j < tokens && n < max; j++)
            gaps[n++] = gap;
    }
    return n;
}
