/* gpu_copies.h - copies from place to place in the device's memory, several small ones in one
 * launch.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A call of the driver costs what a copy of some kilobytes costs, so the copies that one GEMM needs
 * are gathered and made by one kernel of the tap's own. Where that kernel cannot be had, each copy
 * is a call of the driver. */
#ifndef TD_RECORDER_TAP_GPU_GPU_COPIES_H
#define TD_RECORDER_TAP_GPU_GPU_COPIES_H

#include "recorder/tap/gpu/gpu_driver.h"

#pragma GCC visibility push(hidden)

#define TAP_GPU_COPIES 16u
struct tap_gpu_copy {                 /* as the kernel reads it */
    uint64_t to, from;                /* addresses; the rows at `to` are dense */
    uint64_t bytes, pitch;            /* bytes of all rows; distance of the rows at `from` */
    uint32_t row_bytes;
    uint32_t unit;                    /* 16, 4 or 1: all of the above are multiples of it */
    uint32_t end;                     /* its blocks are those from the former copy's `end` to before this */
    uint32_t unused;
};
struct tap_gpu_copies {               /* copies on one stream that go together; zeroed: none */
    struct tap_gpu_copy copy[TAP_GPU_COPIES];
    unsigned n, blocks;               /* blocks: of all copies */
};

/* ---- a thread of the server, or the tap's with the context current --------------------------- */
/* Copy `rows` rows of row_bytes, `pitch` bytes apart, densely to `to`; at once, by the driver.
 * False: the driver refused. */
bool tap_gpu_copy_rows(uint64_t to, uint64_t from, uint64_t rows, uint64_t row_bytes,
                       uint64_t pitch, void *stream);
/* The same, but the copy may be made no earlier than tap_gpu_copies_launch(). */
bool tap_gpu_copies_add(struct tap_gpu_copies *c, uint64_t to, uint64_t from, uint64_t rows,
                        uint64_t row_bytes, uint64_t pitch, void *stream);
/* Does all of it lie within one allocation? */
bool tap_gpu_lies_within(uint64_t from, uint64_t bytes);
/* Launch what was added. False: the driver refused. */
bool tap_gpu_copies_launch(struct tap_gpu_copies *c, void *stream);

/* ---- the tap's thread, with the context current ---------------------------------------------- */
/* Copies as a node of a graph. add: as tap_gpu_copies_add(), of any size, and nothing is launched;
 * false: more than TAP_GPU_COPIES of them, memory that is not there, or no kernel. fill: the node
 * that makes them; params[1] is used by it. early: the node may begin before those that it depends
 * on have ended (a programmatic edge), and waits for them itself; where tap_gpu_copies_may_be_early(). */
bool tap_gpu_copies_add_to_node(struct tap_gpu_copies *c, uint64_t to, uint64_t from, uint64_t rows,
                                uint64_t row_bytes, uint64_t pitch);
void tap_gpu_copies_fill_node(struct tap_gpu_copies *c, struct td_cuda_kernel_node *node,
                              void **params, bool early);
bool tap_gpu_copies_may_be_early(void);

#define TAP_GPU_TRIAL_BYTES 1024u
struct tap_gpu_copies_trial {         /* where the kernel may be tried */
    uint64_t ring;                    /* address of TAP_GPU_TRIAL_BYTES that nobody else uses now */
    const uint8_t *host;              /* their mirror in pinned memory */
    const _Atomic uint32_t *word;     /* a word in pinned memory, 0 */
    uint64_t word_address;            /* the same, as the device sees it */
    void *stream;
};
/* Have the driver compile the kernel, and try it. False: either failed, and copies are made one by
 * one. */
bool tap_gpu_copies_open(const struct tap_gpu_copies_trial *t);
/* Wait, for a second at most, until all is done that the stream was given; number: of the trial, not 0. */
bool tap_gpu_copies_wait_for_trial(const struct tap_gpu_copies_trial *t, uint32_t number);
void tap_gpu_copies_forget(void);     /* the context is gone */

#pragma GCC visibility pop
#endif
