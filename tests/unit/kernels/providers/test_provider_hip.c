/* test_provider_hip.c - ops on an AMD GPU that is none: a HIP runtime of our own, with our kernels in the emulator (wavefronts of 64) or vLLM's as C
 * functions. What provider hip shares with cuda, test_provider_cuda.c tries.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gpu/gpu_build.h"
#include "common/f16.h"
#include "tests/unit/kernels/providers/gpu_provider_rig.h"

#define VLLM_4BIT "_ZN4vllm4gptq33gemm_half_q_half_gptq_4bit_kernelILb1ELi8EEEvv"

static char like[4096];            /* gptq_like.hsaco: gfx90a */

static int setup(void **state)
{
    (void)state;
    beside("tests/unit/data/gptq_like.hsaco", like);
    setenv("TD_FAKE_SIMT", "64", 1);
    setenv("TD_FAKE_GPTQ", "exact", 1);
    return rig_open("hip", "TD_HIP_LIBRARY", "tests/helpers/lib_fake_hip.so", "tests/helpers/lib_fake_gptq.so", "tests/helpers/lib_fake_simt.so");
}

/* "" vLLM's names come first: their C functions; "td_gptq": ours, in the emulator. */
static void run_all(const char *only, bool old)
{
    struct td_error err = {0};
    struct td_op_call op;
    void *s;

    setenv("TD_HIP_KERNEL", only, 1);
    setenv("TD_FAKE_HIP_OLD", old ? "1" : "0", 1);
    s = open_build(like);
    unsetenv("TD_HIP_KERNEL");
    for (int i = 0; i < 8; i++) {
        make_gptq(&op, i & 1 ? 20 : 1, i & 2 ? 8 : 4, i & 4, i);
        op.guard = i == 7 && !old;
        if (!(run_and_compare(s, &op, &err) < 2e-3))
            fail_msg("%s, op %d: %s", only, i, err.code ? err.msg : "wrong");
        random_gptq_free(&op);
    }
    gpu->close(s);
    setenv("TD_FAKE_HIP_OLD", "0", 1);
    assert_int_equal(fake->bytes_in_use(), 0);
}

static void test_ops_are_right(void **state)
{
    (void)state;
    run_all("", false);
    run_all("gemm_", false);
    run_all("exllama_", true);
}

/* More rows than vLLM's kernel takes: hipBLAS multiplies; without it, one of ours answers. */
static void test_many_rows_go_to_hipblas(void **state)
{
    struct td_error err = {0};
    char hipblas[4096];
    struct td_op_call op;
    void *s;

    (void)state;
    make_gptq(&op, 60, 4, true, 3);
    setenv("TD_HIPBLAS_LIBRARY", "/nowhere/libhipblas.so", 1);
    s = open_build(like);
    assert_string_equal(gpu->rounding(s, &op), "none");
    strcpy(op.symbol, "reconstruct_exllama_4bit_kernel");
    assert_non_null(strstr(gpu->supports(s, &op), "TD_HIPBLAS_LIBRARY=FILE (--build-env) names hipBLAS; there is none"));
    gpu->close(s);
    setenv("TD_HIPBLAS_LIBRARY", beside("tests/helpers/lib_fake_hipblas.so", hipblas), 1);
    s = open_build(like);
    assert_string_equal(gpu->rounding(s, &op), "weight-f16");
    strcpy(op.act_rounding, "weight-f16");
    assert_int_equal(random_gptq_run(&op, "cpu"), 0);
    if (!(run_and_compare(s, &op, &err) < 2e-3))
        fail_msg("%s", err.code ? err.msg : "wrong");
    gpu->close(s);
    random_gptq_free(&op);
    assert_int_equal(fake->bytes_in_use(), 0);
}

static void test_words(void **state)
{
    void *s = open_build(like);

    (void)state;
    assert_string_equal(gpu->words(s), "hip on Fake AMD GPU (gfx90a:sramecc+:xnack-, HIP 6.2.41133), bundle of AMD code");
    gpu->close(s);
}

/* HIP cannot say how a kernel's parameters lie; the code object does (readelf --notes: offsets of td_gptq_gemm_4bit_f32). */
static void test_layout_comes_from_the_file(void **state)
{
    static const uint32_t offset[13] = {0, 8, 16, 24, 32, 40, 48, 52, 56, 60, 64, 72, 80};
    struct td_gpu_facts facts;
    struct td_gpu_build *b;
    const struct td_gpu_function *f;
    const struct td_gpu_offer *offers;
    struct td_error err = {0};
    char why[200];
    void *device;

    (void)state;
    assert_int_equal(td_gpu_driver_hip.open(&device, false, &facts, &err), 0);
    assert_int_equal(facts.sm, 0);
    assert_int_equal(td_gpu_build_open(like, &td_gpu_driver_hip, device, &facts, &b, &err), 0);
    assert_int_equal(td_gpu_build_offers(b, "td_gptq_gemm_4bit_f32", &offers, why, sizeof why), 1);
    assert_int_equal(td_gpu_build_function(b, "td_gptq_gemm_4bit_f32", 0, &f, &err), 0);
    assert_int_equal(f->n_params, 13);
    for (int i = 0; i < 13; i++)
        assert_int_equal(f->params[i].offset, offset[i]);
    td_gpu_build_close(b);
    td_gpu_driver_hip.close(device);
}

