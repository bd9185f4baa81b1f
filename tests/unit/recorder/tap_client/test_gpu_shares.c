/* test_gpu_shares.c - the share of kernels in the GPU's time, added up over the processes of a server.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/json.h"
#include "recorder/tap_client/gpu_shares.h"

#define MOE "fused_moe_kernel"
#define GEMM "_ZN7marlin3fooE_Marlin_gemm"
#define FLASH "flash_fwd_kernel"

/* A process whose tap answers what a test says. */
struct process {
    struct client_tap tap;
    int fd;                            /* its end */
    pthread_t thread;
    const char *refuses;
    struct tap_msg end, kernel[4];     /* replies */
};

static void *answer(void *arg)
{
    struct process *p = arg;
    struct tap_msg m, r;

    while (recv(p->fd, &m, sizeof m, 0) > 0) {
        memset(&r, 0, sizeof r);
        if (m.mode == TAP_TIMES_END)
            r = p->end;
        if (m.mode == TAP_TIMES_GET)
            r = p->kernel[m.number % 4];
        r.magic = TAP_MAGIC, r.version = TAP_VERSION, r.type = TAP_REPLY;
        if (p->refuses) {
            r.status = TAP_REFUSED;
            snprintf(r.text, sizeof r.text, "%s", p->refuses);
        }
        if (send(p->fd, &r, sizeof r, MSG_NOSIGNAL) < 0)
            break;
    }
    return NULL;
}

static void start(struct process *p)
{
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
    p->tap.fd = fd[0], p->fd = fd[1];
    p->tap.pid = 7;
    assert_int_equal(pthread_create(&p->thread, NULL, answer, p), 0);
}

static void stop(struct process *p)
{
    close(p->tap.fd);
    pthread_join(p->thread, NULL);
    close(p->fd);
}

static void say(struct process *p, const char *name, uint64_t ns, enum tap_seen seen)
{
    struct tap_msg *m = &p->kernel[p->end.number++];

    m->launches = 2, m->time_ns = ns, m->mode = seen;
    memcpy(m->kernel, name, strlen(name) + 1);
    p->end.launches += 2, p->end.time_ns += ns;
    p->end.window_ns = 500000000;
}

/* Ask the process, and add. */
static void add(struct client_shares *s, struct process *p)
{
    start(p);
    if (client_shares_begin(s, &p->tap, 500))
        client_shares_end(s, &p->tap);
    client_shares_sort(s);
    stop(p);
}

static void two_processes_are_one_sum(void **state)
{
    struct process p = {.end.lost = 1}, q = {.end.lost = 2};
    struct client_shares s = {0};
    struct td_tap_client_gpu_time t;

    (void)state;
    say(&p, GEMM, 600, TAP_SEEN_RECORDED);
    say(&p, MOE, 100, TAP_SEEN_NOT);
    say(&p, FLASH, 50, TAP_SEEN_NOT);
    say(&q, GEMM, 200, TAP_SEEN_RECORDED);
    say(&q, MOE, 50, TAP_SEEN_NOT);
    add(&s, &p);
    add(&s, &q);
    client_shares_state(&s, &t);
    assert_true(t.asked);
    assert_string_equal(t.why, "");
    assert_int_equal(t.ns, 1000);
    assert_int_equal(t.launches, 10);
    assert_int_equal(t.lost, 3);
    assert_int_equal(t.recorded_ns, 800);
    assert_int_equal(t.attention_ns, 50);
    assert_int_equal(t.window_ns, 500000000);
    assert_string_equal(t.unread, "fused_moe_kernel 15.0 %");
    assert_string_equal(t.unknown, "");
    assert_string_equal(s.all[0].symbol, GEMM);
    client_shares_release(&s);
}

