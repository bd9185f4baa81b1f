/* shared_starts.h - find the sample of a start in which several ops were timed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_SHARED_STARTS_H
#define TD_DIFFER_SHARED_STARTS_H

#include <stddef.h>
#include <stdint.h>

/* A start of both processes. of: as td_judged_op.starts_of; sample: its place in the row; ops: how many of the row it holds, so far;
 * 0: the slot is empty */
struct td_shared_start { int64_t of; size_t start, sample, ops; };

/* Those of a row, in a hash table: a hostile fixture may hold millions. All zero: none. */
struct td_shared_starts { struct td_shared_start *slot; size_t n, slots; };

/* NULL: the row does not have it. It is valid until the next one is added. */
struct td_shared_start *td_shared_starts_find(const struct td_shared_starts *s, int64_t of, size_t start);
/* Add one that is not there, with one op. TD_OK or TD_ENOMEM. */
int td_shared_starts_add(struct td_shared_starts *s, int64_t of, size_t start, size_t sample);
void td_shared_starts_release(struct td_shared_starts *s);

#endif
