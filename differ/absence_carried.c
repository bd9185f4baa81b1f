/* absence_carried.c - the counts behind absence.def of what an answer carries beside its text:
 * token ids, logprobs, alternatives, the reason of its end.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Rules that compare these see nothing where the candidate sends none. So an answer of the
 * candidate has to carry what all of the baseline's answers to that prompt carry. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "differ/absence_type.h"

/* Something that an answer may carry. */
struct carried {
    const char *noun;
    bool (*has)(const struct td_exchange *x, const struct td_exchange *base);
    const char *extra;       /* its name in the manifest's server.extras, or NULL */
    const char *blind;       /* what cannot be judged without it */
};

/* Does every answer of the baseline carry it? first: gets one of them. */
static bool all_of_baseline(const struct td_prompt_group *g, const struct carried *what,
                            const struct td_exchange **first)
{
    size_t i;

    *first = NULL;
    for (i = 0; i < g->n[TD_BASE]; i++) {
        const struct td_exchange *x = g->by_role[TD_BASE][i].x;

        if (x->error)
            continue;
        if (x->n_tokens <= 0 || !what->has(x, x))
            return false;
        *first = *first ? *first : x;
    }
    return *first;
}

/* Why this server does not send it; "" when the fixture does not say. */
static const char *why_not(const struct td_side *side, const char *name)
{
    const cJSON *extra;

    cJSON_ArrayForEach(extra, td_json_get(td_json_get(td_fixture_manifest(side->fx), "server"),
                                          "extras"))
        if (name && !strcmp(td_json_get_str(extra, "name", ""), name) &&
            strcmp(td_json_get_str(extra, "got", "yes"), "yes") != 0)
            return td_json_get_str(extra, "why", "");
    return "";
}

static void count_carried(const struct td_comparison *c, const struct td_side *side,
                          const struct carried *what, struct td_absence_count *out)
{
    const struct td_exchange *base;
    const char *why = why_not(side, what->extra);
    size_t i, j;

    for (i = 0; i < c->groups.n; i++) {
        const struct td_prompt_group *g = &c->groups.group[i];

        if (!all_of_baseline(g, what, &base))
            continue;
        for (j = 0; j < g->n[TD_NEW]; j++) {
            const struct td_xref *r = &g->by_role[TD_NEW][j];

            if (r->round != side->round || r->x->error)
                continue;
            out->planned++;
            out->seen += r->x->n_tokens <= 0 || what->has(r->x, base);
        }
    }
    snprintf(out->say, sizeof out->say,
             "%s came with %lld of %lld answers of the candidate, and with all of the baseline's: "
             "start the server as the baseline's was, or record a baseline from one that sends none"
             "%s%.60s%s; until then %s",
             what->noun, (long long)out->seen, (long long)out->planned, *why ? " (" : "", why,
             *why ? ")" : "", what->blind);
}

/* ---- what is carried ------------------------------------------------------------------------- */

/* A stream of llama.cpp may lose some ids within a glyph, and logprobs with them. */
static bool may_lose_some(const struct td_exchange *x)
{
    return x->api && !strcmp(x->api, "llamacpp");
}

static bool has_ids(const struct td_exchange *x, const struct td_exchange *base)
{
    int32_t i, n = 0;

    if (x == base)
        return x->token_ids && x->ids_complete;
    for (i = 0; x->token_ids && i < x->n_tokens; i++)
        n += x->token_ids[i] >= 0;
    return may_lose_some(x) ? n * (int64_t)2 >= x->n_tokens : n == x->n_tokens && x->ids_complete;
}

void td_count_token_ids(const struct td_comparison *c, const struct td_side *side,
                        const struct td_planned *p, struct td_absence_count *out)
{
    static const struct carried IDS = {"token ids", has_ids, "token_ids",
                                       "it is not known which token a fork leads to"};

    (void)p;
    count_carried(c, side, &IDS, out);
}

/* NaN was sent, and is judged; -Infinity stands for what was not. */
static int32_t count_logprobs(const struct td_exchange *x)
{
    int32_t i, n = 0;

    for (i = 0; x->logprobs && i < x->n_tokens; i++)
        n += !isinf(x->logprobs[i]);
    return n;
}

/* Of some tokens a server may give none; half of the share that the baseline's has is enough. Where the baseline's
 * has all, one that is missing could have been NaN. */
static bool has_logprobs(const struct td_exchange *x, const struct td_exchange *base)
{
    const int64_t of_x = count_logprobs(x), of_base = count_logprobs(base);

    if (of_base == base->n_tokens && !may_lose_some(x))
        return of_x == x->n_tokens;
    return of_x > 0 && of_x * base->n_tokens * 2 >= of_base * x->n_tokens;
}

