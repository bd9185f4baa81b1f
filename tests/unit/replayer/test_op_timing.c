/* test_op_timing.c - in which order two builds are timed.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The processes are the test's. */
#include "replayer/device_condition.c"
#include "replayer/op_timing.c"

#define MOST 4096

static struct { char who[MOST]; bool cold[MOST]; int n; } samples;
static const struct td_op_call *fails; /* this op's third start crashes */
static volatile sig_atomic_t stop;
static int stop_after = -1;            /* so many samples a signal comes */
static struct td_build_process builds[2] = {{.opt = {.provider = "cpu"}}, {.opt = {.provider = "cpu"}}}; /* baseline, candidate */

/* A process that was started has any CPU. */
static void begin_process(struct td_build_process *r)
{
    cpu_set_t all;

    r->sock = 0;
    if (r->proc.pid > 0 && !sched_getaffinity(0, sizeof all, &all))
        assert_int_equal(sched_setaffinity(r->proc.pid, sizeof all, &all), 0);
}

int td_build_process_restart(struct td_build_process *r, struct td_error *err)
{
    (void)err;
    begin_process(r);
    samples.who[samples.n++] = '|';
    return TD_OK;
}

int td_build_process_prepare(struct td_build_process *r, const struct td_op_call *op, struct td_error *err)
{
    int restarts = 0;

    if (r->sock < 0)
        begin_process(r);
    for (int i = 0; i < samples.n; i++)
        restarts += samples.who[i] == '|';
    if (op != fails || restarts != 2 * 3)
        return TD_OK;
    r->sock = -1;
    return td_fail(err, TD_ECRASH, "crashed");
}

int td_build_process_forget(struct td_build_process *r, struct td_error *err)
{
    (void)r;
    (void)err;
    return TD_OK;
}

static void expect_one_cpu(void)
{
    cpu_set_t of[2];

    for (int i = 0; i < 2; i++)
        assert_int_equal(sched_getaffinity(builds[i].proc.pid, sizeof of[i], &of[i]), 0);
    assert_int_equal(CPU_COUNT(&of[0]), 1);
    assert_true(CPU_EQUAL(&of[0], &of[1]));
}

/* Who runs twice in a row takes half the time, as one whose weights are in the caches does. */
int td_build_process_time(struct td_build_process *r, uint32_t iterations, bool cold, int64_t *ns, struct td_error *err)
{
    const char who = r == &builds[0] ? 'b' : 'c';

    (void)err;
    assert_true(samples.n < MOST);
    if (builds[0].proc.pid > 0)
        expect_one_cpu();
    stop = stop_after >= 0 && samples.n >= stop_after;
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

static cJSON *measure(const struct td_op_call *call, int64_t op)
{
    struct td_op_timed timed = {.call = call, .op = op};

    memset(&samples, 0, sizeof samples);
    td_op_timing_measure(&builds[0], &builds[1], &timed, 1, NULL, NULL);
    assert_non_null(timed.found);
    assert_null(cJSON_GetObjectItemCaseSensitive(timed.found, "starts_of"));
    return timed.found;
}

static void no_build_runs_twice_in_a_row(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct td_op_call op = {0};
        const cJSON *hot, *pair;
        cJSON *out = measure(&op, (int64_t)seed);

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
    int candidate_first = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        cJSON_Delete(measure(&op, (int64_t)seed));
        /* the first start also chooses the number of runs, in two samples more of each */
        assert_in_range(first_in_pairs('b') - first_in_pairs('c') + 100, 98, 102);
        candidate_first += samples.who[2] == 'c';
    }
    assert_in_range(candidate_first, 3, 17);
}

static void count_start(void *ctx, int start, int starts)
{
    assert_int_equal(start, (*(int *)ctx)++);
    assert_int_equal(starts, TD_OP_TIMING_STARTS_SHARED);
}

/* On a GPU the starts are new processes, of which all ops share each; one that crashes is left out, and the others stay. */
static void ops_share_the_starts_of_a_gpu(void **state)
{
    struct td_op_call calls[3] = {0};
    struct td_op_timed timed[3];
    int restarts = 0, told = 0;

    (void)state;
    memset(&samples, 0, sizeof samples);
    memset(timed, 0, sizeof timed);
    for (int i = 0; i < 3; i++)
        timed[i] = (struct td_op_timed){.call = &calls[i], .op = 40 + i};
    builds[0].opt.provider = builds[1].opt.provider = "cuda";
    fails = &calls[1];
    td_op_timing_measure(&builds[0], &builds[1], timed, 3, count_start, &told);
    assert_int_equal(told, TD_OP_TIMING_STARTS_SHARED);
    fails = NULL;
    builds[0].opt.provider = builds[1].opt.provider = "cpu";
    for (int i = 0; i < samples.n; i++) {
        restarts += samples.who[i] == '|';
        assert_true(!i || samples.who[i] == '|' || samples.who[i] != samples.who[i - 1]);
    }
    assert_int_equal(restarts, 2 * TD_OP_TIMING_STARTS_SHARED + 2); /* both again after the crash */
    assert_null(timed[1].found);
    assert_int_equal(timed[1].err.code, TD_ECRASH);
    for (int i = 0; i < 3; i += 2) {
        const cJSON *hot = cJSON_GetObjectItemCaseSensitive(timed[i].found, "hot");

        assert_int_equal(cJSON_GetArraySize(hot), TD_OP_TIMING_STARTS_SHARED * TD_OP_TIMING_PAIRS);
        assert_int_equal(cJSON_GetObjectItemCaseSensitive(timed[i].found, "starts_of")->valueint, 40);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(timed[i].found, "start")), "process");
        cJSON_Delete(timed[i].found);
    }
}

