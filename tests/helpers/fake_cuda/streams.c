/* streams.c - the fake driver's streams: queues of tasks, their order, and the thread that may run
 * them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/helpers/fake_cuda/state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct task *task_free(struct task *t)
{
    struct task *next = t->next;

    if (t->kind == TASK_COPY)
        free(t->u.copy.owned);
    if (t->kind == TASK_KERNEL)
        free(t->u.kernel.values);
    free(t);
    return next;
}

struct task *task_new(enum task_kind kind)
{
    struct task *t = calloc(1, sizeof *t);

    if (!t)
        abort();
    t->kind = kind;
    return t;
}

struct task *task_copy(const struct task *from)
{
    struct task *t = task_new(from->kind);
    int i;

    *t = *from;
    t->next = NULL;
    if (t->kind == TASK_COPY && t->u.copy.owned) {
        t->u.copy.owned = malloc(t->u.copy.bytes);
        memcpy(t->u.copy.owned, from->u.copy.owned, t->u.copy.bytes);
        t->u.copy.from = t->u.copy.owned;
    }
    if (t->kind == TASK_KERNEL) {
        t->u.kernel.values = malloc(t->u.kernel.bytes + 1);
        memcpy(t->u.kernel.values, from->u.kernel.values, t->u.kernel.bytes);
        for (i = 0; i < t->u.kernel.kernel->n_params; i++)
            t->u.kernel.params[i] = t->u.kernel.values + t->u.kernel.kernel->param[i].offset;
        t->u.kernel.launch.params = t->u.kernel.params;
    }
    return t;
}

/* ---- running --------------------------------------------------------------------------------- */

static void run_copy_2d(const struct td_cuda_copy_2d *c)
{
    const uint8_t *from = c->src_type == TD_CUDA_MEMORY_HOST ? c->src_host : (const void *)(uintptr_t)c->src_device;
    uint8_t *to = c->dst_type == TD_CUDA_MEMORY_HOST ? c->dst_host : (void *)(uintptr_t)c->dst_device;
    size_t y;

    for (y = 0; y < c->height; y++)
        memmove(to + (c->dst_y + y) * c->dst_pitch + c->dst_x_bytes, from + (c->src_y + y) * c->src_pitch + c->src_x_bytes, c->width_bytes);
}

static void run_set(const struct task *t)
{
    const uint8_t *value = (const uint8_t *)&t->u.set.value;
    size_t i;

    if (t->u.set.width == 4 && t->u.set.n == 1) /* a flag that another thread may watch */
        __atomic_store_n((uint32_t *)t->u.set.to, t->u.set.value, __ATOMIC_RELEASE);
    else if (t->u.set.width == 1) /* a timed op sets 64 MiB before each cold run */
        memset(t->u.set.to, value[0], t->u.set.n);
    else
        for (i = 0; i < t->u.set.n * t->u.set.width; i++)
            ((uint8_t *)t->u.set.to)[i] = value[i % t->u.set.width];
}

/* Call without the lock. */
static int run_task(struct task *t)
{
    switch (t->kind) {
    case TASK_COPY: memmove(t->u.copy.to, t->u.copy.from, t->u.copy.bytes); break;
    case TASK_COPY_2D: run_copy_2d(&t->u.copy_2d); break;
    case TASK_SET: run_set(t); break;
    case TASK_KERNEL: return kernel_run(t);
    case TASK_HOST: t->u.host.fn(t->u.host.user); break;
    case TASK_MARK: case TASK_WAIT: break;
    }
    return 0;
}

static void mark_event(const struct task *t)
{
    if (t->u.mark.event->marks == t->u.mark.ticket)
        t->u.mark.event->t_ns = now_ns();
}

/* Run the first task of a stream that is not busy. */
static void run_first(struct stream *s)
{
    struct task *t = s->first;
    int rc = 0;

    s->busy = true;
    if (t->kind == TASK_WAIT)
        stream_finish(t->u.wait.on, t->u.wait.ticket);
    else if (t->kind == TASK_MARK)
        mark_event(t);
    else if (!fake.sticky) {
        pthread_mutex_unlock(&fake.lock);
        rc = run_task(t);
        pthread_mutex_lock(&fake.lock);
    }
    if (rc)
        fake.sticky = rc;
    s->first = task_free(t);
    if (!s->first)
        s->last = NULL;
    s->done++;
    s->busy = false;
    pthread_cond_broadcast(&fake.changed);
}

