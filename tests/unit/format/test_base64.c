/* test_base64.c - base64: RFC 4648's own vectors, all bytes there and back, and what is no base64.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "common/error.h"
#include "format/base64.h"

static void check(const char *bytes, const char *text)
{
    struct td_buf there = TD_BUF_INIT(100), back = TD_BUF_INIT(100);

    td_base64_add(&there, bytes, strlen(bytes));
    assert_string_equal(td_buf_str(&there), text);
    assert_int_equal(td_base64_decode(text, &back), TD_OK);
    assert_string_equal(td_buf_str(&back), bytes);
    td_buf_release(&there);
    td_buf_release(&back);
}

static void test_vectors(void **state)
{
    (void)state;
    check("", "");
    check("f", "Zg==");
    check("fo", "Zm8=");
    check("foo", "Zm9v");
    check("foob", "Zm9vYg==");
    check("fooba", "Zm9vYmE=");
    check("foobar", "Zm9vYmFy");
}

static void test_all_bytes(void **state)
{
    struct td_buf text = TD_BUF_INIT(1000), back = TD_BUF_INIT(1000);
    unsigned char bytes[257];

    (void)state;
    for (int i = 0; i < 257; i++)
        bytes[i] = (unsigned char)(i * 77);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        td_buf_clear(&text);
        td_buf_clear(&back);
        td_buf_adds(&back, "x"); /* both append */
        td_base64_add(&text, bytes, n);
        assert_int_equal(td_base64_decode(td_buf_str(&text), &back), TD_OK);
        assert_int_equal(back.len, n + 1);
        assert_memory_equal(back.data + 1, bytes, n);
    }
    td_buf_release(&text);
    td_buf_release(&back);
}

static void test_refused(void **state)
{
    static const char *const bad[] = {"Zg=", "Z", "Zm9v=", "====", "Z===", "Zg=v", "=m9v", "Zm9v====", "Zm9 ", "Zm9\xff", "Zm-_"};
    struct td_buf out = TD_BUF_INIT(100), small = TD_BUF_INIT(3);

    (void)state;
    td_buf_adds(&out, "x");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(td_base64_decode(bad[i], &out), TD_EINVAL);
        assert_string_equal(td_buf_str(&out), "x");
    }
    assert_int_equal(td_base64_decode("Zm9vYg==", &small), TD_ELIMIT);
    assert_true(small.failed);
    td_buf_release(&out);
    td_buf_release(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors), cmocka_unit_test(test_all_bytes), cmocka_unit_test(test_refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
