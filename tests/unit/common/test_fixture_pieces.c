/* test_fixture_pieces.c - what lies in a folder of fixtures, and is none.
 * SPDX-License-Identifier: Apache-2.0 */
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

#include "common/fixture_pieces.h"
#include "common/fs.h"

static char root[] = "/tmp/td-pieces-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(root) && !chmod(root, 0755) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(root, NULL);
}

static enum td_piece piece_of(const char *name, const char *content, size_t n)
{
    char path[TD_PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(td_fs_write_atomic(path, content, n, NULL), 0);
    return td_fixture_piece(path);
}

#define PIECE(name, content) piece_of(name, content, sizeof(content) - 1)

static void test_names(void **state)
{
    (void)state;
    assert_int_equal(PIECE("README", "text"), TD_PIECE_OTHER);
    assert_int_equal(PIECE("suite.jsonl", "{}"), TD_PIECE_OTHER);
    assert_int_equal(PIECE("a.tdz.part", ""), TD_PIECE_BROKEN);
    assert_int_equal(PIECE("b.tdzx", ""), TD_PIECE_OTHER);
    assert_int_equal(PIECE("blobs.pack.6eF9c", ""), TD_PIECE_BROKEN);
    assert_int_equal(PIECE("OPS.JSONL.ZST.1", ""), TD_PIECE_BROKEN);
    assert_int_equal(PIECE("x-wire.zst", ""), TD_PIECE_BROKEN);
    assert_int_equal(PIECE("hardwire.zst", ""), TD_PIECE_OTHER);
    assert_int_equal(PIECE("manifest.json~", "{\"format\": \"tapedeck-fixture\"}"), TD_PIECE_BROKEN);
    assert_int_equal(PIECE("manifest.json.old", "{\"format\": \"other\"}"), TD_PIECE_OTHER);
    assert_int_equal(PIECE("qwen.dvc", "md5: 5"), TD_PIECE_BROKEN);
    assert_int_equal(PIECE("README.dvc", "md5: 5"), TD_PIECE_OTHER); /* beside README */
    assert_int_equal(PIECE("data.csv.dvc", "md5: 5"), TD_PIECE_POINTER);
}

static void test_frames(void **state)
{
    (void)state;
    assert_int_equal(PIECE("empty.z", "\x28\xb5\x2f\xfd\x20\0\1\0\0"), TD_PIECE_OTHER);   /* a whole frame of nothing */
    assert_int_equal(PIECE("cut.z", "\x28\xb5\x2f\xfd\x04\x58\x85"), TD_PIECE_BROKEN);      /* not even a block */
    assert_int_equal(PIECE("bad.z", "\x28\xb5\x2f\xfd\x04\x58\x07\0\0abc"), TD_PIECE_BROKEN); /* a block of a type that there is not */
    assert_int_equal(PIECE("short.z", "\x28\xb5"), TD_PIECE_OTHER);
}

/* A file that may not be read is named; as the superuser every file may. */
static void test_closed(void **state)
{
    char path[TD_PATH_MAX];

    (void)state;
    assert_int_equal(PIECE("m.zst", "text"), TD_PIECE_OTHER);
    assert_int_equal(PIECE("m.log", "text"), TD_PIECE_OTHER);
    snprintf(path, sizeof path, "%s/m.log", root);
    assert_int_equal(chmod(path, 0), 0);
    snprintf(path, sizeof path, "%s/m.zst", root);
    assert_int_equal(chmod(path, 0), 0);
    if (geteuid() == 0 && setresuid(65534, 65534, 0))
        skip();
    assert_int_equal(td_fixture_piece(path), TD_PIECE_CLOSED);
    snprintf(path, sizeof path, "%s/m.log", root);
    assert_int_equal(td_fixture_piece(path), TD_PIECE_OTHER);
    if (getuid() == 65534)
        assert_int_equal(setresuid(0, 0, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_frames), cmocka_unit_test(test_closed)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
