/* test_provider_gemm.c - ops of kind gemm on a GPU that is none: the fake driver, and a library of products that stands for cuBLAS and takes what torch asks.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops/gemm_op.h"
#include "kernels/providers/provider_gpu_state.h"
#include "tests/unit/kernels/providers/gpu_provider_rig.h"
#include "tests/unit/kernels/ops/op_case.h"

static char like[4096], cublas[4096];

static int setup(void **state)
{
    (void)state;
    beside("tests/unit/data/gptq_like.fatbin", like);
    setenv("TD_FAKE_GPTQ", "exact", 1);
    setenv("TD_CUBLAS_LIBRARY", beside("tests/helpers/lib_fake_cublas_with_lt.so", cublas), 1);
    return rig_open("cuda", "TD_CUDA_LIBRARY", "tests/helpers/lib_fake_cuda.so", "tests/helpers/lib_fake_gptq.so", NULL);
}

/* Rows of A and of C lie gap elements apart, W is dense. */
static void make_linear(struct op_case *t, enum td_dtype dt, int64_t m, int64_t n, int64_t k, int64_t gap, bool bias)
{
    case_start(t, "gemm", "none", m, n, k, false);
    case_attr(t, "trans_b", 1);
    case_tensor(t, "a", dt, 2, (int64_t[]){m, k}, (int64_t[]){k + gap, 1}, 1);
    case_tensor(t, "w", dt, 2, (int64_t[]){n, k}, NULL, 0.05f);
    if (bias)
        case_tensor(t, "bias", dt, 1, &n, NULL, 1);
    case_tensor(t, "c", dt, 2, (int64_t[]){m, n}, (int64_t[]){n + gap, 1}, 0);
    t->op.out.align = 16;
}

static void make_gemm(struct op_case *t, enum td_dtype dt, int64_t m, int64_t n, int64_t k, int64_t gap)
{
    make_linear(t, dt, m, n, k, gap, false);
}

static int run(void *s, struct td_op_call *op, struct td_error *err)
{
    void *p = NULL;
    int rc;

    memset(op->out.data, 0xff, op->out.size_bytes);
    rc = gpu->prepare(s, op, &p, err);
    rc = rc ? rc : gpu->refill(s, p, err);
    rc = rc ? rc : gpu->run(s, p, err);
    rc = rc ? rc : gpu->fetch(s, p, err);
    if (p)
        gpu->release(s, p);
    return rc;
}

/* The largest distance to the right answer, in roundings of the output's type; between the rows all must be as it was. INFINITY: NaN, or written there. */
static double worst_of(const struct td_op_call *op)
{
    const double unit = op->out.dtype == TD_DT_BF16 ? 0x1p-8 : 0x1p-11;
    const int64_t m = op->out.shape[0], n = op->out.shape[1], ldc = op->out.strides[0];
    struct td_op_ref ref;
    double worst = 0;

    assert_int_equal(td_op_kind_find("gemm")->reference(op, &ref, NULL), 0);
    for (int64_t e = 0; e < (int64_t)op->out.size_bytes / 2; e++) {
        const int64_t i = e / ldc, j = e % ldc;
        const double got = td_dtype_get(op->out.dtype, op->out.data, (size_t)e);

        if (j >= n)
            worst = ((uint16_t *)op->out.data)[e] == 0xffff ? worst : INFINITY;
        else
            worst = isnan(got) ? INFINITY : fmax(worst, fabs(got - ref.r0[i * n + j]) / (unit * fabs(ref.r0[i * n + j]) + 1e-6));
    }
    assert_true(m * n > 0);
    td_op_ref_release(&ref);
    return worst;
}

static void test_ops_are_right(void **state)
{
    static const struct { enum td_dtype dt; int64_t m, n, k, gap; bool guard, bias; } ops[] = {
        {TD_DT_F16, 1, 200, 96, 0, false, false}, {TD_DT_BF16, 1, 200, 96, 8, true, false}, {TD_DT_F16, 7, 72, 33, 5, true, false}, {TD_DT_BF16, 60, 130, 64, 0, true, false},
        {TD_DT_BF16, 3, 65, 17, 3, false, false}, {TD_DT_F16, 1, 200, 96, 8, false, true}, {TD_DT_BF16, 7, 72, 33, 5, true, true}, {TD_DT_F16, 60, 130, 64, 0, true, true}};
    void *s = open_build(like);
    struct td_error err = {0};
    struct op_case t;

    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        make_linear(&t, ops[i].dt, ops[i].m, ops[i].n, ops[i].k, ops[i].gap, ops[i].bias);
        t.op.guard = ops[i].guard;
        strcpy(t.op.symbol, i & 1 ? "cublasGemmEx" : "");
        assert_null(gpu->supports(s, &t.op));
        assert_string_equal(gpu->rounding(s, &t.op), "none");
        if (run(s, &t.op, &err) || !(worst_of(&t.op) <= 1.01))
            fail_msg("op %zu: %s, %g", i, err.msg, err.code ? 0 : worst_of(&t.op));
        op_case_release(&t);
    }
    gpu->close(s);
    assert_int_equal(fake->bytes_in_use(), 0);
}

