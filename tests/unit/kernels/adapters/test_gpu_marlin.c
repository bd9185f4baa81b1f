/* test_gpu_marlin.c - launches of vLLM's Marlin kernel as the adapter reads them: which types, which operands, what is refused.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The symbols are g++'s, of the template of vLLM 0.26's csrc/quantization/marlin/kernel.h with the ids that vllm/scalar_type.py computes. Offsets
 * and sizes of the parameters are those that cuKernelGetParamInfo gave on an H200. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/adapters/adapters.h"
#include "kernels/gpucode/mangled.h"

#define TAIL "EEEvPK4int4S3_PS1_S4_S3_PKfS3_S6_S3_PKiiiiiiPibbbi"
#define F16 "Ll1125899906910725E"
#define BF16 "Ll1125899906909960E"
#define S8 "Ll1125899906909952E"
#define U4B8 "Ll1125899907892224E"
#define U8B128 "Ll1125899923621888E"
#define U4 "Ll1125899906843648E"
#define MARLIN(a, b, rest) "_ZN6marlin6MarlinI" a b a a rest TAIL

static const struct td_gpu_param params[20] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, 8}, {56, 8}, {64, 8}, {72, 8},
                                               {80, 4}, {84, 4}, {88, 4}, {92, 4}, {96, 4}, {104, 8}, {112, 1}, {113, 1}, {114, 1}, {116, 4}};

static const struct td_gpu_adapter *find(const char *symbol, bool *known)
{
    return td_gpu_adapter_find(symbol, params, 20, known);
}

static void arguments_of_a_symbol(void **state)
{
    const char *symbol = MARLIN(F16, U4B8, "Li256ELi1ELi8ELi8ELb1ELi4ELin1ELb0");

    (void)state;
    assert_true(td_gpu_symbol_argument(symbol, 0) == 1125899906910725);
    assert_true(td_gpu_symbol_argument(symbol, 1) == 1125899907892224);
    assert_int_equal(td_gpu_symbol_argument(symbol, 4), 256);
    assert_int_equal(td_gpu_symbol_argument(symbol, 8), 1);
    assert_int_equal(td_gpu_symbol_argument(symbol, 10), -1);
    assert_int_equal(td_gpu_symbol_argument(symbol, 11), 0);
    assert_true(td_gpu_symbol_argument(symbol, 12) == TD_GPU_NO_ARGUMENT);
    assert_true(td_gpu_symbol_argument("_Z1fILl99999999999999999999EEvv", 0) == TD_GPU_NO_ARGUMENT);
    assert_true(td_gpu_symbol_argument("_Z1fIL", 0) == TD_GPU_NO_ARGUMENT);
    assert_true(td_gpu_symbol_argument("_Z1fILiE", 0) == TD_GPU_NO_ARGUMENT);
    assert_true(td_gpu_symbol_argument("_Z1fILinE", 0) == TD_GPU_NO_ARGUMENT);
}

static void rows_by_type(void **state)
{
    static const struct { const char *symbol, *family; int bits; } cases[] = {
        {MARLIN(F16, U4B8, "Li256ELi1ELi8ELi8ELb1ELi4ELi8ELb0"), "marlin_u4b8_f16", 4},
        {MARLIN(F16, U4B8, "Li128ELi4ELi4ELi8ELb0ELi4ELin1ELb0"), "marlin_u4b8_f16", 4},
        {MARLIN(BF16, U8B128, "Li256ELi2ELi16ELi4ELb0ELi4ELi0ELb0"), "marlin_u8b128_bf16_g_idx", 8},
        {MARLIN(F16, U4, "Li256ELi2ELi16ELi4ELb0ELi4ELi8ELb0"), "marlin_u4_f16", 4},
        {MARLIN(S8, U4B8, "Li256ELi2ELi16ELi4ELb0ELi4ELi8ELb0"), NULL, 0},                /* 8-bit activations */
        {MARLIN(F16, U4, "Li256ELi2ELi16ELi4ELb0ELi4ELi4ELb1"), NULL, 0},                 /* zero points that are floats */
        {"_ZN6marlin6MarlinI" F16 U4B8 F16 S8 "Li256ELi1ELi8ELi8ELb1ELi4ELi8ELb0" TAIL, NULL, 0}, /* scales of another type */
        {MARLIN(F16, U4B8, "Li256ELi1ELi8ELi8ELb1ELi4ELi8ELb0ELb0"), NULL, 0},            /* an argument more: another version */
        {MARLIN(F16, "Ll1125899907105280E", "Li256ELi1ELi8ELi8ELb1ELi4ELi8ELb0"), NULL, 0}, /* uint2b2 */
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool known = false;
        const struct td_gpu_adapter *row = find(cases[i].symbol, &known);

        assert_true(known);
        if (!cases[i].family) {
            assert_null(row);
            continue;
        }
        assert_non_null(row);
        assert_string_equal(row->family, cases[i].family);
        assert_string_equal(row->layout, "marlin");
        assert_int_equal(row->bits, cases[i].bits);
    }
    assert_null(td_gpu_adapter_find(cases[0].symbol, params, 18, NULL)); /* a later version's parameters */
}

