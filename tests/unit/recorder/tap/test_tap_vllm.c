/* test_tap_vllm.c - vLLM's calls, by a library that looks like its (tests/helpers/lib_fake_vllm.c), through the tap into a fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <pthread.h>

#include <cmocka.h>

#include "common/json.h"
#include "fake_vllm.h"
#include "tap_bench.h"

FAKE_DECLARE

static int64_t *calls, *writable;
static void (**throws)(void);
static struct fake_impl *result;

static int setup(void **state)
{
    const char *o = getenv("O");
    char path[512];
    void *lib;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/helpers/lib_fake_vllm.so", o ? o : "build");
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* as Python opens a module */
    if (!lib)
        return -1;
    calls = dlsym(lib, "fake_calls");
    writable = dlsym(lib, "fake_writable");
    *(void **)&throws = dlsym(lib, "fake_throw");
    result = dlsym(lib, "fake_result");
    return !calls || !throws || !result || !writable;
}

/* What a thread did before belongs to its steps: each test has one of its own. */
static void in_thread(void *(*run)(void *), void *arg)
{
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, run, arg), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
}

static struct fake_impl tensor(int32_t dtype, void *data, int64_t ndim, int64_t d0, int64_t d1, int64_t d2)
{
    struct fake_impl t = {.ndim = ndim, .sizes = {d0, d1, d2}, .strides = {d1 * (ndim > 2 ? d2 : 1), ndim > 2 ? d2 : 1, 1}, .dtype = dtype, .data = data};

    if (ndim == 1)
        t.strides[0] = 1;
    return t;
}

static int64_t attr(const struct td_op *op, const char *name)
{
    return td_json_get_i64(op->attrs, name, -99);
}

/* ---- onednn_mm ----------------------------------------------------------------------------------------------------- */

enum { K = 12, N = 40, ROWS = 3, LAYERS = 3 };

static uint16_t weight[LAYERS][N * K], x[8 * K], y[8 * N];

/* One layer: [k, n] as the call has it, which is the transposed view of [n, k]. */
static void load_layer(int l)
{
    struct fake_impl b = tensor(FAKE_BF16, weight[l], 2, K, N, 0);
    struct fake_tensor t = {&b};
    int i;

    b.strides[0] = 1, b.strides[1] = K;
    for (i = 0; i < N * K; i++)
        weight[l][i] = (uint16_t)(i * 31 + l * 7);
    assert_int_equal(FAKE_CREATE(&t, 0x1000 + 64 * l), 0x1000 + 64 * l);
    memset(weight[l], 0, sizeof weight[l]); /* freed by its owner: the print is all that is left */
}

static void multiply(int l, int64_t rows)
{
    int64_t id = 0x1000 + 64 * l;
    struct fake_impl a = tensor(FAKE_BF16, x, 2, rows, K, 0), c = tensor(FAKE_BF16, y, 2, rows, N, 0), h = tensor(FAKE_I64, &id, 0, 1, 1, 1);
    struct fake_tensor ta = {&a}, tc = {&c}, th = {&h};
    struct fake_optional none = {{NULL}, false};

    FAKE_ONEDNN(&tc, &ta, &none, &th);
}

static void *run_steps(void *arg)
{
    int p, l;

    (void)arg;
    for (p = 0; p < 3; p++)
        for (l = 0; l < LAYERS; l++)
            multiply(l, p ? 1 : ROWS);
    return NULL;
}

static void onednn_is_seen(void **state)
{
    uint16_t out[N];
    struct bench b;
    size_t i;
    int l;

    (void)state;
    for (l = 0; l < LAYERS; l++)
        load_layer(l);
    bench_open(&b, TAP_MODE_ALL);
    *calls = 0;
    in_thread(run_steps, NULL);
    assert_int_equal(*calls, 9);
    memcpy(out, y, sizeof out);
    bench_read(&b);
    assert_int_equal(b.n_ops, 9);
    assert_int_equal(b.n_steps, 3);
    assert_int_equal(ledger(&b, "weights.seen"), LAYERS); /* by their prints */
    for (i = 0; i < b.n_ops; i++) {
        const struct td_op *op = &b.ops[i];

        assert_string_equal(op->kind, "gemm");
        assert_string_equal(op->impl.symbol, "onednn_mm");
        assert_int_equal(attr(op, "m"), i < LAYERS ? ROWS : 1);
        assert_int_equal(attr(op, "n"), N);
        assert_int_equal(attr(op, "k"), K);
        assert_int_equal(attr(op, "trans_b"), 1);
        assert_int_equal(op->step, b.steps[i / LAYERS].step);
        assert_int_equal(td_op_rec_in(op, "w")->shape[0], N);
        check_blob(&b, td_op_rec_in(op, "a"), x, (i < LAYERS ? ROWS : 1) * K * 2);
    }
    check_blob(&b, &b.ops[8].out, out, sizeof out);
    bench_close(&b);
}

