/* test_tap_loaded_symbol.c - functions of libraries that were opened RTLD_LOCAL, found without asking the dynamic linker.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "recorder/tap/core/tap_loaded_symbol.h"

static void *open_helper(const char *name)
{
    char path[512];
    const char *o = getenv("O");
    void *handle;

    snprintf(path, sizeof path, "%s/tests/helpers/%s", o ? o : "build", name);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        fail_msg("%s", dlerror());
    return handle;
}

/* Two libraries have the same functions: the caller's own counts. */
static void test_of_the_caller(void **state)
{
    static const char *const names[] = {"fake_command", "ggml_op_name", "ggml_nbytes", "ggml_backend_sched_graph_compute_async"};
    void *one = open_helper("lib_fake_llama.so"), *other = open_helper("lib_fake_llama_old_layout.so");
    size_t i;

    (void)state;
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        void *first = dlsym(one, names[i]), *second = dlsym(other, names[i]);

        assert_non_null(first);
        assert_ptr_not_equal(first, second);
        assert_ptr_equal(tap_loaded_symbol(names[i], first), first);
        assert_ptr_equal(tap_loaded_symbol(names[i], second), second);
        assert_ptr_equal(tap_loaded_symbol(names[i], (void *)(uintptr_t)test_of_the_caller), first);
    }
    dlclose(one);
    dlclose(other);
}

static void test_none(void **state)
{
    void *one = open_helper("lib_fake_llama.so"), *caller = dlsym(one, "fake_command");

    (void)state;
    assert_null(tap_loaded_symbol("tapedeck_no_such_function", caller));
    assert_null(tap_loaded_symbol("", caller));
    assert_null(tap_loaded_symbol("tap_loaded_symbol", caller)); /* of the tap itself */
    assert_ptr_equal(tap_loaded_symbol("fake_command", NULL), caller);
    dlclose(one);
    assert_null(tap_loaded_symbol("fake_command", NULL));
}

/* Each function that the C library offers once is found where dlsym() finds it. (A sanitizer stands before some of them, so the
 * library itself is asked.) */
static void test_of_the_c_library(void **state)
{
    static const char *const names[] = {"qsort", "getenv", "snprintf", "fopen", "pthread_create", "open_memstream", "setlocale"};
    void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    size_t i;

    (void)state;
    assert_non_null(library);
    for (i = 0; i < sizeof names / sizeof *names; i++)
        assert_ptr_equal(tap_loaded_symbol(names[i], dlsym(library, "gnu_get_libc_version")), dlsym(library, names[i]));
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_the_caller),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_of_the_c_library),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