/* ---- a launch ------------------------------------------------------------------------------------------------------ */

static void put(uint8_t *block, int i, uint64_t value)
{
    memcpy(block + params[i].offset, &value, params[i].size);
}

/* m 5, n 192, k 256 with rows 512 apart, 2 groups; the gaps between parameters hold rubbish. */
static void a_launch(uint8_t *block, bool bias)
{
    int i;

    memset(block, 0xee, 120);
    for (i = 0; i < 10; i++)
        put(block, i, 0x10000u * (unsigned)(i + 1));
    put(block, 10, 2), put(block, 11, 5), put(block, 12, 192), put(block, 13, 256), put(block, 14, 512);
    put(block, 15, 0xb0000), put(block, 16, bias), put(block, 17, 0), put(block, 18, 1), put(block, 19, 232448);
}

static bool read_work(const char *symbol, const uint8_t *block, struct td_gpu_work *w)
{
    const struct td_gpu_adapter *row = find(symbol, NULL);
    struct td_gpu_values v;

    assert_non_null(row);
    assert_true(td_gpu_values_read(row, params, NULL, block, 120, &v));
    assert_false(td_gpu_values_read(row, params, NULL, block, 119, &v));
    assert_true(td_gpu_values_read(row, params, NULL, block, 120, &v));
    return td_gpu_work_read(row, &v, w);
}

static void expect_op(const struct td_gpu_operand *o, const char *role, const char *dtype, uint64_t address, int64_t d0, int64_t d1, uint64_t bytes)
{
    assert_string_equal(o->role, role);
    assert_string_equal(o->dtype, dtype);
    assert_int_equal(o->address, address);
    assert_int_equal(o->ndim, d1 ? 2 : 1);
    assert_int_equal(o->shape[0], d0);
    assert_int_equal(o->shape[1], d1);
    assert_int_equal(o->bytes, bytes);
}

