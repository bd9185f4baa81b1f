/* test_gptq.c - GPTQ layers and checkpoint folders: numpy's numbers, every broken rule by its sentence.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/checkpoint.h"
#include "tests/unit/data/gptq_expected.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static char folder[] = "/tmp/td-gptq-XXXXXX";

static void write_file(const char *name, const void *data, size_t size)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_non_null(f = fopen(path, "wb"));
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

/* What write_layer may get wrong. */
enum fault { NONE, NO_SCALES, NO_QWEIGHT, QZEROS_SHAPE, SCALES_DTYPE, G_IDX_RANGE, WITH_G_IDX };

static size_t add(char *header, size_t at, const char *layer, const char *part, const char *dtype, int d0, int d1, size_t *offset, size_t bytes)
{
    char shape[32];

    snprintf(shape, sizeof shape, d1 < 0 ? "%d" : "%d,%d", d0, d1);
    at += (size_t)sprintf(header + at, "%s\"%s.%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", at > 1 ? "," : "", layer,
                          part, dtype, shape, *offset, *offset + bytes);
    *offset += bytes;
    return at;
}

/* model.safetensors with e as the layer "l.proj"; misalign: bytes by which the data is shifted from a multiple of 4 */
static void write_layer(const struct gptq_expected *e, enum fault fault, size_t misalign)
{
    char header[2048] = "{";
    unsigned char file[16384] = {0};
    size_t at = 1, offset = 0, data;
    const size_t groups = (size_t)(e->k / e->group_size), n = (size_t)e->n, k = (size_t)e->k, b = (size_t)e->bits;
    const size_t qw = k * n * b / 8, qz = groups * n * b / 8, sc = groups * n * 2;
    int32_t *g;

    if (fault != NO_QWEIGHT)
        at = add(header, at, "l.proj", "qweight", "I32", e->k * e->bits / 32, e->n, &offset, qw);
    if (fault == QZEROS_SHAPE)
        at = add(header, at, "l.proj", "qzeros", "I32", (int)(qz / 4), 1, &offset, qz);
    else
        at = add(header, at, "l.proj", "qzeros", "I32", (int)groups, e->n * e->bits / 32, &offset, qz);
    if (fault != NO_SCALES)
        at = add(header, at, "l.proj", "scales", fault == SCALES_DTYPE ? "BF16" : "F16", (int)groups, e->n, &offset, sc);
    if (e->act_order || fault == WITH_G_IDX || fault == G_IDX_RANGE)
        at = add(header, at, "l.proj", "g_idx", "I32", e->k, -1, &offset, k * 4);
    strcpy(header + at++, "}");
    while ((8 + at) % 4 != misalign)
        strcpy(header + at++, " ");
    file[0] = (unsigned char)at;
    file[1] = (unsigned char)(at >> 8);
    memcpy(file + 8, header, at);
    data = 8 + at;
    assert_true(data + offset <= sizeof file);
    if (fault != NO_QWEIGHT) {
        memcpy(file + data, e->qweight, qw);
        data += qw;
    }
    memcpy(file + data, e->qzeros, qz);
    data += qz;
    if (fault != NO_SCALES) {
        memcpy(file + data, e->scales, sc);
        data += sc;
    }
    if (e->act_order || fault == WITH_G_IDX || fault == G_IDX_RANGE) {
        memcpy(file + data, e->g_idx, k * 4);
        if (fault == G_IDX_RANGE) {
            g = (int32_t *)(void *)(file + data);
            memcpy(g + 7, &(int32_t){99}, 4);
        }
        data += k * 4;
    }
    write_file("model.safetensors", file, data);
}

static int load(const struct gptq_expected *e, int group_size, struct td_safetensors **st, struct td_gptq_weight *w, struct td_error *err)
{
    assert_int_equal(td_safetensors_open(folder, st, err), 0);
    return td_gptq_weight_load(*st, "l.proj", e->bits, group_size, e->zero_offset, w, err);
}

static void check_values(const struct gptq_expected *e, const struct td_gptq_weight *w)
{
    const int rows[] = {0, e->k / 2, e->k - 1};
    double *d = test_malloc((size_t)e->k * (size_t)e->n * sizeof *d);
    float *f = test_malloc((size_t)e->k * (size_t)e->n * sizeof *f);

    td_gptq_dequant_f64(w, d);
    td_gptq_dequant_f32(w, f);
    for (int i = 0; i < 3; i++)
        for (int n = 0; n < e->n; n++) {
            assert_true(d[rows[i] * e->n + n] == e->w[i * e->n + n]);
            assert_true((double)f[rows[i] * e->n + n] == e->w[i * e->n + n]);
        }
    test_free(d);
    test_free(f);
}

