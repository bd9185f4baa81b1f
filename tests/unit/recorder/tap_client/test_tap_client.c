/* test_tap_client.c - the tap in real processes (tests/helpers/gemm_host.c), the recorder's end beside it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/proc.h"
#include "format/fixture.h"
#include "recorder/tap_client/request_ids.h"
#include "recorder/tap_client/server_env.h"
#include "recorder/tap_client/tap_client.h"
#include "recorder/tap/core/tap_proto.h"

enum { LAYERS = 3, K = 64 };

static char root[] = "/tmp/td-tap-XXXXXX";
static char runtime[128], nonce[TD_TAP_CLIENT_NONCE], tap_path[TD_PATH_MAX];
static int turn;

static int setup(void **state)
{
    const char *lib = getenv("LIB");

    (void)state;
    if (!mkdtemp(root))
        return -1;
    snprintf(runtime, sizeof runtime, "%s/run", root);
    snprintf(tap_path, sizeof tap_path, "%s/libtapedeck-tap.so", lib ? lib : "lib");
    setenv("TD_TAP_LIBRARY", tap_path, 1);
    setenv("TD_TAP_DIR", runtime, 1);
    unsetenv("LD_PRELOAD");
    td_tap_client_nonce(nonce);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(root, NULL);
}

static const char *helper(const char *name)
{
    static char out[4][512];
    const char *o = getenv("O");
    char *p = out[turn++ & 3];

    snprintf(p, 512, "%s/tests/helpers/%s", o ? o : "build", name);
    return p;
}

static const char *fresh_dir(void)
{
    static char out[256];
    static int n;

    snprintf(out, sizeof out, "%s/fixture-%d", root, n++);
    return out;
}

/* ---- the host ------------------------------------------------------------------------------------------------------ */

struct host { struct td_proc p; int in, out; long calls, wrong; };

static void must(int rc, const struct td_error *err)
{
    if (rc)
        fail_msg("%s: %s", td_code_name(rc), err->msg);
}

static void host_start_with(struct host *h, const char *module, const char *scope)
{
    char *argv[] = {(char *)helper("gemm_host"), (char *)helper(module), (char *)scope, nonce, NULL};
    struct td_tap_client_env env;
    struct td_error err = {0};
    int in[2], out[2];

    memset(h, 0, sizeof *h);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    must(td_tap_client_env_make(argv[0], &env, &err), &err);
    must(td_proc_start(&h->p, &(struct td_proc_options){.argv = argv, .extra_env = env.vars, .stdin_fd = in[0], .stdout_fd = out[1], .stderr_fd = -1}, &err), &err);
    td_tap_client_env_release(&env);
    close(in[0]);
    close(out[1]);
    h->in = in[1];
    h->out = out[0];
}

static void host_start(struct host *h)
{
    host_start_with(h, "lib_stub_kernels.so", "global");
}

/* The answer, or false when there is none within 20 s or the host is gone. */
static bool host_answer(struct host *h)
{
    char line[128];
    size_t n = 0;

    while (n < sizeof line - 1) {
        struct pollfd p = {h->out, POLLIN, 0};

        if (poll(&p, 1, 20000) <= 0 || read(h->out, line + n, 1) != 1)
            return false;
        if (line[n++] == '\n')
            break;
    }
    line[n] = '\0';
    return sscanf(line, "ok %ld %ld", &h->calls, &h->wrong) == 2;
}

static void host_say(struct host *h, const char *what)
{
    assert_int_equal(write(h->in, what, strlen(what)), strlen(what));
    assert_int_equal(write(h->in, "\n", 1), 1);
}

static void host_do(struct host *h, const char *what)
{
    host_say(h, what);
    if (!host_answer(h))
        fail_msg("the host does not answer \"%s\"", what);
    assert_int_equal(h->wrong, 0);
}

static void host_end(struct host *h)
{
    struct td_error err = {0};

    if (h->p.pid > 0 && write(h->in, "quit\n", 5) == 5 && !td_proc_wait(&h->p, 10000, &err)) {
        assert_true(WIFEXITED(h->p.status));
        assert_int_equal(WEXITSTATUS(h->p.status), 0);
    }
    td_proc_end(&h->p, 100);
    close(h->in);
    close(h->out);
}

/* ---- the recorder -------------------------------------------------------------------------------------------------- */

struct tape { char dir[256]; struct td_writer *w; struct td_tap_client *l; };

static const struct td_tap_client_mode everything = {.steps = TD_TAP_CLIENT_ALL, .budget_bytes_per_s = -1};

static void tape_open(struct tape *t, struct host *h, struct td_tap_client_options opt)
{
    struct td_error err = {0};

    snprintf(t->dir, sizeof t->dir, "%s", fresh_dir());
    must(td_writer_create(t->dir, &(struct td_writer_options){.tool = "record"}, &t->w, &err), &err);
    opt.writer = t->w;
    opt.nonce = nonce;
    must(td_tap_client_open(&(struct td_tap_client_target){.pid = h->p.pid, .wait_ms = 3000}, &opt, &t->l, &err), &err);
}