/* The least and the largest logprob of a side's answers; how many there are. */
static size_t range_of(const struct td_comparison *c, enum td_role role, int round, float range[2])
{
    size_t i, j, n = 0;
    int32_t k;

    for (i = 0; i < c->groups.n; i++)
        for (j = 0; j < c->groups.group[i].n[role]; j++) {
            const struct td_xref *r = &c->groups.group[i].by_role[role][j];

            for (k = 0; r->round == round && r->x->logprobs && k < r->x->n_tokens; k++)
                if (isfinite(r->x->logprobs[k])) {
                    range[0] = n ? fminf(range[0], r->x->logprobs[k]) : r->x->logprobs[k];
                    range[1] = n ? fmaxf(range[1], r->x->logprobs[k]) : r->x->logprobs[k];
                    n++;
                }
        }
    return n;
}

/* Are all logprobs of the candidate one and the same number, where those of the baseline vary? That
 * number comes from no model. */
static bool are_made_up(const struct td_comparison *c, const struct td_side *side, float *number)
{
    enum { ENOUGH = 12 };
    const float varies = 0.1f;
    float old[2], now[2];

    if (range_of(c, TD_BASE, 0, old) < ENOUGH || range_of(c, TD_NEW, side->round, now) < ENOUGH)
        return false;
    *number = now[0];
    return old[1] - old[0] > varies && !(now[1] > now[0]);
}

void td_count_logprobs(const struct td_comparison *c, const struct td_side *side,
                       const struct td_planned *p, struct td_absence_count *out)
{
    static const struct carried LOGPROBS = {
        "logprobs", has_logprobs, "logprobs", "neither gaps nor damage nor NaN can be seen"};
    float number = 0;

    (void)p;
    count_carried(c, side, &LOGPROBS, out);
    if (!out->planned || !are_made_up(c, side, &number))
        return;
    out->seen = 0;
    snprintf(out->say, sizeof out->say,
             "each logprob of the candidate is %.3g, where the baseline's vary: no model gave them; "
             "mend what the server reports; until then neither gaps nor damage can be seen",
             (double)number);
}

static bool has_alternatives(const struct td_exchange *x, const struct td_exchange *base)
{
    (void)base;
    return td_exchange_top_sum(x, x->n_tokens).any;
}

void td_count_alternatives(const struct td_comparison *c, const struct td_side *side,
                           const struct td_planned *p, struct td_absence_count *out)
{
    static const struct carried ALTERNATIVES = {
        "alternatives to a token", has_alternatives, NULL,
        "the gap is not known where the baseline's answer ended"};

    (void)p;
    count_carried(c, side, &ALTERNATIVES, out);
}

static bool has_end(const struct td_exchange *x, const struct td_exchange *base)
{
    (void)base;
    return x->finish_reason;
}

void td_count_ends(const struct td_comparison *c, const struct td_side *side,
                   const struct td_planned *p, struct td_absence_count *out)
{
    static const struct carried ENDS = {"a finish_reason", has_end, NULL,
                                        "it is not known why its answers end"};

    (void)p;
    count_carried(c, side, &ENDS, out);
}

/* ---- what was asked -------------------------------------------------------------------------- */

/* Did the server read the tokens that the baseline's server read? Where one side does not say, it did. */
static bool read_the_same(const struct td_exchange *x, const struct td_exchange *base)
{
    if (x->n_prompt_ids && base->n_prompt_ids)
        return x->n_prompt_ids == base->n_prompt_ids &&
               !memcmp(x->prompt_ids, base->prompt_ids, (size_t)x->n_prompt_ids * sizeof *x->prompt_ids);
    return x->usage.prompt_tokens <= 0 || base->usage.prompt_tokens <= 0 ||
           x->usage.prompt_tokens == base->usage.prompt_tokens;
}

/* An answer to another prompt, as of another chat template or with a second token at its beginning, shows
 * nothing, also where it is the same. */
void td_count_prompt_read(const struct td_comparison *c, const struct td_side *side,
                          const struct td_planned *p, struct td_absence_count *out)
{
    const char *first = NULL;
    size_t i, j, k;

    (void)p;
    for (i = 0; i < c->groups.n; i++) {
        const struct td_prompt_group *g = &c->groups.group[i];

        for (k = 0; k < g->n[TD_BASE] && g->by_role[TD_BASE][k].x->error; k++)
            ;
        for (j = 0; j < g->n[TD_NEW] && k < g->n[TD_BASE]; j++) {
            const struct td_xref *r = &g->by_role[TD_NEW][j];
            const bool same = read_the_same(r->x, g->by_role[TD_BASE][k].x);

            if (r->round != side->round || r->x->error)
                continue;
            out->planned++;
            out->seen += same;
            first = same || first ? first : g->prompt_id;
        }
    }
    snprintf(out->say, sizeof out->say,
             "for %lld of %lld answers the server read other tokens of the prompt than the baseline's did (first: %.80s): "
             "a chat template or tokenizer changed",
             (long long)(out->planned - out->seen), (long long)out->planned, first ? first : "");
}
