/* sampler.c - argmax, sampling and log-probabilities of a row of logits.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sampling is vLLM's: probabilities divided by exponential noise, then argmax (vllm/v1/sample/ops/topk_topp_sampler.py). */
#include "demo/server/sampler.h"

#include <math.h>
#include <stdbool.h>

static bool greater(float a, float b)
{
    return a > b || (isnan(a) && !isnan(b));
}

int td_sampler_argmax(const float *x, int n)
{
    int best = 0;

    for (int i = 1; i < n; i++)
        if (greater(x[i], x[best]))
            best = i;
    return best;
}

void td_sampler_logprobs(const float *logits, int n, float *out)
{
    double max = logits[td_sampler_argmax(logits, n)], sum = 0;

    for (int i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    for (int i = 0; i < n; i++)
        out[i] = (float)((double)logits[i] - max - log(sum));
}

int td_sampler_top(const float *x, int n, int k, int32_t *index)
{
    int have = 0;

    for (int i = 0; i < n; i++) {
        int at = have < k ? have++ : k;
        if (at == k && (k == 0 || !greater(x[i], x[index[k - 1]])))
            continue;
        if (at == k)
            at = k - 1;
        for (; at > 0 && greater(x[i], x[index[at - 1]]); at--)
            index[at] = index[at - 1];
        index[at] = i;
    }
    return have;
}

/* splitmix64: small, any seed will do */
static uint64_t next_u64(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* The logit of rank k (0 the greatest): nothing below it may be chosen. O(k n), k is small or the row is. */
static float value_of_rank(const float *x, int n, int k)
{
    float limit = INFINITY;
    int seen = 0;

    while (seen <= k) {
        float below = -INFINITY;
        int equal = 0;
        for (int i = 0; i < n; i++) {
            if (x[i] < limit && x[i] > below) {
                below = x[i];
                equal = 0;
            }
            equal += x[i] == below && x[i] < limit;
        }
        if (equal == 0)
            return -INFINITY;
        seen += equal;
        limit = below;
    }
    return limit;
}

/* The smallest value that must stay so that the kept probabilities reach top_p. prob sums to 1. */
static float top_p_limit(const float *prob, int n, double top_p)
{
    float limit = INFINITY;
    double sum = 0;

    while (sum < top_p) {
        float below = -1;
        double here = 0;
        for (int i = 0; i < n; i++)
            if (prob[i] < limit && prob[i] > below)
                below = prob[i];
        if (below < 0)
            return 0;
        for (int i = 0; i < n; i++)
            here += prob[i] == below ? (double)prob[i] : 0;
        sum += here;
        limit = below;
    }
    return limit;
}

int td_sampler_pick(struct td_sampler *s, const float *logits, int n, int banned, float *scratch)
{
    float limit;

    for (int i = 0; i < n; i++)
        scratch[i] = i == banned ? -INFINITY : logits[i];
    if (s->temperature < 1e-5)
        return td_sampler_argmax(scratch, n);
    for (int i = 0; i < n; i++)
        scratch[i] = (float)(scratch[i] / s->temperature);
    if (s->top_k > 0 && s->top_k < n) {
        limit = value_of_rank(scratch, n, s->top_k - 1);
        for (int i = 0; i < n; i++)
            scratch[i] = scratch[i] < limit ? -INFINITY : scratch[i];
    }
    td_sampler_logprobs(scratch, n, scratch);
    for (int i = 0; i < n; i++)
        scratch[i] = expf(scratch[i]);
    limit = s->top_p < 1 ? top_p_limit(scratch, n, s->top_p) : 0;
    for (int i = 0; i < n; i++) { /* the noise is drawn for every token, so that a seed means the same with any filter */
        double u = ((double)(next_u64(&s->rng) >> 11) + 0.5) * 0x1p-53;
        scratch[i] = scratch[i] < limit ? 0 : (float)(scratch[i] / -log(u));
    }
    return td_sampler_argmax(scratch, n);
}
