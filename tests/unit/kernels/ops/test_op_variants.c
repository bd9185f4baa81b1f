/* test_op_variants.c - every variant that takes an op as it is, against its kind's reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/kernels/ops/op_case.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const enum td_dtype FORMATS[] = {TD_DT_F32,  TD_DT_F16,  TD_DT_BF16, TD_DT_Q4_0, TD_DT_Q4_1, TD_DT_Q5_0, TD_DT_Q5_1,
                                        TD_DT_Q8_0, TD_DT_Q2_K, TD_DT_Q3_K, TD_DT_Q4_K, TD_DT_Q5_K, TD_DT_Q6_K};
static const struct gptq_form FORMS[] = {
    {TD_DT_BF16, TD_DT_BF16, "none", false, false, 4, 32},      {TD_DT_BF16, TD_DT_BF16, "uint8-token", false, false, 4, 64},
    {TD_DT_BF16, TD_DT_F32, "uint8-token", true, true, 8, 32},  {TD_DT_BF16, TD_DT_BF16, "weight-bf16", true, false, 4, 32},
    {TD_DT_F16, TD_DT_F16, "weight-f16", false, true, 4, 64},   {TD_DT_F16, TD_DT_F16, "none", true, false, 8, 64},
    {TD_DT_F16, TD_DT_F16, "zero-f16", true, false, 4, 32},     {TD_DT_BF16, TD_DT_BF16, "zero-bf16", false, false, 8, 64},
};
static const struct moe_form MIXTURES[] = {
    {TD_DT_F16, TD_DT_F16, "weight-f16", false, false, false, false, 4, 32, 5, 2, 8},
    {TD_DT_BF16, TD_DT_BF16, "weight-bf16", true, false, true, true, 4, 64, 9, 1, 16},
    {TD_DT_F16, TD_DT_F32, "none", false, true, true, false, 8, 32, 3, 3, 1},
};
static const struct scaled_form SCALED[] = {
    {TD_DT_F8_E4M3, TD_DT_F8_E4M3, TD_DT_BF16, true, true, false, 0, 0},  {TD_DT_F8_E4M3, TD_DT_F8_E4M3, TD_DT_F16, true, false, true, 0, 0},
    {TD_DT_F8_E5M2, TD_DT_F8_E4M3, TD_DT_BF16, false, false, false, 0, 0}, {TD_DT_F8_E4M3, TD_DT_F8_E4M3, TD_DT_F32, false, false, false, 128, 0},
    {TD_DT_I8, TD_DT_I8, TD_DT_BF16, true, true, true, 0, 0},              {TD_DT_I8, TD_DT_I8, TD_DT_F16, false, true, false, 0, 1},
    {TD_DT_I8, TD_DT_I8, TD_DT_F32, true, false, true, 0, 2},
};
static const int64_t ONE[] = {1, 1, 1, 1};
static double worst_seen;

static double element(const struct td_op_call *op, int64_t i, int64_t j)
{
    const struct td_tensor *c = &op->out;
    int64_t at = j;

    for (int d = c->ndim - 2; d >= 0; i /= c->shape[d--])
        at += i % c->shape[d] * c->strides[d];
    return td_dtype_get(c->dtype, c->data, (size_t)at);
}

/* The error of an element in units of the promise of op_variant.h; NaN and Inf must stand where the reference has them. */
static double error_of(const struct td_op_call *op, const struct td_op_ref *ref, int64_t e, double c)
{
    const double u = op->out.dtype == TD_DT_F32 ? 0x1p-24 : op->out.dtype == TD_DT_F16 ? 0x1p-11 : 0x1p-8, r = ref->r1[e];
    const double tolerance = u * fabs(r) + 0x1p-24 * sqrt((double)ref->inner) * ref->mag[e] + 0x1p-25;

    if (!isfinite(r) || !isfinite(c))
        return !isfinite(r) == !isfinite(c) ? 0 : INFINITY;
    return fabs(c - r) / tolerance;
}

static void run(const struct td_op_variant *v, const struct td_op_call *op)
{
    struct guarded work = guarded_new((v->work_bytes(op) + 15) / 16 * 16, true); /* aligned as malloc does, and no byte more */
    struct td_error err = {0};

    if (td_op_kind_find(op->kind)->check(op, &err))
        fail_msg("%s", err.msg);
    v->run(op, work.data);
    munmap(work.map, work.map_size);
}

