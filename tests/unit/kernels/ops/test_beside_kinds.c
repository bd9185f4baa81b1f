/* test_beside_kinds.c - kinds beside products: what their checks refuse, and numbers that are no numbers. Right answers: e2e 087.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops/op_kinds.h"
#include "kernels/ops/store_rounded.h"
#include "tests/unit/kernels/ops/recorded_op.h"

static float a[64], b[64], w[64], eps = 1e-5f, table[64];
static int64_t positions[8];
static struct { struct td_op_call op; } t;

static void add(const char *role, enum td_dtype dt, int64_t d0, int64_t d1, void *data)
{
    struct td_tensor *x = &t.op.in[t.op.n_in++];

    *x = (struct td_tensor){.dtype = dt, .ndim = d1 < 0 ? 1 : 2, .shape = {d0, d1}, .strides = {d1 < 0 ? 1 : d1, 1}, .data = data,
                            .size_bytes = (size_t)(d0 * (d1 < 0 ? 1 : d1)) * td_dtype_size(dt), .align = 4};
    snprintf(x->role, sizeof x->role, "%s", role);
}

static void attr(const char *name, int64_t value)
{
    snprintf(t.op.attrs[t.op.n_attrs].name, sizeof t.op.attrs->name, "%s", name);
    t.op.attrs[t.op.n_attrs++].value = value;
}

static void begin(const char *kind, int64_t n)
{
    memset(&t, 0, sizeof t);
    snprintf(t.op.kind, sizeof t.op.kind, "%s", kind);
    attr("m", 2);
    attr("n", n);
    for (int i = 0; i < 64; i++)
        a[i] = (float)(i % 7) - 3, b[i] = (float)(i % 5) - 2, w[i] = 1;
}

static void test_norms_refuse(void **state)
{
    (void)state;
    begin("rms_norm", 8);
    add("a", TD_DT_F32, 2, 16, a);
    add("eps", TD_DT_F32, 1, -1, &eps);
    add("w", TD_DT_F32, 8, -1, w);
    set_out(&t.op, TD_DT_F32, 2, 16);
    td_op_ref_release(&(struct td_op_ref[]){reference(&t.op)}[0]);
    REFUSES(op.attrs[1].value = 7, TD_EINVAL, "expected shape [7");
    REFUSES((op.attrs[1].value = 7, op.n_in = 2), TD_EINVAL, "rows of 16 are no multiple of n 7");
    REFUSES(op.attrs[1].value = 0, TD_EINVAL, "attribute n is out of range");
    REFUSES(op.n_attrs = 1, TD_EINVAL, "attribute n is missing");
    REFUSES(op.attrs[0].value = 3, TD_EINVAL, "tensor \"a\": expected shape [3, 16]");
    REFUSES(op.in[0].dtype = TD_DT_I8, TD_EINVAL, "tensor \"a\": expected F32 or F16 or BF16");
    REFUSES(op.in[0].size_bytes--, TD_EINVAL, "its shape and strides need 128");
    REFUSES(op.in[0].shape[1] = 0, TD_EINVAL, "rows of 0 elements");
    REFUSES(op.in[0].data = NULL, TD_EINVAL, "has no data");
    REFUSES(strcpy(op.in[1].role, "epsilon"), TD_EUNSUPPORTED, "does not know what \"epsilon\" does");
    REFUSES((op.in[1] = op.in[2], op.n_in = 2), TD_EINVAL, "tensor \"eps\" is missing");
    REFUSES(op.in[1].data = &(float){-1}, TD_EINVAL, "eps is -1");
    REFUSES(op.in[1].data = &(float){NAN}, TD_EINVAL, "eps is");
    REFUSES(op.out.shape[1] = 8, TD_EINVAL, "tensor \"c\": expected shape [2, 16]");
    REFUSES(strcpy(op.act_rounding, "weight-f16"), TD_EUNSUPPORTED, "the rounding \"weight-f16\" is not known");
    attr("part", 1);
    REFUSES(op.n_attrs += 0, TD_EINVAL, "part 1, a call has 1 outputs");
    strcpy(t.op.kind, "fused_add_rms_norm");
    REFUSES(op.n_attrs += 0, TD_EINVAL, "tensor \"residual\" is missing");
    add("residual", TD_DT_F32, 2, 8, b);
    REFUSES(op.n_attrs += 0, TD_EINVAL, "the residual is not of a's type and shape");
}

static void test_activations_refuse(void **state)
{
    (void)state;
    begin("silu_and_mul", 8);
    add("a", TD_DT_F32, 2, 16, a);
    set_out(&t.op, TD_DT_F32, 2, 8);
    td_op_ref_release(&(struct td_op_ref[]){reference(&t.op)}[0]);
    REFUSES(op.attrs[1].value = 5, TD_EINVAL, "rows of 16 are no multiple of 2 n, n 5");
    REFUSES(op.out.shape[1] = 16, TD_EINVAL, "expected shape [2, 8]");
}

static void test_rotary_embeddings_refuse(void **state)
{
    (void)state;
    begin("rotary_embedding", 8);
    attr("neox", 1);
    attr("part", 1);
    add("a", TD_DT_F32, 2, 16, a);
    add("key", TD_DT_F32, 2, 8, b);
    add("positions", TD_DT_I64, 2, -1, positions);
    add("cos_sin", TD_DT_F32, 8, 8, table);
    set_out(&t.op, TD_DT_F32, 2, 8);
    positions[1] = 7;
    td_op_ref_release(&(struct td_op_ref[]){reference(&t.op)}[0]);
    REFUSES(positions[1] = 8, TD_EINVAL, "position 8 of row 1 is beyond the table, which has 8");
    REFUSES(positions[1] = -1, TD_EINVAL, "position -1 of row 1");
    positions[1] = INT64_MAX;
    REFUSES(op.n_in += 0, TD_EINVAL, "of row 1 is beyond the table");
    positions[1] = 0;
    REFUSES(op.attrs[2].value = INT64_MIN, TD_EINVAL, "attribute neox is missing");
    REFUSES(op.in[3].shape[1] = op.in[3].strides[0] = 7, TD_EINVAL, "do not fit together");
    REFUSES((op.in[3].shape[1] = op.in[3].strides[0] = 16, op.in[3].shape[0] = 4), TD_EINVAL, "do not fit together");
    REFUSES(op.attrs[1].value = 3, TD_EINVAL, "do not fit together");
    REFUSES(op.in[3].ndim = 1, TD_EINVAL, "tensor \"cos_sin\"");
    REFUSES((op.in[1] = op.in[3], op.n_in = 3), TD_EINVAL, "part 1, a call has 1 outputs");
}

static void test_quantisers_refuse(void **state)
{
    (void)state;
    begin("scaled_quant", 16);
    attr("code", 1);
    add("a", TD_DT_F32, 2, 16, a);
    set_out(&t.op, TD_DT_I8, 2, 16);
    td_op_ref_release(&(struct td_op_ref[]){reference(&t.op)}[0]);
    REFUSES(op.attrs[2].value = 3, TD_EUNSUPPORTED, "this version knows codes");
    REFUSES(op.attrs[2].value = 2, TD_EINVAL, "tensor \"c\": expected F8_E4M3, found I8");
    REFUSES((op.n_attrs = 4, op.attrs[3] = (struct td_attr){"part", 2}), TD_EINVAL, "part 2, a call has 2 outputs");
    add("scale", TD_DT_F32, 2, 3, b);
    REFUSES(op.n_in += 0, TD_EINVAL, "scales [2, 3] are no blocks of [2, 16]");
    REFUSES(op.in[1].ndim = 1, TD_EINVAL, "tensor \"scale\": expected shape [1");
    REFUSES((op.in[1].shape[1] = 0), TD_EINVAL, "rows of 0 elements");
}

static void test_rows_of_a_cache_refuse(void **state)
{
    (void)state;
    begin("cache_rows", 16);
    attr("block_size", 4);
    attr("head", 8);
    add("a", TD_DT_F32, 2, 16, a);
    add("slots", TD_DT_I64, 2, -1, positions);
    add("value", TD_DT_F32, 2, 16, b);
    set_out(&t.op, TD_DT_F32, 2, 16);
    positions[0] = 5, positions[1] = -1;
    td_op_ref_release(&(struct td_op_ref[]){reference(&t.op)}[0]);
    REFUSES(op.attrs[1].value = 8, TD_EINVAL, "rows of 16, n is 8");
    REFUSES(op.attrs[3].value = 7, TD_EINVAL, "rows of 16 are no multiple of a head of 7");
    REFUSES(op.n_attrs = 3, TD_EINVAL, "attribute head is missing");
    REFUSES(op.n_attrs = 2, TD_EINVAL, "attribute block_size is missing");
    REFUSES(op.attrs[2].value = 0, TD_EINVAL, "attribute block_size is out of range");
    REFUSES(op.in[1].dtype = TD_DT_I32, TD_EINVAL, "tensor \"slots\": expected I64");
    REFUSES(op.in[1].shape[0] = 1, TD_EINVAL, "tensor \"slots\": expected shape [2");
    REFUSES(op.in[2].dtype = TD_DT_F16, TD_EINVAL, "tensor \"value\": expected F32");
    REFUSES(op.n_in = 2, TD_EINVAL, "a needs either a value of its shape or a k_pe");
    REFUSES(strcpy(op.in[2].role, "k_pe"), TD_EINVAL, "tensor \"c\": expected shape [2, 32]");
    REFUSES(op.out.dtype = TD_DT_F16, TD_EINVAL, "tensor \"c\": expected F32 or F8_E4M3 or F8_E5M2");
    REFUSES(op.out.dtype = TD_DT_F8_E4M3, TD_EINVAL, "tensor \"k_scale\" is missing");
    attr("part", 2);
    REFUSES(op.n_in += 0, TD_EINVAL, "part 2, a call has 2 outputs");
}

/* Rows without a slot, or with the slot of another, are left out; so are codes of Inf, copies of which are not. */
static void test_rows_of_a_cache(void **state)
{
    struct td_op_ref ref;

    (void)state;
    begin("cache_rows", 16);
    attr("block_size", 4);
    attr("head", 8);
    add("a", TD_DT_F32, 2, 16, a);
    add("value", TD_DT_F32, 2, 16, b);
    add("slots", TD_DT_I64, 2, -1, positions);
    set_out(&t.op, TD_DT_F32, 2, 16);
    for (int i = 0; i < 3; i++) {
        positions[0] = i == 1 ? -1 : 7, positions[1] = i ? 7 : 9;
        positions[0] = i == 2 ? positions[1] : positions[0];
        ref = reference(&t.op);
        assert_true(td_op_ref_has_row(&ref, 0) == (i == 0) && td_op_ref_has_row(&ref, 1) == (i < 2));
        td_op_ref_release(&ref);
    }
    positions[0] = 0;
    a[3] = INFINITY, w[0] = 0.5f, w[1] = 2;
    ref = reference(&t.op);
    assert_true(td_op_ref_has_row(&ref, 0) && isinf(ref.r0[3]) && ref.r0[4] == (double)a[4]);
    td_op_ref_release(&ref);
    t.op.out.dtype = TD_DT_F8_E5M2;
    add("k_scale", TD_DT_F32, 2, -1, w);
    ref = reference(&t.op);
    assert_true(!td_op_ref_has_row(&ref, 0) && td_op_ref_has_row(&ref, 1));
    assert_true(ref.r0[16] == (double)a[16] / 0.5 && ref.r0[24] == (double)a[24] / 2); /* a scale for each head */
    td_op_ref_release(&ref);
}

