/* speed_answer.c - what one answer took.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/speed_answer.h"

#include <math.h>
#include <stdlib.h>

#include "wire/derive.h"

#define MAX_GAPS 65536

void td_speed_of_answer(const struct td_exchange *x, struct td_answer_speed *f)
{
    int64_t ttft = td_exchange_ttft_ns(x), e2e = td_exchange_e2e_ns(x);
    double *gaps = malloc(MAX_GAPS * sizeof *gaps), sum = 0;
    size_t n = gaps ? td_exchange_gaps(x, gaps, MAX_GAPS) : 0, i;

    for (i = 0; i < n; i++)
        sum += gaps[i];
    free(gaps);
    f->tokens = x->n_tokens;
    f->v[TD_TTFT] = ttft > 0 ? (double)ttft : NAN;
    f->v[TD_ITL] = n && sum > 0 ? sum / (double)n : NAN;
    f->v[TD_E2E] = e2e > 0 ? (double)e2e : NAN;
    f->v[TD_THROUGHPUT] = e2e > 0 && x->n_tokens > 0 ? x->n_tokens / ((double)e2e / 1e9) : NAN;
}

bool td_speed_is_evidence(const struct td_exchange *x)
{
    return !x->error && x->phase == TD_PHASE_TIMED && x->n_tokens > 0;
}
