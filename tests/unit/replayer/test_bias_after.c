/* test_bias_after.c - a bias that is added after the product was rounded: what the declaration
 * excuses, and what it does not.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "kernels/ops/moe_gemm_op.h"
#include "kernels/ops/op_rounding.h"
#include "replayer/judge.h"
#include "replayer/reference_batch.h"
#include "tests/unit/kernels/ops/op_case.h"

#define M 24
#define N 96

/* ---- declarations ---------------------------------------------------------------------------- */

static void declarations_are_read(void **state)
{
    static const struct { const char *words, *factors; bool bias_after; } good[] = {
        {"", "none", false},
        {"weight-f16", "weight-f16", false},
        {"bias-after", "none", true},
        {"weight-bf16+bias-after", "weight-bf16", true},
        {"bias-after+q8_0", "q8_0", true},
    };
    static const char *const bad[] = {"+", "none+", "+none", "none++bias-after", "none+weight-f16",
                                      "bias-after+bias-after"};
    struct td_op_rounding r;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(td_op_rounding_read(good[i].words, &r));
        assert_string_equal(r.factors, good[i].factors);
        assert_int_equal(r.bias_after, good[i].bias_after);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(td_op_rounding_read(bad[i], &r));
}

/* ---- products -------------------------------------------------------------------------------- */

static double rounded(enum td_dtype dt, double x)
{
    return dt == TD_DT_F16 ? td_f16_to_f32(td_f32_to_f16((float)x)) : td_bf16_to_f32(td_f32_to_bf16((float)x));
}

/* How often a kernel adds the bias to its rounded product: 1 is right. */
static void compute(const struct td_op_call *op, const struct td_op_ref *with, double times)
{
    const struct td_tensor *bias = td_op_in(op, "bias");

    for (int64_t e = 0; e < with->rows * with->cols; e++) {
        const double b = td_dtype_get(bias->dtype, bias->data, (size_t)(e % with->cols)),
                     c = rounded(op->out.dtype, with->r1[e] - b) + times * b;

        td_store_f32(op->out.dtype, op->out.data, e, (float)rounded(op->out.dtype, c));
    }
}

static double score_of(const struct td_op_call *op, const struct td_op_ref *ref)
{
    const void *image = op->out.data;
    struct td_judge_limits lim;
    struct td_judge_result res;

    assert_int_equal(td_judge_limits_find(op->kind, op->out.dtype, &lim, NULL), 0);
    assert_int_equal(td_judge_output(ref, &op->out, &image, 1, &lim, &res, NULL), 0);
    return res.score;
}

/* A bias near the negative of a product of the first row: the sum is small, and the error of the
 * rounded product large beside it. */
static void oppose(struct td_op_call *op, const struct td_op_ref *ref)
{
    const struct td_tensor *bias = td_op_in(op, "bias");

    for (int64_t j = 0; j < N; j++) {
        const double b = td_dtype_get(bias->dtype, bias->data, (size_t)j);

        td_store_f32(bias->dtype, bias->data, j, (float)(-1.01 * (ref->r1[j] - b)));
    }
}

static void check_product(const struct gptq_form *f)
{
    const struct td_op_kind *kind = td_op_kind_find("gptq_gemm");
    struct td_op_ref declared, plain;
    struct op_case t;

    case_gptq(&t, f, M, N, 256, 0, true);
    assert_int_equal(kind->reference(&t.op, &plain, NULL), 0);
    oppose(&t.op, &plain);
    td_op_ref_release(&plain);
    assert_int_equal(kind->reference(&t.op, &declared, NULL), 0);
    *strstr(t.op.act_rounding, "bias-after") = '\0';
    t.op.act_rounding[strcspn(t.op.act_rounding, "+")] = '\0';
    assert_int_equal(kind->reference(&t.op, &plain, NULL), 0);
    assert_memory_equal(plain.r1, declared.r1, M * N * sizeof *plain.r1);
    assert_null(plain.slack);
    compute(&t.op, &plain, 1);
    assert_true(score_of(&t.op, &declared) <= 1.01);
    assert_true(score_of(&t.op, &plain) > 8);
    compute(&t.op, &plain, 0);
    assert_true(score_of(&t.op, &declared) > 100);
    compute(&t.op, &plain, 2);
    assert_true(score_of(&t.op, &declared) > 100);
    td_op_ref_release(&plain);
    td_op_ref_release(&declared);
    op_case_release(&t);
}

static void a_declared_order_is_judged_by_its_own(void **state)
{
    (void)state;
    check_product(&(struct gptq_form){TD_DT_F16, TD_DT_F16, "weight-f16+bias-after", true, false, 4, 64});
    check_product(&(struct gptq_form){TD_DT_BF16, TD_DT_BF16, "weight-bf16+bias-after", true, true, 8, 64});
    check_product(&(struct gptq_form){TD_DT_F16, TD_DT_F16, "bias-after", true, false, 4, 256});
}

