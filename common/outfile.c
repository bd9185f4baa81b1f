/* outfile.c - write a file that the user named on the command line.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/temp_file.h"
#include "common/temp_sweep.h"

#define MAX_LINKS 40 /* as the kernel */

/* What a name stands for once all links are followed. */
struct target {
    int fd;                 /* an open descriptor of ours; -1: a path */
    char path[TD_PATH_MAX]; /* the last name: itself no link */
    bool exists;
    struct stat st; /* when it exists */
};

/* The number of the descriptor that the path names: "-", /dev/stdout, /dev/fd/N. -1: none. */
static int descriptor_of(const char *path)
{
    static const char *const FOLDERS[] = {"/dev/fd/", "/proc/self/fd/"};
    size_t i;

    if (!strcmp(path, "-") || !strcmp(path, "/dev/stdout"))
        return 1;
    if (!strcmp(path, "/dev/stderr"))
        return 2;
    for (i = 0; i < 2; i++) {
        const char *number = path + strlen(FOLDERS[i]);
        char *end;
        long n;

        if (strncmp(path, FOLDERS[i], strlen(FOLDERS[i])) || *number < '0' || *number > '9')
            continue;
        n = strtol(number, &end, 10);
        if (!*end && n <= 1 << 20)
            return (int)n;
    }
    return -1;
}

/* Write the folder of path into dir, which has TD_PATH_MAX bytes. */
static void folder_of(const char *path, char *dir)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == path ? 1 : slash ? (size_t)(slash - path) : 1;

    snprintf(dir, TD_PATH_MAX, "%.*s", (int)n, slash ? path : ".");
}

/* Replace path by what the link at path says, seen from the link's folder. */
static int follow_link(char *path, struct td_error *err)
{
    char to[TD_PATH_MAX], dir[TD_PATH_MAX];
    ssize_t n = readlink(path, to, sizeof to - 1);

    if (n < 0)
        return td_fail(err, TD_EINVAL, "%s: cannot read this link: %s", path, strerror(errno));
    to[n] = '\0';
    folder_of(path, dir);
    if (to[0] == '/')
        snprintf(path, TD_PATH_MAX, "%s", to);
    else if (td_fs_join(path, TD_PATH_MAX, dir, to, NULL))
        return td_fail(err, TD_EINVAL, "%s/%.200s: this path is too long", dir, to);
    return TD_OK;
}

static int find_target(const char *path, struct target *t, struct td_error *err)
{
    struct stat here;
    int links, rc;

    memset(t, 0, sizeof *t);
    t->fd = -1;
    if (!*path || snprintf(t->path, sizeof t->path, "%s", path) >= TD_PATH_MAX)
        return td_fail(err, TD_EINVAL, "\"%.200s\": not a usable name of a file", path);
    for (links = 0; links <= MAX_LINKS; links++) {
        t->fd = descriptor_of(t->path);
        if (t->fd >= 0)
            return TD_OK;
        if (lstat(t->path, &here) || !S_ISLNK(here.st_mode)) {
            t->exists = stat(t->path, &t->st) == 0;
            return TD_OK;
        }
        rc = follow_link(t->path, err);
        if (rc)
            return rc;
    }
    return td_fail(err, TD_EINVAL, "%s: its links lead in a circle; name another file", path);
}

/* ---- before the work ------------------------------------------------------------------------ */

static int check_folder(const char *path, const struct target *t, struct td_error *err)
{
    char dir[TD_PATH_MAX];

    folder_of(t->path, dir);
    if (!td_fs_exists(dir))
        return td_fail(err, TD_EINVAL,
                       "%s: cannot be written: there is no folder %s; create it, or name another "
                       "file",
                       path, dir);
    if (!td_fs_is_dir(dir))
        return td_fail(err, TD_EINVAL, "%s: cannot be written: %s is no folder; name another file",
                       path, dir);
    if (t->exists)
        return access(t->path, W_OK) == 0
                   ? TD_OK /* in place, if need be */
                   : td_fail(err, TD_EINVAL,
                             "%s: cannot be written: %s; change its mode, or name another file",
                             path, strerror(errno));
    if (access(dir, W_OK | X_OK))
        return td_fail(err, TD_EINVAL,
                       "%s: cannot be written: folder %s: %s; change that, or name another file",
                       path, dir, strerror(errno));
    return TD_OK;
}

