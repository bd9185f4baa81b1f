/* test_op_variety.c - how varied the data of ops is: what no op varies is found, whatever their order.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/json.h"
#include "replayer/op_variety.h"
#include "tests/unit/kernels/ops/op_case.h"

static const struct gptq_form PLAIN = {TD_DT_F16, TD_DT_F16, "none", false, false, 4, 32};
static const struct gptq_form ACT = {TD_DT_F16, TD_DT_F16, "none", false, true, 4, 32};

static void add(struct td_op_variety *v, const struct op_case *t, uint64_t weights)
{
    struct td_op_item it = {.loaded = true, .status = TD_OP_OK, .call = t->op, .weights = weights};

    td_op_variety_add(v, &it);
}

static struct td_tensor *tensor(struct op_case *t, const char *role)
{
    return (struct td_tensor *)(uintptr_t)td_op_in(&t->op, role);
}

static void fill_words(struct op_case *t, const char *role, uint32_t word)
{
    for (size_t i = 0; i < tensor(t, role)->size_bytes / sizeof word; i++)
        ((uint32_t *)tensor(t, role)->data)[i] = word;
}

static void a_gptq(struct op_case *t, const struct gptq_form *f, int64_t m, int64_t n, int64_t k)
{
    case_gptq(t, f, m, n, k, 0, true);
}

static void add_gptq(struct td_op_variety *v, int64_t m, int64_t n, int64_t k, uint64_t weights)
{
    struct op_case t;

    a_gptq(&t, &PLAIN, m, n, k);
    add(v, &t, weights);
    op_case_release(&t);
}

static void zero_points(void **state)
{
    struct td_op_variety v = {0};
    struct op_case t;

    (void)state;
    a_gptq(&t, &PLAIN, 1, 64, 64);
    fill_words(&t, "qzeros", 0x77777777);
    add(&v, &t, 1);
    assert_int_equal(v.kind[0].zero_points, TD_VARIES_NOT);
    assert_int_equal(v.kind[0].zero_point, 8);
    fill_words(&t, "qzeros", 0x66666666); /* equal within a weight, not from one to another */
    add(&v, &t, 2);
    assert_int_equal(v.kind[0].zero_points, TD_VARIES_NOT);
    assert_int_equal(v.kind[0].zero_point, -1);
    fill_words(&t, "qzeros", 0x67676767); /* the same words, of two zero points */
    add(&v, &t, 3);
    assert_int_equal(v.kind[0].zero_points, TD_VARIES);
    fill_words(&t, "qzeros", 0x77777777);
    add(&v, &t, 4);
    assert_int_equal(v.kind[0].zero_points, TD_VARIES);
    op_case_release(&t);
    td_op_variety_release(&v);
}

static void one_zero_point_in_the_last_word(void **state)
{
    struct td_op_variety v = {0};
    struct op_case t;
    size_t n;

    (void)state;
    a_gptq(&t, &PLAIN, 1, 64, 64);
    fill_words(&t, "qzeros", 0x77777777);
    n = tensor(&t, "qzeros")->size_bytes / 4;
    ((uint32_t *)tensor(&t, "qzeros")->data)[n - 1] = 0x57777777;
    add(&v, &t, 1);
    assert_int_equal(v.kind[0].zero_points, TD_VARIES);
    op_case_release(&t);
    td_op_variety_release(&v);
}

static void scales(void **state)
{
    const struct scaled_form tensor_wide = {TD_DT_F8_E4M3, TD_DT_F8_E4M3, TD_DT_F16, false, false, false, 0, 0};
    struct td_op_variety v = {0};
    struct op_case t;

    (void)state;
    a_gptq(&t, &PLAIN, 1, 64, 64);
    fill_words(&t, "scales", 0x3c003c00);
    add(&v, &t, 1);
    assert_int_equal(v.kind[0].scales, TD_VARIES_NOT);
    ((uint16_t *)tensor(&t, "scales")->data)[5] = 0x3c01;
    add(&v, &t, 1); /* known: not looked at again */
    assert_int_equal(v.kind[0].scales, TD_VARIES_NOT);
    add(&v, &t, 2);
    assert_int_equal(v.kind[0].scales, TD_VARIES);
    op_case_release(&t);
    case_scaled_mm(&t, &tensor_wide, 1, 64, 64, 0, true); /* one scale alone */
    add(&v, &t, 3);
    assert_int_equal(v.kind[1].scales, TD_VARIES_ABSENT);
    assert_int_equal(v.kind[1].zero_points, TD_VARIES_ABSENT);
    assert_int_equal(v.kind[1].order, TD_VARIES_ABSENT);
    op_case_release(&t);
    td_op_variety_release(&v);
}

