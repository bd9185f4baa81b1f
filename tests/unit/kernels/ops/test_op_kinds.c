/* test_op_kinds.c - what kinds of op mean: their references against llama.cpp's and torch's numbers, what their checks refuse.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/providers/providers.h"
#include "tests/unit/kernels/ops/recorded_op.h"

static char *ggml, *gemm, *moe;
static size_t ggml_size, gemm_size, moe_size;

static int setup(void **state)
{
    (void)state;
    ggml = ggml_data_read("tests/unit/data/ggml.bin", &ggml_size);
    gemm = ggml_data_read("tests/unit/data/gemm.bin", &gemm_size);
    moe = ggml_data_read("tests/unit/data/moe.bin", &moe_size);
    return ggml && gemm && moe ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(ggml);
    free(gemm);
    free(moe);
    return 0;
}

/* ---- ggml_mul_mat -------------------------------------------------------------------------------------------------- */

static void mul_mat_of(const struct ggml_record *r, struct td_op_call *op)
{
    const int64_t *s = r->array[0], m = s[0], n = s[1], k = s[2], b2 = s[3], b3 = s[4], w2 = s[5], w3 = s[6], apart = s[7];
    const enum td_dtype dt = td_dtype_parse(r->name + 8);
    const int64_t kb = k / td_dtype_block(dt);

    start(op, "ggml_mul_mat", td_ggml_act_name(td_ggml_act_of(dt)), s);
    op->in[0] = (struct td_tensor){"a", TD_DT_F32, 4, {b3, b2, m, k}, {b2 * m * k, m * k, k, 1}, (void *)(uintptr_t)r->array[2], r->size[2], 4, {0, 0}};
    op->in[1] = (struct td_tensor){"w", dt, 4, {w3, w2, n, kb}, {w2 * n * kb, n * kb, kb * apart, 1}, (void *)(uintptr_t)r->array[1], r->size[1], 4, {0, 0}};
    op->n_in = 2;
    op->out = (struct td_tensor){"c", TD_DT_F32, 4, {b3, b2, m, n}, {b2 * m * n, m * n, n, 1}, NULL, r->size[3], 4, {0, 0}};
}

/* llama.cpp multiplies in float, in another order for each format; R1 must be what it means to compute, R0 must not. */
static void check_mul_mat(const struct ggml_record *r)
{
    const float *c = r->array[3];
    struct td_op_call op;
    struct td_op_ref ref;
    double worst = 0, worst_r0 = 0;

    mul_mat_of(r, &op);
    ref = reference(&op);
    assert_int_equal(ref.rows * ref.cols * 4, r->size[3]);
    for (int64_t e = 0; e < ref.rows * ref.cols; e++) {
        const double tolerance = 0x1p-24 * (fabs(ref.r1[e]) + sqrt((double)ref.inner) * ref.mag[e]);

        worst = fmax(worst, fabs((double)c[e] - ref.r1[e]) / tolerance);
        worst_r0 = fmax(worst_r0, fabs((double)c[e] - ref.r0[e]) / tolerance);
    }
    if (worst > 0.2)
        fail_msg("%s: error %.3g of the tolerance", r->name, worst);
    assert_int_equal(worst_r0 > 5, op.in[1].dtype != TD_DT_F32);
    td_op_ref_release(&ref);
}

static void test_mul_mat_is_llamacpp_s(void **state)
{
    struct ggml_record r;
    size_t at = 0;
    int seen = 0;

    (void)state;
    while (ggml_data_next(ggml, ggml_size, &at, &r))
        if (!strncmp(r.name, "mul_mat ", 8)) {
            check_mul_mat(&r);
            seen++;
        }
    assert_int_equal(seen, 30);
}

