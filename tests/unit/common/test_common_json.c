/* test_common_json.c - what cJSON would damage survives: NUL, large integers, NaN, bad UTF-8.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"

static cJSON *parse(const char *s)
{
    return td_json_parse(s, strlen(s), NULL);
}

static char *print(const cJSON *v, bool pretty)
{
    struct td_buf b = TD_BUF_INIT(1 << 20);
    struct td_jw w;

    td_jw_init(&w, &b, pretty);
    td_jw_value(&w, NULL, v);
    return td_buf_detach(&b, NULL);
}

/* What goes in comes out to the letter. */
static void same(const char *in, const char *want)
{
    cJSON *v = parse(in);
    char *out;

    assert_non_null(v);
    out = print(v, false);
    assert_string_equal(out, want ? want : in);
    free(out);
    cJSON_Delete(v);
}

static void test_roundtrip(void **state)
{
    (void)state;
    same("{\"a\":[1,2.5,-3,true,false,null,\"x\"],\"b\":{}}", NULL);
    same("\"a\\u0000b\\u0001\\\"\\\\\\n\"", NULL);
    same("[9007199254740992,9007199254740993,-9223372036854775808,18446744073709551615]",
         "[9007199254740992,9007199254740993,-9223372036854775808,18446744073709551615]");
    same("[NaN,Infinity,-Infinity]", "[\"NaN\",\"Infinity\",\"-Infinity\"]");
    same("\"\xff\xe4\xbd\xa0\xc0\x80\"", "\"\xef\xbf\xbd\xe4\xbd\xa0\xef\xbf\xbd\xef\xbf\xbd\"");
    same("\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\"");
    same("[0.1,1e300,1.7976931348623157e308,5e-324]", "[0.1,1e+300,1.7976931348623157e+308,4.94066e-324]");
    same(" [ ] \n", "[]");
}

static void test_values(void **state)
{
    cJSON *v = parse("{\"n\":9007199254740993,\"s\":\"12\",\"x\":NaN,\"i\":\"-Infinity\",\"t\":\"a\\u0000b\",\"f\":1.5,\"b\":true,\"o\":{}}");
    struct td_buf b = TD_BUF_INIT(100);

    (void)state;
    assert_true(td_json_get_i64(v, "n", 0) == 9007199254740993LL);
    assert_int_equal(td_json_get_i64(v, "s", 0), 12);
    assert_int_equal(td_json_get_i64(v, "o", -7), -7);
    assert_int_equal(td_json_get_i64(NULL, "n", -7), -7);
    assert_true(isnan(td_json_get_num(v, "x", 0)));
    assert_true(isinf(td_json_get_num(v, "i", 0)));
    assert_true(td_json_get_num(v, "f", 0) == 1.5);
    assert_true(td_json_get_bool(v, "b", false));
    assert_int_equal(td_json_get_bytes(v, "t", &b), TD_OK);
    assert_int_equal(b.len, 3);
    assert_memory_equal(b.data, "a\0b", 3);
    assert_int_equal(td_json_get_bytes(v, "n2", &b), TD_ENOTFOUND);
    td_buf_release(&b);
    cJSON_Delete(v);
}

static void test_bad(void **state)
{
    static const char *const bad[] = {"", "{", "[1", "{\"a\":1}x", "nul", "[1 2]", "\"a", "{\"a\" 1}", "{a:1}"};
    struct td_error err = {0};
    char deep[600];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_null(parse(bad[i]));
    assert_null(td_json_parse("[1]\0", 4, &err)); /* a NUL outside a string */
    assert_int_equal(err.code, TD_ECORRUPT);
    td_error_clear(&err);
    memset(deep, '[', 300);
    memset(deep + 300, ']', 300);
    assert_null(td_json_parse(deep, 600, &err));
    assert_int_equal(err.code, TD_ELIMIT);
}

static void test_writer(void **state)
{
    struct td_buf b = TD_BUF_INIT(1000), small = TD_BUF_INIT(10);
    struct td_jw w;

    (void)state;
    td_jw_init(&w, &b, false);
    td_jw_obj(&w, NULL);
    td_jw_str(&w, "s", "a\0\xff", 3);
    td_jw_i64(&w, "big", INT64_MAX);
    td_jw_num(&w, "nan", NAN);
    td_jw_num(&w, "n", 0.1);
    td_jw_arr(&w, "a");
    td_jw_null(&w, NULL);
    td_jw_cstr(&w, NULL, NULL);
    td_jw_bool(&w, NULL, true);
    td_jw_end(&w);
    td_jw_end(&w);
    assert_string_equal(td_buf_str(&b), "{\"s\":\"a\\u0000\xef\xbf\xbd\",\"big\":\"9223372036854775807\",\"nan\":\"NaN\",\"n\":0.1,\"a\":[null,null,true]}");
    td_jw_init(&w, &small, false);
    td_jw_cstr(&w, NULL, "more than ten bytes");
    assert_true(small.failed);
    td_buf_release(&b);
    td_buf_release(&small);
}

