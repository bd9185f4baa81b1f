/* test_tap_call.c - a call from a front's description, through the ring, into a fixture: both ends
 * in one process.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/json.h"
#include "tap_bench.h"

/* ---- descriptions ---------------------------------------------------------------------------- */

static struct tap_operand vector(const char *role, const void *data, int64_t n)
{
    return (struct tap_operand){.role = role,
                                .dtype = "F32",
                                .ndim = 1,
                                .shape = {n},
                                .strides = {1},
                                .data = data,
                                .bytes = (uint64_t)n * 4};
}

static float a[6] = {1, 2, 3, 4, 5, 6}, w[5] = {7, 8, 9, 10, 11}, c[2] = {12, 13};

static struct tap_call simple(void)
{
    return (struct tap_call){.kind = "thing",
                             .symbol = "do_thing",
                             .layout = "plain",
                             .rounding = "none",
                             .name = "blk.0.thing",
                             .attrs = {{"m", 1}, {"p0", -5}},
                             .n_attrs = 2,
                             .w = {vector("w", w, 5)},
                             .n_w = 1,
                             .in = {vector("a", a, 6)},
                             .n_in = 1,
                             .out = vector("c", c, 2),
                             .rows = 1};
}

static bool record(const struct tap_call *call)
{
    struct tap_open_call t;

    if (!tap_call_begin(&t, call))
        return false;
    tap_call_end(&t, true, 5);
    return true;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_simple(void **state)
{
    struct tap_call call = simple();
    struct bench b;
    int i;

    (void)state;
    bench_open(&b, TAP_MODE_ALL);
    for (i = 0; i < 3; i++)
        assert_true(record(&call));
    bench_read(&b);
    assert_int_equal(b.n_ops, 3);
    assert_int_equal(ledger(&b, "ops.kept"), 3);
    assert_int_equal(ledger(&b, "weights.seen"), 1);
    assert_int_equal(ledger(&b, "weights.unmatched"), 1);
    for (i = 0; i < 3; i++) {
        const struct td_op *op = &b.ops[i];

        assert_string_equal(op->kind, "thing");
        assert_string_equal(op->layer, "blk.0.thing");
        assert_string_equal(op->act_rounding, "none");
        assert_string_equal(op->impl.symbol, "do_thing");
        assert_string_equal(op->impl.layout, "plain");
        assert_int_equal(op->impl.duration_ns, 5);
        assert_int_equal(op->step, -1);
        assert_int_equal(td_json_get_i64(op->attrs, "p0", 0), -5);
        assert_int_equal(op->n_in, 2);
        check_blob(&b, td_op_rec_in(op, "a"), a, sizeof a);
        check_blob(&b, td_op_rec_in(op, "w"), w, sizeof w);
        check_blob(&b, &op->out, c, sizeof c);
    }
    bench_close(&b);
}

/* Callers at distances that share a place in a small table. */
static void test_callers_are_all_remembered(void **state)
{
    static struct tap_symbol s = {.name = "tapedeck_no_such_function"};
    const char *base = (const char *)(uintptr_t)0x10000;
    unsigned i, j, known = 0;

    (void)state;
    for (i = 0; i < TAP_CALLERS + 1; i++)
        assert_null(tap_real_find(&s, base + i * 256));
    for (i = 0; i < TAP_CALLERS; i++)
        for (j = 0; j < TAP_CALLERS; j++)
            known +=
                atomic_load(&s.local[j].caller) == base + i * 256 && atomic_load(&s.local[j].fn);
    assert_int_equal(known, TAP_CALLERS);
}

/* A front may build its strings in one place: sets of weights are told apart by the letters, not by
 * addresses. */
static void test_one_weight_two_kinds(void **state)
{
    struct tap_call call = simple();
    char kind[8] = "thing";
    struct bench b;

    (void)state;
    call.kind = kind;
    bench_open(&b, TAP_MODE_ALL);
    assert_true(record(&call));
    strcpy(kind, "other");
    assert_true(record(&call));
    bench_read(&b);
    assert_int_equal(b.n_ops, 2);
    assert_string_equal(b.ops[1].kind, "other");
    assert_int_equal(ledger(&b, "weights.seen"), 2);
    bench_close(&b);
}

/* Two layers with one bias, told apart by the fingerprints of their weights alone. */
static void test_one_bias_two_weights(void **state)
{
    struct td_weight_fingerprint fingerprint[2] = {{.rows = 3, .cols = 2, .dtype = "F32"},
                                             {.rows = 3, .cols = 2, .dtype = "F32", .word = {[255] = 1}}};
    struct tap_call call = simple();
    struct bench b;

    (void)state;
    call.w[1] = vector("bias", w, 5);
    call.w[0] = vector("w", NULL, 6);
    call.n_w = 2;
    bench_open(&b, TAP_MODE_ALL);
    call.fingerprint = &fingerprint[0];
    assert_true(record(&call));
    call.fingerprint = &fingerprint[1];
    assert_true(record(&call));
    assert_true(record(&call));
    bench_read(&b);
    assert_int_equal(b.n_ops, 3);
    assert_int_equal(ledger(&b, "weights.seen"), 2);
    bench_close(&b);
}

/* More weights than the recorder keeps apart: what comes later is dropped, and the ring read on. */
static void test_ever_new_weights(void **state)
{
    enum { MAX = 16384, MORE = 3 };
    struct td_weight_fingerprint fingerprint = {.rows = 3, .cols = 2, .dtype = "F32"};
    struct tap_call call = simple();
    struct bench b;
    int i;

    (void)state;
    call.w[0] = vector("w", NULL, 6);
    call.fingerprint = &fingerprint;
    bench_open(&b, TAP_MODE_ALL);
    for (i = 0; i <= MAX + MORE; i++) {
        fingerprint.word[0] = (uint32_t)(i < MAX + MORE ? i : 0); /* the last is known */
        assert_true(record(&call));
        if (i % 64 == 0)
            client_drain(&b.l, b.lk);
    }
    bench_read(&b);
    assert_int_equal(b.l.failed.code, 0);
    assert_int_equal(b.n_ops, MAX + 1);
    assert_int_equal(ledger(&b, "ops.dropped.recorder"), MORE);
    bench_close(&b);
}

/* [2, 3, 4] of bytes that lie 7 apart, from row to row and from plane to plane. */
static void test_rows_are_put_densely(void **state)
{
    uint8_t far[64], dense[24];
    struct tap_operand o = {.role = "x",
                            .dtype = "U8",
                            .ndim = 3,
                            .shape = {2, 3, 4},
                            .strides = {12, 4, 1},
                            .data = far,
                            .bytes = 24,
                            .row_bytes = 4,
                            .pitch = 7};
    struct tap_call call = simple();
    struct bench b;
    int i;

    (void)state;
    for (i = 0; i < 64; i++)
        far[i] = (uint8_t)(i * 3);
    for (i = 0; i < 24; i++)
        dense[i] = far[i / 4 * 7 + i % 4];
    call.in[1] = call.w[0] = call.out = o;
    call.w[0].role = "w";
    call.n_in = 2;
    bench_open(&b, TAP_MODE_ALL);
    assert_true(record(&call));
    bench_read(&b);
    assert_int_equal(b.n_ops, 1);
    check_blob(&b, td_op_rec_in(b.ops, "a"), a, sizeof a);
    check_blob(&b, td_op_rec_in(b.ops, "x"), dense, 24);
    check_blob(&b, td_op_rec_in(b.ops, "w"), dense, 24);
    check_blob(&b, &b.ops[0].out, dense, 24);
    assert_int_equal(b.ops[0].out.ndim, 3);
    assert_int_equal(b.ops[0].out.shape[1], 3);
    assert_int_equal(b.ops[0].out.strides[0], 12);
    bench_close(&b);
}

static void test_weights_in_chunks(void **state)
{
    /* three chunks; the second tensor is not aligned in the stream, and a chunk begins in it */
    size_t n = 600000, first = 100003;
    uint8_t *big = malloc(n);
    struct tap_call call = simple();
    struct bench b;
    size_t i;

    (void)state;
    for (i = 0; i < n; i++)
        big[i] = (uint8_t)(i * 2654435761u >> 13);
    call.w[0] = (struct tap_operand){.role = "w0",
                                     .dtype = "U8",
                                     .ndim = 1,
                                     .shape = {(int64_t)first},
                                     .strides = {1},
                                     .data = big,
                                     .bytes = first};
    call.w[1] = (struct tap_operand){.role = "w1",
                                     .dtype = "U8",
                                     .ndim = 1,
                                     .shape = {(int64_t)(n - first)},
                                     .strides = {1},
                                     .data = big + first,
                                     .bytes = n - first};
    call.w[2] = vector("w2", w, 5);
    call.n_w = 3;
    bench_open(&b, TAP_MODE_ALL);
    assert_true(record(&call));
    bench_read(&b);
    check_blob(&b, td_op_rec_in(b.ops, "w0"), big, first);
    check_blob(&b, td_op_rec_in(b.ops, "w1"), big + first, n - first);
    check_blob(&b, td_op_rec_in(b.ops, "w2"), w, sizeof w);
    free(big);
    bench_close(&b);
}

/* The same bytes for another kind of op are another set; so is another content at the same
 * place. */
static void test_sets(void **state)
{
    struct tap_call call = simple();
    struct bench b;

    (void)state;
    bench_open(&b, TAP_MODE_ALL);
    assert_true(record(&call));
    call.kind = "other_thing";
    assert_true(record(&call));
    assert_true(record(&call));
    w[2] += 1;
    assert_true(record(&call));
    bench_read(&b);
    assert_int_equal(b.n_ops, 4);
    assert_int_equal(ledger(&b, "weights.seen"), 3);
    check_blob(&b, td_op_rec_in(&b.ops[3], "w"), w, sizeof w);
    w[2] -= 1;
    check_blob(&b, td_op_rec_in(&b.ops[2], "w"), w, sizeof w);
    bench_close(&b);
}

static void test_opaque(void **state)
{
    static struct td_weight_fingerprint fingerprints[2] = {
        {.rows = 3, .cols = 5, .dtype = "BF16", .word = {1}},
        {.rows = 3, .cols = 5, .dtype = "BF16", .word = {2}}};
    struct tap_call call = simple();
    struct bench b;
    const struct td_tensor_rec *t;
    int i;

    (void)state;
    bench_open(&b, TAP_MODE_ALL);
    call.w[0].data = NULL;
    for (i = 0; i < 2; i++)
        assert_true(record(&call));     /* one set: the same name */
    call.name = "blk.1.thing";
    assert_true(record(&call));
    call.name = NULL;
    for (i = 0; i < 4; i++) {
        call.fingerprint = &fingerprints[i % 2];
        assert_true(record(&call));     /* two: by their fingerprints */
    }
    bench_read(&b);
    assert_int_equal(b.n_ops, 7);
    assert_int_equal(ledger(&b, "weights.seen"), 4);
    assert_int_equal(ledger(&b, "weights.stored"), 0);
    assert_string_equal(b.ops[1].layer, "blk.0.thing");
    assert_string_equal(b.ops[2].layer, "blk.1.thing");
    assert_null(b.ops[3].layer);
    t = td_op_rec_in(&b.ops[6], "w");
    assert_non_null(t);
    assert_false(t->stored);
    assert_true(td_hash_is_zero(t->blob));
    assert_int_equal(t->shape[0], 5);
    check_blob(&b, td_op_rec_in(&b.ops[6], "a"), a, sizeof a);
    bench_close(&b);
}

static void test_partly_opaque_and_none(void **state)
{
    struct tap_call call = simple();
    struct bench b;

    (void)state;
    bench_open(&b, TAP_MODE_ALL);
    call.w[1] = vector("bias", w, 5);
    call.w[0].data = NULL;
    call.n_w = 2;
    call.in[1] = vector("hidden", NULL, 9);
    call.n_in = 2;
    assert_true(record(&call));
    call.n_w = 0;
    assert_true(record(&call));
    bench_read(&b);
    assert_int_equal(b.n_ops, 2);
    assert_false(td_op_rec_in(&b.ops[0], "w")->stored);
    assert_false(td_op_rec_in(&b.ops[0], "hidden")->stored);
    check_blob(&b, td_op_rec_in(&b.ops[0], "bias"), w, sizeof w);
    assert_int_equal(b.ops[1].n_in, 2);
    assert_string_equal(b.ops[1].layer, "blk.0.thing");
    check_blob(&b, td_op_rec_in(&b.ops[1], "a"), a, sizeof a);
    check_blob(&b, &b.ops[1].out, c, sizeof c);
    bench_close(&b);
}

/* A result that the call allocates is known only after it. A call inside a recorded call is not
 * recorded. */
static void test_between_begin_and_end(void **state)
{
    struct tap_call call = simple(), inner = simple();
    struct tap_open_call t;
    struct bench b;

    (void)state;
    bench_open(&b, TAP_MODE_ALL);
    call.out.data = NULL;
    assert_true(tap_call_begin(&t, &call));
    assert_false(tap_ring_slots_are_idle());
    assert_false(record(&inner));
    assert_false(tap_call_is_wanted());
    tap_call_skip(3, 0);
    memset(&call, 0xee, sizeof call); /* borrowed by begin only */
    a[0] += 1;                        /* in place: the input was copied before */
    t.out.data = c;
    tap_call_end(&t, true, -1);
    a[0] -= 1;
    assert_true(tap_ring_slots_are_idle());
    bench_read(&b);
    assert_int_equal(b.n_ops, 1);
    assert_int_equal(ledger(&b, "ops.seen"), 1);
    assert_int_equal(b.ops[0].impl.duration_ns, -1);
    assert_null(b.ops[0].impl.clock);
    check_blob(&b, td_op_rec_in(b.ops, "a"), a, sizeof a);
    check_blob(&b, &b.ops[0].out, c, sizeof c);
    bench_close(&b);
}

static void test_what_makes_no_sense(void **state)
{
    struct tap_call good = simple(), bad[10];
    struct tap_open_call t;
    struct bench b;
    size_t i;

    (void)state;
    bench_open(&b, TAP_MODE_ALL);
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        bad[i] = good;
    bad[0].n_w = TAP_MAX_WEIGHTS + 1;
    bad[1].n_in = TAP_MAX_INPUTS + 1;
    bad[2].n_attrs = TAP_MAX_ATTRS + 1;
    bad[3].n_in = -1;
    bad[4].in[0].ndim = TAP_DIMS + 1;
    bad[5].in[0].row_bytes = 7;       /* 24 bytes are no rows of 7 */
    bad[6].in[0].row_bytes = 4, bad[6].in[0].pitch = UINT64_MAX / 2;
    bad[7].in[0].role = NULL;
    bad[8].w[0].bytes = UINT64_MAX - 8;
    bad[9].kind = NULL;
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(record(&bad[i]));
    assert_false(tap_call_begin(&t, NULL));
    assert_true(tap_call_begin(&t, &good));
    tap_call_end(&t, false, 0);       /* the kernel refused */
    assert_true(tap_call_begin(&t, &good));
    t.out.bytes = 1 << 20;            /* more than was made room for */
    tap_call_end(&t, true, 0);
    assert_true(tap_call_begin(&t, &good));
    t.out.data = NULL;
    tap_call_end(&t, true, 0);
    good.in[0].bytes = 2 * RING;      /* of which nothing is read */
    assert_false(record(&good));
    bench_read(&b);
    assert_int_equal(b.n_ops, 0);
    assert_int_equal(ledger(&b, "ops.dropped.failed"), 14);
    assert_int_equal(ledger(&b, "ops.dropped.ring"), 1);
    bench_close(&b);
}

/* In the child of a fork the ring is not ours. */
static void test_forked_inside(void **state)
{
    struct tap_call call = simple();
    struct tap_open_call t;
    struct bench b;

    (void)state;
    bench_open(&b, TAP_MODE_ALL);
    assert_true(tap_call_begin(&t, &call));
    ours = 0;
    tap_call_end(&t, true, 0);
    ours = 1;
    bench_read(&b);
    assert_int_equal(b.n_ops, 0);
    assert_int_equal(ledger(&b, "ops.seen"), 0);
    bench_close(&b);
}

/* What is longer than a record takes is counted as failed, never cut: half a name is another name. */
static void test_words_over_the_limit(void **state)
{
    char longest[TD_OP_MAX_SYMBOL + 1];
    struct tap_call good = simple(), bad[8];
    struct tap_call_launch launch = {.rows = {0, 1}, .symbol = longest};
    struct bench b;
    size_t i;

    (void)state;
    memset(longest, 's', sizeof longest);
    longest[TD_OP_MAX_SYMBOL] = '\0';
    bench_open(&b, TAP_MODE_ALL);
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        bad[i] = good;
    bad[0].kind = longest + sizeof longest - 1 - TD_OP_MAX_KIND;
    bad[1].symbol = longest;
    bad[2].layout = longest + sizeof longest - 1 - TD_OP_MAX_LAYOUT;
    bad[3].rounding = longest + sizeof longest - 1 - TD_OP_MAX_ROUNDING;
    bad[4].in[0].role = longest + sizeof longest - 1 - TD_OP_MAX_ROLE;
    bad[5].in[0].dtype = longest + sizeof longest - 1 - TD_OP_MAX_DTYPE;
    bad[6].attrs[0].name = longest + sizeof longest - 1 - TD_OP_MAX_ATTR_NAME;
    bad[7].launches = &launch, bad[7].n_launches = 1;
    if (!bad[6].n_attrs)
        bad[6].n_attrs = 1;
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(record(&bad[i]));
    good.out.role = bad[4].in[0].role;
    record(&good);                      /* the output is described at the end of the call */
    good = simple();
    good.symbol = longest + 1;
    assert_true(record(&good));
    assert_true(tap_ring_slots_are_idle());
    bench_read(&b);
    assert_int_equal(b.n_ops, 1);
    assert_string_equal(b.ops[0].impl.symbol, longest + 1);
    assert_int_equal(ledger(&b, "ops.dropped.failed"), 9);
    bench_close(&b);
}

static void test_large_attributes(void **state)
{
    struct tap_call call = simple();
    struct bench b;

    (void)state;
    bench_open(&b, TAP_MODE_ALL);
    call.n_attrs = 3;
    call.attrs[0] = (struct td_attr_view){"most", INT64_MAX};
    call.attrs[1] = (struct td_attr_view){"exact", ((int64_t)1 << 53) + 1};
    call.attrs[2] = (struct td_attr_view){"small", -3};
    assert_true(record(&call));
    bench_read(&b);
    assert_int_equal(td_json_get_i64(b.ops[0].attrs, "most", 0), INT64_MAX);
    assert_int_equal(td_json_get_i64(b.ops[0].attrs, "exact", 0), ((int64_t)1 << 53) + 1);
    assert_int_equal(td_json_get_i64(b.ops[0].attrs, "small", 0), -3);
    bench_close(&b);
}

static void test_names(void **state)
{
    char longest[TAP_NAME], longer[TAP_NAME + 1];
    struct tap_call call = simple();
    struct bench b;

    (void)state;
    memset(longer, 'n', sizeof longer);
    memset(longest, 'n', sizeof longest);
    longer[TAP_NAME] = longest[TAP_NAME - 1] = '\0';
    bench_open(&b, TAP_MODE_ALL);
    call.n_w = 0;
    call.name = longest;
    assert_true(record(&call));
    call.name = longer;               /* half a name is another name */
    assert_true(record(&call));
    call.name = "bell\a";
    assert_true(record(&call));
    bench_read(&b);
    assert_string_equal(b.ops[0].layer, longest);
    assert_null(b.ops[1].layer);
    assert_null(b.ops[2].layer);
    bench_close(&b);
}

/* Steps of which only the rows are known: the first two of each size are recorded, and a window now
 * and then. */
static void test_passes(void **state)
{
    struct tap_call call = simple();
    struct bench b;
    uint64_t step, recorded = 0;
    size_t i;

    (void)state;
    bench_open(&b, TAP_MODE_SAMPLE);  /* 0.1 %: no window in these */
    for (step = 0; step < 60; step++) {
        tap_step_begin_rows(step, step % 3 == 2 ? 100 : 1);
        if (tap_call_is_wanted()) {
            assert_true(record(&call));
            recorded++;
        } else {
            tap_call_skip(2, 7);
        }
    }
    bench_read(&b);
    assert_int_equal(recorded, 4);
    assert_int_equal(b.n_steps, 4);
    assert_int_equal(b.n_ops, 4);
    assert_int_equal(ledger(&b, "steps.dropped.sampling"), 56);
    assert_int_equal(ledger(&b, "ops.dropped.sampling"), 2 * 56);
    for (i = 0; i < 4; i++) {
        static const int want[] = {0, 1, 2, 5};

        assert_int_equal(b.steps[i].step, want[i]);
        assert_int_equal(b.steps[i].how, TD_HOW_UNKNOWN);
        assert_int_equal(b.steps[i].n_spans, 0);
        assert_int_equal(b.ops[i].step, want[i]);
    }
    bench_close(&b);
}

/* A library may have a kernel for each remainder of 8 rows, and one for each 16 up to 64: the first
 * steps of each size are recorded, whatever the share. */
static void test_first_of_each_size(void **state)
{
    static const int64_t rows[] = {1,  2,  3,  4,  5,   6,   7,    8,        16,
                                   24, 32, 48, 64, 100, 200, 5000, INT64_MAX};
    struct tap_sampler p = {.steps = 0};
    struct bench b;
    bool weights;
    size_t i;

    (void)state;
    bench_open(&b, TAP_MODE_SAMPLE);
    tap_plan.percent_ppm = 1;
    for (i = 0; i < 3 * sizeof rows / sizeof *rows; i++)
        assert_int_equal(tap_sampler_decide(&p, rows[i / 3], &weights),
                         i % 3 < 2 ? TAP_RECORD : TAP_SKIP_SAMPLING);
    bench_read(&b);
    bench_close(&b);
}

/* The time of one step is charged before the next is recorded, unless its size was new; and no step
 * silences the sample for good. */
static void test_time_is_paid(void **state)
{
    struct tap_sampler p = {.steps = 0};
    struct bench b;
    bool weights;
    int i;

    (void)state;
    bench_open(&b, TAP_MODE_SAMPLE);
    tap_plan.percent_ppm = 1000000;
    tap_plan.time_ppm = 5000;
    atomic_store(&tap_budget.time_used_until_ns, tap_now());
    for (i = 0; i < 2; i++) {
        assert_int_equal(tap_sampler_decide(&p, 1, &weights), TAP_RECORD);
        tap_sampler_charge_time(&p, 3600000000000LL);
    }
    assert_int_equal(tap_sampler_decide(&p, 1, &weights), TAP_RECORD);
    tap_sampler_charge_time(&p, 3600000000000LL);
    assert_int_equal(tap_sampler_decide(&p, 1, &weights), TAP_SKIP_BUDGET);
    /* a size may not come again */
    assert_int_equal(tap_sampler_decide(&p, 100, &weights), TAP_RECORD);
    assert_true(atomic_load(&tap_budget.time_used_until_ns) - tap_now() <= 10000000000LL);
    tap_plan.time_ppm = 0;
    bench_read(&b);
    bench_close(&b);
}

/* Armed in the middle of a step: its ops are partial. */
static void test_wanted(void **state)
{
    struct tap_call call = simple();
    struct bench b;

    (void)state;
    assert_false(tap_armed());
    assert_false(tap_call_is_wanted());
    tap_step_mark_thread();
    bench_open(&b, TAP_MODE_ALL);
    tap_thread.uses_steps = true;
    assert_false(tap_call_is_wanted());
    tap_call_skip(1, 0);
    assert_false(record(&call));
    tap_step_begin_rows(1, 1);
    assert_true(tap_call_is_wanted());
    assert_false(tap_wants_all_kinds());
    tap_plan.kinds = TAP_KINDS_ALL;
    assert_true(tap_wants_all_kinds());
    tap_plan.kinds = TAP_KINDS_GEMM;
    bench_read(&b);
    assert_int_equal(ledger(&b, "ops.dropped.partial"), 2);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simple),
        cmocka_unit_test(test_callers_are_all_remembered),
        cmocka_unit_test(test_one_weight_two_kinds),
        cmocka_unit_test(test_one_bias_two_weights),
        cmocka_unit_test(test_ever_new_weights),
        cmocka_unit_test(test_first_of_each_size),
        cmocka_unit_test(test_time_is_paid),
        cmocka_unit_test(test_rows_are_put_densely),
        cmocka_unit_test(test_weights_in_chunks),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_opaque),
        cmocka_unit_test(test_partly_opaque_and_none),
        cmocka_unit_test(test_between_begin_and_end),
        cmocka_unit_test(test_what_makes_no_sense),
        cmocka_unit_test(test_forked_inside),
        cmocka_unit_test(test_words_over_the_limit), cmocka_unit_test(test_large_attributes), cmocka_unit_test(test_names),
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
