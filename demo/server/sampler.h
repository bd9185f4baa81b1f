/* sampler.h - from a row of logits to a token and its log-probabilities.
 * SPDX-License-Identifier: Apache-2.0
 *
 * NaN behaves as in torch: it is the greatest value, the first one wins. A row of NaN therefore gives token 0, which this
 * vocabulary spells "!": the collapse that a broken kernel shows on a real server. Nothing here traps or loops on NaN or Inf. */
#ifndef TD_DEMO_SERVER_SAMPLER_H
#define TD_DEMO_SERVER_SAMPLER_H

#include <stdint.h>

struct td_sampler {
    double temperature; /* 0: greedy */
    double top_p;       /* (0, 1]; 1: off */
    int top_k;          /* <= 0: off */
    uint64_t rng;       /* state; any value is a seed */
};

/* Index of the first NaN, else of the first maximum. n > 0. */
int td_sampler_argmax(const float *x, int n);
/* Choose a token. scratch : [n], for the callee; banned : a token that cannot be chosen, or -1. */
int td_sampler_pick(struct td_sampler *s, const float *logits, int n, int banned, float *scratch);
/* log_softmax. A NaN or +Inf in the row makes every element NaN. out : [n] */
void td_sampler_logprobs(const float *logits, int n, float *out);
/* The k greatest, greatest first, equal ones by index. Writes min(k, n) indices and returns how many. */
int td_sampler_top(const float *x, int n, int k, int32_t *index);

#endif
