/* fixture_folders.c - find the fixtures that the user names: one, or a folder of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/fixture_folders.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/fs.h"

static const char *const FILES[] = {"manifest.json", "exchanges.jsonl.zst", "ops.jsonl.zst",
                                    "ledger.jsonl.zst", "wire.zst"};

bool td_fixture_folder_is(const char *dir)
{
    char path[TD_PATH_MAX];
    size_t i;

    for (i = 0; i < sizeof FILES / sizeof FILES[0]; i++)
        if (!td_fs_join(path, sizeof path, dir, FILES[i], NULL) && td_fs_exists(path))
            return true;
    return false;
}

static int add_path(struct td_fixture_folders *l, const char *path, struct td_error *err)
{
    int rc = td_array_grow(&l->path, l->n, &l->cap, sizeof *l->path, TD_FIXTURE_FOLDERS_MAX);
    char *copy = rc ? NULL : strdup(path);

    if (rc == TD_ELIMIT)
        return td_fail(err, rc, "more than %d fixtures; name fewer", TD_FIXTURE_FOLDERS_MAX);
    if (!copy)
        return td_fail(err, TD_ENOMEM, "out of memory for the list of fixtures");
    l->path[l->n++] = copy;
    return TD_OK;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* Is this entry of a folder taken for a fixture: a folder of one, a file with the suffix of a pack, a
 * folder that may not be looked into, or a link that leads nowhere? Left out, that would be judged
 * by nobody. */
static bool is_taken(const char *path)
{
    const size_t n = strlen(path), suffix = strlen(TD_FIXTURE_PACK_SUFFIX);

    if (access(path, F_OK)) /* a link that leads nowhere */
        return true;
    if (!td_fs_is_dir(path))
        return n > suffix && !strcmp(path + n - suffix, TD_FIXTURE_PACK_SUFFIX);
    return td_fixture_folder_is(path) || access(path, R_OK | X_OK);
}

static int add_below(struct td_fixture_folders *l, const char *dir, struct td_error *err)
{
    struct dirent **names;
    int n = scandir(dir, &names, is_visible, by_name), i, rc = TD_OK;

    if (n < 0)
        return td_fail(err, TD_EIO, "%s: cannot read the folder: %s", dir, strerror(errno));
    for (i = 0; i < n; i++) {
        char path[TD_PATH_MAX];

        if (!rc)
            rc = td_fs_join(path, sizeof path, dir, names[i]->d_name, err);
        if (!rc && is_taken(path))
            rc = add_path(l, path, err);
        free(names[i]);
    }
    free(names);
    return rc;
}

int td_fixture_folders_add(struct td_fixture_folders *l, const char *path, struct td_error *err)
{
    const size_t before = l->n;
    int rc = TD_OK;

    if (td_fs_is_dir(path) && !td_fixture_folder_is(path))
        rc = add_below(l, path, err);
    return rc || l->n > before ? rc : add_path(l, path, err);
}

void td_fixture_folders_release(struct td_fixture_folders *l)
{
    size_t i;

    for (i = 0; i < l->n; i++)
        free(l->path[i]);
    free(l->path);
    memset(l, 0, sizeof *l);
}
