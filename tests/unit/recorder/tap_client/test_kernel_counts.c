/* test_kernel_counts.c - the kernels of a recording, and what is said of those that are not named.
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
#include "recorder/tap_client/kernel_counts.h"

/* Launches of `names` kernels, one each; the first was launched once more. Returns the manifest's
 * fact tap.kernels_left_out, -1: there is none. */
static int64_t left_out(uint32_t names)
{
    struct client_kernels k = {0};
    struct tap_kernel rec = {.n = 1};
    struct td_error err = {0};
    char root[] = "/tmp/td-kernels-XXXXXX", dir[64];
    struct td_fixture *fx;
    struct td_writer *w;
    const cJSON *tap;
    int64_t n;
    uint32_t i;

    assert_non_null(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/fx", root);
    assert_int_equal(td_writer_create(dir, &(struct td_writer_options){.tool = "test"}, &w, &err), 0);
    for (i = 0; i <= names; i++) {
        snprintf(rec.symbol, sizeof rec.symbol, "%u_kernel", i % names);
        assert_true(client_kernels_read(&k, &rec));
    }
    client_kernels_facts(&k, w);
    client_kernels_release(&k);
    assert_int_equal(td_writer_close(w, "complete", &err), 0);
    assert_int_equal(td_fixture_open(dir, &fx, &err), 0);
    tap = td_json_get(td_fixture_manifest(fx), "tap");
    assert_int_equal(cJSON_GetArraySize(td_json_get(tap, "kernels")), names < 256 ? names : 256);
    n = td_json_get_i64(tap, "kernels_left_out", -1);
    td_fixture_close(fx);
    td_fs_remove_tree(root, NULL);
    return n;
}

static void test_left_out(void **state)
{
    (void)state;
    assert_int_equal(left_out(256), -1);
    assert_int_equal(left_out(300), 44);
    assert_int_equal(left_out(CLIENT_KERNELS_MAX + 3), CLIENT_KERNELS_MAX + 3 - 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
