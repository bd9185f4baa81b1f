/* gpu_cache_rows.h - copy the rows of a cache of keys or values that a list on the device names, in
 * one launch of a kernel of the tap's own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An operator that writes into such a cache writes where a list says which nobody has read on the
 * host. Its rows are found on the device, behind the operator on the same stream. No call of the
 * driver can do that, so where the kernel is not to be had these operators are counted and not
 * recorded. */
#ifndef TD_RECORDER_TAP_GPU_GPU_CACHE_ROWS_H
#define TD_RECORDER_TAP_GPU_GPU_CACHE_ROWS_H

#include "kernels/adapters/adapter.h"
#include "recorder/tap/gpu/gpu_copies.h"

#pragma GCC visibility push(hidden)

/* ---- any thread ------------------------------------------------------------------------------ */
/* Has the driver compiled the kernel, and did it pass its trial? */
bool tap_gpu_cache_rows_ready(void);

/* ---- a thread of the server, or the tap's with the context current --------------------------- */
/* Copy rows of *cache densely to `to`: row i from slot i of the list, zeros where the list names no
 * slot of the cache. list      : address of `rows` int64_t row_bytes : a multiple of
 * cache->piece_bytes False: the kernel is not to be had, the cache does not lie within one
 * allocation, or the driver refused. */
bool tap_gpu_cache_rows_copy(uint64_t to, const struct td_gpu_cache *cache, uint64_t list,
                             uint64_t rows, uint64_t row_bytes, void *stream);

/* ---- the tap's thread, with the context current ---------------------------------------------- */
void tap_gpu_cache_rows_open(const struct tap_gpu_copies_trial *t);
void tap_gpu_cache_rows_forget(void); /* the context is gone */

#pragma GCC visibility pop
#endif
