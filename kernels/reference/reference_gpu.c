/* reference_gpu.c - the judge's references on a GPU: a thread that owns the device, and those that bring jobs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/reference/reference_gpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/reference/reference_device.h"
#include "kernels/reference/reference_queue.h"

#define SLOTS 3
#define PATIENCE_S 120 /* for one job: then the device is lost */

struct slot {
    struct td_reference_slot s;
    bool pinned, busy, queued, done;
    int rc;
    struct td_error err;
};

struct td_reference_gpu {
    const char *folder;
    pthread_t thread;
    pthread_mutex_t lock;          /* guards all below but the device, which belongs to the thread */
    pthread_cond_t changed;
    enum td_reference_state state;
    char words[600];
    bool stop, stuck;
    struct slot slots[SLOTS];
    struct td_reference_device *device;
};

/* ---- the thread -------------------------------------------------------------------------------- */

static struct slot *next_queued(struct td_reference_gpu *g)
{
    for (int i = 0; i < SLOTS; i++)
        if (g->slots[i].queued)
            return &g->slots[i];
    return NULL;
}

static void lose(struct td_reference_gpu *g, const char *why)
{
    if (g->state == TD_REFERENCE_LOST)
        return;
    g->state = TD_REFERENCE_LOST;
    snprintf(g->words, sizeof g->words, "%.590s", why);
}

/* The lock is held before and after, not meanwhile. */
static void run_slot(struct td_reference_gpu *g, struct slot *s)
{
    int rc;

    s->queued = false;
    pthread_mutex_unlock(&g->lock);
    td_error_clear(&s->err);
    if (!s->pinned)
        s->pinned = td_reference_device_pin(g->device, s->s.memory, TD_REFERENCE_SLOT_BYTES);
    rc = td_reference_device_run(g->device, &s->s.job, &s->err);
    pthread_mutex_lock(&g->lock);
    if (rc && (rc != TD_ENOMEM || td_reference_device_is_dead(g->device)))
        lose(g, s->err.msg);
    s->rc = rc;
    s->done = true;
    pthread_cond_broadcast(&g->changed);
}

static void open_device(struct td_reference_gpu *g)
{
    struct td_error err = {0};
    struct td_reference_device *d = NULL;
    const int rc = td_reference_device_open(g->folder, &d, &err);

    pthread_mutex_lock(&g->lock);
    g->device = d;
    g->state = rc ? TD_REFERENCE_NONE : TD_REFERENCE_READY;
    snprintf(g->words, sizeof g->words, "%.590s", rc ? err.msg : td_reference_device_words(d));
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void *serve(void *arg)
{
    struct td_reference_gpu *g = arg;
    struct slot *s;

    open_device(g);
    pthread_mutex_lock(&g->lock);
    while (!g->stop)
        if (g->state == TD_REFERENCE_READY && (s = next_queued(g)))
            run_slot(g, s);
        else
            pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    for (int i = 0; g->device && i < SLOTS; i++)
        if (g->slots[i].pinned && !td_reference_device_is_dead(g->device))
            td_reference_device_unpin(g->device, g->slots[i].s.memory);
    td_reference_device_close(g->device);
    return NULL;
}

struct td_reference_gpu *td_reference_gpu_start(const char *folder)
{
    struct td_reference_gpu *g = calloc(1, sizeof *g);

    if (!g)
        return NULL;
    g->folder = folder;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    if (!pthread_create(&g->thread, NULL, serve, g))
        return g;
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g);
    return NULL;
}

void td_reference_gpu_stop(struct td_reference_gpu *g)
{
    bool stuck;

    if (!g)
        return;
    pthread_mutex_lock(&g->lock);
    g->stop = true;
    stuck = g->stuck;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    if (stuck) { /* it waits for a device that does not answer, and uses this memory */
        pthread_detach(g->thread);
        return;
    }
    pthread_join(g->thread, NULL);
    for (int i = 0; i < SLOTS; i++)
        free(g->slots[i].s.memory);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

enum td_reference_state td_reference_gpu_state(struct td_reference_gpu *g, bool wait, char *words, size_t size)
{
    enum td_reference_state state;

    pthread_mutex_lock(&g->lock);
    while (wait && g->state == TD_REFERENCE_OPENING)
        pthread_cond_wait(&g->changed, &g->lock);
    state = g->state;
    snprintf(words, size, "%s", g->words);
    pthread_mutex_unlock(&g->lock);
    return state;
}

/* ---- those that bring jobs --------------------------------------------------------------------- */

static bool give_memory(struct slot *s)
{
    return s->s.memory || !posix_memalign(&s->s.memory, 4096, TD_REFERENCE_SLOT_BYTES);
}

struct td_reference_slot *td_reference_slot_take(struct td_reference_gpu *g)
{
    struct slot *found = NULL;

    pthread_mutex_lock(&g->lock);
    while (g->state == TD_REFERENCE_READY && !found) {
        for (int i = 0; i < SLOTS && !found; i++)
            if (!g->slots[i].busy)
                found = &g->slots[i];
        if (!found)
            pthread_cond_wait(&g->changed, &g->lock);
    }
    if (found && give_memory(found))
        found->busy = true;
    else
        found = NULL;
    pthread_mutex_unlock(&g->lock);
    return found ? &found->s : NULL;
}

void td_reference_slot_put(struct td_reference_gpu *g, struct td_reference_slot *slot)
{
    pthread_mutex_lock(&g->lock);
    ((struct slot *)slot)->busy = g->stuck; /* a device that does not answer may still write there */
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

int td_reference_slot_run(struct td_reference_gpu *g, struct td_reference_slot *slot, struct td_error *err)
{
    struct slot *s = (struct slot *)slot;
    struct timespec until;
    int rc;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&g->lock);
    s->done = false;
    s->queued = true;
    pthread_cond_broadcast(&g->changed);
    while (!s->done && g->state == TD_REFERENCE_READY)
        if (pthread_cond_timedwait(&g->changed, &g->lock, &until) == ETIMEDOUT && !s->done) {
            g->stuck = true;
            lose(g, "the GPU did not answer within two minutes");
            pthread_cond_broadcast(&g->changed);
        }
    rc = s->done && !s->rc ? TD_OK : TD_EUNSUPPORTED;
    s->queued = false;
    if (rc)
        td_fail(err, rc, "no reference from the GPU: %s", s->done ? s->err.msg : g->words);
    pthread_mutex_unlock(&g->lock);
    return rc;
}
