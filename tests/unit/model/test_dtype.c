/* test_dtype.c - 16-bit floats against independent arithmetic, over all their values; names and sizes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/dtype.h"
#include "common/f16.h"

/* The value of a half by its definition, with ldexp. */
static double half_value(uint16_t h)
{
    const int exp = h >> 10 & 31, mant = h & 1023;
    const double mag = exp == 31 ? (mant ? NAN : INFINITY) : exp ? ldexp(1024 + mant, exp - 25) : ldexp(mant, -24);

    return h & 0x8000 ? -mag : mag;
}

static void test_every_half_widens(void **state)
{
    uint16_t *all = malloc(65536 * sizeof *all);
    float *wide = malloc(65536 * sizeof *wide);

    (void)state;
    for (unsigned h = 0; h < 65536; h++)
        all[h] = (uint16_t)h;
    td_f16_to_f32_n(all, wide, 65536);
    for (unsigned h = 0; h < 65536; h++) {
        const double want = half_value((uint16_t)h);
        const float got = td_f16_to_f32((uint16_t)h);

        if (isnan(want))
            assert_true(isnan(got) && (signbit(got) != 0) == (h >= 0x8000));
        else
            assert_true((double)got == want && (signbit(got) != 0) == (h >= 0x8000));
        assert_int_equal(td_f32_bits(got), td_f32_bits(wide[h])); /* F16C or not: the same bits, NaN payloads too */
    }
    free(all);
    free(wide);
}

static void test_every_half_survives_the_way_back(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        const unsigned quiet = (h & 0x7c00) == 0x7c00 && (h & 0x3ff) ? 0x200 : 0;

        assert_int_equal(td_f32_to_f16(td_f16_to_f32((uint16_t)h)), h | quiet);
    }
}

/* Between two neighbours: below the middle, at the middle (to even), above. */
static void check_between(uint16_t low, uint16_t high, float middle)
{
    assert_int_equal(td_f32_to_f16(nextafterf(middle, 0)), low);
    assert_int_equal(td_f32_to_f16(middle), low & 1 ? high : low);
    assert_int_equal(td_f32_to_f16(nextafterf(middle, INFINITY)), high);
    assert_int_equal(td_f32_to_f16(-middle), (low & 1 ? high : low) | 0x8000);
}

static void test_ties_go_to_even(void **state)
{
    (void)state;
    for (uint16_t h = 0; h < 0x7bff; h++)
        check_between(h, h + 1, (float)((half_value(h) + half_value(h + 1)) / 2));
    check_between(0x7bff, 0x7c00, 65520.0f); /* the largest half and Inf */
    assert_int_equal(td_f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(td_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(td_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(td_f32_to_f16(1e-30f), 0x0000);
    assert_int_equal(td_f32_to_f16(-1e-30f), 0x8000);
    assert_true(isnan(td_f16_to_f32(td_f32_to_f16(NAN))));
}

static void test_arrays_narrow_as_scalars_do(void **state)
{
    enum { N = 4099 };
    float src[N];
    uint16_t dst[N + 1];
    uint32_t seed = 1;

    (void)state;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < N; i++) {
            seed = seed * 1664525u + 1013904223u;
            src[i] = td_f32_from_bits(round & 1 ? seed : 0x33000000u + seed % 0x15000000u); /* any bits; or the range of halves */
        }
        dst[N] = 0x1234;
        td_f32_to_f16_n(src, dst, N);
        for (int i = 0; i < N; i++)
            assert_int_equal(dst[i], td_f32_to_f16(src[i]));
        assert_int_equal(dst[N], 0x1234);
    }
}

static void test_bfloat16(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        const float f = td_bf16_to_f32((uint16_t)h);

        assert_int_equal(td_f32_bits(f), h << 16);
        if (!isnan(f))
            assert_int_equal(td_f32_to_bf16(f), h);
        else
            assert_true(isnan(td_bf16_to_f32(td_f32_to_bf16(f))));
        if (!isnan(f) && !isinf(f)) { /* the tie above it goes to even, one bit less goes down, one more goes up */
            assert_int_equal(td_f32_to_bf16(td_f32_from_bits(h << 16 | 0x8000)), h + (h & 1));
            assert_int_equal(td_f32_to_bf16(td_f32_from_bits(h << 16 | 0x7fff)), h);
            assert_int_equal(td_f32_to_bf16(td_f32_from_bits(h << 16 | 0x8001)), h + 1);
        }
    }
}

