/* test_stats.c - statistics against numbers made by scipy (tests/unit/data/stats.tsv, stats_make.py).
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fisher.h"
#include "differ/stats.h"

#define MAX_NUMBERS 1000

static size_t numbers(const char *s, double *out)
{
    size_t n = 0;
    char *end;

    for (; n < MAX_NUMBERS; n++, s = end) {
        out[n] = strtod(s, &end);
        if (end == s)
            break;
    }
    return n;
}

static bool near(double got, double want, double tol)
{
    bool ok = fabs(got - want) <= tol * fmax(1e-3, fabs(want));

    if (!ok)
        printf("got %.17g, scipy says %.17g\n", got, want);
    return ok;
}

/* What is not "as many" is "as few as one less". */
static void check_few(size_t k1, size_t n1, size_t k0, size_t n0, double many)
{
    if (k1 && n1 && n0)
        assert_true(fabs(td_fisher_as_few(n1 + n0, n1, k1 + k0, k1 - 1) - (1 - many)) < 1e-9);
}

/* One line of the table; returns true when it was one of `name`. */
static bool check_line(char *line, const char *name)
{
    static double a[MAX_NUMBERS], x[MAX_NUMBERS], want[MAX_NUMBERS];
    char *field[8], *save = NULL, *f;
    size_t nf = 0, n;

    for (f = strtok_r(line, "\t\n", &save); f && nf < 8; f = strtok_r(NULL, "\t\n", &save))
        field[nf++] = f;
    if (nf < 4 || strcmp(field[0], name) != 0)
        return false;
    if (strcmp(name, "quantile") == 0) {
        numbers(field[1], a);
        n = numbers(field[2], x);
        numbers(field[3], want);
        assert_true(near(td_stat_quantile(x, n, a[0]), want[0], 1e-12));
    } else if (strcmp(name, "t") == 0) {
        numbers(field[1], a);
        numbers(field[2], x);
        numbers(field[3], want);
        assert_true(want[0] == 0 ? td_stat_t_p(x[0], a[0]) == 0 : near(log(td_stat_t_p(x[0], a[0])), log(want[0]), 1e-9));
    } else if (strcmp(name, "tlimit") == 0) {
        numbers(field[1], a);
        numbers(field[2], x);
        numbers(field[3], want);
        assert_true(near(td_stat_t_limit(x[0], a[0]), want[0], 1e-9));
    } else if (strcmp(name, "holm") == 0) {
        double most;
        size_t rejected = 0;

        numbers(field[1], a);
        n = numbers(field[2], x);
        numbers(field[3], want);
        most = td_stat_holm(x, n, n, a[0]);
        while (rejected < n && x[rejected] <= most)
            rejected++;
        assert_int_equal(rejected, (size_t)want[0]);
    } else if (strcmp(name, "hl") == 0) {
        struct td_interval r;

        numbers(field[1], a);
        n = numbers(field[2], x);
        numbers(field[3], want);
        r = td_stat_hodges_lehmann(x, n, a[0]);
        assert_true(near(r.est, want[0], 1e-12));
        if (r.reached) {
            assert_true(near(r.lo, want[1], 1e-12));
            assert_true(near(r.hi, want[2], 1e-12));
        } else {
            assert_true(ldexp(1, 1 - (int)n) >= a[0]);
            assert_true(isinf(r.lo) && isinf(r.hi));
        }
    } else if (strcmp(name, "share") == 0) {
        numbers(field[3], a);
        numbers(field[4], want);
        assert_true(near(td_stat_share_lower((size_t)atoi(field[1]), (size_t)atoi(field[2]), a[0]), want[0], 1e-9));
        assert_true(near(td_stat_share_upper((size_t)atoi(field[1]), (size_t)atoi(field[2]), a[0]), want[1], 1e-9));
    } else if (strcmp(name, "fisher") == 0) {
        numbers(field[5], want);
        assert_true(near(td_stat_share_larger_p((size_t)atoi(field[1]), (size_t)atoi(field[2]), (size_t)atoi(field[3]),
                                                (size_t)atoi(field[4])), want[0], 1e-9));
        check_few((size_t)atoi(field[1]), (size_t)atoi(field[2]), (size_t)atoi(field[3]), (size_t)atoi(field[4]), want[0]);
    } else if (strcmp(name, "rankover") == 0) {
        numbers(field[4], want);
        assert_true(near(td_stat_rank_over_p((size_t)atoi(field[1]), (size_t)atoi(field[2]), (size_t)atoi(field[3])), want[0], 1e-9));
    }
    return true;
}

