/* op_judge_item.c - judge the runs of one op, whose reference is known.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_judge_item.h"

#include <math.h>
#include <stdio.h>

#include "replayer/judge_halves.h"
#include "replayer/judge_order.h"
#include "replayer/judge_runs.h"
#include "replayer/poison.h"

/* A run that did not write all of its output has failed, whatever its score is. */
static void check_poison(struct td_op_item *it, const struct td_op_ref *ref)
{
    struct td_poison_found f;
    char text[160];

    td_poison_find(ref, &it->call.out, (const void *const *)it->candidate.images,
                   it->candidate.repeats, &f);
    if (f.not_cleared)
        snprintf(text, sizeof text, "added to %lld elements of its output instead of setting them", (long long)f.not_cleared);
    else if (f.unwritten)
        snprintf(text, sizeof text, "left %lld of %lld elements of its output unwritten", (long long)f.unwritten,
                 (long long)(ref->rows * ref->cols));
    else if (f.between)
        snprintf(text, sizeof text, "wrote %lld bytes between the rows of its output", (long long)f.between);
    else
        return;
    td_op_item_fail(it, TD_OP_FAILED, text);
}

static double worst_part(const struct td_judge_result *e)
{
    return fmax(e->worst_row.rms, fmax(e->worst_col.rms, e->worst_tile.rms));
}

/* The candidate's run with the largest error. */
static const void *worst_image(const struct td_op_item *it)
{
    return it->candidate.images[it->e_candidate.worst_run];
}

/* Where the candidate is over its limit, if it is. differ knows the errors of the whole group, and
 * may set a higher limit; then the op is not bad, and nobody reads its place. */
static int find_place(struct td_op_item *it, const struct td_op_ref *ref, struct td_error *err)
{
    const struct td_judge_result *base = it->judged_baseline   ? &it->e_baseline
                                         : it->judged_recorded ? &it->e_recorded
                                                               : NULL,
                                 *e = &it->e_candidate;
    double limit = it->limits.floor;

    if (base && isfinite(base->score))
        limit = fmax(limit, TD_JUDGE_OVER_FACTOR * base->score);
    if (e->score <= limit && worst_part(e) <= limit / 2)
        return TD_OK;
    return td_judge_place_find(ref, &it->call.out, worst_image(it), &it->limits, limit,
                               &it->place, err);
}

static int judge_candidate(struct td_op_item *it, const struct td_op_ref *made, struct td_error *err)
{
    const struct td_tensor *out = &it->call.out;
    struct td_op_ref view;
    int rc = td_judge_runs(made, out, (const void *const *)it->candidate.images, it->candidate.repeats, &it->limits,
                           &it->e_candidate, err);

    if (rc)
        return rc;
    it->judged_candidate = true;
    view = td_judge_ref_of(made, out, worst_image(it));
    it->format_cost = td_judge_format_cost(&view);
    rc = find_place(it, &view, err);
    if (rc)
        return rc;
    if (it->recorded)
        it->equal = td_judge_equal(&view, out, it->candidate.images[0], it->recorded);
    check_poison(it, &view);
    return TD_OK;
}

/* Is the candidate over its limit, or coarser as a whole than what it is compared with? */
static bool is_suspicious(const struct td_op_item *it)
{
    const struct td_judge_result *base = it->judged_baseline ? &it->e_baseline : it->judged_recorded ? &it->e_recorded : NULL;
    const struct td_slices *now = &it->e_candidate.slices, *old = base ? &base->slices : NULL;
    double before;

    if (it->place.limit > 0)
        return true;
    if (!now->rows || !old || !old->rows)
        return false;
    before = fmax((double)old->sum[TD_SUM_EE][0], it->halves ? (double)it->e_halves.slices.sum[TD_SUM_EE][0] : 0);
    return (double)now->sum[TD_SUM_EE][0] > TD_ALONG_K_COARSE * TD_ALONG_K_COARSE * before;
}

/* Of each group the first ops, in the order of their sample, so that the same ones are asked in each run. */
static int find_along_k(struct td_op_item *it, const struct td_op_ref *ref, struct td_error *err)
{
    int rc;

    if (it->turn < 0 || it->turn >= TD_ALONG_K_OPS || td_op_attr(&it->call, "k", 0) <= 0 || !is_suspicious(it))
        return TD_OK;
    rc = td_along_k_find(&it->call, ref, worst_image(it), &it->limits, &it->along_k, err);
    if (rc != TD_ENOMEM || !it->is_alone)
        return rc;
    td_error_clear(err); /* it names a part of K, and decides nothing */
    return TD_OK;
}

/* Slices are kept of products alone: what else has a reference has few rounding errors, or codes. */
static void keep_slices_of_products(struct td_op_item *it)
{
    if (td_op_attr(&it->call, "k", 0) <= 0)
        it->e_recorded.slices.rows = it->e_baseline.slices.rows = it->e_candidate.slices.rows = 0;
}

int td_op_judge_item(struct td_op_item *it, const struct td_op_ref *const ref[TD_SIDES], struct td_error *err)
{
    const struct td_tensor *out = &it->call.out;
    int rc = TD_OK;

    if (ref[TD_SIDE_RECORDED])
        it->format_cost = td_judge_format_cost(ref[TD_SIDE_RECORDED]);
    if (it->recorded && ref[TD_SIDE_RECORDED]) {
        const struct td_op_ref view = td_judge_ref_of(ref[TD_SIDE_RECORDED], out, it->recorded);

        rc = td_judge_output(&view, out, &it->recorded, 1, &it->limits, &it->e_recorded, err);
        it->judged_recorded = !rc;
    }
    if (!rc && it->baseline.repeats && ref[TD_SIDE_BASELINE]) {
        rc = td_judge_runs(ref[TD_SIDE_BASELINE], out, (const void *const *)it->baseline.images, it->baseline.repeats, &it->limits,
                           &it->e_baseline, err);
        it->judged_baseline = !rc;
    }
    if (!rc && it->candidate.repeats && ref[TD_SIDE_CANDIDATE])
        rc = judge_candidate(it, ref[TD_SIDE_CANDIDATE], err);
    if (!rc && it->judged_candidate)
        rc = td_judge_halves(it, ref[TD_SIDE_CANDIDATE], err);
    if (!rc && it->judged_candidate)
        rc = find_along_k(it, ref[TD_SIDE_CANDIDATE], err);
    keep_slices_of_products(it);
    return rc;
}
