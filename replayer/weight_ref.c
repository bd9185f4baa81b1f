/* weight_ref.c - load a weight that the fixture holds by reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/weight_ref.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/memory.h"
#include "model/awq.h"

#define MAX_EXPERTS 4096

/* The rows and columns of a tensor that become part of the weight. */
struct part { const struct td_st_tensor *t; int64_t rows, cols, row, col, n_rows, n_cols; };
struct parts {
    struct part at[TD_WEIGHT_REF_MAX];
    int n;
    struct td_st_tensor made[TD_WEIGHT_REF_MAX];
    void *owned[TD_WEIGHT_REF_MAX];
}; /* made: unpacked from AWQ's tensors */
struct transforms {
    enum { NOT_AWQ, AWQ_QWEIGHT, AWQ_QZEROS } awq;
    bool stack;
    enum td_dtype to; /* TD_DT_NONE: the dtype stays */
};

static bool is_float(enum td_dtype dt)
{
    return dt == TD_DT_F16 || dt == TD_DT_BF16 || dt == TD_DT_F32;
}

static int read_transforms(const struct td_tensor_rec *t, struct transforms *tr,
                           struct td_error *err)
{
    const cJSON *step;

    memset(tr, 0, sizeof *tr);
    cJSON_ArrayForEach(step, td_json_get(t->ref, "transforms")) {
        const char *name = cJSON_IsString(step) ? step->valuestring : "";

        if ((!strcmp(name, "awq-qweight") || !strcmp(name, "awq-qzeros")) && !tr->awq &&
            !tr->stack && !tr->to)
            tr->awq = name[5] == 'w' ? AWQ_QWEIGHT : AWQ_QZEROS;
        else if (!strcmp(name, "stack") && !tr->stack && !tr->to)
            tr->stack = true;
        else if (is_float(td_dtype_parse(name)) && !tr->to)
            tr->to = td_dtype_parse(name);
        else
            return td_fail(
                err, TD_EUNSUPPORTED,
                "%s: this version does not know the transform \"%.40s\" of a checkpoint's tensors",
                t->role, name);
    }
    return TD_OK;
}

/* ---- parts and slices ------------------------------------------------------------------------ */

/* A tensor of other than two dimensions counts as one row. */
static void use_complete_tensor(struct part *p, const struct td_st_tensor *t)
{
    int d;

    *p = (struct part){.t = t, .rows = 1, .cols = 1};
    for (d = 0; d < t->ndim; d++)
        *(t->ndim == 2 && !d ? &p->rows : &p->cols) *= t->shape[d];
    p->n_rows = p->rows, p->n_cols = p->cols;
}

/* Read [from, to) within `size`. False: not such a range. */
static bool read_range(const cJSON *range, int64_t size, int64_t *from, int64_t *count)
{
    const cJSON *a = cJSON_GetArrayItem(range, 0), *b = cJSON_GetArrayItem(range, 1);

    if (cJSON_GetArraySize(range) != 2 || !cJSON_IsNumber(a) || !cJSON_IsNumber(b) ||
        !(a->valuedouble >= 0) || !(b->valuedouble > a->valuedouble) ||
        !(b->valuedouble <= (double)size))
        return false;
    *from = (int64_t)a->valuedouble;
    *count = (int64_t)b->valuedouble - *from;
    return *count > 0;
}

static bool read_slice(struct part *p, const cJSON *slice)
{
    const cJSON *first = cJSON_GetArrayItem(slice, 0);

    if (p->t->ndim < 1 || p->t->ndim > 2 || cJSON_GetArraySize(slice) != p->t->ndim)
        return false;
    if (p->t->ndim == 1)
        return read_range(first, p->cols, &p->col, &p->n_cols);
    return read_range(first, p->rows, &p->row, &p->n_rows) &&
           read_range(cJSON_GetArrayItem(slice, 1), p->cols, &p->col, &p->n_cols);
}

/* Read one slice per tensor. A single tensor's slice may stand without the outer list. */
static int read_slices(struct parts *p, const struct td_tensor_rec *t, struct td_error *err)
{
    const cJSON *slice = td_json_get(t->ref, "slice"), *first = cJSON_GetArrayItem(slice, 0);
    bool nested = cJSON_IsArray(cJSON_GetArrayItem(first, 0)), ok = nested ? cJSON_GetArraySize(slice) == p->n : p->n == 1;
    int i;

    if (!slice || cJSON_IsNull(slice))
        return TD_OK;
    for (i = 0; ok && i < p->n; i++)
        ok = read_slice(&p->at[i], nested ? cJSON_GetArrayItem(slice, i) : slice);
    return ok ? TD_OK
              : td_fail(err, TD_EUNSUPPORTED,
                        "%s: the slice of the checkpoint's %s is not one that it has", t->role,
                        p->at[0].t->name);
}

