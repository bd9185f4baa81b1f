/* test_product_ref.c - sums of products by blocks against the plain loop, with the code of every instruction set here.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/error.h"
#include "kernels/ops/gptq_any_ref.h"
#include "kernels/ops/product_share.h"
#include "tests/unit/kernels/ops/op_case.h"

#define UNTOUCHED 12345.0

/* ---- the blocks themselves --------------------------------------------------------------------- */

struct numbers { int64_t m, n, k; double *a0, *a1, *w0, *w1; }; /* a [m, k], w [k, n] */

static void read_row(const void *ctx, int64_t i, int64_t k0, int64_t kn, double *stored, double *rounded)
{
    const struct numbers *x = ctx;

    memcpy(stored, x->a0 + i * x->k + k0, (size_t)kn * sizeof *stored);
    if (rounded)
        memcpy(rounded, x->a1 + i * x->k + k0, (size_t)kn * sizeof *stored);
}

static void read_weights(const void *ctx, const struct td_product_part *p, double *stored, double *rounded)
{
    const struct numbers *x = ctx;

    assert_true(p->kn <= TD_PRODUCT_DEPTH && p->cols <= TD_PRODUCT_COLS && p->n0 + p->cols <= x->n && p->k0 + p->kn <= x->k);
    for (int64_t j = 0; j < p->kn; j++)
        for (int64_t i = 0; i < p->cols; i++) {
            stored[TD_PRODUCT_AT(p->kn, j, i)] = x->w0[(p->k0 + j) * x->n + p->n0 + i];
            if (rounded)
                rounded[TD_PRODUCT_AT(p->kn, j, i)] = x->w1[(p->k0 + j) * x->n + p->n0 + i];
        }
}

/* Floats, so that a product is exact. */
static double *random_floats(int64_t n)
{
    double *x = malloc((size_t)(n + 1) * sizeof *x);

    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)case_normal();
    return x;
}

static void numbers_new(struct numbers *x, int64_t m, int64_t n, int64_t k)
{
    *x = (struct numbers){m, n, k, random_floats(m * k), random_floats(m * k), random_floats(k * n), random_floats(k * n)};
}

static void numbers_release(struct numbers *x)
{
    free(x->a0);
    free(x->a1);
    free(x->w0);
    free(x->w1);
}

static void assert_same(double got, double want)
{
    if (isnan(want))
        assert_true(isnan(got));
    else
        assert_true(got == want);
}

static void check_column(const struct td_product *p, const struct numbers *x, int64_t i, int64_t j)
{
    const double *a1 = p->rounds_a ? x->a1 : x->a0, *w1 = p->rounds_w ? x->w1 : x->w0;
    double r0 = 0, r1 = 0, mag = 0;

    for (int64_t k = 0; k < x->k; k++) {
        r0 += x->a0[i * x->k + k] * x->w0[k * x->n + j];
        r1 += a1[i * x->k + k] * w1[k * x->n + j];
        mag += fabs(a1[i * x->k + k] * w1[k * x->n + j]);
    }
    assert_same(p->r0[i * x->n + j], r0);
    if (p->mag)
        assert_same(p->mag[i * x->n + j], mag);
    if (p->rounds_a || p->rounds_w)
        assert_same(p->r1[i * x->n + j], r1);
    else
        assert_true(p->r1[i * x->n + j] == UNTOUCHED);
}

static void product_new(struct td_product *p, const struct numbers *x, bool rounds_a, bool rounds_w)
{
    const size_t count = (size_t)(x->m * x->n + 1);

    *p = (struct td_product){x->m, x->n, x->k, read_row, read_weights, x, rounds_a, rounds_w,
                             malloc(count * 8), malloc(count * 8), malloc(count * 8)};
    assert_true(p->r0 && p->r1 && p->mag);
    for (size_t i = 0; i < count; i++)
        p->r0[i] = p->r1[i] = p->mag[i] = UNTOUCHED;
}

static void product_release(struct td_product *p)
{
    free(p->r0);
    free(p->r1);
    free(p->mag);
}

static void check_product(enum td_cpu cpu, const struct numbers *x, bool rounds_a, bool rounds_w)
{
    const int64_t from = x->n / 3, to = x->n - x->n / 5;
    struct td_product p;

    product_new(&p, x, rounds_a, rounds_w);
    assert_int_equal(td_product_columns_on(cpu, &p, from, to), TD_OK);
    for (int64_t i = 0; i < x->m; i++)
        for (int64_t j = 0; j < x->n; j++)
            if (j >= from && j < to)
                check_column(&p, x, i, j);
            else
                assert_true(p.r0[i * x->n + j] == UNTOUCHED && p.mag[i * x->n + j] == UNTOUCHED);
    assert_true(p.r0[x->m * x->n] == UNTOUCHED);
    product_release(&p);
}

static const enum td_cpu cpus[] = {TD_CPU_ANY, TD_CPU_AVX2, TD_CPU_AVX512};

