/* archive.h - a pack: a fixture as one file, a ustar archive in zstd (`zstd -dc x.tdz | tar -t`).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_ARCHIVE_H
#define TD_FORMAT_ARCHIVE_H

#include <stdint.h>

#include "common/error.h"

/* The files of a fixture are compressed: real packs hold 1.01 to 1.55 times their size. */
#define TD_PACK_MAX_BYTES ((int64_t)64 << 30)
#define TD_PACK_SPARE_BYTES ((int64_t)1 << 20) /* its streams may stand for 256 times that (frames.h) */
#define TD_PACK_RATIO 16

/* Write the fixture in folder dir into the new file `out`, mode 0600. */
int td_archive_pack(const char *dir, const char *out, struct td_error *err);
/* Unpack a file into folder dir, which is made where it is missing. At most max bytes (TD_ELIMIT); 0: the
 * least of TD_PACK_MAX_BYTES, and TD_PACK_SPARE_BYTES and TD_PACK_RATIO times the size of the file;
 * files with the names of a fixture's files only, each once. The pack is read to its end: TD_ETRUNCATED
 * where it is cut, TD_ECORRUPT where its checksum does not hold or more stands behind it. What was written
 * before a failure stays. */
int td_archive_unpack(const char *file, const char *dir, int64_t max, struct td_error *err);

#endif
