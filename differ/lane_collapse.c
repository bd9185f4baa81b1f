/* lane_collapse.c - the lane "collapse": which answers have collapsed ("!!!!", loops) that the
 * baseline gave soundly?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lane_collapse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/number_words.h"
#include "differ/comparison.h"
#include "differ/report_answer.h"
#include "differ/report_collapse.h"
#include "differ/stats.h"
#include "differ/tokens.h"

static void check(const struct td_xref *r, struct td_collapse *out)
{
    const struct td_collapse_options options = {.masked = r->masked};

    td_collapse_check(r->x, &options, out);
}

/* What the rules say about the baseline's answers to one prompt: the recording's, then those of the
 * live baseline that may excuse something. */
struct baseline {
    struct td_collapse *all; size_t n;
    size_t recorded;         /* the first so many are the recording's */
};

/* Apply the rules to the baseline's answers to one prompt. The caller frees out->all. A live answer
 * that collapsed beyond the recording is no excuse. */
static int check_baseline(const struct td_prompt_group *g, const struct td_collapses *c,
                          struct baseline *out, struct td_error *err)
{
    size_t i;

    *out = (struct baseline){.all = calloc(g->n[TD_BASE] + g->n[TD_LIVE] + 1, sizeof *out->all)};
    if (!out->all)
        return td_fail(err, TD_ENOMEM, "no memory for the collapse rules");
    for (i = 0; i < g->n[TD_BASE]; i++)
        check(&g->by_role[TD_BASE][i], &out->all[out->n++]);
    out->recorded = out->n;
    for (i = 0; i < g->n[TD_LIVE] && !c->live_filled_more; i++) {
        struct td_collapse *one = &out->all[out->n];

        if (g->by_role[TD_LIVE][i].x->error)
            continue;
        check(&g->by_role[TD_LIVE][i], one);
        out->n += !out->recorded ? !one->hard
                                 : !td_collapse_beyond(one, out->all, out->recorded, NULL, 0);
    }
    return TD_OK;
}

/* Did the server answer, or at least begin to? */
static bool has_answer(const struct td_exchange *x)
{
    return !x->error || x->n_tokens > 0;
}

/* Is one of the baseline's answers to this prompt filled? */
static bool is_filled(const struct td_collapse *baseline, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (baseline[i].filled)
            return true;
    return false;
}

/* Judge the baseline's answers to one prompt on themselves: the live ones beside the recording. */
static void count_baseline(const struct td_prompt_group *g, const struct baseline *b,
                           struct td_collapses *c)
{
    struct td_collapse one;
    size_t i, filled = 0, live = 0;

    for (i = 0; i < b->recorded; i++) {
        if (g->by_role[TD_BASE][i].x->error)
            continue;
        c->base_answers++;
        if (b->all[i].hard && c->base_hard++ == 0)
            snprintf(c->base_why, sizeof c->base_why, "%s", b->all[i].why);
    }
    for (i = 0; i < g->n[TD_LIVE]; i++) {
        if (g->by_role[TD_LIVE][i].x->error)
            continue;
        live++;
        check(&g->by_role[TD_LIVE][i], &one);
        filled += one.filled;
        if (td_collapse_beyond(&one, b->all, b->recorded, NULL, 0) && c->live_hard++ == 0)
            snprintf(c->live_why, sizeof c->live_why, "%s", one.why);
    }
    c->live_answers += live;
    if (!live || !b->recorded)
        return;
    c->live_filled += filled * 2 > live && !is_filled(b->all, b->recorded);
    c->live_sound += filled * 2 <= live && is_filled(b->all, b->recorded);
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
        check(&g->by_role[TD_NEW][j], &found);
        filled += found.filled;
        ++*answers;
    }
    return filled * 2 > *answers;
}

/* Count a prompt by which side fills it. */
static void count_filled(const struct td_prompt_group *g, const struct baseline *b,
                         struct td_collapses *c)
{
    size_t answers;
    bool new = candidate_is_filled(g, &answers), old = is_filled(b->all, b->n);

    if (answers == 0 || b->n == 0)
        return;
    c->prompts++;
    c->filled_new += new && !old;
    c->filled_old += old && !new;
    c->filled_both += new && old;
}

/* Does one of the recording's answers to this prompt say that it came to no end? */
static bool base_breaks_off(const struct td_prompt_group *g)
{
    struct td_collapse end;
    size_t i;

    for (i = 0; i < g->n[TD_BASE]; i++)
        if (!g->by_role[TD_BASE][i].x->error &&
            td_collapse_check_end(g->by_role[TD_BASE][i].x, &end))
            return true;
    return false;
}

/* Does an answer of the candidate say that it came to no end, and none of the recording's? */
static bool breaks_off(const struct td_prompt_group *g, const struct td_exchange *x,
                       struct td_collapses *c, struct td_collapse *out)
{
    struct td_collapse end;

    if (x->error || !td_collapse_check_end(x, &end))
        return false;
    if (!base_breaks_off(g)) {
        *out = end;
        return true;
    }
    if (c->broken_off++ == 0)
        snprintf(c->broken_off_why, sizeof c->broken_off_why, "%s", end.why);
    return false;
}

/* Has an answer collapsed beyond what the baseline's answers to that prompt do? */
static bool is_beyond(const struct td_collapse *what, const struct baseline *b, bool filled_too,
                      struct td_collapses *c)
{
    char why_not[200] = "";

    if (!what->hard)
        return filled_too && what->filled;
    if (td_collapse_beyond(what, b->all, b->n, why_not, sizeof why_not))
        return true;
    if (c->excused++ == 0)
        snprintf(c->excuse, sizeof c->excuse, "%s", why_not);
    return false;
}

