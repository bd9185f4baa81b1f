/* test_along_k.c - errors by parts of K, against numbers made by statsmodels and numpy (tests/unit/data/along_k.tsv).
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

#include "common/memory.h"
#include "replayer/along_k.h"
#include "tests/unit/kernels/ops/op_case.h"

#define MOST 1024
enum field { SIZES, X, Y, EST, ERROR, SHARE, FIELDS };

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-8 * fmax(1e-3, fabs(want)))
        fail_msg("got %.17g, statsmodels says %.17g", got, want);
}

static bool read_line(char *text, double of[FIELDS][MOST])
{
    char *field[FIELDS], *save = NULL, *end;
    int n;

    for (n = 0; n < FIELDS && (field[n] = strtok_r(n ? NULL : text, "\t\n", &save)); n++)
        for (int i = 0; i < MOST; i++)
            of[n][i] = 0;
    if (n < FIELDS)
        return false;
    for (n = 0; n < FIELDS; n++)
        for (int i = 0; i < MOST; i++, field[n] = end) {
            of[n][i] = strtod(field[n], &end);
            if (end == field[n])
                break;
        }
    return true;
}

static void the_fit_matches_statsmodels(void **state)
{
    static char text[1 << 15];
    static double of[FIELDS][MOST];
    FILE *f = fopen("tests/unit/data/along_k.tsv", "r");
    struct td_error err = {0, ""};
    int lines = 0;

    (void)state;
    assert_non_null(f);
    while (fgets(text, sizeof text, f)) {
        struct td_along_k_fit fit;

        if (*text == '#' || !read_line(text, of))
            continue;
        assert_int_equal(td_along_k_regress(of[X], of[Y], (int64_t)of[SIZES][0], (int64_t)of[SIZES][1], (int)of[SIZES][2], &fit, &err), TD_OK);
        assert_int_equal(fit.n, (int)of[SIZES][2]);
        for (int i = 0; i < fit.n; i++) {
            near(fit.est[i], of[EST][i]);
            near(fit.error[i], of[ERROR][i]);
        }
        near(fit.explained, of[SHARE][0]);
        lines++;
    }
    fclose(f);
    assert_int_equal(lines, 4);
}

static void what_does_not_determine_a_part_has_no_fit(void **state)
{
    double x[2][32], y[32];
    struct td_along_k_fit fit;
    struct td_error err = {0, ""};

    (void)state;
    for (int i = 0; i < 32; i++) {
        x[0][i] = i - 15;
        x[1][i] = 2 * x[0][i];
        y[i] = i;
    }
    assert_int_equal(td_along_k_regress(x[0], y, 1, 32, 2, &fit, &err), TD_OK);
    assert_int_equal(fit.n, 0); /* the one is a multiple of the other */
    x[1][3] = 0;
    assert_int_equal(td_along_k_regress(x[0], y, 1, 32, 2, &fit, &err), TD_OK);
    assert_int_equal(fit.n, 2);
    assert_int_equal(td_along_k_regress(x[0], y, 8, 3, 2, &fit, &err), TD_OK);
    assert_int_equal(fit.n, 0); /* too few columns */
}

static bool is_piece(int64_t k) { return k >= 128 && k < 256; }
static bool is_class(int64_t k) { return k % 128 >= 120; }
static bool is_any(int64_t k) { return k >= 0; }

static const struct td_judge_limits limits = {0x1p-11, 0x1p-24, 0x1p-25, 4};

static void make_case(struct op_case *t, int64_t m)
{
    case_gptq(t, &(struct gptq_form){TD_DT_F16, TD_DT_F16, "none", false, false, 4, 128}, m, 64, 512, 0, false);
}

/* Write the output of an op of K = 512 whose products of k where `wrong` holds are (1 + by) as large, with noise in
 * [-noise, noise), and find its parts. */
static void find(struct op_case *t, bool (*wrong)(int64_t k), double by, double noise, struct td_along_k *found)
{
    const struct td_op_kind *kind = td_op_kind_find("gptq_gemm");
    struct td_op_ref ref, bad;
    struct td_error err = {0, ""};
    uint16_t *a = t->op.in[0].data, whole[2 * 512];
    uint32_t seed = 1;

    assert_int_equal(kind->reference(&t->op, &ref, &err), 0);
    memcpy(whole, a, sizeof whole);
    for (int64_t e = 0; e < 2 * 512; e++)
        if (!wrong(e % 512))
            a[e] = 0;
    assert_int_equal(kind->reference(&t->op, &bad, &err), 0);
    for (int64_t e = 0; e < 2 * 64; e++) {
        seed = seed * 1664525u + 1013904223u;
        td_store_f32(TD_DT_F16, t->op.out.data, e, (float)(ref.r0[e] + by * bad.r0[e] + noise * ((seed >> 8) * 0x1p-23 - 1)));
    }
    memcpy(a, whole, sizeof whole);
    assert_int_equal(td_along_k_find(&t->op, &ref, t->op.out.data, &limits, found, &err), TD_OK);
    td_op_ref_release(&ref);
    td_op_ref_release(&bad);
}

