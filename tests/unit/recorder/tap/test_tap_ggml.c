/* test_tap_ggml.c - the tap's front end for llama.cpp in a real process (tests/helpers/ggml_host.c with a made-up ggml), the recorder beside it.
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/json.h"
#include "common/proc.h"
#include "format/fixture.h"
#include "recorder/tap_client/server_env.h"
#include "recorder/tap_client/tap_client.h"

enum { K = 8, N = 6, CELLS = 5, WIDE = 32, GEMMS = 3, NODES = 7 }; /* as in lib_fake_llama.c */

static char root[] = "/tmp/td-ggml-XXXXXX";
static char gguf[64];
static uint8_t up[3 * 18];            /* blk.0.ffn_up.weight, which only the file has */

struct rig { struct td_proc p; int in, out; char dir[64]; struct td_writer *w; struct td_tap_client *l; struct td_fixture *fx; struct td_op *ops; struct td_step *steps; size_t n_ops, n_steps; };

static void must(int rc, const struct td_error *err)
{
    if (rc)
        fail_msg("%s: %s", td_code_name(rc), err->msg);
}

/* ---- a GGUF file with the two weights of the model ----------------------------------------------------------------- */

struct file { uint8_t b[1024]; size_t n; };
static void put(struct file *f, const void *p, size_t n) { memcpy(f->b + f->n, p, n); f->n += n; }
static void u32(struct file *f, uint32_t v) { put(f, &v, 4); }
static void u64(struct file *f, uint64_t v) { put(f, &v, 8); }
static void tensor(struct file *f, const char *name, uint64_t k, uint64_t n, uint32_t type, uint64_t at)
{
    u64(f, strlen(name)), put(f, name, strlen(name)), u32(f, 2), u64(f, k), u64(f, n), u32(f, type), u64(f, at);
}

static int write_gguf(float first)
{
    struct file f = {.n = 0};
    int i;

    put(&f, "GGUF", 4), u32(&f, 3), u64(&f, 2), u64(&f, 0);
    tensor(&f, "blk.0.attn_q.weight", K, N, 0, 0);
    tensor(&f, "blk.0.ffn_up.weight", WIDE, 3, 2, K * N * 4);
    f.n = (f.n + 31) / 32 * 32;
    for (i = 0; i < K * N; i++)
        put(&f, &(float){first + (float)(i % 7)}, 4);
    for (i = 0; i < (int)sizeof up; i++)
        up[i] = (uint8_t)(i * 5);
    put(&f, up, sizeof up);
    return td_fs_write_atomic(gguf, f.b, f.n, NULL);
}

static int setup(void **state)
{
    char runtime[80], tap[TD_PATH_MAX];
    const char *lib = getenv("LIB");

    (void)state;
    if (!mkdtemp(root))
        return -1;
    snprintf(runtime, sizeof runtime, "%s/run", root);
    snprintf(tap, sizeof tap, "%s/libtapedeck-tap.so", lib ? lib : "lib");
    snprintf(gguf, sizeof gguf, "%s/model.gguf", root);
    setenv("TD_TAP_LIBRARY", tap, 1);
    setenv("TD_TAP_DIR", runtime, 1);
    unsetenv("LD_PRELOAD");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(root, NULL);
}

/* ---- the host ------------------------------------------------------------------------------------------------------ */

static void helper(char *out, size_t n, const char *name)
{
    const char *o = getenv("O");

    snprintf(out, n, "%s/tests/helpers/%s", o ? o : "build", name);
}

static void rig_start(struct rig *r, const char *library)
{
    char host[512], lib[512], *argv[] = {host, lib, NULL};
    struct td_tap_client_env env;
    struct td_error err = {0};
    int in[2], out[2];

    memset(r, 0, sizeof *r);
    helper(host, sizeof host, "ggml_host");
    helper(lib, sizeof lib, library);
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    must(td_tap_client_env_make(host, &env, &err), &err);
    must(td_proc_start(&r->p, &(struct td_proc_options){.argv = argv, .extra_env = env.vars, .stdin_fd = in[0], .stdout_fd = out[1], .stderr_fd = -1}, &err), &err);
    td_tap_client_env_release(&env);
    close(in[0]);
    close(out[1]);
    r->in = in[1];
    r->out = out[0];
}

