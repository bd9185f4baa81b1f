/* repair.c - make a damaged or unfinished recording readable again.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "format/fixture_folder.h"
#include "common/json.h"
#include "common/log.h"
#include "format/fixture.h"
#include "format/frames.h"
#include "format/manifest.h"
#include "format/pack.h"
#include "format/repair.h"

#define TMP_SUFFIX ".repair"

struct repair {
    const char *dir;
    const struct td_repair_options *opt;
    struct td_file_fact fact[TD_FILE_COUNT];
    bool touched[TD_FILE_COUNT];
    int64_t dropped, cut_bytes;   /* frames or stretches given up, bytes cut off */
    bool had_manifest, changed;
    cJSON *manifest;
    char failure[480];        /* why the recording had failed; "": it had not */
};

static int file_path(const struct repair *r, int file, const char *suffix, char *out, struct td_error *err)
{
    char name[64];

    snprintf(name, sizeof name, "%s%s", td_file_names[file], suffix);
    return td_fs_join(out, TD_PATH_MAX, r->dir, name, err);
}

static void __attribute__((format(printf, 2, 3)))
report_repair(const struct repair *r, const char *fmt, ...)
{
    char text[TD_PATH_MAX + 512];
    va_list ap;

    if (!r->opt->report)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    r->opt->report(r->opt->ctx, text);
}

static int cut_file(const char *path, uint64_t size, struct td_error *err)
{
    return truncate(path, (off_t)size) ? td_fail(err, TD_EIO, "%s: cannot cut: %s", path, strerror(errno)) : TD_OK;
}

static int replace_file(const char *tmp, const char *path, struct td_error *err)
{
    return rename(tmp, path) ? td_fail(err, TD_EIO, "%s: cannot rename: %s", tmp, strerror(errno)) : TD_OK;
}

/* ---- streams ---------------------------------------------------------------------------------------------------------- */

/* Walk a stream, and copy its good frames to `to` unless NULL. The file's fact gets the counts. */
static int walk_stream(struct repair *r, int file, struct td_frames *f, struct td_sink *to, bool loud, struct td_error *err)
{
    struct td_file_fact *fact = &r->fact[file];
    int rc;

    memset(fact, 0, sizeof *fact);
    for (;;) {
        struct td_error why = {0};

        rc = td_frames_next(f, &why);
        if (!rc)
            return TD_OK;
        if (rc == TD_ECORRUPT || rc == TD_ETRUNCATED) {
            if (loud)
                report_repair(r, "%s", why.msg);
            continue;
        }
        if (rc < 0)
            return td_fail(err, rc, "%s", why.msg);
        f->head.number = fact->frames;
        if (to && (rc = td_frame_copy(to, &f->head, f->comp.data, err)))
            return rc;
        fact->frames++;
        fact->records += f->head.records;
    }
}

static int rewrite_stream(struct repair *r, int file, const char *path, struct td_error *err)
{
    char tmp[TD_PATH_MAX], name[64];
    struct td_frames f;
    struct td_sink to;
    int rc = file_path(r, file, TMP_SUFFIX, tmp, err);

    if (rc)
        return rc;
    snprintf(name, sizeof name, "%s" TMP_SUFFIX, td_file_names[file]);
    unlink(tmp);
    rc = td_sink_open(&to, r->dir, name, err);
    if (rc)
        return rc;
    rc = td_frames_open(&f, path, (uint16_t)(file + 1), err);
    if (!rc)
        rc = walk_stream(r, file, &f, &to, false, err);
    td_frames_close(&f);
    if (!rc)
        rc = td_sink_sync(&to, err);
    td_sink_close(&to);
    return rc ? rc : replace_file(tmp, path, err);
}

static int create_empty(struct repair *r, int file, struct td_error *err)
{
    struct td_sink s;
    int rc = td_sink_open(&s, r->dir, td_file_names[file], err);

    if (!rc)
        td_sink_close(&s);
    report_repair(r, "%s/%s: missing; an empty one takes its place", r->dir, td_file_names[file]);
    r->touched[file] = true;
    return rc;
}

