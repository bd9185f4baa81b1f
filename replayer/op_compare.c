/* op_compare.c - compare the outputs of an op that has no reference.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An output that differs is not called wrong: another build may round otherwise. It is wrong if
 * elements were not written, or if it holds NaN or Inf where the older output holds a number. */
#include "replayer/op_compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "replayer/poison.h"

static double element_value(const struct td_tensor *t, const void *image, int64_t i, int64_t j)
{
    return td_dtype_get(t->dtype, (const char *)image + (size_t)td_judge_offset(t, i, j) * td_dtype_size(t->dtype), 0);
}

/* |now - was| of one element. Infinity where only one is finite, or both are infinite and
 * differ. */
static double element_distance(double now, double was)
{
    if (isfinite(now) && isfinite(was))
        return fabs(now - was);
    return now == was || (isnan(now) && isnan(was)) ? 0 : INFINITY;
}

/* Relative L2 distance of two images. Elements of a block format have no value here: for them the
 * share of blocks that differ. */
static double relative_distance(const struct td_tensor *t, const void *now, const void *was,
                                int64_t equal, int64_t total)
{
    int64_t rows = td_judge_rows(t), cols = td_judge_cols(t), i, j;
    double d2 = 0, r2 = 0;

    if (equal == total)
        return 0;
    if (td_dtype_block(t->dtype) > 1)
        return (double)(total - equal) / (double)total;
    for (i = 0; i < rows; i++)
        for (j = 0; j < cols; j++) {
            double a = element_value(t, now, i, j), b = element_value(t, was, i, j),
                   d = element_distance(a, b);

            d2 += d * d;
            r2 += isfinite(b) ? b * b : 0;
        }
    if (d2 == 0)
        return 0; /* only signs of zeros or bits of NaN differ */
    return r2 == 0 ? INFINITY : sqrt(d2 / r2);
}

static int64_t count_unstable_elements(const struct td_tensor *t, const struct td_run_result *run)
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

/* Fail the op whose candidate left elements unwritten, or gave NaN or Inf where the older output
 * `was` has a number. NaN that the baseline build gives too is no failure of the candidate. */
static int check_output_written(struct td_op_item *it, const void *was, const void *base,
                                struct td_error *err)
{
    const struct td_tensor *t = &it->call.out;
    struct td_op_ref ref = {.rows = td_judge_rows(t), .cols = td_judge_cols(t)};
    struct td_poison_found f;
    char text[160] = "";
    int64_t i, j, lost = 0;

    if (td_dtype_block(t->dtype) > 1)
        return TD_OK;
    if (td_memory_room((uint64_t)(ref.rows * ref.cols + 1) * sizeof *ref.r1, "the comparison of its output", err))
        return TD_ENOMEM;
    ref.r1 = malloc((size_t)(ref.rows * ref.cols + 1) * sizeof *ref.r1);
    if (!ref.r1)
        return td_fail(err, TD_ENOMEM, "out of memory for %lld elements", (long long)(ref.rows * ref.cols));
    for (i = 0; i < ref.rows; i++)
        for (j = 0; j < ref.cols; j++) {
            double now = element_value(t, it->candidate.images[0], i, j);

            ref.r1[i * ref.cols + j] = was ? element_value(t, was, i, j) : 0;
            lost += was && !isfinite(now) && isfinite(ref.r1[i * ref.cols + j]) &&
                    !(base && !isfinite(element_value(t, base, i, j)));
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
        it->equal = td_judge_equal(NULL, t, now, it->recorded);
        c->departs = relative_distance(t, now, it->recorded, it->equal, c->total);
    }
    if (base) {
        c->baseline_equal = td_judge_equal(NULL, t, now, base);
        c->baseline_departs = relative_distance(t, now, base, c->baseline_equal, c->total);
    }
    c->unstable = count_unstable_elements(t, &it->candidate);
    return check_output_written(it, it->recorded ? it->recorded : base, base, err);
}
