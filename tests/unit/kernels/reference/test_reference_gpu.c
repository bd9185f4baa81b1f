/* test_reference_gpu.c - references of the GPU kernels, in the emulator behind the fake driver, against those of the CPU.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "kernels/reference/reference_device.h"
#include "kernels/reference/reference_gpu.h"
#include "kernels/reference/reference_sample.h"
#include "tests/unit/kernels/ops/op_case.h"
#include "tests/unit/kernels/providers/gpu_provider_rig.h"

static char folder[] = "/tmp/td-reference-XXXXXX";

static int setup(void **state)
{
    char path[100];
    FILE *f;

    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/td_reference.fatbin", folder);
    if (!(f = fopen(path, "w")) || fputs("TDFAKE td_reference_gptq td_reference_gptq_rounded td_reference_gemm", f) < 0 || fclose(f))
        return -1;
    setenv("TD_HIP_LIBRARY", "/nowhere/libamdhip64.so", 1); /* a real one leaves memory behind */
    return rig_open("cuda", "TD_CUDA_LIBRARY", "tests/helpers/lib_fake_cuda.so", "tests/helpers/lib_fake_simt.so", NULL);
}

static int teardown(void **state)
{
    char path[100];

    (void)state;
    snprintf(path, sizeof path, "%s/td_reference.fatbin", folder);
    return unlink(path) | rmdir(folder);
}

static struct td_reference_gpu *ready(void)
{
    struct td_reference_gpu *g = td_reference_gpu_start(folder);
    char words[600];

    assert_non_null(g);
    if (td_reference_gpu_state(g, true, words, sizeof words) != TD_REFERENCE_READY)
        fail_msg("%s", words);
    assert_non_null(strstr(words, "sm_90"));
    return g;
}

static bool same(double a, double b, double room)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= room;
}

/* The GPU's reference is the CPU's. room : of |A||W| */
static void check_op(struct td_reference_gpu *g, const struct td_op_call *op, uint64_t weights, double room)
{
    struct td_op_ref want, got;
    struct td_error err = {0};

    assert_int_equal(td_op_kind_find(op->kind)->reference(op, &want, &err), 0);
    if (td_reference_gpu_compute(g, op, weights, &got, &err))
        fail_msg("%s: %s", op->act_rounding, err.msg);
    assert_int_equal(got.rows, want.rows);
    assert_int_equal(got.cols, want.cols);
    assert_int_equal(got.inner, want.inner);
    assert_int_equal(got.r0 == got.r1, want.r0 == want.r1);
    assert_int_equal(!got.slack, !want.slack);
    for (int64_t e = 0; e < want.rows * want.cols; e++) {
        const double d = room * want.mag[e];

        if (!same(got.r0[e], want.r0[e], d) || !same(got.r1[e], want.r1[e], d) || !same(got.mag[e], want.mag[e], d) ||
            (want.slack && !same(got.slack[e], want.slack[e], d)))
            fail_msg("%s %s: element %lld is %.17g %.17g %.17g, should be %.17g %.17g %.17g", op->kind, op->act_rounding, (long long)e, got.r0[e],
                     got.r1[e], got.mag[e], want.r0[e], want.r1[e], want.mag[e]);
    }
    td_op_ref_release(&want);
    td_op_ref_release(&got);
}

/* Every type, rounding, group and order; sizes that are no multiple of anything. */
static void test_gptq(void **state)
{
    static const char *const roundings[] = {"none", "uint8-token", "weight-bf16", "weight-f16", "zero-bf16", "zero-f16", "weight-f16+bias-after"};
    static const enum td_dtype types[] = {TD_DT_F16, TD_DT_BF16, TD_DT_F32};
    struct td_reference_gpu *g = ready();

    (void)state;
    for (int i = 0; i < 42; i++) {
        const struct gptq_form f = {types[i % 2], types[i / 2 % 3], roundings[i % 7], i % 3 == 0 || i % 7 == 6, i % 4 == 1, i % 5 ? 4 : 8, i % 2 ? 32 : 96};
        struct op_case t;

        case_gptq(&t, &f, 1 + i % 3 * 33, i % 2 ? 72 : 136, 96, i % 3, true);
        if (i % 6 == 5) {
            td_store_f32(f.dtype, t.op.in[0].data, 17, INFINITY);
            td_store_f32(f.scales, t.op.in[3].data, 9, NAN);
        }
        check_op(g, &t.op, (uint64_t)i + 1, i % 7 == 1 && f.scales == TD_DT_F32 ? 1e-15 : 0);
        op_case_release(&t);
    }
    td_reference_gpu_stop(g);
    assert_int_equal(fake->bytes_in_use(), 0);
}

