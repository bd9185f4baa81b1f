/* writer_queue.c - the bounded queue between the callers of a writer and its thread.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/writer_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "format/fixture.h"
#include "format/frames.h"

#define TD_WRITER_PART ((size_t)4 << 20) /* of blobs, before the queue is looked at again */
#define TD_WRITER_BLOCK ((size_t)16 << 10) /* of wire records, which are many and short: one item holds several */
#define TD_WRITER_WAKE ((int64_t)256 << 10) /* the thread sleeps until so much waits, or a commit is due */

/* ---- failure -------------------------------------------------------------------------------------------------------- */

int td_writer_failure(struct td_writer *w)
{
    int code;

    pthread_mutex_lock(&w->lock);
    code = w->failure.code;
    pthread_mutex_unlock(&w->lock);
    return code;
}

void td_writer_note_failure(struct td_writer *w, const struct td_error *why)
{
    pthread_mutex_lock(&w->lock);
    if (!w->failure.code)
        w->failure = *why;
    pthread_cond_broadcast(&w->room);
    pthread_mutex_unlock(&w->lock);
}

/* ---- callers -------------------------------------------------------------------------------------------------------- */

struct td_writer_item *td_writer_item_new(enum td_writer_item_type type, const void *data, size_t n)
{
    struct td_writer_item *it = malloc(sizeof *it + n);

    if (!it)
        return NULL;
    memset(it, 0, sizeof *it);
    it->type = type;
    it->stream = -1;
    it->len = n;
    if (n && data)
        memcpy(it->data, data, n);
    return it;
}

/* When the oldest record was queued that is not committed; 0: there is none. */
static int64_t oldest_queued_ns(const struct td_writer *w)
{
    const int64_t soon = w->soon.head ? w->soon.head->queued_ns : 0,
                  bulk = w->bulk.head ? w->bulk.head->queued_ns : 0;

    return !bulk || (soon && soon < bulk) ? soon : bulk;
}

/* Is there so much to do now that the thread should be awake? Until the oldest record must be committed, more may come
 * first: to wake up for each record would cost more than to write it. Call with `lock` held. */
static bool has_work(const struct td_writer *w)
{
    const int64_t oldest = oldest_queued_ns(w), half = w->queue_max / 2;
    const int64_t enough = w->paused || half < TD_WRITER_WAKE ? half : TD_WRITER_WAKE;

    return oldest && (w->hurry || w->queued > enough || td_clock_mono_ns() - oldest >= TD_FRAME_COMMIT_NS);
}

/* Blobs, and what names them or is written beside that, keep their order. */
static struct td_writer_list *list_of(struct td_writer *w, const struct td_writer_item *it)
{
    const bool soon = it->type == TD_ITEM_WIRE ||
                      (it->type == TD_ITEM_LINE && it->stream == TD_STREAM_EXCHANGES);

    return soon ? &w->soon : &w->bulk;
}

/* Somebody waits for what is queued. */
static void unpause(struct td_writer *w)
{
    w->paused = false;
    w->hurry = true;
    pthread_cond_signal(&w->work);
}

/* Callers that waited for room go on when a quarter of it is free: with each item that is written, both threads would wake up. */
static int64_t room_to_go_on(const struct td_writer *w)
{
    return w->queue_max - w->queue_max / 4;
}

/* Wait while there is no room. Call with `lock` held. */
static void wait_for_room(struct td_writer *w, int64_t cost)
{
    int64_t most = w->queue_max;

    while (!w->failure.code && w->queued && (w->queued > most || w->queued + cost > w->queue_max)) {
        most = room_to_go_on(w);
        unpause(w);
        pthread_cond_wait(&w->room, &w->lock);
    }
}

static int64_t cost_of(const struct td_writer_item *it)
{
    return (int64_t)(sizeof *it + it->len);
}

/* Append an item once there is room. Returns the code of the first failure, and the item is freed then. Call with `lock`
 * held. */
static int append(struct td_writer *w, struct td_writer_item *it)
{
    struct td_writer_list *l = list_of(w, it);

    wait_for_room(w, cost_of(it));
    if (w->failure.code) {
        free(it);
        return w->failure.code;
    }
    it->next = NULL;
    it->queued_ns = td_clock_mono_ns();
    *(l->last ? &l->last->next : &l->head) = it;
    l->last = it;
    w->queued += cost_of(it);
    w->came++;
    if (w->idle && has_work(w))
        pthread_cond_signal(&w->work);
    return TD_OK;
}

