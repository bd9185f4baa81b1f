/* test_tap_cuda_hard.c - what a server may do to the tap's CUDA front end: streams, handles and memory that are used again, a device that is full or
 * reset, a driver that stands still.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "common/json.h"
#include "fake_gpu.h"
#include "tap_bench.h"
#include "model/exllama_layout.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/gpu/gpu_driver.h"
#include "recorder/tap/gpu/gpu_stage.h"
#include "recorder/tap/gpu/gpu_weight_sets.h"

enum { WORDS = K / 8 * 32 * LAYERS, OUT_OF_MEMORY = 2 };

static void arm(struct bench *b)
{
    bench_open(b, TAP_MODE_ALL);
    assert_null(tap_front_cuda.start());
}

static void disarm(struct bench *b)
{
    tap_front_cuda.stop(20000);
    bench_read(b);
}

/* ---- streams ------------------------------------------------------------------------------------------------------- */

/* All streams, the newest first. */
static void *finish_later(void *unused)
{
    (void)unused;
    cu.ctx_set_current(gpu_context);
    usleep(300000);
    cu.ctx_synchronize();
    return NULL;
}

/* Launches on one stream that is far behind, then a capture and a launch on another: what the first computed is waited for all the same. */
static void a_slow_stream_is_waited_for(void **state)
{
    uint8_t a[K * 2], c[32 * 2];
    void *first = gpu_stream, *other, *graph;
    pthread_t t;
    struct bench b;

    (void)state;
    arm(&b);
    assert_int_equal(cu.stream_create(&other, TD_CUDA_STREAM_NON_BLOCKING), 0); /* the newest */
    gpu_pass(1, 1);
    gpu_others(20);
    memset((void *)dev_c, 0, 32 * 2);
    gpu_activations(1, 5);
    say->use_thread(false);
    gpu_gemm(&layer[0], 1);
    gpu_stream = other;
    cu.stream_begin_capture(other, 0);
    gpu_launch(&layer[2], 0, 1, 1);
    assert_int_equal(cu.stream_end_capture(other, &graph), 0);
    dev_c += 4096;
    gpu_launch(&layer[1], 0, 1, 1);
    dev_c -= 4096;
    gpu_stream = first;
    pthread_create(&t, NULL, finish_later, NULL);
    disarm(&b);
    pthread_join(t, NULL);
    say->use_thread(true);
    memcpy(a, (void *)dev_a, sizeof a);
    memcpy(c, (void *)dev_c, sizeof c);
    assert_int_equal(b.n_ops, LAYERS + 2);
    check_blob(&b, td_op_rec_in(&b.ops[LAYERS], "a"), a, sizeof a);
    check_blob(&b, &b.ops[LAYERS].out, c, sizeof c);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 1);
    cu.graph_destroy(graph);
    check_balance(&b);
    bench_close(&b);
    cu.stream_destroy(other);
}

/* ---- handles ------------------------------------------------------------------------------------------------------- */

/* A module of one kernel; where the last one lay. */
static void *load_one(void **module, const char *symbol)
{
    char image[600];
    void *f;

    snprintf(image, sizeof image, "TDFAKE %s", symbol);
    assert_int_equal(cu.module_load(module, image), 0);
    assert_int_equal(cu.module_get_function(&f, *module, symbol), 0);
    return f;
}

/* A module goes, and another's kernel has its handle: it is neither taken for the old one, whose parameters it lacks, nor overlooked. */
static void a_handle_is_used_again(void **state)
{
    static const char *const symbol[] = {FAKE_OTHER, FAKE_GPTQ_4BIT(1), FAKE_OTHER, FAKE_GPTQ_4BIT(1)};
    void *module, *f[4] = {NULL}, *page;
    struct gpu_params p;
    struct bench b;
    int i, count = 4;

    (void)state;
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    arm(&b);
    gpu_activations(1, 3);
    for (i = 0; i < 4; i++) {
        gpu_fill_params(&p, &layer[0], 0, 1);
        if (symbol[i] == symbol[0]) {  /* two parameters; behind them lies what must not be touched */
            int at;

            for (at = 2; at < 11; at++)
                p.at[at] = page;
            p.at[0] = &count;
        }
        f[i] = load_one(&module, symbol[i]);
        assert_int_equal(cu.launch(f[i], 1, 1, 1, 128, 1, 1, 0, gpu_stream, p.at, NULL), 0);
        cu.stream_synchronize(gpu_stream);
        cu.module_unload(module);
    }
    disarm(&b);
    assert_ptr_equal(f[0], f[1]);
    assert_ptr_equal(f[1], f[2]);
    assert_int_equal(b.n_ops, 2);
    assert_int_equal(ledger(&b, "launches.seen"), 4);
    assert_int_equal(ledger(&b, "launches.known"), 2);
    check_balance(&b);
    bench_close(&b);
    munmap(page, 4096);
}

