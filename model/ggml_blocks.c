/* ggml_blocks.c - ggml's block formats: weights taken apart, activations rounded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/ggml_blocks.h"

#include <math.h>
#include <string.h>

#include "common/f16.h"

typedef void split_fn(const uint8_t *b, double *scaled, double *min);

static double half_at(const uint8_t *p)
{
    return td_f16_load((uint16_t)(p[0] | p[1] << 8));
}

/* ---- blocks of 32 ---------------------------------------------------------------------------- */

/* Nibbles: elements 0 .. 15 in the low halves of 16 bytes, 16 .. 31 in the high ones. */
static void nibbles(const uint8_t *qs, int minus, double d, double *out)
{
    for (int j = 0; j < 16; j++) {
        out[j] = d * ((qs[j] & 15) - minus);
        out[j + 16] = d * ((qs[j] >> 4) - minus);
    }
}

/* The same with a fifth bit: bit j of the 32 in qh belongs to element j. */
static void nibbles_5(const uint8_t *qh, const uint8_t *qs, int minus, double d, double *out)
{
    const uint32_t high = (uint32_t)qh[0] | (uint32_t)qh[1] << 8 | (uint32_t)qh[2] << 16 | (uint32_t)qh[3] << 24;

    for (int j = 0; j < 16; j++) {
        out[j] = d * ((qs[j] & 15) + (int)(high >> j & 1) * 16 - minus);
        out[j + 16] = d * ((qs[j] >> 4) + (int)(high >> (j + 16) & 1) * 16 - minus);
    }
}

static void split_q4_0(const uint8_t *b, double *out, double *min) /* d, qs[16] */
{
    (void)min;
    nibbles(b + 2, 8, half_at(b), out);
}

static void split_q4_1(const uint8_t *b, double *out, double *min) /* d, m, qs[16] */
{
    nibbles(b + 4, 0, half_at(b), out);
    *min = half_at(b + 2);
}

static void split_q5_0(const uint8_t *b, double *out, double *min) /* d, qh[4], qs[16] */
{
    (void)min;
    nibbles_5(b + 2, b + 6, 16, half_at(b), out);
}

static void split_q5_1(const uint8_t *b, double *out, double *min) /* d, m, qh[4], qs[16] */
{
    nibbles_5(b + 4, b + 8, 0, half_at(b), out);
    *min = half_at(b + 2);
}

static void split_q8_0(const uint8_t *b, double *out, double *min) /* d, qs[32] */
{
    const double d = half_at(b);

    (void)min;
    for (int j = 0; j < 32; j++)
        out[j] = d * (int8_t)b[2 + j];
}

/* ---- blocks of 256 --------------------------------------------------------------------------- */

/* Half h of 128 elements takes 32 bytes; 16 elements of group g (0 .. 7) lie 2 bits each at bit g / 2 * 2 of 16 bytes. */
static void split_q2_k(const uint8_t *b, double *out, double *min) /* scales[16], qs[64], d, dmin */
{
    const double d = half_at(b + 80), dmin = half_at(b + 82);

    for (int g = 0; g < 16; g++) {
        const uint8_t *q = b + 16 + g / 8 * 32 + g % 2 * 16;
        const int shift = g / 2 % 4 * 2;
        const double scale = d * (b[g] & 15);

        min[g] = -dmin * (b[g] >> 4);
        for (int l = 0; l < 16; l++)
            out[g * 16 + l] = scale * (q[l] >> shift & 3);
    }
}

/* 16 scales of 6 bits in 12 bytes: low nibbles in bytes 0 .. 7, the upper two bits in bytes 8 .. 11; stored + 32. */
static int q3_scale(const uint8_t *s, int g)
{
    const int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;

    return (low | (s[8 + g % 4] >> (g / 4 * 2) & 3) << 4) - 32;
}

static void split_q3_k(const uint8_t *b, double *out, double *min) /* hmask[32], qs[64], scales[12], d */
{
    const double d = half_at(b + 108);

    (void)min;
    for (int g = 0; g < 16; g++) {
        const uint8_t *q = b + 32 + g / 8 * 32 + g % 2 * 16, *h = b + g % 2 * 16;
        const int shift = g / 2 % 4 * 2, bit = g / 2;
        const double scale = d * q3_scale(b + 96, g);

        for (int l = 0; l < 16; l++)
            out[g * 16 + l] = scale * ((q[l] >> shift & 3) - (h[l] >> bit & 1 ? 0 : 4));
    }
}

