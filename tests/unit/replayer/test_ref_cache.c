/* test_ref_cache.c - references that are kept: found again to the last bit, bounded, worthless when damaged.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory.h"
#include "replayer/ref_cache.h"
#include "replayer/ref_cache_file.h"

#define ROWS 3
#define COLS 5
#define N (ROWS * COLS)

static char folder[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/td-refs-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[80];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static struct td_op_call *call_of(int64_t rows)
{
    static struct td_op_call op;

    memset(&op, 0, sizeof op);
    strcpy(op.kind, "gemm");
    op.out = (struct td_tensor){.dtype = TD_DT_F16, .ndim = 2, .shape = {rows, COLS}, .strides = {COLS, 1}};
    return &op;
}

static struct td_op_hold hold_of(uint64_t input)
{
    return (struct td_op_hold){.keys = {{1, input}}, .n = 1};
}

static double *numbers(double first)
{
    double *v = malloc(N * sizeof *v);
    int i;

    assert_non_null(v);
    for (i = 0; i < N; i++)
        v[i] = first / (i + 1);
    return v;
}

/* r0: another one than r1; rest: slack, ordered, and a row that is not judged. */
static struct td_op_ref make_ref(double first, bool r0, bool rest)
{
    struct td_op_ref r = {.rows = ROWS, .cols = COLS, .inner = 64, .r1 = numbers(first), .mag = numbers(fabs(first) + 1)};

    r.r0 = r0 ? numbers(first * 1.01) : r.r1;
    if (rest) {
        r.slack = numbers(0.1);
        r.ordered = numbers(first);
        r.unjudged = calloc(ROWS, 1);
        r.unjudged[1] = 1;
    }
    return r;
}

static void assert_same(const double *a, const double *b)
{
    assert_int_equal(!a, !b);
    if (a)
        assert_memory_equal(a, b, N * sizeof *a);
}

static void assert_same_ref(const struct td_op_ref *a, const struct td_op_ref *b)
{
    assert_true(a->rows == b->rows && a->cols == b->cols && a->inner == b->inner);
    assert_same(a->r0, b->r0);
    assert_same(a->r1, b->r1);
    assert_same(a->mag, b->mag);
    assert_same(a->slack, b->slack);
    assert_same(a->ordered, b->ordered);
    assert_int_equal(!a->unjudged, !b->unjudged);
    if (a->unjudged)
        assert_memory_equal(a->unjudged, b->unjudged, ROWS);
}

static bool get(struct td_ref_cache *c, uint64_t input, const char *rounding, struct td_op_ref *ref)
{
    const struct td_op_hold hold = hold_of(input);

    return td_ref_cache_get(c, call_of(ROWS), &hold, rounding, ref);
}

static void put(struct td_ref_cache *c, uint64_t input, const char *rounding, const struct td_op_ref *ref)
{
    const struct td_op_hold hold = hold_of(input);

    td_ref_cache_put(c, call_of(ROWS), &hold, rounding, ref);
}

static void what_was_kept_is_found(void **state)
{
    const double first[] = {3.7, -1e-30, 1e300, NAN, INFINITY, 0};
    size_t i;
    int form;

    (void)state;
    for (i = 0; i < sizeof first / sizeof *first; i++)
        for (form = 0; form < 4; form++) {
            struct td_ref_cache *c = td_ref_cache_open(folder, 1 << 20);
            struct td_op_ref kept = make_ref(first[i], form & 1, form & 2), found;
            struct td_ref_cache_counts n;

            td_ref_cache_round(&kept);
            put(c, 100 * i + (unsigned)form, "none", &kept);
            td_ref_cache_close(c);
            c = td_ref_cache_open(folder, 1 << 20);
            assert_true(get(c, 100 * i + (unsigned)form, "none", &found));
            assert_same_ref(&kept, &found);
            td_ref_cache_counts(c, &n);
            assert_true(n.found == 1 && n.computed == 0 && n.damaged == 0);
            td_op_ref_release(&kept);
            td_op_ref_release(&found);
            td_ref_cache_close(c);
        }
}

