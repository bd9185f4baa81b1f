/* gpu_record_slots.h - record the products of a graph that has copied their operands to slots of an
 * arena: all of them by one copy of the arena.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For the holder of the gate, after the launch of the graph. The slots lie in a row, in the order of
 * the products, so a copy on the launch's stream, from the arena to the stage's ring, brings all that
 * follow each other. It comes before anything that is launched on that stream later, and so before the
 * next graph that copies to the same arena. What the slots hold is described by an entry each, which
 * are put when the copy has been made; the sender cuts it into ops. */
#ifndef TD_RECORDER_TAP_GPU_GPU_RECORD_SLOTS_H
#define TD_RECORDER_TAP_GPU_GPU_RECORD_SLOTS_H

#include "recorder/tap/gpu/gpu_product.h"
#include "recorder/tap/gpu/gpu_queue.h"
#include "recorder/tap/gpu/gpu_steps.h"

#pragma GCC visibility push(hidden)

struct tap_gpu_slots {                /* products that wait for their copy; zeroed: none */
    void *stream;
    int64_t t_ns;                     /* when the graph was launched */
    uint64_t from, at, bytes;         /* of the copy to be made: address, place in the ring */
    uint64_t n;                       /* entries that are filled in, and not put */
    uint64_t graph_launch;            /* the number of the graph's launch */
    int64_t weights_ns;               /* time spent on sending weights */
    bool failed;                      /* the driver refused an earlier copy of theirs */
};

/* A slot holds the copied operands, by tap_gpu_gemm_slot_offset(), and behind them a sample of the
 * weights (gpu_weight_sets.h). Where that is in the slot, and how large the slot is. */
uint64_t tap_gpu_slot_sample(const struct td_gpu_work *w);
uint64_t tap_gpu_slot_bytes(const struct td_gpu_work *w);

/* A product of the step at hand whose operands are at the address `slot`. Makes no call of the driver,
 * but where its weights go along, or where it does not follow on the product before. The product stays
 * as it is until the queue is past what is put at the end (tap_gpu_queue_is_past()).
 *   stream : the number of c->stream
 * Returns TAP_OPS_SENT: it waits; else why it is not recorded, which is not counted yet. */
enum tap_count tap_gpu_record_slot(struct tap_gpu_steps *s, struct tap_gpu_slots *c,
                                   struct tap_gpu_product *p, uint64_t slot, uint64_t stream);
/* Make the copy, and put the entries that wait for it; if the driver refuses, count them as failed.
 * Before anything else is put into the queue. */
void tap_gpu_record_slots_end(struct tap_gpu_steps *s, struct tap_gpu_slots *c);

/* ---- the sender ------------------------------------------------------------------------------ */
/* Fill in *whole, an entry as any other launch has it, from one that refers to its product. */
void tap_gpu_slot_entry(const struct tap_gpu_entry *e, struct tap_gpu_entry *whole);

#pragma GCC visibility pop
#endif