/* How TD_FAKE_BLAS says: it fails with that sentence, or (NULL) the result is wrong. */
static void wrong_by(const char *how, struct td_op_call *op, const char *because)
{
    void *s = open_build(like);
    struct td_error err = {0};
    int rc;

    setenv("TD_FAKE_BLAS", how, 1);
    rc = run(s, op, &err);
    if (because ? !rc || !strstr(err.msg, because) : rc || worst_of(op) < 3)
        fail_msg("%s: %d \"%s\"", how, rc, err.msg);
    unsetenv("TD_FAKE_BLAS");
    gpu->close(s);
    fake->reset();
}

static void test_a_wrong_library_is_seen(void **state)
{
    struct op_case t;

    (void)state;
    make_gemm(&t, TD_DT_BF16, 4, 128, 64, 0);
    wrong_by("column", &t.op, NULL);
    wrong_by("refuse", &t.op, "cublasGemmEx failed: cuBLAS 13.0.2 says status 14");
    t.op.guard = true;
    wrong_by("behind", &t.op, "with guards behind its tensors");
    t.op.out.align = 4096;             /* the gap behind C is wider than what is written */
    wrong_by("behind", &t.op, "wrote past the end of c");
    op_case_release(&t);
    make_gemm(&t, TD_DT_F16, 4, 128, 512, 0);
    wrong_by("half", &t.op, NULL);
    op_case_release(&t);
    make_linear(&t, TD_DT_BF16, 4, 128, 64, 0, true);
    wrong_by("column", &t.op, NULL);
    wrong_by("refuse", &t.op, "cublasLtMatmul failed: cuBLAS 13.0.2 says status 14");
    wrong_by("no-algorithm", &t.op, "cublasLtMatmulAlgoGetHeuristic failed: cuBLAS 13.0.2 says status 15");
    op_case_release(&t);
}

/* The library's choice is kept while the same op is repeated, and made anew for another that lies where it lay, or elsewhere. */
static void test_with_a_bias_again_and_again(void **state)
{
    static const struct { int64_t m, n, k, align; } ops[] = {{2, 128, 64, 16}, {2, 128, 64, 16}, {5, 128, 64, 16}, {5, 120, 64, 16}, {5, 120, 64, 64}, {1, 16, 32, 256}};
    void *s = open_build(like);
    struct td_error err = {0};
    struct op_case t;

    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        int64_t ns = 0;
        void *p;

        make_linear(&t, TD_DT_F16, ops[i].m, ops[i].n, ops[i].k, 0, true);
        t.op.in[2].align = (size_t)ops[i].align;
        t.op.guard = i % 2;            /* tensors lie at the end of a page, and as far from it as they are aligned */
        assert_int_equal(gpu->prepare(s, &t.op, &p, &err), 0);
        assert_int_equal(gpu->time(s, p, 3, false, &ns, &err), 0);
        assert_int_equal(gpu->fetch(s, p, &err), 0);
        assert_true(worst_of(&t.op) <= 1.01);
        gpu->release(s, p);
        op_case_release(&t);
    }
    gpu->close(s);
}

/* Of cublasLt: what torch's variable says, in KiB; else torch's own, which the fake library insists on. */
static void test_the_workspace_of_cublaslt(void **state)
{
    static const struct { const char *kib; bool is_torchs; } set[] = {{"1024", true}, {"much", true}, {"-5", true}, {"99999999999999999999", true}, {"2048", false}, {"0", false}};
    struct op_case t;

    (void)state;
    make_linear(&t, TD_DT_F16, 3, 48, 32, 0, true);
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
        void *s = open_build(like);
        struct td_error err = {0};

        setenv("CUBLASLT_WORKSPACE_SIZE", set[i].kib, 1);
        if (!run(s, &t.op, &err) != set[i].is_torchs || (err.code && !strstr(err.msg, "cublasLtMatmulAlgoGetHeuristic failed: cuBLAS 13.0.2 says status 7")))
            fail_msg("%s: %s", set[i].kib, err.msg);
        unsetenv("CUBLASLT_WORKSPACE_SIZE");
        gpu->close(s);
    }
    op_case_release(&t);
}

static void expect_refusal(void *s, struct op_case *t, const char *because)
{
    const char *why = gpu->supports(s, &t->op);
    struct td_error err = {0};
    void *p;

    if (!why || !strstr(why, because))
        fail_msg("\"%s\" instead of \"%s\"", why ? why : "supported", because);
    assert_int_equal(gpu->prepare(s, &t->op, &p, &err), TD_EUNSUPPORTED);
    assert_null(p);
    op_case_release(t);
}

