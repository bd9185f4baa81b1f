/* tap_server.c - the tap's own thread: it starts at the first call seen, waits for a recorder, and
 * does what that asks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Only this thread arms, disarms, maps and unmaps. While no recorder is connected it sleeps in
 * poll() without a timeout. */
#include "recorder/tap/core/tap_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "recorder/tap/core/tap_arm.h"
#include "recorder/tap/core/tap_front.h"
#include "recorder/tap/core/tap_memory.h"
#include "recorder/tap/core/tap_plan.h"
#include "recorder/tap/core/tap_ring_slot.h"
#include "recorder/tap/core/tap_rows.h"
#include "recorder/tap/core/tap_socket.h"
#include "recorder/tap/core/tap_time.h"
#include "recorder/tap/core/tap_times.h"

#define MAX_STARTS 4      /* a server that closes our descriptors gets the thread again so often */
#define LAST_COPIES_MS 2000 /* for copies still on their way from a device at the end of an arm */
#define MOST_WAIT_MS 10000 /* before the tap tries once more to listen */
#define IDLE_WAIT_MS 8000 /* how long a reply may wait for a call that is still running */

enum state { COLD, STARTING, RUNNING };
static _Atomic int state;
static int starts;
static struct tap_own_fd listener = {.fd = -1}, peer = {.fd = -1};

/* ---- messages -------------------------------------------------------------------------------- */

static void reply(int fd, struct tap_msg *r, enum tap_status status, const char *text)
{
    r->magic = TAP_MAGIC;
    r->version = TAP_VERSION;
    r->status = status;
    r->pid = getpid();
    r->generation = tap_last_generation();
    r->flight_mib = tap_fronts_flight_mib();
    snprintf(r->text, sizeof r->text, "%s", text ? text : "");
    tap_socket_send(fd, r);
}

/* Returns NULL, or why not. *remark: armed, but. */
static const char *serve_arm(const struct tap_msg *m, const char **remark)
{
    if (!tap_plan.shared)
        return "no memory yet";
    if (m->mode != TAP_MODE_SAMPLE && m->mode != TAP_MODE_ALL)
        return "unknown mode";
    if (m->kinds != TAP_KINDS_GEMM && m->kinds != TAP_KINDS_ALL)
        return "unknown choice of kinds";
    if (tap_fronts_lacked_memory())
        return "there was no memory to remember what the server registered while it started";
    tap_disarm(TAP_ASLEEP_ASKED, LAST_COPIES_MS);
    tap_times_drop();
    if (!tap_wait_idle(IDLE_WAIT_MS))
        return "a call that began in the last arm is still running";
    *remark = tap_arm(m);
    return NULL;
}

static const char *serve_disarm(const char **remark)
{
    const char *why = NULL;

    tap_disarm(TAP_ASLEEP_ASKED, LAST_COPIES_MS);
    if (!tap_wait_idle(IDLE_WAIT_MS))
        why = "a call is still running";
    *remark = tap_fronts_trouble();
    return why;
}

/* fd: what came with the message, borrowed; -1: nothing. */
static void serve_message(const struct tap_msg *m, int fd)
{
    struct tap_msg r = {.type = TAP_REPLY};
    const char *why = NULL, *remark = NULL;

    if (m->magic != TAP_MAGIC || m->version != TAP_VERSION)
        return reply(peer.fd, &r, TAP_BAD_VERSION, "another protocol version");
    switch (m->type) {
    case TAP_ATTACH:
        why = tap_plan.shared ? "memory is there already" : tap_memory_attach(fd, m);
        break;
    case TAP_ROWS:
        why = tap_armed() ? "the tap is armed" : tap_rows_take(fd, m->ring_bytes);
        break;
    case TAP_ARM:
        why = serve_arm(m, &remark);
        break;
    case TAP_DISARM:
        why = serve_disarm(&remark);
        break;
    case TAP_DUMP:
        why = m->mode && m->mode < TAP_DUMP_REASONS ? tap_fronts_dump_flight(m->mode)
                                                    : "unknown reason for a dump";
        break;
    case TAP_TIMES:
        why = tap_times_serve(m, &r);
        break;
    default:
        why = "unknown message";
    }
    reply(peer.fd, &r, why ? TAP_REFUSED : TAP_OK, why ? why : remark);
}