static double worst_of(const struct td_op_call *op)
{
    struct td_op_ref ref;
    double worst = 0;

    assert_int_equal(td_op_kind_find(op->kind)->reference(op, &ref, NULL), 0);
    for (int64_t e = 0; e < ref.rows * ref.cols; e++)
        if (td_op_ref_has_row(&ref, e / ref.cols))
            worst = fmax(worst, error_of(op, &ref, e, element(op, e / ref.cols, e % ref.cols)));
    td_op_ref_release(&ref);
    return worst;
}

/* Bytes between the rows of C must be what they were. */
static void gaps_are_untouched(const struct td_op_call *op)
{
    const struct td_tensor *c = &op->out;
    const size_t w = td_dtype_size(c->dtype), row = (size_t)c->shape[c->ndim - 1] * w, pitch = (size_t)c->strides[c->ndim - 2] * w;

    for (size_t i = 0; c->size_bytes && i < c->size_bytes; i++)
        if (i % pitch >= row)
            assert_int_equal(((unsigned char *)c->data)[i], 0x7f);
}

static void run_and_judge(const struct td_op_variant *v, struct op_case *t, const char *what)
{
    double worst;

    run(v, &t->op);
    worst = worst_of(&t->op);
    if (worst > 1)
        fail_msg("%s_%s: %s m %lld n %lld k %lld: error %.3g of the tolerance", v->kind, v->name, what, (long long)t->op.attrs[0].value,
                 (long long)t->op.attrs[1].value, (long long)t->op.attrs[2].value, worst);
    gaps_are_untouched(&t->op);
    worst_seen = fmax(worst_seen, worst);
    op_case_release(t);
}

#define EACH_VARIANT(v, of) \
    for (const struct td_op_variant *const *p_ = td_op_variants(), *v = NULL; (v = *p_); p_++) \
        if (!strcmp(v->kind, of))

static void test_mul_mat_shapes(void **state)
{
    static const int64_t ms[] = {0, 1, 2, 5, 9}, ns[] = {1, 3, 34}, blocks[] = {1, 2, 3, 5, 7};
    struct op_case t;
    int i = 0;

    (void)state;
    EACH_VARIANT(v, "ggml_mul_mat") {
        worst_seen = 0;
        for (size_t f = 0; f < COUNT(FORMATS); f++)
            for (size_t m = 0; m < COUNT(ms); m++)
                for (size_t n = 0; n < COUNT(ns); n++)
                    for (size_t b = 0; b < COUNT(blocks); b++, i++) {
                        const int64_t block = td_dtype_block(FORMATS[f]);

                        case_mul_mat(&t, FORMATS[f], ms[m], ns[n], blocks[b] * (block > 1 ? block : 7), ONE, i % 4, i & 1);
                        run_and_judge(v, &t, td_dtype_name(FORMATS[f]));
                    }
        print_message("ggml_mul_mat_%s: worst error %.3f of the tolerance over %d shapes\n", v->name, worst_seen, i);
    }
}

static void test_mul_mat_batches(void **state)
{
    static const int64_t batches[][4] = {{1, 6, 1, 3}, {2, 4, 1, 2}, {4, 2, 2, 1}, {3, 3, 3, 3}, {2, 5, 1, 1}};
    struct op_case t;

    (void)state;
    EACH_VARIANT(v, "ggml_mul_mat")
        for (size_t b = 0; b < COUNT(batches); b++)
            for (size_t f = 0; f < COUNT(FORMATS); f++) {
                case_mul_mat(&t, FORMATS[f], 3, 5, 256, batches[b], (int64_t)f % 3, b & 1);
                run_and_judge(v, &t, "batches");
            }
}

static void test_gemm_shapes(void **state)
{
    static const enum td_dtype dtypes[] = {TD_DT_BF16, TD_DT_F16, TD_DT_F32};
    struct op_case t;

    (void)state;
    EACH_VARIANT(v, "gemm") {
        worst_seen = 0;
        for (int i = 0; i < 3 * 300; i++) {
            case_gemm(&t, dtypes[i % 3], i % 7, 1 + i % 37, 1 + i * 3 % 131, i % 5 > 2, i % 4, i & 1);
            run_and_judge(v, &t, td_dtype_name(dtypes[i % 3]));
        }
        print_message("gemm_%s: worst error %.3f of the tolerance\n", v->name, worst_seen);
    }
}

