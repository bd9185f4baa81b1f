/* op_variety.c - how varied the data of the replayed ops is.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_variety.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "format/m_class.h"
#include "kernels/ops/moe_gemm_op.h"
#include "kernels/ops/moe_scaled_mm_op.h"

struct td_variety_weight { uint64_t key; uint64_t *routed; int64_t experts; bool taken; };

/* ---- the weights that were seen -------------------------------------------------------------- */

static struct td_variety_weight *find_place(struct td_variety_weight *table, size_t cap, uint64_t key)
{
    size_t i = (size_t)(key * 0x9e3779b97f4a7c15u) & (cap - 1);

    while (table[i].taken && table[i].key != key)
        i = (i + 1) & (cap - 1);
    return &table[i];
}

static bool grow(struct td_op_variety *v)
{
    const size_t cap = v->cap ? 2 * v->cap : 256;
    struct td_variety_weight *table = calloc(cap, sizeof *table);
    size_t i;

    if (!table)
        return false;
    for (i = 0; i < v->cap; i++)
        if (v->weights[i].taken)
            *find_place(table, cap, v->weights[i].key) = v->weights[i];
    free(v->weights);
    v->weights = table;
    v->cap = cap;
    return true;
}

/* The weight; *is_new: no op had it before. NULL: there is no room for it. */
static struct td_variety_weight *find_weight(struct td_op_variety *v, uint64_t key, bool *is_new)
{
    struct td_variety_weight *w;

    *is_new = true;
    if (2 * v->n_weights >= v->cap && (v->n_weights >= TD_VARIETY_MAX_WEIGHTS || !grow(v))) {
        v->full = true;
        return NULL;
    }
    w = find_place(v->weights, v->cap, key);
    *is_new = !w->taken;
    v->n_weights += *is_new;
    w->key = key;
    w->taken = true;
    return w;
}

static struct td_variety_kind *find_kind(struct td_op_variety *v, const char *name)
{
    int i;

    for (i = 0; i < v->n; i++)
        if (!strcmp(v->kind[i].kind, name))
            return &v->kind[i];
    if (v->n == TD_VARIETY_MAX_KINDS) {
        v->full = true;
        return NULL;
    }
    memcpy(v->kind[v->n].kind, name, sizeof v->kind->kind);
    return &v->kind[v->n++];
}

/* ---- what is in a weight --------------------------------------------------------------------- */

static void join(enum td_varies *have, bool varies)
{
    if (*have != TD_VARIES)
        *have = varies ? TD_VARIES : TD_VARIES_NOT;
}

static size_t bytes_of(const struct td_tensor *t)
{
    size_t n = td_dtype_size(t->dtype);
    int d;

    for (d = 0; d < t->ndim; d++)
        n *= (size_t)t->shape[d];
    return n < t->size_bytes ? n : t->size_bytes;
}

/* Are all elements of `size` bytes equal? */
static bool is_uniform(const struct td_tensor *t, size_t size)
{
    const size_t n = bytes_of(t);

    return n <= size || !memcmp(t->data, (const char *)t->data + size, n - size);
}

static void add_zero_points(struct td_variety_kind *k, const struct td_op_call *op)
{
    const struct td_tensor *t = td_op_in(op, "qzeros");
    const int64_t bits = td_op_attr(op, "bits", 0);
    uint32_t word;
    int64_t zero;
    bool varies;

    if (!t || bytes_of(t) < sizeof word || bits < 1 || bits > 16)
        return;
    memcpy(&word, t->data, sizeof word);
    varies = !is_uniform(t, sizeof word) || word != (word >> bits | word << (32 - bits));
    zero = varies ? -1 : (int64_t)(word & ((1u << bits) - 1)) + td_op_attr(op, "zero_offset", 1);
    if (k->zero_points == TD_VARIES_ABSENT)
        k->zero_point = zero;
    else if (k->zero_point != zero)
        k->zero_point = -1;
    join(&k->zero_points, varies);
}

/* A single scale cannot be taken for another. */
static void add_scales(struct td_variety_kind *k, const struct td_op_call *op)
{
    const struct td_tensor *t = td_op_in(op, "scales");

    if (!t)
        t = td_op_in(op, "w_scales");
    if (t && bytes_of(t) > td_dtype_size(t->dtype))
        join(&k->scales, !is_uniform(t, td_dtype_size(t->dtype)));
}