/* torch's own product: weights as they are, told apart by their prints as well. */
static void *linear_passes(void *arg)
{
    int p, l;

    (void)arg;
    for (p = 0; p < 2; p++)
        for (l = 0; l < LAYERS; l++) {
            struct fake_impl a = tensor(FAKE_BF16, x, 2, 1, K, 0), b = tensor(FAKE_BF16, weight[l], 2, N, K, 0);
            struct fake_tensor ta = {&a}, tb = {&b}, ret = {NULL};
            struct fake_optional none = {{NULL}, false};

            *result = tensor(FAKE_BF16, y, 2, 1, N, 0);
            FAKE_LINEAR(&ret, &ta, &tb, &none);
            assert_ptr_equal(ret.impl, result);
        }
    return NULL;
}

static void linear_is_seen(void **state)
{
    struct bench b;
    size_t i;

    (void)state;
    for (i = 0; i < LAYERS * N * K; i++)
        weight[i / (N * K)][i % (N * K)] = (uint16_t)(i * 17);
    bench_open(&b, TAP_MODE_ALL);
    in_thread(linear_passes, NULL);
    bench_read(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    assert_int_equal(b.n_steps, 2);
    assert_int_equal(ledger(&b, "weights.seen"), LAYERS);
    for (i = 0; i < b.n_ops; i++) {
        assert_string_equal(b.ops[i].impl.symbol, "at::linear");
        assert_int_equal(td_op_rec_in(&b.ops[i], "w")->shape[1], K);
        assert_int_equal(b.ops[i].step, b.steps[i / LAYERS].step);
    }
    check_blob(&b, &b.ops[5].out, y, N * 2);
    bench_close(&b);
}

/* Armed in the middle of a step: ops of a step that was not seen from its start are not recorded. */
static void *armed_between(void *arg)
{
    struct bench *b = arg;

    multiply(0, 1);
    bench_open(b, TAP_MODE_ALL);
    multiply(1, 1);
    multiply(2, 1);
    run_steps(NULL);
    return NULL;
}

static void steps_are_whole(void **state)
{
    struct bench b;

    (void)state;
    in_thread(armed_between, &b);
    bench_read(&b);
    assert_int_equal(b.n_ops, 9);
    assert_int_equal(b.n_steps, 3);
    assert_int_equal(ledger(&b, "ops.dropped.partial"), 2);
    assert_int_equal(*writable, 0);    /* torch would warn, or copy, at each of these */
    bench_close(&b);
}

static jmp_buf back;

static void leave(void)
{
    longjmp(back, 1);
}

static void *one_throws(void *arg)
{
    (void)arg;
    multiply(0, 1);
    *throws = leave;
    if (!setjmp(back))
        multiply(1, 1);
    *throws = NULL;
    multiply(2, 1);
    return NULL;
}

static void an_exception_passes_through(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b, TAP_MODE_ALL);
    in_thread(one_throws, NULL);
    assert_true(tap_ring_slots_are_idle());
    bench_read(&b);
    assert_int_equal(b.n_ops, 2);
    assert_int_equal(ledger(&b, "ops.dropped.failed"), 1);
    bench_close(&b);
}

static void *last_call_throws(void *arg)
{
    (void)arg;
    multiply(0, 1);
    *throws = leave;
    if (!setjmp(back))
        multiply(1, 1);
    *throws = NULL;
    return NULL;
}

/* Nobody comes back to end the call: the end of its thread does, or the tap would wait for it for ever. */
static void a_thread_ends_by_an_exception(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b, TAP_MODE_ALL);
    in_thread(last_call_throws, NULL);
    assert_true(tap_ring_slots_are_idle());
    bench_read(&b);
    assert_int_equal(b.n_ops, 1);
    bench_close(&b);
}

