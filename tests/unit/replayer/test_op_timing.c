/* test_op_timing.c - in which order two builds are timed.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

/* The processes are the test's. */
#include "replayer/device_condition.c"
#include "replayer/op_timing.c"

#define MOST 4096

static struct { char who[MOST]; bool cold[MOST]; int n; } samples;
static struct td_build_process builds[2] = {{.opt = {.provider = "cpu"}}, {.opt = {.provider = "cpu"}}}; /* baseline, candidate */

int td_build_process_restart(struct td_build_process *r, struct td_error *err)
{
    (void)r;
    (void)err;
    samples.who[samples.n++] = '|';
    return TD_OK;
}

int td_build_process_prepare(struct td_build_process *r, const struct td_op_call *op, struct td_error *err)
{
    (void)r;
    (void)op;
    (void)err;
    return TD_OK;
}

int td_build_process_forget(struct td_build_process *r, struct td_error *err)
{
    (void)r;
    (void)err;
    return TD_OK;
}

/* Who runs twice in a row takes half the time, as one whose weights are in the caches does. */
int td_build_process_time(struct td_build_process *r, uint32_t iterations, bool cold, int64_t *ns, struct td_error *err)
{
    const char who = r == &builds[0] ? 'b' : 'c';

    (void)err;
    assert_true(samples.n < MOST);
    *ns = (int64_t)iterations * (samples.n && samples.who[samples.n - 1] == who ? 500000 : 1000000);
    samples.cold[samples.n] = cold;
    samples.who[samples.n++] = who;
    return TD_OK;
}

/* How often is the build first of a pair, in the hot series? */
static int first_in_pairs(char who)
{
    int n = 0, in_start = 0;

    for (int i = 0; i < samples.n; i++) {
        in_start = samples.who[i] == '|' ? 0 : in_start + 1;
        n += in_start > 2 && in_start % 2 && !samples.cold[i] && samples.who[i] == who;
    }
    return n;
}

static void no_build_runs_twice_in_a_row(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct td_op_call op = {0};
        const cJSON *hot, *pair;
        cJSON *out = NULL;

        memset(&samples, 0, sizeof samples);
        assert_int_equal(td_op_timing_measure(&builds[0], &builds[1], &op, seed, &out, NULL), TD_OK);
        for (int i = 1; i < samples.n; i++)
            assert_true(samples.who[i] == '|' || samples.who[i] != samples.who[i - 1]);
        hot = cJSON_GetObjectItemCaseSensitive(out, "hot");
        assert_int_equal(cJSON_GetArraySize(hot), TD_OP_TIMING_STARTS * TD_OP_TIMING_PAIRS);
        cJSON_ArrayForEach(pair, hot)
            assert_true(cJSON_GetArrayItem(pair, 0)->valuedouble == cJSON_GetArrayItem(pair, 1)->valuedouble);
        cJSON_Delete(out);
    }
}

static void each_is_first_in_half_of_the_starts(void **state)
{
    struct td_op_call op = {0};
    cJSON *out = NULL;
    int candidate_first = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        memset(&samples, 0, sizeof samples);
        assert_int_equal(td_op_timing_measure(&builds[0], &builds[1], &op, seed, &out, NULL), TD_OK);
        cJSON_Delete(out);
        /* the first start also chooses the number of runs, in two samples more of each */
        assert_in_range(first_in_pairs('b') - first_in_pairs('c') + 100, 98, 102);
        candidate_first += samples.who[2] == 'c';
    }
    assert_in_range(candidate_first, 3, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_build_runs_twice_in_a_row), cmocka_unit_test(each_is_first_in_half_of_the_starts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
