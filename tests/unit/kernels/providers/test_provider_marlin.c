/* test_provider_marlin.c - recorded Marlin ops on a GPU that is none: the fake driver with vLLM's Marlin as C functions, whose bits follow the launch's shape.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/fake_marlin.h"
#include "tests/unit/kernels/providers/gpu_provider_rig.h"

enum { N = 256, K = 256 };

static char like[4096], few[4096];

static int setup(void **state)
{
    (void)state;
    beside("tests/unit/data/marlin_like.fatbin", like);
    beside("tests/unit/data/marlin_few.fatbin", few);
    unsetenv("TD_FAKE_MARLIN");
    return rig_open("cuda", "TD_CUDA_LIBRARY", "tests/helpers/lib_fake_cuda.so", "tests/helpers/lib_fake_marlin.so", NULL);
}

/* ---- ops ----------------------------------------------------------------------------------------------------------- */

struct what { int m, bits, group; bool zeros, bias, bf16, uneven, act_order; const char *rounding; };

static void to_bf16(struct td_tensor *t)
{
    uint16_t *h = t->data;

    for (size_t i = 0; i < t->size_bytes / 2; i++)
        h[i] = td_f32_to_bf16(td_f16_to_f32(h[i]));
    t->dtype = TD_DT_BF16;
}

static void add_bias(struct td_op_call *op)
{
    uint64_t seed = 5;

    random_halves(random_tensor(&op->in[op->n_in++], "bias", TD_DT_F16, N, -1), &seed, 1, 0);
}

/* Groups of other sizes than k / groups, sorted: one rank's rows of a layer with act-order. */
static void add_g_idx(struct td_op_call *op, int groups)
{
    int32_t *g = random_tensor(&op->in[op->n_in++], "g_idx", TD_DT_I32, K, -1)->data;

    for (int k = 0; k < K; k++)
        g[k] = k < K / 4 ? 0 : groups - 1;
    op->attrs[6].value = 1;
}

/* An op as a recording of Marlin has it, without launches; op->out.data is what the cpu provider computes. */
static void make(struct td_op_call *op, const struct what *w)
{
    const struct random_gptq d = {w->m, N, K, w->bits, w->group, w->act_order};

    random_gptq_make(op, &d, (uint64_t)w->bits, (uint64_t)w->m);
    if (!w->zeros)
        memset(op->in[2].data, w->bits == 4 ? 0x77 : 0x7f, op->in[2].size_bytes);
    else
        for (size_t i = 0; i < op->in[2].size_bytes / 4; i++)
            ((uint32_t *)op->in[2].data)[i] &= 0x77777777; /* true ones up to 8: 16 is none */
    if (w->bias)
        add_bias(op);
    if (w->uneven)
        add_g_idx(op, K / w->group);
    if (w->bf16) {
        to_bf16(&op->in[0]);
        to_bf16(&op->in[3]);
        op->out.dtype = TD_DT_BF16;
    }
    strcpy(op->act_rounding, w->rounding);
    strcpy(op->layout, "marlin");
    assert_int_equal(random_gptq_run(op, "cpu"), 0);
}

static void record_as(struct td_op_call *op, const char *symbol, unsigned grid, unsigned block)
{
    strcpy(op->symbol, symbol);
    op->n_launches = 1;
    op->launches[0] = (struct td_op_launch){.rows = {0, op->attrs[0].value}, .grid = {grid, 1, 1}, .block = {block, 1, 1}, .shared_bytes = 232448};
}

static int run(void *s, struct td_op_call *op, struct td_error *err)
{
    void *p = NULL;
    int rc;

    memset(op->out.data, 0x7e, op->out.size_bytes);
    rc = gpu->prepare(s, op, &p, err);
    if (!rc)
        rc = gpu->refill(s, p, err);
    if (!rc)
        rc = gpu->run(s, p, err);
    if (!rc)
        rc = gpu->fetch(s, p, err);
    if (p)
        gpu->release(s, p);
    return rc;
}

static double worst_of(const struct td_op_call *op, const void *want)
{
    double worst = 0;

    for (size_t i = 0; i < op->out.size_bytes / 2; i++) {
        double a = td_dtype_get(op->out.dtype, op->out.data, i), b = td_dtype_get(op->out.dtype, want, i);

        worst = fmax(worst, isfinite(a) ? fabs(a - b) / (fabs(b) + 1e-2) : INFINITY);
    }
    return worst;
}

static void *copy_of(const struct td_op_call *op)
{
    void *c = malloc(op->out.size_bytes);

    return memcpy(c, op->out.data, op->out.size_bytes);
}

/* ---- tests --------------------------------------------------------------------------------------------------------- */

