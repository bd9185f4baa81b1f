/* lane_collapse.c - the lane "collapse": which answers have collapsed ("!!!!", loops) that the
 * baseline gave soundly?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lane_collapse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "differ/comparison.h"
#include "differ/report_answer.h"
#include "differ/report_collapse.h"
#include "differ/stats.h"

/* Apply the rules to the baseline's answers to one prompt. *out : [*n], which the caller frees. */
static int check_baseline(const struct td_prompt_group *g, struct td_collapse **out, size_t *n,
                          struct td_error *err)
{
    enum td_role roles[] = {TD_BASE, TD_LIVE};
    size_t r, i;

    *n = 0;
    *out = calloc(g->n[TD_BASE] + g->n[TD_LIVE] + 1, sizeof **out);
    if (!*out)
        return td_fail(err, TD_ENOMEM, "no memory for the collapse rules");
    for (r = 0; r < 2; r++)
        for (i = 0; i < g->n[roles[r]]; i++)
            if (!g->by_role[roles[r]][i].x->error || roles[r] == TD_BASE)
                td_collapse_check(g->by_role[roles[r]][i].x, NULL, &(*out)[(*n)++]);
    return TD_OK;
}

/* Did the server answer, or at least begin to? */
static bool has_answer(const struct td_exchange *x)
{
    return !x->error || x->n_tokens > 0;
}

/* Is one of the baseline's answers to this prompt filled? */
static bool baseline_is_filled(const struct td_collapse *baseline, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (baseline[i].filled)
            return true;
    return false;
}

/* Are most of the candidate's answers to this prompt filled? *answers: how many there are. */
static bool candidate_is_filled(const struct td_prompt_group *g, size_t *answers)
{
    struct td_collapse found;
    size_t j, filled = 0;

    *answers = 0;
    for (j = 0; j < g->n[TD_NEW]; j++) {
        const struct td_exchange *x = g->by_role[TD_NEW][j].x;

        if (!has_answer(x))
            continue;
        td_collapse_check(x, NULL, &found);
        filled += found.filled;
        ++*answers;
    }
    return filled * 2 > *answers;
}

/* Count a prompt by which side fills it. */
static void count_filled(const struct td_prompt_group *g, const struct td_collapse *baseline,
                         size_t n, struct td_collapses *c)
{
    size_t answers;
    bool new = candidate_is_filled(g, &answers), old = baseline_is_filled(baseline, n);

    if (answers == 0 || n == 0)
        return;
    c->prompts++;
    c->filled_new += new && !old;
    c->filled_old += old && !new;
    c->filled_both += new && old;
}

/* Note the candidate's answers to one prompt that have collapsed beyond what the baseline does; of
 * filled ones all, where the baseline fills none. */
static void find_collapsed(const struct td_prompt_group *g, const struct td_collapse *baseline,
                           size_t n, struct td_collapses *c)
{
    const bool filled_too = c->filled_more && n > 0 && !baseline_is_filled(baseline, n);
    size_t j;

    for (j = 0; j < g->n[TD_NEW]; j++) {
        const struct td_exchange *x = g->by_role[TD_NEW][j].x;
        struct td_collapsed *f = &c->found[c->n];
        char why_not[200] = "";

        c->answers += has_answer(x);
        td_collapse_check(x, NULL, &f->what);
        if (!f->what.hard && !(filled_too && f->what.filled))
            continue;
        if (f->what.hard &&
            !td_collapse_beyond(&f->what, baseline, n, why_not, sizeof why_not)) {
            if (c->excused++ == 0)
                snprintf(c->excuse, sizeof c->excuse, "%s", why_not);
            continue;
        }
        c->no_baseline += n == 0;
        f->group = g;
        f->bad = x;
        f->good = td_groups_counterpart(g, x);
        c->n++;
    }
}

/* Do something for each prompt, with what the rules say about the baseline's answers to it. */
static int for_each_prompt(const struct td_groups *groups, struct td_collapses *c,
                           void (*visit)(const struct td_prompt_group *, const struct td_collapse *,
                                         size_t, struct td_collapses *),
                           struct td_error *err)
{
    size_t i;

