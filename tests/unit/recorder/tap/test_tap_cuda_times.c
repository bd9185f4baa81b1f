/* test_tap_cuda_times.c - the share of kernels in the GPU's time: a window of CUPTI's records, and which kernels the tap records.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <pthread.h>

#include "twin_server.h"
#include "kernels/abi/cublaslt_abi.h"
#include "recorder/tap/core/tap_times.h"

#define MANY 160000                    /* records: more than all buffers hold */

static void (*note)(const char *symbol, uint64_t start, uint64_t end);
static void (*set_version)(uint32_t version);
static int (*is_timing)(void), (*left_behind)(void);
static void (*in_flight)(int ms);

static int setup_times(void **state)
{
    if (setup(state))
        return -1;
    *(void **)&note = dlsym(RTLD_DEFAULT, "fake_cupti_note");
    *(void **)&set_version = dlsym(RTLD_DEFAULT, "fake_cupti_version");
    *(void **)&is_timing = dlsym(RTLD_DEFAULT, "fake_cupti_is_timing");
    *(void **)&in_flight = dlsym(RTLD_DEFAULT, "fake_cupti_in_flight");
    *(void **)&left_behind = dlsym(RTLD_DEFAULT, "fake_cupti_left_behind");
    return !note || !set_version || !is_timing || !in_flight || !left_behind;
}

/* ---- what a recorder asks -------------------------------------------------------------------------------------------- */

static const char *ask(enum tap_times_step step, uint32_t number, struct tap_msg *r)
{
    struct tap_msg m = {.type = TAP_TIMES, .mode = step, .number = number};

    memset(r, 0, sizeof *r);
    return tap_times_serve(&m, r);
}

static void begin(void)
{
    struct tap_msg r;

    assert_null(ask(TAP_TIMES_BEGIN, TAP_TIMES_MAX_MS, &r));
    assert_true(is_timing());
    assert_true(cupti_subscribed());   /* no profiler comes in between */
}

static struct tap_msg end(void)
{
    struct tap_msg r;

    assert_null(ask(TAP_TIMES_END, 0, &r));
    assert_false(is_timing());
    assert_false(cupti_subscribed());
    return r;
}

/* The kernel of that name; without one: launches is 0. */
static struct tap_msg find(const char *name)
{
    struct tap_msg r;
    uint32_t i;

    for (i = 0; !ask(TAP_TIMES_GET, i, &r); i++)
        if (!strcmp(r.kernel, name))
            return r;
    memset(&r, 0, sizeof r);
    return r;
}

static void expect(const char *name, uint64_t launches, uint64_t ns, enum tap_seen seen)
{
    struct tap_msg r = find(name);

    assert_int_equal(r.launches, launches);
    assert_int_equal(r.time_ns, ns);
    assert_int_equal(r.mode, seen);
}

static void refuses(const char *why)
{
    struct tap_msg r;
    const char *said = ask(TAP_TIMES_BEGIN, 100, &r);

    assert_non_null(said);
    assert_non_null(strstr(said, why));
    assert_false(is_timing());
}

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

/* CUPTI keeps memory for each graph that still runs when its records are asked for by force. */
static void what_was_launched_runs_to_its_end_first(void **state)
{
    (void)state;
    begin();
    note("a", 10, 25);
    in_flight(50);
    assert_int_equal(end().launches, 1);
    assert_int_equal(left_behind(), 0);
}

/* ---- sums ------------------------------------------------------------------------------------------------------------ */

static void times_are_sums_by_name(void **state)
{
    struct tap_msg r;

    (void)state;
    note("before", 10, 20);            /* no window is open */
    begin();
    note("a", 10, 25);
    note("b", 20, 30);
    note("a", 40, 45);
    note("incomplete", 0, 0);
    note("running", 50, 0);
    note("a", 50, 50 + 3600000000000); /* longer than the window */
    note(NULL, 60, 64);
    r = end();
    assert_int_equal(r.number, 3);
    assert_int_equal(r.launches, 4);
    assert_int_equal(r.time_ns, 34);
    assert_int_equal(r.lost, 3);
    expect("a", 2, 20, TAP_SEEN_UNKNOWN);
    expect("b", 1, 10, TAP_SEEN_UNKNOWN);
    expect("", 1, 4, TAP_SEEN_UNKNOWN);
    assert_int_equal(find("before").launches, 0);
    assert_non_null(ask(TAP_TIMES_GET, 3, &r));
    assert_null(ask(TAP_TIMES_END, 0, &r)); /* once more: the same */
    assert_int_equal(r.launches, 4);
    begin();
    r = end();
    assert_int_equal(r.number, 0);
    assert_int_equal(r.lost, 0);
}

