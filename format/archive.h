/* archive.h - a pack: a fixture as one file, a ustar archive in zstd (`zstd -dc x.tdz | tar -t`).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_ARCHIVE_H
#define TD_FORMAT_ARCHIVE_H

#include <stdint.h>

#include "common/error.h"

/* Write the fixture in folder dir into the new file `out`, mode 0600. */
int td_archive_pack(const char *dir, const char *out, struct td_error *err);
/* Unpack a file into folder dir, which is made where it is missing. At most max bytes (TD_ELIMIT);
 * files with the names of a fixture's files only, each once. What was written before a failure
 * stays. */
int td_archive_unpack(const char *file, const char *dir, int64_t max, struct td_error *err);

#endif
