/* smoke.c - does a server without a baseline answer soundly? Absolute rules on one recording.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/smoke.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "differ/smoke_ids.h"
#include "differ/stats.h"
#include "differ/tokens.h"
#include "wire/collapse.h"
#include "wire/derive.h"
#include "wire/scores.h"

/* Why these limits: docs/verdicts.md, "Smoke". */
#define LOGPROB_MIN    (-1.5) /* nats, mean of the tokens chosen */
#define REPEAT_GAP_MAX 1.0    /* nats: policy.def's clear_gap */
#define SAID_APART_MAX 0.25   /* nats */
enum { PROMPTS_MIN = 3, SAME_LOOP = 3, TOKENS_MIN = 32, TOKENS_PER_BYTE = 4, MOST_ANSWERS = 1000 };

/* One answer (warm-ups and scores are none). */
struct answer {
    const struct td_exchange *x;
    struct td_collapse found;
    size_t prompt; /* the first answer to the same request */
    bool sound;
};

static void note_first(struct td_smoke *s, const struct td_exchange *x, const char *what)
{
    if (!*s->first)
        snprintf(s->first, sizeof s->first, "%.80s: %.200s", x->prompt_id ? x->prompt_id : "?",
                 what);
}

/* ---- one answer ------------------------------------------------------------------------------ */

/* Has an answer collapsed in a way that no sound model does? A loop is not enough: small ones loop
 * for as long as they may. Loops are counted over all prompts instead. */
static bool has_collapsed(const struct td_collapse *c)
{
    int k;

    for (k = 0; k < (int)(sizeof c->by_kind / sizeof *c->by_kind); k++)
        if (k != TD_COLLAPSE_LOOP && c->by_kind[k] >= 1)
            return true;
    return false;
}

/* Did the server end an answer after less than half of the tokens that were asked for, and say that
 * the length was reached? The prompts of the suite are far shorter than any context. */
static bool is_cut_short(const struct td_exchange *x, int32_t asked)
{
    const int64_t counted = x->usage.completion_tokens, tokens = counted > x->n_tokens ? counted
                                                                                       : x->n_tokens;

    return x->finish_reason && !strcmp(x->finish_reason, "length") && asked > 1 && tokens > 0 &&
           tokens * 2 < asked;
}

static bool answer_is_sound(struct answer *a, struct td_smoke *s)
{
    const struct td_exchange *x = a->x;
    const int32_t asked = td_collapse_asked(x->request);
    struct td_collapse end;
    char why[80];

    td_collapse_check(x, NULL, &a->found);
    if (x->error) {
        s->errors++;
        s->unseen += td_exchange_unseen(x);
        note_first(s, x, x->error);
        return false;
    }
    if (x->n_tokens == 0 && x->text_len == 0) {
        s->empty++;
        note_first(s, x, "the answer is empty");
        return false;
    }
    if (td_collapse_check_end(x, &end)) {
        note_first(s, x, end.why);
        return false;
    }
    if (is_cut_short(x, asked)) {
        snprintf(why, sizeof why, "it ends after %d of %d tokens, and says \"length\"", x->n_tokens,
                 asked);
        note_first(s, x, why);
        return false;
    }
    if (has_collapsed(&a->found)) {
        s->collapsed++;
        note_first(s, x, a->found.why);
        return false;
    }
    return true;
}

/* Do two requests ask for the same? All members are equal but the one that keeps them apart in a
 * server's cache. */
static bool same_request(const cJSON *a, const cJSON *b)
{
    const cJSON *m;

    if (!a || !b || cJSON_GetArraySize(a) != cJSON_GetArraySize(b))
        return false;
    cJSON_ArrayForEach(m, a) if (m->string && strcmp(m->string, "cache_salt") != 0 &&
                                 !cJSON_Compare(m, td_json_get(b, m->string), true)) return false;
    return true;
}

/* Collect the answers: [*n], which the caller frees. NULL: no memory. */
static struct answer *collect(const struct td_exchange *xs, size_t n_xs, size_t *n,
                              struct td_smoke *s)
{
    struct answer *all = calloc(n_xs + 1, sizeof *all);
    size_t i, j;