/* A name that is longer than what is told of it is a kernel of its own. */
static void long_names_are_told_apart(void **state)
{
    static char one[2000], two[2000];
    struct tap_msg r;

    (void)state;
    memset(one, 'x', sizeof one - 1);
    memset(two, 'x', sizeof two - 1);
    two[1998] = 'y';
    begin();
    note(one, 1, 2);
    note(two, 2, 5);
    note(one, 5, 6);
    r = end();
    assert_int_equal(r.number, 2);
    assert_null(ask(TAP_TIMES_GET, 0, &r));
    assert_int_equal(r.time_ns, 2);
    assert_int_equal(strlen(r.kernel), TD_OP_MAX_SYMBOL - 1);
    assert_null(ask(TAP_TIMES_GET, 1, &r));
    assert_int_equal(r.time_ns, 3);
}

static void a_full_table_has_a_rest(void **state)
{
    static char name[300][16];
    struct tap_msg r;
    int i;

    (void)state;
    begin();
    for (i = 0; i < 300; i++) {
        snprintf(name[i], sizeof name[i], "kernel %d", i);
        note(name[i], 1, 3);
        note(name[i], 3, 4);
    }
    r = end();
    assert_int_equal(r.number, TAP_TIMES_KERNELS);
    assert_int_equal(r.launches, 600);
    assert_int_equal(r.time_ns, 900);
    expect("kernel 255", 2, 3, TAP_SEEN_UNKNOWN);
    expect("", 88, 132, TAP_SEEN_UNKNOWN);
    assert_non_null(ask(TAP_TIMES_GET, TAP_TIMES_KERNELS, &r));
}

static void what_finds_no_buffer_is_lost(void **state)
{
    struct tap_msg r;
    int i;

    (void)state;
    begin();
    for (i = 0; i < MANY; i++)
        note("a", 1, 2);
    r = end();
    assert_true(r.lost > 0);
    assert_int_equal(r.launches + r.lost, MANY);
    begin();                           /* all buffers are free again */
    note("a", 1, 2);
    r = end();
    assert_int_equal(r.launches, 1);
    assert_int_equal(r.lost, 0);
}

/* ---- who launches them ----------------------------------------------------------------------------------------------- */

static void launch_other(void *stream)
{
    int count = 4;
    uint64_t p = dev_a;
    void *at[] = {&count, &p};

    cu.launch(gpu_kernel(FAKE_OTHER), 1, 1, 1, 32, 1, 1, 0, stream, at, NULL);
}

/* Nothing was armed: the nodes of a graph alone tell. */
static void nodes_of_products_are_recorded(void **state)
{
    void *graph, *exec;

    (void)state;
    assert_int_equal(cudaStreamBeginCapture(capture_stream, 0), 0);
    launch_other(capture_stream);
    layers(capture_stream, 2);
    launch_other(capture_stream);
    assert_int_equal(cudaStreamEndCapture(capture_stream, &graph), 0);
    assert_int_equal(cudaGraphInstantiateWithFlags(&exec, graph, 1), 0);
    assert_int_equal(cudaGraphDestroy(graph), 0);
    begin();
    assert_false(step(exec, 1));
    assert_false(step(exec, 2));
    end();
    expect(FAKE_LINEAR, 2 * TWIN_LAYERS, 2000 * TWIN_LAYERS, TAP_SEEN_RECORDED);
    expect(FAKE_OTHER, 4, 4000, TAP_SEEN_NOT);
    assert_int_equal(cudaGraphExecDestroy(exec), 0);
}

