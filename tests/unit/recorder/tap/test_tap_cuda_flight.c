/* test_tap_cuda_flight.c - the flight recorder on a fake driver: what it keeps, when, and that nothing of it is lost uncounted.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/json.h"
#include "fake_gpu.h"
#include "tap_bench.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/gpu/flight_ring.h"
#include "recorder/tap/gpu/flight_trigger.h"

enum { TAKEN = 2, HUGE_HALF = 0x7bff };  /* TAKEN: passes of a size that sampling takes (CLASS_STEPS) */

static void arm(struct bench *b, uint64_t flight_bytes)
{
    bench_open(b, TAP_MODE_SAMPLE);
    tap_plan.percent_ppm = 1;          /* of the passes here only the first two of a size */
    tap_plan.flight_bytes = flight_bytes;
    b->l.mode.flight_mib = flight_bytes != 0;
    pthread_mutex_init(&b->l.lock, NULL);
    assert_null(tap_front_cuda.start());
    assert_int_equal(tap_flight_ring_bytes(), flight_bytes);
}

static void disarm(struct bench *b)
{
    tap_front_cuda.stop(20000);
    tap_plan.flight_bytes = 0;
    assert_false(tap_flight_is_on());
    client_flight_facts(&b->l.flight, b->l.mode.flight_mib, b->l.opt.writer);
    bench_read(b);
}

/* The limit of time is for what a sample copies: what only flies is not charged to it, else the sample would starve. */
static void flying_is_not_charged_to_the_sample(void **state)
{
    struct bench b;
    unsigned p;

    (void)state;
    arm(&b, 1 << 20);
    tap_plan.time_ppm = 1;
    atomic_store(&tap_budget.time_used_until_ns, tap_now());
    for (p = 0; p < TAKEN + 20; p++)
        gpu_pass(1, p);
    assert_true(atomic_load(&tap_budget.time_used_until_ns) <= tap_now());
    disarm(&b);
    tap_plan.time_ppm = 0;
    assert_int_equal(b.n_steps, TAKEN);
    assert_true(ledger(&b, "ops.dropped.flight") > 0);
    bench_close(&b);
}

/* As a server that is idle does: the tap's thread looks, the recorder reads. */
static void be_idle(struct bench *b)
{
    int i;

    for (i = 0; i < 15; i++) {
        usleep(20000);
        tap_front_cuda.tick();
        while (client_drain(&b->l, b->lk))
            ;
    }
}

static const char *flight_of(const struct td_op *op)
{
    return td_json_get_str(op->extra, "flight", NULL);
}

static size_t kept_by_flight(const struct bench *b)
{
    size_t i, n = 0;

    for (i = 0; i < b->n_ops; i++)
        n += flight_of(&b->ops[i]) != NULL;
    return n;
}

static void check_says(const char *sentence, const char *op, const char *what)
{
    if (!strstr(sentence, op) || !strstr(sentence, what))
        fail_msg("it says: %s", sentence);
}

/* Finite, and with the signs of a layer's first column: the products add up to more than a half holds. */
static void huge_input(const struct gpu_layer *w, uint16_t a[K])
{
    int i;

    for (i = 0; i < K; i++)
        a[i] = fake_gptq_element((const uint32_t *)w->qweight, 4, w->n, i, 0) < 8 ? HUGE_HALF | 0x8000 : HUGE_HALF;
}

/* A pass in which layer `at` multiplies inputs that are finite, and too large for a half. What comes behind it is NaN, as in a model. */
static void overflow(int m, int at)
{
    uint16_t huge[K];
    int l, i;

    huge_input(&layer[at], huge);
    gpu_others(20);
    gpu_activations(m, 3);
    for (l = 0; l < LAYERS; l++) {
        gpu_others(3);
        for (i = 0; l >= at && i < m * K; i++)
            ((uint16_t *)dev_a)[i] = l == at ? huge[i % K] : 0x7e00;
        gpu_gemm(&layer[l], m);
        cu.stream_synchronize(gpu_stream);
    }
}

