/* test_read_rings.c - what a broken or dying server may leave in a ring: read to the last whole record, never past it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/memory.h"
#include "format/verify.h"
#include "recorder/tap_client/client_ledger.h"
#include "recorder/tap_client/client_pump.h"
#include "recorder/tap_client/missing_ops.h"
#include "recorder/tap_client/read_rings.h"
#include "recorder/tap_client/read_steps.h"
#include "recorder/tap_client/read_weights.h"

enum { RING = 64 << 10, K = 64, N = 32, GROUP = 32 };

struct bench { char root[64]; struct td_tap_client l; struct client_tap *tap; uint8_t *data; uint64_t head; };

static void bench_open(struct bench *b)
{
    struct td_error err = {0};
    char dir[80];

    memset(b, 0, sizeof *b);
    strcpy(b->root, "/tmp/td-pump-XXXXXX");
    assert_non_null(mkdtemp(b->root));
    snprintf(dir, sizeof dir, "%s/fx", b->root);
    assert_int_equal(td_writer_create(dir, &(struct td_writer_options){.tool = "test"}, &b->l.opt.writer, &err), 0);
    strcpy(b->l.nonce, "0123456789abcdef");
    b->tap = &b->l.tap[0];
    b->l.n = 1;
    b->tap->rings = 1;
    b->tap->ring_bytes = RING;
    b->tap->shared = calloc(1, TAP_PAGE);
    b->tap->ring[0].shared = aligned_alloc(64, TAP_PAGE);
    memset(b->tap->ring[0].shared, 0, TAP_PAGE);
    b->data = aligned_alloc(64, RING);
    memset(b->data, 0, RING);
    b->tap->ring[0].data = b->data;
}

static void bench_close(struct bench *b)
{
    client_weights_release(&b->tap->ring[0]);
    free(b->tap->shared);
    free(b->tap->ring[0].shared);
    free(b->data);
    td_writer_abandon(b->l.opt.writer);
    td_fs_remove_tree(b->root, NULL);
}

static void rewind_ring(struct bench *b)
{
    client_weights_release(&b->tap->ring[0]);
    b->tap->ring[0].corrupt = false;
    b->head = b->tap->ring[0].read = 0;
    atomic_store(&b->tap->ring[0].shared->head, 0);
    atomic_store(&b->tap->ring[0].shared->tail, 0);
}

static struct tap_rec rec_of(uint16_t type, size_t size)
{
    return (struct tap_rec){.size = (uint32_t)tap_round_up(size, TAP_REC_ALIGN), .type = type, .tid = 1, .t_ns = 5};
}

static void put(struct bench *b, const void *head, size_t n, size_t size)
{
    memset(b->data + b->head, 0x3c, tap_round_up(size, TAP_REC_ALIGN));
    memcpy(b->data + b->head, head, n);
    b->head += tap_round_up(size, TAP_REC_ALIGN);
    atomic_store(&b->tap->ring[0].shared->head, b->head);
}

/* The head of an op as the tap writes it. */
struct op_head { struct tap_op op; struct td_attr attr[4]; struct tap_tensor t[5]; };

static struct tap_tensor tensor(const char *role, const char *dtype, int64_t rows, int64_t cols, uint64_t elem)
{
    struct tap_tensor t = {.ndim = 2, .shape = {rows, cols}, .strides = {cols, 1}, .bytes = (uint64_t)(rows * cols) * elem, .align = 6};

    snprintf(t.role, sizeof t.role, "%s", role);
    snprintf(t.dtype, sizeof t.dtype, "%s", dtype);
    return t;
}

static struct op_head op_head(void)
{
    struct op_head h = {.op = {.rec = rec_of(TAP_REC_OP, sizeof h + 2 * K + 2 * N), .step = 9, .has_step = 1, .kind = "gptq_gemm", .symbol = "td_gptq_gemm",
                               .layout = "checkpoint", .rounding = "none", .weight = 1, .n_attrs = 4, .n_w = 3, .n_in = 1},
                        .attr = {{"n", N}, {"k", K}, {"bits", 4}, {"group_size", GROUP}},
                        .t = {tensor("qweight", "I32", K / 8, N, 4), tensor("qzeros", "I32", K / GROUP, N / 8, 4), tensor("scales", "F16", K / GROUP, N, 2),
                              tensor("a", "F16", 1, K, 2), tensor("c", "F16", 1, N, 2)}};

