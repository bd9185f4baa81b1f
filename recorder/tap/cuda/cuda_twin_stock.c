/* cuda_twin_stock.c - the twins that there are.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/cuda/cuda_graph_follow.h"
#include "recorder/tap/cuda/cuda_graph_recent.h"
#include "recorder/tap/cuda/cuda_twin_make.h"
#include "recorder/tap/cuda/cuda_twin_memory.h"
#include "recorder/tap/cuda/cuda_twin_stock.h"
#include "recorder/tap/gpu/gpu_stage.h"

#define MAKE_NS 20000000LL            /* of one tick, about */
#define AHEAD_NS 1000000000LL         /* of an arm's beginning, about */
#define RETRY_NS 1000000000LL         /* how soon a twin is tried again that had no room, or was refused */
#define TURN 4u                       /* launches of a twin until that of the next part: a window of
                                       * the sample. Making one takes some ms of the tap's thread */

const void *_Atomic tap_cuda_recent[TAP_CUDA_RECENT];
int64_t tap_cuda_twin_idle_ns = 5000000000LL;

static struct {
    /* Plans that wait for a twin; that have one, and wait for that of the next part. */
    _Atomic uint32_t wanted, turns;
    unsigned look;                    /* the plan to look at next */
} stock;

/* ---- any thread ------------------------------------------------------------------------------ */

/* Else its copies would run in another context than the graph, whose memory they may not read. */
static bool is_of_stage(const struct tap_cuda_plan *p)
{
    return p->context && p->context == tap_gpu_stage_context();
}

/* A twin of p is of use. */
static void ask_for(struct tap_cuda_plan *p)
{
    const int64_t now = tap_now();

    p->launched_ns = now;
    if (p->twin_state == TAP_CUDA_TWIN_NOT_YET && p->base && is_of_stage(p) &&
        (!p->no_room || now - p->tried_ns > RETRY_NS)) {
        p->twin_state = TAP_CUDA_TWIN_WANTED;
        atomic_fetch_add(&stock.wanted, 1);
    }
}

bool tap_cuda_twin_want(struct tap_cuda_plan *p)
{
    if (p->no_room)
        tap_count(TAP_GRAPHS_NO_ROOM, 1, 0);
    if (tap_cuda_plan_has_products(p) && (p->twin_state == TAP_CUDA_NO_TWIN || !p->base))
        tap_count(TAP_GRAPHS_NO_TWIN, 1, 0);
    ask_for(p);
    return (p->twin_state == TAP_CUDA_TWIN_READY || p->twin_state == TAP_CUDA_TWIN_TURNS) &&
           (!p->refused_ns || p->launched_ns - p->refused_ns > RETRY_NS);
}

void tap_cuda_twin_launched(struct tap_cuda_plan *p)
{
    if (p->parts < 2 || ++p->recorded < TURN || p->twin_state != TAP_CUDA_TWIN_READY)
        return;
    p->twin_state = TAP_CUDA_TWIN_TURNS;
    atomic_fetch_add(&stock.turns, 1);
}

/* The twin, which is p's no more. */
static void *take_out(struct tap_cuda_plan *p)
{
    void *twin = p->twin;

    tap_cuda_twin_memory_give(p->twin_bytes);
    p->twin = NULL;
    p->twin_bytes = 0;
    return twin;
}

void tap_cuda_twin_destroy(struct tap_cuda_plan *p)
{
    void *twin = take_out(p);

    if (twin)
        tap_driver.graph_exec_destroy(twin);
}

void tap_cuda_twin_forget_plan(const struct tap_cuda_plan *p)
{
    if (p->twin_state == TAP_CUDA_TWIN_WANTED)
        atomic_fetch_sub(&stock.wanted, 1);
    if (p->twin_state == TAP_CUDA_TWIN_TURNS)
        atomic_fetch_sub(&stock.turns, 1);
}

