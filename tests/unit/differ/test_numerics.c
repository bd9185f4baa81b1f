/* test_numerics.c - judgements of the replayer weighed: floors, four times the baseline, stability, what is unknown.
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
#include "differ/lane_ops.h"

#define REC "{\"score\":0.98,\"rel_l2\":2e-4,\"max_abs\":0.01,\"worst_row\":[1,0.5],\"worst_col\":[7,0.9],\"worst_tile\":[0,32,0.6]," \
            "\"nan\":0,\"inf\":0,\"zero\":0,\"ref_nonzero\":2048,\"repeats\":1,\"unstable\":0,\"spread\":0}"
#define VARIES "{\"varies\":true,\"score\":0.98,\"worst_row\":[1,0.5],\"worst_col\":[7,0.9],\"worst_tile\":[0,32,0.6],\"ref_nonzero\":2048,\"repeats\":1,\"unstable\":0}"
#define VARIES_NOT_NOW "{\"varies\":true,\"score\":0.98,\"worst_row\":[1,0.5],\"worst_col\":[7,0.9],\"worst_tile\":[0,32,0.6],\"ref_nonzero\":2048,\"repeats\":3,\"unstable\":0}"
/* of an op with one row */
#define HALVES(repeats, score, row) "{\"repeats\":" repeats ",\"unstable\":9,\"score\":" #score ",\"worst_row\":[0," #row "],\"worst_col\":[7," #score "]," \
                                    "\"worst_tile\":[0,32," #row "],\"ref_nonzero\":2048}"

#define RUNS(repeats, odd) "{\"repeats\":" repeats ",\"unstable\":44,\"odd_runs\":" odd ",\"score\":1,\"worst_row\":[1,0.5],\"worst_col\":[7,0.9]," \
                           "\"worst_tile\":[0,32,0.6],\"ref_nonzero\":2048}"

#define APART(spread, score) "{\"repeats\":3,\"unstable\":44,\"odd_runs\":1,\"spread\":" spread ",\"score\":" score "," \
                             "\"worst_row\":[1,0.5],\"worst_col\":[7,0.9],\"worst_tile\":[0,32,0.6],\"ref_nonzero\":2048}"

/* One E as JSON; special: its counts of special values, or NULL for none. */
static const char *error_json(double score, double col, int repeats, int unstable, const char *special)
{
    static char out[4][600];
    static int turn;
    char *s = out[turn++ & 3];
    char number[40];

    if (isfinite(score))
        snprintf(number, sizeof number, "%g", score);
    else
        snprintf(number, sizeof number, "\"Infinity\"");
    snprintf(s, sizeof out[0], "{\"score\":%s,\"rel_l2\":2e-4,\"worst_row\":[1,0.5],\"worst_col\":[7,%g],\"worst_tile\":[8,32,0.6],"
             "%s,\"repeats\":%d,\"unstable\":%d,\"spread\":0}", number, col, special ? special
             : "\"nan\":0,\"inf\":0,\"zero\":0,\"ref_nonzero\":2048", repeats, unstable);
    return s;
}

struct world { struct td_judged_ops base, now; struct td_policy policy; struct td_numerics n; struct td_lane lane; };

static bool must_repeat; /* the policy of start() */

static void start(struct world *w)
{
    memset(w, 0, sizeof *w);
    td_policy_default(&w->policy);
    w->policy.must_repeat = must_repeat;
    w->lane.id = TD_LANE_OPS;
    w->lane.asked = w->lane.by_name = true;
}

static const char *halves; /* of the ops that are added: right sums in halves, as JSON; NULL: none */
static const char *halves_side = "candidate"; /* which declares them */

