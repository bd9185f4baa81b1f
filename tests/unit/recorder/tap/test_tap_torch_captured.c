/* test_tap_torch_captured.c - an operator that is called while its stream is captured into a graph is told to whoever follows captures, armed or not.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/tap/gpu/gpu_captures.h"
#include "recorder/tap/gpu/gpu_threads.h"
#include "recorder/tap/torch/tap_torch_tensor.h"
#include "recorder/tap/torch/torch_call.h"
#include "recorder/tap/torch/torch_library.h"
#include "tests/helpers/fake_torch.h"
#include "fake_torch_lib.h"

/* The tap's, as a library of operators sees them. */
td_torch_init aoti_torch_library_init_fragment;
td_torch_init_impl aoti_torch_library_init_impl;
td_torch_def aoti_torch_library_def;
td_torch_impl aoti_torch_library_impl;

/* As vLLM 0.26 registers it. */
#define MACHETE_MM "machete_mm(Tensor A, Tensor B, int b_type, ScalarType? out_type, Tensor? group_scales, Tensor? group_zeros, int? group_size, " \
                   "Tensor? channel_scales, Tensor? token_scales, str? schedule) -> Tensor"
enum { A, B, TYPE, OUT_TYPE, SCALES, ZEROS, GROUP, CHANNEL, TOKEN, SCHEDULE, ARGS };

static fake_torch_call_fn *call;
static void *stream = &stream;
static jmp_buf out;
static bool leaves;                    /* the operator ends as an exception would */
static int called;
static uint16_t gpu[4096];             /* nobody reads what lies there */
static struct fake_torch_tensor c = {.ndim = 2, .sizes = {3, 64}, .strides = {64, 1}, .dtype = TD_TORCH_F16, .device = TD_TORCH_CUDA, .data = gpu + 100};

static void machete_mm(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    (void)n_args, (void)n_results;
    called++;
    if (leaves)
        longjmp(out, 1);
    stack[0] = (uintptr_t)&c;
}

/* An operator that calls another one: the outer one has no row, and the inner one is told. */
static void outer(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    call("_C::machete_mm", "CUDA", stack, n_args, n_results);
}

/* ---- who follows --------------------------------------------------------------------------------------------------- */

static struct { int begins, ends; void *stream; struct td_gpu_work work; } told;
static bool captured;                  /* what the follower answers */

static bool begins(struct tap_gpu_capture_mark *mark, void *on)
{
    mark->n = 7;
    told.begins++;
    told.stream = on;
    return captured;
}

static void ends(const struct tap_gpu_capture_mark *mark, const struct tap_gpu_launch *l, const struct tap_gpu_kernel *k, const struct td_gpu_work *w)
{
    assert_int_equal(mark->n, 7);
    assert_string_equal(k->symbol, "_C::machete_mm");
    assert_ptr_equal(l->stream, stream);
    told.ends++;
    told.work = *w;
}

static void leaves_out(const struct tap_gpu_capture_mark *mark)
{
    (void)mark;
    fail();
}

static const struct tap_gpu_capture_follower follower = {begins, ends, leaves_out};

static int setup(void **state)
{
    void *lib = fake_torch_lib(), **current;
    td_torch_library def, cuda;

    (void)state;
    current = lib ? dlsym(lib, "fake_torch_stream") : NULL;
    if (!current)
        return -1;
    *current = stream;
    *(void **)&call = dlsym(lib, "fake_torch_call");
    tap_gpu_captures_follow(&follower);
    return !call || aoti_torch_library_init_fragment("_C", "f.cpp", 1, &def) || aoti_torch_library_init_impl("_C", "CUDA", "f.cpp", 2, &cuda) ||
           aoti_torch_library_def(def, MACHETE_MM) || aoti_torch_library_impl(cuda, "machete_mm", machete_mm) ||
           aoti_torch_library_def(def, "outer(Tensor a) -> ()") || aoti_torch_library_impl(cuda, "outer", outer);
}