static int repair_stream(struct repair *r, int file, struct td_error *err)
{
    struct td_frames f;
    char path[TD_PATH_MAX];
    uint64_t good_end, size;
    int64_t bad;
    int rc = file_path(r, file, "", path, err);

    if (rc)
        return rc;
    if (!td_fs_exists(path)) {
        memset(&r->fact[file], 0, sizeof r->fact[file]);
        r->dropped++;
        return create_empty(r, file, err);
    }
    rc = td_frames_open(&f, path, (uint16_t)(file + 1), err);
    if (!rc)
        rc = walk_stream(r, file, &f, NULL, true, err);
    good_end = f.good_end;
    size = f.src.size;
    bad = f.bad;
    td_frames_close(&f);
    if (rc || (!bad && good_end == size))
        return rc;
    r->touched[file] = true;
    r->dropped += bad;
    if (bad)
        return rewrite_stream(r, file, path, err);
    r->cut_bytes += (int64_t)(size - good_end);
    report_repair(r, "%s: %llu bytes of an unfinished frame cut off", path,
                  (unsigned long long)(size - good_end));
    return cut_file(path, good_end, err);
}

/* ---- the pack ---------------------------------------------------------------------------------------------------------- */

/* Copy the good frames (not the old index) into a new pack with an index. */
static int rewrite_pack(struct repair *r, struct td_pack *pk, const char *path, struct td_error *err)
{
    static const char name[] = "blobs.pack" TMP_SUFFIX;
    struct td_buf stored = TD_BUF_INIT(SIZE_MAX / 2);
    struct td_pack_index ix = {0};
    struct td_pack_head h;
    struct td_sink to;
    uint64_t at = 0, frame_at;
    char tmp[TD_PATH_MAX];
    int rc = td_fs_join(tmp, sizeof tmp, r->dir, name, err);

    if (rc)
        return rc;
    unlink(tmp);
    rc = td_sink_open(&to, r->dir, name, err);
    while (!rc) {
        rc = td_pack_walk(pk, &at, &h, &frame_at, &stored, NULL);
        if (!rc)
            break;
        if (rc == 1)
            rc = h.encoding == TD_PACK_INDEX || td_pack_index_find(&ix, h.hash)
                     ? TD_OK
                     : td_pack_copy(&to, &ix, &h, stored.data, err);
        else if (rc == TD_ECORRUPT || rc == TD_ETRUNCATED)
            rc = TD_OK;
        else
            td_fail(err, rc, "%s: cannot be read: %s", path, td_code_name(rc));
    }
    if (!rc)
        rc = td_pack_finish(&to, &ix, err);
    if (!rc)
        rc = td_sink_sync(&to, err);
    if (!rc)
        rc = replace_file(tmp, path, err);
    td_sink_close(&to);
    td_buf_release(&stored);
    r->fact[TD_FILE_PACK].frames = r->fact[TD_FILE_PACK].records = ix.n;
    td_pack_index_release(&ix);
    return rc;
}

/* Nothing lost but the tail: cut it, append an index. */
static int finish_pack(const char *path, const struct td_pack *pk, struct td_error *err)
{
    struct td_sink s;
    int rc = cut_file(path, pk->good_end, err);

    if (!rc)
        rc = td_sink_reopen(&s, path, pk->good_end, err);
    if (rc)
        return rc;
    rc = td_pack_finish(&s, &pk->index, err);
    if (!rc)
        rc = td_sink_sync(&s, err);
    td_sink_close(&s);
    return rc;
}

static int repair_pack(struct repair *r, struct td_error *err)
{
    struct td_buf stored = TD_BUF_INIT(SIZE_MAX / 2);
    struct td_pack_head h;
    struct td_pack pk;
    uint64_t at = 0, frame_at;
    char path[TD_PATH_MAX];
    bool old_index = false;
    int rc = file_path(r, TD_FILE_PACK, "", path, err);

    if (rc)
        return rc;
    if (!td_fs_exists(path)) {
        r->dropped++;
        rc = create_empty(r, TD_FILE_PACK, err);
        if (rc)
            return rc;
    }
    rc = td_pack_open(&pk, path, err);
    if (rc)
        return rc;
    pk.bad = 0;
    pk.torn = false;
    pk.good_end = 0;
    do {
        struct td_error why = {0};

        rc = td_pack_walk(&pk, &at, &h, &frame_at, &stored, &why);
        old_index |= rc == 1 && h.encoding == TD_PACK_INDEX;
        if (rc == TD_ECORRUPT || rc == TD_ETRUNCATED)
            report_repair(r, "%s", why.msg);
        else if (rc < 0)
            td_fail(err, rc, "%s", why.msg);
    } while (rc == 1 || rc == TD_ECORRUPT || rc == TD_ETRUNCATED);
    td_buf_release(&stored);
    r->fact[TD_FILE_PACK].frames = r->fact[TD_FILE_PACK].records = pk.index.n;
    if (!rc && (pk.bad || !pk.indexed || pk.torn)) {
        r->touched[TD_FILE_PACK] = true;
        r->dropped += pk.bad;
        if (!pk.bad && pk.good_end < pk.src.size)
            r->cut_bytes += (int64_t)(pk.src.size - pk.good_end);
        report_repair(r, "%s: index rebuilt", path);
        rc = pk.bad || old_index ? rewrite_pack(r, &pk, path, err) : finish_pack(path, &pk, err);
    }
    td_pack_close(&pk);
    return rc;
}

