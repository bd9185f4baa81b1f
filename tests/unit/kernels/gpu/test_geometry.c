/* test_geometry.c - ops become the launches that vLLM makes, with every parameter in its place; what cannot be said is refused.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Launches of vLLM as seen on an H100 and an H200 by a CUPTI probe: 20 rows are m=16 by <true, 8> and m=4 by <true, 4>; 8 rows one launch; block 128, grid
 * (ceil(N / 512), ceil(m / m_count), K / 128). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "kernels/adapters/adapters.h"
#include "kernels/gpu/geometry.h"

#define SYMBOL(bits, m) "_ZN4vllm4gptq33gemm_half_q_half_gptq_" #bits "bit_kernelILb1ELi" #m "EEEvPK6__halfPKjS6_S4_PS2_iiiibPKi"

static const struct td_gpu_adapter *row_of(const char *symbol, const char *identifier, int n_fields)
{
    const struct td_gpu_adapter *row;

    for (int i = 0; (row = td_gpu_adapter_at(i)); i++)
        if (!strcmp(row->identifier, identifier) && (!n_fields || row->n_fields == n_fields))
            return row;
    fail_msg("no row for %s", symbol);
    return NULL;
}

static void offers4(struct td_gpu_offer *o, int n_fields)
{
    static const char *const symbols[] = {SYMBOL(4, 1), SYMBOL(4, 4), SYMBOL(4, 8)};

    for (int i = 0; i < 3; i++)
        o[i] = (struct td_gpu_offer){symbols[i], row_of(symbols[i], "gemm_half_q_half_gptq_4bit_kernel", n_fields)};
}

static struct td_gptq_op op_of(int64_t m, int64_t n, int64_t k, int group)
{
    return (struct td_gptq_op){.m = m, .n = n, .k = k, .lda = k, .ldc = n, .groups = k / group, .bits = 4, .group_size = group, .zero_offset = 1};
}

static void test_20_rows_are_16_and_4(void **state)
{
    struct td_gptq_op op = op_of(20, 4096, 11008, 128);
    struct td_gpu_offer offers[3];
    struct td_gpu_plan plan;
    char why[200];

    (void)state;
    offers4(offers, 11);
    assert_null(td_gpu_plan_gptq(&op, offers, 3, &plan, why, sizeof why));
    assert_int_equal(plan.n, 2);
    assert_int_equal(plan.launch[0].offer, 2);
    assert_int_equal(plan.launch[0].rows, 16);
    assert_int_equal(plan.launch[0].grid[0], 8);
    assert_int_equal(plan.launch[0].grid[1], 2);
    assert_int_equal(plan.launch[0].grid[2], 86);
    assert_int_equal(plan.launch[0].block[0], 128);
    assert_int_equal(plan.launch[1].offer, 1);
    assert_int_equal(plan.launch[1].row0, 16);
    assert_int_equal(plan.launch[1].rows, 4);
    assert_int_equal(plan.launch[1].grid[1], 1);
    op.m = 1;
    assert_null(td_gpu_plan_gptq(&op, offers, 3, &plan, why, sizeof why));
    assert_int_equal(plan.n, 1);
    assert_int_equal(plan.launch[0].offer, 0);
    op.m = 0;
    assert_null(td_gpu_plan_gptq(&op, offers, 3, &plan, why, sizeof why));
    assert_int_equal(plan.n, 0);
}

/* fixtures/golden/v1-vllm-gpu, op 5: what a real vLLM launched for 38 rows of a layer with N 512, K 512. */
static void test_as_a_real_vllm_did(void **state)
{
    const struct td_gpu_adapter *row = row_of("", "gemm_half_q_half_gptq_4bit_kernel", 11);
    const struct td_gpu_offer offers[] = {{SYMBOL(4, 6), row}, {SYMBOL(4, 8), row}};
    const uint32_t grids[2][3] = {{1, 4, 4}, {1, 1, 4}};
    struct td_gptq_op op = op_of(38, 512, 512, 128);
    struct td_gpu_plan plan;
    char why[200];

    (void)state;
    assert_null(td_gpu_plan_gptq(&op, offers, 2, &plan, why, sizeof why));
    assert_int_equal(plan.n, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(plan.launch[i].row0, i ? 32 : 0);
        assert_int_equal(plan.launch[i].row0 + plan.launch[i].rows, i ? 38 : 32);
        assert_int_equal(plan.launch[i].offer, !i);
        assert_memory_equal(plan.launch[i].grid, grids[i], sizeof grids[i]);
        assert_int_equal(plan.launch[i].block[0], 128);
    }
}

