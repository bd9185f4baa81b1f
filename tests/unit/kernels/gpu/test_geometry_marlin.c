/* test_geometry_marlin.c - Marlin's launches: as recorded where that can be, else by vLLM's rules; what no instance does is refused.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Seen on an H100 with vLLM 0.26 by a CUPTI probe: 132 blocks of 128 or 256 threads, 232,448 bytes of shared memory, 141 rows as 128 + 13. What the rules
 * choose for a size was worked out by hand from marlin.cu, as the comments say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/adapters/adapters.h"
#include "kernels/gpu/geometry_marlin.h"
#include "kernels/gpucode/mangled.h"
#include "tests/helpers/fake_marlin.h"

#define MAX 400

static const struct td_gpu_facts h100 = {.sm = 90, .shared_max = 232448, .multiprocessors = 132};
static const struct td_gpu_param params[20] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, 8}, {56, 8}, {64, 8}, {72, 8},
                                               {80, 4}, {84, 4}, {88, 4}, {92, 4}, {96, 4}, {104, 8}, {112, 1}, {113, 1}, {114, 1}, {116, 4}};
static struct td_gpu_offer offers[MAX];
static char symbols[MAX][256];
static int n_offers;
static uint32_t zeros[1 << 20];

static const char *symbol_of(const char *b, int threads, int m, int n, int k, int eight, int groups)
{
    static char out[256];

    snprintf(out, sizeof out, "_ZN6marlin6MarlinI" FAKE_MARLIN_F16 "%s" FAKE_MARLIN_F16 FAKE_MARLIN_F16 "Li%dELi%dELi%dELi%dELb%dELi4ELi%s%dELb0" FAKE_MARLIN_TAIL, b, threads, m, n, k,
             eight, groups < 0 ? "n" : "", abs(groups));
    return out;
}

static void offer(const char *symbol)
{
    strcpy(symbols[n_offers], symbol);
    offers[n_offers] = (struct td_gpu_offer){symbols[n_offers], td_gpu_adapter_find(symbol, params, 20, NULL)};
    assert_non_null(offers[n_offers++].adapter);
}

/* What vLLM's generate_kernels.py makes for sm_80 and later: 75 instances of each type of W with groups of any size, 60 of uint4. */
static int offer_all(void **state)
{
    static const struct { const char *b; int any_order; } types[] = {{FAKE_MARLIN_U4B8, 1}, {FAKE_MARLIN_U8B128, 1}, {FAKE_MARLIN_U4, 0}};
    static const int groups[] = {-1, 2, 4, 8, 0};

    (void)state;
    n_offers = 0;
    for (int t = 0; t < 3; t++)
        for (int g = 0; g < 4 + types[t].any_order; g++)
            for (int m = 0; m < 5; m++) {
                offer(m < 2 ? symbol_of(types[t].b, 256, 1, 8, 8, !m, groups[g]) : symbol_of(types[t].b, 256, m, 16, 4, 0, groups[g]));
                offer(symbol_of(types[t].b, 128, m ? m : 1, 8, 4, !m, groups[g]));
                offer(symbol_of(types[t].b, 128, m ? m : 1, 4, 8, !m, groups[g]));
            }
    return n_offers == 75 + 75 + 60 ? 0 : -1;
}

static struct td_gptq_op op_of(int64_t m, int64_t n, int64_t k, int bits, int group)
{
    const struct td_gptq_op op = {.m = m, .n = n, .k = k, .lda = k, .ldc = n, .groups = k / group, .bits = bits, .group_size = group, .zero_offset = 1, .dtype = TD_DT_F16,
                                  .scales_dtype = TD_DT_F16, .qzeros = zeros};

    memset(zeros, bits == 4 ? 0x77 : 0x7f, sizeof zeros);
    return op;
}

static const char *plan_of(const struct td_gptq_op *op, const struct td_op_call *call, struct td_gpu_plan *plan)
{
    static char why[600];

    return td_gpu_plan_marlin(op, call, offers, n_offers, &h100, plan, why, sizeof why);
}

