/* test_op_window.c - records are those of the ops that the list has.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "replayer/op_window.h"

static struct td_fixture *make_fixture(char *dir)
{
    struct td_tensor_rec in = {.role = "a", .dtype = "F16"};
    struct td_writer_options how = {.tool = "record"};
    struct td_fixture *fx = NULL;
    struct td_writer *w = NULL;
    struct td_error err = {0};
    char tape[64];

    assert_non_null(mkdtemp(dir));
    snprintf(tape, sizeof tape, "%s/tape", dir);
    assert_int_equal(td_writer_create(tape, &how, &w, &err), TD_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(td_writer_op(w, &(struct td_op){.op = i, .kind = (char[]){"gptq_gemm"}, .in = &in, .n_in = 1}), TD_OK);
    assert_int_equal(td_writer_close(w, "complete", &err), TD_OK);
    assert_int_equal(td_fixture_open(tape, &fx, &err), TD_OK);
    return fx;
}

/* Read all ops by a list that calls the second one `second`. Returns the last result. */
static int read_ops(struct td_fixture *fx, int64_t second, int *n)
{
    struct td_replay_options opt = {.shard = {1, 1}};
    struct td_op_window *w = NULL;
    struct td_error err = {0};
    struct td_op_list l;
    struct td_op op;
    size_t count = 0;
    int32_t *which;
    int rc;

    assert_int_equal(td_op_list_scan(fx, &opt, &l, &err), TD_OK);
    l.items[1].op = second;
    which = td_op_list_by_weights(&l, &count);
    assert_non_null(which);
    assert_int_equal(td_op_window_open(fx, &l, which, count, &w, &err), TD_OK);
    for (*n = 0; (rc = td_op_window_next(w, &op, &err)) > 0; ++*n)
        td_op_release(&op);
    td_op_window_close(w);
    td_op_list_release(&l);
    return rc;
}

static void another_op_in_its_line_is_refused(void **state)
{
    char dir[] = "/tmp/td-opwindow-XXXXXX", command[80];
    struct td_fixture *fx = make_fixture(dir);
    int n;

    (void)state;
    assert_int_equal(read_ops(fx, 1, &n), 0);
    assert_int_equal(n, 3);
    assert_int_equal(read_ops(fx, 7, &n), TD_ECORRUPT);
    assert_int_equal(n, 0);
    td_fixture_close(fx);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(another_op_in_its_line_is_refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
