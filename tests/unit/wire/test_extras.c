/* test_extras.c - notes on what a server offers, and what is said of those without room.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/json.h"
#include "wire/extras.h"

/* Note n extras. Returns the manifest's fact server.extras_left_out, -1: there is none. */
static int64_t left_out(int n)
{
    struct td_extras e = {.n = 0};
    struct td_error err = {0};
    char root[] = "/tmp/td-extras-XXXXXX", dir[64], name[16];
    struct td_fixture *fx;
    struct td_writer *w;
    const cJSON *server;
    int64_t more;
    int i;

    assert_non_null(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/fx", root);
    assert_int_equal(td_writer_create(dir, &(struct td_writer_options){.tool = "test"}, &w, &err), 0);
    for (i = 0; i < n; i++) {
        snprintf(name, sizeof name, "extra %d", i);
        td_extras_set(&e, name, "yes", NULL);
    }
    td_extras_set(&e, "extra 0", "no", "a later note replaces the first");
    td_extras_write_fact(&e, w);
    assert_int_equal(td_writer_close(w, "complete", &err), 0);
    assert_int_equal(td_fixture_open(dir, &fx, &err), 0);
    server = td_json_get(td_fixture_manifest(fx), "server");
    assert_int_equal(cJSON_GetArraySize(td_json_get(server, "extras")), n < TD_EXTRAS_MAX ? n : TD_EXTRAS_MAX);
    more = td_json_get_i64(server, "extras_left_out", -1);
    td_fixture_close(fx);
    td_fs_remove_tree(root, NULL);
    return more;
}

static void test_left_out(void **state)
{
    (void)state;
    assert_int_equal(left_out(TD_EXTRAS_MAX), -1);
    assert_int_equal(left_out(TD_EXTRAS_MAX + 2), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
