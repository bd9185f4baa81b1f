/* test_identify_gpu.c - weights as vLLM's GPU kernels have them become the checkpoint's, with their names: exllama, Marlin, slices of ranks.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/json.h"
#include "kernels/ops/gptq_gemm_op.h"
#include "kernels/ops/op_kinds.h"
#include "model/awq.h"
#include "model/checkpoint.h"
#include "model/exllama_layout.h"
#include "model/marlin_layout.h"
#include "model/identify/identify.h"
#include "replayer/weight_ref.h"
#include "tiny_models.h"

#define ATTENTION "model.layers.0.self_attn"
#define MLP "model.layers.0.mlp"
enum { FFN = 256 };

static char root[] = "/tmp/td-identify-gpu-XXXXXX";

/* Of 4 bits, with and without act-order, and of 8; what only Marlin runs. */
enum { PLAIN, ACT_ORDER, EIGHT, EIGHT_ACT_ORDER, GPTQ_MODELS, AWQ = GPTQ_MODELS, MODELS };
static struct td_layer_index *models[MODELS];

static int setup(void **state)
{
    static const struct tiny_spoil spoil[MODELS] = {{.ffn = FFN}, {.ffn = FFN, .act_order = true}, {.ffn = FFN, .bits = 8}, {.ffn = FFN, .bits = 8, .act_order = true},
                                                    {.ffn = FFN, .awq = true}};

    (void)state;
    return tiny_models_open(root, spoil, MODELS, models);
}

static int teardown(void **state)
{
    (void)state;
    return tiny_models_close(root, MODELS, models);
}

/* ---- what a server would have of these layers ------------------------------------------------------------------------ */

static const char *const qkv[] = {ATTENTION ".q_proj", ATTENTION ".k_proj", ATTENTION ".v_proj", NULL};
static const char *const gate_up[] = {MLP ".gate_proj", MLP ".up_proj", NULL};
static const char *const down[] = {MLP ".down_proj", NULL};
static const char *const wrong_order[] = {MLP ".up_proj", MLP ".gate_proj", NULL};

/* All arrays are in the checkpoint's form, stacked and cut. */
struct weight { int bits; int64_t n, k, groups; uint32_t *qweight, *qzeros; uint16_t *scales; int32_t *g_idx, *perm; };

/* Rank `rank` of ranks_n that share the outputs or ranks_k that share the inputs. */
static struct weight cut(int model, const char *const *names, int ranks_n, int ranks_k, int rank)
{
    struct weight w = {0};
    int64_t n0 = 0, i, j, from_n, from_k = 0, n;
    uint32_t *unpacked = NULL;
    int p;

    for (p = 0; names[p]; p++, n0 += n) {
        const struct td_gptq_weight *g = td_checkpoint_find(td_layer_index_checkpoint(models[model]), names[p]);
        const uint32_t *q;
        int64_t pack;

        assert_non_null(g);
        q = g->qweight;
        if (g->awq) {
            q = unpacked = realloc(unpacked, (size_t)(g->k * g->n / 2));
            td_awq_unpack_weight(g->k, g->n, g->awq, unpacked);
        }
        n = g->n / ranks_n;
        pack = 32 / g->bits;
        if (!p) {
            w = (struct weight){.bits = g->bits, .k = g->k / ranks_k, .groups = g->groups / ranks_k};
            for (i = 0; names[i]; i++)
                w.n += td_checkpoint_find(td_layer_index_checkpoint(models[model]), names[i])->n / ranks_n;
            w.qweight = calloc((size_t)(w.k / pack * w.n), 4);
            w.qzeros = calloc((size_t)(w.groups * w.n / pack), 4);
            w.scales = calloc((size_t)(w.groups * w.n), 2);
            w.perm = calloc((size_t)g->k, 4);
            td_gptq_argsort_groups(g, w.perm);
            if (g->g_idx)
                w.g_idx = memcpy(malloc((size_t)w.k * 4), g->g_idx, (size_t)w.k * 4);
        }
        from_n = ranks_n > 1 ? rank * n : 0;
        from_k = ranks_k > 1 ? rank * w.k : 0;
        for (i = 0; i < w.k / pack; i++)
            memcpy(&w.qweight[i * w.n + n0], &q[(from_k / pack + i) * g->n + from_n], (size_t)n * 4);
        for (i = 0; i < w.groups; i++) {
            memcpy(&w.qzeros[(i * w.n + n0) / pack], &g->qzeros[((from_k / 32 + i) * g->n + from_n) / pack], (size_t)(n / pack) * 4);
            for (j = 0; j < n; j++)
                w.scales[i * w.n + n0 + j] = g->scales[(from_k / 32 + i) * g->n + from_n + j];
        }
    }
    free(unpacked);
    return w;
}

/* The outputs of b behind those of a, which are both freed. Sizes of 4 bits; no g_idx. */
static struct weight beside(struct weight a, struct weight b)
{
    struct weight w = a;
    int64_t i;

    w.n = a.n + b.n;
    w.qweight = calloc((size_t)(w.k / 8 * w.n), 4);
    w.qzeros = calloc((size_t)(w.groups * w.n / 8), 4);
    w.scales = calloc((size_t)(w.groups * w.n), 2);
    for (i = 0; i < w.k / 8; i++) {
        memcpy(&w.qweight[i * w.n], &a.qweight[i * a.n], (size_t)a.n * 4);
        memcpy(&w.qweight[i * w.n + a.n], &b.qweight[i * b.n], (size_t)b.n * 4);
    }
    for (i = 0; i < w.groups; i++) {
        memcpy(&w.qzeros[i * w.n / 8], &a.qzeros[i * a.n / 8], (size_t)(a.n / 8) * 4);
        memcpy(&w.qzeros[(i * w.n + a.n) / 8], &b.qzeros[i * b.n / 8], (size_t)(b.n / 8) * 4);
        memcpy(&w.scales[i * w.n], &a.scales[i * a.n], (size_t)a.n * 2);
        memcpy(&w.scales[i * w.n + a.n], &b.scales[i * b.n], (size_t)b.n * 2);
    }
    free(a.qweight), free(a.qzeros), free(a.scales);
    free(b.qweight), free(b.qzeros), free(b.scales), free(b.perm);
    return w;
}

/* A weight with zeros around it, as vLLM pads it for Marlin. It is freed. */
static struct weight padded(struct weight w, int64_t n, int64_t k)
{
    struct weight p = {.bits = 4, .n = n, .k = k, .groups = w.groups > 1 ? k / 32 : 1, .perm = w.perm};
    int64_t i;

    p.qweight = calloc((size_t)(k / 8 * n), 4);
    p.qzeros = calloc((size_t)(p.groups * n / 8), 4);
    p.scales = calloc((size_t)(p.groups * n), 2);
    for (i = 0; i < w.k / 8; i++)
        memcpy(&p.qweight[i * n], &w.qweight[i * w.n], (size_t)w.n * 4);
    for (i = 0; i < w.groups; i++) {
        memcpy(&p.qzeros[i * n / 8], &w.qzeros[i * w.n / 8], (size_t)(w.n / 8) * 4);
        memcpy(&p.scales[i * n], &w.scales[i * w.n], (size_t)w.n * 2);
    }
    free(w.qweight), free(w.qzeros), free(w.scales);
    return p;
}

