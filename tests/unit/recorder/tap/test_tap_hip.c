/* test_tap_hip.c - launches of vLLM's gptq kernels on a fake HIP runtime, in every form that HIP has, through the tap into a fixture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The program calls the tap's functions, as one does that was started with LD_PRELOAD; behind them is tests/helpers/lib_fake_hip.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/json.h"
#include "kernels/abi/hip_abi.h"
#include "kernels/gpucode/image_find.h"
#include "kernels/abi/hip_abi.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/hip/hip_code.h"
#include "recorder/tap/hip/hip_others.h"
#include "recorder/tap/hip/hip_use.h"
#include "tap_bench.h"
#include "tests/helpers/fake_gptq.h"

enum { N = 64, K = 64, GROUP = 32, MAX_ROWS = 64, ROWS = 8 /* of a block of the kernel that is launched most */ };

#define MEMBER(name, member, args) int (*member) args;
static struct { TD_HIP_SHARED(MEMBER) } hip;
static struct {
    void **(*register_binary)(const void *wrapper);
    void (*register_function)(void **, const void *, char *, const char *, unsigned, void *, void *, void *, void *, int *);
    int (*begin_capture)(void *stream, int mode), (*end_capture)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*destroy)(void *graph), (*destroy_exec)(void *exec);
    int (*peek)(void), (*clear)(void);
} more;
static const struct fake_cuda_api *say;
static void *runtime, *stream, *module, *function, *code;
static size_t code_bytes;             /* of the code object in `code`, a bundle */
static char stub, other_stub;         /* their addresses stand for kernels */
static uint64_t dev_a, dev_c, qweight, qzeros, scales;

/* The tap's. */
int hipLaunchKernel TD_HIP_STUB_ARGUMENTS;
int hipLaunchKernel_spt TD_HIP_STUB_ARGUMENTS;
int hipExtLaunchKernel TD_HIP_EXT_STUB_ARGUMENTS;
int hipLaunchCooperativeKernel TD_HIP_TOGETHER_ARGUMENTS;
int hipModuleLaunchKernel TD_HIP_MODULE_ARGUMENTS;
int TD_HIP_EXT_MANGLED TD_HIP_EXT_ARGUMENTS;
int hipGraphLaunch(void *graph, void *stream);
int hipDeviceReset(void);
int hipSetDevice(int device);

/* ---- the runtime, and a model of one layer ------------------------------------------------------------------------- */

static bool find_runtime(void)
{
    const char *o = getenv("O");
    const struct fake_cuda_api *(*api)(void);
    char path[600];

    snprintf(path, sizeof path, "%s/tests/helpers/lib_fake_hip.so", o ? o : "build");
    runtime = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!runtime)
        return false;
#define FIND(name, member, args) *(void **)&hip.member = dlsym(runtime, #name);
    TD_HIP_SHARED(FIND)
    *(void **)&more.register_binary = dlsym(runtime, "__hipRegisterFatBinary");
    *(void **)&more.register_function = dlsym(runtime, "__hipRegisterFunction");
    *(void **)&more.begin_capture = dlsym(runtime, "hipStreamBeginCapture");
    *(void **)&more.end_capture = dlsym(runtime, "hipStreamEndCapture");
    *(void **)&more.instantiate = dlsym(runtime, "hipGraphInstantiateWithFlags");
    *(void **)&more.destroy = dlsym(runtime, "hipGraphDestroy");
    *(void **)&more.destroy_exec = dlsym(runtime, "hipGraphExecDestroy");
    *(void **)&more.peek = dlsym(runtime, "hipPeekAtLastError");
    *(void **)&more.clear = dlsym(runtime, "hipGetLastError");
    *(void **)&api = dlsym(runtime, "fake_cuda_api");
    say = api();
    say->use_thread(true);
    fake_gptq_add(say);
    return true;
}

static uint64_t memory(size_t bytes, unsigned seed)
{
    uint64_t d = 0;
    size_t i;

    hip.mem_alloc(&d, bytes);
    for (i = 0; i < bytes / 2; i++)
        ((uint16_t *)d)[i] = (uint16_t)(0x2c00 + (seed + i * 7) % 1024);
    return d;
}

/* The code object of the fake device, out of the bundle: what the real runtime gives to HSA. */
static void see_code(void)
{
    const struct td_gpu_device device = {.gfx = "gfx90a"};
    struct td_gpu_image *image;
    const void *elf;
    size_t n;
    int i;

    assert_int_equal(td_gpu_image_memory(code, code_bytes, "like", &image, NULL), 0);
    for (i = 0; !td_gpu_entry_fits(td_gpu_image_entry(image, i), &device); i++)
        ;
    assert_int_equal(td_gpu_image_code(image, i, &elf, &n, NULL), 0);
    tap_hip_code_note(elf, n);
    td_gpu_image_close(image);
}

