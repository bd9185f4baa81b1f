/* graphs.c - the fake driver's events, captures and graphs. A graph is the list of tasks that were
 * issued during its capture, in that order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/helpers/fake_cuda/state.h"

#include <stdlib.h>

/* ---- events ---------------------------------------------------------------------------------- */

int cuEventCreate(void **event, unsigned flags)
{
    int rc = enter("cuEventCreate", NEED_CONTEXT);
    struct event *e = rc ? NULL : calloc(1, sizeof *e);

    (void)flags;
    if (e) {
        e->next = fake.events;
        fake.events = e;
    }
    *event = e;
    return leave(rc);
}

int cuEventDestroy_v2(void *event)
{
    int rc = enter("cuEventDestroy_v2", NEED_CONTEXT);
    struct event *e = event, **at = &fake.events;

    while (*at && *at != e)
        at = &(*at)->next;
    if (!rc && !*at)
        rc = TD_CUDA_INVALID_HANDLE;
    if (!rc && e->stream)
        stream_finish(e->stream, e->ticket);
    if (!rc) {
        *at = e->next;
        free(e);
    }
    return leave(rc);
}

int cuEventRecord(void *event, void *stream)
{
    int rc = enter("cuEventRecord", NEED_CONTEXT);
    struct stream *s = stream_of(stream, false);
    struct event *e = event;
    struct task *t;

    if (rc || !s || !e)
        return leave(rc ? rc : TD_CUDA_INVALID_HANDLE);
    e->captured = s->capture;
    if (s->capture)
        return leave(0);
    t = task_new(TASK_MARK);
    t->u.mark.event = e;
    t->u.mark.ticket = ++e->marks;
    if (!(rc = stream_issue(s, t))) {
        e->stream = s;
        e->ticket = s->issued;
    }
    return leave(rc);
}

int cuEventQuery(void *event)
{
    int rc = enter("cuEventQuery", NEED_CONTEXT);
    struct event *e = event;

    return leave(rc ? rc : e->stream && e->stream->done < e->ticket ? TD_CUDA_NOT_READY : 0);
}

int cuEventSynchronize(void *event)
{
    int rc = enter("cuEventSynchronize", NEED_CONTEXT);
    struct event *e = event;

    if (!rc && e->stream)
        stream_finish(e->stream, e->ticket);
    return leave(rc ? rc : fake.sticky);
}

static int elapsed(const char *name, float *ms, void *from, void *to)
{
    int rc = enter(name, NEED_CONTEXT);
    const struct event *a = from, *b = to;

    if (rc || !a->stream || !b->stream)
        return leave(rc ? rc : TD_CUDA_INVALID_HANDLE);
    if (a->stream->done < a->ticket || b->stream->done < b->ticket)
        return leave(TD_CUDA_NOT_READY);
    *ms = (float)((double)(b->t_ns - a->t_ns) / 1e6);
    return leave(0);
}

int cuEventElapsedTime(float *ms, void *from, void *to)
{
    return elapsed("cuEventElapsedTime", ms, from, to);
}

int cuEventElapsedTime_v2(float *ms, void *from, void *to)
{
    return elapsed("cuEventElapsedTime_v2", ms, from, to);
}

static bool is_being_captured(const struct graph *g)
{
    struct stream *s = fake.streams;

    while (s && (!g || s->capture != g))
        s = s->next;
    return s != NULL;
}

/* A stream that waits for an event of a capture joins the capture. */
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    int rc = enter("cuStreamWaitEvent", NEED_CONTEXT);
    struct stream *s = stream_of(stream, false);
    struct event *e = event;

    (void)flags;
    if (rc || !s || !e)
        return leave(rc ? rc : TD_CUDA_INVALID_HANDLE);
    if (is_being_captured(e->captured))
        s->capture = e->captured;
    else if (e->stream && !s->capture)
        stream_wait_for(s, e->stream, e->ticket);
    wake_worker();
    return leave(0);
}

/* ---- captures and graphs --------------------------------------------------------------------- */

int cuStreamIsCapturing(void *stream, int *status)
{
    int rc = enter("cuStreamIsCapturing", NEED_CONTEXT);
    struct stream *s = stream_of(stream, false);

    if (rc || !s)
        return leave(rc ? rc : TD_CUDA_INVALID_HANDLE);
    if (s == &fake.legacy && any_capture())
        return leave(TD_CUDA_STREAM_CAPTURE_IMPLICIT);
    *status = !s->capture ? TD_CUDA_CAPTURE_NONE : s->capture->broken ? TD_CUDA_CAPTURE_INVALIDATED : TD_CUDA_CAPTURE_ACTIVE;
    return leave(0);
}

/* Call a graph function with the hooks before and after it; `params` holds its arguments, a word
 * each. */