    return h;
}

/* A step of one row, its weights in two pieces, one op. Returns where each of the four records begins. */
static void put_all(struct bench *b, uint64_t at[4])
{
    static const char id[] = "cmpl-td-0123456789abcdef-42";
    struct tap_span span = {.request = 1, .n_rows = 1, .position = 3, .decode = 1, .id_len = sizeof id - 1};
    size_t bytes[] = {K / 8 * N * 4, K / GROUP * N / 8 * 4, K / GROUP * N * 2}, total = bytes[0] + bytes[1] + bytes[2];
    size_t size = sizeof(struct tap_step) + sizeof span + sizeof id - 1;
    struct tap_step step = {.rec = rec_of(TAP_REC_STEP, size), .step = 9, .n_spans = 1, .ids_bytes = sizeof id - 1};
    struct tap_weight w = {.rec = rec_of(TAP_REC_WEIGHT, sizeof w + 512), .id = 1, .len = 512, .bytes = {bytes[0], bytes[1], bytes[2]}};
    struct op_head op = op_head();

    at[0] = b->head;
    put(b, &step, sizeof step, size);
    memcpy(b->data + at[0] + sizeof step, &span, sizeof span);
    memcpy(b->data + at[0] + sizeof step + sizeof span, id, sizeof id - 1);
    at[1] = b->head;
    put(b, &w, sizeof w, sizeof w + 512);
    at[2] = b->head;
    w.offset = 512;
    w.len = (uint32_t)(total - 512);
    w.rec = rec_of(TAP_REC_WEIGHT, sizeof w + w.len);
    put(b, &w, sizeof w, sizeof w + w.len);
    at[3] = b->head;
    put(b, &op, sizeof op, op.op.rec.size);
}

static void test_fill_ids(void **state)
{
    struct bench b;
    uint64_t at[4];

    (void)state;
    bench_open(&b);
    put_all(&b, at);
    assert_int_equal(client_drain(&b.l, b.tap), 4);
    assert_false(b.tap->ring[0].corrupt);
    assert_int_equal(b.l.state.ops_kept, 1);
    assert_int_equal(b.l.state.steps_kept, 1);
    assert_int_equal(atomic_load(&b.tap->ring[0].shared->tail), b.head);
    bench_close(&b);
}

static void expect_corrupt(struct bench *b, int64_t ops)
{
    while (client_drain(&b->l, b->tap))
        ;
    assert_true(b->tap->ring[0].corrupt);
    assert_int_equal(b->l.state.ops_kept, ops);
    rewind_ring(b);
}

/* Put a whole recording, let `op` differ from what a tap writes, and expect that the ring is given up there. */
#define FAULT(b, change) \
    do { \
        uint64_t at_[4]; \
        struct op_head *op; \
        struct tap_step *step; \
        struct tap_weight *piece; \
        put_all(b, at_); \
        op = (struct op_head *)((b)->data + at_[3]); \
        step = (struct tap_step *)((b)->data + at_[0]); \
        piece = (struct tap_weight *)((b)->data + at_[2]); \
        (void)op, (void)step, (void)piece; \
        change; \
        expect_corrupt(b, 0); \
    } while (0)

