/* mapped_library.h - open the file of a library as a running process has it mapped.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_MAPPED_LIBRARY_H
#define TD_RECORDER_TAP_CLIENT_MAPPED_LIBRARY_H

#include <sys/types.h>

/* Open `library`, a path as the process (its number is ours) sees it, for reading. Returns a file
 * descriptor, to be closed by the caller; -1: it cannot be opened, or the process has another file
 * of that name mapped by now. */
int client_open_mapped_library(pid_t pid, const char *library);

#endif
