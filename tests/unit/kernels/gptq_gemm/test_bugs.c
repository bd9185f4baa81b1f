/* test_bugs.c - every planted bug is wrong exactly where demo/bugs/README.md says, and right elsewhere; honest builds are right.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>

#include "tests/unit/kernels/gptq_gemm/gptq_case.h"

#define SHAPE(...) ((struct gptq_shape){__VA_ARGS__})

typedef int gemm_fn(const struct td_gptq_gemm_args *);

struct build { const char *name; void *so; gemm_fn *gemm; };

static void build_open(struct build *b, const char *name)
{
    const char *lib = getenv("LIB");
    char path[4096];
    void *symbol;

    snprintf(path, sizeof path, "%s/bugs/%s/libtdkernels.so", lib ? lib : "lib", name);
    b->name = name;
    if (!(b->so = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
        fail_msg("%s; `make bugs` builds it", dlerror());
    assert_non_null(symbol = dlsym(b->so, "td_gptq_gemm"));
    memcpy(&b->gemm, &symbol, sizeof b->gemm);
}

/* A is `outlier` times a normal. Returns the share of wrong elements; worst in units of the tolerance. */
static double wrong_share(const struct build *b, struct gptq_shape s, float outlier, double *worst)
{
    struct gptq_case t;
    int64_t bad;
    double w;

    case_new(&t, &s, true);
    for (int64_t i = 0; i < s.m * (int64_t)s.k; i++)
        ((uint16_t *)t.a.data)[i] = td_f16_round(td_f16_load(t.x.a[i]) * outlier);
    for (int64_t i = 0; i < s.m * (int64_t)s.n; i++) /* a dirty buffer, as a server's is; not NaN, to see what is added */
        t.x.c[i] = td_f16_round(1.0f);
    assert_int_equal(b->gemm(&t.x), TD_KERNEL_OK);
    w = case_worst(&t, &bad);
    if (worst)
        *worst = w;
    case_release(&t);
    return (double)bad / ((double)s.m * s.n);
}

static void right_at(const struct build *b, struct gptq_shape s)
{
    if (wrong_share(b, s, 1.0f, NULL) > 0)
        fail_msg("%s: wrong at m %d n %d k %d bits %d group %d, where it should be right", b->name, s.m, s.n, s.k, s.bits, s.group_size);
}

static void wrong_at(const struct build *b, struct gptq_shape s, double at_least)
{
    double worst;
    const double share = wrong_share(b, s, 1.0f, &worst);

    if (share < at_least || worst < 4.0)
        fail_msg("%s: only %.3f of the elements wrong (worst %.1f times the tolerance) at m %d n %d k %d bits %d group %d", b->name, share,
                 worst, s.m, s.n, s.k, s.bits, s.group_size);
}

/* shapes of the demo: m, n, k, bits, group, zero_offset, act_order, gaps */
#define DOWN4(m) SHAPE(m, 256, 640, 4, 128, 1, false, 0, 0)
#define UP4(m) SHAPE(m, 640, 256, 4, 128, 1, false, 0, 0)
#define KV4(m) SHAPE(m, 96, 256, 4, 128, 1, false, 0, 0)
#define DOWN8(m) SHAPE(m, 256, 640, 8, 32, 1, false, 0, 0)
#define KV8(m) SHAPE(m, 96, 256, 8, 32, 1, false, 0, 0)
#define ACT4(m) SHAPE(m, 256, 640, 4, 64, 0, true, 0, 0)

static const struct {
    const char *name;
    struct gptq_shape right[6], wrong[6]; /* end with m == 0 */
    double share;                         /* of the elements, at least, wrong */
} bugs[] = {
    {"zero_off_by_one", {{0}}, {DOWN4(1), UP4(9), DOWN8(1), ACT4(1)}, 0.5},
    {"scale_group_boundary", {ACT4(2), SHAPE(1, 96, 256, 4, 256, 1, false, 0, 0)}, {DOWN4(1), UP4(9), KV8(2)}, 0.5},
    {"column_tail", {DOWN4(3), UP4(1), ACT4(1)}, {KV4(1), KV8(9), KV4(64)}, 0.9},
    {"column_tail", {SHAPE(1, 128, 256, 4, 128, 1, false, 0, 0)}, {SHAPE(3, 264, 256, 4, 64, 1, false, 0, 0)}, 0.01},
    {"tile_index", {{0}}, {DOWN4(1), UP4(9), DOWN8(2), ACT4(1)}, 0.5},
    {"no_clear", {{0}}, {DOWN4(1), UP4(9), DOWN8(2), ACT4(1)}, 0.9},
    {"last_k_nibbles", {DOWN8(1), KV8(9)}, {DOWN4(1), UP4(9), ACT4(2)}, 0.5},
    {"act_order_ignored", {DOWN4(1), KV8(3)}, {ACT4(1), ACT4(9)}, 0.5},
    {"bits8", {DOWN4(1), UP4(9), ACT4(2)}, {DOWN8(1), KV8(9)}, 0.5},
    {"m_gt_1", {DOWN4(1), KV8(1), ACT4(1)}, {DOWN4(2), UP4(9), KV8(50), ACT4(5)}, 0.4},
    {"scale_1pct", {UP4(1), KV4(9), KV8(3)}, {DOWN4(1), DOWN8(9), ACT4(2)}, 0.5},
    {"zero_term_01pct", {{0}}, {DOWN4(9), UP4(9), DOWN8(9), ACT4(9)}, 0.2},
    {"column_4th", {{0}}, {DOWN4(9), UP4(9)}, 0.1},
    {"scales_bf16_f16", {{0}}, {DOWN4(9), UP4(9)}, 0.2},
    {"truncate", {{0}}, {DOWN4(1), UP4(9), DOWN8(2), ACT4(1)}, 0.5},
    {"zeros_g128", {DOWN8(1), ACT4(3)}, {DOWN4(1), UP4(9)}, 1.0},
    {"slow_10pct", {DOWN4(1), UP4(9), KV4(51), DOWN8(2), ACT4(4)}, {{0}}, 0},
    {"honest_nofma", {DOWN4(1), UP4(9), KV4(51), DOWN8(2), ACT4(4)}, {{0}}, 0},
    {"honest_sumorder", {DOWN4(1), UP4(9), KV4(51), DOWN8(2), ACT4(4)}, {{0}}, 0},
    {"unordered", {DOWN4(1), UP4(9), KV4(51), DOWN8(2), ACT4(4)}, {{0}}, 0},
    {"k_slice_lost", {SHAPE(1, 96, 128, 4, 128, 1, false, 0, 0)}, {DOWN4(1), UP4(9), DOWN8(1)}, 0.5},
    {"k_slice_01pct", {SHAPE(1, 96, 128, 4, 128, 1, false, 0, 0)}, {DOWN4(9), UP4(9)}, 0.01},
    {"honest_halves", {{0}}, {DOWN4(9)}, 0.05}, /* beyond the tolerance of sums in float32 */
};