/* Eight scales and eight minima of 6 bits in 12 bytes (get_scale_min_k4). */
static void q4k_scale(const uint8_t *s, int g, int *scale, int *min)
{
    if (g < 4) {
        *scale = s[g] & 63;
        *min = s[g + 4] & 63;
    } else {
        *scale = (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
        *min = s[g + 4] >> 4 | s[g] >> 6 << 4;
    }
}

static void split_q4_k(const uint8_t *b, double *out, double *min) /* d, dmin, scales[12], qs[128] */
{
    const double d = half_at(b), dmin = half_at(b + 2);

    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b + 16 + g / 2 * 32;
        const int shift = g % 2 * 4;
        int sc, m;

        q4k_scale(b + 4, g, &sc, &m);
        min[g] = -dmin * m;
        for (int l = 0; l < 32; l++)
            out[g * 32 + l] = d * sc * (q[l] >> shift & 15);
    }
}

static void split_q5_k(const uint8_t *b, double *out, double *min) /* d, dmin, scales[12], qh[32], qs[128] */
{
    const double d = half_at(b), dmin = half_at(b + 2);

    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b + 48 + g / 2 * 32, *h = b + 16;
        const int shift = g % 2 * 4;
        int sc, m;

        q4k_scale(b + 4, g, &sc, &m);
        min[g] = -dmin * m;
        for (int l = 0; l < 32; l++)
            out[g * 32 + l] = d * sc * ((q[l] >> shift & 15) + (h[l] >> g & 1) * 16);
    }
}

/* Half h of 128 elements: 64 bytes of low nibbles, 32 bytes of upper two bits; 32 elements of quarter c. */
/* Codes are stored + 32. ggml's SIMD kernels multiply with them as they lie, and take 32 times the sum of 16 activations off in other
 * lanes of a vector, so that what is rounded to float32 is as large as with a minimum of -32. */
