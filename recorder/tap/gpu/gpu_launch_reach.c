/* gpu_launch_reach.c - whether a launch of any kernel is told of a piece of memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "recorder/tap/gpu/gpu_launch_reach.h"

/* One parameter lies at `at`; words are aligned as they are in the kernel's block of parameters. */
static bool points_into(const uint8_t *at, const struct td_gpu_param *p, uint64_t from, uint64_t bytes)
{
    uint32_t i = (8 - p->offset % 8) % 8;
    uint64_t word;

    for (; p->size >= 8 && i <= p->size - 8; i += 8) {
        memcpy(&word, at + i, sizeof word);
        if (word >= from && word - from < bytes)
            return true;
    }
    return false;
}

bool tap_gpu_launch_avoids(const struct tap_gpu_launch *l, uint64_t from, uint64_t bytes)
{
    struct td_gpu_param p[TD_GPU_PARAMS];
    const uint8_t *packed = l->packed;
    int n = tap_gpu_kernel_params(l->function, p), i;

    if (n < 1 || n == TD_GPU_PARAMS || (!l->params && !packed))
        return false;                 /* not known, or perhaps more than were read */
    for (i = 0; i < n; i++) {
        if (!l->params && (p[i].size > l->packed_bytes || p[i].offset > l->packed_bytes - p[i].size))
            return false;
        if (l->params && !l->params[i])
            return false;
        if (points_into(l->params ? l->params[i] : packed + p[i].offset, &p[i], from, bytes))
            return false;
    }
    return true;
}
