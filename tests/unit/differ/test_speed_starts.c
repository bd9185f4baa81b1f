/* test_speed_starts.c - a server against a recording of several starts: an unchanged one raises no alarm, a slower one is caught, another
 * machine is told.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "differ/lane_speed.h"
#include "differ/lanes.h"
#include "differ/speed_starts.h"

#define PROMPTS 8
#define REPEATS 2
#define TOKENS 20
#define MAX_STARTS 12
#define HOST "\"host\":{\"machine\":\"m1\",\"cpu\":\"EPYC\",\"cores\":2,\"cpu_probe_ms\":[42,40,41],\"others\":[{\"cores\":0,\"of\":2},{\"unknown\":\"why\"},{\"cores\":0.2,\"of\":2,\"waited\":0.01}]},\"server\":{\"url\":\"http://127.0.0.1:8000\"}"

static unsigned long long seed;

static double uniform(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (double)((seed >> 11) + 1) * 0x1p-53;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * 3.14159265358979 * uniform());
}

/* ---- one row ---------------------------------------------------------------------------------- */

/* With numbers of a table: t of 4 degrees of freedom, 97.5 % is 2.776445. */
static void the_interval_is_students(void **state)
{
    static const double base[5] = {100, 102, 99, 101, 98};
    struct td_speed_row row = {.metric = TD_ITL, .alpha = 0.05};
    double mean = 0, var = 0, half, x[5];
    int i;

    (void)state;
    for (i = 0; i < 5; i++) {
        assert_int_equal(td_ratios_add(&row.pairs, base[i], 110, false), TD_OK);
        mean += (x[i] = log(110 / base[i])) / 5;
    }
    for (i = 0; i < 5; i++)
        var += (x[i] - mean) * (x[i] - mean) / 4;
    half = 2.776445105 * sqrt(var) * sqrt(1.2);
    td_speed_starts_decide(&row, 0.05);
    assert_true(fabs(row.effect.est - expm1(mean)) < 1e-12);
    assert_true(fabs(row.effect.lo - expm1(mean - half)) < 1e-7);
    assert_true(fabs(row.effect.hi - expm1(mean + half)) < 1e-7);
    assert_int_equal(row.verdict, TD_REGRESSED);
    td_speed_starts_decide(&row, 0.2); /* it is no effect of that size */
    assert_int_equal(row.verdict, TD_PASS);
    assert_int_equal(td_speed_starts_needed(&row, 0.10), 0);
    row.alpha = 1e-5;
    td_speed_starts_decide(&row, 0.05); /* nor certain at that level */
    assert_int_equal(row.verdict, TD_PASS);
    assert_true(td_speed_starts_needed(&row, 0.10) > 5);
    row.pairs.n = 1;
    row.alpha = 0.05;
    td_speed_starts_decide(&row, 0.05);
    assert_int_equal(row.verdict, TD_NOT_JUDGED);
    free(row.pairs.log_ratio);
    free(row.pairs.base);
    free(row.pairs.now);
}

/* ---- servers ---------------------------------------------------------------------------------- */

static int shorter; /* tokens that the candidate's answers have less */

static struct td_exchange make_answer(int prompt, int repeat, double factor)
{
    static char names[PROMPTS][8];
    struct td_exchange x = {.prompt_id = names[prompt], .repeat = repeat, .n_tokens = TOKENS, .n_events = TOKENS,
                            .concurrency = prompt < 4 ? 1 : 4, .stream = (uint32_t)(repeat * PROMPTS + prompt + 1)};
    double t = 1e9;
    int i;

    snprintf(names[prompt], sizeof names[0], "p%d", prompt);
    x.category = (char *)(uintptr_t)(prompt % 2 ? "long" : "short");
    x.events = calloc(TOKENS, sizeof *x.events);
    x.t_sent_ns = (int64_t)t;
    t += 5e6 * (1 + prompt) * factor * exp(0.03 * normal()); /* TTFT */
    for (i = 0; i < TOKENS; i++) {
        x.events[i] = (struct td_token_event){(int64_t)t, 1};
        t += 1e6 * factor * exp(0.03 * normal());
    }
    x.t_end_ns = x.events[TOKENS - 1].t_ns;
    return x;
}

static struct td_side make_side(enum td_role role, int starts, double spread, double factor)
{
    struct td_side s = {.role = role};
    int start, p, r;

