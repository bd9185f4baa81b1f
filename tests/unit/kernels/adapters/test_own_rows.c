/* test_own_rows.c - a file of rows of one's own (--ops): what it may say, and that each error names
 * its line.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/adapters/own_rows.h"

static struct td_own_rows rows;
static struct td_own_error err;

static bool read_rows(const char *text)
{
    const size_t n = strlen(text);
    char *exact = malloc(n + 1);
    bool ok;

    memcpy(exact, text, n);            /* without its NUL */
    ok = td_own_rows_read(exact, n, &rows, &err);
    free(exact);
    return ok;
}

static const struct td_own_row *one_row(const char *text)
{
    if (!read_rows(text))
        fail_msg("line %d: %s", err.line, err.text);
    assert_int_equal(rows.n, 1);
    return &rows.row[0];
}

#define GEMM "[operator m::g]\nkind = gemm\na = x\nw = y\n"
#define GPTQ "[operator m::q]\nkind = gptq_gemm\na = x\nqweight = w\nscales = s\nbits = 4\n"
#define KERNEL "[kernel k]\nkind = gemm\ntype = F16\n"

static void test_operator(void **state)
{
    const struct td_own_row *row = one_row("# one\n\n  [operator mine::q]  # two\r\n"
                                           "kind=gptq_gemm\n\ta = x\nqweight = w\nscales = s\nout = y\n"
                                           "bits = 4\ngroup_size = group\nzero_offset = 0\nrounding = weight");

    (void)state;
    assert_string_equal(row->name, "mine::q");
    assert_int_equal(row->line, 3);
    assert_false(row->is_kernel);
    assert_string_equal(row->kind->name, "gptq_gemm");
    assert_string_equal(row->arg[td_own_kind_role(row->kind, "a")], "x");
    assert_string_equal(row->arg[td_own_kind_role(row->kind, "qweight")], "w");
    assert_string_equal(row->arg[td_own_kind_role(row->kind, "qzeros")], "");
    assert_string_equal(row->out, "y");
    assert_true(row->bits.given && row->bits.value == 4 && !row->bits.arg[0]);
    assert_true(row->group_size.given && !strcmp(row->group_size.arg, "group"));
    assert_int_equal(row->zero_offset.value, 0);
    assert_string_equal(row->layout, "gptq");
    assert_string_equal(row->rounding, "weight");
}

#define SCALED "[operator m::s]\nkind = scaled_mm\na = x\nw = y\na_scales = sx\nw_scales = sy\n"

static void test_scaled(void **state)
{
    const struct td_own_row *row = one_row(SCALED "azp = z\nazp_adj = adj\nbias = b\ntype = BF16\nlayout = kn\nrounding = sum-e8m13\n");
    const struct td_own_kind *kind = row->kind;

    (void)state;
    assert_string_equal(kind->name, "scaled_mm");
    assert_string_equal(row->arg[td_own_kind_role(kind, "azp_adj")], "adj");
    assert_string_equal(row->type, "BF16");
    assert_string_equal(row->layout, "kn");
    assert_string_equal(row->rounding, "sum-e8m13");
    assert_true(td_own_kind_is_of_the_call(kind, td_own_kind_role(kind, "a")) && td_own_kind_is_of_the_call(kind, td_own_kind_role(kind, "a_scales")) &&
                td_own_kind_is_of_the_call(kind, td_own_kind_role(kind, "azp")));
    assert_false(td_own_kind_is_of_the_call(kind, td_own_kind_role(kind, "w")) || td_own_kind_is_of_the_call(kind, td_own_kind_role(kind, "w_scales")) ||
                 td_own_kind_is_of_the_call(kind, td_own_kind_role(kind, "azp_adj")) || td_own_kind_is_of_the_call(kind, td_own_kind_role(kind, "bias")));
    row = one_row(SCALED "out = c\n");
    assert_true(!row->type && !strcmp(row->layout, "nk") && !strcmp(row->rounding, "none"));
}

#define MOE "[operator m::e]\nkind = moe_gemm\na = x\nqweight = w\nscales = s\nsorted_token_ids = ids\nexpert_ids = e\n" \
            "num_tokens_post_padded = n\nbits = 4\n"

