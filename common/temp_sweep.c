/* temp_sweep.c - remove temporary files and folders whose owner was killed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/temp_sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/log.h"
#include "common/temp_file.h"

#define LEAST_AGE_S 60
#define MANIFEST "manifest.json"

/* Not by blocking: it may be a FIFO. */
static int open_and_lock(const char *path, int flags)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int td_temp_lock_folder(const char *path)
{
    return open_and_lock(path, O_DIRECTORY);
}

static bool is_old_and_ours(int fd)
{
    struct stat st;

    return !fstat(fd, &st) && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) &&
           st.st_uid == geteuid() && time(NULL) - st.st_mtime >= LEAST_AGE_S;
}

static bool is_fixture(const char *dir)
{
    char path[TD_PATH_MAX];

    return td_fs_join(path, sizeof path, dir, MANIFEST, NULL) || td_fs_exists(path);
}

void td_temp_sweep(const char *dir, td_temp_is_fn *is_ours)
{
    DIR *d = is_fixture(dir) ? NULL : opendir(dir);
    const struct dirent *e;
    char path[TD_PATH_MAX];
    int fd;

    while (d && (e = readdir(d))) {
        if (!is_ours(e->d_name) || td_fs_join(path, sizeof path, dir, e->d_name, NULL))
            continue;
        fd = open_and_lock(path, 0);
        if (fd >= 0 && is_old_and_ours(fd) && !td_fs_remove_tree(path, NULL))
            td_log_note("removed %s, which a run that was killed had left", path);
        if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
}

void td_temp_sweep_beside(const char *path)
{
    const char *slash = strrchr(path, '/');
    char dir[TD_PATH_MAX];

    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    td_temp_sweep(*dir ? dir : "/", td_temp_is);
}
