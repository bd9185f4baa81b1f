/* store_rounded.c - from double to a tensor's type, in one rounding.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/store_rounded.h"

#include <math.h>

#include "common/f16.h"

/* Round to float, to odd: the 24 bits then keep what a second rounding, to 11 or 8 bits, must know. */
static float round_to_odd(double d)
{
    float f = (float)d;
    uint32_t u = td_f32_bits(f);

    if (isfinite(f) && (double)f != d) {
        if (fabs((double)f) > fabs(d))
            u--;
        f = td_f32_from_bits(u | 1);
    }
    return f;
}

/* A float of 8 bits, with a fraction of `bits`. Subnormals have the steps of the smallest exponent, `least`;
 * rint() may carry into the next one, whose code follows. */
static uint8_t code_of_8_bits(double d, int bits, int least, double most)
{
    const uint8_t sign = signbit(d) ? 0x80 : 0;
    const double mag = fmin(fabs(d), most);
    const int e = mag >= ldexp(1, least) ? ilogb(mag) : least;

    return isnan(d) ? 0x7f : sign | (uint8_t)(((e - least) << bits) + (int)rint(ldexp(mag, bits - e)));
}

static double clamp_integer(double d, double low, double high)
{
    return isnan(d) ? 0 : fmin(fmax(rint(d), low), high);
}

bool td_can_store_rounded(enum td_dtype dt)
{
    return dt == TD_DT_F32 || dt == TD_DT_F16 || dt == TD_DT_BF16 || dt == TD_DT_F8_E4M3 || dt == TD_DT_F8_E5M2 || dt == TD_DT_I8 || dt == TD_DT_I32;
}

void td_store_rounded(enum td_dtype dt, void *base, int64_t i, double d)
{
    switch (dt) {
    case TD_DT_F32: ((float *)base)[i] = (float)d; break;
    case TD_DT_F16: ((uint16_t *)base)[i] = td_f16_round(round_to_odd(d)); break;
    case TD_DT_BF16: ((uint16_t *)base)[i] = td_f32_to_bf16(round_to_odd(d)); break;
    case TD_DT_F8_E4M3: ((uint8_t *)base)[i] = code_of_8_bits(d, 3, -6, 448); break;
    case TD_DT_F8_E5M2: ((uint8_t *)base)[i] = code_of_8_bits(d, 2, -14, 57344); break;
    case TD_DT_I8: ((int8_t *)base)[i] = (int8_t)clamp_integer(d, -128, 127); break;
    case TD_DT_I32: ((int32_t *)base)[i] = (int32_t)clamp_integer(d, INT32_MIN, INT32_MAX); break;
    default: break;
    }
}

double td_rounded_to(enum td_dtype dt, double d)
{
    union { double align; char bytes[8]; } one = {0};

    td_store_rounded(dt, &one, 0, d);
    return td_dtype_get(dt, &one, 0);
}
