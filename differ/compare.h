/* compare.h - compare a baseline with candidates: from open fixtures to a verdict.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_COMPARE_H
#define TD_DIFFER_COMPARE_H

#include "differ/comparison.h"

/* Check that the fixtures may be compared and read their ops. Every lane measures; those that
 * were asked for judge. When none was asked for, those that have evidence judge.
 *   c : policy, side, n_sides and the lanes' asked and by_name are set; all else is zero
 * Returns TD_OK; TD_EINVAL: the fixtures must not be compared; another TD_E*: a fixture cannot
 * be read. */
int td_compare(struct td_comparison *c, struct td_error *err);
/* Free everything, the sides (which are closed) included. */
void td_comparison_release(struct td_comparison *c);

#endif
