/* test_tap_torch_arms.c - operators of torch are called by four threads while the tap is armed and
 * disarmed some hundred times, and while recorders are killed at any moment: every answer stays,
 * nothing is left behind, and the tap sleeps again.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The tap and the recorder that arms it are this process. A recorder that is killed is another one:
 * this program, with the server's pid as its argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "format/fixture.h"
#include "recorder/tap_client/tap_client.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/torch/torch_operators.h"
#include "tests/helpers/fake_torch.h"
#include "fake_torch_lib.h"

enum { ARMS = 300, WARM_ARMS = 50, KILLS = 25, FORKS = 20, LOAD_THREADS = 4, EXACT_CALLS = 100 };
/* What the recorder's own tables may take of the heap; a leak of 1 KiB in each arm is more. */
#define HEAP_GROWTH (200 * 1024)

/* The tap's, as a library of operators sees them. */
td_torch_init aoti_torch_library_init_fragment;
td_torch_init_impl aoti_torch_library_init_impl;
td_torch_def aoti_torch_library_def;
td_torch_impl_version torch_library_impl;

static char root[] = "/tmp/td-arms-XXXXXX";
static fake_torch_call_fn *call;
static _Atomic bool stop;
static _Atomic int64_t wrong, answers;
static pthread_t loaders[LOAD_THREADS];
static uint16_t memory[24];
static struct fake_torch_tensor a = {.ndim = 2,
                                     .sizes = {3, 8},
                                     .strides = {8, 1},
                                     .dtype = TD_TORCH_F16,
                                     .device = TD_TORCH_CUDA,
                                     .data = memory};

/* ---- the server ------------------------------------------------------------------------------ */

/* add(Tensor a, int n) -> int */
static void add(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    td_torch_value n = stack[1];

    (void)n_results;
    memset(stack, 0xee, n_args * sizeof *stack);
    stack[0] = n + 1;
}

/* outer(Tensor a, int n) -> int, by another operator */
static void outer(td_torch_value *stack, uint64_t n_args, uint64_t n_results)
{
    (void)n_args, (void)n_results;
    call("busy::add", "CUDA", stack, 2, 1);
}

static void call_both(uint64_t n)
{
    static const char *const names[] = {"busy::add", "busy::outer"};
    int i;

    for (i = 0; i < 2; i++) {
        td_torch_value stack[2] = {(uintptr_t)&a, n};

        if (call(names[i], "CUDA", stack, 2, 1) || stack[0] != n + 1)
            atomic_fetch_add(&wrong, 1);
        atomic_fetch_add(&answers, 1);
    }
}

static void *load(void *unused)
{
    uint64_t n = 0;

    while (!atomic_load(&stop)) {
        call_both(n++);
        if (n % 64 == 0)
            usleep(100);              /* the other threads of a small machine want to run too */
    }
    return unused;
}

static void start_load(void)
{
    int i;

    atomic_store(&stop, false);
    for (i = 0; i < LOAD_THREADS; i++)
        assert_int_equal(pthread_create(&loaders[i], NULL, load, NULL), 0);
}

static void end_load(void)
{
    int i;

    atomic_store(&stop, true);
    for (i = 0; i < LOAD_THREADS; i++)
        pthread_join(loaders[i], NULL);
}

static struct tap_torch_operator *operator_add(void)
{
    unsigned i;

    for (i = 0; i < tap_torch_operator_count(); i++)
        if (!strcmp(tap_torch_operator_at(i)->name, "busy::add"))
            return tap_torch_operator_at(i);
    fail();
    return NULL;
}

static int setup(void **state)
{
    char path[512];
    td_torch_library def, cuda;
    void *lib;

    (void)state;
    if (!mkdtemp(root))
        return -1;
    snprintf(path, sizeof path, "%s/run", root);
    setenv("TD_TAP_DIR", path, 1);
    lib = fake_torch_lib();
    if (!lib)
        return -1;
    *(void **)&call = dlsym(lib, "fake_torch_call");
    if (!call || aoti_torch_library_init_fragment("busy", "f.cpp", 1, &def) ||
        aoti_torch_library_def(def, "add(Tensor a, int n) -> int") ||
        aoti_torch_library_def(def, "outer(Tensor a, int n) -> int") ||
        aoti_torch_library_init_impl("busy", "CUDA", "f.cpp", 2, &cuda) ||
        torch_library_impl(cuda, "add", add, 1) || torch_library_impl(cuda, "outer", outer, 1))
        return -1;
    call_both(0);                     /* the first call starts the tap's thread */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(root, NULL);
}

