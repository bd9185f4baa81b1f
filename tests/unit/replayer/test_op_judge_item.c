/* test_op_judge_item.c - which ops are asked for the part of K that their errors come from.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "replayer/op_judge_item.h"
#include "tests/unit/kernels/ops/op_case.h"

enum { M = 2, N = 64, K = 512 };

static struct op_case T;
static struct td_op_ref REF;

static int make_op(void **state)
{
    struct td_error err = {0, ""};

    (void)state;
    case_gptq(&T, &(struct gptq_form){TD_DT_F16, TD_DT_F16, "none", false, false, 4, 128}, M, N, K, 0, false);
    return td_op_kind_find("gptq_gemm")->reference(&T.op, &REF, &err);
}

static int release_op(void **state)
{
    (void)state;
    td_op_ref_release(&REF);
    op_case_release(&T);
    return 0;
}

/* Right, but for so many steps of the format, up and down in turn; of so many of 16 columns one step more. */
static void write_output(uint16_t *out, int steps, int more)
{
    for (int e = 0; e < M * N; e++) {
        td_store_f32(TD_DT_F16, out, e, (float)REF.r1[e]);
        out[e] = (uint16_t)(out[e] + (e % 2 ? 1 : -1) * (steps + (e / 2 % 16 < more)));
    }
}

/* The element of the largest fraction, where a step is the smallest share of the value. */
static int fullest(const uint16_t *out)
{
    int best = 0;

    for (int e = 0; e < M * N; e++)
        if ((out[e] & 0x3ff) > (out[best] & 0x3ff))
            best = e;
    return best;
}

/* The step of the parts that were asked, 0: none were. The recorded output is two steps off everywhere. steps 0: one element alone is
 * off, by 22. */
static int64_t asked(int steps, int more, int32_t turn, double floor)
{
    const struct td_op_ref *const ref[TD_SIDES] = {&REF, &REF, NULL};
    static uint16_t recorded[M * N], output[M * N];
    struct td_op_item it = {.loaded = true, .turn = turn, .call = T.op, .recorded = recorded,
                            .limits = {0x1p-11, 0x1p-24, 0x1p-25, floor}};
    struct td_error err = {0, ""};

    write_output(recorded, 2, 0);
    write_output(output, steps, more);
    if (!steps)
        output[fullest(output)] -= 22;
    it.candidate.repeats = 1;
    it.candidate.images[0] = output;
    assert_int_equal(td_op_judge_item(&it, ref, &err), TD_OK);
    assert_true(it.judged_candidate && it.judged_recorded);
    return it.along_k.step;
}

static void ops_over_their_limit_or_coarser_are_asked(void **state)
{
    (void)state;
    assert_int_equal(asked(2, 0, 0, 1000), 0);  /* as the recorded one */
    assert_int_equal(asked(2, 5, 0, 1000), 0);  /* 1.18 times as far off */
    assert_int_equal(asked(2, 9, 0, 1000), 32); /* 1.31 times */
    assert_int_equal(asked(0, 0, 0, 4), 32);    /* finer, and over four times the recorded one's worst */
    assert_int_equal(asked(0, 0, 0, 1000), 0);
}

static void of_each_group_the_first_are_asked(void **state)
{
    (void)state;
    assert_int_equal(asked(40, 0, TD_ALONG_K_OPS - 1, 4), 32);
    assert_int_equal(asked(40, 0, TD_ALONG_K_OPS, 4), 0);
    assert_int_equal(asked(40, 0, -1, 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ops_over_their_limit_or_coarser_are_asked), cmocka_unit_test(of_each_group_the_first_are_asked)};

    return cmocka_run_group_tests(tests, make_op, release_op);
}
