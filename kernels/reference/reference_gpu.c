/* reference_gpu.c - the judge's references on a GPU: a thread that owns the device, and those that bring jobs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/reference/reference_gpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "kernels/reference/reference_device.h"
#include "kernels/reference/reference_queue.h"
#include "kernels/reference/reference_times.h"

#define SLOTS 3

struct slot {
    struct td_reference_slot s;
    bool pinned, busy, queued, running, done;
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
    bool stop, ended;              /* the thread shall end; it has */
    bool stuck;                    /* the driver did not answer in time */
    bool abandoned;                /* nobody waits for the thread: it frees all this */
    int patience_s;
    int64_t moved_ns;              /* when the driver was last asked for something, or answered */
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

/* A GPU that is lost may still prove wrong. */
static void lose(struct td_reference_gpu *g, enum td_reference_state how, const char *why)
{
    if (g->state >= how)
        return;
    g->state = how;
    snprintf(g->words, sizeof g->words, "%.590s", why);
}

/* Wait for a change, as long as there is patience with the driver. The lock is held before and after. */
static void wait_for_driver(struct td_reference_gpu *g)
{
    const int64_t until_ns = g->moved_ns + g->patience_s * TD_NS_PER_S;
    const struct timespec until = {.tv_sec = until_ns / TD_NS_PER_S, .tv_nsec = until_ns % TD_NS_PER_S};
    char why[80];

    if (pthread_cond_timedwait(&g->changed, &g->lock, &until) != ETIMEDOUT || g->moved_ns + g->patience_s * TD_NS_PER_S != until_ns)
        return;
    snprintf(why, sizeof why, "its driver did not answer within %d s", g->patience_s);
    g->stuck = true;
    lose(g, TD_REFERENCE_LOST, why);
    pthread_cond_broadcast(&g->changed);
}

static void moved(struct td_reference_gpu *g)
{
    g->moved_ns = td_clock_mono_ns();
    pthread_cond_broadcast(&g->changed);
}

/* The lock is held before and after, not meanwhile. */
static void run_slot(struct td_reference_gpu *g, struct slot *s)
{
    int rc;

    s->queued = false;
    s->running = true;
    moved(g);
    pthread_mutex_unlock(&g->lock);
    td_error_clear(&s->err);
    if (!s->pinned)
        s->pinned = td_reference_device_pin(g->device, s->s.memory, TD_REFERENCE_SLOT_BYTES);
    rc = td_reference_device_run(g->device, &s->s.job, &s->err);
    pthread_mutex_lock(&g->lock);
    if (rc && (rc != TD_ENOMEM || td_reference_device_is_dead(g->device)))
        lose(g, TD_REFERENCE_LOST, s->err.msg);
    s->rc = rc;
    s->running = false;
    s->done = true;
    moved(g);
}

static void open_device(struct td_reference_gpu *g)
{
    struct td_error err = {0};
    struct td_reference_device *d = NULL;
    const int rc = td_reference_device_open(g->folder, &d, &err);

    pthread_mutex_lock(&g->lock);
    g->device = d;
    if (g->state == TD_REFERENCE_OPENING) { /* else nobody waits any more */
        g->state = rc ? TD_REFERENCE_NONE : TD_REFERENCE_READY;
        snprintf(g->words, sizeof g->words, "%.590s", rc ? err.msg : td_reference_device_words(d));
    }
    moved(g);
    pthread_mutex_unlock(&g->lock);
}

