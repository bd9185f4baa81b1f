/* test_captured_keys.c - a request's keys are learned, or it is said that one may be missing. Where keys come back is
 * in tests/e2e/503-captured-keys.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "format/redact_values.h"
#include "recorder/captured_keys.h"

static struct td_redact_values values;
static struct td_captured_keys *keys;

static void start(size_t most)
{
    static const char *const HEADERS[] = {"X-Team", NULL};
    static struct td_redaction rules = {.headers = HEADERS, .values = &values};

    assert_int_equal(td_redact_values_init(&values, NULL, NULL), TD_OK);
    assert_int_equal(td_redact_values_open(&values, most, SIZE_MAX, NULL), TD_OK);
    assert_int_equal(td_captured_keys_new(&rules, &keys, NULL), TD_OK);
}

static void end(void)
{
    td_captured_keys_free(keys);
    td_redact_values_release(&values);
}

static int learn(const char *request)
{
    return td_captured_keys_learn(keys, request, strlen(request), NULL);
}

static bool is_known(const char *key)
{
    char text[200];

    snprintf(text, sizeof text, "it is %s!", key);
    return td_redact_values_apply(&values, text, strlen(text), false) == (int64_t)strlen(key);
}

static void a_key_is_known_after_its_request(void **state)
{
    (void)state;
    start(1000);
    assert_false(is_known("head-key-1"));
    assert_int_equal(learn("POST /x?a=b&api_key=query-key-1 HTTP/1.1\r\nX-Api-Key: head-key-1\r\nContent-Type: not-a-key-1\r\n"
                           "X-Team: 0123456789-0123456789-team\r\n\r\nX-Api-Key: body-key-1\r\n"),
                     TD_OK);
    assert_true(is_known("query-key-1"));
    assert_true(is_known("head-key-1"));
    assert_true(is_known("0123456789-0123456789-team")); /* it looks like one, and --redact-header names it */
    assert_false(is_known("not-a-key-1"));
    assert_false(is_known("body-key-1"));
    end();
}

static void trailers_count(void **state)
{
    (void)state;
    start(1000);
    assert_int_equal(learn("POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\n\r\n\r\r\n0\r\nX-Api-Key: last-key-1\r\n\r\n"), TD_OK);
    assert_true(is_known("last-key-1"));
    assert_int_equal(learn("POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"), TD_ETRUNCATED);
    assert_int_equal(learn("POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc\r\n0\r\n\r\n"), TD_ETRUNCATED);
    assert_int_equal(learn("POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n"), TD_ETRUNCATED);
    end();
}

static void a_part_of_a_head_is_not_enough(void **state)
{
    static const char WHOLE[] = "POST /x HTTP/1.1\r\nA: b\r\nX-Api-Key:\r\n folded-key-1\r\n\r\n";
    char part[sizeof WHOLE];
    size_t n;

    (void)state;
    for (n = 0; n < sizeof WHOLE - 1; n++) {
        start(1000);
        memcpy(part, WHOLE, n);
        part[n] = '\0';
        assert_int_equal(learn(part), TD_ETRUNCATED);
        end();
    }
    start(1000);
    assert_int_equal(learn(WHOLE), TD_OK);
    assert_true(is_known("folded-key-1"));
    end();
}

static void a_compressed_body_is_said(void **state)
{
    (void)state;
    start(1000);
    assert_int_equal(learn("POST /x HTTP/1.1\r\nContent-Encoding: gzip\r\nX-Api-Key: head-key-1\r\n\r\n"), TD_EUNSUPPORTED);
    assert_true(is_known("head-key-1"));
    assert_int_equal(learn("POST /x HTTP/1.1\r\nContent-Encoding: Identity\r\n\r\n"), TD_OK);
    end();
}

static void where_no_more_can_be_known_it_is_said(void **state)
{
    char request[200];
    int i, rc = TD_OK;

    (void)state;
    start(50);
    for (i = 0; !rc && i < 100; i++) {
        snprintf(request, sizeof request, "POST /x HTTP/1.1\r\nX-Api-Key: key-number-%d\r\n\r\n", i);
        rc = learn(request);
    }
    assert_int_equal(rc, TD_ELIMIT);
    assert_true(i > 2);
    assert_true(is_known("key-number-0"));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_known_after_its_request), cmocka_unit_test(trailers_count), cmocka_unit_test(a_part_of_a_head_is_not_enough),
        cmocka_unit_test(a_compressed_body_is_said), cmocka_unit_test(where_no_more_can_be_known_it_is_said)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