/* False: the peer is gone. */
static bool serve_peer(void)
{
    struct tap_msg m = {0};
    int fd;
    ssize_t n = tap_socket_receive(peer.fd, &m, &fd);

    if (n < 0)
        return true;
    if (n >= 8)                       /* magic and version are readable in every version */
        serve_message(&m, fd);
    if (fd >= 0)
        close(fd);                    /* a mapping keeps the memory */
    return n >= 8;
}

static void drop_peer(void)
{
    tap_disarm(TAP_ASLEEP_ASKED, 0);
    tap_times_drop();
    while (!tap_ring_slots_are_idle())
        tap_sleep_ms(20); /* a thread of the server is still writing: the memory must stay */
    tap_memory_unmap();
    tap_rows_drop();
    tap_own_fd_close(&peer);
}

/* Greet who came. A recorder that has died meanwhile keeps nobody out, whatever it wrote before. */
static void greet(void)
{
    int fd = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC);
    struct tap_msg r = {.type = TAP_GREETING};

    if (fd < 0)
        return;
    if (peer.fd >= 0 && tap_socket_hung_up(peer.fd))
        drop_peer();
    if (!tap_socket_is_welcome(fd)) {
        reply(fd, &r, TAP_REFUSED, "another user");
    } else if (peer.fd >= 0) {
        r.number = (uint32_t)tap_socket_peer_pid(peer.fd);
        reply(fd, &r, TAP_BUSY, "another recorder is linked");
    } else {
        peer = tap_own_fd(fd);
        tap_fronts_describe(&r);
        reply(fd, &r, TAP_OK, NULL);
        return;
    }
    close(fd);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Serve what came. False: our descriptors were closed under us. */
static bool serve_once(void)
{
    struct pollfd p[2] = {{listener.fd, POLLIN, 0}, {peer.fd, POLLIN, 0}};
    bool armed = atomic_load(&tap_generation) != 0;

    if (poll(p, 2, armed ? tap_fronts_tick_ms(2 * TAP_BEAT_MS) : tap_times_wait_ms(-1)) < 0 &&
        errno != EINTR)
        return false;
    if (!tap_own_fd_is_ours(listener) || (peer.fd >= 0 && !tap_own_fd_is_ours(peer)))
        return false;
    /* nobody reads an answer to what a dead recorder left to read */
    if (p[1].revents && ((p[1].revents & (POLLHUP | POLLERR)) || !serve_peer()))
        drop_peer();
    if (p[0].revents)
        greet();
    if (peer.fd >= 0)
        tap_check_heartbeat();
    tap_fronts_tick();
    tap_times_tick();
    return true;
}

static void *run(void *nothing)
{
    int wait_ms = 25;

    (void)nothing;
    tap_fronts_set_awake(false);
    pthread_setname_np(pthread_self(), TAP_THREAD);
    while (!tap_socket_listen(&listener)) { /* asleep: the server does not care */
        tap_sleep_ms(wait_ms);
        wait_ms = wait_ms < MOST_WAIT_MS ? 2 * wait_ms : wait_ms;
    }
    while (serve_once())
        ;
    drop_peer();
    tap_own_fd_close(&listener);
    if (starts < MAX_STARTS) {        /* the next call starts the thread again */
        tap_fronts_set_awake(true);
        atomic_store(&state, COLD);
    }
    return NULL;
}

/* In the child of a fork: no thread, no recorder, cold. */
static void forked(void)
{
    tap_fronts_forked();
    tap_times_forget();
    atomic_store(&tap_generation, 0);
    tap_fronts_set_awake(true);
    tap_own_fd_close(&listener);
    tap_own_fd_close(&peer);
    tap_socket_forget();
    /* A recorded function that forks returns into code that still needs memory and slots. */
    if (!tap_thread.inside) {
        tap_memory_unmap();
        memset(tap_ring_slots, 0, sizeof tap_ring_slots);
    }
    tap_plan.rings = 0;
    tap_plan.shared = NULL;
    atomic_store(&tap_counting_threads, 0);
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
    bool ok = false;
    int i;

    if (!atomic_compare_exchange_strong(&state, &cold, STARTING))
        return;
    starts++;
    tap_ring_slots_init();
    if (!atomic_exchange(&hooked, 1))
        pthread_atfork(NULL, NULL, forked);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    for (i = 0; i < MAX_STARTS && !ok; i++) /* the only chance, for a front that says it once */
        ok = !pthread_create(&thread, &attr, run, NULL);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!ok)
        tap_fronts_set_awake(false);  /* no thread, no tap: the server runs on */
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
