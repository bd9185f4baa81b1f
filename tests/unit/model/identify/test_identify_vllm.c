/* test_identify_vllm.c - weights as vLLM has them at run time become the checkpoint's, with their names: alone, stacked, behind a handler.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/json.h"
#include "model/checkpoint.h"
#include "model/identify/identify.h"
#include "tests/unit/tiny_checkpoint.h"
#include "tests/unit/model/vllm_pack.h"

#define ATTENTION "model.layers.0.self_attn"
#define MLP "model.layers.0.mlp"

static char dir[] = "/tmp/td-identify-vllm-XXXXXX";
static struct td_layer_index *layers;

static int setup(void **state)
{
    (void)state;
    return !mkdtemp(dir) || tiny_checkpoint_write(dir, &(struct tiny_spoil){0}) || td_layer_index_open(dir, &layers, NULL);
}

static int teardown(void **state)
{
    (void)state;
    td_layer_index_close(layers);
    return td_fs_remove_tree(dir, NULL);
}

/* ---- what vLLM would have of these layers -------------------------------------------------------------------------- */

struct run_time {
    const struct td_gptq_weight *part[3];
    int n_parts;
    struct pack_in in;
    struct td_weight_set s;
    struct td_weight_tensor w[4];
    struct td_attr attrs[3];
    uint8_t *bytes[4];
};

static const struct td_gptq_weight *part_of(const struct run_time *r, int64_t *n)
{
    int i = 0;

    while (*n >= r->part[i]->n)
        *n -= r->part[i++]->n;
    return r->part[i];
}

static unsigned q_of(const void *ctx, int64_t k, int64_t n)
{
    const struct td_gptq_weight *w = part_of(ctx, &n);

    return td_gptq_q(w, k, n);
}

static int zero_of(const void *ctx, int64_t g, int64_t n)
{
    const struct td_gptq_weight *w = part_of(ctx, &n);

    return td_gptq_zero(w, g, n);
}

static uint16_t scale_of(const void *ctx, int64_t g, int64_t n)
{
    const struct td_gptq_weight *w = part_of(ctx, &n);

    return td_f32_to_bf16(td_f16_to_f32(w->scales[g * w->n + n]));
}

static void open_run_time(struct run_time *r, const char *const *names)
{
    memset(r, 0, sizeof *r);
    for (; *names; names++) {
        r->part[r->n_parts] = td_checkpoint_find(td_layer_index_checkpoint(layers), *names);
        assert_non_null(r->part[r->n_parts]);
        r->in.n += r->part[r->n_parts++]->n;
    }
    r->in.k = r->part[0]->k;
    r->in.groups = r->part[0]->groups;
    r->in.q = q_of, r->in.zero = zero_of, r->in.scale = scale_of, r->in.ctx = r;
    r->attrs[0] = (struct td_attr){"n", r->in.n};
    r->attrs[1] = (struct td_attr){"k", r->in.k};
    r->attrs[2] = (struct td_attr){"group_size", r->in.k / r->in.groups};
    r->s = (struct td_weight_set){.kind = "gptq_gemm", .attrs = r->attrs, .n_attrs = 3, .sent = r->w, .layers = layers};
}

static void *add(struct run_time *r, const char *role, const char *dtype, int ndim, int64_t d0, int64_t d1, int64_t d2)
{
    struct td_weight_tensor *w = &r->w[r->s.n_sent];
    struct td_tensor_rec *t = &w->rec;

    snprintf(t->role, sizeof t->role, "%s", role);
    snprintf(t->dtype, sizeof t->dtype, "%s", dtype);
    t->ndim = ndim;
    t->shape[0] = d0, t->shape[1] = d1, t->shape[2] = d2;
    t->strides[0] = d1 * (ndim > 2 ? d2 : 1), t->strides[1] = ndim > 2 ? d2 : 1, t->strides[2] = 1;
    w->size = (size_t)(d0 * d1 * (ndim > 2 ? d2 : 1)) * td_dtype_size(td_dtype_parse(dtype));
    w->data = r->bytes[r->s.n_sent] = calloc(1, w->size);
    return r->bytes[r->s.n_sent++];
}

static void close_run_time(struct run_time *r)
{
    int i;

    td_weight_set_release(&r->s);
    for (i = 0; i < 4; i++)
        free(r->bytes[i]);
}