/* Add op number `op` to both sides; judge NULL: not replayed. Through the real reader. */
static void add(struct world *w, int64_t op, int64_t m, const char *status, const char *recorded, const char *baseline,
                const char *candidate, int64_t equal)
{
    char json[4096], beside[1024] = "";
    struct td_op r;
    struct td_error err = {0, ""};

    memset(&r, 0, sizeof r);
    snprintf(json, sizeof json, "{\"m\":%lld,\"n\":256,\"k\":640,\"bits\":4,\"group_size\":128}", (long long)m);
    r.op = op;
    r.step = op / 4;
    r.kind = (char *)"gptq_gemm";
    r.attrs = td_json_parse(json, strlen(json), NULL);
    r.has_out = true;
    strcpy(r.out.dtype, "F16");
    r.layer = (char *)"model.layers.0.mlp.down_proj";
    assert_int_equal(td_judged_ops_add(&w->base, "fx", &r, &err), TD_OK);
    if (status) {
        if (halves) /* HALVES() ends in a brace */
            snprintf(beside, sizeof beside, ",\"halves\":%.*s,\"block\":128,\"side\":\"%s\"}", (int)strlen(halves) - 1, halves, halves_side);
        snprintf(json, sizeof json,
                 "{\"status\":\"%s\",\"reason\":\"because\",\"limits\":{\"floor\":4},\"recorded\":%s,\"baseline\":%s,\"candidate\":%s,"
                 "\"equal\":%lld,\"total\":2048%s}", status, recorded ? recorded : "null", baseline ? baseline : "null",
                 candidate ? candidate : "null", (long long)equal, beside);
        r.judge = td_json_parse(json, strlen(json), NULL);
        assert_non_null(r.judge);
        r.origin = td_json_parse("{\"fixture\":\"fx\",\"op\":0}", 23, NULL);
        cJSON_ReplaceItemInObject(r.origin, "op", cJSON_CreateNumber((double)op));
        r.op = 1000 + op;
        r.layer = NULL;
        assert_int_equal(td_judged_ops_add(&w->now, "other", &r, &err), TD_OK);
        cJSON_Delete(r.judge);
        cJSON_Delete(r.origin);
    }
    cJSON_Delete(r.attrs);
}

static enum td_verdict finish(struct world *w)
{
    struct td_error err = {0, ""};

    td_judged_ops_join(&w->now, &w->base);
    assert_int_equal(td_numerics_measure(&w->now, &w->base, &w->policy, &w->n, &err), TD_OK);
    td_numerics_judge(&w->n, &w->now, w->base.n, &w->lane);
    return w->lane.verdict;
}

static void stop(struct world *w)
{
    int i;

    for (i = 0; i < w->lane.n_notes; i++)
        free(w->lane.notes[i].text);
    td_numerics_release(&w->n);
    td_judged_ops_release(&w->now);
    td_judged_ops_release(&w->base);
}

/* One op with its judgement; the lane's verdict. why: a word of the op's sentence, or NULL. */
static enum td_verdict one(const char *status, const char *recorded, const char *baseline, const char *candidate, const char *why)
{
    struct world w;
    enum td_verdict v;

    start(&w);
    add(&w, 0, 8, status, recorded, baseline, candidate, 100);
    v = finish(&w);
    if (why && !strstr(w.now.op[0].why, why))
        fail_msg("\"%s\" is not in \"%s\"", why, w.now.op[0].why);
    stop(&w);
    return v;
}

static void test_the_floor_and_four_times_the_baseline(void **state)
{
    (void)state;
    assert_int_equal(one("ok", REC, NULL, error_json(1.1, 0.9, 3, 0, NULL), NULL), TD_PASS);
    assert_int_equal(one("ok", REC, NULL, error_json(3.99, 0.9, 3, 0, NULL), NULL), TD_PASS);
    assert_int_equal(one("ok", REC, NULL, error_json(4.1, 0.9, 3, 0, NULL), "error 4.1, element limit 4"), TD_REGRESSED);
    /* a baseline that is rough itself (half atomics) allows four times as much, not more */
    assert_int_equal(one("ok", error_json(20, 5, 1, 0, NULL), NULL, error_json(79, 5, 3, 0, NULL), NULL), TD_PASS);
    assert_int_equal(one("ok", error_json(20, 5, 1, 0, NULL), NULL, error_json(81, 5, 3, 0, NULL), "limit 80"), TD_REGRESSED);
    /* --baseline-build's own run stands over the recorded output */
    assert_int_equal(one("ok", error_json(20, 5, 1, 0, NULL), error_json(1, 1, 3, 0, NULL), error_json(79, 5, 3, 0, NULL), NULL),
                     TD_REGRESSED);
}

static void test_one_bad_column_cannot_hide(void **state)
{
    (void)state;
    assert_int_equal(one("ok", REC, NULL, error_json(3.9, 3.7, 3, 0, NULL), "column 7"), TD_REGRESSED);
}

