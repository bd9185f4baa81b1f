/* writer_thread.h - the thread behind a recording: redaction, frames, blobs, the ledger, commits.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_WRITER_THREAD_H
#define TD_FORMAT_WRITER_THREAD_H

#include "format/writer_state.h"

/* The thread: redact, compress and write queued items, and commit, until w->stop is set and the
 * queue is empty.
 * arg: the writer. Its first failure goes to td_writer_note_failure(); later items are dropped. */
void *td_writer_thread(void *arg);
/* After the thread has ended: write what redaction still holds, and commit. */
int td_writer_drain(struct td_writer *w, struct td_error *err);

#endif
