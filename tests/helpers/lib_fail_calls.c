/* lib_fail_calls.c - preloaded: the N-th call of one function fails, as on a machine that is out of something.
 * SPDX-License-Identifier: Apache-2.0
 *
 * TD_FAIL_PROGRAM  the program that is meant, by its short name; its children run untouched
 * TD_FAIL_CALLER   any process that has this library, "libx.so", and of its calls only those that the library itself makes,
 *                  told by the address to which they return; "!libx.so": only those that the rest of the process makes; "self":
 *                  only those of the executable. With TD_FAIL_PROGRAM: of that program
 * TD_FAIL_CALL     NAME:N: the N-th call of NAME (from 1) fails; N+: this one and all later ones
 * TD_FAIL_ERRNO    what errno then is (default: what the function's row says)
 * TD_FAIL_COUNTS   file of the counts: rows of a name (24 bytes) and a number (8 bytes), the last one of the calls that failed.
 *                  All processes of a run count in it together, and the N-th call is the N-th of them all
 *
 * Calls inside the C library do not come by here: fopen is a function of its own. */
#include <dlfcn.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* name, errno of its failure, result of its failure, result type, parameters, arguments */
#define FUNCTIONS(X) \
    X(malloc, ENOMEM, NULL, void *, (size_t n), (n)) \
    X(calloc, ENOMEM, NULL, void *, (size_t n, size_t m), (n, m)) \
    X(realloc, ENOMEM, NULL, void *, (void *p, size_t n), (p, n)) \
    X(read, EIO, -1, ssize_t, (int fd, void *p, size_t n), (fd, p, n)) \
    X(write, ENOSPC, -1, ssize_t, (int fd, const void *p, size_t n), (fd, p, n)) \
    X(writev, ENOSPC, -1, ssize_t, (int fd, const struct iovec *p, int n), (fd, p, n)) \
    X(pread, EIO, -1, ssize_t, (int fd, void *p, size_t n, off_t at), (fd, p, n, at)) \
    X(pwrite, ENOSPC, -1, ssize_t, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at)) \
    X(fsync, EIO, -1, int, (int fd), (fd)) \
    X(fdatasync, EIO, -1, int, (int fd), (fd)) \
    X(rename, EIO, -1, int, (const char *a, const char *b), (a, b)) \
    X(renameat, EIO, -1, int, (int da, const char *a, int db, const char *b), (da, a, db, b)) \
    X(ftruncate, EIO, -1, int, (int fd, off_t n), (fd, n)) \
    X(mmap, ENOMEM, MAP_FAILED, void *, (void *p, size_t n, int prot, int flags, int fd, off_t at), (p, n, prot, flags, fd, at)) \
    X(fopen, EMFILE, NULL, FILE *, (const char *p, const char *m), (p, m)) \
    X(fdopen, ENOMEM, NULL, FILE *, (int fd, const char *m), (fd, m)) \
    X(mkdir, ENOSPC, -1, int, (const char *p, mode_t m), (p, m)) \
    X(mkdtemp, ENOSPC, NULL, char *, (char *p), (p)) \
    X(unlink, EIO, -1, int, (const char *p), (p)) \
    X(dup2, EMFILE, -1, int, (int a, int b), (a, b)) \
    X(pipe, EMFILE, -1, int, (int p[2]), (p)) \
    X(pipe2, EMFILE, -1, int, (int p[2], int flags), (p, flags)) \
    X(fork, EAGAIN, -1, pid_t, (void), ()) \
    X(fstat, EIO, -1, int, (int fd, struct stat *s), (fd, s)) \
    X(stat, EIO, -1, int, (const char *p, struct stat *s), (p, s)) \
    X(socket, EMFILE, -1, int, (int a, int b, int c), (a, b, c)) \
    X(socketpair, EMFILE, -1, int, (int a, int b, int c, int p[2]), (a, b, c, p)) \
    X(connect, EAGAIN, -1, int, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n)) \
    X(memfd_create, EMFILE, -1, int, (const char *name, unsigned flags), (name, flags)) \
    X(aligned_alloc, ENOMEM, NULL, void *, (size_t at, size_t n), (at, n)) \
    X(posix_fallocate, ENOSPC, ENOSPC, int, (int fd, off_t at, off_t n), (fd, at, n)) \
    X(truncate, EIO, -1, int, (const char *p, off_t n), (p, n)) \
    X(getrandom, ENOSYS, -1, ssize_t, (void *p, size_t n, unsigned flags), (p, n, flags)) \
    X(realpath, EIO, NULL, char *, (const char *p, char *out), (p, out)) \
    X(readlink, EIO, -1, ssize_t, (const char *p, char *out, size_t n), (p, out, n)) \
    X(opendir, EMFILE, NULL, DIR *, (const char *p), (p)) \
    X(recv, ECONNRESET, -1, ssize_t, (int fd, void *p, size_t n, int flags), (fd, p, n, flags)) \
    X(recvmsg, ECONNRESET, -1, ssize_t, (int fd, struct msghdr *m, int flags), (fd, m, flags)) \
    X(sendmsg, EPIPE, -1, ssize_t, (int fd, const struct msghdr *m, int flags), (fd, m, flags)) \
    X(epoll_create1, EMFILE, -1, int, (int flags), (flags)) \
    X(epoll_ctl, ENOSPC, -1, int, (int fd, int op, int other, struct epoll_event *e), (fd, op, other, e)) \
    X(timerfd_create, EMFILE, -1, int, (int clock, int flags), (clock, flags)) \
    X(poll, ENOMEM, -1, int, (struct pollfd *p, nfds_t n, int ms), (p, n, ms)) \
    X(fwrite, ENOSPC, 0, size_t, (const void *p, size_t n, size_t m, FILE *f), (p, n, m, f)) \
    X(fflush, ENOSPC, EOF, int, (FILE *f), (f)) \
    X(strdup, ENOMEM, NULL, char *, (const char *s), (s)) \
    X(accept4, EMFILE, -1, int, (int fd, struct sockaddr *a, socklen_t *n, int flags), (fd, a, n, flags)) \
    X(bind, EADDRINUSE, -1, int, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n)) \
    X(listen, EADDRINUSE, -1, int, (int fd, int n), (fd, n)) \
    X(send, EPIPE, -1, ssize_t, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags)) \
    X(getsockopt, ENOBUFS, -1, int, (int fd, int level, int name, void *p, socklen_t *n), (fd, level, name, p, n)) \
    X(lstat, EIO, -1, int, (const char *p, struct stat *s), (p, s)) \
    X(chmod, EPERM, -1, int, (const char *p, mode_t m), (p, m)) \
    X(madvise, EINVAL, -1, int, (void *p, size_t n, int advice), (p, n, advice)) \
    X(fread, EIO, (f->_flags |= _IO_ERR_SEEN, (size_t)0), size_t, (void *p, size_t n, size_t m, FILE *f), (p, n, m, f)) \
    X(readdir, EIO, NULL, struct dirent *, (DIR *d), (d)) \
    X(sem_init, ENOSPC, -1, int, (sem_t *s, int shared, unsigned n), (s, shared, n)) \
    X(pthread_key_create, EAGAIN, EAGAIN, int, (pthread_key_t *key, void (*end)(void *)), (key, end)) \
    X(dlopen, ENOMEM, NULL, void *, (const char *p, int flags), (p, flags))

