/* outside_fixtures.c - refuse to write among a fixture's own files.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/outside_fixtures.h"

#include <stdio.h>
#include <string.h>

#include "common/fixture_folders.h"
#include "common/fs.h"
#include "common/outfile.h"

/* Replace a path by that of the folder that it lies in. False: there is none above. */
static bool go_up(char *path)
{
    char *slash = strrchr(path, '/');

    while (slash > path && slash[-1] == '/')
        slash--;
    if (!slash)
        return strcmp(path, ".") && strcpy(path, ".");
    if (slash == path)
        return path[1] && !(path[1] = '\0');
    *slash = '\0';
    return true;
}

/* what: the sentence begins with it. */
static int check(const char *path, const char *what, struct td_error *err)
{
    char dir[TD_PATH_MAX];
    size_t n;

    if (!path || !td_outfile_target(path, dir))
        return TD_OK;
    for (n = strlen(dir); n > 1 && dir[n - 1] == '/'; n--)
        dir[n - 1] = '\0';
    do
        if (!go_up(dir))
            return TD_OK;
    while (!td_fs_exists(dir));
    if (!td_fixture_folder_has_records(dir))
        return TD_OK;
    return td_fail(err, TD_EINVAL, "%.300s would lie in the folder of the fixture %.300s, where only its own files belong; name another place",
                   what, dir);
}

int td_outside_fixtures(const char *path, struct td_error *err)
{
    return check(path, path, err);
}

int td_outside_fixtures_option(const char *option, const char *path, struct td_error *err)
{
    return td_outside_fixtures(path, err) ? td_fail_at(err, "%s", option) : TD_OK;
}

int td_outside_fixtures_folder_option(const char *option, const char *dir, struct td_error *err)
{
    char inside[TD_PATH_MAX], what[TD_PATH_MAX];
    const int n = dir ? snprintf(inside, sizeof inside, "%s/file", dir) : 0;

    if (n <= 0 || n >= (int)sizeof inside)
        return TD_OK; /* whoever makes the folder refuses such a path */
    snprintf(what, sizeof what, "what %.300s holds", dir);
    return check(inside, what, err) ? td_fail_at(err, "%s", option) : TD_OK;
}
