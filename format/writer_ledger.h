/* writer_ledger.h - counts and facts of a recording, and the lines of the ledger that they become.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Also here, from format/fixture.h: td_writer_count, td_writer_fact, td_writer_fact_str, td_writer_fact_num. */
#ifndef TD_FORMAT_WRITER_LEDGER_H
#define TD_FORMAT_WRITER_LEDGER_H

#include "format/writer_state.h"

/* Set the bytes of a count, which otherwise only grow. A count that is 0 and was never named is not made. Any thread. */
void td_writer_count_set_bytes(struct td_writer *w, const char *name, int64_t bytes);
/* Write the ledger's first line: what a repair needs when no manifest was written. Before the thread starts. */
int td_writer_ledger_begin(struct td_writer *w, const cJSON *manifest);
/* Append a line for each fact and count that changed since the last call. Counts are totals: the last line of a name
 * holds. A failure: the lines are not whole, and are lost. */
int td_writer_ledger_lines(struct td_writer *w, struct td_buf *lines);
/* Are there facts that no call of td_writer_ledger_lines() has taken? */
bool td_writer_ledger_has_facts(struct td_writer *w);
/* Add the sums of all counts to the manifest's "ledger". After the thread has ended. */
void td_writer_ledger_sums(struct td_writer *w, cJSON *ledger);

#endif
