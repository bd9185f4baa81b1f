/* lane_scores.c - the lane "scores": does the candidate find the recorded texts as likely as the
 * baseline does?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lane_scores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/json.h"
#include "differ/comparison.h"
#include "differ/report_answer.h"

#define ERRORS 3.0        /* a shift must be over its limit by this many standard errors */
#define SYSTEMATIC 4.0    /* a shift below its limit is called systematic from this many on */
#define NOTED 1e-3        /* nats: a smaller shift below its limit is not noted */
#define TEXT_MIN 16       /* tokens: a shorter answer alone is never judged */

enum td_verdict td_rescore_compare(const struct td_rescore_part *p, double limit, double noise,
                                   const struct td_policy *policy)
{
    if (!p->n || !(p->shift > limit))
        return TD_PASS;
    return p->shift - ERRORS * p->error > limit && p->shift > policy->factor * noise
               ? TD_REGRESSED
               : TD_INCONCLUSIVE;
}

double td_rescore_shown(double shift)
{
    return fabs(shift) < 5e-5 ? 0 : shift;
}

void td_rescore_words(const struct td_rescore *r, char *out, size_t n)
{
    const struct td_rescore_part *a = &r->answer;

    snprintf(out, n,
             "teacher-forced over %zu tokens of %zu recorded answers: NLL %+.4f nats a token "
             "(the baseline's own noise %.4f), mean |dlogprob| %.4f, top token changed at %.2f %%; "
             "of their prompts NLL %+.4f",
             a->tokens, r->n, td_rescore_shown(a->shift), r->noise_answer, a->mean_abs,
             a->top_known ? 100.0 * (double)a->top_changed / (double)a->top_known : 0.0,
             td_rescore_shown(r->prompt.shift));
}

static const struct td_rescore_text *find_largest_shift(const struct td_rescore *r,
                                                        const struct td_policy *policy,
                                                        enum td_verdict *v)
{
    const struct td_rescore_text *most = NULL;
    size_t i;

    *v = TD_PASS;
    for (i = 0; i < r->n; i++) {
        enum td_verdict one =
            r->text[i].answer.tokens < TEXT_MIN
                ? TD_PASS
                : td_rescore_compare(&r->text[i].answer, policy->scores_text_nll_max, r->noise_text,
                                     policy);

        if (one > *v ||
            (one == *v && one != TD_PASS && r->text[i].answer.shift > most->answer.shift)) {
            *v = one;
            most = &r->text[i];
        }
    }
    return most;
}

static void note_shift(struct td_lane *lane, enum td_verdict v, const char *what,
                       const struct td_rescore_part *p, double limit, double noise)
{
    if (v == TD_REGRESSED)
        td_lane_note(lane, v,
                     "%s are less likely by %.3f nats a token (over %zu tokens, +- %.3f; limit "
                     "%.3g, noise %.4f)",
                     what, p->shift, p->tokens, ERRORS * p->error, limit, noise);
    else if (v == TD_INCONCLUSIVE)
        td_lane_note(lane, v,
                     "%s are less likely by %.3f nats a token, over the limit %.3g, but %s", what,
                     p->shift, limit,
                     p->shift - ERRORS * p->error > limit ? "the baseline scatters so much itself"
                                                          : "over too few tokens to be sure");
}

static void judge_shifts(const struct td_rescore *r, const struct td_policy *policy,
                         struct td_lane *lane)
{
    enum td_verdict of_text;
    const struct td_rescore_text *t = find_largest_shift(r, policy, &of_text);
    char what[160], words[400];

    note_shift(lane,
               td_rescore_compare(&r->answer, policy->scores_nll_max, r->noise_answer, policy),
               "the recorded answers", &r->answer, policy->scores_nll_max, r->noise_answer);
    note_shift(lane,
               td_rescore_compare(&r->prompt, policy->scores_nll_max, r->noise_prompt, policy),
               "the prompts", &r->prompt, policy->scores_nll_max, r->noise_prompt);
    snprintf(what, sizeof what, "the tokens of the answer to %.100s", t ? t->prompt_id : "");
    if (t)
        note_shift(lane, of_text, what, &t->answer, policy->scores_text_nll_max, r->noise_text);
    if (lane->verdict <= TD_PASS && r->answer.shift > NOTED &&
        r->answer.shift > SYSTEMATIC * r->answer.error &&
        r->answer.shift > policy->factor * r->noise_answer)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "small but systematic: the recorded answers are less likely by %.4f nats a "
                     "token (standard error %.4f), below the limit of %.3g",
                     r->answer.shift, r->answer.error, policy->scores_nll_max);
    td_rescore_words(r, words, sizeof words);
    td_lane_note(lane, lane->verdict > TD_PASS ? TD_NOT_JUDGED : TD_PASS, "%s", words);
}

