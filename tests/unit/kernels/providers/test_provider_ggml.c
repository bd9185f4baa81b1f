/* test_provider_ggml.c - a build of ggml: its ABI is checked, its ops are found by name, what it cannot run is named.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The build is tests/helpers/lib_fake_ggml.c. Right numbers are those of the reference of ggml_mul_mat. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "kernels/providers/ggml_build.h"
#include "kernels/providers/providers.h"

static char library[4096];
static const struct td_provider *ggml;

static void *open_as(const char *how, struct td_error *err)
{
    void *state = NULL;

    setenv("TD_FAKE_GGML", how, 1);
    return ggml->open(library, &state, err) ? NULL : state;
}

static struct td_op_call node(const char *kind)
{
    static float in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8];
    struct td_op_call op = {.n_in = 1};

    snprintf(op.kind, sizeof op.kind, "%s", kind);
    op.in[0] = (struct td_tensor){.role = "s0", .dtype = TD_DT_F32, .ndim = 2, .shape = {2, 4}, .strides = {4, 1}, .data = in, .size_bytes = 32};
    op.out = op.in[0];
    strcpy(op.out.role, "c");
    op.out.data = out;
    return op;
}

static void test_the_abi_is_checked(void **state)
{
    struct td_error err = {0};
    void *s;

    (void)state;
    assert_null(open_as("layout", &err));
    assert_int_equal(err.code, TD_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "the size of a tensor"));
    td_error_clear(&err);
    assert_null(open_as("zero", &err));
    assert_int_equal(err.code, TD_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "a product of two small matrices"));
    td_error_clear(&err);
    assert_non_null(s = open_as("", &err));
    assert_string_equal(ggml->words(s), "ggml fake (commit none)");
    ggml->close(s);
    assert_non_null(s = open_as("row", &err)); /* its products are wrong, which is for the judge to say */
    ggml->close(s);
}

static void test_types_and_ops_by_name(void **state)
{
    struct td_ggml_build b;
    struct td_error err = {0};

    (void)state;
    setenv("TD_FAKE_GGML", "", 1);
    assert_int_equal(td_ggml_open(library, &b, &err), TD_OK);
    assert_int_equal(td_ggml_type(&b, TD_DT_Q8_0), 8);
    assert_int_equal(td_ggml_type(&b, TD_DT_Q4_1), -1); /* this library has no type of that name */
    assert_int_equal(td_ggml_op(&b, "SET_ROWS"), 5);
    assert_int_equal(td_ggml_op(&b, "ROPE"), -1);
    td_ggml_close(&b);
}

static const char *why_not(void *s, const char *kind)
{
    struct td_op_call op = node(kind);

    return ggml->supports(s, &op);
}

static void test_what_cannot_be_run_is_named(void **state)
{
    struct td_error err = {0};
    void *s = open_as("", &err);
    struct td_op_call op = node("ggml_rms_norm");

    (void)state;
    assert_null(why_not(s, "ggml_rms_norm"));
    assert_non_null(strstr(why_not(s, "gptq_gemm"), "this provider runs the ops of ggml"));
    assert_non_null(strstr(why_not(s, "ggml_rope"), "no op ROPE"));
    assert_non_null(strstr(why_not(s, "ggml_view"), "computes nothing"));
    assert_non_null(strstr(why_not(s, "ggml_map_custom1"), "calls a function of the server"));
    assert_non_null(strstr(why_not(s, "ggml_set_rows"), "was not recorded"));
    op.in[0].dtype = TD_DT_Q4_1;
    assert_non_null(strstr(ggml->supports(s, &op), "no type Q4_1"));
    ggml->close(s);
}

static void test_strides_and_parameters_reach_the_op(void **state)
{
    float in[16] = {3, 4, 0, 0, 9, 9, 9, 9, 0, 0, 5, 0}, out[8] = {0};
    struct td_op_call op = node("ggml_rms_norm");
    struct td_error err = {0};
    void *s = open_as("", &err), *p = NULL;

    (void)state;
    op.in[0].data = in;
    op.in[0].strides[0] = 8; /* rows with a gap */
    op.in[0].size_bytes = 48;
    op.out.data = out;
    strcpy(op.attrs[0].name, "p0");
    op.n_attrs = 1;
    assert_int_equal(ggml->prepare(s, &op, &p, &err), TD_OK);
    assert_int_equal(ggml->run(s, p, &err), TD_OK);
    assert_true(fabsf(out[0] - 1.2f) < 1e-6f && fabsf(out[1] - 1.6f) < 1e-6f); /* [3 4 0 0] / sqrt(25 / 4) */
    assert_true(fabsf(out[6] - 2.0f) < 1e-6f && out[4] == 0);                 /* [0 0 5 0] / sqrt(25 / 4) */
    ggml->release(s, p);
    ggml->close(s);
}

