/* simt_thread.h - what a thread of a kernel asks of the emulator: its place, and to meet others. For simt.h; C and C++.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_SIMT_SIMT_THREAD_H
#define TD_KERNELS_SIMT_SIMT_THREAD_H

#include "kernels/simt/simt_launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* threadIdx, blockIdx, blockDim, gridDim, warpSize of the thread that runs. */
struct td_simt_place {
    struct td_simt_dim thread, block, block_dim, grid_dim;
    int warp_size, lane;
};
extern struct td_simt_place td_simt_now;

/* Where in the .cu file a thread waits. Threads that meet must wait at the same place; the name is for
 * sentences. */
struct td_simt_site {
    const char *name, *file; /* "__syncthreads" */
    int line;
};

/* Wait for all threads of the block. */
void td_simt_barrier(struct td_simt_site site);

/* Wait for the threads of `mask` in this warp (a bit for each warp lane; 0xffffffff means all of them, also
 * of a wavefront of 64). Then
 *   from >= 0   : return what warp lane `from` brought
 *   from == -1  : return a bit for each warp lane of the mask that brought a value other than 0 (ballot) */
uint64_t td_simt_meet_warp(struct td_simt_site site, uint64_t mask, uint64_t value, int from);

/* The block's dynamic shared memory, 16-byte aligned. A guard page follows if its size is a multiple of
 * 16. */
void *td_simt_dynamic_shared(void);

/* TD_LAUNCH in the emulator. The first failure of a launch is remembered until td_simt_take_error. */
void td_simt_launch_note(const struct td_simt_kernel *kernel, struct td_simt_dim grid,
                         struct td_simt_dim block, size_t shared_bytes, void *const *params);
/* Set seed and warp of later TD_LAUNCHes; at first 0 and 32. */
void td_simt_choose(uint64_t seed, int warp);
/* Return and clear the first failure since the last call; *err (may be NULL) gets its sentence. TD_OK:
 * none. */
int td_simt_take_error(struct td_error *err);

#ifdef __cplusplus
}
#endif
#endif