/* ---- recorders ------------------------------------------------------------------------------- */

struct recorder { struct td_writer *writer; struct td_tap_client *client; };

/* Connect to the tap of a process. The tap lets go of a recorder that was killed when its heartbeat
 * has stood still; until then there is another recorder. */
static void open_recorder(struct recorder *r, pid_t pid, const char *name, int tries)
{
    struct td_error err = {0};
    char path[64];
    int rc = TD_EEXIST;

    snprintf(path, sizeof path, "%s/%s", root, name);
    if (td_writer_create(path, &(struct td_writer_options){.tool = "record"}, &r->writer, &err))
        fail_msg("%s", err.msg);
    while (rc == TD_EEXIST && tries-- > 0) {
        memset(&err, 0, sizeof err);
        rc = td_tap_client_open(
            &(struct td_tap_client_target){.pid = pid, .wait_ms = 3000},
            &(struct td_tap_client_options){.writer = r->writer, .ring_bytes = 1 << 20},
            &r->client, &err);
        if (rc == TD_EEXIST)
            usleep(100000);
    }
    if (rc)
        fail_msg("%s", err.msg);
}

static void arm(struct recorder *r)
{
    struct td_error err = {0};

    if (td_tap_client_arm(r->client,
                          &(struct td_tap_client_mode){.steps = TD_TAP_CLIENT_ALL,
                                                       .budget_bytes_per_s = -1},
                          &err))
        fail_msg("%s", err.msg);
}

static void disarm(struct recorder *r)
{
    struct td_error err = {0};

    if (td_tap_client_disarm(r->client, &err))
        fail_msg("%s", err.msg);
}

static void close_recorder(struct recorder *r)
{
    struct td_error err = {0};

    if (td_tap_client_close(r->client, &err) || td_writer_close(r->writer, "complete", &err))
        fail_msg("%s", err.msg);
}

/* What the tap counts while nothing else calls is exact. */
static void check_exact_count(struct recorder *r)
{
    uint64_t before = atomic_load(&operator_add()->calls);
    int i;

    arm(r);
    for (i = 0; i < EXACT_CALLS; i++)
        call_both((uint64_t)i);
    disarm(r);
    call_both(0);                     /* asleep */
    assert_int_equal(atomic_load(&operator_add()->calls) - before, 2 * EXACT_CALLS);
}

/* ---- what is left behind --------------------------------------------------------------------- */

struct left { int fds, maps, threads; size_t heap; };

static int count_entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;

    while (d && readdir(d))
        n++;
    closedir(d);
    return n;
}

static struct left look(void)
{
    struct left l = {.fds = count_entries("/proc/self/fd"),
                     .threads = count_entries("/proc/self/task")};
    FILE *f = fopen("/proc/self/maps", "r");
    char line[4096];

    while (fgets(line, sizeof line, f))
        l.maps += strstr(line, "memfd:") != NULL; /* shared with a recorder */
    fclose(f);
    l.heap = mallinfo2().uordblks;    /* 0 under a sanitizer, which looks for leaks itself */
    return l;
}