/* R0 and mag by the plain formula: w is the dequantised weight, mag counts the parts of those with a minimum. */
static void test_mul_mat_by_the_formula(void **state)
{
    struct op_case t;
    double w[512], scaled[512], min[32];

    (void)state;
    for (int dt = TD_DT_Q4_0; dt <= TD_DT_Q6_K; dt++) {
        const int step = td_ggml_min_step((enum td_dtype)dt);
        struct td_op_ref ref;

        case_mul_mat(&t, (enum td_dtype)dt, 2, 3, 512, (int64_t[]){1, 1, 1, 1}, 0, true);
        strcpy(t.op.act_rounding, "none");
        ref = reference(&t.op);
        assert_ptr_equal(ref.r0, ref.r1);
        for (int e = 0; e < 6; e++) {
            const float *a = (const float *)t.op.in[0].data + e / 3 * 512;
            const char *row = (const char *)t.op.in[1].data + (size_t)(e % 3) * t.op.in[1].size_bytes / 3;
            double r = 0, mag = 0, sum = 0;

            td_ggml_dequant_row((enum td_dtype)dt, row, 512, w);
            td_ggml_split_row((enum td_dtype)dt, row, 512, scaled, min);
            for (int j = 0; j < 512; j++) {
                r += w[j] * (double)a[j];
                mag += fabs(scaled[j] * (double)a[j]);
                sum += (double)a[j];
                if (step && j % step == step - 1) {
                    mag += fabs(min[j / step] * sum);
                    sum = 0;
                }
            }
            assert_true(fabs(ref.r0[e] - r) < 1e-12 * mag && fabs(ref.mag[e] - mag) < 1e-12 * mag);
        }
        td_op_ref_release(&ref);
        op_case_release(&t);
    }
}

static void test_mul_mat_refuses(void **state)
{
    struct op_case t;

    (void)state;
    case_mul_mat(&t, TD_DT_Q4_1, 3, 5, 96, (int64_t[]){1, 4, 1, 2}, 0, true);
    REFUSES(op.n_attrs = 2, TD_EINVAL, "attribute k is missing");
    REFUSES(op.attrs[2].value = 64, TD_EINVAL, "do not fit m 3, n 5, k 64");
    REFUSES(op.n_in = 1, TD_EINVAL, "tensor \"w\" is missing");
    REFUSES(op.in[0].data = NULL, TD_EINVAL, "tensor \"a\" has no data");
    REFUSES(op.in[0].dtype = TD_DT_F16, TD_EUNSUPPORTED, "A is F16 and C is F32; this version takes F32 only");
    REFUSES(op.in[1].dtype = TD_DT_I8, TD_EUNSUPPORTED, "weights of dtype I8 are not supported");
    REFUSES(op.in[1].ndim = 5, TD_EINVAL, "has 5 dimensions");
    REFUSES(op.in[1].size_bytes--, TD_EINVAL, "599 bytes, its shape and strides need 600");
    REFUSES(op.in[1].strides[3] = 2, TD_EUNSUPPORTED, "the elements of a row of \"w\" lie 2 apart");
    REFUSES(op.in[0].strides[2] = -1, TD_EINVAL, "make no sense");
    REFUSES(op.in[0].strides[2] = INT64_MAX / 2, TD_EINVAL, "make no sense");
    REFUSES((op.in[0].shape[1] = INT64_C(1) << 40, op.in[0].strides[1] = 0), TD_EINVAL, "larger than any real one");
    REFUSES(op.in[1].strides[0] = INT64_MAX, TD_EINVAL, "larger than any real one"); /* of one element: not used, but scaled */
    REFUSES((op.in[1].shape[0] = 0, op.in[1].strides[1] = -1), TD_EINVAL, "make no sense");
    REFUSES(op.in[1].shape[1] = 3, TD_EINVAL, "600 bytes, its shape and strides need 900");
    REFUSES((op.in[1].shape[1] = 3, op.in[1].strides[1] = 0), TD_EINVAL, "1 x 4 batches of A do not spread over 1 x 3 matrices of W");
    REFUSES(op.out.shape[2] = 2, TD_EINVAL, "C is [1, 4, 2, 5], expected [1, 4, 3, 5]");
    REFUSES(strcpy(op.act_rounding, "q9"), TD_EUNSUPPORTED, "the rounding of activations \"q9\" is not known");
    REFUSES(strcpy(op.act_rounding, "q8_K"), TD_EINVAL, "k 96 is no multiple of 256, a block of q8_K");
    REFUSES(op.in[0].data = (char *)op.in[0].data + 1, TD_EINVAL, "tensor \"a\" is not aligned");
    op_case_release(&t);
}

