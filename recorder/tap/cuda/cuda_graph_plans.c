/* cuda_graph_plans.c - what is known of CUDA graphs, in tables of fixed size.
 * SPDX-License-Identifier: Apache-2.0
 *
 * vLLM captures two thousand graphs of four to some hundred GEMMs. The tables are mapped once and
 * fill as they are used. */
#include <string.h>
#include <sys/mman.h>

#include "recorder/tap/cuda/cuda_graph_plans.h"
#include "recorder/tap/gpu/gpu_record_slots.h"

#define PLANS 8192u
#define CAPTURED 65536u
#define HANDLES 16384u
#define BUCKETS 4096u                 /* a power of two */

struct handle {
    struct handle *next;
    const void *handle;
    struct tap_cuda_plan *plan;
    enum tap_cuda_handle kind;
};

static struct {
    struct tap_cuda_plan plan[PLANS];
    struct tap_cuda_captured captured[CAPTURED];
    struct handle handle[HANDLES];
    struct handle *bucket[BUCKETS], *free_handles;
    struct tap_cuda_captured *free_first, *free_last; /* the one that was freed longest ago is first */
    /* How many were ever used; look: where a free plan was found last. */
    unsigned n_plans, n_captured, n_handles, look;
} *all;

bool tap_cuda_plans_open(void)
{
    if (!all) {
        all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if ((void *)all == MAP_FAILED)
            all = NULL;
    }
    return all && tap_gpu_graph_kernels_open();
}