/* ---- the manifest ------------------------------------------------------------------------------------------------------ */

static void merge_member(cJSON *m, const char *section, const char *key, const cJSON *value)
{
    cJSON *s = cJSON_GetObjectItemCaseSensitive(m, section);

    if (!s)
        s = cJSON_AddObjectToObject(m, section);
    cJSON_DeleteItemFromObjectCaseSensitive(s, key);
    cJSON_AddItemToObject(s, key, cJSON_Duplicate(value, true));
}

/* Merge one line of the ledger into the manifest: its beginning, a fact or a count. */
static void merge_ledger_line(struct repair *r, const cJSON *line)
{
    const cJSON *begin = td_json_get(line, "begin"), *value = td_json_get(line, "value"), *item;
    const char *section = td_json_get_str(line, "section", NULL), *key = td_json_get_str(line, "key", NULL);
    const char *count = td_json_get_str(line, "count", NULL);
    cJSON *c;

    cJSON_ArrayForEach(item, begin)
        if (item->string && !cJSON_GetObjectItemCaseSensitive(r->manifest, item->string))
            cJSON_AddItemToObject(r->manifest, item->string, cJSON_Duplicate(item, true));
    if (section && key && value && !td_manifest_reserved(section))
        merge_member(r->manifest, section, key, value);
    if (count) {
        c = cJSON_CreateObject();
        td_manifest_put_i64(c, "n", td_json_get_i64(line, "n", 0));
        td_manifest_put_i64(c, "bytes", td_json_get_i64(line, "bytes", 0));
        merge_member(r->manifest, "ledger", count, c);
        cJSON_Delete(c);
    }
}

