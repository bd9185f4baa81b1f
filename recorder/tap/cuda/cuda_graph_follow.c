/* cuda_graph_follow.c - captures and graphs as they come and go.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "recorder/tap/cuda/cuda_graph_arena.h"
#include "recorder/tap/cuda/cuda_graph_follow.h"
#include "recorder/tap/cuda/cuda_graph_recent.h"
#include "recorder/tap/gpu/gpu_captured_w.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tap_cuda_follow_lock(void)
{
    pthread_mutex_lock(&lock);
}

void tap_cuda_follow_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

bool tap_cuda_follow_captures(void)
{
    return tap_gpu_captures_any();
}

void tap_cuda_follow_forget(void)
{
    atomic_store(&tap_gpu_captures, 0);
    tap_gpu_captured_w_forget();
    pthread_mutex_init(&lock, NULL);  /* the parent's other threads may have held it */
    tap_cuda_arena_forget();
    tap_cuda_plans_forget();
}

/* ---- graphs coming and going ----------------------------------------------------------------- */

/* The graph gets more nodes. What was made of it before has not, and a plan of its own. */
static void part_from_what_was_made(void *graph)
{
    const struct tap_cuda_plan *p = tap_cuda_plan_at(TAP_CUDA_GRAPH, graph);

    if (p && (p->users > 1 || p->base))
        tap_cuda_plan_link(TAP_CUDA_GRAPH, graph, NULL);
}

/* Between the two sides of a call that ends a capture: is there one on that stream, and which? 0: not
 * known. */
static __thread __attribute__((tls_model("initial-exec"))) struct { bool one; uint64_t capture; } ends;

static bool is_captured(void *stream)
{
    int status = TD_CUDA_CAPTURE_NONE;

    return !tap_driver.stream_is_capturing(stream, &status) && status != TD_CUDA_CAPTURE_NONE;
}

static uint64_t capture_on(void *stream)
{
    int status = TD_CUDA_CAPTURE_NONE;
    uint64_t id = 0;
    void *graph = NULL;

    return tap_driver.capture_info(stream, &status, &id, &graph, NULL, NULL, NULL) || status != TD_CUDA_CAPTURE_ACTIVE ? 0 : id;
}

/* Before the call: forget what will not be there any more, and handles that another thread may
 * get. */
static void before_call(enum tap_cuda_graph_call call, void *const *word)
{
    if (call == TAP_CUDA_END)
        ends.one = is_captured(word[0]), ends.capture = ends.one ? capture_on(word[0]) : 0;
    if (call == TAP_CUDA_BEGIN_IN)
        part_from_what_was_made(word[1]);
    if (call == TAP_CUDA_GRAPH_GREW)  /* NCCL may add such nodes to a graph that is captured */
        part_from_what_was_made(word[1]);
    if (call == TAP_CUDA_EXEC_GONE)
        tap_cuda_graph_recent_forget(word[0]);
    if (call == TAP_CUDA_EXEC_GONE || call == TAP_CUDA_EXEC_CHANGED)
        tap_cuda_plan_link(TAP_CUDA_EXEC, word[0], NULL);
    if (call == TAP_CUDA_GRAPH_GONE)
        tap_cuda_plan_link(TAP_CUDA_GRAPH, word[0], NULL);
    if (call == TAP_CUDA_GRAPH_CHANGED)
        tap_cuda_plan_link(TAP_CUDA_GRAPH, word[1], NULL);
    if (call == TAP_CUDA_ANY_GRAPH_CHANGED)
        tap_cuda_plans_forget_graphs();
}

/* The plan of a capture that succeeded. What stands at its graph's address may be of one that failed. */
static struct tap_cuda_plan *plan_of_captured(void *graph, bool lost_w)
{
    struct tap_cuda_plan *p = tap_cuda_plan_at(TAP_CUDA_GRAPH, graph);

    if (p && ends.capture && p->capture != ends.capture) {
        tap_cuda_plan_link(TAP_CUDA_GRAPH, graph, NULL);
        p = NULL;
    }
    if (!p && lost_w)
        p = tap_cuda_plan_capture(graph, ends.capture);
    if (p && lost_w)
        p->left++;
    return p;
}

/* A capture that failed is over too. One that another thread tried to end goes on. */
static void capture_ended(void *stream, void *const *graph, bool ok)
{
    const bool lost_w = ends.capture && tap_gpu_captured_w_over(ends.capture);
    int status = TD_CUDA_CAPTURE_NONE;
    struct tap_cuda_plan *p = ok && graph && *graph ? plan_of_captured(*graph, lost_w) : NULL;

    if (p)
        p->ended = true;
    if (ends.one && !tap_driver.stream_is_capturing(stream, &status) &&
        status == TD_CUDA_CAPTURE_NONE &&
        atomic_load(&tap_gpu_captures))
        atomic_fetch_sub(&tap_gpu_captures, 1);
}

static struct tap_cuda_plan *plan_of_graph(const void *graph)
{
    struct tap_cuda_plan *p = tap_cuda_plan_at(TAP_CUDA_GRAPH, graph);

    return p && p->ended ? p : NULL;
}

static void after_call(enum tap_cuda_graph_call call, void *const *word, bool ok)
{
    if ((call == TAP_CUDA_BEGIN || call == TAP_CUDA_BEGIN_IN) && ok)
        atomic_fetch_add(&tap_gpu_captures, 1);
    if (call == TAP_CUDA_END)
        capture_ended(word[0], word[1], ok);
    if (call == TAP_CUDA_INSTANTIATE && ok && word[0])
        tap_cuda_plan_link(TAP_CUDA_EXEC, *(void *const *)word[0], plan_of_graph(word[1]));
    if (call == TAP_CUDA_CLONE && ok && word[0])
        tap_cuda_plan_link(TAP_CUDA_GRAPH, *(void *const *)word[0], plan_of_graph(word[1]));
    if (call == TAP_CUDA_UPDATE)               /* after a failure its state is not known */
        tap_cuda_plan_link(TAP_CUDA_EXEC, word[0], ok ? plan_of_graph(word[1]) : NULL);
}

void tap_cuda_follow_before(enum tap_cuda_graph_call call, void *const *word)
{
    pthread_mutex_lock(&lock);
    before_call(call, word);
    pthread_mutex_unlock(&lock);
}

void tap_cuda_follow_after(enum tap_cuda_graph_call call, void *const *word, bool ok)
{
    pthread_mutex_lock(&lock);
    after_call(call, word, ok);
    pthread_mutex_unlock(&lock);
}

/* ---- captures -------------------------------------------------------------------------------- */

struct tap_cuda_plan *tap_cuda_follow_plan(void *stream, bool *capturing)
{
    int status = TD_CUDA_CAPTURE_NONE;
    uint64_t id = 0;
    void *graph = NULL;

    *capturing = false;
    if (!tap_gpu_captures_any() ||
        tap_driver.capture_info(stream, &status, &id, &graph, NULL, NULL, NULL) ||
        status != TD_CUDA_CAPTURE_ACTIVE || !graph)
        return NULL;
    *capturing = true;
    return tap_cuda_plan_capture(graph, id);
}
