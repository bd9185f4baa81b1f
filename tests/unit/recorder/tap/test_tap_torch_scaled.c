/* test_tap_torch_scaled.c - calls of vLLM's cutlass_scaled_mm and cutlass_scaled_mm_azp, as the tap reads them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Shapes and strides of the arguments are those that vLLM 0.26 gives: kernels/linear/scaled_mm/cutlass.py, and
 * per_token_group_quant_fp8 of layers/quantization/utils/fp8_utils.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "recorder/tap/gpu/gpu_driver.h"
#include "recorder/tap/torch/torch_product.h"
#include "tests/helpers/fake_torch.h"
#include "fake_torch_lib.h"

/* As vLLM 0.26 registers them. */
#define PLAIN "cutlass_scaled_mm(Tensor! out, Tensor a, Tensor b, Tensor a_scales, Tensor b_scales, Tensor? bias) -> ()"
#define AZP "cutlass_scaled_mm_azp(Tensor! out, Tensor a, Tensor b, Tensor a_scales, Tensor b_scales, Tensor azp_adj, Tensor? azp, Tensor? bias) -> ()"
enum { OUT, A, B, A_SCALES, B_SCALES, BIAS, ADJ = BIAS, AZP_AT, AZP_BIAS, ARGS };
enum { M = 3, N = 256, K = 384 };

static unsigned char gpu[1 << 16];      /* nobody reads what lies there */
struct call { struct fake_torch_tensor t[ARGS]; td_torch_value optional[ARGS], stack[ARGS]; };

static const struct tap_torch_meaning *meaning(int azp)
{
    static struct tap_torch_schema schema[2];
    static const struct tap_torch_meaning *m[2];

    if (!m[azp]) {
        assert_true(tap_torch_schema_read(azp ? AZP : PLAIN, &schema[azp]));
        m[azp] = tap_torch_meaning_of(azp ? "_C::cutlass_scaled_mm_azp" : "_C::cutlass_scaled_mm", &schema[azp]);
    }
    assert_non_null(m[azp]);
    return m[azp];
}

static void give(struct call *c, int at, int32_t dtype, int64_t d0, int64_t d1, int64_t s0, int64_t s1)
{
    c->t[at] = (struct fake_torch_tensor){.ndim = 2, .sizes = {d0, d1}, .strides = {s0, s1}, .dtype = dtype, .device = TD_TORCH_CUDA, .data = gpu + 4096 * at};
    c->stack[at] = (uintptr_t)&c->t[at];
}

static void give_optional(struct call *c, int at, int32_t dtype, int64_t n)
{
    give(c, at, dtype, n, 1, 1, 1);
    c->t[at].ndim = 1;
    c->optional[at] = c->stack[at];
    c->stack[at] = (uintptr_t)&c->optional[at];
}

/* FP8 with scales for each token and for the tensor. */
static void plain_call(struct call *c)
{
    memset(c, 0, sizeof *c);
    give(c, OUT, TD_TORCH_BF16, M, N, N, 1);
    give(c, A, TD_TORCH_F8_E4M3, M, K, K, 1);
    give(c, B, TD_TORCH_F8_E4M3, K, N, 1, K);
    give(c, A_SCALES, TD_TORCH_F32, M, 1, 1, 1);
    give(c, B_SCALES, TD_TORCH_F32, 1, 1, 1, 1);
    c->t[B_SCALES].ndim = 0;
}

/* FP8 with scales for blocks: A's column after column, B's a transposed [N / 128, K / 128]. */
static void block_call(struct call *c, int64_t m)
{
    plain_call(c);
    c->t[OUT].sizes[0] = c->t[A].sizes[0] = m;
    give(c, A_SCALES, TD_TORCH_F32, m, K / 128, 1, m);
    give(c, B_SCALES, TD_TORCH_F32, K / 128, N / 128, 1, K / 128);
}

static void azp_call(struct call *c)
{
    plain_call(c);
    c->t[A].dtype = c->t[B].dtype = TD_TORCH_I8;
    give(c, B_SCALES, TD_TORCH_F32, N, 1, 1, 1);
    give(c, ADJ, TD_TORCH_I32, 1, N, N, 1);
    give_optional(c, AZP_AT, TD_TORCH_I32, M);
}

