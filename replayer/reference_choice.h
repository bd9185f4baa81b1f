/* reference_choice.h - which device computes the references of a replay (--reference).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_REFERENCE_CHOICE_H
#define TD_REPLAYER_REFERENCE_CHOICE_H

#include <stdatomic.h>

#include "kernels/reference/reference_gpu.h"

enum td_reference_choice {
    TD_REFERENCE_AUTO,             /* the GPU where there is one and enough to compute, else the CPU */
    TD_REFERENCE_CPU,
    TD_REFERENCE_GPU               /* without one the replay fails */
};

/* Who computes references, and how many ops each did. All zero: the CPU alone. */
struct td_reference_makers {
    atomic_llong by_gpu, by_cpu;
    struct td_reference_gpu *gpu;  /* NULL: the CPU alone; so it is until the GPU is open */
};

/* Read "auto", "cpu", "gpu". TD_EINVAL. */
int td_reference_choice_parse(const char *text, enum td_reference_choice *out, struct td_error *err);

/* Fill *makers. Where it is worth it, a GPU is opened from now on, which takes about a second. TD_GPU_PATIENCE of the
 * environment says how many seconds a GPU's driver may take for a job.
 *   products : of A and W, that are to be computed in all, if there is time
 *   time_s   : the time that there is; 0: any */
void td_reference_makers_start(struct td_reference_makers *makers, enum td_reference_choice choice, double products, double time_s);
/* Where a GPU is asked for, wait for it. TD_EINVAL: there is none. */
int td_reference_makers_check(struct td_reference_makers *makers, enum td_reference_choice choice, struct td_error *err);
/* Wait for a GPU that is being opened, since nothing may be busy from now on, or since its fate is to be told. */
void td_reference_makers_settle(struct td_reference_makers *makers);
/* Did the GPU compute wrong? Then no reference of it can be trusted, those of earlier batches included. */
bool td_reference_makers_are_wrong(struct td_reference_makers *makers);
/* Is a GPU ready to compute? */
bool td_reference_makers_have_gpu(struct td_reference_makers *makers);
/* Who computed how many, in one sentence without a point; "": no GPU was there, and none was asked
 * for. text : [size] */
void td_reference_makers_words(struct td_reference_makers *makers, char *text, size_t size);
/* Nobody computes any more: the GPU is closed from now on. */
void td_reference_makers_leave(struct td_reference_makers *makers);
/* False: the GPU's driver hangs, as td_reference_gpu_stop() says. */
bool td_reference_makers_close(struct td_reference_makers *makers);

#endif
