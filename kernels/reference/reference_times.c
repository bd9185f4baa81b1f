/* reference_times.c - what computing references on a GPU spends its time on.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/reference/reference_times.h"

struct td_time_span td_reference_times[TD_REFERENCE_TIMES] = {
    [TD_TIME_REF_IDLE] = {"idle", 0},
    [TD_TIME_REF_WEIGHTS] = {"weights", 0},
    [TD_TIME_REF_ROWS] = {"rows", 0},
    [TD_TIME_REF_KERNEL] = {"kernel", 0},
    [TD_TIME_REF_SUMS] = {"sums", 0},
    [TD_TIME_REF_SLOT] = {"waiting for a slot", 0},
    [TD_TIME_REF_JOB] = {"waiting for sums", 0},
    [TD_TIME_REF_COPY] = {"copying sums", 0},
    [TD_TIME_REF_SAMPLE] = {"sample", 0},
    [TD_TIME_REF_WHOLE] = {"whole", 0},
};
