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

int td_collapse_measure(const struct td_groups *groups, struct td_collapses *c,
                        struct td_error *err)
{
    size_t i, j, total = 0;

    memset(c, 0, sizeof *c);
    for (i = 0; i < groups->n; i++)
        total += groups->group[i].n[TD_NEW];
    c->attempts = total;
    c->found = calloc(total + 1, sizeof *c->found);
    if (!c->found)
        return td_fail(err, TD_ENOMEM, "no memory for %zu answers", total);
    for (i = 0; i < groups->n; i++) {
        const struct td_prompt_group *g = &groups->group[i];
        struct td_collapse *baseline;
        size_t n;
        int rc = check_baseline(g, &baseline, &n, err);

        if (rc)
            return rc;
        for (j = 0; j < g->n[TD_NEW]; j++) {
            const struct td_exchange *x = g->by_role[TD_NEW][j].x;
            struct td_collapsed *f = &c->found[c->n];
            char why_not[200] = "";

            c->answers += !x->error || x->n_tokens > 0;
            td_collapse_check(x, NULL, &f->what);
            if (!f->what.hard)
                continue;
            if (!td_collapse_beyond(&f->what, baseline, n, why_not, sizeof why_not)) {
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
        free(baseline);
    }
    return TD_OK;
}

void td_collapses_release(struct td_collapses *c)
{
    free(c->found);
    memset(c, 0, sizeof *c);
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
    if (c->excused)
        td_lane_note(lane, TD_NOT_JUDGED, "%zu answers repeat themselves, as the baseline does: %s",
                     c->excused, c->excuse);
}

/* ---- the lane -------------------------------------------------------------------------------- */

static int measure_collapses(struct td_comparison *c, void *measured, struct td_error *err)
{
    return td_collapse_measure(&c->groups, measured, err);
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

static void print_collapses(const struct td_comparison *c, const struct td_page *p)
{
    const struct td_collapses *all = c->lane[TD_LANE_COLLAPSE].measured;
    const struct td_prompt_group *last = NULL;
    size_t i, shown = 0;

    if (all->n == 0 || !c->lane[TD_LANE_COLLAPSE].asked)
        return;
    td_page_title(p, "collapsed answers");
    for (i = 0; i < all->n; i++) { /* one per prompt unless verbose */
        const struct td_collapsed *f = &all->found[i];
        size_t at = f->good ? td_answers_common_prefix(f->good, f->bad) : 0;

        if (!p->verbose && (f->group == last || shown == TD_PAGE_SHOWN))
            continue;
        last = f->group;
        shown++;
        fprintf(p->out, "  %s, repeat %d: %s: %s\n", f->group->prompt_id, f->bad->repeat,
                td_collapse_name(f->what.kind), f->what.why);
        if (f->good)
            td_answer_print(p, "good", f->good, at);
        td_answer_print(p, "new", f->bad, at);
    }
    if (shown < all->n)
        fprintf(p->out, "  (%zu of %zu shown; --verbose shows all)\n", shown, all->n);
}

static void add_collapse_figures(const struct td_comparison *c, struct td_buf *line)
{
    const struct td_collapses *all = c->lane[TD_LANE_COLLAPSE].measured;

    if (c->lane[TD_LANE_COLLAPSE].asked && all->answers)
        td_buf_addf(line, " collapsed=%zu", all->n);
}

static void write_collapses(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_collapses *all = c->lane[TD_LANE_COLLAPSE].measured;
    size_t i;

    td_jw_obj(w, "collapse");
    td_jw_i64(w, "answers", (int64_t)all->answers);
    td_jw_i64(w, "excused", (int64_t)all->excused);
    td_jw_arr(w, "collapsed");
    for (i = 0; i < all->n; i++) {
        const struct td_collapsed *f = &all->found[i];
        const size_t at = f->good ? td_answers_common_prefix(f->good, f->bad) : 0;

        td_jw_obj(w, NULL);
        td_answer_write_name(w, f->group->prompt_id, f->group->category, f->bad);
        td_jw_cstr(w, "kind", td_collapse_name(f->what.kind));
        td_jw_i64(w, "position", f->what.position);
        td_jw_i64(w, "length", f->what.length);
        td_jw_i64(w, "period", f->what.period);
        td_jw_num(w, "strength", f->what.strength);
        td_jw_cstr(w, "why", f->what.why);
        if (f->good)
            td_answer_write_text(w, "good", f->good, at);
        td_answer_write_text(w, "new", f->bad, at);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_end(w);
}

/* Any exchange is evidence, as it is for the lane "tokens". */
static bool has_answers(const void *measured)
{
    const struct td_collapses *all = measured;

    return all->attempts > 0;
}

const struct td_lane_type td_lane_collapse = {
    .reads = TD_READS_EXCHANGES,
    .judges = TD_REPLAYED_ANSWERS,
    .measured_size = sizeof(struct td_collapses),
    .measure = measure_collapses,
    .release = release_collapses,
    .has_evidence = has_answers,
    .judge = judge_collapses,
    .print_failures = print_collapses,
    .add_answer_figures = add_collapse_figures,
    .write_json = write_collapses,
};