static void split_q6_k(const uint8_t *b, double *out, double *min) /* ql[128], qh[64], scales[16], d */
{
    const double d = half_at(b + 208);

    for (int part = 0; part < 8; part++) {
        const int h = part / 4, c = part % 4;
        const uint8_t *ql = b + h * 64 + c % 2 * 32, *qh = b + 128 + h * 32;

        for (int l = 0; l < 32; l++)
            out[part * 32 + l] = d * (int8_t)b[192 + part * 2 + l / 16] * ((ql[l] >> (c / 2 * 4) & 15) | (qh[l] >> (c * 2) & 3) << 4);
    }
    for (int g = 0; g < 16; g++)
        min[g] = -32 * d * (int8_t)b[192 + g];
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const struct { split_fn *split; int min_step; enum td_ggml_act act;
} formats[TD_DT_COUNT] = {
    [TD_DT_F32] = {NULL, 0, TD_ACT_NONE},         [TD_DT_F16] = {NULL, 0, TD_ACT_F16},
    [TD_DT_BF16] = {NULL, 0, TD_ACT_BF16},        [TD_DT_Q4_0] = {split_q4_0, 0, TD_ACT_Q8_0},
    [TD_DT_Q4_1] = {split_q4_1, 32, TD_ACT_Q8_1}, [TD_DT_Q5_0] = {split_q5_0, 0, TD_ACT_Q8_0},
    [TD_DT_Q5_1] = {split_q5_1, 32, TD_ACT_Q8_1}, [TD_DT_Q8_0] = {split_q8_0, 0, TD_ACT_Q8_0},
    [TD_DT_Q2_K] = {split_q2_k, 16, TD_ACT_Q8_K}, [TD_DT_Q3_K] = {split_q3_k, 0, TD_ACT_Q8_K},
    [TD_DT_Q4_K] = {split_q4_k, 32, TD_ACT_Q8_K}, [TD_DT_Q5_K] = {split_q5_k, 32, TD_ACT_Q8_K},
    [TD_DT_Q6_K] = {split_q6_k, 16, TD_ACT_Q8_K},
};

static bool is_float(enum td_dtype dt)
{
    return dt == TD_DT_F32 || dt == TD_DT_F16 || dt == TD_DT_BF16;
}

bool td_ggml_is_weight(enum td_dtype dt)
{
    return is_float(dt) || ((unsigned)dt < TD_DT_COUNT && formats[dt].split);
}

int td_ggml_min_step(enum td_dtype dt)
{
    return (unsigned)dt < TD_DT_COUNT ? formats[dt].min_step : 0;
}

/* Plain floats, 256 at a time: row needs no alignment. */
static void widen(enum td_dtype dt, const uint8_t *row, int64_t k, double *out)
{
    const size_t size = td_dtype_size(dt);
    uint16_t half[256];
    float f[256];

    for (int64_t i = 0; i < k; i += 256) {
        const size_t n = k - i < 256 ? (size_t)(k - i) : 256;

        memcpy(dt == TD_DT_F32 ? (void *)f : (void *)half, row + (size_t)i * size, n * size);
        if (dt == TD_DT_F16)
            td_f16_to_f32_n(half, f, n);
        for (size_t j = 0; dt == TD_DT_BF16 && j < n; j++)
            f[j] = td_f32_from_bits((uint32_t)half[j] << 16);
        for (size_t j = 0; j < n; j++)
            out[(size_t)i + j] = f[j];
    }
}

void td_ggml_split_row(enum td_dtype dt, const void *row, int64_t k, double *scaled, double *min)
{
    const int64_t block = td_dtype_block(dt), size = (int64_t)td_dtype_size(dt),
                  mins = formats[dt].min_step ? block / formats[dt].min_step : 0;
    const uint8_t *b = row;

    if (is_float(dt)) {
        widen(dt, b, k, scaled);
        return;
    }
    for (int64_t i = 0; i < k / block; i++)
        formats[dt].split(b + i * size, scaled + i * block, mins ? min + i * mins : NULL);
}

void td_ggml_dequant_row(enum td_dtype dt, const void *row, int64_t k, double *w)
{
    const int64_t block = td_dtype_block(dt), size = (int64_t)td_dtype_size(dt), step = td_ggml_min_step(dt);
    double min[16];

    for (int64_t i = 0; i < k; i += block) {
        td_ggml_split_row(dt, (const uint8_t *)row + i / block * size, block, w + i, min);
        for (int64_t j = 0; step && j < block; j++)
            w[i + j] += min[j / step];
    }
}

/* ---- activations ----------------------------------------------------------------------------- */

static const char *const act_names[] = {"none", "q8_0", "q8_1", "q8_K", "f16", "bf16"};

enum td_ggml_act td_ggml_act_parse(const char *name)
{
    if (!*name)
        return TD_ACT_NONE;
    for (int a = TD_ACT_NONE; a < TD_ACT_UNKNOWN; a++)
        if (!strcmp(name, act_names[a]))
            return (enum td_ggml_act)a;
    return TD_ACT_UNKNOWN;
}

const char *td_ggml_act_name(enum td_ggml_act act)
{
    return (unsigned)act < TD_ACT_UNKNOWN ? act_names[act] : "unknown";
}

enum td_ggml_act td_ggml_act_of(enum td_dtype weight)
{
    return td_ggml_is_weight(weight) ? formats[weight].act : TD_ACT_UNKNOWN;
}

int td_ggml_act_block(enum td_ggml_act act)
{
    return act == TD_ACT_Q8_0 || act == TD_ACT_Q8_1 ? 32 : act == TD_ACT_Q8_K ? 256 : 1;
}

/* Nearest integer, ties to even, as _mm256_round_ps and ggml's nearest_int() do. What does not fit (x * (127 / a denormal) is
 * Inf or NaN) becomes INT32_MIN there and the lowest int8 when packed. */
static int32_t nearest(float x)
{
    return fabsf(x) < 0x1p22f ? (int32_t)(td_f32_bits(x + 0x1.8p23f) & 0x7fffff) - 0x400000 : INT32_MIN;
}

/* The largest magnitude; NaN or Inf if there is one among them. */
static float amax_of(const float *x, int n)
{
    float amax = 0;

    for (int i = 0; i < n; i++)
        amax = fabsf(x[i]) <= amax || isnan(amax) ? amax : fabsf(x[i]);
    return amax;
}

void td_ggml_quant_32(const float *x, uint16_t *d, uint16_t *s, int8_t *q)
{
    const float amax = amax_of(x, 32), scale = amax / 127.0f, inverse = amax != 0 ? 127.0f / amax : 0;
    uint32_t sum = 0; /* wraps as the vector of 32-bit integers does */

    memset(q, 0, 32);
    *d = *s = 0x7e00;
    if (!isfinite(amax))
        return;
    for (int i = 0; i < 32; i++) {
        const int32_t v = nearest(x[i] * inverse);

        q[i] = (int8_t)(v < -128 ? -128 : v > 127 ? 127 : v);
        sum += (uint32_t)v;
    }
    *d = td_f16_round(scale);
    *s = td_f16_round(scale * (float)(int32_t)sum);
}

void td_ggml_quant_256(const float *x, float *d, int8_t *q)
{
    const float amax = amax_of(x, 256);
    float max = 0, inverse;

    memset(q, 0, 256);
    *d = isfinite(amax) ? 0 : NAN;
    if (!isfinite(amax) || amax == 0)
        return;
    for (int i = 255; i >= 0; i--)
        if (fabsf(x[i]) == amax)
            max = x[i]; /* the first one decides the sign */
    inverse = -127.0f / max;
    for (int i = 0; i < 256; i++) {
        const int32_t v = nearest(inverse * x[i]);

        q[i] = (int8_t)(v > 127 ? 127 : v);
    }
    *d = 1 / inverse;
}

static void round_32(enum td_ggml_act act, const float *x, int64_t k, double *out, double *sums)
{
    uint16_t d, s;
    int8_t q[32];

    for (int64_t i = 0; i < k; i += 32) {
        td_ggml_quant_32(x + i, &d, &s, q);
        const double scale = td_f16_load(d);

        for (int j = 0; j < 32; j++)
            out[i + j] = scale * q[j];
        if (act == TD_ACT_Q8_1 && sums)
            sums[i / 32] = td_f16_load(s);
    }
}

static void round_256(const float *x, int64_t k, double *out)
{
    int8_t q[256];
    float d;

    for (int64_t i = 0; i < k; i += 256) {
        td_ggml_quant_256(x + i, &d, q);
        for (int j = 0; j < 256; j++)
            out[i + j] = (double)d * q[j];
    }
}

static double round_one(enum td_ggml_act act, float x)
{
    return act == TD_ACT_F16 ? td_f16_load(td_f16_round(x)) : act == TD_ACT_BF16 ? td_bf16_to_f32(td_f32_to_bf16(x)) : x;
}

void td_ggml_round_row(enum td_ggml_act act, const float *x, int64_t k, double *out, int step, double *sums)
{
    if (td_ggml_act_block(act) == 32)
        round_32(act, x, k, out, step == 32 ? sums : NULL);
    else if (act == TD_ACT_Q8_K)
        round_256(x, k, out);
    else
        for (int64_t i = 0; i < k; i++)
            out[i] = round_one(act, x[i]);
    if (!step || (act == TD_ACT_Q8_1 && step == 32))
        return;
    for (int64_t i = 0; i < k / step; i++) {
        sums[i] = 0;
        for (int64_t j = 0; j < step; j++)
            sums[i] += out[i * step + j];
    }
}

/* Three roundings to float32, each of half a unit: two of the factor, one of the product. */
#define CODE_ERROR 0x1p-22

int64_t td_ggml_row_doubts(enum td_ggml_act act, const float *x, int64_t k, double *by)
{
    const int block = td_ggml_act_block(act);
    int64_t n = 0;

    memset(by, 0, (size_t)k * sizeof *by);
    for (int64_t i = 0; block > 1 && i < k; i += block) {
        const double amax = amax_of(x + i, block);

        if (!isfinite(amax) || amax == 0)
            continue;
        for (int64_t j = i; j < i + block; j++) {
            const double code = fabs(x[j]) * (127 / amax);

            if (fabs(code - floor(code) - 0.5) > code * CODE_ERROR)
                continue;
            by[j] = amax / 127;
            n++;
        }
    }
    return n;
}
