/* test_common_outfile.c - files that the user names: links, devices, FIFOs, descriptors, modes, and
 * what is refused before the work begins.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/outfile.h"
#include "tests/unit/common/temp_root.h"

static void write_text(const char *path, const char *text)
{
    struct td_error err = {0, ""};

    if (td_outfile_write(path, text, strlen(text), &err))
        fail_msg("%s", err.msg);
}

static void check_content(const char *path, const char *expected)
{
    struct td_buf b = TD_BUF_INIT(1 << 16);

    assert_int_equal(td_fs_read(path, 1 << 16, &b, NULL), TD_OK);
    assert_string_equal(td_buf_str(&b), expected);
    td_buf_release(&b);
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

/* The path is refused, and the sentence holds the word. */
static void check_refused(const char *path, const char *word)
{
    struct td_error err = {0, ""};

    assert_int_equal(td_outfile_check(path, &err), TD_EINVAL);
    if (!strstr(err.msg, word))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, word);
}

static void the_umask_decides_the_mode_of_a_new_file(void **state)
{
    (void)state;
    umask(022);
    write_text(at("new"), "1");
    assert_int_equal(mode_of(at("new")), 0644);
    umask(077);
    write_text(at("private"), "1");
    assert_int_equal(mode_of(at("private")), 0600);
    umask(022);
}

static void an_old_file_keeps_its_mode(void **state)
{
    struct stat before, after;

    (void)state;
    write_text(at("old"), "a longer text");
    assert_int_equal(chmod(at("old"), 0640), 0);
    assert_int_equal(stat(at("old"), &before), 0);
    write_text(at("old"), "short");
    assert_int_equal(mode_of(at("old")), 0640);
    check_content(at("old"), "short");
    assert_int_equal(stat(at("old"), &after), 0);
    assert_true(before.st_ino != after.st_ino); /* replaced in one step */
}

/* Other names of the file show the new content, too. */
static void a_hard_link_stays_one(void **state)
{
    (void)state;
    write_text(at("one"), "old");
    assert_int_equal(link(at("one"), at("other")), 0);
    write_text(at("one"), "new");
    check_content(at("other"), "new");
}

