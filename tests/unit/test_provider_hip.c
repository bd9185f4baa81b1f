/* test_provider_hip.c - ops on an AMD GPU that is none: a HIP runtime of our own, with our kernels in the emulator (wavefronts of 64) or vLLM's as C
 * functions. What provider hip shares with cuda, test_provider_cuda.c tries.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gpu/build.h"
#include "model/f16.h"
#include "tests/helpers/fake_cuda/fake_cuda.h"
#include "tests/unit/random_gptq.h"

#define VLLM_4BIT "_ZN4vllm4gptq33gemm_half_q_half_gptq_4bit_kernelILb1ELi8EEEvv"

static const struct td_provider *hip;
static const struct fake_cuda_api *fake;
static char like[4096];            /* gptq_like.hsaco: gfx90a */

static const char *beside(const char *file, char *out)
{
    const char *o = getenv("O"), *root = getenv("ROOT");

    snprintf(out, 4096, "%s/%s", strncmp(file, "tests/unit", 10) ? o ? o : "build" : root ? root : ".", file);
    return out;
}

static int setup(void **state)
{
    const struct fake_cuda_api *(*api)(void);
    char runtime[4096], plugins[8200], a[4096], b[4096];
    void *lib, *symbol;

    (void)state;
    hip = td_provider_find("hip");
    beside("tests/unit/data/gptq_like.hsaco", like);
    snprintf(plugins, sizeof plugins, "%s:%s", beside("tests/helpers/lib_fake_gptq.so", a), beside("tests/helpers/lib_fake_simt.so", b));
    setenv("TD_FAKE_CUDA_PLUGIN", plugins, 1);
    setenv("TD_FAKE_SIMT", "64", 1);
    setenv("TD_FAKE_GPTQ", "exact", 1);
    setenv("TD_HIP_LIBRARY", beside("tests/helpers/lib_fake_hip.so", runtime), 1);
    lib = dlopen(runtime, RTLD_NOW);
    symbol = lib ? dlsym(lib, "fake_cuda_api") : NULL;
    if (!symbol)
        return -1;
    memcpy(&api, &symbol, sizeof api);
    fake = api();
    fake->calls("x");
    return 0;
}

static void *open_build(const char *build)
{
    struct td_error err = {0};
    void *s = NULL;

    if (hip->open(build, &s, &err))
        fail_msg("%s", err.msg);
    return s;
}

static void make(struct td_op_call *op, int m, int bits, bool act, int seed)
{
    const struct random_gptq d = {m, 256, 640, bits, 128, act};

    random_gptq_make(op, &d, (uint64_t)seed, (uint64_t)seed + 1);
    assert_int_equal(random_gptq_run(op, "cpu"), 0); /* gives it room for C as well */
}

/* Largest difference from what the cpu provider wrote, relative; C is poisoned before. */
static double run_and_compare(void *s, struct td_op_call *op, struct td_error *err)
{
    const size_t n = op->out.size_bytes / 2;
    uint16_t *want = malloc(op->out.size_bytes), *got = op->out.data;
    double worst = 0;
    void *p = NULL;
    int rc;

    memcpy(want, got, op->out.size_bytes);
    memset(got, 0x7e, op->out.size_bytes);
    rc = hip->prepare(s, op, &p, err);
    rc = rc ? rc : hip->refill(s, p, err);
    rc = rc ? rc : hip->run(s, p, err);
    rc = rc ? rc : hip->fetch(s, p, err);
    for (size_t i = 0; i < n && !rc; i++)
        worst = fmax(worst, fabs(td_f16_load(got[i]) - td_f16_load(want[i])) / (fabs(td_f16_load(want[i])) + 1e-2));
    if (p)
        hip->release(s, p);
    free(want);
    return rc ? INFINITY : worst;
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
        make(&op, i & 1 ? 20 : 1, i & 2 ? 8 : 4, i & 4, i);
        op.guard = i == 7 && !old;
        if (!(run_and_compare(s, &op, &err) < 2e-3))
            fail_msg("%s, op %d: %s", only, i, err.code ? err.msg : "wrong");
        random_gptq_free(&op);
    }
    hip->close(s);
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