/* pthread_create returns its error; open and fcntl have three parameters at times. */
#define OTHERS(X) X(pthread_create) X(open) X(openat) X(fcntl)

#define ONE(name, ...) CALL_##name,
enum call { FUNCTIONS(ONE) OTHERS(ONE) N_CALLS };
#undef ONE
#define ONE(name, ...) #name,
static const char *const NAME[N_CALLS] = {FUNCTIONS(ONE) OTHERS(ONE)};
#undef ONE

/* The last row: how many calls failed. */
struct row { char name[24]; atomic_long n; };
static struct row own_rows[N_CALLS + 1], *rows = own_rows;
static int victim = -1, victim_errno;
static long victim_at;
static bool victim_goes_on, counting, ready;
static const char *caller;             /* TD_FAIL_CALLER without its "!" */
static uintptr_t caller_begins, caller_ends;
static bool caller_is_meant;           /* without "!" */

static int find_caller(struct dl_phdr_info *info, size_t size, void *unused)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    uintptr_t end;
    int i;

    (void)size, (void)unused;
    if (strcmp(slash ? slash + 1 : info->dlpi_name, strcmp(caller, "self") ? caller : "") != 0) /* the executable has no name */
        return 0;
    caller_begins = info->dlpi_addr;
    for (i = 0; i < info->dlpi_phnum; i++) {
        end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && end > caller_ends)
            caller_ends = end;
    }
    return 1;
}

