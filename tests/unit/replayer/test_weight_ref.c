/* test_weight_ref.c - weights kept by reference come back from the checkpoint: whole, stacked either way, converted; else a sentence.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/json.h"
#include "replayer/weight_ref.h"
#include "tests/unit/tiny_checkpoint.h"

#define ATTENTION "model.layers.0.self_attn"

static char dir[] = "/tmp/td-opref-XXXXXX";
static struct td_safetensors *st;

static int setup(void **state)
{
    (void)state;
    return !mkdtemp(dir) || tiny_checkpoint_write(dir, &(struct tiny_spoil){0}) || td_safetensors_open(dir, &st, NULL);
}

static int teardown(void **state)
{
    (void)state;
    td_safetensors_close(st);
    return td_fs_remove_tree(dir, NULL);
}

static int load(const char *ref, int64_t rows, int64_t cols, void **data, size_t *size, struct td_error *err)
{
    struct td_tensor_rec t = {.role = "w", .ndim = 2, .shape = {rows, cols}, .ref = cJSON_Parse(ref)};
    int rc;

    assert_non_null(t.ref);
    memset(err, 0, sizeof *err);
    rc = td_weight_ref_load(st, "here", &t, data, size, err);
    assert_int_equal(rc, err->code);
    assert_true(!rc || (!*data && err->msg[0]));
    cJSON_Delete(t.ref);
    return rc;
}

static const struct td_st_tensor *tensor(const char *name)
{
    const struct td_st_tensor *t = td_safetensors_find(st, name);

    assert_non_null(t);
    return t;
}

static void one_tensor(void **state)
{
    const struct td_st_tensor *q = tensor(ATTENTION ".q_proj.qweight");
    struct td_error err;
    size_t size;
    void *data;

    (void)state;
    assert_int_equal(load("{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":null,\"transforms\":[]}", 8, 64, &data, &size, &err), 0);
    assert_int_equal(size, q->size_bytes);
    assert_memory_equal(data, q->data, size);
    free(data);
}

/* q [8, 64] and k [8, 32] side by side: outputs are the columns of a GPTQ layer. */
static void stacked_columns(void **state)
{
    const uint32_t *q = tensor(ATTENTION ".q_proj.qweight")->data, *k = tensor(ATTENTION ".k_proj.qweight")->data, *both;
    struct td_error err;
    size_t size;
    void *data;
    int r, c;

    (void)state;
    assert_int_equal(load("{\"tensors\":[\"" ATTENTION ".q_proj.qweight\",\"" ATTENTION ".k_proj.qweight\"],\"transforms\":[\"stack\"]}", 8, 96, &data, &size, &err), 0);
    assert_int_equal(size, 8 * 96 * 4);
    both = data;
    for (r = 0; r < 8; r++)
        for (c = 0; c < 96; c++)
            assert_int_equal(both[r * 96 + c], c < 64 ? q[r * 64 + c] : k[r * 32 + c - 64]);
    free(data);
}

/* The same two as rows, as a GEMM's [n, k] has its outputs. */
static void stacked_rows(void **state)
{
    const struct td_st_tensor *a = tensor(ATTENTION ".k_proj.qweight"), *b = tensor(ATTENTION ".v_proj.qweight");
    struct td_error err;
    size_t size;
    void *data;

    (void)state;
    assert_int_equal(load("{\"tensors\":[\"" ATTENTION ".k_proj.qweight\",\"" ATTENTION ".v_proj.qweight\"],\"transforms\":[\"stack\"]}", 16, 32, &data, &size, &err), 0);
    assert_int_equal(size, a->size_bytes + b->size_bytes);
    assert_memory_equal(data, a->data, a->size_bytes);
    assert_memory_equal((uint8_t *)data + a->size_bytes, b->data, b->size_bytes);
    free(data);
}