/* [3, 256] by [256, 64] in two groups. */
static void multiply(const char *name)
{
    static struct fake_torch_tensor a, b, scales;
    td_torch_value scales_at = (uintptr_t)&scales, group_at = 128, stack[ARGS] = {0};

    a = (struct fake_torch_tensor){.ndim = 2, .sizes = {3, 256}, .strides = {256, 1}, .dtype = TD_TORCH_F16, .device = TD_TORCH_CUDA, .data = gpu};
    b = (struct fake_torch_tensor){.ndim = 2, .sizes = {32, 64}, .strides = {1, 32}, .dtype = TD_TORCH_I32, .device = TD_TORCH_CUDA, .data = gpu + 1024};
    scales = (struct fake_torch_tensor){.ndim = 2, .sizes = {2, 64}, .strides = {64, 1}, .dtype = TD_TORCH_F16, .device = TD_TORCH_CUDA, .data = gpu + 2048};
    stack[A] = (uintptr_t)&a, stack[B] = (uintptr_t)&b, stack[TYPE] = TD_GPU_VLLM_U4B8;
    stack[SCALES] = (uintptr_t)&scales_at, stack[GROUP] = (uintptr_t)&group_at;
    memset(&told, 0, sizeof told);
    called = 0;
    if (!setjmp(out))
        call(name, "CUDA", stack, ARGS, 1);
}

/* ---- tests --------------------------------------------------------------------------------------------------------- */

static void without_a_capture_nobody_is_asked(void **state)
{
    (void)state;
    multiply("_C::machete_mm");
    assert_int_equal(called, 1);
    assert_int_equal(told.begins, 0);
}

static void a_captured_product_is_told(void **state)
{
    (void)state;
    atomic_store(&tap_gpu_captures, 1);
    captured = true;
    multiply("_C::machete_mm");
    assert_int_equal(called, 1);
    assert_int_equal(told.begins, 1);
    assert_int_equal(told.ends, 1);
    assert_ptr_equal(told.stream, stream);
    assert_true(told.work.m == 3 && told.work.n == 64 && told.work.k == 256);
    assert_int_equal(tap_gpu_gemm_output(&told.work)->address, (uintptr_t)(gpu + 100));
    multiply("_C::outer");
    assert_int_equal(called, 1);
    assert_int_equal(told.ends, 1);
    captured = false;              /* a capture goes on, on another stream */
    multiply("_C::machete_mm");
    assert_int_equal(called, 1);
    assert_int_equal(told.begins, 1);
    assert_int_equal(told.ends, 0);
    atomic_store(&tap_gpu_captures, 0);
}

/* A result that is not the one that was expected, and an operator that does not come back. */
static void a_failed_product_is_not_told(void **state)
{
    (void)state;
    atomic_store(&tap_gpu_captures, 1);
    captured = true;
    c.sizes[1] = 32;
    multiply("_C::machete_mm");
    assert_int_equal(called, 1);
    assert_int_equal(told.ends, 0);
    c.sizes[1] = 64;
    leaves = true;
    multiply("_C::machete_mm");
    leaves = false;
    assert_int_equal(called, 1);
    assert_int_equal(told.ends, 0);
    tap_gpu_set_in_library_call(false); /* longjmp, unlike an exception, runs no cleanup */
    multiply("_C::machete_mm");
    assert_int_equal(told.ends, 1);
    atomic_store(&tap_gpu_captures, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_capture_nobody_is_asked),
        cmocka_unit_test(a_captured_product_is_told),
        cmocka_unit_test(a_failed_product_is_not_told),
    };

    (void)argc;
    if (!getenv("TD_TAP_DIR")) {       /* the tap's thread has its environment from the time when it was loaded, and finds no folder */
        setenv("TD_TAP_DIR", "/dev/null", 1);
        execv("/proc/self/exe", argv);
        return 1;
    }
    return cmocka_run_group_tests(tests, setup, NULL);
}
