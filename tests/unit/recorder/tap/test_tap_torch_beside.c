/* test_tap_torch_beside.c - calls of vLLM's operators that stand beside products, as the tap reads them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Schemas, shapes and strides are those of vLLM 0.26: csrc/libtorch_stable/torch_bindings.cpp, vllm/_custom_ops.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "recorder/tap/torch/torch_beside.h"
#include "tests/helpers/fake_torch.h"
#include "fake_torch_lib.h"

enum { ARGS = 10, M = 3, N = 64 };

static unsigned char gpu[1 << 16];      /* nobody reads what lies there */
struct call { struct fake_torch_tensor t[ARGS]; td_torch_value optional[ARGS], stack[ARGS]; };

static const struct tap_torch_meaning *meaning_of(const char *name, const char *text)
{
    static struct { struct tap_torch_schema schema; const struct tap_torch_meaning *meaning; } kept[64]; /* as a process has them */
    static size_t n;
    struct tap_torch_schema *schema = &kept[n].schema;

    assert_true(n < sizeof kept / sizeof *kept);
    assert_true(tap_torch_schema_read(text, schema));
    kept[n].meaning = tap_torch_meaning_of(name, schema);
    return kept[n++].meaning;
}

static void give(struct call *c, int at, int32_t dtype, int64_t d0, int64_t d1, int64_t stride)
{
    c->t[at] = (struct fake_torch_tensor){.ndim = d1 ? 2 : 1, .sizes = {d0, d1}, .strides = {stride, 1}, .dtype = dtype, .device = TD_TORCH_CUDA, .data = gpu + 4096 * at};
    c->stack[at] = (uintptr_t)&c->t[at];
}

static void make_optional(struct call *c, int at)
{
    c->optional[at] = c->stack[at];
    c->stack[at] = (uintptr_t)&c->optional[at];
}

static enum tap_torch_product read_call(const struct tap_torch_meaning *m, struct call *c, struct td_gpu_work *w)
{
    td_torch_tensor a = NULL;

    assert_non_null(m);
    return tap_torch_beside_read(m, c->stack, w, &a);
}

static void is_operand(const struct td_gpu_work *w, int i, const char *role, enum td_gpu_use use, const char *dtype, int at, int64_t d0, int64_t d1, int64_t stride)
{
    const struct td_gpu_operand *o = &w->op[i];
    const uint64_t size = !strcmp(dtype, "I64") ? 8 : !strcmp(dtype, "F32") || !strcmp(dtype, "I32") ? 4 : !strcmp(dtype, "I8") || !strncmp(dtype, "F8", 2) ? 1 : 2;

    assert_true(i < w->n_op);
    assert_string_equal(o->role, role);
    assert_string_equal(o->dtype, dtype);
    assert_int_equal(o->use, use);
    assert_int_equal(o->address, (uintptr_t)(gpu + 4096 * at));
    assert_int_equal(o->ndim, d1 ? 2 : 1);
    assert_true(o->shape[0] == d0 && (!d1 || o->shape[1] == d1));
    assert_int_equal(o->row_stride, stride);
    assert_int_equal(o->bytes, (uint64_t)(d0 * (d1 ? d1 : 1)) * size);
}

/* ---- rms_norm -------------------------------------------------------------------------------------------------------- */

#define RMS_NORM "rms_norm(Tensor! result, Tensor input, Tensor? weight, float epsilon) -> ()"

static void norm_call(struct call *c)
{
    const double epsilon = 1e-6;

    memset(c, 0, sizeof *c);
    give(c, 0, TD_TORCH_BF16, M, N, N);
    give(c, 1, TD_TORCH_BF16, M, N, N);
    give(c, 2, TD_TORCH_BF16, N, 0, 1);
    make_optional(c, 2);
    memcpy(&c->stack[3], &epsilon, sizeof epsilon);
}

static void test_a_norm(void **state)
{
    const struct tap_torch_meaning *m = meaning_of("_C::rms_norm", RMS_NORM);
    struct td_gpu_work w;
    struct call c;

    (void)state;
    norm_call(&c);
    c.t[1].strides[0] = N + 16;          /* rows of a larger tensor */
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_READ);
    assert_true(w.m == M && w.n == N && !w.k && w.beside && w.whole && !w.in_step && w.n_op == 3);
    is_operand(&w, 0, "a", TD_GPU_IN, "BF16", 1, M, N, N + 16);
    is_operand(&w, 1, "w", TD_GPU_WEIGHT, "BF16", 2, N, 0, N);
    is_operand(&w, 2, "c", TD_GPU_OUT, "BF16", 0, M, N, N);
    assert_string_equal(w.scalar, "eps");
    assert_true(w.scalar_value == 1e-6f);
    c.stack[2] = 0;                      /* None */
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_READ);
    assert_true(w.n_op == 2 && w.in_step); /* without weights it tells no step */
    c.t[1].sizes[0] = 0;
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_EMPTY);
}

