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

static double rms_loss(const struct op_case *t, int64_t block)
{
    double loss[COUNT], sum = 0;
    struct td_error err = {0, ""};

    assert_int_equal(td_half_sums_loss(&t->op, block, loss, &err), 0);
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
    assert_int_equal(td_half_sums_loss(&t.op, K, loss, &err), 0); /* one block: rounded once */
    for (int e = 0; e < COUNT; e++)
        assert_true(fabs(loss[e] - (half(ref.r0[e]) - ref.r0[e])) < 1e-12);
    assert_int_equal(td_half_sums_loss(&t.op, 160, loss, &err), 0); /* two: either order gives the same */
    memset(&s, 0, sizeof s);
    assert_int_equal(td_block_sums(&t.op, &(struct td_k_blocks){160, NULL}, see, &s, &err), 0);
    for (int e = 0; e < COUNT; e++)
        assert_true(fabs(loss[e] - (half(half(s.sum[0][e]) + half(s.sum[1][e])) - ref.r0[e])) < 1e-12);
    assert_int_equal(td_half_sums_loss(&t.op, 160, again, &err), 0);
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
        ratio += rms_loss(&t, 32) / rms_loss(&t, 128) / 20;
        op_case_release(&t);
    }
    assert_true(ratio > 1.6 && ratio < 2.4);
}

static void others_are_refused(void **state)
{
    double loss[COUNT];
    struct op_case t;
    struct td_error err = {0, ""};

    (void)state;
    case_gemm(&t, TD_DT_BF16, M, N, K, false, 0, false);
    assert_int_equal(td_half_sums_loss(&t.op, 32, loss, &err), TD_EUNSUPPORTED);
    op_case_release(&t);
    gptq(&t, false, K);
    assert_int_equal(td_half_sums_loss(&t.op, 0, loss, &err), TD_EINVAL);
    op_case_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_parts_of_the_reference), cmocka_unit_test(the_order_is_the_callers),
        cmocka_unit_test(halves_lose_what_their_roundings_do), cmocka_unit_test(more_additions_lose_more),
        cmocka_unit_test(others_are_refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
