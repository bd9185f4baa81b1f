/* test_tap_cuda_blas_lt.c - cublasLtMatmul as torch calls it, through the tap into a fixture; and all that is another product.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>

#include <cmocka.h>

#include "common/json.h"
#include "fake_gpu.h"
#include "tap_bench.h"
#include "tests/helpers/fake_cublaslt.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/gpu/gpu_driver.h"

#define LINEAR "_Z14fake_lt_linearPK6__halfS1_S1_PS_iiiii"
enum { N = 48, M = 5, LDA = K + 8, LDC = N + 16, F16 = TD_CUBLASLT_F16, BF16 = TD_CUBLASLT_BF16 };

typedef int matmul_fn TD_CUBLASLT_MATMUL_ARGS;
matmul_fn cublasLtMatmul;
int cublasGemmEx(void *handle, int trans_a, int trans_b, int m, int n, int k, const float *alpha, const uint16_t *a, int a_type, int lda, const uint16_t *b, int b_type, int ldb,
                 const float *beta, uint16_t *c, int c_type, int ldc, int compute, int algorithm);

/* The library lies in nobody's scope, as one that a Python module brings along does. */
static struct { void *kernel, *stream; int mode; } *handle;
static matmul_fn **inside_gemm_ex;
static uint64_t w, bias, other_bias, in, out, scales;

static void fill(uint64_t at, int n, int first)
{
    int i;

    for (i = 0; i < n; i++)
        ((uint16_t *)at)[i] = (uint16_t)(first + i % 999);
}

static int setup(void **state)
{
    void *lt, *cublas;
    int (*create)(void **);
    char path[600];
    int i;

    if (gpu_setup(state))
        return -1;
    snprintf(path, sizeof path, "%s/tests/helpers/lib_fake_cublaslt.so", getenv("O") ? getenv("O") : "build");
    lt = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cublas = dlopen("libcublas.so.13", RTLD_NOLOAD | RTLD_LAZY);
    if (!lt || !cublas)
        return -1;
    *(void **)&create = dlsym(lt, "cublasLtCreate");
    inside_gemm_ex = dlsym(cublas, "fake_cublas_lt");
    w = gpu_memory(N * K * 2), bias = gpu_memory(N * 2), other_bias = gpu_memory(N * 2), in = gpu_memory(4 * M * LDA * 2), out = gpu_memory(4 * M * LDC * 2);
    scales = gpu_memory(4 * (M + N));
    for (i = 0; i < M + N; i++)
        ((float *)scales)[i] = (float)(i + 1) / 64;
    fill(w, N * K, 0x2c00), fill(bias, N, 0x3400), fill(other_bias, N, 0x3800), fill(in, 4 * M * LDA, 0x3000);
    return create((void **)&handle) || !inside_gemm_ex;
}

/* ---- calls --------------------------------------------------------------------------------------------------------- */

struct asked { struct fake_lt desc, w, a, c, d; const float *alpha, *beta; };
static const float one = 1, nothing = 0;

/* torch's for a linear layer of m rows */
static struct asked ask(int type, int m, int lda, int ldc, uint64_t with_bias)
{
    return (struct asked){fake_lt_desc(with_bias), fake_lt_layout(type, K, N, K), fake_lt_layout(type, K, (uint64_t)m, (uint64_t)lda),
                          fake_lt_layout(type, N, (uint64_t)m, (uint64_t)ldc), fake_lt_layout(type, N, (uint64_t)m, (uint64_t)ldc), &one, &nothing};
}

static int multiply(const struct asked *x, int row)
{
    const int lda = (int)x->a.at[TD_CUBLASLT_LAYOUT_LD].value, ldc = (int)x->d.at[TD_CUBLASLT_LAYOUT_LD].value;
    uint16_t *a = (uint16_t *)in + row * lda, *d = (uint16_t *)out + row * ldc;
    int rc;

    errno = EDOM;
    rc = cublasLtMatmul(handle, &x->desc, x->alpha, (void *)w, &x->w, a, &x->a, x->beta, d, &x->c, d, &x->d, x, handle, 1 << 20, gpu_stream);
    assert_int_equal(errno, EDOM);
    return rc;
}

