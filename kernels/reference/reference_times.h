/* reference_times.h - what computing references on a GPU spends its time on.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_REFERENCE_REFERENCE_TIMES_H
#define TD_KERNELS_REFERENCE_REFERENCE_TIMES_H

#include "common/time_spent.h"

enum {
    /* of the thread that owns the device */
    TD_TIME_REF_IDLE, TD_TIME_REF_WEIGHTS, TD_TIME_REF_ROWS, TD_TIME_REF_KERNEL, TD_TIME_REF_SUMS,
    /* of those that ask it, and check what it gives */
    TD_TIME_REF_SLOT, TD_TIME_REF_JOB, TD_TIME_REF_COPY, TD_TIME_REF_SAMPLE, TD_TIME_REF_WHOLE,
    TD_REFERENCE_TIMES
};

extern struct td_time_span td_reference_times[TD_REFERENCE_TIMES];

/* Add what went by since from_ns to one of them. Returns the clock. */
static inline int64_t td_reference_spent(int which, int64_t from_ns)
{
    return td_time_spent(&td_reference_times[which], from_ns);
}

#endif