static int setup(void **state)
{
    static struct { uint32_t magic, version; const void *binary; void *unused; } wrapper = {0x48495046, 1, NULL, NULL};
    static struct td_buf file = TD_BUF_INIT(1 << 20);
    struct td_error err = {0};
    void **binary;

    (void)state;
    setenv("TD_TAP_DIR", "/nonexistent", 1);
    if (!find_runtime() || td_fs_read("tests/unit/data/tap_like.hsaco", 1 << 20, &file, &err))
        return -1;
    code = file.data;
    code_bytes = file.len;
    wrapper.binary = code;
    binary = more.register_binary(&wrapper);
    more.register_function(binary, &stub, NULL, FAKE_GPTQ_4BIT(8), 0, NULL, NULL, NULL, NULL, NULL);
    more.register_function(binary, &other_stub, NULL, FAKE_OTHER, 0, NULL, NULL, NULL, NULL, NULL);
    if (hip.init(0) || hipSetDevice(0) || tap_front_hip.describe((char[TAP_TEXT]){0}, (char[TAP_TEXT]){0}, TAP_TEXT)) /* nothing was launched */
        return -1;
    dev_a = memory(MAX_ROWS * K * 2, 1), dev_c = memory(MAX_ROWS * N * 2, 2), qweight = memory(K / 8 * N * 4, 3), qzeros = memory(K / GROUP * N / 2, 4);
    scales = memory(K / GROUP * N * 2, 5);
    if (hip.stream_create(&stream, TD_CUDA_STREAM_NON_BLOCKING) || hip.module_load(&module, code) || hip.module_get_function(&function, module, FAKE_GPTQ_4BIT(8)))
        return -1;
    see_code();
    return 0;
}

struct block { uint64_t a, qweight, qzeros, scales, c; int m, n, k, groups; uint8_t v2, gap[7]; uint64_t perm; };
struct params { struct block b; void *at[11]; size_t bytes; void *extra[5]; };

static void fill(struct params *p, int first, int m)
{
    *p = (struct params){.b = {dev_a + (uint64_t)(first * K) * 2, qweight, qzeros, scales, dev_c + (uint64_t)(first * N) * 2, m, N, K, K / GROUP, 0, {0xaa}, 0},
                         .bytes = sizeof p->b};
    void *at[] = {&p->b.a, &p->b.qweight, &p->b.qzeros, &p->b.scales, &p->b.c, &p->b.m, &p->b.n, &p->b.k, &p->b.groups, &p->b.v2, &p->b.perm};
    void *extra[] = {(void *)1, &p->b, (void *)2, &p->bytes, (void *)3};

    memcpy(p->at, at, sizeof at);
    memcpy(p->extra, extra, sizeof extra);
}

#define GRID(m) ((struct td_hip_dim){1, ((unsigned)(m) + ROWS - 1) / ROWS, 1})
#define BLOCK ((struct td_hip_dim){128, 1, 1})

static int launch(int first, int m)
{
    struct params p;

    fill(&p, first, m);
    return hipLaunchKernel(&stub, GRID(m), BLOCK, p.at, 0, stream);
}

static void others(int n)
{
    int count = 4;
    void *at[] = {&count, &dev_a};

    while (n--)
        assert_int_equal(hipLaunchKernel(&other_stub, (struct td_hip_dim){1, 1, 1}, (struct td_hip_dim){32, 1, 1}, at, 0, stream), 0);
}

static void arm(struct bench *b)
{
    bench_open(b, TAP_MODE_ALL);
    tap_front_hip.set_awake(true);
    assert_null(tap_front_hip.start());
}

static void disarm(struct bench *b)
{
    tap_front_hip.stop(20000);
    tap_front_hip.set_awake(false);
    bench_read(b);
}

static void check_op(const struct bench *b, size_t i, int m)
{
    const struct td_op *op = &b->ops[i];
    const cJSON *l = cJSON_GetArrayItem(op->impl.launches, 0);

    assert_string_equal(op->kind, "gptq_gemm");
    assert_string_equal(op->impl.symbol, FAKE_GPTQ_4BIT(8));
    assert_int_equal(td_json_get_i64(op->attrs, "m", -1), m);
    assert_int_equal(td_json_get_i64(op->attrs, "n", -1), N);
    assert_int_equal(td_json_get_i64(op->attrs, "k", -1), K);
    assert_int_equal(td_json_get_i64(op->attrs, "zero_offset", -1), 1);
    assert_int_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(l, "grid"), 0)->valueint, 1);
    assert_int_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(l, "grid"), 1)->valueint, (m + ROWS - 1) / ROWS);
    assert_int_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(l, "block"), 0)->valueint, 128);
    check_blob(b, td_op_rec_in(op, "a"), (void *)dev_a, (size_t)(m * K) * 2);
    check_blob(b, &op->out, (void *)dev_c, (size_t)(m * N) * 2);
}