static void arm(struct bench *b)
{
    bench_open(b, TAP_MODE_ALL);
    assert_null(tap_front_cuda.start());
    gpu_pass(1, 1);
}

static void disarm(struct bench *b)
{
    cu.stream_synchronize(gpu_stream);
    gpu_pass(1, 2);
    tap_front_cuda.stop(20000);
    bench_read(b);
    check_balance(b);
}

/* Between two passes x is called once. */
static void record(struct bench *b, const struct asked *x)
{
    arm(b);
    assert_int_equal(multiply(x, 0), 0);
    disarm(b);
}

static void check_rows(const struct bench *b, const struct td_tensor_rec *t, uint64_t at, int rows, int cols, int stride)
{
    uint16_t dense[4 * M * LDA];
    int i;

    for (i = 0; i < rows; i++)
        memcpy(dense + i * cols, (uint16_t *)at + i * stride, (size_t)cols * 2);
    assert_int_equal(t->shape[0], rows);
    assert_int_equal(t->shape[1], cols);
    check_blob(b, t, dense, (size_t)(rows * cols) * 2);
}

static void check_op(const struct bench *b, const struct td_op *op, const char *dtype)
{
    assert_string_equal(op->kind, "gemm");
    assert_string_equal(op->impl.symbol, "cublasLtMatmul");
    assert_string_equal(op->impl.layout, "checkpoint");
    assert_string_equal(op->act_rounding, "none");
    assert_int_equal(op->step, b->steps[0].step);
    assert_int_equal(td_json_get_i64(op->attrs, "m", -1), M);
    assert_int_equal(td_json_get_i64(op->attrs, "n", -1), N);
    assert_int_equal(td_json_get_i64(op->attrs, "k", -1), K);
    assert_int_equal(td_json_get_i64(op->attrs, "trans_b", -1), 1);
    assert_string_equal(td_op_rec_in(op, "a")->dtype, dtype);
    assert_string_equal(td_op_rec_in(op, "w")->dtype, dtype);
    assert_string_equal(op->out.dtype, dtype);
    check_blob(b, td_op_rec_in(op, "w"), (void *)w, N * K * 2);
}

/* ---- what is an op ------------------------------------------------------------------------------------------------- */

static void a_layer_with_a_bias_is_an_op(void **state)
{
    const struct asked x = ask(F16, M, LDA, LDC, bias);
    double sum = fake_gptq_float(((uint16_t *)bias)[N - 1]);
    struct bench b;
    int r;

    (void)state;
    assert_int_equal(multiply(&x, 0), 0); /* asleep */
    record(&b, &x);
    assert_int_equal(b.n_ops, 2 * LAYERS + 1);
    check_op(&b, &b.ops[LAYERS], "F16");
    assert_string_equal(td_op_rec_in(&b.ops[LAYERS], "bias")->dtype, "F16");
    assert_int_equal(td_op_rec_in(&b.ops[LAYERS], "bias")->ndim, 1);
    check_blob(&b, td_op_rec_in(&b.ops[LAYERS], "bias"), (void *)bias, N * 2);
    check_rows(&b, td_op_rec_in(&b.ops[LAYERS], "a"), in, M, K, LDA);
    check_rows(&b, &b.ops[LAYERS].out, out, M, N, LDC);
    for (r = 0; r < K; r++)
        sum += (double)fake_gptq_float(((uint16_t *)in)[(M - 1) * LDA + r]) * fake_gptq_float(((uint16_t *)w)[(N - 1) * K + r]);
    assert_int_equal(((uint16_t *)out)[(M - 1) * LDC + N - 1], fake_gptq_half((float)sum)); /* the fake's, and what the op says it is */
    bench_close(&b);
}

static void one_without_a_bias_is_too(void **state)
{
    const struct asked x = ask(BF16, M, K, N, 0);
    struct bench b;

    (void)state;
    record(&b, &x);
    assert_int_equal(b.n_ops, 2 * LAYERS + 1);
    check_op(&b, &b.ops[LAYERS], "BF16");
    assert_null(td_op_rec_in(&b.ops[LAYERS], "bias"));
    check_rows(&b, &b.ops[LAYERS].out, out, M, N, N);
    bench_close(&b);
}