/* Bit for bit, whatever the sizes and the instruction set. */
static void test_blocks_are_the_plain_loop(void **state)
{
    static const int ms[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 23, 30}, ns[] = {1, 15, 16, 17, 64, 65, 150}, ks[] = {1, 255, 256, 257, 600};
    int round = 0;

    (void)state;
    for (size_t c = 0; c < 3; c++)
        for (size_t a = 0; td_cpu_can_run(cpus[c]) && a < sizeof ms / sizeof *ms; a++)
            for (size_t b = 0; b < sizeof ns / sizeof *ns; b++, round++) {
                struct numbers x;

                numbers_new(&x, ms[a], ns[b], ks[round % 5]);
                check_product(cpus[c], &x, round % 2, round / 2 % 2);
                numbers_release(&x);
            }
}

/* More rows than one pass takes. */
static void test_many_rows(void **state)
{
    struct numbers x;

    (void)state;
    numbers_new(&x, 277, 20, 300);
    for (size_t c = 0; c < 3; c++)
        if (td_cpu_can_run(cpus[c]))
            check_product(cpus[c], &x, true, true);
    numbers_release(&x);
}

static void test_nan_and_inf(void **state)
{
    struct numbers x;

    (void)state;
    numbers_new(&x, 13, 70, 270);
    x.a0[3 * 270 + 100] = NAN;
    x.a0[5 * 270 + 269] = -INFINITY;
    x.w0[7 * 70 + 40] = INFINITY;
    x.w0[269 * 70 + 41] = NAN;
    x.a0[6 * 270 + 7] = 0; /* times Inf */
    for (size_t c = 0; c < 3; c++)
        if (td_cpu_can_run(cpus[c]))
            check_product(cpus[c], &x, false, false);
    numbers_release(&x);
}

static bool is_over(const void *working)
{
    return !atomic_load((const atomic_int *)working);
}

static void *help(void *working)
{
    td_product_help_until(is_over, working);
    return NULL;
}

/* Who helps changes nothing. */
static void test_helpers(void **state)
{
    struct numbers x;
    struct td_product p;
    atomic_int working = 1;
    pthread_t ids[3];

    (void)state;
    numbers_new(&x, 5, 5000, 300);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, help, &working), 0);
    for (int round = 0; round < 3; round++) {
        product_new(&p, &x, true, false);
        assert_int_equal(td_product_run(&p), TD_OK);
        for (int64_t j = 0; j < x.n; j++)
            check_column(&p, &x, j % x.m, j);
        product_release(&p);
    }
    atomic_store(&working, 0);
    td_product_wake();
    for (int i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
    numbers_release(&x);
}

/* ---- gptq_gemm --------------------------------------------------------------------------------- */

static struct td_gptq_op op_of_args(const struct td_gptq_gemm_args *x)
{
    return (struct td_gptq_op){.m = x->m, .n = x->n, .k = x->k, .lda = x->lda, .ldc = x->ldc, .groups = x->k / x->group_size, .bits = x->bits,
                               .group_size = x->group_size, .zero_offset = x->zero_offset, .dtype = TD_DT_F16, .scales_dtype = TD_DT_F16,
                               .a = x->a, .scales = x->scales, .qweight = x->qweight, .qzeros = x->qzeros, .g_idx = x->g_idx};
}

static void check_plain(struct gptq_case *t)
{
    const struct td_gptq_op x = op_of_args(&t->x);
    const size_t count = (size_t)(x.m * x.n);
    double *r = malloc(count * sizeof *r + 1), *mag = malloc(count * sizeof *mag + 1);
    struct td_op_ref ref;
    struct td_error err = {0};

    assert_true(r && mag);
    assert_int_equal(td_gptq_gemm_ref(&t->x, r, mag), 0);
    assert_int_equal(td_gptq_op_ref(&x, &ref, &err), 0);
    assert_ptr_equal(ref.r0, ref.r1);
    for (size_t i = 0; i < count; i++) {
        assert_same(ref.r0[i], r[i]);
        assert_same(ref.mag[i], mag[i]);
    }
    td_op_ref_release(&ref);
    free(r);
    free(mag);
}

static void test_plain_gptq(void **state)
{
    static const struct gptq_shape shapes[] = {{1, 8, 32, 4, 32, 1, false, 0, 0},     {13, 24, 320, 4, 32, 1, false, 3, 0},
                                               {7, 72, 256, 4, 128, 0, true, 0, 0},   {25, 100, 384, 8, 64, 1, true, 1, 0},
                                               {2, 1048, 512, 4, 512, 1, false, 0, 0}, {5, 36, 96, 8, 32, 0, false, 0, 0}};
    struct gptq_case t;

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int odd = 0; odd < 2; odd++) {
            case_new(&t, &shapes[i], i % 2);
            if (odd) {
                ((uint16_t *)t.a.data)[shapes[i].k / 2] = 0x7c00;
                ((uint16_t *)t.scales.data)[3] = 0x7e01;
                ((uint16_t *)t.scales.data)[shapes[i].n - 1] = 0xfc00;
                ((uint16_t *)t.scales.data)[5] = 0x0003; /* denormal */
            }
            check_plain(&t);
            case_release(&t);
        }
}

