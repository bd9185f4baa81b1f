/* fixture_lock.c - one writer of a fixture at a time, and who that is.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/fixture_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"

#define MAX_TEXT 1024
#define TRIES 100 /* the file is removed by who releases it; then a new one is made */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards `held` */
static struct td_fixture_lock *held;

/* ---- those of this process ------------------------------------------------------------------- */

static bool is_ours(const struct stat *st)
{
    const struct td_fixture_lock *l;
    bool found = false;

    pthread_mutex_lock(&mutex);
    for (l = held; l; l = l->next)
        found |= l->dev == st->st_dev && l->ino == st->st_ino;
    pthread_mutex_unlock(&mutex);
    return found;
}

static void note_held(struct td_fixture_lock *l)
{
    struct stat st = {0};

    fstat(l->fd, &st);
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    pthread_mutex_lock(&mutex);
    l->next = held;
    held = l;
    pthread_mutex_unlock(&mutex);
}

static void forget_held(const struct td_fixture_lock *l)
{
    struct td_fixture_lock **at;

    pthread_mutex_lock(&mutex);
    for (at = &held; *at && *at != l; at = &(*at)->next)
        ;
    if (*at)
        *at = l->next;
    pthread_mutex_unlock(&mutex);
}

/* ---- who --------------------------------------------------------------------------------------- */

static void write_who(int fd, const char *program)
{
    char text[MAX_TEXT], host[256] = "";
    struct td_buf b = TD_BUF_INIT(sizeof text);
    struct td_jw w;

    gethostname(host, sizeof host - 1);
    td_jw_init(&w, &b, false);
    td_jw_obj(&w, NULL);
    td_jw_cstr(&w, "program", program);
    td_jw_i64(&w, "pid", getpid());
    td_jw_i64(&w, "wall_ns", td_clock_wall_ns());
    td_jw_cstr(&w, "host", host);
    td_jw_end(&w);
    td_buf_addc(&b, '\n');
    /* who is not known where this fails; the lock holds all the same */
    if (ftruncate(fd, 0) || pwrite(fd, td_buf_str(&b), b.len, 0) < 0)
        td_log(TD_LOG_DEBUG, "lock", "cannot write: %s", strerror(errno));
    td_buf_release(&b);
}

static int fail_busy(const char *dir, int fd, struct td_error *err)
{
    char text[MAX_TEXT] = "", host[256] = "", since[32] = "", where[300] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    cJSON *who = n > 0 ? td_json_parse(text, (size_t)n, NULL) : NULL;
    const char *program = td_json_get_str(who, "program", NULL),
               *their_host = td_json_get_str(who, "host", "");

    gethostname(host, sizeof host - 1);
    td_clock_iso(td_json_get_i64(who, "wall_ns", 0), since, sizeof since);
    if (*their_host && strcmp(their_host, host) != 0)
        snprintf(where, sizeof where, " on %.60s", their_host);
    if (program)
        td_fail(err, TD_EBUSY, "%s: %.40s is running and writes to it (pid %lld%s, since %s); wait "
                               "until it has ended",
                dir, program, (long long)td_json_get_i64(who, "pid", 0), where, since);
    else
        td_fail(err, TD_EBUSY, "%s: another process is running and writes to it; wait until it has "
                               "ended",
                dir);
    cJSON_Delete(who);
    return TD_EBUSY;
}

/* ---- the lock ---------------------------------------------------------------------------------- */

static bool is_file(int fd, struct stat *st)
{
    return !fstat(fd, st) && S_ISREG(st->st_mode);
}

/* 1: locked by others; 0: free; -1: there are no locks here. */
static int ask(int fd)
{
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fcntl(fd, F_OFD_GETLK, &f))
        return -1;
    return f.l_type != F_UNLCK;
}

int td_fixture_lock_check(const char *dir, struct td_error *err)
{
    char path[TD_PATH_MAX];
    struct stat st;
    int fd, rc = TD_OK;

    if (td_fs_join(path, sizeof path, dir, TD_FIXTURE_LOCK_NAME, NULL))
        return TD_OK;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return TD_OK;
    if (is_file(fd, &st) && !is_ours(&st) && ask(fd) == 1)
        rc = fail_busy(dir, fd, err);
    close(fd);
    return rc;
}

/* Does the path still lead to the open file? */
static bool is_still_there(int fd, const char *path)
{
    struct stat a, b;

    return !fstat(fd, &a) && !lstat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* 1: locked; 0: try again; TD_E*. */
static int try_to_take(struct td_fixture_lock *l, const char *dir, struct td_error *err)
{
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat st;
    int rc = 1;

    l->fd = open(l->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (l->fd < 0)
        return td_fail(err, TD_EIO, "%s: cannot create: %s", l->path, strerror(errno));
    if (!is_file(l->fd, &st))
        rc = td_fail(err, TD_EIO, "%s: no regular file; remove it", l->path);
    else if (st.st_nlink > 1)
        rc = td_fail(err, TD_EIO, "%s: has another name as well (a hard link); remove it", l->path);
    else if (!fcntl(l->fd, F_OFD_SETLK, &f))
        rc = is_still_there(l->fd, l->path);
    else if (errno == EAGAIN || errno == EACCES)
        rc = fail_busy(dir, l->fd, err);
    else
        td_log(TD_LOG_INFO, "lock", "%s: cannot lock: %s; two writers would not be told apart", dir,
               strerror(errno));
    if (rc <= 0) {
        close(l->fd);
        l->fd = -1;
    }
    return rc;
}

int td_fixture_lock_take(struct td_fixture_lock *l, const char *dir, const char *program,
                         struct td_error *err)
{
    int i, rc;

    memset(l, 0, sizeof *l);
    l->fd = -1;
    rc = td_fs_join(l->path, sizeof l->path, dir, TD_FIXTURE_LOCK_NAME, err);
    for (i = 0; !rc && i < TRIES; i++)
        rc = try_to_take(l, dir, err);
    if (!rc)
        return td_fail(err, TD_EBUSY, "%s: others lock and release it all the time; try again", dir);
    if (rc < 0)
        return rc;
    l->held = true;
    note_held(l);
    write_who(l->fd, program);
    return TD_OK;
}

void td_fixture_lock_leave(struct td_fixture_lock *l)
{
    if (!l->held)
        return;
    forget_held(l);
    close(l->fd);
    l->fd = -1;
    l->held = false;
}

void td_fixture_lock_release(struct td_fixture_lock *l)
{
    if (l->held && is_still_there(l->fd, l->path))
        unlink(l->path); /* while it is locked: who waits for it makes a new one */
    td_fixture_lock_leave(l);
}