/* ---- gptq_gemm beyond td_gptq.h ------------------------------------------------------------------------------------ */

static void check_gptq(const char *name, enum td_dtype scales, enum td_dtype bias, const char *rounding)
{
    const struct ggml_record r = ggml_data_find(gemm, gemm_size, name);
    const int64_t *s = r.array[0], m = s[0], n = s[1], k = s[2], bits = s[3], group = s[4], pack = 32 / bits;
    const double *r0 = r.array[7], *r1 = r.array[8], *mag = r.array[9];
    struct td_op_call op;
    struct td_op_ref ref;
    double apart = 0;

    start(&op, "gptq_gemm", rounding, s);
    op.attrs[3] = (struct td_attr){"bits", bits};
    op.attrs[4] = (struct td_attr){"group_size", group};
    op.attrs[5] = (struct td_attr){"act_order", s[5]};
    op.n_attrs = 6;
    put(&op, "a", TD_DT_BF16, m, k, &r, 1);
    put(&op, "qweight", TD_DT_I32, k / pack, n, &r, 2);
    put(&op, "qzeros", TD_DT_I32, k / group, n / pack, &r, 3);
    put(&op, "scales", scales, k / group, n, &r, 4);
    put(&op, "g_idx", TD_DT_I32, k, -1, &r, 5);
    put(&op, "bias", bias, n, -1, &r, 6);
    set_out(&op, TD_DT_BF16, m, n);
    ref = reference(&op);
    for (int64_t e = 0; e < m * n; e++) {
        assert_true(fabs(ref.r0[e] - r0[e]) < 1e-13 * mag[e]);
        assert_true(fabs(ref.r1[e] - r1[e]) < 1e-13 * mag[e]);
        assert_true(fabs(ref.mag[e] - mag[e]) < 1e-13 * mag[e]);
        apart = fmax(apart, fabs(r1[e] - r0[e]) / mag[e]);
    }
    assert_true(apart > 1e-5); /* the rounding is no trifle */
    td_op_ref_release(&ref);
}

static void test_gptq_is_torch_s(void **state)
{
    (void)state;
    check_gptq("uint8 4", TD_DT_BF16, TD_DT_F32, "uint8-token");
    check_gptq("uint8 8 act", TD_DT_F16, TD_DT_BF16, "uint8-token");
    check_gptq("wbf16 4", TD_DT_BF16, TD_DT_BF16, "weight-bf16");
    check_gptq("wbf16 4 f32", TD_DT_F32, TD_DT_F32, "weight-bf16");
}

static void test_gptq_refuses(void **state)
{
    struct op_case t;

    (void)state;
    case_gptq(&t, &(struct gptq_form){TD_DT_BF16, TD_DT_BF16, "uint8-token", true, false, 4, 32}, 2, 16, 64, 0, true);
    REFUSES(op.out.dtype = TD_DT_F16, TD_EINVAL, "tensor \"c\": expected BF16, found F16");
    REFUSES(op.in[4].shape[0] = 15, TD_EINVAL, "tensor \"bias\": expected shape [16, 1]");
    REFUSES(op.in[4].dtype = TD_DT_I32, TD_EINVAL, "tensor \"bias\": expected F32 or F16 or BF16, found I32");
    REFUSES(strcpy(op.act_rounding, "int8-token"), TD_EUNSUPPORTED, "the rounding of activations \"int8-token\" is not known");
    op_case_release(&t);
}

/* ---- gemm ---------------------------------------------------------------------------------------------------------- */