static void test_nan_zero_crash(void **state)
{
    const char *nan = error_json(INFINITY, 0, 3, 0, "\"nan\":512,\"inf\":0,\"zero\":0,\"ref_nonzero\":2048");
    const char *zero = error_json(3, 1, 3, 0, "\"nan\":0,\"inf\":0,\"zero\":2048,\"ref_nonzero\":2048");

    (void)state;
    assert_int_equal(one("ok", REC, NULL, nan, "NaN in 512 of 2048"), TD_REGRESSED);
    assert_int_equal(one("ok", nan, NULL, nan, "as in the baseline"), TD_INCONCLUSIVE);
    assert_int_equal(one("ok", NULL, NULL, nan, "--baseline-build"), TD_INCONCLUSIVE);
    assert_int_equal(one("ok", REC, NULL, zero, "all 2048 elements are zero"), TD_REGRESSED);
    assert_int_equal(one("ok", zero, NULL, zero, "as in the baseline"), TD_INCONCLUSIVE);
    assert_int_equal(one("crashed", REC, NULL, NULL, "crashed: because"), TD_REGRESSED);
    assert_int_equal(one("hung", REC, NULL, NULL, "hung"), TD_REGRESSED);
    assert_int_equal(one("failed", REC, NULL, NULL, "failed"), TD_REGRESSED);
    /* NaN where the inputs make it right has a finite score */
    assert_int_equal(one("ok", REC, NULL, error_json(1, 1, 3, 0, "\"nan\":8,\"inf\":0,\"zero\":0,\"ref_nonzero\":2048"), NULL), TD_PASS);
}

/* Attention scores of many heads: most are masked, and m and n are those of one head. */
static void test_zeros_of_a_batch_are_not_all(void **state)
{
    const char *some = error_json(0.5, 0.1, 3, 0, "\"nan\":0,\"inf\":0,\"zero\":1500,\"ref_nonzero\":548");
    struct world w;

    (void)state;
    start(&w);
    add(&w, 0, 4, "ok", some, NULL, some, 2048); /* m * n = 1024, total 2048 */
    assert_int_equal(finish(&w), TD_PASS);
    stop(&w);
}

static void test_what_is_unknown_is_never_a_pass(void **state)
{
    (void)state;
    assert_int_equal(one("unsupported", REC, NULL, NULL, "unsupported: because"), TD_INCONCLUSIVE);
    assert_int_equal(one("broken", NULL, NULL, NULL, "because"), TD_BROKEN);
    assert_int_equal(one("ok", NULL, NULL, error_json(9, 1, 3, 0, NULL), "--baseline-build"), TD_INCONCLUSIVE); /* a digest only */
    assert_int_equal(one("ok", NULL, NULL, error_json(1, 1, 3, 0, NULL), NULL), TD_PASS); /* under the floor it is right anyway */
    assert_int_equal(one("ok", REC, NULL, NULL, "without an error measure"), TD_BROKEN);
}

static void test_stability(void **state)
{
    const char *stable = error_json(1, 1, 3, 0, NULL), *unstable = error_json(1, 1, 3, 44, NULL);

    (void)state;
    assert_int_equal(one("ok", REC, stable, unstable, NULL), TD_PASS); /* sums in any order are right */
    assert_int_equal(one("ok", REC, NULL, unstable, NULL), TD_PASS);
    must_repeat = true;
    assert_int_equal(one("ok", REC, stable, unstable, "too few to tell"), TD_INCONCLUSIVE);
    assert_int_equal(one("ok", REC, error_json(1, 1, 20, 0, NULL), RUNS("20", "7"), "repeats bit for bit"), TD_REGRESSED);
    assert_int_equal(one("ok", REC, error_json(1, 1, 20, 0, NULL), RUNS("20", "6"), "too few to tell"), TD_INCONCLUSIVE);
    assert_int_equal(one("ok", REC, unstable, unstable, NULL), TD_PASS);
    assert_int_equal(one("ok", REC, NULL, unstable, "--baseline-build"), TD_INCONCLUSIVE);
    assert_int_equal(one("ok", VARIES, NULL, unstable, NULL), TD_PASS); /* so is the recorded kernel */
    assert_int_equal(one("ok", VARIES, NULL, error_json(9, 1, 3, 44, NULL), "error 9"), TD_REGRESSED);
    /* one row, halves added: an element may be far off, the row as a whole is not; scales off by 1 % are the other way round */
    assert_int_equal(one("ok", HALVES("3,\"varies\":true", 38, 1.8), NULL, HALVES("3", 41, 2.0), NULL), TD_PASS);
    assert_int_equal(one("ok", HALVES("3,\"varies\":true", 38, 1.8), NULL, HALVES("3", 22, 13), "row 0: rms error 13, rms limit 7.2"), TD_REGRESSED);
    assert_int_equal(one("ok", REC, VARIES_NOT_NOW, unstable, NULL), TD_PASS); /* its three runs agreed by chance */
    assert_int_equal(one("ok", REC, VARIES_NOT_NOW, error_json(9, 1, 3, 44, NULL), "error 9"), TD_REGRESSED);
    assert_int_equal(one("ok", REC, error_json(1, 1, 3, 0, NULL), error_json(1, 1, 1, 0, NULL), NULL), TD_INCONCLUSIVE); /* one run repeats nothing */
    must_repeat = false;
    assert_int_equal(one("ok", REC, error_json(1, 1, 3, 0, NULL), error_json(1, 1, 1, 0, NULL), NULL), TD_PASS);
}

