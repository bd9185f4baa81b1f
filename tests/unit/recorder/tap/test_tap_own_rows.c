/* test_tap_own_rows.c - operators that a file of the user's describes (--ops), in the tap: which
 * calls are of a row, and how W lies; rows that fit nothing; texts that come and go.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "recorder/tap/torch/tap_torch_tensor.h"
#include "recorder/tap/gpu/own_texts.h"
#include "recorder/tap/torch/torch_own_rows.h"
#include "recorder/tap/torch/torch_product.h"
#include "tests/helpers/fake_torch.h"
#include "fake_torch_lib.h"

#define LINEAR "linear(Tensor x, Tensor weight, Tensor? b, Tensor! y, int split, float eps, bool fast, str how) -> ()"
#define GPTQ "q(Tensor x, Tensor w, Tensor s, Tensor? z, Tensor? order, int bits, int? group) -> Tensor"

static uint16_t gpu[8192];             /* nobody reads what lies there */

static struct fake_torch_tensor matrix(int64_t rows, int64_t cols, int32_t dtype)
{
    return (struct fake_torch_tensor){.ndim = cols ? 2 : 1, .sizes = {rows, cols}, .strides = {cols ? cols : 1, 1}, .dtype = dtype, .device = TD_TORCH_CUDA, .data = gpu};
}

/* The same memory, column after column. */
static struct fake_torch_tensor turned(int64_t rows, int64_t cols, int32_t dtype)
{
    struct fake_torch_tensor t = matrix(rows, cols, dtype);

    t.strides[0] = 1, t.strides[1] = rows;
    return t;
}

static const struct tap_torch_meaning *meaning(const char *rows, const char *name, const char *schema)
{
    static struct tap_torch_schema s;
    bool named;

    assert_true(tap_torch_schema_read(schema, &s));
    assert_null(tap_torch_own_set(rows, strlen(rows)));
    return tap_torch_own_meaning(name, &s, &named);
}

static enum tap_torch_product product(const struct tap_torch_meaning *m, const td_torch_value *stack, struct td_gpu_work *w)
{
    td_torch_tensor a;

    assert_non_null(m);
    return tap_torch_product_read(m, stack, w, &a);
}

/* ---- gemm -------------------------------------------------------------------------------------------------------- */

#define ROW "[operator m::linear]\nkind = gemm\na = x\nw = weight\nbias = b\nout = y\n"
#define FIXED "fixed split = 3\nfixed eps = 0.5\nfixed fast = false\nfixed how = \"any\"\n"

struct call { struct fake_torch_tensor x, w, b, y; td_torch_value b_at, stack[8]; };

static void make_call(struct call *c, struct fake_torch_tensor w)
{
    const double eps = 0.5;

    c->x = matrix(3, 32, TD_TORCH_F16), c->w = w, c->b = matrix(48, 0, TD_TORCH_F16), c->y = matrix(3, 48, TD_TORCH_F16);
    c->b_at = (uintptr_t)&c->b;
    memset(c->stack, 0, sizeof c->stack);
    c->stack[0] = (uintptr_t)&c->x, c->stack[1] = (uintptr_t)&c->w, c->stack[2] = (uintptr_t)&c->b_at, c->stack[3] = (uintptr_t)&c->y;
    c->stack[4] = 3;
    memcpy(&c->stack[5], &eps, sizeof eps);
}

/* What counts is which elements lie together, whatever torch calls rows. */
static void test_how_w_lies(void **state)
{
    const struct { const char *layout; struct fake_torch_tensor w; const char *stored; int64_t rows; } forms[] = {
        {"layout = nk\n", matrix(48, 32, TD_TORCH_F16), "checkpoint", 48}, {"layout = nk\n", turned(48, 32, TD_TORCH_F16), "kn", 32},
        {"layout = kn\n", matrix(32, 48, TD_TORCH_F16), "kn", 32},         {"layout = kn\n", turned(32, 48, TD_TORCH_F16), "checkpoint", 48}};
    struct td_gpu_work w;
    struct call c;
    char rows[300];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(rows, sizeof rows, ROW "%s", forms[i].layout);
        make_call(&c, forms[i].w);
        assert_int_equal(product(meaning(rows, "m::linear", LINEAR), c.stack, &w), TAP_TORCH_READ);
        assert_true(w.m == 3 && w.n == 48 && w.k == 32 && !w.bits);
        assert_string_equal(w.adapter->layout, forms[i].stored);
        assert_string_equal(w.adapter->kind, "gemm");
        assert_int_equal(w.op[1].shape[0], forms[i].rows);
        assert_int_equal(w.n_op, 4);
        assert_string_equal(w.op[3].role, "c");
        assert_int_equal(w.op[3].address, (uintptr_t)gpu);
    }
}

