/* streams.h - standard input, output and error: taken at the start, flushed at the end.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_STREAMS_H
#define TD_COMMON_STREAMS_H

#include <stdio.h>

#include "common/error.h"

/* The first call of main. A standard descriptor that is closed gets one that can be neither read nor
 * written, so that no file which the program opens has its number, and its text in it. */
void td_streams_begin(void);
/* Write out what was printed on `to`. TD_EIO: some of it could not be written, now or before; that is
 * said once, "cannot write WHAT: ...", and the rest is dropped. A reader that has gone (EPIPE) wants
 * no more: TD_OK. */
int td_stream_flush(FILE *to, const char *what, struct td_error *err);
/* The last call of main: flush stdout, say on stderr when that fails. Returns the exit code: `code`,
 * or TD_EXIT_BROKEN in the place of a result that nobody read (0, 1, 3). */
int td_streams_end(int code);

#endif
