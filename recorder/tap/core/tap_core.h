/* tap_core.h - the parts of the tap's core: what they share. Front ends include tap.h only.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   tap_ring_slot.c     a thread's ring: taking it, room in it, counters     tap_steps.c  sampling, the budget, records of steps
 *   tap_call.c     one call, from its begin to its end                  tap_weights.c  weights: sent once an arm
 *   tap_serve.c    the thread, the socket, arming and disarming         tap_real.c   finding the real functions
 *   tap_memory.c   the memory that the recorder shares                 tap_sender.c   for front ends that send later
 *   tap_<front>.c  the front ends; tap_torch_tensor.c, tap_cuda*.c and others: parts of them */
#ifndef TD_RECORDER_TAP_CORE_TAP_CORE_H
#define TD_RECORDER_TAP_CORE_TAP_CORE_H

#include <pthread.h>

#include "recorder/tap/core/tap.h"

#pragma GCC visibility push(hidden)

struct tap_weight_slot {              /* one layer's weights as this thread knows them */
    const void *ptr[TAP_MAX_WEIGHTS]; /* NULL: opaque, or there is none */
    uint64_t bytes[TAP_MAX_WEIGHTS];
    uint64_t what;                    /* of kind, layout and descriptions */
    uint64_t check;                   /* of sampled words: notices another content at the same place */
    uint64_t sent, total;
    uint32_t id;                      /* 0: free */
};
#define TAP_WEIGHT_SLOTS 4096

/* One ring and the thread that writes it. All but owner and busy belongs to the owner. */
struct tap_ring_slot {
    _Atomic uint64_t owner;           /* 0: free, else generation << 32 | tid */
    _Atomic uint32_t busy;            /* the owner is inside: memory must stay */
    struct tap_ring *ring;            /* shared */
    uint8_t *data;                    /* mapped twice in a row */
    uint64_t head;                    /* the truth; the shared one is a copy for the reader */
    uint32_t generation;              /* that slots and classes belong to */
    uint32_t next_weight;
    struct tap_weight_slot *slots;    /* [TAP_WEIGHT_SLOTS] */
    struct tap_sampler sampler;       /* since arming */
};

struct tap_plan {                     /* what the recorder asked for; changes only while asleep and nobody is inside */
    struct tap_shared *shared;
    uint64_t ring_bytes;
    uint32_t rings;
    uint32_t mode, percent_ppm;
    uint32_t kinds;
    uint32_t time_ppm;                /* of the server's time that copies may take, 0: any */
    int64_t budget;                   /* bytes per second, <= 0: none */
    uint64_t flight_bytes;
    struct tap_ring_slot seats[TAP_MAX_RINGS];
    _Atomic int64_t due_steps;        /* when the budget is level again; see tap_spend() */
    _Atomic int64_t due_weights;
    _Atomic int64_t due_time;
    _Atomic uint64_t seq;
    _Atomic uint32_t homeless;        /* threads without a seat that are inside */
    const volatile uint32_t *ours;    /* 1 here; 0 in any child, however it was forked (MADV_WIPEONFORK) */
};
extern struct tap_plan tap_plan;

struct tap_thread {
    struct tap_ring_slot *slot;
    uint32_t generation;              /* that seat and doing belong to */
    enum tap_decision decision;            /* what happens to the ops of the step at hand */
    uint64_t step;
    bool may_send_weights;                  /* the step may send weights */
    bool uses_steps, inside;
};
/* Initial-exec: the library is there when the program starts, so its place is known; no allocation at the first use. */
extern __thread __attribute__((tls_model("initial-exec"))) struct tap_thread tap_thread;

/* ---- tap_ring_slot.c ---- */
/* This thread's seat, entered, with tap_thread valid for this arm: memory stays until tap_ring_slot_exit. NULL: there is none to be had, or asleep again. */
struct tap_ring_slot *tap_ring_slot_mine(uint32_t generation);
void tap_ring_slot_exit(struct tap_ring_slot *s);
void tap_ring_slot_count(struct tap_ring_slot *s, enum tap_count what, uint64_t n, uint64_t bytes);
void tap_ring_slot_count_homeless(enum tap_count what, uint64_t n, uint64_t bytes, uint32_t generation);
uint64_t tap_ring_slot_room(const struct tap_ring_slot *s);
void *tap_ring_slot_head(struct tap_ring_slot *s);
struct tap_rec tap_ring_slot_rec(struct tap_ring_slot *s, enum tap_rec_type type, uint32_t size, int64_t t_ns);
void tap_ring_slot_publish(struct tap_ring_slot *s, uint32_t size);
void tap_ring_slot_key(void);              /* create the key whose destructor frees a thread's seat */
bool tap_ring_slots_quiet(void);           /* nobody is inside */
uint64_t tap_mix(uint64_t x);         /* splitmix64 */

/* ---- tap_steps.c ---- */
void tap_step_alone(struct tap_ring_slot *s, int64_t rows); /* decide for one call, on a thread without steps */
void tap_spend(_Atomic int64_t *due, uint64_t bytes);
bool tap_step_write(struct tap_ring_slot *s, const struct td_step_args *args, int64_t now); /* its record; false: no room */
extern const enum tap_count tap_reason_ops[], tap_reason_steps[]; /* by enum tap_decision */

/* ---- tap_weights.c ---- */
/* Have the weights of the call gone over? True: *id is the set, 0 when there is nothing to send. False: what does not fit now goes with the next
 * call of this layer. */
bool tap_weights_send(struct tap_ring_slot *s, const struct tap_call *call, uint32_t *id);
/* Did the recorder say that it wants no ops with these weights? Then tap_weights_send() is false too. */
bool tap_weights_refused(const struct tap_ring_slot *s, uint32_t id);
/* Room in the record of one chunk, and its head; the bytes follow it. NULL: no room. */
void *tap_weights_chunk(struct tap_ring_slot *s, uint32_t id, const uint64_t bytes[TAP_MAX_WEIGHTS], uint64_t offset, uint64_t len, uint64_t *size);
/* Bytes [offset, offset + n) of what an operand is copied as. */
void tap_operand_copy(uint8_t *to, const struct tap_operand *o, uint64_t offset, uint64_t n);

/* ---- tap_serve.c ---- */
/* A variable of the environment that the process started with, "" when it was not there: getenv() beside a server's setenv() is a race. */
void tap_environ_get(const char *name, char *out, size_t max);

/* ---- tap_memory.c ---- */
/* Map what came with ATTACH into tap_plan. Everything about it that could hurt later is looked at first. NULL: done; else why not. */
const char *tap_memory_attach(int fd, const struct tap_msg *m);
void tap_memory_unmap(void);

#pragma GCC visibility pop
#endif