static void check_gemm(const char *name, enum td_dtype dt, enum td_dtype bias)
{
    const struct ggml_record r = ggml_data_find(gemm, gemm_size, name);
    const int64_t *s = r.array[0];
    const double *c = r.array[4], *mag = r.array[5];
    struct td_op_call op;
    struct td_op_ref ref;

    start(&op, "gemm", "none", s);
    put(&op, "a", dt, s[0], s[2], &r, 1);
    put(&op, "w", dt, s[1], s[2], &r, 2);
    put(&op, "bias", bias, s[1], -1, &r, 3);
    set_out(&op, dt, s[0], s[1]);
    ref = reference(&op);
    for (int64_t e = 0; e < s[0] * s[1]; e++)
        assert_true(fabs(ref.r1[e] - c[e]) < 1e-13 * mag[e] && fabs(ref.mag[e] - mag[e]) < 1e-13 * mag[e]);
    td_op_ref_release(&ref);
}

static void test_gemm_is_torch_s(void **state)
{
    (void)state;
    check_gemm("plain BF16", TD_DT_BF16, TD_DT_BF16);
    check_gemm("plain F16", TD_DT_F16, TD_DT_F32);
    check_gemm("plain F32", TD_DT_F32, TD_DT_F32);
}

static void test_gemm_refuses(void **state)
{
    struct op_case t;

    (void)state;
    case_gemm(&t, TD_DT_BF16, 2, 5, 32, true, 0, true);
    REFUSES(op.attrs[3].value = 0, TD_EUNSUPPORTED, "trans_a 0, trans_b 0; this version takes W as [n, k] only");
    REFUSES(strcpy(op.in[2].role, "alpha"), TD_EUNSUPPORTED, "does not know what \"alpha\" does");
    REFUSES(strcpy(op.act_rounding, "bf16"), TD_EUNSUPPORTED, "\"bf16\" is not known");
    REFUSES(op.in[1].dtype = TD_DT_Q8_0, TD_EINVAL, "tensor \"w\": expected F32 or F16 or BF16, found Q8_0");
    REFUSES(op.in[1].shape[0] = 6, TD_EINVAL, "tensor \"w\": expected shape [5, 32]");
    REFUSES(op.in[1].size_bytes--, TD_EINVAL, "319 bytes, its shape and strides need 320");
    op_case_release(&t);
}

/* ---- moe_gemm ------------------------------------------------------------------------------------------------------ */

static void put_stack(struct td_op_call *op, const char *role, enum td_dtype dt, int64_t e, int64_t d0, int64_t d1,
                      const struct ggml_record *r, int array)
{
    struct td_tensor *t = &op->in[op->n_in];

    put(op, role, dt, e * d0, d1, r, array);
    t->ndim = 3;
    memcpy(t->shape, (int64_t[]){e, d0, d1}, 3 * sizeof(int64_t));
    memcpy(t->strides, (int64_t[]){d0 * d1, d1, 1}, 3 * sizeof(int64_t));
}

static void add_attr(struct td_op_call *op, const char *name, int64_t value)
{
    struct td_attr *a = &op->attrs[op->n_attrs++];

    snprintf(a->name, sizeof a->name, "%s", name);
    a->value = value;
}

static void moe_of(const struct ggml_record *r, enum td_dtype dt, const char *rounding, bool bias, struct td_op_call *op)
{
    static const char *const names[] = {"bits", "group_size", "act_order", "experts", "top_k", "block_size"};
    const int64_t *s = r->array[0], m = s[0], n = s[1], k = s[2], pack = 32 / s[3], groups = k / s[4], e = s[6], slots = m * s[7];
    static int32_t padded;

    start(op, "moe_gemm", rounding, s);
    for (int i = 0; i < 6; i++)
        add_attr(op, names[i], s[3 + i]);
    add_attr(op, "mul_topk_weights", s[10]);
    add_attr(op, "round_topk_weights", s[11]);
    put(op, "a", dt, m, k, r, 1);
    put_stack(op, "qweight", TD_DT_I32, e, k / pack, n, r, 2);
    put_stack(op, "qzeros", TD_DT_I32, e, groups, n / pack, r, 3);
    put_stack(op, "scales", dt, e, groups, n, r, 4);
    put(op, "g_idx", TD_DT_I32, e, k, r, 5);
    if (bias)
        put(op, "bias", dt, e, n, r, 6);
    put(op, "sorted_token_ids", TD_DT_I32, (int64_t)r->size[7] / 4, -1, r, 7);
    put(op, "expert_ids", TD_DT_I32, (int64_t)r->size[8] / 4, -1, r, 8);
    put(op, "topk_weights", TD_DT_F32, slots, -1, r, 9);
    padded = (int32_t)s[9];
    op->in[op->n_in++] = (struct td_tensor){"num_tokens_post_padded", TD_DT_I32, 1, {1}, {1}, &padded, 4, 4, {0, 0}};
    set_out(op, dt, slots, n);
}

