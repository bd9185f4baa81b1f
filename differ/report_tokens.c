/* report_tokens.c - answers that differ, in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_tokens.h"

#include <stdio.h>
#include <string.h>

#include "common/number_words.h"
#include "differ/comparison.h"
#include "differ/lane_collapse.h"
#include "differ/lane_tokens.h"
#include "differ/report_answer.h"
#include "differ/tokens.h"

static void write_forks(struct td_jw *w, const struct td_tokens *t)
{
    size_t i;

    td_jw_arr(w, "forks");
    for (i = 0; i < t->n_forks; i++) {
        const struct td_fork *f = &t->forks[i];
        size_t at = td_answers_common_prefix(f->good, f->bad);

        td_jw_obj(w, NULL);
        td_answer_write_name(w, f->group->prompt_id, f->group->category, f->bad);
        td_jw_i64(w, "round", f->round);
        td_jw_i64(w, "closest_repeat", f->good->repeat);
        td_jw_cstr(w, "unit", td_unit_name(f->at.unit));
        td_jw_i64(w, "position", f->at.position);
        td_jw_num_or_null(w, "gap", f->gap);
        td_jw_bool(w, "outside_top_k", f->outside_top_k);
        td_jw_num_or_null(w, "mean_dlogprob", f->mean_dlogprob);
        td_answer_write_text(w, "old", f->good, at);
        td_answer_write_text(w, "new", f->bad, at);
        td_jw_end(w);
    }
    td_jw_end(w);
}

/* Answers of the same tokens with another text or end. */
static void write_unlike(struct td_jw *w, const struct td_same_tokens *s)
{
    size_t i;

    td_jw_arr(w, "unlike");
    for (i = 0; i < s->n; i++) {
        const struct td_unlike_answer *u = &s->list[i];
        size_t at = td_answers_common_prefix(u->good, u->bad);

        td_jw_obj(w, NULL);
        td_answer_write_name(w, u->group->prompt_id, u->group->category, u->bad);
        td_jw_i64(w, "round", u->round);
        td_jw_cstr(w, "what", td_unlike_name(u->what));
        td_jw_bool(w, "beyond", s->beyond[u->what]);
        td_jw_cstr(w, "old_end", u->good->finish_reason);
        td_jw_cstr(w, "new_end", u->bad->finish_reason);
        td_answer_write_text(w, "old", u->good, at);
        td_answer_write_text(w, "new", u->bad, at);
        td_jw_end(w);
    }
    td_jw_end(w);
}

static void write_lost(struct td_jw *w, const struct td_tokens *t)
{
    size_t i;

    td_jw_arr(w, "lost");
    for (i = 0; i < t->n_lost; i++) {
        td_jw_obj(w, NULL);
        td_answer_write_name(w, t->lost[i]->prompt_id, t->lost[i]->category, t->lost[i]);
        td_jw_cstr(w, "kind", t->lost[i]->error_kind);
        td_jw_cstr(w, "error", t->lost[i]->error);
        td_jw_end(w);
    }
    td_jw_end(w);
}

static void write_noise(struct td_jw *w, const struct td_tokens *t)
{
    size_t i;

    td_jw_arr(w, "noise");
    for (i = 0; i < t->n_noise; i++) {
        const struct td_noise *z = &t->noise[i];

        td_jw_obj(w, NULL);
        td_jw_cstr(w, "of", td_role_key(z->role));
        td_jw_i64(w, "round", z->round);
        td_jw_i64(w, "prompts", (int64_t)z->prompts);
        td_jw_i64(w, "prompts_forked", (int64_t)z->forked);
        td_jw_i64(w, "answers", (int64_t)z->answers);
        td_jw_i64(w, "forks", (int64_t)z->forks);
        td_jw_num(w, "gap_max", z->gap_max);
        td_jw_end(w);
    }
    td_jw_end(w);
}

static void write_departure(struct td_jw *w, const char *key, const struct td_departure *d)
{
    td_jw_obj(w, key);
    td_jw_i64(w, "prompts", (int64_t)d->prompts);
    td_jw_i64(w, "clear", (int64_t)d->clear);
    td_jw_num_or_null(w, "shift", d->shift.mean);
    td_jw_num_or_null(w, "shift_error", d->shift.error);
    td_jw_i64(w, "positions", (int64_t)d->shift.n);
    td_jw_num_or_null(w, "unsure", d->unsure.mean);
    td_jw_num_or_null(w, "unsure_error", d->unsure.error);
    td_jw_end(w);
}

