/* test_beside.c - a function in a thread of its own.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common/beside.h"

struct work { pthread_t main, by; atomic_int told; int result; };

static void compute(void *arg)
{
    struct work *w = arg;

    w->by = pthread_self();
    w->result = 7;
}

/* Ends only when it was told of. */
static void wait_to_be_told(void *arg)
{
    struct work *w = arg;

    while (atomic_load(&w->told) < 2)
        usleep(1000);
    compute(w);
}

static void tell(void *ctx)
{
    struct work *w = ctx;

    assert_true(pthread_equal(w->main, pthread_self()));
    atomic_fetch_add(&w->told, 1);
}

static void it_runs_elsewhere(void **state)
{
    struct work w = {.main = pthread_self()};
    struct td_beside t;

    (void)state;
    td_beside_start(&t, compute, &w);
    td_beside_wait(&t, NULL, NULL);
    assert_int_equal(w.result, 7);
    assert_false(pthread_equal(w.main, w.by));
    td_beside_wait(&t, tell, &w); /* nothing runs any more */
    assert_int_equal(atomic_load(&w.told), 0);
}

static void who_waits_is_called(void **state)
{
    struct work w = {.main = pthread_self()};
    struct td_beside t;

    (void)state;
    td_beside_start(&t, wait_to_be_told, &w);
    td_beside_wait(&t, tell, &w);
    assert_int_equal(w.result, 7);
    assert_true(atomic_load(&w.told) >= 2);
}

static void nothing_is_waited_for(void **state)
{
    struct td_beside t = {0};

    (void)state;
    td_beside_wait(&t, tell, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_runs_elsewhere), cmocka_unit_test(who_waits_is_called),
                                       cmocka_unit_test(nothing_is_waited_for)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
