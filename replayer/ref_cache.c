/* ref_cache.c - keep references from one replay to the next: the folder and its bounds.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/ref_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "replayer/judge.h"
#include "replayer/ref_cache_file.h"

#define NAME_END ".ref"
#define TEMP ".tmp-"
#define TEMP_OLD_S 3600
#define FILES_MAX 1000000

struct file { int64_t used_ns, bytes; char name[TD_HASH_HEX + sizeof NAME_END]; };

struct td_ref_cache {
    pthread_mutex_t lock;           /* over all that follows, but dir and program */
    int dir;                        /* -1: there is no cache */
    struct td_hash program;         /* what computes references */
    int64_t max_bytes, bytes;
    int64_t began_ns;               /* files that were used since are not removed */
    struct file *old; size_t n_old, next_old; /* what was there, from what was used longest ago on */
    int64_t temp;                   /* numbers temporary files */
    bool gave_up;                   /* a file could not be written: no other is tried */
    struct td_ref_cache_counts counts;
};

/* ---- the folder ------------------------------------------------------------------------------ */

static int path_of(const char *dir, char out[TD_PATH_MAX], struct td_error *err)
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

/* The folder is one that only this user writes to: who else could write there would choose references. */
static int open_folder(const char *path, struct td_error *err)
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

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);

    return n >= m && !strcmp(name + n - m, end);
}

static int64_t used_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * TD_NS_PER_S + st->st_mtim.tv_nsec;
}

