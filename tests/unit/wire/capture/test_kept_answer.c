/* test_kept_answer.c - what is recorded of an answer.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "wire/capture/kept_answer.h"

static char seen[4096]; /* "TIME bytes|", or "note bytes|" */
static int64_t held;

static void take(void *arg, const struct td_wire *rec)
{
    const size_t n = strlen(seen);

    (void)arg;
    if (rec->dir == TD_WIRE_NOTE)
        snprintf(seen + n, sizeof seen - n, "note %.*s|", (int)rec->len, (const char *)rec->data);
    else
        snprintf(seen + n, sizeof seen - n, "%lld %.*s|", (long long)rec->t_ns, (int)rec->len, (const char *)rec->data);
}

static struct td_kept_sink sink_of(int64_t max_held)
{
    *seen = '\0';
    held = 0;
    return (struct td_kept_sink){.put = take, .held_bytes = &held, .max_held_bytes = max_held};
}

/* Feed the answer to a request in pieces of so many bytes, from time 1 on, one apart. */
static void feed(struct td_kept_answer *a, const char *bytes, size_t n, size_t piece)
{
    size_t at, len;

    for (at = 0; at < n; at += len) {
        len = piece < n - at ? piece : n - at;
        assert_int_equal(td_kept_answer_feed(a, (int64_t)(1 + at / piece), (const uint8_t *)bytes + at, len), len);
    }
}

static void a_plain_answer_stays_as_it_came(void **state)
{
    static const char TEXT[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    struct td_kept_sink sink = sink_of(1 << 20);
    struct td_kept_answer a;

    (void)state;
    td_kept_answer_begin(&a, &sink, 7, false, true);
    feed(&a, TEXT, sizeof TEXT - 1, 20);
    assert_int_equal(a.http.state, TD_HTTP_DONE);
    td_kept_answer_end(&a, 9, true);
    assert_string_equal(seen, "1 HTTP/1.1 200 OK\r\nCon|2 tent-Length: 5\r\n\r\n|2 he|3 llo|");
    assert_int_equal(sink.counts.uncompressed, 0);
    assert_int_equal(sink.counts.bytes_replaced, 0);
    assert_int_equal(held, 0);
}

static void one_that_is_not_kept_is_read_to_its_end(void **state)
{
    static const char TEXT[] = "HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1";
    struct td_kept_sink sink = sink_of(1 << 20);
    struct td_kept_answer a;

    (void)state;
    td_kept_answer_begin(&a, &sink, 7, false, false);
    assert_int_equal(td_kept_answer_feed(&a, 1, (const uint8_t *)TEXT, sizeof TEXT - 1), sizeof TEXT - 1 - strlen("HTTP/1.1"));
    td_kept_answer_end(&a, 1, true);
    assert_string_equal(seen, "");
    assert_null(a.kind);
    assert_int_equal(sink.counts.bytes_replaced, 0);
}

/* An answer of zstd with a header that is folded, as one that has a length. Returns its length. */
static size_t compressed(char *out, size_t room)
{
    char z[100];
    const size_t n = ZSTD_compress(z, sizeof z, "hello", 5, 1);
    const int head = snprintf(out, room, "HTTP/1.1 200 OK\r\nA: b\r\ncontent-encoding : x\r\nContent-Encoding: zstd\r\nContent-Length: \r\n %zu\r\nC: d\r\n e\r\n\r\n", n);

    memcpy(out + head, z, n);
    return (size_t)head + n;
}

static void the_head_of_an_uncompressed_one_says_how_it_is_recorded(void **state)
{
    struct td_kept_sink sink = sink_of(1 << 20);
    struct td_kept_answer a;
    char text[400];
    size_t n = compressed(text, sizeof text);

    (void)state;
    memcpy(strstr(text, "Content-Length: \r\n "), "Content-Length:    ", 19); /* folded: which this parser of HTTP does not read */
    td_kept_answer_begin(&a, &sink, 7, false, true);
    feed(&a, text, n, 1000);
    td_kept_answer_end(&a, 9, true);
    assert_null(a.kind);
    assert_string_equal(seen, "note {\"uncompressed\":\"zstd\"}|1 HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\n e\r\nTransfer-Encoding: chunked\r\n\r\n|"
                              "1 5\r\nhello\r\n|9 0\r\n\r\n|");
    assert_int_equal(sink.counts.uncompressed, 1);
    assert_int_equal(sink.counts.bytes_replaced, n);
    assert_int_equal(held, 0);
}

static void without_memory_it_is_a_loss(void **state)
{
    struct td_kept_sink sink = sink_of(5000); /* less than a decoder takes */
    struct td_kept_answer a;
    char text[400];
    size_t n = compressed(text, sizeof text);

    (void)state;
    memcpy(strstr(text, "Content-Length: \r\n "), "Content-Length:    ", 19);
    td_kept_answer_begin(&a, &sink, 7, false, true);
    feed(&a, text, n, 1000);
    assert_int_equal(a.http.state, TD_HTTP_DONE); /* the next answer is found */
    assert_int_equal(held, 0);
    td_kept_answer_end(&a, 9, true);
    assert_string_equal(a.kind, TD_ERROR_UNSEEN);
    assert_non_null(strstr(a.why, "--max-memory"));
    assert_int_equal(sink.counts.no_memory, 1);
    assert_null(strstr(seen, "0\r\n\r\n"));
}

static void a_head_without_end_is_a_loss(void **state)
{
    struct td_kept_sink sink = sink_of((int64_t)8 << 20);
    struct td_kept_answer a;
    char line[1001];
    int i;

    (void)state;
    memset(line, 'x', sizeof line);
    memcpy(line, "X: ", 3);
    line[998] = '\r', line[999] = '\n', line[1000] = '\0';
    td_kept_answer_begin(&a, &sink, 7, false, true);
    feed(&a, "HTTP/1.1 200 OK\r\n", 17, 100);
    for (i = 0; i < 1100 && !a.kind; i++)
        feed(&a, line, 1000, 1000);
    assert_string_equal(a.kind, TD_ERROR_UNSEEN);
    assert_int_equal(i, (int)(TD_KEPT_ANSWER_MAX_HEAD / 1000 + 1));
    assert_int_equal(held, 0);
    td_kept_answer_end(&a, 9, false);
    assert_string_equal(seen, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_answer_stays_as_it_came), cmocka_unit_test(one_that_is_not_kept_is_read_to_its_end),
        cmocka_unit_test(the_head_of_an_uncompressed_one_says_how_it_is_recorded), cmocka_unit_test(without_memory_it_is_a_loss),
        cmocka_unit_test(a_head_without_end_is_a_loss)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
