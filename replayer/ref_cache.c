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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "replayer/judge.h"
#include "replayer/ref_cache_dir.h"
#include "replayer/ref_cache_file.h"

#define NAME_END ".ref"
#define TEMP ".tmp-"
#define TEMP_OLD_S 3600
#define FILES_MAX 1000000
#define LOOK_AGAIN 16 /* once so large a part of the maximum was kept, what other replays have kept meanwhile is counted, too */

struct file { int64_t used_ns, bytes; char name[TD_HASH_HEX + sizeof NAME_END]; };

struct td_ref_cache {
    pthread_mutex_t lock;           /* over all that follows, but dir and program */
    int dir;                        /* -1: there is no cache */
    struct td_hash program;         /* what computes references */
    int64_t max_bytes, bytes;
    int64_t writing;                /* of bytes: in files that are being written */
    int64_t kept_bytes;             /* since the folder was listed */
    int64_t began_ns;               /* files that were used since are not removed */
    struct file *old; size_t n_old, next_old; /* what was there, from what was used longest ago on */
    int64_t temp;                   /* numbers temporary files */
    struct td_hash *mine; size_t n_mine, mine_cap; /* keys of what this replay kept */
    bool gave_up;                   /* a file could not be written: no other is tried */
    bool disk_full;                 /* that was why: what this replay kept is removed */
    struct td_ref_cache_counts counts;
};

/* ---- the folder ------------------------------------------------------------------------------ */

static bool is_reference(const char *name)
{
    return strspn(name, "0123456789abcdef") == TD_HASH_HEX - 1 && !strcmp(name + TD_HASH_HEX - 1, NAME_END);
}

/* TEMP, the number of a process, "-", a number. */
static bool is_temporary(const char *name)
{
    static const char digits[] = "0123456789";
    const char *at = name + strlen(TEMP);
    size_t n;

    if (strncmp(name, TEMP, strlen(TEMP)) || !(n = strspn(at, digits)) || at[n] != '-')
        return false;
    at += n + 1;
    return *at && !at[strspn(at, digits)];
}

static int64_t used_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * TD_NS_PER_S + st->st_mtim.tv_nsec;
}

/* Now, by the clock that sets the times of files. It is some milliseconds behind the other one. */
static int64_t file_clock_ns(void)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_REALTIME_COARSE, &t);
    return (int64_t)t.tv_sec * TD_NS_PER_S + t.tv_nsec;
}

/* Its bytes are those of c->writing. */
static bool is_my_temporary(const char *name)
{
    char mine[64];

    snprintf(mine, sizeof mine, TEMP "%ld-", (long)getpid());
    return !strncmp(name, mine, strlen(mine));
}

