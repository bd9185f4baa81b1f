/* test_format_commit.c - what of a recording is on the disk when its recorder is killed, or fails midway.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing here asserts a time: each test waits until something is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "format/manifest.h"
#include "format/repair.h"
#include "format/verify.h"
#include "tests/unit/format/format_sample.h"

#define PATIENCE 600 /* tenths of a second, for a busy machine */

static char root[64];

static int setup(void **state)
{
    (void)state;
    return sample_scratch(root, sizeof root) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(root, NULL);
}

static const char *dir_of(const char *name)
{
    static char out[200];

    snprintf(out, sizeof out, "%s/%s", root, name);
    return out;
}

/* Wait until the file has bytes. */
static bool wait_for(const char *dir, int file)
{
    char path[TD_PATH_MAX];
    struct stat st;

    td_fs_join(path, sizeof path, dir, td_file_names[file], NULL);
    for (int i = 0; i < PATIENCE; i++) {
        if (!stat(path, &st) && st.st_size)
            return true;
        usleep(100000);
    }
    return false;
}

static int repair(const char *dir, struct td_fixture **fx)
{
    struct td_repair_options opt = {.report = NULL};
    struct td_repair_sums sums;
    int rc = td_fixture_repair(dir, &opt, &sums, NULL);

    return rc ? rc : td_fixture_open(dir, fx, NULL);
}

/* How a recording began, and its facts, are committed although no record has come. */
static void test_beginning(void **state)
{
    const char *dir = dir_of("beginning");
    struct td_fixture *fx;
    struct td_writer *w;

    (void)state;
    assert_int_equal(td_writer_create(dir, NULL, &w, NULL), TD_OK);
    assert_true(wait_for(dir, TD_FILE_LEDGER));
    td_writer_abandon(w);
    assert_int_equal(repair(dir, &fx), TD_OK);
    assert_string_equal(cJSON_GetObjectItem(td_fixture_manifest(fx), "tool")->valuestring, "tapedeck");
    td_fixture_close(fx);
}

static struct td_op small_op(int64_t step)
{
    struct td_op op = {.op = step, .step = step, .pid = 7, .t_ns = 1000 + step, .kind = (char *)"gemm",
                       .layer = (char *)"a.layer.with.a.name"};

    op.impl.duration_ns = -1;
    return op;
}

/* Ops fill frames long before steps do: the steps that they name are written first. */
static void test_ops_with_steps(void **state)
{
    const char *dir = dir_of("ops");
    struct td_step *steps;
    struct td_fixture *fx;
    struct td_writer *w;
    struct td_op *ops;
    size_t n_steps, n_ops, bad, i;
    static char name[10000];
    int64_t k;

    (void)state;
    assert_int_equal(td_writer_create(dir, NULL, &w, NULL), TD_OK);
    memset(name, 'x', sizeof name - 1); /* large ops: a frame is full long before a commit is due */
    for (k = 0; k < 150; k++) {
        const struct td_step s = {.step = k, .pid = 7, .t_ns = 1000 + k, .how = TD_HOW_EXACT};
        struct td_op op = small_op(k);

        op.layer = name;
        assert_int_equal(td_writer_step(w, &s), TD_OK);
        assert_int_equal(td_writer_op(w, &op), TD_OK);
    }
    assert_true(wait_for(dir, TD_FILE_OPS));
    td_writer_abandon(w);
    assert_int_equal(repair(dir, &fx), TD_OK);
    assert_int_equal(td_fixture_ops(fx, &ops, &n_ops, &bad, NULL), TD_OK);
    assert_int_equal(td_fixture_steps(fx, &steps, &n_steps, &bad, NULL), TD_OK);
    assert_true(n_ops > 0 && n_steps >= n_ops);
    for (i = 0; i < n_ops; i++) { /* all of them as they were written, none made up by the repair */
        assert_int_equal(steps[i].step, ops[i].step);
        assert_int_equal(steps[i].how, TD_HOW_EXACT);
    }
    td_ops_free(ops, n_ops);
    td_steps_free(steps, n_steps);
    td_fixture_close(fx);
}

/* Steps that a recorder held when it was killed: repair adds them, with rows unknown, once. */
static void test_held_steps(void **state)
{
    const char *dir = dir_of("held");
    struct td_step *steps;
    struct td_fixture *fx;
    struct td_writer *w;
    size_t n, bad, i;
    int64_t k;

    (void)state;
    assert_int_equal(td_writer_create(dir, NULL, &w, NULL), TD_OK);
    for (k = 0; k < 30; k++) {
        const struct td_step s = {.step = k, .pid = 7, .t_ns = 1000 + k, .how = TD_HOW_EXACT};
        struct td_op op = small_op(k / 2);

        if (k < 5)
            assert_int_equal(td_writer_step(w, &s), TD_OK);
        assert_int_equal(td_writer_op(w, &op), TD_OK);
        op.step = -1; /* of no known step */
        assert_int_equal(td_writer_op(w, &op), TD_OK);
    }
    assert_int_equal(td_writer_commit(w, NULL), TD_OK);
    td_writer_abandon(w);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(repair(dir, &fx), TD_OK);
        assert_int_equal(td_fixture_steps(fx, &steps, &n, &bad, NULL), TD_OK);
        assert_int_equal(n, 15);
        for (i = 0; i < n; i++) {
            assert_int_equal(steps[i].step, i);
            assert_int_equal(steps[i].t_ns, 1000 + i);
            assert_int_equal(steps[i].pid, 7);
            assert_int_equal(steps[i].how, i < 5 ? TD_HOW_EXACT : TD_HOW_UNKNOWN);
        }
        td_steps_free(steps, n);
        td_fixture_close(fx);
    }
}

static void count_of_ledger(void *n, int code, const char *file, const char *sentence)
{
    if (!strstr(file, "ledger"))
        return;
    print_message("%s: %s: %s\n", td_code_name(code), file, sentence);
    ++*(int *)n;
}

/* Half a line of the ledger was committed, and the next line behind it. */
static void test_fact_without_room(void **state)
{
    const size_t n = TD_MANIFEST_MAX;
    char *text = malloc(n + 1), path[96];
    struct td_verify_sums sums;
    struct td_error err = {0, ""};
    struct td_writer *w;
    int problems = 0;

    (void)state;
    assert_non_null(text);
    memset(text, 'x', n);
    text[n] = '\0';
    snprintf(path, sizeof path, "%s/facts", root);
    assert_int_equal(td_writer_create(path, NULL, &w, &err), 0);
    assert_int_equal(td_writer_fact_str(w, "test", "long", text), TD_ELIMIT);
    assert_int_not_equal(td_writer_fact_str(w, "test", "next", "short"), 0); /* the writer has failed */
    assert_int_equal(td_writer_close(w, "complete", &err), TD_ELIMIT);
    assert_non_null(strstr(err.msg, "no room for the fact test.long"));
    td_fixture_verify(path, count_of_ledger, &problems, &sums, &err);
    assert_int_equal(problems, 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_beginning), cmocka_unit_test(test_ops_with_steps),
                                       cmocka_unit_test(test_held_steps), cmocka_unit_test(test_fact_without_room)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
