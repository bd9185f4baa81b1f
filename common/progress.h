/* progress.h - show the progress of long work in one line on stderr, if stderr is a terminal.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_PROGRESS_H
#define TD_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct td_progress { const char *what; int64_t total, last_ns, start_ns; bool on; };

void td_progress_start(struct td_progress *p, const char *what, int64_t total); /* what: borrowed until done */
/* At most ten times a second. note: a few words, or NULL. */
void td_progress_at(struct td_progress *p, int64_t done, const char *note);
void td_progress_done(struct td_progress *p); /* wipes the line */

#endif