/* The model computed as it had to. */
static void rig_do(struct rig *r, const char *what)
{
    struct pollfd p = {r->out, POLLIN, 0};
    char line[64];
    ssize_t n;

    assert_true(dprintf(r->in, "%s\n", what) > 0);
    assert_int_equal(poll(&p, 1, 20000), 1);
    n = read(r->out, line, sizeof line - 1);
    line[n > 0 ? n : 0] = '\0';
    if (strcmp(line, "ok 0\n"))
        fail_msg("\"%s\": the host says \"%s\"", what, line);
}

static void rig_arm(struct rig *r, struct td_tap_client_mode mode, const char *checkpoint)
{
    struct td_tap_client_options opt = {.checkpoint = checkpoint};
    struct td_error err = {0};
    static int turn;

    snprintf(r->dir, sizeof r->dir, "%s/fixture-%d", root, turn++);
    must(td_writer_create(r->dir, &(struct td_writer_options){.tool = "record"}, &r->w, &err), &err);
    opt.writer = r->w;
    rig_do(r, "graphs 1");             /* the tap's thread starts at the first */
    must(td_tap_client_open(&(struct td_tap_client_target){.pid = r->p.pid, .wait_ms = 3000}, &opt, &r->l, &err), &err);
    must(td_tap_client_arm(r->l, &mode, &err), &err);
}

static void rig_read(struct rig *r)
{
    struct td_error err = {0};
    size_t bad;

    must(td_tap_client_disarm(r->l, &err), &err);
    td_tap_client_facts(r->l, r->w, NULL);
    must(td_tap_client_close(r->l, &err), &err);
    must(td_writer_close(r->w, "complete", &err), &err);
    must(td_fixture_open(r->dir, &r->fx, &err), &err);
    must(td_fixture_ops(r->fx, &r->ops, &r->n_ops, &bad, &err), &err);
    must(td_fixture_steps(r->fx, &r->steps, &r->n_steps, &bad, &err), &err);
    rig_do(r, "graphs 2");             /* without the recorder, too */
}

static void rig_end(struct rig *r)
{
    struct td_error err = {0};

    td_ops_free(r->ops, r->n_ops);
    td_steps_free(r->steps, r->n_steps);
    td_fixture_close(r->fx);
    assert_true(dprintf(r->in, "quit\n") > 0);
    must(td_proc_wait(&r->p, 10000, &err), &err);
    assert_true(WIFEXITED(r->p.status) && !WEXITSTATUS(r->p.status));
    close(r->in);
    close(r->out);
}

static const struct td_tap_client_mode gemms = {.steps = TD_TAP_CLIENT_ALL, .budget_bytes_per_s = -1}, nodes = {.steps = TD_TAP_CLIENT_ALL, .budget_bytes_per_s = -1, .all_kinds = true};

/* ---- what was recorded --------------------------------------------------------------------------------------------- */

static void *bytes(const struct rig *r, const struct td_tensor_rec *t, size_t want)
{
    struct td_error err = {0};
    void *data;
    size_t n;

    assert_non_null(t);
    assert_true(t->stored);
    must(td_fixture_blob(r->fx, t->blob, UINT64_MAX, &data, &n, &err), &err);
    assert_int_equal(n, want);
    return data;
}

/* c = a w^T, whatever the strides of w. */
static void check_product(const struct rig *r, const struct td_op *op)
{
    const struct td_tensor_rec *ta = td_op_rec_in(op, "a"), *tw = td_op_rec_in(op, "w");
    int64_t m = td_json_get_i64(op->attrs, "m", 0), n = td_json_get_i64(op->attrs, "n", 0), k = td_json_get_i64(op->attrs, "k", 0), i, j, p;
    float *a = bytes(r, ta, (size_t)(m * k) * 4), *c = bytes(r, &op->out, (size_t)(m * n) * 4);
    float *w = bytes(r, tw, (size_t)((n - 1) * tw->strides[0] + k) * 4);

    assert_int_equal(ta->shape[0], m);
    assert_int_equal(tw->shape[0], n);
    assert_int_equal(tw->shape[1], k);
    for (j = 0; j < m; j++)
        for (i = 0; i < n; i++) {
            float sum = 0;

            for (p = 0; p < k; p++)
                sum += w[i * tw->strides[0] + p] * a[j * k + p];
            assert_true(sum == c[j * n + i]);
        }
    free(a), free(w), free(c);
}

