/* test_server_sampler.c - argmax, log-probabilities and sampling, with torch's rules for NaN.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>

#include "demo/server/sampler.h"

/* torch 2.15: torch.tensor(x).argmax() */
static void test_argmax_is_torchs(void **state)
{
    (void)state;
    assert_int_equal(td_sampler_argmax((float[]){1, NAN, 3, NAN}, 4), 1);
    assert_int_equal(td_sampler_argmax((float[]){NAN, NAN, NAN, NAN}, 4), 0);
    assert_int_equal(td_sampler_argmax((float[]){1, INFINITY, INFINITY, 2}, 4), 1);
    assert_int_equal(td_sampler_argmax((float[]){-INFINITY, -INFINITY, -INFINITY}, 3), 0);
    assert_int_equal(td_sampler_argmax((float[]){2, 7, 7, 1}, 4), 1);
}

/* torch 2.15: torch.log_softmax of the same f32 row */
static void test_logprobs_are_torchs(void **state)
{
    static const float x[] = {0.5f, -1.25f, 3.0f, 2.75f, -20.0f, 0.0f, 1.0f};
    static const float want[] = {-3.22283816f, -4.97283792f, -0.722838104f, -0.972838104f, -23.7228374f, -3.72283816f, -2.72283816f};
    float got[7];

    (void)state;
    td_sampler_logprobs(x, 7, got);
    for (int i = 0; i < 7; i++)
        assert_true(fabsf(got[i] - want[i]) <= 2e-6f * fabsf(want[i]));
    td_sampler_logprobs((float[]){1, NAN, 2}, 3, got);
    assert_true(isnan(got[0]) && isnan(got[1]) && isnan(got[2]));
    td_sampler_logprobs((float[]){1, INFINITY, 2}, 3, got);
    assert_true(isnan(got[0]) && isnan(got[1]) && isnan(got[2]));
}

static void test_top(void **state)
{
    int32_t index[8];

    (void)state;
    assert_int_equal(td_sampler_top((float[]){1, NAN, 3, NAN}, 4, 3, index), 3);
    assert_true(index[0] == 1 && index[1] == 3 && index[2] == 2);
    assert_int_equal(td_sampler_top((float[]){2, 7, 7, 1}, 4, 8, index), 4);
    assert_true(index[0] == 1 && index[1] == 2 && index[2] == 0 && index[3] == 3);
    assert_int_equal(td_sampler_top((float[]){2, 7}, 2, 0, index), 0);
}

static void test_a_seed_decides(void **state)
{
    static const float x[] = {0, 1, 2, 3};
    struct td_sampler a = {.temperature = 1, .top_p = 1, .rng = 5}, b = a;
    float scratch[4];
    int seen[4] = {0};

    (void)state;
    for (int i = 0; i < 40000; i++) {
        int t = td_sampler_pick(&a, x, 4, -1, scratch);
        assert_int_equal(t, td_sampler_pick(&b, x, 4, -1, scratch));
        seen[t]++;
    }
    for (int i = 0; i < 4; i++) { /* softmax of 0 1 2 3; four standard deviations */
        double p = exp(i) / (1 + exp(1) + exp(2) + exp(3));
        assert_true(fabs(seen[i] - 40000 * p) < 4 * sqrt(40000 * p * (1 - p)));
    }
}

static void test_filters(void **state)
{
    static const float x[] = {0, 1, 2, 3, -1};
    float scratch[5];
    bool seen_2 = false;

    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct td_sampler k = {.temperature = 2, .top_p = 1, .top_k = 2, .rng = seed}, p = {.temperature = 1, .top_p = 0.7, .rng = seed};
        struct td_sampler first = {.temperature = 1, .top_p = 0.1, .rng = seed};
        assert_true(td_sampler_pick(&k, x, 5, -1, scratch) >= 2);
        int t = td_sampler_pick(&p, x, 5, -1, scratch); /* probabilities 0.64 and 0.23: both are needed for 0.7 */
        assert_in_range(t, 2, 3);
        seen_2 = seen_2 || t == 2;
        assert_int_equal(td_sampler_pick(&first, x, 5, -1, scratch), 3);
    }
    assert_true(seen_2);
}

static void test_a_row_of_nan_gives_token_0(void **state)
{
    struct td_sampler greedy = {.temperature = 0, .top_p = 1}, warm = {.temperature = 0.8, .top_p = 0.5, .top_k = 3, .rng = 1};
    static const float nan_row[] = {NAN, NAN, NAN, NAN, NAN}, inf_row[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    float scratch[5];

    (void)state;
    assert_int_equal(td_sampler_pick(&greedy, nan_row, 5, -1, scratch), 0);
    assert_int_equal(td_sampler_pick(&warm, nan_row, 5, -1, scratch), 0);
    assert_int_equal(td_sampler_pick(&greedy, nan_row, 5, 0, scratch), 1); /* banned */
    assert_in_range(td_sampler_pick(&warm, inf_row, 5, -1, scratch), 0, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_argmax_is_torchs), cmocka_unit_test(test_logprobs_are_torchs), cmocka_unit_test(test_top),
                                       cmocka_unit_test(test_a_seed_decides), cmocka_unit_test(test_filters),
                                       cmocka_unit_test(test_a_row_of_nan_gives_token_0)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
