/* report_scores.c - scored texts in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_scores.h"

#include "differ/comparison.h"
#include "differ/rescore.h"

/* The number of the token within the prompt or the answer. *part: which of the two. */
static int position_in_part(const struct td_rescore_place *w, const char **part)
{
    bool answer = w->position >= w->base->scored_from;

    *part = answer ? "answer" : "prompt";
    return answer ? w->position - w->base->scored_from : w->position;
}

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

static void write_unscored(const struct td_rescore *r, struct td_jw *w)
{
    size_t i;

    td_jw_arr(w, "unscored");
    for (i = 0; i < r->n_unscored; i++) {
        const struct td_rescore_unscored *u = &r->unscored[i];

        td_jw_obj(w, NULL);
        td_jw_cstr(w, "prompt_id", u->prompt_id);
        td_jw_i64(w, "asked", (int64_t)u->asked);
        td_jw_i64(w, "nan", (int64_t)u->nan);
        td_jw_i64(w, "failed", (int64_t)u->failed);
        td_jw_i64(w, "not_finite", (int64_t)u->not_finite);
        td_jw_end(w);
    }
    td_jw_end(w);
}

void td_scores_write_json(const struct td_comparison *c, struct td_jw *w)
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
    write_unscored(r, w);
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
