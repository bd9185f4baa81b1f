/* test_gpu_image.c - files of nvcc, ptxas 12.8, hipcc and clang hold the kernels that cuobjdump and llvm-readelf see in them; the right one is found.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fs.h"
#include "kernels/gpucode/image.h"
#include "kernels/gpucode/image_find.h"
#include "kernels/gpucode/mangled.h"
#include "kernels/gpucode/symbol.h"

#define DATA "tests/unit/data/gpu/"
#define MAX_FILE (1 << 20)
#define HIDDEN "_ZN38_GLOBAL__N__cb7ed431_9_sample_cu_plain6hiddenILi3EEEvPKfPf"
#define GPTQ "gemm_half_q_half_gptq_4bit_kernel"

static const struct expected {
    const char *file, *arch, *symbol;
    uint32_t registers, shared, param_bytes, max_threads, block[3], cluster[3];
    int n_params;
    struct td_gpu_param params[16];
    const char *pointers;
} expected[] = {
#include "tests/unit/data/gpu/expected.h"
};
#define N (sizeof expected / sizeof *expected)

static struct td_gpu_image *open_data(const char *file)
{
    char path[256];
    struct td_error err = {0};
    struct td_gpu_image *img;

    snprintf(path, sizeof path, DATA "%s", file);
    if (td_gpu_image_open(path, &img, &err))
        fail_msg("%s", err.msg);
    return img;
}

/* The entry of an architecture; -1: none. */
static int entry_of(struct td_gpu_image *img, const char *arch)
{
    int i;

    for (i = 0; i < td_gpu_image_entries(img); i++)
        if (!strcmp(td_gpu_image_entry(img, i)->arch, arch))
            return i;
    return -1;
}

/* ---- against cuobjdump and llvm-readelf ---------------------------------------------------------------------------- */

static const struct expected *row_of(const char *file, const char *arch, const char *symbol)
{
    size_t i;

    for (i = 0; i < N; i++)
        if (!strcmp(expected[i].file, file) && !strcmp(expected[i].arch, arch) && !strcmp(expected[i].symbol, symbol))
            return &expected[i];
    fail_msg("%s: %s for %s is not expected", file, symbol, arch);
    return NULL;
}

static void compare(const struct td_gpu_kernel *k, const struct expected *e)
{
    int i;

    assert_int_equal(k->registers, e->registers);
    assert_int_equal(k->shared_bytes, e->shared);
    assert_int_equal(k->param_bytes, e->param_bytes);
    assert_int_equal(k->max_threads, e->max_threads);
    assert_memory_equal(k->block, e->block, sizeof k->block);
    assert_memory_equal(k->cluster, e->cluster, sizeof k->cluster);
    assert_int_equal(k->n_params, e->n_params);
    assert_memory_equal(k->params, e->params, (size_t)k->n_params * sizeof *k->params);
    assert_int_equal(k->pointer != NULL, e->pointers[0] != 0);
    for (i = 0; k->pointer && i < k->n_params; i++)
        assert_int_equal(k->pointer[i], e->pointers[i] == 'p');
}

/* Kernels of programs, PTX apart. */
static size_t compare_file(const char *file)
{
    struct td_gpu_image *img = open_data(file);
    const struct td_gpu_kernel_list *list;
    struct td_error err = {0};
    size_t k, n = 0;
    int i;

    for (i = 0; i < td_gpu_image_entries(img); i++) {
        const struct td_gpu_entry *e = td_gpu_image_entry(img, i);

        if (e->code == TD_GPU_CODE_PTX)
            continue;
        if (td_gpu_image_kernels(img, i, &list, &err))
            fail_msg("%s", err.msg);
        for (k = 0; k < list->n; k++, n++) {
            assert_int_equal(list->kernels[k].entry, i);
            compare(&list->kernels[k], row_of(file, e->arch, list->kernels[k].symbol));
        }
    }
    td_gpu_image_close(img);
    return n;
}

static void test_as_others_see_them(void **state)
{
    size_t i, n;

    (void)state;
    for (i = 0; i < N; i += n) {
        for (n = 1; i + n < N && !strcmp(expected[i + n].file, expected[i].file); n++)
            ;
        assert_int_equal(compare_file(expected[i].file), n);
    }
}