int td_writer_queue_push(struct td_writer *w, struct td_writer_item *it)
{
    int rc;

    if (!it)
        return TD_ENOMEM;
    pthread_mutex_lock(&w->lock);
    rc = append(w, it);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* An item for wire records, the first of which takes n bytes. */
static int append_block(struct td_writer *w, size_t n)
{
    struct td_writer_item *it = td_writer_item_new(TD_ITEM_WIRE, NULL, n > TD_WRITER_BLOCK ? n : TD_WRITER_BLOCK);

    return it ? append(w, it) : TD_ENOMEM;
}

static bool has_room(const struct td_writer_item *it, size_t n)
{
    return it && it->type == TD_ITEM_WIRE && it->len - it->used >= n;
}

int td_writer_queue_wire(struct td_writer *w, const struct td_wire *rec)
{
    const size_t n = sizeof *rec + rec->len;
    struct td_writer_item *it;
    int rc;

    pthread_mutex_lock(&w->lock);
    rc = w->failure.code;
    if (!rc && !has_room(w->soon.last, n))
        rc = append_block(w, n);
    if (!rc) {
        it = w->soon.last;
        memcpy(it->data + it->used, rec, sizeof *rec);
        if (rec->len)
            memcpy(it->data + it->used + sizeof *rec, rec->data, rec->len);
        it->used += n;
    }
    pthread_mutex_unlock(&w->lock);
    return rc;
}

void td_writer_pause(struct td_writer *w)
{
    pthread_mutex_lock(&w->lock);
    w->paused = true;
    pthread_mutex_unlock(&w->lock);
}

void td_writer_resume(struct td_writer *w)
{
    uint64_t until;

    pthread_mutex_lock(&w->lock);
    unpause(w);
    until = w->came;
    while (!w->failure.code && w->done < until)
        pthread_cond_wait(&w->room, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

int td_writer_commit(struct td_writer *w, struct td_error *err)
{
    struct td_writer_item *it = td_writer_item_new(TD_ITEM_COMMIT, NULL, 0);
    bool done = false;
    int rc;

    if (it)
        it->done = &done;
    rc = td_writer_queue_push(w, it);
    pthread_mutex_lock(&w->lock);
    unpause(w);
    while (!rc && !done)
        pthread_cond_wait(&w->committed, &w->lock);
    if (w->failure.code)
        rc = td_fail(err, w->failure.code, "%s", w->failure.msg);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* ---- the writer thread ---------------------------------------------------------------------------------------------- */

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){ns / TD_NS_PER_S, ns % TD_NS_PER_S};
}

/* Cut the first items off a list, about TD_WRITER_PART bytes of them. */
static struct td_writer_item *take_part(struct td_writer_list *l)
{
    struct td_writer_item *first = l->head, *it;
    size_t bytes = 0;

    for (it = first; it && it->next && (bytes += it->len) < TD_WRITER_PART; it = it->next)
        ;
    if (!it)
        return NULL;
    l->head = it->next;
    it->next = NULL;
    if (!l->head)
        l->last = NULL;
    return first;
}

struct td_writer_item *td_writer_queue_take(struct td_writer *w, int64_t pending_ns, bool *stop)
{
    struct td_writer_item *all;

    pthread_mutex_lock(&w->lock);
    w->hurry = w->hurry && oldest_queued_ns(w);
    w->idle = true;
    while (!w->stop && !has_work(w)) {
        const int64_t oldest = pending_ns ? pending_ns : oldest_queued_ns(w);
        struct timespec ts = timespec_of((oldest ? oldest : td_clock_mono_ns()) + TD_FRAME_COMMIT_NS);

        if (pthread_cond_timedwait(&w->work, &w->lock, &ts) == ETIMEDOUT)
            break;
    }
    w->idle = false;
    all = take_part(w->soon.head ? &w->soon : &w->bulk);
    *stop = w->stop && !all;
    pthread_mutex_unlock(&w->lock);
    return all;
}

void td_writer_queue_done(struct td_writer *w, struct td_writer_item *it)
{
    pthread_mutex_lock(&w->lock);
    w->queued -= cost_of(it);
    w->done++;
    if (it->done) {
        *it->done = true;
        pthread_cond_broadcast(&w->committed);
    }
    if (w->queued <= room_to_go_on(w))
        pthread_cond_broadcast(&w->room);
    pthread_mutex_unlock(&w->lock);
    free(it);
}
