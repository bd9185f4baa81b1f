/* test_tap_torch.c - operators that are registered by torch's C ABI (tests/helpers/lib_fake_torch.c): what the tap reads of a
 * schema, that it stands before them, counts them, and lets everything through.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/json.h"
#include "tap_bench.h"
#include "recorder/tap_client/proc_files.h"
#include "recorder/tap/torch/torch_library.h"
#include "recorder/tap/torch/torch_operators.h"
#include "recorder/tap/torch/torch_product.h"
#include "recorder/tap/torch/torch_trampolines.h"
#include "tests/helpers/fake_torch.h"
#include "fake_torch_lib.h"

/* The tap's, as a library of operators sees them. */
td_torch_init aoti_torch_library_init_def, aoti_torch_library_init_fragment;
td_torch_init_impl aoti_torch_library_init_impl;
td_torch_def aoti_torch_library_def;
td_torch_impl aoti_torch_library_impl;
td_torch_impl_version torch_library_impl;
td_torch_delete aoti_torch_delete_library_object;

static fake_torch_call_fn *call;
static int32_t *refuses;
static int64_t *asked_for_data;

/* Start the tap's thread, and wait until it has put the fronts to sleep: then it has its name. There is no folder for its socket
 * (main), so nobody links to it. */
static bool tap_sleeps(void)
{
    int tries;

    tap_start_if_cold();
    for (tries = 0; tries < 2000 && !client_has_thread(getpid(), TAP_THREAD); tries++)
        usleep(10000);
    return client_has_thread(getpid(), TAP_THREAD);
}

static int setup(void **state)
{
    void *lib = fake_torch_lib();

    (void)state;
    if (!lib)
        return -1;
    *(void **)&call = dlsym(lib, "fake_torch_call");
    refuses = dlsym(lib, "fake_torch_refuses");
    asked_for_data = dlsym(lib, "fake_torch_asked_for_data");
    return !call || !refuses || !asked_for_data || !tap_sleeps();
}

static void arm(struct bench *b)
{
    bench_open(b, TAP_MODE_ALL);
    tap_front_torch.set_awake(true);
    tap_front_torch.start();
}

static void disarm(struct bench *b)
{
    tap_front_torch.stop(0);
    tap_front_torch.set_awake(false);
    while (client_drain(&b->l, b->lk))
        ;
    client_operators_facts(&b->l.operators, b->l.opt.writer);
    bench_read(b);
    client_operators_release(&b->l.operators);
}

/* ---- schemas ------------------------------------------------------------------------------------------------------- */

static void test_schema_of_a_gemm(void **state)
{
    struct tap_torch_schema s;

    (void)state;
    assert_true(tap_torch_schema_read("machete_mm(Tensor A, Tensor B, int b_type, ScalarType? out_type, Tensor? b_group_scales, int? b_group_size, str? schedule) -> Tensor", &s));
    assert_string_equal(s.name, "machete_mm");
    assert_int_equal(s.n_args, 7);
    assert_int_equal(s.n_results, 1);
    assert_true(s.returns_tensor);
    assert_string_equal(s.arg[1].name, "B");
    assert_int_equal(s.arg[1].type, TAP_TORCH_TENSOR);
    assert_false(s.arg[1].optional);
    assert_int_equal(s.arg[3].type, TAP_TORCH_DTYPE);
    assert_true(s.arg[3].optional);
    assert_int_equal(s.arg[4].type, TAP_TORCH_TENSOR);
    assert_true(s.arg[4].optional);
    assert_int_equal(s.arg[6].type, TAP_TORCH_TEXT);
    assert_int_equal(tap_torch_schema_arg(&s, "b_group_size"), 5);
    assert_int_equal(tap_torch_schema_arg(&s, "b"), -1);
}

/* As vLLM writes them: blanks anywhere, results written in place, aliases, keywords, defaults, overloads. */
static void test_schemas_of_all_forms(void **state)
{
    struct tap_torch_schema s;

    (void)state;
    assert_true(tap_torch_schema_read("cutlass_scaled_mm(Tensor! out, Tensor a,                  Tensor b, Tensor? bias) -> ()", &s));
    assert_int_equal(s.n_args, 4);
    assert_true(s.arg[0].written);
    assert_false(s.arg[1].written);
    assert_int_equal(s.n_results, 0);
    assert_false(s.returns_tensor);
    assert_true(tap_torch_schema_read("scaled_fp4_quant.out(Tensor input, bool is_sf, *, Tensor(a!) output, Tensor(b!)? output_scale) -> ()", &s));
    assert_string_equal(s.name, "scaled_fp4_quant.out");
    assert_int_equal(s.n_args, 4);
    assert_true(s.arg[2].written && s.arg[3].written && s.arg[3].optional);
    assert_true(tap_torch_schema_read("merge(Tensor!? lse, int!? tokens, int[]? shape=None, float limit=7.0, int[2] pair=[1, 2], str s=\"a, (b\") -> (Tensor, Tensor(a!)? out)", &s));
    assert_int_equal(s.n_args, 6);
    assert_true(s.arg[0].optional && s.arg[0].written);
    assert_true(s.arg[2].list && s.arg[2].optional);
    assert_string_equal(s.arg[5].name, "s");
    assert_int_equal(s.n_results, 2);
    assert_true(tap_torch_schema_read("_C::all() -> bool", &s));
    assert_string_equal(s.name, "all");
    assert_int_equal(s.n_args, 0);
    assert_false(s.returns_tensor);
    assert_true(tap_torch_schema_read("f(SymInt n, Tensor[] list, __torch__.torch.classes.ns.X x) -> Tensor[]", &s));
    assert_int_equal(s.arg[0].type, TAP_TORCH_INT);
    assert_true(s.arg[1].list);
    assert_int_equal(s.arg[2].type, TAP_TORCH_OTHER);
    assert_false(s.returns_tensor);
}

