/* gpu_step_finder.c - where a step (a forward pass) begins, inferred from the order in which
 * weights are used.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A model's layers come in a circle, and the weights that were seen first begin a step each time
 * they come round. When the tap is armed in the middle of a step, the weights seen first are not
 * the first layer's. But between the last GEMM of a step and the first of the next many other
 * kernels are launched (sampling, the embedding), within a layer few. So when a round through the
 * layers shows a far longer gap elsewhere, steps begin behind that gap from then on. The same holds
 * when the weights behind the longest gap come again and those that began the step do not: the
 * model is another one. */
#include "recorder/tap/gpu/gpu_step_finder.h"

/* times that the same weights may come by within a step: layers may share them */
#define LOST_AFTER 3u
#define GAP_MIN 16u                   /* other launches; a shorter gap is no end of a step */

void tap_gpu_step_finder_reset(struct tap_gpu_step_finder *f, uint64_t others)
{
    *f = (struct tap_gpu_step_finder){.first = f->first, .others_before = others};
}

/* Do steps begin elsewhere? Known after one round through the layers; gap: what stood before
 * `first` this time. */
static bool first_is_elsewhere(const struct tap_gpu_step_finder *f, uint64_t gap)
{
    return f->launches > 1 && f->gap_at && f->gap >= GAP_MIN && f->gap > 2 * gap;
}

/* A GEMM with weights other than the first. True: these are the first from now on. */
static bool note_other_weights(struct tap_gpu_step_finder *f, uint64_t weights, uint64_t gap,
                               bool waiting)
{
    if (weights == f->gap_at && ++f->again >= (waiting ? 1 : LOST_AFTER))
        return true;
    if (gap > f->gap || !f->gap_at) {
        f->gap = gap;
        f->gap_at = weights;
        f->again = 0;
    }
    f->launches++;
    return false;
}

struct tap_gpu_step_marks tap_gpu_step_finder_marks(const struct tap_gpu_step_finder *f)
{
    return (struct tap_gpu_step_marks){f->first, f->gap_at};
}

/* As note_other_weights() of each with a gap of 0. */
void tap_gpu_step_finder_pass(struct tap_gpu_step_finder *f, uint64_t n, uint64_t weights)
{
    if (n && !f->gap_at)
        f->gap_at = weights, f->again = 0;
    f->launches += n;
}

enum tap_gpu_step_place tap_gpu_step_finder_note(struct tap_gpu_step_finder *f, uint64_t weights,
                                                 uint64_t others, bool waiting)
{
    uint64_t gap = others - f->others_before;
    bool lost = weights == f->first && first_is_elsewhere(f, gap);

    f->others_before = others;
    if (!f->first)
        f->first = weights;
    if (lost)
        f->first = f->gap_at;
    if (weights != f->first && !note_other_weights(f, weights, gap, waiting || lost))
        return lost ? TAP_GPU_STEP_LOST : TAP_GPU_STEP_WITHIN;
    *f = (struct tap_gpu_step_finder){.first = weights, .others_before = others, .launches = 1};
    return TAP_GPU_STEP_BEGINS;
}