static void test_ops_are_right(void **state)
{
    static const struct what ops[] = {
        {1, 4, 64, .rounding = "weight-f16"}, {5, 4, 64, .rounding = "weight-f16"}, {141, 4, 64, .rounding = "weight-f16"}, {141, 8, 32, .rounding = "weight-f16"},
        {3, 4, 256, .rounding = "none"}, {1, 4, 128, .bias = true, .rounding = "weight-f16+bias-after"}, {2, 4, 128, .bf16 = true, .rounding = "weight-bf16"},
        {8, 4, 128, .zeros = true, .rounding = "weight-f16"}, {4, 4, 64, .uneven = true, .rounding = "weight-f16"},
        {6, 4, 64, .act_order = true, .rounding = "weight-f16"}, {141, 8, 32, .act_order = true, .rounding = "weight-f16"},
    };
    void *s = open_build(like);

    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        struct td_error err = {0};
        struct td_op_call op;
        void *want;

        make(&op, &ops[i]);
        want = copy_of(&op);
        op.guard = i & 1;
        assert_int_equal(run(s, &op, &err), 0);
        assert_true(worst_of(&op, want) < (ops[i].bf16 ? 2e-2 : 2e-3));
        assert_string_equal(gpu->rounding(s, &op), ops[i].rounding);
        strcpy(op.act_rounding, "none"); /* an older recording */
        assert_string_equal(gpu->rounding(s, &op), ops[i].rounding);
        random_gptq_free(&op);
        free(want);
    }
    gpu->close(s);
    assert_int_equal(fake->bytes_in_use(), 0);
}

/* The bits are those of the recorded launches, not of the rules', and repeat. */
static void test_bits_are_those_of_what_ran(void **state)
{
    const char *symbol = FAKE_MARLIN(FAKE_MARLIN_F16, FAKE_MARLIN_U4B8, 256, 1, 8, 8, 1, "8");
    const struct what w = {7, 4, 128, .rounding = "weight-f16"};
    void *s = open_build(like), *first, *by_rules;
    struct td_error err = {0};
    struct td_op_call op;

    (void)state;
    make(&op, &w);
    assert_int_equal(run(s, &op, &err), 0);
    by_rules = copy_of(&op);
    record_as(&op, symbol, 3, 256);
    assert_int_equal(run(s, &op, &err), 0);
    first = copy_of(&op);
    assert_memory_not_equal(first, by_rules, op.out.size_bytes);
    assert_int_equal(run(s, &op, &err), 0);
    assert_memory_equal(first, op.out.data, op.out.size_bytes);
    op.launches[0].grid[0] = 133;  /* of a larger GPU */
    assert_int_equal(run(s, &op, &err), 0);
    assert_memory_equal(by_rules, op.out.data, op.out.size_bytes);
    free(first);
    free(by_rules);
    random_gptq_free(&op);
    gpu->close(s);
}

/* An op of an operator without launches, as a captured graph gives it: the library's own kernels of
 * that operator run it, and those of another one do not. */
static void test_an_operator_is_run_by_its_own_kernels(void **state)
{
    static const struct what w = {1, 4, 256, .rounding = "none"};
    char exllama[4096];
    void *s = open_build(like), *want;
    struct td_error err = {0};
    struct td_op_call op;
    const char *no;

    (void)state;
    make(&op, &w);
    want = copy_of(&op);
    strcpy(op.symbol, "_C::marlin_gemm");
    strcpy(op.layout, "marlin");
    assert_int_equal(run(s, &op, &err), 0);
    assert_true(worst_of(&op, want) < 2e-3);
    gpu->close(s);

    s = open_build(beside("tests/helpers/lib_gptq_image.so", exllama));
    no = gpu->supports(s, &op);
    assert_non_null(no);
    assert_non_null(strstr(no, "computed by _C::marlin_gemm"));
    assert_non_null(strstr(no, "VENV/bin/python"));
    strcpy(op.symbol, "_C::gptq_gemm");
    strcpy(op.layout, "exllama");
    assert_null(gpu->supports(s, &op));
    gpu->close(s);
    random_gptq_free(&op);
    free(want);
}

static void fails(void *s, struct td_op_call *op, const char *how, int code, const char *because)
{
    struct td_error err = {0};

    setenv("TD_FAKE_MARLIN", how, 1);
    assert_int_equal(run(s, op, &err), code);
    if (!strstr(err.msg, because))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, because);
    unsetenv("TD_FAKE_MARLIN");
}