static void note_file(struct td_ref_cache *c, const char *name, size_t *cap)
{
    struct stat st;

    if (fstatat(c->dir, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
        return;
    if (!strncmp(name, TEMP, strlen(TEMP)) && used_ns(&st) < c->began_ns - TEMP_OLD_S * TD_NS_PER_S) {
        unlinkat(c->dir, name, 0); /* who wrote it was killed */
        return;
    }
    c->bytes += st.st_size;
    if (!ends_with(name, NAME_END) || strlen(name) >= sizeof c->old->name || c->n_old == FILES_MAX)
        return;
    if (c->n_old == *cap) {
        struct file *more = realloc(c->old, (*cap ? *cap * 2 : 256) * sizeof *more);

        if (!more)
            return;
        c->old = more;
        *cap = *cap ? *cap * 2 : 256;
    }
    c->old[c->n_old] = (struct file){.used_ns = used_ns(&st), .bytes = st.st_size};
    strcpy(c->old[c->n_old++].name, name);
}

static int by_use(const void *a, const void *b)
{
    const struct file *x = a, *y = b;

    return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

static void list_folder(struct td_ref_cache *c)
{
    const int fd = dup(c->dir);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    size_t cap = 0;

    if (!d && fd >= 0)
        close(fd);
    while (d && (e = readdir(d)))
        note_file(c, e->d_name, &cap);
    if (d)
        closedir(d);
    if (c->n_old)
        qsort(c->old, c->n_old, sizeof *c->old, by_use);
}

/* The program that computes references: another build may compute others. */
static int hash_program(struct td_hash *out, struct td_error *err)
{
    const void *data = NULL;
    size_t n = 0;
    int rc = td_fs_map("/proc/self/exe", &data, &n, err);

    if (!rc && !n)
        return td_fail(err, TD_EIO, "this program cannot be read");
    if (!rc)
        *out = td_hash_bytes(data, n);
    return rc;
}

struct td_ref_cache *td_ref_cache_open(const char *dir, int64_t max_bytes)
{
    struct td_ref_cache *c = calloc(1, sizeof *c);
    char path[TD_PATH_MAX];
    struct td_error err = {0};

    if (!c)
        return NULL;
    c->dir = -1;
    c->max_bytes = max_bytes;
    c->began_ns = td_clock_wall_ns();
    pthread_mutex_init(&c->lock, NULL);
    if (dir && !strcmp(dir, "off"))
        return c;
    if (!path_of(dir, path, &err) && !hash_program(&c->program, &err))
        c->dir = open_folder(path, &err);
    if (c->dir < 0)
        td_log(TD_LOG_WARN, "replay", "references are not kept (--cache): %s", err.msg);
    else
        list_folder(c);
    return c;
}

void td_ref_cache_close(struct td_ref_cache *c)
{
    if (!c)
        return;
    if (c->dir >= 0)
        close(c->dir);
    pthread_mutex_destroy(&c->lock);
    free(c->old);
    free(c);
}

void td_ref_cache_counts(const struct td_ref_cache *c, struct td_ref_cache_counts *out)
{
    *out = c->counts;
}

static void count(struct td_ref_cache *c, int64_t *n)
{
    pthread_mutex_lock(&c->lock);
    ++*n;
    pthread_mutex_unlock(&c->lock);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* What the op says of itself, without its bytes and addresses. The output's memory is not of it. */
static struct td_hash hash_call(const struct td_op_call *op, const char *rounding)
{
    struct td_op_call *plain = malloc(sizeof *plain);
    struct td_hash h = {0, 0};
    int t;

    if (!plain)
        return h;
    memcpy(plain, op, sizeof *plain);
    for (t = 0; t < plain->n_in; t++)
        plain->in[t].data = NULL;
    plain->out.data = NULL;
    memset(plain->act_rounding, 0, sizeof plain->act_rounding);
    snprintf(plain->act_rounding, sizeof plain->act_rounding, "%s", rounding);
    h = td_hash_bytes(plain, sizeof *plain);
    free(plain);
    return h;
}

/* Zero: out of memory. */
static struct td_hash key_of(const struct td_ref_cache *c, const struct td_op_call *op, const struct td_op_hold *hold, const char *rounding)
{
    struct td_hash parts[TD_OP_MAX_TENSORS + 3] = {c->program, hash_call(op, rounding)};

    if (td_hash_is_zero(parts[1]))
        return parts[1];
    memcpy(parts + 2, hold->keys, (size_t)hold->n * sizeof *parts);
    return td_hash_bytes(parts, (size_t)(hold->n + 2) * sizeof *parts);
}

static void name_of(struct td_hash key, char out[TD_HASH_HEX + sizeof NAME_END])
{
    td_hash_hex(key, out);
    strcat(out, NAME_END);
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Read a file of at most `most` bytes. NULL: there is none, or it cannot be read. */
static char *read_file(int dir, const char *name, size_t most, size_t *n)
{
    const int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char *bytes = NULL;
    struct stat st;
    ssize_t got;

    *n = 0;
    if (fd < 0)
        return NULL;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0 && (uint64_t)st.st_size <= most)
        bytes = malloc((size_t)st.st_size);
    while (bytes && *n < (size_t)st.st_size && (got = read(fd, bytes + *n, (size_t)st.st_size - *n)) > 0)
        *n += (size_t)got;
    if (bytes)
        futimens(fd, NULL); /* it was used now */
    close(fd);
    return bytes;
}

bool td_ref_cache_get(struct td_ref_cache *c, const struct td_op_call *op, const struct td_op_hold *hold, const char *rounding,
                      struct td_op_ref *ref)
{
    const int64_t rows = td_judge_rows(&op->out), cols = td_judge_cols(&op->out);
    char name[TD_HASH_HEX + sizeof NAME_END], *bytes;
    struct td_hash key;
    bool whole;
    size_t n;

    memset(ref, 0, sizeof *ref);
    if (!c || c->dir < 0 || rows <= 0 || cols <= 0)
        return false;
    key = key_of(c, op, hold, rounding);
    if (td_hash_is_zero(key))
        return false;
    name_of(key, name);
    bytes = read_file(c->dir, name, td_ref_file_most(rows, cols), &n);
    if (!bytes)
        return false;
    whole = td_ref_file_read(bytes, n, key, rows, cols, ref);
    free(bytes);
    count(c, whole ? &c->counts.found : &c->counts.damaged);
    if (!whole)
        unlinkat(c->dir, name, 0);
    return whole;
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* Make room for n bytes, under the lock: remove what was used longest ago, but nothing that any replay used
 * since this one began. A fixture that is larger than the cache would push out what it finds next time. */
static bool make_room(struct td_ref_cache *c, int64_t n)
{
    struct stat st;

    while (c->bytes + n > c->max_bytes && c->next_old < c->n_old) {
        const struct file *f = &c->old[c->next_old++];

        if (fstatat(c->dir, f->name, &st, AT_SYMLINK_NOFOLLOW)) {
            c->bytes -= f->bytes; /* another replay removed it */
            continue;
        }
        if (used_ns(&st) < c->began_ns && !unlinkat(c->dir, f->name, 0))
            c->bytes -= f->bytes;
    }
    if (c->bytes + n > c->max_bytes)
        return false;
    c->bytes += n;
    return true;
}

static bool write_file(int dir, const char *temp, const char *name, const void *bytes, size_t n)
{
    const int fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool written;

    if (fd < 0)
        return false;
    written = !td_fs_write_all(fd, bytes, n, temp, NULL);
    written = !close(fd) && written;
    written = written && !renameat(dir, temp, dir, name);
    if (!written)
        unlinkat(dir, temp, 0);
    return written;
}

static void keep(struct td_ref_cache *c, struct td_hash key, const void *bytes, size_t n)
{
    char name[TD_HASH_HEX + sizeof NAME_END], temp[64];
    bool room, first = false;
    int cause;

    pthread_mutex_lock(&c->lock);
    room = !c->gave_up && make_room(c, (int64_t)n);
    snprintf(temp, sizeof temp, TEMP "%ld-%lld", (long)getpid(), (long long)c->temp++);
    pthread_mutex_unlock(&c->lock);
    if (!room)
        return;
    name_of(key, name);
    errno = 0;
    if (write_file(c->dir, temp, name, bytes, n)) {
        count(c, &c->counts.kept);
        return;
    }
    cause = errno;
    pthread_mutex_lock(&c->lock);
    first = !c->gave_up;
    c->gave_up = true;
    pthread_mutex_unlock(&c->lock);
    if (first)
        td_log(TD_LOG_WARN, "replay", "no more references are kept (--cache): %s", cause ? strerror(cause) : "a file cannot be written");
}

void td_ref_cache_put(struct td_ref_cache *c, const struct td_op_call *op, const struct td_op_hold *hold, const char *rounding,
                      const struct td_op_ref *ref)
{
    struct td_hash key;
    void *bytes;
    size_t n;

    if (!c)
        return;
    count(c, &c->counts.computed);
    if (c->dir < 0 || c->gave_up || ref->rows <= 0 || ref->cols <= 0 || ref->rows != td_judge_rows(&op->out) ||
        ref->cols != td_judge_cols(&op->out))
        return;
    key = key_of(c, op, hold, rounding);
    if (td_hash_is_zero(key) || !(bytes = td_ref_file_make(ref, key, &n)))
        return;
    keep(c, key, bytes, n);
    free(bytes);
}

/* ---- rounding -------------------------------------------------------------------------------- */

static bool are_floats(const double *v, int64_t n)
{
    int64_t i;

    for (i = 0; i < n; i++)
        if (!(v[i] == 0 || (v[i] >= (double)FLT_MIN && v[i] < (double)FLT_MAX)))
            return false;
    return true;
}

static void round_up(double *v, int64_t n)
{
    int64_t i;

    if (!v || !are_floats(v, n))
        return;
    for (i = 0; i < n; i++) {
        const float f = (float)v[i];

        v[i] = (double)((double)f < v[i] ? nextafterf(f, FLT_MAX) : f);
    }
}

void td_ref_cache_round(struct td_op_ref *ref)
{
    round_up(ref->mag, ref->rows * ref->cols);
    round_up(ref->slack, ref->rows * ref->cols);
}
