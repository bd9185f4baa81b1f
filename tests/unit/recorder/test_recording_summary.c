/* test_recording_summary.c - what record says at its end of the ops that it did not get.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "recorder/recording_summary.h"

static char *printed(const struct td_tap_client_state *ops, bool all, const char *no_tap)
{
    struct td_recording_summary f;
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);

    memset(&f, 0, sizeof f);
    assert_non_null(to);
    td_recording_summary_print(&f, 3, ops, all, no_tap, to);
    fclose(to);
    return text;
}

static void expect(const struct td_tap_client_state *ops, const char *words, bool there)
{
    char *text = printed(ops, false, "no tap in it");

    if (!strstr(text, words) == there)
        fail_msg("\"%s\" is %s: %s", words, there ? "missing" : "there", text);
    free(text);
}

static void what_is_missing_is_said_with_the_next_step(void **state)
{
    struct td_tap_client_state all = {.ops_kept = 90, .steps_kept = 9}, some = all;
    char *text;

    (void)state;
    expect(NULL, "ops      none: no tap in it", true);
    expect(&all, "ops      90 kept in 9 steps, 0 dropped\n", true);
    expect(&all, "--ring-mib", false);
    expect(&all, "kernels", false);
    some.no_launches = true;
    expect(&some, "kernels  launches on a GPU were not watched (--launches off)", true);
    some = all;
    expect(&all, "none were looked at", false);
    some.ops_dropped = 10, some.ops_ring = 4, some.rested_ms = 2500;
    expect(&some, "ops      90 kept in 9 steps, 10 dropped; for 2.5 s, between samples, none were looked at\n", true);
    expect(&some, "4 of those dropped most likely found no room", true);
    expect(&some, "--ring-mib", true);
    expect(&some, "What the fixture holds is sound; its sample is smaller by these.", true);
    text = printed(&some, true, "");
    assert_non_null(strstr(text, "all were asked for, so it is incomplete and no gate passes its ops."));
    free(text);
    expect(&all, "layout", false);
    some.ops_layout_unknown = 7;
    strcpy(some.unknown_layout, "machete: weights of Machete without a sample of them");
    expect(&some, "weights  the layout of those of 7 ops is unknown (machete: weights of Machete without a sample of them).", true);
    expect(&some, "--checkpoint", true);
    expect(&some, "no op has the name of its layer", false);
    strcpy(some.no_layer_names, "/m: l.proj: group_size is 12\n::error::");
    expect(&some, "weights  no op has the name of its layer: /m: l.proj: group_size is 12\\n::error::\n", true);
    some.launches = 500, some.gemms = 100, some.gemms_other = 100;
    strcpy(some.other, "machete");
    expect(&some, "; 45.0 % of the GEMMs that were seen", true); /* 90 of 200 */
    expect(&some, "not read, counted by name: 100, most of all machete", true);
    strcpy(some.other, "gemm\nverdict: pass ##vso[task]\x1b[31m"); /* names are the server's */
    strcpy(some.unknown_layout, "##[error]x\r");
    some.operators = some.operator_calls = 3;
    strcpy(some.most_called, "a\n::error::b");
    expect(&some, "most of all gemm\\nverdict: pass \\x23#vso[task]\\x1b[31m\n", true);
    expect(&some, "is unknown (\\x23#[error]x\\x0d)", true);
    expect(&some, "most of all a\\n::error::b (fixture", true);
    expect(&some, "graphs", false);
    some.graphs = 7, some.graphs_read = 5;
    expect(&some, "5 launched that were read", true);
    expect(&some, "2 launched whose GEMMs were not seen", true);
    expect(&some, "no twin", false);
    expect(&some, "rotation", false);
    some.graphs_no_room = 3, some.ops_rotation = 4;
    expect(&some, "3 of these had no twin, for all twins together take what they may", true);
    expect(&some, "4 GEMMs were left out by rotation", true);
    some.ops_graph = 9;
    expect(&some, "9 GEMMs in graphs were not copied: their graphs had no twin yet", true);
    some.graphs_no_room = 0;
    expect(&some, "(more is --graphs-mib)", true);
    some.graphs_no_twin = 2;
    expect(&some, "2 of these can have no twin", true);
    expect(&some, "--graphs-mib", false);
}

