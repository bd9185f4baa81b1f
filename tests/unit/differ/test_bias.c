/* test_bias.c - bias and coarseness over all ops of a kernel, by simulated kernels: right ones never
 * alarm, wrong ones do, and the slice is named.
 * SPDX-License-Identifier: Apache-2.0
 *
 * TD_BIAS_RUNS=200 runs the simulations that often, with other numbers each time, and prints a table
 * (docs/measurements/2026-11-bias.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "differ/bias_unsure.h"
#include "differ/judged_slices.h"
#include "tests/unit/differ/sim_kernels.h"

#define LAYERS 4
#define OPS_OF_LAYER 16
#define OPS (LAYERS * OPS_OF_LAYER)
#define N 192

static const char *const LAYER[LAYERS] = {"layers.0.up", "layers.1.up", "layers.2.up", "layers.3.up"};

static int runs(int otherwise)
{
    const char *given = getenv("TD_BIAS_RUNS");

    return given ? atoi(given) : otherwise;
}

/* ---- a world of ops ---------------------------------------------------------------------------- */

static struct sim_op OP[OPS];

/* Half of the ops have one row, half of them 2 to 8. */
static void make_ops_alike(uint64_t seed, bool massive, bool alike)
{
    static struct sim_layer layer;
    int l, i;

    sim_state = seed;
    for (l = 0; l < LAYERS; l++) {
        sim_layer_init(&layer, N, massive, alike);
        for (i = 0; i < OPS_OF_LAYER; i++)
            sim_op_init(&OP[l * OPS_OF_LAYER + i], &layer, i % 2 ? 1 : 2 + (int)(sim_random() % 7));
    }
}

static void make_ops(uint64_t seed, bool massive)
{
    make_ops_alike(seed, massive, false);
}

struct world { struct td_judged_ops set; struct td_policy policy; struct td_bias bias; };

static void add_op(struct world *w, int i, const struct sim_kernel *base, const struct sim_kernel *now)
{
    struct td_judged_op *op = &w->set.op[w->set.n++];

    *op = (struct td_judged_op){.fixture = "fx", .op = i, .kind = "gptq_gemm", .layer = LAYER[i / OPS_OF_LAYER],
                                .dtype = "F16", .shape = "192x512 b4 g128", .act_rounding = "none",
                                .status = TD_OP_OK, .m = OP[i].m, .n = N, .k = SIM_K, .m_class = td_m_class(OP[i].m),
                                .input = (uint64_t)i, .result = TD_RESULT_OK};
    op->recorded.present = op->candidate.present = true;
    op->recorded.slices = calloc(1, sizeof *op->recorded.slices);
    op->candidate.slices = calloc(1, sizeof *op->candidate.slices);
    sim_run(&OP[i], base, op->recorded.slices);
    sim_run(&OP[i], now, op->candidate.slices);
}

static void start(struct world *w)
{
    memset(w, 0, sizeof *w);
    td_policy_default(&w->policy);
    w->set.op = calloc(2 * OPS, sizeof *w->set.op);
    assert_non_null(w->set.op);
}

static void measure(struct world *w)
{
    assert_int_equal(td_bias_measure(&w->set, &w->policy, &w->bias, NULL), TD_OK);
    assert_int_equal(td_bias_mark_unsure(&w->set, &w->bias, NULL), TD_OK);
}

/* wrong_layer: only there the candidate is `now`, elsewhere as the baseline; ALL; ALL_BUT_FIRST */
#define ALL (-1)
#define ALL_BUT_FIRST (-2)
static void compare(struct world *w, const struct sim_kernel *base, const struct sim_kernel *now, int wrong_layer)
{
    int i;

    start(w);
    for (i = 0; i < OPS; i++)
        add_op(w, i, base,
               wrong_layer == ALL || i / OPS_OF_LAYER == wrong_layer || (wrong_layer == ALL_BUT_FIRST && i >= OPS_OF_LAYER)
                   ? now : base);
    measure(w);
}

static void stop(struct world *w)
{
    size_t i;

    td_bias_release(&w->bias);
    for (i = 0; i < w->set.n; i++) {
        td_judged_op_set_why(&w->set.op[i], "");
        free(w->set.op[i].recorded.slices);
        free(w->set.op[i].candidate.slices);
    }
    free(w->set.op);
}

