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
#define MARK_MAX 320 /* a name of 255 bytes, an inode */

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

/* What the mark of the folder says. "": it is no folder. */
static void mark_text(const char *path, char out[MARK_MAX])
{
    const char *slash = strrchr(path, '/');
    struct stat st;

    *out = '\0';
    if (!lstat(path, &st) && S_ISDIR(st.st_mode))
        snprintf(out, MARK_MAX, "%s %llu\n", slash ? slash + 1 : path, (unsigned long long)st.st_ino);
}

int td_temp_own_folder(const char *path)
{
    char mark[TD_PATH_MAX], text[MARK_MAX];
    int lock = open_and_lock(path, O_DIRECTORY), fd;

    mark_text(path, text);
    if (td_fs_join(mark, sizeof mark, path, TD_TEMP_MARK, NULL))
        return lock;
    fd = open(mark, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && td_fs_write_all(fd, text, strlen(text), mark, NULL))
        unlink(mark); /* without a mark it stays where it is when this process is killed */
    if (fd >= 0)
        close(fd);
    return lock;
}

void td_temp_disown_folder(const char *path)
{
    char mark[TD_PATH_MAX];

    if (!td_fs_join(mark, sizeof mark, path, TD_TEMP_MARK, NULL))
        unlink(mark);
}

static bool is_marked(const char *path)
{
    char mark[TD_PATH_MAX], text[MARK_MAX], read_text[MARK_MAX + 1] = "";
    int fd = td_fs_join(mark, sizeof mark, path, TD_TEMP_MARK, NULL) ? -1 : td_fs_open_member(mark, O_RDONLY, NULL);
    ssize_t n = fd < 0 ? -1 : read(fd, read_text, sizeof read_text - 1);

    if (fd >= 0)
        close(fd);
    mark_text(path, text);
    return n > 0 && !strcmp(text, read_text);
}

static bool is_old_and_ours(int fd, const char *path)
{
    struct stat st;

    return !fstat(fd, &st) && (S_ISREG(st.st_mode) || (S_ISDIR(st.st_mode) && is_marked(path))) &&
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
        if (fd >= 0 && is_old_and_ours(fd, path) && !td_fs_remove_tree(path, NULL))
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
