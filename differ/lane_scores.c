/* lane_scores.c - the lane "scores": does the candidate find the recorded texts as likely as the
 * baseline does?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lane_scores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "differ/comparison.h"
#include "differ/report_answer.h"
#include "differ/report_scores.h"

#define ERRORS 3.0        /* a shift must be over its limit by this many standard errors */
#define SYSTEMATIC 4.0    /* a shift below its limit is called systematic from this many on */
#define NOTED 1e-3        /* nats: a smaller shift below its limit is not noted */
#define TEXT_MIN 16       /* tokens: a shorter answer alone is never judged */

enum td_verdict td_rescore_compare(const struct td_rescore_part *p, double limit, double noise,
                                   const struct td_policy *policy)
{
    const double shift = fabs(p->shift);

    if (!p->n || !(shift > limit))
        return TD_PASS;
    return shift - ERRORS * p->error > limit && shift > policy->factor * noise ? TD_REGRESSED
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
            (one == *v && one != TD_PASS &&
             fabs(r->text[i].answer.shift) > fabs(most->answer.shift))) {
            *v = one;
            most = &r->text[i];
        }
    }
    return most;
}

static void note_shift(struct td_lane *lane, enum td_verdict v, const char *what,
                       const struct td_rescore_part *p, double limit, double noise)
{
    const double shift = fabs(p->shift);
    const char *way = p->shift > 0 ? "less" : "more";

    if (v == TD_REGRESSED)
        td_lane_note(lane, v,
                     "%s are %s likely by %.3f nats a token%s (over %zu tokens, +- %.3f; limit "
                     "%.3g, noise %.4f)",
                     what, way, shift, p->shift > 0 ? "" : ", which no rounding does", p->tokens,
                     ERRORS * p->error, limit, noise);
    else if (v == TD_INCONCLUSIVE)
        td_lane_note(lane, v,
                     "%s are %s likely by %.3f nats a token, over the limit %.3g, but %s", what, way,
                     shift, limit,
                     shift - ERRORS * p->error > limit ? "the baseline scatters so much itself"
                                                          : "over too few tokens to be sure");
}

/* Note logprobs that are wrong both ways: their mean may stay. A shift over its limit says it
 * already. */
static void note_distance(const struct td_rescore *r, const struct td_policy *policy,
                          struct td_lane *lane)
{
    const struct td_rescore_part *a = &r->answer;

    if (lane->verdict < TD_REGRESSED && a->tokens >= TEXT_MIN &&
        a->mean_abs > policy->scores_distance_max &&
        a->mean_abs > policy->factor * r->noise_distance)
        td_lane_note(lane, TD_REGRESSED,
                     "the logprobs of the recorded answers are %.3f nats apart on the mean (over "
                     "%zu tokens; limit %.3g, noise %.4f)",
                     a->mean_abs, a->tokens, policy->scores_distance_max, r->noise_distance);
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
    note_distance(r, policy, lane);
    if (lane->verdict <= TD_PASS && fabs(r->answer.shift) > NOTED &&
        fabs(r->answer.shift) > SYSTEMATIC * r->answer.error &&
        fabs(r->answer.shift) > policy->factor * r->noise_answer)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "small but systematic: the recorded answers are %s likely by %.4f nats a "
                     "token (standard error %.4f), below the limit of %.3g",
                     r->answer.shift > 0 ? "less" : "more", fabs(r->answer.shift),
                     r->answer.error, policy->scores_nll_max);
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
    if (r->n && !r->answer.n && !r->not_finite)
        td_lane_note(lane, TD_INCONCLUSIVE,
                     "the baseline itself has no logprob for any token of its answers: nothing says whether the candidate's are right");
    else if (r->n)
        judge_shifts(r, policy, lane);
    if (!r->n && !r->asked)
        td_lane_no_evidence(lane,
                            "the candidate scored none of the %zu recorded answers (replay "
                            "--server HOST:PORT asks it)",
                            r->base_texts);
    else if (!r->n && r->n_refused)
        td_lane_no_evidence(lane,
                            td_exchange_unseen(r->refused)
                                ? "no recorded answer could be scored: %.200s"
                                : "the candidate does not score texts, as the baseline did: %.200s",
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

/* Why the server of a recording cannot score texts; NULL: it can, or nobody asked it. */
static const char *why_no_scores(const struct td_fixture *fx)
{
    const cJSON *extra;

    cJSON_ArrayForEach(extra, td_json_get(td_json_get(td_fixture_manifest(fx), "server"), "extras"))
        if (!strcmp(td_json_get_str(extra, "name", ""), "prompt_logprobs") &&
            strcmp(td_json_get_str(extra, "got", "yes"), "yes") != 0)
            return td_json_get_str(extra, "why", "it does not offer prompt_logprobs");
    return NULL;
}

static void judge_scores(const struct td_comparison *c, struct td_lane *lane)
{
    const struct td_rescore *r = lane->measured;
    const char *why = why_no_scores(c->side[0].fx);

    if (!r->base_texts && why)
        td_lane_no_evidence(lane, "the baseline holds no scores, for its server gives none: %.200s",
                            why);
    else
        td_rescore_judge(lane->measured, &c->policy, lane);
    if (r->n && r->other && td_json_get(td_fixture_manifest(c->side[1].fx), "replay"))
        td_lane_note(lane, TD_INCONCLUSIVE,
                     "the replay scored %zu texts that are not the recorded ones; replay again",
                     r->other);
}

static void add_score_figures(const struct td_comparison *c, struct td_buf *line)
{
    const struct td_rescore *r = c->lane[TD_LANE_SCORES].measured;

    if (c->lane[TD_LANE_SCORES].asked && r->n)
        td_buf_addf(line, " nll=%+.4f", td_rescore_shown(r->answer.shift));
}

const struct td_lane_type td_lane_scores = {
    .judges = TD_REPLAYED_ANSWERS,
    .optional = true,
    .measured_size = sizeof(struct td_rescore),
    .measure = measure_scores,
    .release = release_scores,
    .has_evidence = has_scores,
    .judge = judge_scores,
    .add_answer_figures = add_score_figures,
    .write_json = td_scores_write_json,
};
