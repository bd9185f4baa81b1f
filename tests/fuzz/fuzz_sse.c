/* fuzz_sse.c - fuzz the SSE and HTTP parsers: no crash, and the same events however the bytes are
 * cut into pieces.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_main.h"
#include "wire/http.h"
#include "wire/sse.h"

static void collect(void *arg, const struct td_sse_event *ev)
{
    td_buf_addf(arg, "%d%s:", ev->error, ev->name);
    td_buf_add(arg, ev->data, ev->len);
    td_buf_addc(arg, '\n');
}

static void add_body(void *arg, const char *bytes, size_t n)
{
    td_buf_add(arg, bytes, n);
}

static void run(const uint8_t *data, size_t n, size_t piece, struct td_buf *events, struct td_buf *body)
{
    struct td_sse s;
    struct td_http h;
    size_t i;

    td_sse_init(&s, collect, events);
    td_http_init(&h, n & 1, add_body, body);
    for (i = 0; i < n; i += piece) {
        td_sse_feed(&s, (const char *)data + i, n - i < piece ? n - i : piece);
        td_http_feed(&h, (const char *)data + i, n - i < piece ? n - i : piece);
    }
    td_sse_release(&s);
    td_http_release(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct td_buf events[2] = {TD_BUF_INIT(1 << 24), TD_BUF_INIT(1 << 24)}, body[2] = {TD_BUF_INIT(1 << 24), TD_BUF_INIT(1 << 24)};
    int i;

    run(data, n, n + 1, &events[0], &body[0]);
    run(data, n, 1 + n % 7, &events[1], &body[1]);
    if (events[0].len != events[1].len || body[0].len != body[1].len ||
        memcmp(td_buf_str(&events[0]), td_buf_str(&events[1]), events[0].len) ||
        memcmp(td_buf_str(&body[0]), td_buf_str(&body[1]), body[0].len))
        abort();
    for (i = 0; i < 2; i++) {
        td_buf_release(&events[i]);
        td_buf_release(&body[i]);
    }
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/sse", 20000)
