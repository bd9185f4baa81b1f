/* test_repeats.c - how often results differ between runs, beside a baseline whose own results do.
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

#include "differ/repeats.h"

#define OPS 8
#define MOST 320
#define PAIRED 64
#define ELEMENTS 64

struct world { struct td_judged_ops set; struct td_repeats found; };

static void start(struct world *w)
{
    memset(w, 0, sizeof *w);
    w->set.op = calloc(MOST, sizeof *w->set.op);
    assert_non_null(w->set.op);
}

static struct td_op_error run(int unstable)
{
    struct td_op_error e = {.present = true, .repeats = 3, .unstable = unstable, .slices = calloc(1, sizeof *e.slices)};
    int i;

    assert_non_null(e.slices);
    e.slices->rows = 1;
    e.slices->cols = ELEMENTS;
    e.slices->first_tail = TD_SLICES_FIRST_TAIL;
    for (i = 0; i < TD_SLICES_MAX; i++)
        e.slices->sum[TD_SUM_XX][i] = 1;
    return e;
}

static struct td_judged_op *add_op(struct world *w, const char *shape, int old, int now)
{
    struct td_judged_op *op = &w->set.op[w->set.n];

    *op = (struct td_judged_op){.fixture = "fx", .op = (int64_t)w->set.n, .kind = "gptq_gemm", .shape = shape, .dtype = "F16",
                                .layer = "up", .status = TD_OP_OK, .m = 1, .n = ELEMENTS, .k = 256, .m_class = td_m_class(1),
                                .input = w->set.n};
    op->baseline = run(old);
    op->candidate = run(now);
    w->set.n++;
    return op;
}

static uint64_t state_of_chance;

static double chance(void)
{
    state_of_chance = state_of_chance * 6364136223846793005u + 1442695040888963407u;
    return (double)(state_of_chance >> 11) * 0x1p-53;
}

static void measure(struct world *w)
{
    td_repeats_release(&w->found);
    assert_int_equal(td_repeats_measure(&w->set, 0.001, &w->found, NULL), TD_OK);
}

static void stop(struct world *w)
{
    size_t i;

    for (i = 0; i < w->set.n; i++) {
        free(w->set.op[i].baseline.slices);
        free(w->set.op[i].candidate.slices);
    }
    free(w->set.op);
    td_repeats_release(&w->found);
}

static const int OLD[OPS] = {3, 0, 5, 2, 4, 1, 3, 2}, NEW[OPS] = {20, 14, 19, 22, 13, 18, 17, 21};

/* scipy.stats.ttest_rel(new / 64, old / 64), and its confidence_interval(0.999) */
static void shares_match_scipy(void **state)
{
    static const int now[OPS] = {10, 4, 9, 12, 3, 8, 7, 11};
    const struct td_repeats_group *g;
    struct world w;
    int i;

    (void)state;
    start(&w);
    for (i = 0; i < OPS; i++)
        add_op(&w, "64x256", OLD[i], now[i]);
    measure(&w);
    assert_int_equal(w.found.n, 1);
    g = w.found.group;
    assert_true(g->ops == OPS && g->blocks == OPS && g->runs == 3);
    assert_true(fabs(g->old_share - 0.0390625) < 1e-12 && fabs(g->new_share - 0.125) < 1e-12);
    assert_true(fabs(g->p - 0.0030142237117970535) < 1e-9);
    assert_true(fabs(g->lo - -0.018775954374282505) < 1e-9 && fabs(g->hi - 0.1906509543742845) < 1e-9);
    assert_int_equal(w.found.less, 0); /* 0.001 is not reached */
    stop(&w);
}

/* Where many more elements differ it is told, of that group alone. */
static void a_kernel_that_varies_more_is_told(void **state)
{
    char words[240];
    struct world w;
    int i;

    (void)state;
    start(&w);
    for (i = 0; i < OPS; i++)
        add_op(&w, "64x256", OLD[i], NEW[i]);
    for (i = 0; i < OPS; i++)
        add_op(&w, "64x512", OLD[i], OLD[OPS - 1 - i]);
    for (i = 0; i < OPS; i++)
        add_op(&w, "64x768", NEW[i], OLD[i]); /* less often: good */
    measure(&w);
    assert_true(w.found.n == 3 && w.found.less == 1);
    assert_string_equal(w.found.group[0].shape, "64x256");
    td_repeats_words(&w.found.group[0], words, sizeof words);
    assert_non_null(strstr(words, "gptq_gemm 64x256, M=1: 28.1 % of elements differ between 3 runs, before 3.91 % [+"));
    stop(&w);
}

/* Of 40 groups one has p = 0.00087 (scipy.stats.ttest_rel): alone it is told, among the others it is chance. */
static void groups_hold_together(void **state)
{
    static const int now[OPS] = {7, 12, 6, 13, 15, 18, 17, 14};
    static char shape[40][8];
    struct world w;
    int i, g;

    (void)state;
    for (g = 1; g <= 40; g += 39) {
        start(&w);
        for (i = 0; i < OPS * g; i++) {
            snprintf(shape[i / OPS], sizeof shape[0], "64x%d", 256 + i / OPS);
            add_op(&w, shape[i / OPS], OLD[i % OPS], i < OPS ? now[i] : OLD[OPS - 1 - i % OPS]);
        }
        measure(&w);
        assert_int_equal(w.found.n, g);
        assert_true(fabs(w.found.group[0].p - 0.0008664104747159003) < 1e-9);
        assert_int_equal(w.found.less, g == 1);
        stop(&w);
    }
}

/* A baseline that never varies is judged op by op; of ops that ran once, or not equally often, nothing is known;
 * ops with equal inputs are one. */
static void what_says_nothing(void **state)
{
    struct world w;
    int i;

    (void)state;
    start(&w);
    for (i = 0; i < OPS; i++)
        add_op(&w, "64x256", 0, NEW[i]);
    measure(&w);
    assert_int_equal(w.found.n, 0);
    for (i = 0; i < OPS; i++)
        w.set.op[i].baseline.varies = true; /* known to */
    measure(&w);
    assert_true(w.found.n == 1 && w.found.less == 1);
    for (i = 0; i < 3; i++)
        w.set.op[i].candidate.repeats = 5;
    measure(&w);
    assert_int_equal(w.found.n, 0);
    for (i = 0; i < OPS; i++) {
        w.set.op[i].candidate.repeats = 3;
        w.set.op[i].input = (uint64_t)i / 2;
    }
    measure(&w);
    assert_int_equal(w.found.n, 0);
    stop(&w);
}

/* Elements of both sides differ with one probability: nothing is told, whatever it is. */
static void equal_rates_are_not_told(void **state)
{
    struct world w;
    int seed, i, j;

    (void)state;
    for (seed = 0; seed < 300; seed++) {
        const double rate = 0.02 + 0.9 * seed / 300;

        state_of_chance = 100 + (uint64_t)seed;
        start(&w);
        for (i = 0; i < PAIRED; i++) {
            int old = 0, now = 0;

            for (j = 0; j < ELEMENTS; j++) {
                old += chance() < rate;
                now += chance() < rate;
            }
            add_op(&w, i % 8 < 4 ? "64x256" : "64x512", old, now);
        }
        measure(&w);
        assert_int_equal(w.found.n, 2);
        assert_int_equal(w.found.less, 0);
        stop(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_match_scipy),
        cmocka_unit_test(a_kernel_that_varies_more_is_told),
        cmocka_unit_test(groups_hold_together),
        cmocka_unit_test(what_says_nothing),
        cmocka_unit_test(equal_rates_are_not_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
