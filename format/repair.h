/* repair.h - make a damaged or unfinished recording readable again.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Torn tails are cut, bad frames dropped and those around them renumbered, the pack gets its index, and a manifest is written from the
 * old one or else from the ledger. No recorder may still be writing. A sound fixture is left as it is. */
#ifndef TD_FORMAT_REPAIR_H
#define TD_FORMAT_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct td_file_fact;

struct td_repair_options {
    bool always_derive;                              /* derive exchanges again in any case */
    void (*say)(void *ctx, const char *sentence);    /* what was found and done; NULL: nobody listens */
    /* Derive the exchanges of dir (it has a manifest) from its wire into a new stream file of that name in dir, and fill frames and
     * records of *fact. NULL: exchanges are not derived. */
    int (*derive)(void *ctx, const char *dir, const char *name, struct td_file_fact *fact, struct td_error *err);
    void *ctx;
};

struct td_repair_sums { bool changed; int64_t dropped, cut_bytes; }; /* dropped: frames, or stretches of bytes, given up */

int td_fixture_repair(const char *dir, const struct td_repair_options *opt, struct td_repair_sums *sums, struct td_error *err);

#endif
