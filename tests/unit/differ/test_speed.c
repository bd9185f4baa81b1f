/* test_speed.c - synthetic timings: unchanged builds raise no alarm, slower ones are caught, too little data says so.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The noise is worse than what was measured on real machines: every pair has its own log-normal jitter of 3 %, one in twenty is
 * hit by a stall of up to twice the time, every op has a bias of its own of up to 2 % (two processes place their buffers
 * differently), and a server's start differs from the next by up to 3 %. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/lane_speed.h"

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
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static double jitter(double ns)
{
    double t = ns * exp(0.03 * normal());

    return uniform() < 0.05 ? t * (1 + uniform()) : t;
}

/* ---- ops ----------------------------------------------------------------------------------------------------------- */

#define GROUPS 14
#define OPS_PER_GROUP 6
#define STARTS 8
#define PAIRS (3 * STARTS)

/* As replay writes it: six ops of each of 14 groups, 8 starts of 3 pairs hot and cold. slower(group) is the candidate's factor. */
static void make_ops(struct td_judged_ops *s, double (*slower)(int), int ops_per_group, int pairs)
{
    static char shape[GROUPS][24];
    int g, o, p, cold;

    memset(s, 0, sizeof *s);
    s->op = calloc((size_t)(GROUPS * ops_per_group), sizeof *s->op);
    for (g = 0; g < GROUPS; g++)
        for (o = 0; o < ops_per_group; o++) {
            struct td_judged_op *x = &s->op[s->n++];
            double ns = 20000.0 * (g + 1), bias = exp(0.02 * (2 * uniform() - 1));

            snprintf(shape[g], sizeof shape[g], "%dx640", 64 * (g / 2 + 1));
            x->kind = "gptq_gemm";
            x->shape = shape[g];
            x->m_class = g % 2 ? 4 : 0;
            x->status = TD_OP_OK;
            x->starts = pairs % STARTS ? 1 : STARTS;
            x->n_hot = x->n_cold = (size_t)pairs;
            x->hot = malloc((size_t)pairs * 2 * sizeof(double));
            x->cold = malloc((size_t)pairs * 2 * sizeof(double));
            for (cold = 0; cold < 2; cold++)
                for (p = 0; p < pairs; p++) {
                    double *to = cold ? x->cold : x->hot;

                    to[p * 2] = jitter(ns * (1 + cold));
                    to[p * 2 + 1] = jitter(ns * (1 + cold) * bias * slower(g));
                }
        }
}

/* Let the starts of the candidate differ as on a machine whose memory is not equally fast: in one start of
 * twenty cold runs take 1.8 times as long, and the next start gets the same memory in every other case. */
static void make_starts_differ(struct td_judged_ops *s)
{
    bool slow = false;

    for (size_t i = 0; i < s->n; i++)
        for (size_t start = 0; start < s->op[i].starts; start++) {
            const size_t each = s->op[i].n_cold / s->op[i].starts;

            slow = uniform() < (slow ? 0.5 : 0.05);
            for (size_t p = start * each; slow && p < (start + 1) * each; p++)
                s->op[i].cold[p * 2 + 1] *= 1.8;
        }
}

static double same(int g) { (void)g; return 1; }
static double all_slower(int g) { (void)g; return 1.10; }
static double one_slower(int g) { return g == 3 ? 1.10 : 1; }
static double all_faster(int g) { (void)g; return 0.90; }

struct result { enum td_verdict verdict; size_t slower, faster; char first[200]; };

/* Releases the set. */
static struct result judge_set(struct td_judged_ops *set)
{
    struct td_groups none = {0};
    struct td_policy policy;
    struct td_speed s;
    struct td_lane lane = {.id = TD_LANE_SPEED, .asked = true, .by_name = true};
    struct td_error err = {0, ""};
    struct result r = {TD_NOT_JUDGED, 0, 0, ""};
    size_t i;

