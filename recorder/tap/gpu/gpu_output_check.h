/* gpu_output_check.h - look for outputs that are not finite, or all zeros, and trigger a dump of
 * the flight recorder.
 * SPDX-License-Identifier: Apache-2.0
 *
 * From the sender alone; the values lie in the host's memory by then. */
#ifndef TD_RECORDER_TAP_GPU_GPU_OUTPUT_CHECK_H
#define TD_RECORDER_TAP_GPU_GPU_OUTPUT_CHECK_H

#include "recorder/tap/gpu/gpu_queue.h"

#pragma GCC visibility push(hidden)

void tap_gpu_output_check_clear(void); /* at each arm */
/* An entry CHECK: columns of an output. */
void tap_gpu_output_check_columns(const struct tap_gpu_entry *e);
void tap_gpu_output_check_call(const struct tap_call *call); /* an op on its way to the recorder */
void tap_gpu_output_check_dump(const struct tap_gpu_entry *e); /* an entry DUMP_BEGIN or DUMP_END */

#pragma GCC visibility pop
#endif