static void test_scaled_mm_shapes(void **state)
{
    struct op_case t;

    (void)state;
    EACH_VARIANT(v, "scaled_mm") {
        worst_seen = 0;
        for (int i = 0; i < 420; i++) {
            const struct scaled_form *f = &SCALED[(size_t)i % COUNT(SCALED)];

            case_scaled_mm(&t, f, i % 8, 1 + i % 139, 1 + i * 5 % 291, i % 3, i & 1);
            run_and_judge(v, &t, td_dtype_name(f->a));
        }
        print_message("scaled_mm_%s: worst error %.3f of the tolerance\n", v->name, worst_seen);
    }
}

static void test_moe_scaled_shapes(void **state)
{
    static const struct moe_scaled_form forms[] = {{TD_DT_F8_E4M3, TD_DT_F8_E4M3, TD_DT_BF16, true, true, false, 5},
                                                   {TD_DT_F8_E4M3, TD_DT_F8_E4M3, TD_DT_F16, false, false, true, 8},
                                                   {TD_DT_F8_E5M2, TD_DT_F8_E4M3, TD_DT_F32, true, false, false, 3}};
    struct op_case t;

    (void)state;
    EACH_VARIANT(v, "moe_scaled_mm") {
        worst_seen = 0;
        for (int i = 0; i < 120; i++) {
            case_moe_scaled(&t, &forms[i % 3], i % 9, 1 + i % 37, 1 + i * 5 % 191, i % 3, i & 1);
            run_and_judge(v, &t, td_dtype_name(forms[i % 3].c));
        }
        print_message("moe_scaled_mm_%s: worst error %.3f of the tolerance\n", v->name, worst_seen);
    }
}

/* 0x7f and 0xff are the NaN of E4M3; every other byte is a number. */
static void test_scaled_mm_nan_stays_in_its_row(void **state)
{
    struct op_case t;

    (void)state;
    EACH_VARIANT(v, "scaled_mm")
        for (int f = 0; f < 4; f++)
            for (int byte = 0x7e; byte <= 0x7f; byte++) {
                case_scaled_mm(&t, &SCALED[f], 5, 9, 140, 0, true);
                ((unsigned char *)t.op.in[0].data)[2 * 140 + 77] = (unsigned char)(byte | f << 7);
                run(v, &t.op);
                for (int64_t e = 0; e < 5 * 9; e++)
                    assert_int_equal(isfinite(element(&t.op, e / 9, e % 9)) != 0, e / 9 != 2 || (byte == 0x7e && t.op.in[0].dtype == TD_DT_F8_E4M3));
                assert_true(worst_of(&t.op) <= 1);
                op_case_release(&t);
            }
}

static void test_gptq_shapes(void **state)
{
    struct op_case t;

    (void)state;
    EACH_VARIANT(v, "gptq_gemm") {
        worst_seen = 0;
        for (int i = 0; i < 240; i++) {
            const struct gptq_form *f = &FORMS[(size_t)i % COUNT(FORMS)];

            case_gptq(&t, f, i % 8, 8 * (1 + i % 9), 64 * (1 + i % 5), i % 3, i & 1);
            run_and_judge(v, &t, f->rounding);
        }
        print_message("gptq_any_%s: worst error %.3f of the tolerance\n", v->name, worst_seen);
    }
}

/* Rows that no block computes keep what they held. */
static void other_ranks_rows_are_untouched(const struct td_op_call *op)
{
    struct td_op_ref ref;
    int absent = 0;

    assert_int_equal(td_op_kind_find(op->kind)->reference(op, &ref, NULL), 0);
    for (int64_t e = 0; e < ref.rows * ref.cols; e++)
        if (!td_op_ref_has_row(&ref, e / ref.cols)) {
            const unsigned char *c = (unsigned char *)op->out.data + (size_t)(e / ref.cols * op->out.strides[0] + e % ref.cols) * 2;

            assert_true(c[0] == 0x7f && c[1] == 0x7f);
            absent++;
        }
    assert_true(absent > 0);
    td_op_ref_release(&ref);
}

static void test_moe_shapes(void **state)
{
    struct op_case t;

    (void)state;
    EACH_VARIANT(v, "moe_gemm") {
        worst_seen = 0;
        for (int i = 0; i < 120; i++) {
            const struct moe_form *f = &MIXTURES[(size_t)i % COUNT(MIXTURES)];
            const bool absent = i % 4 == 3;

            case_moe(&t, f, absent ? 3 + i % 5 : i % 9, 8 * (1 + i % 5), 64 * (1 + i % 3), i % 3, absent, i & 1);
            if (absent) {
                run(v, &t.op);
                other_ranks_rows_are_untouched(&t.op);
            }
            run_and_judge(v, &t, f->rounding);
        }
        print_message("moe_gemm_%s: worst error %.3f of the tolerance\n", v->name, worst_seen);
    }
}

