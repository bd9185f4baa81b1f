/* outfile.h - write a file that the user named on the command line: a report.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   "-"                          standard output, as are /dev/stdout and /dev/fd/1
 *   /dev/fd/N, /dev/stderr       that descriptor, at the place where it stands
 *   a device, a FIFO             opened and written; a FIFO waits for its reader
 *   a file, or nothing yet       replaced in one step: a reader sees the old content or the new
 *   a symbolic link              what it points to, by these rules; the link stays
 * A new file gets the mode that the umask leaves of 0666; a file that was there keeps its mode. A
 * file in a folder that takes no new names (one that is mounted, or another user's folder) is
 * written in place. */
#ifndef TD_COMMON_OUTFILE_H
#define TD_COMMON_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

/* Can the file be written? Nothing is changed. Called before the work begins. TD_EINVAL: no; the
 * sentence names the cause and what to do. */
int td_outfile_check(const char *path, struct td_error *err);
/* Write it. TD_EIO names the cause. stdout is flushed first where that is the target. */
int td_outfile_write(const char *path, const void *data, size_t n, struct td_error *err);
/* Would writing both lose one of them? True for two names of one file, and for two of standard
 * output or of another descriptor. A device that keeps nothing (/dev/null) may be named twice. */
bool td_outfile_same(const char *a, const char *b);
bool td_outfile_is_stdout(const char *path);
/* Write the path that is meant, once links are followed, to out, which has TD_PATH_MAX bytes. False: a
 * descriptor, or no usable name. */
bool td_outfile_target(const char *path, char *out);
/* Does a second writing replace what the first one wrote? So it does in a file; not in a device, a
 * FIFO or a descriptor. */
bool td_outfile_is_replaced(const char *path);

#endif
