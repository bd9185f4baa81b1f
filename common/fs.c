/* fs.c - files and folders.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/temp_file.h"

/* ---- opening --------------------------------------------------------------------------------- */

static const char *kind_of_file(mode_t mode)
{
    return S_ISLNK(mode)    ? "a symbolic link"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISDIR(mode)  ? "a folder"
                            : "a device";
}

static int fail_open(const char *path, int flags, struct td_error *err)
{
    int code = errno == ENOENT ? TD_ENOTFOUND : errno == EEXIST ? TD_EEXIST : TD_EIO;

    return td_fail(err, code, "%s: cannot %s: %s", path, flags & O_CREAT ? "create" : "open", strerror(errno));
}

static int fail_kind(const char *path, mode_t mode, struct td_error *err)
{
    return td_fail(err, TD_ECORRUPT, "%s: is %s; each file of a fixture must be a regular file", path, kind_of_file(mode));
}

/* Open the folder in which a path ends; *name: its last part. */
static int open_parent(const char *path, int flags, const char **name, struct td_error *err)
{
    char dir[TD_PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    int fd;

    *name = slash ? slash + 1 : path;
    if (n >= sizeof dir)
        return td_fail(err, TD_ELIMIT, "%.100s...: path too long", path);
    memcpy(dir, path, n);
    strcpy(dir + n, !slash ? "." : n ? "" : "/");
    fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? fail_open(path, flags, err) : fd;
}

int td_fs_open_member(const char *path, int flags, struct td_error *err)
{
    const char *name;
    struct stat st;
    int dir = open_parent(path, flags, &name, err), fd;

    if (dir < 0)
        return dir;
    /* look before opening: to open a device may already do something */
    if (!(flags & O_EXCL) && !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && !S_ISREG(st.st_mode)) {
        close(dir);
        return fail_kind(path, st.st_mode, err);
    }
    fd = openat(dir, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd < 0)
        fd = fail_open(path, flags, err);
    else if (fstat(fd, &st) || !S_ISREG(st.st_mode)) { /* it was exchanged meanwhile */
        close(fd);
        fd = fail_kind(path, st.st_mode, err);
    } else if ((flags & O_ACCMODE) != O_RDONLY && st.st_nlink > 1) {
        close(fd);
        fd = td_fail(err, TD_EIO,
                     "%s: has another name as well (a hard link), under which it would change too; copy "
                     "the folder without hard links (cp -r)",
                     path);
    }
    close(dir);
    return fd;
}

int td_fs_open_regular(const char *path, struct td_error *err)
{
    struct stat st;
    int fd;

    if (!stat(path, &st) && !S_ISREG(st.st_mode))
        return td_fail(err, TD_EINVAL, "%s: is %s, not a regular file", path, kind_of_file(st.st_mode));
    fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return fail_open(path, O_RDONLY, err);
    if (!fstat(fd, &st) && S_ISREG(st.st_mode))
        return fd;
    close(fd);
    return td_fail(err, TD_EINVAL, "%s: not a regular file", path);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Read the rest of a file and close it. */
static int read_all(int fd, const char *path, size_t max, struct td_buf *out, struct td_error *err)
{
    size_t total = 0;
    int rc = TD_OK;

    for (;;) {
        size_t room = out->max - out->len < 65536 ? out->max - out->len : 65536; /* a file of just the maximum fits */
        char *p = td_buf_reserve(out, room), over;
        ssize_t n;

        n = p ? read(fd, room ? p : &over, room ? room : 1) : 0;
        if (!p && room) {
            rc = td_fail(err, TD_ENOMEM, "%s: out of memory for its bytes", path);
            break;
        }
        if (!p || (!room && n > 0)) {
            rc = td_fail(err, TD_ELIMIT, "%s: larger than the maximum of %zu bytes", path, max);
            break;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = td_fail(err, TD_EIO, "%s: cannot read: %s", path, strerror(errno));
        if (n <= 0)
            break;
        total += (size_t)n;
        out->len += (size_t)n;
        out->data[out->len] = '\0';
        if (total > max) {
            rc = td_fail(err, TD_ELIMIT, "%s: larger than the maximum of %zu bytes", path, max);
            break;
        }
    }
    close(fd);
    return rc;
}

int td_fs_read(const char *path, size_t max, struct td_buf *out, struct td_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd < 0 ? fail_open(path, O_RDONLY, err) : read_all(fd, path, max, out, err);
}

int td_fs_read_regular(const char *path, size_t max, struct td_buf *out, struct td_error *err)
{
    int fd = td_fs_open_regular(path, err);

    return fd < 0 ? fd : read_all(fd, path, max, out, err);
}

int td_fs_read_member(const char *path, size_t max, struct td_buf *out, struct td_error *err)
{
    int fd = td_fs_open_member(path, O_RDONLY, err);

    return fd < 0 ? fd : read_all(fd, path, max, out, err);
}

int td_fs_map(const char *path, const void **data, size_t *n, struct td_error *err)
{
    int fd = td_fs_open_regular(path, err), rc = TD_OK;
    void *map = NULL;
    struct stat st;

    *data = NULL;
    *n = 0;
    if (fd < 0)
        return fd;
    if (fstat(fd, &st))
        rc = td_fail(err, TD_EIO, "%s: cannot stat: %s", path, strerror(errno));
    else if (st.st_size && (map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        rc = td_fail(err, TD_EIO, "%s: cannot map: %s", path, strerror(errno));
    close(fd);
    if (rc)
        return rc;
    *data = map;
    *n = (size_t)st.st_size;
    return TD_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

int td_fs_write_all(int fd, const void *data, size_t n, const char *name, struct td_error *err)
{
    const char *p = data;

    while (n) {
        ssize_t k = write(fd, p, n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return td_fail(err, TD_EIO, "%s: cannot write: %s%s", name, strerror(errno),
                           errno == ENOSPC  ? "; free some space or choose another folder with -o"
                           : errno == EFBIG ? "; raise the limit (ulimit -f), or choose a file "
                                              "system that takes larger files"
                                            : "");
        p += k;
        n -= (size_t)k;
    }
    return TD_OK;
}

int td_fs_write_atomic(const char *path, const void *data, size_t n, struct td_error *err)
{
    char tmp[TD_PATH_MAX];
    int fd = td_temp_open(path, 0600, tmp, err), rc;

    if (fd < 0)
        return fd;
    rc = td_fs_write_all(fd, data, n, path, err);
    if (!rc && fsync(fd))
        rc = td_fail(err, TD_EIO, "%s: cannot sync: %s", path, strerror(errno));
    if (close(fd) && !rc)
        rc = td_fail(err, TD_EIO, "%s: cannot close: %s", path, strerror(errno));
    if (!rc)
        return td_temp_rename(tmp, path, err);
    unlink(tmp);
    return rc;
}

int td_fs_mkdirs(const char *path, struct td_error *err)
{
    char part[TD_PATH_MAX];
    char *p;

    if (!*path || snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return td_fail(err, TD_EINVAL, "\"%s\": not a usable path", path);
    for (p = part + 1;; p++) {
        if (*p != '/' && *p)
            continue;
        char keep = *p;

        *p = '\0';
        if (mkdir(part, 0700) && errno != EEXIST)
            return td_fail(err, TD_EIO, "%s: cannot create folder: %s", part, strerror(errno));
        if (!keep)
            break;
        *p = keep;
    }
    return td_fs_is_dir(path) ? TD_OK : td_fail(err, TD_EIO, "%s: exists and is no folder", path);
}

int td_fs_mkdirs_above(const char *path, struct td_error *err)
{
    char parent[TD_PATH_MAX], *slash;

    if (snprintf(parent, sizeof parent, "%s", path) >= (int)sizeof parent)
        return td_fail(err, TD_ELIMIT, "%.100s...: path too long", path);
    slash = strrchr(parent, '/');
    if (!slash || slash == parent)
        return TD_OK;
    *slash = '\0';
    return td_fs_mkdirs(parent, err);
}

bool td_fs_exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

bool td_fs_is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int td_fs_remove_tree(const char *path, struct td_error *err)
{
    struct stat st;
    struct dirent *e;
    DIR *d;
    int rc = TD_OK;

    if (lstat(path, &st))
        return errno == ENOENT ? TD_OK : td_fail(err, TD_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return unlink(path) ? td_fail(err, TD_EIO, "%s: cannot remove: %s", path, strerror(errno)) : TD_OK;
    d = opendir(path);
    if (!d)
        return td_fail(err, TD_EIO, "%s: %s", path, strerror(errno));
    while (!rc && (e = readdir(d))) {
        char child[TD_PATH_MAX];

        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        rc = td_fs_join(child, sizeof child, path, e->d_name, err);
        if (!rc)
            rc = td_fs_remove_tree(child, err);
    }
    closedir(d);
    if (!rc && rmdir(path))
        rc = td_fail(err, TD_EIO, "%s: cannot remove: %s", path, strerror(errno));
    return rc;
}

int td_fs_join(char *out, size_t n, const char *dir, const char *name, struct td_error *err)
{
    size_t d = strlen(dir);
    const char *sep = d && dir[d - 1] == '/' ? "" : "/";

    if (snprintf(out, n, "%s%s%s", dir, sep, name) >= (int)n)
        return td_fail(err, TD_ELIMIT, "%s/%s: path too long", dir, name);
    return TD_OK;
}

int td_fs_self_dir(char *out, size_t n, struct td_error *err)
{
    ssize_t k = readlink("/proc/self/exe", out, n - 1);
    char *slash;

    if (k <= 0)
        return td_fail(err, TD_EIO, "/proc/self/exe: %s", strerror(errno));
    out[k] = '\0';
    slash = strrchr(out, '/');
    if (slash && slash != out)
        *slash = '\0';
    return TD_OK;
}
