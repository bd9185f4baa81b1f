/* repair.c - make a damaged or unfinished recording readable again.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/repair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/number_words.h"
#include "common/out_of_memory.h"
#include "common/temp_file.h"
#include "format/fixture_folder.h"
#include "format/own_files.h"
#include "format/planned.h"
#include "format/repair_state.h"
#include "format/sink.h"

/* ---- exchanges ------------------------------------------------------------------------------- */

static int derive_exchanges(struct repair *r, struct td_error *err)
{
    struct td_file_fact *fact = &r->fact[TD_FILE_EXCHANGES];
    char tmp[TD_PATH_MAX], path[TD_PATH_MAX];
    int rc;

    if (!r->fact[TD_FILE_WIRE].records || !r->opt->derive)
        return TD_OK;
    rc = repair_path(r, TD_FILE_EXCHANGES, path, err);
    if (!rc)
        rc = td_temp_name(path, tmp, err);
    if (rc)
        return rc;
    rc = r->opt->derive(r->opt->ctx, r->dir, strrchr(tmp, '/') + 1, fact, err);
    if (rc) {
        unlink(tmp);
        return rc;
    }
    repair_report(r, "%s: %llu exchanges derived again from the wire", path,
                  (unsigned long long)fact->records);
    r->touched[TD_FILE_EXCHANGES] = true;
    return td_temp_rename(tmp, path, err);
}

/* ---- the manifest ---------------------------------------------------------------------------- */

/* Fill the facts with size and checksum of every file. *same: the manifest agrees. */
static int digest_files(struct repair *r, bool *same, struct td_error *err)
{
    struct td_file_fact was;
    char path[TD_PATH_MAX];
    struct td_source src;
    int i, rc;

    *same = true;
    for (i = 0; i < TD_FILE_COUNT; i++) {
        if ((rc = repair_path(r, i, path, err)) || (rc = td_source_open(&src, path, err)))
            return rc;
        r->fact[i].bytes = src.size;
        rc = td_source_digest(&src, &r->fact[i].hash, err);
        td_source_close(&src);
        if (rc)
            return rc;
        r->differs[i] = td_manifest_get_file(r->manifest, td_file_names[i], &was) ||
                        was.bytes != r->fact[i].bytes || was.frames != r->fact[i].frames ||
                        was.records != r->fact[i].records || !td_hash_eq(was.hash, r->fact[i].hash);
        *same = *same && !r->differs[i];
    }
    return TD_OK;
}

/* A recording that had failed (a full disk) counts as interrupted once its frames and files agree
 * again. The note keeps the reason. */
static bool clear_failed_state(struct repair *r)
{
    if (strcmp(td_json_get_str(r->manifest, "state", ""), "failed") != 0)
        return false;
    snprintf(r->failure, sizeof r->failure, "%s", td_json_get_str(r->manifest, "failure", "unknown"));
    cJSON_DeleteItemFromObjectCaseSensitive(r->manifest, "failure");
    cJSON_DeleteItemFromObjectCaseSensitive(r->manifest, "state");
    cJSON_AddStringToObject(r->manifest, "state", "interrupted");
    repair_report(
        r, "%s/" TD_MANIFEST_NAME ": the recording had failed (%s); what was committed is kept",
        r->dir, r->failure);
    return true;
}