/* A PTX text declares what ptxas compiles: sizes as in the cubin; offsets too, where nothing is aligned beyond 16 bytes. */
static void compare_ptx(const char *file, const char *ptx, const char *cubin)
{
    struct td_gpu_image *img = open_data(file);
    const struct td_gpu_kernel_list *list;
    struct td_error err = {0};
    size_t k;
    int p, i = entry_of(img, ptx);

    assert_true(i >= 0);
    if (td_gpu_image_kernels(img, i, &list, &err))
        fail_msg("%s", err.msg);
    assert_true(list->n >= 5);
    for (k = 0; k < list->n; k++) {
        const struct td_gpu_kernel *has = &list->kernels[k];
        const struct expected *e = row_of("zstd.fatbin", cubin, has->symbol);

        assert_int_equal(has->n_params, e->n_params);
        assert_int_equal(has->max_threads, e->max_threads);
        for (p = 0; p < e->n_params; p++) {
            assert_int_equal(has->params[p].size, e->params[p].size);
            if (strcmp(has->symbol, "with_struct"))
                assert_int_equal(has->params[p].offset, e->params[p].offset);
        }
        if (strcmp(has->symbol, "with_struct"))
            assert_int_equal(has->param_bytes, e->param_bytes);
    }
    td_gpu_image_close(img);
}

static void test_ptx(void **state)
{
    (void)state;
    compare_ptx("zstd.fatbin", "compute_90", "sm_90");
    compare_ptx("lz4.fatbin", "compute_90", "sm_90");
    compare_ptx("ptx.fatbin", "compute_80", "sm_80");
}

/* ---- kinds of file ------------------------------------------------------------------------------------------------- */

static void test_kinds(void **state)
{
    static const struct { const char *file, *what, *archs, *packing; int containers; } kinds[] = {
        {"zstd.fatbin", "fat binary", "sm_80 sm_90a sm_90 compute_90", "zstd", 1}, {"lz4.fatbin", "fat binary", "sm_80 sm_90 compute_90", "LZ4", 1},
        {"ptx.fatbin", "fat binary", "compute_80", "zstd", 1}, {"more.fatbin", "fat binary", "sm_90 sm_100f", "zstd", 1},
        {"lib.so", "host library", "sm_90 compute_90 sm_90 compute_90", "zstd", 2}, {"raw.cubin", "cubin", "sm_90a", "raw", 1},
        {"old.cubin", "cubin", "sm_90a", "raw", 1}, {"bundle.hsaco", "bundle of AMD code", "gfx906 gfx90a:xnack-", "raw", 1},
        {"libhip.so", "host library", "gfx906", "raw", 1}, {"object.hsaco", "AMD code object", "gfx908", "raw", 1}};
    size_t i;
    int e;

    (void)state;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct td_gpu_image *img = open_data(kinds[i].file);
        struct td_buf archs;

        td_buf_init(&archs, 1000);
        for (e = 0; e < td_gpu_image_entries(img); e++) {
            td_buf_addf(&archs, "%s%s", e ? " " : "", td_gpu_image_entry(img, e)->arch);
            assert_string_equal(td_gpu_image_entry(img, e)->packing, kinds[i].packing);
        }
        assert_string_equal(td_gpu_image_what(img), kinds[i].what);
        assert_string_equal(td_buf_str(&archs), kinds[i].archs);
        assert_int_equal(td_gpu_image_containers(img), kinds[i].containers);
        td_buf_release(&archs);
        td_gpu_image_close(img);
    }
}

/* One source, compiled once, packed by two programs: the unpacked cubins are the same bytes, and hold what the source declares. */
static void test_unpacked(void **state)
{
    struct td_gpu_image *a = open_data("zstd.fatbin"), *b = open_data("lz4.fatbin");
    const struct td_gpu_kernel_list *list;
    const struct td_gpu_entry *e;
    struct td_error err = {0};
    const void *x, *y;
    size_t n, m;

    (void)state;
    assert_int_equal(td_gpu_image_code(a, entry_of(a, "sm_80"), &x, &n, &err), 0);
    assert_int_equal(td_gpu_image_code(b, entry_of(b, "sm_80"), &y, &m, &err), 0);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    assert_memory_equal(x, "\177ELF", 4);
    assert_int_equal(td_gpu_image_code(a, entry_of(a, "compute_90"), &x, &n, &err), 0);
    assert_non_null(memmem(x, n, ".target sm_90", 13));
    e = td_gpu_image_entry(a, entry_of(a, "sm_80"));
    assert_int_equal(td_gpu_image_kernels(a, entry_of(a, "sm_80"), &list, &err), 0);
    assert_int_equal(e->global_bytes, 4);    /* __device__ int counter */
    assert_int_equal(e->constant_bytes, 16); /* __constant__ float table[4] */
    td_gpu_image_close(a);
    td_gpu_image_close(b);
}

