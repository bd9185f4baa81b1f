/* test_slice_tests.c - tests of slices against numbers made by scipy and statsmodels
 * (tests/unit/data/slices.tsv, slices_make.py).
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

#include "differ/slice_tests.h"
#include "replayer/judge_slices.h"

#define MOST_OPS 32
#define MOST 1024
enum field { NAME, ASKED, SIZES, OLD, NOW, OUTPUTS, WANT, FIELDS };

struct line {
    char *name;
    double of[FIELDS][MOST];
    size_t ops, rows, cols;
    struct td_slices old[MOST_OPS], now[MOST_OPS];
    struct td_slice_op op[MOST_OPS];
};

static bool near(const char *what, double got, double want)
{
    bool ok = fabs(got - want) <= 1e-5 * fmax(1e-3, fabs(want));

    if (!ok)
        printf("%s: got %.17g, scipy says %.17g\n", what, got, want);
    return ok;
}

/* The sums of an op's errors, as the replayer keeps them. */
static void sum(const double *e, const double *x, size_t rows, size_t cols, struct td_slices *out)
{
    struct td_judge_slices s;
    size_t i, j;

    assert_int_equal(td_judge_slices_init(&s, (int64_t)rows, (int64_t)cols, NULL), TD_OK);
    for (i = 0; i < rows; i++) {
        for (j = 0; j < cols; j++)
            td_judge_slices_put(&s, (int64_t)j, e[i * cols + j], 1);
        td_judge_slices_end_row(&s, (int64_t)i, x + i * cols);
    }
    td_judge_slices_take(&s, out);
    td_judge_slices_release(&s);
    assert_int_equal(out->rows, rows);
}

static bool read_line(char *text, struct line *l)
{
    char *field[FIELDS], *save = NULL, *end;
    size_t n, i, each;

    for (n = 0; n < FIELDS && (field[n] = strtok_r(n ? NULL : text, "\t\n", &save)); n++)
        ;
    if (n < FIELDS)
        return false;
    l->name = field[NAME];
    for (n = ASKED; n < FIELDS; n++)
        for (i = 0; i < MOST; i++, field[n] = end) {
            l->of[n][i] = strtod(field[n], &end);
            if (end == field[n])
                break;
        }
    l->ops = (size_t)l->of[SIZES][0];
    l->rows = (size_t)l->of[SIZES][1];
    l->cols = (size_t)l->of[SIZES][2];
    each = l->rows * l->cols;
    assert_true(l->ops <= MOST_OPS && each > 0 && l->ops * each <= MOST);
    for (i = 0; i < l->ops; i++) {
        sum(l->of[OLD] + i * each, l->of[OUTPUTS] + i * each, l->rows, l->cols, &l->old[i]);
        sum(l->of[NOW] + i * each, l->of[OUTPUTS] + i * each, l->rows, l->cols, &l->now[i]);
        l->op[i] = (struct td_slice_op){.old = &l->old[i], .now = &l->now[i], .input = i};
    }
    return true;
}

static const struct td_slice_test *find(const struct td_slice_test *all, size_t n, enum td_slice_measure measure,
                                        enum td_slice_kind kind, int mod, int rest)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (all[i].measure == measure && all[i].slice.kind == kind && all[i].slice.mod == mod && all[i].slice.rest == rest)
            return &all[i];
    fail_msg("no test of that slice");
    return NULL;
}

static void check(const struct line *l)
{
    static struct td_slice_test all[TD_SLICE_TESTS_MAX];
    const double *want = l->of[WANT];
    const bool slope = !strcmp(l->name, "slope");
    const enum td_slice_kind kind = !strcmp(l->name, "rows") ? TD_SLICE_ROWS : !strcmp(l->name, "tail") ? TD_SLICE_COL_TAIL
                                    : l->of[ASKED][0] == 1 ? TD_SLICE_ALL : TD_SLICE_COLS;
    struct td_slice_test coarse;
    const struct td_slice_test *t = &coarse;

    if (!strcmp(l->name, "coarse"))
        td_slice_coarse(l->op, l->ops, l->of[ASKED][0], l->of[ASKED][1], &coarse);
    else
        t = find(all, td_slice_tests(l->op, l->ops, 2, all), slope ? TD_SLICE_SLOPE : TD_SLICE_MEAN, kind,
                 (int)l->of[ASKED][0], (int)l->of[ASKED][1]);
    assert_true(near("estimate", t->est, want[0]));
    if (slope)
        return;
    assert_true(near("error", t->error, want[1]));
    assert_true(near("degrees of freedom", t->dof, want[2]));
    assert_true(near("log p", log(t->p), log(want[3])));
}

static void tests_match_scipy(void **state)
{
    static char text[1 << 16];
    static struct line l;
    FILE *f = fopen("tests/unit/data/slices.tsv", "r");
    size_t lines = 0;

    (void)state;
    assert_non_null(f);
    while (fgets(text, sizeof text, f))
        if (*text != '#' && read_line(text, &l)) {
            check(&l);
            lines++;
        }
    fclose(f);
    assert_true(lines == 30);
}

/* Beside a baseline in float32 a candidate that adds in halves is coarse; beside right sums in halves it is not. */
static void coarseness_is_beside_right_halves_where_they_stand(void **state)
{
    static const double small[4] = {0.5, -0.5, 0.5, -0.5}, large[4] = {20, -21, 19, -20}, larger[4] = {60, -61, 59, -60}, x[4] = {1, 2, 3, 4};
    struct td_slices old, now, halves, bug;
    struct td_slice_op op[8];
    struct td_slice_test t;

    (void)state;
    sum(small, x, 1, 4, &old);
    sum(large, x, 1, 4, &now);
    sum(large, x, 1, 4, &halves);
    sum(larger, x, 1, 4, &bug);
    for (size_t i = 0; i < 8; i++)
        op[i] = (struct td_slice_op){.old = &old, .now = &now, .input = i};
    td_slice_coarse(op, 8, 1.25, 1, &t);
    assert_true(t.est > 19 && t.p == 0 && !t.beside_halves);
    for (size_t i = 0; i < 8; i++)
        op[i].halves = &halves;
    td_slice_coarse(op, 8, 1.25, 1, &t);
    assert_true(fabs(t.est - 1) < 0.01 && t.p == 1 && t.beside_halves);
    for (size_t i = 0; i < 8; i++)
        op[i].now = &bug;
    td_slice_coarse(op, 8, 1.25, 1, &t);
    assert_true(fabs(t.est - 3) < 0.05 && t.p == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tests_match_scipy), cmocka_unit_test(coarseness_is_beside_right_halves_where_they_stand)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