/* Without g_idx rows lie in order. */
static void add_order(struct td_variety_kind *k, const struct td_op_call *op)
{
    const struct td_tensor *t = td_op_in(op, "g_idx");
    const int64_t row = td_op_attr(op, "k", 0);
    const size_t n = t ? bytes_of(t) / sizeof(int32_t) : 0;
    const int32_t *idx = t ? t->data : NULL;
    bool varies = false;
    size_t i;

    if (!td_op_in(op, "qweight"))
        return;
    for (i = 1; i < n && !varies; i++)
        varies = i % (size_t)row && idx[i] < idx[i - 1];
    join(&k->order, varies);
}

/* ---- experts --------------------------------------------------------------------------------- */

static void add_routed(struct td_variety_kind *k, struct td_variety_weight *w, int64_t e)
{
    const uint64_t bit = (uint64_t)1 << (e & 63);

    k->routed += !(w->routed[e >> 6] & bit);
    w->routed[e >> 6] |= bit;
}

static bool has_room_for_experts(struct td_variety_kind *k, struct td_variety_weight *w, int64_t experts)
{
    if (w->routed)
        return w->experts == experts;
    w->routed = calloc((size_t)experts / 64 + 1, sizeof *w->routed);
    w->experts = experts;
    k->experts += w->routed ? experts : 0;
    return w->routed != NULL;
}

static bool add_moe(struct td_variety_kind *k, struct td_variety_weight *w, const struct td_op_call *op)
{
    struct td_moe_op x;
    int64_t *first, e;
    int32_t *slot;
    bool ok;

    if (td_moe_op_of(op, &x, NULL))
        return true;
    first = calloc((size_t)x.experts + 2, sizeof *first);
    slot = calloc((size_t)x.slots + 1, sizeof *slot);
    ok = first && slot && has_room_for_experts(k, w, x.experts);
    if (ok)
        td_moe_sort_slots(&x, first, slot);
    for (e = 0; ok && e < x.experts; e++)
        if (first[e + 1] > first[e])
            add_routed(k, w, e);
    free(first);
    free(slot);
    return ok;
}

static bool add_moe_scaled(struct td_variety_kind *k, struct td_variety_weight *w, const struct td_op_call *op)
{
    struct td_moe_scaled_mm x;
    int64_t e;

    if (td_moe_scaled_mm_of(op, &x, NULL))
        return true;
    if (!has_room_for_experts(k, w, x.experts))
        return false;
    for (e = 0; e < x.experts; e++)
        if (td_moe_scaled_mm_rows(&x, e) > 0)
            add_routed(k, w, e);
    return true;
}

/* False: out of memory. */
static bool add_experts(struct td_variety_kind *k, struct td_variety_weight *w, const struct td_op_call *op)
{
    if (!strcmp(op->kind, "moe_gemm"))
        return add_moe(k, w, op);
    return strcmp(op->kind, "moe_scaled_mm") || add_moe_scaled(k, w, op);
}

/* ---- an op ----------------------------------------------------------------------------------- */

static int64_t divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* The largest |a| of float16 that is a number: its bits without the sign grow with it. */
static double largest_half(const struct td_tensor *a)
{
    const int64_t rows = a->ndim == 2 ? a->shape[0] : 0, cols = rows ? a->shape[1] : 0;
    uint16_t most = 0;
    int64_t i, j;

    for (i = 0; i < rows; i++) {
        const uint16_t *row = (const uint16_t *)a->data + i * a->strides[0];

        for (j = 0; j < cols; j++) {
            const uint16_t v = row[j] & 0x7fff;

            most = v > most && v < 0x7c00 ? v : most;
        }
    }
    return (double)td_f16_to_f32(most);
}

static double largest_of(const double *v, int64_t n)
{
    double most = 0;
    int64_t i;

    for (i = 0; i < n; i++)
        most = v[i] > most ? v[i] : most;
    return most;
}

void td_op_variety_find_largest(struct td_op_item *it, const struct td_op_ref *ref)
{
    const struct td_tensor *a = td_op_in(&it->call, "a");

    if (td_op_in(&it->call, "qweight") && a && a->dtype == TD_DT_F16)
        it->largest_a = largest_half(a);
    else if (ref && ref->mag && it->call.out.dtype == TD_DT_F16)
        it->largest_sum = largest_of(ref->mag, ref->rows * ref->cols);
}

