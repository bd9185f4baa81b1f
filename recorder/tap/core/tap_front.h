/* tap_front.h - what a front is to the core: the part of the tap that knows one server or library.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A front stands before functions of the server, or is called back by the server, and describes
 * each call to the core. The core knows no front by name: recorder/tap/fronts.h lists them, and the
 * core goes through that list. */
#ifndef TD_RECORDER_TAP_CORE_TAP_FRONT_H
#define TD_RECORDER_TAP_CORE_TAP_FRONT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/tap/core/tap_proto.h"

#pragma GCC visibility push(hidden)

/* All members but name and describe may be NULL. All are called by the tap's own thread and may
 * wait, allocate and change errno there; set_awake and forked are also called in the child of a
 * fork, and only store. Sentences are static. */
struct tap_front {
    const char *name;              /* "td", "ggml", "vllm" */
    /* true: from now on every call must come the long way, by tap_start_if_cold() and tap_armed()
     * (cold or armed). false: asleep; the front may publish a fast path to the real function. */
    void (*set_awake)(bool awake);
    /* True: this front has seen calls. Then library[n]: where the real functions live; build[n]:
     * how that build describes itself, "" when it does not. */
    bool (*describe)(char *library, char *build, size_t n);
    /* Rows that the user wrote (record --ops): take this text, which is borrowed, in place of the
     * last one. NULL: there is none any more. Returns NULL, or why not. The tap is asleep. */
    const char *(*set_rows)(const char *text, size_t n);
    /* The tap was armed just now. Returns NULL, or a sentence for the user: why calls will not be
     * seen. */
    const char *(*start)(void);
    /* The tap is about to go to sleep: see no more calls, and send what was copied, for at most
     * wait_ms. */
    void (*stop)(int wait_ms);
    void (*tick)(void);            /* while armed, some times a second */
    int (*tick_ms)(void);          /* ms until the next tick, at most */
    /* Asleep again. Returns NULL, or a sentence for the user: what went wrong while armed. */
    const char *(*trouble)(void);
    void (*forked)(void);          /* this is the child of a fork: forget everything */
    /* Dump the flight recorder. Returns NULL: the dump has begun; else why not. */
    const char *(*dump_flight)(enum tap_dump_reason why);
    uint32_t (*flight_mib)(void);  /* size of the flight recorder's ring that there is; 0: none */
    /* The share of kernels in a GPU's time (TIMES of tap_proto.h), while asleep. Each returns NULL, or
     * why not. times_end closes the window if it is open still, and fills the numbers of its reply
     * (NULL: it only closes); drop closes it and forgets what it holds. */
    const char *(*times_begin)(void);
    const char *(*times_end)(struct tap_msg *reply);
    const char *(*times_get)(uint32_t number, struct tap_msg *reply);
    void (*times_drop)(void);
};

/* Define a front: TAP_FRONT(td) = {.name = "td", .describe = describe}; and name it in
 * recorder/tap/fronts.h. */
#define TAP_FRONT(front) \
    extern const struct tap_front tap_front_##front __attribute__((visibility("hidden"))); \
    const struct tap_front tap_front_##front

/* ---- between fronts -------------------------------------------------------------------------- */

/* A front sees what this process launches on a GPU; set by that front, cleared in the child of a
 * fork. The fronts of the CPU then leave calls with a GPU's tensors to it. Any thread. */
extern _Atomic bool tap_gpu_launches_seen;

/* ---- for the core: the same of all fronts ---------------------------------------------------- */

void tap_fronts_set_awake(bool awake);
/* A front could not remember what the server registered, for want of memory: what it would have
 * recorded is missing from then on, so the tap refuses to be armed. Any thread. */
void tap_front_lacks_memory(void);
bool tap_fronts_lacked_memory(void);
const char *tap_fronts_set_rows(const char *text, size_t n); /* the first sentence, or NULL */
const char *tap_fronts_start(void);   /* the first sentence that one returned, or NULL */
void tap_fronts_stop(int wait_ms);
void tap_fronts_tick(void);           /* while armed: stops at a front that put the tap to sleep */
int tap_fronts_tick_ms(int max_ms);   /* the least that one wants, at most max_ms */
const char *tap_fronts_trouble(void); /* the first sentence, or NULL */
void tap_fronts_forked(void);
const char *tap_fronts_dump_flight(enum tap_dump_reason why);
uint32_t tap_fronts_flight_mib(void);
/* Of the one front that can. */
const char *tap_fronts_times_begin(void);
const char *tap_fronts_times_end(struct tap_msg *reply);
const char *tap_fronts_times_get(uint32_t number, struct tap_msg *reply);
void tap_fronts_times_drop(void);
/* Fill the fields fronts, library and build of a greeting: names of all fronts that have seen
 * calls, and what the first of them knows of its library. */
void tap_fronts_describe(struct tap_msg *greeting);

#pragma GCC visibility pop
#endif