static void tape_arm(struct tape *t, const struct td_tap_client_mode *m)
{
    struct td_error err = {0};

    must(td_tap_client_arm(t->l, m, &err), &err);
}

static void wait_for_ops(struct tape *t)
{
    struct td_tap_client_state s = {0};
    int i;

    for (i = 0; i < 1000 && !s.ops_kept; i++) {
        td_tap_client_state(t->l, &s);
        td_clock_sleep_until(td_clock_mono_ns() + 10 * TD_NS_PER_MS);
    }
    assert_true(s.ops_kept > 0);
}

struct content { struct td_fixture *fx; struct td_op *ops; struct td_step *steps; size_t n_ops, n_steps; };

static int64_t ledger(const struct content *c, const char *name)
{
    return td_fixture_ledger(c->fx, name);
}

static int64_t sum_of(const struct content *c, const char *what, const char *const *why)
{
    char name[64];
    int64_t sum;

    snprintf(name, sizeof name, "%s.kept", what);
    sum = ledger(c, name);
    for (; *why; why++) {
        snprintf(name, sizeof name, "%s.dropped.%s", what, *why);
        sum += ledger(c, name);
    }
    return sum;
}

static void tape_read(struct tape *t, struct content *c)
{
    static const char *const ops[] = {"sampling", "budget", "ring", "threads", "weights", "partial", "failed", "recorder", NULL};
    static const char *const steps[] = {"sampling", "budget", "ring", "threads", "recorder", NULL};
    struct td_error err = {0};
    size_t bad = 0;

    must(td_fixture_open(t->dir, &c->fx, &err), &err);
    must(td_fixture_ops(c->fx, &c->ops, &c->n_ops, &bad, &err), &err);
    must(td_fixture_steps(c->fx, &c->steps, &c->n_steps, &bad, &err), &err);
    assert_int_equal(bad, 0);
    assert_int_equal(c->n_ops, ledger(c, "ops.kept"));
    assert_int_equal(c->n_steps, ledger(c, "steps.kept"));
    assert_int_equal(ledger(c, "ops.seen"), sum_of(c, "ops", ops)); /* nothing is lost in silence */
    assert_int_equal(ledger(c, "steps.seen"), sum_of(c, "steps", steps));
    assert_int_equal(ledger(c, "links.corrupt"), 0);
}

static void tape_close(struct tape *t, struct content *c)
{
    struct td_error err = {0};

    td_tap_client_facts(t->l, t->w, NULL);
    must(td_tap_client_close(t->l, &err), &err);
    must(td_writer_close(t->w, "complete", &err), &err);
    tape_read(t, c);
}

static void content_free(struct content *c)
{
    td_ops_free(c->ops, c->n_ops);
    td_steps_free(c->steps, c->n_steps);
    td_fixture_close(c->fx);
}

static uint16_t *blob16(const struct content *c, const struct td_tensor_rec *t, size_t *n)
{
    struct td_error err = {0};
    void *data;

    assert_non_null(t);
    assert_true(t->stored);
    must(td_fixture_blob(c->fx, t->blob, UINT64_MAX, &data, n, &err), &err);
    *n /= 2;
    return data;
}

/* Recorded A and C and weights belong together: the stub's formula holds for them. */
static void check_op(const struct content *c, const struct td_op *op)
{
    int64_t m = td_json_get_i64(op->attrs, "m", -1), n = td_json_get_i64(op->attrs, "n", -1), i, j;
    const struct td_tensor_rec *ra = td_op_rec_in(op, "a");
    size_t na, nc, nw;
    uint16_t *a = blob16(c, ra, &na), *out = blob16(c, &op->out, &nc), *w = blob16(c, td_op_rec_in(op, "qweight"), &nw);

    assert_int_equal(ra->shape[0], m);
    assert_int_equal(ra->shape[1], K);
    assert_int_equal(ra->strides[0], K);
    assert_int_equal(na, m * K);
    assert_int_equal(nc, m * n);
    assert_int_equal(nw, K / 8 * n * 2);
    for (i = 0; i < m * K; i++)
        assert_int_equal(a[i], (uint16_t)(a[0] + i));
    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++)
            assert_int_equal(out[i * n + j], (uint16_t)(a[i * K + j % K] + w[2 * j]));
    free(a);
    free(out);
    free(w);
}

/* ---- tests --------------------------------------------------------------------------------------------------------- */

