/* test_tap_cuda_twin_awq.c - products by AWQ's own operators in CUDA graphs: awq_dequantize makes W, and cuBLAS multiplies with it, in one graph.
 * SPDX-License-Identifier: Apache-2.0 */
#define TWIN_LAYERS 4
#define TWIN_ROWS 12
#include "twin_server.h"

#include "fake_torch_lib.h"
#include "recorder/tap/torch/torch_library.h"
#include "tests/helpers/fake_torch.h"

/* The tap's, as a library of operators sees them. */
td_torch_init aoti_torch_library_init_fragment;
td_torch_init_impl aoti_torch_library_init_impl;
td_torch_def aoti_torch_library_def;
td_torch_impl aoti_torch_library_impl;

/* As vLLM 0.26 registers it. */
#define AWQ_DEQUANTIZE "awq_dequantize(Tensor _kernel, Tensor _scaling_factors, Tensor _zeros, SymInt split_k_iters, int thx, int thy) -> Tensor"
enum { ARGS = 6, GROUPS = 2, ROWS = 12 };

static fake_torch_call_fn *call;
static void **current;                 /* torch's stream */
static uint64_t packed[TWIN_LAYERS], scales[TWIN_LAYERS], zeros[TWIN_LAYERS]; /* on the GPU */
static uint64_t floats;                /* where each call makes W, as torch's allocator gives it out again and again */
static struct fake_torch_tensor result;

/* W of the layer whose packed weights these are: those of layer_on(), transposed or not is all the same here. */
static void awq_dequantize(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    const struct fake_torch_tensor *q = (void *)stack[0];
    int l;

    (void)n_args, (void)n_results;
    for (l = 0; packed[l] != (uint64_t)q->data; l++)
        ;
    assert_int_equal(cu.copy_on_device_async(floats, w[l], K * K * 2, *current), 0);
    result = (struct fake_torch_tensor){.ndim = 2, .sizes = {K, K}, .strides = {K, 1}, .dtype = TD_TORCH_F16, .device = TD_TORCH_CUDA, .data = (void *)floats};
    stack[0] = (uintptr_t)&result;
}

static int setup_awq(void **state)
{
    void *lib;
    td_torch_library def, cuda;
    int l, i;

    if (setup(state) || !(lib = fake_torch_lib()) || !(current = dlsym(lib, "fake_torch_stream")))
        return -1;
    *(void **)&call = dlsym(lib, "fake_torch_call");
    floats = gpu_memory(K * K * 2);
    for (l = 0; l < TWIN_LAYERS; l++) {
        packed[l] = gpu_memory(K * K / 2), scales[l] = gpu_memory(GROUPS * K * 2), zeros[l] = gpu_memory(GROUPS * K / 2);
        for (i = 0; i < K * K / 8; i++)
            ((uint32_t *)packed[l])[i] = (uint32_t)i * 2654435761u + (uint32_t)l;
    }
    return !call || aoti_torch_library_init_fragment("_C", "f.cpp", 1, &def) || aoti_torch_library_init_impl("_C", "CUDA", "f.cpp", 2, &cuda) ||
           aoti_torch_library_def(def, AWQ_DEQUANTIZE) || aoti_torch_library_impl(cuda, "awq_dequantize", awq_dequantize);
}

static void dequantize(void *stream, int l)
{
    struct fake_torch_tensor q = {.ndim = 2, .sizes = {K, K / 8}, .strides = {K / 8, 1}, .dtype = TD_TORCH_I32, .device = TD_TORCH_CUDA, .data = (void *)packed[l]},
                             s = {.ndim = 2, .sizes = {GROUPS, K}, .strides = {K, 1}, .dtype = TD_TORCH_F16, .device = TD_TORCH_CUDA, .data = (void *)scales[l]},
                             z = {.ndim = 2, .sizes = {GROUPS, K / 8}, .strides = {K / 8, 1}, .dtype = TD_TORCH_I32, .device = TD_TORCH_CUDA, .data = (void *)zeros[l]};
    td_torch_value stack[ARGS] = {(uintptr_t)&q, (uintptr_t)&s, (uintptr_t)&z};

    *current = stream;
    assert_int_equal(call("_C::awq_dequantize", "CUDA", stack, ARGS, 1), 0);
}

/* C = A W, W [K, K] in rows, as torch.matmul asks cuBLAS. */
static void multiply(void *stream, int l, int m)
{
    const float one = 1, nothing = 0;

    handle.stream = stream;
    handle.kernel = gpu_kernel(FAKE_HGEMM);
    assert_int_equal(cublasGemmEx(&handle, 0, 0, K, m, K, &one, (uint16_t *)floats, F16, K, (uint16_t *)buffer[l % 2], F16, K, &nothing, (uint16_t *)buffer[(l + 1) % 2], F16, K, 68,
                                  -1), 0);
}

/* A kernel of a compiled server, which is told of that memory. */
static void another_kernel(void *stream, uint64_t memory)
{
    int count = 4;
    void *at[] = {&count, &memory};

    assert_int_equal(cu.launch(gpu_kernel(FAKE_OTHER), 1, 1, 1, 32, 1, 1, 0, stream, at, NULL), 0);
}

/* ---- tests --------------------------------------------------------------------------------------------------------- */

