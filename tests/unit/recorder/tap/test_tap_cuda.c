/* test_tap_cuda.c - launches of vLLM's gptq kernels on a fake driver with a fake CUPTI, through the tap into a fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>

#include <cmocka.h>

#include "common/json.h"
#include "fake_gpu.h"
#include "tap_bench.h"
#include "model/exllama_layout.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_stage.h"

static void arm(struct bench *b, uint32_t mode)
{
    bench_open(b, mode);
    assert_null(tap_front_cuda.start());
    assert_true(cupti_subscribed());
}

static void disarm_within(struct bench *b, int ms)
{
    tap_front_cuda.stop(ms);
    assert_false(cupti_subscribed());
    bench_read(b);
}

static void disarm(struct bench *b)
{
    disarm_within(b, 20000);
}

static int64_t attr(const struct td_op *op, const char *name)
{
    return td_json_get_i64(op->attrs, name, -99);
}

/* Settled: as the checkpoint has it. */
static void check_qweight(const struct bench *b, const struct td_op *op, const struct gpu_layer *w)
{
    uint32_t want[K / 8 * 32 * LAYERS];

    assert_int_equal(td_exllama_unshuffle(4, K, w->n, (uint32_t *)w->qweight, (int32_t *)w->perm, want, NULL), 0);
    check_blob(b, td_op_rec_in(op, "qweight"), want, (size_t)(K / 8 * w->n) * 4);
}

static void a_launch_becomes_an_op(void **state)
{
    struct bench b;
    size_t i;

    (void)state;
    gpu_pass(1, 0);                    /* asleep: nobody looks */
    arm(&b, TAP_MODE_ALL);
    gpu_pass(1, 1);
    gpu_pass(1, 2);
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    assert_int_equal(b.n_steps, 2);
    assert_int_equal(ledger(&b, "ops.seen"), 2 * LAYERS);
    assert_int_equal(ledger(&b, "launches.known"), 2 * LAYERS);
    assert_int_equal(ledger(&b, "launches.seen"), 2 * (LAYERS + 20 + 3 * LAYERS));
    assert_int_equal(ledger(&b, "weights.seen"), LAYERS);
    for (i = 0; i < b.n_ops; i++) {
        const struct td_op *op = &b.ops[i];
        const struct gpu_layer *w = &layer[i % LAYERS];
        const cJSON *launch = cJSON_GetArrayItem(op->impl.launches, 0);

        assert_string_equal(op->kind, "gptq_gemm");
        assert_string_equal(op->impl.symbol, FAKE_GPTQ_4BIT(1));
        assert_string_equal(op->impl.layout, "exllama");
        assert_int_equal(attr(op, "m"), 1);
        assert_int_equal(attr(op, "n"), w->n);
        assert_int_equal(attr(op, "k"), K);
        assert_int_equal(attr(op, "bits"), 4);
        assert_int_equal(attr(op, "group_size"), GROUP);
        assert_int_equal(attr(op, "zero_offset"), 1);
        assert_int_equal(op->step, b.steps[i / LAYERS].step);
        assert_int_equal(cJSON_GetArraySize(op->impl.launches), 1);
        assert_int_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(launch, "block"), 0)->valueint, 128);
        check_qweight(&b, op, w);
        check_blob(&b, td_op_rec_in(op, "qzeros"), (void *)w->qzeros, (size_t)(K / GROUP * w->n / 8) * 4);
        check_blob(&b, td_op_rec_in(op, "scales"), (void *)w->scales, (size_t)(K / GROUP * w->n) * 2);
    }
    check_blob(&b, td_op_rec_in(&b.ops[5], "a"), (void *)dev_a, K * 2);
    check_blob(&b, &b.ops[5].out, (void *)dev_c, (size_t)layer[2].n * 2);
    bench_close(&b);
}

/* ---- joining ------------------------------------------------------------------------------------------------------- */

static const cJSON *launch_of(const struct td_op *op, int i)
{
    return cJSON_GetArrayItem(op->impl.launches, i);
}

static int number(const cJSON *o, const char *name, int i)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItem(o, name), i)->valueint;
}