static void test_faults_are_sentences(void **state)
{
    const struct what w = {5, 4, 64, .rounding = "weight-f16"};
    void *s = open_build(like), *want;
    struct td_error err = {0};
    struct td_op_call op;

    (void)state;
    make(&op, &w);
    want = copy_of(&op);
    op.guard = true;
    fails(s, &op, "lock", TD_ECORRUPT, "left lock 131 at 1 instead of 0");
    setenv("TD_FAKE_MARLIN", "scale", 1);
    assert_int_equal(run(s, &op, &err), 0);
    assert_true(worst_of(&op, want) > 0.1);
    fails(s, &op, "overrun", TD_ECRASH, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_true(gpu->is_dead(s));
    gpu->close(s);
    fake->reset();
    free(want);
    random_gptq_free(&op);
}

static void test_what_it_cannot_do_is_named(void **state)
{
    const struct what w = {5, 4, 64, .rounding = "weight-f16"}, uneven = {5, 4, 64, .uneven = true, .rounding = "weight-f16"};
    void *s = open_build(like), *f = open_build(few);
    struct td_error err = {0};
    struct td_op_call op;

    (void)state;
    make(&op, &w);
    assert_null(gpu->supports(s, &op));
    record_as(&op, FAKE_MARLIN(FAKE_MARLIN_F16, FAKE_MARLIN_U4B8, 128, 1, 4, 8, 1, "4"), 132, 128);
    assert_non_null(strstr(gpu->supports(f, &op), "no instance for this op (F16 with 4 bits, symmetric, groups of 64, 256 x 256, 5 rows at a time); the build lacks the instance that ran"));
    strcpy(op.act_rounding, "uint8-token");
    assert_non_null(strstr(gpu->supports(s, &op), "uint8-token"));
    random_gptq_free(&op);
    make(&op, &uneven);
    ((int32_t *)op.in[4].data)[0] = 1;  /* groups of several sizes, in no order */
    assert_int_equal(run(s, &op, &err), TD_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "sorted by group"));
    random_gptq_free(&op);
    gpu->close(s);
    gpu->close(f);
}

/* All kernels again, each with a KiB of static shared memory; or as the plugin has them. */
static void add_larger(const struct fake_cuda_kernel *kernel)
{
    struct fake_cuda_kernel k = *kernel;

    k.static_shared_bytes = 1024;
    fake->add_kernel(&k);
}

static void grow_kernels(bool larger)
{
    struct fake_cuda_api api = *fake;
    void (*plugin)(const struct fake_cuda_api *);
    char path[4096];
    void *lib = dlopen(beside("tests/helpers/lib_fake_marlin.so", path), RTLD_NOW | RTLD_LOCAL), *symbol = lib ? dlsym(lib, "fake_cuda_plugin") : NULL;

    assert_non_null(symbol);
    memcpy(&plugin, &symbol, sizeof plugin);
    if (larger)
        api.add_kernel = add_larger;
    plugin(&api);
    dlclose(lib);                      /* the driver's own handle keeps it */
}

/* Dynamic shared memory is all that a block may have, as vLLM launches Marlin; an instance that has static memory too leaves less of it. */
static void test_too_much_shared_memory_is_refused(void **state)
{
    const struct what w = {5, 4, 64, .rounding = "weight-f16"};
    struct td_error err = {0};
    const size_t before = fake->bytes_in_use();
    struct td_op_call op;
    void *s;

    (void)state;
    make(&op, &w);
    grow_kernels(true);
    s = open_build(like);
    assert_null(gpu->supports(s, &op)); /* nobody knows before the driver has the kernel */
    assert_int_equal(run(s, &op, &err), TD_EUNSUPPORTED);
    if (!strstr(err.msg, "needs 233472 bytes of shared memory, sm_90 has 232448"))
        fail_msg("\"%s\"", err.msg);
    assert_false(gpu->is_dead(s));
    gpu->close(s);
    assert_int_equal(fake->bytes_in_use(), before);
    grow_kernels(false);
    s = open_build(like);
    td_error_clear(&err);
    assert_int_equal(run(s, &op, &err), 0);
    gpu->close(s);
    random_gptq_free(&op);
}

/* Kernels that keep weights exact run an op whose kernel rounded them, and say so; those that cannot say BF16 do not. */
static void test_builds_that_round_nothing(void **state)
{
    static const char *const names[] = {"simt", "cuda"};
    const struct what w = {2, 4, 64, .rounding = "weight-f16"}, bf16 = {2, 4, 64, .bf16 = true, .rounding = "weight-bf16"};
    char path[4096];

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct td_provider *p = td_provider_find(names[i]);
        struct td_op_call op;
        void *s = NULL;

        assert_int_equal(p->open(i ? beside("tests/unit/data/gptq_like.fatbin", path) : NULL, &s, NULL), 0);
        make(&op, &w);
        assert_null(p->supports(s, &op));
        assert_string_equal(p->rounding(s, &op), "none");
        random_gptq_free(&op);
        make(&op, &bf16);
        assert_non_null(strstr(p->supports(s, &op), "BF16"));
        random_gptq_free(&op);
        p->close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_are_right), cmocka_unit_test(test_bits_are_those_of_what_ran), cmocka_unit_test(test_an_operator_is_run_by_its_own_kernels), cmocka_unit_test(test_faults_are_sentences),
        cmocka_unit_test(test_what_it_cannot_do_is_named), cmocka_unit_test(test_too_much_shared_memory_is_refused),
        cmocka_unit_test(test_builds_that_round_nothing),
    };

    return cmocka_run_group_tests_name("provider_marlin", tests, setup, NULL);
}