/* ---- finding ------------------------------------------------------------------------------------------------------- */

static struct td_gpu_image *searched; /* what the last find() looked into */

static void done(void)
{
    td_gpu_image_close(searched);
    searched = NULL;
}

static int find(const char *file, const char *symbol, const char *identifier, struct td_gpu_device device, struct td_gpu_hit *hit, struct td_error *err)
{
    struct td_gpu_wanted want = {symbol, identifier, device};

    done();
    searched = open_data(file);
    td_error_clear(err);
    return td_gpu_image_find(searched, &want, hit, 4, err);
}

static void test_find_arch(void **state)
{
    static const struct { int sm; const char *arch; bool ptx_only; } cases[] = {
        {80, "sm_80", false}, {86, "sm_80", false}, {89, "sm_80", false}, {90, "sm_90a", false}, {100, "compute_90", true}, {120, "compute_90", true}};
    struct td_gpu_hit hit[4];
    struct td_error err = {0};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(find("zstd.fatbin", "plain", NULL, (struct td_gpu_device){cases[i].sm, NULL}, hit, &err), 1);
        assert_string_equal(hit->entry->arch, cases[i].arch);
        assert_int_equal(hit->ptx_only, cases[i].ptx_only);
        assert_int_equal(hit->match, TD_GPU_MATCH_EXACT);
        assert_int_equal(hit->kernel->n_params, 7);
        assert_memory_equal(hit->load, "\x50\xed\x55\xba", 4); /* the whole container: the driver chooses */
    }
    assert_int_equal(find("more.fatbin", "sized", NULL, (struct td_gpu_device){103, NULL}, hit, &err), 1); /* sm_100f: of its family, later */
    assert_string_equal(hit->entry->arch, "sm_100f");
    assert_int_equal(find("raw.cubin", "plain", NULL, (struct td_gpu_device){90, NULL}, hit, &err), 1);
    assert_memory_equal(hit->load, "\177ELF", 4);
    done();
}

static void test_fits(void **state)
{
    static const struct { enum td_gpu_code code; int sm; char variant; int device; bool runs; } cases[] = {
        {TD_GPU_CODE_CUBIN, 80, 0, 89, true}, {TD_GPU_CODE_CUBIN, 89, 0, 80, false}, {TD_GPU_CODE_CUBIN, 80, 0, 90, false}, {TD_GPU_CODE_CUBIN, 100, 'a', 103, false},
        {TD_GPU_CODE_CUBIN, 100, 'f', 103, true}, {TD_GPU_CODE_CUBIN, 100, 'f', 120, false}, {TD_GPU_CODE_CUBIN, 100, 0, 103, true}, {TD_GPU_CODE_PTX, 90, 0, 120, true},
        {TD_GPU_CODE_PTX, 90, 'a', 100, false}, {TD_GPU_CODE_PTX, 90, 'a', 90, true}, {TD_GPU_CODE_PTX, 100, 'f', 120, false}, {TD_GPU_CODE_PTX, 120, 0, 90, false},
        {TD_GPU_CODE_OTHER, 90, 0, 90, false}, {TD_GPU_CODE_HSACO, 0, 0, 90, false}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_gpu_entry e = {.code = cases[i].code, .sm = cases[i].sm, .variant = cases[i].variant};
        struct td_gpu_device device = {cases[i].device, NULL};

        if ((td_gpu_entry_fits(&e, &device) > 0) != cases[i].runs)
            fail_msg("case %zu", i);
        e.relocatable = true;
        assert_int_equal(td_gpu_entry_fits(&e, &device), 0);
    }
}

static void refused(const char *file, const char *symbol, struct td_gpu_device device, const char *sentence)
{
    struct td_gpu_hit hit[4];
    struct td_error err = {0};

    assert_int_equal(find(file, symbol, NULL, device, hit, &err), strstr(sentence, "runs on") ? TD_EUNSUPPORTED : TD_ENOTFOUND);
    if (!strstr(err.msg, sentence))
        fail_msg("\"%s\" does not hold \"%s\"", err.msg, sentence);
    done();
}

