/* reference_queue.h - the memory in which a job goes to the GPU's thread and its sums come back.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_REFERENCE_REFERENCE_QUEUE_H
#define TD_KERNELS_REFERENCE_REFERENCE_QUEUE_H

#include "kernels/reference/reference_device.h"
#include "kernels/reference/reference_gpu.h"

/* Rows of A, their scales, and the sums. */
#define TD_REFERENCE_SLOT_BYTES \
    (TD_REFERENCE_A_BYTES + TD_REFERENCE_ROWS * 3 * sizeof(float) + (size_t)TD_REFERENCE_RESULTS * 3 * sizeof(double))

struct td_reference_slot { struct td_reference_job job; void *memory; };

/* Wait for a slot. NULL: the device is not ready, or there is no memory. */
struct td_reference_slot *td_reference_slot_take(struct td_reference_gpu *g);
void td_reference_slot_put(struct td_reference_gpu *g, struct td_reference_slot *s);
/* Run its job, whose a, row_scales and sums lie in its memory. TD_EUNSUPPORTED: it did not run. */
int td_reference_slot_run(struct td_reference_gpu *g, struct td_reference_slot *s, struct td_error *err);
/* It computed wrong. */
void td_reference_gpu_distrust(struct td_reference_gpu *g, const char *why);

#endif
