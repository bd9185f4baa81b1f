/* test_child_protocol.c - builds that are right, that crash, hang or break the rules, each seen from the replayer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The program is its own child: started with "--child FD" it serves as bin/replay-child does. The libraries are
 * tests/helpers/lib_*.c, beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fs.h"
#include "kernels/ops/op_kinds.h"
#include "replayer/build_process.h"
#include "replayer/child/child_serve.h"
#include "replayer/judge.h"
#include "replayer/op_timing.h"
#include "tests/unit/random_gptq.h"

static char library[4096];  /* lib_misbehave.so */
static struct td_op_call op; /* m = 3 */

static void find_helper(const char *name, char *out, size_t n)
{
    char dir[4000];

    assert_int_equal(td_fs_self_dir(dir, sizeof dir, NULL), TD_OK);
    snprintf(out, n, "%.3900s/../../helpers/%s", dir, name);
}

/* Open a build, as build_pair.c does for two at once. */
static int open_build(struct td_build_process *r, const struct td_build_process_options *o, struct td_error *err)
{
    const int rc = td_build_process_begin(r, o, err);

    return rc ? rc : td_build_process_await(r, err);
}

static struct td_build_process start(const char *how, int deadline_ms)
{
    struct td_build_process_options o = {.name = "candidate",
                                         .provider = "lib",
                                         .arg = library,
                                         .program = "/proc/self/exe",
                                         .deadline_ms = deadline_ms,
                                         .guard = true};
    struct td_error err = {0};
    struct td_build_process r;

    setenv("TD_MISBEHAVE", how, 1);
    if (open_build(&r, &o, &err))
        fail_msg("%s", err.msg);
    return r;
}

static struct td_run_result run(struct td_build_process *r)
{
    struct td_error err = {0};
    struct td_run_result res;

    if (td_build_process_run(r, &op, 3, &res, &err))
        fail_msg("%s", err.msg);
    return res;
}

static void expect(const char *how, enum td_run_status status, const char *words)
{
    struct td_build_process r = start(how, 2000);
    struct td_run_result res = run(&r);

    if (res.status != status || (words && !strstr(res.reason, words)))
        fail_msg("%s: %s, \"%s\"; expected %s, \"%s\"", how, td_run_status_name(res.status), res.reason, td_run_status_name(status),
                 words ? words : "");
    td_run_result_release(&res);
    td_build_process_stop(&r);
}

static void right_build(void **state)
{
    struct td_judge_limits lim;
    struct td_judge_result e;
    struct td_build_process r = start("", 2000);
    struct td_run_result res = run(&r);
    struct td_op_ref ref;

    (void)state;
    assert_int_equal(res.status, TD_RUN_OK);
    assert_int_equal(res.repeats, 3);
    assert_string_equal(r.build, "misbehaving test build");
    assert_int_equal(td_op_kind_find("gptq_gemm")->reference(&op, &ref, NULL), 0);
    assert_int_equal(td_judge_limits_find("gptq_gemm", TD_DT_F16, &lim, NULL), 0);
    assert_int_equal(td_judge_output(&ref, &op.out, (const void *const *)res.images, 3, &lim, &e, NULL), 0);
    assert_true(e.score < 4);
    assert_int_equal(e.unstable, 0);
    td_op_ref_release(&ref);
    td_run_result_release(&res);
    td_build_process_stop(&r);
    assert_int_equal(r.starts, 1);
}

static void crashes_are_results(void **state)
{
    (void)state;
    expect("null", TD_RUN_CRASHED, "signal 11");
    expect("null", TD_RUN_CRASHED, "NULL pointer");
    expect("null", TD_RUN_CRASHED, "in run, repeat 0");
    expect("abort", TD_RUN_CRASHED, "signal 6");
    expect("exit", TD_RUN_CRASHED, "exit 3");
}