static void check_table(const char *name, int at_least)
{
    static char line[65536];
    FILE *f = fopen("tests/unit/data/stats.tsv", "r");
    int n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        n += check_line(line, name);
    fclose(f);
    assert_true(n >= at_least);
}

static void test_quantiles_match_numpy(void **state)
{
    (void)state;
    check_table("quantile", 30);
    assert_true(isnan(td_stat_median(NULL, 0)));
}

static void test_hodges_lehmann_matches_scipy(void **state)
{
    (void)state;
    check_table("hl", 20);
}

static void test_shares_match_scipy(void **state)
{
    (void)state;
    check_table("share", 16);
    check_table("fisher", 6);
}

static void test_bound_of_the_maximum_matches_scipy(void **state)
{
    (void)state;
    check_table("rankover", 8);
}

/* scipy.stats.binomtest(more, more + less, alternative="greater").pvalue: a sum of binomial
 * coefficients over 2^n, which are exact here. */
static void test_t_matches_scipy(void **state)
{
    (void)state;
    check_table("t", 56);
    check_table("tlimit", 40);
    assert_true(isinf(td_stat_t_limit(0, 5)));
    assert_true(td_stat_t_p(INFINITY, 5) == 0);
}

static void test_holm_matches_statsmodels(void **state)
{
    (void)state;
    check_table("holm", 5);
}

static void test_sign_test_is_exact(void **state)
{
    (void)state;
    assert_float_equal(td_stat_sign_p(8, 0), 1.0 / 256, 1e-12);
    assert_float_equal(td_stat_sign_p(9, 2), 67.0 / 2048, 1e-12);
    assert_float_equal(td_stat_sign_p(1, 1), 0.75, 1e-12);
    assert_float_equal(td_stat_sign_p(2, 9), 2036.0 / 2048, 1e-12);
    assert_true(td_stat_sign_p(0, 0) == 1 && td_stat_sign_p(0, 5) == 1);
}

/* The interval must hold the truth as often as it says: a generator with a fixed seed, 2,000 intervals at 95 %. */
static void test_interval_covers(void **state)
{
    unsigned long long s = 88172645463325252ULL;
    int outside = 0, i, j;

    (void)state;
    for (i = 0; i < 2000; i++) {
        double x[15];
        struct td_interval r;

        for (j = 0; j < 15; j++) {
            s ^= s << 13, s ^= s >> 7, s ^= s << 17;
            x[j] = log((double)((s >> 11) + 1) * 0x1p-53); /* Laplace about zero */
            x[j] = s & 1 ? x[j] : -x[j];
        }
        r = td_stat_hodges_lehmann(x, 15, 0.05);
        outside += r.lo > 0 || r.hi < 0;
    }
    assert_in_range(outside, 60, 120); /* 5 % of 2,000 is 100; the exact level with n = 15 is 4.8 % */
}

static void test_too_few_never_reach(void **state)
{
    double x[5] = {0.2, 0.21, 0.22, 0.23, 0.24};
    struct td_interval r = td_stat_hodges_lehmann(x, 5, 0.05);

    (void)state;
    assert_false(r.reached);
    assert_int_equal(td_stat_signed_rank_need(0.05), 6);
    assert_int_equal(td_stat_signed_rank_need(0.001), 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles_match_numpy),
        cmocka_unit_test(test_hodges_lehmann_matches_scipy),
        cmocka_unit_test(test_shares_match_scipy),
        cmocka_unit_test(test_bound_of_the_maximum_matches_scipy),
        cmocka_unit_test(test_t_matches_scipy),
        cmocka_unit_test(test_holm_matches_statsmodels),
        cmocka_unit_test(test_sign_test_is_exact),
        cmocka_unit_test(test_interval_covers),
        cmocka_unit_test(test_too_few_never_reach),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
