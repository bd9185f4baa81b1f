/* test_block_sums.c - sums of parts of K are those of the reference, and what sums in halves lose.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops/block_sums.h"
#include "kernels/ops/half_sums.h"
#include "tests/unit/kernels/ops/op_case.h"

#define M 5
#define N 24
#define K 320
#define COUNT (M * N)

static void gptq(struct op_case *t, bool act_order, int64_t k)
{
    case_gptq(t, &(struct gptq_form){TD_DT_F16, TD_DT_F16, "none", false, act_order, 4, 32}, M, N, k, 8, false);
}

static void reference(const struct td_op_call *op, struct td_op_ref *ref)
{
    struct td_error err = {0, ""};

    assert_int_equal(td_op_kind_find(op->kind)->reference(op, ref, &err), 0);
}

struct seen { double sum[64][COUNT]; int64_t first[64], size[64]; int n; };

static void see(void *ctx, int64_t k0, int64_t kn, const double *sums)
{
    struct seen *s = ctx;

    memcpy(s->sum[s->n], sums, sizeof s->sum[0]);
    s->first[s->n] = k0;
    s->size[s->n++] = kn;
}

/* Each block is the reference of an A that is 0 outside of it. */
static void check_blocks(struct op_case *t, int64_t size)
{
    static struct seen s;
    struct td_tensor *a = &t->op.in[0];
    void *whole = malloc(a->size_bytes);
    struct td_error err = {0, ""};

    memset(&s, 0, sizeof s);
    assert_int_equal(td_block_sums(&t->op, &(struct td_k_blocks){size, NULL}, see, &s, &err), 0);
    assert_int_equal(s.n, (K + size - 1) / size);
    memcpy(whole, a->data, a->size_bytes);
    for (int b = 0; b < s.n; b++) {
        struct td_op_ref ref;

        assert_int_equal(s.first[b], b * size);
        assert_int_equal(s.size[b], b + 1 < s.n ? size : K - b * size);
        for (int64_t e = 0; e < (int64_t)(a->size_bytes / 2); e++)
            if (e % a->strides[0] < s.first[b] || e % a->strides[0] >= s.first[b] + s.size[b])
                ((uint16_t *)a->data)[e] = 0;
        reference(&t->op, &ref);
        for (int e = 0; e < COUNT; e++)
            assert_true(fabs(ref.r0[e] - s.sum[b][e]) <= 1e-13 * ref.mag[e]);
        td_op_ref_release(&ref);
        memcpy(a->data, whole, a->size_bytes);
    }
    free(whole);
    op_case_release(t);
}

static void blocks_are_parts_of_the_reference(void **state)
{
    struct op_case t;

    (void)state;
    gptq(&t, false, K);
    check_blocks(&t, 32);
    gptq(&t, true, K);
    check_blocks(&t, 48); /* the last one is smaller, and no block is a group */
    case_gemm(&t, TD_DT_F16, M, N, K, false, 3, false);
    check_blocks(&t, 128);
}

static void the_order_is_the_callers(void **state)
{
    static const int32_t order[] = {2, 0, 1};
    static struct seen s;
    struct op_case t;
    struct td_error err = {0, ""};

    (void)state;
    gptq(&t, false, K);
    assert_int_equal(td_block_sums(&t.op, &(struct td_k_blocks){128, order}, see, &s, &err), 0);
    assert_int_equal(s.first[0], 256);
    assert_int_equal(s.size[0], 64);
    assert_int_equal(s.first[1], 0);
    assert_int_equal(td_block_sums(&t.op, &(struct td_k_blocks){0, NULL}, see, &s, &err), TD_EINVAL);
    snprintf(t.op.kind, sizeof t.op.kind, "rms_norm");
    assert_int_equal(td_block_sums(&t.op, &(struct td_k_blocks){128, NULL}, see, &s, &err), TD_EUNSUPPORTED);
    op_case_release(&t);
}

