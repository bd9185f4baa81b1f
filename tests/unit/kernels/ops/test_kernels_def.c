/* test_kernels_def.c - what expands from kernels.def, and the providers that run it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "kernels/ops/gptq_gemm_op.h"
#include "kernels/ops/op_kinds.h"
#include "kernels/ops/op_variants.h"
#include "kernels/providers/providers.h"
#include "tests/unit/kernels/gptq_gemm/gptq_case.h"

#define TD_VARIANT(folder, name, cpu, what) extern const struct td_op_variant td_##folder##_##name;
#include "kernels/kernels.def"

/* A folder is a kind of op, or gptq_any. */
static const char *kind_of(const char *folder)
{
    return strcmp(folder, "gptq_any") ? folder : "gptq_gemm";
}

static void test_every_line_is_in_its_table(void **state)
{
    const struct td_gptq_gemm_variant *v = td_gptq_gemm_variants;
    const struct td_op_variant *const *w = td_op_variants();

    (void)state;
#define TD_KIND(kind)                          \
    assert_non_null(td_op_kind_find(#kind));   \
    assert_string_equal(td_op_kind_find(#kind)->name, #kind);
#define TD_GPTQ_VARIANT(variant, on, text)               \
    assert_string_equal(v->name, #variant);              \
    assert_int_equal(v->cpu, on);                        \
    assert_ptr_equal(v->run, td_gptq_gemm_##variant);    \
    assert_true(v++->what[0] != '\0');
#define TD_VARIANT(folder, variant, on, text)            \
    assert_ptr_equal(*w, &td_##folder##_##variant);      \
    assert_string_equal((*w)->kind, kind_of(#folder));   \
    assert_string_equal((*w)->name, #variant);           \
    assert_int_equal((*w)->cpu, on);                     \
    assert_ptr_equal(td_op_variant_find(kind_of(#folder), #variant), *w++);
#include "kernels/kernels.def"
    assert_null(v->name);
    assert_null(*w);
    assert_null(td_op_variant_find("gemm", "avx9"));
    assert_null(td_op_variant_find("conv2d", NULL));
    assert_null(td_op_kind_find("conv2d"));
    assert_null(td_provider_find("conv2d"));
}

/* ---- an op made of a case -------------------------------------------------------------------------------------- */

static struct td_tensor tensor(const char *role, enum td_dtype dt, int64_t d0, int64_t d1, int64_t ld, void *data)
{
    struct td_tensor t = {.dtype = dt, .ndim = d1 < 0 ? 1 : 2, .shape = {d0, d1}, .strides = {d1 < 0 ? 1 : ld, 1}, .data = data, .align = 2};

    snprintf(t.role, sizeof t.role, "%s", role);
    t.size_bytes = d0 ? (size_t)(d1 < 0 ? d0 : (d0 - 1) * ld + d1) * td_dtype_size(dt) : 0;
    return t;
}

static void op_of(const struct gptq_case *t, struct td_op_call *op)
{
    const struct td_gptq_gemm_args *x = &t->x;
    const int64_t groups = x->k / x->group_size, pack = 32 / x->bits;
    const struct td_attr attrs[] = {{"m", x->m}, {"n", x->n}, {"k", x->k}, {"bits", x->bits}, {"group_size", x->group_size},
                                    {"zero_offset", x->zero_offset}, {"act_order", x->g_idx != NULL}, {"unknown", 7}};

    memset(op, 0, sizeof *op);
    strcpy(op->kind, "gptq_gemm");
    memcpy(op->attrs, attrs, sizeof attrs);
    op->n_attrs = 8;
    op->in[0] = tensor("a", TD_DT_F16, x->m, x->k, x->lda, t->a.data);
    op->in[1] = tensor("qweight", TD_DT_I32, x->k / pack, x->n, x->n, t->qweight.data);
    op->in[2] = tensor("qzeros", TD_DT_U32, groups, x->n / pack, x->n / pack, t->qzeros.data);
    op->in[3] = tensor("scales", TD_DT_F16, groups, x->n, x->n, t->scales.data);
    op->in[4] = tensor("g_idx", TD_DT_I32, x->k, -1, 1, t->g_idx.data);
    op->n_in = x->g_idx ? 5 : 4;
    op->out = tensor("c", TD_DT_F16, x->m, x->n, x->ldc, t->c.data);
}

static void run_provider(const char *name, const char *arg, struct gptq_case *t)
{
    const struct td_provider *p = td_provider_find(name);
    struct td_error err = {0};
    struct td_op_call op;
    void *state, *prepared;
    double worst;

    op_of(t, &op);
    assert_non_null(p);
    if (p->open(arg, &state, &err))
        fail_msg("%s", err.msg);
    assert_null(p->supports(state, &op));
    assert_int_equal(p->prepare(state, &op, &prepared, &err), 0);
    case_poison(t);
    assert_int_equal(p->run(state, prepared, &err), 0);
    assert_int_equal(p->fetch(state, prepared, &err), 0);
    worst = case_worst(t, NULL);
    p->release(state, prepared);

    strcpy(op.kind, "conv2d");
    assert_string_equal(p->supports(state, &op), strcmp(name, "lib") && strcmp(name, "simt") ? "ops of kind \"conv2d\" are not supported; this provider runs gptq_gemm ggml_mul_mat gemm moe_gemm scaled_mm moe_scaled_mm"
                                                                     : "ops of kind \"conv2d\" are not supported; this provider runs gptq_gemm");
    p->close(state);
    if (worst > (strcmp(name, "ref") ? 1.0 : 0.9999))
        fail_msg("%s: error %.3f of the tolerance", name, worst);
}

static void test_providers_run_an_op(void **state)
{
    const char *lib = getenv("LIB");
    char path[4096], simt[4096];

    (void)state;
    snprintf(path, sizeof path, "%s/libtdkernels.so", lib ? lib : "lib");
    snprintf(simt, sizeof simt, "%s/td_kernels.simt.so", lib ? lib : "lib");
    for (int i = 0; i < 8; i++) {
        struct gptq_case t;

        case_new(&t, &(struct gptq_shape){i + 1, 96, 256, i & 1 ? 8 : 4, 64, i & 1, i & 2, i & 4, 3}, true);
        run_provider("ref", NULL, &t);
        run_provider("cpu", NULL, &t);
        run_provider("cpu", "c", &t);
        run_provider("lib", path, &t);
        run_provider("simt", NULL, &t);
        run_provider("simt", "exllama,warp=64,seed=7", &t);
        run_provider("simt", simt, &t);
        case_release(&t);
    }
}

static void test_providers_that_do_not_open(void **state)
{
    static const struct { const char *name, *arg, *says; } bad[] = {
        {"ref", "x", "takes no argument"},
        {"cpu", "sse9", "no variant \"sse9\" that runs here; there are: "},
        {"simt", "f32,seed=-1", "\"seed=-1\" is none of"},
        {"simt", "seed=1x", "\"seed=1x\" is none of"},
        {"simt", "absent.simt.so", "cannot load the build: ./absent.simt.so"},
        {"simt", "/lib/x86_64-linux-gnu/libm.so.6", "libm.so.6: no symbol td_simt_launch; is this a build"},
        {"lib", NULL, "needs the path"},
        {"lib", "absent.so", "cannot load the build: ./absent.so"},
        {"lib", "/dev/null", "cannot load the build: "},
        {"lib", "/lib/x86_64-linux-gnu/libm.so.6", "libm.so.6: no symbol td_gptq_gemm; is this a build of the kernels?"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct td_error err = {0};
        void *opened = &err;

        if (bad[i].arg && strstr(bad[i].arg, "libm") && access(bad[i].arg, F_OK))
            continue; /* another architecture's folder */
        assert_true(td_provider_find(bad[i].name)->open(bad[i].arg, &opened, &err) < 0);
        assert_null(opened);
        if (!strstr(err.msg, bad[i].says))
            fail_msg("\"%s\" does not say \"%s\"", err.msg, bad[i].says);
    }
}

static void test_reference_of_an_op(void **state)
{
    struct td_error err = {0};
    struct td_op_call op;
    struct td_op_ref ref;
    struct gptq_case t;
    double *r, *mag;

    (void)state;
    case_new(&t, &(struct gptq_shape){3, 16, 64, 4, 32, 1, true, 5, 0}, true);
    op_of(&t, &op);
    op.out.data = NULL;
    r = test_malloc(48 * sizeof *r);
    mag = test_malloc(48 * sizeof *mag);
    assert_int_equal(td_gptq_gemm_ref(&t.x, r, mag), 0);
    assert_int_equal(td_op_kind_find("gptq_gemm")->check(&op, &err), 0);
    assert_int_equal(td_op_kind_find("gptq_gemm")->reference(&op, &ref, &err), 0);
    assert_true(ref.rows == 3 && ref.cols == 16 && ref.inner == 64);
    assert_memory_equal(ref.r0, r, 48 * sizeof *r);
    assert_memory_equal(ref.r1, r, 48 * sizeof *r);
    assert_memory_equal(ref.mag, mag, 48 * sizeof *r);
    td_op_ref_release(&ref);
    assert_null(ref.r0);
    test_free(r);
    test_free(mag);
    case_release(&t);
}

static void test_broken_ops_are_named(void **state)
{
    struct gptq_case t;
    struct td_op_call good;

    (void)state;
    case_new(&t, &(struct gptq_shape){3, 16, 64, 4, 32, 1, true, 0, 0}, true);
    op_of(&t, &good);
#define REFUSES(change, sentence)                                                              \
    do {                                                                                       \
        struct td_op_call op = good;                                                           \
        struct td_error err = {0};                                                             \
        change;                                                                                \
        assert_int_equal(td_op_kind_find("gptq_gemm")->check(&op, &err), TD_EINVAL);           \
        assert_string_equal(err.msg, sentence);                                                \
    } while (0)
    REFUSES(op.n_attrs = 0, "gptq_gemm: attribute m is missing");
    REFUSES(op.attrs[0].value = -1, "gptq_gemm: attribute m is out of range");
    REFUSES(op.attrs[2].value = 60, "gptq_gemm: K = 60 is no multiple of 8, the weights in a word of 4-bit weights");
    REFUSES(op.attrs[0].value = 4, "gptq_gemm: tensor \"a\": expected shape [4, 64], found 2 dimensions [3, 64]");
    REFUSES(op.n_in = 4, "gptq_gemm: tensor \"g_idx\" is missing");
    REFUSES(op.in[3].dtype = TD_DT_I16, "gptq_gemm: tensor \"scales\": expected F32 or F16 or BF16, found I16");
    REFUSES(op.in[1].size_bytes -= 1, "gptq_gemm: tensor \"qweight\": 511 bytes, its shape and strides need 512");
    REFUSES(op.in[1].strides[0] = 17, "gptq_gemm: tensor \"qweight\": its strides do not describe dense rows");
    REFUSES(op.in[0].strides[0] = 63, "gptq_gemm: tensor \"a\": its strides do not describe separate rows");
    REFUSES(op.in[0].strides[0] = INT64_MAX, "gptq_gemm: tensor \"a\": its size overflows");
    REFUSES(op.in[2].data = NULL, "gptq_gemm: tensor \"qzeros\" has no data");
    REFUSES(op.in[0].data = (char *)op.in[0].data + 1, "gptq_gemm: tensor \"a\" is not aligned to its elements");
    REFUSES(op.out.shape[1] = 8, "gptq_gemm: tensor \"c\": expected shape [3, 16], found 2 dimensions [3, 8]");
    ((int32_t *)t.g_idx.data)[3] = 2;
    REFUSES((void)op, "gptq_gemm: g_idx[3] is 2, there are 2 groups");
    case_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_line_is_in_its_table),
        cmocka_unit_test(test_providers_run_an_op),
        cmocka_unit_test(test_providers_that_do_not_open),
        cmocka_unit_test(test_reference_of_an_op),
        cmocka_unit_test(test_broken_ops_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