/* ---- numbers that are not ordinary --------------------------------------------------------------------------------- */

/* One op of each kind and form, 7 rows, k 256. */
static int make_some(struct op_case *t, size_t which)
{
    if (which < COUNT(FORMATS))
        case_mul_mat(t, FORMATS[which], 7, 16, 256, ONE, 0, true);
    else if (which < COUNT(FORMATS) + 3)
        case_gemm(t, (enum td_dtype[]){TD_DT_BF16, TD_DT_F16, TD_DT_F32}[which - COUNT(FORMATS)], 7, 16, 256, true, 0, true);
    else if (which < COUNT(FORMATS) + 3 + COUNT(FORMS))
        case_gptq(t, &FORMS[which - COUNT(FORMATS) - 3], 7, 16, 256, 0, true);
    else
        return 0;
    return 1;
}

static void test_nan_and_inf_stay_in_their_row(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct op_case t;

    (void)state;
    for (size_t which = 0; make_some(&t, which); op_case_release(&t), which++)
        EACH_VARIANT(v, t.op.kind)
            for (int i = 0; i < 3; i++) {
                const int64_t row = (int64_t)(which + (size_t)i) % 7, at = row * 256 + case_random() % 256;
                const float was = (float)td_dtype_get(t.op.in[0].dtype, t.op.in[0].data, (size_t)at);

                td_store_f32(t.op.in[0].dtype, t.op.in[0].data, at, bad[i]);
                run(v, &t.op);
                for (int64_t e = 0; e < 7 * 16; e++)
                    if (e / 16 != row)
                        assert_true(isfinite(element(&t.op, e / 16, e % 16)));
                assert_false(isfinite(element(&t.op, row, 3)));
                assert_true(worst_of(&t.op) <= 1);
                td_store_f32(t.op.in[0].dtype, t.op.in[0].data, at, was);
            }
}

/* Activations that are tiny, huge, zero or full of ties. */
static void test_extremes(void **state)
{
    static const float scales[] = {0, 1e-30f, 1e-6f, 1e4f, 0.5f};
    struct op_case t;

    (void)state;
    for (size_t which = 0; make_some(&t, which); op_case_release(&t), which++)
        EACH_VARIANT(v, t.op.kind)
            for (size_t s = 0; s < COUNT(scales); s++) {
                for (int64_t i = 0; i < 7 * 256; i++)
                    td_store_f32(t.op.in[0].dtype, t.op.in[0].data, i, scales[s] * (float)((int)(case_random() % 255) - 127));
                run(v, &t.op);
                if (worst_of(&t.op) > 1)
                    fail_msg("%s of %s, rows times %g: error %.3g", t.op.kind, td_dtype_name(t.op.in[1].dtype), (double)scales[s], worst_of(&t.op));
            }
}

static void test_rows_do_not_depend_on_m(void **state)
{
    unsigned char all[7 * 16 * 4];
    struct op_case t;

    (void)state;
    for (size_t which = 0; make_some(&t, which); op_case_release(&t), which++)
        EACH_VARIANT(v, t.op.kind) {
            const size_t size = td_dtype_size(t.op.out.dtype) * 16;

            run(v, &t.op);
            memcpy(all, t.op.out.data, 7 * size);
            run(v, &t.op);
            assert_memory_equal(all, t.op.out.data, 7 * size);
            for (int64_t row = 0; row < 7; row++) {
                struct td_op_call one = t.op;

                one.attrs[0].value = one.in[0].shape[0] = one.out.shape[0] = 1;
                one.in[0].data = (char *)one.in[0].data + (size_t)row * 256 * td_dtype_size(one.in[0].dtype);
                one.in[0].size_bytes /= 7;
                memset(one.out.data, 0x7f, size);
                run(v, &one);
                assert_memory_equal(one.out.data, all + (size_t)row * size, size);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mul_mat_shapes),
        cmocka_unit_test(test_mul_mat_batches),
        cmocka_unit_test(test_gemm_shapes),
        cmocka_unit_test(test_gptq_shapes),
        cmocka_unit_test(test_moe_shapes),
        cmocka_unit_test(test_scaled_mm_shapes),
        cmocka_unit_test(test_moe_scaled_shapes),
        cmocka_unit_test(test_scaled_mm_nan_stays_in_its_row),
        cmocka_unit_test(test_nan_and_inf_stay_in_their_row),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_rows_do_not_depend_on_m),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
