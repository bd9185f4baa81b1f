/* gpu_times.h - how long the GPU was at work in each kernel, and whether the tap reads that kernel.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A table of fixed size, by the whole name of a kernel. First the times of a window are added, then
 * is noted what launches each name: what the tap records, or something else. From the tap's thread. */
#ifndef TD_RECORDER_TAP_GPU_GPU_TIMES_H
#define TD_RECORDER_TAP_GPU_GPU_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/tap/core/tap_proto.h"

#pragma GCC visibility push(hidden)

#define TAP_GPU_TIMES (TAP_TIMES_KERNELS - 1)

struct tap_gpu_time {
    uint64_t hash;                    /* of the whole name */
    uint64_t n, ns;                   /* launches, and the time of all of them */
    bool recorded, other;             /* it was seen to be launched by what the tap records; by others */
    char symbol[TAP_SYMBOL];          /* cut where it is longer; "": of no name, or in no place */
};

struct tap_gpu_times {
    unsigned n;
    uint64_t launches, ns;            /* of all kernels */
    uint64_t lost;                    /* launches whose times are not known */
    uint64_t most_ns;                 /* the window: no launch in it took longer */
    struct tap_gpu_time at[TAP_GPU_TIMES], rest; /* rest: for which the table has no place */
};

/* An empty table; NULL: no memory. The one before is gone. */
struct tap_gpu_times *tap_gpu_times_new(void);
/* The table at hand; NULL: there is none. */
struct tap_gpu_times *tap_gpu_times(void);
void tap_gpu_times_drop(void);
void tap_gpu_times_forget(void);      /* in the child of a fork */

/* Add a launch of this kernel (NULL: it has no name). Its time is not known if end <= start, or if it
 * were longer than most_ns: on an H100 CUPTI gave 17 of 11,791 kernels of graphs a start 6.7 s early. */
void tap_gpu_times_add(struct tap_gpu_times *t, const char *symbol, uint64_t start, uint64_t end);
/* Note who launches the kernel, if the table has it. */
void tap_gpu_times_note(struct tap_gpu_times *t, uint64_t hash, bool recorded);
/* Not all was looked at: nothing is known to be recorded. */
void tap_gpu_times_doubt(struct tap_gpu_times *t);
enum tap_seen tap_gpu_times_seen(const struct tap_gpu_time *k);
/* Note the kernels of the tables of gpu_kernels.h: those that were launched in the last arm. */
void tap_gpu_times_note_launched(struct tap_gpu_times *t);

/* FNV-1a of the whole name; never 0. */
uint64_t tap_gpu_symbol_hash(const char *symbol);

#pragma GCC visibility pop
#endif