/* ---- tests --------------------------------------------------------------------------------------------------------- */

static void parameters_are_the_code_objects(void **state)
{
    /* as CUPTI and cuobjdump show them for the same source (fake_gptq.h); AMD's compiler lays them out alike */
    static const struct td_gpu_param want[] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 4}, {44, 4}, {48, 4}, {52, 4}, {56, 1}, {64, 8}};
    struct td_gpu_param got[TD_GPU_PARAMS];

    (void)state;
    assert_int_equal(tap_hip_code_params(FAKE_GPTQ_4BIT(8), got), 11);
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(tap_hip_code_params(FAKE_RECONSTRUCT, got), 9);
    assert_int_equal(tap_hip_code_params(FAKE_OTHER, got), 2); /* no adapter: remembered all the same */
    assert_true(got[0].offset == 0 && got[0].size == 4 && got[1].offset == 8 && got[1].size == 8);
    assert_int_equal(tap_hip_code_params("nobody_knows", got), 0);
    assert_int_equal(tap_hip_code_params(FAKE_GPTQ_8BIT(8), got), 0);
}

static void a_launch_becomes_an_op(void **state)
{
    struct bench b;

    (void)state;
    assert_int_equal(launch(0, 8), 0); /* cold: that HIP is in use is noted, and the tap's thread starts */
    assert_true(tap_hip_used());
    while (tap_hip_awake())
        usleep(1000);
    arm(&b);
    others(20);
    assert_int_equal(launch(0, 8), 0);
    others(3);
    disarm(&b);
    assert_int_equal(b.n_ops, 1);
    assert_int_equal(ledger(&b, "launches.seen"), 24);
    assert_int_equal(ledger(&b, "launches.known"), 1);
    check_op(&b, 0, 8);
    check_blob(&b, td_op_rec_in(&b.ops[0], "scales"), (void *)scales, K / GROUP * N * 2);
    bench_close(&b);
}

/* Code objects that disagree on a kernel make it unreadable; one that was seen before is no news. */
static void others_are_remembered_once(void **state)
{
    static const struct td_gpu_param two[] = {{0, 8}, {8, 4}}, far[] = {{0, 8}, {1 << 16, 4}};
    struct td_gpu_param got[TD_GPU_PARAMS];
    char name[32];
    int i, kept = 0;

    (void)state;
    tap_hip_others_add("mine", two, 2);
    tap_hip_others_add("mine", two, 2);
    assert_int_equal(tap_hip_others_params("mine", got), 2);
    assert_memory_equal(got, two, sizeof two);
    tap_hip_others_add("mine", two, 1);
    assert_int_equal(tap_hip_others_params("mine", got), TAP_HIP_UNSURE);
    tap_hip_others_add("far", far, 2);
    assert_int_equal(tap_hip_others_params("far", got), 0);
    for (i = 0; i < 40000; i++) {         /* more than there are places */
        snprintf(name, sizeof name, "kernel_%d", i);
        tap_hip_others_add(name, two, 1 + i % 2);
        kept += tap_hip_others_params(name, got) == 1 + i % 2;
    }
    assert_in_range(kept, 30000, 32768);
}

#define OWN_KERNEL "[kernel fake_hgemm_fp16]\nkind = gemm\ntype = F16\nlayout = kn\nparams = a:8 w:8 c:8 m:4 n:4 k:"