static void test_other_forms_refuse(void **state)
{
    static int32_t perm[16];
    static uint32_t words[32 / 8 * 8];
    static uint16_t halves[64];

    (void)state;
    begin("permute_cols", 16);
    add("a", TD_DT_F16, 2, 16, halves);
    add("perm", TD_DT_I32, 16, -1, perm);
    set_out(&t.op, TD_DT_F16, 2, 16);
    td_op_ref_release(&(struct td_op_ref[]){reference(&t.op)}[0]);
    REFUSES(perm[3] = 16, TD_EINVAL, "column 16, of 16, is where column 3 comes from");
    REFUSES(perm[3] = -1, TD_EINVAL, "column -1, of 16");
    perm[3] = 0;
    REFUSES(op.attrs[1].value = 8, TD_EINVAL, "rows of 16, n is 8");
    REFUSES(op.in[0].dtype = TD_DT_F32, TD_EINVAL, "tensor \"a\": expected F16 or BF16");
    REFUSES(op.in[1].shape[0] = 8, TD_EINVAL, "tensor \"perm\": expected shape [16");
    begin("dequantize", 8);
    attr("k", 32), attr("bits", 4), attr("group_size", 32), attr("every", 31);
    add("qweight", TD_DT_I32, 4, 8, words);
    add("qzeros", TD_DT_I32, 1, 1, words);
    add("scales", TD_DT_F16, 1, 8, halves);
    set_out(&t.op, TD_DT_F16, 2, 8);
    td_op_ref_release(&(struct td_op_ref[]){reference(&t.op)}[0]);
    REFUSES(op.attrs[5].value = 16 - 1, TD_EINVAL, "every 15th of 32 rows are not 2");
    REFUSES(op.attrs[5].value = 0, TD_EINVAL, "attribute every is out of range");
    REFUSES(op.in[0].shape[0] = 3, TD_EINVAL, "tensor \"qweight\": expected shape [4");
    REFUSES(op.in[2].data = NULL, TD_EINVAL, "has no data");
    attr("act_order", 1);
    REFUSES(op.n_in += 0, TD_EUNSUPPORTED, "does not know act-order here");
}