static void plain_floats_have_it_too(void **state)
{
    const struct td_op_kind *kind = td_op_kind_find("gemm");
    struct td_op_ref plain, declared;
    struct op_case t;

    (void)state;
    case_gemm(&t, TD_DT_BF16, M, N, 64, true, 0, true);
    assert_int_equal(kind->reference(&t.op, &plain, NULL), 0);
    oppose(&t.op, &plain);
    td_op_ref_release(&plain);
    assert_int_equal(kind->reference(&t.op, &plain, NULL), 0);
    strcpy(t.op.act_rounding, "bias-after");
    assert_int_equal(kind->reference(&t.op, &declared, NULL), 0);
    compute(&t.op, &plain, 1);
    assert_true(score_of(&t.op, &declared) <= 1.01 && score_of(&t.op, &plain) > 8);
    compute(&t.op, &plain, 0);
    assert_true(score_of(&t.op, &declared) > 50);
    td_op_ref_release(&plain);
    td_op_ref_release(&declared);
    op_case_release(&t);
}

static void without_a_bias_nothing_is_excused(void **state)
{
    static const struct gptq_form f = {TD_DT_F16, TD_DT_F16, "weight-f16+bias-after", false, false, 4, 64};
    struct td_op_ref ref;
    struct op_case t;

    (void)state;
    case_gptq(&t, &f, 3, 32, 128, 0, true);
    assert_int_equal(td_op_kind_find("gptq_gemm")->reference(&t.op, &ref, NULL), 0);
    assert_null(ref.slack);
    td_op_ref_release(&ref);
    op_case_release(&t);
}

static void experts_have_it_too(void **state)
{
    static const struct moe_form f = {TD_DT_F16, TD_DT_F16, "weight-f16+bias-after", true, false, true, true, 4, 32, 5, 2, 8};
    const struct td_op_kind *kind = td_op_kind_find("moe_gemm");
    struct td_op_ref ref;
    struct td_moe_op x;
    struct op_case t;
    int judged = 0;

    (void)state;
    case_moe(&t, &f, 9, 16, 64, 0, false, true);
    assert_int_equal(kind->reference(&t.op, &ref, NULL), 0);
    assert_int_equal(td_moe_op_of(&t.op, &x, NULL), 0);
    for (int64_t s = 0; s < x.slots; s++) {
        const double factor = td_moe_factor_rounded(&x, s);
        int64_t expert = -1;

        for (int64_t i = 0; i < x.blocks * x.block_size; i++)
            if (x.sorted_token_ids[i] == s)
                expert = x.expert_ids[i / x.block_size];
        for (int64_t n = 0; n < 16 && factor > 0; n++) {
            const int64_t e = s * 16 + n;
            const double product = ref.r1[e] / factor - td_moe_bias(&x, expert, n),
                         want = (0x1p-11 * fabs(product) + 0x1p-25) * factor;

            assert_true(fabs(ref.slack[e] - want) <= 1e-9 * want);
            judged++;
        }
    }
    assert_true(judged > 100);
    td_op_ref_release(&ref);
    op_case_release(&t);
}

static void ops_of_one_weight_are_joined(void **state)
{
    static const struct gptq_form f = {TD_DT_F16, TD_DT_F16, "weight-f16+bias-after", true, false, 4, 64};
    const struct td_op_kind *kind = td_op_kind_find("gptq_gemm");
    const struct td_op_call *list[2];
    struct td_op_ref refs[2], alone;
    struct op_case t;
    struct td_reference_makers cpu = {0};
    struct td_reference_batch how;

    (void)state;
    case_gptq(&t, &f, 5, 32, 128, 0, true);
    list[0] = list[1] = &t.op;
    assert_int_equal(td_reference_batch_compute(&cpu, kind, list, 2, 1, f.rounding, refs, &how, NULL), 0);
    assert_int_equal(kind->reference(&t.op, &alone, NULL), 0);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(refs[i].slack, alone.slack, 5 * 32 * sizeof *alone.slack);
    td_op_ref_release(&alone);
    td_op_ref_release(&how.all);
    op_case_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(declarations_are_read),
        cmocka_unit_test(a_declared_order_is_judged_by_its_own),
        cmocka_unit_test(plain_floats_have_it_too),
        cmocka_unit_test(without_a_bias_nothing_is_excused),
        cmocka_unit_test(experts_have_it_too),
        cmocka_unit_test(ops_of_one_weight_are_joined),
    };

    return cmocka_run_group_tests_name("bias_after", tests, NULL, NULL);
}