static void free_weight(struct weight *w)
{
    free(w->qweight), free(w->qzeros), free(w->scales), free(w->g_idx), free(w->perm);
}

struct run_time {
    struct weight w;
    struct td_weight_set s;
    struct td_weight_tensor t[6];
    struct td_attr attrs[5];
    uint8_t *bytes[6];
    struct td_weight_fingerprint sample;
};

static void *add(struct run_time *r, const char *role, const char *dtype, int64_t d0, int64_t d1)
{
    struct td_weight_tensor *w = &r->t[r->s.n_sent];
    struct td_tensor_rec *t = &w->rec;

    snprintf(t->role, sizeof t->role, "%s", role);
    snprintf(t->dtype, sizeof t->dtype, "%s", dtype);
    t->ndim = d1 ? 2 : 1;
    t->shape[0] = d0, t->shape[1] = d1;
    t->strides[0] = d1 ? d1 : 1, t->strides[1] = d1 ? 1 : 0;
    w->size = (size_t)(d0 * (d1 ? d1 : 1)) * td_dtype_size(td_dtype_parse(dtype));
    w->data = r->bytes[r->s.n_sent] = calloc(1, w->size);
    return r->bytes[r->s.n_sent++];
}

static void begin(struct run_time *r, const char *layout, int model, struct weight w)
{
    memset(r, 0, sizeof *r);
    r->w = w;
    r->attrs[0] = (struct td_attr){"n", w.n}, r->attrs[1] = (struct td_attr){"k", w.k}, r->attrs[2] = (struct td_attr){"bits", w.bits};
    r->attrs[3] = (struct td_attr){"group_size", 32}, r->attrs[4] = (struct td_attr){"zero_offset", 1};
    r->s = (struct td_weight_set){.kind = "gptq_gemm", .layout = layout, .attrs = r->attrs, .n_attrs = 5, .sent = r->t,
                               .layers = models[model]};
}

static void as_exllama(struct run_time *r, int model, struct weight w)
{
    const int64_t pack = 32 / w.bits;

    begin(r, "exllama", model, w);
    assert_int_equal(td_exllama_shuffle(w.bits, w.k, w.n, w.qweight, w.g_idx ? w.perm : NULL, add(r, "qweight", "I32", w.k / pack, w.n), NULL), 0);
    memcpy(add(r, "qzeros", "I32", w.groups, w.n / pack), w.qzeros, (size_t)(w.groups * w.n / pack) * 4);
    memcpy(add(r, "scales", "F16", w.groups, w.n), w.scales, (size_t)(w.groups * w.n) * 2);
    if (w.g_idx)
        memcpy(add(r, "perm", "I32", w.k, 0), w.perm, (size_t)w.k * 4);
}

/* GPTQ is symmetric: without the zero points. */
static void as_marlin(struct run_time *r, int model, struct weight w, const char *dtype)
{
    uint16_t *scales = malloc((size_t)(w.groups * w.n) * 2);
    int64_t i;

    begin(r, "marlin", model, w);
    r->s.n_attrs = 4;
    for (i = 0; i < w.groups * w.n; i++)
        scales[i] = (uint16_t)td_dtype_bits(TD_DT_F16, w.scales, (size_t)i, td_dtype_parse(dtype));
    assert_int_equal(td_marlin_repack(w.bits, w.k, w.n, w.qweight, w.g_idx ? w.perm : NULL, add(r, "qweight", "I32", w.k / 16, w.n * w.bits / 2), NULL), 0);
    assert_int_equal(td_marlin_permute_scales(w.groups, w.n, scales, add(r, "scales", dtype, w.groups, w.n), NULL), 0);
    free(scales);
    if (model == AWQ)
        assert_int_equal(td_marlin_pack_zeros(4, w.groups, w.n, w.qzeros, 0, add(r, "qzeros", "I32", w.groups, w.n / 8), NULL), 0);
}

/* The operator's arguments: the columns of A are not sorted yet, and perm says how they will be. */
static void as_marlin_operator(struct run_time *r, int model, struct weight w, const char *dtype)
{
    int32_t *g_idx;
    int64_t i;

    as_marlin(r, model, w, dtype);
    g_idx = add(r, "g_idx", "I32", w.k, 0);
    memcpy(add(r, "perm", "I32", w.k, 0), w.perm, (size_t)w.k * 4);
    for (i = 0; i < w.k; i++)
        g_idx[i] = w.g_idx[w.perm[i]];
}

/* As awq_gemm has them: the checkpoint's own words, of one layer. */
static void as_awq(struct run_time *r, const char *layer)
{
    const struct td_gptq_weight *g = td_checkpoint_find(td_layer_index_checkpoint(models[AWQ]), layer);
    const struct td_st_tensor *zeros;
    char name[128];

    snprintf(name, sizeof name, "%s.qzeros", layer);
    zeros = td_safetensors_find(td_layer_index_checkpoint(models[AWQ])->tensors, name);
    begin(r, "awq", AWQ, cut(AWQ, (const char *const[]){layer, NULL}, 1, 1, 0));
    memcpy(add(r, "qweight", "I32", g->k, g->n / 8), g->awq, (size_t)(g->k * g->n / 2));
    memcpy(add(r, "scales", "F16", g->groups, g->n), g->scales, (size_t)(g->groups * g->n) * 2);
    memcpy(add(r, "qzeros", "I32", g->groups, g->n / 8), zeros->data, (size_t)(g->groups * g->n / 2));
}

/* The element of row k, column n of what a server with sorted rows has. */
static uint32_t sorted_element(const struct weight *w, int64_t k, int64_t n)
{
    int64_t pack = 32 / w->bits, from = w->perm[k];

    return w->qweight[from / pack * w->n + n] >> from % pack * w->bits & ((1u << w->bits) - 1);
}

/* The bytes of the repacked weight are of no layout that is known (its words are, back to front): a sample says what they were. */
static void as_machete(struct run_time *r, int model, struct weight w, const char *dtype)
{
    const int64_t pack = 32 / w.bits, rows = w.k / pack;
    uint32_t *repacked;
    uint16_t *scales;
    unsigned i;
    int64_t j;

    begin(r, "machete", model, w);
    r->s.n_attrs = 4;
    repacked = add(r, "qweight", "I32", rows, w.n);
    for (j = 0; j < rows * w.n; j++)
        repacked[rows * w.n - 1 - j] = w.qweight[j];
    scales = add(r, "scales", dtype, w.groups, w.n);
    for (j = 0; j < w.groups * w.n; j++)
        scales[j] = (uint16_t)td_dtype_bits(TD_DT_F16, w.scales, (size_t)j, td_dtype_parse(dtype));
    r->sample = (struct td_weight_fingerprint){.rows = rows, .cols = w.n, .dtype = "I32"};
    for (i = 0; i < TD_FINGERPRINT_WORDS; i++) {
        int64_t at = (int64_t)td_fingerprint_at((uint64_t)(rows * w.n), i);

        for (j = 0; j < pack; j++)
            r->sample.word[i] |= sorted_element(&w, at / w.n * pack + j, at % w.n) << j * w.bits;
    }
    r->s.fingerprint = &r->sample;
}

