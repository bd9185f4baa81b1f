/* tap_rows.h - rows that the user wrote (record --ops): their text on its way to the fronts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the text says the fronts know. From the tap's thread, which sleeps. */
#ifndef TD_RECORDER_TAP_CORE_TAP_ROWS_H
#define TD_RECORDER_TAP_CORE_TAP_ROWS_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Read n bytes of this file, and give them to all fronts. Returns NULL, or why not. */
const char *tap_rows_take(int fd, uint64_t n);
/* The recorder is gone, and its rows with it. */
void tap_rows_drop(void);

#pragma GCC visibility pop
#endif
