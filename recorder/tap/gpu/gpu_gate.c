/* gpu_gate.c - the launch gate: one launch after the other, each decided upon and recorded.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "recorder/tap/gpu/flight_dump.h"
#include "recorder/tap/gpu/flight_ring.h"
#include "recorder/tap/gpu/flight_trigger.h"
#include "recorder/tap/gpu/gpu_decide.h"
#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_gate_owner.h"
#include "recorder/tap/gpu/gpu_last_w.h"
#include "recorder/tap/gpu/gpu_queue.h"
#include "recorder/tap/gpu/gpu_record.h"
#include "recorder/tap/gpu/gpu_steps.h"

#define IDLE_NS 100000000LL           /* no launch for so long: the server is idle */

static struct {
    _Atomic bool open;
    _Atomic uint64_t others;          /* launches without an adapter */
    _Atomic int64_t active_ns;        /* when a launch was last in the gate */
    /* the holder's (gpu_gate_owner.h) */
    uint64_t tokens;
    struct tap_gpu_steps steps;
    struct tap_gpu_last_launch last;
    bool woken;                       /* from a rest, and no GEMM has come since */
    struct tap_gpu_last_w dequant;
    /* What stands for the library's call between its enter and leave. */
    struct tap_gpu_launch library_call;
} gate;

/* No launch joins the ones before this; all before it is handed over. */
static void put_boundary(void)
{
    if (tap_gpu_steps_put_boundary(&gate.steps))
        memset(&gate.last, 0, sizeof gate.last);
}

static uint64_t others(void)
{
    return atomic_load_explicit(&gate.others, memory_order_relaxed);
}

/* ---- what becomes of a GEMM ------------------------------------------------------------------ */

/* The first GEMM after a rest, with no other launch before it: it may be the rest of one whose
 * first rows were not seen. */
static bool is_rest_of_gemm(void)
{
    return gate.woken && others() == gate.steps.finder.others_before;
}

/* A GEMM comes that does not go on with the one before; it may begin a step. */
static void note_step(const struct td_gpu_work *w, bool can_copy)
{
    if (!is_rest_of_gemm())
        tap_gpu_steps_note(&gate.steps, w, others(), can_copy);
    gate.woken = false;
}

/* A GEMM is about to be computed. True: it is recorded, or in the flight recorder's ring: leave
 * must be called. */
static bool enter_gemm(const struct tap_gpu_launch *l, const struct tap_gpu_kernel *k,
                       const struct td_gpu_work *w, const char *library_function)
{
    bool captured = tap_gpu_stream_is_capturing(l->stream);
    uint64_t stream = captured ? (uintptr_t)l->stream : tap_gpu_stream_number(l->stream);
    bool joined = tap_gpu_gemm_joins(&gate.last, stream, w);
    enum tap_count why;
    bool in_flight_ring = false;

    if (captured) {
        tap_count(TAP_OPS_GRAPH, !joined, tap_gpu_gemm_copied_bytes(w));
        gate.last = tap_gpu_last_launch_of(stream, w);
        return false;
    }
    if (!joined && !l->noted && !w->in_step)
        note_step(w, !l->uncopied || l->in_rotation);
    else if (w->in_step)
        gate.woken = false;
    why = tap_gpu_decide(&gate.steps, &gate.last, l, joined);
    if (why == TAP_OPS_SENT)
        why = stream ? tap_gpu_record_begin(&gate.steps, l, stream, k, w, library_function, joined)
                     : TAP_OPS_FAILED;
    if (why != TAP_OPS_SENT && joined && gate.last.recorded) {
        tap_gpu_queue_cut(why);
        tap_count(why, 0, tap_gpu_gemm_copied_bytes(w));
    } else if (why != TAP_OPS_SENT) {
        in_flight_ring = tap_gpu_decide_flight(&gate.steps, &gate.last, l, stream, k, w,
                                               library_function, joined, why);
    }
    gate.last = tap_gpu_last_launch_of(stream, w);
    gate.last.recorded = why == TAP_OPS_SENT;
    gate.last.in_flight_ring = in_flight_ring;
    atomic_store_explicit(&gate.active_ns, tap_now(), memory_order_relaxed);
    return gate.last.recorded || in_flight_ring;
}

/* A launch that only dequantises W is half a GEMM: the library's call, the other half, finds it
 * here. */