    s.xs = calloc((size_t)(starts * PROMPTS * REPEATS), sizeof *s.xs);
    for (start = 0; start < starts; start++) {
        const double speed = exp(spread * normal()) * factor;

        for (r = 0; r < REPEATS; r++)
            for (p = 0; p < PROMPTS; p++)
                s.xs[s.n_xs++] = make_answer(p, start * REPEATS + r, speed);
    }
    for (size_t i = 0; i < s.n_xs && role == TD_NEW; i++) {
        s.xs[i].n_tokens -= shorter;
        s.xs[i].n_events -= (size_t)shorter;
        s.xs[i].t_end_ns = s.xs[i].events[s.xs[i].n_events - 1].t_ns;
    }
    return s;
}

struct judged { enum td_verdict verdict; size_t rows; bool by_starts, joins; char notes[2000]; };

/* planned, starts: of the recording, in its plan and in its answers. */
static struct judged judge_planned(int planned, int starts, double spread, double factor, const char *now_manifest, bool by_name)
{
    struct td_side side[2] = {make_side(TD_BASE, starts, spread, 1), make_side(TD_NEW, 1, spread, factor)};
    struct td_lane lane = {.id = TD_LANE_SPEED, .asked = true, .by_name = by_name};
    struct td_judged_ops no_ops = {0};
    struct td_error err = {0};
    struct td_policy policy;
    struct judged out = {0};
    struct td_groups g;
    struct td_speed s;
    char base[400];
    cJSON *old, *now = td_json_parse(now_manifest, strlen(now_manifest), NULL);
    size_t i, j;

    snprintf(base, sizeof base, "{" HOST ",\"plan\":{\"starts\":%d,\"repeats\":%d}}", planned, planned * REPEATS);
    old = td_json_parse(base, strlen(base), NULL);
    td_policy_default(&policy);
    assert_non_null(old);
    assert_non_null(now);
    assert_int_equal(td_align_exchanges(side, 2, &g, &err), TD_OK);
    assert_int_equal(td_speed_compare(&no_ops, &g, old, now, NULL, 0, &policy, &s, &err), TD_OK);
    td_speed_judge(&s, &policy, &lane);
    out.verdict = lane.verdict;
    out.rows = s.n;
    out.by_starts = s.by_starts;
    out.joins = td_lane_types[TD_LANE_SPEED]->joins(&s);
    for (i = 0; i < (size_t)lane.n_notes; i++) {
        strncat(strncat(out.notes, lane.notes[i].text, 900), "\n", 2);
        free(lane.notes[i].text);
    }
    td_speed_release(&s);
    td_groups_release(&g);
    for (i = 0; i < 2; i++) {
        for (j = 0; j < side[i].n_xs; j++)
            free(side[i].xs[j].events);
        free(side[i].xs);
    }
    cJSON_Delete(old);
    cJSON_Delete(now);
    return out;
}

static struct judged judge(int starts, double spread, double factor, const char *now_manifest)
{
    return judge_planned(starts, starts, spread, factor, now_manifest, false);
}

/* Starts differ by 2 % (one standard deviation); rows: four figures of total, two categories, two concurrencies. */
static void unchanged_servers_raise_no_alarm(void **state)
{
    int i, alarms = 0;

    (void)state;
    for (i = 0; i < 200; i++) {
        seed = 5550123ULL + (unsigned long long)i * 15485863;
        struct judged j = judge(5, 0.02, 1, "{" HOST "}");

        assert_true(j.by_starts);
        assert_int_equal(j.rows, 20);
        alarms += j.verdict == TD_REGRESSED;
    }
    assert_true(alarms <= 2);
}

static void a_slower_server_is_caught(void **state)
{
    int i, caught = 0;

    (void)state;
    for (i = 0; i < 50; i++) {
        seed = 777ULL + (unsigned long long)i * 32452843;
        caught += judge(10, 0.01, 1.1, "{" HOST "}").verdict == TD_REGRESSED;
    }
    assert_true(caught >= 49);
}

static void too_few_starts_say_how_many_would_do(void **state)
{
    struct judged j;

    (void)state;
    seed = 4242;
    j = judge(3, 0.03, 1, "{" HOST "}");
    assert_int_equal(j.verdict, TD_PASS);
    assert_non_null(strstr(j.notes, "3 starts cannot show each slowdown of 10 %; "));
}