/* ---- making one ------------------------------------------------------------------------------ */

static bool waits(const struct tap_cuda_plan *p)
{
    return p->users &&
           (p->twin_state == TAP_CUDA_TWIN_WANTED || p->twin_state == TAP_CUDA_TWIN_TURNS);
}

/* The next plan that waits, kept from being free; NULL: none. */
static struct tap_cuda_plan *next_waiting(void)
{
    struct tap_cuda_plan *p = NULL;
    unsigned tries;

    tap_cuda_follow_lock();
    for (tries = 0; tap_cuda_twin_stock_wants() && !p && tries < 2; tries++) {
        while ((p = tap_cuda_plan_number(stock.look++)) && !waits(p))
            ;
        stock.look = p ? stock.look : 0;
    }
    if (p)
        p->users++;
    tap_cuda_follow_unlock();
    return p;
}

/* The plan whose twin is of least use; NULL: all are in use. */
static struct tap_cuda_plan *least_useful(void)
{
    struct tap_cuda_plan *p, *least = NULL;
    unsigned i;

    for (i = 0; (p = tap_cuda_plan_number(i)); i++)
        if (p->twin && !p->launching && !waits(p) &&
            (!least || p->launched_ns < least->launched_ns))
            least = p;
    return least && tap_now() - least->launched_ns > tap_cuda_twin_idle_ns ? least : NULL;
}

/* A twin that goes so that p gets one: p's own, or another plan's. NULL: none can go. */
static void *twin_that_goes(struct tap_cuda_plan *p)
{
    struct tap_cuda_plan *goes = p->twin && !p->launching ? p : least_useful();

    if (goes && goes != p)
        goes->twin_state = TAP_CUDA_TWIN_NOT_YET;
    return goes ? take_out(goes) : NULL;
}

/* Count a twin of so many bytes for p. False: there is no room, and none that could go. Twins are
 * destroyed without the lock: the driver may wait until they have run, and launches need the lock. */
static bool make_room(struct tap_cuda_plan *p, uint64_t bytes)
{
    void *goes = NULL;
    bool ok;

    do {
        if (goes)
            tap_driver.graph_exec_destroy(goes);
        tap_cuda_follow_lock();
        ok = tap_cuda_twin_memory_take(bytes);
        goes = ok ? NULL : twin_that_goes(p);
        tap_cuda_follow_unlock();
    } while (goes);
    return ok;
}

/* Which part comes next? With the first twin, what the parts are is settled. */
static uint32_t next_part(struct tap_cuda_plan *p, uint64_t arena_bytes)
{
    uint32_t part;

    tap_cuda_follow_lock();
    if (!p->twin)
        tap_cuda_twin_share_out(p, arena_bytes);
    part = p->twin ? (p->part + 1) % p->parts : p->part;
    tap_cuda_follow_unlock();
    return part;
}

/* The twin of that part is p's from now on. Returns the one that was. */
static void *set_twin(struct tap_cuda_plan *p, void *twin, uint32_t part, uint64_t bytes)
{
    void *old = take_out(p);

    p->twin = twin;
    p->twin_bytes = bytes;
    p->part = part;
    p->recorded = 0;
    p->refused_ns = 0;
    if (twin)
        tap_count(TAP_TWINS, 1, bytes);
    return old;
}

/* Put the twin into its plan. NULL: the driver refused, or there was no room. */
static void keep(struct tap_cuda_plan *p, void *twin, uint32_t part, uint64_t bytes, bool room)
{
    void *gone = twin;

    tap_cuda_follow_lock();
    if (room && (!twin || p->launching))
        tap_cuda_twin_memory_give(bytes);
    if (!p->launching) {              /* else a thread launches the old twin: try again */
        tap_cuda_twin_forget_plan(p); /* it waits no more */
        gone = set_twin(p, twin, part, twin ? bytes : 0);
        p->twin_state = twin   ? TAP_CUDA_TWIN_READY
                        : room ? TAP_CUDA_NO_TWIN
                               : TAP_CUDA_TWIN_NOT_YET;
        p->no_room = !room;
        p->tried_ns = tap_now();
    }
    tap_cuda_plan_release(p);
    tap_cuda_follow_unlock();
    if (gone)
        tap_driver.graph_exec_destroy(gone);
}