/* Every rounding and type of scales against the numbers that the kernel multiplies, one by one. */
static void check_form(struct td_gptq_op *x, double room)
{
    double *a = malloc((size_t)x->k * 2 * sizeof *a), *w = malloc((size_t)x->k * 2 * sizeof *w);
    const bool rounds = x->rounding != TD_GPTQ_NONE, rounds_w = td_gptq_rounds_weights(x->rounding);
    struct td_op_ref ref;
    struct td_error err = {0};

    assert_true(a && w);
    assert_int_equal(td_gptq_op_ref(x, &ref, &err), 0);
    for (int64_t i = 0; i < x->m; i++)
        for (int64_t j = 0; j < x->n; j++) {
            double r0 = 0, r1 = 0, mag = 0;

            td_gptq_op_row(x, i, a, a + x->k);
            td_gptq_op_columns(x, j, 1, w, w + x->k);
            for (int64_t k = 0; k < x->k; k++) {
                const double p = a[x->k + k] * (rounds_w ? w[x->k + k] : w[k]);

                r0 += a[k] * w[k];
                r1 += p;
                mag += fabs(p);
            }
            assert_true(fabs(ref.r0[i * x->n + j] - r0) <= room * mag);
            assert_true(fabs(ref.r1[i * x->n + j] - r1) <= room * mag);
            assert_true(fabs(ref.mag[i * x->n + j] - mag) <= room * mag);
        }
    assert_int_equal(ref.r1 != ref.r0, rounds);
    td_op_ref_release(&ref);
    free(a);
    free(w);
}

static void test_every_form(void **state)
{
    static const enum td_dtype types[] = {TD_DT_F16, TD_DT_BF16, TD_DT_F32};
    static const struct gptq_shape shape = {9, 72, 320, 4, 32, 1, true, 2, 0};
    float scales[10 * 72];
    struct gptq_case t;

    (void)state;
    case_new(&t, &shape, true);
    for (int how = TD_GPTQ_NONE; how < TD_GPTQ_UNKNOWN; how++)
        for (int s = 0; s < 3; s++) {
            struct td_gptq_op x = op_of_args(&t.x);

            for (int64_t i = 0; i < 10 * 72; i++)
                td_store_f32(types[s], scales, i, 0.01f + 0.002f * case_normal());
            x.scales = scales;
            x.scales_dtype = types[s];
            x.dtype = s ? TD_DT_BF16 : TD_DT_F16;
            for (int64_t i = 0; i < 9 * 320; i++)
                td_store_f32(x.dtype, t.a.data, i / 320 * x.lda + i % 320, case_normal());
            x.rounding = (enum td_gptq_rounding)how;
            check_form(&x, how == TD_GPTQ_UINT8_TOKEN && types[s] == TD_DT_F32 ? 1e-15 : 0);
        }
    case_release(&t);
}

/* ---- gemm -------------------------------------------------------------------------------------- */

static void test_plain_gemm(void **state)
{
    static const enum td_dtype types[] = {TD_DT_F16, TD_DT_BF16, TD_DT_F32};

    (void)state;
    for (int d = 0; d < 3; d++) {
        const int64_t m = 7, n = 83, k = 290, ld = k + 3;
        struct op_case t;
        struct td_op_ref ref;
        struct td_error err = {0};

        case_gemm(&t, types[d], m, n, k, d == 1, 3, true);
        td_store_f32(types[d], t.op.in[0].data, 2 * ld + 100, NAN);
        td_store_f32(types[d], t.op.in[1].data, 80 * ld + 289, INFINITY);
        assert_int_equal(td_op_kind_find("gemm")->reference(&t.op, &ref, &err), 0);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double r = 0, mag = 0;

                for (int64_t x = 0; x < k; x++) {
                    const double p = td_dtype_get(types[d], t.op.in[0].data, (size_t)(i * ld + x)) *
                                     td_dtype_get(types[d], t.op.in[1].data, (size_t)(j * ld + x));

                    r += p;
                    mag += fabs(p);
                }
                if (d == 1) {
                    r += td_dtype_get(TD_DT_F32, t.op.in[2].data, (size_t)j);
                    mag += fabs(td_dtype_get(TD_DT_F32, t.op.in[2].data, (size_t)j));
                }
                assert_same(ref.r0[i * n + j], r);
                assert_same(ref.mag[i * n + j], mag);
            }
        td_op_ref_release(&ref);
        op_case_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_the_plain_loop), cmocka_unit_test(test_many_rows), cmocka_unit_test(test_nan_and_inf),
        cmocka_unit_test(test_helpers), cmocka_unit_test(test_plain_gptq), cmocka_unit_test(test_every_form),
        cmocka_unit_test(test_plain_gemm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