static void act_order(void **state)
{
    struct td_op_variety v = {0};
    struct op_case t;
    int64_t i;

    (void)state;
    add_gptq(&v, 1, 64, 64, 1);
    assert_int_equal(v.kind[0].order, TD_VARIES_NOT);
    a_gptq(&t, &ACT, 1, 64, 64);
    for (i = 0; i < 64; i++)
        ((int32_t *)tensor(&t, "g_idx")->data)[i] = (int32_t)(i / 32);
    add(&v, &t, 2);
    assert_int_equal(v.kind[0].order, TD_VARIES_NOT);
    ((int32_t *)tensor(&t, "g_idx")->data)[63] = 0;
    add(&v, &t, 3);
    assert_int_equal(v.kind[0].order, TD_VARIES);
    op_case_release(&t);
    td_op_variety_release(&v);
}

static void sizes_and_rows(void **state)
{
    struct td_op_variety v = {0};

    (void)state;
    add_gptq(&v, 1, 256, 512, 1);
    add_gptq(&v, 30, 384, 64, 2);
    assert_int_equal(v.kind[0].ops, 2);
    assert_int_equal(v.kind[0].n_divisor, 128);
    assert_int_equal(v.kind[0].k_divisor, 64);
    assert_int_equal(v.kind[0].m_classes, 1u << 0 | 1u << 3);
    add_gptq(&v, 1, 72, 64, 3);
    assert_int_equal(v.kind[0].n_divisor, 8);
    td_op_variety_release(&v);
}

static void what_does_not_count(void **state)
{
    struct td_op_variety v = {0};
    struct td_op_item it = {.loaded = true, .status = TD_OP_BROKEN};
    struct op_case t;

    (void)state;
    a_gptq(&t, &PLAIN, 1, 64, 64);
    it.call = t.op;
    td_op_variety_add(&v, &it);
    it.status = TD_OP_UNSUPPORTED;
    td_op_variety_add(&v, &it);
    it.status = TD_OP_OK;
    it.loaded = false;
    td_op_variety_add(&v, &it);
    assert_int_equal(v.n, 0);
    it.loaded = true;
    it.status = TD_OP_CRASHED; /* its data would have shown a fault */
    td_op_variety_add(&v, &it);
    assert_int_equal(v.n, 1);
    op_case_release(&t);
    td_op_variety_release(&v);
}

/* What overflows: the activations, where weights are multiplied before they are scaled; else the sums. */
static void what_can_overflow(void **state)
{
    double mag[] = {3, 70000, 5, NAN};
    const struct td_op_ref ref = {.rows = 2, .cols = 2, .mag = mag};
    struct td_op_variety v = {0};
    struct td_op_item it = {.loaded = true, .status = TD_OP_OK};
    struct op_case t;
    uint16_t *a;

    (void)state;
    case_gptq(&t, &PLAIN, 3, 64, 64, 8, true); /* rows lie 72 apart */
    a = tensor(&t, "a")->data;
    a[2 * 72 + 63] = 0xe800; /* -2048 */
    a[63] = 0xfc00;          /* -Inf is no number */
    a[64] = 0x7bff;          /* between the rows */
    it.call = t.op;
    td_op_variety_find_largest(&it, &ref);
    assert_true(it.largest_a == 2048 && it.largest_sum == 0);
    td_op_variety_add(&v, &it);
    assert_true(v.kind[0].largest_a == 2048);
    it.largest_a = 3; /* of another op: the largest of all counts */
    td_op_variety_add(&v, &it);
    assert_true(v.kind[0].largest_a == 2048);
    op_case_release(&t);
    case_gemm(&t, TD_DT_F16, 2, 2, 64, false, 0, true);
    it = (struct td_op_item){.loaded = true, .status = TD_OP_OK, .call = t.op};
    td_op_variety_find_largest(&it, NULL);
    assert_true(it.largest_a == 0 && it.largest_sum == 0);
    td_op_variety_find_largest(&it, &ref);
    assert_true(it.largest_a == 0 && it.largest_sum == 70000);
    op_case_release(&t);
    case_gemm(&t, TD_DT_BF16, 2, 2, 64, false, 0, true);
    it = (struct td_op_item){.loaded = true, .status = TD_OP_OK, .call = t.op};
    td_op_variety_find_largest(&it, &ref);
    assert_true(it.largest_sum == 0);
    op_case_release(&t);
    td_op_variety_release(&v);
}

