/* test_scaled_mm.c - ops of kind "scaled_mm": 8-bit floats and the reference against numpy's numbers, what the check refuses.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/kernels/ops/recorded_op.h"

static char *eight;
static size_t eight_size;

static int setup(void **state)
{
    (void)state;
    eight = ggml_data_read("tests/unit/data/scaled.bin", &eight_size);
    return eight ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(eight);
    return 0;
}

static void test_eight_bit_floats_are_numpy_s(void **state)
{
    static const struct { const char *name; enum td_dtype dt; } types[] = {{"e4m3", TD_DT_F8_E4M3}, {"e5m2", TD_DT_F8_E5M2}};

    (void)state;
    for (int t = 0; t < 2; t++) {
        const struct ggml_record r = ggml_data_find(eight, eight_size, types[t].name);
        const float *want = r.array[0];

        assert_int_equal(r.size[0], 256 * 4);
        for (int b = 0; b < 256; b++) {
            const unsigned char byte = (unsigned char)b;
            const double got = td_dtype_get(types[t].dt, &byte, 0);

            assert_true(isnan(want[b]) ? isnan(got) : got == (double)want[b] && !signbit(got) == !signbit(want[b]));
        }
    }
}

static void scaled_op(const struct ggml_record *r, enum td_dtype a, enum td_dtype w, struct td_op_call *op)
{
    const int64_t *s = r->array[0], block = s[3];

    start(op, "scaled_mm", "none", s);
    if (block)
        op->attrs[op->n_attrs++] = (struct td_attr){"block", block};
    put(op, "a", a, s[0], s[2], r, 1);
    put(op, "w", w, s[1], s[2], r, 2);
    if (block) {
        put(op, "a_scales", TD_DT_F32, (s[2] + block - 1) / block, s[0], r, 3);
        put(op, "w_scales", TD_DT_F32, (s[1] + block - 1) / block, (s[2] + block - 1) / block, r, 4);
    } else {
        put(op, "a_scales", TD_DT_F32, (int64_t)r->size[3] / 4, -1, r, 3);
        put(op, "w_scales", TD_DT_F32, (int64_t)r->size[4] / 4, -1, r, 4);
    }
    if (r->size[5])
        put(op, "bias", TD_DT_F32, s[1], -1, r, 5);
    if (r->size[6])
        put(op, "azp_adj", TD_DT_I32, s[1], -1, r, 6);
    if (r->size[7])
        put(op, "azp", TD_DT_I32, s[0], -1, r, 7);
    set_out(op, TD_DT_F32, s[0], s[1]);
}

/* numpy's numbers in double; and those in float32 steps, which a kernel takes, lie within the promise. */
static void check_scaled(const char *name, enum td_dtype a, enum td_dtype w)
{
    const struct ggml_record r = ggml_data_find(eight, eight_size, name);
    const double *want = r.array[8], *mag = r.array[9];
    const float *steps = r.array[10];
    struct td_op_call op;
    struct td_op_ref ref;

    scaled_op(&r, a, w, &op);
    ref = reference(&op);
    assert_ptr_equal(ref.r0, ref.r1);
    assert_int_equal(ref.rows * ref.cols * 8, r.size[8]);
    for (int64_t e = 0; e < ref.rows * ref.cols; e++) {
        if (fabs(ref.r1[e] - want[e]) > 1e-13 * mag[e] || fabs(ref.mag[e] - mag[e]) > 1e-13 * mag[e])
            fail_msg("%s: element %d is %.12g of %.12g, not %.12g of %.12g", name, (int)e, ref.r1[e], ref.mag[e], want[e], mag[e]);
        assert_true(fabs((double)steps[e] - ref.r1[e]) <= 4 * 0x1p-24 * (fabs(ref.r1[e]) + sqrt((double)ref.inner) * ref.mag[e]));
    }
    td_op_ref_release(&ref);
}

static void test_scaled_mm_is_numpy_s(void **state)
{
    (void)state;
    check_scaled("tensor", TD_DT_F8_E4M3, TD_DT_F8_E4M3);
    check_scaled("token", TD_DT_F8_E4M3, TD_DT_F8_E4M3);
    check_scaled("e5m2 a", TD_DT_F8_E5M2, TD_DT_F8_E4M3);
    check_scaled("block", TD_DT_F8_E4M3, TD_DT_F8_E4M3);
    check_scaled("block odd", TD_DT_F8_E4M3, TD_DT_F8_E4M3);
    check_scaled("int8", TD_DT_I8, TD_DT_I8);
    check_scaled("int8 bias", TD_DT_I8, TD_DT_I8);
    check_scaled("azp tensor", TD_DT_I8, TD_DT_I8);
    check_scaled("azp token", TD_DT_I8, TD_DT_I8);
}

static void test_scaled_mm_refuses(void **state)
{
    struct op_case t;

    (void)state;
    case_scaled_mm(&t, &(struct scaled_form){TD_DT_I8, TD_DT_I8, TD_DT_F16, true, true, true, 0, 2}, 2, 5, 32, 0, true);
    REFUSES(op.in[1].dtype = TD_DT_F8_E4M3, TD_EINVAL, "tensor \"w\": expected I8, found F8_E4M3");
    REFUSES(op.in[0].dtype = TD_DT_U8, TD_EINVAL, "tensor \"a\": expected I8 or F8_E4M3 or F8_E5M2, found U8");
    REFUSES(op.in[2].shape[0] = 3, TD_EINVAL, "tensor \"a_scales\": expected shape [1, 1]");
    REFUSES(op.in[3].dtype = TD_DT_F16, TD_EINVAL, "tensor \"w_scales\": expected F32, found F16");
    REFUSES(op.in[5].shape[0] = 1, TD_EINVAL, "tensor \"azp\": expected shape [2, 1]");
    REFUSES(strcpy(op.in[4].role, "zero"), TD_EUNSUPPORTED, "does not know what \"zero\" does");
    REFUSES(op.in[4] = op.in[5], TD_EINVAL, "and an azp to an azp_adj");
    REFUSES(op.in[5].data = NULL, TD_EINVAL, "tensor \"azp\" has no data");
    REFUSES(strcpy(op.act_rounding, "q8_1"), TD_EUNSUPPORTED, "\"q8_1\" is not known");
    REFUSES((op.attrs[3] = (struct td_attr){"block", 128}, op.n_attrs = 4), TD_EUNSUPPORTED, "no blocks of I8");
    op_case_release(&t);
    case_scaled_mm(&t, &(struct scaled_form){TD_DT_F8_E4M3, TD_DT_F8_E4M3, TD_DT_F16, false, false, false, 128, 0}, 2, 140, 150, 0, true);
    REFUSES(op.attrs[3].value = 64, TD_EUNSUPPORTED, "blocks of 64; this version knows blocks of 128");
    REFUSES(op.in[2].shape[0] = 1, TD_EINVAL, "tensor \"a_scales\": expected shape [2, 2]");
    REFUSES(op.in[3].shape[1] = 1, TD_EINVAL, "tensor \"w_scales\": expected shape [2, 2]");
    REFUSES(op.in[1].size_bytes--, TD_EINVAL, "20999 bytes, its shape and strides need 21000");
    op_case_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eight_bit_floats_are_numpy_s),
        cmocka_unit_test(test_scaled_mm_is_numpy_s),
        cmocka_unit_test(test_scaled_mm_refuses),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
