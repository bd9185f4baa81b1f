/* time_spent.h - what a program's threads spend their time on, for a line in the log.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A span adds up over all threads of the process; so a span that several threads work on at once may be longer than the program ran.
 * Who has spans lists them beside its own code (replayer/replay_times.h). */
#ifndef TD_COMMON_TIME_SPENT_H
#define TD_COMMON_TIME_SPENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"

struct td_time_span { const char *name; atomic_llong ns; };

/* Add what went by since from_ns (td_clock_mono_ns), or a time that is known. Returns the clock, for the next span. Thread-safe. */
int64_t td_time_spent(struct td_time_span *span, int64_t from_ns);
void td_time_spent_ns(struct td_time_span *span, int64_t ns);
/* "records 0.12 s, tensors 3.40 s".
 *   spans : [n]
 * Returns out. */
const char *td_time_spent_words(const struct td_time_span *spans, int n, char *out, size_t size);

#endif