static void test_layers_hold_what_numpy_packed(void **state)
{
    (void)state;
    for (size_t misalign = 0; misalign < 4; misalign++)
        for (const struct gptq_expected *e = gptq_expected; e < gptq_expected + COUNT(gptq_expected); e++) {
            struct td_error err = {0};
            struct td_safetensors *st;
            struct td_gptq_weight w;

            write_layer(e, misalign & 1 ? WITH_G_IDX : NONE, misalign);
            if (load(e, e->group_size == e->k ? -1 : e->group_size, &st, &w, &err))
                fail_msg("%s", err.msg);
            assert_int_equal(w.k, e->k);
            assert_int_equal(w.n, e->n);
            assert_int_equal(w.groups, e->k / e->group_size);
            assert_int_equal(w.g_idx != NULL, e->act_order); /* a g_idx that says nothing is dropped */
            assert_int_equal(w.owned != NULL, misalign != 0);
            assert_int_equal((uintptr_t)w.qweight % 4, 0);
            check_values(e, &w);
            td_gptq_weight_release(&w);
            td_safetensors_close(st);
        }
}

static void test_argsort(void **state)
{
    static const int32_t g_idx[8] = {1, 0, 1, 0, 0, 1, 1, 0}, want[8] = {1, 3, 4, 7, 0, 2, 5, 6};
    struct td_gptq_weight w = {.k = 8, .groups = 2, .group_size = 4, .g_idx = g_idx};
    int32_t perm[8];

    (void)state;
    td_gptq_argsort_groups(&w, perm);
    assert_memory_equal(perm, want, sizeof want);
    w.g_idx = NULL;
    td_gptq_argsort_groups(&w, perm);
    for (int i = 0; i < 8; i++)
        assert_int_equal(perm[i], i);
}

static void test_broken_layers_are_named(void **state)
{
    static const struct { enum fault fault; int code; const char *says; } broken[] = {
        {NO_SCALES, TD_ENOTFOUND, "tensor \"l.proj.scales\" is missing"},
        {NO_QWEIGHT, TD_ENOTFOUND, "tensor \"l.proj.qweight\" is missing"},
        {QZEROS_SHAPE, TD_EINVAL, "tensor \"l.proj.qzeros\": expected I32 [3, 2], found I32 [6, 1]"},
        {SCALES_DTYPE, TD_EINVAL, "tensor \"l.proj.scales\": expected F16 [3, 16], found BF16 [3, 16]"},
        {G_IDX_RANGE, TD_EINVAL, "l.proj: g_idx[7] is 99, there are 3 groups"},
    };
    const struct gptq_expected *e = &gptq_expected[1];

    (void)state;
    for (size_t i = 0; i < COUNT(broken); i++) {
        struct td_error err = {0};
        struct td_safetensors *st;
        struct td_gptq_weight w;

        write_layer(e, broken[i].fault, 0);
        assert_int_equal(load(e, e->group_size, &st, &w, &err), broken[i].code);
        assert_string_equal(err.msg, broken[i].says);
        td_safetensors_close(st);
    }
}

