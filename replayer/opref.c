/* opref.c - the bytes of a weight that was kept as a reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/opref.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

struct parts { const struct td_st_tensor *t[TD_OPREF_MAX]; int n; size_t bytes; };
struct todo { bool stack; enum td_dtype to; }; /* to TD_DT_NONE: as it is */

static bool is_float(enum td_dtype dt)
{
    return dt == TD_DT_F16 || dt == TD_DT_BF16 || dt == TD_DT_F32;
}

static int read_transforms(const struct td_tensor_rec *t, struct todo *todo, struct td_error *err)
{
    const cJSON *slice = td_json_get(t->ref, "slice"), *step;

    memset(todo, 0, sizeof *todo);
    if (slice && !cJSON_IsNull(slice))
        return td_fail(err, TD_EUNSUPPORTED, "%s: this version reads references to whole checkpoint tensors only", t->role);
    cJSON_ArrayForEach(step, td_json_get(t->ref, "transforms")) {
        const char *name = cJSON_IsString(step) ? step->valuestring : "";

        if (!strcmp(name, "stack") && !todo->stack && !todo->to)
            todo->stack = true;
        else if (is_float(td_dtype_parse(name)) && !todo->to)
            todo->to = td_dtype_parse(name);
        else
            return td_fail(err, TD_EUNSUPPORTED, "%s: this version does not know the transform \"%.40s\" of a checkpoint's tensors", t->role, name);
    }
    return TD_OK;
}

static int find_parts(const struct td_safetensors *st, const char *where, const struct td_tensor_rec *t, const struct todo *todo, struct parts *p,
                      struct td_error *err)
{
    const cJSON *names = td_json_get(t->ref, "tensors"), *name;

    memset(p, 0, sizeof *p);
    cJSON_ArrayForEach(name, names) {
        const struct td_st_tensor *found = cJSON_IsString(name) ? td_safetensors_find(st, name->valuestring) : NULL;

        if (!found)
            return td_fail(err, TD_ENOTFOUND, "%s: %s holds no tensor %s", t->role, where, cJSON_IsString(name) ? name->valuestring : "without a name");
        if (p->n == TD_OPREF_MAX || (p->n && !todo->stack))
            return td_fail(err, TD_EUNSUPPORTED, "%s: several tensors of a checkpoint, and nothing says how they are one", t->role);
        if (p->n && (found->dtype != p->t[0]->dtype || found->ndim != p->t[0]->ndim))
            return td_fail(err, TD_EINVAL, "%s: %s and %s in %s cannot be stacked", t->role, p->t[0]->name, found->name, where);
        p->t[p->n++] = found;
        p->bytes += found->size_bytes;
    }
    return p->n ? TD_OK : td_fail(err, TD_EUNSUPPORTED, "%s: the reference names no tensor", t->role);
}

/* ---- stacking ------------------------------------------------------------------------------------------------------ */

/* Do the parts, equal in the other dimension, add up to `shape` along this one? No two dimensions can both do that. */
static bool adds_up(const struct parts *p, const int64_t *shape, int along)
{
    int64_t sum = 0;
    int i;

    for (i = 0; i < p->n; i++) {
        if (p->t[i]->shape[1 - along] != shape[1 - along] || p->t[i]->shape[along] > shape[along] - sum)
            return false;
        sum += p->t[i]->shape[along];
    }
    return sum == shape[along];
}

static void join_rows(const struct parts *p, uint8_t *to)
{
    int i;

    for (i = 0; i < p->n; to += p->t[i++]->size_bytes)
        if (p->t[i]->size_bytes)
            memcpy(to, p->t[i]->data, p->t[i]->size_bytes);
}

static void join_columns(const struct parts *p, int64_t rows, uint8_t *to)
{
    int64_t r;
    int i;

    for (r = 0; r < rows; r++)
        for (i = 0; i < p->n; i++) {
            size_t row = p->t[i]->size_bytes / (size_t)rows;

            memcpy(to, (const uint8_t *)p->t[i]->data + (size_t)r * row, row);
            to += row;
        }
}

static int join(const struct parts *p, const struct td_tensor_rec *t, uint8_t *to, struct td_error *err)
{
    bool two = t->ndim == 2 && p->t[0]->ndim == 2;

    if (p->n == 1 || (two && adds_up(p, t->shape, 0)))
        join_rows(p, to);
    else if (two && adds_up(p, t->shape, 1))
        join_columns(p, t->shape[0], to);
    else
        return td_fail(err, TD_EINVAL, "%s: %s and the others do not make up its shape", t->role, p->t[0]->name);
    return TD_OK;
}

/* ---- converting ---------------------------------------------------------------------------------------------------- */

static void put_float(enum td_dtype to, uint8_t *base, size_t i, float f)
{
    uint16_t h = to == TD_DT_BF16 ? td_f32_to_bf16(f) : td_f32_to_f16(f);

    if (to == TD_DT_F32)
        memcpy(base + i * 4, &f, 4);
    else
        memcpy(base + i * 2, &h, 2);
}

/* To nearest even, as torch does. */
static int convert(enum td_dtype from, enum td_dtype to, const char *role, void **data, size_t *size, struct td_error *err)
{
    size_t n, i;
    uint8_t *out;

    if (!is_float(from))
        return td_fail(err, TD_EINVAL, "%s: the checkpoint's tensor is %s, no float that could become %s", role, td_dtype_name(from), td_dtype_name(to));
    n = *size / td_dtype_size(from);
    out = malloc(n * td_dtype_size(to) + 1);
    if (!out)
        return td_fail(err, TD_ENOMEM, "%s: out of memory for %zu bytes", role, n * td_dtype_size(to));
    for (i = 0; i < n; i++)
        put_float(to, out, i, (float)td_dtype_get(from, *data, i));
    free(*data);
    *data = out;
    *size = n * td_dtype_size(to);
    return TD_OK;
}

int td_opref_load(const struct td_safetensors *st, const char *where, const struct td_tensor_rec *t, void **data, size_t *size, struct td_error *err)
{
    struct parts p;
    struct todo todo;
    int rc = read_transforms(t, &todo, err);

    *data = NULL;
    if (!rc)
        rc = find_parts(st, where, t, &todo, &p, err);
    if (rc)
        return rc;
    *size = p.bytes;
    *data = malloc(p.bytes + 1);
    if (!*data)
        return td_fail(err, TD_ENOMEM, "%s: out of memory for %zu bytes", t->role, p.bytes);
    rc = join(&p, t, *data, err);
    if (!rc && todo.to && todo.to != p.t[0]->dtype)
        rc = convert(p.t[0]->dtype, todo.to, t->role, data, size, err);
    if (rc) {
        free(*data);
        *data = NULL;
    }
    return rc;
}
