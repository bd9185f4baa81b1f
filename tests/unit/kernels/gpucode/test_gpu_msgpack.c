/* test_gpu_msgpack.c - MessagePack as msgspec packs it is read to the byte; what is cut or lies about its size is refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "kernels/gpucode/msgpack.h"

static const struct packed { enum td_msgpack_kind kind; uint64_t u; const uint8_t *bytes; size_t n; } packed[] = {
#include "tests/unit/data/gpu/msgpack.h"
};
#define N (sizeof packed / sizeof *packed)

static void test_values(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < N; i++) {
        struct td_msgpack m = {packed[i].bytes, packed[i].bytes + packed[i].n}, whole = m;
        struct td_msgpack_value v;

        assert_true(td_msgpack_next(&m, &v));
        assert_int_equal(v.kind, packed[i].kind);
        assert_int_equal(v.kind == TD_MP_STR || v.kind == TD_MP_BIN || v.kind == TD_MP_EXT ? v.len : v.u, packed[i].u);
        assert_true(v.kind == TD_MP_ARRAY || v.kind == TD_MP_MAP || m.p == m.end);
        assert_true(td_msgpack_skip(&whole));
        assert_ptr_equal(whole.p, whole.end);
    }
}

static void test_cut(void **state)
{
    size_t i, cut;

    (void)state;
    for (i = 0; i < N; i++)
        for (cut = 0; cut < packed[i].n; cut++) {
            struct td_msgpack m = {packed[i].bytes, packed[i].bytes + cut};

            assert_false(td_msgpack_skip(&m));
            assert_true(m.p <= m.end);
        }
}

static void test_lies(void **state)
{
    static const struct { const char *bytes; size_t n; } lies[] = {
        {"\xdd\xff\xff\xff\xff", 5}, {"\xdf\xff\xff\xff\xff", 5}, {"\xdf\x80\0\0\0\0\0\0\0", 9}, {"\xdb\xff\xff\xff\xff", 5}, {"\xc6\x80\0\0\0", 5}, {"\xc1", 1},
        {"\x92\x92\x92\x92\0\0\0\0", 8}}; /* nested: each level fits, their sum does not */
    size_t i;

    (void)state;
    for (i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct td_msgpack m = {(const uint8_t *)lies[i].bytes, (const uint8_t *)lies[i].bytes + lies[i].n};

        assert_false(td_msgpack_skip(&m));
    }
}

static void test_find(void **state)
{
    static const char map[] = "\x83\xa1" "a\x92\1\2\xa1" "b\xa2hi\xa1" "c\7"; /* {"a": [1, 2], "b": "hi", "c": 7} */
    struct td_msgpack m = {(const uint8_t *)map, (const uint8_t *)map + sizeof map - 1}, at;
    struct td_msgpack_value v, head;

    (void)state;
    assert_true(td_msgpack_next(&m, &head));
    assert_int_equal(head.u, 3);
    at = m;
    assert_int_equal(td_msgpack_find(&at, head.u, "b", &v), 1);
    assert_true(td_msgpack_is(&v, "hi"));
    assert_false(td_msgpack_is(&v, "h"));
    at = m;
    assert_int_equal(td_msgpack_find(&at, head.u, "c", &v), 1);
    assert_int_equal(v.u, 7);
    at = m;
    assert_int_equal(td_msgpack_find(&at, head.u, "d", &v), 0);
    assert_ptr_equal(at.p, at.end);
    at = m;
    assert_int_equal(td_msgpack_find(&at, 4, "d", &v), -1); /* it says four, three are there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_cut), cmocka_unit_test(test_lies), cmocka_unit_test(test_find)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