static void test_refusals(void **state)
{
    struct td_error err = {0};
    struct td_op_call op;
    void *s;

    (void)state;
    make_gptq(&op, 3, 4, false, 1);
    setenv("TD_FAKE_HIP_GFX", "gfx1030", 1);
    s = open_build(like);
    assert_non_null(strstr(gpu->supports(s, &op), "for gfx90a, none of which runs on gfx1030; build it for that too"));
    strcpy(op.symbol, VLLM_4BIT);
    assert_non_null(strstr(gpu->supports(s, &op), "gemm_half_q_half_gptq_4bit_kernel for gfx90a"));
    gpu->close(s);
    setenv("TD_FAKE_HIP_GFX", "Radeon", 1);
    assert_int_equal(gpu->open(like, &s, &err), TD_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "a \"Radeon\", which is no name of AMD's code"));
    unsetenv("TD_FAKE_HIP_GFX");
    td_error_clear(&err);
    op.symbol[0] = '\0';
    op.guard = true;
    setenv("TD_FAKE_HIP_OLD", "1", 1);
    s = open_build(like);
    assert_true(isinf(run_and_compare(s, &op, &err)));
    assert_int_equal(err.code, TD_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "hipMemMap; HIP has it since 5.3), so there are no guards; --guard off replays without"));
    setenv("TD_FAKE_HIP_OLD", "0", 1);
    gpu->close(s);
    strcpy(op.kind, "gemm");
    s = open_build(like);
    assert_non_null(strstr(gpu->supports(s, &op), "provider hip does not ask hipBLAS for it yet"));
    gpu->close(s);
    random_gptq_free(&op);
}

static void test_faults_are_sentences(void **state)
{
    void *s = open_build(like);
    struct td_error err = {0};
    struct td_op_call op;

    (void)state;
    make_gptq(&op, 1, 4, false, 2);
    fake->fault("alloc", 3, 2);
    assert_true(isinf(run_and_compare(s, &op, &err)));
    assert_int_equal(err.code, TD_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "the HIP runtime says hipErrorOutOfMemory (2)"));
    td_error_clear(&err);
    fake->fault("load", 1, 209);
    gpu->close(s);
    s = open_build(like);
    assert_true(isinf(run_and_compare(s, &op, &err)));
    assert_non_null(strstr(err.msg, "cannot load the build's code: the HIP runtime says hipErrorNoBinaryForGpu (209)"));
    td_error_clear(&err);
    fake->fault("kernel", 1, 719);
    assert_true(isinf(run_and_compare(s, &op, &err)));
    assert_int_equal(err.code, TD_ECRASH);
    assert_true(gpu->is_dead(s));
    fake->reset();
    random_gptq_free(&op);
    gpu->close(s);
}

static void test_time(void **state)
{
    void *s = open_build(like), *p = NULL;
    struct td_error err = {0};
    struct td_op_call op;
    int64_t hot = 0, cold = 0;

    (void)state;
    make_gptq(&op, 1, 4, false, 4);
    assert_int_equal(gpu->prepare(s, &op, &p, &err), 0);
    assert_int_equal(gpu->time(s, p, 3, false, &hot, &err), 0);
    assert_int_equal(gpu->time(s, p, 2, true, &cold, &err), 0);
    assert_true(hot > 0 && cold > 0);
    gpu->release(s, p);
    random_gptq_free(&op);
    gpu->close(s);
}

static void test_no_runtime(void **state)
{
    char was[4096], other[4096];
    struct td_error err = {0};
    void *s = NULL;

    (void)state;
    snprintf(was, sizeof was, "%s", getenv("TD_HIP_LIBRARY"));
    setenv("TD_HIP_LIBRARY", "/nowhere/libamdhip64.so", 1);
    assert_int_equal(gpu->open(like, &s, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "no HIP runtime on this machine (/nowhere/libamdhip64.so"));
    td_error_clear(&err);
    setenv("TD_HIP_LIBRARY", beside("tests/helpers/lib_fake_simt.so", other), 1);
    assert_int_equal(gpu->open(like, &s, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "TD_HIP_LIBRARY names another"));
    td_error_clear(&err);
    setenv("TD_HIP_LIBRARY", was, 1);
    fake->fault("init", 1, 101); /* as HIP 5.2 without a device */
    assert_int_equal(gpu->open(like, &s, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "hipErrorInvalidDevice (101)"));
    td_error_clear(&err);
    assert_int_equal(gpu->open("/nowhere/x.hsaco", &s, &err), TD_ENOTFOUND);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_are_right), cmocka_unit_test(test_many_rows_go_to_hipblas), cmocka_unit_test(test_words), cmocka_unit_test(test_layout_comes_from_the_file), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_faults_are_sentences), cmocka_unit_test(test_time), cmocka_unit_test(test_no_runtime),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