static void test_gemm(void **state)
{
    static const enum td_dtype types[] = {TD_DT_F16, TD_DT_BF16, TD_DT_F32};
    struct td_reference_gpu *g = ready();

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct op_case t;

        case_gemm(&t, types[i % 3], i < 3 ? 5 : 70, 67, 99, i % 2, 0, true);
        check_op(g, &t.op, 100 + (uint64_t)i, 0);
        op_case_release(&t);
    }
    td_reference_gpu_stop(g);
    assert_int_equal(fake->bytes_in_use(), 0);
}

/* More results than one job has. */
static void test_rows_in_parts(void **state)
{
    struct td_reference_gpu *g = ready();
    struct op_case t;

    (void)state;
    case_gemm(&t, TD_DT_F16, 4100, 9, 24, false, 0, true);
    check_op(g, &t.op, 7, 0);
    op_case_release(&t);
    td_reference_gpu_stop(g);
}

struct several { struct td_reference_gpu *g; struct op_case t[4]; bool lost; };

static void *compute_all(void *arg)
{
    struct several *s = arg;
    struct td_op_ref ref;

    for (int i = 0; i < 8; i++) {
        struct td_error err = {0};

        assert_int_equal(td_reference_gpu_compute(s->g, &s->t[i % 4].op, 1 + (uint64_t)i % 4, &ref, &err), s->lost ? TD_EUNSUPPORTED : TD_OK);
        if (!s->lost)
            td_op_ref_release(&ref);
    }
    return NULL;
}

/* Several threads, and weights that stay on the device. */
static void test_threads(void **state)
{
    struct several s = {.g = ready()};
    pthread_t ids[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        case_gptq(&s.t[i], &(struct gptq_form){TD_DT_F16, TD_DT_F16, "none", false, false, 4, 32}, 3, 64, 96, 0, true);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, compute_all, &s), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < 4; i++) {
        check_op(s.g, &s.t[i].op, 1 + (uint64_t)i, 0);
        op_case_release(&s.t[i]);
    }
    td_reference_gpu_stop(s.g);
    assert_int_equal(fake->bytes_in_use(), 0);
}

/* Weights of another op under the same key: what comes back is wrong, and is not believed; nor is that GPU
 * asked again. */
static void test_wrong_sums_are_found(void **state)
{
    const struct gptq_form f = {TD_DT_F16, TD_DT_F16, "none", false, false, 4, 32};
    struct td_reference_gpu *g = ready();
    struct op_case a, b;
    struct td_op_ref ref;
    struct td_error err = {0};
    char words[600];

    (void)state;
    case_gptq(&a, &f, 3, 64, 96, 0, true);
    case_gptq(&b, &f, 3, 64, 96, 0, true);
    check_op(g, &a.op, 5, 0);
    assert_int_equal(td_reference_gpu_compute(g, &b.op, 5, &ref, &err), TD_ECORRUPT);
    assert_non_null(strstr(err.msg, "the GPU's reference is wrong: at row "));
    assert_null(ref.r0);
    assert_int_equal(td_reference_gpu_state(g, false, words, sizeof words), TD_REFERENCE_WRONG);
    assert_string_equal(words, err.msg);
    assert_int_equal(td_reference_gpu_compute(g, &a.op, 5, &ref, &err), TD_EUNSUPPORTED);
    op_case_release(&a);
    op_case_release(&b);
    td_reference_gpu_stop(g);
}

/* ---- a driver that hangs ------------------------------------------------------------------------- */

/* What was abandoned ends by itself. */
static void let_it_end(void)
{
    fake->hang(NULL, 0);
    for (int i = 0; i < 1000 && fake->bytes_in_use(); i++)
        usleep(10000);
    assert_int_equal(fake->bytes_in_use(), 0);
}

static void assert_lost(struct td_reference_gpu *g)
{
    char words[600];

    assert_int_equal(td_reference_gpu_state(g, true, words, sizeof words), TD_REFERENCE_LOST);
    assert_string_equal(words, "its driver did not answer within 1 s");
}

/* A job that is given up. Its weights are freed at once, and the driver, which goes on late, reads none of
 * them (a sanitizer sees it). */
