/* repair_notes.c - what a repair that may be interrupted leaves for the next one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * repair.json holds what each file has lost, and the hash of the manifest that stood beside it: once
 * the repair has written its own manifest the notes mean nothing. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "common/temp_file.h"
#include "format/own_files.h"
#include "format/repair_state.h"
#include "format/sink.h"

#define NAME TD_REPAIR_NOTES_NAME
#define MAX_BYTES 65536

/* The hash of manifest.json as it is now; zeros when there is none. */
static void hash_manifest(const struct repair *r, char hex[TD_HASH_HEX])
{
    struct td_hash h = {0, 0};
    char path[TD_PATH_MAX];
    struct td_source src;

    if (!td_fs_join(path, sizeof path, r->dir, TD_MANIFEST_NAME, NULL) &&
        !td_source_open(&src, path, NULL)) {
        td_source_digest(&src, &h, NULL);
        td_source_close(&src);
    }
    td_hash_hex(h, hex);
}

void repair_notes_load(struct repair *r)
{
    char path[TD_PATH_MAX], hex[TD_HASH_HEX];
    cJSON *notes;
    int i;

    if (td_fs_join(path, sizeof path, r->dir, NAME, NULL) || !td_fs_exists(path))
        return;
    notes = td_json_load_member(path, MAX_BYTES, NULL);
    hash_manifest(r, hex);
    r->resumed = !strcmp(td_json_get_str(notes, "manifest", ""), hex);
    for (i = 0; r->resumed && i < TD_FILE_COUNT; i++) {
        const cJSON *one = td_json_get(td_json_get(notes, "files"), td_file_names[i]);

        r->loss[i] = (struct repair_loss){one != NULL, td_json_get_i64(one, "dropped", 0),
                                          td_json_get_i64(one, "cut_bytes", 0)};
    }
    cJSON_Delete(notes);
}

static int save_notes(const struct repair *r, struct td_error *err)
{
    struct td_buf b = TD_BUF_INIT(MAX_BYTES);
    char path[TD_PATH_MAX], hex[TD_HASH_HEX];
    struct td_jw w;
    int i, rc = td_fs_join(path, sizeof path, r->dir, NAME, err);

    hash_manifest(r, hex);
    td_jw_init(&w, &b, false);
    td_jw_obj(&w, NULL);
    td_jw_cstr(&w, "manifest", hex);
    td_jw_obj(&w, "files");
    for (i = 0; i < TD_FILE_COUNT; i++) {
        if (!r->loss[i].noted)
            continue;
        td_jw_obj(&w, td_file_names[i]);
        td_jw_i64(&w, "dropped", r->loss[i].dropped);
        td_jw_i64(&w, "cut_bytes", r->loss[i].cut_bytes);
        td_jw_end(&w);
    }
    td_jw_end(&w);
    td_jw_end(&w);
    if (!rc)
        rc = td_fs_write_atomic(path, td_buf_str(&b), b.len, err);
    td_buf_release(&b);
    return rc;
}

int repair_notes_add(struct repair *r, int file, int64_t dropped, int64_t cut_bytes,
                     struct td_error *err)
{
    if (r->loss[file].noted)
        return TD_OK;
    r->loss[file] = (struct repair_loss){true, dropped, cut_bytes};
    return save_notes(r, err);
}

static void remove_one(const struct repair *r, const char *name)
{
    char path[TD_PATH_MAX];

    if (!td_fs_join(path, sizeof path, r->dir, name, NULL))
        unlink(path);
}

void repair_notes_remove(const struct repair *r)
{
    remove_one(r, NAME);
}

/* Names of earlier versions: "wire.zst.repair", "manifest.json.tmp.71". */
static bool is_old_temporary(const char *name)
{
    size_t n;
    int i;

    for (i = 0; i < TD_FILE_COUNT; i++) {
        n = strlen(td_file_names[i]);
        if (!strncmp(name, td_file_names[i], n) && !strcmp(name + n, ".repair"))
            return true;
    }
    n = strlen(TD_MANIFEST_NAME ".tmp.");
    return !strncmp(name, TD_MANIFEST_NAME ".tmp.", n) && name[n] &&
           strspn(name + n, "0123456789") == strlen(name + n);
}

void repair_remove_leftovers(const struct repair *r)
{
    DIR *d = opendir(r->dir);
    const struct dirent *e;

    while (d && (e = readdir(d)))
        if (td_temp_is(e->d_name) || is_old_temporary(e->d_name)) {
            repair_report(r, "%s/%s: a temporary file that was left is removed", r->dir, e->d_name);
            remove_one(r, e->d_name);
        }
    if (d)
        closedir(d);
}
