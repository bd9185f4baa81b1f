/* verify.h - check every byte of a fixture against its manifest, and name every problem.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_VERIFY_H
#define TD_FORMAT_VERIFY_H

#include <stdint.h>

#include "common/error.h"
#include "format/planned.h"

struct td_verify_sums {
    int64_t files, bytes, frames, records, blobs, problems;
    char state[TD_STATE_WORDS];
};

/* One problem: a code (TD_ECORRUPT, TD_ETRUNCATED, TD_ENOTFOUND ...), the file, a sentence. */
typedef void td_verify_report(void *ctx, int code, const char *file, const char *sentence);

/* Check the manifest, sizes and checksums of all files, every frame, record and blob, and that each
 * blob an op needs is there. TD_OK whatever was found (sums->problems); TD_ENOTFOUND: no such
 * folder. */
int td_fixture_verify(const char *dir, td_verify_report *report, void *ctx, struct td_verify_sums *sums, struct td_error *err);

#endif
