/* hip_load.h - find HIP's functions, and put them into the table of the GPU's driver.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_HIP_HIP_LOAD_H
#define TD_RECORDER_TAP_HIP_HIP_LOAD_H

#include "kernels/abi/hip_abi.h"
#include "recorder/tap/gpu/gpu_driver.h"

#pragma GCC visibility push(hidden)

#define TAP_HIP_MEMBER(name, member, args) int (*member) args;
#define TAP_HIP_TEXT(name, member, args) const char *(*member) args;
struct tap_hip_runtime {
    TD_HIP_TAP_NEEDED(TAP_HIP_MEMBER) TD_HIP_TAP_OPTIONAL(TAP_HIP_MEMBER) TD_HIP_TAP_TEXTS(TAP_HIP_TEXT)
};
extern struct tap_hip_runtime tap_hip;

/* Fill tap_hip and tap_driver from the library that defines fn (NULL: the libamdhip64 that is
 * mapped), once. Returns NULL, or the reason why not. From the tap's thread. */
const char *tap_hip_load(const void *fn);
/* The path of the library whose kernels an adapter knows best, if the process has one; else of the
 * runtime: into library[n]. */
void tap_hip_library(char *library, size_t n);
void *tap_hip_context(int device);    /* stands for that device where CUDA has a context */
/* That of the device of a stream; for the streams that every device has one of, of the thread's
 * device. NULL: it is not known. */
void *tap_hip_context_of(void *stream);
/* Is it a stream that somebody created? */
static inline bool tap_hip_is_plain(const void *stream)
{
    return stream && stream != TD_HIP_STREAM_LEGACY && stream != TD_HIP_STREAM_PER_THREAD;
}
/* After calls of HIP by the tap: take back an error of theirs, unless the thread's last error
 * before them was one (error_before). */
void tap_hip_restore_error(int error_before);
void tap_hip_reset(void);             /* a device was reset: the tap's memory there is gone */
/* A stream was destroyed: its handle may be another stream's from now on. */
void tap_hip_stream_ended(void);

#pragma GCC visibility pop
#endif