static enum tap_torch_product product(int azp, struct call *c, struct td_gpu_work *w)
{
    td_torch_tensor a = NULL;
    enum tap_torch_product is = tap_torch_product_read(meaning(azp), c->stack, w, &a);

    assert_true(is != TAP_TORCH_READ || a == &c->t[A]);
    return is;
}

static void is_operand(const struct td_gpu_work *w, int i, const char *role, const char *dtype, int at, int ndim, int64_t d0, int64_t d1)
{
    const struct td_gpu_operand *o = &w->op[i];

    assert_string_equal(o->role, role);
    assert_string_equal(o->dtype, dtype);
    assert_int_equal(o->address, (uintptr_t)(gpu + 4096 * at));
    assert_int_equal(o->ndim, ndim);
    assert_int_equal(o->shape[0], d0);
    assert_int_equal(ndim > 1 ? o->shape[1] : d1, d1);
    assert_int_equal(o->bytes, (uint64_t)(d0 * (ndim > 1 ? d1 : 1)) * (!strncmp(dtype, "F8", 2) || !strcmp(dtype, "I8") ? 1 : !strcmp(dtype, "BF16") ? 2 : 4));
}

static void test_scales_of_tokens_and_tensors(void **state)
{
    struct td_gpu_work w;
    struct call c;

    (void)state;
    plain_call(&c);
    c.t[A].strides[0] = K + 16;          /* rows of a larger tensor */
    c.t[OUT].strides[0] = N + 16;
    assert_int_equal(product(0, &c, &w), TAP_TORCH_READ);
    assert_true(w.m == M && w.n == N && w.k == K && !w.n_attr && !w.bits && w.whole);
    assert_string_equal(w.rounding, "none");
    assert_int_equal(w.n_op, 5);
    is_operand(&w, 0, "a", "F8_E4M3", A, 2, M, K);
    is_operand(&w, 1, "w", "F8_E4M3", B, 2, N, K);
    is_operand(&w, 2, "a_scales", "F32", A_SCALES, 1, M, 0);
    is_operand(&w, 3, "w_scales", "F32", B_SCALES, 1, 1, 0);
    is_operand(&w, 4, "c", "BF16", OUT, 2, M, N);
    assert_int_equal(w.op[0].row_stride, K + 16);
    assert_int_equal(w.op[1].row_stride, K);
    assert_int_equal(w.op[4].row_stride, N + 16);
    assert_true(w.op[1].use == TD_GPU_WEIGHT && w.op[2].use == TD_GPU_IN && w.op[3].use == TD_GPU_WEIGHT && w.op[4].use == TD_GPU_OUT);
    /* one scale for all of A, one for each channel, a bias */
    give(&c, A_SCALES, TD_TORCH_F32, 1, 1, 1, 1);
    give(&c, B_SCALES, TD_TORCH_F32, N, 1, 1, 1);
    give_optional(&c, BIAS, TD_TORCH_BF16, N);
    assert_int_equal(product(0, &c, &w), TAP_TORCH_READ);
    is_operand(&w, 2, "a_scales", "F32", A_SCALES, 1, 1, 0);
    is_operand(&w, 3, "w_scales", "F32", B_SCALES, 1, N, 0);
    is_operand(&w, 4, "bias", "BF16", BIAS, 1, N, 0);
    c.t[A].sizes[0] = 0;
    assert_int_equal(product(0, &c, &w), TAP_TORCH_EMPTY);
}

/* ---- a device that cuts sums ---- */

static int major, minor, no_device;

static int fake_device(int *device)
{
    *device = 3;
    return no_device;
}

static int fake_attribute(int *value, int attribute, int device)
{
    assert_int_equal(device, 3);
    *value = attribute == TD_CUDA_DEV_CAPABILITY_MAJOR ? major : minor;
    return 0;
}

static const char *rounding_on(int capability, bool integers)
{
    static struct td_gpu_work w;
    struct call c;

    major = capability / 10, minor = capability % 10;
    plain_call(&c);
    if (integers)
        c.t[A].dtype = c.t[B].dtype = TD_TORCH_I8;
    assert_int_equal(product(0, &c, &w), TAP_TORCH_READ);
    return w.rounding;
}