/* What a library leaves open, or says in another way, and means the same. */
static void the_same_said_otherwise(void **state)
{
    struct asked x = ask(BF16, M, K, N, bias);
    struct bench b;

    (void)state;
    fake_lt_set(&x.desc, TD_CUBLASLT_DESC_BIAS_DATA_TYPE, 4, BF16);
    fake_lt_set(&x.a, TD_CUBLASLT_LAYOUT_BATCH_MODE, 0, 0); /* not known */
    fake_lt_set(&x.c, TD_CUBLASLT_LAYOUT_LD, 8, N + 1);     /* not read */
    record(&b, &x);
    assert_int_equal(b.n_ops, 2 * LAYERS + 1);
    check_op(&b, &b.ops[LAYERS], "BF16");
    bench_close(&b);
}

/* Each is a product, also where its rows go on where the last call's ended. The second time no weights go over in between. */
static void calls_are_not_joined(void **state)
{
    const struct asked x = ask(F16, M, LDA, LDC, bias), y = ask(F16, M, LDA, LDC, other_bias), z = ask(F16, M, LDA, LDC, 0);
    struct bench b;
    int i;

    (void)state;
    arm(&b);
    for (i = 0; i < 2; i++)
        assert_int_equal(multiply(&x, 0) | multiply(&x, M) | multiply(&y, 2 * M) | multiply(&z, 3 * M), 0);
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS + 2 * 4);
    for (i = LAYERS; i < LAYERS + 2 * 4; i += 4) {
        check_rows(&b, &b.ops[i].out, out, M, N, LDC);
        check_blob(&b, td_op_rec_in(&b.ops[i], "bias"), (void *)bias, N * 2);
        check_op(&b, &b.ops[i + 1], "F16");
        check_blob(&b, td_op_rec_in(&b.ops[i + 1], "bias"), (void *)bias, N * 2);
        check_op(&b, &b.ops[i + 2], "F16");
        check_blob(&b, td_op_rec_in(&b.ops[i + 2], "bias"), (void *)other_bias, N * 2);
        check_op(&b, &b.ops[i + 3], "F16");
        assert_null(td_op_rec_in(&b.ops[i + 3], "bias"));
    }
    bench_close(&b);
}

/* ---- 8-bit floats -------------------------------------------------------------------------------------------------- */

enum { E4M3 = TD_CUBLASLT_E4M3, E5M2 = TD_CUBLASLT_E5M2 };

/* torch's _scaled_mm of m rows; one scale each, or one for each row and each column. */
static struct asked ask_scaled(int a, int of_w, int d, bool each, uint64_t with_bias)
{
    struct asked x = ask(d, M, LDA, LDC, with_bias);

    x.w = fake_lt_layout(of_w, K, N, K), x.a = fake_lt_layout(a, K, M, LDA);
    fake_lt_set(&x.desc, TD_CUBLASLT_DESC_A_SCALE_POINTER, 8, scales + 4 * M);
    fake_lt_set(&x.desc, TD_CUBLASLT_DESC_B_SCALE_POINTER, 8, scales);
    fake_lt_set(&x.desc, TD_CUBLASLT_DESC_A_SCALE_MODE, 4, each ? TD_CUBLASLT_OUTER_VECTOR : TD_CUBLASLT_SCALAR);
    fake_lt_set(&x.desc, TD_CUBLASLT_DESC_B_SCALE_MODE, 4, each ? TD_CUBLASLT_OUTER_VECTOR : TD_CUBLASLT_SCALAR);
    return x;
}

