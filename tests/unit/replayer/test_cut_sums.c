/* test_cut_sums.c - sums that Hopper's tensor cores cut: their values, and what the judge makes of
 * kernels that add so, in the expected order, in others, and with a fault.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "kernels/ops/cut_sums.h"
#include "kernels/ops/moe_scaled_mm_op.h"
#include "kernels/ops/scaled_mm_op.h"
#include "replayer/judge.h"
#include "replayer/judge_order.h"
#include "replayer/reference_batch.h"
#include "tests/unit/data/cut_sums_expected.h"
#include "tests/unit/kernels/ops/op_case.h"

/* ---- one sum --------------------------------------------------------------------------------- */

static void sums_are_those_of_mma_sim(void **state)
{
    float va[CUT_K], vw[CUT_K];
    int16_t ea[CUT_K], ew[CUT_K];
    const struct td_cut_row a = {va, ea}, w = {vw, ew};
    int cut = 0;

    (void)state;
    for (int i = 0; i < CUT_SUMS; i++) {
        double exact = 0;

        td_cut_row_read(i % 2 ? TD_DT_F8_E5M2 : TD_DT_F8_E4M3, cut_a[i], CUT_K, a);
        td_cut_row_read(TD_DT_F8_E4M3, cut_w[i], CUT_K, w);
        for (int j = 0; j < CUT_K; j++)
            exact += (double)va[j] * (double)vw[j];
        assert_true(td_cut_sum_of(a, w, 0, CUT_K).sum == (double)cut_sum[i]);
        cut += exact != (double)cut_sum[i];
    }
    assert_true(cut > CUT_SUMS / 2);
}

static void zeros_add_nothing(void **state)
{
    static const unsigned char zeros[40];
    float v[80];
    int16_t e[80];
    const struct td_cut_row a = {v, e}, w = {v + 40, e + 40};

    (void)state;
    td_cut_row_read(TD_DT_F8_E4M3, zeros, 40, a);
    td_cut_row_read(TD_DT_F8_E4M3, zeros, 40, w);
    assert_true(td_cut_sum_of(a, w, 0, 40).sum == 0);
    v[3] = 448, e[3] = 8;
    assert_true(td_cut_sum_of(a, w, 0, 40).sum == 0);
    v[43] = 0x1p-9f, e[43] = -6;
    assert_true(td_cut_sum_of(a, w, 0, 40).sum == 448 * 0x1p-9);
}

/* ---- whole products -------------------------------------------------------------------------- */

/* How a kernel adds. Whichever it is, it is right. */
enum order { EXPECTED, BACKWARDS, SHUFFLED, SPLIT, PROMOTED, IN_FLOAT, N_ORDERS };

/* A number of a normal distribution as E4M3, from a table of such. */
static unsigned char random_e4m3(void)
{
    static unsigned char table[4096];
    static bool filled;

    for (int i = 0; !filled && i < 4096; i++) {
        const float want = 100 * case_normal();

        for (int b = 0; b < 127; b++)        /* not 0x7f, a NaN */
            if (fabsf(td_e4m3_to_f32((uint8_t)b) - fabsf(want)) < fabsf(td_e4m3_to_f32(table[i]) - fabsf(want)))
                table[i] = (unsigned char)b;
        table[i] = (unsigned char)(table[i] | (want < 0 ? 128 : 0));
    }
    filled = true;
    return table[case_random() % 4096];
}

/* A random product, quantised as vLLM does: by rows of A, and for all of W. */
static void make_op(struct op_case *t, enum td_dtype c, int64_t m, int64_t n, int64_t k, bool bias)
{
    const struct scaled_form f = {TD_DT_F8_E4M3, TD_DT_F8_E4M3, c, true, false, bias, 0, 0};
    float *scales;

    case_scaled_mm(t, &f, m, n, k, 0, true);
    snprintf(t->op.act_rounding, sizeof t->op.act_rounding, "sum-e8m13");
    for (int i = 0; i < 2; i++)
        for (size_t e = 0; e < t->op.in[i].size_bytes; e++)
            ((unsigned char *)t->op.in[i].data)[e] = random_e4m3();
    scales = t->op.in[2].data;
    for (int64_t i = 0; i < m; i++)
        scales[i] = 0.001f + 0.0001f * (float)i;
    *(float *)t->op.in[3].data = 0.01f;
}