static void as_int4(struct run_time *r, const char *const *names)
{
    void *w, *zeros, *scales;

    open_run_time(r, names);
    r->s.layout = "vllm_int4_vnni";
    w = add(r, "qweight", "U8", 3, r->in.n / 32, r->in.k / 32, 32 * 16 + 128);
    zeros = add(r, "qzeros", "I8", 3, r->in.n / 32, r->in.groups, 32);
    scales = add(r, "scales", "F32", 3, r->in.n / 32, r->in.groups, 32);
    pack_int4(&r->in, 32, w, zeros, scales);
}

static void as_wna16(struct run_time *r, const char *const *names)
{
    uint16_t *scales;
    int64_t i;

    open_run_time(r, names);
    r->s.layout = "vllm_wna16_n16";
    pack_wna16(&r->in, add(r, "qweight", "I32", 2, r->in.n / 16, 2 * r->in.k, 0));
    scales = add(r, "scales", "BF16", 2, r->in.groups, r->in.n, 0);
    for (i = 0; i < r->in.groups * r->in.n; i++)
        scales[i] = scale_of(r, i / r->in.n, i % r->in.n);
}

static int identify(struct td_weight_set *s)
{
    struct td_error err = {0};

    return td_identify_weights(s, &err);
}

/* ---- expectations -------------------------------------------------------------------------------------------------- */

static const char *member(const cJSON *ref, const char *list, int i)
{
    const cJSON *item = cJSON_GetArrayItem(td_json_get(ref, list), i);

    return item ? item->valuestring : "";
}

static void expect_weights(struct run_time *r, const char *layer, const char *const *names)
{
    const uint32_t *qweight = r->s.t[0].data, *qzeros = r->s.t[1].data;
    const uint16_t *scales = r->s.t[2].data;
    int64_t n = r->in.n, k = r->in.k, i, j;
    char name[128];
    int p;

    assert_int_equal(r->s.matches, 1);
    assert_string_equal(r->s.layer, layer);
    assert_int_equal(r->s.n, 3);
    assert_string_equal(r->s.t[0].rec.role, "qweight");
    assert_int_equal(r->s.t[0].rec.shape[0], k / 8);
    assert_int_equal(r->s.t[0].rec.shape[1], n);
    assert_string_equal(r->s.t[2].rec.dtype, "BF16");
    for (i = 0; i < k; i++)
        for (j = 0; j < n; j++)
            assert_int_equal(qweight[i / 8 * n + j] >> i % 8 * 4 & 15, q_of(r, i, j));
    for (i = 0; i < r->in.groups; i++)
        for (j = 0; j < n; j++) {
            assert_int_equal((qzeros[i * (n / 8) + j / 8] >> j % 8 * 4 & 15) + 1, zero_of(r, i, j)); /* as this checkpoint stores them */
            assert_int_equal(scales[i * n + j], scale_of(r, i, j));
        }
    for (p = 0; names[p]; p++) {
        snprintf(name, sizeof name, "%s.qweight", names[p]);
        assert_string_equal(member(r->s.t[0].rec.ref, "tensors", p), name);
    }
    assert_string_equal(member(r->s.t[0].rec.ref, "tensors", p), "");
    assert_string_equal(member(r->s.t[0].rec.ref, "transforms", 0), p > 1 ? "stack" : "");
    assert_string_equal(member(r->s.t[2].rec.ref, "transforms", p > 1), "BF16");
}

/* ---- 4-bit weights ------------------------------------------------------------------------------------------------- */

static const char *const qkv[] = {ATTENTION ".q_proj", ATTENTION ".k_proj", ATTENTION ".v_proj", NULL};
static const char *const gate_up[] = {MLP ".gate_proj", MLP ".up_proj", NULL};
static const char *const down[] = {MLP ".down_proj", NULL};
static const char *const wrong_order[] = {ATTENTION ".q_proj", ATTENTION ".v_proj", ATTENTION ".k_proj", NULL};

static void packed_layers_are_found(void **state)
{
    static const struct { const char *const *names; const char *layer; } cases[] = {
        {qkv, ATTENTION ".qkv_proj"}, {gate_up, MLP ".gate_up_proj"}, {down, MLP ".down_proj"}};
    struct run_time r;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        as_int4(&r, cases[i].names);
        assert_int_equal(identify(&r.s), 0);
        expect_weights(&r, cases[i].layer, cases[i].names);
        close_run_time(&r);
        as_wna16(&r, cases[i].names);
        assert_int_equal(identify(&r.s), 0);
        expect_weights(&r, cases[i].layer, cases[i].names);
        close_run_time(&r);
    }
}