static size_t findings(const struct world *w, bool coarse)
{
    size_t i, n = 0;

    for (i = 0; i < w->bias.n; i++)
        n += (w->bias.found[i].test.measure == TD_SLICE_COARSE) == coarse;
    return n;
}

/* ---- right kernels ----------------------------------------------------------------------------- */

static bool is_coarser(const struct sim_kernel *a, const struct sim_kernel *b)
{
    return (a->adds == SIM_HALVES && b->adds != SIM_HALVES) || (a->weights == SIM_F16_WEIGHTS && b->adds != SIM_HALVES);
}

/* Each beside each, whichever is the baseline. Coarser than float32 are sums of halves, and weights that are
 * rounded to f16 where nobody declared it; that is said. */
static void right_kernels_never_alarm(void **state)
{
    static const struct sim_kernel RIGHT[] = {
        {SIM_F32, SIM_EXACT, SIM_RIGHT}, {SIM_F32_BACKWARDS, SIM_EXACT, SIM_RIGHT}, {SIM_F32_PAIRS, SIM_EXACT, SIM_RIGHT},
        {SIM_F32_8_LANES, SIM_EXACT, SIM_RIGHT}, {SIM_F32_16_LANES, SIM_EXACT, SIM_RIGHT},
        {SIM_F32_CUT, SIM_EXACT, SIM_RIGHT}, {SIM_SPLIT_K, SIM_EXACT, SIM_RIGHT}, {SIM_HALVES, SIM_EXACT, SIM_RIGHT},
        {SIM_F32, SIM_F16_WEIGHTS, SIM_RIGHT}};
    const size_t kinds = sizeof RIGHT / sizeof *RIGHT;
    int run, compared = 0;
    size_t a, b;
    struct world w;

    (void)state;
    for (run = 0; run < runs(4); run++) {
        make_ops_alike(1000 + (uint64_t)run, run % 2, run % 4 > 1);
        for (a = 0; a < kinds; a++)
            for (b = 0; b < kinds; b++, compared++) {
                compare(&w, &RIGHT[a], &RIGHT[b], -1);
                assert_int_equal(w.bias.groups, 2);
                assert_int_equal(findings(&w, false), 0);
                assert_true(findings(&w, true) == 0 || is_coarser(&RIGHT[b], &RIGHT[a]));
                assert_true(!w.bias.better || is_coarser(&RIGHT[a], &RIGHT[b]));
                stop(&w);
            }
    }
    if (getenv("TD_BIAS_RUNS"))
        printf("right kernels: %d comparisons, no bias found\n", compared);
}

/* A kind of op that the judge holds to a lower floor is held to as much lower sizes. */
static void sizes_follow_the_floor(void **state)
{
    static const struct { double bias, judge_floor; bool found; } turn[] = {{0.25, NAN, true}, {2, NAN, false}, {2, 4, false}, {2, 0.5, true}, {2, 40, false}};
    const struct sim_kernel right = {SIM_F32, SIM_EXACT, SIM_RIGHT}, wrong = {SIM_F32, SIM_EXACT, SIM_COLUMN_4TH};
    struct world w;

    (void)state;
    make_ops(7, false);
    for (size_t i = 0; i < sizeof turn / sizeof *turn; i++) {
        start(&w);
        w.policy.bias = turn[i].bias;
        for (int j = 0; j < OPS; j++) {
            add_op(&w, j, &right, &wrong);
            w.set.op[j].judge_floor = turn[i].judge_floor;
        }
        measure(&w);
        assert_int_equal(findings(&w, false) > 0, turn[i].found);
        if (turn[i].found) /* 2 at a floor of 0.5 in place of 4 is 0.25 */
            assert_float_equal(w.bias.found[0].limit - w.bias.found[0].test.old_size, 0.25, 1e-9);
        stop(&w);
    }
}

/* ---- wrong kernels ----------------------------------------------------------------------------- */

