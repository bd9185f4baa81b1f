/* gpu_queue.h - what the sender has to send, in order: one entry for each launch, step and
 * chunk of weights.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The holder of the gate writes, the sender reads; no lock. The tensors that an entry describes lie
 * in the stage's ring; they are in host memory once the entry's batch is. Entries are in the order
 * of launches. */
#ifndef TD_RECORDER_TAP_GPU_GPU_QUEUE_H
#define TD_RECORDER_TAP_GPU_GPU_QUEUE_H

#include "recorder/tap/gpu/gpu_inner.h"
#include "recorder/tap/gpu/gpu_product.h"
#include "recorder/tap/gpu/gpu_stage.h"
#include "recorder/tap/gpu/gpu_weight_sets.h"

#pragma GCC visibility push(hidden)

enum tap_gpu_entry_kind {
    TAP_GPU_STEP, TAP_GPU_WEIGHT_CHUNK, TAP_GPU_LAUNCH,
    TAP_GPU_BOUNDARY,                 /* no launch behind it joins one before it */
    TAP_GPU_CHECK,                    /* columns of an output, for the flight recorder to look at */
    TAP_GPU_DUMP_BEGIN, TAP_GPU_DUMP_END, /* the flight recorder's ring begins to come; has come */
};
struct tap_gpu_entry {
    enum tap_gpu_entry_kind kind;
    uint32_t batch;                   /* the tensors are in host memory once this batch is */
    uint64_t end;                     /* after this entry the sender frees the ring up to here */
    uint64_t step;                    /* STEP; LAUNCH of the flight recorder */
    bool recorded;                    /* STEP: its record was sent before */
    /* LAUNCH, DUMP_*: why the flight recorder's ring is dumped; NOT: it was recorded at once. */
    enum tap_dump_reason flight;
    struct tap_gpu_weight_set set;    /* CHUNK, LAUNCH, CHECK */
    /* CHUNK: offset in the set's stream of tensors; CHUNK, CHECK: place and bytes in the stage's
     * ring. */
    uint64_t offset, at, len;
    /* LAUNCH: computes the next rows of the GEMM of the launch before. */
    bool joins;
    /* If not TAP_OPS_SENT: why the previous op is incomplete. Drop that op: its first rows would
     * pass for all of it. */
    enum tap_count cut;
    /* LAUNCH: it only dequantises W; this function, called next, multiplies. NULL: it does all. */
    const char *library_function;
    int64_t t_ns;
    /* LAUNCH, by a graph that has copied the operands to a slot: `at` is the slot's place in the ring,
     * and what follows here, but for launch.graph_launch, is the product's and not filled in
     * (tap_gpu_slot_entry()). NULL: another launch. */
    const struct tap_gpu_product *product;
    const struct tap_gpu_kernel *kernel;
    struct td_gpu_work work;
    uint64_t op_at[TD_GPU_OPERANDS];  /* places of inputs and output in the ring */
    uint64_t sample_at;               /* place of the set's sample; a launch that joins has none */
    struct tap_gpu_launch launch;     /* only its numbers */
    struct tap_gpu_inner inner;       /* LAUNCH: what a whole call launched; n 0: not known */
};

/* ---- the holder of the gate ------------------------------------------------------------------ */
/* The place of the next entry, to be filled in; ahead 1: of the one after it. NULL: full. */
struct tap_gpu_entry *tap_gpu_queue_place(uint64_t ahead);
/* Publish the next entry, whose tensors come with that batch. This function sets batch, end and
 * cut. */
void tap_gpu_queue_put(struct tap_gpu_entry *e, uint32_t batch);
/* The same, but with e->end as it was filled in: more than this entry's bytes are reserved by now. */
void tap_gpu_queue_put_part(struct tap_gpu_entry *e, uint32_t batch);
/* The op at hand lacks rows, for that reason: the next entry says so. */
void tap_gpu_queue_cut(enum tap_count why);

/* ---- any thread ------------------------------------------------------------------------------ */
/* The entries that were put until now, to ask later whether the sender may still read one of them. */
struct tap_gpu_queue_mark { uint64_t arm, head; };
struct tap_gpu_queue_mark tap_gpu_queue_mark(void);
bool tap_gpu_queue_is_past(struct tap_gpu_queue_mark m);
/* What the launches of graphs with these numbers copied may have been overwritten, also where it comes
 * into the queue later: unless its batch has come, it must not be sent. Called again, all numbers
 * between are void as well. One caller at a time. */
void tap_gpu_queue_void(uint64_t first, uint64_t last);
bool tap_gpu_queue_is_empty(void);

/* ---- the sender ------------------------------------------------------------------------------ */
/* The next entry, NULL: none. It stays until tap_gpu_queue_next(). */
const struct tap_gpu_entry *tap_gpu_queue_entry(void);
/* Was the next entry voided? Asked once its batch has come. */
bool tap_gpu_queue_is_void(const struct tap_gpu_entry *e);
void tap_gpu_queue_next(void);

/* ---- the tap's thread, while the sender rests ------------------------------------------------ */
bool tap_gpu_queue_clear(void);       /* at each arm; false: no memory */
void tap_gpu_queue_end(void);         /* what is left in it nobody will read */

#pragma GCC visibility pop
#endif
