/* test_prompt_names.c - equal requests have equal names, and a name tells nothing of what was overwritten.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "recorder/prompt_names.h"

static struct td_conversation_name name_of(struct td_prompt_names *p, const char *path, const char *headers, const char *body)
{
    char whole[400];
    const int head = snprintf(whole, sizeof whole, "POST %s HTTP/1.1\r\n%sContent-Length: %zu\r\n\r\n", path, headers, strlen(body));
    struct td_conversation_name name = {"", -1};

    snprintf(whole + head, sizeof whole - (size_t)head, "%s", body);
    assert_int_equal(td_prompt_names_get(p, path, whole, strlen(whole), (size_t)head, &name), TD_OK);
    return name;
}

static struct td_prompt_names *names(const struct td_redaction *rules)
{
    struct td_prompt_names *p;

    assert_int_equal(td_prompt_names_new(rules, &p, NULL), TD_OK);
    return p;
}

static void what_is_asked_names_it(void **state)
{
    static const struct td_redaction RULES = {.no_text = false};
    struct td_prompt_names *p = names(&RULES), *other = names(&RULES);
    const struct td_conversation_name a = name_of(p, "/v1/x", "", "{\"prompt\":\"a\"}");
    struct td_conversation_name b;

    (void)state;
    assert_int_equal(a.repeat, 0);
    b = name_of(p, "/v1/x?key=1", "X-Request-Id: 7\r\n", "{ \"prompt\" : \"a\", \"cache_salt\": \"s\" }");
    assert_string_equal(b.prompt_id, a.prompt_id);
    assert_int_equal(b.repeat, 1);
    b = name_of(p, "/v1/y", "", "{\"prompt\":\"a\"}");
    assert_string_not_equal(b.prompt_id, a.prompt_id);
    assert_int_equal(b.repeat, 0);
    assert_string_not_equal(name_of(p, "/v1/x", "", "{\"prompt\":\"b\"}").prompt_id, a.prompt_id);
    assert_string_not_equal(name_of(p, "/v1/x", "", "no JSON").prompt_id, a.prompt_id);
    b = name_of(other, "/v1/x", "", "{\"prompt\":\"a\"}"); /* in another fixture */
    assert_string_equal(b.prompt_id, a.prompt_id);
    assert_int_equal(b.repeat, 0);
    td_prompt_names_free(p);
    td_prompt_names_free(other);
}

static void what_is_overwritten_does_not_count(void **state)
{
    const char *paths[] = {"prompt", NULL};
    const struct td_redaction rules = {.json_paths = paths};
    struct td_prompt_names *p = names(&rules);
    const struct td_conversation_name a = name_of(p, "/v1/x", "", "{\"prompt\":\"abc\",\"n\":1}");

    (void)state;
    assert_string_equal(name_of(p, "/v1/x", "", "{\"prompt\":\"xyz\",\"n\":1}").prompt_id, a.prompt_id);
    assert_string_not_equal(name_of(p, "/v1/x", "", "{\"prompt\":\"abcd\",\"n\":1}").prompt_id, a.prompt_id); /* lengths stay */
    assert_string_not_equal(name_of(p, "/v1/x", "", "{\"prompt\":\"abc\",\"n\":2}").prompt_id, a.prompt_id);
    td_prompt_names_free(p);
}

static void those_that_were_seen_are_counted(void **state)
{
    static const struct td_redaction RULES = {.no_text = false};
    struct td_prompt_names *p = names(&RULES);
    char body[40];
    int i;

    (void)state;
    for (i = 0; i < 3000; i++) { /* more than the table begins with */
        snprintf(body, sizeof body, "{\"prompt\":\"%d\"}", i % 1500);
        td_prompt_names_seen(p, name_of(p, "/v1/x", "", body).prompt_id);
    }
    name_of(p, "/v1/x", "", "{\"prompt\":\"its answer is lost\"}");
    assert_int_equal(name_of(p, "/v1/x", "", "{\"prompt\":\"7\"}").repeat, 2);
    td_prompt_names_seen(p, "a name of a suite");
    td_prompt_names_seen(p, "captured-0000000000000001");
    assert_int_equal(td_prompt_names_count(p), 1500);
    assert_int_equal(td_prompt_names_most(p), 2);
    td_prompt_names_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_asked_names_it), cmocka_unit_test(what_is_overwritten_does_not_count),
                                       cmocka_unit_test(those_that_were_seen_are_counted)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
