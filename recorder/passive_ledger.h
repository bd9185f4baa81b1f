/* passive_ledger.h - what became of every packet of a passive recording.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_PASSIVE_LEDGER_H
#define TD_RECORDER_PASSIVE_LEDGER_H

#include <stdio.h>

#include "format/fixture.h"
#include "wire/capture/capture.h"

/* Count into the fixture's ledger, "capture.packets" and so on (docs/format.md).
 *   dropped  : packets that the kernel had no room for
 *   left_out : requests that were seen whole and not kept (--max-exchanges)
 *   no_room  : the same, for there are more at once, or of other prompts, than are followed */
void td_passive_ledger_write(struct td_writer *w, const struct td_capture_counts *c, int64_t dropped, int64_t left_out, int64_t no_room);
/* Say on a few lines what was seen, and what was lost for which cause. */
void td_passive_ledger_print(const struct td_capture_counts *c, int64_t dropped, int64_t left_out, int64_t no_room, FILE *to);
/* There was no exchange: say what was there instead, and what to do. TD_EPROTO. */
int td_passive_ledger_explain(const struct td_capture_counts *c, const char *server, struct td_error *err);

#endif