static void check_opaque(const struct rig *r, const struct td_op *op, bool from_file)
{
    const struct td_tensor_rec *w = td_op_rec_in(op, "w");
    void *data;

    assert_string_equal(op->layer, "blk.0.ffn_up");
    assert_string_equal(op->impl.layout, "CPU_REPACK");
    assert_string_equal(op->act_rounding, "q8_0");
    assert_string_equal(w->dtype, "Q4_0");
    assert_int_equal(w->shape[0], 3);
    assert_int_equal(w->shape[1], 1); /* blocks */
    assert_int_equal(w->stored, from_file);
    assert_int_equal(w->ref != NULL, from_file);
    if (from_file) {
        data = bytes(r, w, sizeof up);
        assert_memory_equal(data, up, sizeof up);
        free(data);
    }
}

static void check_gemm(const struct rig *r, const struct td_op *op, bool from_file)
{
    assert_string_equal(op->kind, "ggml_mul_mat");
    assert_string_equal(op->impl.symbol, "MUL_MAT");
    assert_int_equal(op->impl.duration_ns, -1);
    assert_true(op->step >= 0);
    if (!strcmp(op->layer, "blk.0.ffn_up")) {
        check_opaque(r, op, from_file);
        return;
    }
    check_product(r, op);
    assert_string_equal(op->act_rounding, "none");
    if (!strcmp(op->layer, "blk.0.attn_q"))
        assert_string_equal(op->impl.layout, "gguf");
    else
        assert_string_equal(op->layer, "kq-0"); /* a view of the cache: no weights, its rows lie 2 N apart */
    assert_int_equal(td_op_rec_in(op, "w")->strides[0], !strcmp(op->layer, "kq-0") ? 2 * N : K);
}

/* ---- tests --------------------------------------------------------------------------------------------------------- */

static void test_gemms(void **state)
{
    struct rig r;
    size_t i;

    (void)state;
    assert_int_equal(write_gguf(2), 0);
    rig_start(&r, "lib_fake_llama.so");
    rig_arm(&r, gemms, gguf);
    rig_do(&r, "graphs 6");
    rig_read(&r);
    assert_int_equal(r.n_steps, 6);
    assert_int_equal(r.n_ops, 6 * GEMMS); /* not the one that is left out */
    for (i = 0; i < r.n_ops; i++) {
        check_gemm(&r, &r.ops[i], true);
        assert_int_equal(r.ops[i].step, r.steps[i / GEMMS].step);
        assert_int_equal(td_json_get_i64(r.ops[i].attrs, "m", 0), 1 + i / GEMMS % 3);
    }
    assert_int_equal(td_fixture_ledger(r.fx, "weights.matched"), 2);
    assert_int_equal(td_fixture_ledger(r.fx, "ops.seen"), 6 * GEMMS);
    rig_end(&r);
}

/* A file whose weights of the same name are others: named all the same, and nothing comes from it. */
static void test_another_models_file(void **state)
{
    struct rig r;
    size_t i;

    (void)state;
    assert_int_equal(write_gguf(3), 0);
    rig_start(&r, "lib_fake_llama.so");
    rig_arm(&r, gemms, gguf);
    rig_do(&r, "graphs 6");
    rig_read(&r);
    assert_int_equal(r.n_ops, 6 * GEMMS);
    for (i = 0; i < r.n_ops; i++)
        check_gemm(&r, &r.ops[i], false);
    assert_int_equal(td_fixture_ledger(r.fx, "weights.matched"), 0);
    assert_int_equal(td_fixture_ledger(r.fx, "weights.unmatched"), 2);
    rig_end(&r);
}