static void test_words(void **state)
{
    void *s = open_build(like);

    (void)state;
    assert_string_equal(hip->words(s), "hip on Fake AMD GPU (gfx90a:sramecc+:xnack-, HIP 6.2.41133), bundle of AMD code");
    hip->close(s);
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
    assert_int_equal(td_gpu_driver_hip.open(&device, &facts, &err), 0);
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
    make(&op, 3, 4, false, 1);
    setenv("TD_FAKE_HIP_GFX", "gfx1030", 1);
    s = open_build(like);
    assert_non_null(strstr(hip->supports(s, &op), "for gfx90a, none of which runs on gfx1030; build it for that too"));
    strcpy(op.symbol, VLLM_4BIT);
    assert_non_null(strstr(hip->supports(s, &op), "gemm_half_q_half_gptq_4bit_kernel for gfx90a"));
    hip->close(s);
    setenv("TD_FAKE_HIP_GFX", "Radeon", 1);
    assert_int_equal(hip->open(like, &s, &err), TD_EUNSUPPORTED);
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
    hip->close(s);
    strcpy(op.kind, "gemm");
    s = open_build(like);
    assert_non_null(strstr(hip->supports(s, &op), "provider hip runs gptq_gemm"));
    hip->close(s);
    random_gptq_free(&op);
}

static void test_faults_are_sentences(void **state)
{
    void *s = open_build(like);
    struct td_error err = {0};
    struct td_op_call op;

    (void)state;
    make(&op, 1, 4, false, 2);
    fake->fault("alloc", 3, 2);
    assert_true(isinf(run_and_compare(s, &op, &err)));
    assert_int_equal(err.code, TD_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "the HIP runtime says hipErrorOutOfMemory (2)"));
    td_error_clear(&err);
    fake->fault("load", 1, 209);
    hip->close(s);
    s = open_build(like);
    assert_true(isinf(run_and_compare(s, &op, &err)));
    assert_non_null(strstr(err.msg, "cannot load the build's code: the HIP runtime says hipErrorNoBinaryForGpu (209)"));
    td_error_clear(&err);
    fake->fault("kernel", 1, 719);
    assert_true(isinf(run_and_compare(s, &op, &err)));
    assert_int_equal(err.code, TD_ECRASH);
    assert_true(hip->is_dead(s));
    fake->reset();
    random_gptq_free(&op);
    hip->close(s);
}

static void test_time(void **state)
{
    void *s = open_build(like), *p = NULL;
    struct td_error err = {0};
    struct td_op_call op;
    int64_t hot = 0, cold = 0;

    (void)state;
    make(&op, 1, 4, false, 4);
    assert_int_equal(hip->prepare(s, &op, &p, &err), 0);
    assert_int_equal(hip->time(s, p, 3, false, &hot, &err), 0);
    assert_int_equal(hip->time(s, p, 2, true, &cold, &err), 0);
    assert_true(hot > 0 && cold > 0);
    hip->release(s, p);
    random_gptq_free(&op);
    hip->close(s);
}

static void test_no_runtime(void **state)
{
    char was[4096], other[4096];
    struct td_error err = {0};
    void *s = NULL;

    (void)state;
    snprintf(was, sizeof was, "%s", getenv("TD_HIP_LIBRARY"));
    setenv("TD_HIP_LIBRARY", "/nowhere/libamdhip64.so", 1);
    assert_int_equal(hip->open(like, &s, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "no HIP runtime on this machine (/nowhere/libamdhip64.so"));
    td_error_clear(&err);
    setenv("TD_HIP_LIBRARY", beside("tests/helpers/lib_fake_simt.so", other), 1);
    assert_int_equal(hip->open(like, &s, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "TD_HIP_LIBRARY names another"));
    td_error_clear(&err);
    setenv("TD_HIP_LIBRARY", was, 1);
    fake->fault("init", 1, 101); /* as HIP 5.2 without a device */
    assert_int_equal(hip->open(like, &s, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "hipErrorInvalidDevice (101)"));
    td_error_clear(&err);
    assert_int_equal(hip->open("/nowhere/x.hsaco", &s, &err), TD_ENOTFOUND);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_are_right), cmocka_unit_test(test_words), cmocka_unit_test(test_layout_comes_from_the_file), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_faults_are_sentences), cmocka_unit_test(test_time), cmocka_unit_test(test_no_runtime),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