static void converted(void **state)
{
    const struct td_st_tensor *e = tensor("model.embed_tokens.weight");
    struct td_error err;
    size_t size, i;
    void *data;

    (void)state;
    assert_int_equal(load("{\"tensors\":[\"model.embed_tokens.weight\"],\"transforms\":[\"BF16\"]}", TINY_VOCAB, TINY_HIDDEN, &data, &size, &err), 0);
    assert_int_equal(size, e->size_bytes);
    for (i = 0; i < size / 2; i++)
        assert_int_equal(((uint16_t *)data)[i], td_f32_to_bf16(td_f16_to_f32(((const uint16_t *)e->data)[i])));
    free(data);
    assert_int_equal(load("{\"tensors\":[\"model.embed_tokens.weight\"],\"transforms\":[\"F32\"]}", TINY_VOCAB, TINY_HIDDEN, &data, &size, &err), 0);
    assert_int_equal(size, 2 * e->size_bytes);
    assert_true(((float *)data)[5] == td_f16_to_f32(((const uint16_t *)e->data)[5]));
    free(data);
}

/* Outputs [16, 48) of the second half of q's inputs; the same with an eighth of k behind it, as one rank has them. */
static void slices(void **state)
{
    const uint32_t *q = tensor(ATTENTION ".q_proj.qweight")->data, *k = tensor(ATTENTION ".k_proj.qweight")->data, *got;
    struct td_error err;
    size_t size;
    void *data;
    int r, c;

    (void)state;
    assert_int_equal(load("{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[[4,8],[16,48]],\"transforms\":[]}", 4, 32, &data, &size, &err), 0);
    assert_int_equal(size, 4 * 32 * 4);
    for (got = data, r = 0; r < 4; r++)
        for (c = 0; c < 32; c++)
            assert_int_equal(got[r * 32 + c], q[(r + 4) * 64 + c + 16]);
    free(data);
    assert_int_equal(load("{\"tensors\":[\"" ATTENTION ".q_proj.qweight\",\"" ATTENTION ".k_proj.qweight\"],\"slice\":[[[4,8],[16,48]],[[4,8],[28,32]]],\"transforms\":[\"stack\"]}", 4, 36,
                          &data, &size, &err), 0);
    assert_int_equal(size, 4 * 36 * 4);
    for (got = data, r = 0; r < 4; r++)
        for (c = 0; c < 36; c++)
            assert_int_equal(got[r * 36 + c], c < 32 ? q[(r + 4) * 64 + c + 16] : k[(r + 4) * 32 + c - 32 + 28]);
    free(data);
    assert_int_equal(load("{\"tensors\":[\"" ATTENTION ".q_proj.g_idx\"],\"slice\":[[32,64]],\"transforms\":[]}", 1, 32, &data, &size, &err), 0);
    assert_int_equal(size, 32 * 4);
    assert_memory_equal(data, (const int32_t *)tensor(ATTENTION ".q_proj.g_idx")->data + 32, size);
    free(data);
}

static void refused(void **state)
{
    static const struct { const char *ref; int64_t rows, cols; int code; } cases[] = {
        {"{\"tensors\":[\"nothing\"]}", 8, 64, TD_ENOTFOUND},
        {"{\"tensors\":[7]}", 8, 64, TD_ENOTFOUND},
        {"{\"tensors\":[]}", 8, 64, TD_EUNSUPPORTED},
        {"{}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[0,1]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[[0,8]]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[[0,8],[0,65]]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[[0,9],[0,64]]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[[4,4],[0,64]]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[[8,4],[0,64]]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[[-1,4],[0,64]]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[[0,8],[0,64],[0,1]]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[[0,8],[\"0\",64]]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[[0],[0,64]]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":{}}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":7}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[[[0,8],[0,64]],[[0,8],[0,64]]]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[[0,1e300],[0,64]]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"slice\":[[0,0.5],[0,64]]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\",\"" ATTENTION ".k_proj.qweight\"],\"slice\":[[0,8],[0,64]],\"transforms\":[\"stack\"]}", 8, 96, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"transforms\":[\"transpose\"]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"transforms\":[\"I32\"]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.scales\"],\"transforms\":[\"BF16\",\"stack\"]}", 8, 64, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"transforms\":[\"BF16\"]}", 8, 64, TD_EINVAL},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\",\"" ATTENTION ".k_proj.qweight\"]}", 8, 96, TD_EUNSUPPORTED},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\",\"" ATTENTION ".k_proj.qweight\"],\"transforms\":[\"stack\"]}", 8, 97, TD_EINVAL},
        {"{\"tensors\":[\"" ATTENTION ".q_proj.qweight\",\"" ATTENTION ".q_proj.scales\"],\"transforms\":[\"stack\"]}", 10, 64, TD_EINVAL},
    };
    struct td_error err;
    size_t i, size;
    void *data;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(load(cases[i].ref, cases[i].rows, cases[i].cols, &data, &size, &err), cases[i].code);
}

