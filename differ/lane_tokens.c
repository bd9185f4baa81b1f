/* lane_tokens.c - the lane "tokens": do the candidate's answers equal the baseline's, and if
 * not, can noise explain it?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lane_tokens.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "differ/comparison.h"
#include "differ/lane_collapse.h"
#include "differ/lane_ops.h"
#include "differ/lane_scores.h"
#include "differ/report_answer.h"
#include "differ/report_verdict.h"

/* ---- verdict --------------------------------------------------------------------------------- */

static void judge_lost(const struct td_tokens *t, struct td_lane *lane)
{
    char names[400] = "";
    size_t i, len = 0;

    for (i = 0; i < t->n_lost && i < 3; i++)
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%.60s/%d: %.60s", i ? "; " : "",
                                t->lost[i]->prompt_id, t->lost[i]->repeat, t->lost[i]->error);
    td_lane_note(lane, TD_REGRESSED,
                 "%zu of %zu requests failed where the baseline answered (%s%s)", t->n_lost,
                 t->attempts, names, t->n_lost > 3 ? "; ..." : "");
}

/* Note where the difference began, when every GEMM is bit-equal to the recorded one and texts
 * differ. */
static void note_where_difference_begins(const struct td_ops_view *ops, struct td_lane *lane)
{
    if (ops->first_departs)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "all %zu GEMMs are bit-equal and texts differ: the difference begins at %s",
                     ops->ops, ops->first_departs);
    else if (ops->compared && ops->compared_equal == ops->compared)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "all %zu GEMMs and all %zu other ops are bit-equal: the difference begins "
                     "elsewhere, in what was not recorded",
                     ops->ops, ops->compared);
    else
        td_lane_note(lane, TD_NOT_JUDGED,
                     "all %zu judged ops are bit-equal: the difference begins elsewhere (record "
                     "--all-ops finds the op)",
                     ops->ops);
}

/* Note why noise does not explain the forks. */
static void note_gaps_and_shares(const struct td_tokens *t, const struct td_policy *policy,
                                 size_t noise_forks, struct td_lane *lane)
{
    if (noise_forks && t->share_p < policy->tokens_alpha)
        td_lane_note(lane, TD_NOT_JUDGED, "more prompts fork than noise explains (p=%.2g)",
                     t->share_p);
    if (noise_forks && t->gap_p < policy->tokens_alpha)
        td_lane_note(
            lane, TD_NOT_JUDGED,
            "%zu of %zu forked prompts have a larger gap than noise's largest, %.3g nats (p=%.2g)",
            t->prompts_over, t->gap_prompts, t->gap_noise, t->gap_p);
    if (t->gaps_hopeless)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "%zu forks are no close call: a gap over %.3g nats, or a choice outside the "
                     "recorded alternatives",
                     t->gaps_hopeless, t->gap_limit);
    if (t->gaps_unknown)
        td_lane_note(lane, TD_NOT_JUDGED, "the gap of %zu forks is unknown: record with logprobs",
                     t->gaps_unknown);
}

/* Note what the ops show about answers that differ. */
static void note_ops(const struct td_ops_view *ops, struct td_lane *lane)
{
    if (!ops->judged)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "no op was judged: text alone cannot tell rounding from a bug (gate --build "
                     "PATH judges the ops)");
    else if (ops->ops && ops->bit_equal == ops->ops)
        note_where_difference_begins(ops, lane);
    else
        td_lane_note(lane, TD_NOT_JUDGED, "no judged op is worse");
    if (ops->coverage && *ops->coverage)
        td_lane_note(lane, TD_NOT_JUDGED, "covered: %s", ops->coverage);
}