    *n = 0;
    for (i = 0; all && i < n_xs; i++) {
        struct answer *a = &all[*n];

        if (xs[i].phase == TD_PHASE_WARMUP)
            continue;
        a->x = &xs[i];
        a->prompt = *n;
        for (j = 0; j < *n && n_xs <= MOST_ANSWERS && a->prompt == *n; j++)
            if (all[j].prompt == j && same_request(all[j].x->request, a->x->request))
                a->prompt = j;
        a->sound = answer_is_sound(a, s);
        ++*n;
    }
    return all;
}

static void count_prompts(const struct answer *all, size_t n, struct td_smoke *s)
{
    size_t i, j;

    for (i = 0; i < n; i++) {
        bool sound = true;

        if (all[i].prompt != i)
            continue;
        for (j = i; j < n; j++)
            if (all[j].prompt == i)
                sound &= all[j].sound;
        s->prompts++;
        s->ok += sound;
    }
}

/* ---- all answers ----------------------------------------------------------------------------- */

/* Do two answers end in the same loop, wherever in its turn each is cut? */
static bool same_loop(const struct answer *a, const struct answer *b)
{
    const int32_t p = a->found.period;
    const int32_t *u, *v;
    int32_t shift, i;

    if (p == 0 || p != b->found.period || !a->x->token_ids || !b->x->token_ids ||
        a->x->n_tokens < p || b->x->n_tokens < p)
        return false;
    u = a->x->token_ids + a->x->n_tokens - p;
    v = b->x->token_ids + b->x->n_tokens - p;
    for (shift = 0; shift < p; shift++) {
        for (i = 0; i < p && u[i] == v[(i + shift) % p];)
            i++;
        if (i == p)
            return true;
    }
    return false;
}

static void check_loops(const struct answer *all, size_t n, struct td_smoke *s)
{
    const struct answer *last = NULL;
    char what[250];
    size_t i, j;

    for (i = 0; i < n && n <= MOST_ANSWERS; i++) {
        size_t same = 0;

        if (all[i].prompt != i || !all[i].found.filled)
            continue;
        last = &all[i];
        s->filled++;
        for (j = 0; j < n; j++)
            same += all[j].prompt == j && all[j].found.filled && same_loop(last, &all[j]);
        s->same_loop = same > s->same_loop ? same : s->same_loop;
    }
    if (!last || s->prompts < PROMPTS_MIN || (s->filled < s->prompts && s->same_loop < SAME_LOOP))
        return;
    if (s->same_loop >= SAME_LOOP)
        snprintf(what, sizeof what, "%zu of %zu prompts end in the same loop: %.150s", s->same_loop,
                 s->prompts, last->found.why);
    else
        snprintf(what, sizeof what, "all %zu prompts end in a loop or hold hardly any text: %.150s",
                 s->prompts, last->found.why);
    s->verdict = TD_REGRESSED;
    note_first(s, last->x, what);
}

static void check_text(const struct answer *all, size_t n, struct td_smoke *s)
{
    const struct answer *first = NULL;
    double sum = 0;
    int64_t known = 0;
    char what[200];
    size_t i;
    int32_t k;

    for (i = 0; i < n; i++) {
        const struct td_exchange *x = all[i].x;

        if (x->error || !x->text)
            continue;
        first = first ? first : &all[i];
        s->tokens += x->n_tokens;
        s->visible += (int64_t)td_collapse_visible(x->text, x->text_len);
        for (k = 0; x->logprobs && k < x->n_tokens; k++)
            if (isfinite(x->logprobs[k])) {
                sum += x->logprobs[k];
                known++;
            }
    }
    s->logprob = known ? sum / (double)known : NAN;
    if (!first)
        return;
    if (s->tokens >= TOKENS_MIN && s->visible * TOKENS_PER_BYTE < s->tokens) {
        snprintf(what, sizeof what, "all answers have %lld tokens and only %lld visible bytes",
                 (long long)s->tokens, (long long)s->visible);
        s->verdict = TD_REGRESSED;
        note_first(s, first->x, what);
    }
    if (known >= TOKENS_MIN && s->logprob < LOGPROB_MIN) {
        snprintf(what, sizeof what,
                 "the server is unsure of what it writes: mean logprob %.2f of %lld tokens (limit "
                 "%.1f)",
                 s->logprob, (long long)known, LOGPROB_MIN);
        s->verdict = TD_REGRESSED;
        note_first(s, first->x, what);
    }
}

/* A greedy prompt that is sent twice gets the same answer. Sound servers that add in any order may
 * part at a close call. */