/* Unpack AWQ's tensor into GPTQ's packing, which has another shape. *owned: memory for the caller
 * to free. */
static int convert_awq_to_gptq(const struct td_st_tensor *from, const struct td_tensor_rec *t,
                               const struct transforms *tr, struct td_st_tensor *made, void **owned,
                               struct td_error *err)
{
    const int64_t k = from->shape[0], n = from->ndim == 2 ? from->shape[1] * 8 : 0;

    if (from->dtype != TD_DT_I32 || from->ndim != 2 || !from->size_bytes ||
        (tr->awq == AWQ_QWEIGHT && k % 8))
        return td_fail(err, TD_EINVAL, "%s: %s is not a tensor of AWQ's form", t->role, from->name);
    if (!(*owned = malloc(from->size_bytes + 1)))
        return td_fail(err, TD_ENOMEM, "%s: out of memory for %zu bytes", t->role, from->size_bytes);
    *made = *from;
    made->data = *owned;
    if (tr->awq == AWQ_QZEROS) {
        td_awq_unpack_zeros(k, n, from->data, *owned);
        return TD_OK;
    }
    td_awq_unpack_weight(k, n, from->data, *owned);
    made->shape[0] = k / 8;
    made->shape[1] = n;
    return TD_OK;
}

static size_t part_row_bytes(const struct part *p)
{
    return (size_t)p->n_cols * td_dtype_size(p->t->dtype);
}

static int find_tensors(const struct td_safetensors *st, const char *where,
                        const struct td_tensor_rec *t, const struct transforms *tr, struct parts *p,
                        struct td_error *err)
{
    const cJSON *names = td_json_get(t->ref, "tensors"), *name;
    int rc;

    cJSON_ArrayForEach(name, names) {
        const struct td_st_tensor *found = cJSON_IsString(name)
                                               ? td_safetensors_find(st, name->valuestring)
                                               : NULL,
                                  *first = p->at[0].t;

        if (!found)
            return td_fail(err, TD_ENOTFOUND, "%s: %s holds no tensor %s", t->role, where,
                           cJSON_IsString(name) ? name->valuestring : "without a name");
        if (p->n == TD_WEIGHT_REF_MAX || (p->n && !tr->stack))
            return td_fail(err, TD_EUNSUPPORTED,
                           "%s: several tensors of a checkpoint, and nothing says how they are one",
                           t->role);
        if (p->n && (found->dtype != first->dtype || found->ndim != first->ndim))
            return td_fail(err, TD_EINVAL, "%s: %s and %s in %s cannot be stacked", t->role, first->name, found->name, where);
        if (!td_dtype_size(found->dtype))
            return td_fail(err, TD_EUNSUPPORTED,
                           "%s: %s in %s is %s, which this version does not know", t->role,
                           found->name, where, found->dtype_name);
        if (tr->awq && (rc = convert_awq_to_gptq(found, t, tr, &p->made[p->n], &p->owned[p->n], err)))
            return rc;
        use_complete_tensor(&p->at[p->n], tr->awq ? &p->made[p->n] : found);
        p->n++;
    }
    return p->n ? read_slices(p, t, err)
                : td_fail(err, TD_EUNSUPPORTED, "%s: the reference names no tensor", t->role);
}

/* ---- stacking -------------------------------------------------------------------------------- */

/* Do the parts, all equal in the other dimension, add up to `shape` along this one? At most one
 * dimension can do so. */
static bool fills_shape(const struct parts *p, const int64_t *shape, int along)
{
    int64_t sum = 0;
    int i;

    for (i = 0; i < p->n; i++) {
        const int64_t size[2] = {p->at[i].n_rows, p->at[i].n_cols};

        if (size[1 - along] != shape[1 - along] || size[along] > shape[along] - sum)
            return false;
        sum += size[along];
    }
    return sum == shape[along];
}

/* Copy a part. Rows of the result are `stride` bytes apart. */
static void copy_part(const struct part *p, uint8_t *to, size_t stride)
{
    const size_t elem = td_dtype_size(p->t->dtype);
    int64_t r;

    for (r = 0; r < p->n_rows && part_row_bytes(p); r++)
        memcpy(to + (size_t)r * stride,
               (const uint8_t *)p->t->data + (size_t)((p->row + r) * p->cols + p->col) * elem,
               part_row_bytes(p));
}