/* ---- what keeps it ------------------------------------------------------------------------------------------------- */

/* Weights of the layer that overflowed, its input, and what went before are there; the sentence names it. */
static void the_first_bad_launch_is_there(void **state)
{
    uint16_t huge[K];
    char sentence[1200];
    const struct td_op *bad = NULL;
    struct bench b;
    size_t i, before = 0;

    (void)state;
    huge_input(&layer[1], huge);
    arm(&b, 1 << 20);
    for (i = 0; i < TAKEN + 3; i++)
        gpu_pass(1, (unsigned)i);
    overflow(1, 1);
    be_idle(&b);
    gpu_pass(1, 9);
    disarm(&b);
    assert_int_equal(kept_by_flight(&b), 4 * LAYERS);
    assert_int_equal(b.n_ops, (TAKEN + 4) * LAYERS);
    assert_int_equal(b.n_steps, TAKEN + 4);
    assert_int_equal(ledger(&b, "ops.dropped.flight"), LAYERS);
    assert_int_equal(ledger(&b, "steps.dropped.flight"), 1);
    check_balance(&b);
    for (i = TAKEN * LAYERS; i < b.n_ops; i++)
        assert_true(i == TAKEN * LAYERS || b.ops[i].t_ns >= b.ops[i - 1].t_ns);
    for (i = 0; i < b.n_ops && !bad; i++)
        if (td_json_get_i64(b.ops[i].attrs, "n", 0) == layer[1].n && flight_of(&b.ops[i]) && ++before == 4)
            bad = &b.ops[i];
    assert_non_null(bad);
    assert_string_equal(flight_of(bad), "an output was not finite");
    check_blob(&b, td_op_rec_in(bad, "a"), huge, sizeof huge);
    check_blob(&b, td_op_rec_in(bad, "scales"), (void *)layer[1].scales, (size_t)(K / GROUP * layer[1].n) * 2);
    assert_int_equal(b.steps[b.n_steps - 1].step, bad->step);
    assert_true(td_tap_client_first_bad(&b.l, sentence, sizeof sentence));
    check_says(sentence, "M 1 N 64 K 64: ", " of 64 values of its output are not finite, its inputs all are finite");
    bench_close(&b);
}

/* The same in a pass that is taken anyway: what flew before it is kept. */
static void a_taken_op_may_be_the_bad_one(void **state)
{
    char sentence[1200];
    struct bench b;
    int i;

    (void)state;
    arm(&b, 1 << 20);
    for (i = 0; i < TAKEN + 1; i++)
        gpu_pass(1, (unsigned)i);
    overflow(20, 0);                   /* the first of its size is taken */
    be_idle(&b);
    disarm(&b);
    assert_int_equal(kept_by_flight(&b), LAYERS);
    assert_true(td_tap_client_first_bad(&b.l, sentence, sizeof sentence));
    check_says(sentence, "M 20 N 32 K 64: ", " of 640 values of its output are not finite, its inputs all are finite");
    check_balance(&b);
    bench_close(&b);
}

/* A pass in which one layer's products are too small for a half, its input is not. */
static void pass_that_vanishes(int which)
{
    int i, l;

    gpu_others(20);
    for (l = 0; l < LAYERS; l++) {
        gpu_activations(1, 5);
        for (i = 0; l == which && i < K; i++)
            ((uint16_t *)dev_a)[i] = !i;
        gpu_others(3);
        gpu_gemm(&layer[l], 1);
        cu.stream_synchronize(gpu_stream);
    }
}