/* A kernel that only a file of the user's describes (record --ops). */
static void a_kernel_of_ones_own(void **state)
{
    uint64_t a = dev_a, w = scales, c = dev_c;
    int m = 4, n = N, k = K / GROUP, i;
    void *hgemm, *at[] = {&a, &w, &c, &m, &n, &k};
    struct bench b;

    (void)state;
    assert_int_equal(hip.module_get_function(&hgemm, module, FAKE_HGEMM), 0);
    for (i = 0; i < 3; i++) {
        static const char *const texts[] = {OWN_KERNEL "4\n", OWN_KERNEL "8\n", NULL};

        assert_null(tap_front_hip.set_rows(texts[i], texts[i] ? strlen(texts[i]) : 0));
        arm(&b);
        assert_int_equal(launch(0, 8), 0); /* a step begins with the weights that began the last one */
        assert_int_equal(hipModuleLaunchKernel(hgemm, 1, 1, 1, 32, 1, 1, 0, stream, at, NULL), 0);
        hip.stream_synchronize(stream);
        if (i == 1)
            assert_non_null(strstr(tap_front_hip.trouble(), "the kernel fake_hgemm_fp16 was launched with 6 parameters, and not those of its row"));
        disarm(&b);
        assert_int_equal(b.n_ops, i ? 1 : 2);
        if (!i) {
            assert_string_equal(b.ops[1].kind, "gemm");
            assert_string_equal(b.ops[1].impl.symbol, FAKE_HGEMM);
            check_blob(&b, td_op_rec_in(&b.ops[1], "a"), (void *)dev_a, (size_t)(m * k) * 2);
            check_blob(&b, &b.ops[1].out, (void *)dev_c, (size_t)(m * n) * 2);
        }
        bench_close(&b);
    }
}

/* What was captured is of no use: a launch in it was not counted, or failed. */
static void end_capture(void)
{
    void *graph = NULL;

    more.end_capture(stream, &graph);
    if (graph)
        more.destroy(graph);
}

static void every_form_is_read(void **state)
{
    struct params p;
    struct bench b;
    size_t i;

    (void)state;
    arm(&b);
    fill(&p, 0, 12);
    assert_int_equal(hipLaunchKernel(&stub, GRID(12), BLOCK, p.at, 0, stream), 0);
    assert_int_equal(hipExtLaunchKernel(&stub, GRID(12), BLOCK, p.at, 0, stream, NULL, NULL, 0), 0);
    assert_int_equal(hipLaunchCooperativeKernel(&stub, GRID(12), BLOCK, p.at, 0, stream), 0);
    assert_int_equal(hipModuleLaunchKernel(function, 1, 2, 1, 128, 1, 1, 0, stream, p.at, NULL), 0);
    assert_int_equal(hipModuleLaunchKernel(function, 1, 2, 1, 128, 1, 1, 0, stream, NULL, p.extra), 0);
    assert_int_equal(TD_HIP_EXT_MANGLED(function, 128, 2, 1, 128, 1, 1, 0, stream, NULL, p.extra, NULL, NULL, 0), 0); /* work-items */
    hip.stream_synchronize(stream);
    assert_int_equal(hipLaunchKernel(&stub, GRID(12), BLOCK, p.at, 0, TD_HIP_STREAM_PER_THREAD), 0);
    more.begin_capture(stream, 0);     /* now the legacy stream must not be used: NULL is the thread's own here */
    assert_int_equal(hipLaunchKernel_spt(&stub, GRID(12), BLOCK, p.at, 0, NULL), 0);
    end_capture();
    disarm(&b);
    assert_int_equal(b.n_ops, 8);
    for (i = 0; i < b.n_ops; i++)
        check_op(&b, i, 12);
    bench_close(&b);
}

static void launches_are_joined(void **state)
{
    struct bench b;

    (void)state;
    arm(&b);
    assert_int_equal(launch(0, 16), 0);
    assert_int_equal(launch(16, 4), 0);
    disarm(&b);
    assert_int_equal(b.n_ops, 1);
    assert_int_equal(td_json_get_i64(b.ops[0].attrs, "m", -1), 20);
    assert_int_equal(cJSON_GetArraySize(b.ops[0].impl.launches), 2);
    bench_close(&b);
}

/* What the tap does within a capture would become part of the graph. */
static void captures_are_left_alone(void **state)
{
    void *graph, *exec;
    struct bench b;

    (void)state;
    arm(&b);
    assert_int_equal(launch(0, 8), 0);
    assert_int_equal(more.begin_capture(stream, 0), 0);
    assert_int_equal(launch(0, 8), 0);
    assert_int_equal(more.end_capture(stream, &graph), 0);
    assert_int_equal(more.instantiate(&exec, graph, 0), 0);
    assert_int_equal(hipGraphLaunch(exec, stream), 0);
    hip.stream_synchronize(stream);
    assert_int_equal(more.destroy_exec(exec), 0);
    assert_int_equal(more.destroy(graph), 0);
    disarm(&b);
    assert_int_equal(b.n_ops, 1);
    assert_int_equal(ledger(&b, "ops.dropped.graph"), 1);
    assert_int_equal(ledger(&b, "launches.graphs"), 1);
    bench_close(&b);
}