static void judge_failures(const struct td_rescore *r, struct td_lane *lane)
{
    const struct td_rescore_place *p = &r->first_not_finite;

    if (r->n_nan)
        td_lane_note(lane, TD_REGRESSED,
                     "in %zu scorings of recorded texts the candidate's logprobs are NaN (first: "
                     "%.80s: %.160s)",
                     r->n_nan, r->nan->prompt_id, r->nan->error);
    if (r->not_finite)
        td_lane_note(lane, TD_REGRESSED,
                     "no number where the baseline has a logprob, at %zu positions (first: %.80s, "
                     "token %d of the %s)",
                     r->not_finite, p->base->prompt_id,
                     p->position < p->base->scored_from ? p->position
                                                        : p->position - p->base->scored_from,
                     p->position < p->base->scored_from ? "prompt" : "answer");
    if (r->n_failed)
        td_lane_note(lane, TD_REGRESSED,
                     "%zu requests to score recorded answers failed where the baseline's did not "
                     "(first: %.80s: %.160s)",
                     r->n_failed, r->failed->prompt_id, r->failed->error);
}

void td_rescore_judge(const struct td_rescore *r, const struct td_policy *policy,
                      struct td_lane *lane)
{
    size_t unexplained = r->missing;

    if (!r->base_texts) {
        td_lane_no_evidence(lane, "the baseline holds no scores (record --scores on makes them, "
                                  "where the server offers prompt_logprobs)");
        return;
    }
    judge_failures(r, lane);
    if (r->n)
        judge_shifts(r, policy, lane);
    if (!r->n && !r->asked)
        td_lane_no_evidence(lane,
                            "the candidate scored none of the %zu recorded answers (replay "
                            "--server HOST:PORT asks it)",
                            r->base_texts);
    else if (!r->n && r->n_refused)
        td_lane_no_evidence(lane, "the candidate does not score texts, as the baseline did: %.200s",
                            r->refused->error ? r->refused->error
                                              : "prompt_logprobs was accepted, but not answered");
    else if (!r->n && !r->n_nan && !r->n_failed)
        td_lane_no_evidence(lane, "the candidate scored other answers than the baseline (a replay "
                                  "has the baseline's scored)");
    else if (unexplained && !r->n_nan && !r->n_failed)
        td_lane_note(lane, TD_INCONCLUSIVE, "%zu of %zu recorded answers were not scored%s%.160s",
                     unexplained, r->base_texts, r->n_refused ? ": " : "",
                     r->n_refused && r->refused->error ? r->refused->error : "");
    if (r->n && r->other)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "%zu scorings are of other answers, and were not compared", r->other);
}

static int measure_scores(struct td_comparison *c, void *measured, struct td_error *err)
{
    return td_rescore_measure(c->side, c->n_sides, measured, err);
}

static void release_scores(void *measured)
{
    td_rescore_release(measured);
}

static bool has_scores(const void *measured)
{
    const struct td_rescore *r = measured;

    return r->n + r->n_nan + r->n_failed > 0;
}

static void judge_scores(const struct td_comparison *c, struct td_lane *lane)
{
    td_rescore_judge(lane->measured, &c->policy, lane);
}

static void add_score_figures(const struct td_comparison *c, struct td_buf *line)
{
    const struct td_rescore *r = c->lane[TD_LANE_SCORES].measured;

    if (c->lane[TD_LANE_SCORES].asked && r->n)
        td_buf_addf(line, " nll=%+.4f", td_rescore_shown(r->answer.shift));
}

/* ---- text report ----------------------------------------------------------------------------- */

static void print_part(const struct td_page *p, const char *name, const struct td_rescore_part *a)
{
    if (!a->n)
        return;
    fprintf(p->out, "  %-28s %7zu  %8.4f  %+9.4f +- %.4f  %9.4f  %5.1f %%\n", name, a->tokens,
            a->base_nll, td_rescore_shown(a->shift), a->error, a->mean_abs,
            a->top_known ? 100.0 * (double)a->top_changed / (double)a->top_known : 0.0);
}

static void print_noise(const struct td_page *p, const struct td_rescore *r)
{
    char name[64];
    size_t i;

    for (i = 0; i < r->n_noise; i++) {
        const struct td_rescore_noise *z = &r->noise[i];

        print_part(p, td_noise_name(z->role, z->round, name), &z->answer);
    }
}

/* The number of the token within the prompt or the answer. *part: which of the two. */
static int position_in_part(const struct td_rescore_place *w, const char **part)
{
    bool answer = w->position >= w->base->scored_from;

    *part = answer ? "answer" : "prompt";
    return answer ? w->position - w->base->scored_from : w->position;
}

static void print_worst(const struct td_page *p, const struct td_rescore_place *w)
{
    const char *part;
    int at;

    if (!w->base || w->delta == 0)
        return;
    at = position_in_part(w, &part);
    fprintf(p->out, "  largest change: %s, token %d of the %s (id %d): logprob %.3f, now %.3f\n",
            w->base->prompt_id, at, part, w->base->prompt_ids[w->position],
            w->base->scores[w->position], w->now->scores[w->position]);
}

static int by_shift(const void *a, const void *b)
{
    const struct td_rescore_text *p = *(const struct td_rescore_text *const *)a,
                                 *q = *(const struct td_rescore_text *const *)b;

    return (p->answer.shift < q->answer.shift) - (p->answer.shift > q->answer.shift);
}

