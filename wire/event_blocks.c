/* event_blocks.c - blocks of records between the path of an event and the thread that passes them on.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/event_blocks.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/proc.h"

#define BLOCK_BYTES ((size_t)1 << 20)
#define SOON_NS (100 * TD_NS_PER_MS)
#define MOST_SPARE 4

struct head { int64_t t_ns; uint32_t stream, dir; size_t len; };

/* Filled from the front by the one that puts; a block that is left behind has a next one. */
struct block {
    _Atomic(struct block *) next;
    atomic_size_t filled;     /* bytes that may be read */
    size_t cap;
    char data[];
};

struct cursor { struct block *at; size_t read; };

struct td_event_blocks {
    td_event_blocks_fn *soon, *late;
    void *arg;
    struct block *last;       /* of the one that puts */
    struct cursor to_soon, to_late; /* of the thread */
    size_t soon_bytes;        /* of the thread: passed on to `soon`, and not yet to `late` */

    pthread_mutex_t lock;
    pthread_cond_t work, done; /* there is something to do; it is done, or there is room */
    struct block *spare; int n_spare;
    size_t bytes;             /* of all blocks in use */
    uint64_t asked, drained;  /* drains */
    bool stop;
    struct td_error failure;  /* code 0: none */
    pthread_t thread;
};

/* ---- the thread ------------------------------------------------------------------------------ */

static void note_failure(struct td_event_blocks *b, const struct td_error *why)
{
    pthread_mutex_lock(&b->lock);
    if (!b->failure.code)
        b->failure = *why;
    pthread_cond_broadcast(&b->done);
    pthread_mutex_unlock(&b->lock);
}

static bool has_failed(struct td_event_blocks *b)
{
    bool failed;

    pthread_mutex_lock(&b->lock);
    failed = b->failure.code != 0;
    pthread_mutex_unlock(&b->lock);
    return failed;
}

/* Pass on what this block holds behind the cursor, up to `end`. */
static void pass_block(struct td_event_blocks *b, struct cursor *c, size_t end, td_event_blocks_fn *fn, struct td_error *err)
{
    while (c->read < end) {
        struct head h;
        struct td_wire rec;

        memcpy(&h, c->at->data + c->read, sizeof h);
        rec = (struct td_wire){.t_ns = h.t_ns, .stream = h.stream, .dir = (enum td_wire_dir)h.dir,
                               .data = (const uint8_t *)c->at->data + c->read + sizeof h, .len = h.len};
        if (fn && !err->code && fn(b->arg, &rec, err) && !err->code)
            td_fail(err, TD_EIO, "what was received cannot be passed on");
        c->read += sizeof h + h.len;
    }
}

/* Where what was put ends by now. *bytes: how much lies behind the cursor. */
static struct cursor find_end(const struct cursor *c, size_t *bytes)
{
    struct cursor end = *c;

    *bytes = 0;
    for (;;) {
        /* before `filled`: that is final when there is a next one */
        struct block *next = atomic_load_explicit(&end.at->next, memory_order_acquire);
        const size_t filled = atomic_load_explicit(&end.at->filled, memory_order_acquire);

        *bytes += filled - end.read;
        end.read = filled;
        if (!next)
            return end;
        end = (struct cursor){next, 0};
    }
}

/* Pass on all from the cursor to `end`. */
static void pass_up_to(struct td_event_blocks *b, struct cursor *c, const struct cursor *end, td_event_blocks_fn *fn)
{
    struct td_error err = {0};

    if (has_failed(b))
        fn = NULL;
    while (c->at != end->at) {
        pass_block(b, c, atomic_load_explicit(&c->at->filled, memory_order_acquire), fn, &err);
        *c = (struct cursor){atomic_load_explicit(&c->at->next, memory_order_acquire), 0};
    }
    pass_block(b, c, end->read, fn, &err);
    if (err.code)
        note_failure(b, &err);
}

/* Give back the blocks from here to the cursor. */
static void give_back(struct td_event_blocks *b, struct block *from, const struct block *to)
{
    while (from != to) {
        struct block *next = atomic_load_explicit(&from->next, memory_order_relaxed);

        pthread_mutex_lock(&b->lock);
        b->bytes -= from->cap;
        if (from->cap == BLOCK_BYTES && b->n_spare < MOST_SPARE) {
            atomic_store_explicit(&from->next, b->spare, memory_order_relaxed);
            b->spare = from;
            b->n_spare++;
            from = NULL;
        }
        pthread_cond_broadcast(&b->done);
        pthread_mutex_unlock(&b->lock);
        free(from);
        from = next;
    }
}

/* all : for both receivers; else parsing waits while there is room */
static void pass_on(struct td_event_blocks *b, bool all)
{
    struct block *const oldest = b->to_late.at;
    size_t bytes;
    const struct cursor end = find_end(&b->to_soon, &bytes);

    pass_up_to(b, &b->to_soon, &end, b->soon);
    b->soon_bytes += bytes;
    if (all || !b->late || b->soon_bytes > TD_EVENT_BLOCKS_LATE) {
        pass_up_to(b, &b->to_late, &end, b->late); /* no further: blocks go back behind both */
        b->soon_bytes = 0;
    }
    give_back(b, oldest, b->to_late.at);
}

