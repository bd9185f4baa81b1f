/* test_gguf.c - files of gguf-py's own writer read as its reader reads them; every cut and many lies are refused with a sentence.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/hash.h"
#include "model/gguf.h"

#define SAMPLE "tests/unit/data/sample.gguf"

static const struct expected { const char *name, *dtype; int ndim; int64_t ne[4]; uint64_t bytes, hash; } expected[] = {
#include "tests/unit/data/gguf_sample.h"
};
#define N (sizeof expected / sizeof *expected)

static void test_tensors(void **state)
{
    struct td_error err = {0};
    struct td_gguf *g;
    size_t i;

    (void)state;
    assert_int_equal(td_gguf_open(SAMPLE, &g, &err), 0);
    assert_string_equal(td_gguf_path(g), SAMPLE);
    assert_int_equal(td_gguf_count(g), N);
    for (i = 0; i < N; i++) {
        const struct expected *e = &expected[i];
        const struct td_gguf_tensor *t = td_gguf_at(g, i);

        assert_string_equal(t->name, e->name);
        assert_ptr_equal(td_gguf_find(g, e->name), t);
        assert_string_equal(t->dtype, e->dtype);
        assert_int_equal(t->td, td_dtype_parse(e->dtype));
        assert_int_equal(t->ndim, e->ndim);
        assert_memory_equal(t->ne, e->ne, sizeof t->ne);
        assert_int_equal(t->bytes, e->bytes);
        assert_int_equal(td_hash64(t->data, t->bytes), e->hash);
        if (t->td) { /* a fixture says the same with these shapes */
            uint64_t bytes = td_dtype_size(t->td);
            int d;

            for (d = 0; d < t->ndim; d++)
                bytes *= (uint64_t)t->shape[d];
            assert_int_equal(bytes, e->bytes);
        }
    }
    assert_null(td_gguf_find(g, "nothing"));
    td_gguf_close(g);
}

static void test_metadata(void **state)
{
    struct td_error err = {0};
    struct td_gguf *g;
    struct td_gguf_value v;

    (void)state;
    assert_int_equal(td_gguf_open(SAMPLE, &g, &err), 0);
    v = td_gguf_meta(g, "general.architecture");
    assert_int_equal(v.kind, TD_GGUF_STR);
    assert_string_equal(v.str, "llama");
    assert_int_equal(v.len, 5);
    v = td_gguf_meta(g, "llama.context_length");
    assert_true(v.kind == TD_GGUF_UINT && v.v.u == 4096);
    v = td_gguf_meta(g, "llama.rope.freq_base");
    assert_true(v.kind == TD_GGUF_FLOAT && v.v.f == 10000.5);
    v = td_gguf_meta(g, "yes");
    assert_true(v.kind == TD_GGUF_BOOL && v.v.b);
    v = td_gguf_meta(g, "minus");
    assert_true(v.kind == TD_GGUF_INT && v.v.i == -7);
    v = td_gguf_meta(g, "large");
    assert_true(v.kind == TD_GGUF_UINT && v.v.u == (1ull << 63) + 5);
    v = td_gguf_meta(g, "tokens");
    assert_true(v.kind == TD_GGUF_ARRAY && v.len == 4);
    v = td_gguf_meta(g, "numbers");
    assert_true(v.kind == TD_GGUF_ARRAY && v.len == 3);
    assert_int_equal(td_gguf_meta(g, "none").kind, TD_GGUF_NONE);
    td_gguf_close(g);
}

static void test_split_model(void **state)
{
    static const char *const files[] = {"tests/unit/data/split-00001-of-00002.gguf", "tests/unit/data/split-00002-of-00002.gguf"};
    struct td_error err = {0};
    struct td_gguf *g;
    struct td_buf b = TD_BUF_INIT(1 << 20);
    int i;

    (void)state;
    for (i = 0; i < 2; i++) { /* by any of them */
        assert_int_equal(td_gguf_open(files[i], &g, &err), 0);
        assert_int_equal(td_gguf_count(g), 5);
        assert_string_equal(td_gguf_find(g, "blk.0.f32.weight")->path, files[0]);
        assert_string_equal(td_gguf_find(g, "blk.0.q5_0.weight")->path, files[1]);
        td_gguf_close(g);
    }
    assert_int_equal(td_fs_read(files[0], 1 << 20, &b, &err), 0);
    assert_int_equal(td_fs_write_atomic("/tmp/td-test-gguf-alone.gguf", b.data, b.len, &err), 0);
    assert_int_equal(td_gguf_open("/tmp/td-test-gguf-alone.gguf", &g, &err), TD_EINVAL);
    assert_non_null(strstr(err.msg, "not named NAME-00001-of-00002.gguf"));
    td_fs_remove_tree("/tmp/td-test-gguf-alone.gguf", NULL);
    td_buf_release(&b);
}