static void end(struct run_time *r)
{
    size_t i;

    td_weight_set_release(&r->s);
    free_weight(&r->w);
    for (i = 0; i < sizeof r->bytes / sizeof *r->bytes; i++)
        free(r->bytes[i]);
}

static int identify(struct run_time *r)
{
    struct td_error err = {0};

    return td_identify_weights(&r->s, &err);
}

/* ---- expectations -------------------------------------------------------------------------------------------------- */

static int64_t extra(const struct td_weight_set *s, const char *name)
{
    int i;

    for (i = 0; i < s->n_extra; i++)
        if (!strcmp(s->extra[i].name, name))
            return s->extra[i].value;
    return -1;
}

static int at(const struct td_weight_set *s, const char *role)
{
    int i;

    for (i = 0; i < s->n; i++)
        if (!strcmp(s->t[i].rec.role, role))
            return i;
    return -1;
}

static void expect_bytes(const struct td_weight_set *s, const char *role, const void *bytes, int64_t rows, int64_t cols, size_t elem)
{
    int i = at(s, role);

    assert_true(i >= 0);
    assert_int_equal(s->t[i].rec.shape[0], rows);
    assert_int_equal(s->t[i].rec.ndim, cols ? 2 : 1);
    assert_int_equal(s->t[i].rec.shape[1], cols);
    assert_int_equal(s->t[i].size, (size_t)(rows * (cols ? cols : 1)) * elem);
    assert_memory_equal(s->t[i].data, bytes, s->t[i].size);
}

static void expect_ref(const struct td_weight_set *s, const char *role, const char *const *names, const char *transform)
{
    const cJSON *ref = s->t[at(s, role)].rec.ref;
    char name[128], hex[TD_HASH_HEX];
    int i;

    assert_non_null(ref);
    for (i = 0; names[i]; i++) {
        snprintf(name, sizeof name, "%s.%s", names[i], role);
        assert_string_equal(cJSON_GetArrayItem(td_json_get(ref, "tensors"), i)->valuestring, name);
    }
    assert_int_equal(cJSON_GetArraySize(td_json_get(ref, "tensors")), i);
    assert_int_equal(cJSON_GetArraySize(td_json_get(ref, "transforms")), (i > 1) + (transform != NULL));
    if (transform)
        assert_string_equal(cJSON_GetArrayItem(td_json_get(ref, "transforms"), i > 1)->valuestring, transform);
    td_hash_hex(td_hash_bytes(s->t[at(s, role)].data, s->t[at(s, role)].size), hex);
    assert_string_equal(td_json_get(ref, "hash")->valuestring, hex);
}

/* The checkpoint's own arrays, their name and references. */
static void expect_found(const struct run_time *r, const char *layer, const char *const *names)
{
    const struct weight *w = &r->w;
    const int64_t pack = 32 / w->bits;

    assert_int_equal(r->s.matches, 1);
    assert_string_equal(r->s.layer, layer);
    expect_bytes(&r->s, "qweight", w->qweight, w->k / pack, w->n, 4);
    expect_bytes(&r->s, "qzeros", w->qzeros, w->groups, w->n / pack, 4);
    expect_ref(&r->s, "qweight", names, NULL);
    expect_ref(&r->s, "qzeros", names, NULL);
    assert_int_equal(extra(&r->s, "zero_offset"), 1);
}

static const struct { const char *const *names; const char *layer; } layers[] = {{qkv, ATTENTION ".qkv_proj"}, {gate_up, MLP ".gate_up_proj"}, {down, MLP ".down_proj"}};
#define LAYERS (sizeof layers / sizeof *layers)

/* ---- exllama ------------------------------------------------------------------------------------------------------- */

static void exllama_is_found(void **state)
{
    struct run_time r;
    size_t i;
    int model;

    (void)state;
    for (model = 0; model < GPTQ_MODELS; model++)
        for (i = 0; i < LAYERS; i++) {
            bool act_order = model == ACT_ORDER || model == EIGHT_ACT_ORDER;

            as_exllama(&r, model, cut(model, layers[i].names, 1, 1, 0));
            assert_int_equal(identify(&r), 0);
            expect_found(&r, layers[i].layer, layers[i].names);
            expect_bytes(&r.s, "scales", r.w.scales, r.w.groups, r.w.n, 2);
            expect_ref(&r.s, "scales", layers[i].names, NULL);
            assert_true(cJSON_IsNull(td_json_get(r.s.t[0].rec.ref, "slice")));
            assert_int_equal(extra(&r.s, "act_order"), act_order);
            assert_int_equal(r.s.n, act_order ? 4 : 3);
            if (act_order) {
                expect_bytes(&r.s, "g_idx", r.w.g_idx, r.w.k, 0, 4);
                expect_ref(&r.s, "g_idx", (const char *const[]){layers[i].names[0], NULL}, NULL);
            }
            end(&r);
        }
}

/* torch.argsort need not be stable: rows of a group come in any order, and the permutation says in which. */
static void exllama_sorted_otherwise(void **state)
{
    struct run_time r;
    struct weight w;
    int64_t i;

    (void)state;
    w = cut(ACT_ORDER, down, 1, 1, 0);
    for (i = 0; i < w.k; i += 2) {
        int32_t first = w.perm[i];

        w.perm[i] = w.perm[i + 1];
        w.perm[i + 1] = first;
    }
    as_exllama(&r, ACT_ORDER, w);
    assert_int_equal(identify(&r), 0);
    expect_found(&r, MLP ".down_proj", down);
    end(&r);
}

/* A permutation that leaves every row in its group is no act-order. */
static void exllama_perm_of_nothing(void **state)
{
    struct run_time r;
    int32_t *perm, i;

    (void)state;
    as_exllama(&r, PLAIN, cut(PLAIN, down, 1, 1, 0));
    perm = add(&r, "perm", "I32", r.w.k, 0);
    for (i = 0; i < r.w.k; i++)
        perm[i] = i;
    assert_int_equal(identify(&r), 0);
    expect_found(&r, MLP ".down_proj", down);
    assert_int_equal(extra(&r.s, "act_order"), 0);
    assert_int_equal(r.s.n, 3);
    end(&r);
}

/* A server that gives true zero points: the fixture has them as the checkpoint does. */
static void zero_offset_becomes_the_checkpoints(void **state)
{
    struct run_time r;
    size_t i;

    (void)state;
    as_exllama(&r, PLAIN, cut(PLAIN, gate_up, 1, 1, 0));
    r.attrs[4].value = 0;
    for (i = 0; i < r.t[1].size; i++)
        r.bytes[1][i] = (uint8_t)(r.bytes[1][i] + 0x11);
    assert_int_equal(identify(&r), 0);
    expect_found(&r, MLP ".gate_up_proj", gate_up);
    end(&r);
}

