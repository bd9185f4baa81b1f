/* test_exchange_scan.c - an exchange's line that is read in place says what a tree of it says; any other spelling is left to
 * the tree.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"
#include "format/exchange_numbers.h"
#include "format/exchange_scan.h"
#include "format/fixture.h"
#include "format/line_scan.h"

/* Is the line read in place? Then the tree says the same. */
static bool scans(const char *line)
{
    struct td_buf rest = TD_BUF_INIT(1 << 20), a = TD_BUF_INIT(1 << 20), b = TD_BUF_INIT(1 << 20);
    struct td_exchange in_place, by_tree;
    const bool read = td_exchange_scan(line, strlen(line), &rest, &in_place);
    cJSON *tree = read ? td_json_parse(line, strlen(line), NULL) : NULL;

    if (read) {
        assert_int_equal(td_exchange_read(tree, &by_tree, NULL), TD_OK);
        assert_int_equal(td_exchange_write(&in_place, &a), TD_OK);
        assert_int_equal(td_exchange_write(&by_tree, &b), TD_OK);
        assert_string_equal(a.data, b.data);
        assert_int_equal(!in_place.logprobs, !by_tree.logprobs);
        if (in_place.logprobs) /* NaN, too */
            assert_memory_equal(in_place.logprobs, by_tree.logprobs, (size_t)in_place.n_tokens * sizeof(float));
        td_exchange_release(&in_place);
        td_exchange_release(&by_tree);
    }
    cJSON_Delete(tree);
    td_buf_release(&rest);
    td_buf_release(&a);
    td_buf_release(&b);
    return read;
}

/* Each line of a recorded server is read in place. (v1-synthetic has texts that are no UTF-8.) */
static void test_golden(void **state)
{
    static const char *const FIXTURES[] = {"fixtures/golden/v1-llamacpp", "fixtures/golden/v1-vllm-gptq4", "fixtures/golden/v1-vllm-gpu"};
    size_t i, lines = 0;

    (void)state;
    for (i = 0; i < sizeof FIXTURES / sizeof *FIXTURES; i++) {
        struct td_cursor *c;
        cJSON *line;

        assert_int_equal(td_cursor_open_dir(FIXTURES[i], TD_STREAM_EXCHANGES, &c, NULL), TD_OK);
        while (td_cursor_json(c, &line, NULL) == 1) {
            struct td_exchange x;
            struct td_buf text = TD_BUF_INIT(1 << 20);

            assert_int_equal(td_exchange_read(line, &x, NULL), TD_OK);
            assert_int_equal(td_exchange_write(&x, &text), TD_OK);
            if (!scans(text.data))
                fail_msg("%s: %s", FIXTURES[i], text.data);
            td_exchange_release(&x);
            td_buf_release(&text);
            cJSON_Delete(line);
            lines++;
        }
        td_cursor_close(c);
    }
    assert_true(lines > 20);
}

#define LINE(members) "{\"stream\":1,\"n_tokens\":2," members ",\"http_status\":200}"