static void launches_are_joined(void **state)
{
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    gpu_pass(20, 3);
    gpu_pass(8, 4);
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    assert_int_equal(ledger(&b, "ops.seen"), 2 * LAYERS);
    assert_int_equal(ledger(&b, "launches.known"), 3 * LAYERS);
    assert_int_equal(attr(&b.ops[0], "m"), 20);
    assert_string_equal(b.ops[0].impl.symbol, FAKE_GPTQ_4BIT(8));
    assert_int_equal(cJSON_GetArraySize(b.ops[0].impl.launches), 2);
    assert_int_equal(number(launch_of(&b.ops[0], 0), "rows", 1), 16);
    assert_int_equal(number(launch_of(&b.ops[0], 0), "grid", 1), 2);
    assert_null(cJSON_GetObjectItem(launch_of(&b.ops[0], 0), "symbol"));
    assert_int_equal(number(launch_of(&b.ops[0], 1), "rows", 0), 16);
    assert_int_equal(number(launch_of(&b.ops[0], 1), "rows", 1), 20);
    assert_string_equal(cJSON_GetObjectItem(launch_of(&b.ops[0], 1), "symbol")->valuestring, FAKE_GPTQ_4BIT(4));
    assert_int_equal(td_op_rec_in(&b.ops[2], "a")->shape[0], 20);
    assert_int_equal(b.ops[2].out.shape[0], 20);
    assert_int_equal(attr(&b.ops[3], "m"), 8);
    bench_close(&b);
}

/* What was computed in two launches is there as a whole, in order. */
static void joined_rows_are_in_order(void **state)
{
    uint8_t a[20 * K * 2], c[20 * 96 * 2];
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    gpu_pass(20, 5);
    memcpy(a, (void *)dev_a, sizeof a);
    memcpy(c, (void *)dev_c, sizeof c);
    disarm(&b);
    check_blob(&b, td_op_rec_in(&b.ops[2], "a"), a, sizeof a);
    check_blob(&b, &b.ops[2].out, c, sizeof c);
    bench_close(&b);
}

/* vLLM's Marlin: 141 rows are a launch of 128 and one of 13 by another kernel; rows of A lie further apart than they are long. Symbols and parameters:
 * test_gpu_marlin.c. What is computed does not matter here. */
#define MARLIN(blocks) "_ZN6marlin6MarlinILl1125899906910725ELl1125899907892224ELl1125899906910725ELl1125899906910725ELi256ELi" #blocks \
                       "ELi8ELi8ELb0ELi4ELi8ELb0EEEvPK4int4S3_PS1_S4_S3_PKfS3_S6_S3_PKiiiiiiPibbbi"
enum { MN = 64, MK = 128, LDA = MK + 8, MROWS = 141 };

static void run_marlin(const struct fake_cuda_launch *l, void *user)
{
    const uint16_t *a = *(const uint16_t **)l->params[0];
    uint16_t *c = *(uint16_t **)l->params[2];
    int m = *(int *)l->params[11], i, j;

    (void)user;
    for (i = 0; i < m; i++)
        for (j = 0; j < MN; j++)
            c[i * MN + j] = (uint16_t)(a[i * LDA + j] + j);
}

static void launch_marlin(void *f, uint64_t a, uint64_t c, uint64_t weights, int m)
{
    uint64_t p[10] = {a, weights, c, weights + 65536, 0, 0, weights + 32768, 0, 0, 0}, locks = weights + 65536;
    int sizes[5] = {MK / 64, m, MN, MK, LDA}, shared = 232448, i;
    uint8_t no = 0;
    void *at[20];

    for (i = 0; i < 10; i++)
        at[i] = &p[i];
    for (i = 0; i < 5; i++)
        at[10 + i] = &sizes[i];
    at[15] = &locks, at[16] = at[17] = at[18] = &no, at[19] = &shared;
    assert_int_equal(cu.launch(f, 132, 1, 1, 256, 1, 1, 1024, gpu_stream, at, NULL), 0);
}