/* Zeros out of something are bad, zeros out of zeros are not; then the next bad output is not overlooked. */
static void zeros_are_looked_at(void **state)
{
    char sentence[1200];
    struct bench b;
    int i;

    (void)state;
    arm(&b, 1 << 20);
    for (i = 0; i < TAKEN; i++)
        gpu_pass(1, (unsigned)i);
    gpu_others(20);
    gpu_activations(1, 1);
    memset((void *)dev_a, 0, K * 2);
    gpu_gemm(&layer[0], 1);
    cu.stream_synchronize(gpu_stream);
    be_idle(&b);
    assert_int_equal(kept_by_flight(&b), 0);
    assert_false(td_tap_client_first_bad(&b.l, sentence, sizeof sentence));
    pass_that_vanishes(1);
    be_idle(&b);
    disarm(&b);
    assert_int_equal(ledger(&b, "flight.kept"), 2);
    assert_int_equal(kept_by_flight(&b), 1 + LAYERS);
    assert_true(td_tap_client_first_bad(&b.l, sentence, sizeof sentence));
    assert_non_null(strstr(sentence, "M 1 N 64 K 64: all 64 values of its output are zero"));
    check_balance(&b);
    bench_close(&b);
}

/* ---- the ring ------------------------------------------------------------------------------------------------------ */

static void the_ring_holds_the_newest(void **state)
{
    const int passes = 80;
    struct bench b;
    size_t i, n;

    (void)state;
    arm(&b, 64 << 10);
    for (i = 0; i < (size_t)passes; i++)
        gpu_pass(1, (unsigned)i);
    assert_null(tap_fronts_dump_flight(TAP_DUMP_SIGNAL));
    assert_non_null(tap_fronts_dump_flight(TAP_DUMP_SIGNAL));
    be_idle(&b);
    disarm(&b);
    n = kept_by_flight(&b);
    assert_int_equal(n, (64 << 10) / 768); /* a sample, A and C, 256 bytes each */
    assert_int_equal(ledger(&b, "ops.seen"), passes * LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.flight"), passes * LAYERS - TAKEN * LAYERS - (int)n);
    assert_string_equal(flight_of(&b.ops[b.n_ops - 1]), "SIGUSR1");
    check_blob(&b, td_op_rec_in(&b.ops[b.n_ops - 1], "a"), (void *)dev_a, K * 2);
    check_blob(&b, &b.ops[b.n_ops - 1].out, (void *)dev_c, (size_t)layer[LAYERS - 1].n * 2);
    check_balance(&b);
    bench_close(&b);
}

/* Launches that are one product are one op there too, in order, and leave together. */
static void joined_launches_stay_together(void **state)
{
    uint8_t a[20 * K * 2], c[20 * 96 * 2];
    struct bench b;
    size_t i;

    (void)state;
    arm(&b, 64 << 10);
    for (i = 0; i < 12; i++)
        gpu_pass(20, (unsigned)i);
    memcpy(a, (void *)dev_a, sizeof a);
    memcpy(c, (void *)dev_c, sizeof c);
    assert_null(tap_fronts_dump_flight(TAP_DUMP_COLLAPSE));
    be_idle(&b);
    gpu_pass(20, 40);                  /* the ring is in use again */
    disarm(&b);
    assert_true(kept_by_flight(&b) > LAYERS);
    for (i = 0; i < b.n_ops; i++)
        assert_int_equal(td_json_get_i64(b.ops[i].attrs, "m", 0), 20);
    check_blob(&b, td_op_rec_in(&b.ops[b.n_ops - 1], "a"), a, sizeof a);
    check_blob(&b, &b.ops[b.n_ops - 1].out, c, sizeof c);
    assert_int_equal(ledger(&b, "ops.seen"), 13 * LAYERS);
    check_balance(&b);
    bench_close(&b);
}

/* What is captured runs later and unseen; copies of ours are no part of it. */
static void captures_are_left_alone(void **state)
{
    uint64_t copies;
    void *graph;
    struct bench b;
    int i;

    (void)state;
    arm(&b, 1 << 20);
    for (i = 0; i < TAKEN + 1; i++)
        gpu_pass(1, (unsigned)i);
    copies = gpu_copies();
    assert_int_equal(cu.stream_begin_capture(gpu_stream, 0), 0);
    gpu_gemm(&layer[0], 1);
    assert_int_equal(cu.stream_end_capture(gpu_stream, &graph), 0);
    assert_int_equal(gpu_copies(), copies);
    gpu_pass(1, 7);
    assert_true(gpu_copies() > copies);
    disarm(&b);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 1);
    assert_int_equal(ledger(&b, "ops.dropped.flight"), 2 * LAYERS);
    check_balance(&b);
    cu.graph_destroy(graph);
    bench_close(&b);
}