static void test_ids(void **state)
{
    char id[TD_TAP_CLIENT_ID], long_id[128];

    (void)state;
    td_tap_client_request_id("00ff00ff00ff00ff", 4294967295u, id);
    assert_string_equal(id, "td-00ff00ff00ff00ff-4294967295");
    snprintf(long_id, sizeof long_id, "cmpl-%s-0", id);
    assert_int_equal(td_tap_client_request_stream("00ff00ff00ff00ff", long_id), 4294967295);
    assert_int_equal(td_tap_client_request_stream("00ff00ff00ff00ff", "cmpl-td-00ff00ff00ff00ff-7"), 7);
    assert_int_equal(td_tap_client_request_stream("00ff00ff00ff00ff", "cmpl-td-00ff00ff00ff00fe-7"), -1);
    assert_int_equal(td_tap_client_request_stream("00ff00ff00ff00ff", "td-00ff00ff00ff00ff-4294967296"), -1);
    assert_int_equal(td_tap_client_request_stream("00ff00ff00ff00ff", "td-00ff00ff00ff00ff-7x"), -1);
    assert_int_equal(td_tap_client_request_stream("00ff00ff00ff00ff", "td-00ff00ff00ff00ff-"), -1);
    assert_int_equal(td_tap_client_request_stream("00ff00ff00ff00ff", ""), -1);
}

static void test_env(void **state)
{
    struct td_buf lines = TD_BUF_INIT(1 << 16);
    struct td_tap_client_env env;
    struct td_error err = {0};
    struct stat st;

    (void)state;
    setenv("LD_PRELOAD", "libother.so", 1);
    must(td_tap_client_env_make("/bin/true", &env, &err), &err);
    assert_non_null(strstr(env.vars[0], "libtapedeck-tap.so:libother.so"));
    assert_string_equal(env.vars[1] + strlen("TD_TAP_DIR="), runtime);
    assert_int_equal(stat(runtime, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    td_tap_client_env_release(&env);
    must(td_tap_client_env_print(64, &lines, &err), &err);
    assert_non_null(strstr(lines.data, "export LD_PRELOAD='"));
    assert_non_null(strstr(lines.data, "export TD_TAP_DIR='"));
    assert_non_null(strstr(lines.data, "export TD_TAP_GRAPHS='64'"));
    td_buf_release(&lines);
    unsetenv("LD_PRELOAD");

    chmod(runtime, 0755);             /* not ours alone: refused */
    assert_int_equal(td_tap_client_env_make("/bin/true", &env, &err), TD_EIO);
    chmod(runtime, 0700);
    td_error_clear(&err);
    setenv("TD_TAP_LIBRARY", "/nonexistent/libtapedeck-tap.so", 1);
    assert_int_equal(td_tap_client_env_make("/bin/true", &env, &err), TD_ENOTFOUND);
    setenv("TD_TAP_LIBRARY", tap_path, 1);
}

static void test_everything(void **state)
{
    struct host h;
    struct tape t;
    struct content c;
    size_t i;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){0});
    host_do(&h, "steps 5 2");         /* asleep: not seen */
    tape_arm(&t, &everything);
    host_do(&h, "steps 20 3");
    assert_int_equal(td_tap_client_disarm(t.l, NULL), 0);
    host_do(&h, "steps 5 2");
    tape_close(&t, &c);

    assert_int_equal(c.n_steps, 20);
    assert_int_equal(c.n_ops, 20 * LAYERS);
    assert_int_equal(ledger(&c, "ops.seen"), 20 * LAYERS);
    assert_int_equal(ledger(&c, "weights.seen"), LAYERS);
    for (i = 0; i < c.n_steps; i++) {
        assert_int_equal(c.steps[i].how, TD_HOW_EXACT);
        assert_int_equal(c.steps[i].step, 6 + i);
        assert_int_equal(c.steps[i].pid, h.p.pid);
        assert_int_equal(c.steps[i].n_spans, 2);
        assert_int_equal(c.steps[i].spans[0].stream, 6 + i); /* the id that the request carried */
        assert_int_equal(c.steps[i].spans[0].n_rows, 2);
        assert_int_equal(c.steps[i].spans[1].stream, -1);    /* somebody else's */
        assert_int_equal(c.steps[i].spans[1].first_row, 2);
        assert_int_equal(c.steps[i].spans[1].position, 10);
        assert_true(c.steps[i].spans[1].decode);
    }
    for (i = 0; i < c.n_ops; i++) {
        const struct td_op *op = &c.ops[i];

        assert_int_equal(op->op, i);
        assert_int_equal(op->step, 6 + i / LAYERS);
        assert_string_equal(op->kind, "gptq_gemm");
        assert_string_equal(op->impl.symbol, "td_gptq_gemm");
        assert_string_equal(op->impl.build, "stub kernels 1");
        assert_non_null(strstr(op->impl.library, "lib_stub_kernels.so"));
        assert_true(op->impl.duration_ns >= 0);
        assert_int_equal(td_json_get_i64(op->attrs, "act_order", -1), i % LAYERS == 1);
        assert_int_equal(td_json_get_i64(op->attrs, "lda", -1), K + 8);
        assert_int_equal(op->n_in, i % LAYERS == 1 ? 5 : 4);
        assert_true(op->in[1].align >= 16);
        check_op(&c, op);
    }
    assert_true(td_json_get_bool(td_json_get(td_fixture_manifest(c.fx), "tap"), "present", false));
    content_free(&c);
    host_end(&h);
}

