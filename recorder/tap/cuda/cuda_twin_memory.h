/* cuda_twin_memory.h - what twins take of the GPU: the memory that they copy to, and the twins
 * themselves.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Both together stay below a bound: half of it is the arena that all twins copy to, the rest is for
 * the twins. What a twin takes cannot be asked for: the driver says how much memory is free, and the
 * server and other processes change that at the same time. So each node counts for what one took on
 * an H100; then it is known before the twin is made, too. */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_TWIN_MEMORY_H
#define TD_RECORDER_TAP_CUDA_CUDA_TWIN_MEMORY_H

#include "recorder/tap/gpu/gpu_driver.h"

#pragma GCC visibility push(hidden)

/* Read the bound from the environment (TD_TAP_TWINS_MIB). Once, at the process's start. */
void tap_cuda_twin_memory_bound(void);

/* ---- the tap's thread ------------------------------------------------------------------------ */
/* Have an arena in that context, which is current. False: there is no memory. */
bool tap_cuda_twin_memory_open(void *context);
/* Free the arena, while no twin is launched. It waits for the GPU, and the server's own calls may
 * wait for that: once an arm. While the server captures it stays, until the next arm's end. */
void tap_cuda_twin_memory_close(void);
void tap_cuda_twin_memory_forget(void); /* in the child of a fork */

/* ---- with the plans' lock held --------------------------------------------------------------- */
uint64_t tap_cuda_twin_arena(uint64_t *bytes);
/* Bytes that a twin of so many nodes counts for. */
uint64_t tap_cuda_twin_memory_of(uint64_t nodes);
/* Count a twin. False: it is beyond the bound. */
bool tap_cuda_twin_memory_take(uint64_t bytes);
void tap_cuda_twin_memory_give(uint64_t bytes);

#pragma GCC visibility pop
#endif
