/* test_format_examples.c - the op lines that docs/format.md shows for kinds of later versions pass through this one unchanged.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/json.h"
#include "format/records.h"

#define FENCE "\n```json\n"

static const char *const kinds[] = {"gptq_gemm", "w4a8_gemm", "ggml_mul_mat", "ggml_rope", "gemm", "attention", "rms_norm"};

/* text : one op, n bytes */
static void check_example(const char *text, size_t n, const char *kind)
{
    struct td_error err = {0};
    struct td_buf out = TD_BUF_INIT(1 << 20);
    cJSON *before = td_json_parse(text, n, &err), *after;
    struct td_op op;

    if (!before || td_op_read(before, &op, &err))
        fail_msg("the example of %s: %s", kind, err.msg);
    assert_string_equal(op.kind, kind);
    assert_null(op.extra);
    assert_int_equal(td_op_write(&op, &out), TD_OK);
    after = td_json_parse(out.data, out.len, &err);
    if (!cJSON_Compare(before, after, true))
        fail_msg("the example of %s was written back as %s", kind, out.data);
    cJSON_Delete(before);
    cJSON_Delete(after);
    td_op_release(&op);
    td_buf_release(&out);
}

static void test_examples(void **state)
{
    struct td_buf b = TD_BUF_INIT(1 << 20);
    const char *at, *end;
    size_t n = 0;

    (void)state;
    assert_int_equal(td_fs_read("docs/format.md", 1 << 20, &b, NULL), TD_OK);
    for (at = b.data; (at = strstr(at, FENCE)); at = end) {
        at += strlen(FENCE);
        end = strstr(at, "\n```");
        assert_non_null(end);
        assert_true(n < sizeof kinds / sizeof *kinds);
        check_example(at, (size_t)(end - at), kinds[n++]);
    }
    assert_int_equal(n, sizeof kinds / sizeof *kinds);
    td_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
