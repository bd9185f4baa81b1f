/* hip_launch.h - around a call of HIP that launches a kernel: it is read as a launch, and enters
 * the pipeline.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_HIP_HIP_LAUNCH_H
#define TD_RECORDER_TAP_HIP_HIP_LAUNCH_H

#include "recorder/tap/gpu/gpu_gemm.h"

#pragma GCC visibility push(hidden)

struct tap_hip_call {                 /* a call that launches a kernel, with its arguments */
    const void *function;             /* a handle; or */
    const void *stub;                 /* the address that stands for a kernel in the host's code */
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    void *stream;
    void **params, **extra;
    bool per_thread;                  /* a function of per-thread default streams */
    bool items;                       /* grid counts work-items, not blocks */
    struct tap_gpu_launch launch;     /* this and the next are hip_launch.c's */
    uint64_t token;
};

/* ---- a thread of the server ------------------------------------------------------------------ */
/* Before and after the real function; end returns rc. A launch inside a launch is the runtime's own
 * affair. */
void tap_hip_launch_begin(struct tap_hip_call *call, const void *real);
int tap_hip_launch_end(struct tap_hip_call *call, int rc);
/* This function of the runtime is about to launch: HIP is in use. Also while the tap is asleep. */
void tap_hip_note_launch(const void *real);
/* A whole graph is about to be launched, by this function. */
void tap_hip_note_graph(const void *real);
/* For calls that are no launches. False: HIP's launches are not watched; else tap_gpu_go_out() when
 * done. */
bool tap_hip_come_in(void);

/* ---- the tap's thread ------------------------------------------------------------------------ */
/* A real function of the runtime that the server called; NULL: none yet. */
const void *tap_hip_any_real(void);
bool tap_hip_watch_launches(bool on); /* returns what it was before */
bool tap_hip_is_watching(void);
void tap_hip_launch_forget(void);     /* in the child of a fork */

#pragma GCC visibility pop
#endif