/* On another machine, or of a server elsewhere, nothing is judged, however slow it is. */
static void another_machine_is_told(void **state)
{
    static const struct { const char *now, *says; } cases[] = {
        {"{\"host\":{\"machine\":\"m2\",\"cpu\":\"EPYC\",\"cores\":2},\"server\":{\"url\":\"http://127.0.0.1:1\"}}", "another machine"},
        {"{\"host\":{\"machine\":\"m1\",\"cpu\":\"EPYC\",\"cores\":4},\"server\":{\"url\":\"http://127.0.0.1:1\"}}", "cores: 4, recorded on 2"},
        {"{\"host\":{\"machine\":\"m1\",\"cpu\":\"Xeon\",\"cores\":2},\"server\":{\"url\":\"http://localhost:1\"}}",
         "processor: Xeon, recorded on EPYC"},
        {"{\"host\":{\"machine\":\"m1\",\"cpu\":\"EPYC\",\"cores\":2,\"gpu_driver\":\"550\"},\"server\":{\"url\":\"http://[::1]:1\"}}",
         "GPU driver: 550, recorded on not known"},
        {"{\"host\":{\"machine\":\"m1\",\"cpu\":\"EPYC\",\"cores\":2,\"cpu_probe_ms\":[44.2]},\"server\":{\"url\":\"http://[::1]:1\"}}",
         "busier, or clocked lower, now: a fixed computation takes 44.2 ms, and took 40 to 42 ms"},
        {"{\"host\":{\"machine\":\"m1\",\"cpu\":\"EPYC\",\"cores\":2,\"cpu_probe_ms\":[38]},\"server\":{\"url\":\"http://[::1]:1\"}}", "less busy"},
        {"{\"host\":{\"machine\":\"m1\",\"cpu\":\"EPYC\",\"cores\":2},\"server\":{\"url\":\"http://[::1]:1\"}}",
         "how fast its processors are now was not measured"},
        {"{\"host\":{\"machine\":\"m1\",\"cpu\":\"EPYC\",\"cores\":2,\"cpu_probe_ms\":[41],\"others\":[{\"cores\":0.4,\"of\":2,\"waited\":0.01}]},"
         "\"server\":{\"url\":\"http://[::1]:1\"}}", "other programs used 0.40 of 2 cores, and 0.00 to 0.20 while the starts were recorded"},
        {"{\"host\":{\"machine\":\"m1\",\"cpu\":\"EPYC\",\"cores\":2,\"cpu_probe_ms\":[41],\"others\":[{\"cores\":0.2,\"of\":2,\"waited\":0.3}]},"
         "\"server\":{\"url\":\"http://[::1]:1\"}}", "other programs used 0.20 of 2 cores, and 0.00 to 0.20 while the starts were recorded, and programs "
         "waited for a core in 30 % of the time"},
        {"{\"host\":{\"machine\":\"m1\",\"cpu\":\"EPYC\",\"cores\":2},\"server\":{\"url\":\"http://10.0.0.7:1\"}}", "the server is not on the machine"}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct judged j;

        seed = 99 + i;
        j = judge(5, 0.01, 2, cases[i].now);
        assert_false(j.by_starts);
        assert_int_equal(j.verdict, TD_NOT_JUDGED);
        if (!strstr(j.notes, cases[i].says))
            fail_msg("%s: %s", cases[i].says, j.notes);
        assert_int_equal(judge_planned(5, 5, 0.01, 2, cases[i].now, true).verdict, TD_INCONCLUSIVE);
    }
}

/* E2E says nothing of speed where answers have different numbers of tokens; the other rows do. */
static void e2e_needs_equal_lengths(void **state)
{
    (void)state;
    seed = 31;
    assert_int_equal(judge(5, 0.01, 1, "{" HOST "}").rows, 20);
    shorter = 1;
    assert_int_equal(judge(5, 0.01, 1, "{" HOST "}").rows, 15);
    shorter = 0;
}

/* Of the last start no answer came: no prompt has a figure on each. The lane joins all the same, so that it can say so. */
static void a_start_without_answers_is_told(void **state)
{
    struct judged j;

    (void)state;
    seed = 4711;
    j = judge_planned(5, 4, 0.01, 2, "{" HOST "}", false);
    assert_true(j.joins);
    assert_false(j.by_starts);
    assert_int_equal(j.verdict, TD_NOT_JUDGED);
    assert_non_null(strstr(j.notes, "5 starts were recorded: no prompt has a figure on each of them"));
    assert_int_equal(judge_planned(5, 4, 0.01, 2, "{" HOST "}", true).verdict, TD_INCONCLUSIVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_is_students),        cmocka_unit_test(unchanged_servers_raise_no_alarm),
        cmocka_unit_test(a_slower_server_is_caught),       cmocka_unit_test(too_few_starts_say_how_many_would_do),
        cmocka_unit_test(another_machine_is_told),         cmocka_unit_test(a_start_without_answers_is_told),
        cmocka_unit_test(e2e_needs_equal_lengths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
