/* test_ggml_blocks.c - block formats and roundings of activations against gguf-py and llama.cpp (data/ggml_make.py).
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "common/f16.h"
#include "model/ggml_blocks.h"
#include "tests/unit/kernels/ops/ggml_data.h"

static char *all;
static size_t all_size;

static int setup(void **state)
{
    (void)state;
    return (all = ggml_data_read("tests/unit/data/ggml.bin", &all_size)) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(all);
    return 0;
}

/* ---- weights ------------------------------------------------------------------------------------------------------- */

/* Two rows of 256 random weights: the floats of the library are ours, rounded as it rounds: twice where a minimum is added. */
static void check_format(const struct ggml_record *r)
{
    const enum td_dtype dt = td_dtype_parse(r->name + 4);
    const size_t row = r->size[0] / 2;
    const float *want = r->array[1];
    double w[256];
    unsigned char copy[1088 + 1]; /* a row may lie anywhere */

    assert_true(td_ggml_is_weight(dt) && row <= 1088);
    assert_int_equal(row, 256 / (size_t)td_dtype_block(dt) * td_dtype_size(dt));
    for (size_t i = 0; i < 2; i++) {
        memcpy(copy + 1, (const char *)r->array[0] + i * row, row);
        td_ggml_dequant_row(dt, copy + 1, 256, w);
        for (int j = 0; j < 256; j++) {
            const double diff = fabs(w[j] - (double)want[i * 256 + (size_t)j]);

            if (td_ggml_min_step(dt) ? diff > 0x1p-20 : (float)w[j] != want[i * 256 + (size_t)j])
                fail_msg("%s: row %zu, weight %d: %.9g, the library says %.9g", r->name, i, j, w[j], (double)want[i * 256 + (size_t)j]);
        }
    }
}

static void test_formats(void **state)
{
    struct ggml_record r;
    size_t at = 0;
    int seen = 0;

    (void)state;
    while (ggml_data_next(all, all_size, &at, &r))
        if (!strncmp(r.name, "deq ", 4)) {
            check_format(&r);
            seen++;
        }
    assert_int_equal(seen, 10);
}

static void test_parts_make_the_whole(void **state)
{
    (void)state;
    for (int dt = TD_DT_Q4_0; dt <= TD_DT_Q6_K; dt++) {
        unsigned char b[2 * 272];
        double w[512], scaled[512], min[32];
        const int step = td_ggml_min_step((enum td_dtype)dt);

        for (size_t i = 0; i < sizeof b; i++)
            b[i] = (unsigned char)(i * 37 + i / 16 * 11) & 0x77;
        td_ggml_dequant_row((enum td_dtype)dt, b, 2 * td_dtype_block((enum td_dtype)dt), w);
        td_ggml_split_row((enum td_dtype)dt, b, 2 * td_dtype_block((enum td_dtype)dt), scaled, min);
        for (int i = 0; i < 2 * td_dtype_block((enum td_dtype)dt); i++)
            assert_true(w[i] == scaled[i] + (step ? min[i / step] : 0));
    }
    assert_false(td_ggml_is_weight(TD_DT_I32) || td_ggml_is_weight(TD_DT_NONE) || td_ggml_is_weight((enum td_dtype)99));
}

/* A scale of NaN or Inf reaches every weight of its block and no other. */
static void test_bad_scales_stay_in_their_block(void **state)
{
    unsigned char b[3 * 34] = {0};
    double w[96];

    (void)state;
    memset(b, 0x11, sizeof b);
    b[34] = 0x00, b[35] = 0x7e;
    td_ggml_dequant_row(TD_DT_Q8_0, b, 96, w);
    for (int i = 0; i < 96; i++)
        assert_int_equal(isnan(w[i]) != 0, i / 32 == 1);
}

/* ---- activations --------------------------------------------------------------------------------------------------- */

static const float *rows_of_activations(int *n)
{
    const struct ggml_record r = ggml_data_find(all, all_size, "activations");

    *n = (int)(r.size[0] / 4 / 256);
    return r.array[0];
}

