/* gpu_gate_owner.h - who is inside the launch gate (gpu_gate.h).
 * SPDX-License-Identifier: Apache-2.0
 *
 * It is free, or held by a thread of the server or by the tap's, or belongs to the launch whose token it
 * has: that is being made, and whoever made it holds the gate again afterwards. */
#ifndef TD_RECORDER_TAP_GPU_GPU_GATE_OWNER_H
#define TD_RECORDER_TAP_GPU_GPU_GATE_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* ---- a thread of the server ------------------------------------------------------------------ */
/* Hold the gate. False: another thread has it. Waits for the tap's thread, 5 ms at most. */
bool tap_gpu_gate_hold(void);
/* Hold it again, after the launch of that token. False: the tap's thread took it away meanwhile. */
bool tap_gpu_gate_hold_again(uint64_t token);
/* It belongs to the launch of that token from now on; 0: it is free. */
void tap_gpu_gate_hand_to(uint64_t token);

/* ---- the tap's thread ------------------------------------------------------------------------ */
/* Hold the gate, with the server's context current; *context NULL: it is not.
 *   abandon : also when a launch has it, which will not come back
 * False: somebody else has it. */
bool tap_gpu_gate_hold_for_tap(bool abandon, void **context);
void tap_gpu_gate_release(void *context);

#pragma GCC visibility pop
#endif
