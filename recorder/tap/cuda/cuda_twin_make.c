/* cuda_twin_make.c - build the twin of a graph.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: cuda.h of CUDA 13.0. Seen on an H100 in a small program: nodes that are found in a clone
 * before its original is destroyed stay; a node put between a kernel and its dependents copies what
 * the kernel wrote. */
#include <string.h>

#include "recorder/tap/core/tap_environ.h"
#include "recorder/tap/cuda/cuda_twin_make.h"
#include "recorder/tap/gpu/gpu_copies.h"
#include "recorder/tap/gpu/gpu_record_slots.h"
#include "recorder/tap/gpu/gpu_threads.h"
#include "recorder/tap/gpu/gpu_weight_sets.h"

#define DEPENDENTS 64u                /* of one product; one that has more is left out */

bool tap_cuda_step_aside(struct tap_cuda_aside *a)
{
    a->mode = TD_CUDA_CAPTURE_MODE_RELAXED;
    a->own = tap_gpu_set_own_calls(true);
    if (!tap_driver.exchange_capture_mode(&a->mode))
        return true;
    tap_gpu_set_own_calls(a->own);
    return false;
}

void tap_cuda_step_back(struct tap_cuda_aside *a)
{
    tap_driver.exchange_capture_mode(&a->mode);
    tap_gpu_set_own_calls(a->own);
}

bool tap_cuda_twin_keep(struct tap_cuda_plan *p, void *graph)
{
    struct tap_cuda_captured *s;
    size_t nodes = 0;
    unsigned i;

    if (tap_driver.graph_clone(&p->base, graph)) {
        p->base = NULL;
        return false;
    }
    p->nodes = tap_driver.graph_nodes(p->base, NULL, &nodes) ? 0 : nodes;
    for (s = p->first; s; s = s->next) {
        if (s->head && tap_driver.graph_find_in_clone(&s->head, s->head, p->base))
            s->has_head = false;
        for (i = 0; i < s->n_tails && !s->uncopyable; i++)
            if (tap_driver.graph_find_in_clone(&s->tail[i], s->tail[i], p->base))
                s->uncopyable = true;
    }
    return true;
}

/* Are copies launched as soon as all of the product has begun? On an H100 such a node costs half of one
 * that is launched behind it (bench/tap/node_cost.cu). */
static bool early_is_wanted(void)
{
    char value[4];

    tap_environ_get("TD_TAP_TWINS_EARLY", value, sizeof value);
    return strcmp(value, "0") != 0;
}

/* ---- one product ----------------------------------------------------------------------------- */

struct dependents { void *node[DEPENDENTS]; uint32_t of[DEPENDENTS]; size_t n; }; /* of: bit i, of tail i */

static bool is_plain(const struct td_cuda_edge *e)
{
    return !e->from_port && !e->to_port && !e->type;
}

static size_t place_of(const struct dependents *d, const void *node)
{
    size_t i;

    for (i = 0; i < d->n && d->node[i] != node; i++)
        ;
    return i;
}

/* Add what depends on that tail. False: too many, or an edge that means more than "after", as
 * programmatic launches have. */
static bool add_dependents(struct dependents *d, void *node, unsigned tail)
{
    struct td_cuda_edge edge[DEPENDENTS];
    void *found[DEPENDENTS];
    size_t n = 0, i, at;

    if (tap_driver.graph_dependents(node, NULL, NULL, &n) || n > DEPENDENTS ||
        (n && tap_driver.graph_dependents(node, found, edge, &n)))
        return false;
    for (i = 0; i < n; i++) {
        at = place_of(d, found[i]);
        if (!is_plain(&edge[i]) || at == DEPENDENTS)
            return false;
        if (at == d->n)
            d->node[d->n] = found[i], d->of[d->n++] = 0;
        d->of[at] |= 1u << tail;
    }
    return true;
}

static bool gather_sample(const struct tap_cuda_captured *s, uint64_t slot, struct tap_gpu_copies *c)
{
    const uint64_t to = slot + tap_gpu_slot_sample(&s->product.work);
    struct tap_gpu_weight_set set;
    uint64_t at, n;
    int t;

    if (!tap_gpu_weight_set_read(&set, &s->product.work))
        return false;
    for (t = 0; t < TAP_MAX_WEIGHTS; t++) {
        at = tap_gpu_weight_set_sample(&set, t, &n);
        if (n && !tap_gpu_copies_add_to_node(c, to + (uint64_t)t * TAP_GPU_SAMPLE_EACH,
                                             set.address[t] + at, 1, n, n))
            return false;
    }
    return true;
}

static bool gather_operands(const struct tap_cuda_captured *s, uint64_t slot,
                            struct tap_gpu_copies *c)
{
    int i;

    for (i = 0; i < s->product.work.n_op; i++) {
        const struct td_gpu_operand *o = &s->product.work.op[i];
        uint64_t rows = tap_gpu_operand_rows(o);

        if (tap_gpu_operand_is_copied(o) &&
            !tap_gpu_copies_add_to_node(c, slot + tap_gpu_gemm_slot_offset(&s->product.work, i), o->address,
                                        rows, o->bytes / rows, tap_gpu_operand_pitch(o)))
            return false;
    }
    return true;
}