static const struct wrong {
    const char *name, *slice; /* slice: how it is named; NULL: any */
    struct sim_kernel base, now;
    int layer;
    bool coarse;
    enum { SOMETIMES, ALWAYS, MOSTLY } always; /* in which runs it must be found; MOSTLY: in all but one of 20 */
} WRONG[] = {
    {"one column in four 0.1 % too large, float32", "columns = 0 mod 4", {SIM_F32, 0, 0}, {SIM_F32, 0, SIM_COLUMN_4TH}, -1, 0, 1},
    {"one column in four 0.1 % too large, halves", "columns = 0 mod 4", {SIM_HALVES, 0, 0}, {SIM_HALVES, 0, SIM_COLUMN_4TH}, -1, 0, 1},
    {"the same, the baseline float32", "columns = 0 mod 4", {SIM_F32, 0, 0}, {SIM_HALVES, 0, SIM_COLUMN_4TH}, -1, 0, 1},
    {"half a unit, one column in 16, float32", "columns = 3 mod 16", {SIM_F32, 0, 0}, {SIM_F32, 0, SIM_HALF_UNIT_16TH}, -1, 0, 0},
    {"one unit, one column in 16, float32", "columns = 3 mod 16", {SIM_F32, 0, 0}, {SIM_F32, 0, SIM_UNIT_16TH}, -1, 0, 1},
    {"one unit, one column in 16, halves", "columns = 3 mod 16", {SIM_HALVES, 0, 0}, {SIM_HALVES, 0, SIM_UNIT_16TH}, -1, 0, 0},
    {"4 units, one column in 64, float32", "columns = 17 mod 64", {SIM_F32, 0, 0}, {SIM_F32, 0, SIM_4_UNITS_64TH}, -1, 0, 1},
    {"4 units, one column in 64, halves", "columns = 17 mod 64", {SIM_HALVES, 0, 0}, {SIM_HALVES, 0, SIM_4_UNITS_64TH}, -1, 0, 0},
    {"one step up, one column in 8, float32", "columns = 5 mod 8", {SIM_F32, 0, 0}, {SIM_F32, 0, SIM_UP_8TH}, -1, 0, 1},
    {"the result is cut, not rounded, float32", "all elements", {SIM_F32, 0, 0}, {SIM_F32, 0, SIM_CUT_RESULT}, -1, 0, 1},
    {"the last 32 columns 0.1 % too large, float32", NULL, {SIM_F32, 0, 0}, {SIM_F32, 0, SIM_LAST_TILE}, -1, 0, 1},
    {"the last 32 columns 0.1 % too large, halves", NULL, {SIM_HALVES, 0, 0}, {SIM_HALVES, 0, SIM_LAST_TILE}, -1, 0, 0},
    {"the last column alone one unit too large, float32", NULL, {SIM_F32, 0, 0}, {SIM_F32, 0, SIM_LAST_COLUMN_UNIT}, -1, 0, MOSTLY},
    {"the last column alone 1 % too large, halves", "the last column", {SIM_HALVES, 0, 0}, {SIM_HALVES, 0, SIM_LAST_COLUMN}, -1, 0, 1},
    {"the last row alone one unit too large, float32", "the last row", {SIM_F32, 0, 0}, {SIM_F32, 0, SIM_LAST_ROW}, -1, 0, 1},
    {"even rows 0.1 % too large, float32", NULL, {SIM_F32, 0, 0}, {SIM_F32, 0, SIM_ROWS_EVEN}, -1, 0, 1},
    {"half of K 0.1 % too small, float32", "all elements", {SIM_F32, 0, 0}, {SIM_F32, 0, SIM_K_SLICE}, -1, 0, 1},
    {"half of K 0.1 % too small, halves", "all elements", {SIM_HALVES, 0, 0}, {SIM_HALVES, 0, SIM_K_SLICE}, -1, 0, 0},
    {"scales through bfloat16, float32", "all elements", {SIM_F32, 0, 0}, {SIM_F32, SIM_BF16_SCALES, 0}, -1, 1, 1},
    {"scales through bfloat16, halves", "all elements", {SIM_HALVES, 0, 0}, {SIM_HALVES, SIM_BF16_SCALES, 0}, -1, 1, 1},
    {"one column in four 0.1 % too large, in one layer", "columns = 0 mod 4", {SIM_F32, 0, 0}, {SIM_F32, 0, SIM_COLUMN_4TH}, 2, 0, 1},
};