static bool enter_launch(const struct tap_gpu_launch *l, const struct tap_gpu_kernel *k)
{
    struct td_gpu_work w;

    if (!tap_gpu_gemm_read(l, k, &w)) {
        tap_count(TAP_OPS_FAILED, 1, 0);
        return false;
    }
    tap_gpu_last_w_forget(&gate.dequant);
    if (tap_gpu_gemm_operand(&w, TD_GPU_IN))
        return enter_gemm(l, k, &w, NULL);
    tap_gpu_last_w_keep(&gate.dequant, l, k, &w, false, others());
    return false;
}

/* ---- the server's threads -------------------------------------------------------------------- */

uint64_t tap_gpu_gate_enter(const struct tap_gpu_launch *l, const struct tap_gpu_kernel *k)
{
    uint64_t token = 0;

    if (!tap_gpu_gate_hold()) {
        tap_count(TAP_OPS_THREADS, 1, 0);
        return 0;
    }
    if (atomic_load(&gate.open) && enter_launch(l, k))
        token = ++gate.tokens;
    tap_gpu_gate_hand_to(token);
    return token;
}

void tap_gpu_gate_leave(uint64_t token, const struct tap_gpu_launch *l, bool ok)
{
    int64_t from;

    if (!tap_gpu_gate_hold_again(token))
        return;                       /* the tap's thread took the gate away meanwhile */
    from = tap_now();
    if (gate.last.in_flight_ring) {
        gate.last.in_flight_ring = tap_flight_ring_leave(l, ok);
        gate.steps.boundary_due = true;
    } else {
        gate.last.recorded = tap_gpu_record_end(&gate.steps, l, ok);
        gate.steps.used_ns += tap_now() - from;
    }
    tap_gpu_gate_hand_to(0);
}

void tap_gpu_gate_made_w(const struct tap_gpu_launch *l, const struct tap_gpu_kernel *k,
                         const struct td_gpu_work *w)
{
    if (!tap_gpu_gate_hold()) {
        tap_count(TAP_OPS_THREADS, 1, 0);
        return;
    }
    if (atomic_load(&gate.open)) {
        tap_gpu_last_w_forget(&gate.dequant);
        tap_gpu_last_w_keep(&gate.dequant, l, k, w, true, others());
    }
    tap_gpu_gate_hand_to(0);
}

bool tap_gpu_gate_enter_library(const char *function, void *stream, uint64_t w, uint64_t a,
                                uint64_t c, int64_t m, int64_t n, int64_t k, int64_t lda,
                                int64_t ldc, uint64_t *token)
{
    struct td_gpu_work work;
    uint64_t of_w = w;
    bool found;

    *token = 0;
    if (!tap_gpu_gate_hold()) {
        if (w && atomic_compare_exchange_strong(&gate.dequant.w, &of_w, 0))
            tap_count(TAP_OPS_THREADS, 1, 0);
        return false;                 /* its kernels are counted by name */
    }
    found = atomic_load(&gate.open) && w && w == gate.dequant.w &&
            tap_gpu_last_w_is_next(&gate.dequant, stream, others()) &&
            tap_gpu_gemm_by_library(&gate.dequant.work, a, c, m, n, k, lda, ldc, &work);
    if (found) {
        gate.library_call = gate.dequant.launch;
        if (enter_gemm(&gate.library_call, gate.dequant.kernel, &work, function))
            *token = ++gate.tokens;
        gate.dequant.w = 0;
        tap_gpu_thread.made_w.bytes = 0;
    }
    tap_gpu_gate_hand_to(*token);
    return found;
}

void tap_gpu_gate_leave_library(uint64_t token, bool ok)
{
    struct tap_gpu_launch l;

    if (!token)
        return;
    l = gate.library_call;            /* the token's holder alone reads and writes it */
    tap_gpu_gate_leave(token, &l, ok);
}

/* Other launches of the graph, or of the operator, may have written where the last W was. */
uint64_t tap_gpu_gate_enter_work(const struct tap_gpu_launch *l, const struct tap_gpu_kernel *k,
                                 const struct td_gpu_work *w)
{
    uint64_t token = 0;

    if (!tap_gpu_gate_hold()) {
        tap_count(TAP_OPS_THREADS, 1, 0);
        return 0;
    }
    tap_gpu_last_w_forget(&gate.dequant);
    if (atomic_load(&gate.open) && enter_gemm(l, k, w, l->library_function))
        token = ++gate.tokens;
    tap_gpu_gate_hand_to(token);
    return token;
}

bool tap_gpu_gate_note_work(const struct tap_gpu_launch *l, const struct td_gpu_work *w,
                            struct tap_gpu_step_marks *marks)
{
    bool record = false;

