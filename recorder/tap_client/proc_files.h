/* proc_files.h - read a file that /proc has of a process.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_PROC_FILES_H
#define TD_RECORDER_TAP_CLIENT_PROC_FILES_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/buf.h"

/* Read /proc/<pid>/<name> into out, as far as out->max allows; a NUL follows. pid : in our own
 * namespace. False: it cannot be read; out is empty then. */
bool client_read_proc(pid_t pid, const char *name, struct td_buf *out);

/* Has the process ended, be it that its parent has not asked how? */
bool client_has_ended(pid_t pid);
/* Has the process a thread of that name? */
bool client_has_thread(pid_t pid, const char *name);

#endif