/* Of findings of the right measure: is the slice named? */
static bool names_slice(const struct world *w, const struct wrong *k)
{
    char slice[64];
    size_t i;

    for (i = 0; i < w->bias.n; i++) {
        td_slice_words(&w->bias.found[i].test.slice, slice, sizeof slice);
        if ((w->bias.found[i].test.measure == TD_SLICE_COARSE) == k->coarse && (!k->slice || !strcmp(slice, k->slice)))
            return true;
    }
    return false;
}

static void wrong_kernels_are_found(void **state)
{
    const size_t kinds = sizeof WRONG / sizeof *WRONG;
    static int found[64], named[64];
    const int all = runs(2);
    int run;
    size_t k;
    struct world w;

    (void)state;
    for (run = 0; run < all; run++) {
        make_ops(5000 + (uint64_t)run, false);
        for (k = 0; k < kinds; k++) {
            compare(&w, &WRONG[k].base, &WRONG[k].now, WRONG[k].layer);
            found[k] += w.bias.n > 0;
            named[k] += names_slice(&w, &WRONG[k]);
            stop(&w);
        }
    }
    for (k = 0; k < kinds; k++) {
        if (getenv("TD_BIAS_RUNS"))
            printf("| %s | %d | %d |\n", WRONG[k].name, found[k], named[k]);
        if (WRONG[k].always != SOMETIMES) {
            const int least = WRONG[k].always == MOSTLY ? all - all / 20 : all;

            assert_true(found[k] >= least);
            assert_true(named[k] >= least);
        }
    }
}

/* ---- the rules, one by one --------------------------------------------------------------------- */

static const struct sim_kernel F32 = {SIM_F32, 0, 0}, FOURTH = {SIM_F32, 0, SIM_COLUMN_4TH}, HALVES = {SIM_HALVES, 0, 0};

/* The same op, recorded again and again, is one piece of evidence. */
static void equal_ops_count_once(void **state)
{
    struct world w;
    int i;

    (void)state;
    make_ops(1, false);
    start(&w);
    for (i = 0; i < OPS; i++) {
        add_op(&w, i % 5, &F32, &FOURTH);
        w.set.op[i].m_class = 0;
    }
    measure(&w);
    assert_int_equal(w.bias.groups, 0);
    assert_int_equal(w.bias.few, 1);
    assert_int_equal(w.bias.n, 0);
    stop(&w);
}

/* Classes of M with few ops are taken together. */
static void small_groups_are_pooled(void **state)
{
    struct world w;
    int i;

    (void)state;
    make_ops(2, false);
    start(&w);
    for (i = 0; i < 8; i++) {
        add_op(&w, 2 * i + 1, &F32, &FOURTH);
        w.set.op[i].m_class = i / 2;
    }
    measure(&w);
    assert_int_equal(w.bias.groups, 1);
    assert_int_equal(w.bias.few, 0);
    assert_int_equal(w.bias.n, 1);
    assert_int_equal(w.bias.found[0].m_class, -1);
    stop(&w);
}

/* An older replay has no sums: neither a pass nor a failure. */
static void without_sums_it_is_not_judged(void **state)
{
    struct world w;
    int i;

    (void)state;
    make_ops(3, false);
    start(&w);
    for (i = 0; i < OPS; i++) {
        add_op(&w, i, &F32, &FOURTH);
        free(w.set.op[i].recorded.slices);
        w.set.op[i].recorded.slices = NULL;
    }
    measure(&w);
    assert_int_equal(w.bias.groups + w.bias.tests + w.bias.n, 0);
    assert_int_equal(w.bias.without, OPS);
    stop(&w);
}

/* Of an output that was recorded as a digest no errors are known. */
static void a_digest_is_not_judged(void **state)
{
    struct world w;
    int i;

    (void)state;
    make_ops(3, false);
    start(&w);
    for (i = 0; i < OPS; i++) {
        add_op(&w, i, &F32, &FOURTH);
        w.set.op[i].recorded.present = false;
    }
    measure(&w);
    assert_int_equal(w.bias.groups, 0);
    assert_int_equal(w.bias.without, OPS);
    stop(&w);
}