static void check_scaled(const struct bench *b, const struct td_op *op, const char *a, const char *of_w, const char *c, bool each)
{
    const struct td_tensor_rec *t = td_op_rec_in(op, "a");
    unsigned char dense[M * K];
    int i;

    assert_string_equal(op->kind, "scaled_mm");
    assert_string_equal(op->impl.symbol, "cublasLtMatmul");
    assert_string_equal(op->impl.layout, "checkpoint");
    assert_string_equal(op->act_rounding, tap_gpu_capability() == 90 ? "sum-e8m13" : "none");
    assert_int_equal(td_json_get_i64(op->attrs, "m", -1), M);
    assert_int_equal(td_json_get_i64(op->attrs, "n", -1), N);
    assert_int_equal(td_json_get_i64(op->attrs, "k", -1), K);
    assert_int_equal(td_json_get_i64(op->attrs, "block", -1), -1);
    for (i = 0; i < M; i++)
        memcpy(dense + i * K, (unsigned char *)in + i * LDA, K);
    assert_true(!strcmp(t->dtype, a) && t->shape[0] == M && t->shape[1] == K);
    check_blob(b, t, dense, sizeof dense);
    t = td_op_rec_in(op, "w");
    assert_true(!strcmp(t->dtype, of_w) && t->shape[0] == N && t->shape[1] == K);
    check_blob(b, t, (void *)w, N * K);
    t = td_op_rec_in(op, "a_scales");
    assert_true(!strcmp(t->dtype, "F32") && t->ndim == 1 && t->shape[0] == (each ? M : 1));
    check_blob(b, t, (void *)scales, each ? 4 * M : 4);
    t = td_op_rec_in(op, "w_scales");
    assert_true(!strcmp(t->dtype, "F32") && t->ndim == 1 && t->shape[0] == (each ? N : 1));
    check_blob(b, t, (char *)scales + 4 * M, each ? 4 * N : 4);
    assert_string_equal(op->out.dtype, c);
    check_rows(b, &op->out, out, M, N, LDC);
}

static void a_product_of_eight_bits_is_an_op(void **state)
{
    struct asked x = ask_scaled(E4M3, E4M3, BF16, false, 0);
    struct bench b;

    (void)state;
    record(&b, &x);
    assert_int_equal(b.n_ops, 2 * LAYERS + 1);
    check_scaled(&b, &b.ops[LAYERS], "F8_E4M3", "F8_E4M3", "BF16", false);
    assert_null(td_op_rec_in(&b.ops[LAYERS], "bias"));
    bench_close(&b);
    x = ask_scaled(E5M2, E4M3, F16, true, bias);
    record(&b, &x);
    assert_int_equal(b.n_ops, 2 * LAYERS + 1);
    check_scaled(&b, &b.ops[LAYERS], "F8_E5M2", "F8_E4M3", "F16", true);
    assert_string_equal(td_op_rec_in(&b.ops[LAYERS], "bias")->dtype, "F16");
    check_blob(&b, td_op_rec_in(&b.ops[LAYERS], "bias"), (void *)bias, N * 2);
    bench_close(&b);
    x = ask_scaled(E4M3, E5M2, BF16, false, 0);
    fake_lt_set(&x.desc, TD_CUBLASLT_DESC_A_SCALE_MODE, 0, 0); /* a library that knows no modes */
    fake_lt_set(&x.desc, TD_CUBLASLT_DESC_B_SCALE_MODE, 0, 0);
    record(&b, &x);
    assert_int_equal(b.n_ops, 2 * LAYERS + 1);
    check_scaled(&b, &b.ops[LAYERS], "F8_E4M3", "F8_E5M2", "BF16", false);
    bench_close(&b);
}

/* ---- what is none -------------------------------------------------------------------------------------------------- */

/* It is passed on as it is, its kernel counted by its name. */
static void check_left_alone(const struct asked *x)
{
    const uint64_t before = say->calls(LINEAR);
    uint16_t c[M * LDC];
    struct bench b;

    memset((void *)out, 0, sizeof c);
    assert_int_equal(multiply(x, 0), 0); /* asleep */
    cu.stream_synchronize(gpu_stream);
    memcpy(c, (void *)out, sizeof c);
    memset((void *)out, 0, sizeof c);
    record(&b, x);
    assert_int_equal(say->calls(LINEAR), before + 2);
    assert_memory_equal(c, (void *)out, sizeof c);
    assert_int_equal(ledger(&b, "ops.seen"), 2 * LAYERS);
    assert_int_equal(ledger(&b, "launches.known"), 2 * LAYERS);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    bench_close(&b);
}