static void marlin_is_joined(void **state)
{
    static struct fake_cuda_kernel k[2] = {{.symbol = MARLIN(4)}, {.symbol = MARLIN(1)}};
    static const struct td_gpu_param params[20] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, 8}, {56, 8}, {64, 8}, {72, 8},
                                                   {80, 4}, {84, 4}, {88, 4}, {92, 4}, {96, 4}, {104, 8}, {112, 1}, {113, 1}, {114, 1}, {116, 4}};
    static uint16_t rows[MROWS * MK];
    uint64_t a = gpu_memory(MROWS * LDA * 2), c = gpu_memory(MROWS * MN * 2), weights = gpu_memory(131072);
    void *module, *f[2];
    struct bench b;
    int i;

    (void)state;
    for (i = 0; i < 40; i++)
        k[i / 20].param[i % 20].offset = params[i % 20].offset, k[i / 20].param[i % 20].size = params[i % 20].size;
    for (i = 0; i < 2; i++) {
        k[i].n_params = 20;
        k[i].run = run_marlin;
        say->add_kernel(&k[i]);
    }
    assert_int_equal(cu.module_load(&module, "TDFAKE " MARLIN(4) " " MARLIN(1)), 0);
    for (i = 0; i < 2; i++)
        assert_int_equal(cu.module_get_function(&f[i], module, k[i].symbol), 0);
    for (i = 0; i < MROWS * LDA; i++)
        ((uint16_t *)a)[i] = (uint16_t)(i * 7);
    for (i = 0; i < MROWS; i++)
        memcpy(rows + i * MK, (uint16_t *)a + i * LDA, MK * 2);
    arm(&b, TAP_MODE_ALL);
    for (i = 0; i < 2; i++) {          /* another model than that of the last arm: the first time nobody knows that a pass begins here */
        launch_marlin(f[0], a, c, weights, 128);
        launch_marlin(f[1], a + 128 * LDA * 2, c + 128 * MN * 2, weights, 13);
        cu.stream_synchronize(gpu_stream);
    }
    disarm(&b);
    assert_int_equal(ledger(&b, "ops.dropped.partial"), 1);
    assert_int_equal(b.n_ops, 1);
    assert_string_equal(b.ops[0].impl.layout, "marlin");
    assert_string_equal(b.ops[0].act_rounding, "weight-f16");
    assert_string_equal(b.ops[0].impl.symbol, MARLIN(4));
    assert_int_equal(attr(&b.ops[0], "m"), MROWS);
    assert_int_equal(cJSON_GetArraySize(b.ops[0].impl.launches), 2);
    assert_int_equal(number(launch_of(&b.ops[0], 1), "rows", 0), 128);
    assert_int_equal(cJSON_GetObjectItem(launch_of(&b.ops[0], 1), "shared_bytes")->valueint, 1024);
    assert_string_equal(cJSON_GetObjectItem(launch_of(&b.ops[0], 1), "symbol")->valuestring, MARLIN(1));
    check_blob(&b, td_op_rec_in(&b.ops[0], "a"), rows, sizeof rows);
    check_blob(&b, &b.ops[0].out, (void *)c, MROWS * MN * 2);
    bench_close(&b);
}

/* ---- two halves of a product --------------------------------------------------------------------------------------- */

int cublasHgemm(void *handle, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, const uint16_t *a, int lda, const uint16_t *b, int ldb,
                const uint16_t *beta, uint16_t *c, int ldc);

static uint64_t whole;

static void make_whole(const struct gpu_layer *w)
{
    struct gpu_params p;
    void *at[] = {&p.qweight, &p.perm, &p.qzeros, &p.scales, &p.k, &p.n, &p.groups, &p.v2, &whole};

    gpu_fill_params(&p, w, 0, 1);
    assert_int_equal(cu.launch(gpu_kernel(FAKE_RECONSTRUCT), 1, 1, 1, 128, 1, 1, 0, gpu_stream, at, NULL), 0);
}

static int multiply_whole(const struct gpu_layer *w, int m, uint64_t by)
{
    struct { void *kernel, *stream; int mode; } handle = {gpu_kernel(FAKE_HGEMM), gpu_stream, 0};
    uint16_t one = 0x3c00, zero = 0;

    return cublasHgemm(&handle, 0, 0, w->n, m, K, &one, (uint16_t *)by, w->n, (uint16_t *)dev_a, K, &zero, (uint16_t *)dev_c, w->n);
}

/* A prompt of more than 50 rows: vLLM makes W whole and calls cuBLAS. It is one op, of the same kind, with the same weights. */
static void a_long_prompt_is_an_op(void **state)
{
    enum { M = 60 };
    struct bench b;
    uint64_t other;
    int l;

    (void)state;
    whole = gpu_memory(K * 32 * LAYERS * 2);
    other = gpu_memory(K * 32 * LAYERS * 2);
    assert_int_equal(multiply_whole(&layer[0], 1, other), 0); /* asleep */
    arm(&b, TAP_MODE_ALL);
    gpu_others(20);
    gpu_activations(M, 7);
    for (l = 0; l < LAYERS; l++) {
        make_whole(&layer[l]);
        assert_int_equal(multiply_whole(&layer[l], M, whole), 0);
        cu.stream_synchronize(gpu_stream);
    }
    assert_int_equal(multiply_whole(&layer[0], 1, other), 0); /* a product of somebody else's */
    gpu_pass(1, 2);
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    assert_int_equal(b.n_steps, 2);
    assert_int_equal(ledger(&b, "weights.seen"), LAYERS);
    assert_int_equal(ledger(&b, "launches.known"), 3 * LAYERS);
    assert_string_equal(b.ops[0].kind, "gptq_gemm");
    assert_string_equal(b.ops[0].impl.symbol, FAKE_RECONSTRUCT);
    assert_string_equal(b.ops[0].act_rounding, "weight-f16");
    assert_string_equal(b.ops[LAYERS].act_rounding, "none");
    assert_int_equal(attr(&b.ops[0], "m"), M);
    assert_int_equal(cJSON_GetArraySize(b.ops[0].impl.launches), 2);
    assert_string_equal(cJSON_GetObjectItem(launch_of(&b.ops[0], 1), "symbol")->valuestring, "cublasHgemm");
    assert_int_equal(number(launch_of(&b.ops[0], 1), "rows", 1), M);
    assert_null(td_op_rec_in(&b.ops[0], "b"));
    assert_int_equal(td_op_rec_in(&b.ops[2], "a")->shape[0], M);
    assert_int_equal(b.ops[2].out.shape[0], M);
    check_qweight(&b, &b.ops[2], &layer[2]);
    bench_close(&b);
    cu.mem_free(whole);
    cu.mem_free(other);
}

