/* test_format_limits.c - every maximum of the format is the one that docs/format.md states.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/json.h"
#include "format/frames.h"
#include "format/manifest.h"
#include "format/pack.h"
#include "format/records.h"
#include "format/records_json.h"
#include "format/redact.h"
#include "tests/unit/common/temp_root.h"

_Static_assert(TD_FRAME_MAX_RAW == 256u << 20 && TD_FRAME_COMMIT_RAW == 1u << 20 && TD_FRAME_HEAD == 56, "docs/format.md, Frames");
_Static_assert(TD_PACK_MAX_RAW == (uint64_t)4 << 30 && TD_PACK_MAX_BLOBS == 1 << 26 && TD_PACK_HEAD == 64 && TD_PACK_TRAILER == 24,
               "docs/format.md, blobs.pack");
_Static_assert(TD_MANIFEST_MAX == 64u << 20, "docs/format.md, manifest.json");
_Static_assert(TD_REC_MAX_TOKENS == 1 << 24 && TD_REC_MAX_TOP == 1024 && TD_REC_MAX_TENSORS == 64 && TD_REC_MAX_LAUNCHES == 4096 && TD_REC_MAX_DIMS == 8,
               "docs/format.md, exchanges, steps and ops");
_Static_assert(TD_OP_MAX_TENSORS == 18 && TD_OP_MAX_ATTRS == 32 && TD_OP_MAX_LAUNCHES == 64 && TD_OP_MAX_ATTR_NAME == 24 && TD_OP_MAX_SYMBOL == 512,
               "docs/format.md, ops");
_Static_assert(TD_OP_MAX_TENSORS <= TD_REC_MAX_TENSORS && TD_OP_MAX_LAUNCHES <= TD_REC_MAX_LAUNCHES, "what is recorded can be read");
_Static_assert(TD_REDACT_HOLD_MAX == 16u << 20 && TD_REDACT_HOLD_ALL_MAX == 128u << 20, "docs/format.md, Redaction");

static void test_documented(void **state)
{
    static const char *const sentences[] = {
        "raw length, at most 256 MiB", "or when 1 MiB of raw bytes", "raw length, at most 4 GiB", "At most 2^26 blobs", "At most 64 MiB",
        "2^24 tokens, 1,024 alternatives, 2^26 pairs", "8 dimensions, 64 inputs, 4,096 launches", "18 inputs, 32 attributes and 64 launches", "at most 16 MiB of a stream and 128 MiB of all",
        "more than 16 MiB, and more than 256 times",
    };
    struct td_buf b = TD_BUF_INIT(1 << 20);
    size_t i;

    (void)state;
    assert_int_equal(td_fs_read("docs/format.md", 1 << 20, &b, NULL), TD_OK);
    for (i = 0; i < sizeof sentences / sizeof *sentences; i++)
        if (!strstr(b.data, sentences[i])) {
            print_message("docs/format.md does not say \"%s\"\n", sentences[i]);
            fail();
        }
    td_buf_release(&b);
}

/* Who writes an op refuses what the reader would refuse. */
static void test_sizes_of_ops(void **state)
{
    static const struct { int64_t shape[3], strides[3]; bool fit; } cases[] = {
        {{2, 3, 4}, {12, 4, 1}, true},
        {{1LL << 31, 1LL << 31, 1}, {1LL << 31, 1, 1}, true},      /* 2^62 elements */
        {{1LL << 31, 1LL << 31, 2}, {0, 0, 0}, false},             /* 2^63 */
        {{1LL << 31, 1LL << 31, 3}, {0, 0, 0}, false},
        {{0, 1LL << 40, 1LL << 40}, {0, 0, 0}, false},             /* a size of 0 hides nothing */
        {{INT64_MAX, 1, 1}, {0, 0, 0}, false},
        {{-1, 1, 1}, {1, 1, 1}, false},
        {{1, 1, 1}, {-1, 1, 1}, false},
        {{2, 1, 1}, {1LL << 62, 1, 1}, true},
        {{3, 1, 1}, {1LL << 62, 1, 1}, false},
        {{2, 2, 1}, {1LL << 62, 1LL << 62, 1}, false},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_tensor_rec t = {.role = "a", .dtype = "F16", .ndim = 3};
        char kind[] = "k", text[400];
        struct td_op op = {.kind = kind, .in = &t, .n_in = 1, .impl = {.duration_ns = -1}}, out = op, back;
        struct td_buf line = TD_BUF_INIT(1 << 20);
        int64_t *a = t.shape, *s = t.strides;
        cJSON *tree;

        memcpy(t.shape, cases[i].shape, sizeof cases[i].shape);
        memcpy(t.strides, cases[i].strides, sizeof cases[i].strides);
        assert_int_equal(td_tensor_sizes_fit(t.shape, t.strides, 3), cases[i].fit);
        assert_int_equal(td_op_write(&op, &line), cases[i].fit ? TD_OK : TD_ELIMIT);
        out.n_in = 0;
        out.has_out = true;
        out.out = t;
        td_buf_clear(&line);
        assert_int_equal(td_op_write(&out, &line), cases[i].fit ? TD_OK : TD_ELIMIT);
        snprintf(text, sizeof text, "{\"op\":0,\"kind\":\"k\",\"in\":[{\"role\":\"a\",\"shape\":[%lld,%lld,%lld],\"strides\":[%lld,%lld,%lld]}]}",
                 (long long)a[0], (long long)a[1], (long long)a[2], (long long)s[0], (long long)s[1], (long long)s[2]);
        tree = td_json_parse(text, strlen(text), NULL);
        assert_non_null(tree);
        if (td_op_read(tree, &back, NULL) == TD_OK) {
            assert_true(cases[i].fit);
            td_op_release(&back);
        } else {
            assert_false(cases[i].fit);
        }
        cJSON_Delete(tree);
        td_buf_release(&line);
    }
}

