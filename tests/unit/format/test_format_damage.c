/* test_format_damage.c - flip every byte, cut at every length: damage is named, what lies around it is read, repair mends.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "format/frames.h"
#include "format/manifest.h"
#include "format/pack.h"
#include "format/repair.h"
#include "format/verify.h"
#include "tests/unit/format/format_sample.h"

static char root[64];
static char dir[80];

static int setup(void **state)
{
    (void)state;
    if (!sample_scratch(root, sizeof root))
        return -1;
    snprintf(dir, sizeof dir, "%s/fx", root);
    write_sample(dir, "complete");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(root, NULL);
}

static void load(int file, struct td_buf *b)
{
    char p[TD_PATH_MAX];

    td_buf_init(b, 1 << 24);
    assert_int_equal(td_fs_join(p, sizeof p, dir, file < TD_FILE_COUNT ? td_file_names[file] : TD_MANIFEST_NAME, NULL), TD_OK);
    assert_int_equal(td_fs_read(p, 1 << 24, b, NULL), TD_OK);
}

static void store(const char *folder, int file, const void *data, size_t n)
{
    char p[TD_PATH_MAX];

    assert_int_equal(td_fs_join(p, sizeof p, folder, file < TD_FILE_COUNT ? td_file_names[file] : TD_MANIFEST_NAME, NULL), TD_OK);
    assert_int_equal(td_fs_write_atomic(p, data, n, NULL), TD_OK);
}

/* ---- in memory: every byte, every length -------------------------------------------------------------------------------- */

static void count_frames(const void *data, size_t n, uint16_t kind, int *good, int *bad, int *torn)
{
    struct td_frames f;
    int rc, calls = 0;

    *good = *bad = *torn = 0;
    assert_int_equal(td_frames_memory(&f, data, n, kind, NULL), TD_OK);
    while ((rc = td_frames_next(&f, NULL))) {
        *good += rc == 1;
        *bad += rc == TD_ECORRUPT;
        *torn += rc == TD_ETRUNCATED;
        assert_true(rc == 1 || rc == TD_ECORRUPT || rc == TD_ETRUNCATED);
        assert_true(++calls < 100);
    }
    td_frames_close(&f);
}

static void test_frames_flipped(void **state)
{
    struct td_buf b;
    int good, bad, torn;

    (void)state;
    load(TD_FILE_WIRE, &b);
    count_frames(b.data, b.len, 1, &good, &bad, &torn);
    assert_true(good == 2 && !bad && !torn);
    for (size_t i = 0; i < b.len; i++) {
        for (int bit = 1; bit < 256; bit <<= 3) {
            b.data[i] ^= (char)bit;
            count_frames(b.data, b.len, 1, &good, &bad, &torn);
            assert_int_equal(good, 1); /* the other one is read */
            assert_true(bad + torn >= 1);
            b.data[i] ^= (char)bit;
        }
    }
    td_buf_release(&b);
}

static void test_frames_cut(void **state)
{
    struct td_buf b;
    struct td_frame_head h;
    size_t first;
    int good, bad, torn;

    (void)state;
    load(TD_FILE_WIRE, &b);
    assert_int_equal(td_frame_head_get((uint8_t *)b.data, &h), TD_OK);
    first = TD_FRAME_HEAD + h.comp_len;
    for (size_t n = 0; n < b.len; n++) {
        count_frames(b.data, n, 1, &good, &bad, &torn);
        assert_int_equal(good, n >= first);
        assert_int_equal(bad, 0);
        assert_int_equal(torn, n > 0 && n != first);
    }
    for (size_t n = 1; n < first; n++) { /* the beginning is gone */
        count_frames(b.data + n, b.len - n, 1, &good, &bad, &torn);
        assert_true(good == 1 && bad == 1);
    }
    count_frames(b.data + first, b.len - first, 1, &good, &bad, &torn); /* a whole frame was taken out */
    assert_true(good == 1 && bad == 1);
    count_frames(b.data, b.len, 2, &good, &bad, &torn); /* another file's */
    assert_true(good == 0 && bad == 1);
    td_buf_release(&b);
}

static int count_blobs(const void *data, size_t n, bool *indexed)
{
    struct td_pack pk;
    int good = 0;
    void *raw;
    size_t len;

    assert_int_equal(td_pack_memory(&pk, data, n, NULL), TD_OK);
    *indexed = pk.indexed;
    for (size_t i = 0; i < pk.index.cap; i++)
        if (pk.index.slot[i].at != UINT64_MAX && !td_pack_read(&pk, pk.index.slot[i].at, &pk.index.slot[i].hash, UINT64_MAX, &raw, &len, NULL)) {
            good++;
            free(raw);
        }
    td_pack_close(&pk);
    return good;
}

static void test_pack(void **state)
{
    struct td_buf b;
    bool indexed;
    size_t blobs_end;
    int whole, n;

    (void)state;
    load(TD_FILE_PACK, &b);
    whole = count_blobs(b.data, b.len, &indexed);
    assert_int_equal(whole, 4);
    assert_true(indexed);
    blobs_end = b.len - TD_PACK_TRAILER - TD_PACK_HEAD - 4 * 32;
    for (size_t i = 0; i < b.len; i++) {
        b.data[i] ^= 0x10;
        n = count_blobs(b.data, b.len, &indexed);
        assert_int_equal(n, i < blobs_end ? whole - 1 : whole);
        assert_int_equal(indexed, i < blobs_end);
        b.data[i] ^= 0x10;
    }
    for (size_t i = 0; i < b.len; i += 3) {
        n = count_blobs(b.data, i, &indexed);
        assert_true(n <= whole && !indexed && (i < blobs_end || n == whole));
    }
    td_buf_release(&b);
}