void tap_cuda_plans_forget(void)
{
    all = NULL;                       /* the parent's; a child that uses CUDA gets its own */
    tap_gpu_graph_kernels_forget();
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void (*on_free)(struct tap_cuda_plan *p);

void tap_cuda_plans_on_free(void (*fn)(struct tap_cuda_plan *p))
{
    on_free = fn;
}

struct tap_cuda_plan *tap_cuda_plan_number(unsigned i)
{
    return all && i < all->n_plans ? &all->plan[i] : NULL;
}

/* Entries of the queue may still refer to them, but no more will. */
static void free_captured(struct tap_cuda_plan *p)
{
    const struct tap_gpu_queue_mark put = tap_gpu_queue_mark();
    struct tap_cuda_captured *s;

    for (s = p->first; s; s = s->next)
        s->put = put;
    *(all->free_last ? &all->free_last->next : &all->free_first) = p->first;
    all->free_last = p->last;
}

static void free_plan(struct tap_cuda_plan *p)
{
    if (on_free)
        on_free(p);
    if (p->first)
        free_captured(p);
    memset(p, 0, sizeof *p);
}

static struct tap_cuda_plan *new_plan(void)
{
    unsigned tries;

    if (all->n_plans < PLANS)
        return &all->plan[all->n_plans++];
    for (tries = 0; tries < PLANS; tries++) {
        struct tap_cuda_plan *p = &all->plan[all->look++ % PLANS];

        if (!p->users)
            return p;
    }
    return NULL;
}

/* ---- handles --------------------------------------------------------------------------------- */

static struct handle **find_handle(enum tap_cuda_handle kind, const void *handle)
{
    struct handle **at =
        &all->bucket[((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15u >> 40 & (BUCKETS - 1)];

    while (*at && ((*at)->handle != handle || (*at)->kind != kind))
        at = &(*at)->next;
    return at;
}

struct tap_cuda_plan *tap_cuda_plan_at(enum tap_cuda_handle kind, const void *handle)
{
    struct handle *h = *find_handle(kind, handle);

    return h ? h->plan : NULL;
}

void tap_cuda_plan_release(struct tap_cuda_plan *p)
{
    if (!--p->users)
        free_plan(p);
}

static void drop_handle(struct handle **at)
{
    struct handle *h = *at;

    tap_cuda_plan_release(h->plan);
    *at = h->next;
    h->next = all->free_handles;
    all->free_handles = h;
}

static struct handle *new_handle(void)
{
    struct handle *h = all->free_handles;

    if (h)
        all->free_handles = h->next;
    else if (all->n_handles < HANDLES)
        h = &all->handle[all->n_handles++];
    return h;
}

void tap_cuda_plan_link(enum tap_cuda_handle kind, void *handle, struct tap_cuda_plan *p)
{
    struct handle **at, *h;

    if (p)
        p->users++;                   /* p may be the plan that the handle stands for now */
    at = find_handle(kind, handle);
    if (*at)
        drop_handle(at);
    h = p ? new_handle() : NULL;
    if (p && !h && !--p->users)
        free_plan(p);                 /* no handle is left: this graph counts as not watched */
    if (!h)
        return;
    at = find_handle(kind, handle);
    *h = (struct handle){*at, handle, p, kind};
    *at = h;
}

void tap_cuda_plans_forget_graphs(void)
{
    unsigned i;

    for (i = 0; i < BUCKETS; i++) {
        struct handle **at = &all->bucket[i];

        while (*at)
            if ((*at)->kind == TAP_CUDA_GRAPH)
                drop_handle(at);
            else
                at = &(*at)->next;
    }
}

/* The handle of a capture that failed may be another graph's by now. A capture that has ended may
 * go on: cuStreamBeginCaptureToGraph. */
struct tap_cuda_plan *tap_cuda_plan_capture(void *graph, uint64_t capture)
{
    struct tap_cuda_plan *p = tap_cuda_plan_at(TAP_CUDA_GRAPH, graph);

    if (p && (p->capture == capture || p->ended)) {
        p->capture = capture;
        return p;
    }
    p = new_plan();
    if (!p)
        return NULL;
    p->capture = capture;
    tap_cuda_plan_link(TAP_CUDA_GRAPH, graph, p);
    return tap_cuda_plan_at(TAP_CUDA_GRAPH, graph);
}

/* ---- launches -------------------------------------------------------------------------------- */

static void leave_launch_out(struct tap_cuda_plan *p, struct tap_cuda_captured *s)
{
    p->left_bytes += s->left_out ? 0 : s->product.bytes;
    s->left_out = true;
}

void tap_cuda_plan_leave_out(struct tap_cuda_plan *p, uint64_t bytes)
{
    struct tap_cuda_captured *s;

    p->left_bytes += bytes;
    if (p->op_left)
        return;
    p->op_left = true;
    p->left++;
    for (s = p->op; s; s = s->next)
        leave_launch_out(p, s);
}

void tap_cuda_plan_nest(struct tap_cuda_plan *p, const struct tap_cuda_plan *inner)
{
    struct tap_cuda_captured *s;

    p->sum.known = p->sum.asked = false;
    for (s = p->first; s; s = s->next) {
        p->left += !s->left_out && !s->joins;
        leave_launch_out(p, s);
    }
    for (s = inner->first; s; s = s->next)
        p->left += !s->left_out && !s->joins;
    p->left += inner->left;
    p->nested = true;
}

static struct tap_cuda_captured *new_captured(void)
{
    struct tap_cuda_captured *s = all->free_first;

    if (s && tap_gpu_queue_is_past(s->put)) {
        all->free_first = s->next;
        if (!s->next)
            all->free_last = NULL;
        return s;
    }
    return all->n_captured < CAPTURED ? &all->captured[all->n_captured++] : NULL;
}

struct tap_cuda_captured *tap_cuda_plan_add(struct tap_cuda_plan *p, const struct tap_gpu_launch *l,
                                         const struct tap_gpu_kernel *k,
                                         const struct td_gpu_work *w, uint64_t arena_bytes)
{
    uint64_t bytes = tap_gpu_gemm_slot_offset(w, w->n_op);
    struct tap_cuda_captured *s = NULL;

    p->sum.known = p->sum.asked = false; /* a graph that was launched may get more */
    if (tap_gpu_gemm_weights(w) != p->weights)
        p->weights = tap_gpu_gemm_weights(w), p->op = NULL, p->op_left = false;
    if (!p->op_left && !p->nested && tap_gpu_gemm_operand(w, TD_GPU_IN) && p->used <= arena_bytes &&
        bytes <= arena_bytes - p->used)
        s = new_captured();
    if (!s) {
        tap_cuda_plan_leave_out(p, tap_gpu_gemm_copied_bytes(w));
        return NULL;
    }
    *s = (struct tap_cuda_captured){.slot = p->used, .bytes = bytes, .joins = p->op,
                                    .product = {.kernel = k, .launch = *l, .work = *w}};
    s->product.weights = p->weights;
    s->product.bytes = tap_gpu_gemm_copied_bytes(w);
    s->product.slot_bytes = tap_gpu_slot_bytes(w);
    s->product.launch.params = NULL;
    s->product.launch.packed = NULL;
    p->used += bytes;
    *(p->last ? &p->last->next : &p->first) = s;
    p->last = s;
    p->op = p->op ? p->op : s;
    return s;
}

void tap_cuda_plan_tally(struct tap_cuda_plan *p, struct tap_gpu_kernel *k)
{
    unsigned i;

    for (i = 0; k && i < p->n_tallies && p->tally[i].kernel != k; i++)
        ;
    if (!k || i == TAP_CUDA_TALLIES) {
        p->unnamed++;
        return;
    }
    p->tally[i].kernel = k;
    p->tally[i].n++;
    p->n_tallies += i == p->n_tallies;
}