/* The library refuses a product without activations; for the tap it is no GEMM. */
static void a_product_without_activations_is_no_op(void **state)
{
    const uint64_t activations = dev_a;
    struct bench b;

    (void)state;
    whole = gpu_memory(K * 32 * LAYERS * 2);
    arm(&b, TAP_MODE_ALL);
    gpu_others(20);
    make_whole(&layer[0]);
    setenv("TD_FAKE_BLAS", "refuse", 1);
    dev_a = 0;
    assert_int_equal(multiply_whole(&layer[0], 60, whole), 14);
    dev_a = activations;
    unsetenv("TD_FAKE_BLAS");
    gpu_pass(1, 2);
    disarm(&b);
    assert_int_equal(b.n_ops, LAYERS);
    bench_close(&b);
    cu.mem_free(whole);
}

int cublasGemmEx(void *handle, int trans_a, int trans_b, int m, int n, int k, const float *alpha, const uint16_t *a, int a_type, int lda, const uint16_t *b, int b_type, int ldb,
                 const float *beta, uint16_t *c, int c_type, int ldc, int compute, int algorithm);

/* beta NULL: factors lie on the device, where nobody can read them. */
static void linear(uint64_t w, int n, int m, int type, const float *beta)
{
    struct { void *kernel, *stream; int mode; } handle = {gpu_kernel(FAKE_LINEAR), gpu_stream, !beta};
    const float one = 1, *alpha = beta ? &one : (const float *)16;

    assert_int_equal(cublasGemmEx(&handle, 1, 0, n, m, K, alpha, (uint16_t *)w, type, K, (uint16_t *)dev_a, type, K, beta ? beta : alpha, (uint16_t *)dev_c, type, n, 68, -1), 0);
}

/* A layer that is not quantised, as torch calls cuBLAS: a gemm with the weights as they lie. What lies there may change: then the op is none. */
static void a_linear_layer_of_cublas_is_an_op(void **state)
{
    enum { N = 48, M = 5 };
    const float nothing = 0, one = 1;
    uint64_t w = gpu_memory(N * K * 2);
    struct bench b;
    int i;

    (void)state;
    for (i = 0; i < N * K; i++)
        ((uint16_t *)w)[i] = (uint16_t)(0x2c00 + i % 999);
    linear(w, N, M, 2, &nothing);             /* asleep */
    arm(&b, TAP_MODE_ALL);
    gpu_pass(1, 1);
    linear(w, N, M, 2, &nothing);
    linear(w, N, M, 2, &one);          /* adds to C */
    linear(w, N, M, 2, NULL);
    gpu_pass(1, 2);
    cu.stream_synchronize(gpu_stream);
    ((uint16_t *)w)[N * K / 2] ^= 0x100; /* in the sample */
    linear(w, N, M, 2, &nothing);         /* of two activations, as it turns out */
    cu.stream_synchronize(gpu_stream);
    linear(w, N, M, 2, &nothing);
    cu.stream_synchronize(gpu_stream);
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS + 1);
    assert_int_equal(ledger(&b, "ops.dropped.activations"), 2);
    assert_int_equal(ledger(&b, "ops.dropped.weights"), 0);
    check_balance(&b);
    assert_string_equal(b.ops[LAYERS].kind, "gemm");
    assert_string_equal(b.ops[LAYERS].impl.symbol, "cublasGemmEx");
    assert_string_equal(b.ops[LAYERS].act_rounding, "none");
    assert_int_equal(b.ops[LAYERS].step, b.steps[0].step);
    assert_int_equal(attr(&b.ops[LAYERS], "m"), M);
    assert_int_equal(attr(&b.ops[LAYERS], "n"), N);
    assert_int_equal(attr(&b.ops[LAYERS], "k"), K);
    assert_int_equal(attr(&b.ops[LAYERS], "trans_b"), 1);
    ((uint16_t *)w)[N * K / 2] ^= 0x100;
    check_blob(&b, td_op_rec_in(&b.ops[LAYERS], "w"), (void *)w, N * K * 2);
    assert_int_equal(b.ops[LAYERS].out.shape[1], N);
    bench_close(&b);
    cu.mem_free(w);
}

/* ---- forms of a launch --------------------------------------------------------------------------------------------- */