static void check_repeats(const struct answer *all, size_t n, struct td_smoke *s)
{
    char what[200];
    size_t i;

    for (i = 0; i < n; i++) {
        const struct td_xref first = {.x = all[all[i].prompt].x, .role = TD_BASE};
        struct td_fork f;

        if (all[i].prompt == i || all[i].x->error || first.x->error ||
            !td_tokens_greedy(all[i].x) || !td_tokens_fork(all[i].x, &first, 1, 1, &f))
            continue;
        if (isnan(f.gap) || f.gap > s->repeat_gap)
            s->repeat_gap = f.gap;
        if (!(f.gap > REPEAT_GAP_MAX))
            continue;
        snprintf(what, sizeof what,
                 "the same prompt got another answer at %s %d, which is no close call: gap %s%.3g "
                 "nats (limit %g)",
                 td_unit_name(f.at.unit), f.at.position, f.outside_top_k ? ">= " : "", f.gap,
                 REPEAT_GAP_MAX);
        s->verdict = TD_REGRESSED;
        note_first(s, all[i].x, what);
    }
}

/* The answer that was scored: the one with its tokens. NULL: not found. */
static const struct td_exchange *scored_answer(const struct td_exchange *score,
                                               const struct answer *all, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (all[i].x->prompt_id && score->prompt_id && all[i].x->logprobs && all[i].x->token_ids &&
            strcmp(all[i].x->prompt_id, score->prompt_id) == 0)
            return all[i].x;
    return NULL;
}

/* A token has one logprob after one context, whether the server writes it, row by row, or reads it
 * as part of a prompt: other kernels compute the two. */
static void check_said(const struct td_exchange *xs, size_t n_xs, const struct answer *all,
                       size_t n, struct td_smoke *s)
{
    double sum = 0;
    size_t i, known = 0;
    int32_t k;
    char what[200];
    const struct td_exchange *first = NULL;

    for (i = 0; i < n_xs && n <= MOST_ANSWERS; i++) {
        const struct td_exchange *q = &xs[i],
                                 *a = td_scores_role(q) ? scored_answer(q, all, n) : NULL;

        for (k = 0; a && q->scores && q->prompt_ids && k < a->n_tokens &&
                    q->scored_from + k < q->n_scores;
             k++) {
            const int32_t at = q->scored_from + k;

            if (q->prompt_ids[at] != a->token_ids[k])
                break;
            if (!isfinite(q->scores[at]) || !isfinite(a->logprobs[k]))
                continue;
            sum += fabs((double)q->scores[at] - (double)a->logprobs[k]);
            known++;
            first = first ? first : a;
        }
    }
    s->said_apart = known ? sum / (double)known : NAN;
    if (known < TOKENS_MIN || s->said_apart <= SAID_APART_MAX)
        return;
    snprintf(
        what, sizeof what,
        "the server contradicts itself: tokens that it reads have other logprobs than while it "
        "wrote them, %.2f nats apart (limit %g)",
        s->said_apart, SAID_APART_MAX);
    s->verdict = TD_REGRESSED;
    note_first(s, first, what);
}

/* Is there no number among the logprobs of the tokens that a scoring has? The first has none by right. */
static bool says_no_number(const struct td_exchange *x)
{
    int32_t k;

    if (!x->scores || x->n_scores < 2)
        return false;
    for (k = 1; k < x->n_scores; k++)
        if (isfinite(x->scores[k]))
            return false;
    return true;
}

static enum td_scored outcome_of(const struct td_exchange *x)
{
    const enum td_scored outcome = td_scores_role(x) ? td_scores_outcome(x) : TD_SCORED;

    return outcome == TD_SCORED && td_scores_role(x) && says_no_number(x) ? TD_SCORED_NAN : outcome;
}

/* A server need not offer to score answers. One that does, and fails, does not work. */
static void check_scoring(const struct td_exchange *xs, size_t n_xs, struct td_smoke *s)
{
    size_t i, asked = 0, failed = 0;
    const struct td_exchange *first = NULL;
    char what[200];

    for (i = 0; i < n_xs; i++) {
        const enum td_scored outcome = outcome_of(&xs[i]);

        asked += td_scores_role(&xs[i]);
        s->unseen += outcome == TD_SCORED_UNSEEN;
        if (outcome == TD_SCORED_UNSEEN)
            note_first(s, &xs[i], xs[i].error);
        if (outcome != TD_SCORED_FAILED && outcome != TD_SCORED_NAN)
            continue;
        failed++;
        first = first ? first : &xs[i];
    }
    if (!first)
        return;
    snprintf(what, sizeof what, "%zu of %zu requests to score answers failed, the first: %.100s", failed,
             asked, outcome_of(first) == TD_SCORED_NAN ? "the server reports NaN"
                    : first->error                            ? first->error
                                                              : "no logprobs");
    s->verdict = TD_REGRESSED;
    note_first(s, first, what);
}