static void test_named_faults(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    FAULT(&b, atomic_store(&b.tap->ring[0].shared->head, (uint64_t)2 * RING)); /* a head beyond the ring */
    FAULT(&b, op->op.rec.size += 4096);          /* an op that is longer than what came */
    FAULT(&b, op->op.rec.size -= 16);            /* shorter than its tensors */
    FAULT(&b, op->op.weight = 7);                /* a set that never came */
    FAULT(&b, piece->offset = 0);                /* a piece out of turn */
    FAULT(&b, step->n_spans = 60000);            /* ids that are not there */
    FAULT(&b, ((struct tap_span *)(step + 1))->first_row = -2); /* rows that no reader of the fixture takes */
    FAULT(&b, ((struct tap_span *)(step + 1))->n_rows = -1);
    FAULT(&b, op->attr[0].value = 2 * N);        /* weights of another layer */
    FAULT(&b, op->t[0].shape[0] *= 2);           /* the same, in the description */
    FAULT(&b, op->t[0].bytes -= 4);              /* a weight of another size than was sent */
    FAULT(&b, op->t[1].opaque = 1; op->t[1].bytes = 0); /* sent and opaque */
    FAULT(&b, strcpy(op->op.kind, "thing"); op->t[2].bytes += 64); /* more than was sent, of a kind that nobody knows */
    FAULT(&b, strcpy(op->op.kind, "thing"); op->op.weight = 0); /* readable, and never sent */
    FAULT(&b, op->op.dump_reason = TAP_DUMP_REASONS);      /* kept for no reason that there is */
    bench_close(&b);
}

static void test_faults_of_an_op(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    FAULT(&b, op->op.n_attrs = 60000);
    FAULT(&b, op->op.n_w = TAP_MAX_WEIGHTS + 1);
    FAULT(&b, op->op.n_in = 0);                  /* then a's bytes are nobody's */
    FAULT(&b, op->op.n_in = TAP_MAX_INPUTS + 1);
    FAULT(&b, op->op.has_fingerprint = 1);             /* and there is none */
    FAULT(&b, memset(op->op.kind, 'x', sizeof op->op.kind)); /* no end */
    FAULT(&b, memset(op->op.name, 'x', sizeof op->op.name));
    FAULT(&b, op->op.symbol[3] = '\033');
    FAULT(&b, op->attr[1].name[0] = '\0');
    FAULT(&b, op->t[3].role[0] = '\n');
    FAULT(&b, op->t[3].ndim = TAP_DIMS + 1);
    FAULT(&b, op->t[3].ndim = -1);
    FAULT(&b, op->t[3].shape[0] = 1 << 30);      /* rows that do not fit the record */
    FAULT(&b, op->t[3].shape[0] = -1);
    FAULT(&b, op->t[3].strides[1] = 2);          /* elements beyond the bytes */
    FAULT(&b, op->t[3].strides[1] = -1);
    FAULT(&b, op->t[3].shape[0] = INT64_MAX; op->t[3].strides[0] = INT64_MAX); /* products that wrap */
    FAULT(&b, op->t[3].bytes = UINT64_MAX);
    FAULT(&b, op->t[3].bytes = UINT64_MAX - 15); /* what rounding up makes zero */
    FAULT(&b, op->t[3].bytes = UINT64_MAX - 15; op->t[4].bytes += 2 * K + 16); /* a sum that wraps to the right size */
    FAULT(&b, op->t[3].strides[0] = -1);         /* of one row: never used */
    FAULT(&b, op->t[3].opaque = 1);              /* and has bytes */
    FAULT(&b, op->t[4].opaque = 1; op->t[4].bytes = 0); /* no output */
    FAULT(&b, op->t[3].bytes -= 32);             /* bytes that nothing describes */
    bench_close(&b);
}

/* A description that changes between two ops of one set. */
static void test_set_described_twice(void **state)
{
    struct bench b;
    struct op_head op = op_head();
    uint64_t at[4];

    (void)state;
    bench_open(&b);
    put_all(&b, at);
    put(&b, &op, sizeof op, op.op.rec.size);
    assert_int_equal(client_drain(&b.l, b.tap), 5);
    strcpy(op.op.kind, "gemm");
    put(&b, &op, sizeof op, op.op.rec.size);
    expect_corrupt(&b, 2);
    bench_close(&b);
}

