/* test_identify_moe.c - experts as vLLM has them for Marlin and for moe_wna16_gemm become the checkpoint's, with the layer's name.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/json.h"
#include "model/awq.h"
#include "model/checkpoint.h"
#include "model/gptq.h"
#include "model/identify/identify.h"
#include "model/marlin_layout.h"
#include "replayer/weight_ref.h"
#include "tiny_models.h"

#define MLP "model.layers.0.mlp.experts"
enum { FFN = 128, EXPERTS = 5, TENSORS = 6 };
enum { PLAIN, ACT_ORDER, EIGHT, MIXTRAL, AWQ, DENSE, MODELS };

static char root[] = "/tmp/td-identify-moe-XXXXXX";
static struct td_layer_index *models[MODELS];

static int setup(void **state)
{
    static const struct tiny_spoil spoil[MODELS] = {{.ffn = FFN, .experts = EXPERTS}, {.ffn = FFN, .experts = EXPERTS, .act_order = true},
                                                    {.ffn = FFN, .experts = EXPERTS, .bits = 8}, {.ffn = FFN, .experts = EXPERTS, .mixtral = true},
                                                    {.ffn = FFN, .experts = EXPERTS, .awq = true}, {.ffn = FFN}};

    (void)state;
    return tiny_models_open(root, spoil, MODELS, models);
}

static int teardown(void **state)
{
    (void)state;
    return tiny_models_close(root, MODELS, models);
}

/* ---- what a server has ----------------------------------------------------------------------------------------------- */

/* The experts [first, first + count) of the layer, parts stacked along n: want, as the checkpoint has them; sent, as the server has. */
struct moe {
    int bits;
    int64_t count, n, k, groups;
    uint32_t *qweight, *qzeros;
    uint16_t *scales, *bias;
    int32_t *g_idx;
    struct td_weight_set s;
    struct td_weight_tensor t[TENSORS];
    struct td_attr attrs[6];
};

static void *add(struct moe *m, const char *role, const char *dtype, int64_t d1, int64_t d2)
{
    struct td_weight_tensor *w = &m->t[m->s.n_sent++];
    struct td_tensor_rec *r = &w->rec;

    snprintf(r->role, sizeof r->role, "%s", role);
    snprintf(r->dtype, sizeof r->dtype, "%s", dtype);
    r->ndim = d2 ? 3 : 2;
    memcpy(r->shape, (int64_t[]){m->count, d1, d2}, 3 * sizeof *r->shape);
    memcpy(r->strides, d2 ? (int64_t[]){d1 * d2, d2, 1} : (int64_t[]){d1, 1, 0}, 3 * sizeof *r->strides);
    w->size = (size_t)(m->count * d1 * (d2 ? d2 : 1)) * td_dtype_size(td_dtype_parse(dtype));
    w->owned = calloc(1, w->size + 1);
    w->data = w->owned;
    return w->owned;
}

static const struct td_gptq_weight *layer(int model, int64_t e, const char *part)
{
    char name[96];
    const struct td_gptq_weight *g;

    snprintf(name, sizeof name, MLP ".%d.%s", (int)e, part);
    g = td_checkpoint_find(td_layer_index_checkpoint(models[model]), name);
    assert_non_null(g);
    return g;
}

/* Columns n0 … of expert i's place become layer g. */
static void put_part(struct moe *m, int64_t i, int64_t n0, const struct td_gptq_weight *g)
{
    const int64_t pack = 32 / m->bits;
    uint32_t *unpacked = g->awq ? malloc((size_t)(g->k * g->n / 2)) : NULL;
    const uint32_t *q = g->awq ? unpacked : g->qweight;
    int64_t r;

    if (g->awq)
        td_awq_unpack_weight(g->k, g->n, g->awq, unpacked);
    for (r = 0; r < m->k / pack; r++)
        memcpy(m->qweight + (i * (m->k / pack) + r) * m->n + n0, q + r * g->n, (size_t)g->n * 4);
    for (r = 0; r < m->groups; r++) {
        memcpy(m->qzeros + ((i * m->groups + r) * m->n + n0) / pack, g->qzeros + r * g->n / pack, (size_t)(g->n / pack) * 4);
        memcpy(m->scales + (i * m->groups + r) * m->n + n0, g->scales + r * g->n, (size_t)g->n * 2);
    }
    for (r = 0; m->g_idx && r < m->k; r++)
        m->g_idx[i * m->k + r] = g->g_idx[r];
    free(unpacked);
}