/* Rows that no kernel of the field has a defined answer for are left out; the others are judged. */
static void test_rows_that_are_not_judged(void **state)
{
    struct td_op_ref ref;

    (void)state;
    begin("scaled_quant", 16);
    attr("code", 1);
    attr("azp", 1);
    add("a", TD_DT_F32, 2, 16, a);
    set_out(&t.op, TD_DT_I8, 2, 16);
    for (int j = 0; j < 16; j++)
        a[16 + j] = 2;                   /* all are one number: its scale is 0 */
    ref = reference(&t.op);              /* and the zero point of -3 to 3 is -0.5 */
    assert_true(!td_op_ref_has_row(&ref, 0) && !td_op_ref_has_row(&ref, 1));
    td_op_ref_release(&ref);
    a[1] = 3.5f;
    ref = reference(&t.op);
    assert_true(td_op_ref_has_row(&ref, 0) && !td_op_ref_has_row(&ref, 1));
    td_op_ref_release(&ref);
    t.op.n_attrs = 3;
    a[3] = NAN;
    ref = reference(&t.op);
    assert_true(!td_op_ref_has_row(&ref, 0) && td_op_ref_has_row(&ref, 1));
    td_op_ref_release(&ref);
}

/* To nearest even, and the largest one in place of what is larger. */
static void test_codes_of_8_bits(void **state)
{
    unsigned char code;
    signed char i8;

    (void)state;
    for (int c = 0; c < 0x7f; c++) {
        td_store_rounded(TD_DT_F8_E4M3, &code, 0, -(double)td_e4m3_to_f32((uint8_t)c));
        assert_int_equal(code, c | 0x80);
        if (c < 0x7e) {
            const double x = (double)td_e4m3_to_f32((uint8_t)c), y = (double)td_e4m3_to_f32((uint8_t)(c + 1));

            td_store_rounded(TD_DT_F8_E4M3, &code, 0, (x + y) / 2);
            assert_int_equal(code, c & 1 ? c + 1 : c);
            td_store_rounded(TD_DT_F8_E4M3, &code, 0, (x + y) / 2 * (1 + 1e-9));
            assert_int_equal(code, c + 1);
        }
    }
    td_store_rounded(TD_DT_F8_E4M3, &code, 0, 1e30);
    assert_int_equal(code, 0x7e);
    td_store_rounded(TD_DT_F8_E4M3, &code, 0, NAN);
    assert_int_equal(code & 0x7f, 0x7f);
    for (int c = 0; c < 0x7b; c++) {
        const double x = (double)td_e5m2_to_f32((uint8_t)c), y = (double)td_e5m2_to_f32((uint8_t)(c + 1));

        td_store_rounded(TD_DT_F8_E5M2, &code, 0, x);
        assert_int_equal(code, c);
        td_store_rounded(TD_DT_F8_E5M2, &code, 0, -(x + y) / 2);
        assert_int_equal(code, 0x80 | (c & 1 ? c + 1 : c));
    }
    td_store_rounded(TD_DT_F8_E5M2, &code, 0, 1e30);
    assert_int_equal(code, 0x7b);
    td_store_rounded(TD_DT_I8, &i8, 0, -1e30);
    assert_int_equal(i8, -128);
    td_store_rounded(TD_DT_I8, &i8, 0, 2.5);
    assert_int_equal(i8, 2);
    assert_true(td_rounded_to(TD_DT_F16, 1 + 0x1p-11 + 0x1p-40) == 1 + 0x1p-10); /* in one rounding */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms_refuse),          cmocka_unit_test(test_activations_refuse),
        cmocka_unit_test(test_rotary_embeddings_refuse), cmocka_unit_test(test_quantisers_refuse),
        cmocka_unit_test(test_rows_of_a_cache_refuse),  cmocka_unit_test(test_rows_of_a_cache),
        cmocka_unit_test(test_other_forms_refuse),
        cmocka_unit_test(test_rows_that_are_not_judged), cmocka_unit_test(test_codes_of_8_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