/* ---- what is not understood is passed on --------------------------------------------------------------------------- */

static void call_onednn(struct fake_impl a, struct fake_impl c, int64_t id)
{
    struct fake_impl h = tensor(FAKE_I64, &id, 0, 1, 1, 1);
    struct fake_tensor ta = {&a}, tc = {&c}, th = {&h};
    struct fake_optional none = {{NULL}, false};

    FAKE_ONEDNN(&tc, &ta, &none, &th);
}

enum { ODD = 10 };

static void *odd_calls(void *arg)
{
    struct fake_impl a = tensor(FAKE_BF16, x, 2, 2, K, 0), c = tensor(FAKE_BF16, y, 2, 2, N, 0), odd;

    (void)arg;
    call_onednn(a, c, 0x5555);                                        /* a handler that nobody saw made */
    call_onednn(a, c, 0);
    odd = a, odd.dtype = FAKE_F64, call_onednn(odd, c, 0x1000);       /* a type without a word */
    odd = a, odd.dtype = FAKE_F16, call_onednn(odd, c, 0x1000);       /* another than the weight's */
    odd = a, odd.ndim = 5, call_onednn(odd, c, 0x1000);
    odd = a, odd.sizes[1] = K - 1, call_onednn(odd, c, 0x1000);
    odd = a, odd.strides[1] = 2, call_onednn(odd, c, 0x1000);
    odd = a, odd.device = 1, call_onednn(odd, c, 0x1000);             /* memory of a GPU */
    odd = a, odd.no_storage = 1, call_onednn(odd, c, 0x1000);
    odd = c, odd.sizes[1] = N + 1, odd.strides[0] = N + 1, call_onednn(a, odd, 0x1000);
    return NULL;
}

static void odd_calls_are_passed_on(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b, TAP_MODE_ALL);
    *calls = 0;
    in_thread(odd_calls, NULL);
    assert_int_equal(*calls, ODD);
    bench_read(&b);
    assert_int_equal(b.n_ops, 0);
    assert_int_equal(ledger(&b, "ops.dropped.failed") + ledger(&b, "ops.dropped.partial"), ODD);
    bench_close(&b);
}

/* ---- 4-bit weights ------------------------------------------------------------------------------------------------- */

enum { N4 = 64, K4 = 32, GROUPS = 2, BK = 16, BLOCK = BK * 16 + 128, M4 = 2, LDA = 40 };

static struct int4_case {
    uint8_t w[N4 / 32 * (K4 / BK) * BLOCK];
    int8_t zeros[N4 / 32 * GROUPS * 32];
    float scales[N4 / 32 * GROUPS * 32], bias[N4];
    uint16_t a[M4 * LDA], c[M4 * N4];
    uint32_t w16[N4 / 16 * 2 * K4], z16[GROUPS * N4 / 8];
    uint16_t s16[GROUPS * N4];
} q;

static void fill_case(void)
{
    uint8_t *p = (uint8_t *)&q;
    size_t i;

    for (i = 0; i < sizeof q; i++)
        p[i] = (uint8_t)(i * 2654435761u >> 11);
}

static void *call_int4(void *arg)
{
    struct fake_impl a = tensor(FAKE_BF16, q.a, 2, M4, K4, 0), w = tensor(FAKE_U8, q.w, 3, N4 / 32, K4 / BK, BLOCK), z = tensor(FAKE_I8, q.zeros, 3, N4 / 32, GROUPS, 32),
                     s = tensor(FAKE_F32, q.scales, 3, N4 / 32, GROUPS, 32), b = tensor(FAKE_F32, q.bias, 1, N4, 1, 1);
    struct fake_tensor ta = {&a}, tw = {&w}, tz = {&z}, ts = {&s}, ret = {NULL};
    struct fake_optional bias = {{&b}, arg != NULL};

    a.strides[0] = LDA;
    *result = tensor(FAKE_BF16, q.c, 2, M4, N4, 0);
    assert_ptr_equal(FAKE_INT4(&ret, &ta, &tw, &tz, &ts, &bias), &ret);
    assert_ptr_equal(ret.impl, result);
    return NULL;
}