int td_outfile_check(const char *path, struct td_error *err)
{
    struct target t;
    int rc = find_target(path, &t, err), flags;
    size_t len;

    if (rc)
        return rc;
    if (t.fd >= 0) {
        flags = fcntl(t.fd, F_GETFL);
        return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY
                   ? TD_OK
                   : td_fail(err, TD_EINVAL,
                             "%s: cannot be written: descriptor %d is not open for writing; "
                             "redirect it, or name a file",
                             path, t.fd);
    }
    len = strlen(t.path);
    if ((t.exists && S_ISDIR(t.st.st_mode)) || t.path[len - 1] == '/')
        return td_fail(err, TD_EINVAL, "%s: is a folder; name a file in it", path);
    if (!t.exists || S_ISREG(t.st.st_mode))
        return check_folder(path, &t, err);
    return access(t.path, W_OK) == 0
               ? TD_OK
               : td_fail(err, TD_EINVAL, "%s: cannot be written: %s; name another file", path,
                         strerror(errno));
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Open the path, write, close: a device, a FIFO, or a file that cannot be replaced. Nothing is better than
 * half of what was to be written. */
static int write_in_place(const struct target *t, const void *data, size_t n, struct td_error *err)
{
    int fd = open(t->path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY), rc;

    if (fd < 0)
        return td_fail(err, TD_EIO, "%s: cannot open for writing: %s", t->path, strerror(errno));
    rc = td_fs_write_all(fd, data, n, t->path, err);
    if (rc && S_ISREG(t->st.st_mode) && ftruncate(fd, 0))
        td_fail(err, TD_EIO, "%s: cannot empty: %s", t->path, strerror(errno));
    if (close(fd) && !rc)
        rc = td_fail(err, TD_EIO, "%s: cannot close: %s", t->path, strerror(errno));
    return rc;
}

/* Give the new file the owner and the mode of the old one. False: the old one must stay. */
static bool keep_owner_and_mode(int fd, const struct target *t)
{
    struct stat now;

    if (fstat(fd, &now))
        return false;
    if ((now.st_uid != t->st.st_uid || now.st_gid != t->st.st_gid) &&
        fchown(fd, t->st.st_uid, t->st.st_gid))
        return false;
    return fchmod(fd, t->st.st_mode & 07777) == 0;
}

static int write_replacing(const struct target *t, const void *data, size_t n, struct td_error *err)
{
    char tmp[TD_PATH_MAX];
    int fd, rc;

    if (t->exists && access(t->path, W_OK)) /* a file that is read-only stays */
        return td_fail(err, TD_EIO, "%s: cannot open for writing: %s", t->path, strerror(errno));
    td_temp_sweep_beside(t->path);
    fd = td_temp_open(t->path, 0666, tmp, NULL);
    if (fd < 0 && t->exists)
        return write_in_place(t, data, n, err);
    if (fd < 0)
        return td_fail(err, TD_EIO, "%s: cannot create: %s", t->path, strerror(errno));
    if (t->exists && (t->st.st_nlink > 1 || !keep_owner_and_mode(fd, t))) {
        close(fd);
        unlink(tmp);
        return write_in_place(t, data, n, err);
    }
    rc = td_fs_write_all(fd, data, n, t->path, err);
    if (!rc && fsync(fd))
        rc = td_fail(err, TD_EIO, "%s: cannot sync: %s", t->path, strerror(errno));
    if (close(fd) && !rc)
        rc = td_fail(err, TD_EIO, "%s: cannot close: %s", t->path, strerror(errno));
    if (!rc && rename(tmp, t->path) == 0)
        return TD_OK;
    unlink(tmp);
    if (!rc && t->exists) /* a file that is mounted cannot be replaced */
        return write_in_place(t, data, n, err);
    return rc ? rc : td_fail(err, TD_EIO, "%s: cannot create: %s", t->path, strerror(errno));
}

int td_outfile_write(const char *path, const void *data, size_t n, struct td_error *err)
{
    struct target t;
    int rc = find_target(path, &t, err);

    if (rc)
        return rc;
    if (t.fd == 1 && fflush(stdout))
        return td_fail(err, TD_EIO, "standard output: cannot write: %s", strerror(errno));
    if (t.fd >= 0)
        return td_fs_write_all(t.fd, data, n, t.fd == 1 ? "standard output" : path, err);
    if (!t.exists || S_ISREG(t.st.st_mode))
        return write_replacing(&t, data, n, err);
    return write_in_place(&t, data, n, err);
}

/* ---- two of them ---------------------------------------------------------------------------- */

/* The folder and the last part of the name, for a file that is not there yet. */
static bool same_new_name(const struct target *a, const struct target *b)
{
    char dir_a[TD_PATH_MAX], dir_b[TD_PATH_MAX];
    const char *name_a = strrchr(a->path, '/'), *name_b = strrchr(b->path, '/');
    struct stat sa, sb;

    if (strcmp(name_a ? name_a + 1 : a->path, name_b ? name_b + 1 : b->path))
        return false;
    folder_of(a->path, dir_a);
    folder_of(b->path, dir_b);
    return stat(dir_a, &sa) == 0 && stat(dir_b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

bool td_outfile_same(const char *a, const char *b)
{
    struct target ta, tb;

    if (find_target(a, &ta, NULL) || find_target(b, &tb, NULL))
        return false; /* td_outfile_check says what is wrong with it */
    if (ta.fd >= 0 || tb.fd >= 0)
        return ta.fd == tb.fd;
    if (ta.exists != tb.exists)
        return false;
    if (!ta.exists)
        return same_new_name(&ta, &tb);
    return !S_ISCHR(ta.st.st_mode) && ta.st.st_dev == tb.st.st_dev && ta.st.st_ino == tb.st.st_ino;
}

bool td_outfile_is_stdout(const char *path)
{
    struct target t;

    return find_target(path, &t, NULL) == TD_OK && t.fd == 1;
}

bool td_outfile_target(const char *path, char *out)
{
    struct target t;

    if (find_target(path, &t, NULL) || t.fd >= 0)
        return false;
    memcpy(out, t.path, strlen(t.path) + 1);
    return true;
}

bool td_outfile_is_replaced(const char *path)
{
    struct target t;

    return find_target(path, &t, NULL) == TD_OK && t.fd < 0 &&
           (!t.exists || S_ISREG(t.st.st_mode));
}