/* The heads of q, which lie in a row with those of k and v: n is the length of a head. */
static void test_a_norm_of_heads(void **state)
{
    const struct tap_torch_meaning *m = meaning_of("_C::rms_norm", RMS_NORM);
    struct td_gpu_work w;
    struct call c;
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        norm_call(&c);
        c.t[0].ndim = c.t[1].ndim = 3;
        memcpy(c.t[0].sizes, (int64_t[]){M, 4, N}, 24), memcpy(c.t[0].strides, (int64_t[]){4 * N, N, 1}, 24);
        memcpy(c.t[1].sizes, (int64_t[]){M, 4, N}, 24), memcpy(c.t[1].strides, (int64_t[]){7 * N, i ? N + 8 : N, 1}, 24);
        assert_int_equal(read_call(m, &c, &w), i ? TAP_TORCH_UNKNOWN : TAP_TORCH_READ);
        if (i)
            continue;                    /* gaps between heads */
        assert_true(w.m == M && w.n == N);
        is_operand(&w, 0, "a", TD_GPU_IN, "BF16", 1, M, 4 * N, 7 * N);
        is_operand(&w, 2, "c", TD_GPU_OUT, "BF16", 0, M, 4 * N, 4 * N);
    }
}

static void test_norms_that_are_not_known(void **state)
{
    const struct tap_torch_meaning *m = meaning_of("_C::rms_norm", RMS_NORM);
    struct td_gpu_work w;
    struct call c;
    int i;

    (void)state;
    for (i = 0; i < 6; i++) {
        norm_call(&c);
        switch (i) {
        case 0: c.t[1].device = TD_TORCH_CPU; break;
        case 1: c.t[0].strides[1] = 2; break;
        case 2: c.t[1].dtype = 99; break;
        case 3: c.t[2].strides[0] = 2; break;
        case 4: c.t[0].no_storage = 1; break;
        default: c.t[1].strides[0] = N - 1; /* rows that overlap */
        }
        if (read_call(m, &c, &w) != TAP_TORCH_UNKNOWN)
            fail_msg("call %d was read", i);
    }
}

/* ---- operators that write over what they read, or write several tensors ------------------------------------------------ */

static void test_a_norm_that_adds(void **state)
{
    const struct tap_torch_meaning *m = meaning_of("_C::fused_add_rms_norm", "fused_add_rms_norm(Tensor! input, Tensor! residual, Tensor? weight, float epsilon) -> ()");
    struct td_gpu_work w;
    struct call c;

    (void)state;
    norm_call(&c);
    c.t[0].strides[0] = N + 16;
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_READ);
    assert_true(w.m == M && w.n == N && !w.in_step && w.n_op == 5 && tap_gpu_gemm_outputs(&w) == 2);
    is_operand(&w, 0, "a", TD_GPU_IN, "BF16", 0, M, N, N + 16);
    is_operand(&w, 1, "residual", TD_GPU_IN, "BF16", 1, M, N, N);
    is_operand(&w, 3, "c", TD_GPU_OUT, "BF16", 0, M, N, N + 16);
    is_operand(&w, 4, "c", TD_GPU_OUT, "BF16", 1, M, N, N);
}

#define ROTARY "rotary_embedding(Tensor positions, Tensor! query, Tensor!? key, int head_size, Tensor cos_sin_cache, bool is_neox, int rope_dim_offset=0, bool inverse=False) -> ()"

static void rotary_call(struct call *c)
{
    memset(c, 0, sizeof *c);
    give(c, 0, TD_TORCH_I64, M, 0, 1);
    give(c, 1, TD_TORCH_F16, M, 4 * N, 7 * N);
    give(c, 2, TD_TORCH_F16, M, N, 7 * N);
    make_optional(c, 2);
    c->stack[3] = N;
    give(c, 4, TD_TORCH_F16, 128, 32, 32);
    c->stack[5] = 0xff01, c->stack[6] = 8, c->stack[7] = 0xff00; /* of a bool one byte is meant */
}