    for (i = 0; i < groups->n; i++) {
        struct td_collapse *baseline;
        size_t n;
        int rc = check_baseline(&groups->group[i], &baseline, &n, err);

        if (rc)
            return rc;
        visit(&groups->group[i], baseline, n, c);
        free(baseline);
    }
    return TD_OK;
}

int td_collapse_measure(const struct td_groups *groups, const struct td_policy *policy,
                        struct td_collapses *c, struct td_error *err)
{
    size_t i;
    int rc;

    memset(c, 0, sizeof *c);
    for (i = 0; i < groups->n; i++)
        c->attempts += groups->group[i].n[TD_NEW];
    c->found = calloc(c->attempts + 1, sizeof *c->found);
    if (!c->found)
        return td_fail(err, TD_ENOMEM, "no memory for %zu answers", c->attempts);
    rc = for_each_prompt(groups, c, count_filled, err);
    if (rc)
        return rc;
    c->filled_p = td_stat_sign_p(c->filled_new, c->filled_old);
    c->filled_more = c->filled_p < policy->collapse_alpha;
    return for_each_prompt(groups, c, find_collapsed, err);
}

void td_collapses_release(struct td_collapses *c)
{
    free(c->found);
    memset(c, 0, sizeof *c);
}

/* Note how many prompts loop or hold hardly any text on one side only. */
static void note_filled(const struct td_collapses *c, struct td_lane *lane)
{
    if (c->filled_more)
        td_lane_note(lane, TD_REGRESSED,
                     "%zu of %zu prompts end in a loop or have hardly any text where the baseline's "
                     "do not, %zu the other way round (p=%.2g)",
                     c->filled_new, c->prompts, c->filled_old, c->filled_p);
    else if (c->filled_new)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "%zu of %zu prompts end in a loop or have hardly any text where the baseline's "
                     "do not, %zu the other way round: it may be chance (p=%.2g)",
                     c->filled_new, c->prompts, c->filled_old, c->filled_p);
}

void td_collapse_judge(const struct td_collapses *c, struct td_lane *lane)
{
    if (c->answers == 0 && c->n == 0) {
        td_lane_no_evidence(lane, "the candidate holds no answers");
        return;
    }
    if (c->n)
        td_lane_note(lane, TD_REGRESSED,
                     "%zu of %zu answers collapsed beyond what the baseline does (first: %s)", c->n,
                     c->answers, c->found[0].what.why);
    else
        td_lane_note(lane, TD_PASS, "no answer of %zu collapsed", c->answers);
    note_filled(c, lane);
    if (c->excused)
        td_lane_note(lane, TD_NOT_JUDGED, "%zu answers repeat themselves, as the baseline does: %s",
                     c->excused, c->excuse);
}

/* ---- the lane -------------------------------------------------------------------------------- */

static int measure_collapses(struct td_comparison *c, void *measured, struct td_error *err)
{
    return td_collapse_measure(&c->groups, &c->policy, measured, err);
}

static void release_collapses(void *measured)
{
    td_collapses_release(measured);
}

static void judge_collapses(const struct td_comparison *c, struct td_lane *lane)
{
    (void)c;
    td_collapse_judge(lane->measured, lane);
}

static void add_collapse_figures(const struct td_comparison *c, struct td_buf *line)
{
    const struct td_collapses *all = c->lane[TD_LANE_COLLAPSE].measured;

    if (c->lane[TD_LANE_COLLAPSE].asked && all->answers)
        td_buf_addf(line, " collapsed=%zu", all->n);
}

/* Any exchange is evidence, as it is for the lane "tokens". */
static bool has_answers(const void *measured)
{
    const struct td_collapses *all = measured;

    return all->attempts > 0;
}

const struct td_lane_type td_lane_collapse = {
    .judges = TD_REPLAYED_ANSWERS,
    .measured_size = sizeof(struct td_collapses),
    .measure = measure_collapses,
    .release = release_collapses,
    .has_evidence = has_answers,
    .headline = td_collapse_headline,
    .judge = judge_collapses,
    .add_answer_figures = add_collapse_figures,
    .write_json = td_collapse_write_json,
};