static void refused(struct td_gptq_op op, const char *because)
{
    struct td_gpu_offer offers[3];
    struct td_gpu_plan plan;
    char why[300];
    const char *no;

    offers4(offers, 11);
    no = td_gpu_plan_gptq(&op, offers, 3, &plan, why, sizeof why);
    if (!no || !strstr(no, because))
        fail_msg("\"%s\" does not say \"%s\"", no ? no : "(planned)", because);
}

static void test_what_no_kernel_computes_is_named(void **state)
{
    struct td_gptq_op op = op_of(3, 256, 256, 64);

    (void)state;
    refused(op, "not for 3 rows at a time");
    refused(op_of(51, 256, 256, 64), "reconstruct_exllama_4bit_kernel and cuBLAS");
    refused(op_of(1, 256, 48, 16), "in 32s");
    op.bits = 8;
    refused(op, "for 4 bits, this op has 8");
}

/* q_gemm.cu: reconstruct_exllama, MAX_Q_GEMM_ROWS, MAX_Q_GEMM_ROWS_8BIT */
static void test_many_rows_are_one_launch_and_a_product(void **state)
{
    const struct td_gpu_offer whole = {"", row_of("", "reconstruct_exllama_4bit_kernel", 9)};
    const struct td_gpu_adapter *bits4 = row_of("", "gemm_half_q_half_gptq_4bit_kernel", 11), *bits8 = row_of("", "gemm_half_q_half_gptq_8bit_kernel", 11);
    const struct td_gpu_places at = {.a = 0x1000, .qweight = 0x2000, .qzeros = 0x3000, .scales = 0x4000, .order = 0x5000, .c = 0x6000, .dequant_w = 0x7000};
    struct td_gptq_op op = op_of(51, 4096 + 64, 11008, 128);
    const uint32_t grid[3] = {33, 86, 1};
    struct td_gpu_plan plan;
    struct td_gpu_values v;
    struct td_error err = {0};
    char why[200];

    (void)state;
    assert_string_equal(td_gpu_dequant_of(bits4, &op), "reconstruct_exllama_4bit_kernel");
    assert_null(td_gpu_plan_gptq(&op, &whole, 1, &plan, why, sizeof why));
    assert_true(plan.dequant_w);
    assert_int_equal(plan.n, 1);
    assert_memory_equal(plan.launch[0].grid, grid, sizeof grid);
    assert_int_equal(plan.launch[0].block[0], 128);
    assert_int_equal(td_gpu_values_gptq(&op, whole.adapter, &plan.launch[0], &at, &v, &err), TD_OK);
    assert_int_equal(v.value[0], 0x2000); /* qweight, perm, qzeros, scales, k, n, groups, v2, b */
    assert_int_equal(v.value[1], 0x5000);
    assert_int_equal(v.value[4], 11008);
    assert_int_equal(v.value[5], 4096 + 64);
    assert_int_equal(v.value[6], 86);
    assert_int_equal(v.value[7], 0);
    assert_int_equal(v.value[8], 0x7000);
    op.m = 50;
    assert_null(td_gpu_dequant_of(bits4, &op));
    op.m = 25;
    assert_string_equal(td_gpu_dequant_of(bits8, &op), "reconstruct_exllama_8bit_kernel");
    op.m = 24;
    assert_null(td_gpu_dequant_of(bits8, &op));
}