static void another_product_is_left_alone(void **state)
{
    enum { DESC, OF_W, OF_A, OF_C, OF_D };
#define D(name) DESC, TD_CUBLASLT_DESC_##name
#define L(of, name) of, TD_CUBLASLT_LAYOUT_##name
    static const struct { int of, attribute; uint32_t bytes; uint64_t value; } changes[] = {
        {D(EPILOGUE), 4, 36}, {D(EPILOGUE), 4, 6}, {D(EPILOGUE), 4, 4 | 128}, {D(EPILOGUE), 0, 0}, {D(EPILOGUE), 8, TD_CUBLASLT_BIAS}, {D(EPILOGUE), FAKE_LT_SHORT, TD_CUBLASLT_BIAS},
        {D(COMPUTE_TYPE), 4, 64}, {D(COMPUTE_TYPE), 0, 0}, {D(TRANSA), 4, 0}, {D(TRANSB), 4, 1}, {D(TRANSC), 4, 1}, {D(FILL_MODE), 4, 0},
        {D(BIAS_POINTER), 0, 0}, {D(BIAS_DATA_TYPE), 4, 0}, {D(A_SCALE_POINTER), 8, 64}, {D(B_SCALE_POINTER), 8, 64}, {D(C_SCALE_POINTER), 8, 64}, {D(D_SCALE_POINTER), 8, 64},
        {D(D_SCALE_POINTER), 0, 0}, {L(OF_W, TYPE), 4, 0}, {L(OF_A, TYPE), 4, BF16}, {L(OF_C, TYPE), 4, 0}, {L(OF_D, TYPE), 4, 0}, {L(OF_W, ORDER), 4, 1}, {L(OF_A, ORDER), 4, 1},
        {L(OF_D, ORDER), 4, 1}, {L(OF_A, BATCH_COUNT), 4, 2}, {L(OF_D, BATCH_COUNT), 0, 0}, {L(OF_A, BATCH_MODE), 4, 1}, {L(OF_W, LD), 8, K + 8}, {L(OF_W, ROWS), 8, K - 8},
        {L(OF_W, COLS), 8, N - 8}, {L(OF_A, COLS), 8, M + 1}, {L(OF_A, LD), 4, LDA}};
    const struct asked wide = ask(TD_CUBLASLT_F32, M, LDA, LDC, bias);
    size_t i;

    (void)state;
    check_left_alone(&wide);
    for (i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct asked x = ask(F16, M, LDA, LDC, bias);
        struct fake_lt *const of[] = {&x.desc, &x.w, &x.a, &x.c, &x.d};

        of[changes[i].of]->at[changes[i].attribute].bytes = changes[i].bytes;
        if (changes[i].bytes)
            of[changes[i].of]->at[changes[i].attribute].value = changes[i].value;
        check_left_alone(&x);
    }
}

static void other_scales_are_left_alone(void **state)
{
    enum { DESC, OF_W, OF_A, OF_C, OF_D };
    static const struct { int of, attribute; uint32_t bytes; uint64_t value; } changes[] = {
        {D(A_SCALE_POINTER), 8, 0}, {D(B_SCALE_POINTER), 8, 0}, {D(A_SCALE_POINTER), 0, 0}, {D(C_SCALE_POINTER), 8, 64}, {D(D_SCALE_POINTER), 8, 64},
        {D(AMAX_D_POINTER), 8, 64}, {D(AMAX_D_POINTER), 0, 0}, {D(A_SCALE_MODE), 4, 1}, {D(A_SCALE_MODE), 4, 2}, {D(B_SCALE_MODE), 4, 4}, {D(B_SCALE_MODE), 4, 5},
        {L(OF_W, TYPE), 4, BF16}, {L(OF_A, TYPE), 4, F16}, {L(OF_A, TYPE), 4, 30}, {L(OF_D, TYPE), 4, E4M3}, {L(OF_C, TYPE), 4, F16}, {L(OF_W, LD), 8, K + 8},
        {D(BIAS_DATA_TYPE), 4, F16}, {D(TRANSA), 4, 0}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct asked x = ask_scaled(E4M3, E4M3, BF16, false, bias);
        struct fake_lt *const of[] = {&x.desc, &x.w, &x.a, &x.c, &x.d};

        of[changes[i].of]->at[changes[i].attribute].bytes = changes[i].bytes;
        if (changes[i].bytes)
            of[changes[i].of]->at[changes[i].attribute].value = changes[i].value;
        check_left_alone(&x);
    }
}

