/* fixture_folder.c - the folder behind what the user named as a fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/fixture_folder.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/fixture_lock.h"
#include "common/log.h"
#include "common/temp_folder.h"
#include "common/temp_sweep.h"
#include "format/archive.h"
#include "common/lfs.h"
#include "format/manifest.h"

#define MAX_PACKS 256     /* that one process unpacks */
#define MAX_DIR 1024      /* bytes of the path of a temporary folder */

/* What was unpacked. A signal handler walks the list: an entry is complete before it is counted,
 * and never changes afterwards. */
static struct unpacked { char pack[TD_PATH_MAX]; char dir[MAX_DIR]; int lock; } *unpacked[MAX_PACKS];
static volatile sig_atomic_t n_unpacked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP}; /* that end the process */
#define N_END_SIGNALS (sizeof end_signals / sizeof *end_signals)
static pid_t owner; /* a child that was forked must not remove its parent's folders */

/* ---- removing -------------------------------------------------------------------------------- */

/* Remove DIR/name. Safe in a signal handler. */
static void remove_file(const char *dir, const char *name)
{
    char path[MAX_DIR + 64];
    size_t d = strlen(dir), n = strlen(name);

    if (d + n + 2 > sizeof path)
        return;
    memcpy(path, dir, d);
    path[d] = '/';
    memcpy(path + d + 1, name, n + 1);
    unlink(path);
}

/* Remove all folders: the files of a fixture, and nothing else, lie in them. Safe in a signal
 * handler. */
void td_fixture_folder_remove_all(void)
{
    int i, k;

    if (getpid() != owner)
        return;
    for (i = 0; i < n_unpacked; i++) {
        for (k = 0; k < TD_FILE_COUNT; k++)
            remove_file(unpacked[i]->dir, td_file_names[k]);
        remove_file(unpacked[i]->dir, TD_MANIFEST_NAME);
        remove_file(unpacked[i]->dir, TD_TEMP_MARK);
        rmdir(unpacked[i]->dir);
    }
}

static void on_signal(int number)
{
    td_fixture_folder_remove_all();
    signal(number, SIG_DFL);
    raise(number);
}

/* Have the folders removed when the process ends. Handlers of the program itself stay. */
static void remove_at_end(void)
{
    struct sigaction ours = {.sa_handler = on_signal}, now;
    size_t i;

    owner = getpid();
    atexit(td_fixture_folder_remove_all);
    sigemptyset(&ours.sa_mask);
    for (i = 0; i < N_END_SIGNALS; i++)
        if (!sigaction(end_signals[i], NULL, &now) && now.sa_handler == SIG_DFL)
            sigaction(end_signals[i], &ours, NULL);
}

/* ---- unpacking ------------------------------------------------------------------------------- */

static bool begins_as_pack(const char *path)
{
    static const unsigned char zstd[4] = {0x28, 0xB5, 0x2F, 0xFD};
    unsigned char head[4];
    int fd = td_fs_open_regular(path, NULL);
    bool is = fd >= 0 && read(fd, head, 4) == 4 && !memcmp(head, zstd, 4);

    if (fd >= 0)
        close(fd);
    return is;
}

/* A fixture's files are compressed, so that a pack is about as large as what is in it. */
static int check_room(const char *pack, int64_t bytes, const char *folder, struct td_error *err)
{
    struct statvfs v;
    int64_t free_bytes;

    if (statvfs(folder, &v))
        return td_fail(err, TD_EIO, "%s: cannot unpack %s there: %s; set TMPDIR to another folder",
                       folder, pack, strerror(errno));
    free_bytes = (int64_t)((uint64_t)v.f_bavail * v.f_frsize);
    if (bytes > free_bytes)
        return td_fail(err, TD_EIO,
                       "%s: unpacking it needs %lld MiB, and %s has %lld MiB left; set TMPDIR to "
                       "another folder",
                       pack, (long long)(bytes >> 20), folder, (long long)(free_bytes >> 20));
    return TD_OK;
}

/* Make the folder and note it, so that it is removed at the end. */
static int make_folder(const char *pack, struct unpacked **out, struct td_error *err)
{
    const char *tmp = getenv("TMPDIR");
    struct unpacked *u = n_unpacked < MAX_PACKS ? calloc(1, sizeof *u) : NULL;

    if (!u)
        return td_fail(err, TD_ELIMIT, "%s: more than %d packs at once; {fixture} unpack them", pack,
                       MAX_PACKS);
    if (snprintf(u->pack, sizeof u->pack, "%s", pack) >= (int)sizeof u->pack ||
        td_temp_folder_make(TD_TEMP_PACK, u->dir, sizeof u->dir, &u->lock)) {
        td_fail(err, TD_EIO, "%s: cannot make a folder to unpack %s: %s; set TMPDIR to another",
                tmp && *tmp ? tmp : "/tmp", pack, strerror(errno));
        free(u);
        return err ? err->code : TD_EIO;
    }
    if (!n_unpacked)
        remove_at_end();
    unpacked[n_unpacked] = u;
    n_unpacked = n_unpacked + 1;
    *out = u;
    return TD_OK;
}