/* The first run is right, another is not: it lost an update. */
static void test_runs_lie_no_further_apart_than_the_limit(void **state)
{
    (void)state;
    assert_int_equal(one("ok", REC, error_json(1, 1, 3, 0, NULL), APART("2.4", "0.9"), NULL), TD_PASS);
    assert_int_equal(one("ok", REC, error_json(1, 1, 3, 0, NULL), APART("2.6", "0.9"), "by 2.6 roundings at the worst; sums in any order explain 2.5"),
                     TD_REGRESSED); /* though the element limit is 4 */
    assert_int_equal(one("ok", REC, NULL, APART("\"Infinity\"", "0.9"), "unstable"), TD_REGRESSED); /* NaN in one run */
    /* the worst run has to keep the limits; where it lies further from the others than runs may, that is what is said */
    assert_int_equal(one("ok", REC, NULL, APART("2", "9,\"worst_run\":1"), "error 9 in run 2 of 3, element limit"), TD_REGRESSED);
    assert_int_equal(one("ok", REC, NULL, APART("8", "9,\"worst_run\":1"), "unstable"), TD_REGRESSED);
    assert_int_equal(one("ok", REC, NULL, APART("8", "9"), "error 9, element limit"), TD_REGRESSED);
    assert_int_equal(one("ok", NULL, NULL, APART("9", "0.9"), "--baseline-build"), TD_INCONCLUSIVE); /* a digest only */
    /* beside a baseline that varies itself, and is rough */
    assert_int_equal(one("ok", HALVES("3", 38, 1.8), NULL, APART("150", "30"), NULL), TD_PASS);
    assert_int_equal(one("ok", HALVES("3", 38, 1.8), NULL, APART("153", "30"), "explain 152"), TD_REGRESSED);
}

/* A kernel that declares sums in halves, beside one that adds in float32. */
static void test_declared_halves_raise_the_limits(void **state)
{
    struct world w;

    (void)state;
    assert_int_equal(one("ok", REC, NULL, HALVES("1", 120, 5), "error 120, element limit 4"), TD_REGRESSED);
    halves = HALVES("1", 38, 1.8);
    assert_int_equal(one("ok", REC, NULL, HALVES("1", 120, 5), NULL), TD_PASS);
    assert_int_equal(one("ok", REC, NULL, HALVES("1", 153, 5), "element limit 152"), TD_REGRESSED);
    assert_int_equal(one("ok", REC, NULL, HALVES("1", 120, 8), "row 0: rms error 8, rms limit 7.2"), TD_REGRESSED);
    /* two right runs, each within the limit of 152, lie up to twice as far apart */
    assert_int_equal(one("ok", REC, error_json(1, 1, 3, 0, NULL), APART("300", "30"), NULL), TD_PASS);
    assert_int_equal(one("ok", REC, error_json(1, 1, 3, 0, NULL), APART("305", "30"), "explain 304"), TD_REGRESSED);
    /* and so beside a baseline that adds in halves itself, though its own runs lay less far apart */
    halves_side = "baseline";
    assert_int_equal(one("ok", REC, HALVES("3", 30, 1.8), APART("300", "30"), NULL), TD_PASS);
    assert_int_equal(one("ok", REC, HALVES("3", 30, 1.8), APART("305", "30"), "explain 304"), TD_REGRESSED);
    halves_side = "candidate";
    /* a baseline build that declares them is not bad beside the recorded output either; one that does not is */
    assert_int_equal(one("ok", REC, HALVES("1", 41, 2), REC, NULL), TD_INCONCLUSIVE);
    halves_side = "baseline";
    assert_int_equal(one("ok", REC, HALVES("1", 41, 2), REC, NULL), TD_PASS);
    halves_side = "candidate";
    start(&w);
    add(&w, 0, 1, "ok", REC, NULL, HALVES("1", 120, 5), 100);
    assert_int_equal(finish(&w), TD_PASS);
    assert_int_equal(w.n.halves, 1);
    assert_true(w.n.halves_score == 38 && w.n.halves_block == 128);
    stop(&w);
    halves = NULL;
    assert_int_equal(one("ok", REC, HALVES("1", 41, 2), REC, NULL), TD_INCONCLUSIVE);
}