static void test_sampling_keeps_whole_steps(void **state)
{
    struct host h;
    struct tape t;
    struct content c;
    size_t i, at = 0;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){0});
    tape_arm(&t, &(struct td_tap_client_mode){.steps = TD_TAP_CLIENT_SAMPLE, .percent = 10, .budget_bytes_per_s = -1});
    host_do(&h, "steps 1000 2");
    host_do(&h, "steps 2 64");        /* a rare size is recorded whatever the window says */
    tape_close(&t, &c);
    assert_int_equal(ledger(&c, "steps.seen"), 1002);
    assert_int_equal(ledger(&c, "ops.seen"), 1002 * LAYERS);
    assert_in_range(c.n_steps, 104, 110); /* 10 %, the first two of either size */
    assert_int_equal(c.n_ops, c.n_steps * LAYERS);
    assert_int_equal(c.steps[c.n_steps - 1].spans[1].first_row, 63);
    for (i = 0; i < c.n_steps; i++)
        for (; at < (i + 1) * LAYERS; at++)
            assert_int_equal(c.ops[at].step, c.steps[i].step);
    content_free(&c);
    host_end(&h);
}

static void test_budget_drops_whole_steps(void **state)
{
    struct host h;
    struct tape t;
    struct content c;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){0});
    tape_arm(&t, &(struct td_tap_client_mode){.steps = TD_TAP_CLIENT_ALL, .budget_bytes_per_s = 100000});
    host_do(&h, "steps 500 16");
    tape_close(&t, &c);
    assert_int_equal(ledger(&c, "steps.seen"), 500);
    assert_true(ledger(&c, "steps.dropped.budget") > 0);
    assert_true(c.n_steps >= 1);
    assert_int_equal(c.n_ops, c.n_steps * LAYERS);
    content_free(&c);
    host_end(&h);
}

/* Steps without rows cost nothing, weights do: an op whose weights the recorder does not have is not kept. */
static void test_weights_over_budget(void **state)
{
    struct host h;
    struct tape t;
    struct content c;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){0});
    tape_arm(&t, &(struct td_tap_client_mode){.steps = TD_TAP_CLIENT_ALL, .budget_bytes_per_s = 10});
    host_do(&h, "steps 2 0");         /* the first brings all weights, and a debt of minutes */
    host_do(&h, "reload");
    host_do(&h, "steps 2 0");
    tape_close(&t, &c);
    assert_int_equal(c.n_steps, 4);
    assert_int_equal(c.n_ops, 2 * LAYERS);
    assert_int_equal(ledger(&c, "ops.dropped.weights"), 2 * LAYERS);
    content_free(&c);
    host_end(&h);
}

static void test_ring_too_small(void **state)
{
    struct host h;
    struct tape t;
    struct content c;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){.ring_bytes = 64 << 10});
    tape_arm(&t, &everything);
    host_do(&h, "steps 4 2048");      /* 256 KiB of A alone */
    host_do(&h, "steps 4 2");
    tape_close(&t, &c);
    assert_int_equal(ledger(&c, "ops.dropped.ring"), 4 * LAYERS);
    assert_int_equal(c.n_ops, 4 * LAYERS);
    content_free(&c);
    host_end(&h);
}

static void test_threads(void **state)
{
    struct host h;
    struct tape t;
    struct content c;
    size_t i;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){.rings = 2});
    tape_arm(&t, &everything);
    host_do(&h, "threads 2 50 2");
    host_do(&h, "delay 300");         /* so that all four are there at once */
    host_do(&h, "threads 4 20 2");
    tape_close(&t, &c);
    assert_int_equal(ledger(&c, "ops.seen"), (2 * 50 + 4 * 20) * LAYERS);
    assert_true(ledger(&c, "ops.dropped.threads") > 0);
    assert_true(c.n_ops >= 2 * 50 * LAYERS);
    for (i = 0; i < c.n_ops; i++)
        check_op(&c, &c.ops[i]);
    content_free(&c);
    host_end(&h);
}

static void test_no_steps_and_refused_calls(void **state)
{
    struct host h;
    struct tape t;
    struct content c;

    (void)state;
    host_start(&h);
    host_do(&h, "ops 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){0});
    tape_arm(&t, &everything);
    host_do(&h, "ops 10 2");
    host_do(&h, "bad");
    tape_close(&t, &c);
    assert_int_equal(c.n_ops, 10 * LAYERS);
    assert_int_equal(c.ops[0].step, -1);
    assert_int_equal(ledger(&c, "ops.dropped.failed"), 1);
    content_free(&c);
    host_end(&h);
}

static void test_reload_is_noticed(void **state)
{
    struct host h;
    struct tape t;
    struct content c;
    size_t i;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){0});
    tape_arm(&t, &everything);
    host_do(&h, "steps 3 2");
    host_do(&h, "reload");
    host_do(&h, "steps 3 2");
    tape_close(&t, &c);
    assert_int_equal(ledger(&c, "weights.seen"), 2 * LAYERS);
    for (i = 0; i < c.n_ops; i++)
        check_op(&c, &c.ops[i]);
    content_free(&c);
    host_end(&h);
}

