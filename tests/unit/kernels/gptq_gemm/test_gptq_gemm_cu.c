/* test_gptq_gemm_cu.c - our GPU kernels of gptq_gemm in the emulator: each against the reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <time.h>

#include "kernels/adapters/adapters.h"
#include "tests/unit/kernels/gptq_gemm/gptq_cu_case.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define SHAPE(...) ((struct gptq_shape){__VA_ARGS__})

static double worst_seen;
static int shapes_seen;

/* Right with fp32 sums, in both layouts, whatever the order of threads. */
static void is_right(const struct gptq_shape *s, bool at_end)
{
    for (int exllama = 0; exllama < 2; exllama++) {
        const uint64_t seed = case_random();
        struct gptq_cu_case t;
        double worst;

        cu_case_new(&t, s, exllama, at_end);
        cu_case_run(&t, td_simt_launch, "f32", seed, seed & 2 ? 64 : 32);
        worst = case_worst(&t.x, NULL);
        if (worst > 1.0)
            fail_msg("%s: m %d n %d k %d bits %d group %d zero_offset %d act %d seed %llu: error %.3g of the tolerance", exllama ? "exllama" : "checkpoint", s->m,
                     s->n, s->k, s->bits, s->group_size, s->zero_offset, s->act_order, (unsigned long long)seed, worst);
        for (int64_t i = 0; i + t.x.x.ldc < s->m * t.x.x.ldc; i++) /* gaps between rows of C are nobody's */
            if (i % t.x.x.ldc >= s->n)
                assert_int_equal(t.x.x.c[i], POISON);
        worst_seen = worst > worst_seen ? worst : worst_seen;
        shapes_seen++;
        cu_case_release(&t);
    }
}

static void test_shapes(void **state)
{
    static const int ms[] = {1, 2, 7, 8, 9, 17}, ns[] = {8, 24, 32, 40, 136};
    static const struct { int k, group; } ks[] = {{8, 8}, {40, 40}, {64, 32}, {128, 64}, {384, 128}, {200, 200}, {520, 520}};
    int i = 0;

    (void)state;
    for (size_t k = 0; k < COUNT(ks); k++)
        for (size_t n = 0; n < COUNT(ns); n++)
            for (size_t m = 0; m < COUNT(ms); m++, i++) {
                struct gptq_shape s = {ms[m], ns[n], ks[k].k, i & 1 ? 8 : 4, ks[k].group, i >> 1 & 1, i >> 2 & 1, i % 3, i % 5};

                is_right(&s, i >> 3 & 1);
                s.bits ^= 12;
                is_right(&s, !(i >> 3 & 1));
            }
    for (int n = 4; n <= 68; n += 4) /* every width of 8-bit columns */
        is_right(&SHAPE(3, n, 96, 8, 32, 1, n & 8, 0, 0), true);
    print_message("td_gptq_gemm: worst error %.3f of the tolerance over %d launches\n", worst_seen, shapes_seen);
}

static void test_uneven_groups(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct gptq_cu_case t;
        int32_t *g;

        cu_case_new(&t, &SHAPE(i + 1, 40, 128, i & 1 ? 8 : 4, 32, 1, true, 0, 0), false, true);
        g = t.x.g_idx.data;
        for (int k = 0; k < 128; k++)
            g[k] = i < 4 ? 3 : (int32_t)(case_random() % (i < 6 ? 2 : 4));
        cu_case_run(&t, td_simt_launch, "f32", (uint64_t)i, 32);
        assert_true(case_worst(&t.x, NULL) <= 1.0);
        cu_case_release(&t);
    }
}

/* An element depends neither on M, nor on the order of threads, nor on the warp. */
static void test_repeats_bit_for_bit(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint16_t first[11 * 96];
        struct gptq_cu_case t;

        cu_case_new(&t, &SHAPE(11, 96, 320, i & 1 ? 8 : 4, 64, 1, i & 2, 0, 0), i & 1, true);
        for (uint64_t seed = 0; seed < 6; seed++) {
            const bool part = seed == 5;

            case_poison(&t.x);
            t.x.x.m = part ? 3 : 11;
            cu_case_run(&t, td_simt_launch, seed == 4 ? "f16" : "f32", seed, seed == 2 ? 64 : 32);
            if (!seed)
                memcpy(first, t.x.x.c, sizeof first);
            else if (seed == 4)
                assert_memory_not_equal(t.x.x.c, first, sizeof first);
            else
                assert_memory_equal(t.x.x.c, first, (size_t)t.x.x.m * 96 * 2);
        }
        t.x.x.m = 11;
        cu_case_release(&t);
    }
}

