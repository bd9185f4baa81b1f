/* test_op_pace.c - what fits into the time: stages that work at once take less of it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "replayer/op_order.h"
#include "replayer/op_pace.h"

#define OPS 1000

static void the_longest_stage_counts(void **state)
{
    (void)state;
    assert_true(fabs(td_op_pace_beside(1, 3, 1, 0.5, 16) - 3.5) < 1e-12);   /* running */
    assert_true(fabs(td_op_pace_beside(4, 3, 1, 0.5, 16) - 4.5) < 1e-12);   /* reading */
    assert_true(fabs(td_op_pace_beside(1, 3, 4, 0.5, 16) - 4.75) < 1e-12);  /* judging, on what reading and running leave */
    assert_true(fabs(td_op_pace_beside(1, 3, 1, 0.5, 2) - 3.5) < 1e-12);    /* two CPUs, all busy */
    assert_true(fabs(td_op_pace_beside(1, 3, 1, 0.5, 1) - 5.5) < 1e-12);    /* one: nothing is gained */
}

/* A plan for a hundred seconds, of ops that take 0.1 s to read, 0.3 s to run and 0.2 s to judge. */
static int64_t planned(bool overlaps)
{
    struct td_op_run run = {.list = {0}};
    struct td_op_item judged = {.load_ns = 100000000, .run_ns = 400000000, .judge_ns = 200000000};
    struct td_op op = {.kind = (char[]){"gptq_gemm"}};
    struct td_op_pace p;
    int64_t left_out = -1;

    for (op.op = 0; op.op < OPS; op.op++)
        assert_int_equal(td_op_list_add(&run.list, &op, true, NULL), TD_OK);
    assert_int_equal(td_op_list_sample(&run.list, 0, NULL), TD_OK);
    run.groups = calloc(run.list.n_groups + 1, sizeof *run.groups);
    assert_non_null(run.groups);
    td_op_pace_begin(&p, 100);
    p.measures = true;
    p.overlaps = overlaps;
    p.cpus = 16;
    td_op_pace_judged(&p, &run, &judged, 1, 200000000, 0);
    assert_int_equal(td_op_pace_plan(&p, &run, &left_out, NULL), TD_OK);
    free(run.groups);
    td_op_list_release(&run.list);
    return OPS - left_out;
}

static void more_fit_where_stages_work_at_once(void **state)
{
    (void)state;
    assert_in_range(planned(false), 145, 152); /* 90 s of 0.6 s each */
    assert_in_range(planned(true), 290, 302);  /* 90 s of 0.3 s each */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_longest_stage_counts), cmocka_unit_test(more_fit_where_stages_work_at_once)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
