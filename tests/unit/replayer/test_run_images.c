/* test_run_images.c - outputs are what they were when they were copied, though their process goes on writing.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "replayer/run_images.h"

enum { SIZE = 1 << 16, RUNS = 4, TIMES = 400 };

static char *arena;

static char *image(int i)
{
    return arena + td_proto_image_stride(SIZE) * (size_t)i;
}

static int setup(void **state)
{
    (void)state;
    arena = mmap(NULL, RUNS * td_proto_image_stride(SIZE), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return arena != MAP_FAILED ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return munmap(arena, RUNS * td_proto_image_stride(SIZE));
}

static void take(struct td_run_result *res)
{
    struct td_error err = {0};

    memset(res, 0, sizeof *res);
    if (td_run_images_take(arena, SIZE, RUNS, res, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(res->repeats, RUNS);
}

static void test_equal_ones_are_one(void **state)
{
    struct td_run_result res;

    (void)state;
    for (int i = 0; i < RUNS; i++)
        memset(image(i), i == 2 ? 'b' : 'a', SIZE);
    take(&res);
    for (int i = 0; i < RUNS; i++) {
        assert_int_equal(*(char *)res.images[i], i == 2 ? 'b' : 'a');
        assert_memory_equal(res.images[i], image(i), SIZE);
        assert_int_equal(res.images[i] == res.images[0], i != 2);
    }
    memset(image(0), 'c', SIZE);
    assert_int_equal(*(char *)res.images[0], 'a');
    free(res.memory);
}

static void test_all_differ(void **state)
{
    struct td_run_result res;

    (void)state;
    for (int i = 0; i < RUNS; i++)
        memset(image(i), 'a' + i, SIZE);
    take(&res);
    for (int i = 0; i < RUNS; i++)
        assert_memory_equal(res.images[i], image(i), SIZE);
    free(res.memory);
}

/* Change the first output for as long as the parent lives: its last byte, so that it equals the others half of the
 * time. */
static void change_the_first(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (char c = 0;; c = !c)
        ((volatile char *)image(0))[SIZE - 1] = c;
}

/* The others never change, so each is what it always was, whatever the first was when it was looked at. */
static void test_the_process_goes_on_writing(void **state)
{
    struct td_run_result res;
    int wrong = 0;
    pid_t child;

    (void)state;
    memset(arena, 0, td_proto_image_stride(SIZE) * RUNS);
    child = fork();
    if (!child)
        change_the_first();
    assert_true(child > 0);
    for (int t = 0; t < TIMES; t++) {
        take(&res);
        for (int i = 1; i < RUNS; i++)
            wrong += ((char *)res.images[i])[SIZE - 1] != 0;
        free(res.memory);
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_equal_ones_are_one, setup, teardown),
                                       cmocka_unit_test_setup_teardown(test_all_differ, setup, teardown),
                                       cmocka_unit_test_setup_teardown(test_the_process_goes_on_writing, setup, teardown)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