#define HOOKED(name, cbid, call, ...) \
    do { \
        struct call_site site; \
        const struct { void *word[3]; } params = {{__VA_ARGS__}}; \
        int result; \
\
        hook_enter(&site, name, cbid, &params, NULL); \
        result = (call); \
        hook_exit(&site, result); \
        return result; \
    } while (0)

static _Thread_local int capture_mode;  /* CU_STREAM_CAPTURE_MODE_GLOBAL */
enum { MODE_GLOBAL, MODE_THREAD_LOCAL, MODE_RELAXED };

/* Which captures forbid an unsafe call (cuda.h, cuThreadExchangeStreamCaptureMode). A thread in
 * global mode: every global capture, and its own unless relaxed. In thread-local mode: its own. In
 * relaxed mode: none. */
bool capture_forbids(void)
{
    const struct stream *s;

    for (s = fake.streams; s && capture_mode != MODE_RELAXED; s = s->next) {
        bool mine = s->capture && pthread_equal(s->capture->thread, pthread_self());

        if (s->capture && ((mine && s->capture->mode != MODE_RELAXED) || (capture_mode == MODE_GLOBAL && s->capture->mode == MODE_GLOBAL)))
            return true;
    }
    return false;
}

/* into: the graph that gets what is captured; NULL: a new one. */
static int begin_capture(void *stream, struct graph *into, int mode)
{
    static uint64_t captures;
    int rc = enter("cuStreamBeginCapture_v2", NEED_CONTEXT);
    struct stream *s = stream_of(stream, false);

    if (rc || !s || s == &fake.legacy || s->capture)
        return leave(rc ? rc : TD_CUDA_STREAM_CAPTURE_UNSUPPORTED);
    s->capture = into ? into : calloc(1, sizeof *s->capture);
    s->capture->capture = ++captures;
    s->capture->mode = mode;
    s->capture->thread = pthread_self();
    s->origin = true;
    return leave(0);
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    HOOKED("cuStreamBeginCapture_v2", 539, begin_capture(stream, NULL, mode), stream, (void *)(intptr_t)mode);
}

/* Behind its last node, whatever it is told. */
int cuStreamBeginCaptureToGraph(void *stream, void *graph, void *const *after, const struct td_cuda_edge *edges, size_t n, int mode)
{
    (void)after, (void)edges, (void)n;
    return begin_capture(stream, graph, mode);
}

/* A capture is a chain: what comes next depends on the last node.
 * cuda.h: the caller that ends the capture owns the graph afterwards, so the handle stays the
 * same. */
static const struct td_cuda_edge plain;

int cuStreamGetCaptureInfo_v3(void *stream, int *status, uint64_t *id, void **graph, const void **nodes, const void **edges, size_t *n)
{
    int rc = enter("cuStreamGetCaptureInfo_v3", NEED_CONTEXT);
    struct stream *s = stream_of(stream, false);

    if (rc || !s)
        return leave(rc ? rc : TD_CUDA_INVALID_HANDLE);
    if (s == &fake.legacy && any_capture())
        return leave(TD_CUDA_STREAM_CAPTURE_IMPLICIT);
    *status = !s->capture ? TD_CUDA_CAPTURE_NONE : s->capture->broken ? TD_CUDA_CAPTURE_INVALIDATED : TD_CUDA_CAPTURE_ACTIVE;
    if (s->capture && id)
        *id = s->capture->capture;
    if (s->capture && graph)
        *graph = s->capture;
    if (s->capture && nodes && n) {
        s->capture->tail = s->capture->last;
        *nodes = &s->capture->tail;
        *n = s->capture->last != NULL;
    }
    if (s->capture && edges)
        *edges = &plain;
    return leave(0);
}

static void graph_clear(struct graph *g)
{
    while (g->first)
        g->first = task_free(g->first);
    g->last = NULL;
}

static void graph_free(struct graph *g)
{
    graph_clear(g);
    free(g);
}

static int end_capture(void *stream, void **graph)
{
    int rc = enter("cuStreamEndCapture", NEED_CONTEXT);
    struct stream *s = stream_of(stream, false), *o;
    struct graph *g;

    *graph = NULL;
    if (rc || !s || !s->capture || !s->origin)
        return leave(rc ? rc : TD_CUDA_STREAM_CAPTURE_UNMATCHED);
    g = s->capture;
    s->origin = false;
    for (o = fake.streams; o; o = o->next)
        if (o->capture == g)
            o->capture = NULL;
    if (g->broken) {
        graph_free(g);
        return leave(TD_CUDA_STREAM_CAPTURE_INVALIDATED);
    }
    *graph = g;
    return leave(0);
}

int cuStreamEndCapture(void *stream, void **graph)
{
    HOOKED("cuStreamEndCapture", 497, end_capture(stream, graph), stream, graph);
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    int rc = enter("cuThreadExchangeStreamCaptureMode", NEED_INIT), before = capture_mode;

    capture_mode = *mode;
    *mode = before;
    return leave(rc);
}