/* Each call differs from the row in one thing. */
static void test_calls_that_are_none_of_the_row(void **state)
{
    const struct tap_torch_meaning *m = meaning(ROW FIXED, "m::linear", LINEAR);
    const double other = 0.25;
    struct td_gpu_work w;
    struct call c;
    int i;

    (void)state;
    make_call(&c, matrix(48, 32, TD_TORCH_F16));
    assert_int_equal(product(m, c.stack, &w), TAP_TORCH_READ);
    for (i = 0; i < 9; i++) {
        make_call(&c, matrix(48, 32, TD_TORCH_F16));
        switch (i) {
        case 0: c.stack[4] = 4; break;
        case 1: memcpy(&c.stack[5], &other, sizeof other); break;
        case 2: c.stack[6] = 1; break;
        case 3: c.w.sizes[1] = 16, c.w.strides[0] = 16; break;
        case 4: c.w.dtype = TD_TORCH_BF16; break;
        case 5: c.b.sizes[0] = 32; break;
        case 6: c.y.sizes[1] = 32; break;
        case 7: c.x.dtype = TD_TORCH_F32; break;
        default: c.w.device = TD_TORCH_CPU;
        }
        if (product(m, c.stack, &w) != TAP_TORCH_UNKNOWN)
            fail_msg("call %d is taken for one of the row", i);
    }
}

/* ---- gptq_gemm --------------------------------------------------------------------------------------------------- */

#define Q_ROW "[operator m::q]\nkind = gptq_gemm\na = x\nqweight = w\nscales = s\nqzeros = z\ng_idx = order\nbits = bits\n"

static void test_gptq(void **state)
{
    struct fake_torch_tensor x = matrix(2, 128, TD_TORCH_BF16), qw = matrix(16, 64, TD_TORCH_I32), s = matrix(2, 64, TD_TORCH_BF16), z = matrix(2, 8, TD_TORCH_I32);
    td_torch_value z_at = (uintptr_t)&z, group = 64, stack[7] = {(uintptr_t)&x, (uintptr_t)&qw, (uintptr_t)&s, (uintptr_t)&z_at, 0, 4, (uintptr_t)&group};
    const struct tap_torch_meaning *m = meaning(Q_ROW "group_size = group\nrounding = weight\nzero_offset = 0\n", "m::q", GPTQ);
    struct td_gpu_work w;

    (void)state;
    assert_int_equal(product(m, stack, &w), TAP_TORCH_READ);
    assert_true(w.n == 64 && w.bits == 4 && w.group_size == 64 && w.zero_offset == 0 && !w.act_order);
    assert_string_equal(w.rounding, "weight-bf16");
    assert_string_equal(w.adapter->layout, "gptq");
    group = 32;                          /* then there were four rows of scales */
    assert_int_equal(product(m, stack, &w), TAP_TORCH_UNKNOWN);
    group = 64, stack[5] = 8;
    assert_int_equal(product(m, stack, &w), TAP_TORCH_UNKNOWN);
    stack[5] = TD_GPU_VLLM_U4B8;
    assert_int_equal(product(m, stack, &w), TAP_TORCH_READ);
    qw = turned(16, 64, TD_TORCH_I32);
    assert_int_equal(product(m, stack, &w), TAP_TORCH_UNKNOWN);
    m = meaning(Q_ROW "layout = unknown\n", "m::q", GPTQ); /* the group by the scales; W may lie in any way */
    assert_int_equal(product(m, stack, &w), TAP_TORCH_READ);
    assert_true(w.group_size == 64);
    assert_string_equal(w.rounding, "none");
    assert_string_equal(w.adapter->layout, "unknown");
}