/* A blob may be as large as its tensor's elements, of the largest block. */
static void test_bytes_of_tensors(void **state)
{
    struct td_tensor_rec t = {.ndim = 2, .shape = {3, 5}, .strides = {5, 1}};

    (void)state;
    assert_int_equal(td_tensor_rec_max_bytes(&t), 15 * 512);
    t.strides[0] = 100;
    assert_int_equal(td_tensor_rec_max_bytes(&t), 205 * 512);
    t.strides[0] = t.strides[1] = 0;
    assert_int_equal(td_tensor_rec_max_bytes(&t), 15 * 512);
    t.ndim = 0;
    assert_int_equal(td_tensor_rec_max_bytes(&t), 512);
    t = (struct td_tensor_rec){.ndim = 2, .shape = {1LL << 31, 1LL << 31}, .strides = {1LL << 31, 1}};
    assert_true(td_tensor_rec_max_bytes(&t) == UINT64_MAX);
}

/* Twenty frames of 1 MiB of one letter, as td_frame_write() makes them, or with what zstd alone gives,
 * a thousandth of that. Returns how the stream ends for a reader, and *frames that were read. */
static int read_one_letter(bool padded, int *frames, struct td_error *err)
{
    enum { N = 20, RAW = 1 << 20 };
    struct td_buf scratch = TD_BUF_INIT(RAW * 2), raw = TD_BUF_INIT(RAW + 1);
    ZSTD_CCtx *z = ZSTD_createCCtx();
    struct td_sink s;
    struct td_frames f;
    const char *name = padded ? "padded" : "as-it-is";
    int i, rc;

    memset(td_buf_reserve(&raw, RAW), 'a', RAW);
    assert_int_equal(td_sink_open(&s, root, name, NULL), TD_OK);
    for (i = 0; i < N; i++) {
        struct td_frame_head h = {.kind = 1, .number = (uint64_t)i, .records = 1, .raw_len = RAW};

        if (padded) {
            assert_int_equal(td_frame_write(&s, z, 3, &h, raw.data, RAW, &scratch, NULL), TD_OK);
            continue;
        }
        h.comp_len = (uint32_t)ZSTD_compress2(z, td_buf_reserve(&scratch, RAW), RAW, raw.data, RAW);
        h.sum = td_hash64(scratch.data, h.comp_len);
        assert_int_equal(td_frame_copy(&s, &h, scratch.data, NULL), TD_OK);
    }
    td_sink_close(&s);
    assert_int_equal(td_frames_open(&f, at(name), 1, NULL), TD_OK);
    for (*frames = 0; (rc = td_frames_next(&f, err)) == 1; ++*frames)
        assert_true(f.raw.len == RAW && !memcmp(f.raw.data, raw.data, RAW));
    td_frames_close(&f);
    ZSTD_freeCCtx(z);
    td_buf_release(&scratch);
    td_buf_release(&raw);
    return rc;
}

/* A few kilobytes stand for as much as is written for them, and no reader works for hours. */
static void test_ratio(void **state)
{
    struct td_error err = {0, ""};
    int frames;

    (void)state;
    assert_int_equal(read_one_letter(true, &frames, &err), 0);
    assert_int_equal(frames, 20);
    assert_int_equal(read_one_letter(false, &frames, &err), TD_ENOMEM);
    assert_int_equal(frames, TD_FRAMES_FREE >> 20);
    assert_non_null(strstr(err.msg, "as-it-is: frame 16: "));
    assert_non_null(strstr(err.msg, "a stream may hold 16 MiB, or 256 times its size"));
}

/* Heads that each claim half of the file, and whose content has another checksum: each was read and hashed. */
static void test_frames_within_frames(void **state)
{
    enum { HEADS = 1000 };
    static uint8_t data[HEADS * TD_PACK_HEAD];
    struct td_frame_head frame = {.kind = 1, .records = 1, .raw_len = 100, .comp_len = HEADS / 2 * TD_FRAME_HEAD, .sum = 5};
    struct td_pack_head blob = {.raw_len = 100, .stored_len = HEADS / 2 * TD_PACK_HEAD, .sum = 5}, h;
    struct td_buf stored = TD_BUF_INIT(1 << 20);
    struct td_frames f;
    struct td_pack pk;
    struct td_error err = {0, ""};
    uint64_t at = 0, frame_at;
    int i, n;

    (void)state;
    for (i = 0; i < HEADS; i++)
        td_frame_head_put(&frame, data + i * TD_FRAME_HEAD);
    assert_int_equal(td_frames_memory(&f, data, HEADS * TD_FRAME_HEAD, 1, &err), 0);
    for (n = 0; td_frames_next(&f, &err); n++)
        ;
    assert_true(f.read_in_vain <= 2 * sizeof data);
    assert_true(n > 1 && n <= HEADS / 2 + 2); /* the second half's heads end behind the file, and cost nothing */
    td_frames_close(&f);

    for (i = 0; i < HEADS; i++)
        td_pack_head_put(&blob, data + i * TD_PACK_HEAD);
    assert_int_equal(td_pack_memory(&pk, data, sizeof data, &err), 0);
    while (td_pack_walk(&pk, &at, &h, &frame_at, &stored, &err))
        ;
    assert_true(pk.read_in_vain && pk.read_in_vain <= 2 * sizeof data);
    td_pack_close(&pk);
    td_buf_release(&stored);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_documented), cmocka_unit_test(test_sizes_of_ops), cmocka_unit_test(test_bytes_of_tensors),
                                       cmocka_unit_test(test_ratio), cmocka_unit_test(test_frames_within_frames)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