static void test_find_none(void **state)
{
    (void)state;
    refused("zstd.fatbin", "plain", (struct td_gpu_device){75, NULL}, "has kernel plain for sm_80, sm_90a, sm_90, compute_90, none of which runs on sm_75");
    refused("raw.cubin", "plain", (struct td_gpu_device){100, NULL}, "for sm_90a, none of which runs on sm_100"); /* 'a': that very one */
    refused("more.fatbin", "sized", (struct td_gpu_device){120, NULL}, "for sm_90, sm_100f, none of which runs on sm_120");
    refused("zstd.fatbin", "plainer", (struct td_gpu_device){90, NULL}, "no kernel plainer in its 4 programs");
    refused("rdc.fatbin", "sized", (struct td_gpu_device){90, NULL}, "sized for sm_90, none of which runs on sm_90"); /* not linked */
    refused("bundle.hsaco", "plain", (struct td_gpu_device){0, "gfx90a:sramecc+:xnack+"}, "for gfx906, gfx90a:xnack-, none of which runs on gfx90a:sramecc+:xnack+");
    refused("bundle.hsaco", "plain", (struct td_gpu_device){90, NULL}, "none of which runs on sm_90");
    refused("zstd.fatbin", "plain", (struct td_gpu_device){0, "gfx906"}, "none of which runs on gfx906");
}

static void test_find_name(void **state)
{
    struct td_gpu_device h100 = {90, NULL};
    struct td_gpu_hit hit[4];
    struct td_error err = {0};

    (void)state;
    assert_int_equal(find("zstd.fatbin", HIDDEN, NULL, h100, hit, &err), 1);
    assert_int_equal(hit->match, TD_GPU_MATCH_EXACT);
    /* the same kernel out of another folder, another file, and as clang spells it */
    assert_int_equal(find("zstd.fatbin", "_ZN39_GLOBAL__N__9254f6a6_7_anon_cu_f30b8e296hiddenILi3EEEvPKfPf", NULL, h100, hit, &err), 1);
    assert_int_equal(hit->match, TD_GPU_MATCH_NORMAL);
    assert_string_equal(hit->kernel->symbol, HIDDEN);
    assert_int_equal(find("zstd.fatbin", "_ZN12_GLOBAL__N_16hiddenILi3EEEvPKfPf", NULL, h100, hit, &err), 1);
    assert_int_equal(find("zstd.fatbin", "_ZN12_GLOBAL__N_16hiddenILi4EEEvPKfPf", NULL, h100, hit, &err), TD_ENOTFOUND);
    /* another version of the kernel: by its name in the source; all that there are, for the caller to choose */
    assert_int_equal(find("zstd.fatbin", "_ZN4vllm4gptq33" GPTQ "ILb1ELi8EEEvPiiiii", GPTQ, h100, hit, &err), 2);
    assert_int_equal(hit->match, TD_GPU_MATCH_FAMILY);
    assert_int_equal(hit[1].kernel->n_params, 11);
    assert_int_equal(td_gpu_symbol_argument(hit[0].kernel->symbol, 1) + td_gpu_symbol_argument(hit[1].kernel->symbol, 1), 5);
    assert_int_equal(find("lib.so", "large_param", NULL, h100, hit, &err), 1); /* of the second container, which alone is loaded */
    assert_int_equal(hit->entry->container, 1);
    assert_int_equal(find("bundle.hsaco", "_ZN33_GLOBAL__N__dd8ee5d2_4_k_cu_plain6hiddenILi3EEEvPfc", NULL, (struct td_gpu_device){0, "gfx90a:sramecc+:xnack-"}, hit, &err), 1);
    assert_int_equal(hit->match, TD_GPU_MATCH_NORMAL);
    assert_memory_equal(hit->load, "\177ELF", 4);
    done();
}