static void other_content_is_unshuffled(void **state)
{
    struct run_time r;

    (void)state;
    as_exllama(&r, PLAIN, cut(PLAIN, wrong_order, 1, 1, 0));
    assert_int_equal(identify(&r), 0);
    assert_int_equal(r.s.matches, 0);
    assert_string_equal(r.s.layer, "");
    assert_null(r.s.t[0].rec.ref);
    expect_bytes(&r.s, "qweight", r.w.qweight, r.w.k / 8, r.w.n, 4);
    end(&r);
    as_exllama(&r, ACT_ORDER, cut(ACT_ORDER, down, 1, 1, 0));
    r.bytes[0][77] ^= 1;
    r.s.layers = NULL;
    assert_int_equal(identify(&r), 0);
    assert_int_equal(r.s.matches, 0);
    expect_bytes(&r.s, "g_idx", r.w.g_idx, r.w.k, 0, 4);
    assert_int_equal(extra(&r.s, "act_order"), 1);
    end(&r);
}

/* ---- Marlin -------------------------------------------------------------------------------------------------------- */

static void marlin_is_found(void **state)
{
    struct run_time r;
    size_t i;
    int eight;

    (void)state;
    for (eight = 0; eight < 2; eight++)
        for (i = 0; i < LAYERS; i++) {
            int model = eight ? EIGHT : PLAIN;

            as_marlin(&r, model, cut(model, layers[i].names, 1, 1, 0), "F16");
            assert_int_equal(identify(&r), 0);
            expect_found(&r, layers[i].layer, layers[i].names);
            expect_bytes(&r.s, "scales", r.w.scales, r.w.groups, r.w.n, 2);
            assert_int_equal(extra(&r.s, "act_order"), 0);
            end(&r);
            as_marlin(&r, model, cut(model, layers[i].names, 1, 1, 0), "BF16");
            assert_int_equal(identify(&r), 0);
            expect_found(&r, layers[i].layer, layers[i].names);
            expect_ref(&r.s, "scales", layers[i].names, "BF16");
            end(&r);
        }
}

static void marlin_keeps_a_bias(void **state)
{
    struct run_time r;
    uint16_t bias[FFN * 2];
    int i;

    (void)state;
    for (i = 0; i < FFN * 2; i++)
        bias[i] = (uint16_t)(i * 3);
    as_marlin(&r, PLAIN, cut(PLAIN, gate_up, 1, 1, 0), "F16");
    assert_int_equal(td_marlin_permute_scales(1, r.w.n, bias, add(&r, "bias", "F16", r.w.n, 0), NULL), 0);
    assert_int_equal(identify(&r), 0);
    expect_found(&r, MLP ".gate_up_proj", gate_up);
    expect_bytes(&r.s, "bias", bias, r.w.n, 0, 2);
    end(&r);
}

static void expect_sorted(const struct run_time *r)
{
    const int64_t pack = 32 / r->w.bits;
    const uint32_t *q = r->s.t[0].data;
    int64_t k, n;

    for (k = 0; k < r->w.k; k++)
        for (n = 0; n < r->w.n; n++)
            assert_int_equal(q[k / pack * r->w.n + n] >> k % pack * r->w.bits & ((1u << r->w.bits) - 1), sorted_element(&r->w, k, n));
}

/* The rows are sorted, the kernel knows nothing of it: the name is found, the order stays. */
static void marlin_sorted_rows(void **state)
{
    struct run_time r;
    size_t i;
    int eight;

    (void)state;
    for (eight = 0; eight < 2; eight++)
        for (i = 0; i < LAYERS; i++) {
            int model = eight ? EIGHT_ACT_ORDER : ACT_ORDER;

            as_marlin(&r, model, cut(model, layers[i].names, 1, 1, 0), "F16");
            assert_int_equal(identify(&r), 0);
            assert_int_equal(r.s.matches, 1);
            assert_string_equal(r.s.layer, layers[i].layer);
            assert_int_equal(extra(&r.s, "act_order"), 0);
            assert_int_equal(at(&r.s, "g_idx"), -1);
            assert_null(r.s.t[0].rec.ref);
            expect_ref(&r.s, "scales", layers[i].names, NULL);
            expect_sorted(&r);
            end(&r);
        }
    as_marlin(&r, ACT_ORDER, cut(ACT_ORDER, down, 1, 1, 0), "F16");
    ((uint16_t *)r.bytes[1])[5] ^= 1;      /* another scale */
    assert_int_equal(identify(&r), 0);
    assert_int_equal(r.s.matches, 0);
    end(&r);
}

/* A row twice and another not at all is no order of the checkpoint's rows. */
static void marlin_rows_that_are_not_there(void **state)
{
    struct run_time r;
    struct weight w = cut(EIGHT_ACT_ORDER, down, 1, 1, 0);
    int64_t from = w.perm[0], to = w.perm[1], n;

    (void)state;
    for (n = 0; n < w.n; n++) {
        uint32_t *word = &w.qweight[to / 4 * w.n + n];

        *word = (*word & ~(255u << to % 4 * 8)) | (w.qweight[from / 4 * w.n + n] >> from % 4 * 8 & 255) << to % 4 * 8;
    }
    as_marlin(&r, EIGHT_ACT_ORDER, w, "F16");
    assert_int_equal(identify(&r), 0);
    assert_int_equal(r.s.matches, 0);
    end(&r);
}

/* Rows of a row-parallel layer with act-order: the groups are what g_idx says. */
static void marlin_keeps_g_idx(void **state)
{
    struct run_time r;
    int32_t *g_idx, i;

    (void)state;
    as_marlin(&r, PLAIN, cut(PLAIN, down, 1, 1, 0), "F16");
    g_idx = add(&r, "g_idx", "I32", r.w.k, 0);
    for (i = 0; i < r.w.k; i++)
        g_idx[i] = i < 50 ? 0 : i < 100 ? 3 : 7;
    assert_int_equal(identify(&r), 0);
    assert_int_equal(r.s.matches, 0);
    assert_int_equal(extra(&r.s, "act_order"), 1);
    expect_bytes(&r.s, "g_idx", g_idx, r.w.k, 0, 4);
    expect_bytes(&r.s, "qweight", r.w.qweight, r.w.k / 8, r.w.n, 4);
    end(&r);
}

/* uint4 with zero points: true ones, of no GPTQ checkpoint. */
static void marlin_with_zero_points(void **state)
{
    struct run_time r;
    uint32_t zeros[8 * FFN * 2 / 8];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof zeros / 4; i++)
        zeros[i] = (uint32_t)i * 2654435761u;
    as_marlin(&r, PLAIN, cut(PLAIN, gate_up, 1, 1, 0), "F16");
    assert_int_equal(td_marlin_pack_zeros(4, r.w.groups, r.w.n, zeros, 0, add(&r, "qzeros", "I32", r.w.groups, r.w.n / 8), NULL), 0);
    assert_int_equal(identify(&r), 0);
    assert_int_equal(r.s.matches, 0);
    assert_int_equal(extra(&r.s, "zero_offset"), 0);
    expect_bytes(&r.s, "qzeros", zeros, r.w.groups, r.w.n / 8, 4);
    end(&r);
}

