/* verify.h - does a fixture hold what its manifest says? Every problem is named.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_VERIFY_H
#define TD_FORMAT_VERIFY_H

#include <stdint.h>

#include "common/error.h"

struct td_verify_sums { int64_t files, bytes, frames, records, blobs, problems; };

/* One problem: a code (TD_ECORRUPT, TD_ETRUNCATED, TD_ENOTFOUND ...), the file, a sentence. */
typedef void td_verify_report(void *ctx, int code, const char *file, const char *sentence);

/* Manifest, sizes and checksums of all files, every frame, record and blob, and that each blob an op needs is there.
 * TD_OK whatever was found (see sums->problems); an error only when nothing could be looked at: no such folder. */
int td_fixture_verify(const char *dir, td_verify_report *report, void *ctx, struct td_verify_sums *sums, struct td_error *err);

#endif