static void operands(void **state)
{
    struct td_gpu_work w;
    uint8_t block[120];

    (void)state;
    a_launch(block, true);
    assert_true(read_work(MARLIN(F16, U4B8, "Li256ELi1ELi8ELi8ELb1ELi4ELi8ELb0"), block, &w));
    assert_int_equal(w.m, 5);
    assert_int_equal(w.n, 192);
    assert_int_equal(w.k, 256);
    assert_int_equal(w.group_size, 128);
    assert_int_equal(w.act_order, 0);
    assert_int_equal(w.n_op, 5);
    assert_string_equal(w.rounding, "weight-f16+bias-after");
    expect_op(&w.op[0], "a", "F16", 0x10000, 5, 256, 5 * 256 * 2);
    assert_int_equal(w.op[0].row_stride, 512);
    expect_op(&w.op[1], "qweight", "I32", 0x20000, 16, 384, 256 * 192 / 2);
    expect_op(&w.op[2], "scales", "F16", 0x70000, 2, 192, 2 * 192 * 2);
    expect_op(&w.op[3], "bias", "F16", 0x50000, 192, 0, 192 * 2);
    expect_op(&w.op[4], "c", "F16", 0x30000, 5, 192, 5 * 192 * 2);
    assert_int_equal(w.op[4].row_stride, 192);

    assert_true(read_work(MARLIN(F16, U4, "Li256ELi1ELi8ELi8ELb1ELi4ELi8ELb0"), block, &w));
    expect_op(&w.op[3], "qzeros", "I32", 0x90000, 2, 24, 2 * 24 * 4);

    a_launch(block, false);
    assert_true(read_work(MARLIN(BF16, U8B128, "Li256ELi1ELi8ELi8ELb1ELi4ELi0ELb0"), block, &w));
    assert_int_equal(w.act_order, 1);
    assert_int_equal(w.n_op, 5);
    assert_string_equal(w.rounding, "weight-bf16");
    expect_op(&w.op[1], "qweight", "I32", 0x20000, 16, 768, 256 * 192);
    expect_op(&w.op[2], "scales", "BF16", 0x70000, 2, 192, 2 * 192 * 2);
    expect_op(&w.op[3], "g_idx", "I32", 0xa0000, 256, 0, 256 * 4);
    put(block, 10, 1);
    assert_true(read_work(MARLIN(F16, U4B8, "Li256ELi1ELi8ELi8ELb1ELi4ELin1ELb0"), block, &w));
    assert_int_equal(w.group_size, 256);
    assert_null(w.rounding);
}

static void values_that_cannot_be(void **state)
{
    static const struct { int param; uint64_t value; } cases[] = {{10, 0}, {10, 3}, {10, 0xffffffff}, {11, 0}, {12, 0}, {12, 96}, {13, 248}, {14, 128}, {14, 0xffffffff}, {13, 1u << 30}};
    const char *symbol = MARLIN(F16, U4B8, "Li256ELi1ELi8ELi8ELb1ELi4ELi8ELb0");
    struct td_gpu_work w;
    uint8_t block[120];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        a_launch(block, false);
        put(block, cases[i].param, cases[i].value);
        assert_false(read_work(symbol, block, &w));
    }
}

/* Whose recorded output is one of many? An op from a CUDA graph names its operator, and no launch. */
static void who_adds(void **state)
{
    (void)state;
    assert_true(td_gpu_kernel_adds("_ZN4vllm4gptq33gemm_half_q_half_gptq_4bit_kernelILb1ELi1EEEvPK6__half", "exllama", 4, 50));
    assert_true(td_gpu_kernel_adds("_C::gptq_gemm", "exllama", 4, 50));
    assert_false(td_gpu_kernel_adds("_C::gptq_gemm", "exllama", 4, 51));
    assert_true(td_gpu_kernel_adds("_C::gptq_gemm", "exllama", 8, 24));
    assert_false(td_gpu_kernel_adds("_C::gptq_gemm", "exllama", 8, 25));
    assert_true(td_gpu_kernel_adds("_moe_C::moe_wna16_gemm", "wna16", 4, 1));
    assert_false(td_gpu_kernel_adds("_C::marlin_gemm", "marlin", 4, 50));
    assert_false(td_gpu_kernel_adds("_C::machete_mm", "machete", 4, 50));
    assert_false(td_gpu_kernel_adds(MARLIN(F16, U4B8, "Li256ELi1ELi8ELi8ELb1ELi4ELi8ELb0"), "marlin", 4, 50));
    assert_false(td_gpu_kernel_adds("td_gptq_gemm", "exllama", 4, 50));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_of_a_symbol),
        cmocka_unit_test(rows_by_type),
        cmocka_unit_test(operands),
        cmocka_unit_test(values_that_cannot_be),
        cmocka_unit_test(who_adds),
    };

    return cmocka_run_group_tests_name("gpu_marlin", tests, NULL, NULL);
}
