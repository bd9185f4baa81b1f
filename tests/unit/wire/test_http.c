/* test_http.c - chunks in one piece and byte by byte: the message must be the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/http.h"

#define HEAD "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

static void keep(void *arg, const char *bytes, size_t n)
{
    td_buf_add(arg, bytes, n);
}

/* Feed a message in pieces of `step` bytes, each in memory of its own. */
static void feed(struct td_http *h, struct td_buf *body, const char *text, size_t step)
{
    const size_t n = strlen(text);
    size_t at, part;
    char *copy;

    td_buf_init(body, 1 << 20);
    td_http_init(h, false, keep, body);
    for (at = 0; at < n; at += part) {
        part = n - at < step ? n - at : step;
        copy = malloc(part);
        memcpy(copy, text + at, part);
        td_http_feed(h, copy, part);
        free(copy);
    }
}

static void check(const char *text, enum td_http_state state, const char *body)
{
    const size_t n = strlen(text);
    struct td_http h;
    struct td_buf got;
    size_t step;

    for (step = 1; step <= n; step++) {
        feed(&h, &got, text, step);
        assert_int_equal(h.state, state);
        assert_string_equal(td_buf_str(&got), body);
        td_http_release(&h);
        td_buf_release(&got);
    }
}

/* Bytes in the middle of a body may begin with a text about HTTP: that is no request. */
static void a_request_line_ends_with_its_version(void **state)
{
    static const struct { const char *line; bool good; } LINES[] = {
        {"POST /v1/completions HTTP/1.1\r\n\r\n", true},  {"POST /v1/completions HTTP/1.0 \t\r\n\r\n", true},
        {"GET / HTTP/1.1\n\n", true},                     {"POST / HTTP/1.1 is a request line\r\n\r\n", false},
        {"POST / HTTP/1.1\", \"stream\": true}\r\n\r\n", false}, {"POST / HTTP/1.\r\n\r\n", false},
        {"POST / HTTP/2.0\r\n\r\n", false}};
    struct td_http h;
    struct td_buf body;

    (void)state;
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        td_buf_init(&body, 1 << 20);
        td_http_init(&h, true, keep, &body);
        td_http_feed(&h, LINES[i].line, strlen(LINES[i].line));
        assert_int_equal(h.state, LINES[i].good ? TD_HTTP_DONE : TD_HTTP_BAD);
        td_http_release(&h);
        td_buf_release(&body);
    }
}

static void chunks_are_the_same_in_any_pieces(void **state)
{
    (void)state;
    check(HEAD "3\r\nabc\r\n0\r\n\r\n", TD_HTTP_DONE, "abc");
    check(HEAD "3\nabc\n0\n\n", TD_HTTP_DONE, "abc");
    check(HEAD "0000000003\r\nabc\r\nA\r\n0123456789\r\n00\r\n\r\n", TD_HTTP_DONE, "abc0123456789");
    check(HEAD "00000003\r\nabc\r\n0\r\nX: y\r\n\r\n", TD_HTTP_DONE, "abc");
    check(HEAD "3;x=y\r\nabc\r\n3 \r\ndef\r\n0\r\n\r\n", TD_HTTP_DONE, "abcdef");
    check(HEAD "b\r\n0\r\n\r\n3\r\nxyz\r\n0\r\n\r\n", TD_HTTP_DONE, "0\r\n\r\n3\r\nxyz");
    check(HEAD "3\r\nabcd\r\n0\r\n\r\n", TD_HTTP_BAD, "abc");
    check(HEAD "3\r\nabc\r\r\n0\r\n\r\n", TD_HTTP_BAD, "abc");
    check(HEAD "\r\n", TD_HTTP_BAD, "");
    check(HEAD "g\r\n", TD_HTTP_BAD, "");
    check(HEAD "-3\r\nabc", TD_HTTP_BAD, "");
    check(HEAD "3\r\r\nabc\r\n0\r\n\r\n", TD_HTTP_BAD, "");
    check(HEAD "ffffffff\r\nabc", TD_HTTP_CHUNK_DATA, "abc");
    check(HEAD "ffffffffffff\r\nabc", TD_HTTP_BAD, "");
    check(HEAD "3\r\nabc", TD_HTTP_CHUNK_END, "abc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_request_line_ends_with_its_version), cmocka_unit_test(chunks_are_the_same_in_any_pieces)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