static void release(struct td_reference_gpu *g)
{
    for (int i = 0; i < SLOTS; i++)
        free(g->slots[i].s.memory);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static void *serve(void *arg)
{
    struct td_reference_gpu *g = arg;
    struct slot *s;
    bool abandoned;

    open_device(g);
    pthread_mutex_lock(&g->lock);
    while (!g->stop)
        if (g->state == TD_REFERENCE_READY && (s = next_queued(g))) {
            run_slot(g, s);
        } else {
            const int64_t idle_ns = td_clock_mono_ns();

            pthread_cond_wait(&g->changed, &g->lock);
            td_reference_spent(TD_TIME_REF_IDLE, idle_ns);
        }
    pthread_mutex_unlock(&g->lock);
    for (int i = 0; g->device && i < SLOTS; i++)
        if (g->slots[i].pinned && !td_reference_device_is_dead(g->device))
            td_reference_device_unpin(g->device, g->slots[i].s.memory);
    td_reference_device_close(g->device);
    pthread_mutex_lock(&g->lock);
    g->ended = true;
    abandoned = g->abandoned;
    moved(g);
    pthread_mutex_unlock(&g->lock);
    if (abandoned)
        release(g);
    return NULL;
}

struct td_reference_gpu *td_reference_gpu_start(const char *folder)
{
    struct td_reference_gpu *g = calloc(1, sizeof *g);
    pthread_condattr_t by_monotonic;

    if (!g)
        return NULL;
    g->folder = folder;
    g->patience_s = TD_REFERENCE_PATIENCE_S;
    g->moved_ns = td_clock_mono_ns();
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_init(&by_monotonic);
    pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&g->changed, &by_monotonic);
    pthread_condattr_destroy(&by_monotonic);
    if (!pthread_create(&g->thread, NULL, serve, g))
        return g;
    release(g);
    return NULL;
}

void td_reference_gpu_leave(struct td_reference_gpu *g)
{
    if (!g)
        return;
    pthread_mutex_lock(&g->lock);
    g->stop = true;
    moved(g);
    pthread_mutex_unlock(&g->lock);
}

bool td_reference_gpu_stop(struct td_reference_gpu *g)
{
    pthread_t thread;
    bool ended;

    if (!g)
        return true;
    thread = g->thread;
    td_reference_gpu_leave(g);
    pthread_mutex_lock(&g->lock);
    while (!g->ended && !g->stuck)
        wait_for_driver(g);
    ended = g->ended;
    g->abandoned = !ended;
    pthread_mutex_unlock(&g->lock);
    if (!ended) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    release(g);
    return true;
}

enum td_reference_state td_reference_gpu_state(struct td_reference_gpu *g, bool wait, char *words, size_t size)
{
    enum td_reference_state state;

    pthread_mutex_lock(&g->lock);
    while (wait && g->state == TD_REFERENCE_OPENING)
        wait_for_driver(g);
    state = g->state;
    snprintf(words, size, "%s", g->words);
    pthread_mutex_unlock(&g->lock);
    return state;
}

void td_reference_gpu_distrust(struct td_reference_gpu *g, const char *why)
{
    pthread_mutex_lock(&g->lock);
    lose(g, TD_REFERENCE_WRONG, why);
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

void td_reference_gpu_patience(struct td_reference_gpu *g, int seconds)
{
    pthread_mutex_lock(&g->lock);
    g->patience_s = seconds;
    pthread_mutex_unlock(&g->lock);
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

/* Weights belong to whoever brought the job, and are gone once nobody waits for it. */
static bool bring_if_wanted(void *ctx, void *to, const void *from, size_t n)
{
    struct td_reference_gpu *g = ctx;
    bool wanted;

    pthread_mutex_lock(&g->lock);
    wanted = !g->stuck;
    if (wanted)
        memcpy(to, from, n);
    pthread_mutex_unlock(&g->lock);
    return wanted;
}

/* A job that runs is waited for also where the device is lost meanwhile: its weights are read. */
int td_reference_slot_run(struct td_reference_gpu *g, struct td_reference_slot *slot, struct td_error *err)
{
    struct slot *s = (struct slot *)slot;
    int rc;

    slot->job.bring = bring_if_wanted;
    slot->job.ctx = g;
    pthread_mutex_lock(&g->lock);
    s->done = false;
    s->queued = true;
    moved(g);
    while (!s->done && !g->stuck && (s->running || g->state == TD_REFERENCE_READY))
        wait_for_driver(g);
    rc = s->done && !s->rc && g->state != TD_REFERENCE_WRONG ? TD_OK : TD_EUNSUPPORTED;
    s->queued = false;
    if (rc)
        td_fail(err, rc, "no reference from the GPU: %s", s->done && s->rc ? s->err.msg : g->words);
    pthread_mutex_unlock(&g->lock);
    return rc;
}
