/* hip_use.h - whether this process uses HIP, on which device, and whether calls of HIP must come to
 * the tap.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_HIP_HIP_USE_H
#define TD_RECORDER_TAP_HIP_HIP_USE_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* ---- any thread ------------------------------------------------------------------------------ */
/* Must calls come to the tap? False: the real function may be called at once. */
bool tap_hip_awake(void);
bool tap_hip_used(void);              /* is HIP in use in this process? */
void tap_hip_note_use(void);          /* it is */
void tap_hip_note_device(int ordinal); /* hipSetDevice was called with it */

/* ---- the tap's thread ------------------------------------------------------------------------ */
void tap_hip_set_awake(bool awake);
/* The one device that hipSetDevice named, 0 if it named none; -1: several. */
int tap_hip_only_device(void);
void tap_hip_use_forget(void);        /* in the child of a fork: HIP is not in use */

#pragma GCC visibility pop
#endif