static void note_file(struct td_ref_cache *c, const char *name, size_t *cap)
{
    const bool reference = is_reference(name), temporary = is_temporary(name) && !is_my_temporary(name);
    struct stat st;

    if (!(reference || temporary) || fstatat(c->dir, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
        return;
    if (temporary && used_ns(&st) < c->began_ns - TEMP_OLD_S * TD_NS_PER_S) {
        unlinkat(c->dir, name, 0); /* who wrote it was killed */
        return;
    }
    c->bytes += st.st_size;
    if (!reference || c->n_old == FILES_MAX)
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
    if (!d)
        return;
    free(c->old);
    c->old = NULL;
    c->n_old = c->next_old = 0;
    c->bytes = c->writing;
    c->kept_bytes = 0;
    rewinddir(d); /* a copy goes on where the last listing ended */
    while ((e = readdir(d)))
        note_file(c, e->d_name, &cap);
    closedir(d);
    if (c->n_old)
        qsort(c->old, c->n_old, sizeof *c->old, by_use);
}

/* ---- room ------------------------------------------------------------------------------------ */

/* Would n more bytes leave less of the disk free than others need? The reports and the outputs of this very
 * gate may go to the same disk. */
static bool disk_is_short(const struct td_ref_cache *c, int64_t n)
{
    struct statvfs v;
    uint64_t half;

    if (fstatvfs(c->dir, &v) || !v.f_blocks)
        return false; /* a full one is seen when a file is written */
    half = (uint64_t)v.f_blocks * v.f_frsize / 2;
    return (uint64_t)v.f_bavail * v.f_frsize < (uint64_t)(c->writing + n) + (half < TD_REF_CACHE_SPARE ? half : TD_REF_CACHE_SPARE);
}

static bool lacks_room(const struct td_ref_cache *c, int64_t n)
{
    return c->bytes + n > c->max_bytes || disk_is_short(c, n);
}

/* Make room for n bytes, under the lock: remove what was used longest ago, but nothing that any replay used
 * since this one began. A fixture that is larger than the cache would push out what it finds next time. */
static bool make_room(struct td_ref_cache *c, int64_t n)
{
    struct stat st;

    if (c->kept_bytes > c->max_bytes / LOOK_AGAIN)
        list_folder(c);
    while (lacks_room(c, n) && c->next_old < c->n_old) {
        const struct file *f = &c->old[c->next_old++];

        if (fstatat(c->dir, f->name, &st, AT_SYMLINK_NOFOLLOW)) {
            c->bytes -= f->bytes; /* another replay removed it */
            continue;
        }
        if (used_ns(&st) < c->began_ns && !unlinkat(c->dir, f->name, 0))
            c->bytes -= f->bytes;
    }
    if (lacks_room(c, n))
        return false;
    c->bytes += n;
    c->kept_bytes += n;
    return true;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The program that computes references: another build may compute others. */
static int hash_program(struct td_hash *out, struct td_error *err)
{
    const void *data = NULL;
    size_t n = 0;
    int rc = td_fs_map("/proc/self/exe", &data, &n, err);

    if (!rc && !n)
        return td_fail(err, TD_EIO, "this program cannot be read");
    if (!rc) {
        *out = td_hash_bytes(data, n);
        munmap((void *)data, n);
    }
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
    c->began_ns = file_clock_ns();
    pthread_mutex_init(&c->lock, NULL);
    if (dir && !strcmp(dir, "off"))
        return c;
    if (!td_ref_dir_path(dir, path, &err) && !hash_program(&c->program, &err))
        c->dir = td_ref_dir_open(path, &err);
    if (c->dir < 0)
        td_log(TD_LOG_WARN, "replay", "references are not kept (--cache): %s", err.msg);
    else
        list_folder(c);
    if (c->dir >= 0 && disk_is_short(c, 0))
        make_room(c, 0);
    return c;
}

bool td_ref_cache_is_open(const struct td_ref_cache *c)
{
    return c->dir >= 0;
}

void td_ref_cache_close(struct td_ref_cache *c)
{
    if (!c)
        return;
    if (c->dir >= 0)
        close(c->dir);
    pthread_mutex_destroy(&c->lock);
    free(c->old);
    free(c->mine);
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

bool td_ref_cache_get(struct td_ref_cache *c, const struct td_op_call *op, const struct td_op_hold *hold, const char *rounding,
                      struct td_op_ref *ref)
{
    const int64_t rows = td_judge_rows(&op->out), cols = td_judge_cols(&op->out);
    char name[TD_HASH_HEX + sizeof NAME_END], *bytes;
    struct td_hash key;
    size_t n;
    int rc;

    memset(ref, 0, sizeof *ref);
    if (!c || c->dir < 0 || rows <= 0 || cols <= 0)
        return false;
    key = key_of(c, op, hold, rounding);
    if (td_hash_is_zero(key))
        return false;
    name_of(key, name);
    bytes = td_ref_dir_read(c->dir, name, td_ref_file_most(rows, cols), &n);
    if (!bytes)
        return false;
    rc = td_ref_file_read(bytes, n, key, rows, cols, ref);
    free(bytes);
    if (rc != TD_ENOMEM)
        count(c, rc ? &c->counts.damaged : &c->counts.found);
    if (rc == TD_ECORRUPT)
        unlinkat(c->dir, name, 0);
    return !rc;
}

/* ---- keeping --------------------------------------------------------------------------------- */

static void remove_kept(struct td_ref_cache *c, struct td_hash key)
{
    char name[TD_HASH_HEX + sizeof NAME_END];

    name_of(key, name);
    unlinkat(c->dir, name, 0);
}

static void remember(struct td_ref_cache *c, struct td_hash key)
{
    if (c->n_mine == c->mine_cap) {
        const size_t cap = c->mine_cap ? c->mine_cap * 2 : 256;
        struct td_hash *more = realloc(c->mine, cap * sizeof *more);

        if (!more)
            return;
        c->mine = more;
        c->mine_cap = cap;
    }
    c->mine[c->n_mine++] = key;
}

/* A file was written, or could not be. Where another thread has found the disk full since, it goes as well. */
static void note_written(struct td_ref_cache *c, struct td_hash key, int64_t n, bool written)
{
    pthread_mutex_lock(&c->lock);
    c->writing -= n;
    if (written && c->disk_full) {
        remove_kept(c, key);
    } else if (written) {
        c->counts.kept++;
        remember(c, key);
    }
    pthread_mutex_unlock(&c->lock);
}

/* Keep nothing more. On a full disk, what this replay kept may be what others lack: it is removed. */
static void give_up(struct td_ref_cache *c, bool disk_full, const char *why)
{
    bool first;

    pthread_mutex_lock(&c->lock);
    first = !c->gave_up;
    c->gave_up = true;
    if (disk_full) {
        c->disk_full = true;
        while (c->n_mine)
            remove_kept(c, c->mine[--c->n_mine]);
        c->counts.kept = 0;
    }
    pthread_mutex_unlock(&c->lock);
    if (first)
        td_log(TD_LOG_WARN, "replay", "no more references are kept (--cache): %s", why);
}

static bool gave_up(struct td_ref_cache *c)
{
    bool yes;

    pthread_mutex_lock(&c->lock);
    yes = c->gave_up;
    pthread_mutex_unlock(&c->lock);
    return yes;
}

static void keep(struct td_ref_cache *c, struct td_hash key, const void *bytes, size_t n)
{
    char name[TD_HASH_HEX + sizeof NAME_END], temp[64];
    bool room, is_short;
    int cause;

    pthread_mutex_lock(&c->lock);
    room = make_room(c, (int64_t)n);
    is_short = !room && disk_is_short(c, (int64_t)n);
    c->writing += room ? (int64_t)n : 0;
    snprintf(temp, sizeof temp, TEMP "%ld-%lld", (long)getpid(), (long long)c->temp++);
    pthread_mutex_unlock(&c->lock);
    if (is_short)
        give_up(c, false, "too little of its disk is free");
    if (!room)
        return;
    name_of(key, name);
    errno = 0;
    cause = td_ref_dir_write(c->dir, temp, name, bytes, n) ? -1 : errno;
    note_written(c, key, (int64_t)n, cause == -1);
    if (cause != -1)
        give_up(c, cause == ENOSPC || cause == EDQUOT, cause ? strerror(cause) : "a file cannot be written");
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
    if (c->dir < 0 || gave_up(c) || ref->rows <= 0 || ref->cols <= 0 || ref->rows != td_judge_rows(&op->out) ||
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
        float f = (float)v[i];
        uint32_t bits;

        memcpy(&bits, &f, sizeof bits);
        bits += (double)f < v[i]; /* nextafterf(): no number here is negative, or as large as FLT_MAX */
        memcpy(&f, &bits, sizeof f);
        v[i] = (double)f;
    }
}

void td_ref_cache_round(struct td_op_ref *ref)
{
    round_up(ref->mag, ref->rows * ref->cols);
    round_up(ref->slack, ref->rows * ref->cols);
}
