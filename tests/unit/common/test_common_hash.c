/* test_common_hash.c - hashes that xxHash's own tools give, and their spelling.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The values are those of the Python module xxhash 3 (libxxhash by its author): xxh3_64_hexdigest, xxh3_128_hexdigest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/hash.h"

static void check(const void *data, size_t n, uint64_t h64, const char *h128)
{
    char hex[TD_HASH_HEX];

    assert_true(td_hash64(data, n) == h64);
    td_hash_hex(td_hash_bytes(data, n), hex);
    assert_string_equal(hex, h128);
}

static void test_values(void **state)
{
    char long_one[1000];

    (void)state;
    memset(long_one, 'a', sizeof long_one);
    check("", 0, 0x2d06800538d394c2ULL, "99aa06d3014798d86001c324468d497f");
    check("tapedeck", 8, 0x2540dd63e32a5059ULL, "e937d4629fe0269ca4c95d8399e255b4");
    check(long_one, sizeof long_one, 0xb3e7af627147db7cULL, "b01da365eddaa29cb3e7af627147db7c");
}

static void test_spelling(void **state)
{
    struct td_hash h, again;
    char hex[TD_HASH_HEX];

    (void)state;
    h = td_hash_bytes("x", 1);
    td_hash_hex(h, hex);
    assert_int_equal(strlen(hex), 32);
    assert_int_equal(td_hash_parse(hex, &again), TD_OK);
    assert_true(td_hash_eq(h, again) && !td_hash_is_zero(h));
    assert_int_equal(td_hash_parse("00000000000000000000000000000000", &again), TD_OK);
    assert_true(td_hash_is_zero(again));
    assert_int_equal(td_hash_parse(NULL, &again), TD_EINVAL);
    assert_int_equal(td_hash_parse("", &again), TD_EINVAL);
    assert_int_equal(td_hash_parse("0000000000000000000000000000000", &again), TD_EINVAL);
    assert_int_equal(td_hash_parse("0000000000000000000000000000000G", &again), TD_EINVAL);
    assert_int_equal(td_hash_parse("000000000000000000000000000000000", &again), TD_EINVAL);
}

static void test_pieces(void **state)
{
    static const char text[] = "the same bytes, whatever the pieces";
    struct td_hash_pieces *p = NULL;
    size_t i, step;

    (void)state;
    assert_true(td_hash_eq(td_hash_pieces_end(&p), td_hash_bytes("", 0)));
    for (step = 1; step < sizeof text; step += 4) {
        for (i = 0; i < sizeof text; i += step)
            assert_int_equal(td_hash_pieces_add(&p, text + i, step < sizeof text - i ? step : sizeof text - i), TD_OK);
        assert_true(td_hash_eq(td_hash_pieces_end(&p), td_hash_bytes(text, sizeof text)));
        assert_null(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_spelling), cmocka_unit_test(test_pieces)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