/* The reference, followed, gives what is kept. */
static void expect_loaded(const struct run_time *r, int model, const char *role, const char *transforms)
{
    const struct td_checkpoint *ck = td_layer_index_checkpoint(models[model]);
    const int i = at(&r->s, role);
    char *text = cJSON_PrintUnformatted(td_json_get(r->s.t[i].rec.ref, "transforms"));
    struct td_error err = {0};
    void *data;
    size_t size;

    assert_string_equal(text, transforms);
    assert_int_equal(td_weight_ref_load(ck->tensors, ck->path, &r->s.t[i].rec, &data, &size, &err), 0);
    assert_int_equal(size, r->s.t[i].size);
    assert_memory_equal(data, r->s.t[i].data, size);
    free(data);
    free(text);
}

/* AWQ's layers, in a packing of their own: whole, and the second of two ranks. */
static void marlin_of_awq(void **state)
{
    struct run_time r;
    size_t i;
    int rank;

    (void)state;
    for (rank = 0; rank < 2; rank++)
        for (i = 0; i < LAYERS; i++) {
            bool one = !layers[i].names[1];

            as_marlin(&r, AWQ, cut(AWQ, layers[i].names, rank && !one ? 2 : 1, rank && one ? 2 : 1, rank), "F16");
            assert_int_equal(identify(&r), 0);
            assert_int_equal(r.s.matches, 1);
            assert_string_equal(r.s.layer, layers[i].layer);
            assert_int_equal(extra(&r.s, "zero_offset"), 0);
            expect_bytes(&r.s, "qweight", r.w.qweight, r.w.k / 8, r.w.n, 4);
            expect_bytes(&r.s, "qzeros", r.w.qzeros, r.w.groups, r.w.n / 8, 4);
            expect_loaded(&r, AWQ, "qweight", one ? "[\"awq-qweight\"]" : "[\"awq-qweight\",\"stack\"]");
            expect_loaded(&r, AWQ, "qzeros", one ? "[\"awq-qzeros\"]" : "[\"awq-qzeros\",\"stack\"]");
            expect_loaded(&r, AWQ, "scales", one ? "[]" : "[\"stack\"]");
            end(&r);
        }
    as_marlin(&r, AWQ, cut(AWQ, down, 1, 1, 0), "F16");
    r.bytes[0][r.t[0].size - 1] ^= 1;
    assert_int_equal(identify(&r), 0);
    assert_int_equal(r.s.matches, 0);
    end(&r);
}

/* With act-order marlin_gemm's weights are back in the checkpoint's order, whole with their g_idx. */
static void marlin_gemm_with_act_order(void **state)
{
    struct run_time r;
    size_t i;
    int what;

    (void)state;
    for (i = 0; i < LAYERS * 2; i++) {
        const int model = i % 2 ? EIGHT_ACT_ORDER : ACT_ORDER;

        as_marlin_operator(&r, model, cut(model, layers[i / 2].names, 1, 1, 0), i % 2 ? "BF16" : "F16");
        assert_int_equal(identify(&r), 0);
        expect_found(&r, layers[i / 2].layer, layers[i / 2].names);
        expect_bytes(&r.s, "g_idx", r.w.g_idx, r.w.k, 0, 4);
        assert_int_equal(extra(&r.s, "act_order"), 1);
        end(&r);
    }
    for (what = 0; what < 3; what++) {   /* no permutation; one that the rows do not have; one without a g_idx */
        as_marlin_operator(&r, ACT_ORDER, cut(ACT_ORDER, down, 1, 1, 0), "F16");
        if (what == 2)
            strcpy(r.t[2].rec.role, "other");
        else
            ((int32_t *)r.bytes[3])[3] = ((int32_t *)r.bytes[3])[4];
        if (what == 1)
            ((int32_t *)r.bytes[3])[4] = r.w.perm[3];
        assert_int_equal(identify(&r), 0);
        assert_int_equal(r.s.matches, 0);
        end(&r);
    }
}

static void awq_is_found(void **state)
{
    struct run_time r;

    (void)state;
    as_awq(&r, down[0]);
    assert_int_equal(identify(&r), 0);
    assert_int_equal(r.s.matches, 1);
    assert_string_equal(r.s.layer, down[0]);
    assert_int_equal(extra(&r.s, "zero_offset"), 0);
    expect_bytes(&r.s, "qweight", r.w.qweight, r.w.k / 8, r.w.n, 4);
    expect_bytes(&r.s, "qzeros", r.w.qzeros, r.w.groups, r.w.n / 8, 4);
    expect_loaded(&r, AWQ, "qweight", "[\"awq-qweight\"]");
    end(&r);
    as_awq(&r, down[0]);                 /* by awq_dequantize */
    r.s.kind = "dequantize";
    assert_int_equal(identify(&r), 0);
    assert_string_equal(r.s.layer, down[0]);
    expect_bytes(&r.s, "qweight", r.w.qweight, r.w.k / 8, r.w.n, 4);
    end(&r);
    as_awq(&r, down[0]);
    r.bytes[2][5] ^= 1;
    assert_int_equal(identify(&r), 0);
    assert_int_equal(r.s.matches, 0);
    end(&r);
    as_awq(&r, down[0]);                 /* of another form: as it was sent */
    r.t[0].rec.shape[0]++;
    assert_int_equal(identify(&r), 0);
    assert_int_equal(r.s.n, 3);
    assert_int_equal(r.s.t[0].rec.shape[1], r.w.n / 8);
    end(&r);
}

/* ---- one rank of several ------------------------------------------------------------------------------------------- */

static void expect_slice(const struct run_time *r, const char *role, const char *want)
{
    char *text = cJSON_PrintUnformatted(td_json_get(r->s.t[at(&r->s, role)].rec.ref, "slice"));

    assert_string_equal(text, want);
    free(text);
}