static void test_blocks_of_32_are_the_library_s(void **state)
{
    const struct ggml_record q0 = ggml_data_find(all, all_size, "act q8_0"), q1 = ggml_data_find(all, all_size, "act q8_1");
    int n;
    const float *x = rows_of_activations(&n);

    (void)state;
    assert_int_equal(q0.size[0], n * 8 * 34);
    for (int i = 0; i < n * 8; i++) {
        unsigned char ours[36];
        uint16_t d, s;

        td_ggml_quant_32(x + i * 32, &d, &s, (int8_t *)ours + 4);
        memcpy(ours, &d, 2);
        memcpy(ours + 2, &s, 2);
        assert_memory_equal(ours, (const char *)q1.array[0] + i * 36, 36);
        memcpy(ours + 2, &d, 2);
        assert_memory_equal(ours + 2, (const char *)q0.array[0] + i * 34, 34);
    }
}

static void test_blocks_of_256_are_the_library_s(void **state)
{
    const struct ggml_record q = ggml_data_find(all, all_size, "act q8_K");
    int n;
    const float *x = rows_of_activations(&n);

    (void)state;
    for (int i = 0; i < n; i++) {
        const char *want = (const char *)q.array[0] + i * 292;
        int8_t ours[256];
        float d;

        td_ggml_quant_256(x + i * 256, &d, ours);
        assert_memory_equal(&d, want, 4);
        assert_memory_equal(ours, want + 4, 256);
    }
}

static void test_halves_are_the_library_s(void **state)
{
    const uint16_t *f16 = ggml_data_find(all, all_size, "act f16").array[0], *bf16 = ggml_data_find(all, all_size, "act bf16").array[0];
    double out[256];
    int n;
    const float *x = rows_of_activations(&n);

    (void)state;
    for (int i = 0; i < n; i++) {
        td_ggml_round_row(TD_ACT_F16, x + i * 256, 256, out, 0, NULL);
        for (int j = 0; j < 256; j++)
            assert_true(out[j] == (double)td_f16_to_f32(f16[i * 256 + j]));
        td_ggml_round_row(TD_ACT_BF16, x + i * 256, 256, out, 0, NULL);
        for (int j = 0; j < 256; j++)
            assert_true(out[j] == (double)td_bf16_to_f32(bf16[i * 256 + j]));
    }
}

/* The s of q8_1 is rounded by itself: what a minimum is multiplied with is not the sum of the rounded activations. */
static void test_sums(void **state)
{
    double out[256], sums[16], exact;
    int n, apart = 0;
    const float *x = rows_of_activations(&n);

    (void)state;
    td_ggml_round_row(TD_ACT_Q8_1, x, 256, out, 32, sums);
    for (int b = 0; b < 8; b++) {
        const uint16_t *s = (const void *)((const char *)ggml_data_find(all, all_size, "act q8_1").array[0] + b * 36 + 2);

        exact = 0;
        for (int j = 0; j < 32; j++)
            exact += out[b * 32 + j];
        assert_true(sums[b] == (double)td_f16_to_f32(*s));
        assert_true(fabs(exact - sums[b]) < 0.01);
        apart += exact != sums[b];
    }
    assert_true(apart > 4);
    td_ggml_round_row(TD_ACT_Q8_K, x, 256, out, 16, sums);
    exact = 0;
    for (int j = 240; j < 256; j++)
        exact += out[j];
    assert_true(sums[15] == exact);
}

static void test_what_is_not_finite_spoils_its_block(void **state)
{
    static const enum td_ggml_act acts[] = {TD_ACT_Q8_0, TD_ACT_Q8_1, TD_ACT_Q8_K, TD_ACT_F16, TD_ACT_BF16, TD_ACT_NONE};
    float x[512];
    double out[512], sums[16];

    (void)state;
    for (size_t a = 0; a < sizeof acts / sizeof *acts; a++)
        for (int bad = 0; bad < 2; bad++) {
            const int block = td_ggml_act_block(acts[a]);

            for (int i = 0; i < 512; i++)
                x[i] = (float)i - 200;
            x[300] = bad ? NAN : -INFINITY;
            td_ggml_round_row(acts[a], x, 512, out, 32, sums);
            for (int i = 0; i < 512; i++)
                assert_int_equal(!isfinite(out[i]), i / block == 300 / block);
            assert_false(isfinite(sums[300 / 32]));
            assert_true(isfinite(sums[0]));
        }
}