static void check_moe(const char *name, enum td_dtype dt, const char *rounding, bool bias)
{
    const struct ggml_record r = ggml_data_find(moe, moe_size, name);
    const double *r0 = r.array[10], *r1 = r.array[11], *mag = r.array[12];
    struct td_op_call op;
    struct td_op_ref ref;
    double apart = 0;
    int absent = 0;

    moe_of(&r, dt, rounding, bias, &op);
    ref = reference(&op);
    assert_int_equal((size_t)(ref.rows * ref.cols) * sizeof *r0, r.size[10]);
    for (int64_t e = 0; e < ref.rows * ref.cols; e++) {
        assert_int_equal(td_op_ref_has_row(&ref, e / ref.cols), !isnan(r0[e]));
        absent += isnan(r0[e]) != 0;
        if (isnan(r0[e]))
            continue;
        assert_true(fabs(ref.r0[e] - r0[e]) < 1e-13 * mag[e]);
        assert_true(fabs(ref.r1[e] - r1[e]) < 1e-13 * mag[e]);
        assert_true(fabs(ref.mag[e] - mag[e]) < 1e-13 * mag[e]);
        apart = fmax(apart, fabs(r1[e] - r0[e]) / mag[e]);
    }
    assert_int_equal(apart > 1e-5, strcmp(rounding, "none") != 0);
    assert_int_equal(absent > 0, ((const int64_t *)r.array[0])[12] > 0);
    td_op_ref_release(&ref);
}

/* Where they are not multiplied by, topk_weights may be absent. */
static void test_moe_without_topk_weights(void **state)
{
    static const char *const names[] = {"moe f16", "moe bf16 mul"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct ggml_record r = ggml_data_find(moe, moe_size, names[i]);
        const double *r1 = r.array[11], *mag = r.array[12];
        struct td_error err = {0};
        struct td_op_call op;
        struct td_op_ref ref;

        moe_of(&r, i ? TD_DT_BF16 : TD_DT_F16, i ? "weight-bf16" : "weight-f16", i, &op);
        op.in[op.n_in - 2] = op.in[op.n_in - 1];
        op.n_in--;
        if (i) {
            assert_int_equal(td_op_kind_find("moe_gemm")->check(&op, &err), TD_EINVAL);
            assert_non_null(strstr(err.msg, "tensor \"topk_weights\" is missing"));
            continue;
        }
        ref = reference(&op);
        for (int64_t e = 0; e < ref.rows * ref.cols; e++)
            assert_true(fabs(ref.r1[e] - r1[e]) < 1e-13 * mag[e]);
        td_op_ref_release(&ref);
    }
}

static void test_moe_is_numpy_s(void **state)
{
    (void)state;
    check_moe("moe f16", TD_DT_F16, "weight-f16", false);
    check_moe("moe bf16 mul", TD_DT_BF16, "weight-bf16", true);
    check_moe("moe f16 8 act", TD_DT_F16, "none", false);
}