void stream_finish(struct stream *s, uint64_t ticket)
{
    while (s->done < ticket) {
        if (s->busy)
            pthread_cond_wait(&fake.changed, &fake.lock);
        else
            run_first(s);
    }
}

/* The newest stream goes first, an order that a careless caller does not expect. */
void streams_finish_all(void)
{
    struct stream *s;

    for (s = fake.streams; s; s = s->next)
        stream_finish(s, s->issued);
    stream_finish(&fake.per_thread, fake.per_thread.issued);
    stream_finish(&fake.legacy, fake.legacy.issued);
}

static bool meets(const void *a, size_t n, const void *b, size_t m)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return n && m && x < y + m && y < x + n;
}

static bool stream_touches(const struct stream *s, const void *memory, size_t bytes)
{
    const struct task *t;

    for (t = s->first; t; t = t->next)
        if (t->kind == TASK_COPY ? meets(t->u.copy.to, t->u.copy.bytes, memory, bytes) || meets(t->u.copy.from, t->u.copy.bytes, memory, bytes)
                                 : t->kind == TASK_SET && meets(t->u.set.to, t->u.set.n * t->u.set.width, memory, bytes))
            return true;
    return false;
}

bool streams_touch(const void *memory, size_t bytes)
{
    const struct stream *s;

    for (s = fake.streams; s; s = s->next)
        if (stream_touches(s, memory, bytes))
            return true;
    return stream_touches(&fake.per_thread, memory, bytes) || stream_touches(&fake.legacy, memory, bytes);
}

static bool can_run(const struct stream *s)
{
    return s->first && !s->busy && (s->first->kind != TASK_WAIT || s->first->u.wait.on->done >= s->first->u.wait.ticket);
}

static struct stream *pick_stream(void)
{
    struct stream *found = NULL, *s;
    unsigned n = 0;

    for (s = fake.streams; s; s = s->next)
        if (can_run(s) && fake_random() % ++n == 0)
            found = s;
    if (can_run(&fake.legacy) && fake_random() % ++n == 0)
        found = &fake.legacy;
    if (can_run(&fake.per_thread) && fake_random() % ++n == 0)
        found = &fake.per_thread;
    return found;
}

static void *work(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&fake.lock);
    for (;;) {
        struct stream *s = fake.threaded ? pick_stream() : NULL;

        if (!s) {
            pthread_cond_wait(&fake.changed, &fake.lock);
            continue;
        }
        run_first(s);
        if (fake_random() % 4 == 0) {
            unsigned us = (unsigned)(fake_random() % 100);

            pthread_mutex_unlock(&fake.lock);
            usleep(us);
            pthread_mutex_lock(&fake.lock);
        }
    }
    return NULL;
}

void wake_worker(void)
{
    pthread_t id;

    if (fake.threaded && !fake.thread_runs && !pthread_create(&id, NULL, work, NULL)) {
        pthread_detach(id);
        fake.thread_runs = true;
    }
    pthread_cond_broadcast(&fake.changed);
}

/* ---- issuing --------------------------------------------------------------------------------- */

static void append(struct stream *s, struct task *t)
{
    if (s->last)
        s->last->next = t;
    else
        s->first = t;
    s->last = t;
    s->issued++;
}

void stream_wait_for(struct stream *s, struct stream *on, uint64_t ticket)
{
    struct task *t;

    if (on == s || on->done >= ticket)
        return;
    t = task_new(TASK_WAIT);
    t->u.wait.on = on;
    t->u.wait.ticket = ticket;
    append(s, t);
}

/* The legacy stream waits for all blocking streams, and all blocking streams wait for it. */
static void order_with_legacy(struct stream *s)
{
    struct stream *o;

    if (s != &fake.legacy) {
        if (s->blocking)
            stream_wait_for(s, &fake.legacy, fake.legacy.issued);
        return;
    }
    for (o = fake.streams; o; o = o->next)
        if (o->blocking)
            stream_wait_for(s, o, o->issued);
    stream_wait_for(s, &fake.per_thread, fake.per_thread.issued);
}

void graph_append(struct graph *g, struct task *t)
{
    if (g->last)
        g->last->next = t;
    else
        g->first = t;
    g->last = t;
    t->graph = g;
}

bool any_capture(void)
{
    struct stream *s = fake.streams;

    while (s && !s->capture)
        s = s->next;
    return s != NULL;
}

