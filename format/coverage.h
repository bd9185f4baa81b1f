/* coverage.h - what share of a server's GEMMs a fixture holds, and what nobody saw of them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_COVERAGE_H
#define TD_FORMAT_COVERAGE_H

#include "format/fixture.h"

#define TD_COVERAGE_WORDS 640 /* bytes: more than the longest line of td_coverage_words */

struct td_coverage {
    int64_t kept, seen;       /* ops, by the tap; seen 0: the ledger does not say */
    int64_t unread;           /* launches of kernels that multiply matrices and that the tap does not read: each counts as an op that was seen */
    const char *unread_most;  /* the most launched of these kernels; borrowed from the fixture; NULL: not known */
    int64_t graphs;           /* launches of CUDA graphs that were not read: what they computed is in no figure */
    int64_t rested_ms;        /* nothing was looked at, between samples */
    bool all_kinds;           /* the ops are not GEMMs alone (record --all-ops) */
    bool extract;             /* of a recording: the figures are those of the part that was taken, and no share is known */
};

/* What ledger and manifest say; all zero where no tap watched a server: a replay, a merge of replays, a fixture without a tap. */
void td_coverage_read(const struct td_fixture *fx, struct td_coverage *out);
double td_coverage_percent(const struct td_coverage *c); /* NaN: nothing was seen */
/* One line for people, in ASCII without control characters: "gemms: 28 of 28 that were seen are in the fixture (100.0 %); …". Empty: there is nothing to say. */
void td_coverage_words(const struct td_coverage *c, char out[TD_COVERAGE_WORDS]);

#endif