/* What a hostile fixture may hold: each would otherwise be an access beyond a tensor, or an answer that depends on an order. */
static void test_moe_refuses(void **state)
{
    static const struct moe_form form = {TD_DT_F16, TD_DT_F16, "weight-f16", true, true, true, true, 4, 32, 4, 2, 8};
    struct op_case t;
    int32_t *sorted, *experts, *padded, was;

    (void)state;
    case_moe(&t, &form, 5, 16, 64, 0, false, true);
    sorted = t.op.in[4].data, experts = t.op.in[5].data, padded = t.op.in[6].data;
    REFUSES(op.attrs[6].value = 0, TD_EINVAL, "attribute experts is out of range");
    REFUSES(op.attrs[6].value = 5000, TD_EINVAL, "more than an op can have");
    REFUSES(op.attrs[7].value = 0, TD_EINVAL, "attribute top_k is out of range");
    REFUSES(op.attrs[7].value = INT32_MAX, TD_EINVAL, "more than an op can have");
    REFUSES(op.attrs[8].value = 0, TD_EINVAL, "attribute block_size is out of range");
    REFUSES(op.attrs[8].value = 5000, TD_EINVAL, "more than an op can have");
    REFUSES(op.attrs[7].value = 3, TD_EINVAL, "tensor \"c\": expected shape [15, 16]");
    REFUSES(op.attrs[4].value = 7, TD_EINVAL, "moe_gemm: group_size is 7");
    REFUSES(op.attrs[6].value = 3, TD_EINVAL, "tensor \"qweight\" is not one of [8, 16] for each of 3 experts");
    REFUSES(op.in[1].ndim = 2, TD_EINVAL, "tensor \"qweight\" is not one of");
    REFUSES(op.in[1].strides[0] = 0, TD_EINVAL, "tensor \"qweight\": its strides do not describe dense rows");
    REFUSES(op.in[1].size_bytes--, TD_EINVAL, "2047 bytes, its shape and strides need 2048");
    REFUSES(op.in[2].data = NULL, TD_EINVAL, "tensor \"qzeros\" has no data");
    REFUSES(op.in[3].dtype = TD_DT_I32, TD_EINVAL, "tensor \"scales\": expected F32 or F16 or BF16, found I32");
    REFUSES(op.in[4].shape[0]++, TD_EINVAL, "tensor \"sorted_token_ids\": 152 bytes, its shape and strides need 156");
    REFUSES((op.in[4].ndim = 2, op.in[4].shape[1] = INT64_C(1) << 62, op.in[4].strides[1] = 1), TD_EINVAL, "is not a dense row of numbers");
    REFUSES(op.in[4].strides[0] = 2, TD_EINVAL, "is not a dense row of numbers");
    REFUSES(op.in[5].shape[0] = 1, TD_EINVAL, "with 1 expert_ids");
    REFUSES(op.in[6].shape[0] = 0, TD_EINVAL, "0 num_tokens_post_padded and 10 topk_weights, expected 1 and 10");
    REFUSES(op.in[7].shape[0]--, TD_EINVAL, "8 topk_weights, expected 1 and 10");
    REFUSES(op.in[7].dtype = TD_DT_I32, TD_EINVAL, "tensor \"topk_weights\": expected F32, found I32");
    REFUSES(op.in[8].shape[1]--, TD_EINVAL, "tensor \"g_idx\" is not one of");
    REFUSES(op.in[9].shape[0]--, TD_EINVAL, "tensor \"bias\" is not one of");
    REFUSES(op.n_in = 4, TD_EINVAL, "tensor \"g_idx\" is missing");
    REFUSES(strcpy(op.in[4].role, "ids"), TD_EINVAL, "tensor \"sorted_token_ids\" is missing");
    REFUSES(strcpy(op.act_rounding, "uint8-token"), TD_EUNSUPPORTED, "\"uint8-token\" is not known");
#define REFUSES_NUMBER(at, number, sentence)                                         \
    do {                                                                             \
        was = *(at);                                                                 \
        *(at) = number;                                                              \
        REFUSES((void)op, TD_EINVAL, sentence);                                      \
        *(at) = was;                                                                 \
    } while (0)
    REFUSES_NUMBER(padded, -8, "num_tokens_post_padded is -8");
    REFUSES_NUMBER(padded, 12, "num_tokens_post_padded is 12");
    REFUSES_NUMBER(padded, 1 << 20, "num_tokens_post_padded is 1048576");
    REFUSES_NUMBER(experts, 4, "expert_ids[0] is 4, there are 4 experts");
    REFUSES_NUMBER(experts, -2, "expert_ids[0] is -2");
    REFUSES_NUMBER(sorted, -1, "sorted_token_ids[0] is -1");
    REFUSES_NUMBER(sorted + 8, sorted[0], "two blocks compute slot");
    REFUSES_NUMBER((int32_t *)t.op.in[8].data + 70, 2, "g_idx[6] is 2, there are 2 groups");
    op_case_release(&t);
}