/* Ops that gave their sums up, since there are so many, are no ops that lack them. */
static void ops_left_out_lack_nothing(void **state)
{
    size_t kept = 0, i;
    struct world w;

    (void)state;
    make_ops(3, false);
    start(&w);
    w.set.thinned = 1;
    for (i = 0; i < OPS; i++) {
        add_op(&w, (int)i, &F32, &FOURTH);
        if (td_judged_slices_kept(&w.set.op[i], 1))
            kept++;
        else
            td_judged_slices_free(&w.set.op[i]);
    }
    measure(&w);
    assert_in_range(kept, 1, OPS - 1);
    assert_int_equal(w.bias.ops, kept);
    assert_int_equal(w.bias.without, 0);
    stop(&w);
}

/* Only ops of the layer that shows it are bad, and they say why. */
static void ops_of_the_layer_are_marked(void **state)
{
    struct world w;
    char words[200], place[200];
    int i;

    (void)state;
    make_ops(4, false);
    compare(&w, &F32, &FOURTH, 2);
    assert_true(w.bias.n > 0);
    for (i = 0; i < OPS; i++) {
        const struct td_judged_op *op = &w.set.op[i];

        assert_int_equal(op->result, i / OPS_OF_LAYER == 2 ? TD_RESULT_WORSE : TD_RESULT_OK);
        assert_true((op->bias != NULL) == (i / OPS_OF_LAYER == 2));
        assert_true(!op->bias || strstr(op->why, "columns = 0 mod 4: +0."));
    }
    td_bias_words(&w.bias.found[0], words, sizeof words);
    td_bias_place(&w.bias.found[0], place, sizeof place);
    assert_non_null(strstr(words, "columns = 0 mod 4: +0."));
    assert_non_null(strstr(place, "gptq_gemm 192x512 b4 g128, "));
    assert_true(w.bias.found[0].lo < 1e-3 && w.bias.found[0].hi > 1e-3 && w.bias.found[0].lo > 0);
    assert_true(fabs(w.bias.found[0].limit - w.bias.found[0].test.old_size - 0.25) < 1e-9);
    stop(&w);
}

/* Where the group as a whole shows it, a layer that does not is spared. */
static void layers_that_are_right_are_spared(void **state)
{
    struct world w;
    int i;

    (void)state;
    make_ops(8, false);
    compare(&w, &F32, &FOURTH, ALL_BUT_FIRST);
    assert_true(w.bias.n > 0);
    assert_null(w.bias.found[0].layer);
    for (i = 0; i < OPS; i++)
        assert_int_equal(w.set.op[i].result, i >= OPS_OF_LAYER ? TD_RESULT_WORSE : TD_RESULT_OK);
    stop(&w);
}

/* One op in which the baseline is far off hides no bias of all others. It is not bad itself. */
static void one_op_far_off_hides_nothing(void **state)
{
    const struct sim_kernel far = {SIM_F32, 0, SIM_FAR_OFF};
    char place[200];
    struct world w;
    int i;

    (void)state;
    make_ops(10, false);
    start(&w);
    for (i = 0; i < OPS; i++)
        add_op(&w, i, i == 6 || i == 7 ? &far : &F32, &FOURTH);
    measure(&w);
    assert_int_equal(w.bias.n, 2);
    for (i = 0; i < 2; i++) {
        td_bias_place(&w.bias.found[i], place, sizeof place);
        assert_int_equal(w.bias.found[i].left_out, 1);
        assert_non_null(strstr(place, "31 ops in 4 layers, without 1 op far off"));
        assert_int_equal(w.bias.found[i].marked, OPS / 2 - 1);
    }
    for (i = 0; i < OPS; i++)
        assert_int_equal(w.set.op[i].result, i == 6 || i == 7 ? TD_RESULT_OK : TD_RESULT_WORSE);
    stop(&w);
}

/* Nor does it hide that errors are coarser. */
static void one_op_far_off_hides_no_coarseness(void **state)
{
    const struct sim_kernel far = {SIM_F32, 0, SIM_FAR_OFF}, coarse = {SIM_F32, SIM_BF16_SCALES, 0};
    struct world w;
    int i;

    (void)state;
    make_ops(11, false);
    start(&w);
    for (i = 0; i < OPS; i++)
        add_op(&w, i, i % 16 < 4 ? &far : &F32, &coarse);
    measure(&w);
    assert_int_equal(findings(&w, true), 2);
    stop(&w);
}

