/* judge_runs.c - judge all runs of an op on one build.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/judge_runs.h"

#include <math.h>
#include <string.h>

#include "replayer/judge_order.h"

static void take_worse_spot(struct td_judge_spot *of, const struct td_judge_spot *later)
{
    if (later->rms > of->rms)
        *of = *later;
}

/* Of NaN, Inf and zeros the counts of one run stay together: they add up. */
static bool has_more_unfit(const struct td_judge_result *a, const struct td_judge_result *b)
{
    const int64_t in_a = a->nan + a->inf, in_b = b->nan + b->inf;

    return in_a != in_b ? in_a > in_b : a->zero > b->zero;
}

static void take_worse(struct td_judge_result *res, const struct td_judge_result *later, int run)
{
    if (later->score > res->score) {
        res->score = later->score;
        res->worst_run = run;
    }
    res->max_abs = fmax(res->max_abs, later->max_abs);
    take_worse_spot(&res->worst_row, &later->worst_row);
    take_worse_spot(&res->worst_col, &later->worst_col);
    take_worse_spot(&res->worst_tile, &later->worst_tile);
    if (has_more_unfit(later, res)) {
        res->nan = later->nan;
        res->inf = later->inf;
        res->zero = later->zero;
    }
}

/* Did an earlier run give the same bits? */
static bool was_judged(const struct td_op_ref *ref, const struct td_tensor *out, const void *const *images, int run)
{
    const int64_t all = td_judge_equal(ref, out, images[run], images[run]);
    int r = 0;

    while (r < run && td_judge_equal(ref, out, images[r], images[run]) < all)
        r++;
    return r < run;
}

int td_judge_runs(const struct td_op_ref *made, const struct td_tensor *out, const void *const *images, int n_images,
                  const struct td_judge_limits *lim, struct td_judge_result *res, struct td_error *err)
{
    const struct td_op_ref first = td_judge_ref_of(made, out, images[0]);
    int rc = td_judge_output(&first, out, images, n_images, lim, res, err), run;

    for (run = 1; run < n_images && !rc && res->unstable; run++) {
        const struct td_op_ref view = td_judge_ref_of(made, out, images[run]);
        struct td_judge_result later;

        if (was_judged(made, out, images, run))
            continue;
        rc = td_judge_output(&view, out, &images[run], 1, lim, &later, err);
        if (!rc)
            take_worse(res, &later, run);
    }
    return rc;
}