static void test_the_rounding_is_what_the_build_says(void **state)
{
    static float a[32], c[1];
    static char w[34];
    struct td_op_call op = {.kind = "ggml_mul_mat", .act_rounding = "q8_0", .n_in = 2};
    struct td_error err = {0};
    void *s;

    (void)state;
    op.in[0] = (struct td_tensor){.role = "a", .dtype = TD_DT_F32, .ndim = 2, .shape = {1, 32}, .strides = {32, 1}, .data = a, .size_bytes = 128};
    op.in[1] = (struct td_tensor){.role = "w", .dtype = TD_DT_Q8_0, .ndim = 2, .shape = {1, 1}, .strides = {1, 1}, .data = w, .size_bytes = 34};
    op.out = (struct td_tensor){.role = "c", .dtype = TD_DT_F32, .ndim = 2, .shape = {1, 1}, .strides = {1, 1}, .data = c, .size_bytes = 4};
    s = open_as("", &err);
    assert_string_equal(ggml->rounding(s, &op), "q8_0");
    ggml->close(s);
    s = open_as("exact", &err);
    assert_string_equal(ggml->rounding(s, &op), "none");
    ggml->close(s);
}

/* The product of a row of 64 ones with one column of Q8_0, in a layout, by a build of that mode. */
static float product_in(const char *layout, enum td_dtype type, const char *how)
{
    static float a[64], c[1];
    static unsigned char w[2 * 34 + 64];
    struct td_op_call op = {.kind = "ggml_mul_mat", .act_rounding = "q8_0", .n_in = 2};
    struct td_error err = {0};
    void *s = open_as(how, &err), *p = NULL;
    const int block = td_dtype_block(type);

    for (int i = 0; i < 64; i++)
        a[i] = 1;
    for (size_t i = 0; i < sizeof w; i++) /* 1.0 in halves, or a scale of 1.0 before codes of 1 */
        w[i] = type == TD_DT_F16 ? (i % 2 ? 0x3c : 0) : i % 34 == 0 ? 0 : i % 34 == 1 ? 0x3c : 1;
    snprintf(op.layout, sizeof op.layout, "%s", layout);
    op.in[0] = (struct td_tensor){.role = "a", .dtype = TD_DT_F32, .ndim = 2, .shape = {1, 64}, .strides = {64, 1}, .data = a, .size_bytes = 256};
    op.in[1] = (struct td_tensor){.role = "w", .dtype = type, .ndim = 2, .shape = {1, 64 / block}, .strides = {64 / block, 1}, .data = w,
                                  .size_bytes = 64 / (size_t)block * td_dtype_size(type)};
    op.out = (struct td_tensor){.role = "c", .dtype = TD_DT_F32, .ndim = 2, .shape = {1, 1}, .strides = {1, 1}, .data = c, .size_bytes = 4};
    assert_non_null(s);
    assert_int_equal(ggml->prepare(s, &op, &p, &err), TD_OK);
    assert_int_equal(ggml->run(s, p, &err), TD_OK);
    ggml->release(s, p);
    ggml->close(s);
    return c[0];
}

/* What the server had repacked is run by the build's kernel for that layout, and by no other one. */
static void test_repacked_weights_are_repacked(void **state)
{
    (void)state;
    assert_float_equal(product_in("gguf", TD_DT_Q8_0, ""), 64, 0.1);
    assert_float_equal(product_in("CPU_REPACK", TD_DT_Q8_0, ""), 64, 0.1);
    assert_float_equal(product_in("gguf", TD_DT_Q8_0, "repacked"), 64, 0.1);
    assert_float_equal(product_in("CPU_REPACK", TD_DT_Q8_0, "repacked"), 32, 0.1);
    assert_float_equal(product_in("AMX", TD_DT_Q8_0, "repacked"), 64, 0.1);      /* the build has no such layout */
    assert_float_equal(product_in("CPU_REPACK", TD_DT_F16, "repacked"), 64, 0.1); /* nor CPU_REPACK for F16 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_abi_is_checked),
        cmocka_unit_test(test_types_and_ops_by_name),
        cmocka_unit_test(test_what_cannot_be_run_is_named),
        cmocka_unit_test(test_strides_and_parameters_reach_the_op),
        cmocka_unit_test(test_the_rounding_is_what_the_build_says),
        cmocka_unit_test(test_repacked_weights_are_repacked),
    };
    char dir[4000];

    if (td_fs_self_dir(dir, sizeof dir, NULL))
        return 1;
    snprintf(library, sizeof library, "%s/../../../helpers/lib_fake_ggml.so", dir);
    ggml = td_provider_find("ggml");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