/* Of the cache, 600 rows long, those up to the last one written (299 + rows), by 256; before and after. */
static void check_set_rows(const struct rig *r, const struct td_op *op, int64_t rows)
{
    const struct td_tensor_rec *before = td_op_rec_in(op, "s2");
    float *x = bytes(r, td_op_rec_in(op, "s0"), (size_t)rows * K * 4), *b = bytes(r, before, 512 * K * 4), *c = bytes(r, &op->out, 512 * K * 4);
    int64_t i;

    assert_int_equal(before->shape[0], 512);
    assert_int_equal(op->out.shape[0], 512);
    assert_int_equal(td_json_get_i64(op->attrs, "view_of", -1), 2);
    for (i = 0; i < 512 * K; i++) {
        int64_t row = 299 + rows - 1 - i / K; /* of x */

        assert_true(b[i] == 5 + (float)(i % 7));
        assert_true(c[i] == (row < 0 || row >= rows ? b[i] : x[row * K + i % K]));
    }
    free(x), free(b), free(c);
}

/* Every node in its order; s0 as it was before an op that works in place. */
static void test_all_ops(void **state)
{
    static const char *const kind[NODES] = {"ggml_get_rows", "ggml_mul_mat", "ggml_add", "ggml_mul_mat", "ggml_mul_mat", "ggml_unary", "ggml_set_rows"};
    static const char *const layer[NODES] = {"embd", "blk.0.attn_q", "Qbias-0", "kq-0", "blk.0.ffn_up", "act-0", "cache_v_l0 (view)"};
    struct rig r;
    size_t i, j;

    (void)state;
    assert_int_equal(write_gguf(2), 0);
    rig_start(&r, "lib_fake_llama.so");
    rig_arm(&r, nodes, gguf);
    rig_do(&r, "graphs 6");
    rig_read(&r);
    assert_int_equal(r.n_ops, 6 * NODES);
    for (i = 0; i < r.n_ops; i++) {
        const struct td_op *op = &r.ops[i];
        size_t n = 4 * (1 + i / NODES % 3) * (!strcmp(op->kind, "ggml_add") ? N : CELLS);
        float *s, *b = NULL, *c;

        assert_string_equal(op->kind, kind[i % NODES]);
        assert_string_equal(op->layer, layer[i % NODES]);
        if (!strcmp(op->kind, "ggml_mul_mat"))
            check_gemm(&r, op, true);
        if (!strcmp(op->kind, "ggml_set_rows"))
            check_set_rows(&r, op, 1 + (int64_t)(i / NODES % 3));
        if (strcmp(op->kind, "ggml_add") && strcmp(op->kind, "ggml_unary"))
            continue;
        s = bytes(&r, td_op_rec_in(op, "s0"), n);
        c = bytes(&r, &op->out, n);
        if (!strcmp(op->kind, "ggml_add"))
            b = bytes(&r, td_op_rec_in(op, "s1"), N * 4);
        for (j = 0; j < n / 4; j++)
            assert_true(c[j] == (b ? s[j] + b[j % N] : s[j] * 2));
        if (!b) {
            assert_string_equal(op->impl.symbol, "SILU");
            assert_int_equal(td_json_get_i64(op->attrs, "p0", 0), 10);
            assert_null(td_json_get(op->attrs, "p15")); /* 0 */
        }
        free(s), free(b), free(c);
    }
    rig_end(&r);
}

/* The server's own callback sees what it asked for, no more, and can stop a graph; a failing graph fails. */
static void test_servers_own_callback(void **state)
{
    static const struct td_tap_client_mode *const modes[] = {&gemms, &nodes};
    struct rig r;
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        rig_start(&r, "lib_fake_llama.so");
        rig_do(&r, "own");
        rig_arm(&r, *modes[i], NULL);
        rig_do(&r, "graphs 6");
        rig_do(&r, "stop");
        rig_do(&r, "graphs 6");
        rig_do(&r, "noown");
        rig_do(&r, "fail");
        rig_do(&r, "graphs 6");
        rig_do(&r, "noown");
        rig_read(&r);
        assert_int_equal(r.n_steps, 18);
        assert_true(r.n_ops > 12 * GEMMS);
        assert_int_equal(td_fixture_ledger(r.fx, "ops.dropped.failed"), i ? 6 : 0); /* the node that failed was being recorded */
        rig_end(&r);
    }
}