/* In place of cuBLAS's one kernel: another one before it. */
static int two_kernels(void *h, const void *desc, const void *alpha, const void *a, const void *a_layout, const void *b, const void *b_layout, const void *beta, const void *c,
                       const void *c_layout, void *d, const void *d_layout, const void *algorithm, void *workspace, size_t workspace_bytes, void *stream)
{
    int m = 1, n = K, k = K;
    uint64_t from = buffer[0], by = w[0], to = buffer[1];
    void *at[] = {&from, &by, &to, &m, &n, &k};

    (void)h, (void)desc, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout, (void)beta, (void)c, (void)c_layout, (void)d, (void)d_layout;
    (void)algorithm, (void)workspace, (void)workspace_bytes, (void)stream;
    launch_other(capture_stream);
    return cu.launch(gpu_kernel(FAKE_LINEAR), 1, 1, 1, 32, 1, 1, 0, capture_stream, at, NULL);
}

/* All kernels of a product's call are its own. */
static void nodes_before_the_last_are_recorded(void **state)
{
    int(**lt) TD_CUBLASLT_MATMUL_ARGS = dlsym(RTLD_DEFAULT, "fake_cublas_lt");
    void *exec;

    (void)state;
    assert_non_null(lt);
    *lt = two_kernels;
    exec = capture(2);
    *lt = NULL;
    begin();
    step(exec, 1);
    end();
    expect(FAKE_LINEAR, TWIN_LAYERS, 1000 * TWIN_LAYERS, TAP_SEEN_RECORDED);
    expect(FAKE_OTHER, TWIN_LAYERS, 1000 * TWIN_LAYERS, TAP_SEEN_RECORDED);
    assert_int_equal(cudaGraphExecDestroy(exec), 0);
}

/* The kernel of a product is launched elsewhere in a graph by something that is none: nobody knows whose time it is. */
static void a_name_of_both_is_unknown(void **state)
{
    uint64_t a = buffer[0], b = w[0], c = buffer[1];
    int m = 1, n = K, k = K;
    void *at[] = {&a, &b, &c, &m, &n, &k}, *graph, *exec;

    (void)state;
    assert_int_equal(cudaStreamBeginCapture(capture_stream, 0), 0);
    layers(capture_stream, 2);
    cu.launch(gpu_kernel(FAKE_LINEAR), 1, 1, 1, 32, 1, 1, 0, capture_stream, at, NULL);
    assert_int_equal(cudaStreamEndCapture(capture_stream, &graph), 0);
    assert_int_equal(cudaGraphInstantiateWithFlags(&exec, graph, 1), 0);
    assert_int_equal(cudaGraphDestroy(graph), 0);
    begin();
    step(exec, 1);
    end();
    expect(FAKE_LINEAR, TWIN_LAYERS + 1, 1000 * (TWIN_LAYERS + 1), TAP_SEEN_UNKNOWN);
    assert_int_equal(cudaGraphExecDestroy(exec), 0);
}

/* Outside of graphs: the launches of the last arm tell. */
static void launches_of_the_last_arm_tell(void **state)
{
    struct bench b;

    (void)state;
    begin();
    gpu_pass(1, 1);
    cu.stream_synchronize(gpu_stream);
    end();
    assert_int_equal(find(gpu_symbol(1)).mode, TAP_SEEN_UNKNOWN);
    arm(&b, TAP_MODE_ALL);
    gpu_pass(1, 2);
    disarm(&b);
    bench_close(&b);
    begin();
    gpu_pass(1, 3);
    cu.stream_synchronize(gpu_stream);
    end();
    expect(gpu_symbol(1), LAYERS, 1000 * LAYERS, TAP_SEEN_RECORDED);
    expect(FAKE_OTHER, 20 + 3 * LAYERS, 1000 * (20 + 3 * LAYERS), TAP_SEEN_NOT);
}

/* ---- refusals, and ends ---------------------------------------------------------------------------------------------- */

static void a_profiler_keeps_its_place(void **state)
{
    (void)state;
    cupti_take("Nsight Systems");
    refuses("Nsight Systems");
    cupti_take(NULL);
    begin();
    end();
}