static void send(struct moe *m, int model)
{
    const int64_t pack = 32 / m->bits, words = m->k / pack * m->n, zeros = m->groups * m->n / pack, i_scales = m->groups * m->n;
    uint32_t *q = add(m, "qweight", "I32", m->k / 16, m->n * m->bits / 2), *z = NULL;
    uint16_t *s = add(m, "scales", "F16", m->groups, m->n), *b;
    int32_t *g = m->g_idx ? add(m, "g_idx", "I32", m->k, 0) : NULL, *perm = m->g_idx ? add(m, "perm", "I32", m->k, 0) : NULL;
    int64_t i, r;

    z = model == AWQ ? add(m, "qzeros", "I32", m->groups, m->n / pack) : NULL;
    b = m->bias ? add(m, "bias", "F16", m->n, 0) : NULL;
    for (i = 0; i < m->count; i++) {
        if (perm) {
            const struct td_gptq_weight sorted = {.k = m->k, .groups = m->groups, .group_size = 32, .g_idx = m->g_idx + i * m->k};

            td_gptq_argsort_groups(&sorted, perm + i * m->k);
            for (r = 0; r < m->k; r++)
                g[i * m->k + r] = m->g_idx[i * m->k + perm[i * m->k + r]];
        }
        assert_int_equal(td_marlin_repack(m->bits, m->k, m->n, m->qweight + i * words, perm ? perm + i * m->k : NULL, q + i * words, NULL), 0);
        assert_int_equal(td_marlin_permute_scales(m->groups, m->n, m->scales + i * i_scales, s + i * i_scales, NULL), 0);
        if (z)
            assert_int_equal(td_marlin_pack_zeros(4, m->groups, m->n, m->qzeros + i * zeros, 0, z + i * zeros, NULL), 0);
        if (b)
            assert_int_equal(td_marlin_permute_scales(1, m->n, m->bias + i * m->n, b + i * m->n, NULL), 0);
    }
}

static void reset(struct moe *m)
{
    int i;

    for (i = 0; i < TENSORS; i++)
        free(m->t[i].owned);
    memset(m->t, 0, sizeof m->t);
    m->s.n_sent = 0;
}

/* As moe_wna16.py of vLLM 0.26 loads them: numbers of output n side by side in bytes, the first in the low bits. */
static void send_wna16(struct moe *m, int model)
{
    const int64_t bits = m->bits, pack = 32 / bits, per_byte = 8 / bits, bytes = m->k * bits / 8;
    unsigned char *q, *z;
    uint16_t *s;
    int64_t i, n, j;

    reset(m);
    q = add(m, "qweight", "U8", m->n, bytes);
    s = add(m, "scales", "F16", m->n, m->groups);
    z = model == AWQ ? add(m, "qzeros", "U8", m->n / per_byte, m->groups) : NULL;
    m->s.layout = "wna16";
    for (i = 0; i < m->count; i++)
        for (n = 0; n < m->n; n++) {
            for (j = 0; j < m->k; j++) {
                const uint32_t number = m->qweight[(i * (m->k / pack) + j / pack) * m->n + n] >> j % pack * bits & ((1u << bits) - 1);

                q[(i * m->n + n) * bytes + j / per_byte] |= (unsigned char)(number << j % per_byte * bits);
            }
            for (j = 0; j < m->groups; j++) {
                const uint32_t zero = m->qzeros[((i * m->groups + j) * m->n + n) / pack] >> n % pack * bits & ((1u << bits) - 1);

                s[(i * m->n + n) * m->groups + j] = m->scales[(i * m->groups + j) * m->n + n];
                if (z)
                    z[(i * (m->n / per_byte) + n / per_byte) * m->groups + j] |= (unsigned char)(zero << n % per_byte * bits);
            }
        }
}