static void judge_forks(const struct td_tokens *t, const struct td_policy *policy,
                        const struct td_ops_view *ops, struct td_lane *lane)
{
    size_t i, noise_forks = 0, calibrations = 0;
    bool like_noise;

    for (i = 0; i < t->n_noise; i++) {
        noise_forks += t->noise[i].forks;
        calibrations += i > 0 && t->noise[i].answers > 0;
    }
    if (ops->judged && ops->worse) {
        td_lane_note(
            lane, TD_REGRESSED,
            "%zu of %zu answers differ from every repeat of the baseline, and %zu ops are worse",
            t->n_forks, t->answers, ops->worse);
        return;
    }
    like_noise = noise_forks && !isnan(t->gap_noise) && !(t->share_p < policy->tokens_alpha) &&
                 !(t->gap_p < policy->tokens_alpha) && t->gaps_hopeless == 0 &&
                 t->gaps_unknown == 0;
    if (like_noise) {
        td_lane_note(lane, TD_PASS,
                     "%zu of %zu answers differ, as noise does: prompts forked %zu of %zu "
                     "(p=%.2g that this is no more than noise), of these with a larger gap "
                     "than noise's largest, %.3g nats, %zu (p=%.2g)",
                     t->n_forks, t->answers, t->prompts_forked, t->prompts, t->share_p,
                     t->gap_noise, t->prompts_over, t->gap_p);
        return;
    }
    td_lane_note(lane, TD_INCONCLUSIVE,
                 "%zu of %zu answers (%zu of %zu prompts) differ from every repeat of the baseline",
                 t->n_forks, t->answers, t->prompts_forked, t->prompts);
    if (noise_forks == 0)
        td_lane_note(
            lane, TD_NOT_JUDGED, "%s",
            t->repeats_min < 2 && !calibrations
                ? "the baseline was recorded once per prompt, so it shows no spread: record with "
                  "--repeat 5"
                : "the baseline repeats itself exactly, which says nothing about another build");
    note_gaps_and_shares(t, policy, noise_forks, lane);
    note_ops(ops, lane);
    if (!calibrations)
        td_lane_note(
            lane, TD_NOT_JUDGED,
            "a replay of an honest build shows what rounding alone does: --calibrate FIXTURE");
}

void td_tokens_judge(const struct td_tokens *t, const struct td_policy *policy,
                     const struct td_ops_view *ops, struct td_lane *lane)
{
    if (t->attempts == 0) {
        td_lane_no_evidence(
            lane, "the candidate holds no exchanges (replay --server HOST:PORT makes them)");
        return;
    }
    if (t->unreached) {
        td_lane_note(lane, TD_BROKEN, "the candidate's server was never reached: %s",
                     t->n_lost ? t->lost[0]->error : "no connection");
        return;
    }
    if (t->n_lost)
        judge_lost(t, lane);
    if (t->answers == 0 && !t->n_lost) {
        td_lane_note(lane, TD_INCONCLUSIVE,
                     "no answer of the candidate has an answer of the baseline to compare with");
        return;
    }
    if (t->n_forks)
        judge_forks(t, policy, ops, lane);
    else if (t->answers)
        td_lane_note(lane, TD_PASS, "all %zu answers equal the baseline's", t->answers);
    if (t->missing)
        td_lane_note(lane, TD_INCONCLUSIVE, "%zu prompts of the baseline were not replayed",
                     t->missing);
    if (t->errors_alike)
        td_lane_note(lane, TD_NOT_JUDGED, "%zu requests failed as the baseline's did",
                     t->errors_alike);
}

/* What the lane "ops" measured, if it was asked for. `place` is written to. */
static struct td_ops_view view_of_ops(const struct td_comparison *c, char *place, size_t size)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    const struct td_numerics *n = &found->numerics;
    struct td_ops_view view = {
        .judged = c->lane[TD_LANE_OPS].asked && n->judged > n->broken && n->joined > 0,
        .ops = n->judged,
        .worse = n->worse,
        .bit_equal = n->bit_equal,
        .undecided = n->undecided + n->broken,
        .compared = n->compared,
        .compared_equal = n->compared_equal,
    };

    if (n->first_departs) {
        td_op_place(n->first_departs, place, size);
        view.first_departs = place;
    }
    view.coverage = view.judged ? n->coverage : "";
    return view;
}

static void judge_tokens(const struct td_comparison *c, struct td_lane *lane)
{
    const struct td_tokens *t = lane->measured;
    const struct td_rescore *scores = c->lane[TD_LANE_SCORES].measured;
    char place[200], words[400];
    const struct td_ops_view view = view_of_ops(c, place, sizeof place);

    td_tokens_judge(t, &c->policy, &view, lane);
    /* Behind a fork the texts cannot be compared, but the recorded answer was scored to its end.
     * This is information: it never turns forks into a pass (docs/verdicts.md). */
    if (lane->verdict == TD_INCONCLUSIVE && t->n_forks && scores->n) {
        td_rescore_words(scores, words, sizeof words);
        td_lane_note(lane, TD_NOT_JUDGED, "%s", words);
    }
}

