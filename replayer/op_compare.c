/* op_compare.c - ops without a reference: the new output beside the recorded one and the baseline build's.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing here says that an output is wrong because it departs: another build may round otherwise. Wrong is only what no build
 * may do: NaN or Inf where the recorded output is a number, or elements that were not written at all. */
#include "replayer/op_compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replayer/poison.h"

static double element(const struct td_tensor *t, const void *image, int64_t i, int64_t j)
{
    return td_dtype_get(t->dtype, (const char *)image + (size_t)td_judge_offset(t, i, j) * td_dtype_size(t->dtype), 0);
}

/* |now - was| of one element; Infinity where one of them is no number and the other is, or is another. */
static double apart(double now, double was)
{
    if (isfinite(now) && isfinite(was))
        return fabs(now - was);
    return now == was || (isnan(now) && isnan(was)) ? 0 : INFINITY;
}

/* Relative L2. Elements of a block format have no value here: then it is the share of blocks that differ. */
static double departs(const struct td_tensor *t, const void *now, const void *was, int64_t equal, int64_t total)
{
    int64_t rows = td_judge_rows(t), cols = td_judge_cols(t), i, j;
    double d2 = 0, r2 = 0;

    if (equal == total)
        return 0;
    if (td_dtype_block(t->dtype) > 1)
        return (double)(total - equal) / (double)total;
    for (i = 0; i < rows; i++)
        for (j = 0; j < cols; j++) {
            double a = element(t, now, i, j), b = element(t, was, i, j), d = apart(a, b);

            d2 += d * d;
            r2 += isfinite(b) ? b * b : 0;
        }
    return d2 == 0 ? 0 : r2 == 0 ? INFINITY : sqrt(d2 / r2); /* 0: a zero of the other sign, a NaN of other bits */
}

static int64_t count_unstable(const struct td_tensor *t, const struct td_run_result *run)
{
    int64_t rows = td_judge_rows(t), cols = td_judge_cols(t), i, j, n = 0;
    size_t w = td_dtype_size(t->dtype);
    int r;

    for (i = 0; i < rows; i++)
        for (j = 0; j < cols; j++) {
            size_t at = (size_t)td_judge_offset(t, i, j) * w;

            for (r = 1; r < run->repeats && !memcmp((char *)run->images[0] + at, (char *)run->images[r] + at, w); r++)
                ;
            n += r < run->repeats;
        }
    return n;
}

/* What the poison patterns tell, with an older output as the reference of what is a number. NaN that the baseline build gives too
 * is no failure of the candidate. */
static int look_for_unwritten(struct td_op_item *it, const void *was, const void *base, struct td_error *err)
{
    const struct td_tensor *t = &it->call.out;
    struct td_op_ref ref = {.rows = td_judge_rows(t), .cols = td_judge_cols(t)};
    struct td_poison_found f;
    char text[160] = "";
    int64_t i, j, lost = 0;

    if (td_dtype_block(t->dtype) > 1)
        return TD_OK;
    ref.r1 = malloc((size_t)(ref.rows * ref.cols + 1) * sizeof *ref.r1);
    if (!ref.r1)
        return td_fail(err, TD_ENOMEM, "out of memory for %lld elements", (long long)(ref.rows * ref.cols));
    for (i = 0; i < ref.rows; i++)
        for (j = 0; j < ref.cols; j++) {
            double now = element(t, it->candidate.images[0], i, j);

            ref.r1[i * ref.cols + j] = was ? element(t, was, i, j) : 0;
            lost += was && !isfinite(now) && isfinite(ref.r1[i * ref.cols + j]) && !(base && !isfinite(element(t, base, i, j)));
        }
    td_poison_find(&ref, t, (const void *const *)it->candidate.images, it->candidate.repeats, &f);
    if (f.unwritten)
        snprintf(text, sizeof text, "left %lld of %lld elements of its output unwritten", (long long)f.unwritten,
                 (long long)(ref.rows * ref.cols));
    else if (lost)
        snprintf(text, sizeof text, "NaN or Inf in %lld of %lld elements where the %s output is a number", (long long)lost,
                 (long long)(ref.rows * ref.cols), it->recorded ? "recorded" : "baseline's");
    if (text[0])
        td_op_item_fail(it, TD_OP_FAILED, text);
    free(ref.r1);
    return TD_OK;
}

int td_op_compare(struct td_op_item *it, struct td_error *err)
{
    const struct td_tensor *t = &it->call.out;
    const void *now = it->candidate.images[0], *base = it->baseline.repeats ? it->baseline.images[0] : NULL;
    struct td_op_compared *c = &it->compared;

    *c = (struct td_op_compared){.done = true, .total = td_judge_rows(t) * td_judge_cols(t), .baseline_equal = -1, .departs = NAN,
                                 .baseline_departs = NAN};
    if (it->recorded) {
        it->equal = td_judge_equal(t, now, it->recorded);
        c->departs = departs(t, now, it->recorded, it->equal, c->total);
    }
    if (base) {
        c->baseline_equal = td_judge_equal(t, now, base);
        c->baseline_departs = departs(t, now, base, c->baseline_equal, c->total);
    }
    c->unstable = count_unstable(t, &it->candidate);
    return look_for_unwritten(it, it->recorded ? it->recorded : base, base, err);
}
