/* cuda_graphs.c - CUDA graphs, watched from the server's start: copies that are captured with them,
 * and what their launches bring.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: cuda.h and generated_cuda_meta.h of CUDA 13.0. Seen on an H100 and an H200 (a probe of
 * ours, CUDA 13.0, torch 2.11): a cuMemcpyDtoDAsync that a callback makes on a capturing stream
 * becomes a node of the graph and delivers the values of each replay; nothing may be allocated
 * during a capture; torch destroys its CUgraph once it has made a CUgraphExec of it. */
#include <stdlib.h>
#include <string.h>

#include "recorder/tap/core/tap_environ.h"
#include "recorder/tap/cuda/cuda_graph_arena.h"
#include "recorder/tap/cuda/cuda_graph_follow.h"
#include "recorder/tap/cuda/cuda_graph_launch.h"
#include "recorder/tap/cuda/cuda_graphs.h"
#include "recorder/tap/gpu/gpu_copies.h"
#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_queue.h"

#define SMALLEST (1u << 20)           /* bytes; a smaller arena is not worth having */
#define LARGEST_MIB (64u << 10)

static struct {
    _Atomic bool on;
    /* What follows, with the lock of cuda_graph_follow.h held. */
    uint64_t wanted;                  /* bytes of the arena */
    void *context;                    /* in which the arena was, or should have been, allocated */
    unsigned long long id;
    uint64_t arena, bytes;            /* 0: there is none */
} graphs;

/* ---- life ------------------------------------------------------------------------------------ */

uint64_t tap_cuda_graphs_wanted(void)
{
    char value[32], *end;
    unsigned long long mib;

    tap_environ_get("TD_TAP_GRAPHS", value, sizeof value);
    mib = strtoull(value, &end, 10);
    return end == value || *end || mib > LARGEST_MIB ? 0 : (uint64_t)mib << 20;
}

const char *tap_cuda_graphs_open(uint64_t arena_bytes)
{
    if (!tap_driver.capture_info)
        return "the CUDA driver cannot say which graph a stream is captured into (before CUDA "
               "12.3): launches in graphs are not seen";
    if (!tap_cuda_plans_open())
        return "no memory to watch CUDA graphs: launches in graphs are not seen";
    graphs.wanted = arena_bytes;
    atomic_store(&graphs.on, true);
    return NULL;
}

void tap_cuda_graphs_close(void)
{
    atomic_store(&graphs.on, false);
}

bool tap_cuda_graphs_on(void)
{
    return atomic_load_explicit(&graphs.on, memory_order_relaxed);
}

void tap_cuda_graphs_forget(void)
{
    atomic_store(&graphs.on, false);
    graphs.context = NULL;
    graphs.arena = graphs.bytes = 0;
}

/* ---- the arena ------------------------------------------------------------------------------- */

static void allocate_arena(void)
{
    uint64_t bytes = graphs.wanted;

    graphs.arena = graphs.bytes = 0;
    for (; bytes >= SMALLEST && !graphs.bytes; bytes /= 2)
        if (!tap_driver.mem_alloc(&graphs.arena, bytes))
            graphs.bytes = bytes;
}

/* Allocate the arena, once in a context: a capture is about to begin on this thread, and during a
 * capture nothing may be allocated. The context of a second device gets no arena. */
static void open_arena(void *context)
{
    /* Another thread may be capturing: the allocation is no part of that. */
    int mode = TD_CUDA_CAPTURE_MODE_RELAXED;
    unsigned long long id;

    if (!context || tap_driver.context_id(context, &id) ||
        (graphs.context && (graphs.context != context || graphs.id == id)))
        return;
    /* A new context, or the same one after a reset, which took the arena along. */
    graphs.context = context;
    graphs.id = id;
    if (tap_driver.exchange_capture_mode(&mode))
        return;
    allocate_arena();
    tap_driver.exchange_capture_mode(&mode);
}

/* ---- graphs coming and going ----------------------------------------------------------------- */