static void make(struct tap_cuda_plan *p)
{
    uint64_t arena_bytes;
    const uint64_t arena = tap_cuda_twin_arena(&arena_bytes);
    const uint32_t part = next_part(p, arena_bytes);
    const uint64_t bytes = tap_cuda_twin_memory_of(tap_cuda_twin_nodes(p));
    const bool room = make_room(p, bytes);

    keep(p, room ? tap_cuda_twin_make(p, arena, part) : NULL, part, bytes, room);
}

/* ---- the tap's thread ------------------------------------------------------------------------ */

static void want_recent(void)
{
    struct tap_cuda_plan *p;
    unsigned i;

    tap_cuda_follow_lock();
    for (i = 0; i < TAP_CUDA_RECENT; i++) {
        p = tap_cuda_plan_at(TAP_CUDA_EXEC, atomic_load(&tap_cuda_recent[i]));
        if (p && p->first)
            ask_for(p);
    }
    tap_cuda_follow_unlock();
}

void tap_cuda_twin_stock_ahead(void)
{
    const int64_t until = tap_now() + AHEAD_NS;
    uint32_t before;

    want_recent();
    do {
        before = atomic_load(&stock.wanted);
        tap_cuda_twin_stock_make();
    } while (atomic_load(&stock.wanted) && atomic_load(&stock.wanted) != before && tap_now() < until);
}

void tap_cuda_twin_stock_make(void)
{
    void *context = tap_gpu_stage_context();
    struct tap_cuda_plan *p;
    struct tap_cuda_aside a;
    int64_t until;

    if (!tap_cuda_twin_stock_wants() || !context || !tap_cuda_step_aside(&a))
        return;
    if (!tap_driver.ctx_push(context)) {
        if (tap_cuda_twin_memory_open(context))
            for (until = tap_now() + MAKE_NS; tap_now() < until && (p = next_waiting());)
                make(p);
        tap_driver.ctx_pop(&context);
    }
    tap_cuda_step_back(&a);
}

bool tap_cuda_twin_stock_wants(void)
{
    return atomic_load(&stock.wanted) || atomic_load(&stock.turns);
}

bool tap_cuda_twin_stock_lacks(void)
{
    return atomic_load(&stock.wanted);
}

void tap_cuda_twin_stock_clear(void)
{
    struct tap_cuda_plan *p;
    struct tap_cuda_aside a;
    bool launching = false;
    unsigned i;

    if (!tap_cuda_step_aside(&a))
        return;
    tap_cuda_follow_lock();
    for (i = 0; (p = tap_cuda_plan_number(i)); i++) {
        p->no_room = false;
        if (p->launching) {           /* a thread stands in the driver: at the end of the next arm */
            launching = true;
            if (p->twin_state == TAP_CUDA_TWIN_TURNS)
                p->twin_state = TAP_CUDA_TWIN_READY;
            continue;
        }
        tap_cuda_twin_destroy(p);
        if (p->twin_state != TAP_CUDA_NO_TWIN)
            p->twin_state = TAP_CUDA_TWIN_NOT_YET;
    }
    atomic_store(&stock.wanted, 0);
    atomic_store(&stock.turns, 0);
    tap_cuda_follow_unlock();
    if (!launching)
        tap_cuda_twin_memory_close();
    tap_cuda_step_back(&a);
}

void tap_cuda_twin_stock_forget(void)
{
    atomic_store(&stock.wanted, 0);
    atomic_store(&stock.turns, 0);
    tap_cuda_twin_memory_forget();
}