static void test_local_library(void **state)
{
    struct host h;
    struct tape t;
    struct content c;

    (void)state;
    host_start_with(&h, "lib_stub_kernels.so", "local");
    host_do(&h, "steps 3 2");         /* RTLD_NEXT finds nothing there */
    tape_open(&t, &h, (struct td_tap_client_options){0});
    tape_arm(&t, &everything);
    host_do(&h, "steps 3 2");
    tape_close(&t, &c);
    assert_int_equal(c.n_ops, 3 * LAYERS);
    assert_string_equal(c.ops[0].impl.build, "stub kernels 1");
    content_free(&c);
    host_end(&h);
}

static void test_real_function_missing(void **state)
{
    struct host h;

    (void)state;
    host_start_with(&h, "lib_unresolved_kernels.so", "local");
    host_do(&h, "bad");               /* TD_KERNEL_EUNSUPPORTED, not a crash */
    host_do(&h, "bad");
    host_end(&h);
}

static void test_server_killed(void **state)
{
    struct host h;
    struct tape t;
    struct content c;
    struct td_tap_client_state s;
    int i;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){0});
    tape_arm(&t, &everything);
    host_do(&h, "loop 1000000 4");
    wait_for_ops(&t);
    kill(h.p.pid, SIGKILL);
    td_proc_wait(&h.p, 5000, NULL);
    for (i = 0; i < 1000; i++) {
        td_tap_client_state(t.l, &s);
        if (!s.alive)
            break;
        td_clock_sleep_until(td_clock_mono_ns() + 10 * TD_NS_PER_MS);
    }
    assert_int_equal(s.alive, 0);
    assert_int_equal(td_tap_client_disarm(t.l, NULL), 0);
    tape_close(&t, &c);
    assert_int_equal(ledger(&c, "links.lost"), 1);
    assert_true(c.n_ops > 0);
    check_op(&c, &c.ops[c.n_ops - 1]);
    content_free(&c);
    host_end(&h);
}

/* A recorder in a process of its own: connects, arms, reports that and waits for a signal or a byte. */
static pid_t recorder_process(struct host *h, struct tape *t, int go[2])
{
    struct td_error err = {0};
    int ready[2];
    pid_t pid;
    char x;

    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    snprintf(t->dir, sizeof t->dir, "%s", fresh_dir());
    pid = fork();
    if (pid) {
        close(ready[1]);
        assert_int_equal(read(ready[0], &x, 1), 1);
        close(ready[0]);
        return pid;
    }
    if (td_writer_create(t->dir, &(struct td_writer_options){.tool = "record"}, &t->w, &err) ||
        td_tap_client_open(&(struct td_tap_client_target){.pid = h->p.pid, .wait_ms = 3000}, &(struct td_tap_client_options){.writer = t->w, .nonce = nonce}, &t->l, &err) ||
        td_tap_client_arm(t->l, &everything, &err) || write(ready[1], "x", 1) != 1 || read(go[0], &x, 1) != 1 || td_tap_client_close(t->l, &err) ||
        td_writer_close(t->w, "complete", &err)) {
        fprintf(stderr, "recorder process: %s\n", err.msg);
        _exit(1);
    }
    _exit(0);
}

static void test_recorder_killed(void **state)
{
    struct tape t, again;
    struct content c;
    struct host h;
    int go[2], status;
    pid_t pid;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    pid = recorder_process(&h, &t, go);
    host_do(&h, "loop 1000000 4");
    td_clock_sleep_until(td_clock_mono_ns() + 100 * TD_NS_PER_MS);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    host_do(&h, "delay 0");           /* the server runs on */
    tape_open(&again, &h, (struct td_tap_client_options){0}); /* the tap let go: it can be linked within 3 s */
    tape_arm(&again, &everything);
    wait_for_ops(&again);
    tape_close(&again, &c);
    assert_true(c.n_ops > 0);
    content_free(&c);
    host_do(&h, "stop");
    host_do(&h, "join");
    host_end(&h);
    close(go[0]);
    close(go[1]);
}

static void test_recorder_stopped(void **state)
{
    struct tape t;
    struct content c;
    struct host h;
    long at_sleep;
    int go[2], status;
    pid_t pid;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    pid = recorder_process(&h, &t, go);
    host_do(&h, "steps 5 2");
    kill(pid, SIGSTOP);               /* no heartbeat from here on */
    td_clock_sleep_until(td_clock_mono_ns() + 2500 * TD_NS_PER_MS);
    at_sleep = h.calls;
    host_do(&h, "steps 5 2");
    assert_int_equal(h.calls, at_sleep + 5 * LAYERS);
    kill(pid, SIGCONT);
    td_clock_sleep_until(td_clock_mono_ns() + 1000 * TD_NS_PER_MS);
    assert_int_equal(write(go[1], "x", 1), 1);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    tape_read(&t, &c);
    assert_int_equal(ledger(&c, "ops.seen"), 5 * LAYERS); /* asleep when the second five came */
    assert_int_equal(ledger(&c, "links.disarmed"), 1);
    content_free(&c);
    host_end(&h);
    close(go[0]);
    close(go[1]);
}