static void the_last_stage_and_words_are_kept(void **state)
{
    struct td_build_process r = start("assert", 2000);
    struct td_run_result res = run(&r);
    struct td_op_call half;

    (void)state;
    assert_int_equal(res.status, TD_RUN_CRASHED);
    assert_int_equal(res.reached, TD_STAGE_RUN);
    assert_non_null(strstr(res.reason, "(in run, repeat 0): misbehave.c:1: Assertion `m == 0' failed."));
    td_run_result_release(&res);
    half = op; /* an alignment that no memory has: refused while the tensors are loaded */
    half.in[0].align = 3;
    assert_int_equal(td_build_process_run(&r, &half, 1, &res, NULL), TD_OK);
    assert_int_equal(res.status, TD_RUN_BROKEN); /* the build was not asked, so it is not to blame */
    assert_int_equal(res.reached, TD_STAGE_LOAD);
    assert_int_equal(r.starts, 3); /* a new one after the crash, and another for the second attempt */
    assert_null(strstr(res.reason, "Assertion")); /* that was another op */
    td_run_result_release(&res);
    td_build_process_stop(&r);
    r = start("", 2000);
    res = run(&r);
    assert_int_equal(res.reached, TD_STAGE_RELEASE);
    td_run_result_release(&res);
    td_build_process_stop(&r);
}

static void hang_is_a_result(void **state)
{
    struct td_build_process r = start("hang", 300);
    struct td_run_result res = run(&r);

    (void)state;
    assert_int_equal(res.status, TD_RUN_HUNG);
    assert_non_null(strstr(res.reason, "no answer for 0.3 s in run, repeat 0"));
    assert_int_equal(r.hangs, 1);
    td_build_process_stop(&r);
}

static void memory_rules(void **state)
{
    (void)state;
#if defined(__x86_64__)
    expect("overread", TD_RUN_CRASHED, "read past the end of qweight");
#else
    expect("overread", TD_RUN_CRASHED, "past the end of qweight");
#endif
    expect("overwrite", TD_RUN_CRASHED, "past the end of c (byte 0 after it)");
    op.out.align = 256; /* now there is a gap between the end and the page */
    expect("overwrite", TD_RUN_FAILED, "wrote past the end of c (byte 1 after it)");
    op.out.align = 16;
    expect("scribble", TD_RUN_FAILED, "wrote into its input a");
    expect("refuse", TD_RUN_UNSUPPORTED, "TD_KERNEL_EUNSUPPORTED");
}

static void a_failed_run_keeps_its_images(void **state)
{
    struct td_build_process r = start("overwrite", 2000);
    struct td_run_result res;

    (void)state;
    op.out.align = 256;
    res = run(&r);
    op.out.align = 16;
    assert_int_equal(res.status, TD_RUN_FAILED);
    assert_int_equal(res.repeats, 3);
    td_run_result_release(&res);
    td_build_process_stop(&r);
}

static void goes_on_after_a_crash(void **state)
{
    struct td_build_process r = start("null+m", 2000); /* crashes for m > 1 only */
    struct td_op_call one;
    const struct random_gptq d = {1, 64, 128, 4, 32, false};
    struct td_op_call three = op;
    struct td_run_result res;
    int i;

    (void)state;
    random_gptq_make(&one, &d, 1, 1);
    for (i = 0; i < 3; i++) {
        op = three;
        res = run(&r);
        assert_int_equal(res.status, TD_RUN_CRASHED);
        td_run_result_release(&res);
        op = one;
        res = run(&r);
        assert_int_equal(res.status, TD_RUN_OK);
        td_run_result_release(&res);
    }
    op = three;
    assert_int_equal(r.crashes, 3);
    assert_int_equal(r.starts, 4);
    td_build_process_stop(&r);
    random_gptq_free(&one);
}

static void larger_op_gets_a_larger_arena(void **state)
{
    struct td_build_process r = start("", 5000);
    struct td_run_result res = run(&r);
    struct td_op_call small = op;
    const struct random_gptq d = {40, 256, 256, 8, 64, true};

    (void)state;
    td_run_result_release(&res);
    random_gptq_make(&op, &d, 5, 5);
    res = run(&r);
    assert_int_equal(res.status, TD_RUN_OK);
    assert_int_equal(r.starts, 1);
    td_run_result_release(&res);
    random_gptq_free(&op);
    op = small;
    td_build_process_stop(&r);
}