static void test_nan_and_inf_stay_in_their_row(void **state)
{
    static const uint16_t bad[] = {0x7e00, 0x7c00, 0xfc00, 0x7c01};

    (void)state;
    for (int i = 0; i < 16; i++) {
        const int64_t row = i % 11;
        struct gptq_cu_case t;

        cu_case_new(&t, &SHAPE(11, 40, 128, i & 1 ? 8 : 4, 64, 0, i & 2, 0, 0), i & 4, true);
        ((uint16_t *)t.x.a.data)[row * t.x.x.lda + case_random() % 128] = bad[i / 4];
        cu_case_run(&t, td_simt_launch, "f32", (uint64_t)i, 32);
        for (int64_t j = 0; j < 11 * 40; j++)
            assert_int_equal(j / 40 == row, !isfinite(td_f16_load(t.x.x.c[j])));
        assert_true(case_worst(&t.x, NULL) <= 1.0);
        cu_case_release(&t);
    }
}

/* Largest halves, denormals, results beyond f16. */
static void test_extremes(void **state)
{
    static const uint16_t as[] = {0x7bff, 0xfbff, 0x0001, 0x83ff, 0x0400, 0x3c00, 0x0000, 0x8000};

    (void)state;
    for (int i = 0; i < 16; i++) {
        struct gptq_cu_case t;
        uint16_t *a, *s;

        cu_case_new(&t, &SHAPE(6, 40, 64, i & 1 ? 8 : 4, 32, 1, i & 2, 0, 0), i & 1, true);
        a = t.x.a.data;
        s = t.x.scales.data;
        for (int j = 0; j < 6 * 64; j++)
            a[j] = as[(unsigned)j * 7 % (i < 8 ? 2 : COUNT(as))];
        for (int j = 0; j < 2 * 40; j++)
            s[j] = i & 4 ? 0x0001 + (uint16_t)j : 0x7bff;
        cu_case_run(&t, td_simt_launch, "f32", (uint64_t)i, 32);
        assert_true(case_worst(&t.x, NULL) <= 1.0);
        cu_case_release(&t);
    }
}

/* Products of a word summed in f16: within its own rounding where inputs are small, Inf or NaN where fp32 sums are right. */
static void test_f16_sums_overflow(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct gptq_cu_case t;
        double small, large;
        int64_t bad;

        cu_case_new(&t, &SHAPE(5, 72, 256, i & 1 ? 8 : 4, 64, 1, i & 2, 0, 0), i & 4, true);
        cu_case_run(&t, td_simt_launch, "f16", (uint64_t)i, 32);
        small = case_worst(&t.x, &bad);
        assert_true(small > 2.0 && small < 400.0); /* halves have 13 bits less than the tolerance's float */
        for (int j = 0; j < 5 * 256; j++)
            ((uint16_t *)t.x.a.data)[j] = td_f16_round(td_f16_load(t.x.x.a[j]) * (i & 1 ? 400.0f : 6000.0f));
        cu_case_run(&t, td_simt_launch, "f16", (uint64_t)i, 32);
        large = case_worst(&t.x, &bad);
        assert_true(isinf(large));
        assert_in_range(bad, 36, 5 * 72);
        cu_case_run(&t, td_simt_launch, "f32", (uint64_t)i, 32);
        assert_true(case_worst(&t.x, NULL) <= 1.0);
        cu_case_release(&t);
    }
}

