/* test_uncompress.c - how much a compressed body may stand for. What servers send is in tests/e2e/505, and what they
 * could send in tests/fuzz/fuzz_uncompress.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "wire/uncompress.h"

enum { MIB = 1 << 20 };

static void count(void *arg, const char *text, size_t n)
{
    (void)text;
    *(int64_t *)arg += (int64_t)n;
}

/* A frame of zstd of n bytes, all zero or without any order. The caller frees. */
static void *frame_of(size_t n, bool random, size_t *len)
{
    char *raw = calloc(1, n), *out = malloc(ZSTD_compressBound(n));
    uint64_t x = 1;
    size_t i;

    for (i = 0; random && i < n; i++) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
        raw[i] = (char)(x >> 56);
    }
    *len = ZSTD_compress(out, ZSTD_compressBound(n), raw, n, 1);
    free(raw);
    return out;
}

static int feed(struct td_uncompress *u, const void *bytes, size_t n, int64_t *seen)
{
    return td_uncompress_feed(u, bytes, n, count, seen);
}

static void codings_have_names(void **state)
{
    (void)state;
    assert_int_equal(td_coding_of(""), TD_CODING_NONE);
    assert_int_equal(td_coding_of("Identity"), TD_CODING_NONE);
    assert_int_equal(td_coding_of("x-gzip"), TD_CODING_GZIP);
    assert_int_equal(td_coding_of("BR"), TD_CODING_BR);
    assert_int_equal(td_coding_of("gzip, br"), TD_CODING_UNKNOWN);
    assert_true(td_coding_is_read(TD_CODING_ZSTD));
    assert_false(td_coding_is_read(TD_CODING_UNKNOWN));
}

static void few_bytes_stand_for_a_mebibyte(void **state)
{
    struct td_uncompress *u;
    int64_t seen = 0;
    size_t n;
    void *z = frame_of(MIB, false, &n);

    (void)state;
    assert_true(n * TD_UNCOMPRESS_MAX_RATIO < MIB); /* so it is the floor that allows it */
    assert_int_equal(td_uncompress_new(TD_CODING_ZSTD, &u), TD_OK);
    assert_true(td_uncompress_is_whole(u)); /* nothing came */
    assert_int_equal(feed(u, z, n, &seen), TD_OK);
    assert_int_equal(seen, MIB);
    assert_true(td_uncompress_is_whole(u));
    assert_int_equal(feed(u, z, n, &seen), TD_ELIMIT); /* and for no more */
    assert_true(seen <= 2 * MIB);
    assert_false(td_uncompress_is_whole(u));
    n = (size_t)seen;
    assert_int_equal(feed(u, z, 1, &seen), TD_ELIMIT);
    assert_int_equal(seen, n); /* it takes no more */
    td_uncompress_free(u);
    free(z);
}

static void many_bytes_stand_for_no_more_than_the_maximum(void **state)
{
    struct td_uncompress *u;
    int64_t seen = 0, i;
    size_t n;
    void *z = frame_of(MIB, true, &n);

    (void)state;
    assert_int_equal(td_uncompress_new(TD_CODING_ZSTD, &u), TD_OK);
    for (i = 0; i < TD_UNCOMPRESS_MAX_BYTES / MIB; i++)
        assert_int_equal(feed(u, z, n, &seen), TD_OK);
    assert_int_equal(feed(u, z, n, &seen), TD_ELIMIT);
    assert_int_equal(seen, TD_UNCOMPRESS_MAX_BYTES);
    assert_true(td_uncompress_memory(u) < 4 * MIB);
    td_uncompress_free(u);
    free(z);
}

static void what_is_not_there_yet_is_not_whole(void **state)
{
    struct td_uncompress *u;
    int64_t seen = 0;
    size_t n;
    void *z = frame_of(100, true, &n);

    (void)state;
    assert_int_equal(td_uncompress_new(TD_CODING_ZSTD, &u), TD_OK);
    assert_int_equal(feed(u, z, n - 1, &seen), TD_OK);
    assert_false(td_uncompress_is_whole(u));
    assert_int_equal(feed(u, (char *)z + n - 1, 1, &seen), TD_OK);
    assert_true(td_uncompress_is_whole(u));
    assert_int_equal(seen, 100);
    assert_int_equal(feed(u, "no frame", 8, &seen), TD_EPROTO);
    assert_false(td_uncompress_is_whole(u));
    td_uncompress_free(u);
    free(z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codings_have_names), cmocka_unit_test(few_bytes_stand_for_a_mebibyte),
        cmocka_unit_test(many_bytes_stand_for_no_more_than_the_maximum), cmocka_unit_test(what_is_not_there_yet_is_not_whole)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