/* May the copies be launched while the product, whose only tail this is, runs, and wait for its end
 * by themselves? */
static bool may_be_early(void *tail)
{
    struct td_cuda_kernel_node what;

    return tap_gpu_copies_may_be_early() && tap_driver.graph_kernel_params &&
           !tap_driver.graph_kernel_params(tail, &what);
}

/* Let all that depended on the tails depend on the copies alone. An edge that is left makes the
 * driver run the copies on a branch of their own, which costs a microsecond; what it does is the same. */
static bool put_before(void *node, void *graph, void *const *tail, unsigned n_tails,
                       const struct dependents *d)
{
    const struct td_cuda_edge plain = {0};
    size_t i;
    unsigned t;

    for (i = 0; i < d->n; i++) {
        if (tap_driver.graph_add_edges(graph, &node, &d->node[i], &plain, 1))
            return false;
        for (t = 0; t < n_tails; t++)
            if (d->of[i] >> t & 1)
                tap_driver.graph_remove_edges(graph, &tail[t], &d->node[i], &plain, 1);
    }
    return true;
}

/* Put a node that copies the product's operands, and a sample of its weights, between its tails and all that depends on them: the
 * product itself has read A by then, and nothing has overwritten A or C yet. */
static bool add_copies(const struct tap_cuda_captured *s, void *graph, uint64_t slot, bool early)
{
    const struct td_cuda_edge plain = {0}, before_end = {.from_port = TD_CUDA_PORT_LAUNCHED,
                                                         .type = TD_CUDA_EDGE_PROGRAMMATIC};
    struct tap_gpu_copies c = {.n = 0};
    struct dependents d = {.n = 0};
    struct td_cuda_kernel_node what;
    void *tail[TAP_CUDA_TAILS], *node, *params[1];
    unsigned i;

    for (i = 0; i < s->n_tails; i++)
        if (tap_driver.graph_find_in_clone(&tail[i], s->tail[i], graph) ||
            !add_dependents(&d, tail[i], i))
            return false;
    if (!gather_operands(s, slot, &c) || !gather_sample(s, slot, &c))
        return false;
    early = early && s->n_tails == 1 && may_be_early(tail[0]);
    tap_gpu_copies_fill_node(&c, &what, params, early);
    if (tap_driver.graph_add_kernel(&node, graph, tail, early ? 0 : s->n_tails, &what) ||
        (early && tap_driver.graph_add_edges(graph, tail, &node, &before_end, 1) &&
         tap_driver.graph_add_edges(graph, tail, &node, &plain, 1)))
        return false;
    return put_before(node, graph, tail, s->n_tails, &d);
}

/* ---- the twin -------------------------------------------------------------------------------- */

void tap_cuda_twin_share_out(struct tap_cuda_plan *p, uint64_t arena_bytes)
{
    struct tap_cuda_captured *s;
    uint64_t used = 0;
    uint32_t part = 0;

    for (s = p->first; s; s = s->next) {
        s->slot = TAP_CUDA_NO_SLOT;
        s->part = part;
        if (s->uncopyable || s->bytes > arena_bytes)
            continue;
        if (used > arena_bytes - s->bytes)
            used = 0, part++;
        s->slot = used;
        s->part = part;
        used += s->bytes;
    }
    p->parts = part + 1;
    p->part %= p->parts;
}

static bool has_copies(const struct tap_cuda_captured *s, uint32_t part)
{
    return !s->uncopyable && s->slot != TAP_CUDA_NO_SLOT && s->part == part;
}

uint64_t tap_cuda_twin_nodes(const struct tap_cuda_plan *p)
{
    const struct tap_cuda_captured *s;
    uint64_t n = 0, most = 0;
    uint32_t part = 0;

    for (s = p->first; s; s = s->next) { /* parts come one after the other */
        n = s->part == part ? n : 0;
        part = s->part;
        n += has_copies(s, part);
        most = n > most ? n : most;
    }
    return p->nodes + most;
}

/* Copies of that part's products. False: of none of them can there be any. */
static bool add_part(struct tap_cuda_plan *p, void *graph, uint64_t arena, uint32_t part, bool early)
{
    struct tap_cuda_captured *s;
    bool any = false;

    for (s = p->first; s; s = s->next)
        if (has_copies(s, part) && add_copies(s, graph, arena + s->slot, early))
            any = true;
        else if (has_copies(s, part))
            s->uncopyable = true;
    return any;
}

static void *make(struct tap_cuda_plan *p, uint64_t arena, uint32_t part, bool early)
{
    void *graph, *exec = NULL;
    bool any;

    if (tap_driver.graph_clone(&graph, p->base))
        return NULL;
    any = add_part(p, graph, arena, part, early) || p->parts > 1;
    if (!any || tap_driver.graph_instantiate(&exec, graph, p->flags))
        exec = NULL;
    tap_driver.graph_destroy(graph);
    return exec;
}

void *tap_cuda_twin_make(struct tap_cuda_plan *p, uint64_t arena, uint32_t part)
{
    void *exec = early_is_wanted() ? make(p, arena, part, true) : NULL;

    return exec ? exec : make(p, arena, part, false);
}