static void test_a_rotary_embedding(void **state)
{
    const struct tap_torch_meaning *m = meaning_of("_C::rotary_embedding", ROTARY);
    static const struct td_gpu_attr want[] = {{"neox", 1}, {"offset", 8}, {"inverse", 0}};
    struct td_gpu_work w;
    struct call c;
    int i;

    (void)state;
    rotary_call(&c);
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_READ);
    assert_true(w.m == M && w.n == N && w.in_step && !w.scalar && w.n_op == 6 && tap_gpu_gemm_outputs(&w) == 2 && w.n_attr == 3);
    for (i = 0; i < 3; i++)
        assert_true(!strcmp(w.attr[i].name, want[i].name) && w.attr[i].value == want[i].value);
    is_operand(&w, 0, "positions", TD_GPU_IN, "I64", 0, M, 0, M);
    is_operand(&w, 1, "a", TD_GPU_IN, "F16", 1, M, 4 * N, 7 * N);
    is_operand(&w, 2, "key", TD_GPU_IN, "F16", 2, M, N, 7 * N);
    is_operand(&w, 3, "cos_sin", TD_GPU_WEIGHT, "F16", 4, 128, 32, 32);
    is_operand(&w, 4, "c", TD_GPU_OUT, "F16", 1, M, 4 * N, 7 * N);
    is_operand(&w, 5, "c", TD_GPU_OUT, "F16", 2, M, N, 7 * N);
    c.stack[2] = 0;                      /* no key */
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_READ);
    assert_true(w.n_op == 4 && tap_gpu_gemm_outputs(&w) == 1);
    c.t[0].ndim = 2, c.t[0].sizes[1] = 1; /* positions of several sequences */
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_UNKNOWN);
    rotary_call(&c);
    c.stack[3] = 0;
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_UNKNOWN);
}

static void test_quantisers(void **state)
{
    const struct tap_torch_meaning *made = meaning_of("_C::dynamic_scaled_int8_quant", "dynamic_scaled_int8_quant(Tensor! result, Tensor input, Tensor! scale, Tensor!? azp) -> ()"),
                                   *given = meaning_of("_C::static_scaled_fp8_quant", "static_scaled_fp8_quant(Tensor! result, Tensor input, Tensor scale, int[]? group_shape=None) -> ()");
    struct td_gpu_work w;
    struct call c;

    (void)state;
    memset(&c, 0, sizeof c);
    give(&c, 0, TD_TORCH_I8, M, N, N);
    give(&c, 1, TD_TORCH_F16, M, N, N);
    give(&c, 2, TD_TORCH_F32, M, 1, 1);
    assert_int_equal(read_call(made, &c, &w), TAP_TORCH_READ);
    assert_true(w.n == N && w.n_attr == 1 && !strcmp(w.attr[0].name, "code") && w.attr[0].value == 1 && tap_gpu_gemm_outputs(&w) == 2);
    is_operand(&w, 1, "c", TD_GPU_OUT, "I8", 0, M, N, N);
    is_operand(&w, 2, "c", TD_GPU_OUT, "F32", 2, M, 1, 1);
    give(&c, 3, TD_TORCH_I32, M, 1, 1);
    make_optional(&c, 3);
    assert_int_equal(read_call(made, &c, &w), TAP_TORCH_READ);
    assert_true(w.n_attr == 2 && !strcmp(w.attr[1].name, "azp") && w.attr[1].value == 1 && tap_gpu_gemm_outputs(&w) == 3);
    c.t[0].sizes[0] = M + 1;             /* padded: rows that nobody writes */
    assert_int_equal(read_call(made, &c, &w), TAP_TORCH_UNKNOWN);
    memset(&c, 0, sizeof c);
    give(&c, 0, TD_TORCH_F8_E4M3, M, N, N);
    give(&c, 1, TD_TORCH_BF16, M, N, N);
    give(&c, 2, TD_TORCH_F32, M, N / 16, N / 16);
    assert_int_equal(read_call(given, &c, &w), TAP_TORCH_READ);
    assert_true(w.attr[0].value == 2 && tap_gpu_gemm_outputs(&w) == 1);
    is_operand(&w, 1, "scale", TD_GPU_IN, "F32", 2, M, N / 16, N / 16);
    give(&c, 2, TD_TORCH_F32, N, 0, 1);  /* for each column, or for each row? */
    assert_int_equal(read_call(given, &c, &w), TAP_TORCH_UNKNOWN);
}

/* ---- operators that return their output -------------------------------------------------------------------------------- */

