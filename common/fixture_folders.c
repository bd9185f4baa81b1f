/* fixture_folders.c - find the fixtures that the user names: one, or a folder of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/fixture_folders.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/fixture_lock.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/log.h"
#include "common/outfile.h"
#include "common/pack_manifest.h"

/* The first is found in other folders too, under names that begin alike. */
static const char *const FILES[] = {"manifest.json",    "exchanges.jsonl.zst", "ops.jsonl.zst",
                                    "ledger.jsonl.zst", "wire.zst",            "steps.jsonl.zst",
                                    "blobs.pack",       TD_FIXTURE_LOCK_NAME};

enum { MAX_FOLDERS = 10000, MAX_DEPTH = 32, MANIFEST_MAX = 64 << 20 };

/* A folder that is being looked into, and those above it. */
struct place { dev_t dev; ino_t ino; int depth; const struct place *up; };

static bool has_file(const char *dir, size_t from)
{
    char path[TD_PATH_MAX];
    size_t i;

    for (i = from; i < sizeof FILES / sizeof FILES[0]; i++)
        if (!td_fs_join(path, sizeof path, dir, FILES[i], NULL) && td_fs_exists(path))
            return true;
    return false;
}

bool td_fixture_folder_is(const char *dir)
{
    return has_file(dir, 0);
}

bool td_fixture_folder_has_records(const char *dir)
{
    return has_file(dir, 1);
}

bool td_fixture_folder_is_replay(const char *path)
{
    struct td_error none = {0, ""};
    char file[TD_PATH_MAX];
    cJSON *manifest;
    bool is_replay;

    if (!td_fs_is_dir(path))
        manifest = td_fixture_pack_stem(path) ? td_pack_manifest(path, MANIFEST_MAX) : NULL;
    else if (td_fs_join(file, sizeof file, path, FILES[0], NULL))
        return false;
    else
        manifest = td_json_load_member(file, MANIFEST_MAX, &none);
    is_replay = td_json_get(td_json_get(manifest, "replay"), "of") != NULL;
    cJSON_Delete(manifest);
    return is_replay;
}

/* A cut of a bad op is told by its place alone: people commit others on purpose. */
static bool is_of_artifacts(const char *dir)
{
    char path[TD_PATH_MAX];

    return td_fs_is_dir(dir) && !td_fs_join(path, sizeof path, dir, TD_ARTIFACTS_MARK, NULL) &&
           td_fs_exists(path);
}

int td_fixture_folder_mark_artifacts(const char *dir, struct td_error *err)
{
    static const char TEXT[] = "Made by gate --artifacts. A gate of a folder above leaves this one out.\n";
    char path[TD_PATH_MAX];

    if (td_fs_join(path, sizeof path, dir, TD_ARTIFACTS_MARK, err))
        return err->code;
    return td_fs_write_atomic(path, TEXT, sizeof TEXT - 1, err);
}

bool td_fixture_folder_owns(const char *fixture, const char *path)
{
    char file[TD_PATH_MAX];
    size_t i;

    if (!td_fs_is_dir(fixture))
        return td_outfile_same(fixture, path);
    for (i = 0; i < sizeof FILES / sizeof FILES[0]; i++)
        if (!td_fs_join(file, sizeof file, fixture, FILES[i], NULL) && td_outfile_same(file, path))
            return true;
    return false;
}

