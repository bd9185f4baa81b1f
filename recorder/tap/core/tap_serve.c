/* tap_serve.c - the tap's own thread: the socket, what the recorder asks for, arming and going to sleep.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Only this thread arms, disarms, maps and unmaps. While nobody is linked it sleeps in poll() without a timeout. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "recorder/tap/core/tap_core.h"

#define MAX_STARTS 4                  /* a server that closes our descriptors gets the thread again so many times */
#define ENVIRON_MAX (1u << 20)
#define LAST_MS 2000                  /* what is still on its way from a device when the recorder has had enough */
#define QUIET_MS 8000                 /* how long an answer may wait for a call that is still running */

/* The first that has seen calls names the library: that of a GPU's kernels before that of torch, which every server with a GPU uses too. */
static const struct tap_front *const fronts[] = {&tap_front_td, &tap_front_ggml, &tap_front_cuda, &tap_front_hip, &tap_front_vllm};

enum state { COLD, STARTING, RUNNING };
static _Atomic int state;
static _Atomic bool has_path;         /* serve.path is complete: the end of the process reads it in another thread */
static int starts;

/* A descriptor and the inode it had: a server may close descriptors that it does not know and get the number again. */
struct own_fd { int fd; ino_t ino; };

static struct {
    struct own_fd listener, peer;
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    pid_t pid;
    uint64_t last_beat;
    int64_t beat_ns;
    uint32_t generation;
} serve = {.listener = {.fd = -1}, .peer = {.fd = -1}};

int64_t tap_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void nap_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

static struct own_fd own(int fd)
{
    struct stat st;

    return (struct own_fd){fd, fd >= 0 && !fstat(fd, &st) ? st.st_ino : 0};
}

static bool still_ours(struct own_fd f)
{
    struct stat st;

    return f.fd >= 0 && !fstat(f.fd, &st) && S_ISSOCK(st.st_mode) && st.st_ino == f.ino;
}

static void close_own(struct own_fd *f)
{
    if (still_ours(*f))
        close(f->fd);
    f->fd = -1;
}

/* ---- armed and asleep ---------------------------------------------------------------------------------------------- */

static void set_awake(bool awake)
{
    size_t i;

    for (i = 0; i < sizeof fronts / sizeof *fronts; i++)
        if (fronts[i]->awake)
            fronts[i]->awake(awake);
}

/* Returns what the fronts that look for calls by themselves have to say. */
static const char *start_fronts(void)
{
    const char *said = NULL;
    size_t i;

    for (i = 0; i < sizeof fronts / sizeof *fronts; i++) {
        const char *s = fronts[i]->start ? fronts[i]->start() : NULL;

        said = said ? said : s;
    }
    return said;
}

static void stop_fronts(int wait_ms)
{
    size_t i;

    for (i = 0; i < sizeof fronts / sizeof *fronts; i++)
        if (fronts[i]->stop)
            fronts[i]->stop(wait_ms);
}

static void tick_fronts(void)
{
    size_t i;

    for (i = 0; i < sizeof fronts / sizeof *fronts; i++)
        if (fronts[i]->tick && atomic_load(&tap_generation))
            fronts[i]->tick();
}

/* How long the thread may sleep. */
static int tick_ms(void)
{
    int ms = 2 * TAP_BEAT_MS, wanted;
    size_t i;

    for (i = 0; i < sizeof fronts / sizeof *fronts; i++)
        if (fronts[i]->tick_ms && (wanted = fronts[i]->tick_ms()) < ms)
            ms = wanted;
    return ms;
}

static void go_to_sleep(enum tap_asleep why, int wait_ms)
{
    if (!atomic_load(&tap_generation))
        return;
    stop_fronts(wait_ms);
    atomic_store(&tap_generation, 0);
    set_awake(false);
    atomic_store(&tap_plan.shared->why_asleep, why);
    atomic_store(&tap_plan.shared->armed, 0);
}

