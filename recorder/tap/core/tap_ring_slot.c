/* tap_ring_slot.c - a thread's ring slot: taking one, entering and leaving it, writing its ring.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_ring_slot.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/tap/core/tap_plan.h"

struct tap_ring_slot tap_ring_slots[TAP_MAX_RINGS];
__thread __attribute__((tls_model("initial-exec"))) struct tap_thread tap_thread;

static pthread_key_t slot_key;

/* Destructor of slot_key: the thread ends. */
static void free_slot(void *slot)
{
    struct tap_ring_slot *s = slot;
    uint64_t owner = atomic_load(&s->owner);

    tap_thread.slot = NULL;           /* other destructors may call the tap yet */
    if ((uint32_t)owner != (uint32_t)syscall(SYS_gettid))
        return;
    /* a call that threw left the slot busy */
    atomic_store_explicit(&s->busy, 0, memory_order_release);
    atomic_compare_exchange_strong(&s->owner, &owner, 0);
}

void tap_ring_slots_init(void)
{
    static atomic_flag made = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&made))
        pthread_key_create(&slot_key, free_slot);
}

bool tap_ring_slots_are_idle(void)
{
    uint32_t i;

    for (i = 0; i < TAP_MAX_RINGS; i++)
        if (atomic_load(&tap_ring_slots[i].busy))
            return false;
    return !atomic_load(&tap_counting_threads);
}

void tap_ring_slots_disown(void)
{
    uint32_t i;

    for (i = 0; i < tap_plan.rings; i++)
        atomic_store(&tap_ring_slots[i].owner, 0);
}

/* False: the tap went to sleep meanwhile. */
static bool enter_slot(struct tap_ring_slot *s, uint32_t generation)
{
    atomic_store(&s->busy, 1);
    if (atomic_load(&tap_generation) == generation && *tap_plan.ours)
        return true;
    atomic_store_explicit(&s->busy, 0, memory_order_release);
    return false;
}

void tap_ring_slot_exit(struct tap_ring_slot *s)
{
    atomic_store_explicit(&s->busy, 0, memory_order_release);
}

static void start_slot(struct tap_ring_slot *s, uint32_t generation)
{
    if (s->generation == generation)
        return;
    memset(s->weights, 0, TAP_KNOWN_WEIGHTS * sizeof *s->weights);
    memset(&s->sampler, 0, sizeof s->sampler);
    s->generation = generation;
}

/* A slot that is this thread's, or free, entered. NULL: there is none, or the arm is over. */
static struct tap_ring_slot *claim_slot(uint32_t generation)
{
    uint64_t token = (uint64_t)generation << 32 | (uint32_t)syscall(SYS_gettid);
    uint32_t i;

    for (i = 0; i < tap_plan.rings && i < TAP_MAX_RINGS; i++) {
        struct tap_ring_slot *s = &tap_ring_slots[i];
        uint64_t owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
        bool owned = (uint32_t)owner == (uint32_t)token;

        if (owner && !owned)
            continue;
        if (!owned && !atomic_compare_exchange_strong(&s->owner, &owner, token))
            continue;
        if (!enter_slot(s, generation)) {
            atomic_compare_exchange_strong(&s->owner, &token, 0);
            return NULL;
        }
        start_slot(s, generation);
        pthread_setspecific(slot_key, s);
        return s;
    }
    return NULL;
}

struct tap_ring_slot *tap_ring_slot_enter(uint32_t generation)
{
    struct tap_ring_slot *s = tap_thread.generation == generation ? tap_thread.slot : NULL;

    if (s)
        return enter_slot(s, generation) ? s : NULL;
    s = claim_slot(generation);
    if (s) {
        tap_thread.slot = s;
        tap_thread.generation = generation;
        tap_thread.decision = TAP_UNDECIDED;
    }
    return s;
}

void tap_ring_slot_count(struct tap_ring_slot *s, enum tap_count what, uint64_t n, uint64_t bytes)
{
    struct tap_counter *c = &s->ring->counts[what];

    /* one writer: no locked instruction is needed */
    atomic_store_explicit(&c->n, atomic_load_explicit(&c->n, memory_order_relaxed) + n,
                          memory_order_relaxed);
    atomic_store_explicit(&c->bytes, atomic_load_explicit(&c->bytes, memory_order_relaxed) + bytes,
                          memory_order_relaxed);
}

/* ---- records --------------------------------------------------------------------------------- */

uint64_t tap_ring_slot_room(const struct tap_ring_slot *s)
{
    uint64_t used = s->head - atomic_load_explicit(&s->ring->tail, memory_order_acquire);

    return used <= tap_plan.ring_bytes ? tap_plan.ring_bytes - used : 0;
}

void *tap_ring_slot_head(struct tap_ring_slot *s)
{
    return s->data + s->head % tap_plan.ring_bytes;
}

struct tap_rec tap_ring_slot_rec(struct tap_ring_slot *s, enum tap_rec_type type, uint32_t size,
                                 int64_t t_ns)
{
    return (struct tap_rec){.size = size,
                            .type = type,
                            .tid = (uint32_t)atomic_load_explicit(&s->owner, memory_order_relaxed),
                            .generation = s->generation,
                            .t_ns = t_ns};
}

void tap_ring_slot_publish(struct tap_ring_slot *s, uint32_t size)
{
    s->head += size;
    atomic_store_explicit(&s->ring->head, s->head, memory_order_release);
}