static void write_damage(struct td_jw *w, const struct td_damage *d)
{
    td_jw_obj(w, "damage");
    td_jw_bool(w, "found", td_damage_found(d));
    write_departure(w, "candidate", &d->candidate);
    write_departure(w, "noise", &d->noise);
    td_jw_num(w, "clear_p", d->clear_p);
    td_jw_num(w, "shift_limit", d->shift_limit);
    td_jw_num(w, "unsure_limit", d->unsure_limit);
    td_jw_end(w);
}

/* The verdict of one prompt: the gravest of its answers, with the reason in `why`. */
static enum td_verdict judge_prompt(const struct td_comparison *c, const struct td_prompt_group *g,
                                    char why[200])
{
    const struct td_tokens_found *found = c->lane[TD_LANE_TOKENS].measured;
    const struct td_tokens *t = &found->tokens;
    const struct td_collapses *collapses = c->lane[TD_LANE_COLLAPSE].measured;
    enum td_verdict v = TD_PASS, forked = c->lane[TD_LANE_TOKENS].verdict;
    size_t j;

    why[0] = '\0';
    for (j = 0; j < t->n_forks && v == TD_PASS; j++)
        if (t->forks[j].group == g) {
            v = forked;
            snprintf(why, 200, "repeat %d forks from the baseline at %s %d",
                     t->forks[j].bad->repeat, td_unit_name(t->forks[j].at.unit),
                     t->forks[j].at.position);
        }
    for (j = 0; j < found->same.n; j++)
        if (found->same.list[j].group == g && found->same.beyond[found->same.list[j].what]) {
            v = TD_REGRESSED;
            snprintf(why, 200, "repeat %d has the same tokens and another %s",
                     found->same.list[j].bad->repeat, td_unlike_name(found->same.list[j].what));
        }
    for (j = 0; j < collapses->n; j++)
        if (collapses->found[j].group == g && c->lane[TD_LANE_COLLAPSE].asked) {
            v = TD_REGRESSED;
            snprintf(why, 200, "collapsed: %.180s", collapses->found[j].what.why);
        }
    for (j = 0; j < t->n_lost; j++)
        if (strcmp(t->lost[j]->prompt_id, g->prompt_id) == 0) {
            v = t->unreached ? TD_BROKEN : TD_REGRESSED;
            snprintf(why, 200, "%.190s", t->lost[j]->error);
        }
    return v;
}

/* Can a candidate's answer be compared with one of the baseline? As td_tokens_measure() has it. */
static bool is_compared(const struct td_prompt_group *g, const struct td_exchange *x)
{
    size_t i = 0;

    while (i < g->n[TD_BASE] && g->by_role[TD_BASE][i].x->error)
        i++;
    return !x->error && i < g->n[TD_BASE];
}

static void write_prompts(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_tokens_found *found = c->lane[TD_LANE_TOKENS].measured;
    const struct td_tokens *t = &found->tokens;
    char why[200];
    size_t i, j, fork = 0;

    td_jw_arr(w, "by_prompt");
    for (i = 0; i < c->compared.n; i++) {
        const struct td_prompt_group *g = &c->compared.group[i];
        size_t compared = 0, unlike = 0;
        const size_t first = fork;

        if (!g->n[TD_NEW])
            continue;
        for (j = 0; j < g->n[TD_NEW]; j++)
            compared += is_compared(g, g->by_role[TD_NEW][j].x);
        while (fork < t->n_forks && t->forks[fork].group == g)
            fork++;
        for (j = 0; j < found->same.n; j++)
            unlike += found->same.list[j].group == g;
        td_jw_obj(w, NULL);
        td_jw_cstr(w, "prompt_id", g->prompt_id);
        td_jw_cstr(w, "category", g->category);
        td_jw_i64(w, "compared", (int64_t)compared);
        td_jw_i64(w, "equal", (int64_t)(compared - (fork - first) - unlike));
        td_jw_cstr(w, "verdict", td_verdict_name(judge_prompt(c, g, why)));
        td_jw_cstr(w, "why", why);
        td_jw_end(w);
    }
    td_jw_end(w);
}