/* As an operator of the user's reads them (--ops): each expert as a GPTQ checkpoint has it. zero_offset -1: without zero points. */
static void send_own(struct moe *m, int zero_offset)
{
    const int64_t pack = 32 / m->bits, count = m->count;

    reset(m);
    memcpy(add(m, "qweight", "I32", m->k / pack, m->n), m->qweight, (size_t)(count * m->k / pack * m->n) * 4);
    memcpy(add(m, "scales", "F16", m->groups, m->n), m->scales, (size_t)(count * m->groups * m->n) * 2);
    if (zero_offset >= 0)
        memcpy(add(m, "qzeros", "I32", m->groups, m->n / pack), m->qzeros, (size_t)(count * m->groups * m->n / pack) * 4);
    if (m->g_idx)
        memcpy(add(m, "g_idx", "I32", m->k, 0), m->g_idx, (size_t)(count * m->k) * 4);
    if (m->bias)
        memcpy(add(m, "bias", "F16", m->n, 0), m->bias, (size_t)(count * m->n) * 2);
    m->attrs[5] = (struct td_attr){"zero_offset", zero_offset != 0}, m->s.n_attrs = 6;
    m->s.layout = "gptq";
}

static void moe(struct moe *m, int model, const char *first, const char *second, int64_t from, int64_t count, bool bias)
{
    const struct td_gptq_weight *g = layer(model, from, first);
    const int64_t pack = 32 / g->bits;
    int64_t i;

    memset(m, 0, sizeof *m);
    m->bits = g->bits, m->count = count, m->k = g->k, m->groups = g->groups;
    m->n = g->n * (second ? 2 : 1);
    m->qweight = calloc((size_t)(count * m->k / pack * m->n), 4);
    m->qzeros = calloc((size_t)(count * m->groups * m->n / pack), 4);
    m->scales = calloc((size_t)(count * m->groups * m->n), 2);
    m->g_idx = g->g_idx ? calloc((size_t)(count * m->k), 4) : NULL;
    m->bias = bias ? calloc((size_t)(count * m->n), 2) : NULL;
    for (i = 0; bias && i < count * m->n; i++)
        m->bias[i] = (uint16_t)i;
    for (i = 0; i < count; i++) {
        put_part(m, i, 0, layer(model, from + i, first));
        if (second)
            put_part(m, i, m->n / 2, layer(model, from + i, second));
    }
    m->attrs[0] = (struct td_attr){"n", m->n}, m->attrs[1] = (struct td_attr){"k", m->k}, m->attrs[2] = (struct td_attr){"bits", m->bits};
    m->attrs[3] = (struct td_attr){"group_size", m->k / m->groups}, m->attrs[4] = (struct td_attr){"experts", count};
    m->s = (struct td_weight_set){.kind = "moe_gemm", .layout = "marlin", .attrs = m->attrs, .n_attrs = 5, .sent = m->t, .layers = models[model]};
    send(m, model);
}

static void end(struct moe *m)
{
    int i;

    td_weight_set_release(&m->s);
    for (i = 0; i < TENSORS; i++)
        free(m->t[i].owned);
    free(m->qweight), free(m->qzeros), free(m->scales), free(m->g_idx), free(m->bias);
}

static void identify(struct moe *m)
{
    struct td_error err = {0};

    if (td_identify_weights(&m->s, &err))
        fail_msg("%s", err.msg);
}

/* ---- expectations ---------------------------------------------------------------------------------------------------- */

static void expect(const struct moe *m, const char *role, const void *bytes, int ndim, int64_t d1, int64_t d2, size_t elem)
{
    int i;

    for (i = 0; i < m->s.n && strcmp(m->s.t[i].rec.role, role); i++)
        ;
    assert_true(i < m->s.n);
    assert_int_equal(m->s.t[i].rec.ndim, ndim);
    assert_true(m->s.t[i].rec.shape[0] == m->count && m->s.t[i].rec.shape[1] == d1 && (ndim < 3 || m->s.t[i].rec.shape[2] == d2));
    assert_int_equal(m->s.t[i].rec.strides[0], d1 * (ndim < 3 ? 1 : d2));
    assert_int_equal(m->s.t[i].size, (size_t)(m->count * d1 * (ndim < 3 ? 1 : d2)) * elem);
    assert_memory_equal(m->s.t[i].data, bytes, m->s.t[i].size);
}

static int64_t extra(const struct moe *m, const char *name)
{
    int i;

    for (i = 0; i < m->s.n_extra; i++)
        if (!strcmp(m->s.extra[i].name, name))
            return m->s.extra[i].value;
    return -1;
}

