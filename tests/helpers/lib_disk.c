/* lib_disk.c - LD_PRELOAD: stand between a program and the disk; end it at its n-th change, or log all
 * changes.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   DISK_UNDER=FOLDER   changes outside of this folder (a path without links) do not count
 *   DISK_KILL_AT=N      SIGKILL instead of the N-th change; a write is done by half first where N
 *                       comes with "h" ("12h"); with "s" it stops there (SIGSTOP) and goes on
 *   DISK_LOG=FILE       append each change to FILE, for tests/torture/power.py: a line
 *                       "write PATH OFFSET BYTES" and so many bytes, "truncate PATH SIZE", "create
 *                       PATH", "rename FROM TO", "unlink PATH", "sync PATH"; paths hold no blanks
 *   DISK_COUNT=FILE     write the number of changes to FILE when the program exits
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long count;

int open64(const char *path, int flags, ...);
int ftruncate64(int fd, off64_t size);


/* ---- where ----------------------------------------------------------------------------------- */

static int path_of_fd(int fd, char out[4096])
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, out, 4095);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* The absolute path of a name; its folder is there. */
static int absolute(const char *path, char out[4096])
{
    char dir[4096], *slash, real[4096];

    snprintf(dir, sizeof dir, "%s", path);
    slash = strrchr(dir, '/');
    if (slash)
        *slash = '\0';
    if (!realpath(slash ? *dir ? dir : "/" : ".", real))
        return 0;
    return snprintf(out, 4096, "%.3000s/%.1000s", real, slash ? slash + 1 : path) < 4096;
}

static int counts(const char *path)
{
    const char *under = getenv("DISK_UNDER");

    return under && !strncmp(path, under, strlen(under));
}

/* ---- what happens -------------------------------------------------------------------------------- */

static void put(const char *head, const void *data, size_t n)
{
    const char *log = getenv("DISK_LOG");
    int fd = log ? (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;

    if (fd < 0)
        return;
    syscall(SYS_write, fd, head, strlen(head));
    if (n)
        syscall(SYS_write, fd, data, n);
    syscall(SYS_close, fd);
}

/* Count a change; at the chosen one the program ends here. half: called first, where asked for. */
static void change(void (*half)(void *), void *arg)
{
    const char *at = getenv("DISK_KILL_AT");
    char *end;
    long n = at ? strtol(at, &end, 10) : 0;

    if (++count != n)
        return;
    if (half && *end == 'h')
        half(arg);
    if (*end == 's') {
        kill(getpid(), SIGSTOP);
        return;
    }
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

__attribute__((destructor)) static void tell(void)
{
    const char *to = getenv("DISK_COUNT");
    char text[32];
    int fd = to ? (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;

    if (fd < 0)
        return;
    snprintf(text, sizeof text, "%ld\n", count);
    syscall(SYS_write, fd, text, strlen(text));
    syscall(SYS_close, fd);
}

struct part { int fd; const void *data; size_t n; off_t at; };

static void write_half(void *arg)
{
    const struct part *p = arg;

    if (p->at < 0)
        syscall(SYS_write, p->fd, p->data, p->n / 2);
    else
        syscall(SYS_pwrite64, p->fd, p->data, p->n / 2, p->at);
}

static void note_write(int fd, const void *data, size_t n, off_t at)
{
    struct part p = {fd, data, n, at};
    char path[4096], head[4200];
    struct stat st;

    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !path_of_fd(fd, path) || !counts(path))
        return;
    pthread_mutex_lock(&lock);
    change(write_half, &p);
    snprintf(head, sizeof head, "write %s %lld %zu\n", path,
             (long long)(at < 0 ? lseek(fd, 0, SEEK_CUR) : at), n);
    put(head, data, n);
    pthread_mutex_unlock(&lock);
}

ssize_t write(int fd, const void *data, size_t n)
{
    note_write(fd, data, n, -1);
    return syscall(SYS_write, fd, data, n);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    note_write(fd, data, n, at);
    return syscall(SYS_pwrite64, fd, data, n, at);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at)
{
    return pwrite(fd, data, n, at);
}

static void note_fd(int fd, const char *what, long long number)
{
    char path[4096], head[4200];

    if (!path_of_fd(fd, path) || !counts(path))
        return;
    pthread_mutex_lock(&lock);
    change(NULL, NULL);
    snprintf(head, sizeof head, number < 0 ? "%s %s\n" : "%s %s %lld\n", what, path, number);
    put(head, NULL, 0);
    pthread_mutex_unlock(&lock);
}

int ftruncate(int fd, off_t size)
{
    note_fd(fd, "truncate", size);
    return (int)syscall(SYS_ftruncate, fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    return ftruncate(fd, size);
}

int fsync(int fd)
{
    note_fd(fd, "sync", -1);
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    note_fd(fd, "sync", -1);
    return (int)syscall(SYS_fdatasync, fd);
}

static void note_names(const char *what, const char *a, const char *b)
{
    char from[4096], to[4096] = "", head[8300];

    if (!absolute(a, from) || (b && !absolute(b, to)) || (!counts(from) && !(b && counts(to))))
        return;
    pthread_mutex_lock(&lock);
    change(NULL, NULL);
    snprintf(head, sizeof head, b ? "%s %s %s\n" : "%s %s\n", what, from, to);
    put(head, NULL, 0);
    pthread_mutex_unlock(&lock);
}

int rename(const char *from, const char *to)
{
    note_names("rename", from, to);
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int unlink(const char *path)
{
    note_names("unlink", path, NULL);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int truncate(const char *path, off_t size)
{
    char full[4096], head[4200];

    if (absolute(path, full) && counts(full)) {
        pthread_mutex_lock(&lock);
        change(NULL, NULL);
        snprintf(head, sizeof head, "truncate %s %lld\n", full, (long long)size);
        put(head, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    return (int)syscall(SYS_truncate, path, size);
}

static int do_open(const char *path, int flags, mode_t mode)
{
    struct stat st;

    if ((flags & O_CREAT) && lstat(path, &st) && errno == ENOENT)
        note_names("create", path, NULL);
    else if ((flags & O_TRUNC) && !stat(path, &st) && st.st_size)
        note_names("truncate", path, "0"); /* not met; the log would be wrong without it */
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return do_open(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return do_open(path, flags, mode);
}

/* A file of an open folder: by the path that the system knows. */
int openat(int folder, const char *name, int flags, ...)
{
    char link[64], path[PATH_MAX * 2];
    ssize_t n = -1;
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    if (folder != AT_FDCWD && name[0] != '/')
        n = readlink(link, path, PATH_MAX);
    if (n < 0)
        return do_open(name, flags, mode);
    snprintf(path + n, sizeof path - (size_t)n, "/%s", name);
    return do_open(path, flags, mode);
}