static void test_job_that_hangs(void **state)
{
    static const char *const calls[] = {"cuMemcpyHtoD_v2", "cuLaunchKernel", "cuMemcpyDtoH_v2"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct td_reference_gpu *g = ready();
        struct op_case t;
        struct td_op_ref ref;
        struct td_error err = {0};

        case_gptq(&t, &(struct gptq_form){TD_DT_F16, TD_DT_F16, "none", false, false, 4, 32}, 3, 64, 96, 0, true);
        td_reference_gpu_patience(g, 1);
        fake->hang(calls[i], 1);
        assert_int_equal(td_reference_gpu_compute(g, &t.op, 1, &ref, &err), TD_EUNSUPPORTED);
        assert_true(fake->is_hanging());
        assert_null(ref.r0);
        assert_lost(g);
        assert_int_equal(td_reference_gpu_compute(g, &t.op, 1, &ref, &err), TD_EUNSUPPORTED);
        op_case_release(&t);
        assert_false(td_reference_gpu_stop(g));
        let_it_end();
    }
}

/* Threads that wait for a slot, and for the job before theirs, are let go as well. */
static void test_threads_of_a_gpu_that_hangs(void **state)
{
    struct several s = {.g = ready()};
    pthread_t ids[6];

    (void)state;
    for (int i = 0; i < 4; i++)
        case_gptq(&s.t[i], &(struct gptq_form){TD_DT_F16, TD_DT_F16, "none", false, false, 4, 32}, 3, 64, 96, 0, true);
    td_reference_gpu_patience(s.g, 1);
    fake->hang("cuLaunchKernel", 1);
    s.lost = true;
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, compute_all, &s), 0);
    for (int i = 0; i < 6; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < 4; i++)
        op_case_release(&s.t[i]);
    assert_false(td_reference_gpu_stop(s.g));
    let_it_end();
}

/* A driver that hangs while the device is opened, and while it is closed. */
static void test_open_and_close_that_hang(void **state)
{
    struct td_reference_gpu *g;

    (void)state;
    fake->hang("cuModuleLoadData", 1);
    g = td_reference_gpu_start(folder);
    assert_non_null(g);
    td_reference_gpu_patience(g, 1);
    assert_lost(g);
    assert_false(td_reference_gpu_stop(g));
    let_it_end();

    g = ready();
    td_reference_gpu_patience(g, 1);
    fake->hang("cuModuleUnload", 1);
    assert_false(td_reference_gpu_stop(g));
    assert_true(fake->is_hanging());
    let_it_end();
}

static void test_sample_sees_one_column(void **state)
{
    struct op_case t;
    struct td_gptq_op x;
    struct td_op_ref ref;
    struct td_error err = {0};

    (void)state;
    case_gptq(&t, &(struct gptq_form){TD_DT_F16, TD_DT_F16, "weight-f16", false, true, 4, 32}, 40, 64, 96, 0, true);
    assert_int_equal(td_op_kind_find("gptq_gemm")->reference(&t.op, &ref, &err), 0);
    assert_int_equal(td_gptq_op_of(&t.op, &x, &err), 0);
    for (uint64_t seed = 0; seed < 20; seed++)
        assert_int_equal(td_reference_sample_gptq(&x, &ref, seed, &err), TD_OK);
    for (int i = 0; i < 3; i++) {
        double *sums = i == 0 ? ref.r0 : i == 1 ? ref.r1 : ref.mag;

        for (int64_t row = 0; row < 40; row++)
            sums[row * 64 + 63] *= 1 + 1e-6;
        assert_int_equal(td_reference_sample_gptq(&x, &ref, 3, &err), TD_ECORRUPT);
        for (int64_t row = 0; row < 40; row++)
            sums[row * 64 + 63] /= 1 + 1e-6;
    }
    td_op_ref_release(&ref);
    op_case_release(&t);
}

/* How many of 100 samples see a fault in rows from.. to.. of one column. */
static int samples_that_see(const struct td_gptq_op *x, const struct td_op_ref *ref, int64_t from, int64_t to, int64_t column)
{
    int seen = 0;

    for (int64_t row = from; row < to; row++)
        ref->mag[row * ref->cols + column] *= 1.5;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct td_error err = {0};

        seen += td_reference_sample_gptq(x, ref, seed, &err) == TD_ECORRUPT;
    }
    for (int64_t row = from; row < to; row++)
        ref->mag[row * ref->cols + column] /= 1.5;
    return seen;
}