static void one_form(int (*launch)(void *f, struct gpu_params *p), const char *symbol, int rows)
{
    struct gpu_params p;
    struct bench b;

    arm(&b, TAP_MODE_ALL);
    gpu_activations(rows, 9);
    gpu_fill_params(&p, &layer[0], 0, rows);
    assert_int_equal(launch(gpu_kernel(symbol), &p), 0);
    cu.stream_synchronize(gpu_stream);
    disarm(&b);
    assert_int_equal(b.n_ops, 1);
    assert_string_equal(b.ops[0].impl.symbol, symbol);
    check_blob(&b, td_op_rec_in(&b.ops[0], "a"), (void *)dev_a, (size_t)(rows * K) * 2);
    check_blob(&b, &b.ops[0].out, (void *)dev_c, (size_t)(rows * layer[0].n) * 2);
    bench_close(&b);
}

/* The packed form; between parameters lies what lay there before. */
static int launch_packed(void *f, struct gpu_params *p)
{
    uint8_t block[72];
    size_t bytes = sizeof block;
    void *extra[] = {(void *)TD_CUDA_PARAM_BUFFER_POINTER, block, (void *)TD_CUDA_PARAM_BUFFER_SIZE, &bytes, NULL};

    memset(block, 0xa5, sizeof block);
    memcpy(block, &p->a, 5 * 8);
    memcpy(block + 40, &p->m, 4 * 4);
    block[56] = p->v2;
    memcpy(block + 64, &p->perm, 8);
    return cu.launch(f, 1, 1, 1, 128, 1, 1, 0, gpu_stream, NULL, extra);
}

static int launch_ex(void *f, struct gpu_params *p)
{
    struct td_cuda_launch_config c = {.grid = {1, 1, 1}, .block = {128, 1, 1}, .stream = gpu_stream};

    return cu.launch_ex(&c, f, p->at, NULL);
}

static int launch_cooperative(void *f, struct gpu_params *p)
{
    return cu.launch_cooperative(f, 1, 1, 1, 128, 1, 1, 0, gpu_stream, p->at);
}

static int launch_per_thread(void *f, struct gpu_params *p)
{
    int rc = cu.launch_ptsz(f, 1, 1, 1, 128, 1, 1, 0, NULL, p->at, NULL);

    cu.ctx_synchronize();
    return rc;
}

static int launch_ex_per_thread(void *f, struct gpu_params *p)
{
    struct td_cuda_launch_config c = {.grid = {1, 1, 1}, .block = {128, 1, 1}};
    int rc = cu.launch_ex_ptsz(&c, f, p->at, NULL);

    cu.ctx_synchronize();
    return rc;
}

static int launch_cooperative_per_thread(void *f, struct gpu_params *p)
{
    int rc = cu.launch_cooperative_ptsz(f, 1, 1, 1, 128, 1, 1, 0, NULL, p->at);

    cu.ctx_synchronize();
    return rc;
}

static int launch_old(void *f, struct gpu_params *p)
{
    p->at[9] = &p->perm;
    return cu.launch(f, 1, 1, 1, 128, 1, 1, 0, gpu_stream, p->at, NULL);
}

static void every_form_is_read(void **state)
{
    (void)state;
    one_form(launch_packed, FAKE_GPTQ_4BIT(3), 3);
    one_form(launch_ex, FAKE_GPTQ_4BIT(2), 2);
    one_form(launch_cooperative, FAKE_GPTQ_4BIT(1), 1);
    one_form(launch_per_thread, FAKE_GPTQ_4BIT(1), 1);
    one_form(launch_ex_per_thread, FAKE_GPTQ_4BIT(2), 2);
    one_form(launch_cooperative_per_thread, FAKE_GPTQ_4BIT(3), 3);
    one_form(launch_old, FAKE_GPTQ_4BIT_OLD(5), 5);
}

/* Per-thread forms without a stream mean the thread's own, which a capture elsewhere leaves alone; the legacy one would be refused. */
static void per_thread_beside_a_capture(void **state)
{
    struct td_cuda_launch_config c = {.grid = {1, 1, 1}, .block = {128, 1, 1}};
    void *other, *graph, *f = gpu_kernel(FAKE_GPTQ_4BIT(1));
    struct gpu_params p;
    struct bench b;
    size_t i;

    (void)state;
    assert_int_equal(cu.stream_create(&other, TD_CUDA_STREAM_NON_BLOCKING), 0);
    arm(&b, TAP_MODE_ALL);
    gpu_activations(1, 11);
    gpu_fill_params(&p, &layer[0], 0, 1);
    assert_int_equal(cu.stream_begin_capture(other, 0), 0);
    assert_int_equal(cu.launch_ptsz(f, 1, 1, 1, 128, 1, 1, 0, NULL, p.at, NULL), 0);
    assert_int_equal(cu.launch_ex_ptsz(&c, f, p.at, NULL), 0);
    assert_int_equal(cu.launch_cooperative_ptsz(f, 1, 1, 1, 128, 1, 1, 0, NULL, p.at), 0);
    assert_int_equal(cu.stream_end_capture(other, &graph), 0);
    cu.ctx_synchronize();
    disarm(&b);
    assert_int_equal(b.n_ops, 3);
    for (i = 0; i < b.n_ops; i++)
        check_blob(&b, &b.ops[i].out, (void *)dev_c, (size_t)layer[0].n * 2);
    check_balance(&b);
    bench_close(&b);
    cu.graph_destroy(graph);
}

