/* cuda_graph_launch.c - a graph is launched: its ops pass the launch gate.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/cuda/cuda_graph_arena.h"
#include "recorder/tap/cuda/cuda_graph_follow.h"
#include "recorder/tap/cuda/cuda_graph_launch.h"
#include "recorder/tap/gpu/flight_trigger.h"
#include "recorder/tap/gpu/gpu_gate.h"

void tap_cuda_graph_launch_arm(void)
{
    struct tap_gpu_kernel *k;
    bool used;
    unsigned i;

    tap_cuda_follow_lock();
    tap_cuda_arena_arm();
    for (i = 0; (k = tap_gpu_graph_kernel_at(i, &used)) && used; i++) {
        atomic_store(&k->n, 0);
        k->sent = 0;
    }
    tap_cuda_follow_unlock();
}

bool tap_cuda_graph_launch_note(const void *exec, void *stream)
{
    struct tap_cuda_plan *p, *outer;
    bool capturing, has_slots;

    tap_cuda_follow_lock();
    p = tap_cuda_plan_at(TAP_CUDA_EXEC, exec);
    outer = tap_cuda_follow_plan(stream, &capturing);
    /* A graph in a graph: both write into the arena from its start. */
    if (outer && p && p->first)
        tap_cuda_plan_nest(outer, p);
    has_slots = !capturing && p && p->first;
    if (has_slots && tap_armed())
        tap_cuda_arena_note_stream(tap_gpu_stream_number(stream));
    tap_cuda_follow_unlock();
    return has_slots;
}

static void count_launches(const struct tap_cuda_plan *p)
{
    unsigned i;

    tap_count(TAP_GRAPHS_READ, 1, 0);
    if (p->left)
        tap_count(TAP_OPS_GRAPH, p->left, p->left_bytes);
    if (p->unnamed)
        tap_count(TAP_LAUNCHES, p->unnamed, 0);
    for (i = 0; i < p->n_tallies; i++)
        atomic_fetch_add_explicit(&p->tally[i].kernel->n, p->tally[i].n, memory_order_relaxed);
}

/* The plan stays while its slots are copied. Without the lock: the driver may wait for the GPU, and
 * other threads need the lock meanwhile. */
void tap_cuda_graph_launch_begin(struct tap_cuda_graph_launch *l, const void *exec)
{
    tap_cuda_follow_lock();
    l->plan = tap_cuda_plan_at(TAP_CUDA_EXEC, exec);
    if (l->plan)
        l->plan->users++;
    if (l->by_twins && l->plan && l->plan->first) {
        l->context = l->plan->context ? l->plan->context : tap_gpu_context_of(l->stream);
        l->stream_number = tap_gpu_stream_number(l->stream);
        tap_cuda_arena_note_stream(l->stream_number);
    }
    tap_cuda_follow_unlock();
}

bool tap_cuda_graph_launch_is_recorded(struct tap_cuda_graph_launch *l, bool can_copy)
{
    const struct tap_cuda_captured *s = l->plan ? l->plan->first : NULL;
    struct tap_gpu_launch first;

    if (!s || !tap_cuda_arena_is_sound(0))
        return false;
    first = s->product.launch;
    first.stream = l->stream;
    first.context = l->context;
    first.uncopied = !can_copy;
    l->noted = true;
    l->can_copy = can_copy;
    l->recorded = tap_gpu_gate_note_work(&first, &s->product.work, &l->marks);
    return l->recorded || tap_flight_is_on();
}

static bool has_slot(const struct tap_cuda_graph_launch *l, const struct tap_cuda_captured *s)
{
    return !s->uncopyable && s->bytes <= l->bytes && s->slot <= l->bytes - s->bytes;
}

/* What the graph has done with it. */
static struct tap_gpu_passing passing(const struct tap_cuda_graph_launch *l,
                                      const struct tap_cuda_captured *s)
{
    const bool fits = has_slot(l, s), copied = fits && s->part == l->part;

    return (struct tap_gpu_passing){.slot = copied ? l->arena + s->slot : 0,
                                    .in_rotation = fits && !copied,
                                    .noted = l->noted && s == l->plan->first};
}

/* A launch as the graph has made it on that stream. */
static struct tap_gpu_launch made_by(const struct tap_cuda_graph_launch *l,
                                     const struct tap_cuda_captured *s)
{
    const struct tap_gpu_passing x = passing(l, s);
    struct tap_gpu_launch launch = s->product.launch;

    launch.stream = l->stream;
    launch.context = l->context;
    launch.graph_launch = l->number;
    launch.slot = x.slot;
    launch.uncopied = !x.slot;
    launch.in_rotation = x.in_rotation;
    launch.noted = x.noted;
    return launch;
}