static void test_a_new_order_is_told(void **state)
{
    struct world w;

    (void)state;
    start(&w);
    add(&w, 0, 1, "ok", REC, error_json(1, 1, 3, 0, NULL), APART("1.9", "0.9"), 100);
    add(&w, 1, 1, "ok", REC, error_json(1, 1, 3, 0, NULL), error_json(1, 1, 3, 0, NULL), 2048);
    assert_int_equal(finish(&w), TD_PASS);
    assert_int_equal(w.n.vary_newly, 1);
    assert_true(w.n.vary_newly_spread == 1.9);
    stop(&w);
}

/* Of each op 3 runs a side: `old` and `now` of n ops vary. The verdict; why: as one(). */
static enum td_verdict some_vary(int n, int old, int now, const char *why)
{
    struct world w;
    enum td_verdict v;
    int i, told = 0;

    start(&w);
    for (i = 0; i < n; i++)
        add(&w, i, 1 + i % 3 * 20, "ok", REC, error_json(1, 1, 3, i >= n - old ? 44 : 0, NULL),
            error_json(1, 1, 3, i < now ? 44 : 0, NULL), 100);
    v = finish(&w);
    for (i = 0; i < n; i++)
        told += strstr(w.now.op[i].why, why) != NULL;
    assert_int_equal(told, v == TD_PASS ? n : now);
    stop(&w);
    return v;
}

/* Three runs that agree do not show that a kernel repeats: all runs of the kernel do. */
static void test_stability_is_of_the_kernel(void **state)
{
    (void)state;
    must_repeat = true;
    assert_int_equal(some_vary(20, 0, 14, "runs that differ: 14 of 60, before 0 of 60"), TD_REGRESSED);
    assert_int_equal(some_vary(20, 0, 7, "bit for bit"), TD_REGRESSED); /* p = 0.0064 */
    assert_int_equal(some_vary(20, 0, 6, "too few to tell"), TD_INCONCLUSIVE); /* p = 0.0136 */
    assert_int_equal(some_vary(20, 0, 2, "--op-repeat 20"), TD_INCONCLUSIVE);
    assert_int_equal(some_vary(20, 16, 2, ""), TD_PASS); /* other ops, of other M, vary in the baseline */
    assert_int_equal(some_vary(20, 1, 19, ""), TD_PASS);
    must_repeat = false;
    assert_int_equal(some_vary(20, 0, 14, ""), TD_PASS);
}

static void test_groups_counts_and_coverage(void **state)
{
    struct world w;

    (void)state;
    start(&w);
    add(&w, 0, 1, "ok", REC, NULL, error_json(1, 1, 3, 0, NULL), 2048);
    add(&w, 1, 1, "ok", REC, NULL, error_json(60, 30, 3, 0, NULL), 3);
    add(&w, 2, 20, "ok", REC, NULL, error_json(1, 1, 3, 0, NULL), 2048);
    add(&w, 3, 100, NULL, NULL, NULL, NULL, 0); /* recorded, not replayed */
    assert_int_equal(finish(&w), TD_REGRESSED);
    assert_int_equal(w.n.judged, 3);
    assert_int_equal(w.n.worse, 1);
    assert_int_equal(w.n.bit_equal, 2);
    assert_int_equal(w.n.not_replayed, 1);
    assert_int_equal(w.n.n, 3);
    assert_string_equal(w.n.coverage, "gptq_gemm 2 of 3 shapes x M classes (3 of 4 ops)");
    assert_string_equal(w.now.op[0].layer, "model.layers.0.mlp.down_proj"); /* taken from the recording */
    stop(&w);
}

