/* test_opload.c - what a record says reaches the op, whole or not at all; what exceeds a limit is refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "common/hash.h"
#include "common/json.h"
#include "model/gguf.h"
#include "replayer/opload.h"

#define WHOLE "{\"rows\":[0,128],\"grid\":[132,1,1],\"block\":[256,1,1],\"shared_bytes\":232448}"

/* Load a record of these parts; the kind and the symbol may be NULL. */
static int load_parts(const char *kind, const char *symbol, const char *layout, const char *launches, const char *attrs, struct td_op_call *op, struct td_error *err)
{
    struct td_loader *l = td_loader_new(NULL, NULL);
    struct td_op rec = {.kind = (char *)(uintptr_t)kind, .has_out = true, .attrs = cJSON_Parse(attrs),
                        .impl = {.symbol = (char *)(uintptr_t)symbol, .layout = (char *)(uintptr_t)layout, .launches = cJSON_Parse(launches)}};
    struct td_hold hold = {.n = 0};
    const void *recorded;
    int rc;

    memset(err, 0, sizeof *err);
    snprintf(rec.out.role, sizeof rec.out.role, "c");
    snprintf(rec.out.dtype, sizeof rec.out.dtype, "F16");
    rc = td_loader_get(l, &rec, op, &recorded, &hold, err);
    cJSON_Delete(rec.attrs);
    cJSON_Delete(rec.impl.launches);
    td_loader_free(l);
    return rc;
}

static struct td_op_call load(const char *launches)
{
    struct td_loader *l = td_loader_new(NULL, NULL);
    struct td_op rec = {.kind = (char[]){"gptq_gemm"}, .has_out = true, .impl = {.symbol = (char[]){"_Z1k"}, .layout = (char[]){"marlin"}, .launches = cJSON_Parse(launches)}};
    struct td_hold hold = {.n = 0};
    struct td_op_call op;
    const void *recorded;

    snprintf(rec.out.role, sizeof rec.out.role, "c");
    snprintf(rec.out.dtype, sizeof rec.out.dtype, "F16");
    assert_int_equal(td_loader_get(l, &rec, &op, &recorded, &hold, NULL), TD_OK);
    cJSON_Delete(rec.impl.launches);
    td_loader_free(l);
    return op;
}

static void test_launches_are_read(void **state)
{
    struct td_op_call op = load("[" WHOLE ",{\"rows\":[128,141],\"grid\":[132,1,1],\"block\":[128,1,1],\"symbol\":\"_Z1j\"}]");

    (void)state;
    assert_int_equal(op.n_launches, 2);
    assert_int_equal(op.launches[0].rows[1], 128);
    assert_int_equal(op.launches[0].grid[0], 132);
    assert_int_equal(op.launches[0].block[0], 256);
    assert_int_equal(op.launches[0].shared_bytes, 232448);
    assert_string_equal(op.launches[0].symbol, "");
    assert_int_equal(op.launches[1].shared_bytes, 0);
    assert_string_equal(op.launches[1].symbol, "_Z1j");
}

