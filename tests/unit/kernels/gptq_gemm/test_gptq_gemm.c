/* test_gptq_gemm.c - every variant against the reference, and the reference against numpy.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>

#include "tests/unit/data/gptq_expected.h"
#include "tests/unit/kernels/gptq_gemm/gptq_case.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static double worst_seen;

static void run_and_judge(const struct td_gptq_gemm_variant *v, const struct gptq_shape *s, bool at_end)
{
    struct gptq_case t;
    double worst;

    case_new(&t, s, at_end);
    assert_int_equal(td_gptq_gemm_run(v, &t.x), TD_KERNEL_OK);
    worst = case_worst(&t, NULL);
    if (worst > 1.0)
        fail_msg("%s: m %d n %d k %d bits %d group %d zero_offset %d act %d: error %.3g of the tolerance", v->name, s->m, s->n, s->k,
                 s->bits, s->group_size, s->zero_offset, s->act_order, worst);
    for (int64_t i = 0; i + t.x.ldc < s->m * t.x.ldc; i++) /* gaps between rows of C are nobody's */
        if (i % t.x.ldc >= s->n)
            assert_int_equal(t.x.c[i], POISON);
    worst_seen = worst > worst_seen ? worst : worst_seen;
    case_release(&t);
}

#define EACH_VARIANT(v) \
    for (const struct td_gptq_gemm_variant *v = td_gptq_gemm_variants; v->name; v++) \
        if (td_gptq_gemm_can_run(v))

static void test_shapes(void **state)
{
    static const int ms[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 49, 50, 51, 64}, ns[] = {8, 16, 24, 96, 136, 264};
    static const struct { int k, group; } ks[] = {{8, 8}, {40, 40}, {64, 32}, {96, 32}, {128, 64}, {256, 128}, {384, 128}, {200, 200}};

    (void)state;
    EACH_VARIANT(v) {
        int i = 0;

        worst_seen = 0.0;
        for (size_t k = 0; k < COUNT(ks); k++)
            for (size_t n = 0; n < COUNT(ns); n++)
                for (size_t m = 0; m < COUNT(ms); m++, i++) {
                    struct gptq_shape s = {ms[m], ns[n], ks[k].k, i & 1 ? 8 : 4, ks[k].group, i >> 1 & 1, i >> 2 & 1, i % 3, i % 5};

                    run_and_judge(v, &s, i >> 3 & 1);
                    s.bits ^= 12;
                    run_and_judge(v, &s, !(i >> 3 & 1));
                }
        print_message("gptq_gemm_%s: worst error %.3f of the tolerance over %d shapes\n", v->name, worst_seen, 2 * i);
    }
}

/* Every width of 8-bit columns, for 32/8 = 4 divides what a vector of 8 does not; every group size in both formats. */
static void test_tails_and_groups(void **state)
{
    static const int groups[] = {32, 64, 128, 640, 8, 16, 40, 320};

    (void)state;
    EACH_VARIANT(v) {
        for (int n = 4; n <= 76; n += 4)
            for (int m = 1; m <= 5; m += 2)
                run_and_judge(v, &(struct gptq_shape){m, n, 96, 8, 32, 1, n & 8, 0, 0}, true);
        for (int i = 0; i < 64; i++)
            run_and_judge(v, &(struct gptq_shape){i & 1 ? 5 : 1, 48, 640, i & 2 ? 8 : 4, groups[i >> 3], !!(i & 4), false, 0, 0}, true);
    }
}

/* A group may hold any number of rows, none included, when g_idx says so. */
static void test_uneven_groups(void **state)
{
    (void)state;
    EACH_VARIANT(v)
        for (int i = 0; i < 12; i++) {
            struct gptq_case t;
            int32_t *g;

            case_new(&t, &(struct gptq_shape){i % 6 + 1, 40, 128, i & 1 ? 8 : 4, 32, 1, true, 0, 0}, true);
            g = t.g_idx.data;
            for (int k = 0; k < 128; k++)
                g[k] = i < 4 ? 3 : (int32_t)(case_random() % (i < 8 ? 2 : 4));
            assert_int_equal(td_gptq_gemm_run(v, &t.x), TD_KERNEL_OK);
            assert_true(case_worst(&t, NULL) <= 1.0);
            case_release(&t);
        }
}