/* A shape of no elements may have any number of rows. */
static void awq_of_no_elements_takes_no_time(void **state)
{
    static const char header[] = "{\"w\":{\"dtype\":\"I32\",\"shape\":[9007199254740992,0],\"data_offsets\":[0,0]}}      ";
    struct td_safetensors *empty = NULL;
    char folder[] = "/tmp/td-opref-XXXXXX", path[64];
    uint64_t n = sizeof header - 1;
    struct td_tensor_rec t = {.role = "w", .ndim = 2, .shape = {1, 1}, .ref = cJSON_Parse("{\"tensors\":[\"w\"],\"transforms\":[\"awq-qweight\"]}")};
    struct td_error err = {0};
    size_t size;
    void *data;
    FILE *f;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fwrite(&n, 8, 1, f) == 1 && fwrite(header, n, 1, f) == 1 && !fclose(f));
    assert_int_equal(td_safetensors_open(folder, &empty, &err), 0);
    assert_int_equal(td_weight_ref_load(empty, "here", &t, &data, &size, &err), TD_EINVAL);
    cJSON_Delete(t.ref);
    td_safetensors_close(empty);
    td_fs_remove_tree(folder, NULL);
}

/* A reference to experts that says too little, or what cannot be. */
static void experts_that_are_not_said(void **state)
{
    static const char *const bad[] = {
        "{\"tensors\":[\"" ATTENTION ".*.qweight\"],\"transforms\":[\"experts\"]}",
        "{\"tensors\":[\"" ATTENTION ".*.qweight\"],\"transforms\":[\"experts\"],\"experts\":[0,3]}",
        "{\"tensors\":[\"" ATTENTION ".*.qweight\"],\"transforms\":[\"experts\"],\"experts\":[4096,4098]}",
        "{\"tensors\":[\"" ATTENTION ".*.qweight\"],\"transforms\":[\"experts\"],\"experts\":[0,2],\"slice\":[[0,1],[0,1]]}",
        "{\"tensors\":[\"" ATTENTION ".q_proj.qweight\"],\"transforms\":[\"experts\"],\"experts\":[0,2]}",
        "{\"tensors\":[7],\"transforms\":[\"experts\"],\"experts\":[0,2]}"};
    struct td_error err;
    size_t size, i;
    void *data;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(load(bad[i], 2, 64, &data, &size, &err), TD_EUNSUPPORTED);
    assert_int_equal(load("{\"tensors\":[\"" ATTENTION ".*.qweight\"],\"transforms\":[\"experts\"],\"experts\":[0,2]}", 2, 64, &data,
                          &size, &err), TD_ENOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(awq_of_no_elements_takes_no_time), cmocka_unit_test(one_tensor), cmocka_unit_test(stacked_columns), cmocka_unit_test(stacked_rows), cmocka_unit_test(converted), cmocka_unit_test(slices), cmocka_unit_test(refused),
        cmocka_unit_test(experts_that_are_not_said),
    };

    return cmocka_run_group_tests_name("opref", tests, setup, teardown);
}