/* Wait for work, but not for long. Returns how many drains were asked for by then. */
static uint64_t wait_for_work(struct td_event_blocks *b, bool *stop)
{
    const int64_t until = td_clock_mono_ns() + SOON_NS;
    const struct timespec ts = {until / TD_NS_PER_S, until % TD_NS_PER_S};
    uint64_t asked;

    pthread_mutex_lock(&b->lock);
    if (!b->stop && b->asked == b->drained)
        pthread_cond_timedwait(&b->work, &b->lock, &ts);
    asked = b->asked;
    *stop = b->stop;
    pthread_mutex_unlock(&b->lock);
    return asked;
}

static void *run_thread(void *arg)
{
    struct td_event_blocks *b = arg;
    uint64_t drained = 0;
    bool stop = false;

    td_proc_give_way();
    while (!stop) {
        const uint64_t asked = wait_for_work(b, &stop);

        if (stop)
            break;
        pass_on(b, asked != drained);
        drained = asked;
        pthread_mutex_lock(&b->lock);
        b->drained = drained;
        pthread_cond_broadcast(&b->done);
        pthread_mutex_unlock(&b->lock);
    }
    return NULL;
}

/* ---- putting --------------------------------------------------------------------------------- */

static struct block *block_new(size_t cap)
{
    struct block *k = malloc(sizeof *k + cap);

    if (!k)
        return NULL;
    atomic_init(&k->next, NULL);
    atomic_init(&k->filled, 0);
    k->cap = cap;
    return k;
}

/* Take a spare block, or a new one; wait where too much of what was put is not passed on. */
static struct block *block_get(struct td_event_blocks *b, size_t cap)
{
    struct block *k = NULL;

    pthread_mutex_lock(&b->lock);
    pthread_cond_signal(&b->work);
    while (!b->failure.code && b->bytes > TD_EVENT_BLOCKS_MAX)
        pthread_cond_wait(&b->done, &b->lock);
    if (cap == BLOCK_BYTES && b->spare) {
        k = b->spare;
        b->spare = atomic_load_explicit(&k->next, memory_order_relaxed);
        b->n_spare--;
    }
    b->bytes += cap;
    pthread_mutex_unlock(&b->lock);
    if (!k)
        return block_new(cap);
    atomic_store_explicit(&k->next, NULL, memory_order_relaxed);
    atomic_store_explicit(&k->filled, 0, memory_order_relaxed);
    return k;
}

void td_event_blocks_put(struct td_event_blocks *b, const struct td_wire *rec)
{
    const struct head h = {rec->t_ns, rec->stream, (uint32_t)rec->dir, rec->len};
    const size_t need = sizeof h + rec->len;
    size_t at = atomic_load_explicit(&b->last->filled, memory_order_relaxed);
    const struct td_error no_memory = {.code = TD_ENOMEM, .msg = "out of memory for what was received"};

    if (at + need > b->last->cap) {
        struct block *k = block_get(b, need > BLOCK_BYTES ? need : BLOCK_BYTES);

        if (!k) {
            note_failure(b, &no_memory);
            return;
        }
        atomic_store_explicit(&b->last->next, k, memory_order_release);
        b->last = k;
        at = 0;
    }
    memcpy(b->last->data + at, &h, sizeof h);
    if (rec->len)
        memcpy(b->last->data + at + sizeof h, rec->data, rec->len);
    atomic_store_explicit(&b->last->filled, at + need, memory_order_release);
}

int td_event_blocks_drain(struct td_event_blocks *b, struct td_error *err)
{
    uint64_t mine;
    int rc;

    pthread_mutex_lock(&b->lock);
    mine = ++b->asked;
    pthread_cond_signal(&b->work);
    while (b->drained < mine)
        pthread_cond_wait(&b->done, &b->lock);
    rc = b->failure.code ? td_fail(err, b->failure.code, "%s", b->failure.msg) : TD_OK;
    pthread_mutex_unlock(&b->lock);
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Signals are for the thread that puts: it waits for bytes and for them. */
static int start_thread(struct td_event_blocks *b)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&b->thread, NULL, run_thread, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static void release(struct td_event_blocks *b)
{
    struct block *lists[] = {b->to_late.at, b->spare}, *next;
    size_t i;

    for (i = 0; i < 2; i++)
        for (; lists[i]; lists[i] = next) {
            next = atomic_load_explicit(&lists[i]->next, memory_order_relaxed);
            free(lists[i]);
        }
    pthread_cond_destroy(&b->work);
    pthread_cond_destroy(&b->done);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

int td_event_blocks_new(td_event_blocks_fn *soon, td_event_blocks_fn *late, void *arg, struct td_event_blocks **out,
                        struct td_error *err)
{
    struct td_event_blocks *b = calloc(1, sizeof *b);
    struct block *k = block_new(BLOCK_BYTES);
    pthread_condattr_t mono;
    int rc;

    *out = NULL;
    if (!b || !k) {
        free(b);
        free(k);
        return td_fail(err, TD_ENOMEM, "out of memory for what is received");
    }
    *b = (struct td_event_blocks){.soon = soon, .late = late, .arg = arg, .last = k, .to_soon = {k, 0}, .to_late = {k, 0},
                                  .bytes = k->cap};
    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    pthread_cond_init(&b->work, &mono);
    pthread_cond_init(&b->done, NULL);
    pthread_condattr_destroy(&mono);
    rc = start_thread(b);
    if (rc) {
        release(b);
        return td_fail(err, TD_EIO, "cannot start a thread: %s", strerror(rc));
    }
    *out = b;
    return TD_OK;
}

void td_event_blocks_free(struct td_event_blocks *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->stop = true;
    pthread_cond_signal(&b->work);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    release(b);
}