void td_tokens_write_json(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_tokens_found *found = c->lane[TD_LANE_TOKENS].measured;
    const struct td_tokens *t = &found->tokens;

    td_jw_obj(w, "tokens");
    td_jw_i64(w, "prompts", (int64_t)t->prompts);
    td_jw_i64(w, "prompts_forked", (int64_t)t->prompts_forked);
    td_jw_i64(w, "answers", (int64_t)t->answers);
    td_jw_i64(w, "attempts", (int64_t)t->attempts);
    td_jw_i64(w, "errors_alike", (int64_t)t->errors_alike);
    td_jw_i64(w, "prompts_missing", (int64_t)t->missing);
    td_jw_num_or_null(w, "gap_noise", t->gap_noise);
    td_jw_i64(w, "prompts_over", (int64_t)t->prompts_over);
    td_jw_num_or_null(w, "gap_p", t->gap_p);
    td_jw_num(w, "gap_limit", t->gap_limit);
    td_jw_i64(w, "gaps_hopeless", (int64_t)t->gaps_hopeless);
    td_jw_i64(w, "gaps_unknown", (int64_t)t->gaps_unknown);
    td_jw_num(w, "share_p", t->share_p);
    td_jw_num_or_null(w, "mean_dlogprob", t->mean_dlogprob);
    write_damage(w, &found->damage);
    write_forks(w, t);
    write_unlike(w, &found->same);
    write_lost(w, t);
    write_noise(w, t);
    write_prompts(c, w);
    td_jw_end(w);
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Which share of two answers is equal: what stands before the fork, of the longer one. */
static double equal_share(const struct td_fork *f)
{
    const double length = f->at.unit == TD_UNIT_BYTES
                              ? (double)(f->good->text_len > f->bad->text_len ? f->good->text_len
                                                                              : f->bad->text_len)
                              : larger(f->good->n_tokens, f->bad->n_tokens);

    return length > 0 ? f->at.position / length : 0;
}

void td_tokens_write_answers(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_tokens_found *found = c->lane[TD_LANE_TOKENS].measured;
    const struct td_tokens *t = &found->tokens;
    double tokens = 0, equal = 0;
    size_t i, j, fork = 0;

    if (!t->answers) {
        td_jw_null(w, "answers");
        return;
    }
    for (i = 0; i < c->compared.n; i++)
        for (j = 0; j < c->compared.group[i].n[TD_NEW]; j++) {
            const struct td_exchange *x = c->compared.group[i].by_role[TD_NEW][j].x;
            const struct td_fork *f =
                fork < t->n_forks && t->forks[fork].bad == x ? &t->forks[fork++] : NULL;
            const double n = larger(x->n_tokens, f ? f->good->n_tokens : 1);

            if (!is_compared(&c->compared.group[i], x))
                continue;
            tokens += n;
            equal += f ? n * equal_share(f) : n;
        }
    td_jw_obj(w, "answers");
    td_jw_i64(w, "equal", (int64_t)(t->answers - t->n_forks - found->same.n));
    td_jw_i64(w, "compared", (int64_t)t->answers);
    td_jw_num(w, "tokens_equal", tokens > 0 ? equal / tokens : 1);
    td_jw_end(w);
}

void td_tokens_headline(const struct td_comparison *c, struct td_buf *out)
{
    const struct td_tokens_found *found = c->lane[TD_LANE_TOKENS].measured;
    const struct td_tokens *t = &found->tokens;
    const struct td_fork *f = t->n_forks ? &t->forks[0] : NULL;

    if (t->n_lost && !t->unreached)
        td_buf_addf(out, "%zu of %zu request%s failed that the old server answered; first: %s: %s",
                    t->n_lost, t->attempts, td_plural((int64_t)t->attempts), t->lost[0]->prompt_id, t->lost[0]->error);
    else if (td_same_tokens_found(&found->same))
        td_same_tokens_words(&found->same, out);
    else if (f && c->lane[TD_LANE_TOKENS].verdict > TD_PASS) {
        td_buf_addf(out, "%zu of %zu answer%s equal%s none of the old ones; ", t->n_forks, t->answers,
                    td_plural((int64_t)t->answers), td_verb((int64_t)t->n_forks));
        if (c->policy.tokens_exact)
            td_buf_adds(out, "equal tokens were asked for; ");
        else if (td_damage_found(&found->damage)) {
            td_damage_words(&found->damage, &c->policy, out);
            td_buf_adds(out, "; ");
        }
        td_buf_addf(out, "first: %s at %s %d", f->group->prompt_id, td_unit_name(f->at.unit),
                    f->at.position);
    }
    else if (f)
        td_buf_addf(out, "%zu of %zu answer%s differ%s, no more than noise does (p=%.2g, level %.2g)",
                    t->n_forks, t->answers, td_plural((int64_t)t->answers),
                    td_verb((int64_t)t->n_forks), t->share_p, c->policy.tokens_alpha);
}
