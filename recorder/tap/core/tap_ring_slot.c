/* tap_ring_slot.c - a thread's place: the ring that it alone writes, taken at its first armed call and kept until it ends.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing here waits: no lock, no allocation, no system call but gettid when a thread takes a ring. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/tap/core/tap_core.h"

struct tap_plan tap_plan;
_Atomic uint32_t tap_generation;
__thread __attribute__((tls_model("initial-exec"))) struct tap_thread tap_thread;

static pthread_key_t slot_key;

static void leave_slot(void *seat)    /* at the end of a thread */
{
    struct tap_ring_slot *s = seat;
    uint64_t mine = atomic_load(&s->owner);

    tap_thread.slot = NULL;               /* other destructors may come this way yet */
    if ((uint32_t)mine != (uint32_t)syscall(SYS_gettid))
        return;
    atomic_store_explicit(&s->busy, 0, memory_order_release); /* a call that threw never came back to say so */
    atomic_compare_exchange_strong(&s->owner, &mine, 0);
}

void tap_ring_slot_key(void)
{
    static atomic_flag made = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&made))
        pthread_key_create(&slot_key, leave_slot);
}

bool tap_ring_slots_quiet(void)
{
    uint32_t i;

    for (i = 0; i < TAP_MAX_RINGS; i++)
        if (atomic_load(&tap_plan.seats[i].busy))
            return false;
    return !atomic_load(&tap_plan.homeless);
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

/* This thread's seat, entered; a free one when it has none. NULL: none is free, or asleep again. */
static struct tap_ring_slot *take_slot(uint32_t generation)
{
    uint64_t token = (uint64_t)generation << 32 | (uint32_t)syscall(SYS_gettid);
    uint32_t i;

    for (i = 0; i < tap_plan.rings && i < TAP_MAX_RINGS; i++) {
        struct tap_ring_slot *s = &tap_plan.seats[i];
        uint64_t owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
        bool ours = (uint32_t)owner == (uint32_t)token;

        if (owner && !ours)
            continue;
        if (!ours && !atomic_compare_exchange_strong(&s->owner, &owner, token))
            continue;
        if (!enter_slot(s, generation)) {
            atomic_compare_exchange_strong(&s->owner, &token, 0);
            return NULL;
        }
        if (s->generation != generation) {
            memset(s->slots, 0, TAP_WEIGHT_SLOTS * sizeof *s->slots);
            memset(&s->sampler, 0, sizeof s->sampler);
            s->generation = generation;
        }
        pthread_setspecific(slot_key, s);
        return s;
    }
    return NULL;
}

struct tap_ring_slot *tap_ring_slot_mine(uint32_t generation)
{
    struct tap_ring_slot *s = tap_thread.generation == generation ? tap_thread.slot : NULL;

    if (s)
        return enter_slot(s, generation) ? s : NULL;
    s = take_slot(generation);
    if (s) {
        tap_thread.slot = s;
        tap_thread.generation = generation;
        tap_thread.decision = TAP_UNDECIDED;
    }
    return s;
}

void tap_ring_slot_count_homeless(enum tap_count what, uint64_t n, uint64_t bytes, uint32_t generation)
{
    atomic_fetch_add(&tap_plan.homeless, 1);
    if (atomic_load(&tap_generation) == generation && *tap_plan.ours) {
        struct tap_counter *c = &tap_plan.shared->counts[what];

        atomic_fetch_add_explicit(&c->n, n, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->bytes, bytes, memory_order_relaxed);
    }
    atomic_fetch_sub(&tap_plan.homeless, 1);
}

void tap_ring_slot_count(struct tap_ring_slot *s, enum tap_count what, uint64_t n, uint64_t bytes)
{
    struct tap_counter *c = &s->ring->counts[what];

    /* one writer: no locked instruction is needed */
    atomic_store_explicit(&c->n, atomic_load_explicit(&c->n, memory_order_relaxed) + n, memory_order_relaxed);
    atomic_store_explicit(&c->bytes, atomic_load_explicit(&c->bytes, memory_order_relaxed) + bytes, memory_order_relaxed);
}

/* ---- records ------------------------------------------------------------------------------------------------------- */

uint64_t tap_ring_slot_room(const struct tap_ring_slot *s)
{
    uint64_t used = s->head - atomic_load_explicit(&s->ring->tail, memory_order_acquire);

    return used <= tap_plan.ring_bytes ? tap_plan.ring_bytes - used : 0;
}

void *tap_ring_slot_head(struct tap_ring_slot *s)
{
    return s->data + s->head % tap_plan.ring_bytes;
}

struct tap_rec tap_ring_slot_rec(struct tap_ring_slot *s, enum tap_rec_type type, uint32_t size, int64_t t_ns)
{
    return (struct tap_rec){.size = size, .type = type, .tid = (uint32_t)atomic_load_explicit(&s->owner, memory_order_relaxed),
                            .generation = s->generation, .t_ns = t_ns};
}

void tap_ring_slot_publish(struct tap_ring_slot *s, uint32_t size)
{
    s->head += size;
    atomic_store_explicit(&s->ring->head, s->head, memory_order_release);
}

uint64_t tap_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