static struct graph *graph_copy(const struct graph *from)
{
    struct graph *g = calloc(1, sizeof *g);
    const struct task *t;

    for (t = from->first; t; t = t->next) {
        graph_append(g, task_copy(t));
        g->last->cloned = t;
    }
    return g;
}

static int copied(const char *name, void **to, const void *graph)
{
    int rc = enter(name, NEED_CONTEXT);

    *to = rc ? NULL : graph_copy(graph);
    return leave(rc);
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    HOOKED("cuGraphInstantiateWithFlags", 643, copied("cuGraphInstantiateWithFlags", exec, graph), exec, graph, (void *)(uintptr_t)flags);
}

int cuGraphClone(void **clone, void *graph)
{
    HOOKED("cuGraphClone", 523, copied("cuGraphClone", clone, graph), clone, graph);
}

/* ---- nodes: those of a graph run in the order of its list ------------------------------------ */

int cuGraphGetNodes(void *graph, void **nodes, size_t *n)
{
    int rc = enter("cuGraphGetNodes", NEED_CONTEXT);
    const struct task *t = rc ? NULL : ((struct graph *)graph)->first;

    size_t most = nodes ? *n : 0;

    for (*n = 0; t; t = t->next) {
        if (*n < most)
            nodes[*n] = (void *)t;
        ++*n;
    }
    return leave(rc);
}

int cuGraphNodeFindInClone(void **node, void *original, void *clone)
{
    int rc = enter("cuGraphNodeFindInClone", NEED_CONTEXT);
    struct task *t = rc ? NULL : ((struct graph *)clone)->first;

    while (t && t->cloned != original)
        t = t->next;
    *node = t;
    return leave(rc ? rc : t ? 0 : TD_CUDA_INVALID_VALUE);
}

/* The one that comes next. A node that nothing was made to depend on has none. */
int cuGraphNodeGetDependentNodes_v2(void *node, void **nodes, struct td_cuda_edge *edges, size_t *n)
{
    int rc = enter("cuGraphNodeGetDependentNodes_v2", NEED_CONTEXT);
    struct task *next = rc ? NULL : ((struct task *)node)->next;

    if (next && nodes)
        nodes[0] = next;
    if (next && edges)
        edges[0] = plain;
    *n = next != NULL;
    return leave(rc);
}

/* The one that comes before. */
int cuGraphNodeGetDependencies_v2(void *node, void **nodes, struct td_cuda_edge *edges, size_t *n)
{
    int rc = enter("cuGraphNodeGetDependencies_v2", NEED_CONTEXT);
    const struct graph *g = rc ? NULL : ((struct task *)node)->graph;
    struct task *t = g && g->first != node ? g->first : NULL;

    while (t && t->next != node)
        t = t->next;
    if (t && nodes)
        nodes[0] = t;
    if (t && edges)
        edges[0] = plain;
    *n = t != NULL;
    return leave(rc);
}

int cuGraphKernelNodeGetParams_v2(void *node, struct td_cuda_kernel_node *what)
{
    int rc = enter("cuGraphKernelNodeGetParams_v2", NEED_CONTEXT);
    struct task *t = node;

    if (!rc && t->kind != TASK_KERNEL)
        rc = TD_CUDA_INVALID_VALUE;
    if (!rc)
        *what = (struct td_cuda_kernel_node){.function = (void *)t->function, .shared_bytes = t->u.kernel.launch.shared_bytes,
                                             .params = t->u.kernel.launch.params};
    return leave(rc);
}

/* The node runs behind all others until another one is made to depend on it; then in front of that one. */
int cuGraphAddKernelNode_v2(void **node, void *graph, void *const *after, size_t n, const struct td_cuda_kernel_node *what)
{
    int rc = enter("cuGraphAddKernelNode_v2", NEED_CONTEXT);
    const struct function *f = what->function;
    struct task *t = NULL;

    if (!rc && ((n && !after[0]) || !f || !(t = kernel_task(f->kernel, what->grid, what->block, what->shared_bytes, what->params, what->extra))))
        rc = TD_CUDA_INVALID_VALUE;
    if (!rc)
        graph_append(graph, t);
    *node = t;
    return leave(rc);
}

static void unlink_task(struct graph *g, struct task *t)
{
    struct task **at = &g->first, *before = NULL;

    for (; *at != t; at = &(*at)->next)
        before = *at;
    *at = t->next;
    if (g->last == t)
        g->last = before;
}

static bool is_before(const struct task *t, const struct task *other)
{
    while (t && t != other)
        t = t->next;
    return t != NULL;
}

