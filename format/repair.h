/* repair.h - make a damaged or unfinished recording readable again.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Repair cuts torn tails, drops bad frames and renumbers the others, rebuilds the index of the
 * pack, adds lines for steps that ops name, and writes a manifest from the old one, or else from the
 * ledger. It holds the fixture's lock (common/fixture_lock.h). When it is interrupted, at whatever
 * step, the next repair ends where it would have ended. A sound fixture is not changed.
 *
 * Nothing of others is changed: in a folder that is no fixture's (own_files.h) nothing is done, and a
 * file with the name of a fixture's that is none of ours is kept as NAME.aside. */
#ifndef TD_FORMAT_REPAIR_H
#define TD_FORMAT_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct td_file_fact;

struct td_repair_options {
    bool always_derive;                              /* derive exchanges again in any case */
    void (*report)(void *ctx, const char *sentence); /* gets what was found and done; or NULL */
    /* Derive the exchanges of dir (it may have no manifest) from its wire into a new stream file of
     * that name in dir, sync it, and fill frames and records of *fact. NULL: exchanges are not derived. */
    int (*derive)(void *ctx, const char *dir, const char *name, struct td_file_fact *fact, struct td_error *err);
    void *ctx;
};

/* dropped: frames, or stretches of bytes */
struct td_repair_sums { bool changed; int64_t dropped, cut_bytes; };

/* Repair the fixture in `dir`. *sums: what was changed. TD_EINVAL: no folder of a fixture;
 * TD_ENOTFOUND: no such folder, or only a pointer of git LFS; TD_EVERSION: written by a later version; TD_EBUSY: another process writes to it, which is named; TD_EIO,
 * TD_ENOMEM. */
int td_fixture_repair(const char *dir, const struct td_repair_options *opt, struct td_repair_sums *sums, struct td_error *err);

#endif
