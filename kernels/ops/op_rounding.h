/* op_rounding.h - what an op declares that its kernel rounds (act_rounding), word by word.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A declaration is one or more words, joined by '+' (docs/format.md, "Roundings"):
 *   none, q8_0, weight-f16 ...  what is rounded before the product, of A or W; left out: nothing
 *   bias-after                  the product is rounded to c's type, then the bias is added, and the
 *                               result rounded again
 *   sum-e8m13                   sums are kept with 13 bits of fraction (cut_sums.h) */
#ifndef TD_KERNELS_OPS_OP_ROUNDING_H
#define TD_KERNELS_OPS_OP_ROUNDING_H

#include <stdbool.h>

#include "common/desc/op_desc.h"

struct td_op_rounding {
    char factors[TD_OP_MAX_ROUNDING]; /* what is rounded before the product; "none" */
    bool bias_after, sums_cut;
};

/* Take a declaration apart; "" is "none". False: a word is empty or comes twice, or there are two
 * words for what is rounded before the product. Such words are not checked otherwise: each kind of
 * op knows its own. */
bool td_op_rounding_read(const char *words, struct td_op_rounding *r);

#endif
