/* blame_place.c - the prompt whose row the first bad op computed, from the recording's steps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/blame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_stream(const void *a, const void *b)
{
    const struct td_exchange *x = *(const struct td_exchange *const *)a, *y = *(const struct td_exchange *const *)b;

    return (x->stream > y->stream) - (x->stream < y->stream);
}

/* The exchanges in the order of their streams, freed by the caller: a step may have as many spans as a
 * recording has exchanges. NULL: out of memory. */
static const struct td_exchange **sort_by_stream(const struct td_exchange *xs, size_t n)
{
    const struct td_exchange **sorted = calloc(n + 1, sizeof *sorted);
    size_t i;

    for (i = 0; sorted && i < n; i++)
        sorted[i] = &xs[i];
    if (sorted && n)
        qsort(sorted, n, sizeof *sorted, by_stream);
    return sorted;
}

static const struct td_exchange *exchange_of(int64_t stream, const struct td_exchange *const *sorted, size_t n)
{
    size_t low = 0, high = n;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if ((int64_t)sorted[mid]->stream < stream)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && (int64_t)sorted[low]->stream == stream ? sorted[low] : NULL;
}

static void set_row(struct td_blame *b, const struct td_span *s, const struct td_exchange *x,
                    int64_t row)
{
    snprintf(b->prompt_id, sizeof b->prompt_id, "%s", x->prompt_id ? x->prompt_id : "");
    b->repeat = x->repeat;
    b->position = row < 0 || s->position < 0 || row - s->first_row > INT32_MAX - s->position
                      ? -1
                      : s->position + (int32_t)(row - s->first_row);
    b->decode = s->decode;
}

static void add_sharing(struct td_blame *b, const struct td_exchange *x)
{
    int i = 0;

    b->n_sharing++;
    while (i < b->n_among && strcmp(b->among[i], x->prompt_id ? x->prompt_id : "") != 0)
        i++;
    if (i == b->n_among && b->n_among < TD_BLAME_AMONG && x->prompt_id)
        b->among[b->n_among++] = x->prompt_id;
}

/* Does the op compute every row of its step? One of the last layer may compute only the rows
 * that give a token; then its row numbers are not the step's. */
static bool has_all_rows(const struct td_judged_op *op, const struct td_step *step)
{
    for (int32_t k = 0; k < step->n_spans; k++)
        if ((int64_t)step->spans[k].first_row + step->spans[k].n_rows > op->m)
            return false;
    return true;
}

/* Is the row one of the step's padding? Only an op that computes all of the step's rows tells. */
static bool is_padding(const struct td_judged_op *op, const struct td_step *step, int64_t row)
{
    int64_t rows = step->padding;
    int32_t k;

    for (k = 0; k < step->n_spans; k++)
        rows += step->spans[k].n_rows;
    return step->padding && rows == op->m && row < rows && row >= rows - step->padding;
}

void td_blame_place(struct td_blame *b, const struct td_step *steps, size_t n_steps,
                    const struct td_exchange *xs, size_t n_xs)
{
    const int64_t row =
        b->first && b->first->candidate.row_at >= 0 ? b->first->candidate.row_at : 0;
    const struct td_step *step = NULL;
    const struct td_exchange **sorted;
    bool all;
    size_t i;
    int32_t k;

    for (i = 0; i < n_steps && b->first && b->first->step >= 0 && !step; i++)
        if (steps[i].step == b->first->step && steps[i].pid == b->first->pid &&
            steps[i].how != TD_HOW_UNKNOWN)
            step = &steps[i];
    if (!step)
        return;
    b->inferred = step->how == TD_HOW_INFERRED;
    all = has_all_rows(b->first, step);
    b->padding = is_padding(b->first, step, row);
    sorted = b->padding ? NULL : sort_by_stream(xs, n_xs);
    if (!sorted)
        return;
    for (k = 0; k < step->n_spans; k++) {
        const struct td_span *s = &step->spans[k];
        const struct td_exchange *x = exchange_of(s->stream, sorted, n_xs);
        const bool alone = step->n_spans == 1 && s->first_row >= 0;

        if (x && (all ? s->first_row >= 0 && row >= s->first_row && row - s->first_row < s->n_rows
                      : alone))
            set_row(b, s, x, all ? row : -1);
        else if (x && (!all || s->first_row < 0))
            add_sharing(b, x);
    }
    free(sorted);
}
