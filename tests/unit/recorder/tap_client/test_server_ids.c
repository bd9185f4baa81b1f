/* test_server_ids.c - rows find their exchanges by the ids that the server gave them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "recorder/tap_client/server_ids.h"

#define T 1000000000000LL /* when the answers were in flight */
#define SLACK 5000000LL

static void test_rows_come_before_their_answers(void **state)
{
    struct client_server_ids ids = {0};
    int64_t whole = client_server_ids_note(&ids, "cmpl-1f"), longer = client_server_ids_note(&ids, "cmpl-1f-0"),
            underscore = client_server_ids_note(&ids, "cmpl-1f_0"), other = client_server_ids_note(&ids, "cmpl-1f0");

    (void)state;
    assert_true(whole <= -2 && longer <= -2 && underscore <= -2 && other <= -2);
    assert_int_equal(client_server_ids_note(&ids, "cmpl-1f-0"), longer);
    assert_int_equal(client_server_ids_stream(&ids, whole, T), -1);
    assert_true(client_server_ids_add(&ids, "cmpl-1f", 7, T, T + 9));
    assert_int_equal(client_server_ids_stream(&ids, whole, T), 7);
    assert_int_equal(client_server_ids_stream(&ids, longer, T), 7);
    assert_int_equal(client_server_ids_stream(&ids, underscore, T), 7);
    assert_int_equal(client_server_ids_stream(&ids, other, T), -1); /* no part of it ends there */
    client_server_ids_release(&ids);
}

/* One id may begin as another does: the longest counts. */
static void test_the_longest_id_counts(void **state)
{
    struct client_server_ids ids = {0};
    int64_t row = client_server_ids_note(&ids, "cmpl-a-b-0");

    (void)state;
    client_server_ids_add(&ids, "cmpl", 1, T, T + 9);
    client_server_ids_add(&ids, "cmpl-a", 2, T, T + 9);
    assert_int_equal(client_server_ids_stream(&ids, row, T), 2);
    client_server_ids_add(&ids, "cmpl-a-b", 3, T, T + 9);
    assert_int_equal(client_server_ids_stream(&ids, row, T), 3);
    client_server_ids_release(&ids);
}

/* Clients may choose ids, and choose one twice; its rows are nobody's, and not those of a shorter id. */
static void test_an_id_of_two_answers_names_none(void **state)
{
    struct client_server_ids ids = {0};
    int64_t row = client_server_ids_note(&ids, "cmpl-mine-0");

    (void)state;
    client_server_ids_add(&ids, "cmpl", 1, T, T + 9);
    client_server_ids_add(&ids, "cmpl-mine", 4, T, T + 9);
    client_server_ids_add(&ids, "cmpl-mine", 5, T, T + 9);
    assert_int_equal(client_server_ids_stream(&ids, row, T), -1);
    client_server_ids_release(&ids);
}

/* A client that gave up and asks again with its own id: the rows of its first request are not the second one's. */
static void test_rows_of_another_time(void **state)
{
    struct client_server_ids ids = {0};
    int64_t row = client_server_ids_note(&ids, "cmpl-mine-0");

    (void)state;
    client_server_ids_add(&ids, "cmpl-mine", 4, T, T + 1000);
    assert_int_equal(client_server_ids_stream(&ids, row, T - SLACK - 1), -1);
    assert_int_equal(client_server_ids_stream(&ids, row, T), 4);
    assert_int_equal(client_server_ids_stream(&ids, row, T + 1000), 4);
    assert_int_equal(client_server_ids_stream(&ids, row, T + 1000 + SLACK + 1), -1);
    client_server_ids_release(&ids);
}

static void test_odd_ids(void **state)
{
    struct client_server_ids ids = {0};
    char longest[300];

    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(client_server_ids_note(&ids, ""), -1);
    assert_int_equal(ids.rows_forgotten, 0); /* there was nothing to keep */
    assert_int_equal(client_server_ids_note(&ids, longest), -1);
    assert_int_equal(ids.rows_forgotten, 1);
    assert_false(client_server_ids_add(&ids, "", 1, T, T + 9));
    assert_false(client_server_ids_add(&ids, longest, 1, T, T + 9));
    assert_int_equal(client_server_ids_stream(&ids, -1, T), -1);
    assert_int_equal(client_server_ids_stream(&ids, 3, T), -1);
    assert_int_equal(client_server_ids_stream(&ids, -2, T), -1); /* was never noted */
    assert_int_equal(client_server_ids_stream(&ids, INT64_MIN, T), -1);
    client_server_ids_release(&ids);
}

static void test_many(void **state)
{
    enum { N = 3000 };
    struct client_server_ids ids = {0};
    static int64_t row[N];
    char id[40];
    int i;

    (void)state;
    for (i = 0; i < N; i++) {
        snprintf(id, sizeof id, "chatcmpl-%d-0", i);
        row[i] = client_server_ids_note(&ids, id);
    }
    for (i = N; i--;) {
        snprintf(id, sizeof id, "chatcmpl-%d", i);
        assert_true(client_server_ids_add(&ids, id, i, T, T + 9));
    }
    for (i = 0; i < N; i++)
        assert_int_equal(client_server_ids_stream(&ids, row[i], T), i);
    client_server_ids_release(&ids);
}

/* More than are kept: the first ones stay, and the others are counted. */
static void test_too_many(void **state)
{
    enum { MOST = 1 << 18, MORE = 3 };
    struct client_server_ids ids = {0};
    int64_t last = -1;
    char id[40];

    (void)state;
    for (int i = 0; i < MOST; i++) {
        snprintf(id, sizeof id, "chatcmpl-%d-0", i);
        last = client_server_ids_note(&ids, id);
        assert_true(last <= -2);
    }
    assert_int_equal(ids.rows_forgotten, 0);
    for (int i = 0; i < MORE; i++) {
        snprintf(id, sizeof id, "chatcmpl-more-%d-0", i);
        assert_int_equal(client_server_ids_note(&ids, id), -1);
    }
    assert_int_equal(ids.rows_forgotten, MORE);
    snprintf(id, sizeof id, "chatcmpl-%d", MOST - 1);
    assert_true(client_server_ids_add(&ids, id, 5, T, T + 9));
    assert_int_equal(client_server_ids_stream(&ids, last, T), 5);
    client_server_ids_release(&ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_come_before_their_answers), cmocka_unit_test(test_the_longest_id_counts),
        cmocka_unit_test(test_an_id_of_two_answers_names_none), cmocka_unit_test(test_odd_ids),
        cmocka_unit_test(test_rows_of_another_time), cmocka_unit_test(test_many),
        cmocka_unit_test(test_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