/* Note the candidate's answers to one prompt that have collapsed beyond what the baseline does; of
 * filled ones all, where the baseline fills none. */
static void find_collapsed(const struct td_prompt_group *g, const struct baseline *b,
                           struct td_collapses *c)
{
    const bool filled_too = c->filled_more && b->n > 0 && !is_filled(b->all, b->n);
    size_t j;

    for (j = 0; j < g->n[TD_NEW]; j++) {
        const struct td_exchange *x = g->by_role[TD_NEW][j].x;
        struct td_collapsed *f = &c->found[c->n];

        c->answers += has_answer(x);
        check(&g->by_role[TD_NEW][j], &f->what);
        if (!is_beyond(&f->what, b, filled_too, c) && !breaks_off(g, x, c, &f->what))
            continue;
        c->no_baseline += b->n == 0;
        f->group = g;
        f->bad = x;
        f->good = td_groups_counterpart(g, x);
        c->n++;
    }
}

typedef void visit_fn(const struct td_prompt_group *g, const struct baseline *b,
                      struct td_collapses *c);

/* Do something for each prompt, with what the rules say about the baseline's answers to it. */
static int for_each_prompt(const struct td_groups *groups, struct td_collapses *c, visit_fn *visit,
                           struct td_error *err)
{
    size_t i;

    for (i = 0; i < groups->n; i++) {
        struct baseline b;
        int rc = check_baseline(&groups->group[i], c, &b, err);

        if (rc)
            return rc;
        visit(&groups->group[i], &b, c);
        free(b.all);
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
    rc = for_each_prompt(groups, c, count_baseline, err);
    c->live_filled_more = td_stat_sign_p(c->live_filled, c->live_sound) < policy->collapse_alpha;
    if (!rc)
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

/* Note a baseline that has collapsed itself: beside it a candidate cannot look bad. */
static void judge_baseline(const struct td_collapses *c, struct td_lane *lane)
{
    enum { ENOUGH = 4 }; /* answers */

    if (c->base_answers >= ENOUGH && c->base_hard * 2 > c->base_answers)
        td_lane_note(lane, TD_INCONCLUSIVE,
                     "the recording itself has collapsed, in %zu of %zu answers (first: %s): record a "
                     "sound build",
                     c->base_hard, c->base_answers, c->base_why);
    if (c->broken_off)
        td_lane_note(lane, TD_INCONCLUSIVE,
                     "%zu answer%s break%s off where the recording's do as well (first: %s): record a "
                     "sound build",
                     c->broken_off, td_plural((int64_t)c->broken_off),
                     td_verb((int64_t)c->broken_off), c->broken_off_why);
    if (c->live_hard)
        td_lane_note(lane, TD_INCONCLUSIVE,
                     "the live baseline itself has collapsed where the recording did not, in %zu of "
                     "%zu answers (first: %s): it excuses nothing; start it with a sound build",
                     c->live_hard, c->live_answers, c->live_why);
    if (c->live_filled_more)
        td_lane_note(lane, TD_INCONCLUSIVE,
                     "the live baseline itself ends in a loop or has hardly any text at %zu prompts "
                     "where the recording does not, %zu the other way round: it excuses nothing; "
                     "start it with a sound build",
                     c->live_filled, c->live_sound);
}

void td_collapse_judge(const struct td_collapses *c, struct td_lane *lane)
{
    if (c->answers == 0 && c->n == 0) {
        td_lane_no_evidence(lane, "the candidate holds no answers");
        return;
    }
    if (c->n)
        td_lane_note(lane, TD_REGRESSED,
                     "%zu of %zu answer%s collapsed beyond what the baseline does (first: %s)", c->n,
                     c->answers, td_plural((int64_t)c->answers), c->found[0].what.why);
    else
        td_lane_note(lane, TD_PASS, "no answer of %zu collapsed", c->answers);
    note_filled(c, lane);
    judge_baseline(c, lane);
    if (c->excused)
        td_lane_note(lane, TD_NOT_JUDGED, "%zu answer%s repeat%s, as the baseline does: %s",
                     c->excused, td_plural((int64_t)c->excused), td_verb((int64_t)c->excused), c->excuse);
}

/* ---- the lane -------------------------------------------------------------------------------- */

static int measure_collapses(struct td_comparison *c, void *measured, struct td_error *err)
{
    return td_collapse_measure(&c->compared, &c->policy, measured, err);
}

static void release_collapses(void *measured)
{
    td_collapses_release(measured);
}

/* Note the requests that have no answer to look at, where no other lane does. */
static void judge_unanswered(const struct td_tokens *t, struct td_lane *lane)
{
    if (t->n_lost)
        td_lane_note(lane, TD_REGRESSED,
                     "%zu of %zu request%s failed where the baseline answered (first: %.60s: %.160s)",
                     t->n_lost, t->attempts, td_plural((int64_t)t->attempts), t->lost[0]->prompt_id, t->lost[0]->error);
    if (t->missing)
        td_lane_note(lane, TD_INCONCLUSIVE, "%zu prompt%s of the baseline %s not replayed",
                     t->missing, td_plural((int64_t)t->missing), td_was((int64_t)t->missing));
}

static void judge_collapses(const struct td_comparison *c, struct td_lane *lane)
{
    const struct td_tokens *t = c->lane[TD_LANE_TOKENS].measured;

    td_collapse_judge(lane->measured, lane);
    if (!c->lane[TD_LANE_TOKENS].asked && t->attempts)
        judge_unanswered(t, lane);
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
