/* test_markdown.c - no text from outside is markup in Markdown. (e2e/232 has a renderer confirm
 * it.) SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "report/markdown.h"

#define UNSEEN "\xE2\x80\x8B"

static void check(void (*append)(const char *, size_t, struct td_buf *), const char *text,
                  const char *expected)
{
    struct td_buf out = TD_BUF_INIT(1 << 16);

    append(text, 200, &out);
    assert_string_equal(td_buf_str(&out), expected);
    td_buf_release(&out);
}

static void prose_is_escaped(void **state)
{
    (void)state;
    check(td_markdown_text, "plain words, 1.5 %", "plain words, 1.5 %");
    check(td_markdown_text, "a|b `c` *d* _e_ [f] ~g~ !h \\",
          "a\\|b \\`c\\` \\*d\\* \\_e\\_ \\[f\\] \\~g\\~ \\!h \\\\");
    check(td_markdown_text, "<b>&amp;", "&lt;b&gt;&amp;amp;");
    check(td_markdown_text, "two\nlines", "two\\\\nlines");
    check(td_markdown_text, "- item", "\\- item");
    check(td_markdown_text, "  + item", "\\+ item");
    check(td_markdown_text, "12. item", "12\\. item");
    check(td_markdown_text, "0.98", "0.98");
    check(td_markdown_text, "== a", "\\== a");
    check(td_markdown_text, "", "");
}

static void nobody_is_notified_and_nothing_is_linked(void **state)
{
    (void)state;
    check(td_markdown_text, "@team", "@" UNSEEN "team");
    check(td_markdown_text, "see #12", "see \\#" UNSEEN "12");
    check(td_markdown_text, "http://x", "http:" UNSEEN "//x");
    check(td_markdown_text, "www.x.org", "www" UNSEEN ".x.org");
    check(td_markdown_html, "<i>@team & #1", "&lt;i&gt;@" UNSEEN "team &amp; #" UNSEEN "1");
}

static void a_code_span_ends_where_it_should(void **state)
{
    (void)state;
    check(td_markdown_code, "@a #1 *b*", "`@a #1 *b*`");
    check(td_markdown_code, "a`b", "`` a`b ``");
    check(td_markdown_code, "```", "```` ``` ````");
    check(td_markdown_code, "", "");
}

/* A cell ends at a pipe that an even number of backslashes stands before. */
static void a_pipe_in_a_code_span_ends_no_cell(void **state)
{
    (void)state;
    check(td_markdown_code, "a|b", "`a\\|b`");
    check(td_markdown_code, "a\\|b", "`a\\\\\\|b`");
    check(td_markdown_code, "a\\\\|b", "`a\\\\\\|b`");
}

static void a_block_of_commands_ends_where_it_should(void **state)
{
    struct td_buf out = TD_BUF_INIT(1 << 16);

    (void)state;
    td_markdown_block("echo\n```", 200, "  ", &out);
    assert_string_equal(td_buf_str(&out), "  ````sh\n  echo\\n```\n  ````\n");
    td_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prose_is_escaped),
        cmocka_unit_test(nobody_is_notified_and_nothing_is_linked),
        cmocka_unit_test(a_code_span_ends_where_it_should),
        cmocka_unit_test(a_pipe_in_a_code_span_ends_no_cell),
        cmocka_unit_test(a_block_of_commands_ends_where_it_should),
    };

    return cmocka_run_group_tests_name("markdown", tests, NULL, NULL);
}