static void test_spellings(void **state)
{
    static const char *const READ[] = {
        LINE("\"token_ids\":[7,-1]"),
        LINE("\"token_ids\":null"),
        LINE("\"logprobs\":[-0.5,null]"),
        LINE("\"logprobs\":[\"-Infinity\",\"NaN\"]"),
        LINE("\"logprobs\":[-1.23456789012345678901,-1e-7]"),
        LINE("\"logprobs\":[-0,1000000]"),
        LINE("\"logprobs\":[-1.,-0001.5]"),
        LINE("\"logprobs\":[-.5,-0.0000000000000000000001]"),
        LINE("\"top_k\":2,\"top\":[[1,-0.5,2,-1.5],[3,null]]"),
        LINE("\"top_k\":2,\"top\":[[],[3,\"NaN\",4,-2]]"),
        LINE("\"token_text\":[\" a\",null]"),
        LINE("\"token_text\":[\"\\u0007\\n\\\"\",\"\xC3\xA9\"]"),
        LINE("\"text\":\"caf\xC3\xA9 \\\\ \\/ \\t \\u0000 end\""),
        LINE("\"text\":\"\""),
        LINE("\"events\":[[5,1],[5,0],[6,2]]"),
        LINE("\"events\":[[\"9007199254740993\",1]]"),
        LINE("\"events\":[]"),
        LINE("\"request\":{\"prompt\":\"a \\\"}],{\",\"token_ids\":[1]},\"unknown\":[[1,{\"a\":2}]]"),
        "{\"stream\":1,\"prompt_token_ids\":[1,2],\"scores\":[\"-Infinity\",-2.5],\"scores_top\":[[-1,\"-Infinity\"],[7,-0.5]]}",
    };
    static const char *const LEFT[] = {
        LINE("\"token_ids\":[7]"),
        LINE("\"token_ids\":[7,8,9]"),
        LINE("\"token_ids\":[7, 8]"),
        LINE("\"token_ids\":[7,8.0]"),
        LINE("\"token_ids\":[7,4294967296]"),
        LINE("\"token_ids\":[7,8],\"token_ids\":[7,9]"),
        LINE("\"token_ids\":null,\"token_ids\":[7,9]"),
        LINE("\"token_ids\":[7,8],\"token_ids\":null"),
        LINE("\"token_id\\u0073\":[7,8]"),
        LINE("\"logprobs\":[-0.5,2000000]"),
        LINE("\"logprobs\":[-0.5,.5]"),
        LINE("\"logprobs\":[-0.5,true]"),
        LINE("\"top\":[[1,-0.5],[3,-1]],\"top_k\":1"),
        LINE("\"top_k\":1,\"top\":[[1,-0.5,2,-1],[3,-1]]"),
        LINE("\"top_k\":1,\"top\":[[1],[3,-1]]"),
        LINE("\"top_k\":2000,\"top\":[[1,-0.5],[3,-1]]"),
        LINE("\"token_text\":[\"a\",{\"base64\":\"/w==\"}]"),
        LINE("\"token_text\":[\"a\",\"\\u0000\"]"),
        LINE("\"token_text\":[\"a\",\"\xFF\"]"),
        LINE("\"text\":\"\\ud83d\\ude00\""),
        LINE("\"text\":\"a\tb\""),
        LINE("\"text\":\"a\",\"text_base64\":\"/w==\""),
        LINE("\"events\":[[5,1],[4,1]]"),
        LINE("\"events\":[[5,3]]"),
        LINE("\"events\":[[5,1,2]]"),
        LINE("\"events\":[[4611686018427387904,1]]"),
        LINE("\"token_ids\":[7,8]") " ",
        " " LINE("\"token_ids\":[7,8]"),
        LINE("\"token_ids\":[7,8],"),
        LINE("\"token_ids\":[7,8]") "}",
        "{\"stream\":1,\"token_ids\":[7,8],\"n_tokens\":2}",
        "{\"stream\":1,\"n_tokens\":2,\"n_tokens\":3}",
        "{\"stream\":-1}",
        "{\"stream\":1,\"text\":\"a",
        "{\"stream\":1,\"events\":[[5",
        "{\"stream\":1,\"scores\":[-1],\"scores_top\":[[1,-1]]}",
        "{}", "[1]", "{", "",
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof READ / sizeof *READ; i++)
        if (!scans(READ[i]))
            fail_msg("not read in place: %s", READ[i]);
    for (i = 0; i < sizeof LEFT / sizeof *LEFT; i++)
        if (scans(LEFT[i]))
            fail_msg("read in place: %s", LEFT[i]);
}

/* The same float as by strtod, for numbers of any length. */
static void test_numbers(void **state)
{
    uint64_t bits = 88172645463325252u;
    int i;

    (void)state;
    for (i = 0; i < 200000; i++) {
        char text[64];
        double v;
        float got;

        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        v = -(double)(bits >> 11) * 0x1p-53 * (i % 3 == 0 ? 1e-9 : i % 3 == 1 ? 40 : 1e5);
        snprintf(text, sizeof text, i % 5 ? "%.*g" : "%.*e", i % 19 + 1, v);
        v = strtod(text, NULL);
        if (td_scan_logprob(text, &got) != text + strlen(text) || got != td_logprob_of(v))
            fail_msg("%s is read as %.9g", text, (double)got);
    }
}

/* The writers' numbers beyond 2^53 are strings of digits; none is longer than 18. */
static void test_integers(void **state)
{
    static const struct { const char *text; int64_t v; size_t n; } CASES[] = {
        {"12,", 12, 2}, {"-3]", -3, 2}, {"\"900719925474099300\",", 900719925474099300, 20}, {"1234567890123456789,", 0, 0},
        {"-9223372036854775808,", 0, 0}, {"\"-9223372036854775808\",", 0, 0},
        {"1.5,", 0, 0}, {"1e3,", 0, 0}, {"-,", 0, 0}, {"\"12,", 0, 0}, {",", 0, 0}, {"", 0, 0}};
    int64_t v;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *behind = td_scan_i64(CASES[i].text, &v);

        assert_int_equal(behind ? (size_t)(behind - CASES[i].text) : 0, CASES[i].n);
        if (behind)
            assert_int_equal(v, CASES[i].v);
    }
}

/* A key may hold a NUL, behind which it goes on for as long as it likes. */
static void test_key_with_a_nul(void **state)
{
    static const char HEAD[] = "{\"text\0", END[] = "\":1}";
    const size_t n = (size_t)32 << 20;
    struct td_buf rest = TD_BUF_INIT(2 * n), line = TD_BUF_INIT(2 * n);
    struct td_exchange x;

    (void)state;
    assert_non_null(td_buf_reserve(&line, n + 64));
    td_buf_add(&line, HEAD, sizeof HEAD - 1);
    memset(line.data + line.len, 'a', n);
    line.len += n;
    td_buf_adds(&line, END);
    assert_false(td_exchange_scan(td_buf_str(&line), line.len, &rest, &x));
    td_buf_release(&rest);
    td_buf_release(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_spellings), cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_integers), cmocka_unit_test(test_key_with_a_nul)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
