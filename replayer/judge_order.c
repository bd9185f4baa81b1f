/* judge_order.c - was an output added in the order that is expected of its kernel?
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/judge_order.h"

#include <math.h>

#include "kernels/ops/dot_f32.h"
#include "replayer/judge.h"

/* Is c what r becomes when it is rounded to the output's dtype? Of F32, whose last bits also depend
 * on how the kernel multiplies by its scales, nearly so. */
static bool is_rounded(enum td_dtype dt, double c, double r)
{
    unsigned char bytes[8];

    if (dt == TD_DT_F32)
        return fabs(c - r) <= 0x1p-22 * fabs(r);
    td_store_f32(dt, bytes, 0, (float)r);
    return c == td_dtype_get(dt, bytes, 0);
}

/* How far apart the numbers of the output's dtype lie near r. */
static double spacing(enum td_dtype dt, double r)
{
    int e;

    frexp(r, &e);
    return dt == TD_DT_F32 ? 0x1p-21 * fabs(r) : dt == TD_DT_F16 ? ldexp(1, (e > -13 ? e : -13) - 11) : ldexp(1, e - 8);
}

/* The probability that an error of a normal distribution leaves a number in the same step of a
 * rounding. */
static double stays(double step, double deviation)
{
    const double z = step / deviation;

    if (!(deviation > 0) || z > 1e3)
        return 1;
    return z < 1e-3 ? 0 : erf(z / sqrt(2)) - sqrt(2 / 3.14159265358979) * (1 - exp(-z * z / 2)) / z;
}

/* Elements that are those of the expected order; that would be so of another order; all. */
struct shares { double same, chance, all; };

static struct shares count_shares(const struct td_op_ref *ref, const struct td_tensor *out, const char *image)
{
    const size_t w = td_dtype_size(out->dtype);
    struct shares s = {0, 0, 0};

    for (int64_t i = 0; i < ref->rows; i++)
        for (int64_t j = 0; td_op_ref_has_row(ref, i) && j < ref->cols; j++) {
            const size_t at = (size_t)td_judge_offset(out, i, j) * w;
            const int64_t e = i * ref->cols + j;

            if (!isfinite(ref->ordered[e]))
                continue;
            s.same += is_rounded(out->dtype, td_dtype_get(out->dtype, image + at, 0), ref->ordered[e]);
            s.chance += stays(spacing(out->dtype, ref->ordered[e]), ref->slack[e] / TD_JUDGE_ORDER_SPREAD);
            s.all++;
        }
    return s;
}

static bool is_in_order(const struct td_op_ref *ref, const struct td_tensor *out, const char *image)
{
    const struct shares s = count_shares(ref, out, image);
    const double p = s.chance / s.all;

    return s.all > 0 && s.same / s.all > p + TD_JUDGE_ORDER_CLEAR * sqrt(p * (1 - p) / s.all);
}

struct td_op_ref td_judge_ref_of(const struct td_op_ref *ref, const struct td_tensor *out, const void *image)
{
    struct td_op_ref view = *ref;

    if (ref->ordered && !td_judge_check_image(ref, out, NULL) && is_in_order(ref, out, image)) {
        view.r1 = ref->ordered;
        view.slack = NULL;
    }
    return view;
}
