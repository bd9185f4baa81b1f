/* op_compare.h - compare the new output of an op that has no reference with the recorded output and the baseline build's.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_COMPARE_H
#define TD_REPLAYER_OP_COMPARE_H

#include "replayer/op_item.h"

/* Compare the candidate's first image with the recorded output and with the baseline's: fill it->equal and it->compared.
 * The op gets status failed where the candidate left elements unwritten, or where it gives NaN or Inf and the older output
 * holds a number. A number that differs is no failure: another build may round otherwise.
 *   it : loaded, and the candidate ran at least once
 * TD_OK or TD_ENOMEM. */
int td_op_compare(struct td_op_item *it, struct td_error *err);

#endif