static void test_schemas_that_are_none(void **state)
{
    static const char *const bad[] = {"", "f", "f(", "f(Tensor", "f(Tensor)", "f(Tensor a", "f(Tensor a)", "f(Tensor a) ->", "f(Tensor a) -> Tensor x y z", "f(Tensor a,) -> ()", "f(Tensor(a! a) -> ()",
                                      "f(int[ a) -> ()", "f(str s=\"x) -> ()", "f(int a=", "(Tensor a) -> ()", "f(Tensor a) -> (Tensor"};
    char text[4096] = "f(";
    struct tap_torch_schema s;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        if (tap_torch_schema_read(bad[i], &s))
            fail_msg("\"%s\" was read", bad[i]);
    for (i = 0; i < TAP_TORCH_ARGS; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%sint a%zu", i ? ", " : "", i);
    strcat(text, ") -> ()");
    assert_true(tap_torch_schema_read(text, &s));
    assert_int_equal(s.n_args, TAP_TORCH_ARGS);
    strcpy(strchr(text, ')'), ", int more) -> ()");
    assert_false(tap_torch_schema_read(text, &s));
    memset(text, 'a', 300);
    strcpy(text + 300, "() -> ()");
    assert_false(tap_torch_schema_read(text, &s));
}

/* ---- what a product is ----------------------------------------------------------------------------------------------- */

/* As vLLM 0.26 registers it (strings of _C_stable_libtorch.abi3.so). */
#define MACHETE_MM "machete_mm( Tensor A, Tensor B, int b_type, ScalarType? out_type, Tensor? group_scales, Tensor? group_zeros, int? group_size, " \
                   "Tensor? channel_scales, Tensor? token_scales, str? schedule) -> Tensor"
enum { A, B, TYPE, OUT_TYPE, SCALES, ZEROS, GROUP, CHANNEL, TOKEN, SCHEDULE, MM_ARGS };

static uint16_t gpu[4096];             /* nobody reads what lies there */
/* A call of [3, 256] by [256, 64] in two groups. Optional arguments lie behind an address. */
struct mm_call { struct fake_torch_tensor a, b, scales, other; td_torch_value scales_at, group_at, other_at, stack[MM_ARGS]; };

static void mm_call(struct mm_call *c)
{
    c->a = (struct fake_torch_tensor){.ndim = 2, .sizes = {3, 256}, .strides = {256, 1}, .dtype = TD_TORCH_F16, .device = TD_TORCH_CUDA, .data = gpu};
    c->b = (struct fake_torch_tensor){.ndim = 2, .sizes = {32, 64}, .strides = {1, 32}, .dtype = TD_TORCH_I32, .device = TD_TORCH_CUDA, .data = gpu + 1024};
    c->scales = (struct fake_torch_tensor){.ndim = 2, .sizes = {2, 64}, .strides = {64, 1}, .dtype = TD_TORCH_F16, .device = TD_TORCH_CUDA, .data = gpu + 2048};
    c->other = c->scales;
    c->scales_at = (uintptr_t)&c->scales, c->other_at = (uintptr_t)&c->other, c->group_at = 128;
    memset(c->stack, 0, sizeof c->stack);
    c->stack[A] = (uintptr_t)&c->a, c->stack[B] = (uintptr_t)&c->b, c->stack[TYPE] = TD_GPU_VLLM_U4B8;
    c->stack[SCALES] = (uintptr_t)&c->scales_at, c->stack[GROUP] = (uintptr_t)&c->group_at;
}

static const struct tap_torch_meaning *machete(void)
{
    static struct tap_torch_schema schema;
    static const struct tap_torch_meaning *m;

    if (!m) {
        assert_true(tap_torch_schema_read(MACHETE_MM, &schema));
        m = tap_torch_meaning_of("_C::machete_mm", &schema);
    }
    assert_non_null(m);
    return m;
}

static enum tap_torch_product product(struct mm_call *c, struct td_gpu_work *w)
{
    td_torch_tensor a;

    return tap_torch_product_read(machete(), c->stack, w, &a);
}

static void test_a_product(void **state)
{
    struct fake_torch_tensor result = {.ndim = 2, .sizes = {3, 64}, .strides = {64, 1}, .dtype = TD_TORCH_F16, .device = TD_TORCH_CUDA, .data = gpu + 100};
    struct td_gpu_work w;
    struct mm_call c;

    (void)state;
    mm_call(&c);
    c.a.strides[0] = 300;                /* rows of a larger tensor */
    assert_int_equal(product(&c, &w), TAP_TORCH_READ);
    assert_true(w.m == 3 && w.n == 64 && w.k == 256 && w.bits == 4 && w.group_size == 128 && w.whole);
    assert_string_equal(w.rounding, "weight-f16");
    assert_int_equal(w.n_op, 4);
    assert_string_equal(w.op[0].role, "qweight");
    assert_int_equal(w.op[0].bytes, 32 * 64 * 4);
    assert_string_equal(w.op[1].role, "scales");
    assert_string_equal(w.op[2].role, "a");
    assert_true(w.op[2].row_stride == 300 && w.op[2].bytes == 3 * 256 * 2 && w.op[2].address == (uintptr_t)gpu);
    assert_int_equal(w.op[3].address, TAP_GPU_LATER);
    assert_int_equal(tap_torch_product_result(&w, (uintptr_t)&result), (uintptr_t)(gpu + 100));
    result.sizes[1] = 32;                /* another shape, then another type, then gaps */
    assert_int_equal(tap_torch_product_result(&w, (uintptr_t)&result), 0);
    result.sizes[1] = 64, result.dtype = TD_TORCH_F32;
    assert_int_equal(tap_torch_product_result(&w, (uintptr_t)&result), 0);
    result.dtype = TD_TORCH_F16, result.strides[0] = 65;
    assert_int_equal(tap_torch_product_result(&w, (uintptr_t)&result), 0);
    assert_int_equal(tap_torch_product_result(&w, 0), 0);
    mm_call(&c);
    c.stack[GROUP] = 0;                  /* None: one group */
    c.a.dtype = TD_TORCH_BF16;
    c.stack[TYPE] = TD_GPU_VLLM_U8B128;
    assert_int_equal(product(&c, &w), TAP_TORCH_READ);
    assert_true(w.group_size == 256 && w.bits == 8);
    assert_string_equal(w.rounding, "weight-bf16");
    c.a.sizes[0] = 0;
    assert_int_equal(product(&c, &w), TAP_TORCH_EMPTY);
}

/* AWQ: the zero points come scaled, and the type is without a bias. */
static void test_a_product_with_zeros(void **state)
{
    struct td_gpu_work w;
    struct mm_call c;
    int bf16;

    (void)state;
    for (bf16 = 0; bf16 < 2; bf16++) {
        mm_call(&c);
        c.a.dtype = c.scales.dtype = c.other.dtype = bf16 ? TD_TORCH_BF16 : TD_TORCH_F16;
        c.other.data = gpu + 3072;
        c.stack[ZEROS] = (uintptr_t)&c.other_at, c.stack[TYPE] = bf16 ? TD_GPU_VLLM_U8 : TD_GPU_VLLM_U4;
        assert_int_equal(product(&c, &w), TAP_TORCH_READ);
        assert_int_equal(w.bits, bf16 ? 8 : 4);
        assert_string_equal(w.rounding, bf16 ? "zero-bf16" : "zero-f16");
        assert_int_equal(w.n_op, 5);
        assert_string_equal(w.op[2].role, "qzeros");
        assert_string_equal(w.op[2].dtype, bf16 ? "BF16" : "F16");
        assert_true(w.op[2].use == TD_GPU_WEIGHT && w.op[2].bytes == 2 * 64 * 2 && w.op[2].address == (uintptr_t)(gpu + 3072));
        c.other.dtype = TD_TORCH_I32;    /* integers, as another operator has them */
        assert_int_equal(product(&c, &w), TAP_TORCH_UNKNOWN);
    }
}

/* As vLLM 0.26 registers them. */
static const char *const schemas[] = {
    "marlin_gemm(Tensor a, Tensor? c_or_none, Tensor b_q_weight, Tensor? b_bias_or_none,Tensor b_scales, Tensor? a_scales, Tensor? global_scale, "
    "Tensor? b_zeros_or_none, Tensor? g_idx_or_none, Tensor? perm_or_none, Tensor workspace, int b_type_id, SymInt size_m, SymInt size_n, SymInt size_k, "
    "bool is_k_full, bool use_atomic_add, bool use_fp32_reduce, bool is_zp_float) -> Tensor",
    "gptq_gemm(Tensor a, Tensor b_q_weight, Tensor b_gptq_qzeros, Tensor b_gptq_scales, Tensor b_g_idx, bool use_exllama, bool use_v2_format, int bit) -> Tensor",
    "awq_gemm(Tensor _in_feats, Tensor _kernel, Tensor _scaling_factors, Tensor _zeros, SymInt split_k_iters) -> Tensor",
};
enum { MARLIN, GPTQ, AWQ };
#define OPTIONAL(c, at, t) ((c)->at_of[at] = (uintptr_t)(t), (c)->stack[at] = (uintptr_t)&(c)->at_of[at])

/* A call of [m, 256] by [256, 64] of one of these operators, in two groups. */
struct w_call { struct fake_torch_tensor a, w, scales, zeros, g_idx, perm, bias, none; td_torch_value at_of[19], stack[19]; };

static struct fake_torch_tensor on_gpu(int64_t rows, int64_t cols, int32_t dtype, int at)
{
    return (struct fake_torch_tensor){.ndim = cols < 0 ? 1 : 2, .sizes = {rows, cols}, .strides = {cols < 0 ? 1 : cols, 1}, .dtype = dtype, .device = TD_TORCH_CUDA,
                                      .data = rows ? gpu + at : NULL};
}

static void w_call(struct w_call *c, int op, int64_t m)
{
    memset(c, 0, sizeof *c);
    c->a = on_gpu(m, 256, TD_TORCH_F16, 0);
    c->w = op == MARLIN ? on_gpu(16, 128, TD_TORCH_I32, 512) : op == GPTQ ? on_gpu(32, 64, TD_TORCH_I32, 512) : on_gpu(256, 8, TD_TORCH_I32, 512);
    c->scales = on_gpu(2, 64, TD_TORCH_F16, 1024);
    c->zeros = on_gpu(2, 8, TD_TORCH_I32, 1536);
    c->g_idx = on_gpu(256, -1, TD_TORCH_I32, 2048), c->perm = on_gpu(256, -1, TD_TORCH_I32, 2304);
    c->bias = on_gpu(64, -1, TD_TORCH_F16, 2560);
    c->none = on_gpu(0, -1, TD_TORCH_I32, 0);
    c->stack[0] = (uintptr_t)&c->a;
    if (op == MARLIN) {
        c->stack[2] = (uintptr_t)&c->w, c->stack[4] = (uintptr_t)&c->scales, c->stack[10] = (uintptr_t)&c->none;
        OPTIONAL(c, 7, &c->none), OPTIONAL(c, 8, &c->none), OPTIONAL(c, 9, &c->none);
        c->stack[11] = TD_GPU_VLLM_U4B8, c->stack[12] = (uint64_t)m, c->stack[13] = 64, c->stack[14] = 256, c->stack[15] = 1, c->stack[17] = 1;
    } else if (op == GPTQ) {
        c->stack[1] = (uintptr_t)&c->w, c->stack[2] = (uintptr_t)&c->zeros, c->stack[3] = (uintptr_t)&c->scales, c->stack[4] = (uintptr_t)&c->none;
        c->stack[5] = 1, c->stack[7] = 4;
    } else {
        c->stack[1] = (uintptr_t)&c->w, c->stack[2] = (uintptr_t)&c->scales, c->stack[3] = (uintptr_t)&c->zeros, c->stack[4] = 8;
    }
}

static enum tap_torch_product w_product(struct w_call *c, int op, struct td_gpu_work *w)
{
    static const char *const names[] = {"_C::marlin_gemm", "_C::gptq_gemm", "_C::awq_gemm"};
    static struct tap_torch_schema schema[3];
    static const struct tap_torch_meaning *m[3];
    td_torch_tensor a;

    if (!m[op]) {
        assert_true(tap_torch_schema_read(schemas[op], &schema[op]));
        m[op] = tap_torch_meaning_of(names[op], &schema[op]);
        assert_non_null(m[op]);
    }
    return tap_torch_product_read(m[op], c->stack, w, &a);
}

/* The roles of all operands, in their order. */
static void expect_roles(const struct td_gpu_work *w, const char *want)
{
    char roles[128] = "";
    int i;

    for (i = 0; i < w->n_op; i++)
        snprintf(roles + strlen(roles), sizeof roles - strlen(roles), "%s%s", i ? " " : "", w->op[i].role);
    assert_string_equal(roles, want);
}

static void test_marlin(void **state)
{
    struct td_gpu_work w;
    struct w_call c;

    (void)state;
    w_call(&c, MARLIN, 3);
    assert_int_equal(w_product(&c, MARLIN, &w), TAP_TORCH_READ);
    expect_roles(&w, "a qweight scales c");
    assert_true(w.m == 3 && w.n == 64 && w.k == 256 && w.bits == 4 && w.group_size == 128 && w.whole && !w.act_order);
    assert_string_equal(w.rounding, "weight-f16");
    w_call(&c, MARLIN, 3);               /* AWQ, with a bias */
    OPTIONAL(&c, 7, &c.zeros), OPTIONAL(&c, 3, &c.bias);
    c.stack[11] = TD_GPU_VLLM_U4;
    c.a.dtype = c.scales.dtype = c.bias.dtype = TD_TORCH_BF16;
    assert_int_equal(w_product(&c, MARLIN, &w), TAP_TORCH_READ);
    expect_roles(&w, "a qweight scales qzeros bias c");
    assert_string_equal(w.rounding, "weight-bf16+bias-after");
    w_call(&c, MARLIN, 3);               /* act-order, 8 bits */
    OPTIONAL(&c, 8, &c.g_idx), OPTIONAL(&c, 9, &c.perm);
    c.stack[11] = TD_GPU_VLLM_U8B128;
    c.w = on_gpu(16, 256, TD_TORCH_I32, 512);
    assert_int_equal(w_product(&c, MARLIN, &w), TAP_TORCH_READ);
    expect_roles(&w, "a qweight scales g_idx perm c");
    assert_true(w.bits == 8 && w.act_order);
    w_call(&c, MARLIN, 3);               /* one group: sums are scaled */
    c.scales = on_gpu(1, 64, TD_TORCH_F16, 1024);
    assert_int_equal(w_product(&c, MARLIN, &w), TAP_TORCH_READ);
    assert_true(w.group_size == 256 && !w.rounding);
}

static void test_exllama(void **state)
{
    static const int64_t rows[] = {1, 50, 51};
    struct td_gpu_work w;
    struct w_call c;
    int i, bits;

    (void)state;
    for (bits = 4; bits <= 8; bits += 4)
        for (i = 0; i < 3; i++) {
            w_call(&c, GPTQ, bits == 8 && i ? rows[i] - 26 : rows[i]);
            c.stack[7] = (uint64_t)bits;
            c.w = on_gpu(8 * bits, 64, TD_TORCH_I32, 512), c.zeros = on_gpu(2, 2 * bits, TD_TORCH_I32, 1536);
            assert_int_equal(w_product(&c, GPTQ, &w), TAP_TORCH_READ);
            expect_roles(&w, "a qweight qzeros scales c");
            assert_true(w.n == 64 && w.k == 256 && w.bits == bits && w.group_size == 128 && w.zero_offset == 1 && !w.act_order);
            assert_true(!w.rounding == (i < 2));
            assert_true(!w.rounding || !strcmp(w.rounding, "weight-f16"));
        }
    w_call(&c, GPTQ, 2);
    c.stack[4] = (uintptr_t)&c.perm, c.stack[6] = 1;
    assert_int_equal(w_product(&c, GPTQ, &w), TAP_TORCH_READ);
    expect_roles(&w, "a qweight qzeros scales perm c");
    assert_true(w.act_order && w.zero_offset == 0);
}

static void test_awq(void **state)
{
    struct td_gpu_work w;
    struct w_call c;

    (void)state;
    w_call(&c, AWQ, 3);
    assert_int_equal(w_product(&c, AWQ, &w), TAP_TORCH_READ);
    expect_roles(&w, "a qweight scales qzeros c");
    assert_true(w.n == 64 && w.k == 256 && w.bits == 4 && w.group_size == 128);
    assert_string_equal(w.rounding, "weight-f16");
}

/* Other activations, another kernel inside, zero points of floats. */
static void test_calls_with_another_meaning(void **state)
{
    struct td_gpu_work w;
    struct w_call c;
    int i;

    (void)state;
    for (i = 0; i < 8; i++) {
        w_call(&c, i < 6 ? MARLIN : GPTQ, 3);
        switch (i) {
        case 0: OPTIONAL(&c, 5, &c.scales); break;
        case 1: OPTIONAL(&c, 6, &c.scales); break;
        case 2: c.stack[18] = 1; break;
        case 3: OPTIONAL(&c, 7, &c.zeros); break; /* of a type that has none */
        case 4: c.stack[11] = TD_GPU_VLLM_U4; break; /* a type that has some */
        case 5: c.scales = on_gpu(3, 64, TD_TORCH_F16, 1024); break;
        case 6: c.stack[5] = 0; break;
        default: c.stack[7] = 3;
        }
        assert_int_equal(w_product(&c, i < 6 ? MARLIN : GPTQ, &w), TAP_TORCH_UNKNOWN);
    }
}

/* What the row does not describe is no op: it would be one with another meaning. */
static void test_products_that_are_not_known(void **state)
{
    static const int absent[] = {CHANNEL, TOKEN, ZEROS}; /* the last one with a type that has no zero points */
    struct td_gpu_work w;
    struct mm_call c;
    int i;

    (void)state;
    for (i = 0; i < 3; i++) {
        mm_call(&c);
        c.stack[absent[i]] = (uintptr_t)&c.other_at;
        assert_int_equal(product(&c, &w), TAP_TORCH_UNKNOWN);
    }
    for (i = 0; i < 9; i++) {
        mm_call(&c);
        switch (i) {
        case 0: c.a.device = TD_TORCH_CPU; break;
        case 1: c.b.device = TD_TORCH_CPU; break;
        case 2: c.a.ndim = 1; break;
        case 3: c.a.dtype = TD_TORCH_F32; break;
        case 4: c.stack[TYPE] = TD_GPU_VLLM_U4; break;
        case 5: c.group_at = 100; break;
        case 6: c.scales.strides[0] = 65; break;
        case 7: c.b.strides[1] = 33; break;
        default: c.scales.no_storage = 1;
        }
        assert_int_equal(product(&c, &w), TAP_TORCH_UNKNOWN);
    }
}

/* As vLLM 0.26 registers it (csrc/libtorch_stable/moe/torch_bindings.cpp). */
#define MOE_MARLIN "moe_wna16_marlin_gemm(Tensor! a, Tensor? c_or_none,Tensor! b_q_weight, Tensor? b_bias_or_none,Tensor! b_scales, Tensor? a_scales, Tensor? " \
                   "global_scale, Tensor? b_zeros_or_none,Tensor? g_idx_or_none, Tensor? perm_or_none, Tensor! workspace,Tensor sorted_token_ids," \
                   "Tensor! expert_ids, Tensor! num_tokens_past_padded,Tensor! topk_weights, int moe_block_size, int top_k, bool mul_topk_weights, int b_type_id," \
                   "int size_m, int size_n, int size_k,bool is_full_k, bool use_atomic_add,bool use_fp32_reduce, bool is_zp_float," \
                   "int thread_k, int thread_n, int blocks_per_sm) -> Tensor"
enum { MOE_A, MOE_C, MOE_W, MOE_BIAS, MOE_S, MOE_AS, MOE_GLOBAL, MOE_Z, MOE_G, MOE_PERM, MOE_SPACE, MOE_SORTED, MOE_EXPERTS, MOE_PADDED, MOE_TOPK,
       MOE_BLOCK, MOE_TOP_K, MOE_MUL, MOE_TYPE, MOE_SIZE_M, MOE_SIZE_N, MOE_SIZE_K, MOE_FULL, MOE_ATOMIC, MOE_FP32, MOE_ZP_FLOAT, MOE_ARGS = 29 };
enum { MOE_TENSORS = 12 };

/* A call of 3 tokens, 2 experts each of 8, [3, 256] by [8, 256, 64] in two groups; tensor i of the call lies at its own address. */
struct moe_call { struct fake_torch_tensor t[MOE_TENSORS]; td_torch_value at[MOE_TENSORS], stack[MOE_ARGS]; };

static struct fake_torch_tensor dense(int32_t dtype, int ndim, int64_t d0, int64_t d1, int64_t d2, void *data)
{
    struct fake_torch_tensor t = {.ndim = ndim, .sizes = {d0, d1, d2}, .dtype = dtype, .device = TD_TORCH_CUDA, .data = data};
    int64_t n = 1;
    int i;

    for (i = ndim - 1; i >= 0; n *= t.sizes[i--])
        t.strides[i] = n;
    return t;
}

static void moe_call(struct moe_call *c)
{
    static const int place[MOE_TENSORS] = {MOE_A, MOE_W, MOE_S, MOE_SORTED, MOE_EXPERTS, MOE_PADDED, MOE_TOPK, MOE_G, MOE_PERM, MOE_Z, MOE_BIAS, MOE_AS};
    int i;

    memset(c, 0, sizeof *c);
    c->t[0] = dense(TD_TORCH_BF16, 2, 3, 256, 0, gpu);
    c->t[1] = dense(TD_TORCH_I32, 3, 8, 16, 128, gpu + 100);
    c->t[2] = dense(TD_TORCH_BF16, 3, 8, 2, 64, gpu + 200);
    c->t[3] = dense(TD_TORCH_I32, 1, 48, 0, 0, gpu + 300);
    c->t[4] = dense(TD_TORCH_I32, 1, 6, 0, 0, gpu + 400);
    c->t[5] = dense(TD_TORCH_I32, 1, 1, 0, 0, gpu + 500);
    c->t[6] = dense(TD_TORCH_F32, 2, 3, 2, 0, gpu + 600);
    c->t[7] = c->t[8] = dense(TD_TORCH_I32, 2, 8, 0, 0, NULL); /* as vLLM has them without act-order */
    c->t[9] = dense(TD_TORCH_I32, 3, 8, 2, 8, gpu + 700);
    c->t[10] = dense(TD_TORCH_BF16, 2, 8, 64, 0, gpu + 800);
    c->t[11] = dense(TD_TORCH_F32, 1, 3, 0, 0, gpu + 900);
    for (i = 0; i < MOE_TENSORS; i++)
        c->at[i] = (uintptr_t)&c->t[i];
    for (i = 0; i < 9; i++)            /* those behind are None; g_idx and perm are optional */
        c->stack[place[i]] = i < 7 ? (uintptr_t)&c->t[i] : (uintptr_t)&c->at[i];
    c->stack[MOE_BLOCK] = 8, c->stack[MOE_TOP_K] = 2, c->stack[MOE_TYPE] = TD_GPU_VLLM_U4B8;
    c->stack[MOE_MUL] = 0xab00, c->stack[MOE_ZP_FLOAT] = 0xcd00; /* bools are one byte of what lies there */
}

static enum tap_torch_product moe_product(struct moe_call *c, struct td_gpu_work *w)
{
    static struct tap_torch_schema schema;
    static const struct tap_torch_meaning *m;
    td_torch_tensor a;

    if (!m) {
        assert_true(tap_torch_schema_read(MOE_MARLIN, &schema));
        assert_int_equal(schema.n_args, MOE_ARGS);
        m = tap_torch_meaning_of("_moe_C::moe_wna16_marlin_gemm", &schema);
    }
    assert_non_null(m);
    return tap_torch_product_read(m, c->stack, w, &a);
}

static int64_t attr_of(const struct td_gpu_work *w, const char *name)
{
    int i;

    for (i = 0; i < w->n_attr && strcmp(w->attr[i].name, name); i++)
        ;
    return i < w->n_attr ? w->attr[i].value : -1;
}

static void assert_roles(const struct td_gpu_work *w, const char *const *roles)
{
    int i;

    for (i = 0; i < w->n_op && roles[i]; i++)
        assert_string_equal(w->op[i].role, roles[i]);
    assert_true(i == w->n_op && !roles[i]);
}

static void test_a_product_with_experts(void **state)
{
    static const char *const plain[] = {"qweight", "scales", "a", "sorted_token_ids", "expert_ids", "num_tokens_post_padded", "topk_weights", "c", NULL},
                      *const all[] = {"qweight", "scales", "g_idx", "perm", "bias", "a", "sorted_token_ids", "expert_ids", "num_tokens_post_padded",
                                      "topk_weights", "c", NULL},
                      *const awq[] = {"qweight", "scales", "qzeros", "a", "sorted_token_ids", "expert_ids", "num_tokens_post_padded", "topk_weights", "c", NULL};
    struct fake_torch_tensor result = dense(TD_TORCH_BF16, 2, 6, 64, 0, gpu + 1000);
    struct td_gpu_work w;
    struct moe_call c;

    (void)state;
    moe_call(&c);
    assert_int_equal(moe_product(&c, &w), TAP_TORCH_READ);
    assert_true(w.m == 3 && w.n == 64 && w.k == 256 && w.c_rows == 6 && w.bits == 4 && w.group_size == 128 && w.zero_offset == 1 && !w.act_order && w.whole);
    assert_string_equal(w.rounding, "weight-bf16");
    assert_roles(&w, plain);
    assert_true(attr_of(&w, "experts") == 8 && attr_of(&w, "top_k") == 2 && attr_of(&w, "block_size") == 8 && attr_of(&w, "mul_topk_weights") == 0 &&
                attr_of(&w, "round_topk_weights") == 1);
    assert_true(w.op[0].ndim == 3 && w.op[0].bytes == 8 * 16 * 128 * 4 && w.op[0].shape[2] == 128);
    assert_true(w.op[7].shape[0] == 6 && w.op[7].bytes == 6 * 64 * 2 && w.op[7].address == TAP_GPU_LATER);
    assert_int_equal(tap_torch_product_result(&w, (uintptr_t)&result), (uintptr_t)(gpu + 1000));
    result.sizes[0] = 3;                 /* a row for each token is another product */
    assert_int_equal(tap_torch_product_result(&w, (uintptr_t)&result), 0);
    c.t[2].sizes[1] = 1, c.t[2].strides[0] = 64;
    c.stack[MOE_MUL] |= 1;
    assert_int_equal(moe_product(&c, &w), TAP_TORCH_READ);
    assert_true(w.group_size == 256 && !w.rounding && attr_of(&w, "mul_topk_weights") == 1);
    moe_call(&c);                        /* act-order and a bias */
    c.t[7] = c.t[8] = dense(TD_TORCH_I32, 2, 8, 256, 0, gpu + 1100);
    c.stack[MOE_BIAS] = (uintptr_t)&c.at[10];
    assert_int_equal(moe_product(&c, &w), TAP_TORCH_READ);
    assert_true(w.act_order == 1);
    assert_non_null(strstr(w.rounding, "+bias-after"));
    assert_roles(&w, all);
    moe_call(&c);                        /* AWQ */
    c.stack[MOE_Z] = (uintptr_t)&c.at[9], c.stack[MOE_TYPE] = TD_GPU_VLLM_U4;
    assert_int_equal(moe_product(&c, &w), TAP_TORCH_READ);
    assert_true(w.bits == 4 && w.zero_offset == 0);
    assert_roles(&w, awq);
}

static void test_products_with_experts_that_are_not_known(void **state)
{
    struct td_gpu_work w;
    struct moe_call c;
    int i;

    (void)state;
    for (i = 0; i < 12; i++) {
        moe_call(&c);
        switch (i) {
        case 0: c.t[0].dtype = TD_TORCH_F32; break;
        case 1: c.t[1].ndim = 2; break;
        case 2: c.t[2].sizes[0] = 7; break;
        case 3: c.t[2].sizes[1] = 3, c.t[2].strides[0] = 192; break;
        case 4: c.stack[MOE_TYPE] = TD_GPU_VLLM_U4; break;
        case 5: c.stack[MOE_Z] = (uintptr_t)&c.at[9]; break;
        case 6: c.stack[MOE_AS] = (uintptr_t)&c.at[11]; break; /* activations of 8 bits */
        case 7: c.stack[MOE_ZP_FLOAT] |= 1; break;
        case 8: c.stack[MOE_TOP_K] = 0; break;
        case 9: c.stack[MOE_TOP_K] = (td_torch_value)1 << 60; break;
        case 10: c.stack[MOE_BLOCK] = 0; break;
        default: c.t[3].device = TD_TORCH_CPU;
        }
        if (moe_product(&c, &w) != TAP_TORCH_UNKNOWN)
            fail_msg("case %d was read", i);
    }
}

#define MOE_WNA16 "moe_wna16_gemm(Tensor input, Tensor! output, Tensor b_qweight, Tensor b_scales, Tensor? b_qzeros, Tensor? topk_weights, " \
                  "Tensor sorted_token_ids, Tensor expert_ids, Tensor num_tokens_post_pad, int top_k, int BLOCK_SIZE_M, int BLOCK_SIZE_N, " \
                  "int BLOCK_SIZE_K, int bit) -> Tensor"
enum { WNA_A, WNA_C, WNA_W, WNA_S, WNA_Z, WNA_TOPK, WNA_SORTED, WNA_EXPERTS, WNA_PADDED, WNA_TOP_K, WNA_M, WNA_N, WNA_K, WNA_BIT, WNA_ARGS };

/* The same call in the layout of moe_wna16_gemm, with zero points and weights of the choices. */
static void wna16_call(struct moe_call *c)
{
    int i;

    memset(c, 0, sizeof *c);
    c->t[WNA_A] = dense(TD_TORCH_F16, 2, 3, 256, 0, gpu);
    c->t[WNA_C] = dense(TD_TORCH_F16, 3, 3, 2, 64, gpu + 50);
    c->t[WNA_W] = dense(TD_TORCH_U8, 3, 8, 64, 128, gpu + 100);
    c->t[WNA_S] = dense(TD_TORCH_F16, 3, 8, 64, 2, gpu + 200);
    c->t[WNA_Z] = dense(TD_TORCH_U8, 3, 8, 32, 2, gpu + 250);
    c->t[WNA_TOPK] = dense(TD_TORCH_F32, 2, 3, 2, 0, gpu + 300);
    c->t[WNA_SORTED] = dense(TD_TORCH_I32, 1, 48, 0, 0, gpu + 400);
    c->t[WNA_EXPERTS] = dense(TD_TORCH_I32, 1, 6, 0, 0, gpu + 500);
    c->t[WNA_PADDED] = dense(TD_TORCH_I32, 1, 1, 0, 0, gpu + 600);
    for (i = 0; i <= WNA_PADDED; i++) {
        c->at[i] = (uintptr_t)&c->t[i];
        c->stack[i] = i == WNA_Z || i == WNA_TOPK ? (uintptr_t)&c->at[i] : (uintptr_t)&c->t[i];
    }
    c->stack[WNA_TOP_K] = 2, c->stack[WNA_M] = 8, c->stack[WNA_N] = 128, c->stack[WNA_K] = 128, c->stack[WNA_BIT] = 4;
}

static enum tap_torch_product wna16_product(struct moe_call *c, struct td_gpu_work *w)
{
    static struct tap_torch_schema schema;
    static const struct tap_torch_meaning *m;
    td_torch_tensor a;

    if (!m) {
        assert_true(tap_torch_schema_read(MOE_WNA16, &schema));
        assert_int_equal(schema.n_args, WNA_ARGS);
        m = tap_torch_meaning_of("_moe_C::moe_wna16_gemm", &schema);
    }
    assert_non_null(m);
    return tap_torch_product_read(m, c->stack, w, &a);
}

static void test_moe_wna16(void **state)
{
    static const char *const all[] = {"qweight", "scales", "qzeros", "a", "sorted_token_ids", "expert_ids", "num_tokens_post_padded", "topk_weights", "c", NULL},
                      *const plain[] = {"qweight", "scales", "a", "sorted_token_ids", "expert_ids", "num_tokens_post_padded", "c", NULL};
    struct td_gpu_work w;
    struct moe_call c;
    int i;

    (void)state;
    wna16_call(&c);
    assert_int_equal(wna16_product(&c, &w), TAP_TORCH_READ);
    assert_roles(&w, all);
    assert_true(w.m == 3 && w.n == 64 && w.k == 256 && w.c_rows == 6 && w.bits == 4 && w.group_size == 128 && !w.zero_offset && !w.act_order && w.whole);
    assert_string_equal(w.rounding, "weight-f16");
    assert_true(attr_of(&w, "experts") == 8 && attr_of(&w, "top_k") == 2 && attr_of(&w, "block_size") == 8 && attr_of(&w, "mul_topk_weights") == 1 &&
                attr_of(&w, "round_topk_weights") == 0);
    assert_true(w.op[8].ndim == 2 && w.op[8].shape[0] == 6 && w.op[8].shape[1] == 64 && w.op[8].row_stride == 64 && w.op[8].bytes == 6 * 64 * 2 &&
                w.op[8].address == (uintptr_t)(gpu + 50));
    c.stack[WNA_Z] = c.stack[WNA_TOPK] = 0; /* None */
    c.stack[WNA_BIT] = 8;
    c.t[WNA_W] = dense(TD_TORCH_U8, 3, 8, 64, 256, gpu + 100);
    c.t[WNA_S] = dense(TD_TORCH_F16, 3, 8, 64, 1, gpu + 200);
    assert_int_equal(wna16_product(&c, &w), TAP_TORCH_READ);
    assert_roles(&w, plain);
    assert_true(w.bits == 8 && w.group_size == 256 && w.zero_offset == 1 && attr_of(&w, "mul_topk_weights") == 0);
    assert_string_equal(w.rounding, "weight-f16");
    for (i = 0; i < 13; i++) {
        wna16_call(&c);
        switch (i) {
        case 0: c.t[WNA_A].dtype = TD_TORCH_F32; break;
        case 1: c.t[WNA_W].dtype = TD_TORCH_I8; break;
        case 2: c.t[WNA_W] = dense(TD_TORCH_U8, 3, 8, 64, 64, gpu); break;
        case 3: c.t[WNA_S].sizes[0] = 7; break;
        case 4: c.t[WNA_S] = dense(TD_TORCH_F16, 3, 8, 64, 3, gpu); break;
        case 5: c.t[WNA_S].dtype = TD_TORCH_BF16; break;
        case 6: c.t[WNA_Z] = dense(TD_TORCH_U8, 3, 8, 64, 2, gpu); break;
        case 7: c.t[WNA_C] = dense(TD_TORCH_F16, 3, 3, 1, 64, gpu); break;
        case 8: c.t[WNA_C].strides[0] = 200; break;
        case 9: c.stack[WNA_BIT] = 2; break;
        case 10: c.stack[WNA_TOP_K] = 3; break;
        case 11: c.stack[WNA_M] = 0; break;
        default: c.t[WNA_TOPK].device = TD_TORCH_CPU;
        }
        if (wna16_product(&c, &w) != TAP_TORCH_UNKNOWN)
            fail_msg("case %d was read", i);
    }
}

#define ALLSPARK "allspark_w8a16_gemm(Tensor a, Tensor b_qweight, Tensor b_scales, Tensor? b_qzeros, SymInt n, SymInt group_size, SymInt sm_count, " \
                 "SymInt sm_version, SymInt CUBLAS_M_THRESHOLD, bool has_zp, bool n32k16_reorder) -> Tensor"
enum { SPARK_A, SPARK_W, SPARK_S, SPARK_Z, SPARK_N, SPARK_GROUP, SPARK_ZP = 9, SPARK_REORDERED, SPARK_ARGS };
struct spark_call { struct fake_torch_tensor t[SPARK_N]; td_torch_value zeros_at, stack[SPARK_ARGS]; };

/* [3, 64] by [64, 80], which is padded to 96. */
static void spark_call(struct spark_call *c)
{
    int i;

    memset(c, 0, sizeof *c);
    c->t[SPARK_A] = dense(TD_TORCH_BF16, 2, 3, 64, 0, gpu);
    c->t[SPARK_W] = dense(TD_TORCH_U8, 2, 96, 64, 0, gpu + 100);
    c->t[SPARK_S] = c->t[SPARK_Z] = dense(TD_TORCH_BF16, 2, 1, 96, 0, gpu + 200);
    for (i = 0; i < SPARK_Z; i++)
        c->stack[i] = (uintptr_t)&c->t[i];
    c->zeros_at = (uintptr_t)&c->t[SPARK_Z];
    c->stack[SPARK_N] = 80, c->stack[SPARK_GROUP] = (td_torch_value)-1;
    c->stack[SPARK_ZP] = 0xab00, c->stack[SPARK_REORDERED] = 0xab01;
}

static enum tap_torch_product spark_product(struct spark_call *c, struct td_gpu_work *w)
{
    static struct tap_torch_schema schema;
    static const struct tap_torch_meaning *m;
    td_torch_tensor a;

    if (!m) {
        assert_true(tap_torch_schema_read(ALLSPARK, &schema));
        assert_int_equal(schema.n_args, SPARK_ARGS);
        m = tap_torch_meaning_of("_C::allspark_w8a16_gemm", &schema);
    }
    assert_non_null(m);
    return tap_torch_product_read(m, c->stack, w, &a);
}

static void test_allspark(void **state)
{
    static const char *const roles[] = {"a", "qweight", "scales", "c", NULL};
    struct td_gpu_work w;
    struct spark_call c;
    int i;

    (void)state;
    spark_call(&c);
    assert_int_equal(spark_product(&c, &w), TAP_TORCH_READ);
    assert_roles(&w, roles);
    assert_true(w.m == 3 && w.n == 80 && w.k == 64 && w.bits == 8 && w.group_size == 64 && w.zero_offset == 1 && !w.act_order && w.whole);
    assert_string_equal(w.rounding, "weight-bf16");
    assert_string_equal(w.adapter->layout, "allspark");
    assert_true(w.op[1].bytes == 96 * 64 && w.op[3].shape[1] == 80 && w.op[3].address == TAP_GPU_LATER);
    for (i = 0; i < 10; i++) {
        spark_call(&c);
        switch (i) {
        case 0: c.t[SPARK_A].dtype = TD_TORCH_F32; break;
        case 1: c.t[SPARK_W].dtype = TD_TORCH_I8; break;
        case 2: c.t[SPARK_W].sizes[0] = 80; break;
        case 3: c.t[SPARK_S].dtype = TD_TORCH_F16; break;
        case 4: c.t[SPARK_S].sizes[1] = 80; break;
        case 5: c.stack[SPARK_Z] = (uintptr_t)&c.zeros_at; break;
        case 6: c.stack[SPARK_N] = 0; break;
        case 7: c.stack[SPARK_GROUP] = 32; break;
        case 8: c.stack[SPARK_ZP] = 1; break;
        default: c.stack[SPARK_REORDERED] = 0;
        }
        if (spark_product(&c, &w) != TAP_TORCH_UNKNOWN)
            fail_msg("case %d was read", i);
    }
}

/* A version whose arguments have other names is counted only, and named. */
static void test_a_row_that_does_not_fit(void **state)
{
    struct tap_torch_schema s;

    (void)state;
    assert_null(tap_torch_row_that_does_not_fit(false));
    assert_true(tap_torch_schema_read("machete_mm(Tensor A, Tensor B, int b_type, Tensor? b_group_scales) -> Tensor", &s));
    assert_null(tap_torch_meaning_of("_C::mm", &s));
    assert_null(tap_torch_row_that_does_not_fit(false));
    assert_null(tap_torch_meaning_of("_C::machete_mm", &s));
    assert_string_equal(tap_torch_row_that_does_not_fit(false), "_C::machete_mm");
}

/* ---- a library of operators ---------------------------------------------------------------------------------------- */

static int calls;
static td_torch_value last_stack[4];

/* Takes its arguments off the stack: what lay there is gone after it. */
static void mm(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    calls++;
    memcpy(last_stack, stack, n_args * sizeof *stack);
    memset(stack, 0xee, n_args * sizeof *stack);
    if (n_results)
        stack[0] = 77;
}

static void nested(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    td_torch_value inner[3] = {stack[0], 0, 5};

    call("_C::mm", "CUDA", inner, 3, 1);
    mm(stack, n_args, n_results);
}

static jmp_buf out;

static void jumps(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    (void)stack, (void)n_args, (void)n_results;
    longjmp(out, 1); /* as an exception leaves it */
}

static void register_operators(const char *ns)
{
    td_torch_library def, cuda, meta;

    assert_int_equal(aoti_torch_library_init_fragment(ns, "f.cpp", 1, &def), 0);
    assert_int_equal(aoti_torch_library_init_impl(ns, "CUDA", "f.cpp", 2, &cuda), 0);
    assert_int_equal(aoti_torch_library_init_impl(ns, "Meta", "f.cpp", 3, &meta), 0);
    assert_int_equal(aoti_torch_library_def(def, "mm(Tensor a, Tensor? b, int n) -> Tensor"), 0);
    assert_int_equal(torch_library_impl(cuda, "mm", mm, 1), 0);
    assert_int_equal(torch_library_impl(meta, "mm", mm, 1), 0);
    assert_int_equal(aoti_torch_library_impl(cuda, "nested", nested), 0); /* before its definition */
    assert_int_equal(aoti_torch_library_def(def, "nested(Tensor a) -> ()"), 0);
    assert_int_equal(aoti_torch_library_impl(cuda, "jumps", jumps), 0);
    assert_int_equal(aoti_torch_delete_library_object(meta), 0);
}

static struct tap_torch_operator *find(const char *name, const char *key)
{
    unsigned i = tap_torch_operator_count();

    while (i--)
        if (!strcmp(tap_torch_operator_at(i)->name, name) && !strcmp(tap_torch_operator_at(i)->key, key))
            return tap_torch_operator_at(i);
    return NULL;
}

static uint16_t memory[64];
static struct fake_torch_tensor a = {.ndim = 2, .sizes = {3, 8}, .strides = {8, 1}, .dtype = TD_TORCH_F16, .device = 1, .data = memory};

static void test_registration(void **state)
{
    td_torch_library def, cuda;

    (void)state;
    register_operators("_C");
    assert_non_null(find("_C::mm", "CUDA"));
    assert_null(find("_C::mm", "Meta")); /* computes nothing */
    assert_string_equal(atomic_load(&find("_C::nested", "CUDA")->schema)->name, "nested");
    assert_null(atomic_load(&find("_C::jumps", "CUDA")->schema));
    assert_null(tap_torch_refused());
    /* torch says no: the answer is torch's, and nothing is remembered */
    *refuses = 1;
    assert_int_equal(aoti_torch_library_init_def("no", "f.cpp", 1, &def), 1);
    *refuses = 0;
    assert_int_equal(aoti_torch_library_init_def("yes", "f.cpp", 1, &def), 0);
    *refuses = 1;
    assert_int_equal(aoti_torch_library_def(def, "never(Tensor a) -> ()"), 1);
    *refuses = 0;
    assert_null(find("yes::never", "CUDA"));
    assert_int_equal(aoti_torch_library_init_impl("yes", "CUDA", "f.cpp", 1, &cuda), 0);
    assert_int_equal(aoti_torch_library_impl(cuda, "never", mm), 0);
    assert_null(atomic_load(&find("yes::never", "CUDA")->schema));
    /* a question, which no device answers */
    assert_int_equal(aoti_torch_library_init_impl("yes", "CompositeExplicitAutograd", "f.cpp", 1, &cuda), 0);
    assert_int_equal(aoti_torch_library_impl(cuda, "supports_fp8", mm), 0);
    assert_null(find("yes::supports_fp8", "CompositeExplicitAutograd"));
}

/* The operator gets what torch gave, and torch gets what the operator gave, asleep and armed. */
static void test_calls_pass(void **state)
{
    td_torch_value b = (uintptr_t)&a;
    struct bench bench;
    int armed;

    (void)state;
    for (armed = 0; armed < 2; armed++) {
        td_torch_value stack[3] = {(uintptr_t)&a, (uintptr_t)&b, 5}, none[3] = {(uintptr_t)&a, 0, 5};
        struct tap_torch_operator *o = find("_C::mm", "CUDA");
        const uint64_t before = atomic_load(&o->calls), bytes = atomic_load(&o->bytes);

        if (armed)
            arm(&bench);
        calls = 0;
        errno = EDOM;
        assert_int_equal(call("_C::mm", "CUDA", stack, 3, 1), 0);
        assert_int_equal(errno, EDOM);
        assert_int_equal(stack[0], 77);
        assert_int_equal(last_stack[1], (uintptr_t)&b);
        assert_int_equal(last_stack[2], 5);
        assert_int_equal(call("_C::mm", "CUDA", none, 3, 1), 0);
        assert_int_equal(calls, 2);
        assert_int_equal(atomic_load(&o->calls) - before, armed ? 2 : 0);
        assert_int_equal(atomic_load(&o->bytes) - bytes, armed ? 3 * sizeof(uint16_t) * 3 * 8 : 0);
    }
    disarm(&bench);
    bench_close(&bench);
}

static void other_mm(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    mm(stack, n_args, n_results);
    stack[0] = 78;
}

/* A library that is loaded twice, or another one that takes an operator's place: as with torch the last one is called, and what an earlier
 * one is called by is still its own function. A definition that comes again is not another one. */
static void test_registered_twice(void **state)
{
    td_torch_library def[2], cuda[2];
    td_torch_value stack[3];
    struct tap_torch_operator *o;
    const unsigned before = tap_torch_operator_count();
    struct bench b;
    int i, armed;

    (void)state;
    for (i = 0; i < 2; i++) {
        assert_int_equal(aoti_torch_library_init_fragment("again", "f.cpp", 1, &def[i]), 0);
        assert_int_equal(aoti_torch_library_def(def[i], "mm(Tensor a, Tensor? b, int n) -> Tensor"), 0);
        assert_int_equal(aoti_torch_library_init_impl("again", "CUDA", "f.cpp", 2, &cuda[i]), 0);
        assert_int_equal(torch_library_impl(cuda[i], "mm", i ? other_mm : mm, 1), 0);
    }
    assert_int_equal(tap_torch_operator_count() - before, 2);
    assert_ptr_equal(atomic_load(&tap_torch_operator_at(before)->schema), atomic_load(&tap_torch_operator_at(before + 1)->schema));
    o = find("again::mm", "CUDA");
    assert_ptr_equal(o, tap_torch_operator_at(before + 1));
    for (armed = 0; armed < 2; armed++) {
        if (armed)
            arm(&b);
        for (i = 0; i < 2; i++) {      /* each by its own trampoline, as a dispatcher that kept the first one does */
            td_torch_boxed *trampoline = tap_torch_trampoline(before + (unsigned)i);

            stack[0] = (uintptr_t)&a, stack[1] = 0, stack[2] = 5;
            trampoline(stack, 3, 1);
            assert_int_equal(stack[0], i ? 78 : 77);
        }
        stack[0] = (uintptr_t)&a, stack[1] = 0, stack[2] = 5;
        assert_int_equal(call("again::mm", "CUDA", stack, 3, 1), 0);
        assert_int_equal(stack[0], 78);
    }
    disarm(&b);
    assert_int_equal(atomic_load(&tap_torch_operator_at(before)->calls), 1);
    assert_int_equal(atomic_load(&o->calls), 2);
    {   /* in the fixture they are one operator */
        const cJSON *all = td_json_get(td_json_get(td_fixture_manifest(b.fx), "tap"), "operators"), *one;
        int n = 0;
        int64_t calls_of = 0;

        cJSON_ArrayForEach(one, all)
            if (!strcmp(td_json_get_str(one, "name", ""), "again::mm"))
                n++, calls_of += td_json_get_i64(one, "calls", 0);
        assert_int_equal(n, 1);
        assert_int_equal(calls_of, 3);
    }
    bench_close(&b);
}

/* What came of the calls stands in the manifest; an operator that was not called does not. */
static void test_counts_reach_the_fixture(void **state)
{
    td_torch_value stack[3] = {(uintptr_t)&a, 0, 5}, inner[3] = {(uintptr_t)&a};
    const cJSON *all;
    struct bench b;
    char *text;

    (void)state;
    arm(&b);
    call("_C::mm", "CUDA", stack, 3, 1);
    stack[0] = (uintptr_t)&a, stack[1] = 0;
    call("_C::mm", "CUDA", stack, 3, 1);
    call("_C::nested", "CUDA", inner, 1, 0);
    disarm(&b);
    all = td_json_get(td_json_get(td_fixture_manifest(b.fx), "tap"), "operators");
    text = cJSON_PrintUnformatted(all);
    assert_string_equal(text, "[{\"name\":\"_C::mm\",\"dispatch\":\"CUDA\",\"calls\":3,\"bytes\":144,\"recorded\":false},{\"name\":\"_C::nested\",\"dispatch\":\"CUDA\",\"calls\":1,\"bytes\":48,\"recorded\":false}]");
    cJSON_free(text);
    bench_close(&b);
}

/* Tensors that cannot be read are counted without their bytes, and never touched. */
static void test_odd_tensors(void **state)
{
    struct fake_torch_tensor deep = a, negative = a, strange = a;
    struct fake_torch_tensor *const all[] = {&deep, &negative, &strange};
    struct bench b;
    size_t i;

    (void)state;
    deep.ndim = 40;
    negative.sizes[0] = -3;
    strange.dtype = 99;
    arm(&b);
    for (i = 0; i < sizeof all / sizeof *all; i++) {
        td_torch_value stack[3] = {(uintptr_t)all[i], 0, 5};
        struct tap_torch_operator *o = find("_C::mm", "CUDA");
        const uint64_t bytes = atomic_load(&o->bytes);

        assert_int_equal(call("_C::mm", "CUDA", stack, 3, 1), 0);
        assert_int_equal(atomic_load(&o->bytes), bytes);
        /* fewer values on the stack than the schema says */
        stack[0] = (uintptr_t)&a;
        assert_int_equal(call("_C::mm", "CUDA", stack, 2, 1), 0);
        assert_int_equal(atomic_load(&o->bytes), bytes);
    }
    assert_int_equal(*asked_for_data, 0); /* an older torch would take that for a write */
    disarm(&b);
    bench_close(&b);
}

/* An operator that does not come back leaves nothing behind. */
static void test_an_exception_passes(void **state)
{
    struct bench b;
    td_torch_value stack[3] = {(uintptr_t)&a, 0, 5};

    (void)state;
    arm(&b);
    if (!setjmp(out))
        call("_C::jumps", "CUDA", stack, 1, 0);
    calls = 0;
    call("_C::mm", "CUDA", stack, 3, 1);
    assert_int_equal(calls, 1);
    disarm(&b);
    bench_close(&b);
}

static void *register_many(void *ns)
{
    char name[32];
    int i;

    for (i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "%s%d", (const char *)ns, i);
        register_operators(name);
    }
    return NULL;
}

