/* manifest.h - manifest.json: its required members, and writing it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_MANIFEST_H
#define TD_FORMAT_MANIFEST_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash.h"

#define TD_FORMAT_VERSION 1                /* docs/format.md; a reader takes every version up to this */
#define TD_MANIFEST_NAME "manifest.json"
#define TD_MANIFEST_MAX ((size_t)64 << 20)

enum { TD_FILE_WIRE, TD_FILE_EXCHANGES, TD_FILE_STEPS, TD_FILE_OPS, TD_FILE_LEDGER, TD_FILE_PACK, TD_FILE_COUNT };
extern const char *const td_file_names[TD_FILE_COUNT]; /* the first five in the order of enum td_stream_kind */

struct td_file_fact { uint64_t bytes, frames, records; struct td_hash hash; };

void td_manifest_new_id(char out[33]);                      /* 128 random bits as hexadecimal digits */
/* A new tree with the members that every manifest has: format, version, tool, tool_version, id,
 * hash. The caller owns it. */
cJSON *td_manifest_new(const char *tool, const char *id);
bool td_manifest_reserved(const char *section); /* may no section of facts have this name? */
void td_manifest_put_i64(cJSON *obj, const char *key, int64_t v); /* beyond 2^53 as a string of digits */
void td_manifest_put_file(cJSON *manifest, int file, const struct td_file_fact *f);
int td_manifest_get_file(const cJSON *manifest, const char *name, struct td_file_fact *f); /* TD_OK, TD_ENOTFOUND, TD_ECORRUPT */
/* Check that this version can read the fixture, by format, version, id and hash. TD_ECORRUPT,
 * TD_EVERSION. */
int td_manifest_check(const cJSON *manifest, struct td_error *err);
/* Check that what a verdict counts with is made of counts: the sections "ledger", "files", "plan" and
 * "seen", and "replay.requests". TD_ECORRUPT: the sentence names one that is none. */
int td_manifest_check_counts(const cJSON *manifest, struct td_error *err);
int td_manifest_save(const char *dir, const cJSON *manifest, struct td_error *err);

#endif
