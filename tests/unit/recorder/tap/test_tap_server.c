/* test_tap_server.c - who gets the tap when one recorder has died and another one comes. Both ends
 * are in this process.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/tap_client/tap_connection.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/core/tap_ring_slot.h"

static struct client_found here;

static int setup(void **state)
{
    struct client_found all[CLIENT_MAX_TAPS];
    struct client_missed missed;
    struct td_error err = {0};
    int n;

    (void)state;
    tap_start_if_cold(); /* as the first call of a server would: its thread opens the socket */
    if (client_find_taps(&(struct td_tap_client_target){.pid = getpid(), .wait_ms = 20000}, all, &n,
                         &missed, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return -1;
    }
    here = all[0];
    return 0;
}

static void greet(struct client_tap *tap)
{
    struct td_error err = {0};
    int tries, rc = TD_ENOTFOUND;

    for (tries = 0; rc == TD_ENOTFOUND && tries < 1000; tries++) { /* bound, and not listening yet */
        td_error_clear(&err);
        usleep(tries ? 10000 : 0);
        rc = client_tap_greet(tap, &here, &err);
    }
    if (rc)
        fail_msg("%s", err.msg);
}

static void say(const struct client_tap *tap, enum tap_msg_type type)
{
    const struct tap_msg m = {
        .magic = TAP_MAGIC, .version = TAP_VERSION, .type = type, .mode = TAP_MODE_ALL};

    assert_int_equal(send(tap->fd, &m, sizeof m, MSG_NOSIGNAL), sizeof m);
}

/* The greeting that a newcomer gets. */
static struct tap_msg greeting_of(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    struct tap_msg m = {0};

    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_int_equal(recv(fd, &m, sizeof m, 0), sizeof m);
    assert_int_equal(m.type, TAP_GREETING);
    return m;
}

static int newcomer(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memcpy(a.sun_path, here.socket, sizeof a.sun_path);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* The tap is at work on what a recorder asked, or has not begun, when that recorder dies and another
 * one comes: the words that the dead one left must not keep the new one out. */
static void last_words_do_not_keep_a_newcomer_out(void **state)
{
    struct client_tap dead;
    struct tap_msg m;
    int i, fd;

    (void)state;
    for (i = 0; i < 5; i++) {
        greet(&dead);
        if (client_tap_attach(&dead, 1, TAP_MIN_RING_BYTES, NULL))
            fail_msg("no memory for the tap");
        atomic_store(&tap_ring_slots[0].busy, 1); /* a call that is running: the tap waits for it */
        say(&dead, TAP_ARM);
        say(&dead, TAP_DISARM);
        say(&dead, TAP_ARM);
        client_tap_close(&dead);
        fd = newcomer();
        atomic_store(&tap_ring_slots[0].busy, 0);
        m = greeting_of(fd);
        assert_int_equal(m.status, TAP_OK);
        assert_false(tap_armed());        /* the dead one's arm went with it */
        close(fd);
    }
}

static void a_living_recorder_keeps_it_and_is_named(void **state)
{
    struct client_tap first;
    struct tap_msg m;
    int fd;

    (void)state;
    greet(&first);
    fd = newcomer();
    m = greeting_of(fd);
    assert_int_equal(m.status, TAP_BUSY);
    assert_int_equal(m.number, getpid());
    close(fd);
    client_tap_close(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(last_words_do_not_keep_a_newcomer_out),
                                       cmocka_unit_test(a_living_recorder_keeps_it_and_is_named)};

    return cmocka_run_group_tests_name("tap_server", tests, setup, NULL);
}
