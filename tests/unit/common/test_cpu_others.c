/* test_cpu_others.c - what other programs took of the machine, from figures of a folder that stands for /proc.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cpu_others.h"
#include "common/processes.h"
#include "tests/unit/common/temp_root.h"

#define URL "http://127.0.0.1:8000"
#define SERVER 700001 /* pids: beyond those of small machines, so that none of them is this test */
#define WORKER 700002
#define STRANGER 700003

static char proc[200];

/* ---- a machine -------------------------------------------------------------------------------- */

static void put(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(const char *name, const char *format, ...)
{
    char path[400];
    va_list ap;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", proc, name);
    f = fopen(path, "w");
    assert_non_null(f);
    va_start(ap, format);
    vfprintf(f, format, ap);
    va_end(ap);
    fclose(f);
}

static void make_folder(const char *name)
{
    char path[400];

    snprintf(path, sizeof path, "%s/%.100s", proc, name);
    mkdir(path, 0700);
}

/* A process; its times are ticks of 10 ms. The name holds what could be taken for the end of it. */
static void put_process(int pid, const char *name, int parent, int user, int system, int user_ended, int system_ended)
{
    char file[64];

    snprintf(file, sizeof file, "%d", pid);
    make_folder(file);
    snprintf(file, sizeof file, "%d/stat", pid);
    put(file, "%d (%s) S %d 1 1 0 -1 4194304 9 9 9 9 %d %d %d %d 20 0 1 0 77 1 1\n", pid, name, parent, user, system, user_ended, system_ended);
}

/* user + nice + system + irq + softirq + steal are busy; idle and iowait are not. */
static void put_machine(int busy, int steal, int idle, int iowait)
{
    put("stat", "cpu  %d 1 2 %d %d 3 4 %d 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0\ncpu1 1 0 0 1 0 0 0 0 0 0\nintr 7 0\nctxt 5\n", busy, idle, iowait, steal);
}

static void put_pressure(const char *total_us)
{
    make_folder("pressure");
    put("pressure/cpu", "some avg10=47.45 avg60=10.67 avg300=2.57 total=%s\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", total_us);
}

/* The server listens; its worker is its child, and a third process is nobody's. All times are 0. */
static void make_machine(const char *server_name)
{
    char path[400];

    snprintf(proc, sizeof proc, "%s/proc-%s", root, server_name);
    mkdir(proc, 0700);
    make_folder("net");
    put("net/tcp", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
                   "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0\n"
                   "   1: 0100007F:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0\n");
    put_process(SERVER, server_name, 1, 0, 0, 0, 0);
    put_process(WORKER, "a ) 9 9", SERVER, 0, 0, 0, 0);
    put_process(STRANGER, "cc1", 1, 0, 0, 0, 0);
    put_process((int)getpid(), "replay", 1, 0, 0, 0, 0);
    snprintf(path, sizeof path, "%d/fd", SERVER);
    make_folder(path);
    snprintf(path, sizeof path, "%s/%d/fd/5", proc, SERVER);
    assert_int_equal(symlink("socket:[4711]", path), 0);
    put_machine(1000, 0, 1000, 0);
    put_pressure("5000000");
}

/* Ten seconds of two cores pass. */
static struct td_cpu_others pass(const char *url, int busy, int steal, int idle, int iowait, const char *waited_us)
{
    struct td_cpu_others o;
    struct td_cpu_watch w;

    td_cpu_watch_begin_at(&w, url, proc, 5000000000);
    put_process(SERVER, "vllm", 1, 200, 50, 30, 20);
    put_process(WORKER, "a ) 9 9", SERVER, 100, 0, 0, 0);
    put_process((int)getpid(), "replay", 1, 40, 10, 0, 0);
    put_machine(1000 + busy, steal, 1000 + idle, iowait);
    if (waited_us)
        put_pressure(waited_us);
    td_cpu_watch_end_at(&w, 15000000000, &o);
    return o;
}

/* ---- tests ------------------------------------------------------------------------------------ */

/* 20 core-seconds, 8 idle: 12 busy; the server took 3, its worker 1, we 0.5, so that others took 7.5, less 0.03 of rounding. */
static void test_others_are_what_is_left(void **state)
{
    struct td_cpu_others o;

    (void)state;
    make_machine("vllm");
    o = pass(URL, 1200, 0, 700, 100, "5900000");
    assert_string_equal(o.unknown, "");
    assert_int_equal(o.of, 2);
    assert_true(fabs(o.cores - 0.747) < 1e-9);
    assert_true(fabs(o.waited - 0.09) < 1e-9);
}

/* Nothing else ran: whole ticks do not make it negative, nor something of nothing. */
static void test_nobody_else(void **state)
{
    struct td_cpu_others o;

    (void)state;
    make_machine("alone");
    o = pass(URL, 452, 0, 1548, 0, "5000000");
    assert_string_equal(o.unknown, "");
    assert_true(o.cores == 0 && o.waited == 0);
}

/* What the hypervisor gave to another machine is not ours. */
static void test_steal_counts(void **state)
{
    struct td_cpu_others o;

    (void)state;
    make_machine("stolen");
    o = pass(URL, 450, 600, 950, 0, "5000000");
    assert_true(fabs(o.cores - 0.597) < 1e-9);
}

static void test_without_pressure_it_is_not_known_who_waited(void **state)
{
    struct td_cpu_others o;
    char path[300];

    (void)state;
    make_machine("old-kernel");
    snprintf(path, sizeof path, "%s/pressure/cpu", proc);
    unlink(path);
    o = pass(URL, 1200, 0, 800, 0, NULL);
    assert_string_equal(o.unknown, "");
    assert_true(o.cores > 0.7 && o.waited < 0);
}

/* Not known is never nothing: each cause is named. */
static void test_unknown(void **state)
{
    char path[300];

    (void)state;
    make_machine("far");
    assert_string_equal(pass("http://10.0.0.7:8000", 1200, 0, 800, 0, NULL).unknown, "the server is on another machine");
    make_machine("port");
    assert_string_equal(pass("http://127.0.0.1:9", 1200, 0, 800, 0, NULL).unknown, "no process of this machine listens on the server's port");
    make_machine("hidden");
    assert_string_equal(pass("http://localhost:8001", 1200, 0, 800, 0, NULL).unknown, "the server's process is hidden from us (a container?)");
    make_machine("docker-proxy");
    assert_string_equal(pass(URL, 1200, 0, 800, 0, NULL).unknown, "docker-proxy answers for the server, whose process is not known");
    make_machine("still"); /* a file that counts nothing, as of a sandbox */
    assert_non_null(strstr(pass(URL, 0, 0, 0, 0, NULL).unknown, "does not count this machine's time"));
    make_machine("none");
    snprintf(path, sizeof path, "%s/stat", proc);
    unlink(path);
    assert_non_null(strstr(pass(URL, 1200, 0, 800, 0, NULL).unknown, "does not tell how busy"));
}

/* The server ended meanwhile: what it took is not known any more. */
static void test_a_server_that_ended(void **state)
{
    struct td_cpu_others o;
    struct td_cpu_watch w;

    (void)state;
    make_machine("ended");
    td_cpu_watch_begin_at(&w, URL, proc, 0);
    put("net/tcp", "  sl\n");
    td_cpu_watch_end_at(&w, 10000000000, &o);
    assert_string_equal(o.unknown, "no process of this machine listens on the server's port");
}

/* With the kernel's own files, whatever they say, there is an answer within bounds. */
static void test_this_machine(void **state)
{
    struct td_cpu_others o;
    struct td_cpu_watch w;

    (void)state;
    td_cpu_watch_begin(&w, "http://127.0.0.1:1");
    td_cpu_watch_end(&w, &o);
    assert_true(*o.unknown || (o.cores >= 0 && o.cores <= o.of));
}

static void test_ports(void **state)
{
    (void)state;
    assert_int_equal(td_local_port("http://127.0.0.1:8000/v1"), 8000);
    assert_int_equal(td_local_port("https://localhost"), 443);
    assert_int_equal(td_local_port("http://[::1]:81"), 81);
    assert_int_equal(td_local_port("localhost:82"), 82);
    assert_int_equal(td_local_port("http://example.com:8000"), 0);
}

/* A process that stops itself and, once it goes on, takes 0.2 s of CPU time and stops again. */
static pid_t start_spinner(void)
{
    const pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        raise(SIGSTOP);
        while (clock() < CLOCKS_PER_SEC / 5)
            ;
        raise(SIGSTOP);
        _exit(0);
    }
    return pid;
}

