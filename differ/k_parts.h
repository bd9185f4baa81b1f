/* k_parts.h - the parts of K that the errors of bad ops come from.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The replayer regressed the errors of some bad ops on partial sums of A W (docs/format.md, along_k). A part is named
 * when its coefficient differs from 0 over the ops of a shape together, all parts being tested at once at
 * TD_K_PARTS_ALPHA; and only where half of the parts or more are free of it, and the parts explain 40 % of the variance of the
 * errors: so neither a bias of whole outputs nor a fault that merely looks alike names one. */
#ifndef TD_DIFFER_K_PARTS_H
#define TD_DIFFER_K_PARTS_H

#include "common/buf.h"
#include "differ/judged_ops.h"

#define TD_K_PARTS_ALPHA 1e-3
#define TD_K_PARTS_LEAST 2e-4 /* a coefficient: 0.02 % */

/* Append "K 128..255: -100 % [-100, -99.9]" for the clearest part of the shape with most such ops, and ", ..." where
 * there are more; nothing where none stands out. */
void td_k_parts_add_words(const struct td_judged_ops *ops, struct td_buf *out);

#endif
