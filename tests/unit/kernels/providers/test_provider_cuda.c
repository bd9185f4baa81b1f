/* test_provider_cuda.c - ops on a GPU that is none: the fake driver, with vLLM's kernels as C functions or ours in the emulator.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "kernels/gpu/driver.h"
#include "kernels/providers/provider_gpu_state.h"
#include "common/f16.h"
#include "tests/unit/kernels/providers/gpu_provider_rig.h"

#define VLLM_4BIT "_ZN4vllm4gptq33gemm_half_q_half_gptq_4bit_kernelILb1ELi8EEEvv"

static char like[4096], other[4096], old[4096], cublas[4096];

static int setup(void **state)
{
    (void)state;
    beside("tests/unit/data/gptq_like.fatbin", like);
    beside("tests/unit/data/gptq_other.fatbin", other);
    beside("tests/unit/data/gptq_sm80.cubin", old);
    setenv("TD_FAKE_GPTQ", "exact", 1);
    setenv("TD_CUBLAS_LIBRARY", beside("tests/helpers/lib_fake_cublas.so", cublas), 1);
    return rig_open("cuda", "TD_CUDA_LIBRARY", "tests/helpers/lib_fake_cuda.so", "tests/helpers/lib_fake_gptq.so", "tests/helpers/lib_fake_simt.so");
}

static void test_ops_are_right(void **state)
{
    void *s = open_build(like);
    struct td_error err = {0};
    struct td_op_call op;
    int i;

    (void)state;
    for (i = 0; i < 8; i++) {
        make_gptq(&op, i & 1 ? 20 : 1, i & 2 ? 8 : 4, i & 4, i);
        op.guard = i == 7;
        op.in[0].align = i & 1 ? 4096 : 64;
        if (!(run_and_compare(s, &op, &err) < 2e-3))
            fail_msg("op %d: %s", i, err.code ? err.msg : "wrong");
        random_gptq_free(&op);
    }
    gpu->close(s);
    assert_int_equal(fake->bytes_in_use(), 0);
}

/* vLLM's kernel adds to C, so each run begins with zeros, also without a refill in between. */
static void test_c_is_zero_before_each_run(void **state)
{
    void *s = open_build(like), *p = NULL;
    struct td_error err = {0};
    struct td_op_call op;
    double diff = 0, all = 0;
    uint16_t *want;

    (void)state;
    make_gptq(&op, 20, 4, false, 9);
    want = malloc(op.out.size_bytes);
    memcpy(want, op.out.data, op.out.size_bytes);
    setenv("TD_FAKE_GPTQ", "good", 1);
    assert_int_equal(gpu->prepare(s, &op, &p, &err), 0);
    assert_int_equal(gpu->refill(s, p, &err), 0);
    assert_int_equal(gpu->run(s, p, &err) | gpu->run(s, p, &err) | gpu->fetch(s, p, &err), 0);
    setenv("TD_FAKE_GPTQ", "exact", 1);
    for (size_t i = 0; i < op.out.size_bytes / 2; i++) {
        const double w = td_f16_load(want[i]), d = td_f16_load(((uint16_t *)op.out.data)[i]) - w;

        diff += d * d;
        all += w * w;
    }
    assert_true(diff < 1e-4 * all);
    gpu->release(s, p);
    free(want);
    random_gptq_free(&op);
    gpu->close(s);
}

static void test_our_kernels_from_both_layouts(void **state)
{
    static const char *const only[] = {"gemm_4bit_f32", "exllama_4bit_f32"};
    struct td_error err = {0};
    struct td_op_call op;

    (void)state;
    for (int i = 0; i < 2; i++) {
        void *s;

        setenv("TD_CUDA_KERNEL", only[i], 1);
        s = open_build(like);
        unsetenv("TD_CUDA_KERNEL");
        make_gptq(&op, 9, 4, i, 50 + i);
        if (!(run_and_compare(s, &op, &err) < 2e-3))
            fail_msg("%s: %s", only[i], err.code ? err.msg : "wrong");
        random_gptq_free(&op);
        gpu->close(s);
    }
}

