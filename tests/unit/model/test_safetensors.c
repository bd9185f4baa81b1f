/* test_safetensors.c - files that hold and files that lie; every cut of a good file is refused with a sentence.
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

#include "model/safetensors.h"

static char folder[] = "/tmp/td-safetensors-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[8][256];
    static int i;

    i = (i + 1) % 8;
    snprintf(path[i], sizeof path[i], "%s/%s", folder, name);
    return path[i];
}

static void write_bytes(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* header + data_bytes bytes 0, 1, 2 ...; returns the size of the file */
static size_t write_st(const char *path, const char *header, size_t data_bytes)
{
    const size_t len = strlen(header);
    unsigned char *file = malloc(8 + len + data_bytes);

    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)((uint64_t)len >> (8 * i));
    memcpy(file + 8, header, len);
    for (size_t i = 0; i < data_bytes; i++)
        file[8 + len + i] = (unsigned char)i;
    write_bytes(path, file, 8 + len + data_bytes);
    free(file);
    return 8 + len + data_bytes;
}

#define GOOD "{\"__metadata__\":{\"format\":\"pt\"}," \
             "\"b\":{\"dtype\":\"I32\",\"shape\":[2,3],\"data_offsets\":[8,32]}," \
             "\"a\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]}," \
             "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[32,32]}," \
             "\"scalar\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[32,33]}," \
             "\"later\":{\"dtype\":\"F8_E8M0\",\"shape\":[3],\"data_offsets\":[33,36]}}"

static void test_good_file(void **state)
{
    struct td_error err = {0};
    struct td_safetensors *st;
    const struct td_st_tensor *t;

    (void)state;
    write_st(in_folder("good.safetensors"), GOOD, 36);
    assert_int_equal(td_safetensors_open(in_folder("good.safetensors"), &st, &err), 0);
    assert_int_equal(td_safetensors_count(st), 5);
    assert_string_equal(td_safetensors_at(st, 0)->name, "a");
    assert_string_equal(td_safetensors_at(st, 4)->name, "scalar");
    assert_null(td_safetensors_find(st, "nothing"));
    assert_non_null(t = td_safetensors_find(st, "b"));
    assert_int_equal(t->dtype, TD_DT_I32);
    assert_int_equal(t->ndim, 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->size_bytes, 24);
    assert_int_equal(*(const unsigned char *)t->data, 8);
    assert_string_equal(t->path, in_folder("good.safetensors"));
    assert_null(td_safetensors_find(st, "empty")->data);
    assert_int_equal(td_safetensors_find(st, "scalar")->ndim, 0);
    assert_int_equal(td_safetensors_find(st, "later")->dtype, TD_DT_NONE);
    assert_string_equal(td_safetensors_find(st, "later")->dtype_name, "F8_E8M0");

    assert_int_equal(td_safetensors_require(st, "b", TD_DT_I32, 2, 3, &t, &err), 0);
    assert_int_equal(td_safetensors_require(st, "a", TD_DT_F16, 4, -1, &t, &err), 0);
    assert_int_equal(td_safetensors_require(st, "x", TD_DT_I32, 2, 3, &t, &err), TD_ENOTFOUND);
    td_error_clear(&err);
    assert_int_equal(td_safetensors_require(st, "b", TD_DT_F16, 3, 2, &t, &err), TD_EINVAL);
    assert_string_equal(err.msg, "tensor \"b\": expected F16 [3, 2], found I32 [2, 3]");
    td_safetensors_close(st);
}

static void test_every_cut_is_truncated(void **state)
{
    unsigned char file[1024];
    const size_t size = write_st(in_folder("cut.safetensors"), GOOD, 36);
    FILE *f = fopen(in_folder("cut.safetensors"), "rb");

    (void)state;
    assert_int_equal(fread(file, 1, sizeof file, f), size);
    fclose(f);
    for (size_t cut = 0; cut < size; cut++) {
        struct td_error err = {0};
        struct td_safetensors *st;
        char missing[40];

        write_bytes(in_folder("cut.safetensors"), file, cut);
        assert_int_equal(td_safetensors_open(in_folder("cut.safetensors"), &st, &err), TD_ETRUNCATED);
        assert_int_equal(td_safetensors_memory(file, cut, "cut", &st, NULL), TD_ETRUNCATED);
        assert_null(st);
        snprintf(missing, sizeof missing, " %zu bytes are missing", cut >= size - 36 ? size - cut : size - 36 - cut);
        if (cut >= 8 && !strstr(err.msg, missing))
            fail_msg("cut at %zu: \"%s\" does not say%s", cut, err.msg, missing);
    }
}

