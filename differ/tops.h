/* tops.h - the alternatives to tokens: most of what a fixture's answers take in memory, and looked at where answers fork.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The exchanges of a side are read without the rows of their alternatives: what all rows of an answer say together is kept
 * (td_exchange_top_sum). Once it is known where answers fork, the rows there are read again. */
#ifndef TD_DIFFER_TOPS_H
#define TD_DIFFER_TOPS_H

#include "differ/align.h"

/* Read all exchanges of a side that is open, without rows. Corrupt frames are skipped and counted. */
int td_tops_read(struct td_side *s, struct td_error *err);
/* Read the rows at which an answer may fork from one of the baseline's: those that td_tokens_fork() and td_damage_measure()
 * look at.
 *   sides : [n], those of the groups */
int td_tops_fetch(struct td_side *sides, size_t n, const struct td_groups *g, struct td_error *err);

#endif