/* Factors are read where they are floats that the host can read. */
static void factors_are_looked_at(void **state)
{
    const float *const on_the_device = (const float *)16;
    struct asked x = ask(F16, M, LDA, LDC, bias);

    (void)state;
    x.beta = &one;
    check_left_alone(&x);
    x.beta = x.alpha = &nothing;
    check_left_alone(&x);
    x.alpha = x.beta = on_the_device;
    fake_lt_set(&x.desc, TD_CUBLASLT_DESC_POINTER_MODE, 4, 1);
    check_left_alone(&x);
    fake_lt_set(&x.desc, TD_CUBLASLT_DESC_POINTER_MODE, 4, TD_CUBLASLT_HOST);
    fake_lt_set(&x.desc, TD_CUBLASLT_DESC_SCALE_TYPE, 4, F16);
    check_left_alone(&x);
}

static void what_fails_is_no_op(void **state)
{
    const struct asked x = ask(F16, M, LDA, LDC, bias);
    struct bench b;

    (void)state;
    setenv("TD_FAKE_BLAS", "refuse", 1);
    arm(&b);
    assert_int_equal(multiply(&x, 0), 14);
    unsetenv("TD_FAKE_BLAS");
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.failed"), 1);
    bench_close(&b);
}

/* ---- one within the other ------------------------------------------------------------------------------------------ */

static void gemm_ex(const float *beta)
{
    assert_int_equal(cublasGemmEx(handle, 1, 0, N, M, K, &one, (uint16_t *)w, F16, K, (uint16_t *)in, F16, K, beta, (uint16_t *)out, F16, N, 68, -1), 0);
}

/* cublasGemmEx may leave its product to cublasLtMatmul: that is one op. What it is not taken for, the other is not either; after it, calls are seen again. */
static void a_product_within_another_is_one_op(void **state)
{
    const struct asked x = ask(F16, M, K, N, 0);
    const uint64_t before = say->calls(LINEAR);
    struct bench b;

    (void)state;
    handle->stream = gpu_stream;
    *inside_gemm_ex = cublasLtMatmul;
    arm(&b);
    gemm_ex(&nothing);
    gemm_ex(&one);
    *inside_gemm_ex = NULL;
    assert_int_equal(multiply(&x, M), 0);
    disarm(&b);
    assert_int_equal(say->calls(LINEAR), before + 3);
    assert_int_equal(b.n_ops, 2 * LAYERS + 2);
    assert_int_equal(ledger(&b, "ops.seen"), 2 * LAYERS + 2);
    assert_string_equal(b.ops[LAYERS].impl.symbol, "cublasGemmEx");
    assert_int_equal(cJSON_GetArraySize(b.ops[LAYERS].impl.launches), 1);
    check_rows(&b, &b.ops[LAYERS].out, out, M, N, N);
    check_op(&b, &b.ops[LAYERS + 1], "F16");
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_with_a_bias_is_an_op),
        cmocka_unit_test(one_without_a_bias_is_too),
        cmocka_unit_test(the_same_said_otherwise),
        cmocka_unit_test(calls_are_not_joined),
        cmocka_unit_test(a_product_of_eight_bits_is_an_op),
        cmocka_unit_test(another_product_is_left_alone),
        cmocka_unit_test(other_scales_are_left_alone),
        cmocka_unit_test(factors_are_looked_at),
        cmocka_unit_test(what_fails_is_no_op),
        cmocka_unit_test(a_product_within_another_is_one_op),
    };

    return cmocka_run_group_tests(tests, setup, gpu_teardown);
}