static const struct { uint32_t cbid; enum tap_cuda_graph_call call;
} calls[] = {
    {TD_CBID_BEGIN_CAPTURE, TAP_CUDA_BEGIN},
    {TD_CBID_BEGIN_CAPTURE_PTSZ, TAP_CUDA_BEGIN},
    {TD_CBID_BEGIN_CAPTURE_V2, TAP_CUDA_BEGIN},
    {TD_CBID_BEGIN_CAPTURE_V2_PTSZ, TAP_CUDA_BEGIN},
    {TD_CBID_BEGIN_CAPTURE_TO_GRAPH, TAP_CUDA_BEGIN},
    {TD_CBID_BEGIN_CAPTURE_TO_GRAPH_PTSZ, TAP_CUDA_BEGIN},
    {TD_CBID_END_CAPTURE, TAP_CUDA_END},
    {TD_CBID_END_CAPTURE_PTSZ, TAP_CUDA_END},
    {TD_CBID_GRAPH_INSTANTIATE, TAP_CUDA_INSTANTIATE},
    {TD_CBID_GRAPH_INSTANTIATE_V2, TAP_CUDA_INSTANTIATE},
    {TD_CBID_GRAPH_INSTANTIATE_FLAGS, TAP_CUDA_INSTANTIATE},
    {TD_CBID_GRAPH_INSTANTIATE_PARAMS, TAP_CUDA_INSTANTIATE},
    {TD_CBID_GRAPH_INSTANTIATE_PARAMS_PTSZ, TAP_CUDA_INSTANTIATE},
    {TD_CBID_GRAPH_CLONE, TAP_CUDA_CLONE},
    {TD_CBID_GRAPH_EXEC_UPDATE, TAP_CUDA_UPDATE},
    {TD_CBID_GRAPH_EXEC_UPDATE_V2, TAP_CUDA_UPDATE},
    {TD_CBID_GRAPH_EXEC_DESTROY, TAP_CUDA_EXEC_GONE},
    {TD_CBID_GRAPH_DESTROY, TAP_CUDA_GRAPH_GONE},
    {TD_CBID_GRAPH_EXEC_KERNEL_SET, TAP_CUDA_EXEC_CHANGED},
    {TD_CBID_GRAPH_EXEC_KERNEL_SET_V2, TAP_CUDA_EXEC_CHANGED},
    {TD_CBID_GRAPH_EXEC_MEMCPY_SET, TAP_CUDA_EXEC_CHANGED},
    {TD_CBID_GRAPH_EXEC_MEMSET_SET, TAP_CUDA_EXEC_CHANGED},
    {TD_CBID_GRAPH_EXEC_CHILD_SET, TAP_CUDA_EXEC_CHANGED},
    {TD_CBID_GRAPH_EXEC_NODE_SET, TAP_CUDA_EXEC_CHANGED},
    {TD_CBID_GRAPH_NODE_SET_ENABLED, TAP_CUDA_EXEC_CHANGED},
    {TD_CBID_GRAPH_ADD_CHILD, TAP_CUDA_GRAPH_CHANGED},
    {TD_CBID_GRAPH_ADD_NODE, TAP_CUDA_GRAPH_CHANGED},
    {TD_CBID_GRAPH_ADD_NODE_V2, TAP_CUDA_GRAPH_CHANGED},
    {TD_CBID_GRAPH_KERNEL_SET, TAP_CUDA_ANY_GRAPH_CHANGED},
    {TD_CBID_GRAPH_KERNEL_SET_V2, TAP_CUDA_ANY_GRAPH_CHANGED},
    {TD_CBID_GRAPH_MEMCPY_SET, TAP_CUDA_ANY_GRAPH_CHANGED},
    /* These name a node, not its graph. */
    {TD_CBID_GRAPH_NODE_SET, TAP_CUDA_ANY_GRAPH_CHANGED},
    {TD_CBID_GRAPH_DESTROY_NODE, TAP_CUDA_ANY_GRAPH_CHANGED},
};

uint32_t tap_cuda_graphs_watched(unsigned i)
{
    return i < sizeof calls / sizeof *calls ? calls[i].cbid : 0;
}

static enum tap_cuda_graph_call call_of(uint32_t cbid)
{
    size_t i;

    for (i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].cbid == cbid)
            return calls[i].call;
    return TAP_CUDA_NO_GRAPH_CALL;
}

