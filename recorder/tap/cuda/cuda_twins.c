/* cuda_twins.c - twins of a server's CUDA graphs: following captures, making twins, launching them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "recorder/tap/cuda/cuda_graph_arena.h"
#include "recorder/tap/cuda/cuda_graph_launch.h"
#include "recorder/tap/cuda/cuda_graph_recent.h"
#include "recorder/tap/cuda/cuda_twin_make.h"
#include "recorder/tap/cuda/cuda_twin_memory.h"
#include "recorder/tap/cuda/cuda_twin_stock.h"
#include "recorder/tap/cuda/cuda_twins.h"
#include "recorder/tap/gpu/gpu_captures.h"
#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_threads.h"

static _Atomic bool on;

bool tap_cuda_twins_on(void)
{
    return atomic_load_explicit(&on, memory_order_relaxed);
}

/* ---- captures -------------------------------------------------------------------------------- */

struct tails {
    void *const *node;
    const struct td_cuda_edge *edge;
    size_t n;
    const void *graph;
    uint64_t capture;
};

/* What a next call on this stream would depend on. False: the stream is not being captured. */
static bool find_tails(void *stream, struct tails *t)
{
    int status = TD_CUDA_CAPTURE_NONE;
    const void *nodes = NULL, *edges = NULL;
    void *graph = NULL;

    t->n = 0;
    if (tap_driver.capture_info(stream, &status, &t->capture, &graph, &nodes, &edges, &t->n) ||
        status != TD_CUDA_CAPTURE_ACTIVE || !graph)
        return false;
    t->node = nodes;
    t->edge = edges;
    t->graph = graph;
    return true;
}

static bool capture_begins(struct tap_gpu_capture_mark *mark, void *stream)
{
    struct tails t;

    if (!find_tails(stream, &t))
        return false;
    *mark = (struct tap_gpu_capture_mark){t.graph, t.n ? t.node[0] : NULL, t.n, t.capture};
    return true;
}

/* The call's nodes are all before the tails. None was added: its results come from elsewhere. */
static bool is_behind(const struct tails *t, const struct tap_gpu_capture_mark *mark)
{
    size_t i;

    if (!t->n || t->n > TAP_CUDA_TAILS || t->graph != mark->graph ||
        (t->n == mark->n && t->node[0] == mark->node))
        return false;
    for (i = 0; t->edge && i < t->n; i++)
        if (t->edge[i].from_port || t->edge[i].to_port || t->edge[i].type)
            return false;             /* a programmatic launch may begin before its result is there */
    return true;
}

/* The copies of a twin run in one context, and so must all that it copies from. */
static bool is_of_context(struct tap_cuda_plan *p, void *stream)
{
    void *context = tap_gpu_context_of(stream);

    if (!p->context)
        p->context = context;
    return p->context == context;
}

static void capture_ends(const struct tap_gpu_capture_mark *mark, const struct tap_gpu_launch *l,
                         const struct tap_gpu_kernel *k, const struct td_gpu_work *w)
{
    struct tap_cuda_captured *s;
    struct tap_cuda_plan *p;
    struct tails t;
    bool capturing;
    size_t i;

    tap_cuda_follow_lock();
    p = tap_cuda_follow_plan(l->stream, &capturing);
    s = p ? tap_cuda_plan_add(p, l, k, w, UINT64_MAX) : NULL;
    if (s)
        s->bytes = s->product.slot_bytes;
    if (s && is_of_context(p, l->stream) && find_tails(l->stream, &t) && is_behind(&t, mark)) {
        for (i = 0; i < t.n; i++)
            s->tail[i] = t.node[i];
        s->n_tails = (unsigned)t.n;
        s->head = mark->n ? (void *)mark->node : NULL;
        s->has_head = mark->n <= 1;
    } else if (s) {
        s->uncopyable = true;
    }
    tap_cuda_follow_unlock();
}

/* A product that cannot be read, in a capture that goes on. */
static void capture_leaves_out(const struct tap_gpu_capture_mark *mark)
{
    struct tap_cuda_plan *p;

    tap_cuda_follow_lock();
    p = tap_cuda_plan_at(TAP_CUDA_GRAPH, mark->graph);
    if (!p)
        p = tap_cuda_plan_capture((void *)(uintptr_t)mark->graph, mark->capture);
    if (p && p->capture == mark->capture)
        p->left++;
    tap_cuda_follow_unlock();
}