/* By system calls, for the functions are those that this library stands before. */
static void share_rows(const char *file)
{
    long fd = syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *p = MAP_FAILED;

    if (fd >= 0 && !syscall(SYS_ftruncate, fd, sizeof own_rows))
        p = (void *)syscall(SYS_mmap, NULL, sizeof own_rows, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        abort();
    syscall(SYS_close, fd);
    rows = p;
}

static void read_variables(void)
{
    const char *program = getenv("TD_FAIL_PROGRAM"), *call = getenv("TD_FAIL_CALL"), *number = getenv("TD_FAIL_ERRNO"), *file = getenv("TD_FAIL_COUNTS");
    const char *colon = call ? strchr(call, ':') : NULL;
    char *end;
    int i;

    caller = getenv("TD_FAIL_CALLER");
    caller_is_meant = caller && *caller != '!';
    if (caller && !caller_is_meant)
        caller++;
    if (program ? strcmp(program, program_invocation_short_name) != 0 : !caller)
        return;
    if (caller && !dl_iterate_phdr(find_caller, NULL))
        return;
    for (i = 0; colon && i < N_CALLS; i++)
        if (strlen(NAME[i]) == (size_t)(colon - call) && !strncmp(NAME[i], call, (size_t)(colon - call)))
            victim = i;
    victim_at = colon ? strtol(colon + 1, &end, 10) : 0;
    victim_goes_on = colon && *end == '+';
    victim_errno = number ? atoi(number) : 0;
    if (file)
        share_rows(file);
    for (i = 0; i <= N_CALLS; i++)
        strncpy(rows[i].name, i < N_CALLS ? NAME[i] : "failed", sizeof rows[i].name - 1);
    counting = true;
}

static bool is_meant(const void *returns_to)
{
    uintptr_t at = (uintptr_t)returns_to;

    return !caller || (at >= caller_begins && at < caller_ends) == caller_is_meant;
}

/* The first call comes before any constructor: another library's may run before one of this library would. */
static bool fails(enum call c, int usual_errno, const void *returns_to)
{
    long n;

    if (!ready && environ) {
        ready = true;
        read_variables();
    }
    if (!counting || !is_meant(returns_to))
        return false;
    n = atomic_fetch_add(&rows[c].n, 1) + 1;
    if ((int)c != victim || (victim_goes_on ? n < victim_at : n != victim_at))
        return false;
    atomic_fetch_add(&rows[N_CALLS].n, 1);
    errno = victim_errno ? victim_errno : usual_errno;
    return true;
}

#define FAILS(name, error) fails(CALL_##name, error, __builtin_return_address(0))

/* dlsym may allocate before malloc is known: such early requests are served from here, and never given back. */
static char early[65536] __attribute__((aligned(16)));
static size_t early_used;

static void *early_alloc(size_t n)
{
    void *p = early + early_used;

    early_used += (n + 15) / 16 * 16;
    if (early_used > sizeof early)
        abort();
    return p;
}

static void *find(const char *name)
{
    static _Thread_local int inside;
    void *p;

    if (inside)
        return NULL;
    inside = 1;
    p = dlsym(RTLD_NEXT, name);
    inside = 0;
    return p;
}

static void *instead_malloc(size_t n) { return early_alloc(n); }
static void *instead_calloc(size_t n, size_t m) { return memset(early_alloc(n * m), 0, n * m); }
static void *instead_realloc(void *p, size_t n) { (void)p; return early_alloc(n); }

static void *instead(enum call c)
{
    switch (c) {
    case CALL_malloc: return (void *)instead_malloc;
    case CALL_calloc: return (void *)instead_calloc;
    case CALL_realloc: return (void *)instead_realloc;
    default: abort();
    }
}

void free(void *p)
{
    static void (*real)(void *);

    if ((char *)p >= early && (char *)p < early + sizeof early)
        return;
    if (!real)
        real = (void (*)(void *))find("free");
    if (real)
        real(p);
}

#define DEFINE(name, error, result, type, parameters, arguments) \
    type name parameters \
    { \
        static type (*real) parameters; \
        type (*call) parameters = real; \
\
        if (!call) \
            real = call = (type (*) parameters)find(#name); \
        if (!call) \
            call = (type (*) parameters)instead(CALL_##name); \
        if (FAILS(name, error)) \
            return result; \
        return call arguments; \
    }

FUNCTIONS(DEFINE)

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (!real)
        real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))find("pthread_create");
    return FAILS(pthread_create, EAGAIN) ? EAGAIN : real(t, a, run, arg);
}

int open(const char *path, int flags, ...)
{
    static int (*real)(const char *, int, ...);
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (!real)
        real = (int (*)(const char *, int, ...))find("open");
    return FAILS(open, EMFILE) ? -1 : real(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    static int (*real)(int, const char *, int, ...);
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (!real)
        real = (int (*)(int, const char *, int, ...))find("openat");
    return FAILS(openat, EMFILE) ? -1 : real(folder, path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
    static int (*real)(int, int, ...);
    va_list ap;
    void *argument;

    va_start(ap, command);
    argument = va_arg(ap, void *);
    va_end(ap);
    if (!real)
        real = (int (*)(int, int, ...))find("fcntl");
    return FAILS(fcntl, EMFILE) ? -1 : real(fd, command, argument);
}