static void test_columns_in_another_order(void **state)
{
    const struct tap_torch_meaning *m = meaning_of("_C::permute_cols", "permute_cols(Tensor A, Tensor perm) -> Tensor");
    struct fake_torch_tensor c;
    struct td_gpu_work w;
    struct call call;

    (void)state;
    memset(&call, 0, sizeof call);
    give(&call, 0, TD_TORCH_BF16, M, N, N);
    give(&call, 1, TD_TORCH_I32, N, 0, 1);
    assert_int_equal(read_call(m, &call, &w), TAP_TORCH_READ);
    assert_true(w.m == M && w.n == N && w.in_step && w.n_op == 3 && !w.n_attr && !w.bits);
    is_operand(&w, 1, "perm", TD_GPU_IN, "I32", 1, N, 0, N);
    assert_true(w.op[2].address == TAP_GPU_LATER && w.op[2].use == TD_GPU_OUT && w.op[2].bytes == M * N * 2 && w.op[2].row_stride == N);
    c = call.t[0], c.data = gpu + 8192;
    assert_int_equal(tap_torch_beside_result(&w, (uintptr_t)&c), (uintptr_t)c.data);
    c.sizes[0]++;
    assert_int_equal(tap_torch_beside_result(&w, (uintptr_t)&c), 0);
    c = call.t[0], c.dtype = TD_TORCH_F16;
    assert_int_equal(tap_torch_beside_result(&w, (uintptr_t)&c), 0);
    c = call.t[0], c.strides[0]++;
    assert_int_equal(tap_torch_beside_result(&w, (uintptr_t)&c), 0);
    call.t[0].sizes[0] = 0;
    assert_int_equal(read_call(m, &call, &w), TAP_TORCH_EMPTY);
}

static int64_t attr_of(const struct td_gpu_work *w, const char *name)
{
    int i;

    for (i = 0; i < w->n_attr; i++)
        if (!strcmp(w->attr[i].name, name))
            return w->attr[i].value;
    return -1;
}

/* All of a small weight; of a large one every so many rows, an odd number. */
static void test_a_weight_that_becomes_floats(void **state)
{
    const struct tap_torch_meaning *m = meaning_of("_C::awq_dequantize", "awq_dequantize(Tensor _kernel, Tensor _scaling_factors, Tensor _zeros, SymInt split_k_iters, int thx, int thy) -> Tensor");
    struct td_gpu_work w;
    struct call c;
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        const int64_t k = i ? 4096 : 128, n = i ? 4096 : 64, every = i ? 33 : 1;

        memset(&c, 0, sizeof c);
        give(&c, 0, TD_TORCH_I32, k, n / 8, n / 8);
        give(&c, 1, TD_TORCH_F16, k / 32, n, n);
        give(&c, 2, TD_TORCH_I32, k / 32, n / 8, n / 8);
        assert_int_equal(read_call(m, &c, &w), TAP_TORCH_READ);
        assert_true(w.m == (k + every - 1) / every && w.n == n && w.k == k && w.bits == 4 && w.group_size == 32 && !w.in_step && w.n_op == 4);
        assert_true(attr_of(&w, "k") == k && attr_of(&w, "every") == every);
        is_operand(&w, 0, "qweight", TD_GPU_WEIGHT, "I32", 0, k, n / 8, n / 8);
        assert_string_equal(w.op[3].dtype, "F16");
        assert_true(w.op[3].address == TAP_GPU_LATER && w.op[3].shape[0] == w.m && w.op[3].row_stride == every * n && w.op[3].bytes == (uint64_t)(w.m * n * 2));
    }
    c.t[0].sizes[0] = c.t[1].sizes[0] * 32 + 1;  /* no groups */
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_UNKNOWN);
}

/* ---- rows ------------------------------------------------------------------------------------------------------------ */

/* Only with --all-ops is anything said of a row beside products that does not fit. */
static void test_rows_that_do_not_fit(void **state)
{
    (void)state;
    assert_null(tap_torch_row_that_does_not_fit(true));
    assert_null(meaning_of("_C::rms_norm", "rms_norm(Tensor result, Tensor input, Tensor? weight, float epsilon) -> ()"));
    assert_null(meaning_of("_C::rms_norm", "rms_norm(Tensor! result, Tensor input, Tensor? weight, int epsilon) -> ()"));
    assert_null(meaning_of("_C::rms_norm", "rms_norm(Tensor! out, Tensor input, Tensor? weight, float epsilon) -> ()"));
    assert_null(meaning_of("_C::rms_norm", "rms_norm(Tensor! result, Tensor input, Tensor? weight, float epsilon) -> Tensor"));
    assert_null(tap_torch_row_that_does_not_fit(false));
    assert_string_equal(tap_torch_row_that_does_not_fit(true), "_C::rms_norm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_norm),
        cmocka_unit_test(test_a_norm_of_heads),
        cmocka_unit_test(test_norms_that_are_not_known),
        cmocka_unit_test(test_a_norm_that_adds),
        cmocka_unit_test(test_a_rotary_embedding),
        cmocka_unit_test(test_quantisers),
        cmocka_unit_test(test_columns_in_another_order),
        cmocka_unit_test(test_a_weight_that_becomes_floats),
        cmocka_unit_test(test_rows_that_do_not_fit),
    };

    return cmocka_run_group_tests(tests, fake_torch_setup, NULL);
}