static void unknown_records_are_not_read(void **state)
{
    (void)state;
    set_version(130600);
    refuses("this CUPTI has version 130600");
    assert_false(cupti_subscribed());
    set_version(18);
    refuses("this CUPTI has version 18");
    set_version(28);
    begin();
    end();
    set_version(0);
}

static void a_window_ends_by_itself(void **state)
{
    struct tap_msg r;
    int i;

    (void)state;
    assert_int_equal(tap_times_wait_ms(-1), -1);
    assert_null(ask(TAP_TIMES_BEGIN, 20, &r));
    assert_in_range(tap_times_wait_ms(-1), 0, 21);
    note("a", 1, 2);
    for (i = 0; i < 2000 && is_timing(); i++) {
        tap_times_tick();
        usleep(1000);
    }
    assert_false(is_timing());
    assert_false(cupti_subscribed());
    assert_int_equal(tap_times_wait_ms(-1), -1);
    note("late", 1, 2);
    assert_null(ask(TAP_TIMES_END, 0, &r)); /* what it held is there */
    assert_int_equal(r.launches, 1);
    assert_non_null(ask(TAP_TIMES_BEGIN, 0, &r));
    assert_non_null(ask(TAP_TIMES_BEGIN, TAP_TIMES_MAX_MS + 1, &r));
    assert_non_null(ask(TAP_TIMES_GET + 1, 0, &r));
}

/* The recorder is killed while the server computes: CUPTI is let go of, and the next window works. */
static void a_window_is_dropped(void **state)
{
    struct tap_msg r;

    (void)state;
    begin();
    gpu_pass(1, 1);
    tap_times_drop();
    assert_false(is_timing());
    assert_false(cupti_subscribed());
    assert_non_null(ask(TAP_TIMES_END, 0, &r));
    assert_non_null(ask(TAP_TIMES_GET, 0, &r));
    gpu_pass(1, 2);
    cu.stream_synchronize(gpu_stream);
    begin();
    end();
}

static void not_while_armed(void **state)
{
    struct bench b;
    struct tap_msg r;

    (void)state;
    arm(&b, TAP_MODE_ALL);
    assert_string_equal(ask(TAP_TIMES_BEGIN, 100, &r), "the tap is armed");
    gpu_pass(1, 1);
    disarm(&b);
    assert_int_equal(b.n_ops, LAYERS);
    bench_close(&b);
}

static _Atomic bool enough;

static void *launch_on(void *nothing)
{
    cu.ctx_set_current(gpu_context);
    while (!enough)
        gpu_pass(1, 7);
    cu.stream_synchronize(gpu_stream);
    return nothing;
}

static void windows_while_a_server_launches(void **state)
{
    pthread_t thread;
    struct tap_msg r;
    int i, some = 0;

    (void)state;
    enough = false;
    assert_int_equal(pthread_create(&thread, NULL, launch_on, NULL), 0);
    for (i = 0; i < 20 || (!some && i < 2000); i++) {
        begin();
        usleep(2000);
        r = end();
        some += r.launches > 0;
    }
    enough = true;
    pthread_join(thread, NULL);
    assert_true(some);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_launched_runs_to_its_end_first),
        cmocka_unit_test(times_are_sums_by_name),
        cmocka_unit_test(long_names_are_told_apart),
        cmocka_unit_test(a_full_table_has_a_rest),
        cmocka_unit_test(what_finds_no_buffer_is_lost),
        cmocka_unit_test(nodes_of_products_are_recorded),
        cmocka_unit_test(nodes_before_the_last_are_recorded),
        cmocka_unit_test(a_name_of_both_is_unknown),
        cmocka_unit_test(launches_of_the_last_arm_tell),
        cmocka_unit_test(a_profiler_keeps_its_place),
        cmocka_unit_test(unknown_records_are_not_read),
        cmocka_unit_test(a_window_ends_by_itself),
        cmocka_unit_test(a_window_is_dropped),
        cmocka_unit_test(not_while_armed),
        cmocka_unit_test(windows_while_a_server_launches),
    };

    (void)argc;
    twins_on(argv, NULL);
    return cmocka_run_group_tests(tests, setup_times, gpu_teardown);
}