/* Another input, rounding, size or attribute is another op. */
static void others_are_not_found(void **state)
{
    struct td_ref_cache *c = td_ref_cache_open(folder, 1 << 20);
    struct td_op_ref ref = make_ref(1, false, false), found;
    const struct td_op_hold hold = hold_of(7);
    struct td_op_call *op;

    (void)state;
    put(c, 7, "none", &ref);
    assert_false(get(c, 8, "none", &found));
    assert_false(get(c, 7, "q8_1", &found));
    assert_false(td_ref_cache_get(c, call_of(ROWS + 1), &hold, "none", &found));
    op = call_of(ROWS);
    op->attrs[op->n_attrs++].value = 4;
    assert_false(td_ref_cache_get(c, op, &hold, "none", &found));
    assert_true(get(c, 7, "none", &found));
    td_op_ref_release(&found);
    td_op_ref_release(&ref);
    td_ref_cache_close(c);
}

/* Call change(path) for each file. Returns how many there are. */
static int each_file(void (*change)(const char *path))
{
    DIR *d = opendir(folder);
    struct dirent *e;
    char path[400];
    int n = 0;

    assert_non_null(d);
    while ((e = readdir(d)))
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            n++;
            if (change)
                change(path);
        }
    closedir(d);
    return n;
}

static long place, length;

static void flip_a_bit(const char *path)
{
    FILE *f = fopen(path, "r+");
    int byte;

    assert_non_null(f);
    fseek(f, place, SEEK_SET);
    byte = fgetc(f);
    fseek(f, place, SEEK_SET);
    fputc(byte ^ 4, f);
    fclose(f);
}

static void note_length(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    length = (long)st.st_size;
}

static void cut(const char *path)
{
    assert_int_equal(truncate(path, place), 0);
}

static void make_link(const char *path)
{
    char other[420];

    snprintf(other, sizeof other, "%s-other", path);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
}

/* Whatever bit of a file is another one, or missing: it is not found, it is gone, and it can be kept anew. */
static void a_damaged_file_is_worthless(void **state)
{
    struct td_op_ref ref = make_ref(5, true, true), found;
    int how;

    (void)state;
    for (how = 0; how < 2; how++)
        for (place = 0, length = 1; place < length; place++) {
            struct td_ref_cache *c = td_ref_cache_open(folder, 1 << 20);
            struct td_ref_cache_counts n;

            put(c, 9, "none", &ref);
            each_file(note_length);
            each_file(how ? cut : flip_a_bit);
            assert_false(get(c, 9, "none", &found));
            td_ref_cache_counts(c, &n);
            assert_int_equal(n.damaged, how && !place ? 0 : 1);
            assert_int_equal(each_file(NULL), how && !place ? 1 : 0);
            td_ref_cache_close(c);
        }
    td_op_ref_release(&ref);
}

static void set_old(const char *path)
{
    const struct timespec t[2] = {{1000000, 0}, {1000000, 0}};

    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* What was used longest ago makes room; what this run used or kept does not. */
static void a_full_cache_makes_room(void **state)
{
    struct td_op_ref ref = make_ref(5, false, false), found;
    struct td_ref_cache *c = td_ref_cache_open(folder, 1 << 20);
    int64_t size;
    uint64_t i;

    (void)state;
    for (i = 0; i < 4; i++)
        put(c, i, "none", &ref);
    each_file(note_length);
    size = length;
    td_ref_cache_close(c);
    each_file(set_old);
    c = td_ref_cache_open(folder, 4 * size);
    assert_true(get(c, 2, "none", &found));
    td_op_ref_release(&found);
    for (i = 10; i < 20; i++) {
        put(c, i, "none", &ref);
        assert_true(each_file(NULL) <= 4);
    }
    td_ref_cache_close(c);
    c = td_ref_cache_open(folder, 4 * size);
    assert_true(get(c, 2, "none", &found));
    td_op_ref_release(&found);
    assert_true(get(c, 10, "none", &found));
    td_op_ref_release(&found);
    assert_false(get(c, 0, "none", &found));
    assert_false(get(c, 19, "none", &found));
    td_ref_cache_close(c);
    c = td_ref_cache_open(folder, 0);
    put(c, 30, "none", &ref);
    assert_false(get(c, 30, "none", &found));
    td_ref_cache_close(c);
    td_op_ref_release(&ref);
}

/* Three replays at once keep no more together than one may, but for a sixteenth each. */
static void replays_at_once_share_the_room(void **state)
{
    enum { REPLAYS = 3, ROOM = 64 };
    struct td_op_ref ref = make_ref(5, false, false), found;
    struct td_ref_cache *c[REPLAYS];
    uint64_t i;

    (void)state;
    c[0] = td_ref_cache_open(folder, 1 << 20);
    put(c[0], 1000, "none", &ref);
    td_ref_cache_close(c[0]);
    each_file(note_length);
    for (i = 0; i < REPLAYS; i++)
        c[i] = td_ref_cache_open(folder, ROOM * length);
    for (i = 0; i < 3 * ROOM; i++)
        put(c[i % REPLAYS], i, "none", &ref);
    assert_in_range(each_file(NULL), ROOM - 1, ROOM + REPLAYS * ROOM / 16);
    assert_true(get(c[1], 0, "none", &found)); /* what one has kept, another finds */
    td_op_ref_release(&found);
    for (i = 0; i < REPLAYS; i++)
        td_ref_cache_close(c[i]);
    td_op_ref_release(&ref);
}

static void no_link_is_followed(void **state)
{
    struct td_op_ref ref = make_ref(5, false, false), found;
    struct td_ref_cache *c = td_ref_cache_open(folder, 1 << 20);
    char link[80];

    (void)state;
    put(c, 1, "none", &ref);
    each_file(make_link);
    assert_false(get(c, 1, "none", &found));
    td_ref_cache_close(c);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink("/tmp", link), 0);
    c = td_ref_cache_open(link, 1 << 20);
    put(c, 2, "none", &ref);
    assert_false(get(c, 2, "none", &found));
    td_ref_cache_close(c);
    td_op_ref_release(&ref);
}