static void test_hopper_cuts_sums(void **state)
{
    (void)state;
    tap_driver.ctx_device = fake_device, tap_driver.device_attribute = fake_attribute;
    assert_string_equal(rounding_on(90, false), "sum-e8m13");
    assert_string_equal(rounding_on(90, true), "none");
    assert_string_equal(rounding_on(89, false), "none");
    assert_string_equal(rounding_on(100, false), "none");
    no_device = 1;
    assert_string_equal(rounding_on(90, false), "none");
    no_device = 0;
    tap_driver.ctx_device = NULL, tap_driver.device_attribute = NULL;
    assert_string_equal(rounding_on(90, false), "none");
}

static void test_scales_of_blocks(void **state)
{
    struct td_gpu_work w;
    struct call c;
    int64_t m;

    (void)state;
    for (m = 1; m <= 5; m += 2) {
        block_call(&c, m);
        if (m == 1)                      /* as torch has the transpose of one column */
            c.t[A_SCALES].strides[1] = 1;
        if (m == 5)                      /* columns that begin at 16 bytes */
            c.t[A_SCALES].strides[1] = 8;
        assert_int_equal(product(0, &c, &w), TAP_TORCH_READ);
        assert_int_equal(w.n_attr, 1);
        assert_string_equal(w.attr[0].name, "block");
        assert_int_equal(w.attr[0].value, 128);
        is_operand(&w, 2, "a_scales", "F32", A_SCALES, 2, K / 128, m);
        is_operand(&w, 3, "w_scales", "F32", B_SCALES, 2, N / 128, K / 128);
        assert_int_equal(w.op[2].row_stride, m == 5 ? 8 : m);
    }
}

static void test_zero_points(void **state)
{
    struct td_gpu_work w;
    struct call c;

    (void)state;
    azp_call(&c);
    assert_int_equal(product(1, &c, &w), TAP_TORCH_READ);
    assert_int_equal(w.n_op, 7);
    is_operand(&w, 0, "a", "I8", A, 2, M, K);
    is_operand(&w, 4, "azp_adj", "I32", ADJ, 1, N, 0);
    is_operand(&w, 5, "azp", "I32", AZP_AT, 1, M, 0);
    assert_true(w.op[4].use == TD_GPU_WEIGHT && w.op[5].use == TD_GPU_IN);
    c.stack[AZP_AT] = 0;                 /* None: it is in azp_adj */
    assert_int_equal(product(1, &c, &w), TAP_TORCH_READ);
    assert_int_equal(w.n_op, 6);
    is_operand(&w, 5, "c", "BF16", OUT, 2, M, N);
}

/* What is not of these forms is no op: it would be one with another meaning. */
static void test_calls_that_are_not_known(void **state)
{
    struct td_gpu_work w;
    struct call c;
    int i;

    (void)state;
    for (i = 0; i < 12; i++) {
        plain_call(&c);
        if (i > 8)
            block_call(&c, M);
        switch (i) {
        case 0: c.t[B].strides[0] = N, c.t[B].strides[1] = 1; break; /* row-major */
        case 1: c.t[B].strides[1] = K + 16; break;
        case 2: c.t[A].dtype = TD_TORCH_I8; break;
        case 3: c.t[A].dtype = c.t[B].dtype = TD_TORCH_BF16; break;
        case 4: c.t[A_SCALES].dtype = TD_TORCH_F16; break;
        case 5: c.t[OUT].sizes[1] = N / 2; break;
        case 6: c.t[OUT].strides[1] = 2; break;
        case 7: c.t[A_SCALES].strides[0] = 2; break;
        case 8: c.t[OUT].device = TD_TORCH_CPU; break;
        case 9: c.t[A_SCALES].sizes[1] = K / 64; break; /* blocks of 64 */
        case 10: c.t[B_SCALES].sizes[1] = N / 64; break;
        default: c.t[B_SCALES].strides[0] = N / 128, c.t[B_SCALES].strides[1] = 1; /* another order than the kernel reads */
        }
        if (product(0, &c, &w) != TAP_TORCH_UNKNOWN)
            fail_msg("call %d was read", i);
    }
    azp_call(&c);
    c.t[ADJ].dtype = TD_TORCH_F32;
    assert_int_equal(product(1, &c, &w), TAP_TORCH_UNKNOWN);
    azp_call(&c);
    c.t[AZP_AT].sizes[0] = M + 1;
    assert_int_equal(product(1, &c, &w), TAP_TORCH_UNKNOWN);
}