static void swap(struct td_cut_row r, int64_t i, int64_t j)
{
    const float v = r.value[i];
    const int16_t e = r.exponent[i];

    r.value[i] = r.value[j], r.exponent[i] = r.exponent[j];
    r.value[j] = v, r.exponent[j] = e;
}

/* The numbers of a and w, pair by pair, in another order. */
static void reorder(struct td_cut_row a, struct td_cut_row w, int64_t k, enum order order)
{
    uint32_t seed = 7;

    for (int64_t i = k - 1; i > 0; i--) {
        const int64_t j = order == SHUFFLED ? (seed = seed * 1664525 + 1013904223) >> 8 : k - 1 - i;

        if (order == BACKWARDS && i <= j)
            break;
        swap(a, i, j % (i + 1)), swap(w, i, j % (i + 1));
    }
}

static double sum_in(enum order order, struct td_cut_row a, struct td_cut_row w, int64_t k)
{
    const int64_t step = order == SPLIT ? k / 2 : order == PROMOTED ? 128 : k;
    double sum = 0;

    if (order == IN_FLOAT)
        return (double)td_dot_f32(a.value, w.value, k);
    for (int64_t j = 0; j < k; j += step)
        sum += td_cut_sum_of(a, w, j, step).sum;
    return sum;
}

/* What a kernel that adds in `order` writes. Column `column` is too large by 1 %; -1: none is. */
static void compute(const struct td_op_call *op, enum order order, int64_t column)
{
    struct td_scaled_mm x;
    float *values;
    int16_t *exponents;

    assert_int_equal(td_scaled_mm_of(op, &x, NULL), 0);
    values = malloc((size_t)x.k * 2 * sizeof *values);
    exponents = malloc((size_t)x.k * 2 * sizeof *exponents);
    for (int64_t n = 0; n < x.n; n++)
        for (int64_t i = 0; i < x.m; i++) {
            const struct td_cut_row a = {values, exponents}, w = {values + x.k, exponents + x.k};
            const float bias = x.bias ? (float)td_dtype_get(x.bias->dtype, x.bias->data, (size_t)n) : 0;
            float sum;

            td_cut_row_read(x.a_dtype, x.a + i * x.lda, x.k, a);
            td_cut_row_read(x.w_dtype, x.w + n * x.ldw, x.k, w);
            if (order == BACKWARDS || order == SHUFFLED)
                reorder(a, w, x.k, order);
            sum = (float)sum_in(order, a, w, x.k) * (n == column ? 1.01f : 1);
            td_store_f32(op->out.dtype, op->out.data, i * x.ldc + n,
                         td_scaled_mm_a_scale(&x, i) * (td_scaled_mm_w_scale(&x, n) * sum) + bias);
        }
    free(values);
    free(exponents);
}

static struct td_judge_result judge(const struct td_op_call *op, const struct td_op_ref *ref)
{
    const void *image = op->out.data;
    const struct td_op_ref view = td_judge_ref_of(ref, &op->out, image);
    struct td_judge_limits lim;
    struct td_judge_result res;

    assert_int_equal(td_judge_limits_find(op->kind, op->out.dtype, &lim, NULL), 0);
    assert_int_equal(td_judge_output(&view, &op->out, &image, 1, &lim, &res, NULL), 0);
    return res;
}

static const struct td_op_kind *kind(void)
{
    return td_op_kind_find("scaled_mm");
}

/* 200 runs of right kernels: none is over the limit, and the expected order is told from the others
 * by itself. */
