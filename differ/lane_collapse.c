/* lane_collapse.c - apply the rules of wire/collapse.h to a candidate and excuse what its baseline does as well.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lane_collapse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_baseline(const struct td_prompt_group *g, struct td_collapse **out, size_t *n, struct td_error *err)
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

int td_collapse_measure(const struct td_groups *groups, struct td_collapses *c, struct td_error *err)
{
    size_t i, j, total = 0;

    memset(c, 0, sizeof *c);
    for (i = 0; i < groups->n; i++)
        total += groups->group[i].n[TD_NEW];
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
        td_lane_say(lane, TD_REGRESSED, "%zu of %zu answers collapsed beyond what the baseline does (first: %s)", c->n, c->answers,
                    c->found[0].what.why);
    else
        td_lane_say(lane, TD_PASS, "no answer of %zu collapsed", c->answers);
    if (c->excused)
        td_lane_say(lane, TD_NOT_JUDGED, "%zu answers repeat themselves, as the baseline does: %s", c->excused, c->excuse);
}
