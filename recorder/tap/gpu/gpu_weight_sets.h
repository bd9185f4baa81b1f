/* gpu_weight_sets.h - the weights of each layer: found again by their addresses, and sent once
 * an arm.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A set is the weights of one layer. It is copied in chunks, as there is room; an op of the layer
 * is recorded once all of it is on its way. The memory may get another content (another model,
 * reloaded weights), so a sample of the set is copied with every op, and the sender compares it
 * with what it sent. */
#ifndef TD_RECORDER_TAP_GPU_GPU_WEIGHT_SETS_H
#define TD_RECORDER_TAP_GPU_GPU_WEIGHT_SETS_H

#include "kernels/adapters/adapter.h"
#include "recorder/tap/core/tap.h"

#pragma GCC visibility push(hidden)

#define TAP_GPU_WEIGHT_SETS 4096u
/* Numbers of sets in an arm: a set gets another number when its memory has another content. */
#define TAP_GPU_WEIGHT_NUMBERS (2 * TAP_GPU_WEIGHT_SETS)

struct tap_gpu_weight_set {
    /* In the order of the adapter's operands. */
    uint64_t address[TAP_MAX_WEIGHTS], bytes[TAP_MAX_WEIGHTS];
    /* Bytes of all tensors; of those, on their way to the sender. */
    uint64_t total, staged;
    uint64_t form;                    /* a hash of what they are read as: the recorder takes a set apart by that, so the
                                         same memory in another form (by an operator of another kind) is another set */
    uint32_t number;                  /* from 1; 0: free */
    uint32_t slot;                    /* its place in the table */
};

/* Where a product's set was found; zeroed: it was not looked for. */
struct tap_gpu_weight_set_found { struct tap_gpu_weight_set *set; uint32_t arm; };

/* ---- the holder of the gate ------------------------------------------------------------------ */
/* The set of a launch's weights. NULL: the table is full, or the launch has more weight tensors
 * than a set holds. */
struct tap_gpu_weight_set *tap_gpu_weight_set_find(const struct td_gpu_work *w);
/* The same for a launch of the same product again and again: it is looked for once an arm. */
struct tap_gpu_weight_set *tap_gpu_weight_set_find_again(struct tap_gpu_weight_set_found *found,
                                                         const struct td_gpu_work *w);
/* May chunks of this set go in this step? One set is completed before the next begins, so that the
 * recorder holds few incomplete ones. A set whose layer has not run for 32 steps is given up:
 * should the layer run again, the set goes anew, under another number. */
bool tap_gpu_weight_set_may_go(struct tap_gpu_weight_set *s, uint64_t step);
void tap_gpu_weight_set_went(const struct tap_gpu_weight_set *s); /* some chunks of it did */
bool tap_gpu_weight_set_is_refused(const struct tap_gpu_weight_set *s);
bool tap_gpu_weight_set_is_activation(const struct tap_gpu_weight_set *s);

/* ---- the tap's thread ------------------------------------------------------------------------ */
void tap_gpu_weight_sets_clear(void); /* at each arm */

/* ---- the sender ------------------------------------------------------------------------------ */
/* The weights in this memory have changed: the next launch that uses it gets a set with a new
 * number, and its weights are sent again. */
void tap_gpu_weight_set_mark_stale(const struct tap_gpu_weight_set *s);
/* These are no weights: an operand of a product that may be one of two activations has changed. The
 * product is not recorded again in this arm. */
void tap_gpu_weight_set_mark_activation(const struct tap_gpu_weight_set *s);
/* The recorder wants no ops with these weights. */
void tap_gpu_weight_set_refuse(const struct tap_gpu_weight_set *s);

/* ---- any thread ------------------------------------------------------------------------------ */
/* Describe a launch's weights, as a set without a number. False: there are none, or more tensors than
 * a set holds. */
bool tap_gpu_weight_set_read(struct tap_gpu_weight_set *s, const struct td_gpu_work *w);
/* A set's sample is some bytes from the middle of each tensor, within one chunk. That of tensor t
 * lies at t * TAP_GPU_SAMPLE_EACH of TAP_GPU_SAMPLE bytes; it is *n bytes (0: no such tensor) from
 * the returned offset of the tensor on. */
#define TAP_GPU_SAMPLE_EACH 32u
#define TAP_GPU_SAMPLE (TAP_MAX_WEIGHTS * TAP_GPU_SAMPLE_EACH)
uint64_t tap_gpu_weight_set_sample(const struct tap_gpu_weight_set *s, int t, uint64_t *n);

#pragma GCC visibility pop
#endif
