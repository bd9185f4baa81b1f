/* test_reassembly.c - bytes in order, whatever order their segments come in.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "wire/capture/reassembly.h"

static char seen[4000]; /* the bytes, and "[N]" for a gap of N */
static int64_t last_ns;

static void take(void *arg, const struct td_chunk *c)
{
    const size_t n = strlen(seen);

    (void)arg;
    assert_true(c->t_ns >= last_ns); /* never backwards */
    last_ns = c->t_ns;
    snprintf(seen + n, sizeof seen - n, "%.*s", (int)c->n, (const char *)c->data);
}

static void gap(void *arg, int64_t t_ns, uint32_t bytes, enum td_gap_cause cause)
{
    const size_t n = strlen(seen);

    (void)arg, (void)t_ns;
    snprintf(seen + n, sizeof seen - n, "[%u%s]", bytes, cause == TD_GAP_SNAP ? " snapped" : "");
}

static const struct td_reassembly_sink SINK = {NULL, take, gap};

static void start(struct td_reassembly *r, struct td_reassembly_counts *c, uint32_t first)
{
    *seen = '\0';
    last_ns = 0;
    *c = (struct td_reassembly_counts){.max_held = 1 << 20};
    td_reassembly_begin(r, first);
}

/* A segment of text at seq; `more` bytes of it were not captured. */
static void add(struct td_reassembly *r, struct td_reassembly_counts *c, uint32_t seq, const char *text, uint32_t more, int64_t t_ns)
{
    const uint32_t n = (uint32_t)strlen(text);
    const struct td_segment s = {.t_ns = t_ns, .seq = seq, .data = (const uint8_t *)text, .len = n, .wire_len = n + more};

    td_reassembly_add(r, &s, &SINK, c);
}

static void every_order_gives_the_same(void **state)
{
    static const char TEXT[] = "the quick brown fox jumps";
    struct td_reassembly r;
    struct td_reassembly_counts c;
    uint32_t order, base, at[4];
    char part[16];
    int i;

    (void)state;
    for (base = 100; base; base = base == 100 ? UINT32_MAX - 10 : 0) /* and numbers that wrap */
        for (order = 0; order < 256; order++) {
            start(&r, &c, base);
            for (i = 0; i < 4; i++)
                at[i] = order >> 2 * i & 3; /* also one twice, and not at all */
            for (i = 0; i < 8; i++) {
                const uint32_t from = (i < 4 ? at[i] : (uint32_t)i - 4) * 6;

                snprintf(part, sizeof part, "%.9s", TEXT + from); /* each overlaps the next */
                add(&r, &c, base + from, part, 0, i);
            }
            assert_string_equal(seen, TEXT);
            assert_int_equal(c.bytes, sizeof TEXT - 1);
            assert_int_equal(c.held, 0);
            assert_int_equal(c.lost + c.snapped + c.differing, 0);
            td_reassembly_release(&r, &c);
        }
}

static void the_first_of_two_that_disagree_stands(void **state)
{
    struct td_reassembly r;
    struct td_reassembly_counts c;

    (void)state;
    start(&r, &c, 10);
    add(&r, &c, 10, "abc", 0, 1);
    add(&r, &c, 10, "XYZd", 0, 2); /* what was handed on cannot be taken back */
    add(&r, &c, 16, "gh", 0, 3);
    add(&r, &c, 16, "GH", 0, 4);
    add(&r, &c, 14, "ef", 0, 5);
    assert_string_equal(seen, "abcdefgh");
    assert_int_equal(c.differing, 1);
    td_reassembly_release(&r, &c);
}

static void what_is_missing_is_a_gap(void **state)
{
    struct td_reassembly r;
    struct td_reassembly_counts c;

    (void)state;
    start(&r, &c, 10);
    add(&r, &c, 10, "abc", 2, 1); /* snapped */
    add(&r, &c, 20, "xyz", 0, 2);
    assert_string_equal(seen, "abc[2 snapped]");
    td_reassembly_acked(&r, 23, 3, false, &SINK, &c); /* it may still come */
    assert_string_equal(seen, "abc[2 snapped]");
    td_reassembly_acked(&r, 23, 4, true, &SINK, &c); /* but not behind an answer to it */
    assert_string_equal(seen, "abc[2 snapped][5]xyz");
    td_reassembly_acked(&r, 30, 5, true, &SINK, &c); /* nor what was never seen */
    assert_string_equal(seen, "abc[2 snapped][5]xyz[7]");
    assert_int_equal(c.lost, 12);
    assert_int_equal(c.snapped, 2);
    td_reassembly_release(&r, &c);
}

static void the_end_is_where_fin_says(void **state)
{
    struct td_reassembly r;
    struct td_reassembly_counts c;
    const struct td_segment fin = {.seq = 16, .flags = TD_TCP_FIN};

    (void)state;
    start(&r, &c, 10);
    add(&r, &c, 10, "abc", 0, 1);
    td_reassembly_add(&r, &fin, &SINK, &c);
    assert_false(td_reassembly_is_over(&r));
    td_reassembly_acked(&r, 17, 2, true, &SINK, &c); /* FIN has a number, and is no byte */
    assert_string_equal(seen, "abc[3]");
    assert_true(td_reassembly_is_over(&r));
    td_reassembly_end(&r, &SINK, &c);
    assert_string_equal(seen, "abc[3]");
    td_reassembly_release(&r, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_gives_the_same), cmocka_unit_test(the_first_of_two_that_disagree_stands),
        cmocka_unit_test(what_is_missing_is_a_gap), cmocka_unit_test(the_end_is_where_fin_says)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
