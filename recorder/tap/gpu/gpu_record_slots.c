/* gpu_record_slots.c - record the products of a graph that has copied their operands to slots of an
 * arena: all of them by one copy of the arena.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "recorder/tap/gpu/gpu_queue.h"
#include "recorder/tap/gpu/gpu_record.h"
#include "recorder/tap/gpu/gpu_record_slots.h"

#define SAMPLE_BYTES 256u             /* of a slot, for the sample: operands begin at multiples */
_Static_assert(TAP_GPU_SAMPLE <= SAMPLE_BYTES, "a slot has room for the sample");

uint64_t tap_gpu_slot_sample(const struct td_gpu_work *w)
{
    return tap_gpu_gemm_slot_offset(w, w->n_op);
}

uint64_t tap_gpu_slot_bytes(const struct td_gpu_work *w)
{
    return tap_gpu_slot_sample(w) + SAMPLE_BYTES;
}

/* ---- the copy -------------------------------------------------------------------------------- */

static void copy(struct tap_gpu_slots *c)
{
    if (c->bytes && tap_driver.copy_on_device(tap_gpu_stage_address(c->at), c->from, c->bytes, c->stream))
        c->failed = true;
    c->bytes = 0;
}

/* Copy this slot too. One copy brings both it and those before, if it lies behind them in the arena
 * and in the ring, where the end may be between them. */
static void add(struct tap_gpu_slots *c, uint64_t from, uint64_t at, uint64_t bytes)
{
    if (c->bytes && (from != c->from + c->bytes || at != c->at + c->bytes))
        copy(c);
    if (!c->bytes)
        c->from = from, c->at = at;
    c->bytes += bytes;
}

/* ---- one product ----------------------------------------------------------------------------- */

/* Places in the queue are large and seldom in the cache, and this is the thread that launches: what the
 * product says stays there, for the sender. */
static void refer(struct tap_gpu_entry *e, const struct tap_gpu_weight_set *set, uint64_t at,
                  const struct tap_gpu_product *p, const struct tap_gpu_slots *c)
{
    memset(e, 0, offsetof(struct tap_gpu_entry, kernel));
    e->kind = TAP_GPU_LAUNCH;
    e->set = *set;
    e->at = at;
    e->t_ns = c->t_ns;
    e->product = p;
    e->launch.graph_launch = c->graph_launch;
    e->end = tap_gpu_stage_end();
}

void tap_gpu_slot_entry(const struct tap_gpu_entry *e, struct tap_gpu_entry *whole)
{
    const struct tap_gpu_product *p = e->product;
    int i;

    memcpy(whole, e, offsetof(struct tap_gpu_entry, kernel));
    whole->kernel = p->kernel;
    whole->work = p->work;
    for (i = 0; i < p->work.n_op; i++)
        whole->op_at[i] = e->at + tap_gpu_gemm_slot_offset(&p->work, i);
    whole->sample_at = e->at + tap_gpu_slot_sample(&p->work);
    whole->launch = p->launch;
    whole->launch.slot = e->at;
    whole->launch.graph_launch = e->launch.graph_launch;
    whole->library_function = p->launch.library_function;
    whole->inner.n = 0;
}

/* Weights that have not gone yet go before the products that use them, and so behind those that wait.
 * They have a budget of their own. */
static enum tap_count send_weights(struct tap_gpu_steps *s, struct tap_gpu_slots *c,
                                   struct tap_gpu_weight_set *set)
{
    int64_t from;
    enum tap_count why;

    if (!set || set->staged == set->total)
        return tap_gpu_record_weights(s, set, c->stream);
    tap_gpu_record_slots_end(s, c);
    from = tap_now();
    why = tap_gpu_record_weights(s, set, c->stream);
    c->weights_ns += tap_now() - from;
    return why;
}

enum tap_count tap_gpu_record_slot(struct tap_gpu_steps *s, struct tap_gpu_slots *c,
                                   struct tap_gpu_product *p, uint64_t slot, uint64_t stream)
{
    struct tap_gpu_weight_set *set = tap_gpu_weight_set_find_again(&p->found, &p->work);
    struct tap_gpu_entry *e;
    enum tap_count why;
    uint64_t at;

    if (!tap_gpu_stage_use_stream(stream))
        return TAP_OPS_FAILED;
    why = send_weights(s, c, set);
    if (why != TAP_OPS_SENT)
        return why;
    e = tap_gpu_queue_place(c->n);
    if (!e || !tap_gpu_record_fits(p->bytes))
        return TAP_OPS_RING;
    at = tap_gpu_stage_reserve(p->slot_bytes);
    if (at == TAP_GPU_FULL)
        return TAP_OPS_RING;
    add(c, slot, at, p->slot_bytes);
    refer(e, set, at, p, c);
    c->n++;
    return TAP_OPS_SENT;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void put(const struct tap_gpu_slots *c)
{
    uint64_t i;

    for (i = 0; i < c->n; i++)
        tap_gpu_queue_put_part(tap_gpu_queue_place(0), tap_gpu_stage_batch());
}

static void count_as_failed(const struct tap_gpu_slots *c)
{
    uint64_t i;

    for (i = 0; i < c->n; i++)
        tap_count(TAP_OPS_FAILED, 1, tap_gpu_queue_place(i)->product->bytes);
}

void tap_gpu_record_slots_end(struct tap_gpu_steps *s, struct tap_gpu_slots *c)
{
    if (!c->n)
        return;
    copy(c);
    if (!c->failed && tap_gpu_stage_mark(c->stream)) {
        put(c);
        s->boundary_due = true;
        if (tap_gpu_stage_waiting() >= TAP_GPU_BATCH_BYTES)
            tap_gpu_stage_hand_over();
    } else {
        count_as_failed(c);
    }
    c->n = 0;
    c->failed = false;
}
