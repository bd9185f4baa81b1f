/* gpu_queue.c - what the sender has to send, in order.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/mman.h>

#include "recorder/tap/gpu/gpu_queue.h"

#define ENTRIES 4096u                 /* a power of two */

static struct tap_gpu_entry *queue;
/* Of the writer, of the sender; counted since the arm began. */
static _Atomic uint64_t head, tail;
static _Atomic uint64_t arm;          /* how often the queue was emptied */
static _Atomic uint64_t void_first, void_last; /* launches of graphs that are void; 0: none */
static enum tap_count cut;            /* of the next entry; the writer's alone */

bool tap_gpu_queue_clear(void)
{
    if (!queue) {
        void *p = mmap(NULL, ENTRIES * sizeof *queue, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

        if (p == MAP_FAILED)
            return false;
        queue = p;
    }
    atomic_fetch_add(&arm, 1);
    atomic_store(&head, 0);
    atomic_store(&tail, 0);
    atomic_store(&void_first, 0);
    atomic_store(&void_last, 0);
    cut = TAP_OPS_SENT;
    return true;
}

void tap_gpu_queue_end(void)
{
    atomic_fetch_add(&arm, 1);
}

struct tap_gpu_entry *tap_gpu_queue_place(uint64_t ahead)
{
    uint64_t h = atomic_load_explicit(&head, memory_order_relaxed);

    return h + ahead - atomic_load_explicit(&tail, memory_order_acquire) < ENTRIES
               ? &queue[(h + ahead) % ENTRIES]
               : NULL;
}

void tap_gpu_queue_put_part(struct tap_gpu_entry *e, uint32_t batch)
{
    e->cut = cut;
    cut = TAP_OPS_SENT;
    e->batch = batch;
    atomic_fetch_add_explicit(&head, 1, memory_order_release);
}

void tap_gpu_queue_put(struct tap_gpu_entry *e, uint32_t batch)
{
    e->end = tap_gpu_stage_end();
    tap_gpu_queue_put_part(e, batch);
}

void tap_gpu_queue_cut(enum tap_count why)
{
    cut = why;
}

struct tap_gpu_queue_mark tap_gpu_queue_mark(void)
{
    return (struct tap_gpu_queue_mark){atomic_load(&arm), atomic_load(&head)};
}

/* The queue is emptied while the sender rests. */
bool tap_gpu_queue_is_past(struct tap_gpu_queue_mark m)
{
    return m.arm != atomic_load(&arm) || atomic_load(&tail) >= m.head;
}

/* Whoever sees the last number sees the first one too. */
void tap_gpu_queue_void(uint64_t first, uint64_t last)
{
    const uint64_t from = atomic_load(&void_first);

    if (!from || first < from)
        atomic_store(&void_first, first);
    if (last > atomic_load(&void_last))
        atomic_store(&void_last, last);
}

/* What was copied before the queue was voided is right. The sender asks after it saw the batch, so it
 * may find such an entry void, but never a wrong one valid. */
bool tap_gpu_queue_is_void(const struct tap_gpu_entry *e)
{
    const uint64_t launch = e->launch.graph_launch;

    return launch && launch <= atomic_load(&void_last) && launch >= atomic_load(&void_first);
}

const struct tap_gpu_entry *tap_gpu_queue_entry(void)
{
    uint64_t t = atomic_load_explicit(&tail, memory_order_relaxed);

    return atomic_load_explicit(&head, memory_order_acquire) == t ? NULL : &queue[t % ENTRIES];
}

bool tap_gpu_queue_is_empty(void)
{
    return atomic_load_explicit(&tail, memory_order_acquire) ==
           atomic_load_explicit(&head, memory_order_acquire);
}

void tap_gpu_queue_next(void)
{
    atomic_fetch_add_explicit(&tail, 1, memory_order_release);
}
