/* test_format_kill.c - kill the recorder at any moment, or fill its disk: what was committed is there, and no secret is.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/fs.h"
#include "format/manifest.h"
#include "format/repair.h"
#include "format/verify.h"
#include "tests/unit/format/format_sample.h"

static char root[64];

static int setup(void **state)
{
    (void)state;
    return sample_scratch(root, sizeof root) ? 0 : -1;
}

static int teardown(void **state)
{
    char mnt[90];

    (void)state;
    snprintf(mnt, sizeof mnt, "%s/mnt", root);
    umount2(mnt, MNT_DETACH); /* there only when test_disk_full failed */
    return td_fs_remove_tree(root, NULL);
}

/* ---- looking for the secret ----------------------------------------------------------------------------------------------- */

static bool holds(const void *data, size_t n)
{
    return memmem(data, n, SAMPLE_SECRET, strlen(SAMPLE_SECRET)) != NULL;
}

/* In every file as it is, and decompressed from any place where a zstd frame begins. */
static void assert_no_secret(const char *dir)
{
    static const char magic[4] = {0x28, (char)0xB5, 0x2F, (char)0xFD};
    char *raw = malloc(4 << 20);

    for (int i = 0; i <= TD_FILE_COUNT; i++) {
        struct td_buf b = TD_BUF_INIT(1 << 28);
        char p[TD_PATH_MAX];
        const char *at;

        assert_int_equal(td_fs_join(p, sizeof p, dir, i < TD_FILE_COUNT ? td_file_names[i] : TD_MANIFEST_NAME, NULL), TD_OK);
        if (td_fs_read(p, 1 << 28, &b, NULL)) {
            td_buf_release(&b);
            continue;
        }
        assert_false(b.len && holds(b.data, b.len));
        for (at = b.data; at && (at = memmem(at, (size_t)(b.data + b.len - at), magic, 4)); at++) {
            ZSTD_DCtx *z = ZSTD_createDCtx(); /* a stream, so that a torn frame gives what is in it */
            ZSTD_inBuffer in = {at, (size_t)(b.data + b.len - at), 0};
            ZSTD_outBuffer out = {raw, 4 << 20, 0};

            while (in.pos < in.size && out.pos < out.size && !ZSTD_isError(ZSTD_decompressStream(z, &out, &in)))
                ;
            assert_false(holds(raw, out.pos));
            ZSTD_freeDCtx(z);
        }
        td_buf_release(&b);
    }
    free(raw);
}

/* ---- kill ------------------------------------------------------------------------------------------------------------------ */

/* Write streams, ops and blobs for ever; say over the pipe how many are committed. */
static void recorder(const char *dir, int report, uint32_t seed)
{
    struct td_writer *w;
    struct td_exchange x = sample_exchange();

    if (td_writer_create(dir, NULL, &w, NULL))
        _exit(1);
    td_writer_fact_str(w, "server", "kind", "vllm");
    for (uint32_t i = 0;; i++) {
        uint8_t blob[4096];

        sample_wire(w, i);
        x.stream = i;
        td_writer_exchange(w, &x);
        sample_op(w, i);
        memset(blob, (int)i, sizeof blob);
        memcpy(blob, &i, sizeof i);
        td_writer_blob(w, blob, sizeof blob, 1 + i % 2, &(struct td_hash){0, 0});
        if (i % 7 == seed % 7) {
            uint32_t n = i + 1;

            if (td_writer_commit(w, NULL) || write(report, &n, sizeof n) != sizeof n)
                _exit(1);
        }
    }
}

/* Of the pack and the streams: it may have been killed while it made them. */
static int missing_files(const char *dir)
{
    static const char *const all[] = {"blobs.pack", "wire.zst", "exchanges.jsonl.zst", "steps.jsonl.zst", "ops.jsonl.zst", "ledger.jsonl.zst"};
    char path[160];
    size_t i;
    int n = 0;

    for (i = 0; i < sizeof all / sizeof *all; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, all[i]);
        n += !td_fs_exists(path);
    }
    return n;
}

static void check_committed(const char *dir, uint32_t committed)
{
    struct td_repair_options opt = {.report = NULL};
    struct td_repair_sums sums;
    struct td_error err = {0};
    struct td_fixture *fx;
    struct td_exchange *x;
    struct td_op *ops;
    struct td_cursor *c;
    struct td_wire rec;
    size_t n, bad, len;
    void *data;
    int64_t closed = 0;
    int rc, missing = missing_files(dir);

    assert_int_equal(td_fixture_repair(dir, &opt, &sums, &err), TD_OK);
    assert_int_equal(sums.dropped, missing); /* else torn tails only */
    assert_true(!missing || !committed);
    assert_int_equal(td_fixture_open(dir, &fx, &err), TD_OK);
    assert_string_equal(td_json_get_str(td_fixture_manifest(fx), "state", ""), "interrupted");
    if (committed)
        assert_string_equal(td_json_get_str(td_json_get(td_fixture_manifest(fx), "server"), "kind", ""), "vllm");
    assert_int_equal(td_cursor_open(fx, TD_STREAM_WIRE, &c, &err), TD_OK);
    while ((rc = td_cursor_wire(c, &rec, &err)) == 1)
        closed += rec.dir == TD_WIRE_NOTE && memmem(rec.data, rec.len, "close", 5);
    assert_int_equal(rc, 0);
    td_cursor_close(c);
    assert_true(closed >= committed);
    assert_int_equal(td_fixture_exchanges(fx, &x, &n, &bad, &err), TD_OK);
    assert_true(n >= committed && !bad);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(x[i].stream, i);
    td_exchanges_free(x, n);
    assert_int_equal(td_fixture_ops(fx, &ops, &n, &bad, &err), TD_OK);
    assert_true(n >= committed && !bad);
    for (size_t i = 0; i < n; i++) { /* an op that is there has its blobs */
        assert_int_equal(td_fixture_blob(fx, ops[i].in[0].blob, UINT64_MAX, &data, &len, &err), TD_OK);
        free(data);
    }
    td_ops_free(ops, n);
    for (uint32_t i = 0; i < committed; i++) {
        uint8_t blob[4096];

        memset(blob, (int)i, sizeof blob);
        memcpy(blob, &i, sizeof i);
        assert_true(td_fixture_has_blob(fx, td_hash_bytes(blob, sizeof blob)));
    }
    td_fixture_close(fx);
}