static void expect_unpacked(const struct moe *m)
{
    const int64_t pack = 32 / m->bits;

    expect(m, "qweight", m->qweight, 3, m->k / pack, m->n, 4);
    expect(m, "qzeros", m->qzeros, 3, m->groups, m->n / pack, 4);
    expect(m, "scales", m->scales, 3, m->groups, m->n, 2);
    if (m->g_idx)
        expect(m, "g_idx", m->g_idx, 2, m->k, 0, 4);
    if (m->bias)
        expect(m, "bias", m->bias, 2, m->n, 0, 2);
    assert_int_equal(m->s.n, 3 + (m->g_idx != NULL) + (m->bias != NULL));
    assert_int_equal(extra(m, "act_order"), m->g_idx != NULL);
}

/* Every tensor but a bias has a reference, which, followed, gives what is kept. from: the number of the first expert. */
static void expect_refs(const struct moe *m, int64_t from)
{
    const struct td_checkpoint *ck = td_layer_index_checkpoint(m->s.layers);
    int i;

    for (i = 0; i < m->s.n; i++) {
        const struct td_tensor_rec *t = &m->s.t[i].rec;
        struct td_error err = {0};
        void *data;
        size_t size;

        if (!strcmp(t->role, "bias")) {
            assert_null(t->ref);
            continue;
        }
        assert_non_null(t->ref);
        assert_true(cJSON_GetArrayItem(td_json_get(t->ref, "experts"), 0)->valuedouble == (double)from);
        assert_int_equal(td_weight_ref_load(ck->tensors, ck->path, t, &data, &size, &err), 0);
        assert_int_equal(size, m->s.t[i].size);
        assert_memory_equal(data, m->s.t[i].data, size);
        free(data);
    }
}

static void experts_are_found(void **state)
{
    static const struct { int model; const char *first, *second, *name; } all[] = {
        {PLAIN, "gate_proj", "up_proj", MLP ".gate_up_proj"}, {PLAIN, "down_proj", NULL, MLP ".down_proj"},
        {ACT_ORDER, "gate_proj", "up_proj", MLP ".gate_up_proj"}, {ACT_ORDER, "down_proj", NULL, MLP ".down_proj"},
        {EIGHT, "gate_proj", "up_proj", MLP ".gate_up_proj"}, {MIXTRAL, "w1", "w3", MLP ".w13"}, {MIXTRAL, "w2", NULL, MLP ".w2"},
        {AWQ, "gate_proj", "up_proj", MLP ".gate_up_proj"}, {AWQ, "down_proj", NULL, MLP ".down_proj"}};
    struct moe m;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof all / sizeof *all; i++) {
        moe(&m, all[i].model, all[i].first, all[i].second, 0, EXPERTS, i % 2);
        identify(&m);
        assert_int_equal(m.s.matches, 1);
        assert_string_equal(m.s.layer, all[i].name);
        expect_unpacked(&m);
        assert_int_equal(extra(&m, "zero_offset"), all[i].model != AWQ);
        expect_refs(&m, 0);
        end(&m);
    }
}

static void experts_of_ones_own(void **state)
{
    static const struct { int model; const char *first, *second, *name; int zero_offset; } all[] = {
        {PLAIN, "gate_proj", "up_proj", MLP ".gate_up_proj", 1}, {PLAIN, "down_proj", NULL, MLP ".down_proj", -1}, {ACT_ORDER, "down_proj", NULL, MLP ".down_proj", 1},
        {AWQ, "gate_proj", "up_proj", MLP ".gate_up_proj", 0}};
    struct moe m;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof all / sizeof *all; i++) {
        moe(&m, all[i].model, all[i].first, all[i].second, 0, EXPERTS, i % 2);
        send_own(&m, all[i].zero_offset);
        identify(&m);
        assert_string_equal(m.s.layer, all[i].name);
        expect_unpacked(&m);
        assert_int_equal(extra(&m, "zero_offset"), all[i].zero_offset != 0);
        expect_refs(&m, 0);
        end(&m);
    }
    moe(&m, PLAIN, "down_proj", NULL, 0, EXPERTS, false);
    send_own(&m, 1);
    m.t[1].rec.shape[2]++;               /* of another form: as it was sent */
    identify(&m);
    assert_int_equal(m.s.n, 3);
    assert_int_equal(m.s.layer[0], 0);
    end(&m);
}

/* A rank of expert parallelism has some of them. */
static void experts_of_a_rank(void **state)
{
    struct moe m;

    (void)state;
    moe(&m, PLAIN, "gate_proj", "up_proj", 2, 3, false);
    identify(&m);
    assert_string_equal(m.s.layer, MLP ".gate_up_proj");
    expect_unpacked(&m);
    expect_refs(&m, 2);
    end(&m);
}