int stream_issue(struct stream *s, struct task *t)
{
    if (s->capture) {
        graph_append(s->capture, t);
        return 0;
    }
    if (s == &fake.legacy && any_capture()) {
        task_free(t);
        return TD_CUDA_STREAM_CAPTURE_IMPLICIT;
    }
    order_with_legacy(s);
    append(s, t);
    wake_worker();
    return 0;
}

struct stream *stream_of(void *handle, bool per_thread)
{
    struct stream *s = fake.streams;

    if (!handle)
        handle = per_thread ? THREAD_STREAM : LEGACY_STREAM;
    if (handle == LEGACY_STREAM || handle == THREAD_STREAM)
        return handle == LEGACY_STREAM ? &fake.legacy : &fake.per_thread;
    while (s && (s != handle || s->dead))
        s = s->next;
    return s;
}

/* ---- streams --------------------------------------------------------------------------------- */

static int create_stream(void **stream, unsigned flags)
{
    struct stream *s = calloc(1, sizeof *s);

    if (!s)
        return TD_CUDA_OUT_OF_MEMORY;
    s->blocking = !(flags & TD_CUDA_STREAM_NON_BLOCKING);
    s->next = fake.streams;
    fake.streams = s;
    *stream = s;
    return 0;
}

int cuStreamCreate(void **stream, unsigned flags)
{
    int rc = enter("cuStreamCreate", NEED_CONTEXT);

    return leave(rc ? rc : create_stream(stream, flags));
}

int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    int rc = enter("cuStreamCreateWithPriority", NEED_CONTEXT);

    (void)priority;
    return leave(rc ? rc : create_stream(stream, flags));
}

int cuStreamDestroy_v2(void *stream)
{
    int rc = enter("cuStreamDestroy_v2", NEED_CONTEXT);
    struct stream *s = stream_of(stream, false);

    if (!rc && (!s || s == &fake.legacy || s == &fake.per_thread))
        rc = TD_CUDA_INVALID_HANDLE;
    if (!rc) {
        stream_finish(s, s->issued);
        s->dead = true; /* not freed: another stream may wait for it */
    }
    return leave(rc);
}

/* No stream is ever freed, so its address is a unique number. */
int cuStreamGetId(void *stream, unsigned long long *id)
{
    int rc = enter("cuStreamGetId", NEED_CONTEXT);
    struct stream *s = stream_of(stream, false);

    *id = (uintptr_t)s;
    return leave(rc ? rc : s ? 0 : TD_CUDA_INVALID_HANDLE);
}

/* A call that would wait for a capturing stream breaks the capture. */
static int not_captured(struct stream *s)
{
    if (!s->capture)
        return 0;
    s->capture->broken = true;
    return TD_CUDA_STREAM_CAPTURE_UNSUPPORTED;
}

int cuStreamSynchronize(void *stream)
{
    int rc = enter("cuStreamSynchronize", NEED_CONTEXT);
    struct stream *s = stream_of(stream, false);

    if (rc || !s)
        return leave(rc ? rc : TD_CUDA_INVALID_HANDLE);
    if (!(rc = not_captured(s)))
        stream_finish(s, s->issued);
    return leave(rc ? rc : fake.sticky);
}

int cuStreamQuery(void *stream)
{
    int rc = enter("cuStreamQuery", NEED_CONTEXT);
    struct stream *s = stream_of(stream, false);

    if (rc || !s)
        return leave(rc ? rc : TD_CUDA_INVALID_HANDLE);
    if (!(rc = not_captured(s)) && s->done < s->issued)
        rc = TD_CUDA_NOT_READY;
    return leave(rc);
}

int cuCtxSynchronize(void)
{
    int rc = enter("cuCtxSynchronize", NEED_CONTEXT);

    if (!rc && any_capture())
        rc = TD_CUDA_STREAM_CAPTURE_UNSUPPORTED;
    if (!rc)
        streams_finish_all();
    return leave(rc ? rc : fake.sticky);
}

int cuLaunchHostFunc(void *stream, void (*fn)(void *), void *user)
{
    int rc = enter("cuLaunchHostFunc", NEED_CONTEXT);
    struct stream *s = stream_of(stream, false);
    struct task *t;

    if (rc || !s)
        return leave(rc ? rc : TD_CUDA_INVALID_HANDLE);
    t = task_new(TASK_HOST);
    t->u.host.fn = fn;
    t->u.host.user = user;
    return leave(stream_issue(s, t));
}