static void right_kernels_are_within_the_limit(void **state)
{
    double worst[N_ORDERS] = {0}, plain = 0;
    int in_order = 0;

    (void)state;
    for (int r = 0; r < 200; r++) {
        const enum order order = (enum order)(r % N_ORDERS);
        struct td_op_ref ref, none;
        struct td_judge_result got;
        struct op_case t;

        make_op(&t, r / N_ORDERS % 2 ? TD_DT_BF16 : TD_DT_F16, r % 5 ? 1 : 5, 512, r % 7 ? 512 : 1536, r % 3 == 0);
        assert_int_equal(kind()->reference(&t.op, &ref, NULL), 0);
        compute(&t.op, order, -1);
        got = judge(&t.op, &ref);
        assert_true(order == EXPECTED || !got.in_order);
        in_order += got.in_order;
        worst[order] = fmax(worst[order], got.score);
        strcpy(t.op.act_rounding, "none");
        assert_int_equal(kind()->reference(&t.op, &none, NULL), 0);
        assert_null(none.ordered);
        if (order != IN_FLOAT)
            plain = fmax(plain, judge(&t.op, &none).score);
        td_op_ref_release(&none);
        td_op_ref_release(&ref);
        op_case_release(&t);
    }
    for (int o = 0; o < N_ORDERS; o++) {
        print_message("order %d: worst error %.2f\n", o, worst[o]);
        assert_true(worst[o] < 2);
    }
    print_message("in the expected order, and told so: %d of 34\n", in_order);
    assert_true(in_order >= 30);
    print_message("without the declaration: %.1f\n", plain);
    assert_true(plain > 16);          /* so coarse was the judge without the declaration */
}

/* A column that is 1 % too large: in float16 it is 20 roundings off. */
static void a_column_of_one_percent_is_caught(void **state)
{
    int caught = 0;

    (void)state;
    for (int r = 0; r < 40; r++) {
        struct td_judge_result got;
        struct td_op_ref ref;
        struct op_case t;

        make_op(&t, TD_DT_F16, r % 2 ? 1 : 5, 512, r % 4 ? 512 : 1536, false);
        assert_int_equal(kind()->reference(&t.op, &ref, NULL), 0);
        compute(&t.op, EXPECTED, 5);
        got = judge(&t.op, &ref);
        caught += got.score > 4 && got.worst_col.j == 5;
        td_op_ref_release(&ref);
        op_case_release(&t);
    }
    print_message("caught in %d of 40\n", caught);
    assert_true(caught >= 38);
}

static void blocks_have_sums_of_their_own(void **state)
{
    static const struct scaled_form f = {TD_DT_F8_E4M3, TD_DT_F8_E4M3, TD_DT_F32, false, false, false, 128, 0};
    struct td_scaled_mm x;
    struct td_op_ref ref;
    struct op_case t;
    float values[2 * 300];
    int16_t exponents[2 * 300];
    const struct td_cut_row a = {values, exponents}, w = {values + 300, exponents + 300};

    (void)state;
    case_scaled_mm(&t, &f, 3, 5, 300, 0, true);
    strcpy(t.op.act_rounding, "sum-e8m13");
    assert_int_equal(kind()->reference(&t.op, &ref, NULL), 0);
    assert_int_equal(td_scaled_mm_of(&t.op, &x, NULL), 0);
    for (int64_t i = 0; i < 3; i++)
        for (int64_t n = 0; n < 5; n++) {
            double want = 0;

            td_cut_row_read(x.a_dtype, x.a + i * x.lda, 300, a);
            td_cut_row_read(x.w_dtype, x.w + n * x.ldw, 300, w);
            for (int64_t j = 0; j < 300; j += 128)
                want += td_cut_sum_of(a, w, j, j < 256 ? 128 : 44).sum * (double)td_scaled_mm_a_block(&x, i, j) *
                        (double)td_scaled_mm_w_block(&x, n, j);
            assert_true(fabs(ref.ordered[i * 5 + n] - want) <= 1e-12 * fabs(want));
        }
    td_op_ref_release(&ref);
    op_case_release(&t);
}