/* A kernel that multiplies with 1 / (amax / 127), and rounds halves away from zero, as ggml's plain C does: where its code is another one,
 * the code is in doubt. */
static void test_codes_in_doubt(void **state)
{
    static float x[64 * 256];
    static double by[64 * 256];
    int64_t n = 0, other = 0;
    uint32_t seed = 1;
    uint16_t d, s;
    int8_t q[32];

    (void)state;
    for (int turn = 0; turn < 100; turn++) {
        for (int i = 0; i < 64 * 256; i++) {
            seed = seed * 1664525 + 1013904223;
            x[i] = ((float)(seed >> 8) / 0x1p23f - 1) * 3.7f;
        }
        n += td_ggml_row_doubts(TD_ACT_Q8_1, x, 64 * 256, by);
        for (int b = 0; b < 64 * 256; b += 32) {
            float amax = 0;

            for (int i = b; i < b + 32; i++)
                amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
            td_ggml_quant_32(x + b, &d, &s, q);
            for (int i = b; i < b + 32; i++) {
                const int code = (int)roundf(x[i] * (1 / (amax / 127)));

                assert_true(by[i] == 0 || fabs(by[i] - (double)amax / 127) < 1e-6);
                assert_true(code == q[i - b] || by[i] > 0);
                other += code != q[i - b];
            }
        }
    }
    assert_true(other > 0 && n >= other);
    assert_true(n < 100 * 64 * 256 / 10000);
    memset(x, 0, sizeof x);
    x[3] = 127, x[9] = -40.5f, x[10] = 40.4f; /* half-way, and not */
    assert_int_equal(td_ggml_row_doubts(TD_ACT_Q8_0, x, 256, by), 1);
    assert_true(by[9] == 1);
    assert_int_equal(td_ggml_row_doubts(TD_ACT_Q8_K, x, 256, by), 1);
    assert_int_equal(td_ggml_row_doubts(TD_ACT_F16, x, 256, by), 0);
    x[12] = NAN;
    assert_int_equal(td_ggml_row_doubts(TD_ACT_Q8_0, x, 256, by), 0);
}

static void test_names(void **state)
{
    (void)state;
    for (int a = 0; a < TD_ACT_UNKNOWN; a++)
        assert_int_equal(td_ggml_act_parse(td_ggml_act_name((enum td_ggml_act)a)), a);
    assert_int_equal(td_ggml_act_parse(""), TD_ACT_NONE);
    assert_int_equal(td_ggml_act_parse("q9_0"), TD_ACT_UNKNOWN);
    assert_int_equal(td_ggml_act_of(TD_DT_Q4_1), TD_ACT_Q8_1);
    assert_int_equal(td_ggml_act_of(TD_DT_Q5_0), TD_ACT_Q8_0);
    assert_int_equal(td_ggml_act_of(TD_DT_Q2_K), TD_ACT_Q8_K);
    assert_int_equal(td_ggml_act_of(TD_DT_BF16), TD_ACT_BF16);
    assert_int_equal(td_ggml_act_of(TD_DT_I8), TD_ACT_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_parts_make_the_whole),
        cmocka_unit_test(test_bad_scales_stay_in_their_block),
        cmocka_unit_test(test_blocks_of_32_are_the_library_s),
        cmocka_unit_test(test_blocks_of_256_are_the_library_s),
        cmocka_unit_test(test_halves_are_the_library_s),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_what_is_not_finite_spoils_its_block),
        cmocka_unit_test(test_codes_in_doubt),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