static const struct { const char *header; size_t data; int code; const char *says; } lies[] = {
    {"{}", 1, TD_ECORRUPT, "1 bytes after the last tensor"},
    {"[]", 0, TD_ECORRUPT, "not a JSON object"},
    {"{\"a\":", 0, TD_ECORRUPT, "not a JSON object"},
    {"{\"a\":3}", 0, TD_ECORRUPT, "no dtype"},
    {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, TD_ECORRUPT, "no shape"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1, TD_ECORRUPT, "no whole number"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.5],\"data_offsets\":[0,1]}}", 1, TD_ECORRUPT, "no whole number"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1e300],\"data_offsets\":[0,1]}}", 1, TD_ECORRUPT, "no whole number"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, TD_ELIMIT, "9 dimensions"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, TD_ECORRUPT, "data_offsets"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1, TD_ECORRUPT, "data_offsets"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2, TD_ECORRUPT, "need 1 bytes, data_offsets give 2"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4503599627370496,4503599627370496],\"data_offsets\":[0,8]}}", 8, TD_ECORRUPT, "overflows"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3, TD_ECORRUPT, "\"b\" overlaps the one before it by 1"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]}}", 4, TD_ECORRUPT, "gap of 1 bytes before tensor \"b\""},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2, TD_ECORRUPT, "two tensors are named \"a\""},
    {"{\"a\":{\"dtype\":\"ABCDEFGHIJKLMNOPQ\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, TD_ECORRUPT, "too long"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 9, TD_ECORRUPT, "8 bytes after the last tensor"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[9007199254740983,9007199254740992]}}", 1, TD_ETRUNCATED, "bytes are missing"},
};

static void test_lies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct td_error err = {0};
        struct td_safetensors *st;

        write_st(in_folder("lie.safetensors"), lies[i].header, lies[i].data);
        assert_int_equal(td_safetensors_open(in_folder("lie.safetensors"), &st, &err), lies[i].code);
        assert_null(st);
        if (!strstr(err.msg, lies[i].says) || !strstr(err.msg, "lie.safetensors"))
            fail_msg("%s: \"%s\" does not say \"%s\"", lies[i].header, err.msg, lies[i].says);
        assert_int_equal(td_safetensors_open(in_folder("lie.safetensors"), &st, NULL), lies[i].code);
    }
}

static void test_header_length_has_a_maximum(void **state)
{
    static const unsigned char huge[16] = {1, 0, 0x40, 6}; /* 100 MiB + 1 */
    struct td_error err = {0};
    struct td_safetensors *st;

    (void)state;
    write_bytes(in_folder("huge.safetensors"), huge, sizeof huge);
    assert_int_equal(td_safetensors_open(in_folder("huge.safetensors"), &st, &err), TD_ELIMIT);
}

static void test_folders(void **state)
{
    static const char index[] = "{\"metadata\":{},\"weight_map\":{\"a\":\"m1.safetensors\",\"b\":\"m2.safetensors\",\"c\":\"m2.safetensors\"}}";
    static const char escape[] = "{\"weight_map\":{\"a\":\"../m1.safetensors\"}}";
    struct td_error err = {0};
    struct td_safetensors *st;

    (void)state;
    assert_int_equal(td_safetensors_open(folder, &st, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "neither model.safetensors nor"));
    td_error_clear(&err);
    assert_int_equal(td_safetensors_open(in_folder("absent"), &st, &err), TD_ENOTFOUND);
    td_error_clear(&err);

    write_st(in_folder("model.safetensors"), GOOD, 36);
    assert_int_equal(td_safetensors_open(folder, &st, &err), 0);
    assert_int_equal(td_safetensors_count(st), 5);
    td_safetensors_close(st);

    write_st(in_folder("m1.safetensors"), "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    write_st(in_folder("m2.safetensors"), "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                          "\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2);
    write_bytes(in_folder("model.safetensors.index.json"), index, sizeof index - 1);
    assert_int_equal(td_safetensors_open(folder, &st, &err), 0);
    assert_int_equal(td_safetensors_count(st), 3);
    assert_int_equal(*(const unsigned char *)td_safetensors_find(st, "c")->data, 1);
    td_safetensors_close(st);

    unlink(in_folder("m2.safetensors"));
    assert_int_equal(td_safetensors_open(folder, &st, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "m2.safetensors"));
    td_error_clear(&err);
    write_bytes(in_folder("model.safetensors.index.json"), escape, sizeof escape - 1);
    assert_int_equal(td_safetensors_open(folder, &st, &err), TD_ECORRUPT);
    assert_non_null(strstr(err.msg, "not a file name"));
    td_safetensors_close(NULL);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char cmd[300];

    (void)state;
    snprintf(cmd, sizeof cmd, "rm -r '%s'", folder);
    return system(cmd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_file),
        cmocka_unit_test(test_every_cut_is_truncated),
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_header_length_has_a_maximum),
        cmocka_unit_test(test_folders),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