static void test_experts(void **state)
{
    const struct td_own_row *row = one_row(MOE "topk_weights = tw\ntop_k = k\nblock_size = 16\nmul_topk_weights = mul\nround_topk_weights = 1\nout = c\n");
    const struct td_own_kind *kind = row->kind;
    int i;

    (void)state;
    assert_string_equal(kind->name, "moe_gemm");
    assert_string_equal(row->arg[td_own_kind_role(kind, "topk_weights")], "tw");
    assert_true(row->top_k.given && !strcmp(row->top_k.arg, "k") && row->block_size.value == 16 && !row->block_size.arg[0]);
    assert_true(!strcmp(row->mul_topk_weights.arg, "mul") && row->round_topk_weights.value == 1);
    assert_string_equal(row->layout, "gptq");
    for (i = 0; kind->roles[i]; i++) {
        const bool is_weight = !strcmp(kind->roles[i], "qweight") || !strcmp(kind->roles[i], "scales") || !strcmp(kind->roles[i], "qzeros") ||
                               !strcmp(kind->roles[i], "g_idx") || !strcmp(kind->roles[i], "bias");

        assert_int_equal(td_own_kind_is_of_the_call(kind, i), !is_weight);
    }
}

static void test_defaults(void **state)
{
    const struct td_own_row *row = one_row(GPTQ);

    (void)state;
    assert_int_equal(row->zero_offset.value, 1);
    assert_false(row->group_size.given);
    assert_string_equal(row->rounding, "none");
    row = one_row(GPTQ "rounding = weight+bias-after\n");
    assert_string_equal(td_own_rounding(row->rounding, true), "weight-bf16+bias-after");
    assert_string_equal(td_own_rounding(row->rounding, false), "weight-f16+bias-after");
    assert_string_equal(td_own_rounding("bias-after", true), "bias-after");
    row = one_row(GEMM "rounding = bias-after\n");
    assert_string_equal(row->rounding, "bias-after");
    row = one_row(GEMM);
    assert_string_equal(row->layout, "nk");
    assert_string_equal(row->out, "");
}

static void test_fixed_values(void **state)
{
    const struct td_own_row *row = one_row(GEMM "fixed a1 = true\nfixed a2 = -12\nfixed a3 = -0.25\nfixed  a4 = \"x # y\" # z\n"
                                                "fixed a5 = none\nfixed a6 = zeros I32 4 128\n");
    const struct td_own_fixed *f = row->fixed;

    (void)state;
    assert_int_equal(row->n_fixed, 6);
    assert_true(f[0].is == TD_OWN_BOOL && f[0].number == 1);
    assert_true(f[1].is == TD_OWN_INT && f[1].number == -12);
    assert_true(f[2].is == TD_OWN_FLOAT && f[2].real == -0.25);
    assert_true(f[3].is == TD_OWN_TEXT && !strcmp(f[3].text, "x # y") && !strcmp(f[3].arg, "a4"));
    assert_true(f[4].is == TD_OWN_NONE);
    assert_true(f[5].is == TD_OWN_ZEROS && !strcmp(f[5].text, "I32") && f[5].ndim == 2 && f[5].shape[1] == 128);
}

static void test_kernel(void **state)
{
    const struct td_own_row *row = one_row("[kernel mine_gemm]\nkind = gemm\ntype = BF16\nadds = yes\n"
                                           "params = a:8 w:8  c:8 m:4 n:4 k:8 -:16\n");

    (void)state;
    assert_true(row->is_kernel && row->adds);
    assert_string_equal(row->type, "BF16");
    assert_int_equal(row->n_params, 7);
    assert_string_equal(row->param[2].name, "c");
    assert_int_equal(row->param[5].bytes, 8);
    assert_string_equal(row->param[6].name, "-");
}

static void test_loads(void **state)
{
    (void)state;
    one_row("load = build/a b.so\nimport = mine.ops\n" GEMM);
    assert_int_equal(rows.n_loads, 2);
    assert_string_equal(rows.load[0].name, "build/a b.so");
    assert_false(rows.load[0].is_module);
    assert_true(rows.load[1].is_module);
}