static void let_others_write(const char *path)
{
    assert_int_equal(chmod(path, 0620), 0);
}

static void give_a_second_name(const char *path)
{
    char other[420];

    snprintf(other, sizeof other, "%s-other", path);
    assert_int_equal(link(path, other), 0);
}

static void give_away(const char *path)
{
    assert_int_equal(chown(path, 65534, 65534), 0);
}

/* A file that somebody else may have written is none: it is computed, and kept anew. */
static void a_file_of_others_is_not_found(void **state)
{
    void (*const change[])(const char *) = {let_others_write, give_a_second_name, give_away};
    const size_t n_change = geteuid() ? 2 : 3; /* only root gives files away */
    struct td_op_ref ref = make_ref(5, true, true), found;
    size_t i;

    (void)state;
    for (i = 0; i < n_change; i++) {
        struct td_ref_cache *c = td_ref_cache_open(folder, 1 << 20);
        struct td_ref_cache_counts n;

        put(c, 9, "none", &ref);
        assert_true(get(c, 9, "none", &found));
        td_op_ref_release(&found);
        each_file(change[i]);
        assert_false(get(c, 9, "none", &found));
        put(c, 9, "none", &ref);
        assert_true(get(c, 9, "none", &found));
        td_op_ref_release(&found);
        td_ref_cache_counts(c, &n);
        assert_true(n.damaged == 0 && n.kept == 2);
        td_ref_cache_close(c);
    }
    td_op_ref_release(&ref);
}

static void make_file(const char *name)
{
    char path[400];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs("text", f);
    fclose(f);
    set_old(path);
}

static bool is_there(const char *name)
{
    char path[400];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return !access(path, F_OK);
}

/* What has another name than the cache gives is not removed, however old. */
static void files_of_others_stay(void **state)
{
    static const char *const others[] = {"thesis.ref", ".ref", "0123456789abcdef0123456789ABCDEF.ref",
                                         "0123456789abcdef0123456789abcde.ref", ".tmp-notes", ".tmp-12-", ".tmp-12-3x", ".tmp--3"};
    static const char *const own[] = {"0123456789abcdef0123456789abcdef.ref", ".tmp-12-3"};
    const size_t n = sizeof others / sizeof *others;
    struct td_op_ref ref = make_ref(5, false, false);
    struct td_ref_cache *c;
    size_t i;

    (void)state;
    for (i = 0; i < n; i++)
        make_file(others[i]);
    for (i = 0; i < 2; i++)
        make_file(own[i]);
    c = td_ref_cache_open(folder, 3);
    put(c, 1, "none", &ref);
    td_ref_cache_close(c);
    for (i = 0; i < n; i++)
        assert_true(is_there(others[i]));
    for (i = 0; i < 2; i++)
        assert_false(is_there(own[i]));
    td_op_ref_release(&ref);
}