/* Ops of the group in which the candidate is further off than in the others are left out, too, and bad. */
static void ops_that_are_worse_still_are_bad(void **state)
{
    const struct sim_kernel far = {SIM_F32, 0, SIM_FAR_OFF};
    struct world w;
    int i, j;

    (void)state;
    make_ops(10, false);
    start(&w);
    for (i = 0; i < OPS; i++) {
        struct td_slices *s;

        add_op(&w, i, i == 6 || i == 7 ? &far : &F32, &FOURTH);
        s = w.set.op[i].candidate.slices;
        for (j = 0; j < TD_SLICES_MAX && i / 2 == 10; j++) {
            s->sum[TD_SUM_E][j] *= 8;
            s->sum[TD_SUM_EX][j] *= 8;
            s->sum[TD_SUM_EE][j] *= 64;
        }
    }
    measure(&w);
    assert_int_equal(w.bias.n, 2);
    assert_int_equal(w.bias.found[0].left_out, 2);
    for (i = 0; i < OPS; i++)
        assert_int_equal(w.set.op[i].result, i == 6 || i == 7 ? TD_RESULT_OK : TD_RESULT_WORSE);
    stop(&w);
}

/* Right kernels that are far off in some ops, either side or both: no bias. */
static void ops_far_off_are_no_alarm(void **state)
{
    const struct sim_kernel far = {SIM_F32, 0, SIM_FAR_OFF};
    struct world w;
    int run, i;

    (void)state;
    for (run = 0; run < runs(6); run++) {
        make_ops(7000 + (uint64_t)run, false);
        start(&w);
        for (i = 0; i < OPS; i++)
            add_op(&w, i, i % 11 == 3 ? &far : run % 2 ? &HALVES : &F32, i % 13 == run % 13 ? &far : run % 3 ? &F32 : &HALVES);
        measure(&w);
        assert_int_equal(w.bias.groups, 2);
        assert_int_equal(findings(&w, false), 0);
        stop(&w);
    }
}

/* The baseline has the bias, the candidate has not: it is better. Both have it: nothing. */
static void a_baseline_may_be_biased(void **state)
{
    struct world w;

    (void)state;
    make_ops(5, false);
    compare(&w, &FOURTH, &F32, -1);
    assert_int_equal(w.bias.n, 0);
    assert_int_equal(w.bias.better, 2);
    stop(&w);
    compare(&w, &FOURTH, &FOURTH, -1);
    assert_int_equal(w.bias.n + w.bias.better, 0);
    stop(&w);
    compare(&w, &HALVES, &F32, -1);
    assert_int_equal(w.bias.n, 0);
    assert_int_equal(w.bias.better, 2);
    assert_true(w.bias.better_old > 2 * w.bias.better_new);
    stop(&w);
}

/* Each threshold of the policy switches its rule off. */
static void the_policy_decides(void **state)
{
    const struct sim_kernel coarse = {SIM_F32, SIM_BF16_SCALES, 0};
    struct world w;
    int i;

    (void)state;
    make_ops(6, false);
    for (i = 0; i < 4; i++) {
        int op;

        start(&w);
        w.policy.bias = i == 0 ? 3 : w.policy.bias;
        w.policy.coarse = i == 1 ? 100 : w.policy.coarse;
        w.policy.coarse_floor = i == 2 ? 100 : w.policy.coarse_floor;
        w.policy.slices_alpha = i == 3 ? 1e-300 : w.policy.slices_alpha;
        for (op = 0; op < OPS; op++)
            add_op(&w, op, &F32, i == 1 || i == 2 ? &coarse : &FOURTH);
        measure(&w);
        assert_int_equal(findings(&w, i == 1 || i == 2), 0);
        stop(&w);
    }
}

