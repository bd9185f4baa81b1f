/* test_event_blocks.c - records reach both receivers, whole and in order.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "wire/event_blocks.h"

struct got {
    int64_t soon, late, bytes, fail_at;
    bool ahead;               /* `late` got what `soon` had not */
    pthread_t thread;
    atomic_bool *began, *go;  /* of the first record for `late`: say so, and wait; NULL: not */
};

static void check(const struct td_wire *rec, int64_t n)
{
    size_t i;

    assert_int_equal(rec->t_ns, 1000 + n);
    assert_int_equal(rec->stream, n % 7);
    assert_int_equal(rec->dir, n % 2 ? TD_WIRE_SENT : TD_WIRE_RECEIVED);
    for (i = 0; i < rec->len; i += rec->len / 3 + 1)
        assert_int_equal(rec->data[i], (uint8_t)n);
}

static int get_soon(void *arg, const struct td_wire *rec, struct td_error *err)
{
    struct got *g = arg;

    check(rec, g->soon++);
    g->thread = pthread_self();
    return g->fail_at && g->soon == g->fail_at ? td_fail(err, TD_ELIMIT, "enough") : TD_OK;
}

static int get_late(void *arg, const struct td_wire *rec, struct td_error *err)
{
    struct got *g = arg;

    (void)err;
    check(rec, g->late++);
    g->ahead |= g->late > g->soon;
    if (g->began && g->late == 1) {
        atomic_store(g->began, true);
        while (!atomic_load(g->go))
            td_clock_sleep_until(td_clock_mono_ns() + TD_NS_PER_MS);
    }
    g->bytes += (int64_t)rec->len;
    return TD_OK;
}

static void put(struct td_event_blocks *b, int64_t n, size_t len)
{
    uint8_t *data = malloc(len + 1);

    assert_non_null(data);
    memset(data, (uint8_t)n, len + 1);
    td_event_blocks_put(b, &(struct td_wire){.t_ns = 1000 + n, .stream = (uint32_t)(n % 7), .dir = n % 2 ? TD_WIRE_SENT : TD_WIRE_RECEIVED,
                                             .data = data, .len = len});
    free(data);
}

static struct td_event_blocks *make(struct got *g, td_event_blocks_fn *soon, td_event_blocks_fn *late)
{
    struct td_event_blocks *b;
    struct td_error err = {0};

    assert_int_equal(td_event_blocks_new(soon, late, g, &b, &err), TD_OK);
    return b;
}

/* Of all lengths, also empty and longer than a block, over several drains. */
static void test_whole_and_in_order(void **state)
{
    static const size_t lengths[] = {0, 1, 300, 65536, 5, ((size_t)1 << 20) - 24, (size_t)3 << 20, 17};
    struct got g = {0};
    struct td_event_blocks *b = make(&g, get_soon, get_late);
    struct td_error err = {0};
    int64_t n = 0, bytes = 0;
    int round;

    (void)state;
    for (round = 0; round < 5; round++) {
        int i;

        for (i = 0; i < 400; i++) {
            const size_t len = i % 50 ? 200 : lengths[(i / 50 + round) % 8];

            put(b, n++, len);
            bytes += (int64_t)len;
        }
        assert_int_equal(td_event_blocks_drain(b, &err), TD_OK);
        assert_int_equal(g.soon, n);
        assert_int_equal(g.late, n);
        assert_int_equal(g.bytes, bytes);
        assert_false(g.ahead);
        assert_false(pthread_equal(g.thread, pthread_self()));
    }
    td_event_blocks_free(b);
}

/* The first receiver does not wait for a drain; the second one does, unless too much waits. */
static void test_late_waits(void **state)
{
    struct got g = {0};
    struct td_event_blocks *b = make(&g, NULL, get_late);
    struct td_error err = {0};
    int64_t n = 0, bytes = 0;

    (void)state;
    g.soon = INT64_MAX;
    for (; bytes <= (int64_t)TD_EVENT_BLOCKS_LATE * 2; bytes += 1 << 20)
        put(b, n++, 1 << 20);
    td_clock_sleep_until(td_clock_mono_ns() + 20 * TD_NS_PER_MS); /* nothing depends on it */
    assert_int_equal(td_event_blocks_drain(b, &err), TD_OK);
    assert_int_equal(g.late, n);
    td_event_blocks_free(b);
}

/* What is put while `late` is at work is first for `soon`: blocks are given back behind both. */
static void test_late_stays_behind(void **state)
{
    atomic_bool began = false, go = false;
    struct got g = {.began = &began, .go = &go};
    struct td_event_blocks *b = make(&g, get_soon, get_late);
    struct td_error err = {0};
    int64_t n = 0, bytes = 0;

    (void)state;
    for (; bytes <= (int64_t)TD_EVENT_BLOCKS_LATE; bytes += 1 << 20)
        put(b, n++, 1 << 20);
    while (!atomic_load(&began))
        td_clock_sleep_until(td_clock_mono_ns() + TD_NS_PER_MS);
    for (; bytes <= (int64_t)TD_EVENT_BLOCKS_LATE * 3 / 2; bytes += 1 << 20)
        put(b, n++, 1 << 20);
    atomic_store(&go, true);
    assert_int_equal(td_event_blocks_drain(b, &err), TD_OK);
    assert_int_equal(g.late, n);
    assert_false(g.ahead);
    td_event_blocks_free(b);
}

/* A failure is told by each drain, and whoever puts goes on. */
static void test_failure(void **state)
{
    struct got g = {.fail_at = 3};
    struct td_event_blocks *b = make(&g, get_soon, get_late);
    int64_t n;
    int i;

    (void)state;
    for (n = 0; n < 10; n++)
        put(b, n, 100);
    for (i = 0; i < 2; i++) {
        struct td_error err = {0};

        assert_int_equal(td_event_blocks_drain(b, &err), TD_ELIMIT);
        assert_string_equal(err.msg, "enough");
    }
    assert_int_equal(g.soon, 3);
    for (; n < 300; n++) /* more than may wait, were it not dropped */
        put(b, n, 1 << 20);
    td_event_blocks_free(b);
}

static void test_nobody_and_nothing(void **state)
{
    struct got g = {0};
    struct td_event_blocks *b = make(&g, NULL, NULL);
    struct td_error err = {0};

    (void)state;
    put(b, 0, 10);
    assert_int_equal(td_event_blocks_drain(b, &err), TD_OK);
    put(b, 1, 10); /* dropped */
    td_event_blocks_free(b);
    td_event_blocks_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole_and_in_order), cmocka_unit_test(test_late_waits), cmocka_unit_test(test_late_stays_behind),
                                       cmocka_unit_test(test_failure), cmocka_unit_test(test_nobody_and_nothing)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