static const struct tap_gpu_capture_follower follower = {capture_begins, capture_ends, capture_leaves_out};

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Keep a clone of the graph, which may be gone soon. The lock is held. */
static void keep_clone(struct tap_cuda_plan *p, void *graph)
{
    struct tap_cuda_aside a;

    if (!tap_cuda_plan_has_products(p) || p->base || p->twin_state != TAP_CUDA_TWIN_NOT_YET)
        return;
    p->twin_state = TAP_CUDA_NO_TWIN;
    if (p->nested || (p->flags & TD_CUDA_GRAPH_DEVICE_LAUNCH) || !tap_cuda_step_aside(&a))
        return;
    if (tap_cuda_twin_keep(p, graph))
        p->twin_state = TAP_CUDA_TWIN_NOT_YET;
    tap_cuda_step_back(&a);
}

void tap_cuda_twins_instantiated(const void *exec, void *graph, unsigned long long flags)
{
    struct tap_cuda_plan *p;

    tap_cuda_follow_lock();
    p = tap_cuda_plan_at(TAP_CUDA_EXEC, exec);
    flags &= ~(unsigned long long)TD_CUDA_GRAPH_UPLOAD;
    if (p && !p->base)
        p->flags = flags;
    if (p)
        keep_clone(p, graph);
    if (p && p->base && p->flags != flags)
        tap_cuda_plan_link(TAP_CUDA_EXEC, (void *)(uintptr_t)exec, NULL); /* the twin is of another kind */
    tap_cuda_follow_unlock();
}

/* Its twin is instantiated as exec was; how that was is known if it was made of a graph that was
 * followed. */
bool tap_cuda_twins_update(const void *exec, void *graph)
{
    struct tap_cuda_plan *old, *p;
    bool fits;

    tap_cuda_follow_lock();
    old = tap_cuda_plan_at(TAP_CUDA_EXEC, exec);
    p = tap_cuda_plan_at(TAP_CUDA_GRAPH, graph);
    if (old && p && p->ended) {
        p->flags = p->base ? p->flags : old->flags;
        keep_clone(p, graph);
    }
    fits = !p || !p->base || (old && old->flags == p->flags);
    tap_cuda_follow_unlock();
    return fits;
}

