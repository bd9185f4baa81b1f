/* test_sse.c - server-sent events and HTTP messages, cut at every place.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/http.h"
#include "wire/sse.h"

static void collect(void *arg, const struct td_sse_event *ev)
{
    td_buf_addf(arg, "%s[", ev->error ? "E" : ev->name);
    td_buf_add(arg, ev->data, ev->len);
    td_buf_adds(arg, "]");
}

/* Feed in pieces of `piece` bytes, return what came out. */
static void sse_is(const char *in, size_t n, size_t piece, const char *want)
{
    struct td_buf out = TD_BUF_INIT(1 << 20);
    struct td_sse s;
    size_t i;

    td_sse_init(&s, collect, &out);
    for (i = 0; i < n; i += piece)
        td_sse_feed(&s, in + i, n - i < piece ? n - i : piece);
    assert_string_equal(td_buf_str(&out), want);
    td_sse_release(&s);
    td_buf_release(&out);
}

static void events_are_split_anywhere(void **state)
{
    static const char in[] = "\xEF\xBB\xBF: ping\n\ndata: {\"a\":1}\n\ndata:x\r\ndata: y\r\n\r\nevent: end\rdata: [DONE]\r\r"
                             "error: {\"code\":500}\n\nid: 7\nretry: 5\ndata\n\ndata: rest";
    size_t piece;

    (void)state;
    for (piece = 1; piece < sizeof in; piece++)
        sse_is(in, sizeof in - 1, piece, "[{\"a\":1}][x\ny]end[[DONE]]E[{\"code\":500}][]");
}

static void unfinished_event_is_pending(void **state)
{
    struct td_buf out = TD_BUF_INIT(1 << 20);
    struct td_sse s;

    (void)state;
    td_sse_init(&s, collect, &out);
    td_sse_feed(&s, "data: a\n\n", 9);
    assert_int_equal(td_sse_pending(&s), 0);
    td_sse_feed(&s, "data: b\n", 8);
    assert_true(td_sse_pending(&s) > 0);
    assert_int_equal(s.events, 1);
    td_sse_release(&s);
    td_buf_release(&out);
}

static void oversized_event_is_dropped_and_the_next_kept(void **state)
{
    struct td_buf out = TD_BUF_INIT(1 << 20);
    struct td_sse s;
    char block[65536];
    size_t i;

    (void)state;
    memset(block, 'x', sizeof block);
    td_sse_init(&s, collect, &out);
    td_sse_feed(&s, "data: ", 6);
    for (i = 0; i <= TD_SSE_MAX_EVENT / sizeof block; i++)
        td_sse_feed(&s, block, sizeof block);
    td_sse_feed(&s, "\n\ndata: ok\n\n", 12);
    assert_string_equal(td_buf_str(&out), "[ok]");
    assert_int_equal(s.dropped, 1);
    td_sse_release(&s);
    td_buf_release(&out);
}

static void add_body(void *arg, const char *bytes, size_t n)
{
    td_buf_add(arg, bytes, n);
}

static void http_is(const char *in, size_t n, bool request, int status, const char *body, bool complete, bool closed)
{
    size_t piece;

    for (piece = 1; piece <= n; piece++) {
        struct td_buf out = TD_BUF_INIT(1 << 20);
        struct td_http h;
        size_t i;

        td_http_init(&h, request, add_body, &out);
        for (i = 0; i < n; i += piece)
            td_http_feed(&h, in + i, n - i < piece ? n - i : piece);
        assert_int_equal(h.status, status);
        assert_string_equal(td_buf_str(&out), body);
        assert_int_equal(td_http_complete(&h, closed), complete);
        td_http_release(&h);
        td_buf_release(&out);
    }
}
#define HTTP(in, status, body, complete, closed) http_is(in, sizeof in - 1, false, status, body, complete, closed)

static void http_bodies(void **state)
{
    (void)state;
    HTTP("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello+more", 200, "hello", true, true);
    HTTP("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nT: 1\r\n\r\n", 200, "hello world",
         true, true);
    HTTP("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\ncontent-length:0\r\n\r\n", 404, "", true, true);
    HTTP("HTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end", true, true);
    HTTP("HTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end", false, false);
    HTTP("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", 200, "hel", false, true);
    HTTP("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", 200, "hel", false, true);
}

static void http_nonsense_is_named(void **state)
{
    static const char *const bad[] = {"SSH-2.0-x\r\n", "HTTP/1.1 20\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
                                      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                                      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct td_buf out = TD_BUF_INIT(1 << 20);
        struct td_http h;

        td_http_init(&h, false, add_body, &out);
        td_http_feed(&h, bad[i], strlen(bad[i]));
        assert_int_equal(h.state, TD_HTTP_BAD);
        assert_true(strlen(h.bad) > 10);
        td_http_release(&h);
        td_buf_release(&out);
    }
}

static void http_request(void **state)
{
    (void)state;
    http_is("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 67, true, 0, "{}", true, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_split_anywhere), cmocka_unit_test(unfinished_event_is_pending),
        cmocka_unit_test(oversized_event_is_dropped_and_the_next_kept), cmocka_unit_test(http_bodies),
        cmocka_unit_test(http_nonsense_is_named), cmocka_unit_test(http_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