static void test_ops_are_joined_on_their_origin_alone(void **state)
{
    struct world w;

    (void)state;
    start(&w);
    add(&w, 5, 1, "ok", REC, NULL, error_json(1, 1, 3, 0, NULL), 2048);
    w.base.op[0].fixture = "another recording";
    assert_int_equal(finish(&w), TD_INCONCLUSIVE);
    assert_int_equal(w.n.joined, 0);
    stop(&w);
}

static void test_no_ops_at_all(void **state)
{
    struct world w;

    (void)state;
    start(&w);
    assert_int_equal(finish(&w), TD_INCONCLUSIVE); /* asked for by name */
    assert_non_null(strstr(w.lane.notes[0].text, "tap"));
    stop(&w);
    start(&w);
    w.lane.by_name = false;
    assert_int_equal(finish(&w), TD_NOT_JUDGED);
    stop(&w);
}

/* A judgement of a ggml node, as the replayer writes it. extra: members after the status. */
static void add_node(struct world *w, int64_t op, const char *kind, const char *status, const char *extra)
{
    char json[800];
    struct td_op r;
    struct td_error err = {0, ""};

    memset(&r, 0, sizeof r);
    r.op = r.step = op;
    r.kind = (char *)(uintptr_t)kind;
    r.layer = (char *)"Qcur-0";
    r.has_out = true;
    strcpy(r.out.dtype, "F32");
    assert_int_equal(td_judged_ops_add(&w->base, "fx", &r, &err), TD_OK);
    snprintf(json, sizeof json, "{\"status\":\"%s\",\"reason\":\"because\",\"reference\":false,\"recorded\":null,\"baseline\":null,"
             "\"candidate\":null,\"total\":64,%s}", status, extra);
    r.judge = td_json_parse(json, strlen(json), NULL);
    assert_non_null(r.judge);
    r.origin = td_json_parse("{\"fixture\":\"fx\",\"op\":0}", 23, NULL);
    cJSON_ReplaceItemInObject(r.origin, "op", cJSON_CreateNumber((double)op));
    assert_int_equal(td_judged_ops_add(&w->now, "other", &r, &err), TD_OK);
    cJSON_Delete(r.judge);
    cJSON_Delete(r.origin);
}

static bool lane_says(const struct world *w, const char *text)
{
    int i;

    for (i = 0; i < w->lane.n_notes; i++)
        if (strstr(w->lane.notes[i].text, text))
            return true;
    return false;
}

static void test_ops_without_reference_are_never_worse(void **state)
{
    struct world w;

    (void)state;
    start(&w);
    add(&w, 0, 1, "ok", REC, NULL, error_json(1, 1, 3, 0, NULL), 2048);
    add_node(&w, 1, "ggml_rms_norm", "ok", "\"equal\":64,\"departs\":0");
    add_node(&w, 3, "ggml_rope", "ok", "\"equal\":3,\"departs\":0.5");
    add_node(&w, 2, "ggml_soft_max", "ok", "\"equal\":60,\"departs\":1e-6");
    add_node(&w, 4, "ggml_view", "unsupported", "\"unstable\":0");
    assert_int_equal(finish(&w), TD_PASS);
    assert_int_equal(w.n.judged, 1);
    assert_int_equal(w.n.compared, 3);
    assert_int_equal(w.n.compared_equal, 1);
    assert_int_equal(w.n.not_compared, 1);
    assert_int_equal(w.n.not_replayed, 0);
    assert_string_equal(w.n.first_departs->kind, "ggml_soft_max"); /* in order of execution, not of the file */
    assert_true(lane_says(&w, "3 ops without reference: bit-equal 1"));
    assert_true(lane_says(&w, "Qcur-0 SOFT_MAX"));
    assert_true(lane_says(&w, "not compared (first: unsupported: because)"));
    stop(&w);
}