static void links_are_written_through(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(mkdir(at("far"), 0755), 0);
    write_text(at("far/file"), "old");
    assert_int_equal(symlink("far/file", at("link")), 0);
    assert_int_equal(symlink(at("link"), at("link-to-link")), 0);
    write_text(at("link-to-link"), "new");
    check_content(at("far/file"), "new");
    assert_int_equal(lstat(at("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(symlink("far/not-yet", at("early")), 0);
    assert_int_equal(td_outfile_check(at("early"), NULL), TD_OK);
    write_text(at("early"), "born");
    check_content(at("far/not-yet"), "born");
    assert_int_equal(symlink("round-2", at("round-1")), 0);
    assert_int_equal(symlink("round-1", at("round-2")), 0);
    check_refused(at("round-1"), "circle");
    assert_int_equal(symlink("nowhere/file", at("astray")), 0);
    check_refused(at("astray"), "nowhere");
}

static void devices_are_written_directly(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(td_outfile_check("/dev/null", NULL), TD_OK);
    write_text("/dev/null", "x");
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    if (access("/dev/full", W_OK) == 0)
        assert_int_equal(td_outfile_write("/dev/full", "x", 1, NULL), TD_EIO);
}

static void *read_fifo(void *path)
{
    static char text[16];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    text[n > 0 ? n : 0] = '\0';
    close(fd);
    return text;
}

static void a_fifo_stays_one(void **state)
{
    char path[200];
    struct stat st;
    pthread_t reader;
    void *got;

    (void)state;
    snprintf(path, sizeof path, "%s", at("fifo"));
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20);
    assert_int_equal(td_outfile_check(path, NULL), TD_OK); /* does not wait for a reader */
    assert_int_equal(pthread_create(&reader, NULL, read_fifo, path), 0);
    write_text(path, "through");
    assert_int_equal(pthread_join(reader, &got), 0);
    alarm(0);
    assert_string_equal(got, "through");
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
}

/* A descriptor of a file is written where it stands: what came before it is not lost. */
static void descriptors_are_written_where_they_stand(void **state)
{
    int fd = open(at("log"), O_RDWR | O_CREAT | O_TRUNC, 0600), closed = dup(fd);
    int only_read = open(at("log"), O_RDONLY);
    char path[64];

    (void)state;
    assert_true(fd >= 0 && closed >= 0 && only_read >= 0);
    close(closed);
    assert_int_equal(write(fd, "first ", 6), 6);
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    assert_int_equal(td_outfile_check(path, NULL), TD_OK);
    write_text(path, "second ");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    write_text(path, "third");
    check_content(at("log"), "first second third");
    snprintf(path, sizeof path, "/dev/fd/%d", closed);
    check_refused(path, "not open for writing");
    snprintf(path, sizeof path, "/dev/fd/%d", only_read);
    check_refused(path, "not open for writing");
    close(fd);
    close(only_read);
}

static void standard_output_has_many_names(void **state)
{
    (void)state;
    assert_int_equal(symlink("/dev/stdout", at("out")), 0);
    assert_true(td_outfile_is_stdout("-") && td_outfile_is_stdout("/dev/stdout"));
    assert_true(td_outfile_is_stdout("/dev/fd/1") && td_outfile_is_stdout(at("out")));
    assert_false(td_outfile_is_stdout("/dev/stderr") || td_outfile_is_stdout(at("-")));
    assert_false(td_outfile_is_stdout("/dev/fd/11") || td_outfile_is_stdout("/dev/fd/x"));
}

static void only_a_file_is_replaced(void **state)
{
    (void)state;
    write_text(at("kept"), "x");
    assert_true(td_outfile_is_replaced(at("kept")) && td_outfile_is_replaced(at("not-yet")));
    assert_false(td_outfile_is_replaced("-") || td_outfile_is_replaced("/dev/stdout"));
    assert_false(td_outfile_is_replaced("/dev/null") || td_outfile_is_replaced(root));
}

static void two_names_of_one_file_are_found(void **state)
{
    (void)state;
    write_text(at("same"), "x");
    assert_int_equal(symlink("same", at("alias")), 0);
    assert_true(td_outfile_same(at("same"), at("alias")));
    assert_true(td_outfile_same(at("same"), at("./same")));
    assert_true(td_outfile_same(at("unborn"), at("./unborn")));
    assert_true(td_outfile_same("-", "-") && td_outfile_same("-", "/dev/stdout"));
    assert_false(td_outfile_same(at("same"), at("unborn")));
    assert_false(td_outfile_same(at("unborn"), at("unborn2")));
    assert_false(td_outfile_same("-", "/dev/stderr") || td_outfile_same("-", at("same")));
    assert_false(td_outfile_same("/dev/null", "/dev/null")); /* nothing is lost there */
}

static void what_cannot_be_written_is_refused_beforehand(void **state)
{
    char far_too_long[5000];

    (void)state;
    write_text(at("plain"), "x");
    check_refused(at("no/such/file"), "create it");
    check_refused(at("plain/file"), "is no folder");
    check_refused(root, "is a folder");
    check_refused(at("new/"), "is a folder");
    check_refused("", "not a usable name");
    memset(far_too_long, 'a', sizeof far_too_long - 1);
    far_too_long[sizeof far_too_long - 1] = '\0';
    check_refused(far_too_long, "not a usable name");
    assert_int_equal(td_outfile_check(at("plain"), NULL), TD_OK);
    assert_int_equal(td_outfile_check("just-a-name", NULL), TD_OK);
    assert_int_equal(td_outfile_write(at("no/such/file"), "x", 1, NULL), TD_EIO);
    assert_false(td_fs_exists(at("no")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_umask_decides_the_mode_of_a_new_file),
        cmocka_unit_test(an_old_file_keeps_its_mode),
        cmocka_unit_test(a_hard_link_stays_one),
        cmocka_unit_test(links_are_written_through),
        cmocka_unit_test(devices_are_written_directly),
        cmocka_unit_test(a_fifo_stays_one),
        cmocka_unit_test(descriptors_are_written_where_they_stand),
        cmocka_unit_test(standard_output_has_many_names),
        cmocka_unit_test(only_a_file_is_replaced),
        cmocka_unit_test(two_names_of_one_file_are_found),
        cmocka_unit_test(what_cannot_be_written_is_refused_beforehand),
    };

    return cmocka_run_group_tests_name("outfile", tests, setup, teardown);
}