/* Where memory is short, a file is not read; it is not taken for a damaged one. */
static void lack_of_memory_is_no_damage(void **state)
{
    const int64_t rows = 1000, cols = 1000, n = rows * cols;
    struct td_op_ref ref = {.rows = rows, .cols = cols, .inner = 1}, found;
    const struct td_op_hold hold = hold_of(4);
    struct td_ref_cache *c = td_ref_cache_open(folder, 1 << 28);
    struct td_op_call *op = call_of(rows);
    struct td_ref_cache_counts counts;
    size_t bytes;
    void *file;

    (void)state;
    op->out.shape[1] = op->out.strides[0] = cols;
    ref.r1 = ref.r0 = calloc((size_t)n, sizeof *ref.r1);
    ref.mag = calloc((size_t)n, sizeof *ref.mag);
    assert_true(ref.r1 && ref.mag);
    td_ref_cache_put(c, op, &hold, "none", &ref);
    file = td_ref_file_make(&ref, (struct td_hash){1, 2}, &bytes);
    assert_non_null(file);
    td_memory_beside((int64_t)1 << 50);
    assert_int_equal(td_ref_file_read(file, bytes, (struct td_hash){1, 2}, rows, cols, &found), TD_ENOMEM);
    assert_int_equal(td_ref_file_read(file, bytes, (struct td_hash){1, 3}, rows, cols, &found), TD_ECORRUPT);
    assert_false(td_ref_cache_get(c, op, &hold, "none", &found));
    td_memory_beside(-((int64_t)1 << 50));
    td_ref_cache_counts(c, &counts);
    assert_true(counts.damaged == 0 && counts.found == 0);
    assert_true(td_ref_cache_get(c, op, &hold, "none", &found));
    td_op_ref_release(&found);
    free(file);
    td_op_ref_release(&ref);
    td_ref_cache_close(c);
}

/* Off, a file in the place of the folder, a folder of everybody: all is computed. */
static void a_cache_that_cannot_be_used_keeps_nothing(void **state)
{
    struct td_op_ref ref = make_ref(5, false, false), found;
    char shared[80];
    const char *const dirs[] = {"off", "/dev/null", "/proc/none", shared};
    size_t i;

    (void)state;
    snprintf(shared, sizeof shared, "%s/shared", folder);
    assert_int_equal(mkdir(shared, 0777), 0);
    assert_int_equal(chmod(shared, 0777), 0);
    for (i = 0; i < 4; i++) {
        struct td_ref_cache *c = td_ref_cache_open(dirs[i], 1 << 20);
        struct td_ref_cache_counts n;

        put(c, 3, "none", &ref);
        assert_false(get(c, 3, "none", &found));
        td_ref_cache_counts(c, &n);
        assert_true(n.computed == 1 && n.found == 0 && n.kept == 0);
        td_ref_cache_close(c);
    }
    td_op_ref_release(&ref);
}

/* A bound is never smaller than it was, and larger by 2^-23 at most; numbers that no float holds stay. */
static void bounds_are_rounded_up(void **state)
{
    struct td_op_ref ref = make_ref(1, false, true), was = make_ref(1, false, true);
    int i;

    (void)state;
    td_ref_cache_round(&ref);
    for (i = 0; i < N; i++) {
        assert_true(ref.mag[i] >= was.mag[i] && ref.mag[i] <= was.mag[i] * (1 + 0x1p-23));
        assert_true(ref.mag[i] == (double)(float)ref.mag[i]);
        assert_true(ref.slack[i] >= was.slack[i]);
    }
    assert_same(ref.r1, was.r1);
    ref.mag[3] = was.mag[3] = 1e300;
    ref.mag[4] = was.mag[4] = 0.1;
    td_ref_cache_round(&ref);
    assert_true(ref.mag[3] == 1e300 && ref.mag[4] == 0.1);
    td_op_ref_release(&ref);
    td_op_ref_release(&was);
}

#define IN_A_FOLDER(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(what_was_kept_is_found),  IN_A_FOLDER(others_are_not_found), IN_A_FOLDER(a_damaged_file_is_worthless),
        IN_A_FOLDER(a_full_cache_makes_room), IN_A_FOLDER(replays_at_once_share_the_room), IN_A_FOLDER(no_link_is_followed),
        IN_A_FOLDER(a_cache_that_cannot_be_used_keeps_nothing),
        IN_A_FOLDER(bounds_are_rounded_up),   IN_A_FOLDER(a_file_of_others_is_not_found), IN_A_FOLDER(files_of_others_stay),
        IN_A_FOLDER(lack_of_memory_is_no_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