static void print_problem(void *ctx, int code, const char *file, const char *sentence)
{
    (void)ctx;
    (void)code;
    print_message("%s: %s\n", file, sentence);
}

static int count_problem(const char *dir)
{
    struct td_verify_sums sums;

    assert_int_equal(td_fixture_verify(dir, print_problem, NULL, &sums, NULL), TD_OK);
    return (int)sums.problems;
}

static void test_killed(void **state)
{
    uint32_t seed = (uint32_t)td_clock_mono_ns(), most = 0;

    (void)state;
    print_message("seed %u\n", seed);
    for (int round = 0; round < 24; round++) {
        char dir[100];
        int fd[2], status;
        uint32_t committed = 0, n;
        pid_t pid;

        snprintf(dir, sizeof dir, "%s/kill-%d", root, round);
        assert_int_equal(pipe(fd), 0);
        pid = fork();
        if (!pid) {
            close(fd[0]);
            recorder(dir, fd[1], (uint32_t)round);
            _exit(0);
        }
        close(fd[1]);
        seed = seed * 1664525u + 1013904223u;
        td_clock_sleep_until(td_clock_mono_ns() + (round < 2 ? round : 5 + (int)(seed % 120)) * TD_NS_PER_MS);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        while (read(fd[0], &n, sizeof n) == sizeof n)
            committed = n;
        close(fd[0]);
        most = committed > most ? committed : most;
        if (td_fs_is_dir(dir)) {
            assert_no_secret(dir);
            check_committed(dir, committed);
            assert_int_equal(count_problem(dir), 0);
            assert_no_secret(dir);
            assert_int_equal(td_fs_remove_tree(dir, NULL), TD_OK);
        }
    }
    assert_true(most > 0); /* else the test showed nothing */
    print_message("up to %u exchanges committed before a kill\n", most);
}

/* ---- a full disk ------------------------------------------------------------------------------------------------------------- */

/* Write until it fails; the failure stays; what was committed is read. Returns how many were committed. */
static int fill(const char *dir)
{
    struct td_error err = {0}, again = {0};
    struct td_writer *w;
    struct td_fixture *fx;
    struct td_exchange x = sample_exchange(), *all;
    uint8_t noise[20000];
    uint64_t seed = 1;
    size_t n, bad;
    int committed = 0, rc;

    assert_int_equal(td_writer_create(dir, NULL, &w, &err), TD_OK);
    for (int i = 0; i < 10000 && !err.code; i++) {
        for (size_t k = 0; k < sizeof noise; k++)
            noise[k] = (uint8_t)((seed = seed * 6364136223846793005ULL + 1442695040888963407ULL) >> 56);
        x.stream = (uint32_t)i;
        td_writer_exchange(w, &x);
        td_writer_blob(w, noise, sizeof noise, 1, &(struct td_hash){0, 0});
        if (!td_writer_commit(w, &err))
            committed = i + 1;
    }
    assert_int_equal(err.code, TD_EIO);
    assert_int_equal(td_writer_exchange(w, &x), TD_EIO);
    td_exchange_release(&x);
    rc = td_writer_close(w, "complete", &again);
    assert_int_equal(rc, TD_EIO);
    assert_string_equal(again.msg, err.msg); /* the first failure */
    if (td_fixture_open(dir, &fx, NULL)) { /* no room even for the manifest */
        struct td_repair_options opt = {.report = NULL};
        struct td_repair_sums sums;

        td_fixture_repair(dir, &opt, &sums, NULL);
        return committed;
    }
    assert_string_equal(td_json_get_str(td_fixture_manifest(fx), "state", ""), "failed");
    assert_int_equal(td_fixture_exchanges(fx, &all, &n, &bad, &again), TD_OK);
    assert_true((int)n >= committed && !bad);
    td_exchanges_free(all, n);
    td_fixture_close(fx);
    assert_int_equal(count_problem(dir), 2); /* "failed" itself, and the pack's index; files are as the manifest says */
    return committed;
}

static void test_file_too_large(void **state)
{
    struct rlimit old, small = {1 << 20, RLIM_INFINITY};
    char dir[100];
    int committed;

    (void)state;
    snprintf(dir, sizeof dir, "%s/limit", root);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    committed = fill(dir);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
    assert_in_range(committed, 40, 60);
}

static void test_disk_full(void **state)
{
    char dir[100], mnt[90];

    (void)state;
    snprintf(mnt, sizeof mnt, "%s/mnt", root);
    snprintf(dir, sizeof dir, "%s/fx", mnt);
    assert_int_equal(td_fs_mkdirs(mnt, NULL), TD_OK);
    if (mount("tmpfs", mnt, "tmpfs", 0, "size=2m")) {
        print_message("skipped: disk_full: mounting a tmpfs is not permitted (%s); test_file_too_large stands in\n", strerror(errno));
        skip();
    }
    assert_in_range(fill(dir), 40, 110);
    assert_int_equal(umount(mnt), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed), cmocka_unit_test(test_file_too_large), cmocka_unit_test(test_disk_full),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