/* ... but a lack of memory says nothing of them, as of any op. */
static void test_ops_without_reference_that_lack_memory_are_no_pass(void **state)
{
    struct world w;

    (void)state;
    start(&w);
    add(&w, 0, 1, "ok", REC, NULL, error_json(1, 1, 3, 0, NULL), 2048);
    add_node(&w, 1, "ggml_rms_norm", "ok", "\"equal\":64,\"departs\":0");
    add_node(&w, 2, "ggml_soft_max", "broken", "\"unstable\":0");
    assert_int_equal(finish(&w), TD_INCONCLUSIVE);
    assert_int_equal(w.n.broken, 1);
    assert_int_equal(w.n.not_compared, 0);
    assert_true(lane_says(&w, "1 of 2 ops could not be judged (first: could not be judged: because)"));
    stop(&w);
}

static void test_the_baseline_build_stands_over_the_recording(void **state)
{
    struct world w;

    (void)state;
    start(&w);
    add_node(&w, 1, "ggml_rope", "ok", "\"equal\":3,\"departs\":0.5,\"baseline_equal\":64,\"baseline_departs\":0");
    assert_int_equal(finish(&w), TD_INCONCLUSIVE); /* nothing that has a reference */
    assert_int_equal(w.n.compared_equal, 1);
    assert_null(w.n.first_departs);
    stop(&w);
}

static void test_a_crash_without_reference_is_worse(void **state)
{
    struct world w;

    (void)state;
    start(&w);
    add_node(&w, 1, "ggml_rope", "crashed", "\"unstable\":0");
    assert_int_equal(finish(&w), TD_REGRESSED);
    stop(&w);
    start(&w);
    add_node(&w, 1, "ggml_rope", "failed", "\"equal\":3,\"departs\":\"Infinity\"");
    assert_int_equal(finish(&w), TD_REGRESSED);
    stop(&w);
}

static void test_the_format_of_the_baseline_build_counts(void **state)
{
    struct world w;

    (void)state;
    start(&w);
    add(&w, 0, 1, "ok", REC, REC, error_json(1, 1, 3, 0, NULL), 0);
    w.now.op[0].act_rounding = w.now.op[0].baseline_rounding = "none";
    w.base.op[0].act_rounding = "uint8-token"; /* recorded otherwise, but both builds agree */
    assert_int_equal(finish(&w), TD_PASS);
    assert_int_equal(w.n.format_changed, 0);
    stop(&w);
    start(&w);
    add(&w, 0, 1, "ok", REC, REC, error_json(1, 1, 3, 0, NULL), 0);
    w.now.op[0].act_rounding = "none";
    w.now.op[0].baseline_rounding = "uint8-token";
    w.now.op[0].candidate.r0_rel_l2 = 0.00125;
    w.now.op[0].baseline.r0_rel_l2 = 0.0375;
    assert_int_equal(finish(&w), TD_INCONCLUSIVE);
    assert_true(lane_says(&w, "0.00125, before 0.0375"));
    assert_true(lane_says(&w, "activations are not rounded; before: activations are rounded to 8 bits per token"));
    stop(&w);
}

/* Marlin rounds weights to 16 bits, exllama does not: each is judged by its own reference, and the change is noted. */
static void test_weights_may_be_rounded_otherwise(void **state)
{
    static const char *const names[] = {"none", "weight-f16", "weight-bf16", "zero-f16"};
    struct world w;
    int i;

    (void)state;
    for (i = 0; i < 4; i++) {
        start(&w);
        add(&w, 0, 1, "ok", REC, REC, error_json(1, 1, 3, 0, NULL), 0);
        w.now.op[0].act_rounding = names[i];
        w.now.op[0].baseline_rounding = names[(i + 1) % 4];
        assert_int_equal(finish(&w), TD_PASS);
        assert_int_equal(w.n.format_changed, 1);
        assert_true(lane_says(&w, "1 op is computed in another format"));
        assert_false(lane_says(&w, "policy"));
        stop(&w);
    }
    start(&w);                           /* it is judged all the same */
    add(&w, 0, 1, "ok", REC, REC, error_json(50, 50, 3, 0, NULL), 0);
    w.now.op[0].act_rounding = "weight-f16";
    w.now.op[0].baseline_rounding = "none";
    assert_int_equal(finish(&w), TD_REGRESSED);
    stop(&w);
}

