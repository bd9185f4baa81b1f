/* test_judge_place.c - patterns of rows and columns, and chance that must not be taken for one.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "replayer/judge_place.h"

#define N 384

static struct td_judge_set find(const bool *bad, int64_t n)
{
    struct td_judge_set s;

    td_judge_set_find(bad, n, &s);
    return s;
}

static void none_and_all(void **state)
{
    bool bad[N] = {false};
    struct td_judge_set s = find(bad, N);

    (void)state;
    assert_int_equal(s.bad, 0);
    assert_int_equal(s.first, -1);
    memset(bad, true, sizeof bad);
    s = find(bad, N);
    assert_int_equal(s.bad, N);
    assert_int_equal(s.period, 0);
    s = find(bad, 0);
    assert_int_equal(s.all, 0);
    s = find(bad, 1);
    assert_int_equal(s.last, 0);
}

static void periods(void **state)
{
    static const struct { int64_t period, from, to; } cases[] = {
        {128, 64, 127}, {32, 5, 5}, {8, 0, 3}, {48, 16, 31}, {96, 95, 95}, {2, 1, 1}};
    size_t c;

    (void)state;
    for (c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        bool bad[4 * N];
        struct td_judge_set s;
        int64_t i;

        for (i = 0; i < 4 * N; i++)
            bad[i] = i % cases[c].period >= cases[c].from && i % cases[c].period <= cases[c].to;
        s = find(bad, 4 * N);
        assert_int_equal(s.period, cases[c].period);
        assert_int_equal(s.from, cases[c].from);
        assert_int_equal(s.to, cases[c].to);
    }
}

/* A range says more than a period that holds the range. */
static void ranges(void **state)
{
    bool bad[N] = {false};
    struct td_judge_set s;

    (void)state;
    memset(bad + 64, true, 64);
    s = find(bad, N);
    assert_int_equal(s.period, 0);
    assert_int_equal(s.first, 64);
    assert_int_equal(s.last, 127);
    memset(bad, false, sizeof bad);
    memset(bad + 250, true, N - 250);
    s = find(bad, N);
    assert_int_equal(s.period, 0);
    assert_int_equal(s.first, 250);
}

/* Of 2000 axes with as many bad columns as you like, anywhere, a handful may look periodic. */
static void chance(void **state)
{
    uint64_t x = 1;
    int round, found = 0;

    (void)state;
    for (round = 0; round < 2000; round++) {
        bool bad[N] = {false};
        int want = 2 + round % 60, k;

        for (k = 0; k < want; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            bad[(x >> 33) % N] = true;
        }
        found += find(bad, N).period > 0;
    }
    assert_true(found < 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_and_all),
        cmocka_unit_test(periods),
        cmocka_unit_test(ranges),
        cmocka_unit_test(chance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