static void test_normal(void **state)
{
    static const char *const names[][2] = {
        {"_ZN39_GLOBAL__N__9254f6a6_7_anon_cu_f30b8e291kILi3EEEvPf", "_ZN12_GLOBAL__N_11kILi3EEEvPf"},
        {"_ZN4foo139_GLOBAL__N__9254f6a6_7_anon_cu_f30b8e291kILi3EEEvPf", "_ZN4foo112_GLOBAL__N_11kILi3EEEvPf"}, /* a name that ends in a digit before it */
        {"__nv_static_24__6e5f405b_6_big_cu_large__Z2stPf", "_Z2stPf"}, {"__nv_static_28__89bc9e96_7_more_cu_4d99ca58__Z12local_kernelPf", "_Z12local_kernelPf"},
        {"__nv_static_32__b4148644_10_onerank_cu_fdf47990__ZN43_GLOBAL__N__b4148644_10_onerank_cu_fdf4799013oneRankReduceI13FuncPreMulSumIdEEEvPvS3_mmb",
         "_ZN12_GLOBAL__N_113oneRankReduceI13FuncPreMulSumIdEEEvPvS3_mmb"}, /* of libnccl 2.27 */
        {"_Z1kILi128EEvPf", "_Z1kILi128EEvPf"},
        {"_Z1kILi5EEvN39_GLOBAL__N__9254f6a6_7_anon_cu_f30b8e291sE", "_Z1kILi5EEvN12_GLOBAL__N_11sE"}, /* 5 is no length */ {"plain", "plain"}, {"", ""}, {"__nv_static_99999_x", "__nv_static_99999_x"},
        {"_Z99_GLOBAL__N_", "_Z99_GLOBAL__N_"}, {"39_GLOBAL__N__9254f6a6_7_anon_cu_f30b8e29", "39_GLOBAL__N__9254f6a6_7_anon_cu_f30b8e29"}};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        struct td_buf b;

        td_buf_init(&b, 4096);
        assert_int_equal(td_gpu_symbol_normal(names[i][0], &b), 0);
        assert_string_equal(td_buf_str(&b), names[i][1]);
        assert_true(td_gpu_symbol_same(names[i][0], names[i][1]));
        td_buf_release(&b);
    }
    assert_false(td_gpu_symbol_same("_ZN12_GLOBAL__N_11kEv", "_ZN12_GLOBAL__N_11jEv"));
}

/* On the heap to the byte, so that a sanitizer sees a read past a name's end. */
static bool symbol_is(const char *symbol, const char *identifier)
{
    char *copy = strdup(symbol);
    bool is = td_gpu_symbol_is(copy, identifier);

    free(copy);
    return is;
}

static void test_identifier(void **state)
{
    (void)state;
    assert_true(symbol_is("_ZN4vllm4gptq33" GPTQ "ILb1ELi1EEEvPK6__half", GPTQ));
    assert_true(symbol_is("_ZN4vllm5gptq233" GPTQ "ILb1ELi1EEEvPK6__half", GPTQ)); /* behind a name that ends in a digit */
    assert_false(symbol_is("_ZN4vllm4gptq34" GPTQ "2ILb1ELi1EEEvPK6__half", GPTQ));
    assert_false(symbol_is("triton_poi_fused_" GPTQ, GPTQ));
    assert_false(symbol_is("_Z0", "plain"));
    assert_false(symbol_is("_Z1k0", "plain"));
    assert_false(symbol_is("_Z99999999999999999999", "plain"));
}