static void test_rows_without_a_rule_are_named(void **state)
{
    const struct td_gpu_offer marlin = {"_Z6Marlin", row_of("Marlin", "Marlin", 0)};
    struct td_gptq_op op = op_of(1, 256, 256, 64);
    struct td_gpu_plan plan;
    char why[300];
    const char *no = td_gpu_plan_gptq(&op, &marlin, 1, &plan, why, sizeof why);

    (void)state;
    assert_non_null(no);
    assert_non_null(strstr(no, "Marlin"));
}

static void test_every_parameter_is_in_its_place(void **state)
{
    struct td_gptq_op op = op_of(20, 256, 256, 64);
    const struct td_gpu_launch l = {.row0 = 16, .rows = 4};
    struct td_gpu_places at = {0x1000, 0x2000, 0x3000, 0x4000, 0, 0x6000, 256, 256, 0, 0, 0, 0};
    const struct td_gpu_adapter *v2 = row_of("", "gemm_half_q_half_gptq_4bit_kernel", 11), *v1 = row_of("", "gemm_half_q_half_gptq_4bit_kernel", 10);
    struct td_gpu_values v;
    struct td_error err = {0};

    (void)state;
    assert_int_equal(td_gpu_values_gptq(&op, v2, &l, &at, &v, &err), TD_OK);
    assert_int_equal(v.value[0], 0x1000 + 16 * 256 * 2);
    assert_int_equal(v.value[4], 0x6000 + 16 * 256 * 2);
    assert_int_equal(v.value[5], 4);
    assert_int_equal(v.value[6], 256);
    assert_int_equal(v.value[8], 4);
    assert_int_equal(v.value[9], 0);
    assert_int_equal(v.value[10], 0);
    op.zero_offset = 0;
    at.order = 0x5000;
    assert_int_equal(td_gpu_values_gptq(&op, v2, &l, &at, &v, &err), TD_OK);
    assert_int_equal(v.value[9], 1);
    assert_int_equal(v.value[10], 0x5000);
    assert_int_equal(td_gpu_values_gptq(&op, v1, &l, &at, &v, &err), TD_EUNSUPPORTED); /* it has no such parameter */
    assert_non_null(strstr(err.msg, "gptq_v2"));
}

static void test_our_own_kernels(void **state)
{
    const struct td_gpu_offer ours = {"td_gptq_gemm_4bit_f32", row_of("", "td_gptq_gemm_4bit_f32", 0)};
    struct td_gptq_op op = op_of(60, 640, 256, 64);
    struct td_gpu_places at = {0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000, 300, 700, 0, 0, 0, 0};
    struct td_gpu_plan plan;
    struct td_gpu_values v;
    struct td_error err = {0};
    char why[200];

    (void)state;
    assert_null(td_gpu_plan_gptq(&op, &ours, 1, &plan, why, sizeof why));
    assert_int_equal(plan.n, 1);
    assert_int_equal(plan.launch[0].rows, 60);
    assert_int_equal(plan.launch[0].grid[0], 20);
    assert_int_equal(plan.launch[0].grid[1], 8);
    assert_int_equal(td_gpu_values_gptq(&op, ours.adapter, &plan.launch[0], &at, &v, &err), TD_OK);
    assert_int_equal(v.value[td_gpu_field_at(ours.adapter, "g_idx")], 0x5000);
    assert_int_equal(v.value[td_gpu_field_at(ours.adapter, "lda")], 300);
    assert_int_equal(v.value[td_gpu_field_at(ours.adapter, "ldc")], 700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_20_rows_are_16_and_4), cmocka_unit_test(test_as_a_real_vllm_did), cmocka_unit_test(test_what_no_kernel_computes_is_named), cmocka_unit_test(test_many_rows_are_one_launch_and_a_product), cmocka_unit_test(test_rows_without_a_rule_are_named),
        cmocka_unit_test(test_every_parameter_is_in_its_place), cmocka_unit_test(test_our_own_kernels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