static void test_all_or_none(void **state)
{
    static const char *const bad[] = {
        "[" WHOLE ",{\"rows\":[128,141]}]", "[" WHOLE ",7]", "[]", "{}", "[{\"rows\":[0],\"grid\":[1,1,1],\"block\":[1,1,1]}]",
        "[{\"rows\":[0,1,2],\"grid\":[1,1,1],\"block\":[1,1,1]}]", "[{\"rows\":[0,-1],\"grid\":[1,1,1],\"block\":[1,1,1]}]",
        "[{\"rows\":[0,1],\"grid\":[4294967296,1,1],\"block\":[1,1,1]}]", "[{\"rows\":[0,1],\"grid\":[1,1,1],\"block\":[\"a\",1,1]}]",
        "[{\"rows\":[0,1],\"grid\":[1,1,1],\"block\":[1,1,1],\"shared_bytes\":-1}]", "[{\"rows\":[0,1],\"grid\":[1,1,1],\"block\":[1,1,1],\"shared_bytes\":4294967297}]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(load(bad[i]).n_launches, 0);
}

/* What an op in memory has no room for is refused with its count and the limit: nothing is cut or left out. */
static void test_launches_over_the_limit(void **state)
{
    char many[8192] = "[" WHOLE, name[2000];
    struct td_op_call op;
    struct td_error err;

    (void)state;
    for (int i = 1; i < TD_OP_MAX_LAUNCHES; i++)
        strcat(many, "," WHOLE);
    strcpy(many + strlen(many), "]");
    assert_int_equal(load(many).n_launches, TD_OP_MAX_LAUNCHES);
    strcpy(many + strlen(many) - 1, "," WHOLE "]");
    assert_int_equal(load_parts("gemm", NULL, NULL, many, "{}", &op, &err), TD_ELIMIT);
    assert_string_equal(err.msg, "65 launches; this version takes 64");
    snprintf(name, sizeof name, "[{\"rows\":[0,1],\"grid\":[1,1,1],\"block\":[1,1,1],\"symbol\":\"%0*d\"}]", TD_OP_MAX_SYMBOL, 1);
    assert_int_equal(load_parts("gemm", NULL, NULL, name, "{}", &op, &err), TD_ELIMIT);
    assert_non_null(strstr(err.msg, "the symbol of a launch \"000"));
    assert_non_null(strstr(err.msg, "has 512 bytes; this version takes 511"));
}

static void test_attributes_over_the_limit(void **state)
{
    char attrs[2000] = "{\"note\":\"no integer\"";
    struct td_op_call op;
    struct td_error err;

    (void)state;
    for (int i = 0; i < TD_OP_MAX_ATTRS; i++)
        snprintf(attrs + strlen(attrs), sizeof attrs - strlen(attrs), ",\"a%d\":%d", i, i);
    strcat(attrs, "}");
    assert_int_equal(load_parts("gemm", NULL, NULL, "[]", attrs, &op, &err), TD_OK);
    assert_int_equal(op.n_attrs, TD_OP_MAX_ATTRS);
    assert_int_equal(td_op_attr(&op, "a31", -1), 31);
    strcpy(attrs + strlen(attrs) - 1, ",\"one_more\":1}");
    assert_int_equal(load_parts("gemm", NULL, NULL, "[]", attrs, &op, &err), TD_ELIMIT);
    assert_string_equal(err.msg, "33 attributes; this version takes 32");
    assert_int_equal(load_parts("gemm", NULL, NULL, "[]", "{\"a_name_of_24_characters_\":1}", &op, &err), TD_ELIMIT);
    assert_non_null(strstr(err.msg, "the name of an attribute \"a_name_of_24"));
}

static void test_names_over_the_limit(void **state)
{
    char symbol[TD_OP_MAX_SYMBOL + 1];
    struct td_op_call op;
    struct td_error err;

    (void)state;
    memset(symbol, 's', sizeof symbol);
    symbol[TD_OP_MAX_SYMBOL] = '\0';
    assert_int_equal(load_parts("gemm", symbol + 1, "a_layout_of_31_characters______", "[]", "{}", &op, &err), TD_OK);
    assert_string_equal(op.symbol, symbol + 1);
    assert_string_equal(op.layout, "a_layout_of_31_characters______");
    assert_int_equal(load_parts("gemm", symbol, NULL, "[]", "{}", &op, &err), TD_ELIMIT);
    assert_non_null(strstr(err.msg, "the symbol \"sss"));
    assert_int_equal(load_parts("gemm", NULL, "a_layout_of_32_characters_______", "[]", "{}", &op, &err), TD_ELIMIT);
    assert_non_null(strstr(err.msg, "the layout \"a_layout"));
    assert_int_equal(load_parts("ggml_a_kind_of_32_characters____", NULL, NULL, "[]", "{}", &op, &err), TD_ELIMIT);
    assert_non_null(strstr(err.msg, "the kind \"ggml_a_kind"));
}

/* A weight kept as a reference into a GGUF file (sample.gguf: gguf-py's, tests/unit/data/gguf_make.py). checkpoint: where it lies now, or NULL. */
static int load_gguf(const char *at, const char *tensor, const char *hash, const char *checkpoint, struct td_op_call *op, struct td_hold *hold, struct td_loader **l,
                     struct td_error *err)
{
    struct td_tensor_rec w = {.role = "w", .dtype = "Q4_0", .ndim = 2, .shape = {3, 2}};
    struct td_op rec = {.kind = (char[]){"ggml_mul_mat"}, .has_out = true, .in = &w, .n_in = 1};
    const void *recorded;
    char ref[600];
    int rc;

    snprintf(ref, sizeof ref, "{\"checkpoint\":\"%s\",\"tensors\":[\"%s\"],\"slice\":null,\"transforms\":[],\"hash\":\"%s\"}", at, tensor, hash);
    w.ref = cJSON_Parse(ref);
    snprintf(rec.out.role, sizeof rec.out.role, "c");
    snprintf(rec.out.dtype, sizeof rec.out.dtype, "F32");
    memset(err, 0, sizeof *err);
    *l = td_loader_new(NULL, checkpoint);
    hold->n = 0;
    rc = td_loader_get(*l, &rec, op, &recorded, hold, err);
    cJSON_Delete(w.ref);
    return rc;
}

static void test_a_reference_into_a_gguf(void **state)
{
    static const char sample[] = "tests/unit/data/sample.gguf", name[] = "blk.0.q4_0.weight";
    struct td_gguf *g = NULL;
    struct td_loader *l;
    struct td_op_call op;
    struct td_hold hold;
    struct td_error err = {0};
    const struct td_gguf_tensor *t;
    char hash[64];

    (void)state;
    assert_int_equal(td_gguf_open(sample, &g, &err), TD_OK);
    t = td_gguf_find(g, name);
    td_hash_hex(td_hash_bytes(t->data, t->bytes), hash);
    assert_int_equal(load_gguf(sample, name, hash, NULL, &op, &hold, &l, &err), TD_OK);
    assert_int_equal(op.in[0].size_bytes, 108); /* as gguf-py says */
    assert_memory_equal(op.in[0].data, t->data, 108);
    td_loader_put(l, &hold);
    td_loader_free(l);
    assert_int_equal(load_gguf("/gone/model.gguf", name, hash, sample, &op, &hold, &l, &err), TD_OK); /* it was moved: --checkpoint */
    td_loader_put(l, &hold);
    td_loader_free(l);
    assert_int_not_equal(load_gguf("/gone/model.gguf", name, hash, NULL, &op, &hold, &l, &err), TD_OK);
    assert_non_null(strstr(err.msg, "--checkpoint PATH says where it lies now"));
    td_loader_free(l);
    assert_int_equal(load_gguf(sample, "blk.9.q4_0.weight", hash, NULL, &op, &hold, &l, &err), TD_ENOTFOUND);
    td_loader_free(l);
    hash[0] = hash[0] == '0' ? '1' : '0';
    assert_int_equal(load_gguf(sample, name, hash, NULL, &op, &hold, &l, &err), TD_ECORRUPT);
    assert_non_null(strstr(err.msg, "is it another checkpoint?"));
    td_loader_free(l);
    td_gguf_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_launches_are_read), cmocka_unit_test(test_all_or_none), cmocka_unit_test(test_launches_over_the_limit),
                                       cmocka_unit_test(test_attributes_over_the_limit), cmocka_unit_test(test_names_over_the_limit), cmocka_unit_test(test_a_reference_into_a_gguf)};

    return cmocka_run_group_tests_name("opload", tests, NULL, NULL);
}