    *marks = (struct tap_gpu_step_marks){0, 0};
    if (!tap_gpu_gate_hold())
        return false;
    if (atomic_load(&gate.open)) {
        note_step(w, !l->uncopied);
        record = tap_gpu_decide(&gate.steps, &gate.last, l, false) == TAP_OPS_SENT;
        *marks = tap_gpu_step_finder_marks(&gate.steps.finder);
    }
    tap_gpu_gate_hand_to(0);
    return record;
}

/* Tell the step finder of all at once, if none of them can begin a step. */
static bool find_within(const struct tap_gpu_graph *g)
{
    const struct tap_gpu_step_marks m = tap_gpu_step_finder_marks(&gate.steps.finder);

    if (!g->are_within || m.first != g->marks.first || m.gap_at != g->marks.gap_at)
        return false;
    tap_gpu_step_finder_pass(&gate.steps.finder, g->later, g->second);
    return true;
}

/* Are all GEMMs of the graph counted at once, for one reason? */
static bool count_graph(const struct tap_gpu_graph *g)
{
    const struct tap_gpu_launch l = {.uncopied = true};

    if (gate.steps.doing == TAP_RECORD || !g->found)
        return false;
    tap_count(tap_gpu_decide(&gate.steps, &gate.last, &l, false), g->n, g->bytes);
    return true;
}

bool tap_gpu_gate_enter_graph(struct tap_gpu_graph *g)
{
    bool stays;

    if (!tap_gpu_gate_hold()) {
        tap_count(TAP_OPS_THREADS, g->n, g->bytes);
        return false;
    }
    tap_gpu_last_w_forget(&gate.dequant);
    memset(&gate.last, 0, sizeof gate.last); /* they join no launch */
    g->slots = (struct tap_gpu_slots){.stream = g->stream, .t_ns = tap_now(), .graph_launch = g->number};
    g->asked = g->recorded;
    g->why = TAP_OPS_SENT;
    atomic_store_explicit(&gate.active_ns, g->slots.t_ns, memory_order_relaxed);
    stays = atomic_load(&gate.open);
    g->found = stays && find_within(g);
    stays = stays && !count_graph(g);
    if (!stays)
        tap_gpu_gate_hand_to(0);
    return stays;
}

static enum tap_count decide_passing(const struct tap_gpu_graph *g, const struct tap_gpu_passing *x)
{
    const struct tap_gpu_launch l = {.stream = g->stream, .context = g->context,
                                     .uncopied = !x->slot, .in_rotation = x->in_rotation};

    return tap_gpu_decide(&gate.steps, &gate.last, &l, false);
}

/* The driver is asked about a GEMM that was copied: once for a graph. */
static enum tap_count decide_in_graph(struct tap_gpu_graph *g, const struct tap_gpu_passing *x)
{
    if (gate.steps.doing != TAP_RECORD || !x->slot || tap_flight_is_dumping())
        return decide_passing(g, x);
    if (!g->asked)
        g->why = decide_passing(g, x);
    g->asked = true;
    return g->why;
}

/* The step finder is told of this one alone, which may begin a step, and that has an entry. */
static void find_step(struct tap_gpu_graph *g, const struct tap_gpu_product *p,
                      const struct tap_gpu_passing *x)
{
    const struct tap_gpu_step_marks m = tap_gpu_step_finder_marks(&gate.steps.finder);

    if (p->weights == m.first || p->weights == m.gap_at)
        tap_gpu_record_slots_end(&gate.steps, &g->slots);
    if (!x->noted && !p->work.in_step)
        note_step(&p->work, g->can_copy);
}

void tap_gpu_gate_pass(struct tap_gpu_graph *g, struct tap_gpu_product *p,
                       const struct tap_gpu_passing *x)
{
    enum tap_count why;

    if (!g->found)
        find_step(g, p, x);
    why = decide_in_graph(g, x);
    if (why == TAP_OPS_SENT)
        why = g->stream_number ? tap_gpu_record_slot(&gate.steps, &g->slots, p, x->slot, g->stream_number)
                               : TAP_OPS_FAILED;
    if (why != TAP_OPS_SENT)
        tap_count(why, 1, p->bytes);
}

void tap_gpu_gate_leave_graph(struct tap_gpu_graph *g)
{
    tap_gpu_record_slots_end(&gate.steps, &g->slots);
    gate.steps.used_ns += tap_now() - g->slots.t_ns - g->slots.weights_ns;
    tap_gpu_gate_hand_to(0);
}

