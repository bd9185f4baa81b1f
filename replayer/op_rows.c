/* op_rows.c - count the replayed ops by kernel and shape, for replay's summary.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The row of a group; groups of one kernel and shape share one. */
static size_t row_of_group(struct td_op_rows *r, const struct td_op_group *g)
{
    struct td_op_replay_row *row;
    size_t i;

    for (i = 0; i < r->n; i++)
        if (!strcmp(r->row[i].kernel, g->kernel) && !strcmp(r->row[i].shape, g->shape))
            return i;
    row = &r->row[r->n++];
    snprintf(row->kernel, sizeof row->kernel, "%s", g->kernel);
    snprintf(row->shape, sizeof row->shape, "%s", g->shape);
    row->worst = row->worst_baseline = row->worst_recorded = -1;
    row->worst_op = -1;
    return i;
}

int td_op_rows_make(struct td_op_rows *r, const struct td_op_list *list, size_t n_ops, struct td_error *err)
{
    size_t g, n = list->n_groups;

    memset(r, 0, sizeof *r);
    r->row = calloc(n + 1, sizeof *r->row);
    r->row_of = calloc(n + 1, sizeof *r->row_of);
    r->worst_base = calloc(n + 1, sizeof *r->worst_base);
    r->judged = calloc(n_ops + 1, sizeof *r->judged);
    r->most = n_ops;
    if (!r->row || !r->row_of || !r->worst_base || !r->judged)
        return td_fail(err, TD_ENOMEM, "out of memory for a summary of %zu kernels and shapes", n);
    for (g = 0; g < n; g++) {
        r->row_of[g] = (int32_t)row_of_group(r, &list->groups[g]);
        r->worst_base[g] = -1;
    }
    return TD_OK;
}

static void note_judgement(struct td_op_rows *r, const struct td_op_item *it)
{
    const struct td_judge_result *base = it->judged_baseline ? &it->e_baseline : it->judged_recorded ? &it->e_recorded : NULL;

    if (base && isfinite(base->score))
        r->worst_base[it->group] = fmax(r->worst_base[it->group], base->score);
    if (!it->judged_candidate || r->n_judged == r->most)
        return;
    r->judged[r->n_judged].group = it->group;
    r->judged[r->n_judged].score = it->e_candidate.score;
    r->judged[r->n_judged++].floor = it->limits.floor;
}

void td_op_rows_count(struct td_op_rows *r, const struct td_op_item *it)
{
    struct td_op_replay_row *row = &r->row[r->row_of[it->group]];

    row->count[it->status]++;
    if (it->judged_candidate && it->e_candidate.score > row->worst) {
        row->worst = it->e_candidate.score;
        row->worst_op = it->rec.op;
    }
    if (it->judged_baseline)
        row->worst_baseline = fmax(row->worst_baseline, it->e_baseline.score);
    if (it->judged_recorded)
        row->worst_recorded = fmax(row->worst_recorded, it->e_recorded.score);
    if (it->status != TD_OP_OK && !row->reason[0])
        snprintf(row->reason, sizeof row->reason, "%.199s", it->reason);
    note_judgement(r, it);
}

void td_op_rows_finish(struct td_op_rows *r)
{
    size_t i;

    for (i = 0; i < r->n_judged; i++) {
        const int32_t g = r->judged[i].group;

        r->row[r->row_of[g]].over += !(r->judged[i].score <= fmax(r->judged[i].floor, TD_JUDGE_OVER_FACTOR * r->worst_base[g]));
    }
    r->n_judged = 0;
}

void td_op_rows_release(struct td_op_rows *r)
{
    free(r->row_of);
    free(r->worst_base);
    free(r->judged);
    memset(r, 0, sizeof *r);
}