/* ---- scaled_mm --------------------------------------------------------------------------------------------------- */

#define S_ROW "[operator m::s]\nkind = scaled_mm\na = x\nw = w\na_scales = sx\nw_scales = sw\n"
#define SCALED "s(Tensor x, Tensor w, Tensor sx, Tensor sw, Tensor? b, Tensor? adj, Tensor? z) -> Tensor"
#define SCALED_OUT "s(Tensor x, Tensor w, Tensor sx, Tensor sw, Tensor! y) -> ()"

static void test_scaled(void **state)
{
    struct fake_torch_tensor x = matrix(3, 64, TD_TORCH_F8_E4M3), fw = turned(64, 48, TD_TORCH_F8_E4M3), sx = matrix(3, 1, TD_TORCH_F32), sw = matrix(1, 48, TD_TORCH_F32),
                             b = matrix(48, 0, TD_TORCH_BF16), adj = matrix(48, 0, TD_TORCH_I32), z = matrix(3, 0, TD_TORCH_I32), y = matrix(3, 48, TD_TORCH_F16);
    td_torch_value b_at = (uintptr_t)&b, adj_at = (uintptr_t)&adj, z_at = (uintptr_t)&z,
                   stack[7] = {(uintptr_t)&x, (uintptr_t)&fw, (uintptr_t)&sx, (uintptr_t)&sw, (uintptr_t)&b_at, 0, 0};
    const struct tap_torch_meaning *m = meaning(S_ROW "bias = b\nazp = z\nazp_adj = adj\ntype = BF16\nlayout = kn\nrounding = sum-e8m13\n", "m::s", SCALED);
    struct fake_torch_tensor result = matrix(3, 48, TD_TORCH_BF16);
    struct td_gpu_work w;

    (void)state;
    assert_int_equal(product(m, stack, &w), TAP_TORCH_READ);
    assert_true(w.m == 3 && w.n == 48 && w.k == 64 && !w.bits && !w.n_attr && w.n_op == 6);
    assert_string_equal(w.adapter->kind, "scaled_mm");
    assert_string_equal(w.adapter->layout, "checkpoint");
    assert_string_equal(w.rounding, "sum-e8m13");
    assert_true(!strcmp(w.op[1].role, "w") && w.op[1].shape[0] == 48 && w.op[1].shape[1] == 64 && w.op[1].use == TD_GPU_WEIGHT);
    assert_true(!strcmp(w.op[2].role, "a_scales") && w.op[2].ndim == 1 && w.op[2].shape[0] == 3 && w.op[2].use == TD_GPU_IN);
    assert_true(!strcmp(w.op[3].role, "w_scales") && w.op[3].ndim == 1 && w.op[3].shape[0] == 48 && w.op[3].use == TD_GPU_WEIGHT);
    assert_string_equal(w.op[5].dtype, "BF16");
    assert_int_equal(w.op[5].address, TAP_GPU_LATER);
    assert_int_equal(tap_torch_product_result(&w, (uintptr_t)&result), (uintptr_t)gpu);
    result.dtype = TD_TORCH_F16;         /* not the type that the row says */
    assert_int_equal(tap_torch_product_result(&w, (uintptr_t)&result), 0);
    x.dtype = fw.dtype = TD_TORCH_I8, stack[5] = (uintptr_t)&adj_at, stack[6] = (uintptr_t)&z_at;
    assert_int_equal(product(m, stack, &w), TAP_TORCH_READ);
    assert_true(w.n_op == 8 && !strcmp(w.op[4].role, "azp_adj") && w.op[4].use == TD_GPU_WEIGHT && !strcmp(w.op[5].role, "azp") && w.op[5].use == TD_GPU_IN);
    fw = matrix(64, 48, TD_TORCH_I8);    /* the inputs of an output lie apart */
    assert_int_equal(product(m, stack, &w), TAP_TORCH_UNKNOWN);
    fw = turned(64, 48, TD_TORCH_F16);
    assert_int_equal(product(m, stack, &w), TAP_TORCH_UNKNOWN);
    fw = turned(64, 48, TD_TORCH_I8), sx = matrix(2, 1, TD_TORCH_F32);
    assert_int_equal(product(m, stack, &w), TAP_TORCH_UNKNOWN);
    m = meaning(S_ROW "out = y\n", "m::s", SCALED_OUT);
    x.dtype = TD_TORCH_F8_E4M3, fw = matrix(48, 64, TD_TORCH_F8_E4M3), sx = sw = matrix(1, 0, TD_TORCH_F32), stack[4] = (uintptr_t)&y;
    assert_int_equal(product(m, stack, &w), TAP_TORCH_READ);
    assert_true(w.n == 48 && w.op[2].shape[0] == 1 && w.op[3].shape[0] == 1 && !strcmp(w.op[4].dtype, "F16") && w.op[4].address == (uintptr_t)gpu);
    assert_string_equal(w.rounding, "none");
}