static int stack_parts(const struct parts *p, const struct td_tensor_rec *t, uint8_t *to,
                       struct td_error *err)
{
    bool two = t->ndim == 2 && p->at[0].t->ndim == 2,
         rows = p->n == 1 || (two && fills_shape(p, t->shape, 0));
    size_t stride =
        rows ? part_row_bytes(&p->at[0]) : (size_t)t->shape[1] * td_dtype_size(p->at[0].t->dtype);
    int i;

    if (!rows && (!two || !fills_shape(p, t->shape, 1)))
        return td_fail(err, TD_EINVAL, "%s: %s and the others do not make up its shape", t->role, p->at[0].t->name);
    for (i = 0; i < p->n; i++) {
        copy_part(&p->at[i], to, stride);
        to += part_row_bytes(&p->at[i]) * (rows ? (size_t)p->at[i].n_rows : 1);
    }
    return TD_OK;
}

/* ---- converting ------------------------------------------------------------------------------ */

static void store_float(enum td_dtype to, uint8_t *base, size_t i, float f)
{
    uint16_t h = to == TD_DT_BF16 ? td_f32_to_bf16(f) : td_f32_to_f16(f);

    if (to == TD_DT_F32)
        memcpy(base + i * 4, &f, 4);
    else
        memcpy(base + i * 2, &h, 2);
}

/* Round to nearest even, as torch does. */
static int convert_floats(enum td_dtype from, enum td_dtype to, const char *role, void **data,
                          size_t *size, struct td_error *err)
{
    size_t n, i;
    uint8_t *out;

    if (!is_float(from))
        return td_fail(err, TD_EINVAL,
                       "%s: the checkpoint's tensor is %s, no float that could become %s", role,
                       td_dtype_name(from), td_dtype_name(to));
    n = *size / td_dtype_size(from);
    out = malloc(n * td_dtype_size(to) + 1);
    if (!out)
        return td_fail(err, TD_ENOMEM, "%s: out of memory for %zu bytes", role, n * td_dtype_size(to));
    for (i = 0; i < n; i++)
        store_float(to, out, i, (float)td_dtype_get(from, *data, i));
    free(*data);
    *data = out;
    *size = n * td_dtype_size(to);
    return TD_OK;
}

static int load_parts(const struct parts *p, const struct td_tensor_rec *t, enum td_dtype to,
                      void **data, size_t *size, struct td_error *err)
{
    int rc, i;

    for (i = 0, *size = 0; i < p->n; i++)
        *size += part_row_bytes(&p->at[i]) * (size_t)p->at[i].n_rows;
    *data = malloc(*size + 1);
    if (!*data)
        return td_fail(err, TD_ENOMEM, "%s: out of memory for %zu bytes", t->role, *size);
    rc = stack_parts(p, t, *data, err);
    if (!rc && to && to != p->at[0].t->dtype)
        rc = convert_floats(p->at[0].t->dtype, to, t->role, data, size, err);
    if (rc) {
        free(*data);
        *data = NULL;
    }
    return rc;
}

/* All but "experts". */
static int load_one(const struct td_safetensors *st, const char *where, const struct td_tensor_rec *t,
                    void **data, size_t *size, struct td_error *err)
{
    struct parts p = {.n = 0};
    struct transforms tr;
    int rc = read_transforms(t, &tr, err), i;

    *data = NULL;
    if (!rc)
        rc = find_tensors(st, where, t, &tr, &p, err);
    if (!rc)
        rc = load_parts(&p, t, tr.to, data, size, err);
    for (i = 0; i < TD_WEIGHT_REF_MAX; i++)
        free(p.owned[i]);
    return rc;
}

/* ---- experts --------------------------------------------------------------------------------- */

static bool is_experts(const struct td_tensor_rec *t)
{
    const cJSON *transforms = td_json_get(t->ref, "transforms");
    const char *last = cJSON_GetStringValue(cJSON_GetArrayItem(transforms, cJSON_GetArraySize(transforms) - 1));

    return last && !strcmp(last, "experts");
}

/* The names of one expert's tensors: its number in the place of the '*'. NULL: one has none, or is
 * too long, or there is no memory. */
static cJSON *names_of(const cJSON *names, int64_t expert)
{
    cJSON *list = cJSON_CreateArray();
    const cJSON *name;

    cJSON_ArrayForEach(name, names) {
        const char *text = cJSON_GetStringValue(name), *star = text ? strchr(text, '*') : NULL;
        char one[1024];

        if (!star || snprintf(one, sizeof one, "%.*s%lld%s", (int)(star - text), text, (long long)expert,
                              star + 1) >= (int)sizeof one) {
            cJSON_Delete(list);
            return NULL;
        }
        cJSON_AddItemToArray(list, cJSON_CreateString(one));
    }
    return list;
}

