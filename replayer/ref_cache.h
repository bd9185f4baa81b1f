/* ref_cache.h - keep references from one replay to the next.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A reference depends on the recording alone, so that the second gate on a fixture need not compute it. It
 * lies in a file whose name is a hash of all that it was computed from: the op (kind, attributes, launches,
 * sizes), the hashes of its inputs, the rounding, and the program that computed it. A cache is worth its time
 * and no more: one that is damaged, full, or not to be used ends in a line of the log and in references
 * that are computed, never in another verdict.
 *
 * Several replays may use one folder at once: a file appears in one step, under its last name. Nothing in
 * the folder is opened through a link. */
#ifndef TD_REPLAYER_REF_CACHE_H
#define TD_REPLAYER_REF_CACHE_H

#include "kernels/ops/op.h"
#include "replayer/op_load.h"

#define TD_REF_CACHE_BYTES ((int64_t)4 << 30)
#define TD_REF_CACHE_SPARE ((uint64_t)1 << 30) /* of the disk stays free; of one below twice that: half */

struct td_ref_cache;

/* What came of it. */
struct td_ref_cache_counts { int64_t found, computed, damaged, kept; };

/* Open a cache. Never NULL but for lack of memory: one that cannot be used finds nothing and keeps nothing, and
 * a warning says why.
 *   dir : NULL: $XDG_CACHE_HOME/tapedeck/references, or ~/.cache/...; "off": none
 *   max_bytes : what all its files may take; those of others do not count, and stay; what was used longest ago makes room, also where the disk
 *       has less than TD_REF_CACHE_SPARE left */
struct td_ref_cache *td_ref_cache_open(const char *dir, int64_t max_bytes);
/* Can references be found and kept in it? */
bool td_ref_cache_is_open(const struct td_ref_cache *c);
/* Find the reference of an op.
 *   hold : has the hashes of its inputs, by which they were loaded
 * The caller releases *ref. NULL for a cache finds nothing, and keeps nothing. Safe from several threads, as is td_ref_cache_put(). */
bool td_ref_cache_get(struct td_ref_cache *c, const struct td_op_call *op, const struct td_op_hold *hold, const char *rounding,
                      struct td_op_ref *ref);
/* Keep a reference that was computed. Called for each, also where the cache is off: it counts them. */
void td_ref_cache_put(struct td_ref_cache *c, const struct td_op_call *op, const struct td_op_hold *hold, const char *rounding,
                      const struct td_op_ref *ref);
void td_ref_cache_counts(const struct td_ref_cache *c, struct td_ref_cache_counts *out);
void td_ref_cache_close(struct td_ref_cache *c); /* NULL is allowed */

/* Round mag and slack of a reference up to floats where they are in the range of floats: a bound may be larger
 * by 2^-24. So a reference is the same to the last bit, whether it was computed or found. */
void td_ref_cache_round(struct td_op_ref *ref);

#endif
