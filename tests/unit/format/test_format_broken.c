/* test_format_broken.c - every folder of tests/broken-fixtures/ fails with the error that stands beside it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <dirent.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/fs.h"
#include "format/fixture.h"
#include "format/verify.h"

#define HERE "tests/broken-fixtures"

static void report(void *ctx, int code, const char *file, const char *sentence)
{
    td_buf_addf(ctx, "%s: %s: %s\n", file, td_code_name(code), sentence);
}

/* Whatever is broken, what can be read is read, without a crash. */
static void read_all(const char *dir)
{
    struct td_fixture *fx;
    struct td_exchange *x;
    struct td_op *ops;
    size_t n, bad;

    if (td_fixture_open(dir, &fx, NULL))
        return;
    if (!td_fixture_exchanges(fx, &x, &n, &bad, NULL))
        td_exchanges_free(x, n);
    if (!td_fixture_ops(fx, &ops, &n, &bad, NULL))
        td_ops_free(ops, n);
    td_fixture_close(fx);
}

static void check(const char *name)
{
    struct td_buf said = TD_BUF_INIT(1 << 20), want = TD_BUF_INIT(1 << 20);
    struct td_verify_sums sums;
    char path[TD_PATH_MAX], *line, *save = NULL;

    snprintf(path, sizeof path, HERE "/%s.expect", name);
    assert_int_equal(td_fs_read(path, 1 << 16, &want, NULL), TD_OK);
    snprintf(path, sizeof path, HERE "/%s", name);
    assert_int_equal(td_fixture_verify(path, report, &said, &sums, NULL), TD_OK);
    assert_true(sums.problems > 0);
    for (line = strtok_r(want.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (!strstr(td_buf_str(&said), line)) {
            print_message("%s: expected \"%s\" in\n%s", name, line, td_buf_str(&said));
            fail();
        }
    read_all(path);
    td_buf_release(&said);
    td_buf_release(&want);
}

static void test_broken(void **state)
{
    struct dirent *e;
    DIR *d = opendir(HERE);
    char path[TD_PATH_MAX];
    int n = 0;

    (void)state;
    assert_non_null(d);
    while ((e = readdir(d))) {
        snprintf(path, sizeof path, HERE "/%s", e->d_name);
        if (e->d_name[0] == '.' || !td_fs_is_dir(path))
            continue;
        check(e->d_name);
        n++;
    }
    closedir(d);
    assert_true(n >= 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_broken)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