/* The rows that the tap and the provider read say the same of a launch as the kernel's own declaration. */
static void test_adapter_rows_fit(void **state)
{
    const struct td_simt_kernel *k;
    int n = 0;

    (void)state;
    for (int i = 0; (k = td_simt_kernel_at(i)); i++) {
        const struct td_gpu_adapter *row = td_gpu_adapter_find(k->symbol, k->params, k->n_params, NULL);

        if (strncmp(k->symbol, "td_gptq_gemm", 12)) /* the references are no server's kernels */
            continue;
        if (!row)
            fail_msg("no row for %s", k->symbol);
        assert_string_equal(row->family, "td_gptq");
        assert_int_equal(row->bits, strstr(k->symbol, "4bit") ? 4 : 8);
        assert_string_equal(row->layout, strstr(k->symbol, "exllama") ? "exllama" : "checkpoint");
        n++;
    }
    assert_int_equal(n, 8);
}

static void test_a_launch_is_read(void **state)
{
    for (int exllama = 0; exllama < 2; exllama++) {
        const struct td_simt_kernel *k = td_simt_kernel_find(exllama ? "td_gptq_gemm_exllama_8bit_f32" : "td_gptq_gemm_8bit_f32");
        struct td_gptq_cu_call call;
        struct gptq_cu_case t;
        struct td_gpu_values v;
        struct td_gpu_work w;

        cu_case_new(&t, &SHAPE(5, 72, 256, 8, 64, 1, true, 3, 5), exllama, true);
        td_gptq_cu_call_of(&t.args, &call);
        assert_true(td_gpu_values_read(td_gpu_adapter_find(k->symbol, k->params, k->n_params, NULL), k->params, call.param, NULL, 0, &v));
        assert_true(td_gpu_work_read(td_gpu_adapter_find(k->symbol, k->params, k->n_params, NULL), &v, &w));
        assert_int_equal(w.m * 1000000 + w.n * 1000 + w.k, 5 * 1000000 + 72 * 1000 + 256);
        assert_int_equal(w.bits * 1000 + w.group_size * 10 + w.zero_offset + w.act_order, 8000 + 640 + 2);
        assert_int_equal(w.n_op, 6);
        assert_int_equal(w.op[0].row_stride, 259);
        assert_string_equal(w.op[4].role, exllama ? "perm" : "g_idx");
        assert_string_equal(w.op[5].role, "c");
        assert_int_equal(w.op[5].row_stride, 77);
        assert_int_equal(w.op[5].use, TD_GPU_OUT);
        cu_case_release(&t);
    }
    (void)state;
}

static void test_geometry(void **state)
{
    uint32_t grid[3], block[3];

    (void)state;
    assert_true(td_gptq_cu_grid(9, 33, grid, block));
    assert_int_equal(grid[0] * 100 + grid[1] * 10 + grid[2], 221);
    assert_int_equal(block[0] * block[1] * block[2], 256);
    assert_true(td_gptq_cu_grid(8 * 65535, 32, grid, block));
    assert_false(td_gptq_cu_grid(8 * 65535 + 1, 32, grid, block));
    assert_false(td_gptq_cu_grid(0, 32, grid, block));
    assert_false(td_gptq_cu_grid(1, 0, grid, block));
}

/* Not judged; to be seen. */
static void test_says_how_long_it_takes(void **state)
{
    struct timespec from, to;
    struct gptq_cu_case t;

    (void)state;
    for (int half = 0; half < 2; half++) {
        cu_case_new(&t, &SHAPE(16, 512, 512, 4, 128, 1, false, 0, 0), false, true);
        clock_gettime(CLOCK_MONOTONIC, &from);
        cu_case_run(&t, td_simt_launch, half ? "f16" : "f32", 1, 32);
        clock_gettime(CLOCK_MONOTONIC, &to);
        print_message("m 16, n 512, k 512, sums in %s: %.3f s\n", half ? "f16" : "f32",
                      (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
        cu_case_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_uneven_groups),
        cmocka_unit_test(test_repeats_bit_for_bit),
        cmocka_unit_test(test_nan_and_inf_stay_in_their_row),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_f16_sums_overflow),
        cmocka_unit_test(test_adapter_rows_fit),
        cmocka_unit_test(test_a_launch_is_read),
        cmocka_unit_test(test_geometry),
        cmocka_unit_test(test_says_how_long_it_takes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