static void both_calls_are_one_op(void **state)
{
    const struct td_op *op;
    struct bench b;
    char *launches;
    void *exec;
    int l;

    (void)state;
    begin_capture();
    for (l = 0; l < TWIN_LAYERS; l++) {
        dequantize(capture_stream, l);
        multiply(capture_stream, l, ROWS);
    }
    exec = end_capture();
    step(exec, 1);
    arm(&b, TAP_MODE_ALL);
    assert_true(step(exec, 2));
    assert_true(step(exec, 3));
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * TWIN_LAYERS);
    assert_int_equal(ledger(&b, "weights.seen"), TWIN_LAYERS);
    fill(3);
    for (l = 0; l < TWIN_LAYERS; l++) {
        op = &b.ops[TWIN_LAYERS + l];
        assert_string_equal(op->kind, "gptq_gemm");
        assert_string_equal(op->impl.symbol, "_C::awq_dequantize");
        assert_int_equal(cJSON_GetArraySize(op->impl.launches), 2);
        launches = cJSON_PrintUnformatted(op->impl.launches);
        assert_non_null(strstr(launches, "\"cublasGemmEx\""));
        free(launches);
        assert_non_null(td_op_rec_in(op, "qweight"));
        check_blob(&b, td_op_rec_in(op, "a"), (void *)buffer[l % 2], ROWS * K * 2);
        dequantize(gpu_stream, l);
        multiply(gpu_stream, l, ROWS);
        cu.stream_synchronize(gpu_stream);
        check_blob(&b, &op->out, (void *)buffer[(l + 1) % 2], ROWS * K * 2);
    }
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* Something is captured between the two, which may write where W lies; and a product by other floats. */
static void what_came_between_parts_them(void **state)
{
    struct bench b;
    void *exec;
    int i;

    (void)state;
    begin_capture();
    dequantize(capture_stream, 0);
    assert_int_equal(cu.copy_on_device_async(floats, w[1], 64, capture_stream), 0);
    multiply(capture_stream, 0, ROWS);
    dequantize(capture_stream, 1);
    multiply(capture_stream, 1, ROWS);
    multiply(capture_stream, 2, ROWS); /* W has had its product */
    exec = end_capture();
    arm(&b, TAP_MODE_ALL);
    for (i = 0; i < 5; i++) {          /* the step finder knows other layers from the last arm */
        step(exec, 1);
        tap_front_cuda.tick();
    }
    assert_true(step(exec, 2));
    disarm(&b);
    assert_in_range(b.n_ops, 1, 6);
    assert_int_equal(ledger(&b, "ops.seen"), 12); /* two a launch */
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 6);
    assert_int_equal(ledger(&b, "weights.seen"), 1);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* Layer 1 has a kernel between its two calls that is told of A alone, layer 2 as many as may stand there, layer 0 one that is told
 * of the last bytes of W, layer 3 one too many. The last W of the graph has no product at all. */
static void other_kernels_between(void **state)
{
    struct bench b;
    void *exec;
    int i, l;

    (void)state;
    begin_capture();
    for (l = 0; l < 4; l++) {
        dequantize(capture_stream, l);
        for (i = 0; i < (l == 0 ? 1 : l == 1 ? 1 : l == 2 ? 4 : 5); i++)
            another_kernel(capture_stream, l ? buffer[0] : floats + K * K * 2 - 2);
        multiply(capture_stream, l, ROWS);
    }
    dequantize(capture_stream, 0);
    exec = end_capture();
    arm(&b, TAP_MODE_ALL);
    for (i = 0; i < 5; i++) {
        step(exec, 1);
        tap_front_cuda.tick();
    }
    assert_true(step(exec, 2));
    disarm(&b);
    assert_int_equal(ledger(&b, "weights.seen"), 2);
    assert_int_equal(ledger(&b, "ops.seen"), 6 * 5);
    assert_in_range(ledger(&b, "ops.dropped.graph"), 6 * 3, 6 * 5);
    assert_int_equal(ledger(&b, "ops.kept") + ledger(&b, "ops.dropped.graph") + ledger(&b, "ops.dropped.partial"), 6 * 5);
    bench_close(&b);
    cudaGraphExecDestroy(exec);
}

/* Two captures at once, and W of both at one address: the first one's product is not known, the second one's is. */
static void two_captures_at_once(void **state)
{
    void *first, *second, *other, *exec[2];
    struct bench b;
    int i;

    (void)state;
    assert_int_equal(cu.stream_create(&other, TD_CUDA_STREAM_NON_BLOCKING), 0);
    begin_capture();
    assert_int_equal(cudaStreamBeginCapture(other, 0), 0);
    dequantize(capture_stream, 0);
    dequantize(other, 1);
    multiply(capture_stream, 0, ROWS);
    multiply(other, 1, ROWS);
    assert_int_equal(cudaStreamEndCapture(capture_stream, &first), 0);
    assert_int_equal(cudaStreamEndCapture(other, &second), 0);
    exec[0] = instantiated(first), exec[1] = instantiated(second);
    arm(&b, TAP_MODE_ALL);
    for (i = 0; i < 5; i++) {
        step(exec[i % 2], 1);
        tap_front_cuda.tick();
    }
    disarm(&b);
    assert_int_equal(ledger(&b, "weights.seen"), 1);
    assert_int_equal(ledger(&b, "ops.seen"), 5);
    assert_int_equal(ledger(&b, "ops.kept") + ledger(&b, "ops.dropped.graph") + ledger(&b, "ops.dropped.partial"), 5);
    assert_in_range(ledger(&b, "ops.dropped.graph"), 3, 5);
    bench_close(&b);
    cudaGraphExecDestroy(exec[0]);
    cudaGraphExecDestroy(exec[1]);
    cu.stream_destroy(other);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_calls_are_one_op),
        cmocka_unit_test(what_came_between_parts_them),
        cmocka_unit_test(other_kernels_between),
        cmocka_unit_test(two_captures_at_once),
    };

    (void)argc;
    twins_on(argv, NULL);
    return cmocka_run_group_tests(tests, setup_awq, gpu_teardown);
}
