/* gpu_op.h - an op as it is put together from the launches that computed it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The sender's thread alone. The tensors stay in the stage's mirror until the op is sent; the
 * sender frees them. */
#ifndef TD_RECORDER_TAP_GPU_GPU_OP_H
#define TD_RECORDER_TAP_GPU_GPU_OP_H

#include "recorder/tap/gpu/gpu_queue.h"

#pragma GCC visibility push(hidden)

struct tap_gpu_op {
    /* In order; each computes the rows that follow those of the launch before. */
    struct tap_gpu_entry launch[TAP_MAX_LAUNCHES];
    int n;                            /* 0: there is no op */
    /* The first launch was dropped: those that join it are dropped too. */
    bool unfit;
};
/* Describe an op (n > 0) as a call, into *call; all but
 * call->weight_set. An op has one output: of work with several, this is output `part` of them. The rows of several launches are gathered into memory that is valid until the
 * next call of this function. False: no memory. */
bool tap_gpu_op_describe(const struct tap_gpu_op *op, int part, struct tap_call *call);

#pragma GCC visibility pop
#endif
