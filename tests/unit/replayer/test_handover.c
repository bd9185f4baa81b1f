/* test_handover.c - what one thread hands to the next.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common/beside.h"
#include "replayer/handover.h"

static int things[1000];

/* Two queues in a ring, as the stages of a replay are: few things go round and round. */
struct ring { struct td_handover there, back; int sum; atomic_int told; };

static void add_up(void *arg)
{
    struct ring *r = arg;
    int *x;

    while ((x = td_handover_take(&r->there, NULL, NULL))) {
        r->sum += *x;
        td_handover_put(&r->back, x);
    }
}

static void each_comes_once_and_in_order(void **state)
{
    struct ring r = {.sum = 0};
    struct td_beside t;
    int i, came = 0;

    (void)state;
    td_handover_init(&r.there);
    td_handover_init(&r.back);
    for (i = 0; i < 1000; i++)
        things[i] = i;
    assert_true(td_beside_try(&t, add_up, &r));
    for (i = 0; i < 1000; i++) {
        if (i - came == TD_HANDOVER_MAX)
            assert_ptr_equal(td_handover_take(&r.back, NULL, NULL), &things[came++]);
        td_handover_put(&r.there, &things[i]);
    }
    td_handover_close(&r.there);
    td_beside_wait(&t, NULL, NULL);
    assert_int_equal(r.sum, 999 * 1000 / 2);
    while (came < 1000)
        assert_ptr_equal(td_handover_take(&r.back, NULL, NULL), &things[came++]);
    td_handover_release(&r.there);
    td_handover_release(&r.back);
}

static void a_closed_one_gives_what_is_left(void **state)
{
    struct td_handover h;

    (void)state;
    td_handover_init(&h);
    td_handover_put(&h, &things[0]);
    td_handover_close(&h);
    assert_ptr_equal(td_handover_take(&h, NULL, NULL), &things[0]);
    assert_null(td_handover_take(&h, NULL, NULL));
    assert_null(td_handover_take(&h, NULL, NULL));
    td_handover_release(&h);
}

/* Ends only when it was told of. */
static void give_late(void *arg)
{
    struct ring *r = arg;

    while (atomic_load(&r->told) < 2)
        usleep(1000);
    td_handover_put(&r->back, &things[1]);
}

static void tell(void *ctx)
{
    atomic_fetch_add(&((struct ring *)ctx)->told, 1);
}

static void who_waits_is_called(void **state)
{
    struct ring r = {.sum = 0};
    struct td_beside t;

    (void)state;
    td_handover_init(&r.back);
    assert_true(td_beside_try(&t, give_late, &r));
    assert_ptr_equal(td_handover_take(&r.back, tell, &r), &things[1]);
    assert_true(atomic_load(&r.told) >= 2);
    td_beside_wait(&t, NULL, NULL);
    td_handover_release(&r.back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_comes_once_and_in_order), cmocka_unit_test(a_closed_one_gives_what_is_left),
                                       cmocka_unit_test(who_waits_is_called)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