static void no_library(void **state)
{
    struct td_build_process_options o = {.name = "candidate",
                                         .provider = "lib",
                                         .arg = "/nowhere/lib.so",
                                         .program = "/proc/self/exe",
                                         .deadline_ms = 1000};
    struct td_error err = {0};
    struct td_build_process r;
    char path[4096];

    (void)state;
    assert_int_not_equal(open_build(&r, &o, &err), TD_OK);
    assert_non_null(strstr(err.msg, "/nowhere/lib.so"));
    td_error_clear(&err);
    find_helper("lib_no_symbol.so", path, sizeof path);
    o.arg = path;
    assert_int_not_equal(open_build(&r, &o, &err), TD_OK);
    assert_non_null(strstr(err.msg, "no symbol td_gptq_gemm"));
    td_error_clear(&err);
    o.provider = "quantum";
    assert_int_equal(open_build(&r, &o, &err), TD_EINVAL);
    td_build_process_stop(&r);
}

/* What came of timing the op; NULL, and *err says why. */
static cJSON *measure(struct td_build_process *a, struct td_build_process *b, struct td_error *err)
{
    struct td_op_timed timed = {.call = &op, .op = 1};

    td_op_timing_measure(a, b, &timed, 1, NULL, NULL);
    *err = timed.err;
    return timed.found;
}

static void timing_gives_pairs(void **state)
{
    struct td_build_process a = start("", 2000), b = start("", 2000);
    struct td_error err = {0};
    cJSON *t = measure(&a, &b, &err), *pair;
    int n = 0;

    (void)state;
    if (!t)
        fail_msg("%s", err.msg);
    cJSON_ArrayForEach(pair, cJSON_GetObjectItem(t, "hot")) {
        assert_int_equal(cJSON_GetArraySize(pair), 2);
        assert_true(cJSON_GetArrayItem(pair, 0)->valuedouble > 0 && cJSON_GetArrayItem(pair, 1)->valuedouble > 0);
        n++;
    }
    assert_int_equal(n, TD_OP_TIMING_STARTS * TD_OP_TIMING_PAIRS);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(t, "cold")), n);
    cJSON_Delete(t);
    td_build_process_stop(&a);
    td_build_process_stop(&b);
}

/* A build that cannot be opened again ends the replay: its next op is not called failed. */
static void a_lost_build_is_no_failed_op(void **state)
{
    struct td_build_process a = start("", 2000), b = start("", 2000);
    struct td_error err = {0};
    struct td_run_result res;
    char gone[4096];

    (void)state;
    find_helper("gone.so", gone, sizeof gone);
    a.opt.arg = gone;
    assert_null(measure(&a, &b, &err));
    assert_int_equal(err.code, TD_EIO);
    td_error_clear(&err);
    assert_true(td_build_process_run(&a, &op, 1, &res, &err) < 0);
    assert_non_null(strstr(err.msg, "gone.so"));
    td_run_result_release(&res);
    td_build_process_stop(&a);
    td_build_process_stop(&b);
}

/* A process that ended is started again together with the other one, not later by an op. */
static void a_process_that_is_gone_starts_again(void **state)
{
    struct td_build_process r = start("abort", 2000);
    struct td_run_result res = run(&r);
    struct td_error err = {0};

    (void)state;
    assert_int_equal(res.status, TD_RUN_CRASHED);
    td_run_result_release(&res);
    assert_true(r.sock < 0);
    assert_int_equal(td_build_process_restart(&r, &err), TD_OK);
    assert_true(r.sock >= 0 && r.proc.pid > 0);
    td_build_process_stop(&r);
}

static char *file_name(const char *helper)
{
    static char path[4096];

    find_helper(helper, path, sizeof path);
    return path;
}

