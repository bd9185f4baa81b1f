/* test_tap_hip_torch.c - an operator of torch whose tensors lie on an AMD GPU (fake torch, fake HIP runtime): its call becomes an
 * op, and the kernel that it launches is not recorded once more.
 * SPDX-License-Identifier: Apache-2.0
 *
 * torch's build for ROCm calls the device CUDA as well. Not run on AMD hardware. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/json.h"
#include "kernels/abi/hip_abi.h"
#include "kernels/adapters/adapter.h"
#include "kernels/gpucode/image_find.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/hip/hip_code.h"
#include "recorder/tap/hip/hip_use.h"
#include "tap_bench.h"
#include "tests/helpers/fake_gptq.h"
#include "tests/helpers/fake_torch.h"

enum { N = 64, K = 64, GROUP = 32, M = 8 };

#define SCHEMA                                                                                                                         \
    "machete_mm(Tensor A, Tensor B, int b_type, ScalarType? out_type, Tensor? group_scales, Tensor? group_zeros, int? group_size, "    \
    "Tensor? channel_scales, Tensor? token_scales, str? schedule) -> Tensor"

#define AWQ_SCHEMA "awq_gemm(Tensor _in_feats, Tensor _kernel, Tensor _scaling_factors, Tensor _zeros, SymInt split_k_iters) -> Tensor"

#define MEMBER(name, member, args) int (*member) args;
static struct { TD_HIP_SHARED(MEMBER) } hip;
static fake_torch_call_fn *call;
static void *stream, *module, *function;
static uint64_t dev_a, dev_c, qweight, qzeros, scales;
static struct fake_torch_tensor c_tensor;

/* The tap's, as the runtime's and torch's callers see them. */
int hipModuleLaunchKernel TD_HIP_MODULE_ARGUMENTS;
int hipSetDevice(int device);
td_torch_init aoti_torch_library_init_fragment;
td_torch_init_impl aoti_torch_library_init_impl;
td_torch_def aoti_torch_library_def;
td_torch_impl_version torch_library_impl;

/* ---- the operator ------------------------------------------------------------------------------------------------- */

static int launch(int m)
{
    uint64_t a = dev_a, w = qweight, z = qzeros, s = scales, c = dev_c, perm = 0;
    int n = N, k = K, groups = K / GROUP;
    uint8_t v2 = 0;
    void *at[] = {&a, &w, &z, &s, &c, &m, &n, &k, &groups, &v2, &perm};

    return hipModuleLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, stream, at, NULL);
}

static void mm(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *a = (struct fake_torch_tensor *)stack[0];

    (void)n_results;
    c_tensor = (struct fake_torch_tensor){.ndim = 2, .sizes = {a->sizes[0], N}, .strides = {N, 1}, .dtype = TD_TORCH_F16, .device = 1, .data = (void *)dev_c};
    if (a->sizes[0])
        launch((int)a->sizes[0]);
    memset(stack, 0, n_args * sizeof *stack);
    stack[0] = (uintptr_t)&c_tensor;
}

static void multiply(int rows)
{
    struct fake_torch_tensor a = {.ndim = 2, .sizes = {rows, K}, .strides = {K, 1}, .dtype = TD_TORCH_F16, .device = 1, .data = (void *)dev_a},
                             b = {.ndim = 2, .sizes = {K / 8, N}, .strides = {1, K / 8}, .dtype = TD_TORCH_I32, .device = 1, .data = (void *)qweight},
                             s = {.ndim = 2, .sizes = {K / GROUP, N}, .strides = {N, 1}, .dtype = TD_TORCH_F16, .device = 1, .data = (void *)scales};
    td_torch_value scales_at = (uintptr_t)&s, group = GROUP;
    td_torch_value stack[10] = {(uintptr_t)&a, (uintptr_t)&b, TD_GPU_VLLM_U4B8, 0, (uintptr_t)&scales_at, 0, (uintptr_t)&group, 0, 0, 0};

    assert_int_equal(call("_C::machete_mm", "CUDA", stack, 10, 1), 0);
    assert_ptr_equal((void *)stack[0], &c_tensor);
}

/* awq_gemm, which has the product computed by the other operator. */
static void awq(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    (void)n_results;
    multiply((int)((const struct fake_torch_tensor *)stack[0])->sizes[0]);
    memset(stack, 0, n_args * sizeof *stack);
    stack[0] = (uintptr_t)&c_tensor;
}