/* What t is of one expert. The caller frees one->ref. False: its names are none. */
static bool describe_expert(const struct td_tensor_rec *t, int64_t expert, struct td_tensor_rec *one)
{
    cJSON *names = names_of(td_json_get(t->ref, "tensors"), expert),
          *transforms = cJSON_Duplicate(td_json_get(t->ref, "transforms"), 1);

    *one = *t;
    one->ndim--;
    memmove(one->shape, one->shape + 1, sizeof one->shape - sizeof *one->shape);
    one->ref = cJSON_CreateObject();
    cJSON_DeleteItemFromArray(transforms, cJSON_GetArraySize(transforms) - 1);
    cJSON_AddItemToObject(one->ref, "transforms", transforms);
    cJSON_AddItemToObject(one->ref, "tensors", names);
    return names;
}

/* Load experts [from, from + count) one behind the other. */
static int load_experts(const struct td_safetensors *st, const char *where, const struct td_tensor_rec *t,
                        int64_t from, int64_t count, void **data, size_t *size, struct td_error *err)
{
    int64_t e;
    int rc = TD_OK;

    for (e = 0; e < count && !rc; e++) {
        struct td_tensor_rec one;
        size_t bytes = 0;
        void *part = NULL;

        rc = describe_expert(t, from + e, &one)
                 ? load_one(st, where, &one, &part, &bytes, err)
                 : td_fail(err, TD_EUNSUPPORTED, "%s: the names of the experts' tensors have no place for a number", t->role);
        if (!rc && !e) {
            *size = bytes;
            rc = bytes > SIZE_MAX / (size_t)count ? TD_ENOMEM : td_memory_room(bytes * (size_t)count, "the experts of a weight", err);
            *data = rc ? NULL : malloc(bytes * (size_t)count + 1);
        }
        if (!rc && !*data)
            rc = td_fail(err, TD_ENOMEM, "%s: out of memory for %lld experts", t->role, (long long)count);
        if (!rc && bytes != *size)
            rc = td_fail(err, TD_EINVAL, "%s: experts of different sizes", t->role);
        if (!rc)
            memcpy((uint8_t *)*data + (size_t)e * bytes, part, bytes);
        free(part);
        cJSON_Delete(one.ref);
    }
    *size *= (size_t)count;
    if (rc) {
        free(*data);
        *data = NULL;
    }
    return rc;
}

int td_weight_ref_load(const struct td_safetensors *st, const char *where,
                       const struct td_tensor_rec *t, void **data, size_t *size,
                       struct td_error *err)
{
    const cJSON *slice = td_json_get(t->ref, "slice");
    int64_t from, count;

    *data = NULL;
    if (!is_experts(t))
        return load_one(st, where, t, data, size, err);
    if (t->ndim < 2 || (slice && !cJSON_IsNull(slice)) ||
        !read_range(td_json_get(t->ref, "experts"), MAX_EXPERTS, &from, &count) || count != t->shape[0])
        return td_fail(err, TD_EUNSUPPORTED, "%s: which experts of the checkpoint it holds is not said", t->role);
    return load_experts(st, where, t, from, count, data, size, err);
}

int td_weight_ref_load_gguf(const struct td_gguf *g, const char *where,
                            const struct td_tensor_rec *t, void **data, size_t *size,
                            struct td_error *err)
{
    const cJSON *names = td_json_get(t->ref, "tensors"), *slice = td_json_get(t->ref, "slice");
    const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(names, 0));
    const struct td_gguf_tensor *found = name ? td_gguf_find(g, name) : NULL;

    *data = NULL;
    if (!name || cJSON_GetArraySize(names) != 1 || (slice && !cJSON_IsNull(slice)) ||
        cJSON_GetArraySize(td_json_get(t->ref, "transforms")))
        return td_fail(err, TD_EUNSUPPORTED,
                       "%s: of a GGUF file this version loads one complete tensor, and the "
                       "reference asks for more",
                       t->role);
    if (!found || !found->data)
        return td_fail(err, TD_ENOTFOUND, "%s: %s holds no tensor %s", t->role, where, name);
    if (!(*data = malloc(found->bytes + 1)))
        return td_fail(err, TD_ENOMEM, "%s: no memory for %llu bytes", t->role, (unsigned long long)found->bytes);
    memcpy(*data, found->data, found->bytes);
    *size = found->bytes;
    return TD_OK;
}