/* ---- what is refused ----------------------------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    static const struct { const char *bytes; size_t n; int code; const char *sentence; } cases[] = {
        {"hello", 5, TD_EINVAL, "no GPU code; give a shared library"}, {"PK\3\4....", 8, TD_EINVAL, "Python wheel; unpack it"},
        {"!<arch>\n", 8, TD_EINVAL, "archive of objects"}, {"// x\n.version 9.0\n.target sm_90\n", 32, TD_EINVAL, "PTX text; make a fat binary"},
        {"\177ELF\1\1\1", 7, TD_ETRUNCATED, "an ELF file of 7 bytes"}, {"CCOB\2\0\1\0", 8, TD_EUNSUPPORTED, "compressed bundles"},
        {"\x50\xed\x55\xba\2\0\x10\0\0\0\0\0\0\0\0\0", 16, TD_EVERSION, "fat binary of version 2"},
        {"\x50\xed\x55\xba\1\0\x10\0\1\0\0\0\0\0\0\0", 16, TD_ETRUNCATED, "claims 1 bytes, 0 are there"}, {"", 0, TD_EINVAL, "no GPU code"}};
    struct td_gpu_image *img;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_error err = {0};

        assert_int_equal(td_gpu_image_memory(cases[i].bytes, cases[i].n, "file", &img, &err), cases[i].code);
        assert_null(img);
        if (strncmp(err.msg, "file: ", 6) || !strstr(err.msg, cases[i].sentence))
            fail_msg("\"%s\" does not hold \"%s\"", err.msg, cases[i].sentence);
    }
}

static void test_refused_paths(void **state)
{
    static const struct { const char *path; int code; const char *sentence; } cases[] = {
        {"/nonexistent/x.so", TD_ENOTFOUND, "cannot open"}, {"/", TD_EINVAL, "a folder; name the library"}, {"/dev/null", TD_EINVAL, "not a regular file"},
        {"/proc/self/exe", TD_EINVAL, "without GPU code (no section .nv_fatbin"}};
    struct td_gpu_image *img;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_error err = {0};

        assert_int_equal(td_gpu_image_open(cases[i].path, &img, &err), cases[i].code);
        if (!strstr(err.msg, cases[i].sentence))
            fail_msg("\"%s\" does not hold \"%s\"", err.msg, cases[i].sentence);
    }
}

static uint8_t *load(const char *file, size_t *n)
{
    char path[256];
    struct td_error err = {0};
    struct td_buf b;

    td_buf_init(&b, MAX_FILE);
    snprintf(path, sizeof path, DATA "%s", file);
    if (td_fs_read(path, MAX_FILE, &b, &err))
        fail_msg("%s", err.msg);
    return (uint8_t *)td_buf_detach(&b, n);
}

/* All entries of an image; how many could not be read. */
static int read_all(struct td_gpu_image *img)
{
    int i, bad = 0;

    for (i = 0; i < td_gpu_image_entries(img); i++) {
        const struct td_gpu_kernel_list *list;
        struct td_error err = {0};
        int rc = td_gpu_image_kernels(img, i, &list, &err);

        assert_true(!rc == !err.msg[0]);
        bad += rc != 0;
    }
    return bad;
}

/* A cut file is refused with a sentence, or what is left of it can be read. */
static void test_cut(void **state)
{
    static const char *const files[] = {"zstd.fatbin", "raw.cubin", "lib.so", "bundle.hsaco", "object.hsaco"};
    size_t i, cut, n;

    (void)state;
    for (i = 0; i < sizeof files / sizeof *files; i++) {
        uint8_t *all = load(files[i], &n);

        for (cut = 1; cut < n; cut += n > 4000 ? 61 : 7) {
            uint8_t *some = malloc(cut);
            struct td_gpu_image *img;
            struct td_error err = {0};

            assert_non_null(some);
            memcpy(some, all, cut);
            if (td_gpu_image_memory(some, cut, "cut", &img, &err))
                assert_true(err.code && err.msg[0]);
            else
                read_all(img);
            td_gpu_image_close(img);
            free(some);
        }
        free(all);
    }
}

/* One damaged program leaves the others of its container readable, and is named. */
static void test_damaged(void **state)
{
    size_t n;
    uint8_t *all = load("zstd.fatbin", &n);
    const struct td_gpu_kernel_list *list;
    struct td_gpu_hit hit;
    struct td_gpu_image *img;
    struct td_error err = {0};

    (void)state;
    all[16 + 64 + 4] ^= 0xff; /* in the frame header of the first entry's payload */
    assert_int_equal(td_gpu_image_memory(all, n, "damaged", &img, &err), 0);
    assert_int_equal(td_gpu_image_kernels(img, 0, &list, &err), TD_ECORRUPT);
    assert_string_equal(err.msg, "damaged: container 0, sm_80: an entry for sm_80 does not unpack (zstd); was the file copied whole?");
    assert_int_equal(list->n, 0);
    assert_int_equal(read_all(img), 1);
    td_error_clear(&err);
    assert_int_equal(td_gpu_image_find(img, &(struct td_gpu_wanted){"plain", NULL, {90, NULL}}, &hit, 1, &err), 1);
    assert_int_equal(td_gpu_image_find(img, &(struct td_gpu_wanted){"nothing", NULL, {80, NULL}}, &hit, 1, &err), TD_ECORRUPT);
    td_gpu_image_close(img);
    free(all);
}

