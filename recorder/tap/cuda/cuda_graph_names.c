/* cuda_graph_names.c - the kernels that a server's CUDA graphs launch, by name.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A product's kernels are the nodes between what came before its call in the capture and what it
 * ended with, as far as each of them depends on one node alone: where branches meet, another
 * stream's kernels may come before. */
#include <stdlib.h>
#include <sys/mman.h>

#include "recorder/tap/cuda/cuda_graph_follow.h"
#include "recorder/tap/cuda/cuda_graph_names.h"
#include "recorder/tap/cuda/cuda_twin_make.h"
#include "recorder/tap/cuda/cuda_twins.h"

#define NODES 65536u                  /* of one graph */
#define ALL_NODES (1u << 18)          /* of all graphs; vLLM's piecewise ones have some ten thousand */
#define CALL_NODES 32                 /* of one product */
#define BEFORE 8u                     /* nodes that one depends on */

struct lists { void *node[NODES], *product[NODES]; size_t n_product; };

/* ---- which nodes are a product's ------------------------------------------------------------- */

/* The one node that this one depends on; NULL: there is none, or more. */
static void *one_before(void *node)
{
    struct td_cuda_edge edge[BEFORE];
    void *before[BEFORE];
    size_t n = 0;

    if (tap_driver.graph_dependencies(node, NULL, NULL, &n) || n != 1 ||
        tap_driver.graph_dependencies(node, before, edge, &n))
        return NULL;
    return before[0];
}

static void add_product(struct lists *l, const struct tap_cuda_captured *s)
{
    unsigned i;
    int steps;

    for (i = 0; i < s->n_tails; i++) {
        void *node = s->tail[i];

        for (steps = 0; node && steps < CALL_NODES && l->n_product < NODES; steps++) {
            if (s->has_head && node == s->head)
                break;
            l->product[l->n_product++] = node;
            node = s->has_head ? one_before(node) : NULL;
        }
    }
}

static int by_address(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;

    return (x > y) - (x < y);
}

static bool is_product(const struct lists *l, void *node)
{
    return bsearch(&node, l->product, l->n_product, sizeof node, by_address);
}

/* ---- their names ----------------------------------------------------------------------------- */

static void note_node(struct tap_gpu_times *t, void *node, bool recorded)
{
    struct td_cuda_kernel_node what = {0};
    const char *name = NULL;

    if (tap_driver.graph_kernel_params(node, &what))
        return;                       /* no kernel: a copy, a child graph */
    if (what.kernel)
        tap_driver.kernel_name(&name, what.kernel);
    else if (what.function)
        tap_driver.func_name(&name, what.function);
    if (name && *name)
        tap_gpu_times_note(t, tap_gpu_symbol_hash(name), recorded);
}

/* False: the graph has too many nodes, or the driver does not tell. */
static bool note_nodes(struct tap_gpu_times *t, struct lists *l, const struct tap_cuda_plan *p,
                       size_t *left)
{
    const struct tap_cuda_captured *s;
    size_t n = 0, i;

    if (tap_driver.graph_nodes(p->base, NULL, &n) || n > NODES || n > *left ||
        (n && tap_driver.graph_nodes(p->base, l->node, &n)))
        return false;
    *left -= n;
    l->n_product = 0;
    for (s = p->first; s; s = s->next)
        if (!s->uncopyable && !s->left_out)
            add_product(l, s);
    qsort(l->product, l->n_product, sizeof *l->product, by_address);
    for (i = 0; i < n; i++)
        note_node(t, l->node[i], is_product(l, l->node[i]));
    return true;
}

static bool note_graph(struct tap_gpu_times *t, struct lists *l, const struct tap_cuda_plan *p,
                       size_t *left)
{
    void *popped;
    bool told;

    if (!p->context || tap_driver.ctx_push(p->context))
        return false;
    told = note_nodes(t, l, p, left);
    tap_driver.ctx_pop(&popped);
    return told;
}

static bool note_graphs(struct tap_gpu_times *t, struct lists *l)
{
    const struct tap_cuda_plan *p;
    size_t left = ALL_NODES;
    bool all = true;
    unsigned i;

    tap_cuda_follow_lock();
    for (i = 0; all && (p = tap_cuda_plan_number(i)); i++)
        if (p->users && p->base)
            all = note_graph(t, l, p, &left);
    tap_cuda_follow_unlock();
    return all;
}

void tap_cuda_graph_names_note(struct tap_gpu_times *t)
{
    struct tap_cuda_aside a;
    struct lists *l;
    bool all = false;

#define MISSES(name, member, args) || !tap_driver.member
    if (!tap_cuda_twins_on() || !tap_cuda_twins_have_plans() ||
        (false TD_CUDA_NAMES(MISSES)) || !tap_cuda_step_aside(&a))
        return;                       /* no name is noted: it stays unknown */
    l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
             -1, 0);
    if ((void *)l != MAP_FAILED) {
        all = note_graphs(t, l);
        munmap(l, sizeof *l);
    }
    tap_cuda_step_back(&a);
    if (!all)
        tap_gpu_times_doubt(t);
}