static void expect(const struct td_gpu_launch *l, int64_t row0, int64_t rows, const char *symbol)
{
    assert_int_equal(l->row0, row0);
    assert_int_equal(l->rows, rows);
    assert_string_equal(offers[l->offer].symbol, symbol);
    assert_int_equal(l->grid[0], 132);
    assert_int_equal(l->grid[1] * l->grid[2], 1);
    assert_int_equal(l->block[0], td_gpu_symbol_argument(symbol, 4));
    assert_int_equal(l->shared_bytes, 232448);
}

static void test_rows_and_tiles_are_vllms(void **state)
{
    static const struct td_op_call nothing;
    struct td_gptq_op op = op_of(141, 11008, 4096, 4, 128);
    struct td_gpu_plan plan;

    (void)state;
    assert_null(plan_of(&op, &nothing, &plan));
    assert_int_equal(plan.n, 2);
    expect(&plan.launch[0], 0, 128, symbol_of(FAKE_MARLIN_U4B8, 256, 4, 16, 4, 0, 8));
    expect(&plan.launch[1], 128, 13, symbol_of(FAKE_MARLIN_U4B8, 256, 1, 8, 8, 0, 8)); /* 86 tiles of N, 4 * 86 > 132 */
    op = op_of(1, 4096, 4096, 4, 128);
    assert_null(plan_of(&op, &nothing, &plan));
    assert_int_equal(plan.n, 1);
    expect(&plan.launch[0], 0, 1, symbol_of(FAKE_MARLIN_U4B8, 128, 1, 4, 8, 1, 8)); /* 32 tiles, 4 * 32 <= 132: the few's */
    op = op_of(3000, 4160, 512, 8, 32); /* N over 4096: at most 16 * 64 rows at once; 4160 = 65 * 64: only 128 x 64 divides it */
    assert_null(plan_of(&op, &nothing, &plan));
    assert_int_equal(plan.n, 4);
    expect(&plan.launch[1], 1024, 1024, symbol_of(FAKE_MARLIN_U8B128, 128, 4, 4, 8, 0, 2));
    expect(&plan.launch[2], 2048, 896, symbol_of(FAKE_MARLIN_U8B128, 128, 4, 4, 8, 0, 2));
    expect(&plan.launch[3], 2944, 56, symbol_of(FAKE_MARLIN_U8B128, 128, 4, 4, 8, 0, 2));
    op = op_of(9, 256, 64, 4, 64); /* one group; K 64: 64 x 128 alone divides it */
    assert_null(plan_of(&op, &nothing, &plan));
    expect(&plan.launch[0], 0, 9, symbol_of(FAKE_MARLIN_U4B8, 128, 1, 8, 4, 0, -1));
    op.m = 0;
    assert_null(plan_of(&op, &nothing, &plan));
    assert_int_equal(plan.n, 0);
}

static void test_types_are_those_of_the_op(void **state)
{
    static const struct td_op_call nothing;
    static int32_t g_idx[256];
    struct td_gptq_op op = op_of(1, 256, 256, 4, 128);
    struct td_gpu_plan plan;

    (void)state;
    zeros[3] = 0x77777778;
    assert_null(plan_of(&op, &nothing, &plan));
    expect(&plan.launch[0], 0, 1, symbol_of(FAKE_MARLIN_U4, 128, 1, 4, 8, 1, 8));
    op = op_of(1, 256, 256, 4, 128);
    op.g_idx = g_idx;
    assert_null(plan_of(&op, &nothing, &plan));
    expect(&plan.launch[0], 0, 1, symbol_of(FAKE_MARLIN_U4B8, 128, 1, 4, 8, 1, 0));
}

static void refused(struct td_gptq_op op, const struct td_op_call *call, const char *because)
{
    struct td_gpu_plan plan;
    const char *no = plan_of(&op, call, &plan);

    if (!no || !strstr(no, because))
        fail_msg("\"%s\" does not say \"%s\"", no ? no : "(planned)", because);
}