/* The containers that a recorded kernel comes from, for whatever device; none where it cannot be read. */
static void test_holding(void **state)
{
    size_t n_ptx, n_code, n;
    uint8_t *ptx = load("../gptq_ptx.fatbin", &n_ptx), *code = load("../gptq_like.fatbin", &n_code), *all = malloc(n_ptx + n_code);
    struct td_gpu_image *img;

    (void)state;
    assert_non_null(all);
    memcpy(all, ptx, n_ptx);
    memcpy(all + n_ptx, code, n_code);
    assert_int_equal(td_gpu_image_memory(all, n_ptx + n_code, "both", &img, NULL), 0);
    assert_int_equal(td_gpu_image_containers(img), 2);
    assert_int_equal(td_gpu_image_holding(img, "td_gptq_gemm_8bit_f32", 0), 0);
    assert_int_equal(td_gpu_image_holding(img, "td_gptq_gemm_8bit_f32", 1), 1);
    assert_int_equal(td_gpu_image_holding(img, "td_gptq_gemm_8bit_f32", 2), -1);
    assert_int_equal(td_gpu_image_holding(img, "_ZN4vllm4gptq31reconstruct_exllama_8bit_kernelEPKjPKiS2_PK6__halfiiibPS5_", 0), 1);
    assert_int_equal(td_gpu_image_holding(img, "td_gptq_gemm_8bit", 0), -1);
    assert_ptr_equal(td_gpu_image_container(img, 1, &n), all + n_ptx);
    assert_int_equal(n, n_code);
    td_gpu_image_close(img);
    free(ptx);
    ptx = load("zstd.fatbin", &n_ptx);
    assert_int_equal(td_gpu_image_memory(ptx, n_ptx, "whole", &img, NULL), 0);
    assert_int_equal(td_gpu_image_holding(img, "plain", 0), 0);
    n = (size_t)td_gpu_image_entries(img);
    for (size_t i = 0; i < n; i++) { /* nothing of any entry unpacks */
        const uint8_t *at = memmem(ptx + 16, n_ptx - 16, "\x28\xb5\x2f\xfd", 4);

        assert_non_null(at);
        ptx[at - ptx] ^= 0xff;
    }
    td_gpu_image_close(img);
    assert_int_equal(td_gpu_image_memory(ptx, n_ptx, "damaged", &img, NULL), 0);
    assert_int_equal(td_gpu_image_holding(img, "plain", 0), -1);
    td_gpu_image_close(img);
    free(ptx);
    ptx = load("../gptq_like.hsaco", &n_ptx); /* AMD's is not NVIDIA's */
    assert_int_equal(td_gpu_image_memory(ptx, n_ptx, "AMD", &img, NULL), 0);
    assert_int_equal(read_all(img), 0);
    assert_int_equal(td_gpu_image_holding(img, "td_gptq_gemm_8bit_f32", 0), -1);
    td_gpu_image_close(img);
    free(all);
    free(ptx);
    free(code);
}

/* ---- extended numbering (more than 65,279 sections) ------------------------------------------------------------------ */

static void put(uint8_t *p, int n, uint64_t v)
{
    for (; n--; v >>= 8)
        *p++ = (uint8_t)v;
}

static uint64_t get(const uint8_t *p, int n)
{
    uint64_t v = 0;

    while (n--)
        v = v << 8 | p[n];
    return v;
}

/* The same cubin, its counts and indices where the gABI puts those that do not fit 16 bits: in section 0, and in a table beside the symbols. */
static uint8_t *extended(const uint8_t *cubin, size_t n, size_t *len)
{
    uint64_t at = get(cubin + 40, 8), count = get(cubin + 60, 2), symbols = 0, size = 0, i;
    uint8_t *out = calloc(1, n + 4096 + (size_t)(count + 1) * 64), *table = out + n, *head;

    assert_non_null(out);
    memcpy(out, cubin, n);
    for (i = 0; i < count; i++)
        if (get(cubin + at + i * 64 + 4, 4) == 2) {
            symbols = get(cubin + at + i * 64 + 24, 8);
            size = get(cubin + at + i * 64 + 32, 8) / 24;
        }
    for (i = 0; i < size; i++) {
        put(table + i * 4, 4, get(cubin + symbols + i * 24 + 6, 2));
        put(out + symbols + i * 24 + 6, 2, 0xffff);
    }
    head = out + n + 4096;
    memcpy(head, cubin + at, (size_t)count * 64);
    put(head + 32, 8, count + 1);
    put(head + 40, 4, get(cubin + 62, 2));
    put(head + count * 64 + 4, 4, 18); /* SHT_SYMTAB_SHNDX */
    put(head + count * 64 + 24, 8, n);
    put(head + count * 64 + 32, 8, size * 4);
    put(out + 40, 8, n + 4096);
    put(out + 60, 2, 0);
    put(out + 62, 2, 0xffff);
    *len = n + 4096 + (size_t)(count + 1) * 64;
    return out;
}

