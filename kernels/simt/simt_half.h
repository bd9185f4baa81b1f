/* simt_half.h - __half and __half2 as cuda_fp16.h has them, in software.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each operation rounds once, to nearest even, and keeps denormals. The source is the PTX ISA (add,
 * mul, fma, min, max, cvt of f16). A NaN result is always 0x7fff. min and max return the operand
 * that is not a NaN.
 *
 * Sums and products are computed in float, then rounded to half. A float holds a product of two
 * halves exactly; it rounds a sum, but the second rounding does no harm (24 >= 2 * 11 + 2 bits). A
 * fused multiply-add is computed in double, which holds every bit that decides its rounding. */
#ifndef TD_KERNELS_SIMT_SIMT_HALF_H
#define TD_KERNELS_SIMT_SIMT_HALF_H

#include <stdint.h>
#include <string.h>

#include "kernels/simt/simt_types.h"
#include "common/f16.h"

struct __half { uint16_t bits; };
struct alignas(4) __half2 { __half x, y; };
typedef __half half;
typedef __half2 half2;

/* ---- conversions ----------------------------------------------------------------------------- */

static inline __half __ushort_as_half(uint16_t bits) { return __half{bits}; }
static inline uint16_t __half_as_ushort(__half h) { return h.bits; }
static inline float __half2float(__half h) { return td_f16_load(h.bits); }

static inline __half __float2half_rn(float f) { return __half{f != f ? (uint16_t)0x7fff : td_f16_round(f)}; }
static inline __half __float2half(float f) { return __float2half_rn(f); }

/* Round through a float that is rounded to odd, so that the second rounding sees whether any bits were
 * lost in the first. */
static inline __half __double2half(double d)
{
    float f = (float)d;
    uint32_t u = td_f32_bits(f);

    if ((double)f != d && f - f == 0) {
        if ((f < 0 ? -(double)f : (double)f) > (d < 0 ? -d : d))
            u--;
        u |= 1;
    }
    return __float2half_rn(td_f32_from_bits(u));
}

static inline __half __int2half_rn(int i) { return __double2half((double)i); }
static inline __half __uint2half_rn(unsigned i) { return __double2half((double)i); }

/* ---- one half -------------------------------------------------------------------------------- */

static inline __half __hadd(__half a, __half b) { return __float2half_rn(__half2float(a) + __half2float(b)); }
static inline __half __hsub(__half a, __half b) { return __float2half_rn(__half2float(a) - __half2float(b)); }
static inline __half __hmul(__half a, __half b) { return __float2half_rn(__half2float(a) * __half2float(b)); }
/* nvcc may fuse __hmul into __hadd, but never these */
static inline __half __hadd_rn(__half a, __half b) { return __hadd(a, b); }
static inline __half __hsub_rn(__half a, __half b) { return __hsub(a, b); }
static inline __half __hmul_rn(__half a, __half b) { return __hmul(a, b); }

static inline __half __hfma(__half a, __half b, __half c)
{
    return __double2half((double)__half2float(a) * (double)__half2float(b) + (double)__half2float(c));
}

static inline bool __hisnan(__half a) { return (a.bits & 0x7fff) > 0x7c00; }
static inline bool __heq(__half a, __half b) { return __half2float(a) == __half2float(b); }
static inline bool __hlt(__half a, __half b) { return __half2float(a) < __half2float(b); }
static inline bool __hgt(__half a, __half b) { return __half2float(a) > __half2float(b); }

static inline __half __hmax(__half a, __half b)
{
    if (__hisnan(a) || __hisnan(b))
        return __hisnan(a) ? __hisnan(b) ? __half{0x7fff} : b : a;
    return __hgt(a, b) || (__heq(a, b) && b.bits == 0x8000) ? a : b; /* -0 is below +0 */
}

static inline __half __hmin(__half a, __half b)
{
    if (__hisnan(a) || __hisnan(b))
        return __hisnan(a) ? __hisnan(b) ? __half{0x7fff} : b : a;
    return __hlt(a, b) || (__heq(a, b) && a.bits == 0x8000) ? a : b;
}

/* ---- pairs: .x is the low half --------------------------------------------------------------- */

static inline __half2 __halves2half2(__half x, __half y) { return __half2{x, y}; }
static inline __half2 make_half2(__half x, __half y) { return __half2{x, y}; }
static inline __half2 __half2half2(__half h) { return __half2{h, h}; }
static inline __half __low2half(__half2 h) { return h.x; }
static inline __half __high2half(__half2 h) { return h.y; }
static inline float __low2float(__half2 h) { return __half2float(h.x); }
static inline float __high2float(__half2 h) { return __half2float(h.y); }
static inline __half2 __floats2half2_rn(float x, float y) { return __half2{__float2half_rn(x), __float2half_rn(y)}; }
static inline __half2 __float2half2_rn(float f) { return __floats2half2_rn(f, f); }
static inline __half2 __float22half2_rn(float2 f) { return __floats2half2_rn(f.x, f.y); }
static inline float2 __half22float2(__half2 h) { return float2{__half2float(h.x), __half2float(h.y)}; }

static inline __half2 __hadd2(__half2 a, __half2 b) { return __half2{__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
static inline __half2 __hsub2(__half2 a, __half2 b) { return __half2{__hsub(a.x, b.x), __hsub(a.y, b.y)}; }
static inline __half2 __hmul2(__half2 a, __half2 b) { return __half2{__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return __half2{__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }

#endif
