/* passive_ledger.h - what became of every packet of a passive recording.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_PASSIVE_LEDGER_H
#define TD_RECORDER_PASSIVE_LEDGER_H

#include <stdbool.h>
#include <stdio.h>

#include "format/fixture.h"
#include "wire/capture/capture.h"

/* What the recording itself left out. */
struct td_passive_left {
    int64_t dropped;              /* packets that the kernel had no room for */
    int64_t beyond_max;           /* requests that were seen whole and not kept: --max-exchanges; */
    int64_t not_sampled;          /* of connections that --sample leaves out; */
    int64_t over_limit;           /* there are more at once, or of other prompts, than are followed; */
    int64_t no_head;              /* their head, or trailers, are not there as a whole: a secret may not be known; */
    int64_t compressed;           /* their body is compressed: what they ask is not known; */
    int64_t keys;                 /* a secret of them could not be kept in mind: the recording ended there */
};

/* Count into the fixture's ledger, "capture.packets" and so on (docs/format.md). */
void td_passive_ledger_write(struct td_writer *w, const struct td_capture_counts *c, const struct td_passive_left *left);
/* Say on a few lines what was seen, and what was lost for which cause. */
void td_passive_ledger_print(const struct td_capture_counts *c, const struct td_passive_left *left, FILE *to);
/* There was no exchange: say what was there instead, and what to do. TD_EPROTO.
 *   server : NULL: any; only_path: paths were named (--only-path) */
int td_passive_ledger_explain(const struct td_capture_counts *c, const struct td_passive_left *left, const char *server,
                              bool only_path, struct td_error *err);

#endif
