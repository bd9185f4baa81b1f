/* temporary.c - the temporary folder of a run, and those that killed runs left behind.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/temporary.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"

#define NAME "tapedeck-gate."
#define NAME_LENGTH (sizeof NAME - 1 + 6)
#define LEAST_AGE_S 60 /* a run that begins has no lock yet */

/* Open the folder and lock it. -1: it is locked, no folder, or there are no locks. */
static int lock_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool is_old_and_ours(int fd)
{
    struct stat st;

    return !fstat(fd, &st) && st.st_uid == geteuid() && time(NULL) - st.st_mtime >= LEAST_AGE_S;
}

static void remove_without_owner(const char *parent)
{
    DIR *d = opendir(parent);
    const struct dirent *e;
    char path[TD_PATH_MAX];
    int fd;

    while (d && (e = readdir(d))) {
        if (strlen(e->d_name) != NAME_LENGTH || strncmp(e->d_name, NAME, sizeof NAME - 1) != 0 ||
            td_fs_join(path, sizeof path, parent, e->d_name, NULL))
            continue;
        fd = lock_folder(path);
        if (fd >= 0 && is_old_and_ours(fd) && !td_fs_remove_tree(path, NULL))
            td_log_note("removed %s, which a run that was killed had left", path);
        if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
}

int td_temporary_make(char *out, size_t n, int *lock, struct td_error *err)
{
    const char *tmp = getenv("TMPDIR"), *parent = tmp && *tmp ? tmp : "/tmp";

    *lock = -1;
    remove_without_owner(parent);
    if (snprintf(out, n, "%s/" NAME "XXXXXX", parent) >= (int)n)
        return td_fail(err, TD_ELIMIT, "TMPDIR: the path is too long");
    if (!mkdtemp(out))
        return td_fail(err, TD_EIO,
                       "%s: cannot make a temporary folder (set TMPDIR, or use --keep DIR)", out);
    *lock = lock_folder(out);
    return TD_OK;
}
