/* cuda_graphs.c - CUDA graphs, watched from the server's start: copies that are captured with them,
 * and what their launches bring.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: cuda.h and generated_cuda_meta.h of CUDA 13.0. Seen on an H100 and an H200 (a probe of
 * ours, CUDA 13.0, torch 2.11): a cuMemcpyDtoDAsync that a callback makes on a capturing stream
 * becomes a node of the graph and delivers the values of each replay; nothing may be allocated
 * during a capture; torch destroys its CUgraph once it has made a CUgraphExec of it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/tap/core/tap_environ.h"
#include "recorder/tap/cuda/cuda_graph_plans.h"
#include "recorder/tap/cuda/cuda_graphs.h"
#include "recorder/tap/gpu/gpu_copies.h"
#include "recorder/tap/gpu/gpu_gate.h"
#include "recorder/tap/gpu/gpu_queue.h"

#define SMALLEST (1u << 20)           /* bytes; a smaller arena is not worth having */
#define LARGEST_MIB (64u << 10)

static struct {
    _Atomic bool on;
    /* Captures that go on; while there are none, launches are not checked for being captured. */
    _Atomic uint32_t begun;
    /* Protects what follows, and the plans. Held for microseconds, but for a launch that is
     * captured. */
    pthread_mutex_t lock;
    uint64_t wanted;                  /* bytes of the arena */
    void *context;                    /* in which the arena was, or should have been, allocated */
    unsigned long long id;
    uint64_t arena, bytes;            /* 0: there is none */
    /* Number of the stream that graphs with slots are launched on in this arm; 0: none was. */
    uint64_t stream;
    _Atomic bool crossed;             /* they are launched on more than one */
} graphs = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

void tap_cuda_graphs_arm(void)
{
    struct tap_gpu_kernel *k;
    bool used;
    unsigned i;

    if (!tap_cuda_graphs_on())
        return;
    pthread_mutex_lock(&graphs.lock);
    graphs.stream = 0;
    graphs.crossed = false;
    for (i = 0; (k = tap_gpu_graph_kernel_at(i, &used)) && used; i++) {
        atomic_store(&k->n, 0);
        k->sent = 0;
    }
    pthread_mutex_unlock(&graphs.lock);
}

void tap_cuda_graphs_forget(void)
{
    atomic_store(&graphs.on, false);
    atomic_store(&graphs.begun, 0);
    pthread_mutex_init(&graphs.lock, NULL); /* the parent's other threads may have held it */
    graphs.context = NULL;
    graphs.arena = graphs.bytes = 0;
    tap_cuda_plans_forget();
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

enum call {
    NONE,
    BEGIN,
    END,
    INSTANTIATE,
    CLONE,
    UPDATE,
    EXEC_GONE,
    GRAPH_GONE,
    EXEC_CHANGED,
    GRAPH_CHANGED,
    ANY_GRAPH_CHANGED
};

static const struct { uint32_t cbid; enum call call;
} calls[] = {
    {TD_CBID_BEGIN_CAPTURE, BEGIN},
    {TD_CBID_BEGIN_CAPTURE_PTSZ, BEGIN},
    {TD_CBID_BEGIN_CAPTURE_V2, BEGIN},
    {TD_CBID_BEGIN_CAPTURE_V2_PTSZ, BEGIN},
    {TD_CBID_BEGIN_CAPTURE_TO_GRAPH, BEGIN},
    {TD_CBID_BEGIN_CAPTURE_TO_GRAPH_PTSZ, BEGIN},
    {TD_CBID_END_CAPTURE, END},
    {TD_CBID_END_CAPTURE_PTSZ, END},
    {TD_CBID_GRAPH_INSTANTIATE, INSTANTIATE},
    {TD_CBID_GRAPH_INSTANTIATE_V2, INSTANTIATE},
    {TD_CBID_GRAPH_INSTANTIATE_FLAGS, INSTANTIATE},
    {TD_CBID_GRAPH_INSTANTIATE_PARAMS, INSTANTIATE},
    {TD_CBID_GRAPH_INSTANTIATE_PARAMS_PTSZ, INSTANTIATE},
    {TD_CBID_GRAPH_CLONE, CLONE},
    {TD_CBID_GRAPH_EXEC_UPDATE, UPDATE},
    {TD_CBID_GRAPH_EXEC_UPDATE_V2, UPDATE},
    {TD_CBID_GRAPH_EXEC_DESTROY, EXEC_GONE},
    {TD_CBID_GRAPH_DESTROY, GRAPH_GONE},
    {TD_CBID_GRAPH_EXEC_KERNEL_SET, EXEC_CHANGED},
    {TD_CBID_GRAPH_EXEC_KERNEL_SET_V2, EXEC_CHANGED},
    {TD_CBID_GRAPH_EXEC_MEMCPY_SET, EXEC_CHANGED},
    {TD_CBID_GRAPH_EXEC_MEMSET_SET, EXEC_CHANGED},
    {TD_CBID_GRAPH_EXEC_CHILD_SET, EXEC_CHANGED},
    {TD_CBID_GRAPH_EXEC_NODE_SET, EXEC_CHANGED},
    {TD_CBID_GRAPH_NODE_SET_ENABLED, EXEC_CHANGED},
    {TD_CBID_GRAPH_ADD_CHILD, GRAPH_CHANGED},
    {TD_CBID_GRAPH_ADD_NODE, GRAPH_CHANGED},
    {TD_CBID_GRAPH_ADD_NODE_V2, GRAPH_CHANGED},
    {TD_CBID_GRAPH_KERNEL_SET, ANY_GRAPH_CHANGED},
    {TD_CBID_GRAPH_KERNEL_SET_V2, ANY_GRAPH_CHANGED},
    {TD_CBID_GRAPH_MEMCPY_SET, ANY_GRAPH_CHANGED},
    /* These name a node, not its graph. */
    {TD_CBID_GRAPH_NODE_SET, ANY_GRAPH_CHANGED},
    {TD_CBID_GRAPH_DESTROY_NODE, ANY_GRAPH_CHANGED},
};

uint32_t tap_cuda_graphs_watched(unsigned i)
{
    return i < sizeof calls / sizeof *calls ? calls[i].cbid : 0;
}

static enum call call_of(uint32_t cbid)
{
    size_t i;

    for (i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].cbid == cbid)
            return calls[i].call;
    return NONE;
}