/* ---- providers ----------------------------------------------------------------------------------------------------- */

/* ref gives R1 rounded once; cpu something as near as its promise. Both say what they cannot do. */
static void test_providers_run_every_kind(void **state)
{
    static const struct gptq_form form = {TD_DT_BF16, TD_DT_BF16, "uint8-token", true, false, 4, 32};
    const struct td_provider *const all[] = {td_provider_find("ref"), td_provider_find("cpu")};
    struct td_error err = {0};

    (void)state;
    for (int i = 0; i < 8; i++) {
        const struct td_provider *p = all[i & 1];
        struct op_case t;
        struct td_op_ref ref;
        void *opened, *prepared;

        if (i / 2 == 0)
            case_mul_mat(&t, TD_DT_Q4_1, 3, 5, 96, (int64_t[]){2, 4, 1, 2}, 3, true);
        else if (i / 2 == 1)
            case_gemm(&t, TD_DT_BF16, 3, 5, 75, true, 2, true);
        else if (i / 2 == 2)
            case_scaled_mm(&t, &(struct scaled_form){TD_DT_F8_E4M3, TD_DT_F8_E4M3, TD_DT_BF16, true, true, true, 0, 0}, 3, 8, 96, 1, true);
        else
            case_gptq(&t, &form, 3, 8, 96, 1, true);
        ref = reference(&t.op);
        assert_int_equal(p->open(NULL, &opened, &err), 0);
        assert_null(p->supports(opened, &t.op));
        assert_int_equal(p->prepare(opened, &t.op, &prepared, &err), 0);
        assert_int_equal(p->run(opened, prepared, &err), 0);
        for (int64_t e = 0; e < 3 * ref.cols; e++) { /* the first batch */
            const double c = td_dtype_get(t.op.out.dtype, t.op.out.data, (size_t)(e / ref.cols * t.op.out.strides[t.op.out.ndim - 2] + e % ref.cols));

            if (fabs(c - ref.r1[e]) > (i < 2 ? 0x1p-24 : 0x1p-8) * fabs(ref.r1[e]) + (i & 1 ? 0x1p-24 * 10 * ref.mag[e] : 0))
                fail_msg("%s, %s: %.9g is not %.9g", p->name, t.op.kind, c, ref.r1[e]);
        }
        p->release(opened, prepared);
        strcpy(t.op.kind, "ggml_rope");
        assert_string_equal(p->supports(opened, &t.op), "ops of kind \"ggml_rope\" are not supported; this provider runs gptq_gemm ggml_mul_mat gemm moe_gemm scaled_mm moe_scaled_mm");
        p->close(opened);
        td_op_ref_release(&ref);
        op_case_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mul_mat_is_llamacpp_s),
        cmocka_unit_test(test_mul_mat_by_the_formula),
        cmocka_unit_test(test_mul_mat_refuses),
        cmocka_unit_test(test_gptq_is_torch_s),
        cmocka_unit_test(test_gptq_refuses),
        cmocka_unit_test(test_gemm_is_torch_s),
        cmocka_unit_test(test_gemm_refuses),
        cmocka_unit_test(test_moe_is_numpy_s),
        cmocka_unit_test(test_moe_without_topk_weights),
        cmocka_unit_test(test_moe_refuses),
        cmocka_unit_test(test_providers_run_every_kind),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