static void multiply_by_awq(int rows)
{
    struct fake_torch_tensor a = {.ndim = 2, .sizes = {rows, K}, .strides = {K, 1}, .dtype = TD_TORCH_F16, .device = 1, .data = (void *)dev_a},
                             w = {.ndim = 2, .sizes = {K, N / 8}, .strides = {N / 8, 1}, .dtype = TD_TORCH_I32, .device = 1, .data = (void *)qweight},
                             s = {.ndim = 2, .sizes = {K / GROUP, N}, .strides = {N, 1}, .dtype = TD_TORCH_F16, .device = 1, .data = (void *)scales},
                             z = {.ndim = 2, .sizes = {K / GROUP, N / 8}, .strides = {N / 8, 1}, .dtype = TD_TORCH_I32, .device = 1, .data = (void *)qzeros};
    td_torch_value stack[5] = {(uintptr_t)&a, (uintptr_t)&w, (uintptr_t)&s, (uintptr_t)&z, 8};

    assert_int_equal(call("_C::awq_gemm", "CUDA", stack, 5, 1), 0);
    assert_ptr_equal((void *)stack[0], &c_tensor);
}

/* ---- the runtime --------------------------------------------------------------------------------------------------- */

static void *open_helper(const char *name)
{
    const char *o = getenv("O");
    char path[600];

    snprintf(path, sizeof path, "%s/tests/helpers/%s", o ? o : "build", name);
    return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

static bool open_hip(void)
{
    const struct fake_cuda_api *(*api)(void);
    void *runtime = open_helper("lib_fake_hip.so");

    if (!runtime)
        return false;
#define FIND(name, member, args) *(void **)&hip.member = dlsym(runtime, #name);
    TD_HIP_SHARED(FIND)
    *(void **)&api = dlsym(runtime, "fake_cuda_api");
    api()->use_thread(true);
    fake_gptq_add(api());
    return true;
}

static bool register_operator(void)
{
    void *torch = open_helper("lib_fake_torch.so"), **current = torch ? dlsym(torch, "fake_torch_stream") : NULL;
    td_torch_library def, cuda;

    if (!current)
        return false;
    *current = stream;
    *(void **)&call = dlsym(torch, "fake_torch_call");
    return !aoti_torch_library_init_fragment("_C", __FILE__, __LINE__, &def) && !aoti_torch_library_def(def, SCHEMA) &&
           !aoti_torch_library_init_impl("_C", "CUDA", __FILE__, __LINE__, &cuda) && !torch_library_impl(cuda, "machete_mm", mm, 1) &&
           !aoti_torch_library_def(def, AWQ_SCHEMA) && !torch_library_impl(cuda, "awq_gemm", awq, 1);
}

static uint64_t memory(size_t bytes, unsigned seed)
{
    uint64_t d = 0;
    size_t i;

    hip.mem_alloc(&d, bytes);
    for (i = 0; i < bytes / 2; i++)
        ((uint16_t *)d)[i] = (uint16_t)(0x2c00 + (seed + i * 7) % 1024);
    return d;
}

/* The code object of the fake device: what the real runtime gives to HSA, where the tap reads it. */
static void see_code(const struct td_buf *file)
{
    const struct td_gpu_device device = {.gfx = "gfx90a"};
    struct td_gpu_image *image;
    const void *elf;
    size_t n;
    int i;

    assert_int_equal(td_gpu_image_memory(file->data, file->len, "like", &image, NULL), 0);
    for (i = 0; !td_gpu_entry_fits(td_gpu_image_entry(image, i), &device); i++)
        ;
    assert_int_equal(td_gpu_image_code(image, i, &elf, &n, NULL), 0);
    tap_hip_code_note(elf, n);
    td_gpu_image_close(image);
}

static int setup(void **state)
{
    static struct td_buf file = TD_BUF_INIT(1 << 20);
    struct td_error err = {0};

    (void)state;
    setenv("TD_TAP_DIR", "/nonexistent", 1);
    if (!open_hip() || td_fs_read("tests/unit/data/tap_like.hsaco", 1 << 20, &file, &err) || hip.init(0) || hipSetDevice(0))
        return -1;
    dev_a = memory(M * K * 2, 1), dev_c = memory(M * N * 2, 2), qweight = memory(K / 8 * N * 4, 3), qzeros = memory(K / GROUP * N / 2, 4);
    scales = memory(K / GROUP * N * 2, 5);
    if (hip.stream_create(&stream, TD_CUDA_STREAM_NON_BLOCKING) || hip.module_load(&module, file.data) ||
        hip.module_get_function(&function, module, FAKE_GPTQ_4BIT(8)))
        return -1;
    see_code(&file);
    return register_operator() ? 0 : -1;
}

/* ---- tests --------------------------------------------------------------------------------------------------------- */

static void arm(struct bench *b)
{
    bench_open(b, TAP_MODE_ALL);
    tap_front_hip.set_awake(true);
    tap_front_torch.set_awake(true);
    assert_null(tap_front_hip.start());
    assert_null(tap_front_torch.start());
}

static void disarm(struct bench *b)
{
    tap_front_hip.stop(20000);
    tap_front_torch.stop(0);
    tap_front_hip.set_awake(false);
    tap_front_torch.set_awake(false);
    bench_read(b);
}

static void check_op(const struct bench *b, size_t i)
{
    const struct td_op *op = &b->ops[i];

    assert_string_equal(op->kind, "gptq_gemm");
    assert_string_equal(op->impl.symbol, "_C::machete_mm");
    assert_int_equal(td_json_get_i64(op->attrs, "m", -1), M);
    assert_int_equal(td_json_get_i64(op->attrs, "n", -1), N);
    assert_int_equal(td_json_get_i64(op->attrs, "k", -1), K);
    check_blob(b, td_op_rec_in(op, "a"), (void *)dev_a, M * K * 2);
    check_blob(b, &op->out, (void *)dev_c, M * N * 2);
}

static void a_call_becomes_one_op(void **state)
{
    struct bench b;

    (void)state;
    tap_start_if_cold();               /* as the front of torch does at an operator's first call */
    while (tap_hip_awake())
        usleep(1000);
    multiply(M);                       /* HIP's first launch, while the tap is asleep */
    assert_true(tap_hip_used());
    hip.stream_synchronize(stream);
    memset((void *)dev_c, 0, M * N * 2);
    arm(&b);
    multiply(M);
    multiply(M);
    disarm(&b);
    assert_int_equal(b.n_ops, 2);
    check_op(&b, 0);
    check_op(&b, 1);
    assert_int_equal(ledger(&b, "launches.seen"), 2); /* the kernels inside: counted */
    bench_close(&b);
}

static void a_launch_outside_is_an_op_too(void **state)
{
    struct bench b;

    (void)state;
    arm(&b);
    multiply(M);
    assert_int_equal(launch(M), 0);
    disarm(&b);
    assert_int_equal(b.n_ops, 2);
    check_op(&b, 0);
    assert_string_equal(b.ops[1].impl.symbol, FAKE_GPTQ_4BIT(8));
    bench_close(&b);
}

/* A call of no rows computes nothing: it is no op, and none is missing. */
static void an_empty_call_is_no_op(void **state)
{
    struct bench b;

    (void)state;
    arm(&b);
    multiply(M);
    multiply(0);
    multiply(M);
    disarm(&b);
    assert_int_equal(b.n_ops, 2);
    assert_int_equal(ledger(&b, "ops.seen"), 2);
    check_op(&b, 1);
    bench_close(&b);
}

/* An operator that has another one compute its product is one op, its own; both are counted. */
static void an_operator_within_another_is_one_op(void **state)
{
    struct bench b;

    (void)state;
    arm(&b);
    multiply_by_awq(M);
    multiply_by_awq(M);
    disarm(&b);
    assert_int_equal(b.n_ops, 2);
    assert_int_equal(ledger(&b, "ops.seen"), 2);
    assert_string_equal(b.ops[0].impl.symbol, "_C::awq_gemm");
    assert_string_equal(b.ops[1].impl.symbol, "_C::awq_gemm");
    check_blob(&b, &b.ops[1].out, (void *)dev_c, M * N * 2);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_becomes_one_op),
        cmocka_unit_test(a_launch_outside_is_an_op_too),
        cmocka_unit_test(an_empty_call_is_no_op),
        cmocka_unit_test(an_operator_within_another_is_one_op),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