void tap_gpu_gate_note_other(const struct tap_gpu_launch *l)
{
    atomic_fetch_add_explicit(&gate.others, 1, memory_order_relaxed);
    if (l)
        tap_gpu_last_w_pass(l);
}

/* ---- the tap's thread ------------------------------------------------------------------------ */

void tap_gpu_gate_open(void)
{
    memset(&gate.last, 0, sizeof gate.last);
    gate.woken = false;
    gate.dequant.w = 0;
    tap_gpu_steps_clear(&gate.steps, atomic_load(&gate.others));
    /* A launch of the last arm whose end nobody saw; nobody is inside the tap. */
    tap_gpu_gate_hand_to(0);
    atomic_store(&gate.open, true);
}

bool tap_gpu_gate_is_at_work(void)
{
    return tap_now() - atomic_load(&gate.active_ns) < IDLE_NS;
}

/* Something was staged, and no launch has come for a while. */
static bool is_left_lying(void)
{
    return atomic_load(&gate.steps.boundary_due) &&
           tap_now() - atomic_load(&gate.active_ns) > IDLE_NS;
}

/* Look before holding the gate: a launch that comes while it is held may be lost. */
void tap_gpu_gate_tick(bool now)
{
    void *context;

    if ((!now && !is_left_lying()) || !tap_gpu_gate_hold_for_tap(false, &context))
        return;
    if (context && gate.steps.boundary_due && (now || is_left_lying()))
        put_boundary();
    tap_gpu_gate_release(context);
}

/* May more rows of a GEMM come whose first rows are recorded? Without them it must not be sent. */
static bool is_within_gemm(void)
{
    return (gate.last.recorded || gate.last.in_flight_ring) && tap_gpu_gate_is_at_work();
}

void tap_gpu_gate_dump(void)
{
    void *context;

    if (!tap_gpu_gate_hold_for_tap(false, &context))
        return;
    if (context && !is_within_gemm()) {
        if (gate.steps.doing == TAP_RECORD)
            /* The rest of the step would come under the number of a step of the dump. */
            gate.steps.doing = TAP_SKIP_FLIGHT;
        if (gate.steps.boundary_due)
            put_boundary();
        tap_gpu_stage_hand_over();
        tap_gpu_stage_use_stream(0);  /* the dump marks the stage's own stream */
        tap_flight_dump_some();
    }
    tap_gpu_gate_release(context);
}

void tap_gpu_gate_abandon(void)
{
    void *context;

    if (tap_gpu_gate_hold_for_tap(true, &context))
        tap_gpu_gate_release(context);
}

/* What is half seen is no op, and what comes belongs to no step until one begins. */
static void interrupt_step(void)
{
    tap_gpu_last_w_forget(&gate.dequant);
    memset(&gate.last, 0, sizeof gate.last);
    tap_gpu_steps_interrupt(&gate.steps, atomic_load(&gate.others));
}

int64_t tap_gpu_gate_rest(void)
{
    int64_t ns = 0;
    void *context;

    if (atomic_load(&gate.steps.free) < TAP_GPU_REST_STEPS || !tap_gpu_gate_hold_for_tap(false, &context))
        return 0;
    ns = tap_gpu_steps_rest_ns(&gate.steps);
    if (ns && context && gate.steps.boundary_due)
        put_boundary();
    if (ns) {
        interrupt_step();
        atomic_store(&gate.open, false);
    }
    tap_gpu_gate_release(context);
    return ns;
}

bool tap_gpu_gate_wake(void)
{
    void *context;

    if (!tap_gpu_gate_hold_for_tap(false, &context))
        return false;
    interrupt_step();
    gate.woken = true;
    gate.steps.woken_ns = tap_now();
    atomic_store(&gate.open, true);
    tap_gpu_gate_release(context);
    return true;
}

void tap_gpu_gate_close(void)
{
    int64_t until = tap_now() + 100000000;
    void *context;

    atomic_store(&gate.open, false);
    while (!tap_gpu_gate_hold_for_tap(true, &context))
        if (tap_now() > until)
            /* A thread stands in the driver: what it copied last stays where it is. */
            return;
    tap_gpu_last_w_forget(&gate.dequant);
    if (context && gate.steps.boundary_due)
        put_boundary();
    tap_flight_ring_close();
    tap_gpu_gate_release(context);
}

void tap_gpu_gate_forget(void)
{
    memset(&gate, 0, sizeof gate);
    tap_gpu_gate_hand_to(0);
    tap_gpu_decide_forget();
}