static void test_one_recorder_at_a_time(void **state)
{
    struct tape t;
    struct content c;
    struct td_tap_client *second = NULL;
    struct td_error err = {0};
    struct host h;
    char named[64];

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){0});
    assert_int_equal(td_tap_client_open(&(struct td_tap_client_target){.pid = h.p.pid}, &(struct td_tap_client_options){.writer = t.w}, &second, &err), TD_EEXIST);
    assert_null(second);
    snprintf(named, sizeof named, "another recorder is connected to its tap, process %d;", (int)getpid());
    assert_non_null(strstr(err.msg, named));
    tape_close(&t, &c);
    content_free(&c);
    host_end(&h);
}

struct busy_once { int listener; char path[192], real[192]; };

/* Tell the recorder that comes that another one is there; the next one finds the real tap. */
static void *be_busy_once(void *arg)
{
    struct busy_once *b = arg;
    const struct tap_msg m = {.magic = TAP_MAGIC, .version = TAP_VERSION, .type = TAP_GREETING, .status = TAP_BUSY};
    int fd = accept(b->listener, NULL, NULL);

    if (fd < 0 || rename(b->real, b->path) || send(fd, &m, sizeof m, MSG_NOSIGNAL) != sizeof m)
        return arg;
    close(fd);
    return NULL;
}

/* The other recorder was about to end: it is waited for. */
static void test_recorder_that_ends(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct td_tap_client_target target = {.socket = at.sun_path};
    struct td_error err = {0};
    struct busy_once b;
    pthread_t thread;
    struct content c;
    struct host h;
    struct tape t;
    void *wrong;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){0}); /* it listens */
    tape_close(&t, &c);
    content_free(&c);
    snprintf(b.real, sizeof b.real, "%s/tap-%d.sock", runtime, (int)h.p.pid);
    snprintf(b.path, sizeof b.path, "%s/busy.sock", root);
    snprintf(at.sun_path, sizeof at.sun_path, "%s/busy.sock", root);
    b.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(b.listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(b.listener, 4), 0);
    assert_int_equal(pthread_create(&thread, NULL, be_busy_once, &b), 0);
    snprintf(t.dir, sizeof t.dir, "%s", fresh_dir());
    must(td_writer_create(t.dir, &(struct td_writer_options){.tool = "record"}, &t.w, &err), &err);
    must(td_tap_client_open(&target, &(struct td_tap_client_options){.writer = t.w, .nonce = nonce}, &t.l, &err), &err);
    pthread_join(thread, &wrong);
    assert_null(wrong);
    close(b.listener);
    tape_arm(&t, &everything);
    host_do(&h, "steps 2 2");
    tape_close(&t, &c);
    assert_int_equal(c.n_ops, 2 * LAYERS);
    content_free(&c);
    host_end(&h);
}

static void test_fork(void **state)
{
    struct host h;
    struct tape t;
    struct content c;
    struct td_tap_client_state s;
    int i;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){0});
    tape_arm(&t, &everything);
    host_do(&h, "steps 2 2");
    host_do(&h, "fork 10 2");         /* the child is not linked: it runs, unseen */
    host_do(&h, "steps 2 2");
    tape_close(&t, &c);
    assert_int_equal(ledger(&c, "ops.seen"), 4 * LAYERS);
    assert_int_equal(c.n_ops, 4 * LAYERS);
    content_free(&c);

    host_do(&h, "child 2 2");         /* it has a tap of its own from its first op on */
    for (i = 0, s.processes = 0; i < 20 && s.processes < 2; i++) {
        td_clock_sleep_until(td_clock_mono_ns() + 100 * TD_NS_PER_MS);
        tape_open(&t, &h, (struct td_tap_client_options){0});
        td_tap_client_state(t.l, &s);
        tape_close(&t, &c);
        content_free(&c);
    }
    assert_int_equal(s.processes, 2);
    host_do(&h, "reap");
    host_end(&h);
}

/* A process with a socket where its tap would have it. Nobody answers there. */
static pid_t start_silent_tap(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char dir[160];
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    pid_t pid = fork();

    if (!pid) {
        snprintf(dir, sizeof dir, "TD_TAP_DIR=%s", runtime);
        execle("/bin/sleep", "sleep", "60", (char *)NULL, (char *[]){dir, NULL});
        _exit(1);
    }
    assert_true(pid > 0 && s >= 0);
    assert_true(snprintf(at.sun_path, sizeof at.sun_path, "%s/tap-%d.sock", runtime, (int)pid) <
                (int)sizeof at.sun_path);
    assert_int_equal(bind(s, (struct sockaddr *)&at, sizeof at), 0);
    close(s);
    return pid;
}