static void ask(bool (*wrong)(int64_t k), double by, struct td_along_k *found)
{
    struct op_case t;

    make_case(&t, 2);
    find(&t, wrong, by, 0, found);
    op_case_release(&t);
}

static void a_part_has_its_share(void **state)
{
    struct td_along_k x;

    (void)state;
    ask(is_piece, -1, &x);
    assert_int_equal(x.step, 32);
    assert_int_equal(x.pieces.n, 16);
    assert_int_equal(x.classes.n, 16);
    for (int i = 0; i < 16; i++)
        assert_true(fabs(x.pieces.est[i] - (i >= 4 && i < 8 ? -1 : 0)) < 0.005);
    assert_true(x.pieces.explained > 0.999);
    ask(is_piece, 0.001, &x);
    for (int i = 0; i < 16; i++)
        assert_true(fabs(x.pieces.est[i] - (i >= 4 && i < 8 ? 0.001 : 0)) < 6 * x.pieces.error[i]);
    assert_true(x.pieces.est[5] > 6 * x.pieces.error[5]);
    ask(is_class, -1, &x);
    for (int i = 0; i < 16; i++)
        assert_true(fabs(x.classes.est[i] - (i == 15 ? -1 : 0)) < 0.005);
    ask(is_any, 0, &x); /* right: no part has an error */
    for (int i = 0; i < 16; i++)
        assert_true(fabs(x.pieces.est[i]) < 6 * x.pieces.error[i]);
}

/* Sums that are kept in halves are off by as much in a column near 0 as in any other. By what is allowed there such a
 * column would weigh so much that no fault is seen beside it. */
static void a_column_near_0_hides_no_fault(void **state)
{
    struct op_case t;
    struct td_along_k found;

    (void)state;
    make_case(&t, 2);
    for (int g = 0; g < 4; g++)
        td_store_f32(TD_DT_F16, t.op.in[3].data, g * 64 + 5, 0x1p-20f); /* its scales */
    find(&t, is_piece, 0.02, 0.01, &found);
    assert_int_equal(found.pieces.n, 16);
    assert_true(found.pieces.est[5] > 6 * found.pieces.error[5]);
    op_case_release(&t);
}

/* The sums of parts take more than the output: they must fit into what is allowed. */
static void the_parts_are_asked_of_the_budget(void **state)
{
    const size_t much = (size_t)70 << 20;
    struct td_along_k found;
    struct op_case t;
    struct td_op_ref ref;
    struct td_error err = {0, ""};
    char *others = malloc(much);

    (void)state;
    assert_non_null(others);
    make_case(&t, 600);
    assert_int_equal(td_op_kind_find("gptq_gemm")->reference(&t.op, &ref, &err), 0);
    for (int64_t e = 0; e < 600 * 64; e++)
        td_store_f32(TD_DT_F16, t.op.out.data, e, (float)ref.r0[e]);
    memset(others, 1, much);
    assert_int_equal(td_memory_set("64M", &err), TD_OK);
    assert_int_equal(td_along_k_find(&t.op, &ref, t.op.out.data, &limits, &found, &err), TD_ENOMEM);
    assert_non_null(strstr(err.msg, "--max-memory"));
    assert_int_equal(found.step, 0);
    td_error_clear(&err);
    assert_int_equal(td_memory_set("1G", &err), TD_OK);
    assert_int_equal(others[much - 1], 1);
    free(others);
    assert_int_equal(td_along_k_find(&t.op, &ref, t.op.out.data, &limits, &found, &err), TD_OK);
    assert_int_equal(found.step, 32);
    td_op_ref_release(&ref);
    op_case_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_fit_matches_statsmodels), cmocka_unit_test(what_does_not_determine_a_part_has_no_fit),
                                       cmocka_unit_test(a_part_has_its_share), cmocka_unit_test(a_column_near_0_hides_no_fault),
                                       cmocka_unit_test(the_parts_are_asked_of_the_budget)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