static void other_content_has_no_name(void **state)
{
    struct run_time r;

    (void)state;
    as_int4(&r, wrong_order);
    assert_int_equal(identify(&r.s), 0);
    assert_int_equal(r.s.matches, 0);
    assert_string_equal(r.s.layer, "");
    assert_string_equal(r.s.t[0].rec.role, "qweight"); /* unpacked all the same */
    assert_int_equal(r.s.t[0].rec.shape[1], r.in.n);
    assert_null(r.s.t[0].rec.ref);
    close_run_time(&r);
    as_wna16(&r, down);
    ((uint16_t *)r.bytes[1])[3] ^= 1;
    assert_int_equal(identify(&r.s), 0);
    assert_int_equal(r.s.matches, 0);
    close_run_time(&r);
}

/* A layout that cannot be undone is kept as it came. */
static void another_layout_stays(void **state)
{
    struct run_time r;

    (void)state;
    as_int4(&r, down);
    r.bytes[0][9] ^= 4;
    assert_int_equal(identify(&r.s), 0);
    assert_int_equal(r.s.n, 3);
    assert_string_equal(r.s.t[0].rec.dtype, "U8");
    assert_ptr_equal(r.s.t[0].data, r.bytes[0]);
    close_run_time(&r);
}

/* Another process says what it likes: sizes that do not belong together, tensors that are shorter than they say. */
static void lies_are_not_followed(void **state)
{
    struct run_time r;
    int i;

    (void)state;
    for (i = 0; i < 8; i++) {
        as_int4(&r, down);
        switch (i) {
        case 0: r.attrs[0].value *= 2; break;
        case 1: r.attrs[1].value = INT64_MAX / 8 * 8; break;
        case 2: r.attrs[2].value = 0; break;
        case 3: r.w[0].size /= 2, r.w[0].rec.strides[0] = 0; break;
        case 4: r.w[1].size = 1, r.w[1].rec.strides[0] = r.w[1].rec.strides[1] = r.w[1].rec.strides[2] = 0; break;
        case 5: r.w[0].rec.shape[2] = 128; break;
        case 6: r.w[2].rec.role[0] = 'x'; break;
        default: r.attrs[2].value = 1; break;
        }
        assert_int_equal(identify(&r.s), 0);
        assert_int_equal(r.s.matches, 0);
        assert_string_equal(r.s.t[0].rec.dtype, "U8");
        close_run_time(&r);
    }
}

/* ---- behind a handler ---------------------------------------------------------------------------------------------- */

/* The fingerprint of a matrix of BF16. */
static void fill_fingerprint(struct td_weight_fingerprint *p, const uint16_t *w, int64_t n, int64_t k)
{
    uint64_t words = (uint64_t)(n * k / 2);
    unsigned i;

    memset(p, 0, sizeof *p);
    p->rows = n, p->cols = k;
    strcpy(p->dtype, "BF16");
    for (i = 0; i < TD_FINGERPRINT_WORDS; i++)
        memcpy(&p->word[i], w + td_fingerprint_at(words, i) * 2, 4);
}

/* A word that is in no fingerprint. */
static uint64_t unsampled_word(uint64_t words)
{
    uint64_t at = 0;
    unsigned i;

    for (i = 0; i < TD_FINGERPRINT_WORDS; i++)
        if (td_fingerprint_at(words, i) == at)
            at++, i = UINT_MAX;        /* from the first one on again */
    assert_true(at < words);
    return at;
}

static void embeddings_by_their_fingerprint(void **state)
{
    const struct td_st_tensor *t = td_safetensors_find(td_layer_index_checkpoint(layers)->tensors, "model.embed_tokens.weight");
    static uint16_t w[TINY_VOCAB * TINY_HIDDEN];
    struct td_weight_tensor tensor = {
        .rec = {.role = "w", .dtype = "BF16", .ndim = 2, .shape = {TINY_VOCAB, TINY_HIDDEN}, .strides = {TINY_HIDDEN, 1}}};
    struct td_weight_fingerprint fingerprint;
    struct td_weight_set s = {.kind = "gemm", .layout = "onednn", .fingerprint = &fingerprint, .sent = &tensor, .n_sent = 1, .layers = layers};
    int i;

    (void)state;
    for (i = 0; i < TINY_VOCAB * TINY_HIDDEN; i++)
        w[i] = td_f32_to_bf16(td_f16_to_f32(((const uint16_t *)t->data)[i]));
    fill_fingerprint(&fingerprint, w, TINY_VOCAB, TINY_HIDDEN);
    assert_int_equal(identify(&s), 0);
    assert_int_equal(s.matches, 1);
    assert_string_equal(s.layer, "model.embed_tokens");
    assert_int_equal(s.t[0].size, sizeof w);
    assert_memory_equal(s.t[0].data, w, sizeof w);
    assert_string_equal(member(s.t[0].rec.ref, "tensors", 0), "model.embed_tokens.weight");
    assert_string_equal(member(s.t[0].rec.ref, "transforms", 0), "BF16");
    td_weight_set_release(&s);

    fingerprint.word[200] ^= 1;
    assert_int_equal(identify(&s), 0);
    assert_int_equal(s.matches, 0);
    assert_null(s.t[0].data);            /* described only */
    td_weight_set_release(&s);
    s.fingerprint = NULL;
    assert_int_equal(identify(&s), 0);
    assert_int_equal(s.matches, 0);
    td_weight_set_release(&s);
}