/* A context is one draw of how fast a process is, so the starts on a GPU are new processes, too. */
static void a_gpu_process_starts_anew(void **state)
{
    const char *root = getenv("ROOT");
    char file[4096];
    struct td_build_process_options o = {.name = "candidate", .provider = "cuda", .arg = file, .program = "/proc/self/exe", .deadline_ms = 5000};
    struct td_error err = {0};
    struct td_build_process a, b;
    cJSON *t = NULL;

    (void)state;
    setenv("TD_CUDA_LIBRARY", file_name("lib_fake_cuda.so"), 1);
    setenv("TD_FAKE_CUDA_PLUGIN", file_name("lib_fake_simt.so"), 1);
    snprintf(file, sizeof file, "%.4000s/tests/unit/data/gptq_like.fatbin", root ? root : ".");
    if (open_build(&a, &o, &err) || open_build(&b, &o, &err) || !(t = measure(&a, &b, &err)))
        fail_msg("%s", err.msg);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(t, "hot")), TD_OP_TIMING_STARTS_SHARED * TD_OP_TIMING_PAIRS);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(t, "start")), "process");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(t, "clock")), "cuda-event");
    assert_true(strstr(a.build, "cuda on ") == a.build); /* HELLO was answered as before */
    cJSON_Delete(t);
    td_build_process_stop(&a);
    td_build_process_stop(&b);
}

static void timing_survives_a_crash(void **state)
{
    struct td_build_process a = start("", 2000), b;
    struct td_error err;

    (void)state;
    td_build_process_stop(&a);
    a = start("null", 2000);
    b = start("null", 2000);
    assert_null(measure(&a, &b, &err));
    assert_int_equal(err.code, TD_ECRASH);
    assert_non_null(strstr(err.msg, "signal 11"));
    td_build_process_stop(&a);
    td_build_process_stop(&b);
}

/* ---- packets and arenas -------------------------------------------------------------------------------------------- */

static void packets_of_others_are_refused(void **state)
{
    struct td_proto_msg m = {.magic = TD_PROTO_MAGIC, .version = TD_PROTO_VERSION + 1, .type = TD_PROTO_HELLO}, got;
    struct td_error err = {0};
    int s[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s), 0);
    assert_int_equal(td_proto_recv(s[1], &got, NULL, 10, &err), TD_ETIMEOUT);
    assert_int_equal(td_proto_send(s[0], &m, -1, NULL), TD_OK);
    assert_int_equal(td_proto_recv(s[1], &got, NULL, 1000, &err), TD_EPROTO);
    assert_non_null(strstr(err.msg, "version 9"));
    m.magic = 7;
    assert_int_equal(td_proto_send(s[0], &m, -1, NULL), TD_OK);
    assert_int_equal(td_proto_recv(s[1], &got, NULL, 1000, NULL), TD_EPROTO);
    assert_int_equal(write(s[0], "short", 5), 5);
    assert_int_equal(td_proto_recv(s[1], &got, NULL, 1000, NULL), TD_EPROTO);
    close(s[0]);
    assert_int_equal(td_proto_recv(s[1], &got, NULL, 1000, NULL), TD_EIO);
    close(s[1]);
}

static void arenas_are_checked(void **state)
{
    struct td_op_call back;
    struct td_proto_lies lies = {0};
    struct td_proto_arena *h;
    uint64_t size;
    void *images;
    char *arena;

    (void)state;
    assert_int_equal(td_proto_arena_size(&op, 2, &size, NULL), TD_OK);
    arena = aligned_alloc(4096, size);
    h = (struct td_proto_arena *)arena;
    assert_int_equal(td_proto_pack(&op, arena, size - 4096, 2, &lies, NULL), TD_ELIMIT);
    assert_int_equal(td_proto_pack(&op, arena, size, 2, &lies, NULL), TD_OK);
    assert_int_equal(td_proto_unpack(arena, size, 2, &back, &images, NULL), TD_OK);
    assert_int_equal(back.n_in, op.n_in);
    assert_memory_equal(back.in[1].data, op.in[1].data, op.in[1].size_bytes);
    assert_int_equal(td_op_attr(&back, "k", 0), 128);
    assert_true((char *)images + 2 * td_proto_image_stride(op.out.size_bytes) <= arena + size);
    h->in[1].offset = size - 4;
    assert_int_equal(td_proto_unpack(arena, size, 2, &back, &images, NULL), TD_EPROTO);
    h->in[1].offset = UINT64_MAX;
    assert_int_equal(td_proto_unpack(arena, size, 2, &back, &images, NULL), TD_EPROTO);
    assert_int_equal(td_proto_pack(&op, arena, size, 2, &lies, NULL), TD_OK);
    h->n_in = 1000;
    assert_int_equal(td_proto_unpack(arena, size, 2, &back, &images, NULL), TD_EPROTO);
    free(arena);
}