/* The same folder or file under another name; NULL: there is none. */
static const char *find_same(const struct td_fixture_folders *l, const char *path)
{
    struct stat a, b;
    size_t i;

    if (stat(path, &a)) /* what is not there is named as it was given */
        return NULL;
    for (i = 0; i < l->n; i++)
        if (!stat(l->path[i], &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
            return l->path[i];
    return NULL;
}

/* Add a sentence to a list of them. Those beyond the maximum are left out: enough has been said. */
__attribute__((format(printf, 5, 6)))
static int note(char ***list, size_t *n, size_t *cap, struct td_error *err, const char *fmt, ...)
{
    int rc = td_array_grow(list, *n, cap, sizeof **list, TD_FIXTURE_FOLDERS_MAX);
    char text[600];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (rc == TD_ELIMIT)
        return TD_OK;
    if (rc || !((*list)[*n] = strdup(text)))
        return td_fail(err, TD_ENOMEM, "out of memory for the list of fixtures");
    ++*n;
    return TD_OK;
}

static int append(struct td_fixture_folders *l, const char *path, struct td_error *err)
{
    const size_t max = l->list_max ? l->list_max : TD_FIXTURE_FOLDERS_MAX;
    int rc = td_array_grow(&l->path, l->n, &l->cap, sizeof *l->path, max);
    char *copy = rc ? NULL : strdup(path);

    if (rc == TD_ELIMIT && l->list_max) {
        l->left_out++;
        return TD_OK;
    }
    if (rc == TD_ELIMIT)
        return td_fail(err, rc, "more than %zu fixtures; name fewer", max);
    if (!copy)
        return td_fail(err, TD_ENOMEM, "out of memory for the list of fixtures");
    l->path[l->n++] = copy;
    return TD_OK;
}

static int add_path(struct td_fixture_folders *l, const char *path, struct td_error *err)
{
    const char *same = l->list_max ? NULL : find_same(l, path);

    return same ? note(&l->twice, &l->n_twice, &l->cap_twice, err,
                       "%.250s is named twice, also as %.250s: it is taken once", path, same)
                : append(l, path, err);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* Is this entry of a folder taken for a fixture: a folder of one, or of parts of one, a file with the
 * suffix of a pack, what is left of one or stands for one, a folder that may not be looked into, or a
 * link that leads nowhere? Left out, that would be judged by nobody. */
static bool is_taken(const char *path, enum td_piece piece)
{
    if (access(path, F_OK)) /* a link that leads nowhere */
        return true;
    if (!td_fs_is_dir(path))
        return td_fixture_pack_stem(path) || piece == TD_PIECE_BROKEN;
    return td_fixture_folder_is(path) || access(path, R_OK | X_OK) || td_fixture_folder_holds_parts(path);
}

/* Note a file from which nothing is taken, where a fixture may have been meant. */
static int note_file(struct td_fixture_folders *l, const char *path, enum td_piece piece, struct td_error *err)
{
    if (piece == TD_PIECE_OTHER)
        return TD_OK;
    if (piece == TD_PIECE_PACK)
        return note(&l->unseen, &l->n_unseen, &l->cap_unseen, err,
                    "%.250s is a pack, and its name does not end in " TD_FIXTURE_PACK_SUFFIX ": it is left out", path);
    if (piece == TD_PIECE_CLOSED)
        return note(&l->unseen, &l->n_unseen, &l->cap_unseen, err,
                    "%.250s may not be read: if it is a fixture, it is left out", path);
    return note(&l->unseen, &l->n_unseen, &l->cap_unseen, err,
                "%.250s: the file is not here, only a pointer to it: it is left out", path);
}

/* Is the folder one of those above it? A link may lead there. */
static bool is_above(const struct place *p, const struct stat *st)
{
    while (p && (p->dev != st->st_dev || p->ino != st->st_ino))
        p = p->up;
    return p;
}

static int add_below(struct td_fixture_folders *l, const char *dir, const struct place *up,
                     struct td_error *err);

/* Add an entry of a folder: a fixture, or those below it. */
static int add_entry(struct td_fixture_folders *l, const char *path, const struct place *up,
                     struct td_error *err)
{
    const bool is_dir = td_fs_is_dir(path);
    enum td_piece piece = TD_PIECE_OTHER;

    if (l->without_replays && td_fixture_folder_is_replay(path))
        return note(&l->skipped, &l->n_skipped, &l->cap_skipped, err,
                    "%.250s is a replay, no recording: it is left out", path);
    if (l->without_replays && is_of_artifacts(path))
        return note(&l->skipped, &l->n_skipped, &l->cap_skipped, err,
                    "%.250s was left by --artifacts: no fixture is taken from it", path);
    if (!is_dir && !td_fixture_pack_stem(path))
        piece = td_fixture_piece(path);
    if (is_taken(path, piece))
        return add_path(l, path, err);
    return is_dir ? add_below(l, path, up, err) : note_file(l, path, piece, err);
}

static int add_below(struct td_fixture_folders *l, const char *dir, const struct place *up,
                     struct td_error *err)
{
    struct place here = {.up = up, .depth = up ? up->depth + 1 : 0};
    struct dirent **names;
    struct stat st;
    int n, i, rc = TD_OK;

    if (stat(dir, &st))
        return td_fail(err, TD_EIO, "%s: %s", dir, strerror(errno));
    if (is_above(up, &st))
        return TD_OK;
    if (++l->looked_into > MAX_FOLDERS || here.depth > MAX_DEPTH)
        return td_fail(err, TD_ELIMIT, "%s: too many folders; name the fixtures, or a folder of "
                                       "fixtures alone", dir);
    here.dev = st.st_dev;
    here.ino = st.st_ino;
    n = scandir(dir, &names, is_visible, by_name);
    if (n < 0)
        return td_fail(err, TD_EIO, "%s: cannot read the folder: %s", dir, strerror(errno));
    if (!n && up)
        rc = note(&l->unseen, &l->n_unseen, &l->cap_unseen, err,
                  "%.250s is empty: if a fixture was to be there, it is not", dir);
    for (i = 0; i < n; i++) {
        char path[TD_PATH_MAX];

        if (!rc)
            rc = td_fs_join(path, sizeof path, dir, names[i]->d_name, err);
        if (!rc)
            rc = add_entry(l, path, &here, err);
        free(names[i]);
    }
    free(names);
    return rc;
}

int td_fixture_folders_add(struct td_fixture_folders *l, const char *path, struct td_error *err)
{
    const size_t before = l->n + l->n_twice, skipped = l->n_skipped;
    int rc = TD_OK;

    if (td_fs_is_dir(path) && !td_fixture_folder_is(path))
        rc = add_below(l, path, NULL, err);
    if (!rc && l->n + l->n_twice == before && l->n_skipped > skipped)
        return td_fail(err, TD_ENOTFOUND, "%.300s: holds only what a gate left, and no recording", path);
    return rc || l->n + l->n_twice > before ? rc : add_path(l, path, err);
}

static void say_list(char *const *list, size_t n, const char *area)
{
    size_t i;

    for (i = 0; i < n; i++)
        td_log(TD_LOG_WARN, area, "%s", list[i]);
}

void td_fixture_folders_say(const struct td_fixture_folders *l, const char *area)
{
    say_list(l->twice, l->n_twice, area);
    say_list(l->skipped, l->n_skipped, area);
    say_list(l->unseen, l->n_unseen, area);
}

static void free_list(char **list, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        free(list[i]);
    free(list);
}

void td_fixture_folders_release(struct td_fixture_folders *l)
{
    free_list(l->path, l->n);
    free_list(l->twice, l->n_twice);
    free_list(l->skipped, l->n_skipped);
    free_list(l->unseen, l->n_unseen);
    memset(l, 0, sizeof *l);
}