static int measure_tokens(struct td_comparison *c, void *measured, struct td_error *err)
{
    return td_tokens_measure(&c->groups, &c->policy, measured, err);
}

static void release_tokens(void *measured)
{
    td_tokens_release(measured);
}

static bool has_exchanges(const void *measured)
{
    const struct td_tokens *t = measured;

    return t->attempts > 0;
}

/* ---- text report ----------------------------------------------------------------------------- */

static void print_fork(const struct td_page *p, const struct td_fork *f)
{
    size_t at = td_answers_common_prefix(f->good, f->bad);

    fprintf(p->out, "  %s%s%s%s, repeat %d: forks at %s %d", f->group->prompt_id,
            *f->group->category ? " (" : "", f->group->category, *f->group->category ? ")" : "",
            f->bad->repeat, td_unit_name(f->at.unit), f->at.position);
    if (!isnan(f->gap))
        fprintf(p->out, ", gap %s%.3f nats", f->outside_top_k ? ">= " : "", f->gap);
    fprintf(p->out, "\n");
    td_answer_print(p, "good", f->good, at);
    td_answer_print(p, "new", f->bad, at);
}

static bool has_collapsed(const struct td_comparison *c, const struct td_exchange *x)
{
    const struct td_collapses *all = c->lane[TD_LANE_COLLAPSE].measured;
    size_t i;

    for (i = 0; i < all->n; i++)
        if (all->found[i].bad == x)
            return true;
    return false;
}

/* Answers that have collapsed stand in a section of their own and are only counted here. */
static void print_forks(const struct td_comparison *c, const struct td_page *p)
{
    const struct td_tokens *t = c->lane[TD_LANE_TOKENS].measured;
    const char *last = NULL;
    size_t i, shown = 0, prompts = 0, fallen = 0;

    if (t->n_forks == 0)
        return;
    td_page_title(p, "answers that fork from the baseline");
    for (i = 0; i < t->n_forks; i++) { /* one per prompt unless verbose */
        bool first;

        if (has_collapsed(c, t->forks[i].bad)) {
            fallen++;
            continue;
        }
        first = !last || strcmp(last, t->forks[i].group->prompt_id) != 0;
        prompts += first;
        last = t->forks[i].group->prompt_id;
        if (p->verbose || (first && prompts <= TD_PAGE_SHOWN)) {
            print_fork(p, &t->forks[i]);
            shown++;
        }
    }
    if (fallen)
        fprintf(p->out, "  %zu of %zu have collapsed (see above)\n", fallen, t->n_forks);
    if (shown + fallen < t->n_forks)
        fprintf(p->out, "  (%zu of %zu shown, %zu prompts; --verbose shows all)\n", shown,
                t->n_forks - fallen, prompts);
}

static void print_noise(const struct td_comparison *c, const struct td_page *p)
{
    const struct td_tokens *t = c->lane[TD_LANE_TOKENS].measured;
    char name[64];
    size_t i;

    if (t->answers == 0)
        return;
    td_page_title(p, "tokens: prompts with a fork, and how close the calls were");
    fprintf(p->out, "  %-28s %5zu of %-5zu", "candidate", t->prompts_forked, t->prompts);
    if (!isnan(t->mean_dlogprob))
        fprintf(p->out, "  mean |dlogprob| %.4f", t->mean_dlogprob);
    fprintf(p->out, "\n");
    for (i = 0; i < t->n_noise; i++) {
        const struct td_noise *z = &t->noise[i];

        if (z->prompts)
            fprintf(p->out, "  %-28s %5zu of %-5zu  largest gap %.3f nats\n",
                    td_noise_name(z->role, z->round, name), z->forked, z->prompts, z->gap_max);
    }
    if (t->prompts_forked && !isnan(t->gap_noise))
        fprintf(
            p->out,
            "  no more than noise: share of prompts p=%.3g, %zu of %zu over noise's largest gap "
            "p=%.3g (limit %g); no gap over %.3g nats\n",
            t->share_p, t->prompts_over, t->gap_prompts, t->gap_p, c->policy.tokens_alpha,
            t->gap_limit);
}