/* ---- on disk: verify names it, repair mends it --------------------------------------------------------------------------- */

struct seen { const char *file; int named, others; };

static void note(void *ctx, int code, const char *file, const char *sentence)
{
    struct seen *s = ctx;

    assert_true(code < 0 && *sentence);
    if (!strcmp(file, s->file))
        s->named++;
    else
        s->others++;
}

static void copy_sample(const char *to)
{
    assert_int_equal(td_fs_mkdirs(to, NULL), TD_OK);
    for (int i = 0; i <= TD_FILE_COUNT; i++) {
        struct td_buf b;

        load(i, &b);
        store(to, i, td_buf_str(&b), b.len);
        td_buf_release(&b);
    }
}

static int64_t problems(const char *folder, int file)
{
    struct seen s = {file < TD_FILE_COUNT ? td_file_names[file] : TD_MANIFEST_NAME, 0, 0};
    struct td_verify_sums sums;

    assert_int_equal(td_fixture_verify(folder, note, &s, &sums, NULL), TD_OK);
    if (sums.problems && file < TD_FILE_PACK)
        assert_true(s.named > 0);
    return sums.problems;
}

static void mend(const char *folder)
{
    struct td_repair_options opt = {.report = NULL};
    struct td_repair_sums sums;
    struct td_error err = {0};

    assert_int_equal(td_fixture_repair(folder, &opt, &sums, &err), TD_OK);
    assert_true(sums.changed);
}

static void test_verify_and_repair(void **state)
{
    char to[120];

    (void)state;
    snprintf(to, sizeof to, "%s/copy", root);
    assert_int_equal(problems(dir, 0), 0);
    for (int file = 0; file < TD_FILE_COUNT; file++) {
        struct td_buf b;

        load(file, &b);
        for (size_t i = 0; i < b.len; i += 1 + b.len / 40) {
            copy_sample(to);
            b.data[i] ^= 0x20;
            store(to, file, b.data, b.len);
            assert_true(problems(to, file) > 0);
            mend(to);
            if (file != TD_FILE_PACK) /* after a lost blob an op still needs it: that is said, not hidden */
                assert_int_equal(problems(to, file), 0);
            b.data[i] ^= 0x20;
            copy_sample(to);
            store(to, file, b.data, i); /* cut */
            assert_true(problems(to, file) > 0);
            mend(to);
            assert_int_equal(td_fs_remove_tree(to, NULL), TD_OK);
        }
        copy_sample(to);
        snprintf(to, sizeof to, "%s/copy/%s", root, td_file_names[file]);
        unlink(to);
        snprintf(to, sizeof to, "%s/copy", root);
        assert_true(problems(to, file) > 0);
        mend(to);
        assert_int_equal(td_fs_remove_tree(to, NULL), TD_OK);
        td_buf_release(&b);
    }
}

/* Any damage of the manifest: refused or read, never a crash; without one it is rebuilt with the same id and facts. */
static void test_manifest(void **state)
{
    struct td_repair_options opt = {.report = NULL};
    struct td_repair_sums sums;
    struct td_fixture *fx, *was;
    struct td_buf b;
    char to[120], p[160];

    (void)state;
    snprintf(to, sizeof to, "%s/copy", root);
    load(TD_FILE_COUNT, &b);
    copy_sample(to);
    for (size_t i = 0; i < b.len; i += 3) {
        b.data[i] ^= 0x10;
        store(to, TD_FILE_COUNT, b.data, b.len);
        problems(to, TD_FILE_COUNT);
        b.data[i] ^= 0x10;
    }
    snprintf(p, sizeof p, "%s/" TD_MANIFEST_NAME, to);
    unlink(p);
    assert_int_equal(problems(to, TD_FILE_COUNT), 1);
    mend(to);
    assert_int_equal(problems(to, TD_FILE_COUNT), 0);
    assert_int_equal(td_fixture_repair(to, &opt, &sums, NULL), TD_OK);
    assert_false(sums.changed); /* twice does nothing */
    assert_int_equal(td_fixture_open(to, &fx, NULL), TD_OK);
    assert_int_equal(td_fixture_open(dir, &was, NULL), TD_OK);
    assert_string_equal(td_fixture_id(fx), td_fixture_id(was));
    assert_string_equal(td_json_get_str(td_fixture_manifest(fx), "state", ""), "interrupted");
    assert_string_equal(td_json_get_str(td_json_get(td_fixture_manifest(fx), "server"), "model", ""), "synthetic");
    assert_int_equal(td_fixture_ledger(fx, "ops.seen"), 3);
    td_fixture_close(fx);
    td_fixture_close(was);
    td_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_flipped), cmocka_unit_test(test_frames_cut), cmocka_unit_test(test_pack),
        cmocka_unit_test(test_verify_and_repair), cmocka_unit_test(test_manifest),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