static void test_rows_do_not_depend_on_m(void **state)
{
    (void)state;
    EACH_VARIANT(v)
        for (int i = 0; i < 8; i++) {
            struct gptq_case t;
            uint16_t *all;

            case_new(&t, &(struct gptq_shape){51, i & 4 ? 84 & ~(i & 1 ? 3 : 7) : 96, 640, i & 1 ? 8 : 4, 128, 1, i & 2, 0, 0}, true);
            assert_int_equal(td_gptq_gemm_run(v, &t.x), TD_KERNEL_OK);
            all = test_malloc(51 * (size_t)t.x.n * 2);
            memcpy(all, t.x.c, 51 * (size_t)t.x.n * 2);
            for (int m = 1; m <= 9; m++)
                for (int row = 0; row + m <= 51; row += 7) {
                    struct td_gptq_gemm_args part = t.x;

                    case_poison(&t);
                    part.m = m;
                    part.a += row * part.lda;
                    assert_int_equal(td_gptq_gemm_run(v, &part), TD_KERNEL_OK);
                    assert_memory_equal(part.c, all + row * t.x.n, (size_t)m * (size_t)t.x.n * 2);
                }
            test_free(all);
            case_release(&t);
        }
}

/* Largest halves, denormals, results beyond f16. */
static void test_extremes(void **state)
{
    static const uint16_t as[] = {0x7bff, 0xfbff, 0x0001, 0x83ff, 0x0400, 0x3c00, 0x0000, 0x8000};

    (void)state;
    EACH_VARIANT(v)
        for (int i = 0; i < 16; i++) {
            struct gptq_case t;
            uint16_t *a, *s;

            case_new(&t, &(struct gptq_shape){6, 40, 64, i & 1 ? 8 : 4, 32, 1, i & 2, 0, 0}, true);
            a = t.a.data;
            s = t.scales.data;
            for (int j = 0; j < 6 * 64; j++)
                a[j] = as[(unsigned)j * 7 % (i < 8 ? 2 : COUNT(as))];
            for (int j = 0; j < 2 * 40; j++)
                s[j] = i & 4 ? 0x0001 + (uint16_t)j : 0x7bff;
            assert_int_equal(td_gptq_gemm_run(v, &t.x), TD_KERNEL_OK);
            assert_true(case_worst(&t, NULL) <= 1.0);
            case_release(&t);
        }
}

static void test_nan_and_inf_stay_in_their_row(void **state)
{
    static const uint16_t bad[] = {0x7e00, 0x7c00, 0xfc00, 0x7c01};

    (void)state;
    EACH_VARIANT(v)
        for (int i = 0; i < 16; i++) {
            struct gptq_case t;
            int64_t row = i % 7;

            case_new(&t, &(struct gptq_shape){7, 40, 128, i & 1 ? 8 : 4, 64, 0, i & 2, 0, 0}, true);
            ((uint16_t *)t.a.data)[row * t.x.lda + case_random() % 128] = bad[i / 4];
            assert_int_equal(td_gptq_gemm_run(v, &t.x), TD_KERNEL_OK);
            for (int64_t j = 0; j < 7 * 40; j++)
                assert_int_equal(j / 40 == row, !isfinite(td_f16_load(t.x.c[j])));
            assert_true(case_worst(&t, NULL) <= 1.0); /* NaN where IEEE gives NaN, Inf where it gives Inf */
            case_release(&t);
        }
}

static void test_repeats_bit_for_bit(void **state)
{
    (void)state;
    EACH_VARIANT(v) {
        struct gptq_case t;
        uint16_t first[9 * 96];

        case_new(&t, &(struct gptq_shape){9, 96, 640, 4, 128, 1, true, 0, 0}, true);
        for (int i = 0; i < 10; i++) {
            case_poison(&t);
            assert_int_equal(td_gptq_gemm_run(v, &t.x), TD_KERNEL_OK);
            if (i)
                assert_memory_equal(t.x.c, first, sizeof first);
            memcpy(first, t.x.c, sizeof first);
        }
        case_release(&t);
    }
}

static void test_bad_arguments(void **state)
{
    struct gptq_case t;

    (void)state;
    case_new(&t, &(struct gptq_shape){2, 16, 64, 4, 32, 1, true, 0, 0}, true);
#define REFUSES(change, status)                                            \
    do {                                                                   \
        struct td_gptq_gemm_args x = t.x;                                  \
        change;                                                            \
        EACH_VARIANT(v) assert_int_equal(td_gptq_gemm_run(v, &x), status); \
    } while (0)
    REFUSES(x.struct_size--, TD_KERNEL_EINVAL);
    REFUSES(x.m = -1, TD_KERNEL_EINVAL);
    REFUSES(x.n = 0, TD_KERNEL_EINVAL);
    REFUSES(x.k = 0, TD_KERNEL_EINVAL);
    REFUSES(x.a = NULL, TD_KERNEL_EINVAL);
    REFUSES(x.c = NULL, TD_KERNEL_EINVAL);
    REFUSES(x.qweight = NULL, TD_KERNEL_EINVAL);
    REFUSES(x.qzeros = NULL, TD_KERNEL_EINVAL);
    REFUSES(x.scales = NULL, TD_KERNEL_EINVAL);
    REFUSES(x.lda = 63, TD_KERNEL_EINVAL);
    REFUSES(x.ldc = 15, TD_KERNEL_EINVAL);
    REFUSES(x.bits = 3, TD_KERNEL_EUNSUPPORTED);
    REFUSES(x.flags = 1, TD_KERNEL_EUNSUPPORTED);
    REFUSES(x.zero_offset = 2, TD_KERNEL_EUNSUPPORTED);
    REFUSES(x.group_size = 12, TD_KERNEL_EUNSUPPORTED);
    REFUSES(x.group_size = 0, TD_KERNEL_EUNSUPPORTED);
    REFUSES(x.n = 12, TD_KERNEL_EUNSUPPORTED);
    REFUSES((x.k = 60, x.group_size = 60), TD_KERNEL_EUNSUPPORTED);
    REFUSES((x.k = 48, x.group_size = 32), TD_KERNEL_EUNSUPPORTED);
    REFUSES((x.m = 0, x.a = NULL, x.c = NULL), TD_KERNEL_OK);
    ((int32_t *)t.g_idx.data)[5] = 2;
    REFUSES((void)0, TD_KERNEL_EINVAL);
    ((int32_t *)t.g_idx.data)[5] = -1;
    REFUSES((void)0, TD_KERNEL_EINVAL);
    case_release(&t);
}