/* Print why a server that was ready answered nothing, where replay found out. */
static void print_dead_engines(const struct td_comparison *c, const struct td_page *p)
{
    size_t i;

    for (i = 1; i < c->n_sides; i++) {
        const char *why = td_json_get_str(td_json_get(td_fixture_manifest(c->side[i].fx), "replay"),
                                          "engine", NULL);

        if (why)
            fprintf(p->out, "  %.600s\n", why);
    }
}

/* A request that could not connect comes after those that were cut: they say more about the
 * cause. */
static bool is_unsent(const struct td_exchange *x)
{
    return x->error_kind && !strcmp(x->error_kind, "connect");
}

static size_t print_lost(const struct td_page *p, const struct td_tokens *t, bool unsent,
                         size_t shown)
{
    size_t i;

    for (i = 0; i < t->n_lost && (shown < TD_PAGE_SHOWN * 2 || p->verbose); i++) {
        const struct td_exchange *x = t->lost[i];

        if (is_unsent(x) != unsent)
            continue;
        fprintf(p->out, "  %s, repeat %d: %s%s%s\n", x->prompt_id, x->repeat,
                x->error_kind ? x->error_kind : "", x->error_kind ? ": " : "", x->error);
        shown++;
    }
    return shown;
}

static void print_lost_answers(const struct td_comparison *c, const struct td_page *p)
{
    const struct td_tokens *t = c->lane[TD_LANE_TOKENS].measured;
    size_t shown;

    if (t->n_lost == 0 || !c->lane[TD_LANE_TOKENS].asked)
        return;
    td_page_title(p, "requests that failed where the baseline answered");
    print_dead_engines(c, p);
    shown = print_lost(p, t, true, print_lost(p, t, false, 0));
    if (shown < t->n_lost)
        fprintf(p->out, "  (%zu of %zu shown; --verbose shows all)\n", shown, t->n_lost);
}

static void print_tokens(const struct td_comparison *c, const struct td_page *p)
{
    if (!c->lane[TD_LANE_TOKENS].asked)
        return;
    print_forks(c, p);
    print_noise(c, p);
}

static void add_token_figures(const struct td_comparison *c, struct td_buf *line)
{
    const struct td_tokens *t = c->lane[TD_LANE_TOKENS].measured;

    if (!c->lane[TD_LANE_TOKENS].asked || !t->attempts)
        return;
    td_buf_addf(line, " tokens=%zu/%zu", t->n_forks, t->answers);
    if (t->n_lost)
        td_buf_addf(line, " lost=%zu/%zu", t->n_lost, t->attempts);
}

/* ---- JSON and JUnit -------------------------------------------------------------------------- */

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
        td_answer_write_text(w, "good", f->good, at);
        td_answer_write_text(w, "new", f->bad, at);
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

static void write_tokens(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_tokens *t = c->lane[TD_LANE_TOKENS].measured;

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
    write_forks(w, t);
    write_lost(w, t);
    write_noise(w, t);
    td_jw_end(w);
}

/* The verdict of one prompt: the gravest of its answers, with the reason in `why`. */
static enum td_verdict judge_prompt(const struct td_comparison *c, const struct td_prompt_group *g,
                                    char why[200])
{
    const struct td_tokens *t = c->lane[TD_LANE_TOKENS].measured;
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

static void add_prompt_cases(const struct td_comparison *c, struct td_junit *junit)
{
    char why[200];
    size_t i;

    if (!c->lane[TD_LANE_TOKENS].asked)
        return;
    for (i = 0; i < c->groups.n; i++)
        if (c->groups.group[i].n[TD_NEW]) {
            enum td_verdict v = judge_prompt(c, &c->groups.group[i], why);

            td_junit_verdict(junit, "prompt", c->groups.group[i].prompt_id, v, why);
        }
}

const struct td_lane_type td_lane_tokens = {
    .reads = TD_READS_EXCHANGES,
    .judges = TD_REPLAYED_ANSWERS,
    .measured_size = sizeof(struct td_tokens),
    .measure = measure_tokens,
    .release = release_tokens,
    .has_evidence = has_exchanges,
    .judge = judge_tokens,
    .print_failures = print_lost_answers,
    .print_details = print_tokens,
    .add_answer_figures = add_token_figures,
    .write_json = write_tokens,
    .add_cases = add_prompt_cases,
};