static void int4_is_seen(void **state)
{
    uint16_t dense[M4 * K4];
    struct bench b;
    int i;

    (void)state;
    fill_case();
    for (i = 0; i < M4 * K4; i++)
        dense[i] = q.a[i / K4 * LDA + i % K4];
    bench_open(&b, TAP_MODE_ALL);
    in_thread(call_int4, &b);
    in_thread(call_int4, NULL);
    bench_read(&b);
    assert_int_equal(b.n_ops, 2);
    assert_string_equal(b.ops[0].kind, "gptq_gemm");
    assert_string_equal(b.ops[0].act_rounding, "uint8-token");
    assert_string_equal(b.ops[0].impl.layout, "vllm_int4_vnni");
    assert_int_equal(attr(b.ops, "n"), N4);
    assert_int_equal(attr(b.ops, "bits"), 4);
    assert_int_equal(attr(b.ops, "group_size"), K4 / GROUPS);
    assert_int_equal(attr(b.ops, "lda"), LDA);
    check_blob(&b, td_op_rec_in(b.ops, "a"), dense, sizeof dense);
    check_blob(&b, td_op_rec_in(b.ops, "qweight"), q.w, sizeof q.w); /* no layout of weights: stored as they came */
    check_blob(&b, td_op_rec_in(b.ops, "qzeros"), q.zeros, sizeof q.zeros);
    check_blob(&b, td_op_rec_in(b.ops, "scales"), q.scales, sizeof q.scales);
    check_blob(&b, td_op_rec_in(b.ops, "bias"), q.bias, sizeof q.bias);
    check_blob(&b, &b.ops[1].out, q.c, sizeof q.c);
    assert_null(td_op_rec_in(&b.ops[1], "bias"));
    bench_close(&b);
}

static void *call_wna16(void *arg)
{
    struct fake_impl a = tensor(FAKE_BF16, q.a, 2, M4, K4, 0), w = tensor(FAKE_I32, q.w16, 2, N4 / 16, 2 * K4, 0), z = tensor(FAKE_I32, q.z16, 2, GROUPS, N4 / 8, 0),
                     s = tensor(FAKE_BF16, q.s16, 2, GROUPS, N4, 0), c = tensor(FAKE_BF16, q.c, 2, M4, N4, 0);
    struct fake_tensor ta = {&a}, tw = {&w}, ts = {&s}, tc = {&c};
    struct fake_optional zeros = {{&z}, arg != NULL}, bias = {{NULL}, false};

    FAKE_WNA16(&ta, &tw, &tc, &ts, &zeros, &bias, 8, NULL);
    FAKE_WNA16(&ta, &tw, &tc, &ts, &zeros, &bias, 4, NULL); /* 8 bits: not known */
    return NULL;
}

static void wna16_is_seen(void **state)
{
    struct td_tensor_rec *scales;
    struct bench b;
    int g;

    (void)state;
    fill_case();
    for (g = 0; g < GROUPS * N4; g++)
        q.s16[g] = (uint16_t)(0x3c00 + g);
    bench_open(&b, TAP_MODE_ALL);
    in_thread(call_wna16, NULL);
    bench_read(&b);
    assert_int_equal(b.n_ops, 1);
    assert_int_equal(ledger(&b, "ops.dropped.failed"), 1);
    assert_string_equal(b.ops[0].act_rounding, "weight-bf16");
    assert_string_equal(b.ops[0].impl.layout, "vllm_wna16_n16");
    assert_int_equal(td_op_rec_in(b.ops, "qweight")->shape[0], K4 / 8); /* unpacked */
    assert_int_equal(td_op_rec_in(b.ops, "qweight")->shape[1], N4);
    scales = (struct td_tensor_rec *)td_op_rec_in(b.ops, "scales");
    check_blob(&b, scales, q.s16, sizeof q.s16);
    assert_int_equal(attr(b.ops, "zero_offset"), 1);
    bench_close(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(onednn_is_seen), cmocka_unit_test(linear_is_seen), cmocka_unit_test(steps_are_whole), cmocka_unit_test(an_exception_passes_through), cmocka_unit_test(a_thread_ends_by_an_exception),
        cmocka_unit_test(odd_calls_are_passed_on), cmocka_unit_test(int4_is_seen), cmocka_unit_test(wna16_is_seen),
    };

    (void)argc;
    bench_without_socket(argv);
    return cmocka_run_group_tests_name("tap_vllm", tests, setup, NULL);
}