static void test_size_rules(void **state)
{
    static const struct { int bits; int64_t group, k, n; const char *says; } rules[] = {
        {3, 32, 64, 64, "bits is 3"},
        {4, 60, 60, 64, "K = 60 is no multiple of 8"},
        {8, 32, 64, 66, "N = 66 is no multiple of 4"},
        {4, 32, 64, 12, "N = 12 is no multiple of 8"},
        {4, 12, 96, 64, "group_size is 12"},
        {4, -8, 96, 64, "group_size is -8"},
        {4, 0, 96, 64, "group_size is 0"},
        {4, 64, 96, 64, "K = 96 is no multiple of group_size = 64"},
        {4, 32, 0, 64, "must be positive"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++) {
        struct td_error err = {0};

        assert_int_equal(td_gptq_check_sizes(rules[i].bits, rules[i].group, rules[i].k, rules[i].n, &err), TD_EUNSUPPORTED);
        if (!strstr(err.msg, rules[i].says))
            fail_msg("\"%s\" does not say \"%s\"", err.msg, rules[i].says);
    }
    assert_int_equal(td_gptq_check_sizes(8, 4, 4, 4, NULL), 0);
    assert_int_equal(td_gptq_check_sizes(4, 200, 200, 8, NULL), 0);
}

/* ---- checkpoint ------------------------------------------------------------------------------------------------ */

#define CONFIG "{\"model_type\":\"llama\",\"hidden_size\":96,\"intermediate_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":3," \
               "\"num_key_value_heads\":1,\"vocab_size\":264,\"eos_token_id\":[256,257],\"rope_theta\":500000.0,\"tie_word_embeddings\":true"

static void test_checkpoint(void **state)
{
    const struct gptq_expected *e = &gptq_expected[1];
    const struct td_gptq_weight *w;
    struct td_error err = {0};
    struct td_checkpoint *ck;

    (void)state;
    write_layer(e, NONE, 0);
    write_text("config.json", CONFIG ",\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32,\"desc_act\":true,"
                                     "\"sym\":false,\"checkpoint_format\":\"gptq_v2\"}}");
    if (td_checkpoint_open(folder, &ck, &err))
        fail_msg("%s", err.msg);
    assert_string_equal(ck->config.model_type, "llama");
    assert_int_equal(ck->config.head_dim, 32);
    assert_int_equal(ck->config.num_kv_heads, 1);
    assert_int_equal(ck->config.eos_token_id, 256);
    assert_int_equal(ck->config.bos_token_id, -1);
    assert_true(ck->config.rope_theta == 500000.0 && ck->config.rms_norm_eps == 1e-6 && ck->config.tie_word_embeddings);
    assert_true(ck->quant.present && ck->quant.desc_act && !ck->quant.sym);
    assert_int_equal(ck->quant.zero_offset, 0);
    assert_int_equal(ck->n_layers, 1);
    assert_null(td_checkpoint_find(ck, "l"));
    assert_non_null(w = td_checkpoint_find(ck, "l.proj"));
    check_values(e, w);
    td_checkpoint_close(ck);

    /* the older place of the same settings */
    write_text("config.json", CONFIG "}");
    write_text("quantize_config.json", "{\"bits\":4,\"group_size\":32,\"checkpoint_format\":\"gptq_v2\"}");
    assert_int_equal(td_checkpoint_open(folder, &ck, &err), 0);
    assert_int_equal(ck->n_layers, 1);
    td_checkpoint_close(ck);
}

static void test_broken_checkpoints(void **state)
{
    static const struct { const char *config, *quant; int code; const char *says; } broken[] = {
        {NULL, NULL, TD_ENOTFOUND, "config.json: not found"},
        {"[1]", NULL, TD_ECORRUPT, "config.json: not a JSON object"},
        {"{\"hidden_size\":96}", NULL, TD_EINVAL, "no \"intermediate_size\""},
        {CONFIG ",\"head_dim\":0.5}", NULL, TD_EINVAL, "\"head_dim\" is not a whole number"},
        {CONFIG ",\"num_key_value_heads\":2}", NULL, TD_EINVAL, NULL}, /* a second key: the first counts, so no layers then */
        {CONFIG "}", NULL, TD_EINVAL, "has .qweight tensors, but"},
        {CONFIG "}", "{\"group_size\":32}", TD_EINVAL, "quantize_config.json: no \"bits\""},
        {CONFIG "}", "{\"bits\":4,\"group_size\":0}", TD_EINVAL, "group_size is 0"},
        {CONFIG "}", "{\"bits\":4,\"checkpoint_format\":\"marlin\"}", TD_EUNSUPPORTED, "checkpoint_format is \"marlin\""},
        {CONFIG "}", "{\"bits\":4,\"group_size\":64}", TD_EUNSUPPORTED, "l.proj: K = 96 is no multiple of group_size = 64"},
    };

    (void)state;
    write_layer(&gptq_expected[1], NONE, 0);
    for (size_t i = 0; i < COUNT(broken); i++) {
        struct td_error err = {0};
        struct td_checkpoint *ck;
        char path[256];

        snprintf(path, sizeof path, "%s/quantize_config.json", folder);
        unlink(path);
        snprintf(path, sizeof path, "%s/config.json", folder);
        unlink(path);
        if (broken[i].config)
            write_text("config.json", broken[i].config);
        if (broken[i].quant)
            write_text("quantize_config.json", broken[i].quant);
        assert_int_equal(td_checkpoint_open(folder, &ck, &err), broken[i].code);
        assert_null(ck);
        if (broken[i].says && !strstr(err.msg, broken[i].says))
            fail_msg("\"%s\" does not say \"%s\"", err.msg, broken[i].says);
    }
    td_checkpoint_close(NULL);
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
        cmocka_unit_test(test_layers_hold_what_numpy_packed),
        cmocka_unit_test(test_argsort),
        cmocka_unit_test(test_broken_layers_are_named),
        cmocka_unit_test(test_size_rules),
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_broken_checkpoints),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
