/* gpu_step_finder.c - where a forward pass begins, inferred from the order of the weights that are
 * used.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A model's layers come in a circle, and the weights seen first begin the pass each time they come
 * round. Armed in the middle of a pass, the first seen are not the first layer's: between the last
 * GEMM of a pass and the first of the next many other kernels are launched (sampling, the
 * embedding), within a layer few. When a round shows a far longer gap elsewhere, the pass begins
 * there from then on; also when the weights behind a round's longest gap come again, and those that
 * began the pass do not: the model is another. */
#include "recorder/tap/gpu/gpu_step_finder.h"

#define GONE 3u                       /* so often the same weights may come by within a pass: layers may share them */
#define GAP_MIN 16u                   /* other launches: a gap below this is no end of a pass */

void tap_gpu_step_finder_reset(struct tap_gpu_step_finder *r, uint64_t others)
{
    *r = (struct tap_gpu_step_finder){.first = r->first, .others_before = others};
}

/* Which weights begin a pass is known after a round: `gap` is what stood before `first` this
 * time. */
static bool first_is_elsewhere(const struct tap_gpu_step_finder *r, uint64_t gap)
{
    return r->launches > 1 && r->gap_at && r->gap >= GAP_MIN && r->gap > 2 * gap;
}

/* Weights other than the first. True: they are the first from now on. */
static bool note_other(struct tap_gpu_step_finder *r, uint64_t weights, uint64_t gap, bool waiting)
{
    if (weights == r->gap_at && ++r->again >= (waiting ? 1 : GONE))
        return true;
    if (gap > r->gap || !r->gap_at) {
        r->gap = gap;
        r->gap_at = weights;
        r->again = 0;
    }
    r->launches++;
    return false;
}

enum tap_gpu_step_place tap_gpu_step_finder_note(struct tap_gpu_step_finder *r, uint64_t weights,
                                                 uint64_t others, bool waiting)
{
    uint64_t gap = others - r->others_before;
    bool lost = weights == r->first && first_is_elsewhere(r, gap);

    r->others_before = others;
    if (!r->first)
        r->first = weights;
    if (lost)
        r->first = r->gap_at;
    if (weights != r->first && !note_other(r, weights, gap, waiting || lost))
        return lost ? TAP_GPU_STEP_LOST : TAP_GPU_STEP_WITHIN;
    *r = (struct tap_gpu_step_finder){.first = weights, .others_before = others, .launches = 1};
    return TAP_GPU_STEP_BEGINS;
}