static bool wait_quiet(int ms)
{
    int64_t until = tap_now() + ms * 1000000LL;

    while (!tap_ring_slots_quiet()) {
        if (tap_now() > until)
            return false;
        nap_ms(1);
    }
    return true;
}

static const char *arm(const struct tap_msg *m)
{
    uint32_t i;

    for (i = 0; i < tap_plan.rings; i++)
        atomic_store(&tap_plan.seats[i].owner, 0);
    tap_plan.mode = m->mode;
    tap_plan.percent_ppm = m->percent_ppm;
    tap_plan.kinds = m->kinds;
    tap_plan.budget = m->budget_bytes_per_s;
    tap_plan.time_ppm = m->time_ppm;
    tap_plan.flight_bytes = (uint64_t)m->flight_mib << 20;
    atomic_store(&tap_plan.due_steps, tap_now());
    atomic_store(&tap_plan.due_weights, tap_now());
    atomic_store(&tap_plan.due_time, tap_now());
    if (!++serve.generation)
        serve.generation = 1;
    serve.last_beat = atomic_load(&tap_plan.shared->heartbeat);
    serve.beat_ns = tap_now();
    atomic_store(&tap_plan.shared->why_asleep, TAP_ASLEEP_ASKED);
    atomic_store(&tap_plan.shared->armed, serve.generation);
    atomic_store(&tap_generation, serve.generation);
    set_awake(true);
    return start_fronts();
}

static void check_heartbeat(void)
{
    uint64_t beat;

    if (!atomic_load(&tap_generation) || serve.peer.fd < 0)
        return;
    beat = atomic_load(&tap_plan.shared->heartbeat);
    if (beat != serve.last_beat) {
        serve.last_beat = beat;
        serve.beat_ns = tap_now();
    } else if (tap_now() - serve.beat_ns > TAP_DEAD_MS * 1000000LL) {
        go_to_sleep(TAP_ASLEEP_HEARTBEAT, 0);
    }
}

/* ---- messages ------------------------------------------------------------------------------------------------------ */

static void unlink_peer(void)
{
    go_to_sleep(TAP_ASLEEP_ASKED, 0);
    while (!tap_ring_slots_quiet())
        nap_ms(20);                   /* a server's thread is still in a call that writes: the memory must stay */
    tap_memory_unmap();
    close_own(&serve.peer);
}

static void answer(int fd, struct tap_msg *r, enum tap_status status, const char *why)
{
    r->magic = TAP_MAGIC;
    r->version = TAP_VERSION;
    r->status = status;
    r->pid = getpid();
    r->generation = serve.generation;
    r->flight_mib = tap_cuda_flight_mib();
    snprintf(r->text, sizeof r->text, "%s", why ? why : "");
    if (send(fd, r, sizeof *r, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return;                       /* the peer is gone: poll will say so */
}

/* *said: armed, but. */
static const char *serve_arm(const struct tap_msg *m, const char **said)
{
    if (!tap_plan.shared)
        return "no memory yet";
    if (m->mode != TAP_MODE_SAMPLE && m->mode != TAP_MODE_ALL)
        return "unknown mode";
    if (m->kinds != TAP_KINDS_GEMM && m->kinds != TAP_KINDS_ALL)
        return "unknown choice of kinds";
    go_to_sleep(TAP_ASLEEP_ASKED, LAST_MS);
    if (!wait_quiet(QUIET_MS))
        return "a call that began in the last arm is still running";
    *said = arm(m);
    return NULL;
}

static void serve_message(const struct tap_msg *m, int fd)
{
    struct tap_msg r = {.type = TAP_REPLY};
    const char *why = NULL, *said = NULL;

    if (m->magic != TAP_MAGIC || m->version != TAP_VERSION)
        return answer(serve.peer.fd, &r, TAP_BAD_VERSION, "another protocol version");
    switch (m->type) {
    case TAP_ATTACH:
        why = tap_plan.shared ? "memory is there already" : tap_memory_attach(fd, m);
        break;
    case TAP_ARM:
        why = serve_arm(m, &said);
        break;
    case TAP_DISARM:
        go_to_sleep(TAP_ASLEEP_ASKED, LAST_MS);
        if (!wait_quiet(QUIET_MS))
            why = "a call is still running";
        for (size_t i = 0; i < sizeof fronts / sizeof *fronts && !said; i++)
            said = fronts[i]->trouble ? fronts[i]->trouble() : NULL;
        break;
    case TAP_DUMP:
        why = m->mode && m->mode < TAP_DUMP_REASONS ? tap_cuda_keep(m->mode) : "unknown reason for a dump";
        break;
    default:
        why = "unknown message";
    }
    answer(serve.peer.fd, &r, why ? TAP_REFUSED : TAP_OK, why ? why : said);
}

/* False: the peer is gone. */
static bool receive(void)
{
    union { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(int) * 4)]; } control;
    struct tap_msg m = {0};
    struct iovec iov = {&m, sizeof m};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(serve.peer.fd, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *c;
    int fd = -1;

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    for (c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
        size_t i, fds = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

        for (i = 0; i < fds; i++) {
            int got;

            memcpy(&got, CMSG_DATA(c) + i * sizeof got, sizeof got);
            if (fd < 0)
                fd = got;
            else
                close(got);
        }
    }
    if (n >= 8)                       /* magic and version are readable in every version */
        serve_message(&m, fd);
    if (fd >= 0)
        close(fd);                    /* a mapping keeps the memory */
    return n >= 8;
}

static bool welcome(int fd)
{
    struct ucred who;
    socklen_t n = sizeof who;

    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) && (who.uid == geteuid() || who.uid == 0);
}