/* Provider torch stays in its process, so its starts are no samples that all ops may share, whatever the other build is. */
static void both_have_to_start_anew(void **state)
{
    struct td_op_call op = {0};
    cJSON *t;

    (void)state;
    builds[0].opt.provider = "torch";
    builds[1].opt.provider = "cuda";
    t = measure(&op, 1);
    builds[0].opt.provider = builds[1].opt.provider = "cpu";
    assert_int_equal(cJSON_GetObjectItemCaseSensitive(t, "starts")->valueint, TD_OP_TIMING_STARTS);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(t, "start")), "places");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(t, "clock")), "cuda-event");
    cJSON_Delete(t);
}

static int restarts_so_far(void)
{
    int n = 0;

    for (int i = 0; i < samples.n; i++)
        n += samples.who[i] == '|';
    return n;
}

/* Where no op is left that can be timed, no process is started for it. */
static void nothing_starts_once_all_failed(void **state)
{
    struct td_op_call call = {0};
    struct td_op_timed timed = {.call = &call};

    (void)state;
    memset(&samples, 0, sizeof samples);
    fails = &call;
    td_op_timing_measure(&builds[0], &builds[1], &timed, 1, NULL, NULL);
    fails = NULL;
    assert_null(timed.found);
    assert_int_equal(timed.err.code, TD_ECRASH);
    assert_int_equal(restarts_so_far(), 2 * 3);
}

/* A signal ends it between two ops, though no build is waited for then; what came of the ops is not complete. */
static void a_signal_ends_it(void **state)
{
    struct td_op_call calls[3] = {0};
    struct td_op_timed timed[3];

    (void)state;
    memset(&samples, 0, sizeof samples);
    memset(timed, 0, sizeof timed);
    for (int i = 0; i < 3; i++)
        timed[i] = (struct td_op_timed){.call = &calls[i], .op = i};
    builds[0].opt.provider = builds[1].opt.provider = "cuda";
    builds[0].opt.stop = builds[1].opt.stop = &stop;
    stop_after = 8; /* in the first op */
    td_op_timing_measure(&builds[0], &builds[1], timed, 3, NULL, NULL);
    builds[0].opt.provider = builds[1].opt.provider = "cpu";
    builds[0].opt.stop = builds[1].opt.stop = NULL;
    stop_after = -1;
    assert_int_equal(restarts_so_far(), 2);
    for (int i = 0; i < 3; i++)
        assert_null(timed[i].found);
    assert_int_equal(timed[1].err.code, TD_EINTR);
    assert_int_equal(timed[2].err.code, TD_EINTR);
}

/* A process that is gone, as those here are, has pid 0, and 0 is whoever asks. */
static void the_replayer_keeps_its_cpus(void **state)
{
    struct td_op_call op = {0};
    cpu_set_t before, after;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    cJSON_Delete(measure(&op, 1));
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

/* The builds share a CPU also once an op has ended one of their processes. */
static void a_crash_leaves_one_cpu(void **state)
{
    struct td_op_call calls[2] = {0};
    struct td_op_timed timed[2] = {{.call = &calls[0]}, {.call = &calls[1]}};

    (void)state;
    memset(&samples, 0, sizeof samples);
    for (int i = 0; i < 2; i++) {
        builds[i].opt.provider = "cuda";
        builds[i].proc.pid = fork();
        if (!builds[i].proc.pid) {
            alarm(60); /* where this program fails, it ends by itself */
            pause();
        }
    }
    fails = &calls[0];
    td_op_timing_measure(&builds[0], &builds[1], timed, 2, NULL, NULL);
    fails = NULL;
    for (int i = 0; i < 2; i++) {
        kill(builds[i].proc.pid, SIGKILL);
        waitpid(builds[i].proc.pid, NULL, 0);
        builds[i].proc.pid = 0;
        builds[i].opt.provider = "cpu";
    }
    assert_null(timed[0].found);
    assert_non_null(timed[1].found);
    cJSON_Delete(timed[1].found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_replayer_keeps_its_cpus), cmocka_unit_test(no_build_runs_twice_in_a_row), cmocka_unit_test(each_is_first_in_half_of_the_starts),
                                       cmocka_unit_test(ops_share_the_starts_of_a_gpu), cmocka_unit_test(a_crash_leaves_one_cpu), cmocka_unit_test(both_have_to_start_anew),
                                       cmocka_unit_test(nothing_starts_once_all_failed), cmocka_unit_test(a_signal_ends_it)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
