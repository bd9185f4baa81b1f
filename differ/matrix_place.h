/* matrix_place.h - where in the outputs of the bad ops their errors are, in one sentence.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_MATRIX_PLACE_H
#define TD_DIFFER_MATRIX_PLACE_H

#include "common/buf.h"
#include "differ/judged_ops.h"

/* Append it to an empty buffer: "columns 64-127 of each 128"; nothing when nothing is known. */
void td_matrix_place_add_words(const struct td_judged_ops *ops, struct td_buf *words);

#endif