static void slices_of_ranks(void **state)
{
    struct run_time r;
    int marlin;

    (void)state;
    for (marlin = 0; marlin < 2; marlin++) {
        struct weight columns = cut(PLAIN, gate_up, 2, 1, 1), rows = cut(PLAIN, down, 1, 2, 1);

        marlin ? as_marlin(&r, PLAIN, columns, "F16") : as_exllama(&r, PLAIN, columns);
        assert_int_equal(identify(&r), 0);
        expect_found(&r, MLP ".gate_up_proj", gate_up);
        expect_slice(&r, "qweight", "[[[0,8],[128,256]],[[0,8],[128,256]]]");
        expect_slice(&r, "qzeros", "[[[0,2],[16,32]],[[0,2],[16,32]]]");
        expect_slice(&r, "scales", "[[[0,2],[128,256]],[[0,2],[128,256]]]");
        end(&r);
        marlin ? as_marlin(&r, PLAIN, rows, "F16") : as_exllama(&r, PLAIN, rows);
        assert_int_equal(identify(&r), 0);
        expect_found(&r, MLP ".down_proj", down);
        expect_slice(&r, "qweight", "[[16,32],[0,64]]");
        expect_slice(&r, "qzeros", "[[4,8],[0,8]]");
        expect_slice(&r, "scales", "[[4,8],[0,64]]");
        end(&r);
    }
    as_exllama(&r, EIGHT_ACT_ORDER, cut(EIGHT_ACT_ORDER, gate_up, 4, 1, 2));
    assert_int_equal(identify(&r), 0);
    expect_found(&r, MLP ".gate_up_proj", gate_up);
    expect_slice(&r, "qweight", "[[[0,16],[128,192]],[[0,16],[128,192]]]");
    expect_slice(&r, "g_idx", "null");
    end(&r);
}

/* ---- Machete ---------------------------------------------------------------------------------------------------------- */

/* Whatever the bytes of the server look like: the sample and the scales name the layer, and the checkpoint has the rest. */
static void machete_is_found(void **state)
{
    struct run_time r;
    size_t i;
    int model, bf16;

    (void)state;
    for (model = 0; model < GPTQ_MODELS; model++)
        for (i = 0; i < LAYERS; i++)
            for (bf16 = 0; bf16 < 2; bf16++) {
                bool act_order = model == ACT_ORDER || model == EIGHT_ACT_ORDER;

                as_machete(&r, model, cut(model, layers[i].names, 1, 1, 0), bf16 ? "BF16" : "F16");
                assert_int_equal(identify(&r), 0);
                assert_int_equal(r.s.n, 3);
                assert_int_equal(extra(&r.s, "act_order"), 0);
                expect_ref(&r.s, "scales", layers[i].names, bf16 ? "BF16" : NULL);
                if (act_order) {
                    assert_int_equal(r.s.matches, 1);
                    assert_string_equal(r.s.layer, layers[i].layer);
                    assert_null(r.s.t[0].rec.ref);
                    expect_sorted(&r);
                } else {
                    expect_found(&r, layers[i].layer, layers[i].names);
                }
                end(&r);
            }
}

static void machete_of_a_rank(void **state)
{
    struct run_time r;

    (void)state;
    as_machete(&r, PLAIN, cut(PLAIN, gate_up, 2, 1, 1), "F16");
    assert_int_equal(identify(&r), 0);
    expect_found(&r, MLP ".gate_up_proj", gate_up);
    expect_slice(&r, "qweight", "[[[0,8],[128,256]],[[0,8],[128,256]]]");
    end(&r);
    as_machete(&r, PLAIN, cut(PLAIN, down, 1, 2, 1), "F16");
    assert_int_equal(identify(&r), 0);
    expect_found(&r, MLP ".down_proj", down);
    expect_slice(&r, "qweight", "[[16,32],[0,64]]");
    end(&r);
}

/* vLLM: -1.0 * scales * zero points, in the type of the scales. */
static void add_scaled_zeros(struct run_time *r, const char *dtype)
{
    const enum td_dtype dt = td_dtype_parse(dtype);
    const uint16_t *scales = (const uint16_t *)r->bytes[1];
    uint16_t *zeros = add(r, "qzeros", dtype, r->w.groups, r->w.n);
    int64_t i;

    for (i = 0; i < r->w.groups * r->w.n; i++) {
        const float z = -(float)td_dtype_get(dt, scales, (size_t)i) * (float)(r->w.qzeros[i / 8] >> i % 8 * 4 & 15);

        zeros[i] = (uint16_t)td_dtype_bits(TD_DT_F32, &z, 0, dt);
    }
}

/* AWQ's layers, whole, and the second of two ranks: the integers of the zero points are back. */
static void machete_of_awq(void **state)
{
    struct run_time r;
    size_t i;
    int rank, bf16;

    (void)state;
    for (rank = 0; rank < 2; rank++)
        for (i = 0; i < LAYERS; i++)
            for (bf16 = 0; bf16 < 2; bf16++) {
                const bool one = !layers[i].names[1];
                const char *const dtype = bf16 ? "BF16" : "F16";

                as_machete(&r, AWQ, cut(AWQ, layers[i].names, rank && !one ? 2 : 1, rank && one ? 2 : 1, rank), dtype);
                add_scaled_zeros(&r, dtype);
                assert_int_equal(identify(&r), 0);
                assert_int_equal(r.s.matches, 1);
                assert_string_equal(r.s.layer, layers[i].layer);
                assert_int_equal(extra(&r.s, "zero_offset"), 0);
                expect_bytes(&r.s, "qweight", r.w.qweight, r.w.k / 8, r.w.n, 4);
                expect_bytes(&r.s, "qzeros", r.w.qzeros, r.w.groups, r.w.n / 8, 4);
                expect_loaded(&r, AWQ, "qweight", one ? "[\"awq-qweight\"]" : "[\"awq-qweight\",\"stack\"]");
                expect_loaded(&r, AWQ, "qzeros", one ? "[\"awq-qzeros\"]" : "[\"awq-qzeros\",\"stack\"]");
                end(&r);
            }
}

/* Zero points, or a type of them, that the layer has not; none: stored as they were sent, without a name. A zero may have
 * either sign. */
static void machete_of_other_zeros(void **state)
{
    struct run_time r;
    int what;

    (void)state;
    for (what = 0; what < 4; what++) {
        uint16_t *zeros;

        as_machete(&r, AWQ, cut(AWQ, gate_up, 1, 1, 0), "F16");
        if (what < 3)
            add_scaled_zeros(&r, "F16");
        zeros = (uint16_t *)r.bytes[2];
        if (what == 0)
            zeros[r.t[2].size / 2 - 1] ^= 1;
        else if (what == 1)
            strcpy(r.t[2].rec.dtype, "BF16");
        for (size_t i = 0; what == 2 && i < r.t[2].size / 2; i++)
            zeros[i] &= zeros[i] == 0x8000 ? 0 : 0xffff;
        assert_int_equal(identify(&r), 0);
        assert_int_equal(r.s.matches, what == 2);
        assert_int_equal(r.s.n, what == 3 ? 2 : 3);
        assert_string_equal(r.s.t[at(&r.s, "scales")].rec.dtype, "F16");
        end(&r);
    }
}