static void test_what_no_instance_does_is_named(void **state)
{
    static const struct td_op_call nothing;
    static const struct td_tensor bias = {.dtype = TD_DT_F32};
    struct td_gptq_op op = op_of(1, 256, 256, 8, 128);

    (void)state;
    refused(op_of(1, 96, 256, 4, 128), &nothing, "N in 64s");
    refused(op_of(1, 256, 256, 4, 16), &nothing, "no instance for this op (F16 with 4 bits, symmetric, groups of 16, 256 x 256, 1 rows");
    op.dtype = op.scales_dtype = TD_DT_BF16;
    refused(op, &nothing, "no instance for this op (BF16 with 8 bits");
    op = op_of(1, 256, 256, 8, 128);
    op.bias = &bias;
    refused(op, &nothing, "a bias of A's type, this one is F32");
    op = op_of(1, 256, 256, 8, 128);
    zeros[0] = 0;
    refused(op, &nothing, "with zero points");
}

/* ---- as recorded --------------------------------------------------------------------------------------------------- */

static struct td_op_call recorded_as(const char *symbol, int64_t rows)
{
    struct td_op_call call = {.n_launches = 1, .launches = {{.rows = {0, rows}, .grid = {66, 1, 1}, .block = {256, 1, 1}, .shared_bytes = 200000}}};

    strcpy(call.symbol, symbol);
    return call;
}

static void test_what_ran_runs_again(void **state)
{
    struct td_gptq_op op = op_of(5, 256, 256, 4, 128);
    struct td_op_call call = recorded_as(symbol_of(FAKE_MARLIN_U4B8, 256, 1, 8, 8, 1, 8), 5); /* by the rules it would be 128 x 64 */
    struct td_gpu_plan plan;

    (void)state;
    assert_null(plan_of(&op, &call, &plan));
    assert_int_equal(plan.n, 1);
    assert_string_equal(offers[plan.launch[0].offer].symbol, call.symbol);
    assert_int_equal(plan.launch[0].grid[0], 66);
    assert_int_equal(plan.launch[0].block[0], 256);
    assert_int_equal(plan.launch[0].shared_bytes, 200000);
    call.n_launches = 2;           /* 5 rows are 4 and 1, the second by another instance */
    call.launches[0].rows[1] = 4;
    call.launches[1] = (struct td_op_launch){.rows = {4, 5}, .grid = {132, 1, 1}, .block = {128, 1, 1}, .shared_bytes = 232448};
    strcpy(call.launches[1].symbol, symbol_of(FAKE_MARLIN_U4B8, 128, 1, 8, 4, 0, 8));
    assert_null(plan_of(&op, &call, &plan));
    assert_int_equal(plan.n, 2);
    assert_int_equal(plan.launch[1].row0, 4);
    assert_string_equal(offers[plan.launch[1].offer].symbol, call.launches[1].symbol);
}

/* One thing wrong each: the rules come in. */
static void test_what_cannot_run_again_goes_by_the_rules(void **state)
{
    struct td_gptq_op op = op_of(5, 256, 256, 4, 128);
    const char *by_rules = strdup(symbol_of(FAKE_MARLIN_U4B8, 128, 1, 4, 8, 1, 8));
    const char *was = strdup(symbol_of(FAKE_MARLIN_U4B8, 256, 1, 8, 8, 1, 8));

    (void)state;
    for (int i = 0; i < 13; i++) {
        struct td_op_call call = recorded_as(was, 5);
        struct td_op_launch *l = &call.launches[0];
        struct td_gpu_plan plan;

        switch (i) {
        case 0: l->grid[0] = 133; break;          /* more blocks than run at once: they would wait for each other for ever */
        case 1: l->grid[0] = 0; break;
        case 2: l->grid[1] = 2; break;
        case 3: l->block[0] = 128; break;
        case 4: l->shared_bytes = 232449; break;
        case 5: l->shared_bytes = 1024; break;    /* less than its pipeline takes */
        case 6: l->rows[1] = 4; break;            /* not all rows */
        case 7: l->rows[1] = 6; break;
        case 8: l->rows[0] = 1; break;
        case 9: strcpy(l->symbol, "_Z6MarlinIv"); break;
        case 10: strcpy(call.symbol, symbol_of(FAKE_MARLIN_U4B8, 256, 1, 8, 8, 1, 4)); break; /* of other groups */
        case 11: strcpy(call.symbol, symbol_of(FAKE_MARLIN_U8B128, 256, 1, 8, 8, 1, 8)); break;
        case 12: call.n_launches = 0; break;
        }
        assert_null(plan_of(&op, &call, &plan));
        assert_int_equal(plan.n, 1);
        expect(&plan.launch[0], 0, 5, by_rules);
    }
    free((void *)(uintptr_t)by_rules);
    free((void *)(uintptr_t)was);
}