static void print_texts(const struct td_page *p, const struct td_rescore *r)
{
    const struct td_rescore_text **order = malloc((r->n + 1) * sizeof(*order));
    size_t i, shown = r->n > TD_PAGE_SHOWN && !p->verbose ? TD_PAGE_SHOWN : r->n;
    char name[64];

    if (!order)
        return;
    for (i = 0; i < r->n; i++)
        order[i] = &r->text[i];
    qsort(order, r->n, sizeof(*order), by_shift);
    for (i = 0; i < shown && order[i]->answer.mean_abs > 0; i++) {
        snprintf(name, sizeof name, "  %.40s", order[i]->prompt_id);
        print_part(p, name, &order[i]->answer);
    }
    free(order);
}

static void print_scores(const struct td_comparison *c, const struct td_page *p)
{
    const struct td_rescore *r = c->lane[TD_LANE_SCORES].measured;

    if (!r->n || !c->lane[TD_LANE_SCORES].asked)
        return;
    td_page_title(p, "scores (the recorded texts, token by token: how likely baseline and "
                     "candidate find them)");
    fprintf(p->out, "  %-28s %7s  %8s  %-19s  %9s  %s\n", "", "tokens", "NLL", "NLL, candidate's",
            "mean |d|", "top token changed");
    print_part(p, "answers", &r->answer);
    print_texts(p, r);
    print_part(p, "prompts", &r->prompt);
    print_noise(p, r);
    print_worst(p, &r->worst);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_part(struct td_jw *w, const char *key, const struct td_rescore_part *a)
{
    td_jw_obj(w, key);
    td_jw_i64(w, "tokens", (int64_t)a->tokens);
    td_jw_i64(w, "comparisons", (int64_t)a->n);
    td_jw_num_or_null(w, "nll", a->base_nll);
    td_jw_num_or_null(w, "nll_shift", a->shift);
    td_jw_num_or_null(w, "standard_error", a->error);
    td_jw_num_or_null(w, "mean_dlogprob", a->mean_abs);
    td_jw_i64(w, "top_known", (int64_t)a->top_known);
    td_jw_i64(w, "top_changed", (int64_t)a->top_changed);
    td_jw_end(w);
}

static void write_worst(struct td_jw *w, const struct td_rescore_place *p)
{
    const char *part;
    int at;

    if (!p->base) {
        td_jw_null(w, "worst");
        return;
    }
    at = position_in_part(p, &part);
    td_jw_obj(w, "worst");
    td_jw_cstr(w, "prompt_id", p->base->prompt_id);
    td_jw_cstr(w, "part", part);
    td_jw_i64(w, "position", at);
    td_jw_i64(w, "token_id", p->base->prompt_ids[p->position]);
    td_jw_num(w, "logprob", p->base->scores[p->position]);
    td_jw_num(w, "new_logprob", p->now->scores[p->position]);
    td_jw_end(w);
}

static void write_scores(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_rescore *r = c->lane[TD_LANE_SCORES].measured;
    size_t i;

    td_jw_obj(w, "scores");
    td_jw_i64(w, "recorded", (int64_t)r->base_texts);
    td_jw_i64(w, "compared", (int64_t)r->n);
    td_jw_i64(w, "missing", (int64_t)r->missing);
    td_jw_i64(w, "refused", (int64_t)r->n_refused);
    td_jw_i64(w, "failed", (int64_t)r->n_failed);
    td_jw_i64(w, "nan", (int64_t)r->n_nan);
    td_jw_i64(w, "not_finite", (int64_t)r->not_finite);
    write_part(w, "answers", &r->answer);
    write_part(w, "prompts", &r->prompt);
    write_worst(w, &r->worst);
    td_jw_arr(w, "texts");
    for (i = 0; i < r->n; i++) {
        td_jw_obj(w, NULL);
        td_jw_cstr(w, "prompt_id", r->text[i].prompt_id);
        td_jw_cstr(w, "category", r->text[i].category);
        write_part(w, "answer", &r->text[i].answer);
        write_part(w, "prompt", &r->text[i].prompt);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_arr(w, "noise");
    for (i = 0; i < r->n_noise; i++) {
        td_jw_obj(w, NULL);
        td_jw_cstr(w, "of", td_role_key(r->noise[i].role));
        td_jw_i64(w, "round", r->noise[i].round);
        td_jw_num(w, "text_nll_shift_max", r->noise[i].text_max);
        write_part(w, "answers", &r->noise[i].answer);
        write_part(w, "prompts", &r->noise[i].prompt);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_end(w);
}

const struct td_lane_type td_lane_scores = {
    .reads = TD_READS_EXCHANGES,
    .judges = TD_REPLAYED_ANSWERS,
    .optional = true,
    .measured_size = sizeof(struct td_rescore),
    .measure = measure_scores,
    .release = release_scores,
    .has_evidence = has_scores,
    .judge = judge_scores,
    .print_details = print_scores,
    .add_answer_figures = add_score_figures,
    .write_json = write_scores,
};
