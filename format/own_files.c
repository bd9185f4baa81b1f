/* own_files.c - tell the folder of a fixture, however damaged, from another, and its files from those
 * of others that have their names.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/own_files.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fixture_folders.h"
#include "common/fixture_lock.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/temp_file.h"
#include "format/fixture_folder.h"
#include "format/frames.h"
#include "common/lfs.h"
#include "format/manifest.h"
#include "format/pack.h"

#define NOTE_MAX 65536

/* ---- a file ---------------------------------------------------------------------------------- */

/* The bytes with which each frame of this file begins. */
static size_t mark_of(int file, uint8_t out[TD_PACK_HEAD])
{
    static const char MANIFEST[] = "\"tapedeck-fixture\"";

    if (file == TD_FILE_COUNT) {
        memcpy(out, MANIFEST, sizeof MANIFEST - 1);
        return sizeof MANIFEST - 1;
    }
    if (file == TD_FILE_PACK) {
        td_pack_head_put(&(struct td_pack_head){0}, out);
        return 4;
    }
    td_frame_head_put(&(struct td_frame_head){0}, out);
    return 12;
}

enum td_own td_own_file(const char *path, int file, struct td_error *err)
{
    uint8_t mark[TD_PACK_HEAD], head[TD_PACK_HEAD];
    size_t n = mark_of(file, mark), have;
    struct td_source src;
    enum td_own own = TD_OWN_THEIRS;
    int rc = td_fs_exists(path) ? td_source_open(&src, path, err) : TD_ENOTFOUND;

    if (rc)
        return rc == TD_ENOTFOUND ? TD_OWN_EMPTY : TD_OWN_UNREADABLE;
    have = src.size < n ? (size_t)src.size : n;
    if (!src.size)
        own = TD_OWN_EMPTY;
    else if (td_source_read(&src, 0, head, have, err))
        own = TD_OWN_UNREADABLE;
    else if (!memcmp(head, mark, have) || td_source_find(&src, 0, mark, n) < src.size)
        own = TD_OWN_OURS;
    td_source_close(&src);
    return own == TD_OWN_THEIRS && td_member_is_lfs_pointer(path) ? TD_OWN_POINTER : own;
}

/* ---- a folder -------------------------------------------------------------------------------- */

/* Does the file NAME hold JSON with both members? */
static bool has_members(const char *dir, const char *name, const char *one, const char *two)
{
    char path[TD_PATH_MAX];
    cJSON *j = td_fs_join(path, sizeof path, dir, name, NULL) ? NULL
                                                              : td_json_load_member(path, NOTE_MAX, NULL);
    bool has = td_json_get(j, one) && td_json_get(j, two);

    cJSON_Delete(j);
    return has;
}

/* A file's number; TD_FILE_COUNT: the manifest; -1: no fixture's file has this name. */
static int number_of(const char *name)
{
    int i;

    for (i = 0; i < TD_FILE_COUNT; i++)
        if (!strcmp(name, td_file_names[i]))
            return i;
    return strcmp(name, TD_MANIFEST_NAME) ? -1 : TD_FILE_COUNT;
}

/* Is it a lock whose writing was cut: the first bytes of one? A whole one is known by its members. */
static bool is_torn_lock(const char *path)
{
    static const char BEGIN[] = "{\"program\":";
    struct td_buf b = TD_BUF_INIT(NOTE_MAX);
    size_t n = sizeof BEGIN - 1;
    bool torn = !td_fs_read_member(path, NOTE_MAX, &b, NULL) && !memcmp(td_buf_str(&b), BEGIN, b.len < n ? b.len : n);

    td_buf_release(&b);
    return torn;
}

/* Is an entry one that a writer leaves which is killed before it has written anything, or amid its lock? */
static bool is_empty(const char *dir, const char *name)
{
    char path[TD_PATH_MAX];
    struct stat st;

    if (!strcmp(name, ".") || !strcmp(name, ".."))
        return true;
    return (number_of(name) >= 0 || !strcmp(name, TD_FIXTURE_LOCK_NAME) || td_temp_is(name)) &&
           !td_fs_join(path, sizeof path, dir, name, NULL) && !lstat(path, &st) &&
           S_ISREG(st.st_mode) &&
           (!st.st_size || td_temp_is(name) || (!strcmp(name, TD_FIXTURE_LOCK_NAME) && is_torn_lock(path)));
}

static bool holds_nothing(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    bool nothing = d != NULL;

    while (nothing && (e = readdir(d)))
        nothing = is_empty(dir, e->d_name);
    if (d)
        closedir(d);
    return nothing;
}

/* Say what it is, and what to name instead. */
static int fail_other(const char *dir, int code, struct td_error *err)
{
    struct td_fixture_folders below = {0};
    const char *first = NULL;
    size_t i, n = 0;

    if (!td_fixture_folder_is(dir) && !td_fixture_folders_add(&below, dir, NULL))
        for (i = below.n; i-- > 0;)
            if (td_fixture_is(below.path[i])) {
                first = below.path[i];
                n++;
            }
    if (first)
        td_fail(err, code, "%s: no fixture, but a folder with %zu of them: name each, as %s ({fixture} "
                           "ls %s lists them)",
                dir, n, first, dir);
    else
        td_fail(err, code, "%s: no fixture: nothing in it was written by Tapedeck; name the folder "
                           "that was recorded",
                dir);
    td_fixture_folders_release(&below);
    return code;
}

int td_own_folder(const char *dir, int code, struct td_error *err)
{
    struct td_error unread = {0};
    char path[TD_PATH_MAX];
    int i;

    for (i = TD_FILE_COUNT; i >= 0; i--) {
        enum td_own own;

        if (td_fs_join(path, sizeof path, dir, i < TD_FILE_COUNT ? td_file_names[i] : TD_MANIFEST_NAME, err))
            return TD_ELIMIT;
        own = td_own_file(path, i, &unread);
        if (own == TD_OWN_OURS || own == TD_OWN_POINTER)
            return TD_OK;
    }
    if (has_members(dir, TD_FIXTURE_LOCK_NAME, "program", "pid") ||
        has_members(dir, TD_REPAIR_NOTES_NAME, "manifest", "files") || holds_nothing(dir))
        return TD_OK;
    return unread.code ? td_fail(err, unread.code, "%s", unread.msg) : fail_other(dir, code, err);
}