/* ---- halves ---------------------------------------------------------------------------------- */

static double half(double x)
{
    return (double)td_f16_load(td_f16_round((float)x));
}

static double rms_loss(const struct op_case *t, struct td_half_sums how)
{
    double loss[COUNT], sum = 0;
    struct td_error err = {0, ""};

    assert_int_equal(td_half_sums_loss(&t->op, how, loss, &err), 0);
    for (int e = 0; e < COUNT; e++)
        sum += loss[e] * loss[e];
    return sqrt(sum / COUNT);
}

static void halves_lose_what_their_roundings_do(void **state)
{
    static struct seen s;
    struct op_case t;
    struct td_op_ref ref;
    double loss[COUNT], again[COUNT];
    struct td_error err = {0, ""};

    (void)state;
    gptq(&t, false, K);
    reference(&t.op, &ref);
    assert_int_equal(td_half_sums_loss(&t.op, (struct td_half_sums){K, 0, false}, loss, &err), 0); /* one block: rounded once */
    for (int e = 0; e < COUNT; e++)
        assert_true(fabs(loss[e] - (half(ref.r0[e]) - ref.r0[e])) < 1e-12);
    assert_int_equal(td_half_sums_loss(&t.op, (struct td_half_sums){160, 0, false}, loss, &err), 0); /* two: either order gives the same */
    memset(&s, 0, sizeof s);
    assert_int_equal(td_block_sums(&t.op, &(struct td_k_blocks){160, NULL}, see, &s, &err), 0);
    for (int e = 0; e < COUNT; e++)
        assert_true(fabs(loss[e] - (half(half(s.sum[0][e]) + half(s.sum[1][e])) - ref.r0[e])) < 1e-12);
    assert_int_equal(td_half_sums_loss(&t.op, (struct td_half_sums){160, 0, false}, again, &err), 0);
    assert_memory_equal(loss, again, sizeof loss);
    td_op_ref_release(&ref);
    op_case_release(&t);
}

/* Twice as many additions lose about the root of two more. */
static void more_additions_lose_more(void **state)
{
    double ratio = 0;
    struct op_case t;

    (void)state;
    for (int i = 0; i < 20; i++) {
        gptq(&t, false, 1024);
        ratio += rms_loss(&t, (struct td_half_sums){32, 0, false}) / rms_loss(&t, (struct td_half_sums){128, 0, false}) / 20;
        op_case_release(&t);
    }
    assert_true(ratio > 1.6 && ratio < 2.4);
}

/* ---- kernels that round on the way, product by product ---------------------------------------- */

struct products { double *p; int64_t k; };

static void keep_products(void *ctx, int64_t k0, int64_t kn, const double *sums)
{
    struct products *x = ctx;

    assert_int_equal(kn, 1);
    memcpy(x->p + k0 * COUNT, sums, COUNT * sizeof *sums);
}

/* Eight products as dot22_8_f adds them: the even ones and the odd ones, each in a chain of halves. Of halves far from the smallest. */
static double in_two_chains(const double *p)
{
    double sum[2] = {0, 0};

    for (int i = 0; i < 8; i++)
        sum[i % 2] = half(0x1p6 * (sum[i % 2] + p[i * COUNT])) / 0x1p6;
    return sum[0] + sum[1];
}

/* What gemm_half_q_half_gptq_4bit_kernel and _8bit_kernel lose of one element, and a matrix product of tensor cores that add 16 products
 * at a time to halves.
 *   p : [k] of the element, COUNT apart */
static double lost(const double *p, int64_t k, struct td_half_sums how)
{
    const int64_t block = how.block < k ? how.block : k;
    double c = 0, exact = 0;

    for (int64_t k0 = 0; k0 < k; k0 += block) {
        double sum = 0;

        for (int64_t i = k0; i < k0 + block; i += how.step == 16 ? 16 : 8) {
            double part = 0;

            for (int64_t j = 0; j < (how.step == 16 ? 16 : 8); j++) {
                part += p[(i + j) * COUNT];
                exact += p[(i + j) * COUNT];
            }
            if (how.eights)
                part = in_two_chains(p + i * COUNT);
            sum = how.step ? half(sum + (how.step == 8 ? half(part) : part)) : sum + part;
        }
        c = half(c + half(sum));
    }
    return c - exact;
}