/* Threads that register at once; then a fork in the middle of it must not find the lock taken. */
static void test_threads_and_forks(void **state)
{
    static const char *const names[] = {"ta", "tb", "tc"};
    pthread_t t[3];
    int i, status;
    pid_t child;

    (void)state;
    for (i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&t[i], NULL, register_many, (void *)names[i]), 0);
    for (i = 0; i < 20; i++) {
        child = fork();
        if (!child) {
            alarm(20);
            register_operators("child");
            _exit(find("child::mm", "CUDA") ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    for (i = 0; i < 3; i++)
        assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_non_null(find("ta19::mm", "CUDA"));
    assert_non_null(find("tc19::nested", "CUDA"));
}

/* Operators beyond the table, and names beyond its places, are torch's own. Last: it fills the table. */
static void test_a_full_table(void **state)
{
    td_torch_value stack[1] = {0};
    td_torch_library cuda;
    char name[32], longest[400];
    unsigned i, before;

    (void)state;
    assert_int_equal(aoti_torch_library_init_impl("full", "CUDA", "f.cpp", 2, &cuda), 0);
    before = tap_torch_operator_count();
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(aoti_torch_library_impl(cuda, longest, mm), 0);
    assert_int_equal(tap_torch_operator_count(), before);
    for (i = 0; i < TAP_TORCH_OPERATORS + 10; i++) {
        snprintf(name, sizeof name, "op%u", i);
        assert_int_equal(aoti_torch_library_impl(cuda, name, mm), 0);
    }
    assert_int_equal(tap_torch_operator_count(), TAP_TORCH_OPERATORS);
    assert_int_equal(tap_torch_operators_left_out(), before + 10 + 1);
    assert_non_null(strstr(tap_front_torch.start(), " operators found no place in the tap's table"));
    calls = 0;
    snprintf(name, sizeof name, "full::op%u", TAP_TORCH_OPERATORS + 9);
    assert_int_equal(call(name, "CUDA", stack, 1, 0), 0);
    assert_int_equal(call("full::op0", "CUDA", stack, 1, 0), 0);
    assert_int_equal(calls, 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_of_a_gemm),
        cmocka_unit_test(test_schemas_of_all_forms),
        cmocka_unit_test(test_schemas_that_are_none),
        cmocka_unit_test(test_registration),
        cmocka_unit_test(test_calls_pass),
        cmocka_unit_test(test_counts_reach_the_fixture),
        cmocka_unit_test(test_registered_twice),
        cmocka_unit_test(test_odd_tensors),
        cmocka_unit_test(test_a_product),
        cmocka_unit_test(test_a_product_with_zeros),
        cmocka_unit_test(test_marlin),
        cmocka_unit_test(test_exllama),
        cmocka_unit_test(test_awq),
        cmocka_unit_test(test_calls_with_another_meaning),
        cmocka_unit_test(test_products_that_are_not_known),
        cmocka_unit_test(test_a_product_with_experts),
        cmocka_unit_test(test_products_with_experts_that_are_not_known),
        cmocka_unit_test(test_moe_wna16),
        cmocka_unit_test(test_allspark),
        cmocka_unit_test(test_an_exception_passes),
        cmocka_unit_test(test_threads_and_forks),
        cmocka_unit_test(test_a_full_table),
        cmocka_unit_test(test_a_row_that_does_not_fit), /* last: it is said from now on */
    };

    (void)argc;
    bench_without_socket(argv);
    return cmocka_run_group_tests(tests, setup, NULL);
}