/* More processes than the recorder connects to: those left out are counted. */
static void test_too_many_processes(void **state)
{
    enum { SILENT = 66 };
    struct td_tap_client_state s;
    struct td_error err = {0};
    pid_t pid[SILENT];
    struct content c;
    struct host h;
    struct tape t;
    int i;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    for (i = 0; i < SILENT; i++)
        pid[i] = start_silent_tap();
    td_clock_sleep_until(td_clock_mono_ns() + 300 * TD_NS_PER_MS); /* all are sleep by now */
    snprintf(t.dir, sizeof t.dir, "%s", fresh_dir());
    must(td_writer_create(t.dir, &(struct td_writer_options){.tool = "record"}, &t.w, &err), &err);
    must(td_tap_client_open(&(struct td_tap_client_target){.pid = getpid(), .wait_ms = 3000},
                            &(struct td_tap_client_options){.writer = t.w, .nonce = nonce}, &t.l,
                            &err),
         &err);
    td_tap_client_state(t.l, &s);
    assert_int_equal(s.processes, 1);
    tape_close(&t, &c);
    assert_int_equal(ledger(&c, "links.left_out"), 1 + SILENT - 64);
    content_free(&c);
    for (i = 0; i < SILENT; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    host_end(&h);
}

static void test_descriptors_closed(void **state)
{
    struct host h;
    struct tape t;
    struct content c;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){0});
    tape_arm(&t, &everything);
    host_do(&h, "steps 2 2");
    host_do(&h, "closefds");
    td_clock_sleep_until(td_clock_mono_ns() + 500 * TD_NS_PER_MS);
    host_do(&h, "steps 2 2");
    tape_close(&t, &c);
    content_free(&c);
    host_end(&h);
}

static void test_protocol(void **state)
{
    union { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(int))]; } control = {0};
    struct tap_msg m = {.magic = TAP_MAGIC, .version = 99, .type = TAP_ARM}, r = {0};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct iovec iov = {&m, sizeof m};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *cm;
    struct host h;
    int fd, memory;

    (void)state;
    host_start(&h);
    host_do(&h, "steps 1 1");
    assert_true(snprintf(a.sun_path, sizeof a.sun_path, "%s/tap-%d.sock", runtime, (int)h.p.pid) < (int)sizeof a.sun_path);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    for (int i = 0; i < 100 && connect(fd, (struct sockaddr *)&a, sizeof a); i++)
        td_clock_sleep_until(td_clock_mono_ns() + 10 * TD_NS_PER_MS);
    assert_int_equal(recv(fd, &r, sizeof r, 0), sizeof r);
    assert_int_equal(r.type, TAP_GREETING);
    assert_int_equal(r.status, TAP_OK);
    assert_string_equal(r.build, "stub kernels 1");
    assert_int_equal(send(fd, &m, sizeof m, 0), sizeof m);
    assert_int_equal(recv(fd, &r, sizeof r, 0), sizeof r);
    assert_int_equal(r.status, TAP_BAD_VERSION);
    assert_int_equal(r.version, TAP_VERSION);

    m = (struct tap_msg){.magic = TAP_MAGIC, .version = TAP_VERSION, .type = TAP_ARM, .mode = TAP_MODE_ALL};
    assert_int_equal(send(fd, &m, sizeof m, 0), sizeof m);
    assert_int_equal(recv(fd, &r, sizeof r, 0), sizeof r);
    assert_int_equal(r.status, TAP_REFUSED); /* no memory yet */

    m.type = TAP_ATTACH;              /* memory that could shrink under the server */
    m.rings = 1;
    m.ring_bytes = 1 << 20;
    memory = memfd_create("bad", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(memory, (off_t)tap_memory_bytes(1, 1 << 20)), 0);
    cm = CMSG_FIRSTHDR(&msg);
    cm->cmsg_level = SOL_SOCKET;
    cm->cmsg_type = SCM_RIGHTS;
    cm->cmsg_len = CMSG_LEN(sizeof memory);
    memcpy(CMSG_DATA(cm), &memory, sizeof memory);
    assert_int_equal(sendmsg(fd, &msg, 0), sizeof m);
    assert_int_equal(recv(fd, &r, sizeof r, 0), sizeof r);
    assert_int_equal(r.status, TAP_REFUSED);
    assert_string_equal(r.text, "the memory is not sealed");
    assert_int_equal(send(fd, "x", 1, 0), 1); /* no message at all: the connection is cut, the server runs on */
    assert_int_equal(recv(fd, &r, sizeof r, 0), 0);
    close(memory);
    close(fd);
    host_do(&h, "steps 1 1");
    host_end(&h);
}

/* A tap of another version: record says so. */
static void test_other_version(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct td_tap_client *l = NULL;
    struct td_error err = {0};
    pid_t pid;

    (void)state;
    snprintf(a.sun_path, sizeof a.sun_path, "%s/other.sock", root);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 1), 0);
    pid = fork();
    if (!pid) {
        struct tap_msg r = {.magic = TAP_MAGIC, .version = TAP_VERSION + 1, .type = TAP_GREETING};
        int fd = accept(listener, NULL, NULL);

        _exit(send(fd, &r, 8, 0) != 8);
    }
    assert_int_equal(td_tap_client_open(&(struct td_tap_client_target){.socket = a.sun_path}, &(struct td_tap_client_options){0}, &l, &err), TD_EVERSION);
    assert_non_null(strstr(err.msg, "protocol"));
    waitpid(pid, NULL, 0);
    close(listener);
}