static void test_what_it_cannot_do_is_named(void **state)
{
    void *s = open_build(like), *o = open_build(other), *a = open_build(old);
    struct td_op_call op;

    (void)state;
    make_gptq(&op, 3, 4, false, 1);
    assert_null(gpu->supports(s, &op)); /* vLLM's has no such instance in this build, ours does it */
    strcpy(op.symbol, VLLM_4BIT); /* but it was recorded from vLLM's: no other kernel answers for it */
    assert_non_null(strstr(gpu->supports(s, &op), "not for 3 rows"));
    assert_non_null(strstr(gpu->supports(o, &op), "takes parameters of 8 8 8 8 8 4 4 4 4 1 8 4 bytes"));
    assert_non_null(strstr(gpu->supports(a, &op), "for sm_80, none of which runs on sm_90; build it for that too"));
    strcpy(op.kind, "attention");
    assert_non_null(strstr(gpu->supports(s, &op), "provider cuda runs gptq_gemm, gemm"));
    random_gptq_free(&op);
    gpu->close(s);
    gpu->close(o);
    gpu->close(a);
}

/* More rows than vLLM's kernel takes: one of its kernels makes W whole, cuBLAS multiplies, and what is judged is a W in halves. */
static void test_many_rows_go_to_cublas(void **state)
{
    static const struct { int m, bits; bool act; } ops[] = {{51, 4, false}, {60, 4, true}, {25, 8, false}, {130, 8, true}};
    void *s = open_build(like);
    struct td_error err = {0};
    struct td_op_call op;

    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        make_gptq(&op, ops[i].m, ops[i].bits, ops[i].act, (int)i);
        strcpy(op.symbol, ops[i].bits == 4 ? "reconstruct_exllama_4bit_kernel" : "reconstruct_exllama_8bit_kernel");
        strcpy(op.act_rounding, "weight-f16");
        assert_int_equal(random_gptq_run(&op, "cpu"), 0);
        op.guard = i & 1;
        assert_string_equal(gpu->rounding(s, &op), "weight-f16");
        if (!(run_and_compare(s, &op, &err) < 2e-3))
            fail_msg("op %zu: %s", i, err.code ? err.msg : "wrong");
        random_gptq_free(&op);
    }
    gpu->close(s);
    assert_int_equal(fake->bytes_in_use(), 0);
}

static void wrong_by(const char *variable, const char *how, struct td_op_call *op, const char *because)
{
    void *s = open_build(like);
    struct td_error err = {0};
    void *right = malloc(op->out.size_bytes);
    double worst;

    memcpy(right, op->out.data, op->out.size_bytes);
    setenv(variable, how, 1);
    worst = run_and_compare(s, op, &err);
    memcpy(op->out.data, right, op->out.size_bytes);
    free(right);
    if (because ? !isinf(worst) || !strstr(err.msg, because) : !(isnan(worst) || worst > 1e-2))
        fail_msg("%s=%s: %g, \"%s\"", variable, how, worst, err.msg);
    setenv(variable, "exact", 1);
    gpu->close(s);
    fake->reset();
}

static void test_either_half_may_be_wrong(void **state)
{
    struct td_op_call op;

    (void)state;
    make_gptq(&op, 60, 4, false, 5);
    wrong_by("TD_FAKE_GPTQ", "scale", &op, NULL);
    wrong_by("TD_FAKE_GPTQ", "hole", &op, "NaN"); /* what was left out of W was poison */
    wrong_by("TD_FAKE_BLAS", "column", &op, NULL);
    wrong_by("TD_FAKE_BLAS", "refuse", &op, "the matrix product failed: cuBLAS 13.0.2 says status 14");
    wrong_by("TD_FAKE_GPTQ", "fault", &op, "CUDA_ERROR_ILLEGAL_ADDRESS");
    op.guard = true;
    wrong_by("TD_FAKE_GPTQ", "behind", &op, "with guards behind its tensors");
    wrong_by("TD_FAKE_BLAS", "behind", &op, "with guards behind its tensors");
    random_gptq_free(&op);
}