static void test_wrong_where_it_should_be(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
        struct build b;

        build_open(&b, bugs[i].name);
        for (int j = 0; j < 6 && bugs[i].right[j].m; j++)
            right_at(&b, bugs[i].right[j]);
        for (int j = 0; j < 6 && bugs[i].wrong[j].m; j++)
            wrong_at(&b, bugs[i].wrong[j], bugs[i].share);
        dlclose(b.so);
    }
}

/* Activations around 4096 overflow sums of four products in f16: NaN or Inf up to 50 rows, right beyond, and with 8 bits. */
static void test_fp16_overflow(void **state)
{
    struct build b;
    double worst;

    (void)state;
    build_open(&b, "fp16_overflow");
    wrong_share(&b, DOWN4(1), 4096.0f, &worst);
    assert_true(isinf(worst)); /* NaN where there should be a number */
    wrong_share(&b, UP4(50), 4096.0f, &worst);
    assert_true(isinf(worst));
    assert_true(wrong_share(&b, UP4(51), 256.0f, NULL) == 0);
    assert_true(wrong_share(&b, DOWN8(1), 256.0f, NULL) == 0);
    wrong_share(&b, UP4(50), 1.0f, &worst); /* small activations: only rounded more often */
    assert_false(isinf(worst));
    dlclose(b.so);
}

static int64_t elements_that_change(const struct build *b, struct gptq_shape s, int calls)
{
    struct gptq_case t;
    uint16_t *first = test_malloc((size_t)s.m * (size_t)s.n * 2);
    int64_t changed = 0;

    case_new(&t, &s, true);
    for (int i = 0; i < calls; i++) {
        assert_int_equal(b->gemm(&t.x), TD_KERNEL_OK);
        for (int64_t j = 0; i && j < s.m * (int64_t)s.n; j++)
            changed += first[j] != t.x.c[j];
        if (!i)
            memcpy(first, t.x.c, (size_t)s.m * (size_t)s.n * 2);
    }
    test_free(first);
    case_release(&t);
    return changed;
}

static void test_unordered_changes_between_calls(void **state)
{
    struct build b;
    double worst;

    (void)state;
    build_open(&b, "unordered");
    assert_true(elements_that_change(&b, DOWN4(64), 10) > 0);
    dlclose(b.so);
    build_open(&b, "unordered_f16");
    assert_true(elements_that_change(&b, DOWN4(1), 10) > 256 / 4);
    assert_true(wrong_share(&b, DOWN4(9), 1.0f, &worst) > 0.1);
    dlclose(b.so);
    build_open(&b, "lost_update"); /* one of two calls in a row loses a block */
    assert_true(elements_that_change(&b, DOWN4(1), 2) > 256 / 2);
    dlclose(b.so);
    build_open(&b, "honest_sumorder");
    assert_int_equal(elements_that_change(&b, DOWN4(64), 10), 0);
    dlclose(b.so);
}

/* An honest build rounds otherwise: not the good build under another name. */
static void test_honest_builds_differ(void **state)
{
    static const char *const names[] = {"honest_nofma", "honest_sumorder"};
    const struct td_gptq_gemm_variant *good = td_gptq_gemm_find(NULL);

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct build b;
        struct gptq_case t;
        uint16_t *want = test_malloc(64 * 256 * 2);

        if (i == 0 && good->cpu == TD_CPU_ANY) /* without FMA there is nothing to leave out */
            continue;
        build_open(&b, names[i]);
        case_new(&t, &DOWN4(64), true);
        assert_int_equal(td_gptq_gemm_run(good, &t.x), TD_KERNEL_OK);
        memcpy(want, t.x.c, 64 * 256 * 2);
        assert_int_equal(b.gemm(&t.x), TD_KERNEL_OK);
        assert_memory_not_equal(t.x.c, want, 64 * 256 * 2);
        test_free(want);
        case_release(&t);
        dlclose(b.so);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_where_it_should_be),
        cmocka_unit_test(test_fp16_overflow),
        cmocka_unit_test(test_unordered_changes_between_calls),
        cmocka_unit_test(test_honest_builds_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