/* Recorded in one process, and not in another: it is not known. So is what had no room. */
static void processes_that_differ_know_nothing(void **state)
{
    struct process p = {.fd = 0}, q = {.fd = 0};
    struct client_shares s = {0};
    struct td_tap_client_gpu_time t;

    (void)state;
    say(&p, GEMM, 600, TAP_SEEN_RECORDED);
    say(&q, GEMM, 200, TAP_SEEN_NOT);
    say(&q, "", 200, TAP_SEEN_RECORDED);
    add(&s, &p);
    add(&s, &q);
    client_shares_state(&s, &t);
    assert_int_equal(t.recorded_ns, 0);
    assert_string_equal(t.unread, "");
    assert_non_null(strstr(t.unknown, " 80.0 %"));
    assert_int_equal(s.n, 2);
    client_shares_release(&s);
}

static void why_not_is_what_the_tap_says(void **state)
{
    struct process p = {.refuses = "CUPTI is in use by Nsight"}, q = {.fd = 0};
    struct client_shares s = {0};
    struct td_tap_client_gpu_time t;

    (void)state;
    say(&q, GEMM, 200, TAP_SEEN_RECORDED);
    add(&s, &p);
    add(&s, &q);
    client_shares_state(&s, &t);
    assert_string_equal(t.why, "CUPTI is in use by Nsight");
    assert_int_equal(t.recorded_ns, 200);
    client_shares_release(&s);
}

/* A process may say anything. */
static void nonsense_is_refused(void **state)
{
    struct process p;
    struct client_shares s;
    int i;

    (void)state;
    for (i = 0; i < 5; i++) {
        memset(&p, 0, sizeof p);
        memset(&s, 0, sizeof s);
        say(&p, GEMM, 100, TAP_SEEN_NOT);
        switch (i) {
        case 0: p.end.number = TAP_TIMES_KERNELS + 1; break;
        case 1: p.end.time_ns = UINT64_MAX; break;
        case 2: p.kernel[0].launches = (uint64_t)1 << 60; break;
        case 3: p.kernel[0].mode = TAP_SEEN_NOT + 1; break;
        case 4: memset(p.kernel[0].kernel, 'x', sizeof p.kernel[0].kernel); break;
        }
        add(&s, &p);
        assert_string_equal(s.why, "process 7: the tap tells times that make no sense");
        assert_int_equal(s.n, 0);
        assert_int_equal(s.ns, 0);
        client_shares_release(&s);
    }
}

static void the_manifest_has_all(void **state)
{
    struct process p = {.end.lost = 4};
    struct client_shares s = {0};
    struct td_error err = {0};
    char root[] = "/tmp/td-shares-XXXXXX", dir[64];
    const cJSON *t, *k;
    struct td_fixture *fx;
    struct td_writer *w;

    (void)state;
    say(&p, FLASH, 1000000, TAP_SEEN_NOT);
    say(&p, GEMM, 3000000, TAP_SEEN_RECORDED);
    add(&s, &p);
    assert_non_null(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/fx", root);
    assert_int_equal(td_writer_create(dir, &(struct td_writer_options){.tool = "test"}, &w, &err), 0);
    client_shares_facts(&s, w);
    client_shares_release(&s);
    assert_int_equal(td_writer_close(w, "complete", &err), 0);
    assert_int_equal(td_fixture_open(dir, &fx, &err), 0);
    t = td_json_get(td_json_get(td_fixture_manifest(fx), "tap"), "gpu_time");
    assert_int_equal(td_json_get_i64(t, "ms", -1), 4);
    assert_int_equal(td_json_get_i64(t, "lost", -1), 4);
    assert_int_equal(td_json_get_i64(t, "window_ms", -1), 500);
    k = cJSON_GetArrayItem(td_json_get(t, "kernels"), 0);
    assert_string_equal(td_json_get_str(k, "symbol", ""), GEMM);
    assert_string_equal(td_json_get_str(k, "seen", ""), "recorded");
    assert_int_equal(td_json_get_i64(k, "launches", -1), 2);
    k = cJSON_GetArrayItem(td_json_get(t, "kernels"), 1);
    assert_string_equal(td_json_get_str(k, "seen", ""), "not recorded");
    td_fixture_close(fx);
    td_fs_remove_tree(root, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_processes_are_one_sum),
        cmocka_unit_test(processes_that_differ_know_nothing),
        cmocka_unit_test(why_not_is_what_the_tap_says),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(the_manifest_has_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