/* A file that is none of those its own name speaks of. */
static void test_one_file_too_many(void **state)
{
    static const char *const from[] = {"tests/unit/data/split-00001-of-00002.gguf", "tests/unit/data/split-00002-of-00002.gguf", "tests/unit/data/split-00001-of-00002.gguf"};
    char path[80];
    struct td_error err = {0};
    struct td_gguf *g;
    int i;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct td_buf b = TD_BUF_INIT(1 << 20);

        snprintf(path, sizeof path, "/tmp/td-test-gguf-many-0000%d-of-00002.gguf", i + 1);
        assert_int_equal(td_fs_read(from[i], 1 << 20, &b, &err), 0);
        assert_int_equal(td_fs_write_atomic(path, b.data, b.len, &err), 0);
        td_buf_release(&b);
    }
    assert_int_equal(td_gguf_open(path, &g, &err), TD_EINVAL);
    assert_null(g);
    for (i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/tmp/td-test-gguf-many-0000%d-of-00002.gguf", i + 1);
        td_fs_remove_tree(path, NULL);
    }
}

/* Every prefix is refused, and none read past its end (sanitizers see that: each is an allocation of its own). */
static void test_every_cut(void **state)
{
    struct td_buf b = TD_BUF_INIT(1 << 20);
    struct td_gguf *g;
    size_t n;

    (void)state;
    assert_int_equal(td_fs_read("tests/unit/data/split-00002-of-00002.gguf", 1 << 20, &b, NULL), 0);
    for (n = 0; n <= b.len; n++) {
        struct td_error err = {0};
        uint8_t *copy = malloc(n ? n : 1);

        memcpy(copy, b.data, n);
        if (td_gguf_memory(copy, n, "cut", &g, &err)) {
            assert_true(err.code == TD_ETRUNCATED || err.code == TD_ECORRUPT);
            assert_non_null(strstr(err.msg, "cut: "));
            assert_null(g);
        } else {
            assert_true(n > b.len - 32); /* the padding of the last tensor */
            td_gguf_close(g);
        }
        free(copy);
    }
    td_buf_release(&b);
}

static void expect_refused(const uint8_t *data, size_t n, int code, const char *words)
{
    struct td_error err = {0};
    struct td_gguf *g;

    assert_int_equal(td_gguf_memory(data, n, "lie", &g, &err), code);
    if (!strstr(err.msg, words))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, words);
}

struct out { uint8_t b[4096]; size_t n; };
static void u32(struct out *o, uint32_t v) { memcpy(o->b + o->n, &v, 4); o->n += 4; }
static void u64(struct out *o, uint64_t v) { memcpy(o->b + o->n, &v, 8); o->n += 8; }
static void text(struct out *o, const char *s) { u64(o, strlen(s)); memcpy(o->b + o->n, s, strlen(s)); o->n += strlen(s); }
static struct out head(uint64_t tensors, uint64_t keys)
{
    struct out o = {.n = 0};

    memcpy(o.b, "GGUF", 4);
    o.n = 4;
    u32(&o, 3), u64(&o, tensors), u64(&o, keys);
    return o;
}
static void tensor(struct out *o, const char *name, int ndim, const uint64_t *ne, uint32_t type, uint64_t offset)
{
    int i;

    text(o, name), u32(o, (uint32_t)ndim);
    for (i = 0; i < ndim; i++)
        u64(o, ne[i]);
    u32(o, type), u64(o, offset);
}

