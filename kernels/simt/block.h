/* block.h - run one block of a launch: its threads, in a random order, and where they meet. For launch.c.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_SIMT_BLOCK_H
#define TD_KERNELS_SIMT_BLOCK_H

#include "kernels/simt/simt_thread.h"

#define TD_SIMT_MAX_THREADS 1024

/* What is equal for every block of a launch. */
struct td_simt_run {
    const struct td_simt_kernel *kernel;
    void *const *params;
    struct td_simt_dim grid, block;
    int n_threads, warp;
    uint64_t random;                 /* state of the generator */
};

/* A random number, uniform in [0, n), n > 0. */
uint32_t td_simt_random(struct td_simt_run *run, uint32_t n);
/* Run block `at` to its end. Fibres for n_threads exist (fibre.h). TD_EINVAL: threads wait for one that
 * does not come; the sentence names it. */
int td_simt_block_run(struct td_simt_run *run, struct td_simt_dim at, struct td_error *err);

#endif