static int manifest_from_ledger(struct repair *r, struct td_error *err)
{
    struct td_frames f;
    char path[TD_PATH_MAX], id[33];
    int rc = file_path(r, TD_FILE_LEDGER, "", path, err);

    r->manifest = cJSON_CreateObject();
    if (!rc)
        rc = td_frames_open(&f, path, TD_FILE_LEDGER + 1, err);
    if (rc)
        return rc;
    while (td_frames_next(&f, NULL) == 1) {
        char *p = f.raw.data, *end = p + f.raw.len, *nl;

        for (; p < end && (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1) {
            cJSON *line = td_json_parse(p, (size_t)(nl - p), NULL);

            merge_ledger_line(r, line);
            cJSON_Delete(line);
        }
    }
    td_frames_close(&f);
    if (!td_json_get(r->manifest, "id")) { /* the recorder was killed before its first commit */
        cJSON_Delete(r->manifest);
        td_manifest_new_id(id);
        r->manifest = td_manifest_new("repair", id);
        report_repair(r, "%s: nothing is known about how this recording began; it gets a new id",
                      r->dir);
    }
    cJSON_AddStringToObject(r->manifest, "state", "interrupted");
    return TD_OK;
}

static int load_manifest(struct repair *r, struct td_error *err)
{
    struct td_error why = {0};
    char path[TD_PATH_MAX];
    int rc = td_fs_join(path, sizeof path, r->dir, TD_MANIFEST_NAME, err);

    if (rc)
        return rc;
    if (td_fs_exists(path)) {
        r->manifest = td_json_load(path, TD_MANIFEST_MAX, &why);
        rc = r->manifest ? td_manifest_check(r->manifest, &why) : why.code;
        if (rc == TD_EVERSION)
            return td_fail(err, rc, "%s: %s", path, why.msg);
        if (!rc) {
            r->had_manifest = true;
            return TD_OK;
        }
        report_repair(r, "%s: %s; rebuilt from the ledger", path, why.msg);
        cJSON_Delete(r->manifest);
        r->manifest = NULL;
    } else {
        report_repair(r, "%s: missing; rebuilt from the ledger", path);
    }
    return manifest_from_ledger(r, err);
}

/* Fill the facts with size and checksum of every file. *same: the manifest agrees. */
static int digest_files(struct repair *r, bool *same, struct td_error *err)
{
    struct td_file_fact was;
    char path[TD_PATH_MAX];
    struct td_source src;
    int i, rc;

    *same = true;
    for (i = 0; i < TD_FILE_COUNT; i++) {
        if ((rc = file_path(r, i, "", path, err)) || (rc = td_source_open(&src, path, err)))
            return rc;
        r->fact[i].bytes = src.size;
        rc = td_source_digest(&src, &r->fact[i].hash, err);
        td_source_close(&src);
        if (rc)
            return rc;
        if (td_manifest_get_file(r->manifest, td_file_names[i], &was) || was.bytes != r->fact[i].bytes ||
            was.frames != r->fact[i].frames || was.records != r->fact[i].records || !td_hash_eq(was.hash, r->fact[i].hash))
            *same = false;
    }
    return TD_OK;
}

/* ---- exchanges ---------------------------------------------------------------------------------------------------------- */

static int derive_exchanges(struct repair *r, struct td_error *err)
{
    struct td_file_fact *fact = &r->fact[TD_FILE_EXCHANGES];
    char tmp[TD_PATH_MAX], path[TD_PATH_MAX];
    int rc;

    if (!r->fact[TD_FILE_WIRE].records || !r->opt->derive)
        return TD_OK;
    if ((rc = file_path(r, TD_FILE_EXCHANGES, TMP_SUFFIX, tmp, err)) || (rc = file_path(r, TD_FILE_EXCHANGES, "", path, err)))
        return rc;
    unlink(tmp);
    rc = r->opt->derive(r->opt->ctx, r->dir, "exchanges.jsonl.zst" TMP_SUFFIX, fact, err);
    if (rc) {
        unlink(tmp);
        return rc;
    }
    report_repair(r, "%s: %llu exchanges derived again from the wire", path,
                  (unsigned long long)fact->records);
    r->touched[TD_FILE_EXCHANGES] = true;
    return replace_file(tmp, path, err);
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
    report_repair(
        r, "%s/" TD_MANIFEST_NAME ": the recording had failed (%s); what was committed is kept",
        r->dir, r->failure);
    return true;
}

/* ---- all together ------------------------------------------------------------------------------------------------------- */

static int save_repaired_manifest(struct repair *r, struct td_error *err)
{
    cJSON *note;
    int i;

    for (i = 0; i < TD_FILE_COUNT; i++)
        td_manifest_put_file(r->manifest, i, &r->fact[i]);
    cJSON_DeleteItemFromObjectCaseSensitive(r->manifest, "repaired");
    note = cJSON_AddObjectToObject(r->manifest, "repaired");
    td_manifest_put_i64(note, "wall_ns", td_clock_wall_ns());
    td_manifest_put_i64(note, "dropped", r->dropped);
    td_manifest_put_i64(note, "cut_bytes", r->cut_bytes);
    if (*r->failure)
        cJSON_AddStringToObject(note, "failure", r->failure);
    return td_manifest_save(r->dir, r->manifest, err);
}

static int repair_folder(struct repair *r, struct td_error *err)
{
    bool same = false, any = false, had_failed = false;
    int i, rc = TD_OK;

    for (i = 0; !rc && i < TD_FILE_PACK; i++)
        rc = repair_stream(r, i, err);
    if (!rc)
        rc = repair_pack(r, err);
    if (!rc)
        rc = load_manifest(r, err);
    if (!rc)
        had_failed = clear_failed_state(r);
    if (!rc)
        rc = digest_files(r, &same, err);
    for (i = 0; i < TD_FILE_COUNT; i++)
        any |= r->touched[i];
    if (rc || (same && !any && r->had_manifest && !had_failed && !r->opt->always_derive))
        return rc;
    r->changed = true;
    rc = save_repaired_manifest(r, err); /* the reader that derives needs a manifest */
    if (!rc && (r->opt->always_derive || !r->had_manifest || had_failed || r->touched[TD_FILE_EXCHANGES])) {
        rc = derive_exchanges(r, err);
        if (!rc)
            rc = digest_files(r, &same, err);
        if (!rc)
            rc = save_repaired_manifest(r, err);
    }
    return rc;
}

int td_fixture_repair(const char *dir, const struct td_repair_options *opt, struct td_repair_sums *sums, struct td_error *err)
{
    struct repair r = {.dir = dir, .opt = opt};
    int rc;

    if (td_fs_is_dir(dir))
        rc = repair_folder(&r, err);
    else if (td_fixture_is(dir))
        rc = td_fail(err, TD_EINVAL, "%s: a pack is repaired in a folder: first {fixture} unpack %s -o DIR", dir, dir);
    else
        rc = td_fail(err, TD_ENOTFOUND, "%s: no such folder", dir);

    cJSON_Delete(r.manifest);
    *sums = (struct td_repair_sums){r.changed, r.dropped, r.cut_bytes};
    return rc;
}