/* Of 8 experts the last one never has a row; of another weight other ones have none. */
static void experts_of_gptq(void **state)
{
    const struct moe_form form = {TD_DT_F16, TD_DT_F16, "none", false, false, false, false, 4, 32, 8, 2, 8};
    struct td_op_variety v = {0};
    struct op_case t;

    (void)state;
    case_moe(&t, &form, 200, 64, 64, 0, false, true);
    add(&v, &t, 1);
    add(&v, &t, 1);
    assert_int_equal(v.kind[0].experts, 8);
    assert_int_equal(v.kind[0].routed, 7);
    op_case_release(&t);
    case_moe(&t, &form, 1, 64, 64, 0, false, true); /* two slots: one expert or two */
    add(&v, &t, 2);
    assert_int_equal(v.kind[0].experts, 16);
    assert_in_range(v.kind[0].routed, 8, 9);
    op_case_release(&t);
    td_op_variety_release(&v);
}

static void experts_of_8_bit_floats(void **state)
{
    const struct moe_scaled_form form = {TD_DT_F8_E4M3, TD_DT_F8_E4M3, TD_DT_F16, true, true, false, 6};
    struct td_op_variety v = {0};
    struct op_case t;
    int32_t *sizes;

    (void)state;
    case_moe_scaled(&t, &form, 6, 64, 64, 0, true); /* experts have 0, 1, 2, 0, 1, 2 rows */
    add(&v, &t, 1);
    assert_int_equal(v.kind[0].experts, 6);
    assert_int_equal(v.kind[0].routed, 4);
    sizes = tensor(&t, "problem_sizes")->data;
    sizes[0] = 1; /* the row of expert 1 goes to expert 0 */
    sizes[3] = 0;
    add(&v, &t, 1);
    assert_int_equal(v.kind[0].routed, 5);
    op_case_release(&t);
    td_op_variety_release(&v);
}

/* More weights than the table has at first; kinds sorted by name, whichever came first. */
static void order_changes_nothing(void **state)
{
    struct td_op_variety v[2];
    struct op_case t[2];
    char *text[2];
    int i, k;

    (void)state;
    memset(v, 0, sizeof v);
    a_gptq(&t[0], &ACT, 1, 64, 64);
    case_gemm(&t[1], TD_DT_F16, 9, 72, 64, false, 0, true);
    for (i = 0; i < 2; i++) {
        for (k = 0; k < 2000; k++)
            add(&v[i], &t[(k + i) % 2], (uint64_t)(i ? 1999 - k : k));
        cJSON *json = td_op_variety_json(&v[i]);

        assert_int_equal(v[i].n_weights, 2000);
        text[i] = cJSON_PrintUnformatted(json);
        cJSON_Delete(json);
        td_op_variety_release(&v[i]);
    }
    assert_string_equal(text[0], text[1]);
    assert_non_null(strstr(text[0], "[{\"kind\":\"gemm\",\"ops\":1000,\"n_divisor\":72,\"k_divisor\":64,\"m_classes\":[\"M=9-24\"]},"));
    for (i = 0; i < 2; i++) {
        cJSON_free(text[i]);
        op_case_release(&t[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_points), cmocka_unit_test(one_zero_point_in_the_last_word), cmocka_unit_test(scales),
        cmocka_unit_test(act_order), cmocka_unit_test(sizes_and_rows), cmocka_unit_test(what_does_not_count),
        cmocka_unit_test(what_can_overflow), cmocka_unit_test(experts_of_gptq), cmocka_unit_test(experts_of_8_bit_floats),
        cmocka_unit_test(order_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
