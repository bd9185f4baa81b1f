/* tap_ring_slot.h - a thread's ring slot: the ring that it alone writes, and what the tap
 * knows of that thread.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread takes a free slot at its first armed call and keeps it until the thread ends. Use, on
 * one thread:
 *     s = tap_ring_slot_enter(generation);
 *     write at most tap_ring_slot_room(s) bytes at tap_ring_slot_head(s);
 *     tap_ring_slot_publish(s, n);
 *     tap_ring_slot_exit(s);
 * Between enter and exit the shared memory stays mapped. All functions are for the slot's owner, on
 * threads of the server too: they take no lock, do not wait, allocate nothing and keep errno,
 * unless said otherwise. */
#ifndef TD_RECORDER_TAP_CORE_TAP_RING_SLOT_H
#define TD_RECORDER_TAP_CORE_TAP_RING_SLOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "recorder/tap/core/tap_counters.h"
#include "recorder/tap/core/tap_sampler.h"

#pragma GCC visibility push(hidden)

#define TAP_KNOWN_WEIGHTS 4096        /* sets of weights that a thread knows again */

struct tap_known_weights {            /* one layer's weights; see tap_weights.h */
    const void *ptr[TAP_MAX_WEIGHTS]; /* NULL: opaque, or there is none */
    uint64_t bytes[TAP_MAX_WEIGHTS];
    uint64_t description_hash;        /* of kind, layout and descriptions */
    uint64_t content_hash; /* of sampled words: notices another content at the same place */
    uint64_t sent, total;             /* bytes */
    uint32_t id;                      /* number of the set; 0: this entry is free */
};

/* One ring and the thread that writes it. All but owner and busy belongs to the owner. */
struct tap_ring_slot {
    _Atomic uint64_t owner;           /* 0: free, else generation << 32 | thread id */
    _Atomic uint32_t busy; /* the owner is between enter and exit: the memory must stay */
    struct tap_ring *ring;            /* shared */
    uint8_t *data; /* shared; mapped twice in a row, so that a record is contiguous */
    uint64_t head;                    /* bytes written; the shared head is a copy for the reader */
    uint32_t generation;              /* of the arm that the rest belongs to */
    uint32_t last_weight_set;         /* numbers of weight sets given out */
    struct tap_known_weights *weights; /* hash table of TAP_KNOWN_WEIGHTS */
    struct tap_sampler sampler;
};
extern struct tap_ring_slot tap_ring_slots[TAP_MAX_RINGS]; /* tap_plan.rings of them have memory */

/* What the tap knows of the calling thread. */
struct tap_thread {
    struct tap_ring_slot *slot;       /* NULL: none */
    uint32_t generation;              /* of the arm that slot and decision belong to */
    enum tap_decision decision;       /* what happens to the ops of the step at hand */
    uint64_t step;
    bool may_send_weights;            /* in the step at hand */
    bool uses_steps; /* it has begun a step once; other threads have a step in every op */
    bool inside; /* within a recorded call or the tap itself: calls inside are not recorded */
};
/* Initial-exec: the library is there when the program starts, so its place is known; no allocation
 * at the first use. */
extern __thread __attribute__((tls_model("initial-exec"))) struct tap_thread tap_thread;

/* The thread's slot, entered; a free one is taken when it has none (one system call, gettid).
 * tap_thread is valid for this arm then. NULL: no slot is free, or that arm is over; nothing to
 * exit. */
struct tap_ring_slot *tap_ring_slot_enter(uint32_t generation);
void tap_ring_slot_exit(struct tap_ring_slot *s);

/* Count in the slot's ring; the slot is entered. */
void tap_ring_slot_count(struct tap_ring_slot *s, enum tap_count what, uint64_t n, uint64_t bytes);

/* Bytes that a record may have now. 0 also when the reader's tail makes no sense. */
uint64_t tap_ring_slot_room(const struct tap_ring_slot *s);
/* Where the next record goes: room() bytes in a row, aligned to TAP_REC_ALIGN. */
void *tap_ring_slot_head(struct tap_ring_slot *s);
/* The head of a record of `size` bytes, padding included. */
struct tap_rec tap_ring_slot_rec(struct tap_ring_slot *s, enum tap_rec_type type, uint32_t size,
                                 int64_t t_ns);
/* Let the reader see the `size` bytes at the head: a complete record. */
void tap_ring_slot_publish(struct tap_ring_slot *s, uint32_t size);

/* ---- for the tap's own thread ---------------------------------------------------------------- */

/* Once in a process, before the first arm: have a thread's end free its slot. Also from tests. */
void tap_ring_slots_init(void);
/* No thread is in a slot or writes the shared counters. While not armed, this stays so. Any
 * thread. */
bool tap_ring_slots_are_idle(void);
/* Before an arm: no thread owns a slot any more. */
void tap_ring_slots_disown(void);

#pragma GCC visibility pop
#endif