static void a_permutation_is_a_weight(void **state)
{
    struct gpu_layer w = layer[0];
    struct bench b;
    int i;

    (void)state;
    w.perm = gpu_memory(K * 4);
    for (i = 0; i < K; i++)
        ((int32_t *)w.perm)[i] = K - 1 - i;
    arm(&b, TAP_MODE_ALL);
    gpu_activations(1, 4);
    gpu_gemm(&w, 1);
    cu.stream_synchronize(gpu_stream);
    disarm(&b);
    assert_int_equal(b.n_ops, 1);
    assert_int_equal(attr(&b.ops[0], "act_order"), 1);
    check_qweight(&b, &b.ops[0], &w);
    assert_non_null(td_op_rec_in(&b.ops[0], "g_idx"));
    bench_close(&b);
    cu.mem_free(w.perm);
}

/* ---- what is not taken, and why ------------------------------------------------------------------------------------ */

static void a_failed_launch_is_counted(void **state)
{
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    gpu_pass(1, 1);
    say->fault("launch", 2, TD_CUDA_LAUNCH_OUT_OF_RESOURCES); /* behind the copies of its inputs */
    assert_int_equal(gpu_launch(&layer[0], 0, 1, 1), TD_CUDA_LAUNCH_OUT_OF_RESOURCES);
    gpu_pass(1, 2);
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.failed"), 1);
    check_balance(&b);
    bench_close(&b);
}

static void captures_are_left_alone(void **state)
{
    uint64_t allocations;
    void *graph, *exec;
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    gpu_pass(1, 1);
    allocations = say->calls("cuMemAlloc_v2");
    cu.stream_begin_capture(gpu_stream, 0);
    gpu_gemm(&layer[0], 20);
    assert_int_equal(cu.stream_end_capture(gpu_stream, &graph), 0);
    assert_int_equal(cu.graph_instantiate(&exec, graph, 0), 0);
    assert_int_equal(cu.graph_launch(exec, gpu_stream), 0);
    assert_int_equal(cu.graph_launch(exec, gpu_stream), 0);
    cu.stream_synchronize(gpu_stream);
    assert_int_equal(say->calls("cuMemAlloc_v2"), allocations);
    disarm(&b);
    assert_int_equal(b.n_ops, LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 1);
    assert_int_equal(ledger(&b, "launches.graphs"), 2);
    check_balance(&b);
    cu.graph_exec_destroy(exec);
    cu.graph_destroy(graph);
    bench_close(&b);
}

static void another_has_the_place(void **state)
{
    const char *why;
    struct bench b;

    (void)state;
    cupti_take("Nsight Systems");
    bench_open(&b, TAP_MODE_ALL);
    why = tap_front_cuda.start();
    assert_non_null(why);
    assert_non_null(strstr(why, "in use by CUPTI for Nsight Systems"));
    gpu_pass(1, 1);
    tap_front_cuda.tick();
    tap_front_cuda.stop(100);
    cupti_take(NULL);
    bench_read(&b);
    assert_int_equal(b.n_ops, 0);
    bench_close(&b);
}

/* With --launches off CUPTI stays a profiler's; what the library's calls announce is recorded all the same, in steps. */
static void without_launches_nobody_subscribes(void **state)
{
    enum { N = 48, M = 5, STEPS = 6 };
    const float nothing = 0;
    uint64_t w[2] = {gpu_memory(N * K * 2), gpu_memory(N * K * 2)};
    struct bench b;
    int i, taken;

    (void)state;
    for (i = 0; i < N * K; i++)
        ((uint16_t *)w[0])[i] = ((uint16_t *)w[1])[i] = (uint16_t)(0x2c00 + i % 999);
    for (taken = 0; taken < 2; taken++) {
        cupti_take(taken ? "Nsight Systems" : NULL);
        bench_open(&b, TAP_MODE_ALL);
        tap_plan.no_launches = true;
        assert_null(tap_front_cuda.start());
        assert_false(cupti_subscribed());
        for (i = 0; i < STEPS; i++) {
            gpu_pass(1, 1);            /* launches that nothing announces: not seen */
            linear(w[0], N, M, 2, &nothing);
            linear(w[1], N, M, 2, &nothing);
            cu.stream_synchronize(gpu_stream);
            tap_front_cuda.tick();
            assert_false(cupti_subscribed());
        }
        tap_front_cuda.stop(20000);
        tap_plan.no_launches = false;
        bench_read(&b);
        /* the first pass through another model begins no step: its first weights are not known yet */
        assert_int_equal(b.n_steps, STEPS - !taken);
        assert_int_equal(b.n_ops, 2 * b.n_steps);
        assert_int_equal(ledger(&b, "launches.seen"), 0);
        check_balance(&b);
        bench_close(&b);
    }
    cupti_take(NULL);
    cu.mem_free(w[0]);
    cu.mem_free(w[1]);
}