/* Another kernel may answer, but not for one that was recorded. */
static void test_no_cublas(void **state)
{
    char was[4096];
    struct td_op_call op;
    void *s;

    (void)state;
    snprintf(was, sizeof was, "%s", getenv("TD_CUBLAS_LIBRARY"));
    make_gptq(&op, 60, 4, false, 1);
    setenv("TD_CUBLAS_LIBRARY", "/nowhere/libcublas.so.13", 1);
    s = open_build(like);
    assert_null(gpu->supports(s, &op));
    assert_string_equal(gpu->rounding(s, &op), "none");
    strcpy(op.symbol, "reconstruct_exllama_4bit_kernel");
    assert_non_null(strstr(gpu->supports(s, &op), "60 rows: vLLM leaves the product to a library"));
    assert_non_null(strstr(gpu->supports(s, &op), "TD_CUBLAS_LIBRARY=FILE (--build-env) names cuBLAS; there is none"));
    gpu->close(s);
    setenv("TD_CUBLAS_LIBRARY", getenv("TD_CUDA_LIBRARY"), 1);
    s = open_build(like);
    assert_non_null(strstr(gpu->supports(s, &op), "what was found has no cublas"));
    gpu->close(s);
    setenv("TD_CUBLAS_LIBRARY", was, 1);
    random_gptq_free(&op);
}

/* SITE/vllm/build beside SITE/nvidia/cublas/lib, as pip lays them out; and one that cannot make a handle is the machine's want. */
static void test_cublas_beside_the_build(void **state)
{
    char site[] = "/tmp/td-site-XXXXXX", path[4200], build[4200], was[4096], copy[12600];
    struct td_error err = {0};
    struct td_op_call op;
    void *s;

    (void)state;
    snprintf(was, sizeof was, "%s", getenv("TD_CUBLAS_LIBRARY"));
    unsetenv("TD_CUBLAS_LIBRARY");
    assert_non_null(mkdtemp(site));
    snprintf(path, sizeof path, "%s/nvidia/cublas/lib", site);
    assert_int_equal(td_fs_mkdirs(path, NULL), 0);
    snprintf(path, sizeof path, "%s/vllm", site);
    assert_int_equal(td_fs_mkdirs(path, NULL), 0);
    snprintf(copy, sizeof copy, "cp %s %s/vllm/like.fatbin && cp %s %s/nvidia/cublas/lib/libcublas.so.12", like, site, was, site);
    assert_int_equal(system(copy), 0);
    snprintf(build, sizeof build, "%s/vllm/like.fatbin", site);
    make_gptq(&op, 60, 4, false, 1);
    strcpy(op.symbol, "reconstruct_exllama_4bit_kernel");
    s = open_build(build);
    assert_null(gpu->supports(s, &op));
    snprintf(path, sizeof path, "%s/nvidia/cublas/lib/libcublas.so.12", site);
    assert_non_null(dlopen(path, RTLD_NOLOAD | RTLD_LAZY)); /* that file, and no other of its name */
    fake->fault("load", 2, 200); /* the first is the build's own */
    assert_true(isinf(run_and_compare(s, &op, &err)));
    assert_int_equal(err.code, TD_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "cannot make a handle for matrix products: cuBLAS 13.0.2 says status 1"));
    gpu->close(s);
    fake->reset();
    setenv("TD_CUBLAS_LIBRARY", was, 1);
    random_gptq_free(&op);
    td_fs_remove_tree(site, NULL);
}