static void test_errors(void **state)
{
    static const struct { const char *text; int line; const char *sentence; } wrong[] = {
        {"", 0, "describes nothing"},
        {"load = x.so\n", 0, "describes nothing"},
        {"a = x\n", 1, "only load and import"},
        {"\nload =\n", 2, "no value"},
        {"= x\n", 1, "no key"},
        {"# fine\nnonsense\n", 2, "neither KEY = VALUE"},
        {"[operators m::g]\n", 1, "a section begins with"},
        {"[operator m::g\n", 1, "a section begins with"},
        {"[operator g]\n", 1, "no namespace; \"mine::g\""},
        {"[operator m::g h]\n", 1, "without blanks"},
        {"[kernel ]\n", 1, "without blanks"},
        {GEMM "\n" GEMM, 6, "has a section already, in line 1"},
        {"[operator m::g]\na = x\n", 2, "kind comes first"},
        {"[operator m::g]\nkind = conv\n", 2, "it may be gemm, gptq_gemm"},
        {"\n[operator m::g]\n\n", 2, "has no kind"},
        {"[operator m::g]\nkind = gemm\na = x\n", 1, "has no w"},
        {"[operator m::s]\nkind = scaled_mm\na = x\nw = y\nw_scales = s\nout = c\n", 1, "has no a_scales"},
        {SCALED, 1, "scaled_mm: either out names the argument that C is written to, or type says"},
        {SCALED "out = c\ntype = F16\n", 1, "scaled_mm: either out names"},
        {SCALED "type = F32\n", 7, "it may be F16, BF16"},
        {SCALED "bits = 8\n", 7, "\"bits\" is no key of an operator; there are kind, layout, rounding, type, out"},
        {"[operator m::g]\nkind = gemm\na = x\nw = y\ntype = F16\n", 5, "\"type\" is no key"},
        {"[kernel k]\nkind = scaled_mm\ntype = F16\nparams = a:8 w:8 c:8 m:4 n:4 k:4\n", 1, "a kernel cannot be of kind scaled_mm"},
        {MOE "block_size = 16\n", 1, "has no top_k"},
        {MOE "top_k = 2\n", 1, "has no block_size"},
        {MOE "top_k = 0\n", 10, "neither a number from 1 to 4096"},
        {MOE "top_k = e\nblock_size = 16\n", 1, "the argument e has two meanings"},
        {MOE "top_k = 2\nblock_size = 16\nmul_topk_weights = 1\n", 1, "has mul_topk_weights, and no topk_weights"},
        {MOE "mul_topk_weights = 2\n", 10, "neither a number from 0 to 1"},
        {MOE "round_topk_weights = r\n", 10, "round_topk_weights is 0 or 1"},
        {MOE "rounding = uint8-token\n", 10, "it may be none, weight"},
        {MOE "nothing = 1\n", 10, "zero_offset, top_k, block_size, mul_topk_weights, round_topk_weights, out, fixed NAME, a, qweight, scales, sorted_token_ids, expert_ids, "
                                  "num_tokens_post_padded, topk_weights, qzeros, g_idx, bias"},
        {GPTQ "top_k = 2\n", 7, "\"top_k\" is no key of an operator"},
        {"[kernel k]\nkind = moe_gemm\ntype = F16\nbits = 4\nparams = a:8\n", 1, "a kernel cannot be of kind moe_gemm"},
        {"[operator m::g]\nkind = gemm\nw = x\n" KERNEL, 1, "has no a"},
        {"[operator m::g]\nkind = gptq_gemm\na = x\nqweight = w\nscales = s\n", 1, "has no bits"},
        {GEMM "qweight = y\n", 5, "\"qweight\" is no key of an operator; there are kind"},
        {GEMM "bits = 4\n", 5, "no key of an operator"},
        {GEMM "params = a:8\n", 5, "no key of an operator"},
        {GEMM "a = z\n", 5, "a is given twice"},
        {GEMM "bias = y\n", 1, "the argument y has two meanings"},
        {GEMM "fixed x = 3\n", 1, "the argument x has two meanings"},
        {GEMM "out = 7y\n", 5, "no name of an argument"},
        {GEMM "layout = gptq\n", 5, "it may be nk, kn"},
        {GEMM "rounding = weight\n", 5, "it may be none"},
        {GPTQ "group_size = 4.5\n", 7, "neither a number from -1"},
        {GPTQ "zero_offset = 2\n", 7, "neither a number from 0 to 1"},
        {GPTQ "zero_offset = z\n", 7, "zero_offset is 0 or 1"},
        {GEMM "fixed = 3\n", 5, "no key of an operator"},
        {GEMM "fixed a b = 3\n", 5, "no name of an argument"},
        {GEMM "fixed p = maybe\n", 5, "is no value"},
        {GEMM "fixed p = \"x\n", 5, "does not end"},
        {GEMM "fixed p = zeros I64 4\n", 5, "a type and sizes"},
        {GEMM "fixed p = zeros I32\n", 5, "sizes follow"},
        {GEMM "fixed p = zeros I32 65536 65536\n", 5, "elements in all"},
        {GEMM "fixed p = zeros I32 1 1 1 1 1\n", 5, "at most 4 sizes"},
        {KERNEL, 1, "no params"},
        {"[kernel k]\nkind = gemm\nparams = a:8 w:8 c:8 m:4 n:4 k:4\n", 1, "no type"},
        {KERNEL "params = a:8 w:8 c:8 m:4 n:4\n", 1, "k is missing"},
        {KERNEL "params = a:8 c:8 m:4 n:4 k:4\n", 1, "w is missing"},
        {KERNEL "params = a:8 a:8 w:8 c:8 m:4 n:4 k:4\n", 1, "a is there twice"},
        {KERNEL "params = a:4 w:8 c:8 m:4 n:4 k:4\n", 1, "a is a pointer"},
        {KERNEL "params = a:8 w:8 c:8 m:2 n:4 k:4\n", 1, "m has 4 or 8 bytes"},
        {KERNEL "params = a:8 w:8 c:8 m:4 n:4 k:4 z:4\n", 1, "z is no role of gemm"},
        {KERNEL "params = a\n", 4, "NAME:BYTES"},
        {KERNEL "params = a:0\n", 4, "NAME:BYTES"},
        {KERNEL "type = F32\n", 4, "type is given twice"},
        {KERNEL "a = x\n", 4, "\"a\" is no key of a kernel"},
        {KERNEL "adds = true\n", 4, "it may be no, yes"},
        {GEMM "out = \x01\n", 5, "no text"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (read_rows(wrong[i].text))
            fail_msg("read, and is wrong: %s", wrong[i].text);
        if (err.line != wrong[i].line || !strstr(err.text, wrong[i].sentence))
            fail_msg("expected line %d, %s; got line %d, %s", wrong[i].line, wrong[i].sentence, err.line, err.text);
    }
}

/* Each limit, one above it. */
static void test_limits(void **state)
{
    static char text[TD_OWN_FILE_MAX + 2];
    size_t n = 0;
    int i;

    (void)state;
    for (i = 0; i <= TD_OWN_ROWS; i++)
        n += (size_t)sprintf(text + n, "[operator m::g%d]\nkind = gemm\na = x\nw = y\n", i);
    assert_false(read_rows(text));
    assert_int_equal(err.line, 4 * TD_OWN_ROWS + 1);
    assert_non_null(strstr(err.text, "more than 32 sections"));
    n = (size_t)sprintf(text, GEMM);
    for (i = 0; i <= TD_OWN_FIXED; i++)
        n += (size_t)sprintf(text + n, "fixed p%d = 1\n", i);
    assert_false(read_rows(text));
    assert_int_equal(err.line, 5 + TD_OWN_FIXED);
    for (i = 0, n = 0; i <= TD_OWN_LOADS; i++)
        n += (size_t)sprintf(text + n, "load = %d\n", i);
    assert_false(read_rows(text));
    assert_int_equal(err.line, TD_OWN_LOADS + 1);
    memset(text, ' ', 2000);
    strcpy(text + 2000, "\n");
    assert_false(read_rows(text));
    assert_int_equal(err.line, 1);
    memset(text, '\n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_false(read_rows(text));
    assert_int_equal(err.line, 0);
    assert_non_null(strstr(err.text, "larger than"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operator), cmocka_unit_test(test_defaults), cmocka_unit_test(test_fixed_values),
        cmocka_unit_test(test_kernel),   cmocka_unit_test(test_loads),    cmocka_unit_test(test_errors),
        cmocka_unit_test(test_limits),   cmocka_unit_test(test_scaled),
        cmocka_unit_test(test_experts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