/* Two servers take turns. What the other one and its client do is not another program's; what the other one does in our turn slows
 * our server, and is. */
static void test_another_server_in_turn(void **state)
{
    const pid_t other = start_spinner(), client = 700004;
    struct td_cpu_others o;
    struct td_cpu_watch w;
    char path[400];
    int status;

    (void)state;
    make_machine("turns");
    put_process((int)other, "vllm", 1, 0, 0, 0, 0);
    put_process((int)client, "replay", 1, 0, 0, 0, 0);
    snprintf(path, sizeof path, "%d/fd", (int)other);
    make_folder(path);
    snprintf(path, sizeof path, "%s/%d/fd/5", proc, (int)other);
    assert_int_equal(symlink("socket:[4712]", path), 0);
    assert_int_equal(waitpid(other, &status, WUNTRACED), other);
    td_cpu_watch_begin_beside_at(&w, URL, "http://127.0.0.1:8001", client, proc, 5000000000);
    td_cpu_watch_turn_at(&w, true, 6000000000);
    kill(other, SIGCONT);
    assert_int_equal(waitpid(other, &status, WUNTRACED), other);
    td_cpu_watch_turn_at(&w, false, 8000000000);
    td_cpu_watch_turn_at(&w, true, 9000000000);
    td_cpu_watch_turn_at(&w, false, 11000000000); /* it does nothing in that one */
    put_process((int)other, "vllm", 1, 300, 0, 0, 0);
    put_process((int)client, "replay", 1, 50, 0, 0, 0);
    put_machine(1350, 0, 2650, 0);
    td_cpu_watch_end_at(&w, 15000000000, &o);
    kill(other, SIGKILL);
    waitpid(other, &status, 0);
    assert_string_equal(o.unknown, "");
    /* 20 core-seconds, 16.5 idle, 3.5 of the other server and its client: nobody else. 0.2 s, more or less, in 4 s of turns */
    assert_true(o.cores > 0.045 && o.cores < 0.08);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_are_what_is_left), cmocka_unit_test(test_nobody_else),
        cmocka_unit_test(test_steal_counts),            cmocka_unit_test(test_without_pressure_it_is_not_known_who_waited),
        cmocka_unit_test(test_unknown),                 cmocka_unit_test(test_a_server_that_ended),
        cmocka_unit_test(test_another_server_in_turn),
        cmocka_unit_test(test_this_machine),            cmocka_unit_test(test_ports),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
