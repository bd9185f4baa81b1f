/* report_scores.c - recorded answers under both sides, token by token: in the text report and in the JSON.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "common/json.h"
#include "differ/report_page.h"

static void print_part(const struct td_page *p, const char *name, const struct td_rescore_part *a)
{
    if (!a->n)
        return;
    fprintf(p->out, "  %-28s %7zu  %8.4f  %+9.4f +- %.4f  %9.4f  %5.1f %%\n", name, a->tokens, a->base_nll, td_rescore_shown(a->shift), a->error, a->mean_abs,
            a->top_known ? 100.0 * (double)a->top_changed / (double)a->top_known : 0.0);
}

static void print_noise(const struct td_page *p, const struct td_rescore *r)
{
    char name[64];
    size_t i;

    for (i = 0; i < r->n_noise; i++) {
        const struct td_rescore_noise *z = &r->noise[i];

        snprintf(name, sizeof name, z->role == TD_BASE ? "baseline against itself" : z->role == TD_LIVE ? "live baseline, round %d" : "honest build %d", z->round + 1);
        print_part(p, name, &z->answer);
    }
}

/* Number of a token within the prompt or the answer, and which of them. */
static int place_in(const struct td_rescore_place *w, const char **part)
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
    at = place_in(w, &part);
    fprintf(p->out, "  largest change: %s, token %d of the %s (id %d): logprob %.3f, now %.3f\n", w->base->prompt_id, at, part,
            w->base->prompt_ids[w->position], w->base->scores[w->position], w->now->scores[w->position]);
}

static int by_shift(const void *a, const void *b)
{
    const struct td_rescore_text *p = *(const struct td_rescore_text *const *)a, *q = *(const struct td_rescore_text *const *)b;

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

void td_page_scores(const struct td_page *p, const struct td_weighing *w)
{
    const struct td_rescore *r = &w->rescore;

    if (!r->n || !w->lane[TD_LANE_SCORES].asked)
        return;
    td_page_title(p, "scores (the recorded texts, token by token: how likely the baseline finds them, and the candidate)");
    fprintf(p->out, "  %-28s %7s  %8s  %-19s  %9s  %s\n", "", "tokens", "NLL", "NLL, candidate's", "mean |d|", "top token changed");
    print_part(p, "answers", &r->answer);
    print_texts(p, r);
    print_part(p, "prompts", &r->prompt);
    print_noise(p, r);
    print_worst(p, &r->worst);
}

/* ---- JSON ----------------------------------------------------------------------------------------------------------- */

static void num_or_null(struct td_jw *w, const char *key, double v)
{
    if (isnan(v))
        td_jw_null(w, key);
    else
        td_jw_num(w, key, v);
}

static void write_part(struct td_jw *w, const char *key, const struct td_rescore_part *a)
{
    td_jw_obj(w, key);
    td_jw_i64(w, "tokens", (int64_t)a->tokens);
    td_jw_i64(w, "comparisons", (int64_t)a->n);
    num_or_null(w, "nll", a->base_nll);
    num_or_null(w, "nll_shift", a->shift);
    num_or_null(w, "standard_error", a->error);
    num_or_null(w, "mean_dlogprob", a->mean_abs);
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
    at = place_in(p, &part);
    td_jw_obj(w, "worst");
    td_jw_cstr(w, "prompt_id", p->base->prompt_id);
    td_jw_cstr(w, "part", part);
    td_jw_i64(w, "position", at);
    td_jw_i64(w, "token_id", p->base->prompt_ids[p->position]);
    td_jw_num(w, "logprob", p->base->scores[p->position]);
    td_jw_num(w, "new_logprob", p->now->scores[p->position]);
    td_jw_end(w);
}

void td_report_json_scores(struct td_jw *w, const struct td_rescore *r)
{
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
        static const char *const OF[TD_N_ROLES] = {"baseline", "baseline-live", "candidate", "calibrate"};

        td_jw_obj(w, NULL);
        td_jw_cstr(w, "of", OF[r->noise[i].role]);
        td_jw_i64(w, "round", r->noise[i].round);
        td_jw_num(w, "text_nll_shift_max", r->noise[i].text_max);
        write_part(w, "answers", &r->noise[i].answer);
        write_part(w, "prompts", &r->noise[i].prompt);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_end(w);
}