/* ---- joining ------------------------------------------------------------------------------------------------------- */

/* The second launch of a product is refused: the first one's rows are no op. */
static void half_an_op_is_none(void **state)
{
    struct bench b;

    (void)state;
    arm(&b);
    gpu_pass(20, 1);
    gpu_others(3);
    say->fault("launch", 2, TD_CUDA_LAUNCH_OUT_OF_RESOURCES);
    gpu_gemm(&layer[0], 20);
    cu.stream_synchronize(gpu_stream);
    gpu_pass(20, 2);
    disarm(&b);
    assert_int_equal(b.n_ops, 2 * LAYERS);
    assert_int_equal(td_json_get_i64(b.ops[LAYERS].attrs, "m", 0), 20);
    assert_int_equal(ledger(&b, "ops.dropped.failed"), 1);
    assert_int_equal(ledger(&b, "ops.seen"), 2 * LAYERS + 1);
    check_balance(&b);
    bench_close(&b);
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

/* No more than 4 MiB are left on the device: less is recorded, but not nothing. */
static void a_small_ring_is_enough(void **state)
{
    struct bench b;
    int i;

    (void)state;
    tap_gpu_stage_forget();
    for (i = 1; i <= 4; i++)
        say->fault("alloc", i, OUT_OF_MEMORY);
    arm(&b);
    assert_int_equal(tap_gpu_stage_bytes(), 4 << 20);
    gpu_pass(1, 1);
    disarm(&b);
    assert_int_equal(b.n_ops, LAYERS);
    bench_close(&b);
}

/* As if the recorder's rings were of so many bytes, when the tap is armed. Is the GPU's as large then, or how large is it said to be? */
static void arm_for(struct bench *b, uint64_t ring_bytes, uint64_t got, const char *says)
{
    const char *why;

    bench_open(b, TAP_MODE_ALL);
    tap_plan.ring_bytes = ring_bytes;
    why = tap_front_cuda.start();
    assert_int_equal(tap_gpu_stage_bytes(), got);
    if (says)
        assert_true(why && strstr(why, says) && strstr(tap_front_cuda.trouble(), says));
    else
        assert_true(!why && !tap_front_cuda.trouble());
    tap_plan.ring_bytes = RING;
}

static void expect_recorded(struct bench *b)
{
    gpu_pass(1, 1);
    disarm(b);
    assert_int_equal(b->n_ops, LAYERS);
    bench_close(b);
}

static int not_registered(void *p, size_t bytes, unsigned flags)
{
    (void)p, (void)bytes, (void)flags;
    return OUT_OF_MEMORY;
}

static int not_addressed(uint64_t *address, void *p, unsigned flags)
{
    (void)address, (void)p, (void)flags;
    return OUT_OF_MEMORY;
}

static int not_allocated(uint64_t *address, size_t bytes)
{
    (void)address, (void)bytes;
    return OUT_OF_MEMORY;
}

/* In a server that runs: a recorder that takes more in one piece than the one before it. */
static void the_ring_grows_with_the_recorders(void **state)
{
    int (*real_register)(void *, size_t, unsigned), (*real_alloc)(uint64_t *, size_t), (*real_address)(uint64_t *, void *, unsigned);
    const uint64_t usual = TAP_GPU_STAGE_BYTES;
    struct bench b;
    int i;

    (void)state;
    tap_gpu_stage_forget();
    arm_for(&b, RING, usual, NULL);
    expect_recorded(&b);
    for (i = 1; i <= 2; i++)
        say->fault("alloc", i, OUT_OF_MEMORY);
    arm_for(&b, 3 * usual, usual, "64 MiB only");
    expect_recorded(&b);
    say->fault("alloc", 1, OUT_OF_MEMORY);
    arm_for(&b, 3 * usual, 2 * usual, "128 MiB only");
    expect_recorded(&b);
    real_register = tap_driver.host_register;
    tap_driver.host_register = not_registered;
    arm_for(&b, 3 * usual, 2 * usual, "128 MiB only"); /* the device's part is there now */
    tap_driver.host_register = real_register;
    expect_recorded(&b);
    real_address = tap_driver.host_device_pointer;
    tap_driver.host_device_pointer = not_addressed;
    arm_for(&b, 3 * usual, 2 * usual, "128 MiB only"); /* and now the host's */
    tap_driver.host_device_pointer = real_address;
    expect_recorded(&b);
    real_alloc = tap_driver.mem_alloc;
    tap_driver.mem_alloc = not_allocated;
    tap_driver.host_register = not_registered;
    arm_for(&b, 3 * usual, 4 * usual, NULL);
    tap_driver.mem_alloc = real_alloc;
    tap_driver.host_register = real_register;
    expect_recorded(&b);
    arm_for(&b, RING, 4 * usual, NULL); /* what there is stays */
    expect_recorded(&b);
    tap_plan.kinds = TAP_KINDS_ALL;    /* --all-ops is no other case */
    tap_gpu_stage_forget();
    arm_for(&b, 3 * usual, 4 * usual, NULL);
    tap_plan.kinds = TAP_KINDS_GEMM;
    expect_recorded(&b);
    tap_gpu_stage_forget();
    say->fault("alloc", 1, OUT_OF_MEMORY);
    arm_for(&b, 3 * usual, 2 * usual, "128 MiB only"); /* also where it is the first */
    expect_recorded(&b);
    tap_gpu_stage_forget();
}

/* Give the sender the time to see what was copied, as a server that is idle does. */
static void be_idle(void)
{
    int i;

    for (i = 0; i < 10; i++) {
        usleep(20000);
        tap_front_cuda.tick();
    }
}

/* Within an arm another model's weights come to lie where a layer's were: no op is recorded with the old ones, and the new ones are. */
static void weights_are_replaced(void **state)
{
    uint32_t before[WORDS], after[WORDS], *q = (uint32_t *)layer[1].qweight;
    const size_t bytes = (size_t)(K / 8 * layer[1].n) * 4;
    struct bench b;
    size_t i;
    int j;

    (void)state;
    assert_int_equal(td_exllama_unshuffle(4, K, layer[1].n, q, NULL, before, NULL), 0);
    arm(&b);
    gpu_pass(1, 1);
    gpu_pass(20, 2);
    be_idle();
    for (j = 0; j < K / 8 * layer[1].n; j++)
        q[j] ^= 0x13572468u;
    assert_int_equal(td_exllama_unshuffle(4, K, layer[1].n, q, NULL, after, NULL), 0);
    gpu_pass(20, 3);
    be_idle();
    gpu_pass(1, 4);
    gpu_pass(20, 5);
    disarm(&b);
    assert_int_equal(b.n_ops, 5 * LAYERS - 1);
    assert_int_equal(ledger(&b, "ops.dropped.weights"), 1);
    assert_int_equal(ledger(&b, "ops.seen"), 5 * LAYERS);
    check_balance(&b);
    for (i = 0; i < b.n_ops; i++)
        if (td_json_get_i64(b.ops[i].attrs, "n", 0) == layer[1].n)
            check_blob(&b, td_op_rec_in(&b.ops[i], "qweight"), i < 2 * LAYERS ? before : after, bytes);
    bench_close(&b);
}

/* The same of the scales alone, and of the zero points: the words stay. */
static void each_tensor_is_looked_at(void **state)
{
    for (int which = 0; which < 2; which++) {
        const size_t bytes = (size_t)(K / GROUP * layer[1].n) * (which ? 2 : 4) / (which ? 1 : 8);
        uint8_t *at = (uint8_t *)(which ? layer[1].scales : layer[1].qzeros);
        struct bench b;

        (void)state;
        arm(&b);
        gpu_pass(1, 1);
        gpu_pass(20, 2);
        be_idle();
        for (size_t i = 0; i < bytes; i++)
            at[i] ^= 1;
        gpu_pass(20, 3);
        be_idle();
        gpu_pass(1, 4);
        disarm(&b);
        assert_int_equal(b.n_ops, 4 * LAYERS - 1);
        assert_int_equal(ledger(&b, "ops.dropped.weights"), 1);
        bench_close(&b);
    }
}

/* A layer whose weights are half sent does not run any more: after a while the others' go over, and its own, whole, when it comes back. */
static void half_a_set_does_not_stay_in_the_way(void **state)
{
    struct tap_gpu_weight_set *half, *other;
    static const struct td_gpu_adapter adapter = {.kind = "gemm", .layout = "checkpoint"};
    struct td_gpu_work w[2] = {{.adapter = &adapter}, {.adapter = &adapter}};
    uint64_t step = 7;
    uint32_t number;

    (void)state;
    tap_gpu_weight_sets_clear();
    for (int i = 0; i < 2; i++) {
        w[i].n_op = 1;
        w[i].op[0] = (struct td_gpu_operand){.role = "w", .dtype = "F16", .use = TD_GPU_WEIGHT, .address = 0x10000u * (unsigned)(i + 1), .bytes = 4096};
    }
    half = tap_gpu_weight_set_find(&w[0]);
    other = tap_gpu_weight_set_find(&w[1]);
    number = half->number;
    assert_true(tap_gpu_weight_set_may_go(half, step));
    half->staged = 100;
    tap_gpu_weight_set_went(half);
    assert_false(tap_gpu_weight_set_may_go(other, step + 1));
    assert_true(tap_gpu_weight_set_may_go(half, step + 30)); /* it still runs, and waits for room */
    assert_false(tap_gpu_weight_set_may_go(other, step + 60));
    assert_true(tap_gpu_weight_set_may_go(other, step + 70));
    other->staged = other->total;
    tap_gpu_weight_set_went(other);
    assert_ptr_equal(tap_gpu_weight_set_find(&w[0]), half);
    assert_true(half->number != number && half->staged == 0);
    assert_true(tap_gpu_weight_set_may_go(half, step + 71));
    tap_gpu_weight_sets_clear();
}

/* The recorder takes a set apart by what it is read as: the same memory, read as something else, is another one. */
static void one_memory_in_two_forms(void **state)
{
    static const struct td_gpu_adapter norm = {.kind = "rms_norm", .layout = "checkpoint"}, adds = {.kind = "fused_add_rms_norm", .layout = "checkpoint"},
                                       product = {.kind = "gemm", .layout = "checkpoint"};
    struct td_gpu_work w = {.adapter = &norm, .beside = true, .n_op = 1}, other = w;
    struct tap_gpu_weight_set *first;

    (void)state;
    tap_gpu_weight_sets_clear();
    w.op[0] = (struct td_gpu_operand){.role = "w", .dtype = "F16", .use = TD_GPU_WEIGHT, .address = 0x10000, .ndim = 1, .shape = {2048}, .bytes = 4096};
    first = tap_gpu_weight_set_find(&w);
    assert_ptr_equal(tap_gpu_weight_set_find(&w), first);
    other = w, other.adapter = &adds;
    assert_true(tap_gpu_weight_set_find(&other)->number != first->number);
    other = w, other.adapter = &product, other.beside = false, other.op[0].ndim = 2, other.op[0].shape[0] = 64, other.op[0].shape[1] = 32;
    first = tap_gpu_weight_set_find(&other);
    other.op[0].shape[0] = 32, other.op[0].shape[1] = 64;
    assert_true(tap_gpu_weight_set_find(&other)->number != first->number);
    tap_gpu_weight_sets_clear();
}

/* --layers: once the recorder has seen a layer that it does not want, the tap copies nothing more of it. */
static void unwanted_layers_are_not_copied(void **state)
{
    struct td_error err = {0};
    uint64_t copies;
    struct bench b;
    int i;

    (void)state;
    arm(&b);
    pthread_mutex_init(&b.l.lock, NULL);
    assert_int_equal(td_layer_filter_new("0-3", &b.l.filter, &err), 0); /* without a checkpoint no layer has a name */
    for (i = 1; i < 4; i++) {
        copies = gpu_copies();
        gpu_pass(1, (unsigned)i);
        be_idle();
        while (client_drain(&b.l, b.lk))
            ;
    }
    assert_int_equal(gpu_copies(), copies);
    disarm(&b);
    assert_int_equal(b.n_ops, 0);
    assert_int_equal(ledger(&b, "ops.dropped.layers"), 3 * LAYERS);
    assert_int_equal(ledger(&b, "ops.seen"), 3 * LAYERS);
    assert_int_equal(ledger(&b, "weights.unwanted"), LAYERS);
    assert_int_equal(ledger(&b, "weights.seen"), 0);
    td_layer_filter_free(b.l.filter);
    bench_close(&b);
}

static int refuse_register(void *p, size_t bytes, unsigned flags)
{
    (void)p, (void)bytes, (void)flags;
    return OUT_OF_MEMORY;
}

/* Which context is the server's is known at its first launch; what then fails is told when the arm is over, in the answer to it. */
static void what_fails_within_an_arm_is_told(void **state)
{
    int (*real)(void *, size_t, unsigned) = tap_driver.host_register;
    int (*count)(int *) = tap_driver.device_count;
    struct bench b;

    (void)state;
    tap_gpu_stage_forget();
    tap_driver.host_register = refuse_register;
    tap_driver.device_count = NULL;
    arm(&b);
    assert_null(tap_front_cuda.trouble());
    gpu_pass(1, 1);
    be_idle();
    gpu_pass(1, 2);
    disarm(&b);
    assert_non_null(strstr(tap_front_cuda.trouble(), "no pinned memory"));
    assert_int_equal(b.n_ops, 0);
    bench_close(&b);
    tap_driver.host_register = real;
    tap_driver.device_count = count;
    tap_gpu_stage_forget();
    arm(&b);
    gpu_pass(1, 3);
    disarm(&b);
    assert_null(tap_front_cuda.trouble());
    bench_close(&b);
}

/* No memory of the host may be pinned: that of the device is not asked for again and again. */
static void what_there_is_is_kept(void **state)
{
    int (*real)(void *, size_t, unsigned);
    uint64_t allocations = say->calls("cuMemAlloc_v2");
    struct bench b;
    int i;

    (void)state;
    tap_gpu_stage_forget();
    real = tap_driver.host_register;
    tap_driver.host_register = refuse_register;
    for (i = 0; i < 3; i++) {
        bench_open(&b, TAP_MODE_ALL);
        assert_non_null(strstr(tap_front_cuda.start(), "no pinned memory"));
        tap_front_cuda.stop(0);
        bench_read(&b);
        bench_close(&b);
    }
    assert_int_equal(say->calls("cuMemAlloc_v2"), allocations + 1);
    tap_driver.host_register = real;
    arm(&b);
    gpu_pass(1, 1);
    disarm(&b);
    assert_int_equal(say->calls("cuMemAlloc_v2"), allocations + 1);
    assert_int_equal(b.n_ops, LAYERS);
    bench_close(&b);
}

static unsigned long long resets;

static int count_resets(void *context, unsigned long long *id)
{
    *id = (uintptr_t)context + resets;
    return 0;
}

/* cudaDeviceReset: the context has the old handle, and our memory is gone. It is not written any more; the next arm makes new memory. */
static void a_reset_takes_our_memory(void **state)
{
    int (*real)(void *, unsigned long long *) = tap_driver.context_id;
    uint64_t copies, allocations;
    struct bench b;

    (void)state;
    tap_gpu_stage_forget();
    tap_driver.context_id = count_resets;
    arm(&b);
    gpu_pass(1, 1);
    resets++;
    copies = gpu_copies();
    gpu_pass(1, 2);
    tap_front_cuda.tick();
    disarm(&b);
    assert_int_equal(gpu_copies(), copies);
    assert_int_equal(ledger(&b, "ops.seen"), 2 * LAYERS);
    check_balance(&b);
    bench_close(&b);
    allocations = say->calls("cuMemAlloc_v2");
    arm(&b);
    gpu_pass(1, 3);
    disarm(&b);
    assert_int_equal(b.n_ops, LAYERS);
    assert_int_equal(say->calls("cuMemAlloc_v2"), allocations + 1);
    bench_close(&b);
    tap_driver.context_id = real;
    tap_gpu_stage_forget();
}

static int refuse_write(void *stream, uint64_t address, uint32_t value, unsigned flags)
{
    (void)stream, (void)address, (void)value, (void)flags;
    return OUT_OF_MEMORY;
}

/* The stage breaks within the last step: it must be handed over for a launch on another stream, and the driver refuses. No
 * boundary follows before the disarm. The ops of the step are counted as failed. No op is sent in their place: neither one
 * that was sent before, nor, in the first arm of a process, none at all. */
static void a_broken_stage_sends_no_old_op(void **state)
{
    int (*real)(void *, uint64_t, uint32_t, unsigned);
    void *first = gpu_stream, *other;

    (void)state;
    assert_int_equal(cu.stream_create(&other, TD_CUDA_STREAM_NON_BLOCKING), 0);
    for (int steps = 0; steps < 2; steps++) {
        struct bench b;

        tap_gpu_stage_forget();
        arm(&b);
        real = tap_driver.stream_write;
        if (steps)
            gpu_pass(1, 1);
        be_idle();
        gpu_others(20);
        gpu_launch(&layer[0], 0, 1, 1);
        tap_driver.stream_write = refuse_write;
        gpu_stream = other;
        gpu_launch(&layer[1], 0, 1, 1);
        gpu_stream = first;
        disarm(&b);
        tap_driver.stream_write = real;
        assert_true(tap_gpu_stage_is_broken());
        assert_int_equal(b.n_ops, steps * LAYERS);
        assert_int_equal(ledger(&b, "ops.seen"), steps * LAYERS + 2);
        assert_int_equal(ledger(&b, "ops.dropped.failed"), 2);
        check_balance(&b);
        bench_close(&b);
        tap_gpu_stage_forget();
    }
    cu.stream_destroy(other);
}

/* ---- two halves of a product --------------------------------------------------------------------------------------- */

int cublasHgemm(void *handle, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, const uint16_t *a, int lda, const uint16_t *b, int ldb,
                const uint16_t *beta, uint16_t *c, int ldc);

static void make_whole(const struct gpu_layer *w, uint64_t whole)
{
    struct gpu_params p;
    void *at[] = {&p.qweight, &p.perm, &p.qzeros, &p.scales, &p.k, &p.n, &p.groups, &p.v2, &whole};

    gpu_fill_params(&p, w, 0, 1);
    assert_int_equal(cu.launch(gpu_kernel(FAKE_RECONSTRUCT), 1, 1, 1, 128, 1, 1, 0, gpu_stream, at, NULL), 0);
}

static void multiply(uint64_t whole, void *stream, int mode, const uint16_t *alpha, const uint16_t *beta)
{
    struct { void *kernel, *stream; int mode; } handle = {gpu_kernel(FAKE_HGEMM), stream, mode};

    assert_int_equal(cublasHgemm(&handle, 0, 0, layer[0].n, 60, K, alpha, (uint16_t *)whole, layer[0].n, (uint16_t *)dev_a, K, beta, (uint16_t *)dev_c, layer[0].n), 0);
    cu.ctx_synchronize();
}

/* Products with a W that was made whole, which are something else all the same. */
static void other_products_are_not_taken(void **state)
{
    const uint16_t one = 0x3c00, zero = 0;
    uint64_t whole = gpu_memory(K * 32 * 2);
    void *other;
    struct bench b;

    (void)state;
    cu.stream_create(&other, TD_CUDA_STREAM_NON_BLOCKING);
    arm(&b);
    gpu_activations(60, 2);
    make_whole(&layer[0], whole);
    multiply(whole, gpu_stream, 0, &one, &one); /* adds to C */
    make_whole(&layer[0], whole);
    multiply(whole, gpu_stream, 1, (const uint16_t *)8, (const uint16_t *)8); /* nobody may read these here */
    make_whole(&layer[0], whole);
    cu.stream_synchronize(gpu_stream);
    multiply(whole, other, 0, &one, &zero); /* copies would not wait for it */
    make_whole(&layer[0], whole);
    gpu_others(1);                     /* who knows what it wrote there */
    multiply(whole, gpu_stream, 0, &one, &zero);
    make_whole(&layer[0], whole);
    multiply(whole, gpu_stream, 0, &one, &zero);
    disarm(&b);
    assert_int_equal(b.n_ops, 1);
    assert_int_equal(ledger(&b, "ops.seen"), 1);
    bench_close(&b);
    cu.mem_free(whole);
    cu.stream_destroy(other);
}

/* While launches come, the tap's thread does not hold the lane: a launch that finds it held is not taken. */
static void a_busy_lane_is_left_alone(void **state)
{
    uint64_t pushes;
    struct bench b;
    int i;

    (void)state;
    arm(&b);
    gpu_pass(1, 1);
    pushes = say->calls("cuCtxPushCurrent_v2");
    for (i = 0; i < 3; i++) {
        gpu_launch(&layer[0], 0, 1, 1);
        tap_front_cuda.tick();
    }
    assert_int_equal(say->calls("cuCtxPushCurrent_v2"), pushes);
    be_idle();
    assert_true(say->calls("cuCtxPushCurrent_v2") > pushes);
    disarm(&b);
    bench_close(&b);
}

/* ---- a driver that stands still ------------------------------------------------------------------------------------ */

static int (*real_range)(uint64_t *base, size_t *bytes, uint64_t address);
static sem_t arrived, go_on;

static int stand_still(uint64_t *base, size_t *bytes, uint64_t address)
{
    tap_driver.address_range = real_range;
    sem_post(&arrived);
    sem_wait(&go_on);
    return real_range(base, bytes, address);
}

static void *launch_one(void *unused)
{
    (void)unused;
    cu.ctx_set_current(gpu_context);
    gpu_launch(&layer[0], 0, 1, 1);
    return NULL;
}

/* A thread of the server stands in the driver, for a copy of ours, for longer than a disarm waits: nothing is armed meanwhile, all is well after it. */
static void a_launch_outlasts_an_arm(void **state)
{
    const char *why;
    struct bench b;
    pthread_t t;

    (void)state;
    sem_init(&arrived, 0, 0);
    sem_init(&go_on, 0, 0);
    arm(&b);
    gpu_pass(1, 1);
    real_range = tap_driver.address_range;
    tap_driver.address_range = stand_still;
    pthread_create(&t, NULL, launch_one, NULL);
    sem_wait(&arrived);
    tap_front_cuda.stop(50);
    bench_read(&b);
    bench_close(&b);
    bench_open(&b, TAP_MODE_ALL);
    why = tap_front_cuda.start();
    assert_non_null(why);
    assert_non_null(strstr(why, "not over yet"));
    tap_front_cuda.stop(0);
    bench_read(&b);
    bench_close(&b);
    sem_post(&go_on);
    pthread_join(t, NULL);
    cu.stream_synchronize(gpu_stream);
    arm(&b);
    gpu_pass(1, 2);
    disarm(&b);
    assert_int_equal(b.n_ops, LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.threads"), 0);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_stage_sends_no_old_op), /* the first: no op was put together yet */
        cmocka_unit_test(a_slow_stream_is_waited_for),
        cmocka_unit_test(a_handle_is_used_again),
        cmocka_unit_test(half_an_op_is_none),
        cmocka_unit_test(a_small_ring_is_enough), cmocka_unit_test(the_ring_grows_with_the_recorders),
        cmocka_unit_test(weights_are_replaced),
        cmocka_unit_test(each_tensor_is_looked_at),
        cmocka_unit_test(half_a_set_does_not_stay_in_the_way), cmocka_unit_test(one_memory_in_two_forms),
        cmocka_unit_test(unwanted_layers_are_not_copied),
        cmocka_unit_test(what_there_is_is_kept),
        cmocka_unit_test(what_fails_within_an_arm_is_told),
        cmocka_unit_test(a_reset_takes_our_memory),
        cmocka_unit_test(other_products_are_not_taken),
        cmocka_unit_test(a_busy_lane_is_left_alone),
        cmocka_unit_test(a_launch_outlasts_an_arm),
    };

    return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
