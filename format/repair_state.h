/* repair_state.h - a repair while it happens; for the repair*.c files alone.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every step can be interrupted, and the next repair ends where this one would have ended. A file is
 * replaced in one step (written under a temporary name, synced, renamed) or only cut; what is derived
 * from others comes after them; the manifest comes last, when all other files are synced. What a
 * file lost is noted before the file changes. */
#ifndef TD_FORMAT_REPAIR_STATE_H
#define TD_FORMAT_REPAIR_STATE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/fixture_lock.h"
#include "common/fs.h"
#include "format/manifest.h"

struct td_repair_options;

/* dropped: frames or stretches given up; cut_bytes: cut off at the end */
struct repair_loss { bool noted; int64_t dropped, cut_bytes; };

struct repair {
    const char *dir;
    const struct td_repair_options *opt;
    void (*report)(void *ctx, const char *sentence); /* or NULL */
    void *report_ctx;
    struct td_fixture_lock lock;
    struct td_file_fact fact[TD_FILE_COUNT];
    bool touched[TD_FILE_COUNT];
    bool differs[TD_FILE_COUNT];           /* from what the manifest says */
    struct repair_loss loss[TD_FILE_COUNT];
    bool resumed;                          /* an earlier repair of this damage was interrupted */
    bool had_manifest, changed;
    bool lost_records;                     /* that a whole recording had */
    cJSON *manifest;
    char failure[480];                     /* why the recording had failed; "": it had not */
};

/* ---- repair_state.c ---- */

/* The path of a file of the fixture, TD_PATH_MAX bytes. */
int repair_path(const struct repair *r, int file, char *out, struct td_error *err);
void repair_report(const struct repair *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Look at a file before it is read: give a file of others, which is there, the name NAME.aside as well,
 * or NAME.aside-2 ... Returns 1: so it was, and `path` may be replaced; 0: it is ours; TD_ENOTFOUND:
 * a pointer of git LFS; TD_EIO: it cannot be kept. */
int repair_keep_aside(const struct repair *r, const char *path, int file, struct td_error *err);

/* ---- repair_notes.c ---- */

/* Read what an interrupted repair of this damage has noted; notes of another one are ignored. */
void repair_notes_load(struct repair *r);
/* Note what a file is about to lose, before it changes. What an interrupted repair has noted stands:
 * this one may find a part of that done. */
int repair_notes_add(struct repair *r, int file, int64_t dropped, int64_t cut_bytes,
                     struct td_error *err);
void repair_notes_remove(const struct repair *r);
/* Remove temporary files that an interrupted repair or recording has left. Call with the lock. */
void repair_remove_leftovers(const struct repair *r);

/* ---- repair_files.c ---- */

int repair_stream(struct repair *r, int file, struct td_error *err);
int repair_pack(struct repair *r, struct td_error *err);

/* ---- repair_manifest.c ---- */

/* Load the manifest, or rebuild it from the ledger, which is repaired already. */
int repair_load_manifest(struct repair *r, struct td_error *err);

/* ---- repair_steps.c ---- */

/* Add a line of unknown rows for each step that an op names and steps.jsonl.zst lacks: record keeps
 * the steps of a server that names no rows until its end. */
int repair_add_steps(struct repair *r, struct td_error *err);

#endif