bool tap_cuda_graphs_call(uint32_t cbid, const struct td_cupti_data *d)
{
    enum tap_cuda_graph_call call = call_of(cbid);

    if (call == TAP_CUDA_NO_GRAPH_CALL)
        return false;
    if (d->site == TD_CUPTI_ENTER && call == TAP_CUDA_BEGIN)
        open_arena(d->context);
    if (d->site == TD_CUPTI_ENTER)
        tap_cuda_follow_before(call, d->params);
    else
        tap_cuda_follow_after(call, d->params, d->result && *(const int *)d->result == 0);
    return true;
}

/* ---- captured launches ----------------------------------------------------------------------- */

static struct tap_cuda_captured *add_captured(struct tap_cuda_plan *p,
                                              const struct tap_gpu_launch *l,
                                              const struct tap_gpu_kernel *k)
{
    struct td_gpu_work w;

    if (!tap_gpu_gemm_read(l, k, &w)) {
        p->left++;
        return NULL;
    }
    return tap_cuda_plan_add(p, l, k, &w, l->context == graphs.context ? graphs.bytes : p->used);
}

static bool copy_operand(uint64_t to, const struct td_gpu_operand *o, void *stream)
{
    uint64_t rows = tap_gpu_operand_rows(o);

    return tap_gpu_copy_rows(to, o->address, rows, o->bytes / rows, tap_gpu_operand_pitch(o),
                             stream);
}

/* Have copies of the inputs, or of the output, to the slot captured as nodes of the graph. */
static bool copy_operands(const struct tap_cuda_captured *s, bool output, void *stream)
{
    int i;

    for (i = 0; i < s->product.work.n_op; i++) {
        const struct td_gpu_operand *o = &s->product.work.op[i];

        if (tap_gpu_operand_is_copied(o) && (o->use != TD_GPU_IN) == output &&
            !copy_operand(graphs.arena + s->slot + tap_gpu_gemm_slot_offset(&s->product.work, i), o, stream))
            return false;
    }
    return true;
}

bool tap_cuda_graphs_enter(const struct tap_gpu_launch *l, const char *symbol,
                           struct tap_cuda_captured **captured)
{
    struct tap_gpu_kernel *k;
    struct tap_cuda_plan *p;
    bool capturing;

    *captured = NULL;
    if (!tap_cuda_follow_captures())
        return false;
    tap_cuda_follow_lock();
    p = tap_cuda_follow_plan(l->stream, &capturing);
    if (p) {
        k = tap_gpu_graph_kernel_find(l->function, symbol);
        tap_cuda_plan_tally(p, k);
        *captured = k && k->adapter ? add_captured(p, l, k) : NULL;
        if (*captured && !copy_operands(*captured, false, l->stream)) {
            tap_cuda_plan_leave_out(p, 0);
            *captured = NULL;
        }
    }
    tap_cuda_follow_unlock();
    return capturing;
}

void tap_cuda_graphs_leave(const struct tap_cuda_captured *captured, const struct tap_gpu_launch *l,
                           bool ok)
{
    struct tap_cuda_plan *p;
    bool capturing;

    tap_cuda_follow_lock();
    p = tap_cuda_follow_plan(l->stream, &capturing);
    if (p && (!ok || !copy_operands(captured, true, l->stream)))
        tap_cuda_plan_leave_out(p, 0);
    tap_cuda_follow_unlock();
}

/* ---- launches of graphs ---------------------------------------------------------------------- */

uint64_t tap_cuda_graphs_launch(const void *exec, void *stream)
{
    uint64_t launch;

    if (!tap_cuda_graph_launch_note(exec, stream))
        return 0;
    tap_cuda_follow_lock();
    launch = tap_cuda_arena_enter();
    tap_cuda_follow_unlock();
    return launch;
}

void tap_cuda_graphs_launch_over(void)
{
    tap_cuda_follow_lock();
    tap_cuda_arena_leave();
    tap_cuda_follow_unlock();
}

void tap_cuda_graphs_launched(const void *exec, void *stream, void *context, uint64_t launch)
{
    struct tap_cuda_graph_launch l = {.stream = stream, .context = context, .number = launch,
                                      .arena = graphs.arena, .bytes = graphs.bytes};
    int status = TD_CUDA_CAPTURE_NONE;

    if (tap_driver.stream_is_capturing(stream, &status) || status != TD_CUDA_CAPTURE_NONE)
        return;
    tap_cuda_graph_launch_begin(&l, exec);
    tap_cuda_graph_launch_end(&l, true);
}
