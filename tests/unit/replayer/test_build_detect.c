/* test_build_detect.c - what a path given as a build is taken for.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.h"
#include "replayer/build_detect.h"

static char dir[64];

static const char *put(const char *name, const char *bytes, size_t n, mode_t mode)
{
    static char path[8][128];
    static int turn;
    char *p = path[turn++ & 7];
    struct td_error err = {0};

    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    assert_int_equal(td_fs_write_atomic(p, bytes, n, &err), TD_OK);
    assert_int_equal(chmod(p, mode), 0);
    return p;
}

static const char *folder(const char *name)
{
    static char path[4][128];
    static int turn;
    char *p = path[turn++ & 3];

    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    assert_int_equal(td_fs_mkdirs(p, NULL), TD_OK);
    return p;
}

static void expect(const char *path, const char *provider, const char *found, const char *arg)
{
    struct td_build b;
    struct td_error err = {0};

    if (td_build_detect(path, provider, &b, &err))
        fail_msg("%s: %s", path, err.msg);
    assert_string_equal(b.provider, found);
    assert_string_equal(b.arg, arg);
    assert_int_equal(b.script[0] != '\0', !strcmp(found, "vllm"));
}

#define GGML "ELF\0abc\0ggml_mul_mat\0x"
#define TDK "ELF\0td_gptq_gemm\0x"
#define SIMT "ELF\0td_gptq_gemm_4bit_f32\0td_simt_launch\0x"

/* nvcc and hipcc made them (tests/unit/data/gpu/make.py, gptq_like.cu) */
static void test_gpu_code(void **state)
{
    static const char *const files[] = {"tests/unit/data/gptq_like.fatbin", "tests/unit/data/gptq_sm80.cubin", "tests/unit/data/gpu/lib.so"};
    static const char *const amd[] = {"tests/unit/data/gpu/bundle.hsaco", "tests/unit/data/gpu/object.hsaco", "tests/unit/data/gpu/libhip.so"};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof files / sizeof *files; i++)
        expect(files[i], NULL, "cuda", files[i]);
    for (i = 0; i < sizeof amd / sizeof *amd; i++)
        expect(amd[i], NULL, "hip", amd[i]);
}

static void test_files(void **state)
{
    const char *ggml = put("a.so", GGML, sizeof GGML, 0755), *tdk = put("b.so", TDK, sizeof TDK, 0755);
    const char *near = put("c.so", "ELF\0my_td_gptq_gemm_2\0", 22, 0644), *python = put("python", "ELF", 3, 0755);

    (void)state;
    expect(ggml, NULL, "ggml", ggml);
    expect(tdk, NULL, "lib", tdk);
    expect(near, NULL, "lib", near); /* a part of a longer name is none; lib says what is missing */
    expect(put("d.simt.so", SIMT, sizeof SIMT, 0755), NULL, "simt", put("d.simt.so", SIMT, sizeof SIMT, 0755));
    expect(python, NULL, "vllm", python);
    expect("nowhere.so", NULL, "lib", "nowhere.so");
    expect(ggml, "lib", "lib", ggml);
    expect(NULL, NULL, "cpu", "");
    expect(NULL, "ref", "ref", "");
}

static void test_our_own_with_an_argument(void **state)
{
    char longer[TD_PATH_MAX + 10] = "simt:";
    struct td_build b;

    (void)state;
    expect(NULL, "simt", "simt", "");
    expect(NULL, "simt:seed=3,warp=64", "simt", "seed=3,warp=64");
    expect(NULL, "cpu:c", "cpu", "c");
    expect(NULL, "cpu:", "cpu", "");
    assert_null(td_build_own_provider("lib"));
    assert_null(td_build_own_provider("cp"));
    assert_null(td_build_own_provider("cpus"));
    assert_null(td_build_own_provider(""));
    memset(longer + 5, 'x', sizeof longer - 6);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(td_build_detect(NULL, longer, &b, NULL), TD_ELIMIT);
}

static void test_folders(void **state)
{
    const char *base = folder("base"), *one = folder("one"), *venv = folder("venv"), *empty = folder("empty");
    struct td_build b;
    struct td_error err = {0};
    char arg[160];

    (void)state;
    put("base/libggml-base.so", "x", 1, 0755);
    expect(base, NULL, "ggml", base);
    put("one/a_helper.so", "nothing", 7, 0755);
    put("one/module.abi3.so", GGML, sizeof GGML, 0755);
    snprintf(arg, sizeof arg, "%s/module.abi3.so", one);
    expect(one, NULL, "ggml", arg);
    folder("venv/bin");
    put("venv/bin/python", "ELF", 3, 0755);
    snprintf(arg, sizeof arg, "%s/bin/python", venv);
    expect(venv, NULL, "vllm", arg);
    expect(one, "ggml", "ggml", one); /* named: the provider finds its way */
    assert_int_equal(td_build_detect(empty, NULL, &b, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "--provider"));
}

static void test_the_hash_of_a_folder_is_that_of_its_libraries(void **state)
{
    const char *d = folder("hashed");
    char a[TD_HASH_HEX], b[TD_HASH_HEX], c[TD_HASH_HEX], file[TD_HASH_HEX], want[TD_HASH_HEX];

    (void)state;
    assert_false(td_build_hash(d, a));
    td_hash_hex(td_hash_bytes("one", 3), want);
    assert_true(td_build_hash(put("hashed/libx.so", "one", 3, 0644), file));
    assert_string_equal(file, want);
    assert_true(td_build_hash(d, a));
    put("hashed/notes.txt", "text", 4, 0644);
    assert_true(td_build_hash(d, b));
    assert_string_equal(a, b);
    put("hashed/liby.so.1", "two", 3, 0644);
    assert_true(td_build_hash(d, c));
    assert_string_not_equal(a, c);
}

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/test_build_XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state)
{
    (void)state;
    return td_fs_remove_tree(dir, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files), cmocka_unit_test(test_gpu_code),
        cmocka_unit_test(test_our_own_with_an_argument),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_the_hash_of_a_folder_is_that_of_its_libraries),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