static struct td_gptq_gemm_args args_of_expected(const struct gptq_expected *e, bool g_idx)
{
    return (struct td_gptq_gemm_args){sizeof(struct td_gptq_gemm_args), e->m, e->n, e->k, e->bits, e->group_size, e->zero_offset, 0, e->a, e->k,
                                      e->qweight, e->qzeros, e->scales, g_idx ? e->g_idx : NULL, NULL, e->n};
}

static void test_reference_agrees_with_numpy(void **state)
{
    double r[64], mag[64];
    uint16_t c[64];

    (void)state;
    for (const struct gptq_expected *e = gptq_expected; e < gptq_expected + COUNT(gptq_expected); e++)
        for (int g = e->act_order; g < 2; g++) { /* without act-order, g_idx may be there or not */
            struct td_gptq_gemm_args x = args_of_expected(e, g);

            assert_int_equal(td_gptq_gemm_ref(&x, r, mag), TD_KERNEL_OK);
            for (int i = 0; i < e->m * e->n; i++)
                assert_true(fabs(r[i] - e->c[i]) <= 1e-13 * mag[i]);
            x.c = c;
            EACH_VARIANT(v) {
                assert_int_equal(td_gptq_gemm_run(v, &x), TD_KERNEL_OK);
                for (int i = 0; i < e->m * e->n; i++)
                    assert_true(case_error(c[i], e->c[i], mag[i], e->k) <= 1.0);
            }
        }
}

/* The library that servers link: the same results, and what it exports. */
static void test_library(void **state)
{
    const char *lib = getenv("LIB");
    char path[4096];
    struct gptq_case t;
    void *so, *gemm_symbol, *build_symbol, *step_symbol;
    int (*gemm)(const struct td_gptq_gemm_args *);
    const char *(*build)(void);
    void (*step)(const struct td_step_args *);

    (void)state;
    snprintf(path, sizeof path, "%s/libtdkernels.so", lib ? lib : "lib");
    so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so)
        fail_msg("%s", dlerror());
    assert_non_null(gemm_symbol = dlsym(so, "td_gptq_gemm"));
    assert_non_null(build_symbol = dlsym(so, "td_kernels_build"));
    assert_non_null(step_symbol = dlsym(so, "td_step"));
    assert_null(dlsym(so, "td_gptq_gemm_ref")); /* nothing else leaks out */
    memcpy(&gemm, &gemm_symbol, sizeof gemm);
    memcpy(&build, &build_symbol, sizeof build);
    memcpy(&step, &step_symbol, sizeof step);
    case_new(&t, &(struct gptq_shape){5, 96, 256, 4, 128, 1, false, 0, 0}, true);
    assert_int_equal(gemm(&t.x), TD_KERNEL_OK);
    assert_true(case_worst(&t, NULL) <= 1.0);
    assert_int_equal(gemm(NULL), TD_KERNEL_EINVAL);
    assert_non_null(strstr(build(), "tdkernels "));
    step(&(struct td_step_args){.struct_size = sizeof(struct td_step_args)});
    case_release(&t);
    dlclose(so);
}

static void test_variants_by_name(void **state)
{
    (void)state;
    assert_non_null(td_gptq_gemm_find(NULL));
    assert_string_equal(td_gptq_gemm_find("c")->name, "c");
    assert_null(td_gptq_gemm_find("nonsense"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_agrees_with_numpy),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_tails_and_groups),
        cmocka_unit_test(test_uneven_groups),
        cmocka_unit_test(test_rows_do_not_depend_on_m),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_nan_and_inf_stay_in_their_row),
        cmocka_unit_test(test_repeats_bit_for_bit),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_library),
        cmocka_unit_test(test_variants_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