/* One expert that is another: the layout is undone all the same, and there is no name. */
static void experts_of_another_model(void **state)
{
    struct moe m;

    (void)state;
    moe(&m, PLAIN, "gate_proj", "up_proj", 0, EXPERTS, false);
    ((uint32_t *)m.t[0].owned)[m.t[0].size / 4 - 1] ^= 1;
    identify(&m);
    assert_int_equal(m.s.matches, 0);
    assert_string_equal(m.s.layer, "");
    assert_int_equal(m.s.n, 3);
    assert_true(!m.s.t[0].rec.ref && !m.s.t[1].rec.ref && !m.s.t[2].rec.ref);
    assert_memory_not_equal(m.s.t[0].data, m.qweight, m.s.t[0].size);
    end(&m);
    moe(&m, PLAIN, "up_proj", "gate_proj", 0, EXPERTS, false); /* stacked the wrong way round */
    identify(&m);
    assert_int_equal(m.s.matches, 0);
    expect_unpacked(&m);
    end(&m);
    moe(&m, PLAIN, "down_proj", NULL, 0, EXPERTS, false);
    m.s.layers = models[DENSE];
    identify(&m);
    assert_int_equal(m.s.matches, 0);
    expect_unpacked(&m);
    end(&m);
}

/* The same for moe_wna16_gemm. */
static void experts_of_wna16(void **state)
{
    static const struct { int model; const char *first, *second, *name; } all[] = {
        {PLAIN, "gate_proj", "up_proj", MLP ".gate_up_proj"}, {EIGHT, "down_proj", NULL, MLP ".down_proj"}, {MIXTRAL, "w1", "w3", MLP ".w13"},
        {AWQ, "gate_proj", "up_proj", MLP ".gate_up_proj"}, {AWQ, "down_proj", NULL, MLP ".down_proj"}};
    struct moe m;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof all / sizeof *all; i++) {
        moe(&m, all[i].model, all[i].first, all[i].second, 0, EXPERTS, false);
        send_wna16(&m, all[i].model);
        identify(&m);
        assert_int_equal(m.s.matches, 1);
        assert_string_equal(m.s.layer, all[i].name);
        expect_unpacked(&m);
        assert_int_equal(extra(&m, "zero_offset"), all[i].model != AWQ);
        expect_refs(&m, 0);
        end(&m);
    }
    for (i = 0; i < 4; i++) {
        moe(&m, AWQ, "down_proj", NULL, 0, EXPERTS, false);
        send_wna16(&m, AWQ);
        switch (i) {
        case 0: m.t[0].rec.shape[2]++; break;
        case 1: strcpy(m.t[2].rec.dtype, "I8"); break;
        case 2: m.t[1].data = NULL, m.t[1].size = 0; break;
        default: m.attrs[3].value = 64;
        }
        identify(&m);
        assert_int_equal(m.s.n, m.s.n_sent);
        assert_string_equal(m.s.layer, "");
        end(&m);
    }
}

/* What does not hold together is stored as it was sent. */
static void lies_are_not_followed(void **state)
{
    struct moe m;
    int i;

    (void)state;
    for (i = 0; i < 8; i++) {
        moe(&m, ACT_ORDER, "gate_proj", "up_proj", 0, EXPERTS, true);
        switch (i) {
        case 0: m.attrs[4].value = 0; break;
        case 1: m.attrs[4].value = INT64_MAX; break;
        case 2: m.attrs[4].value = EXPERTS - 1; break;
        case 3: m.attrs[3].value = 64; break;
        case 4: ((int32_t *)m.t[3].owned)[5] = ((int32_t *)m.t[3].owned)[6]; break; /* no permutation */
        case 5: ((int32_t *)m.t[2].owned)[5] = 99; break;
        case 6: strcpy(m.t[3].rec.role, "other"); break; /* g_idx without perm */
        default: m.t[1].data = NULL, m.t[1].size = 0;
        }
        identify(&m);
        assert_int_equal(m.s.n, m.s.n_sent);
        assert_string_equal(m.s.layer, "");
        assert_ptr_equal(m.s.t[0].data, m.t[0].owned);
        end(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_found), cmocka_unit_test(experts_of_ones_own),
        cmocka_unit_test(experts_of_a_rank),
        cmocka_unit_test(experts_of_another_model),
        cmocka_unit_test(experts_of_wna16),
        cmocka_unit_test(lies_are_not_followed),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
