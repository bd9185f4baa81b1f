/* poison.h - fill an output with a pattern before a run, and find what still holds it afterwards.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Even repeats get a NaN, odd repeats a small number. An element that holds its pattern after both
 * was never written. An element that is NaN after the NaN and a number after the number was added
 * to instead of set. */
#ifndef TD_REPLAYER_POISON_H
#define TD_REPLAYER_POISON_H

#include "kernels/ops/op.h"

/* Fill an image. Even repeats: a quiet NaN of the dtype (0x7e00 for F16). Odd repeats: -6.5e-4, so
 * small that a kernel that adds its sum changes the value. */
void td_poison_fill(enum td_dtype dt, int repeat, void *image, size_t size);

struct td_poison_found {
    int64_t unwritten;   /* elements that held their pattern in repeats 0 and 1 */
    int64_t not_cleared; /* NaN after the NaN pattern, finite after the other and in ref */
    int64_t between;     /* bytes written between the rows of a strided output */
};

/* Count what a run left of the patterns.
 *   ref    : r1 says which elements are finite
 *   images : [n], repeat i filled by td_poison_fill(.., i, ..) and then run on; n >= 1, and below 2
 *            only `between` is counted */
void td_poison_find(const struct td_op_ref *ref, const struct td_tensor *out,
                    const void *const *images, int n, struct td_poison_found *found);

#endif