static void test_extended(void **state)
{
    size_t n, m, k;
    uint8_t *cubin = load("raw.cubin", &n), *big = extended(cubin, n, &m);
    const struct td_gpu_kernel_list *list = NULL;
    struct td_gpu_image *img;
    struct td_error err = {0};

    (void)state;
    if (td_gpu_image_memory(big, m, "big", &img, &err) || td_gpu_image_kernels(img, 0, &list, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(list->n, 5);
    for (k = 0; k < list->n; k++)
        compare(&list->kernels[k], row_of("raw.cubin", "sm_90a", list->kernels[k].symbol));
    td_gpu_image_close(img);
    free(cubin);
    free(big);
}

/* ---- made now ------------------------------------------------------------------------------------------------------ */

static bool run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static bool run(const char *fmt, ...)
{
    char command[4096];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    return system(command) == 0;
}

static void same_params(struct td_gpu_image *img)
{
    const struct td_gpu_kernel_list *list;
    struct td_error err = {0};
    size_t i, k, n = 0;

    assert_int_equal(td_gpu_image_kernels(img, entry_of(img, "sm_90"), &list, &err), 0);
    for (i = 0; i < N; i++)
        for (k = 0; k < list->n; k++)
            if (!strcmp(expected[i].file, "zstd.fatbin") && !strcmp(expected[i].arch, "sm_90") && td_gpu_symbol_same(expected[i].symbol, list->kernels[k].symbol)) {
                n++;
                assert_int_equal(list->kernels[k].n_params, expected[i].n_params);
                assert_memory_equal(list->kernels[k].params, expected[i].params, (size_t)expected[i].n_params * sizeof *expected[i].params);
            }
    assert_int_equal(n, list->n);
}

/* By the nvcc of this machine: kernels as in the golden files, and a library's container is what -fatbin writes. */
static void test_nvcc(void **state)
{
    static const char how[] = "cd " DATA " && nvcc -std=c++17 -gencode arch=compute_90,code=sm_90 sample.cu";
    char dir[] = "/tmp/td-gpu-XXXXXX", path[64];
    struct td_gpu_image *lib, *fatbin;
    struct td_error err = {0};
    const void *x, *y;
    size_t n, m;

    (void)state;
    if (!run("command -v nvcc >/dev/null 2>&1")) {
        print_message("no nvcc on this machine\n");
        skip();
    }
    assert_non_null(mkdtemp(dir));
    assert_true(run("%s -fatbin -o %s/x.fatbin", how, dir));
    assert_true(run("%s -shared -cudart none -Xcompiler -fPIC -o %s/x.so", how, dir));
    snprintf(path, sizeof path, "%s/x.so", dir);
    assert_int_equal(td_gpu_image_open(path, &lib, &err), 0);
    snprintf(path, sizeof path, "%s/x.fatbin", dir);
    assert_int_equal(td_gpu_image_open(path, &fatbin, &err), 0);
    same_params(lib);
    same_params(fatbin);
    x = td_gpu_image_container(lib, 0, &n);
    y = td_gpu_image_container(fatbin, 0, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    td_gpu_image_close(lib);
    td_gpu_image_close(fatbin);
    td_fs_remove_tree(dir, NULL);
}

/* readelf -d libhip.so: NEEDED libgcc_s.so.1, libm.so.6, libamdhip64.so.5 */
static void test_needed(void **state)
{
    struct td_gpu_image *lib = open_data("libhip.so"), *fatbin = open_data("zstd.fatbin");

    (void)state;
    assert_string_equal(td_gpu_image_needed(lib, "libamdhip64.so"), "libamdhip64.so.5");
    assert_null(td_gpu_image_needed(lib, "libcudart.so"));
    assert_null(td_gpu_image_needed(fatbin, "lib"));
    td_gpu_image_close(lib);
    td_gpu_image_close(fatbin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_others_see_them), cmocka_unit_test(test_ptx), cmocka_unit_test(test_kinds), cmocka_unit_test(test_unpacked),
        cmocka_unit_test(test_find_arch), cmocka_unit_test(test_fits), cmocka_unit_test(test_extended),
        cmocka_unit_test(test_find_none), cmocka_unit_test(test_find_name), cmocka_unit_test(test_normal), cmocka_unit_test(test_identifier),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_refused_paths), cmocka_unit_test(test_cut), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_nvcc), cmocka_unit_test(test_needed), cmocka_unit_test(test_holding)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