/* ---- moe_gemm ---------------------------------------------------------------------------------------------------- */

#define E_ROW "[operator m::e]\nkind = moe_gemm\na = x\nqweight = w\nscales = s\nsorted_token_ids = ids\nexpert_ids = owner\n" \
              "num_tokens_post_padded = count\ntopk_weights = tw\nbits = 4\ntop_k = k\nblock_size = 16\nout = y\nrounding = weight\n"
#define EXPERTS "e(Tensor x, Tensor w, Tensor s, Tensor ids, Tensor owner, Tensor count, Tensor? tw, int k, bool mul, Tensor! y) -> ()"

static struct fake_torch_tensor stack_of(int64_t d0, int64_t d1, int64_t d2, int32_t dtype)
{
    return (struct fake_torch_tensor){.ndim = 3, .sizes = {d0, d1, d2}, .strides = {d1 * d2, d2, 1}, .dtype = dtype, .device = TD_TORCH_CUDA, .data = gpu};
}

static int64_t attr_of(const struct td_gpu_work *w, const char *name)
{
    int i;

    for (i = 0; i < w->n_attr && strcmp(w->attr[i].name, name); i++)
        ;
    return i < w->n_attr ? w->attr[i].value : -1;
}

static void test_experts(void **state)
{
    struct fake_torch_tensor x = matrix(3, 64, TD_TORCH_BF16), q = stack_of(4, 8, 48, TD_TORCH_I32), s = stack_of(4, 2, 48, TD_TORCH_BF16), ids = matrix(96, 0, TD_TORCH_I32),
                             owner = matrix(6, 0, TD_TORCH_I32), count = matrix(1, 0, TD_TORCH_I32), tw = matrix(3, 2, TD_TORCH_F32), y = matrix(6, 48, TD_TORCH_BF16);
    td_torch_value at = (uintptr_t)&tw, stack[10] = {(uintptr_t)&x, (uintptr_t)&q, (uintptr_t)&s, (uintptr_t)&ids, (uintptr_t)&owner, (uintptr_t)&count, (uintptr_t)&at, 2, 0xff00,
                                                     (uintptr_t)&y};
    const struct tap_torch_meaning *m = meaning(E_ROW "mul_topk_weights = mul\nround_topk_weights = 1\n", "m::e", EXPERTS);
    struct td_gpu_work w;

    (void)state;
    assert_int_equal(product(m, stack, &w), TAP_TORCH_READ);
    assert_true(w.m == 3 && w.n == 48 && w.k == 64 && w.bits == 4 && w.group_size == 32 && w.zero_offset == 1 && w.c_rows == 6 && w.n_op == 8);
    assert_string_equal(w.adapter->kind, "moe_gemm");
    assert_string_equal(w.adapter->layout, "gptq");
    assert_string_equal(w.rounding, "weight-bf16");
    assert_true(attr_of(&w, "experts") == 4 && attr_of(&w, "top_k") == 2 && attr_of(&w, "block_size") == 16 && attr_of(&w, "mul_topk_weights") == 0 &&
                attr_of(&w, "round_topk_weights") == 1); /* of a bool one byte is meant */
    assert_true(w.op[1].use == TD_GPU_WEIGHT && w.op[1].ndim == 3 && w.op[3].use == TD_GPU_IN && !strcmp(w.op[3].role, "sorted_token_ids"));
    stack[8] = 1;
    assert_int_equal(product(m, stack, &w), TAP_TORCH_READ);
    assert_int_equal(attr_of(&w, "mul_topk_weights"), 1);
    stack[6] = 0;                        /* multiplies by weights that are not there */
    assert_int_equal(product(m, stack, &w), TAP_TORCH_UNKNOWN);
    stack[6] = (uintptr_t)&at, stack[7] = 3; /* as many rows as y does not have */
    assert_int_equal(product(m, stack, &w), TAP_TORCH_UNKNOWN);
    stack[7] = 2, s = stack_of(4, 3, 48, TD_TORCH_BF16); /* groups that do not divide K */
    assert_int_equal(product(m, stack, &w), TAP_TORCH_UNKNOWN);
    s = stack_of(3, 2, 48, TD_TORCH_BF16);  /* scales of fewer experts */
    assert_int_equal(product(m, stack, &w), TAP_TORCH_UNKNOWN);
    s = stack_of(4, 2, 48, TD_TORCH_BF16), q = matrix(8, 48, TD_TORCH_I32);
    assert_int_equal(product(m, stack, &w), TAP_TORCH_UNKNOWN);
    q = stack_of(4, 8, 48, TD_TORCH_I32);
    m = meaning(E_ROW, "m::e", EXPERTS);  /* without the key: where there are weights */
    assert_int_equal(product(m, stack, &w), TAP_TORCH_READ);
    assert_int_equal(attr_of(&w, "mul_topk_weights"), 1);
    stack[6] = 0;
    assert_int_equal(product(m, stack, &w), TAP_TORCH_READ);
    assert_true(attr_of(&w, "mul_topk_weights") == 0 && w.n_op == 7);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void test_rows_that_do_not_fit(void **state)
{
    static const struct { const char *more, *why; } wrong[] = {
        {"fixed none_such = 3\n", "no argument \"none_such\""}, {"fixed split = true\n", "another type"}, {"fixed eps = 1\n", "another type"},
        {"fixed how = none\n", "another type"}};
    struct tap_torch_schema s;
    char rows[300], why[160];
    size_t i;

    (void)state;
    assert_true(tap_torch_schema_read(LINEAR, &s));
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(rows, sizeof rows, ROW "%s", wrong[i].more);
        assert_null(meaning(rows, "m::linear", LINEAR));
        tap_torch_own_say_why(tap_torch_own_at(0), &s, why, sizeof why);
        if (!strstr(why, wrong[i].why))
            fail_msg("%s: %s", wrong[i].more, why);
    }
}