/* As make_folder. A signal waits until the folder is noted: a handler does not find it earlier. */
static int make_noted_folder(const char *pack, struct unpacked **out, struct td_error *err)
{
    sigset_t ends, before;
    size_t i;
    int rc;

    sigemptyset(&ends);
    for (i = 0; i < N_END_SIGNALS; i++)
        sigaddset(&ends, end_signals[i]);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    rc = make_folder(pack, out, err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static int unpack(const char *path, int64_t bytes, char out[TD_PATH_MAX], struct td_error *err)
{
    const char *tmp = getenv("TMPDIR");
    struct unpacked *u = NULL;
    int i, rc;

    for (i = 0; i < n_unpacked; i++)
        if (!strcmp(unpacked[i]->pack, path)) {
            snprintf(out, TD_PATH_MAX, "%s", unpacked[i]->dir);
            return TD_OK;
        }
    rc = check_room(path, bytes, tmp && *tmp ? tmp : "/tmp", err);
    if (!rc)
        rc = make_noted_folder(path, &u, err);
    if (rc)
        return rc;
    td_log(TD_LOG_INFO, "format", "%s: unpacking it into %s", path, u->dir);
    rc = td_archive_unpack(path, u->dir, 0, err);
    if (rc)
        u->pack[0] = '\0'; /* half of it: nobody may be given this folder */
    snprintf(out, TD_PATH_MAX, "%s", u->dir);
    return rc;
}

/* ---- what the user named --------------------------------------------------------------------- */

/* The reason why a path cannot be reached; that nothing is there is only one of them. */
static int fail_reach(const char *path, int why, struct td_error *err)
{
    const char *dot = strrchr(path, '.');

    if (why == ENOENT)
        return td_fail(err, TD_ENOTFOUND, "%s: no such %s", path,
                       dot && !strcmp(dot, TD_FIXTURE_PACK_SUFFIX) ? "file" : "folder");
    if (why == EACCES)
        return td_fail(err, TD_EIO,
                       "%s: permission denied; only the user who recorded a fixture may read it, "
                       "unless they allow more (chmod)",
                       path);
    return td_fail(err, TD_EIO, "%s: %s", path, strerror(why));
}

/* A folder that has a manifest, or could have one. */
static int check_folder(const char *dir, struct td_error *err)
{
    char path[TD_PATH_MAX];
    struct stat st;
    int rc = td_fs_join(path, sizeof path, dir, TD_MANIFEST_NAME, err);

    if (rc)
        return rc;
    if (!stat(path, &st))
        return access(path, R_OK) ? fail_reach(path, errno, err) : TD_OK;
    return errno == ENOENT ? TD_OK : fail_reach(errno == EACCES ? dir : path, errno, err);
}

int td_fixture_folder(const char *path, char out[TD_PATH_MAX], struct td_error *err)
{
    struct stat st;
    int rc;

    if (snprintf(out, TD_PATH_MAX, "%s", path) >= TD_PATH_MAX)
        return td_fail(err, TD_ELIMIT, "%.100s...: path too long", path);
    if (stat(path, &st))
        return fail_reach(path, errno, err);
    if (S_ISDIR(st.st_mode) && td_fixture_lock_check(path, err))
        return TD_EBUSY;
    if (S_ISDIR(st.st_mode))
        return check_folder(path, err);
    if (S_ISREG(st.st_mode) && access(path, R_OK))
        return fail_reach(path, errno, err);
    if (S_ISREG(st.st_mode) && td_pack_is_lfs_pointer(path))
        return td_fail(err, TD_ENOTFOUND, "%s: " TD_LFS_POINTER, path);
    if (!S_ISREG(st.st_mode) || !begins_as_pack(path))
        return td_fail(err, TD_ECORRUPT,
                       "%s: neither the folder of a fixture nor a pack of one (" TD_FIXTURE_PACK_SUFFIX
                       ", made by {fixture} pack)",
                       path);
    pthread_mutex_lock(&lock);
    rc = unpack(path, st.st_size, out, err);
    pthread_mutex_unlock(&lock);
    return rc;
}

bool td_fixture_is(const char *path)
{
    char manifest[TD_PATH_MAX];
    struct stat st;

    if (stat(path, &st))
        return false;
    if (S_ISREG(st.st_mode))
        return begins_as_pack(path) || td_pack_is_lfs_pointer(path);
    return !td_fs_join(manifest, sizeof manifest, path, TD_MANIFEST_NAME, NULL) &&
           td_fs_exists(manifest);
}
