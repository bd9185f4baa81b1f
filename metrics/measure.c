/* measure.c - measure one exchange in given terms. terms.def says what each is.
 * SPDX-License-Identifier: Apache-2.0 */
#include "metrics/measure.h"

#include <math.h>
#include <stdlib.h>

#include "wire/derive.h"

/* Does a message count in these terms? */
static bool counts(enum td_dialect d, const struct td_message *a)
{
    switch (d) {
    case TD_DIALECT_VLLM:
        return a->holds & TD_MESSAGE_CHOICE;
    case TD_DIALECT_GUIDELLM:
    case TD_DIALECT_AIPERF:
        return a->holds & (TD_MESSAGE_TEXT | TD_MESSAGE_OTHER);
    default:
        return a->holds & TD_MESSAGE_TEXT;
    }
}

/* The messages that count. */
struct marks {
    int64_t first, last; /* 0: none */
    int64_t n, tokens;
};

static struct marks find_marks(enum td_dialect d, const struct td_messages *of)
{
    struct marks k = {0, 0, 0, 0};
    size_t i;

    for (i = 0; i < of->n; i++) {
        if (!counts(d, &of->v[i]))
            continue;
        k.first = k.n ? k.first : of->v[i].t_ns;
        k.last = of->v[i].t_ns;
        k.tokens += of->v[i].tokens > 1 ? of->v[i].tokens : 1;
        k.n++;
    }
    return k;
}

static double span(int64_t from, int64_t to)
{
    return from && to ? td_seconds_between(from, to) : NAN;
}

static double by_tokens(double s, int64_t tokens)
{
    return tokens > 0 ? s / (double)tokens : NAN;
}

/* ---- gaps ------------------------------------------------------------------------------------ */

static void add_gap(struct td_measured *x, double s)
{
    x->gap[x->n_gaps++] = s;
}

/* Room for n gaps, if there are any. */
static int make_room(struct td_measured *x, int64_t n)
{
    x->gap = n > 0 ? malloc((size_t)n * sizeof *x->gap) : NULL;
    return x->gap || n <= 0 ? TD_OK : TD_ENOMEM;
}

static int find_gaps(enum td_dialect d, const struct td_messages *of, const struct marks *k, struct td_measured *x)
{
    int64_t before = 0;
    int32_t more;
    size_t i;

    if (make_room(x, k->tokens))
        return TD_ENOMEM;
    for (i = 0; x->gap && i < of->n; i++) {
        const struct td_message *a = &of->v[i];

        if (counts(d, a) && before)
            add_gap(x, td_seconds_between(before, a->t_ns));
        for (more = a->tokens; d == TD_DIALECT_INFERENCE_PERF && counts(d, a) && more > 1; more--)
            add_gap(x, 0);
        /* vLLM's client of chats notes the time of every message */
        if (counts(d, a) || (before && d == TD_DIALECT_VLLM && x->chat))
            before = a->t_ns;
    }
    return TD_OK;
}

static double mean_gap(const struct td_measured *x)
{
    double sum = 0;
    size_t i;

    for (i = 0; i < x->n_gaps; i++)
        sum += x->gap[i];
    return x->n_gaps ? sum / (double)x->n_gaps : NAN;
}

/* ---- the dialects ---------------------------------------------------------------------------- */

static void measure_vllm(const struct td_messages *of, const struct marks *k, struct td_measured *x)
{
    const int64_t last = x->chat && of->n ? of->v[of->n - 1].t_ns : k->last;

    x->t_from_ns = of->t_open_ns;
    x->span[TD_TERM_TTFT] = span(of->t_open_ns, k->first);
    x->span[TD_TERM_ITL] = mean_gap(x);
    x->span[TD_TERM_TPOT] = by_tokens(span(k->first, last), x->output_tokens - 1);
    x->span[TD_TERM_E2E] = span(of->t_open_ns, last);
}

static void measure_guidellm(const struct td_messages *of, const struct marks *k, struct td_measured *x)
{
    x->t_from_ns = of->t_written_ns;
    if (of->streamed) {
        x->span[TD_TERM_TTFT] = span(of->t_written_ns, k->first);
        x->span[TD_TERM_TPOT] = by_tokens(span(of->t_written_ns, k->last), x->output_tokens);
        x->span[TD_TERM_ITL] = by_tokens(span(k->first, k->last), x->output_tokens - 1);
    }
    x->span[TD_TERM_E2E] = span(of->t_written_ns, x->t_end_ns);
}

static void measure_aiperf(const struct td_messages *of, const struct marks *k, struct td_measured *x)
{
    x->t_from_ns = of->t_open_ns;
    x->t_to_ns = k->last;
    if (of->streamed) {
        x->span[TD_TERM_TTFT] = span(of->t_open_ns, k->first);
        x->span[TD_TERM_ITL] = by_tokens(span(k->first, k->last), x->output_tokens - 1);
        x->span[TD_TERM_ICL] = mean_gap(x);
    }
    x->span[TD_TERM_E2E] = span(of->t_open_ns, k->last);
}

static void measure_inference_perf(const struct td_messages *of, const struct marks *k, struct td_measured *x)
{
    x->t_from_ns = of->t_open_ns;
    if (of->streamed && k->tokens > 1) {
        x->span[TD_TERM_TTFT] = span(of->t_open_ns, k->first);
        x->span[TD_TERM_TPOT] = by_tokens(span(k->first, k->last), x->output_tokens - 1);
        x->span[TD_TERM_ITL] = mean_gap(x);
    }
    x->span[TD_TERM_E2E] = span(of->t_open_ns, x->t_end_ns);
    x->span[TD_TERM_NTPOT] = by_tokens(x->span[TD_TERM_E2E], x->output_tokens);
}

int td_measure_messages(enum td_dialect d, const struct td_messages *of, struct td_measured *x)
{
    const struct marks k = find_marks(d, of);

    x->t_to_ns = x->t_end_ns;
    if ((of->streamed || d == TD_DIALECT_VLLM) && find_gaps(d, of, &k, x))
        return TD_ENOMEM;
    if (d == TD_DIALECT_VLLM)
        measure_vllm(of, &k, x);
    else if (d == TD_DIALECT_GUIDELLM)
        measure_guidellm(of, &k, x);
    else if (d == TD_DIALECT_AIPERF)
        measure_aiperf(of, &k, x);
    else
        measure_inference_perf(of, &k, x);
    return TD_OK;
}

int td_measure_exchange(const struct td_exchange *of, struct td_measured *x)
{
    const int64_t ttft = td_exchange_ttft_ns(of), e2e = td_exchange_e2e_ns(of);
    const int32_t n = of->n_events;
    size_t i;

    if (make_room(x, of->n_tokens))
        return TD_ENOMEM;
    x->n_gaps = x->gap ? td_exchange_gaps(of, x->gap, (size_t)of->n_tokens) : 0;
    x->t_from_ns = x->t_sent_ns;
    x->t_to_ns = x->t_end_ns;
    x->span[TD_TERM_TTFT] = ttft >= 0 ? (double)ttft / 1e9 : NAN;
    for (i = 0; i < x->n_gaps; i++)
        x->gap[i] /= 1e9;
    x->span[TD_TERM_ITL] = mean_gap(x);
    x->span[TD_TERM_TPOT] = n ? by_tokens(span(of->events[0].t_ns, of->events[n - 1].t_ns), x->output_tokens - 1) : NAN;
    x->span[TD_TERM_E2E] = e2e >= 0 ? (double)e2e / 1e9 : NAN;
    return TD_OK;
}