static void samples_are_whole_steps(void **state)
{
    struct bench b;
    size_t i;
    int p;

    (void)state;
    arm(&b, TAP_MODE_SAMPLE);          /* one in a thousand, and the first two of a size */
    for (p = 0; p < 20; p++)
        gpu_pass(1, (unsigned)p);
    gpu_pass(20, 21);
    disarm(&b);
    assert_in_range(b.n_steps, 3, 7);
    assert_int_equal(b.n_ops, b.n_steps * LAYERS);
    assert_int_equal(ledger(&b, "steps.seen"), 21);
    assert_int_equal(ledger(&b, "ops.seen"), 21 * LAYERS);
    check_balance(&b);
    for (i = 0; i < b.n_ops; i++)
        assert_int_equal(b.ops[i].step, b.steps[i / LAYERS].step);
    bench_close(&b);
}

static void a_budget_drops_steps(void **state)
{
    struct bench b;
    int p;

    (void)state;
    bench_open(&b, TAP_MODE_ALL);
    tap_plan.budget = 100;             /* bytes a second: the first step spends it */
    atomic_store(&tap_budget.steps_used_until_ns, tap_now());
    atomic_store(&tap_budget.weights_used_until_ns, tap_now());
    assert_null(tap_front_cuda.start());
    for (p = 0; p < 10; p++) {
        gpu_pass(1, (unsigned)p);
        usleep(5000);
        for (int i = 0; i < 2000 && p == 1 && atomic_load(&tap_budget.steps_used_until_ns) < tap_now(); i++)
            usleep(5000); /* until the sender has spent it */
    }
    disarm(&b);
    tap_plan.budget = 0;
    assert_true(ledger(&b, "ops.dropped.budget") > 0);
    assert_true(b.n_ops > 0);
    assert_int_equal(ledger(&b, "ops.seen"), 10 * LAYERS);
    check_balance(&b);
    bench_close(&b);
}