/* A bias of about 0.4 in the means of whole outputs of one row, so far from op to op that its own p is 4 * 10^-4. */
static void add_weak_bias(struct world *w)
{
    int i, c;

    make_ops(12, false);
    start(w);
    for (i = 0; i < OPS; i++) {
        const double off = OP[i].m > 1 ? 0 : 0.4 + (i / 2 % 2 ? 0.55 : -0.55);

        add_op(w, i, &F32, &F32);
        for (c = 0; c < TD_SLICES_MAX; c++)
            w->set.op[i].recorded.slices->sum[TD_SUM_E][c] = w->set.op[i].candidate.slices->sum[TD_SUM_E][c] = 0;
        w->set.op[i].candidate.slices->sum[TD_SUM_E][0] = (float)(off * OP[i].m * N);
    }
}

/* Hundreds of slices are tested: what is rare in one of them is not rare in any of them. */
static void tests_hold_together(void **state)
{
    double tests, p;
    struct world w;

    (void)state;
    add_weak_bias(&w);
    measure(&w);
    assert_int_equal(w.bias.n, 0);
    tests = (double)w.bias.tests;
    stop(&w);
    add_weak_bias(&w);
    w.policy.slices_alpha *= tests; /* as if it were the only test */
    measure(&w);
    assert_int_equal(w.bias.n, 1);
    p = w.bias.found[0].test.p;
    assert_true(p < 0.001 && p > 0.001 / tests);
    stop(&w);
    add_weak_bias(&w);
    w.policy.slices_alpha = 1.001 * p * tests; /* just evidence: so the interval, which holds with all others, ends at 0 */
    measure(&w);
    assert_int_equal(w.bias.n, 1);
    assert_true(w.bias.found[0].lo > 0 && w.bias.found[0].lo < 0.01 * w.bias.found[0].test.est);
    stop(&w);
}

/* Columns that are off each in its own way, and in all ops alike, are no bias of a slice: ops do not
 * average that out, so that a test over ops alone would call it one. */
static void errors_of_columns_are_no_bias(void **state)
{
    struct world w;
    int i, c;

    (void)state;
    make_ops(7, false);
    start(&w);
    for (i = 0; i < OPS; i++) {
        struct td_slices *s;
        double all = 0;

        add_op(&w, i, &F32, &F32);
        s = w.set.op[i].candidate.slices;
        for (c = 0, sim_state = 99; c < 64; c++) { /* one unit, up or down */
            const double off = sim_normal() * 0x1p-11 * (double)s->sum[TD_SUM_XX][1 + c];

            s->sum[TD_SUM_EX][1 + c] += (float)off;
            all += off;
        }
        s->sum[TD_SUM_EX][0] += (float)all;
    }
    measure(&w);
    assert_int_equal(w.bias.groups, 2);
    for (i = 0; i < (int)w.bias.n; i++) /* a single class stands out of its like at most by chance */
        fail_msg("a bias is found: %d mod %d", w.bias.found[i].test.slice.rest, w.bias.found[i].test.slice.mod);
    stop(&w);
}

/* Without a floor, both sides exact: neither is coarser. */
static void exact_results_are_not_coarser(void **state)
{
    struct world w;
    int i;

    (void)state;
    make_ops(9, false);
    start(&w);
    w.policy.coarse_floor = 0;
    for (i = 0; i < OPS; i++) {
        add_op(&w, i, &F32, &F32);
        memset(w.set.op[i].recorded.slices->sum[TD_SUM_EE], 0, sizeof w.set.op[i].recorded.slices->sum[TD_SUM_EE]);
        memset(w.set.op[i].candidate.slices->sum[TD_SUM_EE], 0, sizeof w.set.op[i].candidate.slices->sum[TD_SUM_EE]);
    }
    measure(&w);
    assert_int_equal(w.bias.groups, 2);
    assert_int_equal(w.bias.n, 0);
    stop(&w);
}

/* ---- what is not known ------------------------------------------------------------------------- */

static size_t unsure_in(const struct world *w, int layer)
{
    size_t i, n = 0;

    for (i = 0; i < w->set.n; i++)
        n += w->set.op[i].bias_unsure && (layer < 0 || w->set.op[i].layer == LAYER[layer]);
    return n;
}