/* A server that is stopped: its queue of connections is full. */
static void test_full_queue(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), waiting[2], i;
    struct td_tap_client *l = NULL;
    struct td_error err = {0};

    (void)state;
    snprintf(a.sun_path, sizeof a.sun_path, "%s/stopped.sock", root);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 0), 0);
    for (i = 0; i < 2; i++) {
        waiting[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(waiting[i], (struct sockaddr *)&a, sizeof a);
    }
    assert_int_not_equal(td_tap_client_open(&(struct td_tap_client_target){.socket = a.sun_path}, &(struct td_tap_client_options){0}, &l, &err), TD_OK);
    assert_non_null(strstr(err.msg, "is the server stopped?"));
    for (i = 0; i < 2; i++)
        close(waiting[i]);
    close(listener);
}

static void test_no_tap(void **state)
{
    struct td_tap_client *l = NULL;
    struct td_error err = {0};

    (void)state;
    assert_int_equal(td_tap_client_open(&(struct td_tap_client_target){.pid = getpid()}, &(struct td_tap_client_options){0}, &l, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "without the tap"));
    td_error_clear(&err);
    assert_int_equal(td_tap_client_open(&(struct td_tap_client_target){.port = 1}, &(struct td_tap_client_options){0}, &l, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "port 1"));
    td_error_clear(&err);
    assert_int_equal(td_tap_client_open(&(struct td_tap_client_target){.socket = "/nonexistent/x.sock"}, &(struct td_tap_client_options){0}, &l, &err), TD_ENOTFOUND);
}

/* A server that gives itself a title has no environment any more that /proc shows. Its tap starts after that, and is found. */
static void test_server_with_a_title(void **state)
{
    struct content c;
    struct host h;
    struct tape t;

    (void)state;
    host_start(&h);
    host_do(&h, "title");
    host_do(&h, "steps 1 1");
    tape_open(&t, &h, (struct td_tap_client_options){0});
    tape_arm(&t, &everything);
    host_do(&h, "steps 2 1");
    tape_close(&t, &c);
    assert_true(c.n_ops > 0);
    content_free(&c);
    host_end(&h);
}

/* A folder that others may enter: the tap serves nothing, the server does not care. */
static void test_open_folder(void **state)
{
    struct td_tap_client *l = NULL;
    struct td_error err = {0};
    struct host h;

    (void)state;
    host_start(&h);
    chmod(runtime, 0755);
    host_do(&h, "steps 2 2");
    assert_int_equal(td_tap_client_open(&(struct td_tap_client_target){.pid = h.p.pid}, &(struct td_tap_client_options){0}, &l, &err), TD_ENOTFOUND);
    chmod(runtime, 0700);
    host_end(&h);
}

static void test_harmless(void **state)
{
    char *commands[][4] = {{"/bin/true", NULL}, {"/bin/sh", "-c", "test \"$(echo ok | cat)\" = ok", NULL}, {"python3", "-c", "import subprocess as s; assert s.check_output(['echo', 'x']) == b'x\\n'", NULL}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct td_tap_client_env env;
        struct td_error err = {0};
        struct td_proc p;
        char none[] = "ASAN_OPTIONS=detect_leaks=0", *vars[4];

        must(td_tap_client_env_make(commands[i][0], &env, &err), &err);
        vars[0] = env.vars[0], vars[1] = env.vars[1], vars[2] = none, vars[3] = NULL;
        must(td_proc_start(&p, &(struct td_proc_options){.argv = commands[i], .extra_env = vars, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1}, &err), &err);
        must(td_proc_wait(&p, 20000, &err), &err);
        assert_int_equal(p.status, 0);
        td_tap_client_env_release(&env);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_env),
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_sampling_keeps_whole_steps),
        cmocka_unit_test(test_budget_drops_whole_steps),
        cmocka_unit_test(test_weights_over_budget),
        cmocka_unit_test(test_ring_too_small),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_no_steps_and_refused_calls),
        cmocka_unit_test(test_reload_is_noticed),
        cmocka_unit_test(test_local_library),
        cmocka_unit_test(test_real_function_missing),
        cmocka_unit_test(test_server_killed),
        cmocka_unit_test(test_recorder_killed),
        cmocka_unit_test(test_recorder_stopped),
        cmocka_unit_test(test_one_recorder_at_a_time),
        cmocka_unit_test(test_recorder_that_ends),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_too_many_processes),
        cmocka_unit_test(test_descriptors_closed),
        cmocka_unit_test(test_protocol),
        cmocka_unit_test(test_other_version), cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_no_tap),
        cmocka_unit_test(test_server_with_a_title), cmocka_unit_test(test_open_folder),
        cmocka_unit_test(test_harmless),
    };

    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("ONLY_TEST"));
    return cmocka_run_group_tests(tests, setup, teardown);
}