/* Another text replaces the last one; NULL leaves none; a wrong one too. A process takes so many. */
static void test_texts_come_and_go(void **state)
{
    struct tap_torch_schema s;
    char rows[300];
    bool named;
    int i;

    (void)state;
    assert_non_null(meaning(ROW, "m::linear", LINEAR));
    assert_true(tap_torch_schema_read(LINEAR, &s));
    assert_null(tap_torch_own_set(NULL, 0));
    assert_null(tap_torch_own_meaning("m::linear", &s, &named));
    assert_false(named);
    assert_null(tap_torch_own_at(0));
    assert_non_null(tap_torch_own_set("nonsense", 8));
    assert_null(tap_torch_own_at(0));
    for (i = 0; i < TAP_OWN_TEXTS; i++) {
        snprintf(rows, sizeof rows, ROW "# %d\n", i);
        tap_torch_own_set(rows, strlen(rows));
    }
    assert_non_null(tap_torch_own_set("# new\n" ROW, strlen("# new\n" ROW)));
    assert_null(tap_torch_own_at(0));
    assert_null(tap_torch_own_set(ROW, strlen(ROW))); /* it was there before */
    assert_non_null(tap_torch_own_at(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_how_w_lies), cmocka_unit_test(test_calls_that_are_none_of_the_row), cmocka_unit_test(test_gptq),
        cmocka_unit_test(test_scaled),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_rows_that_do_not_fit), cmocka_unit_test(test_texts_come_and_go),
    };

    return cmocka_run_group_tests(tests, fake_torch_setup, NULL);
}
