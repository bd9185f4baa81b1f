/* test_guard.c - guarded memory: placement, gaps, and that the forbidden page is one.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replayer/child/guard.h"

/* The signal that a touch of p ends a process with; 0: none. */
static int touch(volatile uint8_t *p)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*p & 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void ends_at_the_page(void **state)
{
    static const size_t sizes[] = {1, 2, 63, 64, 4095, 4096, 4097, 100000};
    struct td_guard g = {0};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(td_guard_place(&g, sizes[i], 1, true, NULL), TD_OK);
        assert_int_equal((uintptr_t)(g.data + sizes[i]) % 4096, 0);
        memset(g.data, 1, sizes[i]);
        assert_int_equal(td_guard_check(&g), 0);
        assert_int_equal(touch(g.data + sizes[i] - 1), 0);
#ifndef __SANITIZE_ADDRESS__ /* its own handler would turn the signal into an exit */
        assert_int_equal(touch(g.data + sizes[i]), SIGSEGV);
#endif
    }
    td_guard_release(&g);
}

static void what_stays_in_place_is_known(void **state)
{
    struct td_guard g = {0};

    (void)state;
    assert_int_equal(td_guard_place(&g, 5000, 64, true, NULL), TD_OK);
    g.content = (struct td_hash){1, 2};
    assert_int_equal(td_guard_place(&g, 5000, 64, true, NULL), TD_OK);
    assert_int_equal(g.content.lo, 2);
    assert_int_equal(td_guard_place(&g, 5001, 64, true, NULL), TD_OK); /* at the same place */
    assert_true(td_hash_is_zero(g.content));
    g.content = (struct td_hash){1, 2};
    assert_int_equal(td_guard_place(&g, 1 << 20, 64, true, NULL), TD_OK);
    assert_true(td_hash_is_zero(g.content));
    td_guard_release(&g);
}

static void alignment_is_kept(void **state)
{
    struct td_guard g = {0};
    size_t align;

    (void)state;
    for (align = 1; align <= 4096; align *= 2) {
        assert_int_equal(td_guard_place(&g, 1001, align, true, NULL), TD_OK);
        assert_int_equal((uintptr_t)g.data % align, 0);
        assert_true(g.tail < align);
    }
    assert_int_equal(td_guard_place(&g, 10, 3, true, NULL), TD_EINVAL);
    assert_int_equal(td_guard_place(&g, 10, 8192, true, NULL), TD_EINVAL);
    td_guard_release(&g);
}

static void writes_into_gaps_are_seen(void **state)
{
    struct td_guard g = {0};

    (void)state;
    assert_int_equal(td_guard_place(&g, 100, 64, true, NULL), TD_OK);
    assert_int_equal(g.tail, 28);
    g.data[100] = 0;
    assert_int_equal(td_guard_check(&g), 1);
    g.data[127] = 0;
    assert_int_equal(td_guard_check(&g), 28);
    assert_int_equal(td_guard_place(&g, 100, 64, true, NULL), TD_OK); /* placing poisons anew */
    assert_int_equal(td_guard_check(&g), 0);
    g.data[-3] = 0;
    assert_int_equal(td_guard_check(&g), -3);
    td_guard_release(&g);
}

static void without_the_page(void **state)
{
    struct td_guard g = {0};

    (void)state;
    assert_int_equal(td_guard_place(&g, 5000, 64, false, NULL), TD_OK);
    assert_int_equal((uintptr_t)g.data % 4096, 0);
    assert_int_equal(touch(g.data + 5000 + 64), 0); /* a small over-read does no harm */
    g.data[5000] = 1;
    assert_int_equal(td_guard_check(&g), 1);        /* a write is seen all the same */
    td_guard_release(&g);
}

static void faults_are_located(void **state)
{
    struct td_guard g = {0};
    long by;

    (void)state;
    assert_int_equal(td_guard_owns(&g, &g, &by), 0);
    assert_int_equal(td_guard_place(&g, 100, 4, true, NULL), TD_OK);
    assert_int_equal(td_guard_owns(&g, g.data + 108, &by), 1);
    assert_int_equal(by, 8);
    assert_int_equal(td_guard_owns(&g, g.map + 5, &by), -1);
    assert_int_equal(td_guard_owns(&g, g.data, &by), 0);
    td_guard_release(&g);
}

static void empty_tensor(void **state)
{
    struct td_guard g = {0};

    (void)state;
    assert_int_equal(td_guard_place(&g, 0, 16, true, NULL), TD_OK);
    assert_int_equal(td_guard_check(&g), 0);
    td_guard_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_at_the_page), cmocka_unit_test(what_stays_in_place_is_known), cmocka_unit_test(alignment_is_kept), cmocka_unit_test(writes_into_gaps_are_seen),
        cmocka_unit_test(without_the_page), cmocka_unit_test(faults_are_located), cmocka_unit_test(empty_tensor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
