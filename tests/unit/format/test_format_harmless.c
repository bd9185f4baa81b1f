/* test_format_harmless.c - the list of what is kept without text, and sentences about errors.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "format/harmless.h"
#include "format/secret_names.h"

static void test_order(void **state)
{
    (void)state;
    assert_true(td_harmless_sorted()); /* a look-up would miss what stands at the wrong place */
    assert_int_equal(td_harmless_member("model"), TD_HARMLESS_TEXT);
    assert_int_equal(td_harmless_member("seed"), TD_HARMLESS_NUMBER);
    assert_int_equal(td_harmless_member("see"), TD_HARMLESS_NO);
    assert_int_equal(td_harmless_member("seeds"), TD_HARMLESS_NO);
    assert_true(td_harmless_header("content-TYPE", 12));
    assert_false(td_harmless_header("Content-Typ", 11));
    assert_false(td_harmless_header("Content-Types", 13));
    assert_true(td_harmless_event("ping", 4));
    assert_false(td_harmless_event("", 0));
    assert_true(td_harmless_metric_label("le", 2));
    assert_false(td_harmless_reason("OK\0x", 4));
}

static bool keeps_header(const char *name, const char *value, bool sent)
{
    return td_harmless_header_value(name, strlen(name), value, strlen(value), sent);
}

static void test_header_values(void **state)
{
    (void)state;
    assert_true(keeps_header("Content-Type", "text/event-stream; charset=utf-8", false));
    assert_false(keeps_header("Content-Type", "text/plain; boundary=Alice", false));
    assert_true(keeps_header("Date", "Mon, 23 Nov 2026 20:30:00 GMT", false));
    assert_false(keeps_header("Date", "by Alice", false));
    assert_false(keeps_header("Content-Length", "12345678901", false));
    assert_true(keeps_header("Host", "alice:8000", true));
    assert_false(keeps_header("Host", "alice:8000", false));
    assert_true(keeps_header("x-request-id", "td-1f-2", false));
    assert_false(keeps_header("x-request-id", "by Alice", false));
    assert_false(keeps_header("Server", "\xc3\xa9", false));
    assert_true(keeps_header("Server", "", false));
}

static bool keeps(enum td_harmless kind, const char *s)
{
    return td_harmless_string(kind, s, strlen(s));
}

static void test_strings(void **state)
{
    (void)state;
    assert_true(keeps(TD_HARMLESS_LABEL, "assistant"));
    assert_false(keeps(TD_HARMLESS_LABEL, "Alice"));
    assert_true(keeps(TD_HARMLESS_ID, "cmpl-1_a:/b+c@d.e"));
    assert_false(keeps(TD_HARMLESS_ID, "two words"));
    assert_true(keeps(TD_HARMLESS_NUMBER, "NaN"));
    assert_false(keeps(TD_HARMLESS_NUMBER, "1"));
    assert_true(keeps(TD_HARMLESS_TOKEN, "token_id:17"));
    assert_false(keeps(TD_HARMLESS_TOKEN, "token_id:17a"));
    assert_false(keeps(TD_HARMLESS_TOKEN, "token_id:"));
    assert_false(keeps(TD_HARMLESS_NAME, "NaN"));
    assert_false(keeps(TD_HARMLESS_NO, "assistant"));
    assert_false(td_harmless_number(TD_HARMLESS_NAME));
    assert_true(td_harmless_number(TD_HARMLESS_ID));
}

static void check_sentence(const char *in, const char *want)
{
    char s[200];

    strcpy(s, in);
    td_harmless_sentence(s, strlen(s));
    assert_string_equal(s, want);
}

static void test_sentences(void **state)
{
    (void)state;
    check_sentence("HTTP 500: EngineCore met Alice, 12345", "HTTP 500: EngineCore *** *****, *****");
    check_sentence("unknown field max_tokens in Bob's", "unknown field max_tokens in ***'s");
    check_sentence("Out of range float values are not JSON compliant: nan", "Out of range float values are not JSON compliant: nan");
    check_sentence("a\\u0041b\\n\\\"c\xc3\xa9\\", "a\\u002a*\\/\\/***\\");
    check_sentence("", "");
}

static bool secret(const char *name)
{
    return td_secret_name(name, strlen(name));
}

static void test_secret_names(void **state)
{
    static const char *const yes[] = {"key", "--api-key", "OPENAI_API_KEY", "apiKey", "hf_token", "aws_access_key_id", "AWSSecretAccessKey", "passphrase",
                                      "credentials", "Authorization", "sessionCookies", "pat", "x.auth.token", "ssl-keyfile-password", "X-Amz-Credential",
                                      "api_keys", "jwt", "sig", "proxy_auth"},
                            *const no[] = {"", "max_tokens", "tokenizer", "token_ids", "keyboard", "monkey", "path", "cache_salt", "model", "n_keep",
                                           "request_id_nonce", "authors", "time_to_first_token_seconds", "spatial", "-", "passage"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!secret(yes[i]))
            fail_msg("%s is a secret's name", yes[i]);
    for (i = 0; i < sizeof no / sizeof *no; i++)
        if (secret(no[i]))
            fail_msg("%s is no secret's name", no[i]);
    assert_true(td_secret_header("X-Auth-User", 11));
    assert_true(td_secret_header("Key-Id", 6));
    assert_false(td_secret_header("X-Request-Id", 12));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order), cmocka_unit_test(test_header_values), cmocka_unit_test(test_strings), cmocka_unit_test(test_sentences), cmocka_unit_test(test_secret_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