static void test_what_torch_asks_otherwise_is_refused(void **state)
{
    void *s = open_build(like);
    struct op_case t;

    (void)state;
    make_linear(&t, TD_DT_F16, 3, 24, 16, 0, true);
    t.op.in[2].dtype = TD_DT_BF16;
    expect_refusal(s, &t, "bias is BF16, a F16; cublasLt is asked for one type throughout");
    make_gemm(&t, TD_DT_F32, 3, 24, 16, 0);
    expect_refusal(s, &t, "a is F32, w F32, c F32; cuBLAS is asked for F16 or BF16 throughout");
    make_gemm(&t, TD_DT_F16, 3, 24, 16, 0);
    t.op.in[1].dtype = TD_DT_BF16;
    expect_refusal(s, &t, "a is F16, w BF16, c F16");
    case_gemm(&t, TD_DT_F16, 3, 24, 16, false, 8, false);
    expect_refusal(s, &t, "rows of w lie 24 elements apart, not 16");
    make_gemm(&t, TD_DT_F16, 3, 24, 16, 0);
    case_attr(&t, "trans_a", 1);
    expect_refusal(s, &t, "this version takes W as [n, k] only");
    gpu->close(s);
}

static void test_no_cublas(void **state)
{
    struct op_case t;
    void *s;

    (void)state;
    setenv("TD_CUBLAS_LIBRARY", "/nowhere/libcublas.so.13", 1);
    s = open_build(like);
    make_gemm(&t, TD_DT_F16, 1, 24, 16, 0);
    expect_refusal(s, &t, "torch leaves the product to a library. TD_CUBLAS_LIBRARY=FILE (--build-env) names cuBLAS; there is none");
    gpu->close(s);
    setenv("TD_CUBLAS_LIBRARY", cublas, 1);
}

/* One handle for ops of both kinds, timed hot and cold; nothing stays when the build is closed. */
static void test_timed(void **state)
{
    const size_t nothing = fake->bytes_in_use(); /* but what dead contexts had */
    void *s = open_build(like), *p = NULL;
    struct td_error err = {0};
    struct td_op_call gptq;
    struct op_case t;
    size_t before;

    (void)state;
    make_gptq(&gptq, 60, 4, false, 5);
    strcpy(gptq.act_rounding, "weight-f16");
    assert_int_equal(random_gptq_run(&gptq, "cpu"), 0);
    make_gemm(&t, TD_DT_BF16, 2, 128, 64, 0);
    assert_true(run_and_compare(s, &gptq, &err) < 2e-3);
    before = fake->bytes_in_use();     /* the handle's workspace among them */
    for (int i = 0; i < 4; i++) {
        int64_t hot = 0, cold = 0;

        assert_int_equal(gpu->prepare(s, &t.op, &p, &err), 0);
        assert_false(gpu->varies(s, p));
        assert_int_equal(gpu->time(s, p, 3, false, &hot, &err), 0);
        if (i == 3)
            assert_int_equal(gpu->time(s, p, 2, true, &cold, &err), 0);
        assert_true(hot > 0 && (i < 3 || cold > 0));
        gpu->release(s, p);
    }
    assert_true(fake->bytes_in_use() > before);
    assert_true(run_and_compare(s, &gptq, &err) < 2e-3);
    assert_int_equal(run(s, &t.op, &err), 0);
    assert_true(worst_of(&t.op) <= 1.01);
    op_case_release(&t);
    random_gptq_free(&gptq);
    gpu->close(s);
    assert_int_equal(fake->bytes_in_use(), nothing);
}

/* Too little memory is this machine's want; what was made before it is let go of. */
static void test_faults_are_sentences(void **state)
{
    void *s = open_build(like);
    struct td_error err = {0};
    struct op_case t;

    (void)state;
    make_gemm(&t, TD_DT_F16, 2, 128, 64, 0);
    fake->fault("alloc", 3, 2);        /* the handle's workspace is the first */
    assert_int_equal(run(s, &t.op, &err), TD_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "w: "));
    assert_non_null(strstr(err.msg, "CUDA_ERROR_OUT_OF_MEMORY"));
    td_error_clear(&err);
    fake->fault("kernel", 1, 719);
    assert_int_equal(run(s, &t.op, &err), TD_ECRASH);
    assert_true(gpu->is_dead(s));
    fake->reset();
    op_case_release(&t);
    gpu->close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_are_right), cmocka_unit_test(test_a_wrong_library_is_seen), cmocka_unit_test(test_with_a_bias_again_and_again), cmocka_unit_test(test_the_workspace_of_cublaslt), cmocka_unit_test(test_what_torch_asks_otherwise_is_refused),
        cmocka_unit_test(test_no_cublas), cmocka_unit_test(test_timed), cmocka_unit_test(test_faults_are_sentences),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