/* Which front ends have seen calls, and what the first of them says of its library. */
static void describe_fronts(struct tap_msg *r)
{
    char library[TAP_TEXT], build[TAP_TEXT];
    size_t i, n = 0;

    for (i = 0; i < sizeof fronts / sizeof *fronts; i++) {
        if (!fronts[i]->describe(library, build, TAP_TEXT))
            continue;
        if (!n) {
            memcpy(r->library, library, TAP_TEXT);
            memcpy(r->build, build, TAP_TEXT);
        }
        n += (size_t)snprintf(r->fronts + n, n < TAP_FRONTS ? TAP_FRONTS - n : 0, "%s%s", n ? " " : "", fronts[i]->name);
    }
}

static void take_peer(void)
{
    int fd = accept4(serve.listener.fd, NULL, NULL, SOCK_CLOEXEC);
    struct tap_msg r = {.type = TAP_GREETING};

    if (fd < 0)
        return;
    if (!welcome(fd)) {
        answer(fd, &r, TAP_REFUSED, "another user");
    } else if (serve.peer.fd >= 0) {
        answer(fd, &r, TAP_BUSY, "another recorder is linked");
    } else {
        serve.peer = own(fd);
        describe_fronts(&r);
        answer(fd, &r, TAP_OK, NULL);
        return;
    }
    close(fd);
}

/* ---- where the socket is ------------------------------------------------------------------------------------------- */

void tap_environ_get(const char *name, char *out, size_t max)
{
    char *all = malloc(ENVIRON_MAX + 1), *p;
    size_t len = strlen(name), n = 0;
    int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
    ssize_t k;

    out[0] = '\0';
    while (all && fd >= 0 && n < ENVIRON_MAX && (k = read(fd, all + n, ENVIRON_MAX - n)) > 0)
        n += (size_t)k;
    if (fd >= 0)
        close(fd);
    if (all) {
        all[n] = '\0';
        for (p = all; p < all + n; p += strlen(p) + 1)
            if (!strncmp(p, name, len) && p[len] == '=' && strlen(p + len + 1) < max)
                strcpy(out, p + len + 1);
    }
    free(all);
}

static bool runtime_folder(char *dir, size_t n)
{
    char base[sizeof serve.path];
    struct stat st;

    tap_environ_get("TD_TAP_DIR", dir, n);
    tap_environ_get("XDG_RUNTIME_DIR", base, sizeof base);
    if (!dir[0] && base[0] && snprintf(dir, n, "%s/tapedeck", base) >= (int)n)
        return false;
    if (!dir[0])
        snprintf(dir, n, "/tmp/tapedeck-%u", (unsigned)geteuid());
    if (mkdir(dir, 0700) && errno != EEXIST)
        return false;
    return !lstat(dir, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077);
}

