/* test_format_golden.c - fixtures/golden/ reads for ever, with the content that it was written with.
 * SPDX-License-Identifier: Apache-2.0
 *
 * "test_format_golden --write DIR" writes a new one; a changed golden fixture needs a reason in its commit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/verify.h"
#include "tests/unit/format/format_sample.h"

#define GOLDEN "fixtures/golden/v1-synthetic"

static void report(void *ctx, int code, const char *file, const char *sentence)
{
    (void)ctx;
    print_message("%s: %d: %s\n", file, code, sentence);
}

static void test_golden(void **state)
{
    struct td_error err = {0};
    struct td_verify_sums sums;
    struct td_fixture *fx;
    struct td_exchange *x;
    struct td_op *ops;
    struct td_step *steps;
    struct td_cursor *c;
    struct td_wire rec;
    size_t n, bad, len;
    void *data;
    char hex[TD_HASH_HEX];
    int wire = 0, rc;

    (void)state;
    assert_int_equal(td_fixture_verify(GOLDEN, report, NULL, &sums, &err), TD_OK);
    assert_int_equal(sums.problems, 0);
    assert_int_equal(sums.blobs, 4);
    assert_int_equal(td_fixture_open(GOLDEN, &fx, &err), TD_OK);
    assert_string_equal(td_fixture_id(fx), "bbc4af9796d4ca6d752e885c17d88168");
    assert_string_equal(td_json_get_str(td_json_get(td_fixture_manifest(fx), "server"), "model", ""), "synthetic");
    assert_int_equal(td_fixture_exchanges(fx, &x, &n, &bad, &err), TD_OK);
    assert_int_equal(n, 1);
    check_exchange(x);
    td_exchanges_free(x, n);
    assert_int_equal(td_fixture_steps(fx, &steps, &n, &bad, &err), TD_OK);
    assert_true(n == 1 && steps->step == 5 && steps->how == TD_HOW_EXACT && steps->spans[0].position == 17);
    td_steps_free(steps, n);
    assert_int_equal(td_fixture_ops(fx, &ops, &n, &bad, &err), TD_OK);
    assert_true(n == 2 && ops[1].op == 4);
    td_hash_hex(ops[0].in[0].blob, hex);
    assert_string_equal(hex, "ae6aa1c373f7fdc450323ce0ddcfc14c");
    assert_int_equal(td_json_get_i64(td_json_get(ops[0].extra, "impl"), "x", 0), 2);
    assert_int_equal(td_fixture_blob(fx, ops[0].in[0].blob, UINT64_MAX, &data, &len, &err), TD_OK); /* byte planes */
    assert_true(len == 2002 && ((uint16_t *)data)[1000] == 0x3C00 + (1000 * 7919) % 300);
    free(data);
    assert_int_equal(td_fixture_blob(fx, ops[0].in[1].blob, UINT64_MAX, &data, &len, &err), TD_OK); /* zstd */
    assert_true(len == 2048 && ((int32_t *)data)[511] == 63);
    free(data);
    assert_int_equal(td_fixture_blob(fx, ops[0].in[2].blob, UINT64_MAX, &data, &len, &err), TD_OK); /* raw */
    assert_true(len == 333 && ((uint8_t *)data)[0] == 0x05);
    free(data);
    td_ops_free(ops, n);
    assert_int_equal(td_cursor_open(fx, TD_STREAM_WIRE, &c, &err), TD_OK);
    while ((rc = td_cursor_wire(c, &rec, &err)) == 1)
        wire++;
    assert_int_equal(rc, 0);
    assert_int_equal(wire, 12);
    td_cursor_close(c);
    td_fixture_close(fx);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};

    if (argc == 3 && !strcmp(argv[1], "--write")) {
        write_sample(argv[2], "complete");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
