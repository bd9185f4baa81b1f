/* test_turns.c - two processes that take turns, also where one has fewer of them, dies, or is stopped.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/turns.h"

/* What both processes did, in the order in which it was done. */
struct shared { int n, working; bool overlapped; char log[64]; };

static struct shared *both;

static void work(char who)
{
    both->overlapped |= __atomic_fetch_add(&both->working, 1, __ATOMIC_SEQ_CST) > 0;
    usleep(1000);
    both->log[both->n++] = who;
    __atomic_fetch_sub(&both->working, 1, __ATOMIC_SEQ_CST);
}

static void take_all(struct td_turns *t, char who, int turns, int wait_us)
{
    usleep((useconds_t)wait_us);
    td_turns_meet(t);
    while (turns-- > 0) {
        td_turns_take(t);
        work(who);
        td_turns_give(t);
    }
}

/* A and B, each in its process; A is the first to begin. B_turns below 0: it takes that many and dies. */
static const char *run(int a_turns, int b_turns, int a_waits_us, int b_waits_us)
{
    struct td_turns t[2];
    int status;
    pid_t pid;

    memset(both, 0, sizeof *both);
    assert_int_equal(td_turns_make(t, NULL), TD_OK);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        td_turns_leave(&t[0]);
        take_all(&t[1], 'B', abs(b_turns), b_waits_us);
        if (b_turns >= 0)
            td_turns_end(&t[1]);
        _exit(0);
    }
    td_turns_leave(&t[1]);
    take_all(&t[0], 'A', a_turns, a_waits_us);
    td_turns_end(&t[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(both->overlapped);
    return both->log;
}

static void one_after_the_other(void **state)
{
    (void)state;
    assert_string_equal(run(4, 4, 0, 0), "ABABABAB");
    assert_string_equal(run(3, 3, 30000, 0), "ABABAB");
    assert_string_equal(run(3, 3, 0, 30000), "ABABAB");
    assert_string_equal(run(0, 0, 0, 0), "");
}

static void who_has_more_goes_on_alone(void **state)
{
    (void)state;
    assert_string_equal(run(4, 1, 0, 0), "ABAAA");
    assert_string_equal(run(1, 4, 0, 0), "ABBBB");
    assert_string_equal(run(0, 2, 0, 0), "BB");
}

/* None waits for one that is dead. */
static void a_dead_partner_leaves_its_turns(void **state)
{
    (void)state;
    assert_string_equal(run(4, -2, 0, 0), "ABABAA");
}

static int changes[2];

static void count(void *arg, bool ours)
{
    (void)arg;
    changes[ours]++;
}

/* Turns are told, the last one, too. */
static void changes_are_told(void **state)
{
    struct td_turns t[2];

    (void)state;
    assert_int_equal(td_turns_make(t, NULL), TD_OK);
    td_turns_leave(&t[1]); /* the partner never comes */
    t[0].changed = count;
    td_turns_meet(&t[0]);
    assert_true(t[0].ours && t[0].alone);
    td_turns_take(&t[0]);
    td_turns_give(&t[0]);
    td_turns_end(&t[0]);
    assert_int_equal(changes[true], 1);
    assert_int_equal(changes[false], 1);
}

static volatile sig_atomic_t stop;

static void on_alarm(int sig)
{
    stop = sig;
}

/* One that waits for its turn ends when it is stopped. */
static void a_stop_ends_waiting(void **state)
{
    struct td_turns t[2];

    (void)state;
    assert_int_equal(td_turns_make(t, NULL), TD_OK);
    t[1].stop = &stop;
    signal(SIGALRM, on_alarm);
    alarm(1);
    td_turns_meet(&t[1]); /* t[0] says nothing */
    td_turns_take(&t[1]);
    td_turns_end(&t[1]);
    td_turns_leave(&t[0]);
    assert_int_equal(stop, SIGALRM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(who_has_more_goes_on_alone),
        cmocka_unit_test(a_dead_partner_leaves_its_turns),
        cmocka_unit_test(changes_are_told),
        cmocka_unit_test(a_stop_ends_waiting),
    };

    signal(SIGPIPE, SIG_IGN);
    both = mmap(NULL, sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(both != MAP_FAILED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