/* One word of the sample, or one scale, that no layer has; no sample; a value that changed since it was repacked: stored as it was sent, without a name. */
static void machete_of_another_model(void **state)
{
    struct run_time r;
    unsigned what;

    (void)state;
    for (what = 0; what < TD_FINGERPRINT_WORDS + 5; what++) {
        as_machete(&r, PLAIN, cut(PLAIN, qkv, 1, 1, 0), "F16");
        if (what < TD_FINGERPRINT_WORDS)
            r.sample.word[what] ^= 0x10000;
        else if (what == TD_FINGERPRINT_WORDS)
            ((uint16_t *)r.bytes[1])[5] ^= 1;
        else if (what == TD_FINGERPRINT_WORDS + 1)
            r.s.fingerprint = NULL;
        else if (what == TD_FINGERPRINT_WORDS + 2)
            r.sample.cols++;
        else if (what == TD_FINGERPRINT_WORDS + 3)
            ((uint32_t *)r.bytes[0])[7] ^= 1;
        else
            r.s.layers = NULL;
        assert_int_equal(identify(&r), 0);
        assert_int_equal(r.s.matches, 0);
        assert_string_equal(r.s.layer, "");
        assert_int_equal(r.s.n, 2);
        expect_bytes(&r.s, "qweight", r.bytes[0], r.w.k / 8, r.w.n, 4);
        end(&r);
    }
}

/* Samples of matrices of any width lie in every sixteenth of the rows and of the columns. */
static void samples_are_spread(void **state)
{
    static const int64_t sizes[][2] = {{16, 64}, {128, 4096}, {4096, 128}, {512, 6144}, {1376, 4096}, {2752, 12288}, {2048, 22016}, {57, 1000003}};
    size_t s;
    unsigned i;

    (void)state;
    for (s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int rows = 0, cols = 0;

        for (i = 0; i < TD_FINGERPRINT_WORDS; i++) {
            int64_t at = (int64_t)td_fingerprint_at((uint64_t)(sizes[s][0] * sizes[s][1]), i);

            rows |= 1 << at / sizes[s][1] * 16 / sizes[s][0];
            cols |= 1 << at % sizes[s][1] * 16 / sizes[s][1];
        }
        assert_int_equal(rows, 0xffff);
        assert_int_equal(cols, 0xffff);
    }
}

/* ---- what the op means ----------------------------------------------------------------------------------------------- */

enum { M = 3 };

static struct td_tensor tensor(const char *role, enum td_dtype dtype, const int64_t *shape, int ndim, const void *data, size_t bytes)
{
    struct td_tensor t = {.dtype = dtype, .ndim = ndim, .shape = {shape[0], ndim > 1 ? shape[1] : 0}, .strides = {ndim > 1 ? shape[1] : 1, ndim > 1},
                          .data = (void *)data, .size_bytes = bytes};

    snprintf(t.role, sizeof t.role, "%s", role);
    return t;
}

static void add_attr(struct td_op_call *op, const char *name, int64_t value)
{
    snprintf(op->attrs[op->n_attrs].name, sizeof op->attrs[0].name, "%s", name);
    op->attrs[op->n_attrs++].value = value;
}

/* The op of which these are the weights, as the fixture has it. */
static void op_of(const struct run_time *r, const uint16_t *a, struct td_op_call *op)
{
    const int64_t k = r->w.k, n = r->w.n;
    int i;

    memset(op, 0, sizeof *op);
    strcpy(op->kind, "gptq_gemm");
    add_attr(op, "m", M);
    for (i = 0; i < 4; i++)
        add_attr(op, r->attrs[i].name, r->attrs[i].value);
    for (i = 0; i < r->s.n_extra; i++)
        add_attr(op, r->s.extra[i].name, r->s.extra[i].value);
    op->in[op->n_in++] = tensor("a", TD_DT_F16, (int64_t[]){M, k}, 2, a, (size_t)(M * k) * 2);
    for (i = 0; i < r->s.n; i++)
        op->in[op->n_in++] = tensor(r->s.t[i].rec.role, td_dtype_parse(r->s.t[i].rec.dtype), r->s.t[i].rec.shape, r->s.t[i].rec.ndim, r->s.t[i].data, r->s.t[i].size);
    op->out = tensor("c", TD_DT_F16, (int64_t[]){M, n}, 2, NULL, (size_t)(M * n) * 2);
}

/* What the model's authors mean: A times the checkpoint's layer. sorted: the kernel is given A with its columns sorted as the rows are. */
static void expect_product(int model, const char *name, struct run_time *r, bool sorted)
{
    const struct td_gptq_weight *g = td_checkpoint_find(td_layer_index_checkpoint(models[model]), name);
    double *w = malloc((size_t)(g->k * g->n) * sizeof *w);
    uint16_t a[M * FFN], given[M * FFN];
    const struct td_op_kind *kind = td_op_kind_find("gptq_gemm");
    struct td_error err = {0};
    struct td_op_call op;
    struct td_op_ref ref;
    int64_t i, j, k;

    td_gptq_dequant_f64(g, w);
    for (i = 0; i < M * g->k; i++)
        a[i] = td_f32_to_f16((float)(i * 37 % 101 - 50) / 64);
    for (i = 0; i < M * g->k; i++)
        given[i] = sorted ? a[i / g->k * g->k + r->w.perm[i % g->k]] : a[i];
    assert_int_equal(identify(r), 0);
    op_of(r, given, &op);
    assert_non_null(kind);
    assert_int_equal(kind->check(&op, &err), 0);
    assert_int_equal(kind->reference(&op, &ref, &err), 0);
    for (i = 0; i < M; i++)
        for (j = 0; j < g->n; j++) {
            double sum = 0;

            for (k = 0; k < g->k; k++)
                sum += (double)td_f16_to_f32(a[i * g->k + k]) * w[k * g->n + j];
            assert_true(fabs(sum - ref.r0[i * g->n + j]) < 1e-9);
        }
    td_op_ref_release(&ref);
    free(w);
    end(r);
}

static void the_product_is_the_models(void **state)
{
    struct run_time r;

    (void)state;
    as_exllama(&r, ACT_ORDER, cut(ACT_ORDER, down, 1, 1, 0));
    expect_product(ACT_ORDER, down[0], &r, false);
    as_exllama(&r, EIGHT, cut(EIGHT, down, 1, 1, 0));
    r.s.layers = NULL;                 /* an unknown layer means the same */
    expect_product(EIGHT, down[0], &r, false);
    as_marlin(&r, PLAIN, cut(PLAIN, down, 1, 1, 0), "F16");
    r.s.layers = NULL;
    expect_product(PLAIN, down[0], &r, false);
    as_marlin(&r, EIGHT_ACT_ORDER, cut(EIGHT_ACT_ORDER, down, 1, 1, 0), "F16");
    expect_product(EIGHT_ACT_ORDER, down[0], &r, true);
}

/* ---- what cannot be ------------------------------------------------------------------------------------------------ */

static void expect_as_sent(struct run_time *r)
{
    assert_int_equal(identify(r), 0);
    assert_int_equal(r->s.matches, 0);
    assert_int_equal(r->s.n, r->s.n_sent);
    assert_ptr_equal(r->s.t[0].data, r->bytes[0]);
    end(r);
}