/* A layer that is not quantised, its bytes as the server has them (cublasGemmEx): found by them all, not by a fingerprint alone. */
static void plain_weights_by_their_bytes(void **state)
{
    const struct td_st_tensor *t = td_safetensors_find(td_layer_index_checkpoint(layers)->tensors, "model.embed_tokens.weight");
    static uint16_t w[TINY_VOCAB * TINY_HIDDEN];
    static uint16_t bias[TINY_VOCAB];
    struct td_weight_tensor tensor[] = {
        {.rec = {.role = "w", .dtype = "F16", .ndim = 2, .shape = {TINY_VOCAB, TINY_HIDDEN}, .strides = {TINY_HIDDEN, 1}}, .data = w, .size = sizeof w},
        {.rec = {.role = "bias", .dtype = "F16", .ndim = 1, .shape = {TINY_VOCAB}, .strides = {1}}, .data = bias, .size = sizeof bias}};
    struct td_weight_set s = {.kind = "gemm", .layout = "checkpoint", .sent = tensor, .n_sent = 1, .layers = layers};

    (void)state;
    memcpy(w, t->data, sizeof w);
    assert_int_equal(identify(&s), 0);
    assert_int_equal(s.matches, 1);
    assert_string_equal(s.layer, "model.embed_tokens");
    assert_memory_equal(s.t[0].data, w, sizeof w);
    assert_string_equal(member(s.t[0].rec.ref, "tensors", 0), "model.embed_tokens.weight");
    td_weight_set_release(&s);

    s.n_sent = 2;
    assert_int_equal(identify(&s), 0);
    assert_int_equal(s.matches, 1);
    assert_int_equal(s.n, 2);
    assert_string_equal(s.t[1].rec.role, "bias");
    assert_ptr_equal(s.t[1].data, bias); /* as it came */
    assert_int_equal(s.t[1].size, sizeof bias);
    td_weight_set_release(&s);

    w[2 * unsampled_word(sizeof w / 4)] ^= 1;
    assert_int_equal(identify(&s), 0);
    assert_int_equal(s.matches, 0);
    assert_int_equal(s.n, 2);
    assert_ptr_equal(s.t[0].data, w);    /* the server's own */
    assert_ptr_equal(s.t[1].data, bias);
    td_weight_set_release(&s);
}

static int64_t slice_at(const struct td_weight_set *s, int dimension, int end)
{
    const cJSON *slice = cJSON_GetObjectItemCaseSensitive(s->t[0].rec.ref, "slice");

    return (int64_t)cJSON_GetArrayItem(cJSON_GetArrayItem(slice, dimension), end)->valuedouble;
}

