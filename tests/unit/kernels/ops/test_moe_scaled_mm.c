/* test_moe_scaled_mm.c - ops of kind "moe_scaled_mm": the reference against numpy's numbers, what the check refuses.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/kernels/ops/recorded_op.h"

static char *file;
static size_t file_size;

static int setup(void **state)
{
    (void)state;
    file = ggml_data_read("tests/unit/data/moe_scaled.bin", &file_size);
    return file ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(file);
    return 0;
}

static void op_of(const struct ggml_record *r, enum td_dtype a, struct td_op_call *op)
{
    const int64_t *s = r->array[0], m = s[0], n = s[1], k = s[2], e = s[3];

    start(op, "moe_scaled_mm", "none", s);
    op->attrs[op->n_attrs++] = (struct td_attr){"experts", e};
    put(op, "a", a, m, k, r, 1);
    put(op, "w", TD_DT_F8_E4M3, e * n, k, r, 2);
    op->in[1].ndim = 3;
    memcpy(op->in[1].shape, (int64_t[]){e, n, k}, 3 * sizeof(int64_t));
    memcpy(op->in[1].strides, (int64_t[]){n * k, k, 1}, 3 * sizeof(int64_t));
    put(op, "a_scales", TD_DT_F32, (int64_t)r->size[3] / 4, -1, r, 3);
    put(op, "w_scales", TD_DT_F32, e, r->size[4] == (size_t)e * 4 ? -1 : n, r, 4);
    put(op, "expert_offsets", TD_DT_I64, e, -1, r, 5);
    put(op, "problem_sizes", TD_DT_I32, e, 3, r, 6);
    set_out(op, TD_DT_F32, m, n);
}

static void check(const char *name, enum td_dtype a, int rows_of_nobody)
{
    const struct ggml_record r = ggml_data_find(file, file_size, name);
    const double *want = r.array[7], *mag = r.array[8];
    struct td_op_call op;
    struct td_op_ref ref;
    int absent = 0;

    op_of(&r, a, &op);
    ref = reference(&op);
    assert_ptr_equal(ref.r0, ref.r1);
    assert_int_equal(ref.rows * ref.cols * 8, r.size[7]);
    for (int64_t e = 0; e < ref.rows * ref.cols; e++) {
        assert_int_equal(td_op_ref_has_row(&ref, e / ref.cols), !isnan(want[e]));
        absent += isnan(want[e]) && e % ref.cols == 0;
        if (!isnan(want[e]) && (fabs(ref.r1[e] - want[e]) > 1e-13 * mag[e] || fabs(ref.mag[e] - mag[e]) > 1e-13 * mag[e]))
            fail_msg("%s: element %d is %.12g of %.12g, not %.12g of %.12g", name, (int)e, ref.r1[e], ref.mag[e], want[e], mag[e]);
    }
    assert_int_equal(absent, rows_of_nobody);
    td_op_ref_release(&ref);
}

static void test_it_is_numpy_s(void **state)
{
    (void)state;
    check("token", TD_DT_F8_E4M3, 0);
    check("tensor", TD_DT_F8_E4M3, 3);
    check("swapped", TD_DT_F8_E5M2, 0);
}

static void test_refuses(void **state)
{
    static const struct moe_scaled_form form = {TD_DT_F8_E4M3, TD_DT_F8_E4M3, TD_DT_BF16, true, true, false, 4};
    struct op_case t;
    int64_t *offsets;
    int32_t *sizes;

    (void)state;
    case_moe_scaled(&t, &form, 5, 8, 32, 0, true); /* experts of 0, 1, 2 and 0 rows */
    offsets = t.op.in[4].data, sizes = t.op.in[5].data;
    REFUSES(op.attrs[3].value = 0, TD_EINVAL, "attribute experts is out of range");
    REFUSES(op.attrs[3].value = 5000, TD_EINVAL, "5000 experts are more than an op can have");
    REFUSES(op.attrs[3].value = 3, TD_EINVAL, "tensor \"w\" is not a dense [8, 32] for each of 3 experts");
    REFUSES(op.in[0].dtype = TD_DT_I8, TD_EINVAL, "tensor \"a\": expected F8_E4M3 or F8_E5M2, found I8");
    REFUSES(op.in[1].strides[1] = 16, TD_EINVAL, "tensor \"w\" is not a dense");
    REFUSES(op.in[1].size_bytes--, TD_EINVAL, "1023 bytes, its shape and strides need 1024");
    REFUSES(op.in[1].data = NULL, TD_EINVAL, "tensor \"w\" has no data");
    REFUSES(op.in[2].shape[0] = 2, TD_EINVAL, "tensor \"a_scales\": expected shape [1, 1]");
    REFUSES(op.in[3].shape[1] = 7, TD_EINVAL, "tensor \"w_scales\": expected shape [4, 8]");
    REFUSES(op.in[4].dtype = TD_DT_I32, TD_EINVAL, "tensor \"expert_offsets\": expected I64, found I32");
    REFUSES(op.in[5].shape[1] = 2, TD_EINVAL, "tensor \"problem_sizes\": expected shape [4, 3]");
    REFUSES(op.n_in = 5, TD_EINVAL, "tensor \"problem_sizes\" is missing");
    REFUSES(op.out.shape[0] = 4, TD_EINVAL, "tensor \"c\": expected shape [5, 8]");
    REFUSES(strcpy(op.in[2].role, "azp"), TD_EUNSUPPORTED, "does not know what \"azp\" does");
    REFUSES(strcpy(op.act_rounding, "weight-f16"), TD_EUNSUPPORTED, "\"weight-f16\" is not known");
    REFUSES(sizes[3] = 7, TD_EINVAL, "expert 1 has 7 rows from row 0, A has 5");
    REFUSES(sizes[3] = -1, TD_EINVAL, "problem_sizes of expert 1 are -1, 8 and 32");
    REFUSES((sizes[3] = 1, sizes[4] = 9), TD_EINVAL, "problem_sizes of expert 1 are 1, 9 and 32");
    REFUSES((sizes[4] = 8, sizes[5] = 31), TD_EINVAL, "problem_sizes of expert 1 are 1, 8 and 31");
    REFUSES((sizes[5] = 32, offsets[1] = INT64_MAX), TD_EINVAL, "expert 1 has 1 rows from row 9223372036854775807");
    REFUSES(offsets[1] = -1, TD_EINVAL, "expert 1 has 1 rows from row -1");
    REFUSES(offsets[1] = 2, TD_EINVAL, "two experts have row 2");
    offsets[1] = 0, offsets[0] = 99;   /* of an expert without rows it does not matter */
    assert_int_equal(td_op_kind_find("moe_scaled_mm")->check(&t.op, NULL), 0);
    op_case_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_numpy_s),
        cmocka_unit_test(test_refuses),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