static bool open_listener(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char dir[sizeof a.sun_path];
    int fd;

    if (!runtime_folder(dir, sizeof dir) || snprintf(a.sun_path, sizeof a.sun_path, "%s/tap-%d.sock", dir, (int)getpid()) >= (int)sizeof a.sun_path)
        return false;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    unlink(a.sun_path);               /* of a process that had our pid before */
    if (bind(fd, (struct sockaddr *)&a, sizeof a) || chmod(a.sun_path, 0600) || listen(fd, 4)) {
        close(fd);
        return false;
    }
    serve.listener = own(fd);
    memcpy(serve.path, a.sun_path, sizeof serve.path);
    atomic_store(&has_path, true);
    return true;
}

__attribute__((destructor)) static void remove_socket(void)
{
    if (atomic_load(&has_path) && serve.pid == getpid())
        unlink(serve.path);
}

/* ---- the thread ---------------------------------------------------------------------------------------------------- */

static bool turn(void)                /* false: our descriptors were closed under us */
{
    struct pollfd p[2] = {{serve.listener.fd, POLLIN, 0}, {serve.peer.fd, POLLIN, 0}};
    bool armed = atomic_load(&tap_generation) != 0;

    if (poll(p, 2, armed ? tick_ms() : -1) < 0 && errno != EINTR)
        return false;
    if (!still_ours(serve.listener) || (serve.peer.fd >= 0 && !still_ours(serve.peer)))
        return false;
    if (p[1].revents && (!(p[1].revents & POLLIN) || !receive()))
        unlink_peer();
    if (p[0].revents)
        take_peer();
    check_heartbeat();
    tick_fronts();
    return true;
}

static void *run(void *nothing)
{
    (void)nothing;
    pthread_setname_np(pthread_self(), "tapedeck-tap");
    set_awake(false);
    if (!open_listener())
        return NULL;                  /* asleep for ever: the server does not care */
    while (turn())
        ;
    unlink_peer();
    close_own(&serve.listener);
    if (starts < MAX_STARTS) {        /* the next op starts the thread again */
        set_awake(true);
        atomic_store(&state, COLD);
    }
    return NULL;
}

/* In the child of a fork: no thread, no links, cold. */
static void forked(void)
{
    size_t i;

    for (i = 0; i < sizeof fronts / sizeof *fronts; i++)
        if (fronts[i]->forked)
            fronts[i]->forked();
    atomic_store(&tap_generation, 0);
    set_awake(true);
    close_own(&serve.listener);
    close_own(&serve.peer);
    atomic_store(&has_path, false);
    if (!tap_thread.inside) {             /* else: a real function that forks; it returns into code that still needs them */
        tap_memory_unmap();
        memset(tap_plan.seats, 0, sizeof tap_plan.seats);
    }
    tap_plan.rings = 0;
    tap_plan.shared = NULL;
    atomic_store(&tap_plan.homeless, 0);
    starts = 0;
    atomic_store(&state, COLD);
}

static void start(void)
{
    static _Atomic int hooked;
    int cold = COLD;
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    bool ok;

    if (!atomic_compare_exchange_strong(&state, &cold, STARTING))
        return;
    starts++;
    serve.pid = getpid();
    tap_ring_slot_key();
    if (!atomic_exchange(&hooked, 1))
        pthread_atfork(NULL, NULL, forked);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    ok = !pthread_create(&thread, &attr, run, NULL);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!ok)
        set_awake(false);             /* no thread, no tap: the server runs on */
    cold = STARTING;
    atomic_compare_exchange_strong(&state, &cold, RUNNING);
}

void tap_start_if_cold(void)
{
    int e = errno;

    if (atomic_load_explicit(&state, memory_order_acquire) == COLD)
        start();
    errno = e;
}