/* hipGetLastError says to the server what it would say without the tap. */
static void last_errors_are_the_servers(void **state)
{
    struct params p;
    struct bench b;
    int old, rc;

    (void)state;
    for (old = 0; old < 2; old++) {
        setenv("TD_FAKE_HIP_OLD", old ? "1" : "0", 1);
        arm(&b);
        say->fault("launch", 1, TD_CUDA_LAUNCH_OUT_OF_RESOURCES);
        assert_int_equal(launch(0, 8), TD_CUDA_LAUNCH_OUT_OF_RESOURCES);
        assert_int_equal(more.clear(), TD_CUDA_LAUNCH_OUT_OF_RESOURCES);
        assert_int_equal(launch(0, 8), 0);
        assert_int_equal(more.peek(), 0);
        more.begin_capture(stream, 0);
        fill(&p, 0, 8);
        rc = hipLaunchKernel(&stub, GRID(8), BLOCK, p.at, 0, NULL); /* the legacy stream must not be used now */
        assert_int_not_equal(rc, 0);
        assert_int_equal(more.clear(), rc);
        end_capture();
        disarm(&b);
        assert_int_equal(b.n_ops, 1);
        assert_int_equal(ledger(&b, "ops.dropped.failed"), 1);
        assert_int_equal(ledger(&b, "ops.dropped.graph"), 1);
        bench_close(&b);
    }
    unsetenv("TD_FAKE_HIP_OLD");
}

/* What lay on the device before is not ours any more. */
static void a_reset_ends_the_arm(void **state)
{
    struct bench b;

    (void)state;
    arm(&b);
    assert_int_equal(launch(0, 8), 0);
    hip.stream_synchronize(stream);
    assert_int_equal(hipDeviceReset(), 0);
    assert_int_equal(launch(0, 8), 0);
    disarm(&b);
    assert_in_range(b.n_ops, 0, 1);
    assert_int_equal(ledger(&b, "ops.seen"), 2);
    bench_close(&b);
    arm(&b);
    assert_int_equal(launch(0, 8), 0);
    disarm(&b);
    assert_int_equal(b.n_ops, 1);
    bench_close(&b);
}

/* Two builds in one process: whose parameters a launch has is not known, so none are read. */
static void builds_that_disagree_are_not_read(void **state)
{
    static const char key[] = "\xa5.size\x01"; /* MessagePack: a string of 5, then 1: use_v2_format's byte */
    struct td_gpu_param got[TD_GPU_PARAMS];
    struct bench b;
    char *p = code, *end = (char *)code + code_bytes;

    (void)state;
    while ((p = memmem(p, (size_t)(end - p), key, sizeof key - 1)))
        p[sizeof key - 2] = 2;
    see_code();
    assert_int_equal(tap_hip_code_params(FAKE_GPTQ_4BIT(8), got), TAP_HIP_UNSURE);
    arm(&b);
    assert_int_equal(launch(0, 8), 0);
    disarm(&b);
    assert_int_equal(b.n_ops, 0);
    assert_int_equal(ledger(&b, "launches.seen"), 1);
    assert_int_equal(ledger(&b, "launches.known"), 0);
    bench_close(&b);
}

/* A device that cannot write values into a stream: the number comes by a fill. */
static void numbers_come_either_way(void **state)
{
    struct bench b;

    (void)state;
    setenv("TD_FAKE_HIP_NO_WRITE", "1", 1);
    arm(&b);
    assert_int_equal(launch(0, 8), 0);
    assert_int_equal(say->calls("cuMemsetD32Async"), 0);
    assert_int_equal(launch(0, 8), 0); /* the same weights again: another pass; the first one's copies are handed over */
    assert_int_equal(say->calls("cuMemsetD32Async"), 1);
    assert_int_equal(more.peek(), 0);  /* the refusal was ours */
    disarm(&b);
    unsetenv("TD_FAKE_HIP_NO_WRITE");
    assert_int_equal(b.n_ops, 2);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_the_code_objects),
        cmocka_unit_test(a_launch_becomes_an_op),
        cmocka_unit_test(a_kernel_of_ones_own),
        cmocka_unit_test(every_form_is_read),
        cmocka_unit_test(launches_are_joined),
        cmocka_unit_test(captures_are_left_alone),
        cmocka_unit_test(last_errors_are_the_servers),
        cmocka_unit_test(a_reset_ends_the_arm),
        cmocka_unit_test(numbers_come_either_way), /* from here on by a fill */
        cmocka_unit_test(builds_that_disagree_are_not_read), /* the last: that stays so */
        cmocka_unit_test(others_are_remembered_once),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
