/* ref_cache_dir.c - the folder of the cache of references: open it, read and write its files.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/ref_cache_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory.h"

int td_ref_dir_path(const char *dir, char out[TD_PATH_MAX], struct td_error *err)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;

    if (dir)
        n = snprintf(out, TD_PATH_MAX, "%s", dir);
    else if (base && base[0] == '/')
        n = snprintf(out, TD_PATH_MAX, "%s/tapedeck/references", base);
    else if (home && home[0] == '/')
        n = snprintf(out, TD_PATH_MAX, "%s/.cache/tapedeck/references", home);
    else
        return td_fail(err, TD_ENOTFOUND, "neither XDG_CACHE_HOME nor HOME names a folder for it");
    return n < TD_PATH_MAX ? TD_OK : td_fail(err, TD_ELIMIT, "the path of its folder is too long");
}

int td_ref_dir_open(const char *path, struct td_error *err)
{
    struct stat st;
    int dir;

    if (td_fs_mkdirs(path, err))
        return -1;
    dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0) {
        td_fail(err, TD_EIO, "%.300s: %s", path, errno == ELOOP || errno == ENOTDIR ? "it is a link, or no folder" : strerror(errno));
        return -1;
    }
    if (fstat(dir, &st) || st.st_uid != geteuid() || st.st_mode & 022 || faccessat(dir, ".", W_OK, 0)) {
        td_fail(err, TD_EIO, "%.300s: others may write to it, or you may not", path);
        close(dir);
        return -1;
    }
    return dir;
}

/* Did this user write it, and nobody else? No link: it has just been replaced by another replay. */
static bool is_own(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & 022) && st->st_nlink <= 1;
}

char *td_ref_dir_read(int dir, const char *name, size_t most, size_t *n)
{
    const int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char *bytes = NULL;
    struct stat st;
    ssize_t got;

    *n = 0;
    if (fd < 0)
        return NULL;
    if (!fstat(fd, &st) && is_own(&st) && st.st_size > 0 && (uint64_t)st.st_size <= most &&
        !td_memory_room((uint64_t)st.st_size, name, NULL))
        bytes = malloc((size_t)st.st_size);
    while (bytes && *n < (size_t)st.st_size && (got = read(fd, bytes + *n, (size_t)st.st_size - *n)) > 0)
        *n += (size_t)got;
    if (bytes)
        futimens(fd, NULL); /* it was used now */
    close(fd);
    return bytes;
}

bool td_ref_dir_write(int dir, const char *temp, const char *name, const void *bytes, size_t n)
{
    const int fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool written;
    int cause;

    if (fd < 0)
        return false;
    written = !td_fs_write_all(fd, bytes, n, temp, NULL);
    written = !close(fd) && written;
    written = written && !renameat(dir, temp, dir, name);
    cause = errno;
    if (!written)
        unlinkat(dir, temp, 0);
    errno = cause;
    return written;
}