static void test_a_change_of_format_needs_the_policy(void **state)
{
    struct world w;

    (void)state;
    start(&w);
    add(&w, 0, 1, "ok", REC, NULL, error_json(1, 1, 3, 0, NULL), 0);
    w.now.op[0].act_rounding = "int8-token";
    assert_int_equal(finish(&w), TD_INCONCLUSIVE);
    assert_non_null(strstr(w.now.op[0].why, "int8-token"));
    stop(&w);
    start(&w);
    w.policy.accept_format_change = true;
    add(&w, 0, 1, "ok", REC, NULL, error_json(1, 1, 3, 0, NULL), 0);
    w.now.op[0].act_rounding = "int8-token";
    assert_int_equal(finish(&w), TD_PASS);
    stop(&w);
}

/* Add an op that crashed in that stage. */
static void add_crash(struct world *w, int64_t op, const char *stage)
{
    char side[100];

    snprintf(side, sizeof side, "{\"crash\":\"died\"},\"stage\":\"%s\"", stage);
    add(w, op, 1, "crashed", REC, NULL, side, 0);
}

static void test_no_kernel_ran(void **state)
{
    struct world w;

    (void)state;
    start(&w); /* every op alike: no kernel is to blame */
    add_crash(&w, 0, "prepare");
    add_crash(&w, 1, "load");
    add_crash(&w, 2, "idle");
    assert_int_equal(finish(&w), TD_BROKEN);
    assert_int_equal(w.n.never_ran, 3);
    assert_int_equal(w.n.broken, 3);
    assert_int_equal(w.n.worse, 0);
    assert_non_null(strstr(w.lane.notes[0].text, "none of 3 ops came as far as its kernel (crashed: because)"));
    stop(&w);
    start(&w); /* the others could not be run for another reason */
    add_crash(&w, 0, "prepare");
    add(&w, 1, 1, "unsupported", REC, NULL, NULL, 0);
    assert_int_equal(finish(&w), TD_BROKEN);
    stop(&w);
    start(&w); /* one op shows that the build can be run: the other is the build's fault */
    add_crash(&w, 0, "prepare");
    add(&w, 1, 1, "ok", REC, NULL, error_json(1, 1, 3, 0, NULL), 0);
    assert_int_equal(finish(&w), TD_REGRESSED);
    assert_int_equal(w.n.never_ran, 0);
    assert_int_equal(w.n.worse, 1);
    stop(&w);
    start(&w); /* kernels that die show it too */
    add_crash(&w, 0, "prepare");
    add_crash(&w, 1, "run");
    assert_int_equal(finish(&w), TD_REGRESSED);
    assert_int_equal(w.n.worse, 2);
    stop(&w);
    start(&w); /* older replays do not name a stage */
    add(&w, 0, 1, "crashed", REC, NULL, "{\"crash\":\"died\"}", 0);
    assert_int_equal(finish(&w), TD_REGRESSED);
    stop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_floor_and_four_times_the_baseline),
        cmocka_unit_test(test_one_bad_column_cannot_hide),
        cmocka_unit_test(test_nan_zero_crash),
        cmocka_unit_test(test_zeros_of_a_batch_are_not_all),
        cmocka_unit_test(test_what_is_unknown_is_never_a_pass),
        cmocka_unit_test(test_stability),
        cmocka_unit_test(test_stability_is_of_the_kernel),
        cmocka_unit_test(test_runs_lie_no_further_apart_than_the_limit),
        cmocka_unit_test(test_declared_halves_raise_the_limits),
        cmocka_unit_test(test_a_new_order_is_told),
        cmocka_unit_test(test_groups_counts_and_coverage),
        cmocka_unit_test(test_ops_are_joined_on_their_origin_alone),
        cmocka_unit_test(test_no_ops_at_all),
        cmocka_unit_test(test_ops_without_reference_are_never_worse),
        cmocka_unit_test(test_ops_without_reference_that_lack_memory_are_no_pass),
        cmocka_unit_test(test_the_baseline_build_stands_over_the_recording),
        cmocka_unit_test(test_a_crash_without_reference_is_worse),
        cmocka_unit_test(test_the_format_of_the_baseline_build_counts),
        cmocka_unit_test(test_weights_may_be_rounded_otherwise), cmocka_unit_test(test_a_change_of_format_needs_the_policy),
        cmocka_unit_test(test_no_kernel_ran),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