/* A plan is about to be free: the original of its twin is gone. */
static void drop(struct tap_cuda_plan *p)
{
    struct tap_cuda_aside a;

    tap_cuda_twin_forget_plan(p);
    if ((!p->twin && !p->base) || !tap_cuda_step_aside(&a))
        return;
    tap_cuda_twin_destroy(p);
    if (p->base)
        tap_driver.graph_destroy(p->base);
    tap_cuda_step_back(&a);
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Is the twin there? A graph that is launched gets one, ahead of need. A step may be many graphs, all
 * of which get theirs soon after its first launch: until then none of them is used. A step whose first
 * graphs came before that, and whose last ones after it, is recorded in part: the ledger says so. */
static bool want(struct tap_cuda_plan *p)
{
    bool ready;

    tap_cuda_follow_lock();
    ready = tap_cuda_twin_want(p) && !tap_cuda_twin_stock_lacks();
    tap_cuda_follow_unlock();
    return ready;
}

/* The twin, until leave_twin(): it stays, and so does what it copied; NULL: it is gone meanwhile, or
 * another thread launches one. All twins copy to the same memory: a second one, launched on the same
 * stream before the first thread has had it copied, would overwrite that. And two graphs that were
 * instantiated of one have one twin, which no two threads may launch at the same time. */
static void *enter_twin(struct tap_cuda_graph_launch *l)
{
    void *twin;

    tap_cuda_follow_lock();
    twin = tap_cuda_arena_is_free() ? l->plan->twin : NULL;
    if (twin) {
        l->number = tap_cuda_arena_enter();
        l->plan->launching++;
        l->plan->users++;
        l->arena = tap_cuda_twin_arena(&l->bytes);
        l->part = l->plan->part;
    }
    tap_cuda_follow_unlock();
    return twin;
}

static void leave_twin(struct tap_cuda_plan *p, bool refused)
{
    tap_cuda_follow_lock();
    tap_cuda_arena_leave();
    p->launching--;
    p->refused_ns = refused ? p->launched_ns : 0;
    tap_cuda_twin_launched(p);
    tap_cuda_plan_release(p);
    tap_cuda_follow_unlock();
}

/* The graph to launch in exec's place: its twin if the step is recorded and the twin is there. */
static void *choose(struct tap_cuda_graph_launch *l, void *exec)
{
    bool ready = l->plan && want(l->plan);
    void *twin = NULL;

    if (tap_cuda_graph_launch_is_recorded(l, ready) && ready)
        twin = enter_twin(l);
    return twin ? twin : exec;
}

/* By a twin if `runs` is one. One that is refused must not show in the thread's last error, by which
 * servers check their launches: that is taken back, and where one is there already, no twin runs.
 *   e : errno for the launch */
static int launch_chosen(void **runs, void *exec, void *stream, const struct tap_cuda_launcher *by,
                         int e, bool *refused)
{
    int rc;

    *refused = false;
    if (*runs != exec && !by->last_error(by->caller, false)) {
        errno = e;
        rc = by->launch(*runs, stream);
        if (!rc)
            return 0;
        by->last_error(by->caller, true);
        *refused = true;
    }
    *runs = exec;
    errno = e;
    return by->launch(exec, stream);
}

/* Inside the tap. errno is as the launch left it, whatever the tap calls before and after it. */
static int launch_followed(void *exec, void *stream, const struct tap_cuda_launcher *by)
{
    struct tap_cuda_graph_launch l = {.stream = stream, .by_twins = true};
    struct tap_cuda_plan *p;
    bool own = tap_gpu_set_own_calls(true);
    void *twin, *runs;
    bool refused;
    int e = errno, rc;

    tap_cuda_graph_launch_begin(&l, exec);
    tap_count(TAP_GRAPHS, 1, 0);
    tap_gpu_gate_note_other(NULL);
    twin = runs = choose(&l, exec);
    rc = launch_chosen(&runs, exec, stream, by, e, &refused);
    e = errno;
    if (runs == exec)
        l.bytes = l.number = 0;       /* its operands were not copied */
    p = l.plan;
    tap_cuda_graph_launch_end(&l, rc == 0);
    if (twin != exec)
        leave_twin(p, refused);
    tap_gpu_set_own_calls(own);
    errno = e;
    return rc;
}

int tap_cuda_twins_launch(void *exec, void *stream, const struct tap_cuda_launcher *by)
{
    int e = errno, rc;

    /* While armed the stream is asked in any case: a capture that was begun by the driver's own
     * function is not counted, and a twin must not become part of the server's graph. */
    if ((tap_gpu_captures_any() || tap_armed()) && tap_gpu_stream_is_capturing(stream)) {
        tap_cuda_graph_launch_note(exec, stream); /* a graph in a graph */
        errno = e;
        return by->launch(exec, stream);
    }
    errno = e;
    tap_cuda_graph_recent_note(exec);
    if (!tap_armed() || !tap_gpu_come_in())
        return by->launch(exec, stream);
    rc = launch_followed(exec, stream, by);
    tap_gpu_go_out();
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

const char *tap_cuda_twins_open(void)
{
#define MISSES(name, member, args) || !tap_driver.member
    if (!tap_driver.capture_info || !tap_driver.mem_free TD_CUDA_GRAPHS(MISSES))
        return "the CUDA driver cannot say which graph a stream is captured into (before CUDA "
               "12.3): launches in graphs are not seen";
    if (!tap_cuda_plans_open())
        return "no memory to follow CUDA graphs: launches in graphs are not seen";
    tap_cuda_plans_on_free(drop);
    tap_cuda_twin_memory_bound();
    tap_gpu_captures_follow(&follower);
    atomic_store(&on, true);
    return NULL;
}

void tap_cuda_twins_arm(void)
{
    if (tap_cuda_twins_on())
        tap_cuda_twin_stock_ahead();
}

void tap_cuda_twins_tick(void)
{
    tap_cuda_twin_stock_make();
}

bool tap_cuda_twins_wanted(void)
{
    return tap_cuda_twins_on() && tap_cuda_twin_stock_wants();
}

bool tap_cuda_twins_have_plans(void)
{
    bool have;

    if (!tap_cuda_twins_on())
        return false;
    tap_cuda_follow_lock();
    have = tap_cuda_plan_number(0) != NULL;
    tap_cuda_follow_unlock();
    return have;
}

void tap_cuda_twins_disarm(void)
{
    if (tap_cuda_twins_on())
        tap_cuda_twin_stock_clear();
}

void tap_cuda_twins_forget(void)
{
    atomic_store(&on, false);
    tap_gpu_captures_follow(NULL);
    tap_cuda_plans_on_free(NULL);
    tap_cuda_twin_stock_forget();
}