/* More than the recorder's ring holds. */
static void too_large_is_counted(void **state)
{
    const int rows = RING / (K * 2);
    const uint64_t a = dev_a, c = dev_c;
    struct bench b;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    gpu_pass(1, 1);
    dev_a = gpu_memory((size_t)rows * K * 2);
    dev_c = gpu_memory((size_t)rows * (size_t)layer[0].n * 2);
    gpu_activations(rows, 1);
    gpu_launch(&layer[0], 0, rows, 8);
    cu.stream_synchronize(gpu_stream);
    dev_a = a;
    dev_c = c;
    disarm(&b);
    assert_int_equal(b.n_ops, LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.ring"), 1);
    check_balance(&b);
    bench_close(&b);
}

/* ---- steps --------------------------------------------------------------------------------------------------------- */

/* Armed in the middle of a pass: after a round it is known where passes begin, by what lies between them. */
static void steps_are_found(void **state)
{
    struct bench b;
    size_t i, last;

    (void)state;
    tap_gpu_gate_forget();            /* a process that was never armed */
    arm(&b, TAP_MODE_ALL);
    gpu_others(3);
    gpu_gemm(&layer[1], 1);
    gpu_others(3);
    gpu_gemm(&layer[2], 1);
    cu.stream_synchronize(gpu_stream);
    for (i = 0; i < 5; i++)
        gpu_pass(1, (unsigned)i);
    disarm(&b);
    assert_int_equal(ledger(&b, "ops.seen"), 2 + 5 * LAYERS);
    check_balance(&b);
    last = b.n_ops - 1;
    assert_int_equal(attr(&b.ops[last], "n"), layer[2].n);
    assert_int_equal(b.ops[last].step, b.ops[last - 2].step);
    assert_int_equal(attr(&b.ops[last - 2], "n"), layer[0].n);
    assert_int_not_equal(b.ops[last - 3].step, b.ops[last].step);
    bench_close(&b);
}

/* ---- life ---------------------------------------------------------------------------------------------------------- */

/* Disarmed while the device is far behind: what was taken arrives. */
static void what_is_on_its_way_arrives(void **state)
{
    struct bench b;
    int i;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    gpu_pass(1, 1);
    for (i = 0; i < 200; i++)
        gpu_launch(&layer[i % LAYERS], 0, 1, 1);
    disarm(&b);
    assert_int_equal(b.n_ops, LAYERS + 200);
    check_balance(&b);
    cu.stream_synchronize(gpu_stream);
    bench_close(&b);
}

/* A device that takes longer than anybody waits: counted. */
static void what_comes_too_late_is_counted(void **state)
{
    struct bench b;
    int i;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    for (i = 0; i < 200; i++)
        gpu_launch(&layer[i % LAYERS], 0, 1, 1);
    disarm_within(&b, 0);
    assert_true(b.n_ops < 200);
    assert_int_equal(ledger(&b, "ops.seen"), 200);
    check_balance(&b);
    cu.stream_synchronize(gpu_stream);
    while (!tap_gpu_stage_is_quiet())
        usleep(1000);
    bench_close(&b);
}

/* The recorder reads nothing any more, and its ring is full: the tap goes to sleep all the same. */
static void a_full_ring_is_waited_for(void **state)
{
    struct bench b;
    int i;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    for (i = 0; i < 600; i++)
        gpu_launch(&layer[i % LAYERS], 0, 1, 1);
    disarm_within(&b, 2000);
    assert_in_range(b.n_ops, 100, 599);
    assert_int_equal(ledger(&b, "ops.seen"), 600);
    check_balance(&b);
    bench_close(&b);
}

static void *launch_much(void *arg)
{
    int i;

    (void)arg;
    cu.ctx_set_current(gpu_context);
    for (i = 0; i < 100; i++)
        gpu_launch(&layer[0], 0, 1, 1);
    return NULL;
}

/* Threads get into each other's way: nobody waits, and everything is counted. */
static void threads_at_once(void **state)
{
    pthread_t t[3];
    struct bench b;
    int i;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    gpu_launch(&layer[0], 0, 1, 1);    /* while a kernel is being looked at, others' launches of it are nobody's */
    for (i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, launch_much, NULL);
    for (i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    cu.stream_synchronize(gpu_stream);
    disarm(&b);
    assert_int_equal(ledger(&b, "launches.known"), 301);
    assert_int_equal(ledger(&b, "ops.seen"), 301);
    check_balance(&b);
    bench_close(&b);
}

/* Disarmed and armed again under load; no memory is asked for twice. */
static void armed_again_and_again(void **state)
{
    uint64_t allocations = say->calls("cuMemAlloc_v2");
    pthread_t t;
    int i;

    (void)state;
    for (i = 0; i < 10; i++) {
        struct bench b;

        pthread_create(&t, NULL, launch_much, NULL);
        arm(&b, TAP_MODE_ALL);
        usleep(2000);
        disarm(&b);
        pthread_join(t, NULL);
        check_balance(&b);
        bench_close(&b);
    }
    cu.stream_synchronize(gpu_stream);
    assert_int_equal(say->calls("cuMemAlloc_v2"), allocations);
}

/* The last op of a request has no successor that would send it on its way. */
static void the_last_op_comes_while_idle(void **state)
{
    struct bench b;
    int i;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    gpu_pass(1, 1);
    for (i = 0; i < 500 && atomic_load(&tap_ring_slots[0].ring->counts[TAP_OPS_SENT].n) < LAYERS; i++) {
        usleep(20000);
        tap_front_cuda.tick();
    }
    assert_int_equal(atomic_load(&tap_ring_slots[0].ring->counts[TAP_OPS_SENT].n), LAYERS);
    disarm(&b);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_becomes_an_op),
        cmocka_unit_test(launches_are_joined),
        cmocka_unit_test(joined_rows_are_in_order),
        cmocka_unit_test(a_long_prompt_is_an_op), cmocka_unit_test(a_product_without_activations_is_no_op),
        cmocka_unit_test(a_linear_layer_of_cublas_is_an_op),
        cmocka_unit_test(every_form_is_read), cmocka_unit_test(per_thread_beside_a_capture),
        cmocka_unit_test(a_permutation_is_a_weight),
        cmocka_unit_test(a_failed_launch_is_counted),
        cmocka_unit_test(captures_are_left_alone),
        cmocka_unit_test(another_has_the_place),
        cmocka_unit_test(samples_are_whole_steps),
        cmocka_unit_test(a_budget_drops_steps),
        cmocka_unit_test(too_large_is_counted),
        cmocka_unit_test(steps_are_found),
        cmocka_unit_test(what_is_on_its_way_arrives),
        cmocka_unit_test(what_comes_too_late_is_counted),
        cmocka_unit_test(a_full_ring_is_waited_for),
        cmocka_unit_test(threads_at_once),
        cmocka_unit_test(armed_again_and_again),
        cmocka_unit_test(the_last_op_comes_while_idle),
        cmocka_unit_test(marlin_is_joined), /* the last two: other models */
        cmocka_unit_test(without_launches_nobody_subscribes),
    };

    return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