/* Ops that are clearly without the bias of another layer are good. */
static void layers_without_a_bias_are_known(void **state)
{
    struct world w;

    (void)state;
    make_ops(21, false);
    compare(&w, &F32, &FOURTH, 2);
    assert_true(w.bias.n > 0);
    assert_int_equal(unsure_in(&w, -1), 0);
    stop(&w);
    compare(&w, &F32, &F32, ALL); /* and where nothing is wrong, nothing is asked */
    assert_int_equal(unsure_in(&w, -1), 0);
    stop(&w);
}

/* A layer with a share of the bias that the others have is good below half of what all show together, and bad
 * above; where that is not sure nobody knows. */
static void half_of_the_bias_tells(void **state)
{
    static const struct { double share; bool bad; size_t unsure; } turn[] = {
        {0.3, false, 0}, {0.42, false, OPS_OF_LAYER}, {0.7, true, 0}};
    struct world w;
    size_t i;
    int j, c, k;

    (void)state;
    for (i = 0; i < sizeof turn / sizeof *turn; i++) {
        make_ops(21, false);
        start(&w);
        for (j = 0; j < OPS; j++) {
            add_op(&w, j, &F32, &FOURTH);
            for (k = 0; k < TD_SLICE_SUMS && j < OPS_OF_LAYER; k++)
                for (c = 0; c < TD_SLICES_MAX; c++) {
                    const double old = (double)w.set.op[j].recorded.slices->sum[k][c], now = (double)w.set.op[j].candidate.slices->sum[k][c];

                    w.set.op[j].candidate.slices->sum[k][c] = (float)(old + turn[i].share * (now - old));
                }
        }
        measure(&w);
        assert_true(w.bias.n > 0);
        assert_int_equal(w.set.op[0].result, turn[i].bad ? TD_RESULT_WORSE : TD_RESULT_OK);
        assert_int_equal(unsure_in(&w, 0), turn[i].unsure);
        stop(&w);
    }
}

/* A group of two ops is not judged, whether it is biased or not; nor is anything asked of another kernel. */
static void groups_of_few_ops_are_not(void **state)
{
    struct world w;
    int i;

    (void)state;
    make_ops(22, false);
    start(&w);
    for (i = 0; i < OPS; i++) {
        add_op(&w, i, &F32, &FOURTH);
        w.set.op[i].m_class = 0;
        w.set.op[i].shape = i < 2 ? "another shape" : w.set.op[i].shape;
    }
    measure(&w);
    assert_true(w.bias.n > 0 && w.bias.few == 1);
    assert_true(w.set.op[0].bias_unsure && w.set.op[1].bias_unsure);
    assert_int_equal(unsure_in(&w, -1), 2);
    stop(&w);
    start(&w);
    for (i = 0; i < OPS; i++) {
        add_op(&w, i, &F32, &FOURTH);
        w.set.op[i].m_class = 0;
        w.set.op[i].kind = i < 2 ? "gemm" : w.set.op[i].kind; /* another kernel, of which nothing was found */
    }
    measure(&w);
    assert_int_equal(unsure_in(&w, -1), 0);
    stop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernels_never_alarm), cmocka_unit_test(sizes_follow_the_floor),
        cmocka_unit_test(wrong_kernels_are_found),
        cmocka_unit_test(equal_ops_count_once),
        cmocka_unit_test(small_groups_are_pooled),
        cmocka_unit_test(without_sums_it_is_not_judged),
        cmocka_unit_test(a_digest_is_not_judged),
        cmocka_unit_test(ops_left_out_lack_nothing),
        cmocka_unit_test(ops_of_the_layer_are_marked),
        cmocka_unit_test(layers_that_are_right_are_spared),
        cmocka_unit_test(one_op_far_off_hides_nothing),
        cmocka_unit_test(ops_that_are_worse_still_are_bad),
        cmocka_unit_test(one_op_far_off_hides_no_coarseness),
        cmocka_unit_test(ops_far_off_are_no_alarm),
        cmocka_unit_test(a_baseline_may_be_biased),
        cmocka_unit_test(the_policy_decides),
        cmocka_unit_test(tests_hold_together), cmocka_unit_test(half_of_the_bias_tells),
        cmocka_unit_test(errors_of_columns_are_no_bias),
        cmocka_unit_test(layers_without_a_bias_are_known), cmocka_unit_test(groups_of_few_ops_are_not),
        cmocka_unit_test(exact_results_are_not_coarser),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