/* Is it a product whose data can be read? An op that the build crashed on is one: its data would have shown. */
static bool counts(const struct td_op_item *it)
{
    return it->loaded && it->status != TD_OP_BROKEN && it->status != TD_OP_UNSUPPORTED && !it->without_reference &&
           td_op_attr(&it->call, "k", 0) > 0 && td_op_attr(&it->call, "n", 0) > 0;
}

void td_op_variety_add(struct td_op_variety *v, const struct td_op_item *it)
{
    const struct td_op_call *op = &it->call;
    struct td_variety_kind *k = counts(it) ? find_kind(v, op->kind) : NULL;
    struct td_variety_weight *w;
    bool is_new;

    if (!k)
        return;
    k->ops++;
    k->n_divisor = divisor(td_op_attr(op, "n", 0), k->n_divisor);
    k->k_divisor = divisor(td_op_attr(op, "k", 0), k->k_divisor);
    k->m_classes |= 1u << td_m_class(td_op_attr(op, "m", 0));
    k->largest_a = it->largest_a > k->largest_a ? it->largest_a : k->largest_a;
    k->largest_sum = it->largest_sum > k->largest_sum ? it->largest_sum : k->largest_sum;
    w = find_weight(v, it->weights, &is_new);
    if (is_new) {
        add_zero_points(k, op);
        add_scales(k, op);
        add_order(k, op);
    }
    if (w && !add_experts(k, w, op))
        v->full = true;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static void add_varies(cJSON *o, const char *name, enum td_varies v, const char *no, const char *yes)
{
    if (v != TD_VARIES_ABSENT)
        cJSON_AddStringToObject(o, name, v == TD_VARIES ? yes : no);
}

static void add_m_classes(cJSON *o, unsigned classes)
{
    cJSON *list = cJSON_AddArrayToObject(o, "m_classes");
    int i;

    for (i = 0; i < TD_M_CLASSES; i++)
        if (classes & 1u << i)
            cJSON_AddItemToArray(list, cJSON_CreateString(td_m_class_name(i)));
}

static cJSON *kind_json(const struct td_variety_kind *k, bool full)
{
    cJSON *o = cJSON_CreateObject();

    cJSON_AddStringToObject(o, "kind", k->kind);
    cJSON_AddNumberToObject(o, "ops", (double)k->ops);
    add_varies(o, "zero_points", k->zero_points, "equal", "vary");
    if (k->zero_points != TD_VARIES_ABSENT && k->zero_point >= 0)
        cJSON_AddNumberToObject(o, "zero_point", (double)k->zero_point);
    add_varies(o, "scales", k->scales, "equal", "vary");
    add_varies(o, "order", k->order, "of groups", "act-order");
    cJSON_AddNumberToObject(o, "n_divisor", (double)k->n_divisor);
    cJSON_AddNumberToObject(o, "k_divisor", (double)k->k_divisor);
    add_m_classes(o, k->m_classes);
    if (k->largest_a > 0)
        cJSON_AddNumberToObject(o, "largest_a", k->largest_a);
    if (k->largest_sum > 0)
        cJSON_AddItemToObject(o, "largest_sum", td_json_new_num(k->largest_sum));
    if (k->experts && !full) {
        cJSON_AddNumberToObject(o, "experts", (double)k->experts);
        cJSON_AddNumberToObject(o, "routed", (double)k->routed);
    }
    return o;
}

static int by_name(const void *a, const void *b)
{
    const struct td_variety_kind *x = a, *y = b;

    return strcmp(x->kind, y->kind);
}

cJSON *td_op_variety_json(const struct td_op_variety *v)
{
    struct td_variety_kind kind[TD_VARIETY_MAX_KINDS];
    cJSON *list = cJSON_CreateArray();
    int i;

    memcpy(kind, v->kind, sizeof kind);
    qsort(kind, (size_t)v->n, sizeof *kind, by_name);
    for (i = 0; list && i < v->n; i++)
        cJSON_AddItemToArray(list, kind_json(&kind[i], v->full));
    return list;
}

void td_op_variety_release(struct td_op_variety *v)
{
    size_t i;

    for (i = 0; i < v->cap; i++)
        free(v->weights[i].routed);
    free(v->weights);
    memset(v, 0, sizeof *v);
}