/* op, its bytes named, with its first row alone. */
static struct td_op_call first_row(void)
{
    struct td_op_call one = op;
    int i;

    for (i = 0; i < one.n_in; i++)
        one.in[i].content = td_hash_bytes(one.in[i].data, one.in[i].size_bytes);
    for (i = 0; i < one.n_attrs; i++)
        one.attrs[i].value = strcmp(one.attrs[i].name, "m") ? one.attrs[i].value : 1;
    one.in[0].shape[0] = one.out.shape[0] = 1;
    one.in[0].size_bytes /= 3;
    one.in[0].content = td_hash_bytes(one.in[0].data, one.in[0].size_bytes);
    one.out.size_bytes /= 3;
    return one;
}

static void weights_are_sent_once(void **state)
{
    struct td_op_call three = op, one = first_row();
    struct td_proto_lies lies = {0};
    struct td_proto_arena *h;
    char *arena, *weights;
    uint64_t size, at;

    (void)state;
    for (int i = 0; i < op.n_in; i++)
        three.in[i].content = td_hash_bytes(op.in[i].data, op.in[i].size_bytes);
    assert_string_equal(op.in[1].role, "qweight");
    assert_int_equal(td_proto_arena_size(&op, 2, &size, NULL), TD_OK);
    arena = aligned_alloc(4096, size);
    h = (struct td_proto_arena *)arena;
    assert_int_equal(td_proto_pack(&three, arena, size, 2, &lies, NULL), TD_OK);
    at = h->in[1].offset;
    weights = arena + at;
    weights[0] ^= 1; /* who copies them again undoes this */
    assert_int_equal(td_proto_pack(&one, arena, size, 2, &lies, NULL), TD_OK);
    assert_int_equal(h->in[1].offset, at);
    assert_memory_not_equal(weights, op.in[1].data, 1);
    assert_memory_equal(arena + h->in[0].offset, one.in[0].data, one.in[0].size_bytes);
    one.in[1].content.lo ^= 1; /* other weights of this size */
    assert_int_equal(td_proto_pack(&one, arena, size, 2, &lies, NULL), TD_OK);
    assert_memory_equal(weights, op.in[1].data, op.in[1].size_bytes);
    one.in[1].content = (struct td_hash){0, 0}; /* nobody knows which */
    weights[0] ^= 1;
    assert_int_equal(td_proto_pack(&one, arena, size, 2, &lies, NULL), TD_OK);
    assert_memory_equal(weights, op.in[1].data, op.in[1].size_bytes);
    free(arena);
}

/* The next op gets its weights as they were recorded, also after a build that wrote into them. */
static void spoilt_weights_are_sent_again(void **state)
{
    struct td_build_process r = start("weights+m", 2000); /* for m > 1 only */
    const struct td_op_call three = op, one = first_row();
    struct td_run_result res;
    uint16_t *right = malloc(one.out.size_bytes);

    (void)state;
    for (int i = 0; i < 5; i++) {
        op = i == 2 ? three : one;
        for (int t = 0; t < op.n_in; t++)
            op.in[t].content = one.in[t].content;
        op.in[0].content = (struct td_hash){0, 0};
        res = run(&r);
        op = three;
        assert_int_equal(res.status, i == 2 ? TD_RUN_FAILED : TD_RUN_OK);
        if (i == 2)
            assert_non_null(strstr(res.reason, "wrote into its input qweight"));
        else if (!i)
            memcpy(right, res.images[0], one.out.size_bytes);
        else
            assert_memory_equal(res.images[0], right, one.out.size_bytes);
        td_run_result_release(&res);
    }
    assert_int_equal(r.starts, 1);
    free(right);
    td_build_process_stop(&r);
}

