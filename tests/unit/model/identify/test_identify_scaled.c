/* test_identify_scaled.c - weights of 8 bits that vLLM took from a checkpoint, or made of one, get their layers' names.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/json.h"
#include "model/identify/identify.h"
#include "tests/unit/kernels/ops/ggml_data.h"

#define FOLDER "tests/unit/data/eight"  /* data/eight_make.py */

static struct td_layer_index *layers;
static char *data;
static size_t data_size;

static int setup(void **state)
{
    (void)state;
    data = ggml_data_read(FOLDER "/sent.bin", &data_size);
    return !data || td_layer_index_open(FOLDER, &layers, NULL);
}

static int teardown(void **state)
{
    (void)state;
    td_layer_index_close(layers);
    free(data);
    return 0;
}

/* The weights of one layer as the tap sends them. */
struct sent { struct td_weight_tensor t[2]; struct td_weight_set s; unsigned char *bytes; };

static void send(struct sent *x, const char *name, const char *dtype, int64_t n, int64_t k)
{
    const struct ggml_record r = ggml_data_find(data, data_size, name);

    memset(x, 0, sizeof *x);
    x->bytes = malloc(r.size[0]);
    memcpy(x->bytes, r.array[0], r.size[0]);
    x->t[0] = (struct td_weight_tensor){.rec = {.role = "w", .ndim = 2, .shape = {n, k}, .strides = {k, 1}}, .data = x->bytes, .size = r.size[0]};
    x->t[1] = (struct td_weight_tensor){.rec = {.role = "w_scales", .dtype = "F32", .ndim = 1, .shape = {(int64_t)r.size[1] / 4}, .strides = {1}},
                                        .data = r.array[1], .size = r.size[1]};
    strcpy(x->t[0].rec.dtype, dtype);
    x->s = (struct td_weight_set){.kind = "scaled_mm", .layout = "checkpoint", .sent = x->t, .n_sent = 2, .layers = layers};
    assert_int_equal(r.size[0], (size_t)(n * k));
}

static void identify(struct sent *x)
{
    struct td_error err = {0};

    if (td_identify_weights(&x->s, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(x->s.n, 2);
    assert_memory_equal(x->s.t[0].data, x->bytes, x->s.t[0].size);
    assert_string_equal(x->s.t[1].rec.role, "w_scales");
}

static void release(struct sent *x)
{
    td_weight_set_release(&x->s);
    free(x->bytes);
}

/* source : of the bytes, in the checkpoint; NULL: the server made them */
static void check_layer(const char *name, const char *dtype, int64_t n, int64_t k, const char *layer, const char *source)
{
    struct sent x;

    send(&x, name, dtype, n, k);
    identify(&x);
    if (x.s.matches != 1 || strcmp(x.s.layer, layer))
        fail_msg("%s: %d matches, \"%s\"", name, x.s.matches, x.s.layer);
    if (source)
        assert_string_equal(cJSON_GetArrayItem(td_json_get(x.s.t[0].rec.ref, "tensors"), 0)->valuestring, source);
    else
        assert_null(x.s.t[0].rec.ref);
    release(&x);
}

static void test_layers_of_the_checkpoint(void **state)
{
    (void)state;
    check_layer("0 o", "F8_E4M3", 48, 32, "model.layers.0.self_attn.o_proj", "model.layers.0.self_attn.o_proj.weight");
    check_layer("1 o", "F8_E4M3", 48, 32, "model.layers.1.self_attn.o_proj", "model.layers.1.self_attn.o_proj.weight");
    check_layer("1 down", "I8", 48, 40, "model.layers.1.mlp.down_proj", "model.layers.1.mlp.down_proj.weight");
}

static void test_layers_that_the_server_made(void **state)
{
    (void)state;
    check_layer("0 qkv", "F8_E4M3", 64, 48, "model.layers.0.self_attn.qkv_proj", NULL);
    check_layer("1 qkv", "F8_E4M3", 64, 48, "model.layers.1.self_attn.qkv_proj", NULL);
    check_layer("0 gate_up", "F8_E4M3", 80, 48, "model.layers.0.mlp.gate_up_proj", NULL);
    check_layer("2 o bf16", "F8_E4M3", 48, 32, "model.layers.2.self_attn.o_proj", NULL);
    check_layer("1 gate_up", "F8_E4M3", 80, 48, "model.layers.1.mlp.gate_up_proj", NULL);
}

static void test_scales_of_blocks(void **state)
{
    struct sent x;

    (void)state;
    send(&x, "head block", "F8_E4M3", 130, 160);
    x.t[1].rec.ndim = 2, x.t[1].rec.shape[0] = x.t[1].rec.shape[1] = x.t[1].rec.strides[0] = 2, x.t[1].rec.strides[1] = 1;
    identify(&x);
    assert_int_equal(x.s.matches, 1);
    assert_string_equal(x.s.layer, "lm_head");
    release(&x);
}

/* Another number in one place, another scale, nothing but zeros: no layer is that. */
static void test_other_content_has_no_name(void **state)
{
    float scale;
    struct sent x;
    int i;

    (void)state;
    for (i = 0; i < 3; i++) {
        send(&x, "1 qkv", "F8_E4M3", 64, 48);
        scale = *(const float *)x.t[1].data * 1.1f;
        if (i == 0)
            x.bytes[64 * 48 - 1] ^= 4;
        else if (i == 1)
            x.t[1].data = &scale;
        else
            memset(x.bytes, 0, 64 * 48);
        identify(&x);
        assert_int_equal(x.s.matches, 0);
        assert_string_equal(x.s.layer, "");
        release(&x);
    }
    send(&x, "0 qkv", "F8_E4M3", 64, 48);
    x.s.n_sent = 2, x.t[1].rec.shape[0] = 7;     /* scales of no known form */
    assert_int_equal(td_identify_weights(&x.s, NULL), 0);
    assert_int_equal(x.s.matches, 0);
    release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_of_the_checkpoint),
        cmocka_unit_test(test_layers_that_the_server_made),
        cmocka_unit_test(test_scales_of_blocks),
        cmocka_unit_test(test_other_content_has_no_name),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