static void test_faults_are_sentences(void **state)
{
    void *s = open_build(like);
    struct td_error err = {0};
    struct td_op_call op;

    (void)state;
    make_gptq(&op, 1, 4, false, 2);
    fake->fault("alloc", 3, 2);
    assert_true(isinf(run_and_compare(s, &op, &err)));
    assert_int_equal(err.code, TD_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "qzeros"));
    assert_non_null(strstr(err.msg, "CUDA_ERROR_OUT_OF_MEMORY"));
    assert_false(gpu->is_dead(s));
    td_error_clear(&err);
    fake->fault("launch", 1, 701);
    assert_true(isinf(run_and_compare(s, &op, &err)));
    assert_non_null(strstr(err.msg, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"));
    assert_false(gpu->is_dead(s));
    td_error_clear(&err);
    fake->fault("kernel", 1, 719);
    assert_true(isinf(run_and_compare(s, &op, &err)));
    assert_int_equal(err.code, TD_ECRASH);
    assert_true(gpu->is_dead(s));
    fake->reset();
    random_gptq_free(&op);
    gpu->close(s);
}

static void test_a_write_behind_c_is_caught_by_the_guard_alone(void **state)
{
    void *s = open_build(like);
    struct td_error err = {0};
    struct td_op_call op;

    (void)state;
    make_gptq(&op, 1, 4, false, 3);
    setenv("TD_FAKE_GPTQ", "behind", 1);
    assert_false(isinf(run_and_compare(s, &op, &err)));
    op.guard = true;
    op.out.align = 4096; /* the gap behind the tensor is wider than what is written: its pattern tells */
    assert_true(isinf(run_and_compare(s, &op, &err)));
    assert_non_null(strstr(err.msg, "wrote past the end of c"));
    assert_false(gpu->is_dead(s));
    td_error_clear(&err);
    op.out.align = 16;
    assert_true(isinf(run_and_compare(s, &op, &err)));
    assert_non_null(strstr(err.msg, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert_true(gpu->is_dead(s));
    setenv("TD_FAKE_GPTQ", "exact", 1);
    random_gptq_free(&op);
    gpu->close(s);
    fake->reset();
}

static void test_time(void **state)
{
    void *s = open_build(like), *p = NULL;
    struct td_error err = {0};
    struct td_op_call op;
    int64_t hot = 0, cold = 0;

    (void)state;
    make_gptq(&op, 1, 4, false, 4);
    assert_int_equal(gpu->prepare(s, &op, &p, &err), 0);
    assert_int_equal(gpu->time(s, p, 3, false, &hot, &err), 0);
    assert_int_equal(gpu->time(s, p, 2, true, &cold, &err), 0);
    assert_true(hot > 0 && cold > 0);
    gpu->release(s, p);
    random_gptq_free(&op);
    gpu->close(s);
}

/* Give each tensor the name of its bytes. */
static void name_bytes(struct td_op_call *op)
{
    for (int i = 0; i < op->n_in; i++)
        op->in[i].content = td_hash_bytes(op->in[i].data, op->in[i].size_bytes);
}

static size_t weights_of(const struct td_op_call *op)
{
    size_t n = 0;

    for (int i = 1; i < op->n_in; i++)
        n += op->in[i].size_bytes;
    return n;
}

static size_t uploaded(void *s, struct td_op_call *op)
{
    const size_t before = fake->bytes_copied_in();
    struct td_error err = {0};

    if (!(run_and_compare(s, op, &err) < 2e-3))
        fail_msg("%s", err.code ? err.msg : "another result");
    return fake->bytes_copied_in() - before;
}

/* Weights are uploaded once, also where their layout is another on the GPU; what a kernel did to them is gone with the
 * next op; and others of the same sizes are not taken for them. */
static void test_weights_are_uploaded_once(void **state)
{
    const struct td_gpu_driver *d = &td_gpu_driver_cuda;
    struct td_op_call op, others;
    struct td_error err = {0};
    size_t all, weights;

    (void)state;
    make_gptq(&op, 1, 4, true, 6);
    make_gptq(&others, 1, 4, true, 60);
    weights = weights_of(&op);
    assert_string_equal(op.in[0].role, "a");
    for (int guard = 0; guard < 2; guard++) {
        struct td_gpu_prepared *now;
        void *s = open_build(like), *p = NULL;
        size_t in_use;

        op.guard = others.guard = guard;
        all = uploaded(s, &op);
        assert_true(all > weights);
        assert_int_equal(uploaded(s, &op), all); /* nobody named its bytes */
        name_bytes(&op);
        name_bytes(&others);
        assert_int_equal(uploaded(s, &op), all);
        in_use = fake->bytes_in_use();
        assert_int_equal(uploaded(s, &op), all - weights);
        assert_int_equal(fake->bytes_in_use(), in_use);
        assert_int_equal(gpu->prepare(s, &op, &p, &err), 0);
        now = p;
        assert_int_equal(d->set(((struct td_gpu_state *)s)->device, now->memory[TD_GPU_AT_QWEIGHT].address, 0x5a, 64, &err), 0);
        gpu->release(s, p);
        assert_int_equal(uploaded(s, &op), all - weights);
        assert_int_equal(uploaded(s, &others), all);
        assert_int_equal(uploaded(s, &op), all);
        op.guard = !guard; /* nothing fits as it lies; then the device is full, and the weights that stayed are given up */
        fake->fault("alloc", 2, 2);
        assert_int_equal(uploaded(s, &op), all + op.in[0].size_bytes);
        assert_int_equal(uploaded(s, &op), all - weights_of(&op));
        gpu->close(s);
        fake->reset();
        for (int i = 0; i < op.n_in; i++)
            op.in[i].content = (struct td_hash){0, 0};
    }
    random_gptq_free(&op);
    random_gptq_free(&others);
}

/* Seen on an H200: an op is refused once its scales are on their way, and the next op's first wait says CUDA_ERROR_LAUNCH_FAILED. */
static void test_what_is_under_way_is_waited_for(void **state)
{
    const struct td_gpu_driver *d = &td_gpu_driver_cuda;
    struct td_gpu_memory copied, filled;
    struct td_gpu_facts facts;
    struct td_error err = {0};
    uint8_t bytes[512] = {1};
    void *device;

    (void)state;
    assert_int_equal(d->open(&device, false, &facts, &err), TD_OK);
    assert_int_equal(d->alloc(device, sizeof bytes, 16, true, &copied, &err), TD_OK);
    assert_int_equal(d->copy_in(device, copied.address, bytes, sizeof bytes, &err), TD_OK);
    d->free(device, &copied);
    assert_int_equal(d->wait(device, &err), TD_OK);
    assert_int_equal(d->alloc(device, sizeof bytes, 16, true, &filled, &err), TD_OK);
    assert_int_equal(d->set(device, filled.address, 1, sizeof bytes, &err), TD_OK);
    d->free(device, &filled);
    assert_int_equal(d->wait(device, &err), TD_OK);
    assert_false(d->is_dead(device));
    d->close(device);
    fake->reset();
}

static void test_no_driver(void **state)
{
    char was[4096];
    struct td_error err = {0};
    void *s = NULL;

    (void)state;
    snprintf(was, sizeof was, "%s", getenv("TD_CUDA_LIBRARY"));
    setenv("TD_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
    assert_int_equal(gpu->open(like, &s, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "no CUDA driver on this machine"));
    td_error_clear(&err);
    setenv("TD_CUDA_LIBRARY", was, 1);
    fake->fault("init", 1, 100);
    assert_int_equal(gpu->open(like, &s, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "CUDA_ERROR_NO_DEVICE"));
    td_error_clear(&err);
    assert_int_equal(gpu->open("/nowhere/x.fatbin", &s, &err), TD_ENOTFOUND);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_are_right), cmocka_unit_test(test_c_is_zero_before_each_run), cmocka_unit_test(test_our_kernels_from_both_layouts), cmocka_unit_test(test_what_it_cannot_do_is_named),
        cmocka_unit_test(test_many_rows_go_to_cublas), cmocka_unit_test(test_either_half_may_be_wrong), cmocka_unit_test(test_no_cublas), cmocka_unit_test(test_cublas_beside_the_build),
        cmocka_unit_test(test_faults_are_sentences), cmocka_unit_test(test_a_write_behind_c_is_caught_by_the_guard_alone), cmocka_unit_test(test_time),
        cmocka_unit_test(test_weights_are_uploaded_once),
        cmocka_unit_test(test_what_is_under_way_is_waited_for), cmocka_unit_test(test_no_driver),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