/* Another process says what it likes. */
static void lies_are_not_followed(void **state)
{
    struct run_time r;
    int i, marlin;

    (void)state;
    for (marlin = 0; marlin < 2; marlin++)
        for (i = 0; i < 10; i++) {
            struct weight w = cut(ACT_ORDER, down, 1, 1, 0);

            marlin ? as_marlin(&r, ACT_ORDER, w, "F16") : as_exllama(&r, ACT_ORDER, w);
            switch (i) {
            case 0: r.attrs[0].value *= 2; break;
            case 1: r.attrs[1].value = INT64_MAX / 32 * 32; break;
            case 2: r.attrs[2].value = 2; break;
            case 3: r.attrs[3].value = 0; break;
            case 4: r.attrs[3].value = 1; break;
            case 5: r.t[0].size /= 2; break;
            case 6: r.t[1].rec.role[0] = 'x'; break;
            case 7: r.attrs[0].value = -64; break;
            case 8:
                if (marlin)
                    ((int32_t *)add(&r, "g_idx", "I32", r.w.k, 0))[3] = 8;
                else
                    ((int32_t *)r.bytes[3])[3] = ((int32_t *)r.bytes[3])[4];
                break;
            default: add(&r, marlin ? "g_idx" : "perm", "I32", 3, 0); if (!marlin) r.t[3].size = 4; break;
            }
            expect_as_sent(&r);
        }
    as_marlin(&r, PLAIN, cut(PLAIN, down, 1, 1, 0), "F16");
    add(&r, "bias", "F16", 3, 0);
    expect_as_sent(&r);
}

/* ---- more ranks than heads; padding ---------------------------------------------------------------------------------- */

static const char *const only_q[] = {ATTENTION ".q_proj", NULL}, *const only_k[] = {ATTENTION ".k_proj", NULL}, *const only_v[] = {ATTENTION ".v_proj", NULL};

static int64_t slice_at(const struct td_weight_set *s, int part, int dimension, int end)
{
    const cJSON *one = cJSON_GetArrayItem(td_json_get(s->t[0].rec.ref, "slice"), part);

    return (int64_t)cJSON_GetArrayItem(cJSON_GetArrayItem(one, dimension), end)->valuedouble;
}

/* Four ranks share four heads of q and two of k and v: two ranks each have the same k and v. Eight have half a head of q,
 * and four each the same. */
static void shared_heads_are_found(void **state)
{
    struct run_time r;
    int ranks, rank;

    (void)state;
    for (ranks = 4; ranks <= 8; ranks += 4)
        for (rank = 0; rank < ranks; rank++) {
            const int head = rank / (ranks / 2);

            as_exllama(&r, PLAIN, beside(cut(PLAIN, only_q, ranks, 1, rank), beside(cut(PLAIN, only_k, 2, 1, head), cut(PLAIN, only_v, 2, 1, head))));
            assert_int_equal(identify(&r), 0);
            expect_found(&r, ATTENTION ".qkv_proj", qkv);
            assert_int_equal(slice_at(&r.s, 0, 1, 0), rank * 64 / ranks);
            assert_int_equal(slice_at(&r.s, 1, 1, 0), head * 16);
            assert_int_equal(slice_at(&r.s, 2, 1, 1), head * 16 + 16);
            expect_loaded(&r, PLAIN, "qweight", "[\"stack\"]");
            end(&r);
        }
    /* k of one head beside v of the other: no rank has that */
    as_exllama(&r, PLAIN, beside(cut(PLAIN, only_q, 4, 1, 0), beside(cut(PLAIN, only_k, 2, 1, 0), cut(PLAIN, only_v, 2, 1, 1))));
    assert_int_equal(identify(&r), 0);
    assert_int_equal(r.s.matches, 0);
    end(&r);
}

static void expect_padded(struct run_time *r, const char *layer)
{
    assert_int_equal(identify(r), 0);
    assert_int_equal(r->s.matches, 1);
    assert_string_equal(r->s.layer, layer);
    expect_bytes(&r->s, "qweight", r->w.qweight, r->w.k / 8, r->w.n, 4);
    assert_null(r->s.t[at(&r->s, "qweight")].rec.ref);
    assert_null(r->s.t[at(&r->s, "scales")].rec.ref);
}

/* Outputs, inputs or both are padded for Marlin: the layer is named, and its bytes are stored. */
static void padded_layers_are_named(void **state)
{
    struct run_time r;
    struct weight w;

    (void)state;
    as_marlin(&r, PLAIN, padded(cut(PLAIN, down, 1, 1, 0), 128, FFN), "F16");
    expect_padded(&r, MLP ".down_proj");
    end(&r);
    as_marlin(&r, PLAIN, padded(cut(PLAIN, gate_up, 1, 1, 0), 2 * FFN, 128), "BF16");
    expect_padded(&r, MLP ".gate_up_proj");
    end(&r);
    as_marlin(&r, AWQ, padded(cut(AWQ, down, 1, 1, 0), 128, FFN + 64), "F16");
    expect_padded(&r, MLP ".down_proj");
    end(&r);
    /* of one of two ranks, which share the outputs, or the inputs */
    as_marlin(&r, PLAIN, padded(cut(PLAIN, qkv, 2, 1, 1), 128, 128), "F16");
    expect_padded(&r, ATTENTION ".qkv_proj");
    end(&r);
    as_marlin(&r, PLAIN, padded(cut(PLAIN, down, 1, 2, 1), 128, FFN / 2), "F16");
    expect_padded(&r, MLP ".down_proj");
    end(&r);
    /* what lies behind the outputs is no padding */
    w = padded(cut(PLAIN, down, 1, 1, 0), 128, FFN);
    w.scales[127] = 0x3c00;
    as_marlin(&r, PLAIN, w, "F16");
    assert_int_equal(identify(&r), 0);
    assert_int_equal(r.s.matches, 0);
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exllama_is_found),     cmocka_unit_test(exllama_sorted_otherwise), cmocka_unit_test(exllama_perm_of_nothing),
        cmocka_unit_test(zero_offset_becomes_the_checkpoints), cmocka_unit_test(other_content_is_unshuffled),
        cmocka_unit_test(marlin_is_found),      cmocka_unit_test(marlin_keeps_a_bias),      cmocka_unit_test(marlin_sorted_rows),
        cmocka_unit_test(marlin_keeps_g_idx),   cmocka_unit_test(marlin_with_zero_points),  cmocka_unit_test(slices_of_ranks),
        cmocka_unit_test(marlin_gemm_with_act_order), cmocka_unit_test(awq_is_found), cmocka_unit_test(machete_of_awq), cmocka_unit_test(machete_of_other_zeros),
        cmocka_unit_test(machete_is_found),     cmocka_unit_test(machete_of_a_rank),        cmocka_unit_test(machete_of_another_model),
        cmocka_unit_test(samples_are_spread),
        cmocka_unit_test(the_product_is_the_models), cmocka_unit_test(marlin_of_awq),
        cmocka_unit_test(lies_are_not_followed), cmocka_unit_test(marlin_rows_that_are_not_there),
        cmocka_unit_test(shared_heads_are_found),
        cmocka_unit_test(padded_layers_are_named),
    };

    return cmocka_run_group_tests_name("identify_gpu", tests, setup, teardown);
}
