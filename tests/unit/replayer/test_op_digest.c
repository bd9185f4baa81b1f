/* test_op_digest.c - a recorded output that is known by its digest: found in a run of either build, or not.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "replayer/op_digest.h"

#define N 4

static float was[N] = {1, 2, 3, 4}, other[N] = {1, 2, 3, 5};
static struct td_op_item it;

static void start(float *first, float *second, float *baseline)
{
    memset(&it, 0, sizeof it);
    it.loaded = true;
    it.rec.has_out = true;
    it.rec.out.blob = td_hash_bytes(was, sizeof was);
    it.call.out.size_bytes = sizeof was;
    it.candidate.repeats = 2;
    it.candidate.images[0] = first;
    it.candidate.images[1] = second;
    if (baseline) {
        it.baseline.repeats = 1;
        it.baseline.images[0] = baseline;
    }
    td_op_digest_find(&it);
}

static void test_found(void **state)
{
    (void)state;
    start(was, other, NULL);
    assert_ptr_equal(it.recorded, was);
    assert_int_equal(it.digest, TD_DIGEST_EQUAL);
    start(other, was, NULL); /* the judged run is another one: the recorded output is known all the same */
    assert_ptr_equal(it.recorded, was);
    assert_int_equal(it.digest, TD_DIGEST_DIFFERS);
    start(other, other, was);
    assert_ptr_equal(it.recorded, was);
    assert_int_equal(it.digest, TD_DIGEST_DIFFERS);
}

static void test_not_found(void **state)
{
    (void)state;
    start(other, other, other);
    assert_null(it.recorded);
    assert_int_equal(it.digest, TD_DIGEST_DIFFERS);
}

static void test_no_digest(void **state)
{
    (void)state;
    start(was, was, NULL);
    it.recorded = other; /* stored: what it is counts, not what else has its hash */
    it.rec.out.stored = true;
    td_op_digest_find(&it);
    assert_ptr_equal(it.recorded, other);
    assert_int_equal(it.digest, TD_DIGEST_NONE);
    start(was, was, NULL);
    it.recorded = NULL;
    it.rec.out.blob = (struct td_hash){0, 0}; /* it could not be read */
    td_op_digest_find(&it);
    assert_null(it.recorded);
    assert_int_equal(it.digest, TD_DIGEST_NONE);
    start(was, was, NULL);
    it.recorded = NULL;
    it.candidate.repeats = 0; /* it crashed */
    td_op_digest_find(&it);
    assert_null(it.recorded);
    assert_int_equal(it.digest, TD_DIGEST_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found), cmocka_unit_test(test_not_found), cmocka_unit_test(test_no_digest)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