/* Weights that are no longer where they were are not read; the ops that used them are counted. */
static void weights_that_are_gone_are_not_read(void **state)
{
    struct gpu_layer gone = {.n = 0};
    uint64_t copies;
    struct bench b;
    int i;

    (void)state;
    gpu_fill_layer(&gone, 32, 5);
    arm(&b, 1 << 20);
    for (i = 0; i < TAKEN + 1; i++)
        gpu_pass(1, (unsigned)i);
    gpu_gemm(&gone, 1);
    cu.stream_synchronize(gpu_stream);
    cu.mem_free(gone.qweight);
    copies = gpu_copies();
    assert_null(tap_fronts_dump_flight(TAP_DUMP_SIGNAL));
    be_idle(&b);
    assert_int_equal(gpu_copies(), copies + 3 * LAYERS); /* a sample, A and C each */
    disarm(&b);
    assert_int_equal(kept_by_flight(&b), LAYERS);
    assert_int_equal(ledger(&b, "ops.dropped.weights"), 1);
    check_balance(&b);
    bench_close(&b);
    cu.mem_free(gone.qzeros);
    cu.mem_free(gone.scales);
}

/* No room for its ring: said, asked for once, and GEMMs are sampled as without it. */
static void a_full_gpu_has_no_ring(void **state)
{
    uint64_t allocations;
    struct bench b;
    int i;

    (void)state;
    tap_flight_ring_forget();
    for (i = 1; i <= 5; i++)           /* 1 MiB to 64 KiB */
        say->fault("alloc", i, 2);
    bench_open(&b, TAP_MODE_ALL);
    tap_plan.flight_bytes = 1 << 20;
    assert_non_null(strstr(tap_front_cuda.start(), "no memory left for the flight recorder"));
    allocations = say->calls("cuMemAlloc_v2");
    gpu_pass(1, 1);
    be_idle(&b);
    assert_int_equal(say->calls("cuMemAlloc_v2"), allocations);
    disarm(&b);
    assert_int_equal(b.n_ops, LAYERS);
    check_balance(&b);
    bench_close(&b);
}

/* Not asked for: not a copy more, and nothing of it can be kept. */
static void off_it_costs_nothing(void **state)
{
    uint64_t copies, rows, events;
    struct bench b;
    int i;

    (void)state;
    arm(&b, 0);
    for (i = 0; i < TAKEN; i++)
        gpu_pass(1, (unsigned)i);
    gpu_others(20);
    gpu_pass(1, 3);
    copies = gpu_copies(), rows = say->calls("cuMemcpy2DAsync_v2"), events = say->calls("cuEventRecord");
    for (i = 0; i < 5; i++)
        gpu_pass(1, (unsigned)i);
    assert_int_equal(gpu_copies(), copies);
    assert_int_equal(say->calls("cuMemcpy2DAsync_v2"), rows);
    assert_int_equal(say->calls("cuEventRecord"), events);
    assert_non_null(tap_fronts_dump_flight(TAP_DUMP_SIGNAL));
    disarm(&b);
    assert_int_equal(kept_by_flight(&b), 0);
    assert_int_equal(ledger(&b, "ops.dropped.sampling"), 6 * LAYERS);
    check_balance(&b);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flying_is_not_charged_to_the_sample),
        cmocka_unit_test(the_first_bad_launch_is_there),
        cmocka_unit_test(a_taken_op_may_be_the_bad_one),
        cmocka_unit_test(zeros_are_looked_at),
        cmocka_unit_test(the_ring_holds_the_newest),
        cmocka_unit_test(joined_launches_stay_together),
        cmocka_unit_test(captures_are_left_alone),
        cmocka_unit_test(weights_that_are_gone_are_not_read),
        cmocka_unit_test(off_it_costs_nothing),
        cmocka_unit_test(a_full_gpu_has_no_ring),
    };

    return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
