/* reference_gpu.h - the judge's references on a GPU, for several threads at once.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread of its own opens the device and runs what the others bring, one after the other, while they
 * judge. On the device: 256 MiB; here: three pieces of pinned memory of 32 MiB. Weights stay on the device
 * as long as there is room. A sample of every reference, and now and then a whole one, is computed again
 * on the CPU (reference_sample.h). */
#ifndef TD_KERNELS_REFERENCE_REFERENCE_GPU_H
#define TD_KERNELS_REFERENCE_REFERENCE_GPU_H

#include "kernels/ops/op.h"

struct td_reference_gpu;

enum td_reference_state {
    TD_REFERENCE_OPENING,
    TD_REFERENCE_READY,
    TD_REFERENCE_NONE,             /* there is no GPU that can be used */
    TD_REFERENCE_LOST,             /* it was lost, or its driver did not answer */
    TD_REFERENCE_WRONG             /* it computed wrong, and is asked no more: none of its references can be trusted */
};

/* How long the driver may take for one job, for opening the device, for closing it. A job of a healthy
 * GPU takes a fraction of a second. */
#define TD_REFERENCE_PATIENCE_S 60

/* Start to open a device, and return at once. folder: with td_reference.fatbin and .hsaco, borrowed.
 * NULL: no memory, no thread. */
struct td_reference_gpu *td_reference_gpu_start(const char *folder);
/* Have the device be closed, and do not wait for that: nobody computes any more. NULL is allowed. */
void td_reference_gpu_leave(struct td_reference_gpu *g);
/* Close the device. Nobody computes any more. NULL is allowed.
 * False: the driver does not answer. Its thread goes on waiting for it, and frees what it uses should an
 * answer come; end the process by _exit(), for the driver may hang in what runs at an exit, too. */
bool td_reference_gpu_stop(struct td_reference_gpu *g);
/* Wait so long for the driver from now on, in place of TD_REFERENCE_PATIENCE_S. */
void td_reference_gpu_patience(struct td_reference_gpu *g, int seconds);
/* How it stands. words : [size], the device, or why there is none.
 *   wait : until it is open, or is not, or the driver does not answer */
enum td_reference_state td_reference_gpu_state(struct td_reference_gpu *g, bool wait, char *words, size_t size);

/* Are ops of this kind computed here at all? gptq_gemm, gemm. */
bool td_reference_gpu_takes(const char *kind);
/* Compute the reference of an op of such a kind, as the kind's own function does; the sums are
 * within TD_REFERENCE_ROOM of it.
 *   weights : equal for ops with the same weights and attributes
 * TD_ECORRUPT: what came back is not what the CPU computes. The state is TD_REFERENCE_WRONG from then on.
 * TD_EUNSUPPORTED: the CPU has to compute it: another form or kind, too large, no device, the device is
 * lost, does not answer or has no room; err says which. The tensors of op are read no more once this returns. The errors of the kind otherwise. */
int td_reference_gpu_compute(struct td_reference_gpu *g, const struct td_op_call *op, uint64_t weights, struct td_op_ref *ref,
                             struct td_error *err);

#endif