/* ---- with experts ---------------------------------------------------------------------------------------------------- */

#define MOE "cutlass_moe_mm(Tensor! out_tensors, Tensor a_tensors, Tensor b_tensors,                Tensor a_scales, Tensor b_scales, Tensor expert_offsets, " \
            "Tensor problem_sizes, Tensor a_strides,                Tensor b_strides, Tensor c_strides, bool per_act_token,                bool per_out_ch) -> ()"
enum { MOE_OUT, MOE_A, MOE_B, MOE_A_SCALES, MOE_B_SCALES, MOE_OFFSETS, MOE_SIZES, MOE_A_STRIDES, MOE_B_STRIDES, MOE_C_STRIDES, MOE_PER_TOKEN, MOE_PER_CHANNEL, MOE_ARGS };
enum { EXPERTS = 4 };
struct moe_call { struct fake_torch_tensor t[MOE_ARGS]; td_torch_value stack[MOE_ARGS]; };

static void moe_give(struct moe_call *c, int at, int32_t dtype, int ndim, int64_t d0, int64_t d1, int64_t d2)
{
    struct fake_torch_tensor *t = &c->t[at];
    int64_t n = 1;
    int i;

    *t = (struct fake_torch_tensor){.ndim = ndim, .sizes = {d0, d1, d2}, .dtype = dtype, .device = TD_TORCH_CUDA, .data = gpu + 4096 * at};
    for (i = ndim - 1; i >= 0; n *= t->sizes[i--])
        t->strides[i] = n;
    c->stack[at] = (uintptr_t)t;
}

/* Scales for each token and each channel, as dynamic quantisation has them. */
static void moe_call(struct moe_call *c)
{
    memset(c, 0, sizeof *c);
    moe_give(c, MOE_OUT, TD_TORCH_BF16, 2, M, N, 0);
    moe_give(c, MOE_A, TD_TORCH_F8_E4M3, 2, M, K, 0);
    moe_give(c, MOE_B, TD_TORCH_F8_E4M3, 3, EXPERTS, N, K);
    moe_give(c, MOE_A_SCALES, TD_TORCH_F32, 2, M, 1, 0);
    moe_give(c, MOE_B_SCALES, TD_TORCH_F32, 3, EXPERTS, N, 1);
    moe_give(c, MOE_OFFSETS, TD_TORCH_I64, 1, EXPERTS, 0, 0);
    moe_give(c, MOE_SIZES, TD_TORCH_I32, 2, EXPERTS, 3, 0);
    moe_give(c, MOE_A_STRIDES, TD_TORCH_I64, 1, EXPERTS, 0, 0);
    moe_give(c, MOE_B_STRIDES, TD_TORCH_I64, 1, EXPERTS, 0, 0);
    moe_give(c, MOE_C_STRIDES, TD_TORCH_I64, 1, EXPERTS, 0, 0);
    c->stack[MOE_PER_TOKEN] = 0xab01, c->stack[MOE_PER_CHANNEL] = 0xcd01; /* bools are one byte of what lies there */
}

static enum tap_torch_product moe_product(struct moe_call *c, struct td_gpu_work *w)
{
    static struct tap_torch_schema schema;
    static const struct tap_torch_meaning *m;
    td_torch_tensor a;

    if (!m) {
        assert_true(tap_torch_schema_read(MOE, &schema));
        assert_int_equal(schema.n_args, MOE_ARGS);
        m = tap_torch_meaning_of("_C::cutlass_moe_mm", &schema);
    }
    assert_non_null(m);
    return tap_torch_product_read(m, c->stack, w, &a);
}

static void is_tensor(const struct td_gpu_work *w, int i, const char *role, const char *dtype, int ndim, int64_t d0, int64_t d1, uint64_t bytes)
{
    assert_string_equal(w->op[i].role, role);
    assert_string_equal(w->op[i].dtype, dtype);
    assert_true(w->op[i].ndim == ndim && w->op[i].shape[0] == d0 && (ndim < 2 || w->op[i].shape[1] == d1) && w->op[i].bytes == bytes);
}

