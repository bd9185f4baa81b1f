/* temp_file.c - a file under a name that nobody can guess, which then takes the place of another.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/temp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#define FRONT ".tapedeck-"
#define DIGITS 16
#define END ".tmp"
#define TRIES 100

/* Write the folder of path into dir. */
static void folder_of(const char *path, char dir[TD_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == path ? 1 : slash ? (size_t)(slash - path) : 1;

    snprintf(dir, TD_PATH_MAX, "%.*s", (int)n, slash ? path : ".");
}

int td_temp_name(const char *path, char out[TD_PATH_MAX], struct td_error *err)
{
    char dir[TD_PATH_MAX], name[sizeof FRONT + DIGITS + sizeof END];
    uint64_t r;

    if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r)
        return td_fail(err, TD_EIO, "%s: no random numbers for a temporary name: %s", path,
                       strerror(errno));
    folder_of(path, dir);
    snprintf(name, sizeof name, FRONT "%016llx" END, (unsigned long long)r);
    return td_fs_join(out, TD_PATH_MAX, dir, name, err);
}

int td_temp_open(const char *path, mode_t mode, char out[TD_PATH_MAX], struct td_error *err)
{
    int i, fd, rc;

    for (i = 0; i < TRIES; i++) {
        rc = td_temp_name(path, out, err);
        if (rc)
            return rc;
        fd = open(out, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd >= 0) {
            flock(fd, LOCK_EX | LOCK_NB); /* it has an owner: temp_sweep.h */
            return fd;
        }
        if (errno != EEXIST)
            break;
    }
    return td_fail(err, TD_EIO, "%s: cannot create a temporary file beside it: %s", path,
                   strerror(errno));
}

int td_temp_rename(const char *temp, const char *path, struct td_error *err)
{
    char dir[TD_PATH_MAX];

    if (rename(temp, path)) {
        td_fail(err, TD_EIO, "%s: cannot put the new file in its place: %s", path,
                strerror(errno));
        unlink(temp);
        return TD_EIO;
    }
    folder_of(path, dir);
    return td_sync_folder(dir, err);
}

bool td_temp_is(const char *name)
{
    const size_t front = sizeof FRONT - 1;

    return strlen(name) == front + DIGITS + sizeof END - 1 && !strncmp(name, FRONT, front) &&
           strspn(name + front, "0123456789abcdef") == DIGITS && !strcmp(name + front + DIGITS, END);
}

int td_sync_folder(const char *dir, struct td_error *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = TD_OK;

    if (fd < 0)
        return td_fail(err, TD_EIO, "%s: cannot open: %s", dir, strerror(errno));
    if (fsync(fd) && errno != EINVAL && errno != EROFS) /* EINVAL: folders are not synced here */
        rc = td_fail(err, TD_EIO, "%s: cannot sync: %s", dir, strerror(errno));
    close(fd);
    return rc;
}
