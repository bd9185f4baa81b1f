/* judged_slices.h - the sums over slices that a replay kept of its ops (format/slices.h).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Of a fixture with very many ops only a share keeps its slices, so that memory is bounded: at most
 * TD_JUDGED_SLICES_MAX ops, of 7 KiB each at most. Which ones follows from their origin alone, so both sides
 * of a comparison keep the same. */
#ifndef TD_DIFFER_JUDGED_SLICES_H
#define TD_DIFFER_JUDGED_SLICES_H

#include "differ/judged_ops.h"

#define TD_JUDGED_SLICES_MAX 65536

/* Read the slices of all sides of a judgement into an op of the set. Without memory, and where what
 * stands there are no slices, the op has none. */
void td_judged_slices_read(struct td_judged_ops *set, const cJSON *judge, struct td_judged_op *op);
/* Does an op keep its slices, where one in 2^thinned does? */
bool td_judged_slices_kept(const struct td_judged_op *op, int thinned);
void td_judged_slices_free(struct td_judged_op *op);

/* What tells an op's inputs from those of another op. Two ops with equal inputs are one piece of
 * evidence, not two. */
uint64_t td_judged_slices_input(const struct td_op *op);

#endif