/* No column and no row is left out by every sample; the last ones are in each. */
static void test_sample_leaves_no_place_out(void **state)
{
    struct op_case t;
    struct td_gptq_op x;
    struct td_op_ref ref;
    struct td_error err = {0};

    (void)state;
    case_gptq(&t, &(struct gptq_form){TD_DT_F16, TD_DT_F16, "none", false, false, 4, 32}, 40, 64, 96, 0, true);
    assert_int_equal(td_op_kind_find("gptq_gemm")->reference(&t.op, &ref, &err), 0);
    assert_int_equal(td_gptq_op_of(&t.op, &x, &err), 0);
    for (int64_t n = 0; n < 64; n++)
        if (!samples_that_see(&x, &ref, 0, 40, n))
            fail_msg("no sample sees column %lld", (long long)n);
    for (int64_t i = 0; i < 40; i++)
        if (!samples_that_see(&x, &ref, i, i + 1, 63))
            fail_msg("no sample sees row %lld", (long long)i);
    assert_int_equal(samples_that_see(&x, &ref, 39, 40, 63), 100);
    td_op_ref_release(&ref);
    op_case_release(&t);
}

/* Rows of a reference that is too large to be compared as a whole: each is one of them by some seed. */
static void test_whole_rows(void **state)
{
    struct op_case t[2];
    struct td_error err = {0};

    (void)state;
    case_gptq(&t[0], &(struct gptq_form){TD_DT_F16, TD_DT_F16, "uint8-token", true, false, 4, 32}, 7, 64, 96, 1, true);
    case_gemm(&t[1], TD_DT_BF16, 7, 64, 96, true, 0, true);
    for (int i = 0; i < 2; i++) {
        struct td_gptq_op x;
        struct td_gemm y;
        struct td_op_ref ref;

        assert_int_equal(td_op_kind_find(t[i].op.kind)->reference(&t[i].op, &ref, &err), 0);
        assert_int_equal(i ? td_gemm_of(&t[i].op, &y, &err) : td_gptq_op_of(&t[i].op, &x, &err), 0);
        for (int rows = 0; rows < 9; rows++) /* products for so many: then there are 7, 7, 4, 3, 2, 2, 2, 1, 1 choices */
            for (int bad = -1; bad < 7; bad++) {
                const int64_t most = (int64_t)rows * 64 * 96;
                int seen = 0;

                for (uint64_t seed = 0; seed < 7; seed++) {
                    if (bad >= 0)
                        ref.r1[bad * 64 + 20] += 1;
                    seen += (i ? td_reference_compare_gemm(&y, &ref, most, seed, &err) : td_reference_compare_gptq(&x, &ref, most, seed, &err)) ==
                            TD_ECORRUPT;
                    if (bad >= 0)
                        ref.r1[bad * 64 + 20] -= 1;
                }
                assert_true(bad < 0 ? !seen : rows < 7 ? seen > 0 && seen < 7 : seen == 7);
            }
        td_op_ref_release(&ref);
        op_case_release(&t[i]);
    }
}

/* Other kinds and forms are the CPU's; without a device there is a reason. */
static void test_refusals(void **state)
{
    struct td_reference_gpu *g = ready(), *none = td_reference_gpu_start("/nowhere");
    struct op_case t;
    struct td_op_ref ref;
    struct td_error err = {0};
    char words[600];

    (void)state;
    case_gemm(&t, TD_DT_F16, 3, 8, 16, false, 2, true);
    assert_int_equal(td_reference_gpu_compute(g, &t.op, 1, &ref, &err), TD_EUNSUPPORTED);
    snprintf(t.op.kind, sizeof t.op.kind, "scaled_mm");
    assert_int_equal(td_reference_gpu_compute(g, &t.op, 1, &ref, &err), TD_EUNSUPPORTED);
    op_case_release(&t);
    case_gemm(&t, TD_DT_F16, 3, 8, 16, false, 0, true);
    t.op.in[0].shape[1] = 15;
    assert_int_equal(td_reference_gpu_compute(g, &t.op, 1, &ref, &err), TD_EINVAL);
    t.op.in[0].shape[1] = 16;
    assert_int_equal(td_reference_gpu_state(none, true, words, sizeof words), TD_REFERENCE_NONE);
    assert_non_null(strstr(words, "/nowhere"));
    assert_int_equal(td_reference_gpu_compute(none, &t.op, 1, &ref, &err), TD_EUNSUPPORTED);
    op_case_release(&t);
    td_reference_gpu_stop(g);
    td_reference_gpu_stop(none);
    td_reference_gpu_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gptq), cmocka_unit_test(test_gemm), cmocka_unit_test(test_rows_in_parts), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_wrong_sums_are_found), cmocka_unit_test(test_sample_sees_one_column), cmocka_unit_test(test_sample_leaves_no_place_out),
        cmocka_unit_test(test_whole_rows), cmocka_unit_test(test_refusals), cmocka_unit_test(test_job_that_hangs),
        cmocka_unit_test(test_threads_of_a_gpu_that_hangs), cmocka_unit_test(test_open_and_close_that_hang),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