/* The loss of such kernels is told by what they declare, and by nothing less. */
static void kernels_lose_what_they_declare(void **state)
{
    static const struct { struct td_half_sums how; int64_t k; double least_of_blocks; } kernels[] = {
        {{128, 0, true}, 256, 1.4}, {{128, 0, true}, 1024, 1.15}, {{128, 8, false}, 1024, 1.3}, {{TD_HALF_SUMS_ALL, 16, false}, 1024, 2}};
    struct td_error err = {0, ""};

    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        double declared = 0, of_blocks = 0, told = 0;

        for (int run = 0; run < 20; run++) {
            struct op_case t;
            struct products x = {NULL, kernels[i].k};

            gptq(&t, false, (int)x.k);
            x.p = malloc((size_t)x.k * COUNT * sizeof *x.p);
            assert_int_equal(td_block_sums(&t.op, &(struct td_k_blocks){1, NULL}, keep_products, &x, &err), 0);
            for (int e = 0; e < COUNT; e++)
                told += pow(lost(x.p + e, x.k, kernels[i].how), 2) / COUNT;
            declared += pow(rms_loss(&t, kernels[i].how), 2);
            of_blocks += pow(rms_loss(&t, (struct td_half_sums){128, 0, false}), 2);
            free(x.p);
            op_case_release(&t);
        }
        printf("K %d, block %d, step %d, eights %d: rms of the kernel %.2f of what is declared, %.2f of blocks of 128\n", (int)kernels[i].k,
               kernels[i].how.block, kernels[i].how.step, kernels[i].how.eights, sqrt(told / declared), sqrt(told / of_blocks));
        assert_true(sqrt(told / declared) > 0.85 && sqrt(told / declared) < 1.15);
        assert_true(sqrt(told / of_blocks) > kernels[i].least_of_blocks);
    }
}

static void a_declaration_is_one_number(void **state)
{
    static const struct td_half_sums each[] = {{128, 0, false}, {128, 0, true}, {128, 8, false}, {TD_HALF_SUMS_ALL, 16, false}, {0, 0, false}};
    static const int packed[] = {128, 128 | 1 << 24, 128 | 8 << 16, 0xffff | 16 << 16, 0}, least[] = {128, 128, 8, 16, 0};

    (void)state;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const struct td_half_sums again = td_half_sums_unpack(packed[i]);

        assert_int_equal(td_half_sums_pack(each[i]), packed[i]);
        assert_true(again.block == each[i].block && again.step == each[i].step && again.eights == each[i].eights);
        assert_int_equal(td_half_sums_least(each[i]), least[i]);
    }
}

static void others_are_refused(void **state)
{
    double loss[COUNT];
    struct op_case t;
    struct td_error err = {0, ""};

    (void)state;
    case_gemm(&t, TD_DT_BF16, M, N, K, false, 0, false);
    assert_int_equal(td_half_sums_loss(&t.op, (struct td_half_sums){32, 0, false}, loss, &err), TD_EUNSUPPORTED);
    op_case_release(&t);
    gptq(&t, false, K);
    assert_int_equal(td_half_sums_loss(&t.op, (struct td_half_sums){0, 0, false}, loss, &err), TD_EINVAL);
    op_case_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_parts_of_the_reference), cmocka_unit_test(the_order_is_the_callers),
        cmocka_unit_test(halves_lose_what_their_roundings_do), cmocka_unit_test(more_additions_lose_more),
        cmocka_unit_test(kernels_lose_what_they_declare), cmocka_unit_test(a_declaration_is_one_number), cmocka_unit_test(others_are_refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
