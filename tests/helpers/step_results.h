/* step_results.h - what a step of a fake model computed, as a hash, so that a test sees whether the tap changed it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * TD_GPU_MODEL_RESULTS  file that gets a line "ROWS HASH" for each step (of rank R: FILE.R). The inputs of a step are then a
 *                       function of its rows, so equal steps have equal lines, whatever came before them. */
#ifndef TD_STEP_RESULTS_H
#define TD_STEP_RESULTS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t step_hash;

/* Is there a file? Then seed : what the inputs of a step of so many rows are made from. */
static inline void step_results_begin(int rows, unsigned *seed)
{
    step_hash = 0xcbf29ce484222325;
    if (getenv("TD_GPU_MODEL_RESULTS"))
        *seed = (unsigned)rows;
}

static inline void step_results_add(const void *data, size_t bytes)
{
    const unsigned char *p = data;

    while (bytes--)
        step_hash = (step_hash ^ *p++) * 0x100000001b3;
}

static inline void step_results_end(int rows)
{
    const char *file = getenv("TD_GPU_MODEL_RESULTS"), *rank = getenv("TD_GPU_MODEL_DEVICE");
    char path[4096];
    FILE *f;

    if (!file)
        return;
    snprintf(path, sizeof path, "%s%s%s", file, rank ? "." : "", rank ? rank : "");
    if (!(f = fopen(path, "a")))
        abort();
    fprintf(f, "%d %016llx\n", rows, (unsigned long long)step_hash);
    fclose(f);
}

#endif
