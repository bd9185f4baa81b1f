/* test_build_detect.c - what a path given as a build is taken for.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <elf.h>
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
    static char path[32][128];
    static int turn;
    char *p = path[turn++ & 31];
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
    assert_int_equal(b.script[0] != '\0', !strcmp(found, "torch"));
}

/* The header of an ELF file of 64 bits, little-endian, and text behind it. Returns its size. */
static size_t elf(char *out, uint16_t type, uint16_t machine, const char *text, size_t n)
{
    Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT}, .e_type = type, .e_machine = machine};

    memcpy(out, &h, sizeof h);
    memcpy(out + sizeof h, text, n);
    return sizeof h + n;
}

static uint16_t this_machine(void)
{
    Elf64_Ehdr h;
    FILE *f = fopen("/proc/self/exe", "rb");

    assert_non_null(f);
    assert_int_equal(fread(&h, sizeof h, 1, f), 1);
    fclose(f);
    return h.e_machine;
}

/* A library of this machine with these names in it. */
static const char *put_library(const char *name, const char *text, size_t n)
{
    char bytes[400];

    return put(name, bytes, elf(bytes, ET_DYN, this_machine(), text, n), 0755);
}

#define GGML "\0abc\0ggml_mul_mat\0x"
#define TDK "\0td_gptq_gemm\0x"
#define SIMT "\0td_gptq_gemm_4bit_f32\0td_simt_launch\0x"

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

static void refused(const char *path, const char *provider, int code, const char *words)
{
    struct td_build b;
    struct td_error err = {0};
    int rc = td_build_detect(path, provider, &b, &err);

    if (rc != code || !strstr(err.msg, words))
        fail_msg("%s: %d, \"%s\"; expected %d, \"%s\"", path, rc, err.msg, code, words);
}

static void test_files(void **state)
{
    const char *ggml = put_library("a.so", GGML, sizeof GGML), *tdk = put_library("b.so", TDK, sizeof TDK);
    const char *no_name = put_library("a_module", TDK, sizeof TDK), *python = put("python", "ELF", 3, 0755);

    (void)state;
    expect(ggml, NULL, "ggml", ggml);
    expect(tdk, NULL, "lib", tdk);
    expect(no_name, NULL, "lib", no_name); /* whatever it is called, and though it can be executed */
    expect(put_library("d.simt.so", SIMT, sizeof SIMT), NULL, "simt", put_library("d.simt.so", SIMT, sizeof SIMT));
    expect(python, NULL, "torch", python);
    expect(put("python3.11", "#!/bin/sh\n", 10, 0755), NULL, "torch", put("python3.11", "#!/bin/sh\n", 10, 0755));
    expect(put("wrapper", "#!/bin/sh\n", 10, 0755), "torch", "torch", put("wrapper", "#!/bin/sh\n", 10, 0755));
    expect(ggml, "lib", "lib", ggml);
    expect(NULL, NULL, "cpu", "");
    expect(NULL, "ref", "ref", "");
}

static void test_files_that_are_no_build(void **state)
{
    char bytes[400];
    const char *none = put_library("c.so", "\0my_td_gptq_gemm_2\0", 19); /* a part of a longer name is none */
    uint16_t other = this_machine() == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;

    (void)state;
    refused(none, NULL, TD_EUNSUPPORTED, "a library that holds neither td_gptq_gemm nor");
    refused("nowhere.so", NULL, TD_ENOTFOUND, "cannot open");
    refused(put("text.so", "#include <stdio.h>\n", 19, 0644), NULL, TD_EUNSUPPORTED, "a text file; --build takes a library");
    refused(put("text.so", "#include <stdio.h>\n", 19, 0644), "lib", TD_EUNSUPPORTED, "a text file");
    refused(put("empty.so", "", 0, 0644), NULL, TD_EUNSUPPORTED, "an empty file");
    refused(put("server", "#!/bin/sh\n", 10, 0755), NULL, TD_EUNSUPPORTED, "a script, not a library");
    refused(put("data.so", "\1\2\3", 3, 0644), NULL, TD_EUNSUPPORTED, "neither a library nor GPU code");
    refused(put("libx.a", "!<arch>\nx", 9, 0644), NULL, TD_EUNSUPPORTED, "a static library");
    refused(put("a.whl", "PK\3\4x", 5, 0644), NULL, TD_EUNSUPPORTED, "a zip archive");
    refused(put("short.so", "\177ELF", 4, 0644), NULL, TD_EUNSUPPORTED, "neither a library");
    refused(put("p", bytes, elf(bytes, ET_EXEC, this_machine(), TDK, sizeof TDK), 0755), NULL, TD_EUNSUPPORTED, "a program, not a library");
    refused("/bin/sh", NULL, TD_EUNSUPPORTED, "a program, not a library"); /* linked as PIE */
    refused("/bin/sh", "lib", TD_EUNSUPPORTED, "a program, not a library");
    refused(put("o.o", bytes, elf(bytes, ET_REL, this_machine(), TDK, sizeof TDK), 0644), NULL, TD_EUNSUPPORTED, "an object file");
    refused(put("far.so", bytes, elf(bytes, ET_DYN, other, TDK, sizeof TDK), 0755), NULL, TD_EUNSUPPORTED, "for another kind of machine");
    refused(put("far.so", bytes, elf(bytes, ET_DYN, other, TDK, sizeof TDK), 0755), "lib", TD_EUNSUPPORTED, "for another kind of machine");
    refused(put("notes", "words", 5, 0644), "torch", TD_EUNSUPPORTED, "cannot be executed, so it is no Python");
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
    put_library("base/libggml-base.so", "x", 1);
    expect(base, NULL, "ggml", base);
    put("one/a_helper.so", "nothing", 7, 0755);
    put_library("one/module.abi3.so", GGML, sizeof GGML);
    snprintf(arg, sizeof arg, "%s/module.abi3.so", one);
    expect(one, NULL, "ggml", arg);
    folder("venv/bin");
    put("venv/bin/python", "ELF", 3, 0755);
    snprintf(arg, sizeof arg, "%s/bin/python", venv);
    expect(venv, NULL, "torch", arg);
    expect(one, "ggml", "ggml", one); /* named: the provider finds its way */
    assert_int_equal(td_build_detect(empty, NULL, &b, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "--provider"));
}

static void test_a_folder_below_is_suggested(void **state)
{
    const char *tree = folder("tree");

    (void)state;
    folder("tree/build/bin");
    folder("tree/lib"); /* holds nothing */
    put_library("tree/build/bin/libggml-base.so", "x", 1);
    refused(tree, NULL, TD_ENOTFOUND, "tree/build/bin: give that");
    put_library("tree/lib/libtdkernels.so", TDK, sizeof TDK);
    refused(tree, NULL, TD_ENOTFOUND, "tree/lib: give that");
    refused(folder("venv/bin"), NULL, TD_ENOTFOUND, "no build in this folder"); /* no venv yet */
    put("venv/bin/activate", "x", 1, 0644);
    refused(folder("venv/bin"), NULL, TD_ENOTFOUND, "venv/bin/python: give that");
    folder("other");
    put("other/libggml-base.so", "text", 4, 0755);
    refused(folder("other"), NULL, TD_EUNSUPPORTED, "libggml-base.so: a text file");
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
        cmocka_unit_test(test_files_that_are_no_build), cmocka_unit_test(test_folders),
        cmocka_unit_test(test_a_folder_below_is_suggested),
        cmocka_unit_test(test_the_hash_of_a_folder_is_that_of_its_libraries),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