/* A launch whose operands lie in its slot. */
static void record_captured(const struct tap_cuda_graph_launch *l, const struct tap_cuda_captured *s)
{
    const struct tap_gpu_launch launch = made_by(l, s);
    uint64_t token;

    if (!tap_cuda_arena_is_sound(l->number)) {
        tap_count(TAP_OPS_THREADS, !s->joins, s->product.bytes);
        return;
    }
    token = tap_gpu_gate_enter_work(&launch, s->product.kernel, &s->product.work);
    if (token)
        tap_gpu_gate_leave(token, &launch, true);
}

/* ---- all ops of a graph at once ------------------------------------------------------------- */

/* Do the ops behind the noted one have other weights than those the step finder looks for? */
static bool are_within(const struct tap_cuda_plan *p, const struct tap_gpu_step_marks *m)
{
    const struct tap_cuda_captured *s;
    const uint64_t gap_at = m->gap_at ? m->gap_at : p->sum.second;
    uint64_t n = 0;

    for (s = p->first->next; s; s = s->next)
        if (!s->left_out) {
            const uint64_t weights = s->product.weights;

            if (weights == m->first || (weights == gap_at && (m->gap_at || n)))
                return false;
            n++;
        }
    return true;
}

/* Once, unless more is captured into the graph afterwards. */
static void sum_up(struct tap_cuda_plan *p)
{
    const struct tap_cuda_captured *s;

    p->sum.n = p->sum.bytes = p->sum.later = p->sum.second = 0;
    for (s = p->first; s; s = s->next) {
        if (s->left_out)
            continue;
        if (s != p->first && !p->sum.later++)
            p->sum.second = s->product.weights;
        p->sum.n++;
        p->sum.bytes += s->product.bytes;
    }
    p->sum.known = true;
}

/* What the gate needs to know of them. Looked for again only where the step finder looks for other
 * weights than last time. With the lock held. */
static struct tap_gpu_graph sum_of(const struct tap_cuda_graph_launch *l)
{
    struct tap_cuda_plan *p = l->plan;

    if (!p->sum.known)
        sum_up(p);
    if (!p->sum.asked || p->sum.marks.first != l->marks.first ||
        p->sum.marks.gap_at != l->marks.gap_at) {
        p->sum.marks = l->marks;
        p->sum.are_within = are_within(p, &l->marks);
        p->sum.asked = true;
    }
    return (struct tap_gpu_graph){.stream = l->stream, .stream_number = l->stream_number,
                                  .n = p->sum.n, .bytes = p->sum.bytes,
                                  .later = p->sum.later, .second = p->sum.second,
                                  .are_within = l->noted && p->sum.are_within, .marks = l->marks,
                                  .can_copy = l->can_copy, .number = l->number,
                                  .context = l->context,
                                  .recorded = l->recorded && l->bytes};
}

static void pass_graph(const struct tap_cuda_graph_launch *l, struct tap_gpu_graph *g)
{
    struct tap_cuda_captured *s;
    struct tap_gpu_passing x;

    if (!tap_cuda_arena_is_sound(l->number)) {
        tap_count(TAP_OPS_THREADS, g->n, g->bytes);
        return;
    }
    if (!tap_gpu_gate_enter_graph(g))
        return;
    for (s = l->plan->first; s; s = s->next) {
        if (s->left_out)
            continue;
        x = passing(l, s);
        tap_gpu_gate_pass(g, &s->product, &x);
    }
    tap_gpu_gate_leave_graph(g);
}

void tap_cuda_graph_launch_end(struct tap_cuda_graph_launch *l, bool ok)
{
    const struct tap_cuda_captured *s;
    struct tap_gpu_graph g;
    bool at_once;

    if (!l->plan)
        return;
    tap_cuda_follow_lock();
    if (ok)
        count_launches(l->plan);
    at_once = ok && l->by_twins && l->plan->first && !tap_flight_is_on();
    if (at_once)
        g = sum_of(l);
    tap_cuda_follow_unlock();
    if (at_once)
        pass_graph(l, &g);
    for (s = ok && !at_once ? l->plan->first : NULL; s; s = s->next)
        if (!s->left_out)             /* those are counted in plan.left */
            record_captured(l, s);
    tap_cuda_follow_lock();
    tap_cuda_plan_release(l->plan);
    tap_cuda_follow_unlock();
}
