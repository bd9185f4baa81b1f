/* test_arrival.c - arrivals against the distributions that they claim, and against known numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/arrival.h"

#define N 20000

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Gaps between arrivals at 1 a second, in seconds. */
static void gaps_of(struct td_arrival how, double gap[N])
{
    struct td_arrival_times t;
    int64_t last = 0;
    int i;

    how.rate = 1;
    td_arrival_begin(&t, &how);
    for (i = 0; i < N; i++) {
        const int64_t at = td_arrival_next(&t);

        assert_true(at >= last);
        gap[i] = (double)(at - last) / 1e9;
        last = at;
    }
}

/* The largest distance between the gaps and a distribution function (Kolmogorov and Smirnov). It is above
 * 1.95 / sqrt(N) once in a thousand times; seeds are fixed. Sorts. */
static double distance(double gap[N], double (*cdf)(double))
{
    double most = 0;
    int i;

    qsort(gap, N, sizeof *gap, by_value);
    for (i = 0; i < N; i++) {
        most = fmax(most, fabs(cdf(gap[i]) - (double)i / N));
        most = fmax(most, fabs(cdf(gap[i]) - (double)(i + 1) / N));
    }
    return most;
}

static double exponential(double x)
{
    return 1 - exp(-x);
}

/* Gamma of shape 1/2 and mean 1 is chi-squared with one degree of freedom. */
static double gamma_half(double x)
{
    return erf(sqrt(x / 2));
}

/* Erlang of shape 4 and mean 1: the fourth arrival of a Poisson process of rate 4. */
static double gamma_four(double x)
{
    const double y = 4 * x;

    return 1 - exp(-y) * (1 + y + y * y / 2 + y * y * y / 6);
}

static void test_distributions(void **state)
{
    static const struct { struct td_arrival how; double (*cdf)(double); } of[] = {
        {{TD_ARRIVAL_POISSON, 1, 0, 7}, exponential},
        {{TD_ARRIVAL_GAMMA, 1, 1, 7}, exponential},
        {{TD_ARRIVAL_GAMMA, 1, 0.5, 7}, gamma_half},
        {{TD_ARRIVAL_GAMMA, 1, 4, 7}, gamma_four},
    };
    static double gap[N];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof of / sizeof *of; i++) {
        gaps_of(of[i].how, gap);
        assert_true(distance(gap, of[i].cdf) < 1.95 / sqrt(N));
    }
    /* the test can tell them apart */
    gaps_of(of[2].how, gap);
    assert_true(distance(gap, exponential) > 0.1);
}

/* Successive gaps say nothing about each other: their correlation is within 3.3 / sqrt(N) of 0. */
static void test_gaps_are_independent(void **state)
{
    static double gap[N];
    double mean = 0, var = 0, both = 0;
    int i;

    (void)state;
    gaps_of((struct td_arrival){TD_ARRIVAL_POISSON, 1, 0, 11}, gap);
    for (i = 0; i < N; i++)
        mean += gap[i] / N;
    for (i = 0; i < N; i++) {
        var += (gap[i] - mean) * (gap[i] - mean);
        both += i ? (gap[i] - mean) * (gap[i - 1] - mean) : 0;
    }
    assert_true(fabs(mean - 1) < 3.3 / sqrt(N));
    assert_true(fabs(both / var) < 3.3 / sqrt(N));
}

/* Counts in windows of 4 s: their variance is their mean where arrivals are a Poisson process. */
static void test_counts_of_windows(void **state)
{
    struct td_arrival how = {TD_ARRIVAL_POISSON, 50, 0, 3};
    struct td_arrival_times t;
    enum { WINDOWS = 2000 };
    static int count[WINDOWS];
    double mean = 0, var = 0;
    int64_t at;
    int i;

    (void)state;
    td_arrival_begin(&t, &how);
    while ((at = td_arrival_next(&t) / 4000000000LL) < WINDOWS)
        count[at]++;
    for (i = 0; i < WINDOWS; i++)
        mean += (double)count[i] / WINDOWS;
    for (i = 0; i < WINDOWS; i++)
        var += (count[i] - mean) * (count[i] - mean) / (WINDOWS - 1);
    assert_true(fabs(mean - 200) < 3.3 * sqrt(200.0 / WINDOWS));
    assert_true(fabs(var / mean - 1) < 3.3 * sqrt(2.0 / WINDOWS));
}

static void test_constant(void **state)
{
    struct td_arrival how = {TD_ARRIVAL_CONSTANT, 3, 0, 1};
    struct td_arrival_times t;
    int i;

    (void)state;
    td_arrival_begin(&t, &how);
    for (i = 0; i < 3; i++) /* no error adds up */
        assert_int_equal(td_arrival_next(&t), (int64_t)(i / 3.0 * 1e9));
    for (; i < 3000000; i++)
        td_arrival_next(&t);
    assert_int_equal(td_arrival_next(&t), 1000000000000000);
}

/* The same seed, the same times; another one, others. */
static void test_seed(void **state)
{
    struct td_arrival_times a, b, c;
    int i, same = 0;

    (void)state;
    td_arrival_begin(&a, &(struct td_arrival){TD_ARRIVAL_GAMMA, 10, 2, 5});
    td_arrival_begin(&b, &(struct td_arrival){TD_ARRIVAL_GAMMA, 10, 2, 5});
    td_arrival_begin(&c, &(struct td_arrival){TD_ARRIVAL_GAMMA, 10, 2, 6});
    for (i = 0; i < 100; i++) {
        const int64_t t = td_arrival_next(&a);

        assert_int_equal(t, td_arrival_next(&b));
        same += t == td_arrival_next(&c);
    }
    assert_int_equal(same, 0);
}

/* Published values of splitmix64 with the seed 1234567. */
static void test_random_numbers(void **state)
{
    static const uint64_t known[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                     UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                     UINT64_C(16408922859458223821)};
    uint64_t s = 1234567;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof known / sizeof *known; i++)
        assert_true(td_arrival_random(&s) == known[i]);
}

static void test_parse(void **state)
{
    static const char *const bad[] = {"", "gama", "gamma:", "gamma:0", "gamma:x", "gamma:101", "gamma:1x", "poisson:2", "gamma:nan"};
    struct td_arrival a = {.rate = 2};
    struct td_error err = {0};
    size_t i;

    (void)state;
    assert_int_equal(td_arrival_parse("constant", &a, &err), 0);
    assert_int_equal(a.kind, TD_ARRIVAL_CONSTANT);
    assert_int_equal(td_arrival_parse("poisson", &a, &err), 0);
    assert_int_equal(a.kind, TD_ARRIVAL_POISSON);
    assert_int_equal(td_arrival_parse("gamma", &a, &err), 0);
    assert_true(a.kind == TD_ARRIVAL_GAMMA && a.shape == TD_ARRIVAL_SHAPE && a.rate == 2);
    assert_int_equal(td_arrival_parse("gamma:2.5", &a, &err), 0);
    assert_true(a.shape == 2.5);
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        td_error_clear(&err);
        assert_int_equal(td_arrival_parse(bad[i], &a, &err), TD_EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distributions), cmocka_unit_test(test_gaps_are_independent),
        cmocka_unit_test(test_counts_of_windows), cmocka_unit_test(test_constant),
        cmocka_unit_test(test_seed), cmocka_unit_test(test_random_numbers), cmocka_unit_test(test_parse)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
