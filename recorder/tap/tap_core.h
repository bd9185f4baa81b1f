/* tap_core.h - the parts of the tap's core: what they share. Front ends include tap.h only.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library runs inside somebody else's server. It never prints, exits, aborts or waits for the recorder, allocates nothing on
 * the server's threads once it is armed, and fails open: whatever is wrong, the real function is called.
 *
 *   tap_entry.c  the functions that the server calls      tap_take.c   one armed call or step: what is taken, what is dropped
 *   tap_real.c   finding the real ones                    tap_serve.c  the thread, the socket, arming and disarming
 *
 * States: cold (no thread) -> asleep -> armed -> asleep. Only the tap's thread moves between the last two. */
#ifndef TD_TAP_CORE_H
#define TD_TAP_CORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "recorder/tap/tap.h"

#pragma GCC visibility push(hidden)

typedef int tap_gemm_fn(const struct td_gptq_gemm_args *);
typedef void tap_step_fn(const struct td_step_args *);

/* ---- tap_real.c ---- */
/* The function that `caller` would reach without the tap; NULL: none. Cheap after the first time. */
tap_gemm_fn *tap_real_gemm(const void *caller);
tap_step_fn *tap_real_step(const void *caller);
/* Where gemm lives and td_kernels_build() of that library; "" when not known. */
void tap_real_describe(char *library, char *build, size_t n);
/* The one that all callers share, or NULL: it depends on the caller. */
tap_gemm_fn *tap_real_shared_gemm(void);
tap_step_fn *tap_real_shared_step(void);

/* ---- tap_entry.c ---- */
/* Non-NULL: asleep, and this is the real function. NULL: cold, armed, or the real one depends on the caller. */
extern _Atomic(tap_gemm_fn *) tap_asleep_gemm;
extern _Atomic(tap_step_fn *) tap_asleep_step;

/* ---- tap_take.c ---- */

struct tap_weight_slot {              /* one layer's weights as this thread knows them */
    const void *ptr[TAP_WEIGHT_TENSORS];
    uint64_t bytes[TAP_WEIGHT_TENSORS];
    uint64_t check;                   /* of sampled words: notices another content at the same place */
    uint64_t sent, total;
    uint32_t id;                      /* 0: free */
};
#define TAP_WEIGHT_SLOTS 4096

/* One ring and the thread that writes it. All but owner and busy belongs to the owner. */
struct tap_seat {
    _Atomic uint64_t owner;           /* 0: free, else generation << 32 | tid */
    _Atomic uint32_t busy;            /* the owner is inside: memory must stay */
    struct tap_ring *ring;            /* shared */
    uint8_t *data;                    /* mapped twice in a row */
    uint64_t head;                    /* the truth; the shared one is a copy for the reader */
    uint32_t generation;              /* that slots and classes belong to */
    uint32_t next_weight;
    struct tap_weight_slot *slots;    /* [TAP_WEIGHT_SLOTS] */
    uint8_t classes[64];              /* steps taken of this size since arming */
    uint64_t steps;                   /* that began since arming */
};

struct tap_plan {                     /* what the recorder asked for; changes only while asleep and nobody is inside */
    struct tap_shared *shared;
    uint64_t ring_bytes;
    uint32_t rings;
    uint32_t mode, percent_ppm;
    int64_t budget;                   /* bytes per second, <= 0: none */
    struct tap_seat seats[TAP_MAX_RINGS];
    _Atomic int64_t due_steps;        /* when the budget is level again; see spend() */
    _Atomic int64_t due_weights;
    _Atomic uint64_t seq;
    _Atomic uint32_t homeless;        /* threads without a seat that are inside */
    const volatile uint32_t *ours;    /* 1 here; 0 in any child, however it was forked (MADV_WIPEONFORK) */
};
extern struct tap_plan tap_plan;

int tap_take_gemm(const struct td_gptq_gemm_args *args, tap_gemm_fn *real);
void tap_take_key(void);              /* create the key whose destructor frees a thread's seat */
bool tap_take_quiet(void);            /* nobody is inside */
bool tap_take_inside(void);           /* this thread is */

/* ---- tap_serve.c ---- */
void tap_serve_start(void);           /* start the thread unless it runs; called from the server's threads */

#pragma GCC visibility pop
#endif