/* Of the edges that mean more than "after" one that a kernel waits behind by itself. Whoever does not wait might read what is not there yet. */
static bool may_be_edge(const struct task *from, const struct task *to, const struct td_cuda_edge *e)
{
    if (!e->type)
        return !e->from_port && !e->to_port;
    return e->type == TD_CUDA_EDGE_PROGRAMMATIC && e->from_port && e->from_port <= TD_CUDA_PORT_LAUNCHED && !e->to_port && from->kind == TASK_KERNEL &&
           to->kind == TASK_KERNEL && to->u.kernel.kernel == &gather_waits_kernel;
}

int cuGraphAddDependencies_v2(void *graph, void *const *from, void *const *to, const struct td_cuda_edge *edges, size_t n)
{
    int rc = enter("cuGraphAddDependencies_v2", NEED_CONTEXT);
    struct task *t = n ? from[0] : NULL, **at;
    struct graph *g = graph;

    if (rc || n != 1 || !may_be_edge(t, to[0], edges))
        return leave(rc ? rc : TD_CUDA_INVALID_VALUE);
    if (is_before(t, to[0]))
        return leave(0);
    unlink_task(g, t);
    for (at = &g->first; *at && *at != to[0]; at = &(*at)->next)
        ;
    t->next = *at;
    if (!*at)
        g->last = t;
    *at = t;
    return leave(0);
}

/* A list has no edges: the nodes keep their order. */
int cuGraphRemoveDependencies_v2(void *graph, void *const *from, void *const *to, const struct td_cuda_edge *edges, size_t n)
{
    int rc = enter("cuGraphRemoveDependencies_v2", NEED_CONTEXT);

    (void)graph;
    return leave(rc ? rc : n == 1 && !edges->type && is_before(from[0], to[0]) ? 0 : TD_CUDA_INVALID_VALUE);
}

/* Here nothing changes. */
int cuGraphExecKernelNodeSetParams_v2(void *exec, void *node, const struct td_cuda_kernel_node *what)
{
    HOOKED("cuGraphExecKernelNodeSetParams_v2", 692, leave(enter("cuGraphExecKernelNodeSetParams_v2", NEED_INIT)), exec, node, (void *)what);
}

/* A node that does nothing. */
int cuGraphAddNode_v2(void **node, void *graph, void *const *after, const struct td_cuda_edge *edges, size_t n, void *what)
{
    (void)edges, (void)n, (void)what;
    HOOKED("cuGraphAddNode_v2", 723, leave(enter("cuGraphAddNode_v2", NEED_INIT)), (void *)node, graph, (void *)after);
}

/* The graph's nodes replace those of the exec. Whether the real driver would allow it is not
 * checked. */
static int update(struct graph *exec, const struct graph *graph)
{
    int rc = enter("cuGraphExecUpdate_v2", NEED_CONTEXT);
    const struct task *t;

    if (!rc)
        graph_clear(exec);
    for (t = rc ? NULL : graph->first; t; t = t->next)
        graph_append(exec, task_copy(t));
    return leave(rc);
}

int cuGraphExecUpdate_v2(void *exec, void *graph, void *info)
{
    HOOKED("cuGraphExecUpdate_v2", 696, update(exec, graph), exec, graph, info);
}

static int destroy(const char *name, void *graph)
{
    int rc = enter(name, NEED_INIT);

    graph_free(graph);
    return leave(rc);
}

int cuGraphDestroy(void *graph)
{
    HOOKED("cuGraphDestroy", 517, destroy("cuGraphDestroy", graph), graph);
}

int cuGraphExecDestroy(void *exec)
{
    HOOKED("cuGraphExecDestroy", 516, destroy("cuGraphExecDestroy", exec), exec);
}

static void (*_Atomic behind_next)(void);

void behind_graph(void (*fn)(void))
{
    behind_next = fn;
}

static int launch_graph(const char *name, uint32_t cbid, void *exec, void *stream, bool per_thread)
{
    struct { void *exec, *stream; } params = {exec, stream};
    struct call_site site;
    struct stream *s;
    const struct task *t;
    void (*behind)(void);
    int rc;

    hook_enter(&site, name, cbid, &params, NULL);
    rc = enter(name, NEED_CONTEXT);
    s = stream_of(stream, per_thread);
    if (!rc && !s)
        rc = TD_CUDA_INVALID_HANDLE;
    for (t = rc ? NULL : ((struct graph *)exec)->first; t && !rc; t = t->next)
        rc = stream_issue(s, task_copy(t));
    leave(rc);
    behind = atomic_exchange(&behind_next, NULL);
    if (behind)
        behind();
    hook_exit(&site, rc);
    return rc;
}

int cuGraphLaunch(void *exec, void *stream)
{
    return launch_graph("cuGraphLaunch", 514, exec, stream, false);
}

int cuGraphLaunch_ptsz(void *exec, void *stream)
{
    return launch_graph("cuGraphLaunch_ptsz", 515, exec, stream, true);
}