/* What the ranks of a server have of a vocabulary of 264, padded to 320: rows by rank, and zeros behind the last one. */
static void shares_of_a_vocabulary(void **state)
{
    enum { RANKS = 2, ROWS = 320 / RANKS };
    const struct td_st_tensor *t = td_safetensors_find(td_layer_index_checkpoint(layers)->tensors, "model.embed_tokens.weight");
    static uint16_t w[ROWS * TINY_HIDDEN];
    struct td_weight_tensor tensor = {
        .rec = {.role = "w", .dtype = "F16", .ndim = 2, .shape = {ROWS, TINY_HIDDEN}, .strides = {TINY_HIDDEN, 1}}, .data = w, .size = sizeof w};
    struct td_weight_set s = {.kind = "gemm", .layout = "checkpoint", .sent = &tensor, .n_sent = 1, .layers = layers};
    int rank;

    (void)state;
    for (rank = 0; rank < RANKS; rank++) {
        const int rows = rank ? TINY_VOCAB - ROWS : ROWS;

        memset(w, 0, sizeof w);
        memcpy(w, (const uint16_t *)t->data + rank * ROWS * TINY_HIDDEN, (size_t)rows * TINY_HIDDEN * 2);
        assert_int_equal(identify(&s), 0);
        assert_int_equal(s.matches, 1);
        assert_string_equal(s.layer, "model.embed_tokens");
        assert_int_equal(s.t[0].size, sizeof w);
        assert_memory_equal(s.t[0].data, w, sizeof w);
        assert_int_equal(s.t[0].rec.ref != NULL, !rank); /* the checkpoint has no zeros there */
        if (!rank)
            assert_true(slice_at(&s, 0, 0) == 0 && slice_at(&s, 0, 1) == ROWS && slice_at(&s, 1, 1) == TINY_HIDDEN);
        td_weight_set_release(&s);
    }
    w[sizeof w / 2 - 1] = 1;             /* no zero there */
    assert_int_equal(identify(&s), 0);
    assert_int_equal(s.matches, 0);
    td_weight_set_release(&s);
    memset(w, 0, sizeof w);              /* zeros alone are nobody's */
    assert_int_equal(identify(&s), 0);
    assert_int_equal(s.matches, 0);
    td_weight_set_release(&s);
}

/* A mixture's router has fewer rows than a vocabulary is padded to: it is found once. */
static void few_rows_are_found_once(void **state)
{
    const struct td_st_tensor *t = td_safetensors_find(td_layer_index_checkpoint(layers)->tensors, "model.layers.0.mlp.router.weight");
    static uint16_t w[TINY_ROUTED * TINY_HIDDEN];
    struct td_weight_tensor tensor = {
        .rec = {.role = "w", .dtype = "F16", .ndim = 2, .shape = {TINY_ROUTED, TINY_HIDDEN}, .strides = {TINY_HIDDEN, 1}}, .data = w, .size = sizeof w};
    struct td_weight_set s = {.kind = "gemm", .layout = "checkpoint", .sent = &tensor, .n_sent = 1, .layers = layers};

    (void)state;
    memcpy(w, t->data, sizeof w);
    assert_int_equal(identify(&s), 0);
    assert_int_equal(s.matches, 1);
    assert_string_equal(s.layer, "model.layers.0.mlp.router");
    td_weight_set_release(&s);
}

/* A rank that has the second half of the inputs. */
static void shares_of_inputs(void **state)
{
    enum { COLS = TINY_HIDDEN / 2 };
    const struct td_st_tensor *t = td_safetensors_find(td_layer_index_checkpoint(layers)->tensors, "model.embed_tokens.weight");
    static uint16_t w[TINY_VOCAB * COLS];
    struct td_weight_tensor tensor = {
        .rec = {.role = "w", .dtype = "F16", .ndim = 2, .shape = {TINY_VOCAB, COLS}, .strides = {COLS, 1}}, .data = w, .size = sizeof w};
    struct td_weight_set s = {.kind = "gemm", .layout = "checkpoint", .sent = &tensor, .n_sent = 1, .layers = layers};
    int i;

    (void)state;
    for (i = 0; i < TINY_VOCAB; i++)
        memcpy(w + i * COLS, (const uint16_t *)t->data + i * TINY_HIDDEN + COLS, COLS * 2);
    assert_int_equal(identify(&s), 0);
    assert_int_equal(s.matches, 1);
    assert_string_equal(s.layer, "model.embed_tokens");
    assert_memory_equal(s.t[0].data, w, sizeof w);
    assert_true(slice_at(&s, 0, 1) == TINY_VOCAB && slice_at(&s, 1, 0) == COLS && slice_at(&s, 1, 1) == TINY_HIDDEN);
    td_weight_set_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_layers_are_found), cmocka_unit_test(other_content_has_no_name), cmocka_unit_test(another_layout_stays),
        cmocka_unit_test(lies_are_not_followed),   cmocka_unit_test(embeddings_by_their_fingerprint),
        cmocka_unit_test(plain_weights_by_their_bytes), cmocka_unit_test(shares_of_a_vocabulary), cmocka_unit_test(few_rows_are_found_once),
        cmocka_unit_test(shares_of_inputs),
    };

    return cmocka_run_group_tests_name("identify_vllm", tests, setup, teardown);
}