/* Before the call: forget what will not be there any more, and handles that another thread may
 * get. */
static void before_call(enum call call, void *const *word, void *context)
{
    if (call == BEGIN)
        open_arena(context);
    if (call == EXEC_GONE || call == EXEC_CHANGED)
        tap_cuda_plan_link(TAP_CUDA_EXEC, word[0], NULL);
    if (call == GRAPH_GONE)
        tap_cuda_plan_link(TAP_CUDA_GRAPH, word[0], NULL);
    if (call == GRAPH_CHANGED)
        tap_cuda_plan_link(TAP_CUDA_GRAPH, word[1], NULL);
    if (call == ANY_GRAPH_CHANGED)
        tap_cuda_plans_forget_graphs();
}

/* A capture that failed is over too. One that another thread tried to end goes on. */
static void capture_ended(void *stream, void *const *graph, bool ok)
{
    int status = TD_CUDA_CAPTURE_NONE;
    struct tap_cuda_plan *p =
        ok && graph && *graph ? tap_cuda_plan_at(TAP_CUDA_GRAPH, *graph) : NULL;

    if (p)
        p->ended = true;
    if (!tap_driver.stream_is_capturing(stream, &status) && status == TD_CUDA_CAPTURE_NONE &&
        atomic_load(&graphs.begun))
        atomic_fetch_sub(&graphs.begun, 1);
}

static struct tap_cuda_plan *plan_of_graph(const void *graph)
{
    struct tap_cuda_plan *p = tap_cuda_plan_at(TAP_CUDA_GRAPH, graph);

    return p && p->ended ? p : NULL;
}

static void after_call(enum call call, void *const *word, bool ok)
{
    if (call == BEGIN && ok)
        atomic_fetch_add(&graphs.begun, 1);
    if (call == END)
        capture_ended(word[0], word[1], ok);
    if (call == INSTANTIATE && ok && word[0])
        tap_cuda_plan_link(TAP_CUDA_EXEC, *(void *const *)word[0], plan_of_graph(word[1]));
    if (call == CLONE && ok && word[0])
        tap_cuda_plan_link(TAP_CUDA_GRAPH, *(void *const *)word[0], plan_of_graph(word[1]));
    if (call == UPDATE)               /* after a failure its state is not known */
        tap_cuda_plan_link(TAP_CUDA_EXEC, word[0], ok ? plan_of_graph(word[1]) : NULL);
}

bool tap_cuda_graphs_call(uint32_t cbid, const struct td_cupti_data *d)
{
    enum call call = call_of(cbid);

    if (call == NONE)
        return false;
    pthread_mutex_lock(&graphs.lock);
    if (d->site == TD_CUPTI_ENTER)
        before_call(call, d->params, d->context);
    else
        after_call(call, d->params, d->result && *(const int *)d->result == 0);
    pthread_mutex_unlock(&graphs.lock);
    return true;
}

/* ---- captured launches ----------------------------------------------------------------------- */

/* The plan of the capture that goes on on the stream, NULL: there is none, or too many. *capturing:
 * a capture goes on. */
static struct tap_cuda_plan *plan_of_capture(void *stream, bool *capturing)
{
    int status = TD_CUDA_CAPTURE_NONE;
    uint64_t id = 0;
    void *graph = NULL;

    *capturing = false;
    if (!atomic_load_explicit(&graphs.begun, memory_order_relaxed) ||
        tap_driver.capture_info(stream, &status, &id, &graph, NULL, NULL, NULL) ||
        status != TD_CUDA_CAPTURE_ACTIVE || !graph)
        return NULL;
    *capturing = true;
    return tap_cuda_plan_capture(graph, id);
}

