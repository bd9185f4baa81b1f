/* tap_plan.h - what the recorder asked for, and whether the tap is armed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The tap's states: cold (no thread) -> asleep -> armed -> asleep. Only the tap's own thread moves
 * between the last two. Everything below may be read by any thread; nothing here allocates, waits
 * or changes errno. */
#ifndef TD_RECORDER_TAP_CORE_TAP_PLAN_H
#define TD_RECORDER_TAP_CORE_TAP_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "recorder/tap/core/tap_proto.h"

#pragma GCC visibility push(hidden)

/* Written by the tap's own thread while the tap is asleep and no thread is inside
 * (tap_ring_slots_are_idle()). */
struct tap_plan {
    /* the memory that came with ATTACH */
    struct tap_shared *shared;        /* NULL: none is attached */
    uint64_t ring_bytes;              /* of one ring */
    uint32_t rings;
    /* 1 here, 0 in a child however it was forked (MADV_WIPEONFORK): the rings are not its own */
    const volatile uint32_t *ours;
    /* the last ARM */
    uint32_t mode;                    /* enum tap_mode */
    uint32_t percent_ppm;             /* share of the steps that are recorded, in millionths */
    uint32_t kinds;                   /* enum tap_kinds */
    /* share of a launching thread's time that copies may take, in millionths; 0: any */
    uint32_t time_ppm;
    int64_t budget;                   /* bytes per second; <= 0: no limit */
    uint64_t flight_bytes;            /* ring of the flight recorder; 0: none */
    bool no_launches;                 /* see what is announced, and no launch on a GPU */
};
extern struct tap_plan tap_plan;

extern _Atomic uint32_t tap_generation; /* number of the arm at hand; 0: not armed */

static inline bool tap_armed(void)
{
    return atomic_load_explicit(&tap_generation, memory_order_acquire) != 0;
}

/* Armed, and ops of every kind are wanted, not GEMMs only (--all-ops). */
static inline bool tap_wants_all_kinds(void)
{
    return tap_armed() && tap_plan.kinds == TAP_KINDS_ALL;
}

/* This arm may watch the launches on a GPU, for what no operator and no library call announces. */
static inline bool tap_wants_launches(void) { return !tap_plan.no_launches; }

/* This arm records a sample of the steps, not all of them. Valid while armed. */
static inline bool tap_is_sampling(void) { return tap_plan.mode != TAP_MODE_ALL; }

/* Bytes of the flight recorder's ring that this arm asks for; 0: none. */
static inline uint64_t tap_flight_bytes(void) { return tap_plan.flight_bytes; }

/* Bytes that a record can have at most; 0: not armed. */
static inline uint64_t tap_max_record_bytes(void) { return tap_armed() ? tap_plan.ring_bytes : 0; }

#pragma GCC visibility pop
#endif