/* However long a recording is, its medians take bounded memory, and are those of all of it. */
static void medians_of_a_long_recording(void **state)
{
    struct td_recording_summary f = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    double ms = 0;

    (void)state;
    assert_non_null(to);
    for (int i = 1; i <= 200000; i++) { /* the first token comes after 1 ns, 2 ns, ... 200 us; the next one 2 ms later */
        struct td_token_event events[] = {{1000 + i, 1}, {2001000 + i, 1}};
        struct td_exchange x = {.prompt_id = "p", .phase = TD_PHASE_TIMED, .t_sent_ns = 1000, .t_end_ns = 2001000 + i, .n_tokens = 2,
                                .events = events, .n_events = 2};

        td_recording_summary_add(&f, &x);
    }
    assert_true(f.phase[TD_PHASE_TIMED].ttft_ns.cap <= 65536);
    assert_int_equal(f.phase[TD_PHASE_TIMED].ttft_ns.seen, 200000);
    td_recording_summary_print(&f, 3, NULL, false, "no tap", to);
    fclose(to);
    assert_non_null(strstr(text, "timed"));
    assert_int_equal(sscanf(strstr(text, "timed"), "timed %*d %*d %*d %*d %lf ms", &ms), 1);
    assert_true(ms >= 0.09 && ms <= 0.11); /* 0.1 ms, within what is printed; the first 32,768 alone: 0.02 */
    assert_non_null(strstr(text, "2.00 ms"));
    free(text);
    td_recording_summary_release(&f);
}

/* As fixture stats counts: the tokens of what did not fail, by the time of all. */
static void tokens_of_a_failed_request_are_no_throughput(void **state)
{
    struct td_token_event events[] = {{500000000, 1}};
    struct td_exchange whole = {.prompt_id = "p", .t_sent_ns = 1, .t_end_ns = 1000000001, .n_tokens = 30, .events = events, .n_events = 1},
                       cut = {.prompt_id = "q", .t_sent_ns = 1, .t_end_ns = 2000000001, .n_tokens = 50, .error = (char[]){"cut"}};
    struct td_recording_summary f = {0};
    char *text = NULL, rate[16] = "";
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);

    (void)state;
    assert_non_null(to);
    td_recording_summary_add(&f, &whole);
    td_recording_summary_add(&f, &cut);
    td_recording_summary_print(&f, 2, NULL, false, "no tap", to);
    fclose(to);
    assert_int_equal(sscanf(strstr(text, "timed"), "timed 2 2 1 80 %*f ms - %15s", rate), 1);
    assert_string_equal(rate, "15"); /* 30 in 2 s */
    free(text);
    td_recording_summary_release(&f);
}

static void shares_of_the_gpu_s_time(void **state)
{
    struct td_tap_client_state some = {.processes = 1, .ops_kept = 7, .steps_kept = 2};
    struct td_tap_client_gpu_time *t = &some.gpu_time;

    (void)state;
    expect(&some, "gpu ", false);
    t->asked = true;
    strcpy(t->why, "a profiler is there");
    expect(&some, "gpu      the share of kernels in its time is not known: a profiler is there\n", true);
    expect(&some, "recorded ops are", false);
    t->why[0] = '\0';
    t->launches = 9, t->ns = 1000, t->window_ns = 501000000, t->recorded_ns = 920, t->attention_ns = 50;
    expect(&some, "gpu      of its time in 501 ms, recorded ops are 92.0 %, attention 5.0 %, all else 3.0 % (fixture show -a)\n", true);
    expect(&some, "multiply", false);
    expect(&some, "had no time", false);
    strcpy(t->unread, "fused_moe_kernel 3.0 %");
    strcpy(t->unknown, "some_gemm 1.0 %");
    t->lost = 4;
    expect(&some, "         multiply, and are not recorded: fused_moe_kernel 3.0 %\n", true);
    expect(&some, "         multiply, and may be recorded or not: some_gemm 1.0 %\n", true);
    expect(&some, "         4 launches more had no time", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_missing_is_said_with_the_next_step), cmocka_unit_test(medians_of_a_long_recording),
                                       cmocka_unit_test(tokens_of_a_failed_request_are_no_throughput), cmocka_unit_test(shares_of_the_gpu_s_time)};

    return cmocka_run_group_tests_name("recording_summary", tests, NULL, NULL);
}