/* What an exception leaves behind is put right at the scheduler's next graph: nothing that throws is lost but the graph itself. */
static void test_exceptions(void **state)
{
    static const struct td_tap_client_mode *const modes[] = {&gemms, &nodes};
    struct rig r;
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        rig_start(&r, "lib_fake_llama.so");
        rig_do(&r, "own");
        rig_arm(&r, *modes[i], NULL);
        rig_do(&r, "throw");
        rig_do(&r, "graphs 6");
        rig_do(&r, "noown");
        rig_read(&r);
        assert_int_equal(r.n_steps, 12);
        assert_int_equal(td_fixture_ledger(r.fx, "ops.dropped.failed"), i ? 6 : 0);
        assert_int_equal(r.n_ops, i ? 6 * (NODES - 2) + 6 * NODES : 2 * 6 * GEMMS);
        rig_end(&r);
    }
}

static void test_memory_of_another_device(void **state)
{
    struct rig r;

    (void)state;
    rig_start(&r, "lib_fake_llama.so");
    rig_do(&r, "gpu");
    rig_arm(&r, gemms, NULL);
    rig_do(&r, "graphs 6");
    rig_read(&r);
    assert_int_equal(r.n_ops, 0);
    assert_int_equal(td_fixture_ledger(r.fx, "ops.dropped.unreadable"), 6 * GEMMS);
    assert_int_equal(td_fixture_ledger(r.fx, "ops.seen"), 6 * GEMMS);
    rig_end(&r);
}

static void test_threads(void **state)
{
    struct rig r;
    size_t i;

    (void)state;
    rig_start(&r, "lib_fake_llama.so");
    rig_arm(&r, gemms, NULL);
    rig_do(&r, "threads 4 50");
    rig_read(&r);
    assert_true(r.n_ops > 0);
    assert_int_equal(r.n_steps + (size_t)td_fixture_ledger(r.fx, "steps.dropped.threads"), 200);
    assert_int_equal(td_fixture_ledger(r.fx, "ops.seen"), 200 * GEMMS);
    for (i = 0; i < r.n_ops; i++)
        check_gemm(&r, &r.ops[i], false);
    rig_end(&r);
}

/* Steps that are not recorded are counted with their ops. */
static void test_sampling(void **state)
{
    struct rig r;

    (void)state;
    rig_start(&r, "lib_fake_llama.so");
    rig_arm(&r, (struct td_tap_client_mode){.steps = TD_TAP_CLIENT_SAMPLE, .percent = 1, .budget_bytes_per_s = -1}, NULL);
    rig_do(&r, "graphs 300");
    rig_read(&r);
    assert_true(r.n_steps >= 4 && r.n_steps < 60); /* two of each size at least; three sizes are two classes */
    assert_int_equal(r.n_ops, r.n_steps * GEMMS);
    assert_int_equal(td_fixture_ledger(r.fx, "ops.seen"), 300 * GEMMS);
    assert_int_equal(td_fixture_ledger(r.fx, "ops.dropped.sampling"), 300 * GEMMS - (int64_t)r.n_ops);
    rig_end(&r);
}

/* Tensors that lie otherwise are never read: the server computes, and the tap says why it records nothing. */
static void test_alien_layout(void **state)
{
    struct rig r;

    (void)state;
    rig_start(&r, "lib_fake_llama_old_layout.so");
    rig_arm(&r, nodes, NULL);
    rig_do(&r, "graphs 6");
    rig_read(&r);
    assert_int_equal(r.n_ops, 0);
    assert_non_null(strstr(td_json_get_str(td_json_get(td_fixture_manifest(r.fx), "tap"), "build", ""),
                           "cannot be recorded: struct ggml_tensor of this ggml has 344 bytes, not 336"));
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemms), cmocka_unit_test(test_another_models_file), cmocka_unit_test(test_all_ops),
        cmocka_unit_test(test_servers_own_callback), cmocka_unit_test(test_exceptions), cmocka_unit_test(test_memory_of_another_device), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_sampling), cmocka_unit_test(test_alien_layout),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
