/* reference_fill.h - compute the references of a fixture's ops into the cache, without a build (`fixture judge`).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_REFERENCE_FILL_H
#define TD_REPLAYER_REFERENCE_FILL_H

#include "format/fixture.h"
#include "replayer/ref_cache.h"
#include "replayer/replay_options.h"

struct td_reference_fill {
    int64_t ops, left_out;          /* chosen; not chosen by --only and --max-ops */
    int64_t without;                /* ops of kinds that have no reference */
    int64_t failed; char why[480];  /* ops whose reference could not be computed; of the first */
    int64_t unknown; char why_unknown[480]; /* the same of ops that this version cannot judge: an unknown kind, type, rounding */
    struct td_ref_cache_counts cache;
    bool keeps;                     /* the cache can be used */
};

/* Compute those references of the chosen ops that are not in the cache: of the rounding that was recorded, which
 * is that of most builds. The CPU does it, since what a GPU computes is not kept.
 *   opt : of it checkpoint, only, max_ops, cache, cache_bytes, stop
 * TD_EINTR: stopped; what was computed is kept. TD_EIO, TD_ENOMEM and others: the ops cannot be read. */
int td_reference_fill(struct td_fixture *fx, const struct td_replay_options *opt, struct td_reference_fill *out,
                      struct td_error *err);
/* The same of the fixture at a path, with a line of what came of it on stdout. Returns the exit code. */
int td_reference_fill_run(const char *path, const struct td_replay_options *opt);

#endif