static void test_writer_integers_and_escapes(void **state)
{
    struct td_buf b = TD_BUF_INIT(1000);
    struct td_jw w;

    (void)state;
    td_jw_init(&w, &b, false);
    td_jw_arr(&w, NULL);
    td_jw_i64(&w, NULL, 0);
    td_jw_i64(&w, NULL, -10);
    td_jw_i64(&w, NULL, 1LL << 53);
    td_jw_i64(&w, NULL, INT64_MIN);
    td_jw_cstr(&w, NULL, "");
    td_jw_cstr(&w, NULL, "ab\"cd\\e\nf\x7fg\xc3\xa9h");
    td_jw_end(&w);
    assert_string_equal(td_buf_str(&b), "[0,-10,9007199254740992,\"-9223372036854775808\",\"\",\"ab\\\"cd\\\\e\\nf\\u007fg\xc3\xa9h\"]");
    td_buf_release(&b);
}

/* A string is read eight bytes at a time: each byte, at each place of these. */
static void test_each_byte_in_a_string(void **state)
{
    (void)state;
    for (int byte = 1; byte < 256; byte++)
        for (size_t at = 0; at < 20; at++) {
            char text[] = "[\"abcdefghijklmnopqrst\",\"u\"]";
            const char *read;
            cJSON *tree;

            if (byte == '"' || byte == '\\')
                continue;
            text[2 + at] = (char)byte;
            tree = td_json_parse(text, strlen(text), NULL);
            assert_non_null(tree);
            assert_int_equal(cJSON_GetArraySize(tree), 2);
            read = cJSON_GetStringValue(tree->child);
            assert_int_equal(strlen(read), byte < 0x80 ? 20 : 22);
            assert_memory_equal(read, text + 2, at);
            assert_int_equal((unsigned char)read[at], byte < 0x80 ? byte : 0xEF);
            assert_string_equal(read + at + (byte < 0x80 ? 1 : 3), text[2 + at + 1] == '"' ? "" : &"bcdefghijklmnopqrst"[at]);
            cJSON_Delete(tree);
        }
    for (size_t at = 0; at < 20; at++) {
        char text[] = "[\"abcdefghijklmnopqrst\",\"u\"]";
        cJSON *tree;

        text[2 + at] = '"'; /* the string ends there */
        assert_null(td_json_parse(text, strlen(text), NULL));
        text[2 + at] = '\\';
        text[3 + at] = '"'; /* or does not */
        tree = at < 19 ? td_json_parse(text, strlen(text), NULL) : NULL;
        assert_true(at == 19 || (tree && strlen(cJSON_GetStringValue(tree->child)) == 19));
        cJSON_Delete(tree);
    }
}

static void test_utf8(void **state)
{
    struct td_buf b = TD_BUF_INIT(100);

    (void)state;
    assert_int_equal(td_utf8_seq("a", 1), 1);
    assert_int_equal(td_utf8_seq("\xc3\xa9", 2), 2);
    assert_int_equal(td_utf8_seq("\xe4\xbd\xa0", 3), 3);
    assert_int_equal(td_utf8_seq("\xf0\x9f\x98\x80", 4), 4);
    assert_int_equal(td_utf8_seq("\xf0\x9f\x98", 3), -1);
    assert_int_equal(td_utf8_seq("\xc0\x80", 2), 0);     /* overlong */
    assert_int_equal(td_utf8_seq("\xed\xa0\x80", 3), 0); /* surrogate */
    assert_int_equal(td_utf8_seq("\xf4\x90\x80\x80", 4), 0); /* beyond U+10FFFF */
    assert_int_equal(td_utf8_clean("a\xff\xfe", 3, &b), 2);
    assert_string_equal(b.data, "a\xef\xbf\xbd\xef\xbf\xbd");
    td_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roundtrip), cmocka_unit_test(test_values), cmocka_unit_test(test_bad), cmocka_unit_test(test_writer), cmocka_unit_test(test_writer_integers_and_escapes),
        cmocka_unit_test(test_utf8), cmocka_unit_test(test_each_byte_in_a_string),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