static void test_names_and_sizes(void **state)
{
    (void)state;
    for (int dt = TD_DT_NONE + 1; dt < TD_DT_COUNT; dt++) {
        assert_int_equal(td_dtype_parse(td_dtype_name((enum td_dtype)dt)), dt);
        assert_true(td_dtype_size((enum td_dtype)dt) > 0);
    }
    assert_string_equal(td_dtype_name(TD_DT_BF16), "BF16");
    assert_int_equal(td_dtype_size(TD_DT_F16), 2);
    assert_int_equal(td_dtype_parse("IQ4_XS"), TD_DT_NONE);
    assert_int_equal(td_dtype_parse("none"), TD_DT_NONE);
    assert_int_equal(td_dtype_size(TD_DT_NONE), 0);
    assert_string_equal(td_dtype_name((enum td_dtype)99), "none");
}

/* gguf-py 0.19.0, GGML_QUANT_SIZES: (elements, bytes) of a block. */
static void test_block_formats(void **state)
{
    static const struct { const char *name; int block; size_t bytes; } sizes[] = {
        {"Q4_0", 32, 18},  {"Q4_1", 32, 20},   {"Q5_0", 32, 22},   {"Q5_1", 32, 24},   {"Q8_0", 32, 34},  {"Q2_K", 256, 84},
        {"Q3_K", 256, 110}, {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210}, {"BF16", 1, 2},    {"F32", 1, 4},
    };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const enum td_dtype dt = td_dtype_parse(sizes[i].name);

        assert_int_not_equal(dt, TD_DT_NONE);
        assert_int_equal(td_dtype_block(dt), sizes[i].block);
        assert_int_equal(td_dtype_size(dt), sizes[i].bytes);
    }
    assert_int_equal(td_dtype_block(TD_DT_NONE), 0);
}

static void test_get(void **state)
{
    const int64_t i64[] = {0, -(INT64_C(1) << 53)};
    const uint16_t half[] = {0, 0xc000};
    const int8_t i8[] = {0, -7};
    const uint8_t u8[] = {0, 249};
    const float f32[] = {0, 1.5f};
    const uint32_t u32[] = {0, 4000000000u};

    (void)state;
    assert_true(td_dtype_get(TD_DT_I64, i64, 1) == -0x1p53);
    assert_true(td_dtype_get(TD_DT_F16, half, 1) == -2.0);
    assert_true(td_dtype_get(TD_DT_BF16, half, 1) == -2.0);
    assert_true(td_dtype_get(TD_DT_I8, i8, 1) == -7.0);
    assert_true(td_dtype_get(TD_DT_U8, u8, 1) == 249.0);
    assert_true(td_dtype_get(TD_DT_BOOL, u8, 1) == 1.0);
    assert_true(td_dtype_get(TD_DT_F32, f32, 1) == 1.5);
    assert_true(td_dtype_get(TD_DT_U32, u32, 1) == 4000000000.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half_widens),
        cmocka_unit_test(test_every_half_survives_the_way_back),
        cmocka_unit_test(test_ties_go_to_even),
        cmocka_unit_test(test_arrays_narrow_as_scalars_do),
        cmocka_unit_test(test_bfloat16),
        cmocka_unit_test(test_names_and_sizes),
        cmocka_unit_test(test_block_formats),
        cmocka_unit_test(test_get),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
