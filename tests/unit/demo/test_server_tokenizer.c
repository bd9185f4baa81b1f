/* test_server_tokenizer.c - byte-level tokens, and text from a stream of them as Python's incremental decoder gives it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "demo/server/tokenizer.h"
#include "tests/unit/tiny_checkpoint.h"

static int open_text(const char *json, struct td_tokenizer **t, struct td_error *err)
{
    char dir[] = "/tmp/td-tokenizer-XXXXXX", path[TD_PATH_MAX];
    int rc;

    assert_non_null(mkdtemp(dir));
    assert_int_equal(td_fs_join(path, sizeof path, dir, "tokenizer.json", NULL), 0);
    assert_int_equal(td_fs_write_atomic(path, json, strlen(json), NULL), 0);
    rc = td_tokenizer_open(t, dir, err);
    td_fs_remove_tree(dir, NULL);
    return rc;
}

static struct td_tokenizer *open_tiny(void)
{
    struct td_buf json = TD_BUF_INIT(1 << 20);
    struct td_tokenizer *t = NULL;

    tiny_tokenizer_json(&json);
    assert_int_equal(open_text(td_buf_str(&json), &t, NULL), 0);
    td_buf_release(&json);
    return t;
}

static void test_token_0_is_an_exclamation_mark(void **state)
{
    struct td_tokenizer *t = open_tiny();
    size_t n;

    (void)state;
    assert_int_equal(td_tokenizer_size(t), 264);
    assert_string_equal(td_tokenizer_spelling(t, 0), "!");
    assert_int_equal(td_tokenizer_bytes(t, 188, &n)[0], 0); /* the first byte that is not printable */
    assert_int_equal(n, 1);
    assert_string_equal(td_tokenizer_spelling(t, 188), "\xC4\x80");
    assert_int_equal(td_tokenizer_special(t, "<|endoftext|>"), 256);
    assert_int_equal(td_tokenizer_special(t, "!"), -1);
    td_tokenizer_close(t);
}

static void test_every_byte_comes_back(void **state)
{
    struct td_tokenizer *t = open_tiny();
    char text[256];
    int32_t ids[256];

    (void)state;
    for (int i = 0; i < 256; i++)
        text[i] = (char)i;
    assert_int_equal(td_tokenizer_encode(t, text, 256, ids), 256);
    for (int i = 0; i < 256; i++) {
        size_t n;
        assert_int_equal((unsigned char)td_tokenizer_bytes(t, ids[i], &n)[0], i);
    }
    td_tokenizer_close(t);
}

static void test_special_words_are_one_token(void **state)
{
    struct td_tokenizer *t = open_tiny();
    int32_t ids[32];

    (void)state;
    assert_int_equal(td_tokenizer_encode(t, "a<|user|><|use", 14, ids), 7);
    assert_int_equal(ids[1], 257);
    assert_true(td_tokenizer_is_special(t, 257));
    assert_int_equal(ids[2], '<' - 33);
    td_tokenizer_close(t);
}

static void test_what_it_cannot_read_is_named(void **state)
{
    static const struct { const char *json; int code; const char *says; } cases[] = {
        {"{", TD_ECORRUPT, ""},
        {"{\"model\":{}}", TD_ECORRUPT, "model.vocab"},
        {"{\"model\":{\"vocab\":{\"a\":0}}}", TD_EUNSUPPORTED, "1 tokens"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", TD_EUNSUPPORTED, "merges"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_tokenizer *t = NULL;
        struct td_error err = {0};
        assert_int_equal(open_text(cases[i].json, &t, &err), cases[i].code);
        assert_null(t);
        assert_non_null(strstr(err.msg, cases[i].says));
    }
}

/* want: what codecs.getincrementaldecoder("utf-8")("replace") gives for all bytes, without the final flush */
static void test_text_of_a_stream(void **state)
{
    static const struct { const char *bytes, *want; } cases[] = {
        {"a\xE2\x82\xAC" "b", "a\xE2\x82\xAC" "b"},
        {"\xFF\xC3(", "\xEF\xBF\xBD\xEF\xBF\xBD("},
        {"\xE2\x82" "A", "\xEF\xBF\xBD" "A"},
        {"\xF0\x9F\x92", ""},
        {"\xF0\x9F\x98\x80\xED\xA0\x80x", "\xF0\x9F\x98\x80\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDx"},
        {"\xE2\xE2\x82\xAC", "\xEF\xBF\xBD\xE2\x82\xAC"},
        {"\xF0\x9F\xF0\x9F\x98\x80\xC3\xA9", "\xEF\xBF\xBD\xF0\x9F\x98\x80\xC3\xA9"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 1; piece <= 8; piece++) { /* one byte at a time, and in longer pieces */
            struct td_detok d = {0};
            struct td_buf out = TD_BUF_INIT(1024);
            size_t n = strlen(cases[i].bytes);
            for (size_t at = 0; at < n; at += piece)
                td_detok_add(&d, cases[i].bytes + at, n - at < piece ? n - at : piece, &out);
            assert_string_equal(td_buf_str(&out), cases[i].want);
            td_buf_release(&out);
        }
}

static void test_half_a_character_is_held_back(void **state)
{
    struct td_detok d = {0};
    struct td_buf out = TD_BUF_INIT(64);

    (void)state;
    td_detok_add(&d, "\xC3", 1, &out);
    assert_int_equal(out.len, 0);
    td_detok_add(&d, "\xA9", 1, &out);
    assert_string_equal(td_buf_str(&out), "\xC3\xA9");
    td_detok_add(&d, "\0", 1, &out);
    assert_int_equal(out.len, 3);
    td_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_0_is_an_exclamation_mark), cmocka_unit_test(test_every_byte_comes_back),
        cmocka_unit_test(test_special_words_are_one_token),    cmocka_unit_test(test_what_it_cannot_read_is_named),
        cmocka_unit_test(test_text_of_a_stream),               cmocka_unit_test(test_half_a_character_is_held_back)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