/* Equal outputs of repeats are one; others are what each repeat gave. */
static void equal_outputs_are_one(void **state)
{
    struct td_build_process right = start("right", 2000), flaky = start("flaky", 2000);
    struct td_run_result a = run(&right), b = run(&flaky);

    (void)state;
    assert_int_equal(a.repeats, 3);
    assert_int_equal(b.repeats, 3);
    for (int i = 1; i < 3; i++) {
        assert_ptr_equal(a.images[i], a.images[0]);
        assert_memory_not_equal(b.images[i], b.images[i - 1], op.out.size_bytes);
    }
    td_run_result_release(&a);
    td_run_result_release(&b);
    td_build_process_stop(&right);
    td_build_process_stop(&flaky);
}

static void launches_cross(void **state)
{
    struct td_op_call with = op, back;
    struct td_proto_lies lies = {0};
    struct td_proto_arena *h;
    uint64_t size;
    void *images;

    (void)state;
    with.n_launches = 2;
    with.launches[1] = (struct td_op_launch){.rows = {128, 141}, .grid = {132, 1, 1}, .block = {256, 1, 1}, .shared_bytes = 232448, .symbol = "_Z1k"};
    assert_int_equal(td_proto_arena_size(&with, 1, &size, NULL), TD_OK);
    h = aligned_alloc(4096, size);
    assert_int_equal(td_proto_pack(&with, h, size, 1, &lies, NULL), TD_OK);
    memset(h->launches[0].symbol, 'x', sizeof h->launches[0].symbol); /* what it holds is not believed */
    assert_int_equal(td_proto_unpack(h, size, 1, &back, &images, NULL), TD_OK);
    assert_int_equal(back.n_launches, 2);
    assert_memory_equal(&back.launches[1], &with.launches[1], sizeof with.launches[1]);
    assert_int_equal(strlen(back.launches[0].symbol), TD_OP_MAX_SYMBOL - 1);
    h->n_launches = TD_OP_MAX_LAUNCHES + 1;
    assert_int_equal(td_proto_unpack(h, size, 1, &back, &images, NULL), TD_EPROTO);
    h->n_launches = -1;
    assert_int_equal(td_proto_unpack(h, size, 1, &back, &images, NULL), TD_EPROTO);
    free(h);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_build), cmocka_unit_test(crashes_are_results), cmocka_unit_test(the_last_stage_and_words_are_kept), cmocka_unit_test(hang_is_a_result),
        cmocka_unit_test(memory_rules), cmocka_unit_test(a_failed_run_keeps_its_images), cmocka_unit_test(goes_on_after_a_crash),
        cmocka_unit_test(larger_op_gets_a_larger_arena), cmocka_unit_test(no_library), cmocka_unit_test(timing_gives_pairs),
        cmocka_unit_test(timing_survives_a_crash), cmocka_unit_test(a_lost_build_is_no_failed_op),
        cmocka_unit_test(a_process_that_is_gone_starts_again), cmocka_unit_test(a_gpu_process_starts_anew),
        cmocka_unit_test(packets_of_others_are_refused), cmocka_unit_test(arenas_are_checked), cmocka_unit_test(launches_cross),
        cmocka_unit_test(weights_are_sent_once), cmocka_unit_test(spoilt_weights_are_sent_again),
        cmocka_unit_test(equal_outputs_are_one),
    };
    const struct random_gptq d = {3, 64, 128, 4, 32, false};
    int rc;

    if (argc == 3 && !strcmp(argv[1], "--child"))
        return td_child_serve(atoi(argv[2]));
    find_helper("lib_misbehave.so", library, sizeof library);
    random_gptq_make(&op, &d, 1, 1);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    random_gptq_free(&op);
    return rc;
}