static void test_an_instance_that_is_not_there_is_named(void **state)
{
    struct td_op_call call = recorded_as(symbol_of(FAKE_MARLIN_U4B8, 256, 1, 8, 8, 1, 8), 5);

    (void)state;
    n_offers = 0;
    offer(symbol_of(FAKE_MARLIN_U4B8, 128, 1, 4, 8, 0, 8)); /* for more than 8 rows */
    refused(op_of(5, 256, 256, 4, 128), &call, "5 rows at a time); the build lacks the instance that ran");
    offer_all(NULL);
}

/* Values that no compiler wrote: nothing overflows, nothing fits. */
static void test_symbols_of_others(void **state)
{
    static const struct td_op_call nothing;

    (void)state;
    n_offers = 0;
    offer("_ZN6marlin6MarlinI" FAKE_MARLIN_F16 FAKE_MARLIN_U4B8 FAKE_MARLIN_F16 FAKE_MARLIN_F16 "Li128ELi1ELi922337203685477580ELi922337203685477580ELb1ELi4ELi8ELb0" FAKE_MARLIN_TAIL);
    refused(op_of(1, 256, 256, 4, 128), &nothing, "no instance");
    offer_all(NULL);
}

static void test_every_parameter_is_in_its_place(void **state)
{
    const struct td_gpu_adapter *row = td_gpu_adapter_find(symbol_of(FAKE_MARLIN_U4B8, 128, 1, 4, 8, 1, 8), params, 20, NULL);
    const struct td_gpu_places at = {0x1000, 0x2000, 0x3000, 0x4000, 0, 0x6000, 256, 256, 0x7000, 0x8000, 0x9000, 0};
    const struct td_gpu_launch l = {.row0 = 128, .rows = 13, .shared_bytes = 232448};
    const uint64_t want[20] = {0x1000 + 128 * 256 * 2, 0x2000, 0x6000 + 128 * 256 * 2, 0x8000, 0x7000, 0, 0x4000, 0, 0, 0, 2, 13, 256, 256, 256, 0x9000, 1, 0, 1, 232448};
    struct td_gptq_op op = op_of(141, 256, 256, 4, 128);
    struct td_gpu_values v;

    (void)state;
    assert_int_equal(td_gpu_values_gptq(&op, row, &l, &at, &v, NULL), TD_OK);
    for (int i = 0; i < 20; i++)
        assert_int_equal(v.value[i], want[i]);
    assert_int_equal(td_gpu_marlin_c_tmp_bytes(1, 132), 132 * 16 * 256 * 4);
    assert_int_equal(td_gpu_marlin_c_tmp_bytes(141, 132), 132 * 64 * 256 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_and_tiles_are_vllms), cmocka_unit_test(test_types_are_those_of_the_op), cmocka_unit_test(test_what_no_instance_does_is_named),
        cmocka_unit_test(test_what_ran_runs_again), cmocka_unit_test(test_what_cannot_run_again_goes_by_the_rules),
        cmocka_unit_test(test_an_instance_that_is_not_there_is_named), cmocka_unit_test(test_symbols_of_others), cmocka_unit_test(test_every_parameter_is_in_its_place),
    };

    return cmocka_run_group_tests_name("geometry_marlin", tests, offer_all, NULL);
}
