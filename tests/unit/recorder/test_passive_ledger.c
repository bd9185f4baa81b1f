/* test_passive_ledger.c - what is said of a capture's losses, and why there was no exchange.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "recorder/passive_ledger.h"

static void expect_lines(const struct td_capture_counts *c, const struct td_passive_left *left, int lines, const char *words)
{
    char *text = NULL, *at;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    int n = 0;

    assert_non_null(to);
    td_passive_ledger_print(c, left, to);
    fclose(to);
    for (at = text; (at = strchr(at, '\n')); at++)
        n++;
    if (n != lines || !strstr(text, words))
        fail_msg("%d lines with \"%s\" are due: %s", lines, words, text);
    free(text);
}

static void only_losses_are_said(void **state)
{
    struct td_capture_counts c = {.packets = 9, .connections = 1, .http = {.requests = 2, .exchanges = 2}};
    struct td_passive_left left = {0};

    (void)state;
    expect_lines(&c, &left, 1, "9 packets, 1 connection, 2 requests; 2 exchanges kept");
    left.dropped = 1;
    expect_lines(&c, &left, 2, "1 packet dropped by the kernel, which had no room for it");
    c.http.not_whole = 1;
    expect_lines(&c, &left, 3, "not judged");
    c.answers.too_large = 2;
    expect_lines(&c, &left, 4, "2 compressed answers stand for more");
    left.not_sampled = 5;
    expect_lines(&c, &left, 5, "5 requests left out, of connections that are not in the sample");
    left.compressed = 1;
    expect_lines(&c, &left, 6, "1 request left out: the client compressed its body");
}

static void expect_reason(const struct td_capture_counts *c, const struct td_passive_left *left, const char *server, bool only_path, const char *words)
{
    struct td_error err = {0};

    assert_int_equal(td_passive_ledger_explain(c, left, server, only_path, &err), TD_EPROTO);
    if (!strstr(err.msg, words))
        fail_msg("\"%s\" is due: %s", words, err.msg);
}

static void the_reason_is_the_one_that_helps(void **state)
{
    struct td_capture_counts c = {0};
    struct td_passive_left left = {0};

    (void)state;
    expect_reason(&c, &left, "a:1", false, "no packet came by");
    c.packets = c.packets_of[TD_PACKET_TCP] = c.other_segments = 7;
    expect_reason(&c, &left, "a:1", false, "none is from or to a:1");
    expect_reason(&c, &left, NULL, false, "no request was seen in 7 packets");
    c.connections = c.http.connections_tls = 1;
    expect_reason(&c, &left, "a:1", false, "1 of 1 connections is TLS");
    c.http.other_requests = 4; /* requests say more than what else there was */
    expect_reason(&c, &left, "a:1", false, "none of 4 requests generates text");
    expect_reason(&c, &left, "a:1", true, "--only-path names");
    left.not_sampled = 3;
    expect_reason(&c, &left, "a:1", false, "in the sample");
    left.compressed = 4;
    expect_reason(&c, &left, "a:1", false, "compressed the body");
    left.no_head = 4;
    expect_reason(&c, &left, "a:1", false, "headers, or trailers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_losses_are_said), cmocka_unit_test(the_reason_is_the_one_that_helps)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