static void test_experts(void **state)
{
    struct td_gpu_work w;
    struct moe_call c;
    int i;

    (void)state;
    moe_call(&c);
    assert_int_equal(moe_product(&c, &w), TAP_TORCH_READ);
    assert_true(w.m == M && w.n == N && w.k == K && w.n_op == 7 && w.n_attr == 1 && w.attr[0].value == EXPERTS && w.whole);
    assert_string_equal(w.attr[0].name, "experts");
    assert_string_equal(w.rounding, "none");
    tap_driver.ctx_device = fake_device, tap_driver.device_attribute = fake_attribute;
    major = 9, minor = 0;
    assert_int_equal(moe_product(&c, &w), TAP_TORCH_READ);
    assert_string_equal(w.rounding, "sum-e8m13");
    tap_driver.ctx_device = NULL, tap_driver.device_attribute = NULL;
    is_tensor(&w, 0, "a", "F8_E4M3", 2, M, K, M * K);
    is_tensor(&w, 1, "w", "F8_E4M3", 3, EXPERTS, N, EXPERTS * N * K);
    is_tensor(&w, 2, "a_scales", "F32", 1, M, 0, M * 4);
    is_tensor(&w, 3, "w_scales", "F32", 2, EXPERTS, N, EXPERTS * N * 4);
    is_tensor(&w, 4, "expert_offsets", "I64", 1, EXPERTS, 0, EXPERTS * 8);
    is_tensor(&w, 5, "problem_sizes", "I32", 2, EXPERTS, 3, EXPERTS * 12);
    is_tensor(&w, 6, "c", "BF16", 2, M, N, M * N * 2);
    assert_true(w.op[1].use == TD_GPU_WEIGHT && w.op[3].use == TD_GPU_WEIGHT && w.op[5].use == TD_GPU_IN);
    c.stack[MOE_PER_TOKEN] = 0xab00, c.stack[MOE_PER_CHANNEL] = 0xcd00; /* one scale, of which the kernel reads the first; one for each expert */
    moe_give(&c, MOE_B_SCALES, TD_TORCH_F32, 2, EXPERTS, 1, 0);
    assert_int_equal(moe_product(&c, &w), TAP_TORCH_READ);
    is_tensor(&w, 2, "a_scales", "F32", 1, 1, 0, 4);
    is_tensor(&w, 3, "w_scales", "F32", 1, EXPERTS, 0, EXPERTS * 4);
    c.t[MOE_A_SCALES].ndim = 0;
    assert_int_equal(moe_product(&c, &w), TAP_TORCH_READ);
    for (i = 0; i < 12; i++) {
        moe_call(&c);
        switch (i) {
        case 0: c.t[MOE_A].dtype = TD_TORCH_I8; break;
        case 1: c.t[MOE_A].strides[0] = K + 16; break; /* experts' rows are found by k */
        case 2: moe_give(&c, MOE_B, TD_TORCH_F8_E4M3, 3, EXPERTS, N, K + 16); break;
        case 3: moe_give(&c, MOE_B, TD_TORCH_F8_E4M3, 2, N, K, 0); break;
        case 4: moe_give(&c, MOE_A_SCALES, TD_TORCH_F32, 1, M + 1, 0, 0); break;
        case 5: c.t[MOE_A_SCALES].dtype = TD_TORCH_F16; break;
        case 6: moe_give(&c, MOE_B_SCALES, TD_TORCH_F32, 2, EXPERTS, 1, 0); break;
        case 7: moe_give(&c, MOE_B_SCALES, TD_TORCH_F32, 2, N, EXPERTS, 0); break;
        case 8: c.t[MOE_OFFSETS].dtype = TD_TORCH_I32; break;
        case 9: c.t[MOE_OFFSETS].sizes[0] = EXPERTS + 1; break;
        case 10: moe_give(&c, MOE_SIZES, TD_TORCH_I32, 2, EXPERTS, 4, 0); break;
        default: moe_give(&c, MOE_OUT, TD_TORCH_BF16, 2, M, N + 1, 0);
        }
        if (moe_product(&c, &w) != TAP_TORCH_UNKNOWN)
            fail_msg("case %d was read", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scales_of_tokens_and_tensors),
        cmocka_unit_test(test_hopper_cuts_sums),
        cmocka_unit_test(test_scales_of_blocks),
        cmocka_unit_test(test_zero_points),
        cmocka_unit_test(test_calls_that_are_not_known),
        cmocka_unit_test(test_experts),
    };

    return cmocka_run_group_tests(tests, fake_torch_setup, NULL);
}
