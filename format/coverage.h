/* coverage.h - which share of a server's GEMMs a fixture holds, and what the tap did not see.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_COVERAGE_H
#define TD_FORMAT_COVERAGE_H

#include "format/fixture.h"

#define TD_COVERAGE_WORDS 640 /* bytes: more than the longest line of td_coverage_words */

struct td_coverage {
    int64_t stored, seen;       /* ops stored and seen by the tap; seen 0: unknown */
    int64_t unread;           /* launches of matrix kernels that the tap cannot read; each counts as
                                 an op that was seen */
    const char *unread_most;  /* the most launched of them; borrowed; NULL: unknown */
    int64_t graphs;           /* launches of unread CUDA graphs: their ops are in no figure */
    int64_t rested_ms;        /* time between samples, when the tap saw nothing */
    bool all_kinds;           /* not only GEMMs (record --all-ops) */
    bool extract;             /* an extract: the figures are its own, and no share is known */
};

/* Read the figures from ledger and manifest. All zero where no tap watched a server: a replay, a
 * merge of replays, a fixture recorded without a tap. */
void td_coverage_read(const struct td_fixture *fx, struct td_coverage *out);
double td_coverage_percent(const struct td_coverage *c); /* NaN: nothing was seen */
/* Describe them in one line of printable ASCII: "gemms: 28 of 28 that were seen are in the fixture
 * (100.0 %); …". Empty: no figure is known. */
void td_coverage_words(const struct td_coverage *c, char out[TD_COVERAGE_WORDS]);

#endif