static void test_lies_about_keys(void **state)
{
    struct out o;

    (void)state;
    o = head(0, 0), o.b[4] = 1;
    expect_refused(o.b, o.n, TD_EVERSION, "version 1");
    o = head(0, 0), o.b[4] = 0, o.b[7] = 3;
    expect_refused(o.b, o.n, TD_EVERSION, "big-endian");
    o = head(0, 0), o.b[0] = 'X';
    expect_refused(o.b, o.n, TD_ECORRUPT, "does not begin with");
    o = head(1ull << 60, 0);
    expect_refused(o.b, o.n, TD_ELIMIT, "at most");
    o = head(0, 1000000);
    expect_refused(o.b, o.n, TD_ETRUNCATED, "truncated");
    o = head(0, 1), text(&o, "k"), u32(&o, 99);
    expect_refused(o.b, o.n, TD_ECORRUPT, "type 99");
    o = head(0, 1), text(&o, "k"), u32(&o, 9), u32(&o, 9), u64(&o, 1);
    expect_refused(o.b, o.n, TD_ECORRUPT, "array of values of type 9");
    o = head(0, 1), text(&o, "k"), u32(&o, 9), u32(&o, 10), u64(&o, UINT64_MAX);
    expect_refused(o.b, o.n, TD_ETRUNCATED, "truncated");
    o = head(0, 1), text(&o, "k"), u32(&o, 8), u64(&o, UINT64_MAX);
    expect_refused(o.b, o.n, TD_ETRUNCATED, "truncated");
    o = head(0, 1), text(&o, ""), u32(&o, 0);
    expect_refused(o.b, o.n, TD_ECORRUPT, "empty");
    o = head(0, 1), text(&o, "general.alignment"), u32(&o, 4), u32(&o, 48);
    expect_refused(o.b, o.n, TD_ECORRUPT, "power of two");
}

static void test_lies_about_tensors(void **state)
{
    static const uint64_t small[5] = {32, 1, 1, 1, 1}, odd[1] = {33}, negative[1] = {UINT64_MAX}, huge[4] = {1ull << 40, 1ull << 40, 4, 4};
    struct td_error err = {0};
    struct td_gguf *g;
    struct out o;

    (void)state;
    o = head(1, 0), tensor(&o, "t", 5, small, 0, 0);
    expect_refused(o.b, o.n, TD_ECORRUPT, "5 dimensions");
    o = head(1, 0), tensor(&o, "t", 1, odd, 2, 0);
    expect_refused(o.b, o.n, TD_ECORRUPT, "no whole blocks of Q4_0");
    o = head(1, 0), tensor(&o, "t", 1, negative, 0, 0);
    expect_refused(o.b, o.n, TD_ECORRUPT, "negative");
    o = head(1, 0), tensor(&o, "t", 4, huge, 0, 0);
    expect_refused(o.b, o.n, TD_ECORRUPT, "overflows");
    o = head(1, 0), tensor(&o, "t", 1, small, 0, 7);
    expect_refused(o.b, o.n, TD_ECORRUPT, "no multiple of 32");
    o = head(1, 0), tensor(&o, "t", 1, small, 0, UINT64_MAX - 31);
    expect_refused(o.b, o.n, TD_ETRUNCATED, "\"t\" needs 128 bytes");
    o = head(2, 0), tensor(&o, "t", 1, small, 0, 0), tensor(&o, "t", 1, small, 0, 0), o.n += 512;
    expect_refused(o.b, o.n, TD_ECORRUPT, "two tensors are named \"t\"");
    o = head(1, 0), tensor(&o, "t", 1, small, 77, 0), o.n += 512;
    assert_int_equal(td_gguf_memory(o.b, o.n, "later", &g, &err), 0); /* a later type: named, without bytes */
    assert_string_equal(td_gguf_find(g, "t")->dtype, "type-77");
    assert_int_equal(td_gguf_find(g, "t")->td, TD_DT_NONE);
    assert_null(td_gguf_find(g, "t")->data);
    td_gguf_close(g);
}

static void test_no_file(void **state)
{
    struct td_error err = {0};
    struct td_gguf *g;

    (void)state;
    assert_int_equal(td_gguf_open("/nonexistent.gguf", &g, &err), TD_ENOTFOUND);
    memset(&err, 0, sizeof err);
    assert_int_equal(td_gguf_open("tests/unit", &g, &err), TD_EINVAL);
    assert_non_null(strstr(err.msg, "regular"));
    td_gguf_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors), cmocka_unit_test(test_metadata), cmocka_unit_test(test_split_model), cmocka_unit_test(test_one_file_too_many), cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_lies_about_keys), cmocka_unit_test(test_lies_about_tensors), cmocka_unit_test(test_no_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