static struct tap_cuda_captured *add_captured(struct tap_cuda_plan *p,
                                              const struct tap_gpu_launch *l,
                                              const struct tap_gpu_kernel *k)
{
    struct tap_cuda_captured *s;
    struct td_gpu_work w;

    if (!tap_gpu_gemm_read(l, k, &w)) {
        p->left++;
        return NULL;
    }
    s = tap_cuda_plan_add(p, l, k, &w, l->context == graphs.context ? graphs.bytes : p->used);
    if (s)
        s->launch.slot += graphs.arena;
    return s;
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

    for (i = 0; i < s->work.n_op; i++) {
        const struct td_gpu_operand *o = &s->work.op[i];

        if (tap_gpu_operand_is_copied(o) && (o->use != TD_GPU_IN) == output &&
            !copy_operand(s->launch.slot + tap_gpu_gemm_slot_offset(&s->work, i), o, stream))
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
    if (!atomic_load_explicit(&graphs.begun, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&graphs.lock);
    p = plan_of_capture(l->stream, &capturing);
    if (p) {
        k = tap_gpu_graph_kernel_find(l->function, symbol);
        tap_cuda_plan_tally(p, k);
        *captured = k && k->adapter ? add_captured(p, l, k) : NULL;
        if (*captured && !copy_operands(*captured, false, l->stream)) {
            tap_cuda_plan_leave_out(p, 0);
            *captured = NULL;
        }
    }
    pthread_mutex_unlock(&graphs.lock);
    return capturing;
}

void tap_cuda_graphs_leave(const struct tap_cuda_captured *captured, const struct tap_gpu_launch *l,
                           bool ok)
{
    struct tap_cuda_plan *p;
    bool capturing;

    pthread_mutex_lock(&graphs.lock);
    p = plan_of_capture(l->stream, &capturing);
    if (p && (!ok || !copy_operands(captured, true, l->stream)))
        tap_cuda_plan_leave_out(p, 0);
    pthread_mutex_unlock(&graphs.lock);
}

/* ---- launches of graphs ---------------------------------------------------------------------- */

/* Graphs on two streams may run at the same time, and write into the same slots: from then on
 * nothing of them is recorded. */
static void note_stream(void *stream)
{
    uint64_t number = tap_gpu_stream_number(stream);

    if (!graphs.stream)
        graphs.stream = number;
    if (graphs.crossed || (number && number == graphs.stream))
        return;
    graphs.crossed = true;
    tap_gpu_queue_void();
}

void tap_cuda_graphs_launch(const void *exec, void *stream)
{
    struct tap_cuda_plan *p, *outer;
    bool capturing;

    pthread_mutex_lock(&graphs.lock);
    p = tap_cuda_plan_at(TAP_CUDA_EXEC, exec);
    outer = plan_of_capture(stream, &capturing);
    /* A graph in a graph: both write into the arena from its start. */
    if (outer && p && p->first)
        tap_cuda_plan_nest(outer, p);
    if (!capturing && p && p->first && tap_armed())
        note_stream(stream);
    pthread_mutex_unlock(&graphs.lock);
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

/* A launch that a graph has made on that stream, and whose operands lie in its slot. */
static void record_captured(const struct tap_cuda_captured *s, void *stream, void *context)
{
    struct tap_gpu_launch l = s->launch;
    uint64_t token;

    l.stream = stream;
    l.context = context;
    if (s->left_out)
        return;
    if (graphs.crossed) {
        tap_count(TAP_OPS_THREADS, !s->joins, tap_gpu_gemm_copied_bytes(&s->work));
        return;
    }
    token = tap_gpu_gate_enter_work(&l, s->kernel, &s->work);
    if (token)
        tap_gpu_gate_leave(token, &l, true);
}

void tap_cuda_graphs_launched(const void *exec, void *stream, void *context)
{
    const struct tap_cuda_captured *s, *first = NULL;
    struct tap_cuda_plan *p;
    int status = TD_CUDA_CAPTURE_NONE;

    if (tap_driver.stream_is_capturing(stream, &status) || status != TD_CUDA_CAPTURE_NONE)
        return;
    pthread_mutex_lock(&graphs.lock);
    p = tap_cuda_plan_at(TAP_CUDA_EXEC, exec);
    if (p) {
        count_launches(p);
        /* The plan stays while its slots are copied. Without the lock: the driver may wait for the
         * GPU, and other threads need the lock meanwhile. */
        p->users++;
        first = p->first;
    }
    pthread_mutex_unlock(&graphs.lock);
    if (!p)
        return;
    for (s = first; s; s = s->next)
        record_captured(s, stream, context);
    pthread_mutex_lock(&graphs.lock);
    tap_cuda_plan_release(p);
    pthread_mutex_unlock(&graphs.lock);
}