/* The files may have been written by a recorder that did not live to sync them. */
static int sync_files(const struct repair *r, struct td_error *err)
{
    char path[TD_PATH_MAX];
    int i, fd, rc = TD_OK;

    for (i = 0; !rc && i < TD_FILE_COUNT; i++) {
        if ((rc = repair_path(r, i, path, err)))
            return rc;
        fd = td_fs_open_member(path, O_RDONLY, err);
        if (fd < 0)
            rc = fd;
        else if (fsync(fd))
            rc = td_fail(err, TD_EIO, "%s: cannot sync: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    return rc ? rc : td_sync_folder(r->dir, err);
}

static void add_cause(struct repair *r, const char *cause)
{
    cJSON *seen = cJSON_GetObjectItemCaseSensitive(r->manifest, "seen"), *causes;

    seen = seen ? seen : cJSON_AddObjectToObject(r->manifest, "seen");
    causes = cJSON_GetObjectItemCaseSensitive(seen, "causes");
    causes = causes ? causes : cJSON_AddArrayToObject(seen, "causes");
    cJSON_AddItemToArray(causes, cJSON_CreateString(cause));
}

/* Records that no wire brings back are lost for good: the fixture says so from now on. */
static void note_lost_records(struct repair *r)
{
    static const int FILES[] = {TD_FILE_STEPS, TD_FILE_OPS, TD_FILE_LEDGER, TD_FILE_PACK};
    struct td_file_fact was;
    char cause[120];
    size_t i;

    if (!r->had_manifest || !td_fixture_is_whole(r->manifest))
        return;
    for (i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        const int file = FILES[i];

        if (td_manifest_get_file(r->manifest, td_file_names[file], &was) ||
            was.records <= r->fact[file].records)
            continue;
        snprintf(cause, sizeof cause, "repair gave up %llu of %llu records of %s",
                 (unsigned long long)(was.records - r->fact[file].records),
                 (unsigned long long)was.records, td_file_names[file]);
        add_cause(r, cause);
        r->lost_records = true;
    }
    if (!r->lost_records)
        return;
    cJSON_DeleteItemFromObjectCaseSensitive(r->manifest, "state");
    cJSON_AddStringToObject(r->manifest, "state", "incomplete");
}

/* The manifest is made of the ledger, and that is not all there: a plan that was written down later, or
 * a count, may be lost. */
static void note_lost_ledger(struct repair *r)
{
    const int64_t lost = r->loss[TD_FILE_LEDGER].dropped;
    cJSON *plan = cJSON_GetObjectItemCaseSensitive(r->manifest, "plan");
    char cause[120];

    if (r->had_manifest || lost <= 0)
        return;
    snprintf(cause, sizeof cause, "repair gave up %lld frame%s of %s, of which the manifest was made",
             (long long)lost, td_plural(lost), td_file_names[TD_FILE_LEDGER]);
    add_cause(r, cause);
    if (cJSON_IsObject(plan))
        td_manifest_put_i64(plan, "lost", lost);
}

static struct repair_loss sum_losses(const struct repair *r)
{
    struct repair_loss sum = {0};
    int i;

    for (i = 0; i < TD_FILE_COUNT; i++) {
        sum.dropped += r->loss[i].dropped;
        sum.cut_bytes += r->loss[i].cut_bytes;
    }
    return sum;
}

static int save_repaired_manifest(struct repair *r, struct td_error *err)
{
    const struct repair_loss sum = sum_losses(r);
    cJSON *note;
    int i, rc = sync_files(r, err);

    if (rc)
        return rc;
    for (i = 0; i < TD_FILE_COUNT; i++)
        td_manifest_put_file(r->manifest, i, &r->fact[i]);
    cJSON_DeleteItemFromObjectCaseSensitive(r->manifest, "repaired");
    note = cJSON_AddObjectToObject(r->manifest, "repaired");
    td_manifest_put_i64(note, "wall_ns", td_clock_wall_ns());
    td_manifest_put_i64(note, "dropped", sum.dropped);
    td_manifest_put_i64(note, "cut_bytes", sum.cut_bytes);
    if (*r->failure)
        cJSON_AddStringToObject(note, "failure", r->failure);
    rc = td_out_of_memory_check(r->dir, err);
    return rc ? rc : td_manifest_save(r->dir, r->manifest, err);
}

/* ---- all together ---------------------------------------------------------------------------- */

/* Make what is derived from other files. What calls for it must show again in the next repair when
 * this one is interrupted: the manifest is still the old one then. */
static int derive(struct repair *r, bool unfinished, struct td_error *err)
{
    const bool exchanges = r->opt->always_derive || unfinished || r->touched[TD_FILE_EXCHANGES] ||
                           r->differs[TD_FILE_EXCHANGES];
    int rc = exchanges ? derive_exchanges(r, err) : TD_OK;

    return rc || !unfinished ? rc : repair_add_steps(r, err);
}

static int repair_folder(struct repair *r, struct td_error *err)
{
    bool same = false, any = false, unfinished = false;
    int i, rc = TD_OK;

    repair_notes_load(r);
    repair_remove_leftovers(r);
    for (i = 0; !rc && i < TD_FILE_PACK; i++)
        rc = repair_stream(r, i, err);
    if (!rc)
        rc = repair_pack(r, err);
    if (!rc)
        rc = repair_load_manifest(r, err);
    if (!rc)
        unfinished = clear_failed_state(r) || !r->had_manifest;
    if (!rc)
        rc = digest_files(r, &same, err);
    for (i = 0; i < TD_FILE_COUNT; i++)
        any |= r->touched[i];
    if (!rc && (!same || any || unfinished || r->resumed || r->opt->always_derive)) {
        r->changed = true;
        note_lost_records(r);
        note_lost_ledger(r);
        rc = derive(r, unfinished, err);
        if (!rc)
            rc = digest_files(r, &same, err);
        if (!rc)
            rc = save_repaired_manifest(r, err);
    }
    if (!rc)
        repair_notes_remove(r);
    return rc;
}

/* Take the lock. A folder that may only be read can be looked at, and no more, without one. */
static int repair_locked(struct repair *r, struct td_error *err)
{
    struct td_error why = {0};
    int rc = td_own_folder(r->dir, TD_EINVAL, err);

    if (rc)
        return rc;
    rc = td_fixture_lock_take(&r->lock, r->dir, "fixture repair", &why);
    if (rc == TD_EBUSY)
        return td_fail(err, rc, "%s", why.msg);
    rc = repair_folder(r, err);
    td_fixture_lock_release(&r->lock);
    return rc;
}

int td_fixture_repair(const char *dir, const struct td_repair_options *opt, struct td_repair_sums *sums, struct td_error *err)
{
    struct repair r = {.dir = dir, .opt = opt, .report = opt->report, .report_ctx = opt->ctx};
    struct repair_loss lost;
    int rc;

    if (td_fs_is_dir(dir))
        rc = repair_locked(&r, err);
    else if (td_fixture_is(dir))
        rc = td_fail(err, TD_EINVAL, "%s: a pack is repaired in a folder: first {fixture} unpack %s -o DIR", dir, dir);
    else
        rc = td_fail(err, TD_ENOTFOUND, "%s: no such folder", dir);

    cJSON_Delete(r.manifest);
    lost = sum_losses(&r);
    *sums = (struct td_repair_sums){r.changed, lost.dropped, lost.cut_bytes};
    return rc;
}