/* What a flight recorder kept is announced by a reason; one that nobody knows is no tap's. */
static void test_kept(void **state)
{
    struct tap_dump k = {.rec = rec_of(TAP_REC_DUMP, sizeof k), .why = TAP_DUMP_SIGNAL, .ring_bytes = 1 << 20};
    struct bench b;

    (void)state;
    bench_open(&b);
    put(&b, &k, sizeof k, sizeof k);
    assert_int_equal(client_drain(&b.l, b.tap), 1);
    assert_int_equal(cJSON_GetArraySize(b.l.flight.dumps), 1);
    client_flight_facts(&b.l.flight, b.l.mode.flight_mib, b.l.opt.writer); /* nobody asked for it: no fact, and nothing is left */
    k.why = TAP_DUMP_REASONS;
    put(&b, &k, sizeof k, sizeof k);
    expect_corrupt(&b, 0);
    k.why = TAP_DUMP_NONE;
    put(&b, &k, sizeof k, sizeof k);
    expect_corrupt(&b, 0);
    bench_close(&b);
}

/* As many tensors as would fit, had all of them another use. */
static void test_too_many_inputs(void **state)
{
    struct { struct tap_op op; struct tap_tensor t[TAP_MAX_WEIGHTS + TAP_MAX_INPUTS + 1]; } rec;
    struct op_head h = op_head();
    struct bench b;
    int i;

    (void)state;
    bench_open(&b);
    rec.op = h.op;
    rec.op.weight = rec.op.n_attrs = rec.op.n_w = 0;
    rec.op.n_in = TAP_MAX_WEIGHTS + TAP_MAX_INPUTS;
    rec.op.rec.size = (uint32_t)tap_round_up(sizeof rec, TAP_REC_ALIGN);
    for (i = 0; i <= rec.op.n_in; i++)
        rec.t[i] = tensor("a", "F16", 0, 0, 2);
    put(&b, &rec, sizeof rec, sizeof rec);
    expect_corrupt(&b, 0);
    rec.op.n_in = TAP_MAX_INPUTS;     /* what is allowed */
    rec.op.rec.size -= TAP_MAX_WEIGHTS * sizeof *rec.t;
    put(&b, &rec, rec.op.rec.size, rec.op.rec.size);
    assert_int_equal(client_drain(&b.l, b.tap), 1);
    assert_int_equal(b.l.state.ops_kept, 1);
    bench_close(&b);
}

/* A server that makes up a new name for each call must not fill the recorder's memory. */
static void test_endless_names(void **state)
{
    struct { struct tap_op op; struct tap_tensor t[2]; } rec;
    struct op_head h = op_head();
    struct bench b;
    int i;

    (void)state;
    bench_open(&b);
    memset(&rec, 0, sizeof rec);
    rec.op = h.op;
    rec.op.weight = rec.op.n_attrs = rec.op.n_in = 0;
    rec.op.n_w = 1;
    rec.op.rec.size = (uint32_t)tap_round_up(sizeof rec, TAP_REC_ALIGN);
    strcpy(rec.op.kind, "thing");
    rec.t[0] = tensor("w", "Q4_1", 0, 0, 1);
    rec.t[0].opaque = 1;
    rec.t[1] = tensor("c", "F16", 0, 0, 2);
    for (i = 0; i < 20000 && !b.tap->ring[0].corrupt; i++) {
        snprintf(rec.op.name, sizeof rec.op.name, "blk.%d", i);
        b.head = b.tap->ring[0].read = 0;
        atomic_store(&b.tap->ring[0].shared->head, 0);
        atomic_store(&b.tap->ring[0].shared->tail, 0);
        put(&b, &rec, sizeof rec, sizeof rec);
        client_drain(&b.l, b.tap);
    }
    assert_int_equal(i, 20000);        /* read on: some models have so many weights */
    assert_int_equal(b.l.state.ops_kept, 16384);
    assert_int_equal(b.l.state.ops_dropped, 20000 - 16384);
    assert_int_equal(b.l.state.ops_crowded, 20000 - 16384);
    bench_close(&b);
}

