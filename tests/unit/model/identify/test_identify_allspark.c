/* test_identify_allspark.c - weights as vLLM has them for allspark_w8a16_gemm become the checkpoint's, with their names.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/fs.h"
#include "model/allspark_layout.h"
#include "model/checkpoint.h"
#include "model/identify/identify.h"
#include "tests/unit/tiny_checkpoint.h"

#define LAYER "model.layers.0."

static char root[] = "/tmp/td-identify-allspark-XXXXXX";
static struct td_layer_index *layers;

static int setup(void **state)
{
    (void)state;
    return !mkdtemp(root) || tiny_checkpoint_write(root, &(struct tiny_spoil){.bits = 8, .one_group = true}) || td_layer_index_open(root, &layers, NULL);
}

static int teardown(void **state)
{
    (void)state;
    td_layer_index_close(layers);
    return td_fs_remove_tree(root, NULL);
}

/* One layer, or several side by side: as the checkpoint has them, and as they are sent. */
struct sent {
    int64_t n, k;
    uint32_t *words;
    uint16_t *scales, *sent_scales;
    unsigned char *bytes;
    struct td_weight_tensor t[2];
    struct td_attr attrs[4];
    struct td_weight_set s;
};

static void send(struct sent *x, const char *const *parts)
{
    int64_t padded, at = 0;
    int p;

    memset(x, 0, sizeof *x);
    for (p = 0; parts[p]; p++) {
        const struct td_gptq_weight *g = td_checkpoint_find(td_layer_index_checkpoint(layers), parts[p]);

        assert_true(g && g->groups == 1 && g->bits == 8);
        x->n += g->n, x->k = g->k;
    }
    padded = td_allspark_padded(x->n);
    x->words = malloc((size_t)(x->k / 4 * x->n) * 4), x->scales = malloc((size_t)x->n * 2);
    for (p = 0; parts[p]; p++) {
        const struct td_gptq_weight *g = td_checkpoint_find(td_layer_index_checkpoint(layers), parts[p]);

        for (int64_t i = 0; i < x->k / 4; i++)
            memcpy(x->words + i * x->n + at, g->qweight + i * g->n, (size_t)g->n * 4);
        memcpy(x->scales + at, g->scales, (size_t)g->n * 2);
        at += g->n;
    }
    x->bytes = malloc((size_t)(padded * x->k)), x->sent_scales = malloc((size_t)padded * 2);
    assert_int_equal(td_allspark_repack(x->k, x->n, x->words, x->scales, x->bytes, x->sent_scales, NULL), 0);
    x->t[0] = (struct td_weight_tensor){.rec = {.role = "qweight", .dtype = "U8", .ndim = 2, .shape = {padded, x->k}, .strides = {x->k, 1}},
                                        .data = x->bytes, .size = (size_t)(padded * x->k)};
    x->t[1] = (struct td_weight_tensor){.rec = {.role = "scales", .dtype = "F16", .ndim = 2, .shape = {1, padded}, .strides = {padded, 1}},
                                        .data = x->sent_scales, .size = (size_t)padded * 2};
    memcpy(x->attrs, (struct td_attr[]){{"n", x->n}, {"k", x->k}, {"bits", 8}, {"group_size", x->k}}, sizeof x->attrs);
    x->s = (struct td_weight_set){.kind = "gptq_gemm", .layout = "allspark", .attrs = x->attrs, .n_attrs = 4, .sent = x->t, .n_sent = 2, .layers = layers};
}

static void end(struct sent *x)
{
    td_weight_set_release(&x->s);
    free(x->words), free(x->scales), free(x->bytes), free(x->sent_scales);
}

static void identify(struct sent *x)
{
    struct td_error err = {0};

    if (td_identify_weights(&x->s, &err))
        fail_msg("%s", err.msg);
}

static const char *const qkv[] = {LAYER "self_attn.q_proj", LAYER "self_attn.k_proj", LAYER "self_attn.v_proj", NULL};
static const char *const down[] = {LAYER "mlp.down_proj", NULL};

static void layers_are_found(void **state)
{
    static const struct { const char *const *parts; const char *name; } all[] = {{qkv, LAYER "self_attn.qkv_proj"}, {down, LAYER "mlp.down_proj"}};
    struct sent x;
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        send(&x, all[i].parts);
        identify(&x);
        assert_int_equal(x.s.matches, 1);
        assert_string_equal(x.s.layer, all[i].name);
        assert_false(x.s.layout_unknown);
        assert_int_equal(x.s.n, 3);
        assert_string_equal(x.s.t[0].rec.role, "qweight");
        assert_memory_equal(x.s.t[0].data, x.words, (size_t)(x.k / 4 * x.n) * 4);
        assert_string_equal(x.s.t[2].rec.role, "scales");
        assert_memory_equal(x.s.t[2].data, x.scales, (size_t)x.n * 2);
        assert_non_null(x.s.t[0].rec.ref);
        end(&x);
    }
}

static void others_have_no_name(void **state)
{
    struct sent x;
    int i;

    (void)state;
    send(&x, qkv);
    x.bytes[5] ^= 1;
    identify(&x);
    assert_int_equal(x.s.matches, 0);
    assert_int_equal(x.s.n, 3);        /* in the checkpoint's layout all the same */
    end(&x);
    for (i = 0; i < 4; i++) {
        send(&x, qkv);
        switch (i) {
        case 0: x.attrs[2].value = 4; break;
        case 1: x.attrs[3].value = 32; break;
        case 2: strcpy(x.t[0].rec.dtype, "I8"); break;
        default: x.t[1].rec.shape[1] -= 32, x.t[1].size -= 64;
        }
        identify(&x);
        assert_true(x.s.layout_unknown);
        assert_int_equal(x.s.n, 2);    /* as they were sent */
        end(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_found),
        cmocka_unit_test(others_have_no_name),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