/* The first answer whose token ids cannot be its own. */
static void check_ids(const struct td_exchange *xs, size_t n_xs, int64_t vocab, struct td_smoke *s)
{
    char what[200];
    const struct td_exchange *first = td_smoke_wrong_ids(xs, n_xs, vocab, what, sizeof what);

    if (!first)
        return;
    s->verdict = TD_REGRESSED;
    note_first(s, first, what);
}

/* ---- speed, verdict -------------------------------------------------------------------------- */

static void measure_speed(const struct answer *all, size_t n, struct td_smoke *s)
{
    double *ttft = malloc((n + 1) * sizeof *ttft), *rate = malloc((n + 1) * sizeof *rate);
    size_t i, n_ttft = 0, n_rate = 0;

    for (i = 0; ttft && rate && i < n; i++) {
        const struct td_exchange *x = all[i].x;
        int64_t t = td_exchange_ttft_ns(x), e = td_exchange_e2e_ns(x);

        if (!x->error && t > 0)
            ttft[n_ttft++] = (double)t;
        if (!x->error && e > 0 && x->n_tokens > 0)
            rate[n_rate++] = x->n_tokens / ((double)e / 1e9);
    }
    s->ttft_p50_ns = td_stat_median(ttft, n_ttft);
    s->tokens_per_s = td_stat_median(rate, n_rate);
    free(ttft);
    free(rate);
}

/* Is there an answer that is not sound, and the server's? */
static bool any_unsound(const struct answer *all, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (!all[i].sound && !td_exchange_unseen(all[i].x))
            return true;
    return false;
}

void td_smoke_check(const struct td_exchange *xs, size_t n_xs, int64_t vocab, struct td_smoke *s)
{
    struct answer *all;
    size_t i, n;

    memset(s, 0, sizeof *s);
    s->verdict = TD_PASS;
    s->logprob = s->said_apart = NAN;
    for (i = 0; i < n_xs; i++)
        s->reached |= !xs[i].error_kind || strcmp(xs[i].error_kind, "connect") != 0;
    all = collect(xs, n_xs, &n, s);
    if (!all) {
        s->verdict = TD_BROKEN;
        snprintf(s->first, sizeof s->first, "no memory to judge the answers");
        return;
    }
    count_prompts(all, n, s);
    check_text(all, n, s);
    check_loops(all, n, s);
    check_repeats(all, n, s);
    check_said(xs, n_xs, all, n, s);
    check_scoring(xs, n_xs, s);
    check_ids(xs, n_xs, vocab, s);
    measure_speed(all, n, s);
    if (s->prompts == 0 || !s->reached)
        s->verdict = TD_BROKEN;
    else if (s->verdict == TD_PASS && s->unseen && !any_unsound(all, n))
        s->verdict = TD_BROKEN;
    else if (s->ok < s->prompts)
        s->verdict = TD_REGRESSED;
    if (s->prompts == 0)
        snprintf(s->first, sizeof s->first, "the recording holds no answers");
    free(all);
}

void td_smoke_line(const struct td_smoke *s, const char *model, struct td_buf *out)
{
    td_buf_addf(out, "smoke: %s %zu/%zu prompts", s->verdict == TD_PASS ? "ok" : "failed", s->ok,
                s->prompts);
    if (!isnan(s->ttft_p50_ns))
        td_buf_addf(out, ", ttft p50 %.3g ms", s->ttft_p50_ns / 1e6);
    if (!isnan(s->tokens_per_s))
        td_buf_addf(out, ", %.3g tok/s", s->tokens_per_s);
    if (*model)
        td_buf_addf(out, ", model %s", model);
    if (s->verdict != TD_PASS)
        td_buf_addf(out, ": %s", s->first);
    else if (isnan(s->repeat_gap))
        td_buf_addf(out, " (a repeated prompt got another answer; without logprobs it is not known "
                         "whether the call was close)");
    else if (s->repeat_gap > 0)
        td_buf_addf(out, " (a repeated prompt got another answer at a close call: gap %.2g nats)",
                    s->repeat_gap);
}