static void test_unknown_rows(void **state)
{
    struct bench b;
    struct tap_step step = {.rec = rec_of(TAP_REC_STEP, sizeof step), .step = 4};
    struct td_step *steps;
    struct td_fixture *fx;
    struct td_error err = {0};
    char dir[80];
    size_t n, bad;

    (void)state;
    bench_open(&b);
    put(&b, &step, sizeof step, sizeof step);
    assert_int_equal(client_drain(&b.l, b.tap), 1);
    client_write_held(&b.l);
    assert_int_equal(td_writer_close(b.l.opt.writer, "complete", &err), 0);
    b.l.opt.writer = NULL;
    snprintf(dir, sizeof dir, "%s/fx", b.root);
    assert_int_equal(td_fixture_open(dir, &fx, &err), 0);
    assert_int_equal(td_fixture_steps(fx, &steps, &n, &bad, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(steps[0].step, 4);
    assert_int_equal(steps[0].how, TD_HOW_UNKNOWN);
    assert_int_equal(steps[0].n_spans, 0);
    td_steps_free(steps, n);
    td_fixture_close(fx);
    bench_close(&b);
}

#ifdef __SANITIZE_ADDRESS__ /* whose allocator gives every large block back to the kernel: minutes for what takes seconds */
#define ANY_BYTE_RUNS 2000
#else
#define ANY_BYTE_RUNS 20000
#endif

static void test_any_byte(void **state)
{
    struct bench b;
    uint64_t at[4], x = 88172645463325252u;
    int i, j;

    (void)state;
    bench_open(&b);
    for (i = 0; i < ANY_BYTE_RUNS; i++) {
        put_all(&b, at);
        for (j = 0; j < 1 + i % 4; j++) {
            uint64_t where;

            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            where = at[x % 4] + (x >> 8) % (x % 4 == 3 ? sizeof(struct op_head) : 96);
            if (where < b.head)
                b.data[where] = (uint8_t)(x >> 32);
        }
        while (client_drain(&b.l, b.tap))
            ;
        assert_true(atomic_load(&b.tap->ring[0].shared->tail) <= b.head);
        rewind_ring(&b);
        td_error_clear(&b.l.failed);
    }
    bench_close(&b);
}

/* Sizes that a reader of the fixture would refuse are refused here. */
static void test_sizes_beyond(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    FAULT(&b, op->t[0].opaque = 1; op->t[0].bytes = 0; op->t[0].shape[0] = op->t[0].shape[1] = INT64_C(1) << 32); /* 2^64 */
    FAULT(&b, op->t[3].shape[0] = 0; op->t[3].shape[1] = INT64_C(1) << 62; op->t[3].strides[0] = 4; op->t[3].ndim = 3; op->t[3].shape[2] = 4);
    bench_close(&b);
}

/* A tap may write anything into its counters. */
static void test_endless_counts(void **state)
{
    struct tap_counter *c;
    struct td_error err = {0};
    struct td_fixture *fx;
    struct bench b;
    char dir[80];
    int i, k;

    (void)state;
    bench_open(&b);
    for (i = 0; i < 3; i++) {
        for (k = 0; k < TAP_COUNTS; k++) {
            c = &b.tap->shared->counts[k];
            atomic_store(&c->n, (uint64_t)INT64_MAX * (unsigned)(i & 1 ? 2 : 1));
            atomic_store(&c->bytes, (uint64_t)INT64_MAX - 1);
            b.tap->seen[k].n = b.tap->seen[k].bytes = 0;
        }
        client_ledger_update(&b.l, b.tap);
        client_ledger_update(&b.l, b.tap);
    }
    assert_true(b.l.state.ops_dropped > 0);
    snprintf(dir, sizeof dir, "%s/fx", b.root);
    assert_int_equal(td_writer_close(b.l.opt.writer, "complete", &err), TD_OK);
    assert_int_equal(td_fixture_open(dir, &fx, &err), TD_OK);
    assert_true(td_fixture_ledger(fx, "ops.seen") == INT64_MAX);
    td_fixture_close(fx);
    b.l.opt.writer = NULL;
    bench_close(&b);
}

/* ---- what is missing at the end ------------------------------------------------------------- */

static void test_ops_that_did_not_come(void **state)
{
    static const struct { uint64_t sent; int64_t lost; } claims[] = {{0, 0}, {1, 0}, {2, 1}, {100001, 100000}, {UINT64_MAX, (int64_t)1 << 40}};
    struct bench b;
    uint64_t at[4];
    size_t i;

    (void)state;
    bench_open(&b);
    put_all(&b, at);
    client_drain(&b.l, b.tap);
    assert_int_equal(b.l.state.ops_kept, 1);
    for (i = 0; i < sizeof claims / sizeof *claims; i++) {
        atomic_store(&b.tap->ring[0].shared->counts[TAP_OPS_SENT].n, claims[i].sent);
        b.l.state.ops_lost = b.l.state.ops_dropped = 0;
        client_note_missing_ops(&b.l);
        assert_true(b.l.state.ops_lost == claims[i].lost && b.l.state.ops_dropped == claims[i].lost);
    }
    b.l.state.ops_lost = 0;
    b.tap->ring[0].corrupt = true;     /* nobody knows what came, and that is said already */
    client_note_missing_ops(&b.l);
    assert_int_equal(b.l.state.ops_lost, 0);
    bench_close(&b);
}

/* Of two processes one said why it sees nothing, and sent nothing. What the other one said as well explains nothing. */
static void test_processes_that_sent_nothing(void **state)
{
    struct bench b;
    uint64_t at[4];

    (void)state;
    bench_open(&b);
    put_all(&b, at);
    client_drain(&b.l, b.tap);
    b.l.n = 2;
    client_note_missing_ops(&b.l);
    strcpy(b.l.tap[1].remark, "no memory for it");
    client_note_missing_ops(&b.l);     /* a sample */
    assert_int_equal(b.l.state.links_lost, 0);
    b.l.opt.every_step = true;
    client_note_missing_ops(&b.l);
    assert_int_equal(b.l.state.links_lost, 1);
    strcpy(b.tap->remark, b.l.tap[1].remark);
    client_note_missing_ops(&b.l);
    assert_int_equal(b.l.state.links_lost, 1);
    b.l.n = 1;
    bench_close(&b);
}

/* ---- a tap that goes on sending ------------------------------------------------------------ */

static atomic_bool sending;

/* Say again and again that the ring is half full of records. */
static void *send_for_ever(void *arg)
{
    struct tap_ring *r = arg;

    while (atomic_load(&sending))
        atomic_store(&r->head, atomic_load(&r->tail) + RING / 2);
    return NULL;
}

static bool is_entry(const void *list, uint32_t entry, const void *key)
{
    (void)list;
    return entry == *(const uint32_t *)key;
}

static void test_endless_records(void **state)
{
    const struct tap_step step = {.rec = {.size = 64, .type = TAP_REC_STEP, .tid = 1, .t_ns = 5}, .step = 9};
    pthread_t thread;
    struct bench b;
    size_t at;

    (void)state;
    bench_open(&b);
    for (at = 0; at < RING; at += 64)
        memcpy(b.data + at, &step, sizeof step);
    atomic_store(&sending, true);
    assert_int_equal(pthread_create(&thread, NULL, send_for_ever, b.tap->ring[0].shared), 0);
    for (at = 0; at < 10000 && !b.tap->ring[0].corrupt; at++) { /* the thread may not run all the time */
        client_drain_all(&b.l, b.tap); /* comes to its end */
        usleep(1000);
    }
    atomic_store(&sending, false);
    pthread_join(thread, NULL);
    assert_true(b.tap->ring[0].corrupt);
    assert_int_equal(b.l.state.rings_broken, 1);
    client_write_held(&b.l);           /* as the client's end does: it takes the steps that were held */
    bench_close(&b);
}

/* A tap that moves the recorder's mark: ops would be left out, or taken twice, and the recording be called complete. */
static void test_tail_moved(void **state)
{
    struct bench b;
    uint64_t at[4];

    (void)state;
    bench_open(&b);
    put_all(&b, at);
    atomic_store(&b.tap->ring[0].shared->tail, b.head);
    expect_corrupt(&b, 0);
    put_all(&b, at);
    assert_int_equal(client_drain(&b.l, b.tap), 4);
    atomic_store(&b.tap->ring[0].shared->tail, at[3]);
    expect_corrupt(&b, 1);
    assert_int_equal(b.l.state.rings_broken, 2);
    bench_close(&b);
}

/* Sets that are announced take memory when their bytes come: what all of them will take must fit the maximum. */
static void test_announced_sets(void **state)
{
    const uint64_t each = 64 << 20;
    struct tap_weight w = {.rec = rec_of(TAP_REC_WEIGHT, sizeof w), .bytes = {each}};
    struct bench b;

    (void)state;
    bench_open(&b);
    td_memory_allow(4 * each);
    while (++w.id <= 100 && !b.tap->ring[0].corrupt) {
        put(&b, &w, sizeof w, sizeof w);
        client_drain(&b.l, b.tap);
    }
    assert_true(w.id > 2 && w.id <= 6);
    assert_int_equal(b.l.failed.code, TD_ENOMEM);
    bench_close(&b);
    td_memory_allow((uint64_t)1 << 40);
    assert_true(td_memory_left() > ((uint64_t)1 << 40) - each); /* nothing stays booked */
}

/* What is left when the time for it has passed, or a moment after a signal, is given up and said so. */
static void rest_given_up(bool by_signal)
{
    const struct tap_step step = {.rec = {.size = 64, .type = TAP_REC_STEP, .tid = 1, .t_ns = 5}, .step = 9};
    volatile sig_atomic_t stop = 2;
    struct bench b;
    size_t at;

    bench_open(&b);
    for (at = 0; at < RING; at += 64)
        memcpy(b.data + at, &step, sizeof step);
    atomic_store(&b.tap->ring[0].shared->head, RING);
    b.l.opt.rest_ms = by_signal ? 3600000 : 1;
    b.l.opt.stop = by_signal ? &stop : NULL;
    b.l.rest_ns = by_signal ? 0 : 10000000; /* spent on another process */
    client_drain_all(&b.l, b.tap);
    assert_int_equal(b.tap->ring[0].corrupt, !by_signal); /* after a signal this little is still read */
    assert_int_equal(b.l.state.rings_broken, !by_signal);
    if (by_signal)
        assert_true(b.l.rest_stopped && b.l.rest_most_ns < 60000000000);
    else
        assert_true(b.tap->ring[0].read < RING);
    client_write_held(&b.l);
    bench_close(&b);
}

static void test_rest_given_up(void **state)
{
    (void)state;
    rest_given_up(false);
    rest_given_up(true);
}

/* Names with one long beginning, more of them than are kept: each is found by its hash. */
static void test_found_by_hash(void **state)
{
    struct client_index x = {0};
    const uint32_t n = 5000;
    uint32_t i;

    (void)state;
    assert_int_equal(client_index_find(&x, 1, NULL, NULL, NULL), CLIENT_INDEX_NONE);
    for (i = 0; i < n; i++)
        assert_true(client_index_add(&x, i / 2 * 0x10001, i)); /* two entries to a hash */
    for (i = 0; i < n; i++)
        assert_int_equal(client_index_find(&x, i / 2 * 0x10001, is_entry, NULL, &i), i);
    assert_int_equal(client_index_find(&x, n * 0x10001, is_entry, NULL, &i), CLIENT_INDEX_NONE);
    client_index_release(&x);
}

/* ---- a tap that goes on writing what it has sent ------------------------------------------- */

struct scribbler { uint8_t *data; size_t n; _Atomic bool stop; _Atomic uint64_t turns; };

/* The race is the test: no sanitizer of threads looks at this side of it. */
__attribute__((no_sanitize("thread"))) static void *scribble(void *arg)
{
    struct scribbler *s = arg;
    uint64_t x = 88172645463325252u;

    while (!atomic_load_explicit(&s->stop, memory_order_relaxed)) {
        int i;

        for (i = 0; i < 4096; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            ((volatile uint8_t *)s->data)[(x >> 16) % s->n] = (uint8_t)x;
        }
        atomic_fetch_add_explicit(&s->turns, 1, memory_order_relaxed);
    }
    return NULL;
}

static void count_problem(void *ctx, int code, const char *file, const char *sentence)
{
    (void)ctx;
    print_message("%s: %d: %s\n", file, code, sentence);
}

/* Ops of 24 KiB each, in a ring whose bytes `from` and beyond change while they are read. What was recorded
 * is a fixture without a fault, whatever was in it. */
static void scribble_over(size_t from, int rounds, bool expect_ops)
{
    enum { A = 24 << 10 };
    struct { struct tap_op op; struct tap_tensor t[2]; } rec;
    struct op_head h = op_head();
    struct scribbler s = {.n = RING - from};
    struct td_verify_sums sums;
    struct td_error err = {0};
    struct bench b;
    pthread_t thread;
    char dir[80];
    int i;

    bench_open(&b);
    memset(&rec, 0, sizeof rec);
    rec.op = h.op;
    rec.op.weight = rec.op.n_attrs = rec.op.n_w = 0;
    rec.op.n_in = 1;
    strcpy(rec.op.kind, "thing");
    rec.t[0] = tensor("a", "U8", 1, A, 1);
    rec.t[1] = tensor("c", "F16", 0, 0, 2);
    rec.op.rec.size = (uint32_t)tap_round_up(sizeof rec + A, TAP_REC_ALIGN);
    s.data = b.data + from;
    assert_int_equal(pthread_create(&thread, NULL, scribble, &s), 0);
    for (i = 0; i < rounds; i++) {
        uint64_t turns = atomic_load(&s.turns);

        while (atomic_load(&s.turns) == turns) /* it runs now, and for some time to come */
            sched_yield();
        rewind_ring(&b);
        put(&b, &rec, sizeof rec, sizeof rec + A);
        client_drain(&b.l, b.tap);
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    if (expect_ops)
        assert_int_equal(b.l.state.ops_kept, rounds);
    snprintf(dir, sizeof dir, "%s/fx", b.root);
    assert_int_equal(td_writer_close(b.l.opt.writer, "complete", &err), TD_OK);
    b.l.opt.writer = NULL;
    assert_int_equal(td_fixture_verify(dir, count_problem, NULL, &sums, &err), TD_OK);
    assert_int_equal(sums.problems, 0);
    bench_close(&b);
}

static void test_scribbled_data(void **state)
{
    (void)state;
    scribble_over(sizeof(struct tap_op) + 2 * sizeof(struct tap_tensor), 500, true);
}

static void test_scribbled_records(void **state)
{
    (void)state;
    scribble_over(0, 1000, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill_ids),
        cmocka_unit_test(test_named_faults),
        cmocka_unit_test(test_faults_of_an_op),
        cmocka_unit_test(test_set_described_twice),
        cmocka_unit_test(test_kept), cmocka_unit_test(test_too_many_inputs),
        cmocka_unit_test(test_endless_names),
        cmocka_unit_test(test_unknown_rows),
        cmocka_unit_test(test_any_byte),
        cmocka_unit_test(test_sizes_beyond), cmocka_unit_test(test_endless_counts), cmocka_unit_test(test_endless_records),
        cmocka_unit_test(test_ops_that_did_not_come), cmocka_unit_test(test_processes_that_sent_nothing),
        cmocka_unit_test(test_tail_moved), cmocka_unit_test(test_announced_sets),
        cmocka_unit_test(test_rest_given_up), cmocka_unit_test(test_found_by_hash),
        cmocka_unit_test(test_scribbled_data), cmocka_unit_test(test_scribbled_records)};

    setenv("TD_LOG", "0", 1);         /* thousands of warnings are meant */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