/* Wait until it is as before: what a killed recorder leaves is taken back within its heartbeat. */
static void check_nothing_left(const struct left *before)
{
    struct left now = look();
    int tries;

    for (tries = 0; tries < 200 && (now.fds > before->fds || now.maps > before->maps ||
                                    now.threads > before->threads);
         tries++) {
        usleep(50000);
        now = look();
    }
    assert_true(now.fds <= before->fds);
    assert_true(now.maps <= before->maps);
    assert_true(now.threads <= before->threads);
    assert_true(now.heap <= before->heap + HEAP_GROWTH);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void arms_under_load(void **state)
{
    struct left before = {0};
    struct recorder r = {0};
    int i;

    (void)state;
    open_recorder(&r, getpid(), "arms", 1);
    start_load();
    for (i = 0; i < ARMS; i++) {
        if (i == WARM_ARMS)
            before = look();
        arm(&r);
        usleep(i % 7 * 300);
        disarm(&r);
    }
    check_nothing_left(&before);
    end_load();
    check_exact_count(&r);
    close_recorder(&r);
    assert_int_equal(atomic_load(&wrong), 0);
}

/* A child of the armed server computes as its parent does, and counts nothing of its parent's. */
static void children_of_forks_compute(void **state)
{
    struct recorder r = {0};
    uint64_t counted;
    int i, status;

    (void)state;
#ifdef __SANITIZE_THREAD__
    skip();                           /* it ends a child that starts a thread, as the tap does */
#endif
    open_recorder(&r, getpid(), "forks", 100);
    arm(&r);
    call_both(0);
    counted = atomic_load(&operator_add()->calls);
    for (i = 0; i < FORKS; i++) {
        pid_t child = fork();

        if (!child) {
            alarm(20);
            call_both((uint64_t)i);
            call_both((uint64_t)i);
            _exit(atomic_load(&wrong) != 0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    assert_true(tap_armed());
    assert_int_equal(atomic_load(&operator_add()->calls), counted);
    disarm(&r);
    check_exact_count(&r);
    close_recorder(&r);
}

static pid_t start_recorder(void)
{
    char pid[16];
    pid_t child;

    snprintf(pid, sizeof pid, "%d", getpid());
    child = fork();
    if (!child) {
        execl("/proc/self/exe", "test_tap_torch_arms", pid, root, (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    return child;
}

static void recorders_are_killed_under_load(void **state)
{
    struct tap_torch_operator *o = operator_add();
    struct recorder r = {0};
    struct left before;
    unsigned seed = 12345;
    int i, armed = 0, tries;

    (void)state;
    start_load();
    before = look();
    for (i = 0; i < KILLS; i++) {
        const uint64_t counted = atomic_load(&o->calls);
        pid_t child = start_recorder();

        /* every other one at once, the rest when it has armed the tap, or soon after */
        for (tries = 0; i % 2 && tries < 500 && !tap_armed(); tries++)
            usleep(10000);
        seed = seed * 1664525u + 1013904223u;
        usleep(seed >> 16 & 0x7fff);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        armed += atomic_load(&o->calls) > counted;
    }
    assert_true(armed >= KILLS / 4);  /* else nothing was tried */
    for (tries = 0; tries < 1000 && tap_armed(); tries++)
        usleep(10000);
    assert_false(tap_armed());
    check_nothing_left(&before);
    {   /* the tap sleeps: operators are called, and none is looked at */
        const uint64_t counted = atomic_load(&o->calls);
        const int64_t answered = atomic_load(&answers);

        for (tries = 0; tries < 1000 && atomic_load(&answers) < answered + 1000; tries++)
            usleep(10000);
        assert_true(atomic_load(&answers) >= answered + 1000);
        assert_int_equal(atomic_load(&o->calls), counted);
    }
    end_load();
    open_recorder(&r, getpid(), "after", 100);
    check_exact_count(&r);
    close_recorder(&r);
    assert_int_equal(atomic_load(&wrong), 0);
}

/* A recorder that arms the tap of a process and waits to be killed. */
_Noreturn static void be_recorder(pid_t pid, const char *folder)
{
    struct recorder r = {0};
    char name[32];

    snprintf(root, sizeof root, "%s", folder);
    snprintf(name, sizeof name, "killed-%d", getpid());
    open_recorder(&r, pid, name, 100);
    arm(&r);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(arms_under_load),
                                       cmocka_unit_test(children_of_forks_compute),
                                       cmocka_unit_test(recorders_are_killed_under_load)};

    if (argc == 3)
        be_recorder((pid_t)atoi(argv[1]), argv[2]);
    return cmocka_run_group_tests_name("tap_torch_arms", tests, setup, teardown);
}
