/* poison.h - what lies in an output before a run, and what that tells afterwards.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Odd repeats get another pattern than even ones: an element that still holds its pattern both times was never written,
 * one that is NaN after the NaN pattern and a number after the other was added to instead of set. */
#ifndef TD_REPLAYER_POISON_H
#define TD_REPLAYER_POISON_H

#include "kernels/ops/op.h"

/* Even repeats: a quiet NaN of the dtype (0x7e00 for F16). Odd repeats: an ordinary number, -6.5e-4, so small
 * that what is added to it shows. */
void td_poison_fill(enum td_dtype dt, int repeat, void *image, size_t size);

struct td_poison_found {
    int64_t unwritten;   /* elements that held their pattern in repeats 0 and 1 */
    int64_t not_cleared; /* NaN after the NaN pattern, finite after the other, reference finite */
    int64_t between;     /* bytes written that belong to no element (between rows of a strided output) */
};

/* images: [n] as td_poison_fill and then the run left them. unwritten and not_cleared need n >= 2. */
void td_poison_look(const struct td_op_ref *ref, const struct td_tensor *out, const void *const *images, int n,
                    struct td_poison_found *found);

#endif