/* NaN in A: its row of C is NaN in every part of the reference. */
static void nan_stays(void **state)
{
    struct td_op_ref ref;
    struct op_case t;

    (void)state;
    make_op(&t, TD_DT_F16, 2, 16, 64, false);
    ((unsigned char *)t.op.in[0].data)[3] = 0x7f;
    assert_int_equal(kind()->reference(&t.op, &ref, NULL), 0);
    for (int n = 0; n < 16; n++)
        assert_true(isnan(ref.r1[n]) && isnan(ref.ordered[n]) && !isnan(ref.ordered[16 + n]));
    compute(&t.op, IN_FLOAT, -1);
    assert_true(judge(&t.op, &ref).score < 2);
    td_op_ref_release(&ref);
    op_case_release(&t);
}

/* Each expert's rows are sums of their own; a row of none has nothing. */
static void experts_have_cut_sums(void **state)
{
    static const struct moe_scaled_form f = {TD_DT_F8_E4M3, TD_DT_F8_E4M3, TD_DT_F32, true, true, false, 5};
    struct td_moe_scaled_mm x;
    struct td_op_ref ref;
    struct op_case t;
    float values[2 * 160];
    int16_t exponents[2 * 160];
    const struct td_cut_row a = {values, exponents}, w = {values + 160, exponents + 160};
    int cut = 0;

    (void)state;
    case_moe_scaled(&t, &f, 9, 7, 160, 0, true);
    strcpy(t.op.act_rounding, "sum-e8m13");
    assert_int_equal(td_op_kind_find("moe_scaled_mm")->reference(&t.op, &ref, NULL), 0);
    assert_int_equal(td_moe_scaled_mm_of(&t.op, &x, NULL), 0);
    for (int64_t e = 0; e < 5; e++) {
        const struct td_scaled_mm o = td_moe_scaled_mm_expert(&x, e);

        for (int64_t i = 0; i < o.m; i++)
            for (int64_t n = 0; n < 7; n++) {
                const int64_t at = (td_moe_scaled_mm_first(&x, e) + i) * 7 + n;
                double want;

                td_cut_row_read(o.a_dtype, o.a + i * o.lda, 160, a);
                td_cut_row_read(o.w_dtype, o.w + n * o.ldw, 160, w);
                want = td_cut_sum_of(a, w, 0, 160).sum * (double)td_scaled_mm_a_scale(&o, i) *
                       (double)td_scaled_mm_w_scale(&o, n);
                assert_true(fabs(ref.ordered[at] - want) <= 1e-12 * fabs(want));
                cut += ref.ordered[at] != ref.r0[at] && ref.slack[at] > 0;
            }
    }
    assert_true(cut > 10);
    assert_true(!td_op_ref_has_row(&ref, 8) && ref.slack[8 * 7] == 0);
    td_op_ref_release(&ref);
    op_case_release(&t);
}

static void integers_declare_nothing(void **state)
{
    static const struct scaled_form f = {TD_DT_I8, TD_DT_I8, TD_DT_F16, true, true, false, 0, 0};
    struct td_op_ref ref;
    struct op_case t;

    (void)state;
    case_scaled_mm(&t, &f, 2, 5, 64, 0, true);
    strcpy(t.op.act_rounding, "sum-e8m13");
    assert_int_equal(kind()->reference(&t.op, &ref, NULL), 0);
    assert_true(!ref.ordered && !ref.slack);
    td_op_ref_release(&ref);
    strcpy(t.op.act_rounding, "none+bias-after");
    assert_int_equal(kind()->check(&t.op, NULL), TD_EUNSUPPORTED);
    op_case_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_mma_sim),
        cmocka_unit_test(zeros_add_nothing),
        cmocka_unit_test(right_kernels_are_within_the_limit),
        cmocka_unit_test(a_column_of_one_percent_is_caught),
        cmocka_unit_test(blocks_have_sums_of_their_own),
        cmocka_unit_test(nan_stays),
        cmocka_unit_test(experts_have_cut_sums),
        cmocka_unit_test(integers_declare_nothing),
    };

    return cmocka_run_group_tests_name("cut_sums", tests, NULL, NULL);
}
