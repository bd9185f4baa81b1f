/* gpu_steps.c - the steps of the server: which are recorded, what that costs, and how long nothing
 * need be watched.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "recorder/tap/gpu/flight_ring.h"
#include "recorder/tap/gpu/flight_trigger.h"
#include "recorder/tap/gpu/gpu_queue.h"
#include "recorder/tap/gpu/gpu_steps.h"

#define REST_NS 250000000LL           /* a rest, at most: requests of sizes that are new may come */

/* ---- entries --------------------------------------------------------------------------------- */

bool tap_gpu_steps_put_boundary(struct tap_gpu_steps *s)
{
    struct tap_gpu_entry *e = tap_gpu_queue_place(0);

    tap_gpu_stage_hand_over();
    if (!e)
        return false;
    memset(e, 0, sizeof *e);
    e->kind = TAP_GPU_BOUNDARY;
    tap_gpu_queue_put(e, tap_gpu_stage_batch() - 1); /* it needs nothing of the batch to come */
    s->boundary_due = false;
    return true;
}

static void put_step(struct tap_gpu_steps *s)
{
    struct tap_gpu_entry *e = tap_gpu_queue_place(0);

    if (!e) {
        s->doing = TAP_SKIP_RING;
        tap_count_skipped(TAP_SKIP_RING, true, 1, 0);
        return;
    }
    memset(e, 0, sizeof *e);
    e->kind = TAP_GPU_STEP;
    e->step = s->number;
    tap_gpu_queue_put(e, tap_gpu_stage_batch() - 1);
}

/* ---- a step begins --------------------------------------------------------------------------- */

/* Estimate how long a step is. The estimate grows by a quarter at most: a long step may be a server
 * that was idle. And steps went by unseen in a rest only if the next one came soon after it. */
static void note_step_time(struct tap_gpu_steps *s, int64_t now)
{
    int64_t took = now - s->began_ns, longest = s->step_ns + s->step_ns / 4 + 1000;

    if (s->began_ns)
        s->step_ns = s->step_ns && took > longest ? longest : took;
    s->began_ns = now;
    if (s->unseen && now - s->woken_ns < 3 * s->step_ns)
        tap_sampler_skip_steps(&s->sampler, s->unseen);
    s->unseen = 0;
}

static enum tap_decision decide(struct tap_gpu_steps *s, int64_t rows, bool can_copy)
{
    if (tap_flight_is_dumping())
        return TAP_SKIP_FLIGHT;
    return can_copy ? tap_sampler_decide(&s->sampler, rows, &s->may_send_weights) : TAP_SKIP_GRAPH;
}

static void begin_step(struct tap_gpu_steps *s, int64_t rows, bool can_copy)
{
    int64_t now = tap_now();
    bool record;

    if (s->doing == TAP_RECORD) {
        tap_gpu_steps_put_boundary(s);
        s->used_ns += tap_now() - now;
    }
    tap_sampler_charge_time(&s->sampler, s->used_ns);
    s->used_ns = 0;
    note_step_time(s, now);
    tap_gpu_stage_hand_over();        /* columns of outputs, which the flight recorder looks at */
    s->number++;
    s->doing = decide(s, rows, can_copy);
    record = s->doing == TAP_RECORD;
    if (record)
        put_step(s);                  /* the sender counts it when it writes its record */
    else if (!tap_flight_is_on())
        tap_count_skipped(s->doing, true, 1, 0);
    atomic_store_explicit(&s->free,
                          s->doing == TAP_SKIP_SAMPLING ? tap_sampler_steps_to_window(&s->sampler, now) : 0,
                          memory_order_release);
    /* A step that is not recorded is counted when its last op leaves the flight recorder's ring. */
    if (tap_flight_is_on())
        tap_flight_ring_step(s->number, record);
}

void tap_gpu_steps_note(struct tap_gpu_steps *s, const struct td_gpu_work *w, uint64_t others,
                        bool can_copy)
{
    switch (tap_gpu_step_finder_note(&s->finder, tap_gpu_gemm_weights(w), others,
                                     s->doing == TAP_UNDECIDED)) {
    case TAP_GPU_STEP_BEGINS:
        begin_step(s, w->m, can_copy);
        break;
    case TAP_GPU_STEP_LOST:
        s->doing = TAP_UNDECIDED;
        break;
    case TAP_GPU_STEP_WITHIN:
        break;
    }
}

/* ---- arms and rests -------------------------------------------------------------------------- */

void tap_gpu_steps_clear(struct tap_gpu_steps *s, uint64_t others)
{
    memset(&s->sampler, 0, sizeof s->sampler);
    if (s->kinds != tap_plan.kinds)
        s->finder.first = 0;          /* a step of other ops begins with another one */
    s->kinds = tap_plan.kinds;
    s->doing = TAP_UNDECIDED;
    s->began_ns = s->step_ns = s->used_ns = 0;
    s->unseen = 0;
    atomic_store(&s->free, 0);
    tap_gpu_step_finder_reset(&s->finder, others);
}

void tap_gpu_steps_interrupt(struct tap_gpu_steps *s, uint64_t others)
{
    s->doing = TAP_UNDECIDED;
    s->began_ns = 0;
    atomic_store(&s->free, 0);
    tap_gpu_step_finder_reset(&s->finder, others);
}

int64_t tap_gpu_steps_rest_ns(struct tap_gpu_steps *s)
{
    uint64_t steps = atomic_load(&s->free);
    int64_t most = s->step_ns > 0 ? REST_NS / s->step_ns : 0;

    if (s->doing == TAP_RECORD || steps < TAP_GPU_REST_STEPS)
        return 0;
    s->unseen = steps < (uint64_t)most ? steps : (uint64_t)most;
    return (int64_t)s->unseen * s->step_ns;
}