    td_policy_default(&policy);
    assert_int_equal(td_speed_compare(set, &none, NULL, NULL, NULL, 0, &policy, &s, &err), TD_OK);
    td_speed_judge(&s, &policy, &lane);
    r.verdict = lane.verdict;
    for (i = 0; i < s.n; i++) {
        r.slower += s.row[i].verdict == TD_REGRESSED && !s.row[i].total;
        r.faster += s.row[i].faster && !s.row[i].total;
    }
    for (i = 0; i < (size_t)lane.n_notes; i++) {
        if (i == 0)
            snprintf(r.first, sizeof r.first, "%s", lane.notes[i].text);
        free(lane.notes[i].text);
    }
    td_speed_release(&s);
    td_judged_ops_release(set);
    return r;
}

static struct result judge_ops(double (*slower)(int), int ops_per_group, int pairs)
{
    struct td_judged_ops set;

    make_ops(&set, slower, ops_per_group, pairs);
    return judge_set(&set);
}

/* Slower because the GPU was: inconclusive, not regressed. At equal clocks, or where they are not known, it is the build. */
static void test_a_lower_clock_is_no_regression(void **state)
{
    static const struct { struct td_judged_op_device d; enum td_verdict want; } cases[] = {
        {{.sm_mhz = {1980, 1980}}, TD_REGRESSED}, {{.sm_mhz = {1980, 1410}}, TD_INCONCLUSIVE}, {{.sm_mhz = {1980, 1950}}, TD_REGRESSED},
        {{.sm_mhz = {1980, NAN}}, TD_REGRESSED},  {{.throttled = {0, 0.3}}, TD_INCONCLUSIVE},  {{.throttled = {1, 1}}, TD_REGRESSED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_judged_ops set;
        struct result r;

        make_ops(&set, all_slower, 4, PAIRS);
        for (size_t k = 0; k < set.n; k++)
            set.op[k].device = cases[i].d;
        r = judge_set(&set);
        if (r.verdict != cases[i].want)
            fail_msg("case %zu: %d, %s", i, (int)r.verdict, r.first);
    }
}

/* Two ops of each group in 24 starts that all share. On a GPU one process is slower than another by a percent or so, in all it runs
 * (docs/measurements/2026-11-replay-timing.md).
 *   shares : false: as if each op had starts of its own
 *   *off   : in how many of 50 runs the total's interval does not hold 0
 * How often of them the total was slower, by the policy's defaults. */
static int called_slower(double factor, bool shares, int *off)
{
    int called = 0;

    *off = 0;
    for (int run = 0; run < 50; run++) {
        struct td_groups none = {0};
        struct td_judged_ops set;
        struct td_policy policy;
        struct td_speed s;
        double process[24];
        struct td_error err = {0, ""};

        seed = 88172645463325252ULL + (unsigned long long)run * 7919;
        make_ops(&set, same, 2, 3 * 24);
        for (int i = 0; i < 24; i++)
            process[i] = factor * exp(0.012 * normal());
        for (size_t i = 0; i < set.n; i++) {
            set.op[i].starts = 24;
            set.op[i].starts_of = shares;
            for (size_t p = 0; p < set.op[i].n_hot; p++)
                for (int cold = 0; cold < 2; cold++) {
                    double *to = (cold ? set.op[i].cold : set.op[i].hot) + p * 2;

                    to[1] = to[0] * exp(0.003 * normal()) * process[p / 3];
                }
        }
        td_policy_default(&policy);
        assert_int_equal(td_speed_compare(&set, &none, NULL, NULL, NULL, 0, &policy, &s, &err), TD_OK);
        for (size_t i = 0; i < s.n; i++)
            if (s.row[i].total && s.row[i].metric == TD_OP_HOT) {
                called += s.row[i].verdict == TD_REGRESSED;
                *off += s.row[i].effect.lo > 0 || s.row[i].effect.hi < 0;
            }
        for (size_t i = 0; i < s.n; i++)
            assert_int_equal(s.row[i].pairs.n, shares ? 24 : 24 * s.row[i].ops);
        td_speed_release(&s);
        td_judged_ops_release(&set);
    }
    return called;
}

static void test_ops_that_share_a_start_are_one_sample(void **state)
{
    int off;

    (void)state;
    assert_int_equal(called_slower(1, true, &off), 0);
    assert_in_range(off, 0, 1);
    assert_in_range(called_slower(1.02, true, &off), 45, 50);
    called_slower(1, false, &off); /* hundreds of samples that are not independent: an interval that says nothing */
    assert_in_range(off, 10, 50);
}

/* A start is found however many there are, and only under its own number and that of its ops. */
static void test_starts_are_found_again(void **state)
{
    struct td_shared_starts s = {0};

    (void)state;
    assert_null(td_shared_starts_find(&s, 1, 0));
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(td_shared_starts_add(&s, 1 + (int64_t)(i / 24), i % 24, i), TD_OK);
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(td_shared_starts_find(&s, 1 + (int64_t)(i / 24), i % 24)->sample, i);
    assert_null(td_shared_starts_find(&s, 1, 24));
    assert_null(td_shared_starts_find(&s, 210, 0));
    td_shared_starts_release(&s);
}

static void test_two_hundred_unchanged_builds_raise_no_alarm(void **state)
{
    int i, alarms = 0;

    (void)state;
    for (i = 0; i < 200; i++) {
        struct result r;

        seed = 88172645463325252ULL + (unsigned long long)i * 7919;
        r = judge_ops(same, OPS_PER_GROUP, PAIRS);
        if (r.verdict != TD_PASS)
            printf("run %d: %s: %s\n", i, td_verdict_name(r.verdict), r.first);
        alarms += r.verdict != TD_PASS;
    }
    assert_int_equal(alarms, 0);
}

/* No row of its own may be called slower because a few starts were. */
static void test_slow_starts_of_unchanged_builds_slow_no_row(void **state)
{
    int i;
    size_t rows = 0;

    (void)state;
    for (i = 0; i < 200; i++) {
        struct td_judged_ops set;

        seed = 271828ULL + (unsigned long long)i * 7919;
        make_ops(&set, same, 2, PAIRS);
        make_starts_differ(&set);
        rows += judge_set(&set).slower;
    }
    assert_int_equal(rows, 0);
}

/* Measured on a virtual machine with two busy cores: two ops of one unchanged kernel, cold, 5 starts of 3
 * pairs, us. In five starts of the candidate every run took twice as long. */
static void test_measured_starts(void **state)
{
    static const double us[2][15][2] = {
        {{21.3, 39.3}, {22.1, 40.2}, {26.2, 41.1}, {20.3, 36.5}, {19.9, 38.1}, {19.7, 35.7}, {20.9, 38.9}, {20.4, 38.3},
         {20.2, 41.1}, {19.6, 35.8}, {20.0, 38.5}, {19.9, 69.0}, {25.0, 27.4}, {25.7, 25.0}, {22.7, 22.8}},
        {{18.5, 38.0}, {19.0, 32.0}, {18.5, 34.5}, {22.3, 21.6}, {21.8, 22.9}, {21.8, 22.9}, {21.5, 21.0}, {23.2, 21.7},
         {21.1, 22.1}, {27.1, 24.6}, {24.0, 24.3}, {23.1, 22.8}, {22.1, 24.4}, {24.0, 25.7}, {20.9, 23.4}}};
    struct td_judged_ops set;

    (void)state;
    seed = 161803;
    make_ops(&set, same, 2, PAIRS);
    for (int i = 0; i < 2; i++) {
        memcpy(set.op[i].cold, us[i], sizeof us[i]);
        set.op[i].n_hot = set.op[i].n_cold = 15;
        set.op[i].starts = 5;
    }
    assert_int_equal(judge_set(&set).slower, 0);
}

static void test_ten_percent_are_caught(void **state)
{
    int i, caught = 0, caught_one = 0, caught_of_two = 0;

    (void)state;
    for (i = 0; i < 100; i++) {
        struct result r;

        seed = 1234567ULL + (unsigned long long)i * 104729;
        r = judge_ops(all_slower, OPS_PER_GROUP, PAIRS);
        caught += r.verdict == TD_REGRESSED;
        r = judge_ops(one_slower, OPS_PER_GROUP, PAIRS);
        caught_one += r.verdict == TD_REGRESSED && r.slower <= 4 && r.slower >= 1;
        r = judge_ops(one_slower, 2, PAIRS); /* as many as replay times */
        caught_of_two += r.verdict == TD_REGRESSED && r.slower <= 4 && r.slower >= 1;
    }
    printf("10 %% slower: everything %d of 100, one shape of %d only %d of 100, of two ops %d of 100\n", caught, GROUPS, caught_one,
           caught_of_two);
    assert_true(caught_of_two >= 95);
    assert_true(caught == 100);
    assert_true(caught_one >= 95);
}

static void test_faster_is_no_regression(void **state)
{
    struct result r;

    (void)state;
    seed = 99991;
    r = judge_ops(all_faster, OPS_PER_GROUP, PAIRS);
    assert_int_equal(r.verdict, TD_PASS);
    assert_true(r.faster > GROUPS / 2);
}

static void test_too_few_pairs_are_inconclusive_and_say_how_many_would_do(void **state)
{
    struct td_judged_ops set;
    struct td_groups none = {0};
    struct td_policy policy;
    struct td_speed s;
    struct td_lane lane = {.id = TD_LANE_SPEED, .asked = true};
    struct td_error err = {0, ""};

    (void)state;
    seed = 4711;
    td_policy_default(&policy);
    make_ops(&set, same, 1, 3);
    set.n = 1;
    assert_int_equal(td_speed_compare(&set, &none, NULL, NULL, NULL, 0, &policy, &s, &err), TD_OK);
    td_speed_judge(&s, &policy, &lane);
    assert_int_equal(lane.verdict, TD_INCONCLUSIVE);
    assert_non_null(strstr(lane.notes[0].text, "are needed"));
    while (lane.n_notes)
        free(lane.notes[--lane.n_notes].text);
    td_speed_release(&s);
    set.n = GROUPS;
    td_judged_ops_release(&set);
}

/* The sentence of a row that is a total, for an estimate and its interval. */
static void judge_total(double est, double lo, double hi, size_t n, enum td_verdict verdict, char out[300])
{
    struct td_speed_row rows[2] = {{.metric = TD_OP_HOT, .label = (char *)(uintptr_t)"total", .total = true},
                                   {.metric = TD_OP_HOT, .label = (char *)(uintptr_t)"gemm", .verdict = TD_PASS}};
    struct td_lane lane = {.id = TD_LANE_SPEED, .asked = true, .by_name = true};
    struct td_speed s = {.row = rows, .n = 2, .op_pairs = n};
    struct td_policy policy;

    td_policy_default(&policy);
    rows[0].effect = (struct td_interval){est, lo, hi, n, true};
    rows[0].pairs.n = n;
    rows[0].verdict = verdict;
    td_speed_judge(&s, &policy, &lane);
    snprintf(out, 300, "%s", lane.notes[0].text);
    while (lane.n_notes)
        free(lane.notes[--lane.n_notes].text);
}

/* "8 starts cannot exclude ...; about 6 are needed" makes no sense. */
static void test_more_are_needed_than_there_are(void **state)
{
    char text[300];
    size_t have, need, n;
    int e, h, asked = 0;

    (void)state;
    for (n = 6; n <= 320; n *= 2)
        for (e = -30; e <= 30; e++)
            for (h = 1; h <= 60; h += 3) {
                judge_total(e / 100.0, (e - 20) / 100.0, (e + h) / 100.0, n, TD_PASS, text);
                if (sscanf(text, "op, hot cache: %zu starts cannot exclude a slowdown of 10 %%; about %zu are", &have, &need) != 2)
                    continue;
                asked++;
                assert_int_equal(have, n);
                assert_true(need > have);
            }
    assert_true(asked > 1000);
}

/* A total that is slower where no row is does not say "0 of 1 rows are slower". */
static void test_a_total_alone_is_slower(void **state)
{
    char text[300];

    (void)state;
    judge_total(0.12, 0.08, 0.2, 24, TD_REGRESSED, text);
    assert_string_equal(text, "slower in total, though no single row is for certain: total op, hot cache by +12.0 % [+8.0, +20.0] n=24");
}

/* ---- servers ------------------------------------------------------------------------------------------------------- */

#define PROMPTS 10
#define REPEATS 1
#define TOKENS 40
#define ROUNDS 14 /* as many as gate begins with */
#define MAX_ROUNDS 56

static int slow_prompts;  /* so many prompts take twice as long on a candidate */
static bool at_once;      /* all tokens of an answer come in one event */

static struct td_exchange make_answer(int prompt, int repeat, double factor)
{
    static char names[PROMPTS][8];
    struct td_exchange x;
    double t = 1e9;
    int i;

    memset(&x, 0, sizeof x);
    snprintf(names[prompt], sizeof names[0], "p%d", prompt);
    x.prompt_id = names[prompt];
    x.category = (char *)(uintptr_t)(prompt % 2 ? "long" : "short");
    x.repeat = repeat;
    x.n_tokens = TOKENS;
    x.n_events = TOKENS;
    x.events = calloc(TOKENS, sizeof *x.events);
    x.t_sent_ns = (int64_t)t;
    t += jitter(5e6 * (1 + prompt)) * factor; /* TTFT */
    for (i = 0; i < TOKENS; i++) {
        x.events[i] = (struct td_token_event){(int64_t)t, 1};
        t += jitter(1e6) * factor;
    }
    x.t_end_ns = x.events[TOKENS - 1].t_ns;
    if (at_once) {
        x.events[0] = (struct td_token_event){x.t_end_ns, TOKENS};
        x.n_events = 1;
    }
    return x;
}

/* A machine that for some sides of rounds at a stretch is slower, as one of two busy cores is: 1, or by how much. */
static double machine_slow = 1, machine_now = 1;

static double next_of_machine(void)
{
    if (uniform() < 0.3)
        machine_now = uniform() < 0.5 ? machine_slow : 1;
    return machine_now;
}

/* A round of a server: one start for all rounds would not vary, so each has its own. */
static struct td_side make_round(enum td_role role, int round, double factor)
{
    struct td_side s = {.role = role, .round = round, .n_xs = PROMPTS * REPEATS};
    double start = exp(0.015 * (2 * uniform() - 1)) * factor * next_of_machine();
    int p, r;

    s.xs = calloc(s.n_xs, sizeof *s.xs);
    for (p = 0; p < PROMPTS; p++)
        for (r = 0; r < REPEATS; r++) {
            s.xs[p * REPEATS + r] = make_answer(p, r, start * (role == TD_NEW && p < slow_prompts ? 2 : 1));
            s.xs[p * REPEATS + r].stream = (uint32_t)(p * REPEATS + r);
        }
    return s;
}

static char said[2000]; /* by the last lane: its notes */
static size_t needed;   /* rounds, by it */

/*   block : [n_blocks] what ran beside the rounds
 *   slow  : the candidate's last round alone is slower by this factor, beside `factor`; -2: the baseline's is, by 2 */
static enum td_verdict judge_beside(int rounds, double factor, double slow, bool by_name, const struct td_speed_block *block, size_t n_blocks)
{
    struct td_side side[2 * MAX_ROUNDS + 2];
    struct td_judged_ops no_ops = {0};
    struct td_groups g;
    struct td_policy policy;
    struct td_speed s;
    struct td_lane lane = {.id = TD_LANE_SPEED, .asked = true, .by_name = by_name};
    struct td_error err = {0, ""};
    size_t n = 0, i, j;
    enum td_verdict v;
    int r;

    td_policy_default(&policy);
    side[n++] = make_round(TD_BASE, 0, 1);
    for (r = 0; r < rounds; r++) {
        const double old = r + 1 == rounds && slow < 0 ? -slow : 1, now = r + 1 == rounds && slow > 0 ? factor * slow : factor;
        const bool candidate_begins = uniform() < 0.5;

        if (candidate_begins)
            side[n++] = make_round(TD_NEW, r, now);
        side[n++] = make_round(TD_LIVE, r, old);
        if (!candidate_begins)
            side[n++] = make_round(TD_NEW, r, now);
    }
    if (rounds == 0)
        side[n++] = make_round(TD_NEW, 0, factor);
    assert_int_equal(td_align_exchanges(side, n, &g, &err), TD_OK);
    assert_int_equal(td_speed_compare(&no_ops, &g, NULL, NULL, block, n_blocks, &policy, &s, &err), TD_OK);
    td_speed_judge(&s, &policy, &lane);
    v = lane.verdict;
    needed = s.rounds_needed;
    *said = '\0';
    for (i = 0; i < (size_t)lane.n_notes; i++) {
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", lane.notes[i].text);
        free(lane.notes[i].text);
    }
    td_speed_release(&s);
    td_groups_release(&g);
    for (i = 0; i < n; i++) {
        for (j = 0; j < side[i].n_xs; j++)
            free(side[i].xs[j].events);
        free(side[i].xs);
    }
    return v;
}

static enum td_verdict judge_servers(int rounds, double factor, bool by_name)
{
    return judge_beside(rounds, factor, 1, by_name, NULL, 0);
}

static void test_two_hundred_unchanged_servers_raise_no_alarm(void **state)
{
    int i, alarms = 0;

    (void)state;
    for (i = 0; i < 200; i++) {
        seed = 5550123ULL + (unsigned long long)i * 15485863;
        alarms += judge_servers(ROUNDS, 1, true) != TD_PASS;
    }
    assert_int_equal(alarms, 0);
}

/* As gate judges: twice as many rounds, and twice again, where it is not certain. */
static enum td_verdict judge_with_looks(double factor, int *rounds)
{
    enum td_verdict v;

    *rounds = ROUNDS;
    while ((v = judge_servers(*rounds, factor, true)) == TD_INCONCLUSIVE && needed > (size_t)*rounds && *rounds * 2 <= MAX_ROUNDS)
        *rounds *= 2;
    return v;
}

/* On a machine that is a third slower for a while, again and again, all pairs of a round are slower together. Nothing may come of
 * that but the need of more rounds. */
static void test_a_machine_that_is_slower_for_a_while_raises_no_alarm(void **state)
{
    int i, rounds, alarms = 0, passes = 0, caught = 0, longer = 0;

    (void)state;
    machine_slow = 1.33;
    for (i = 0; i < 200; i++) {
        enum td_verdict v;

        seed = 424243ULL + (unsigned long long)i * 15485863;
        alarms += judge_servers(3, 1, true) == TD_REGRESSED; /* as many as gate once took */
        v = judge_with_looks(1, &rounds);
        alarms += v == TD_REGRESSED;
        passes += v == TD_PASS;
        longer += rounds > ROUNDS;
    }
    for (i = 0; i < 50; i++) {
        seed = 7771ULL + (unsigned long long)i * 32452843;
        caught += judge_with_looks(1.25, &rounds) == TD_REGRESSED;
    }
    machine_slow = 1;
    printf("a machine that is slower for a while: %d of 200 equal servers called slower, %d pass, %d took more rounds; 25 %% found in %d of 50\n",
           alarms, passes, longer, caught);
    assert_int_equal(alarms, 0);
    assert_true(passes >= 100 && longer >= 100 && caught >= 45);
}

static void test_a_slower_server_is_caught(void **state)
{
    int i, caught = 0;

    (void)state;
    for (i = 0; i < 50; i++) {
        seed = 777ULL + (unsigned long long)i * 32452843;
        caught += judge_servers(ROUNDS, 1.15, true) == TD_REGRESSED;
    }
    assert_true(caught >= 49);
}

/* A slowdown of some prompts alone is no pass, though most prompts of each round take as long as before. */
static void test_some_slow_prompts_are_no_pass(void **state)
{
    int caught = 0;

    (void)state;
    slow_prompts = 4;
    for (int i = 0; i < 20; i++) {
        seed = 99ULL + (unsigned long long)i * 32452843;
        caught += judge_servers(ROUNDS, 1, true) == TD_REGRESSED;
    }
    slow_prompts = 0;
    assert_int_equal(caught, 20);
}

/* Nothing is known of a time between tokens that come all at once. */
static void test_a_metric_without_figures_is_no_pass(void **state)
{
    (void)state;
    seed = 5551;
    at_once = true;
    assert_int_equal(judge_servers(ROUNDS, 1, true), TD_INCONCLUSIVE);
    at_once = false;
    assert_non_null(strstr(said, "itl: 0 rounds cannot exclude"));
}

static void test_against_a_recording_it_is_information(void **state)
{
    (void)state;
    seed = 31337;
    assert_int_equal(judge_servers(0, 1.5, false), TD_NOT_JUDGED);
    assert_int_equal(judge_servers(0, 1.5, true), TD_INCONCLUSIVE); /* asked for by name */
}

/* ---- other programs --------------------------------------------------------------------------- */

/* Of rounds on two cores: what others took while the baseline and while the candidate was timed, and how long programs waited. The
 * third is the last round, the second the one before it, the first all others. */
struct beside { double old[3], now[3], waited; };

static enum td_verdict judge_with(int rounds, const struct beside *b, double factor, double slow)
{
    struct td_speed_block block[2 * MAX_ROUNDS];
    int r;

    for (r = 0; r < rounds; r++) {
        const int which = r + 3 < rounds ? 0 : r + 3 - rounds;

        block[2 * r] = (struct td_speed_block){true, r, {b->old[which], 2, b->waited, ""}, false, false};
        block[2 * r + 1] = (struct td_speed_block){false, r, {b->now[which], 2, b->waited, ""}, false, false};
    }
    seed = 909090;
    return judge_beside(rounds, factor, slow, true, block, 2 * (size_t)rounds);
}

/* Whatever the times say, rounds in which others took more on one side than on the other say nothing; two sound ones are needed. */
static void test_rounds_that_other_programs_disturbed(void **state)
{
    static const struct { int rounds; struct beside b; double factor, slow; enum td_verdict want; const char *says; } cases[] = {
        /* a free machine, and one whose others are equal and in nobody's way: the times count */
        {12, {{0, 0.02, 0}, {0.01, 0, 0}, 0.3}, 1.15, 1, TD_REGRESSED, "slower"},
        {12, {{0, 0.02, 0}, {0.01, 0, 0}, 0.3}, 1, 1, TD_PASS, "no slowdown"},
        {12, {{0.8, 0.75, 0.8}, {0.75, 0.8, 0.8}, 0.02}, 1.15, 1, TD_REGRESSED, "slower"},
        /* one side of two rounds or more */
        {3, {{0, 0.2, 0}, {1.4, 1.4, 1.2}, 0.02}, 1.9, 1, TD_INCONCLUSIVE,
         "in round 1 other programs used 0.00 of 2 cores during the baseline, 1.40 during the candidate; rounds so disturbed: 3 of 3: stop those "
         "programs, or give more --rounds"},
        {3, {{0, 1.4, 1.4}, {0, 0.2, 0.2}, 0.02}, 1, 1, TD_INCONCLUSIVE,
         "in round 2 other programs used 1.40 of 2 cores during the baseline, 0.20 during the candidate; rounds so disturbed: 2 of 3:"},
        /* one alone: it is left out, and the others are judged: slower there, or not */
        {13, {{0, 0, 0}, {0, 0, 1.4}, 0.02}, 1, 2.5, TD_PASS, "1 of 13 rounds of both servers is left out: in round 13 other programs used 0.00 of 2 cores"},
        {13, {{0, 0, 0}, {0, 0, 1.4}, 0.02}, 1.15, 1, TD_REGRESSED, "1 of 13 rounds of both servers is left out"},
        {13, {{0, 0, 1.4}, {0, 0, 0}, 0.02}, 1.15, -2.5, TD_REGRESSED, "1 of 13 rounds of both servers is left out"},
        /* as much on both sides, but so much that programs waited: others would have taken more, and nobody knows how much */
        {3, {{0.8, 0.75, 0.8}, {0.75, 0.8, 0.8}, 0.4}, 1.15, 1, TD_INCONCLUSIVE,
         "in round 1 other programs used 0.80 of 2 cores during the baseline, 0.75 during the candidate, and programs waited for a core in 40 % of the time"},
        {3, {{0.8, 0.75, 0.8}, {0.75, 0.8, 0.8}, -1}, 1, 1, TD_INCONCLUSIVE, "and how long programs waited for a core is not known"}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        const enum td_verdict got = judge_with(cases[i].rounds, &cases[i].b, cases[i].factor, cases[i].slow);

        if (got != cases[i].want || !strstr(said, cases[i].says))
            fail_msg("case %zu: %s: %s", i, td_verdict_name(got), said);
        if (cases[i].want == TD_INCONCLUSIVE && strstr(said, "slow"))
            fail_msg("case %zu judges, too: %s", i, said);
    }
}

/* Without a cause the slow round counts, and nobody can call the same times a pass. */
static void test_a_slow_round_counts_where_nothing_disturbed_it(void **state)
{
    static const struct beside quiet = {{0, 0, 0}, {0, 0, 0}, 0};

    (void)state;
    assert_int_equal(judge_with(ROUNDS, &quiet, 1, 2.5), TD_INCONCLUSIVE);
    assert_non_null(strstr(said, "cannot exclude a slowdown"));
    assert_in_range(needed, ROUNDS + 1, 1000);
}

/* Where it is not known, times count as ever, and the report says so. */
static void test_others_that_are_not_known(void **state)
{
    struct td_speed_block block[2 * ROUNDS] = {{0}};
    int i;

    (void)state;
    for (i = 0; i < 2 * ROUNDS; i++) {
        block[i] = (struct td_speed_block){.is_baseline = i & 1, .round = i / 2, .others = {.cores = 1.4 * (i & 1), .of = 2}};
        snprintf(block[i].others.unknown, sizeof block[i].others.unknown, "the server is on another machine");
    }
    seed = 909090;
    assert_int_equal(judge_beside(ROUNDS, 1, 1, true, block, 2 * ROUNDS), TD_PASS);
    assert_non_null(strstr(said, "what other programs took of the machine is not known: the server is on another machine"));
    assert_int_equal(judge_beside(ROUNDS, 1.15, 1, true, block, 2 * ROUNDS), TD_REGRESSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lower_clock_is_no_regression), cmocka_unit_test(test_two_hundred_unchanged_builds_raise_no_alarm),
        cmocka_unit_test(test_slow_starts_of_unchanged_builds_slow_no_row),
        cmocka_unit_test(test_measured_starts),
        cmocka_unit_test(test_ops_that_share_a_start_are_one_sample),
        cmocka_unit_test(test_starts_are_found_again),
        cmocka_unit_test(test_more_are_needed_than_there_are),
        cmocka_unit_test(test_a_total_alone_is_slower),
        cmocka_unit_test(test_ten_percent_are_caught),
        cmocka_unit_test(test_faster_is_no_regression),
        cmocka_unit_test(test_too_few_pairs_are_inconclusive_and_say_how_many_would_do),
        cmocka_unit_test(test_two_hundred_unchanged_servers_raise_no_alarm),
        cmocka_unit_test(test_a_machine_that_is_slower_for_a_while_raises_no_alarm),
        cmocka_unit_test(test_a_slower_server_is_caught),
        cmocka_unit_test(test_some_slow_prompts_are_no_pass),
        cmocka_unit_test(test_a_metric_without_figures_is_no_pass),
        cmocka_unit_test(test_against_a_recording_it_is_information),
        cmocka_unit_test(test_rounds_that_other_programs_disturbed),
        cmocka_unit_test(test_a_slow_round_counts_where_nothing_disturbed_it),
        cmocka_unit_test(test_others_that_are_not_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
