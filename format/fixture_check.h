/* fixture_check.h - are the files of a fixture those that its manifest lists?
 * SPDX-License-Identifier: Apache-2.0
 *
 * A verdict must not come from a part of a recording. So whoever judges one compares its files with
 * the manifest first. blobs.pack is read where ops are judged only: blobs are content-addressed, and checked
 * when they are read (pack.h). */
#ifndef TD_FORMAT_FIXTURE_CHECK_H
#define TD_FORMAT_FIXTURE_CHECK_H

#include "format/fixture.h"
#include "format/manifest.h"

/* The end of a sentence about damage: what to do. %s: the fixture. */
#define TD_NEXT_OF_DAMAGE "fetch the fixture again; {fixture} verify %.110s shows what is damaged"

/* All streams. */
#define TD_FILES_JUDGED ((1u << TD_FILE_PACK) - 1)

/* Compare the sizes of all files with the manifest, and the checksums of some.
 *   sums : 1 << TD_FILE_* of those whose bytes are read
 * A file that the manifest does not list is not checked. TD_ECORRUPT, TD_ETRUNCATED, TD_ENOTFOUND:
 * the first file that is damaged is named, and what to do. */
int td_fixture_check(const struct td_fixture *fx, unsigned sums, struct td_error *err);

/* Compare one file with what the manifest says of it. The sentence does not name the file.
 *   sum : compare the checksum, too
 *   size : its bytes on the disk; NULL is allowed; 0 when it cannot be opened */
int td_file_check(const char *dir, const char *name, const struct td_file_fact *want, bool sum,
                  uint64_t *size, struct td_error *err);

#endif
