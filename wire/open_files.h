/* open_files.h - this machine's limit of open files, which many requests in flight may meet.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_OPEN_FILES_H
#define TD_WIRE_OPEN_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Files that a program needs beside its connections: the fixture, the tap, libraries. */
#define TD_OPEN_FILES_OWN 64

/* Make sure that `streams` requests can be in flight at once. Where the soft limit is too small, it
 * is raised as far as needed. TD_OK; TD_EINVAL: the hard limit is too small; the sentence names both
 * numbers and the command that raises it. */
int td_open_files_ensure(int64_t streams, struct td_error *err);

/* How many of `most` connections can be open at once, 1 at least: as many as the limit allows once it is raised as far as
 * needed. */
int64_t td_open_files_room(int64_t most);

/* Why a socket could not be made, as a sentence about this machine, not about the server.
 *   why     : errno of socket(); EMFILE and ENFILE are limits of this machine
 *   streams : requests in flight
 * Returns out; "" when `why` is no such limit. */
const char *td_open_files_explain(int why, int64_t streams, char *out, size_t n);

#endif
