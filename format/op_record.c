/* op_record.c - write and read an op as one JSON line.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Unknown members of the line, of `impl` and of each tensor survive: they wait in extra under their own name, "impl",
 * "out" or "in" (an object by role), and go back to where they came from. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "format/records.h"
#include "format/records_json.h"

static const char *const KNOWN[] = {"op", "step", "pid", "t_ns", "kind", "layer", "attrs", "act_rounding", "in", "out", "impl",
    "origin", "judge", NULL};
static const char *const KNOWN_TENSOR[] = {"role", "dtype", "shape", "strides", "align", "blob", "stored", "ref", NULL};
static const char *const KNOWN_IMPL[] = {"symbol", "library", "build", "layout", "duration_ns", "clock", "launches", NULL};
static const char *const NESTED[] = {"in", "out", "impl", NULL};

void td_op_release(struct td_op *op)
{
    int32_t i;

    for (i = 0; i < op->n_in; i++)
        cJSON_Delete(op->in[i].ref);
    free(op->in);
    cJSON_Delete(op->out.ref);
    free(op->kind);
    free(op->layer);
    free(op->act_rounding);
    free(op->impl.symbol);
    free(op->impl.library);
    free(op->impl.build);
    free(op->impl.layout);
    free(op->impl.clock);
    cJSON_Delete(op->impl.launches);
    cJSON_Delete(op->attrs);
    cJSON_Delete(op->origin);
    cJSON_Delete(op->judge);
    cJSON_Delete(op->extra);
    memset(op, 0, sizeof *op);
}

/* ---- sizes ----------------------------------------------------------------------------------------------------------- */

#define MOST ((int64_t)1 << 62)
#define MAX_ELEMENT_BYTES 512 /* of a block format; ggml's largest has 292 */

bool td_tensor_sizes_fit(const int64_t *shape, const int64_t *strides, int32_t ndim)
{
    int64_t total = 1, last = 0, reach;
    int32_t i;

    if (ndim < 0 || ndim > TD_REC_MAX_DIMS)
        return false;
    for (i = 0; i < ndim; i++) {
        if (shape[i] < 0 || (strides && strides[i] < 0) ||
            __builtin_mul_overflow(total, shape[i] ? shape[i] : 1, &total) || total > MOST)
            return false;
        if (strides && shape[i] && (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
                                    __builtin_add_overflow(last, reach, &last) || last > MOST))
            return false;
    }
    return true;
}

uint64_t td_tensor_rec_max_bytes(const struct td_tensor_rec *t)
{
    uint64_t dense = 1, last = 0, most;
    int32_t i;

    for (i = 0; i < t->ndim; i++) {
        dense *= (uint64_t)(t->shape[i] ? t->shape[i] : 1);
        last += t->shape[i] ? (uint64_t)(t->shape[i] - 1) * (uint64_t)t->strides[i] : 0;
    }
    most = dense > last + 1 ? dense : last + 1;
    return most > UINT64_MAX / MAX_ELEMENT_BYTES ? UINT64_MAX : most * MAX_ELEMENT_BYTES;
}

/* ---- writing -------------------------------------------------------------------------------------------------------- */

static void put_dims(struct td_jw *w, const char *key, const int64_t *v, int32_t n)
{
    int32_t i;

    td_jw_arr(w, key);
    for (i = 0; i < n && i < TD_REC_MAX_DIMS; i++)
        td_jw_i64(w, NULL, v[i]);
    td_jw_end(w);
}

static void put_tensor(struct td_jw *w, const char *key, const struct td_tensor_rec *t, const cJSON *extra)
{
    char hex[TD_HASH_HEX];

    td_jw_obj(w, key);
    td_rec_put_str(w, "role", t->role);
    td_rec_put_str(w, "dtype", t->dtype);
    put_dims(w, "shape", t->shape, t->ndim);
    put_dims(w, "strides", t->strides, t->ndim);
    if (t->align)
        td_jw_i64(w, "align", t->align);
    if (!td_hash_is_zero(t->blob)) {
        td_hash_hex(t->blob, hex);
        td_jw_cstr(w, "blob", hex);
    }
    td_jw_bool(w, "stored", t->stored);
    if (t->ref)
        td_jw_value(w, "ref", t->ref);
    td_rec_put_extra(w, extra, NULL);
    td_jw_end(w);
}

static void put_impl(struct td_jw *w, const struct td_impl *p, const cJSON *extra)
{
    td_jw_obj(w, "impl");
    td_rec_put_str(w, "symbol", p->symbol);
    td_rec_put_str(w, "library", p->library);
    td_rec_put_str(w, "build", p->build);
    td_rec_put_str(w, "layout", p->layout);
    td_jw_i64(w, "duration_ns", p->duration_ns);
    td_rec_put_str(w, "clock", p->clock);
    if (p->launches)
        td_jw_value(w, "launches", p->launches);
    td_rec_put_extra(w, extra, NULL);
    td_jw_end(w);
}

/* Would td_op_read() take its tensors? */
static bool sizes_fit(const struct td_op *op)
{
    int32_t i;

    for (i = 0; i < op->n_in; i++)
        if (!td_tensor_sizes_fit(op->in[i].shape, op->in[i].strides, op->in[i].ndim))
            return false;
    return op->n_in <= TD_REC_MAX_TENSORS &&
           (!op->has_out || td_tensor_sizes_fit(op->out.shape, op->out.strides, op->out.ndim));
}

int td_op_write(const struct td_op *op, struct td_buf *out)
{
    struct td_jw w;
    int32_t i;

    if (!sizes_fit(op))
        return TD_ELIMIT;
    td_jw_init(&w, out, false);
    td_jw_obj(&w, NULL);
    td_jw_i64(&w, "op", op->op);
    td_jw_i64(&w, "step", op->step);
    td_jw_i64(&w, "pid", op->pid);
    td_jw_i64(&w, "t_ns", op->t_ns);
    td_rec_put_str(&w, "kind", op->kind);
    td_rec_put_str(&w, "layer", op->layer);
    if (op->attrs)
        td_jw_value(&w, "attrs", op->attrs);
    td_rec_put_str(&w, "act_rounding", op->act_rounding);
    td_jw_arr(&w, "in");
    for (i = 0; i < op->n_in; i++)
        put_tensor(&w, NULL, &op->in[i], td_json_get(td_json_get(op->extra, "in"), op->in[i].role));
    td_jw_end(&w);
    if (op->has_out)
        put_tensor(&w, "out", &op->out, td_json_get(op->extra, "out"));
    put_impl(&w, &op->impl, td_json_get(op->extra, "impl"));
    if (op->origin)
        td_jw_value(&w, "origin", op->origin);
    if (op->judge)
        td_jw_value(&w, "judge", op->judge);
    td_rec_put_extra(&w, op->extra, NESTED);
    td_jw_end(&w);
    return out->failed ? TD_ELIMIT : TD_OK;
}

/* ---- reading -------------------------------------------------------------------------------------------------------- */

static int read_dims(const cJSON *o, const char *key, int64_t out[TD_REC_MAX_DIMS], int32_t *n, struct td_error *err)
{
    int64_t count = td_rec_count(o, key, TD_REC_MAX_DIMS, err);
    const cJSON *m;
    int32_t i = 0;

    if (count < 0)
        return (int)count;
    cJSON_ArrayForEach(m, td_json_get(o, key)) {
        out[i] = td_json_i64(m, -1);
        if (out[i] < 0)
            return td_fail(err, TD_ECORRUPT, "\"%s\"[%d] is no size", key, i);
        i++;
    }
    *n = i;
    return TD_OK;
}

static int copy_name(const cJSON *o, const char *key, char *out, size_t n, struct td_error *err)
{
    const char *s = td_json_get_str(o, key, "");

    if (strlen(s) >= n)
        return td_fail(err, TD_ELIMIT, "\"%s\" is longer than %zu bytes", key, n - 1);
    memcpy(out, s, strlen(s) + 1);
    return TD_OK;
}

static int read_tensor(const cJSON *o, struct td_tensor_rec *t, cJSON **extra, struct td_error *err)
{
    const char *hex = td_json_get_str(o, "blob", NULL);
    const cJSON *ref = td_json_get(o, "ref");
    int32_t n_strides = 0, i;
    int rc;

    if (!cJSON_IsObject(o))
        return td_fail(err, TD_ECORRUPT, "a tensor is no object");
    if ((rc = copy_name(o, "role", t->role, sizeof t->role, err)) ||
        (rc = copy_name(o, "dtype", t->dtype, sizeof t->dtype, err)) ||
        (rc = read_dims(o, "shape", t->shape, &t->ndim, err)) ||
        (rc = read_dims(o, "strides", t->strides, &n_strides, err)))
        return rc;
    if (!td_tensor_sizes_fit(t->shape, NULL, t->ndim))
        return td_fail(err, TD_ELIMIT, "tensor \"%s\": its shape is beyond 2^62 elements", t->role);
    if (!n_strides)
        for (i = t->ndim - 1; i >= 0; i--) /* dense, row-major */
            t->strides[i] = i == t->ndim - 1 ? 1 : t->strides[i + 1] * (t->shape[i + 1] ? t->shape[i + 1] : 1);
    else if (n_strides != t->ndim)
        return td_fail(err, TD_ECORRUPT, "tensor \"%s\": %d strides for %d dimensions", t->role, n_strides, t->ndim);
    if (!td_tensor_sizes_fit(t->shape, t->strides, t->ndim))
        return td_fail(err, TD_ELIMIT, "tensor \"%s\": its strides reach beyond 2^62 elements", t->role);
    t->align = td_json_get_i64(o, "align", 0);
    if (t->align < 0 || t->align > 4096)
        return td_fail(err, TD_ECORRUPT, "tensor \"%s\": \"align\" is not within 0 to 4096", t->role);
    if (hex && td_hash_parse(hex, &t->blob))
        return td_fail(err, TD_ECORRUPT, "tensor \"%s\": \"blob\" is no hash", t->role);
    t->stored = td_json_get_bool(o, "stored", false);
    t->ref = cJSON_IsObject(ref) ? cJSON_Duplicate(ref, true) : NULL;
    *extra = td_rec_extra(o, KNOWN_TENSOR);
    return TD_OK;
}

/* Store unknown members of a part under extra.<key>. */
static void store_unknown(struct td_op *op, const char *key, const char *role, cJSON *what)
{
    cJSON *in;

    if (!what)
        return;
    if (!op->extra)
        op->extra = cJSON_CreateObject();
    if (!role) {
        cJSON_AddItemToObject(op->extra, key, what);
        return;
    }
    in = cJSON_GetObjectItemCaseSensitive(op->extra, key);
    if (!in)
        in = cJSON_AddObjectToObject(op->extra, key);
    cJSON_AddItemToObject(in, role, what);
}

static int read_tensors(const cJSON *o, struct td_op *op, struct td_error *err)
{
    int64_t n = td_rec_count(o, "in", TD_REC_MAX_TENSORS, err);
    const cJSON *m;
    cJSON *extra;
    int rc;

    if (n < 0)
        return (int)n;
    op->in = calloc((size_t)n + 1, sizeof *op->in);
    if (!op->in)
        return td_fail(err, TD_ENOMEM, "no memory for tensors");
    cJSON_ArrayForEach(m, td_json_get(o, "in")) {
        struct td_tensor_rec *t = &op->in[op->n_in++];

        extra = NULL;
        rc = read_tensor(m, t, &extra, err);
        store_unknown(op, "in", t->role, extra);
        if (rc)
            return rc;
    }
    if (cJSON_IsObject(td_json_get(o, "out"))) {
        extra = NULL;
        rc = read_tensor(td_json_get(o, "out"), &op->out, &extra, err);
        store_unknown(op, "out", NULL, extra);
        op->has_out = !rc;
        return rc;
    }
    return TD_OK;
}

static void read_impl(const cJSON *o, struct td_op *op)
{
    struct td_impl *p = &op->impl;
    const cJSON *launches = td_json_get(o, "launches");

    p->symbol = td_rec_dup(o, "symbol");
    p->library = td_rec_dup(o, "library");
    p->build = td_rec_dup(o, "build");
    p->layout = td_rec_dup(o, "layout");
    p->duration_ns = td_json_get_i64(o, "duration_ns", -1);
    p->clock = td_rec_dup(o, "clock");
    p->launches = cJSON_IsArray(launches) ? cJSON_Duplicate(launches, true) : NULL;
    store_unknown(op, "impl", NULL, td_rec_extra(o, KNOWN_IMPL));
}

static cJSON *copy_object(const cJSON *o, const char *key)
{
    const cJSON *v = td_json_get(o, key);

    return cJSON_IsObject(v) ? cJSON_Duplicate(v, true) : NULL;
}

int td_op_read(const cJSON *o, struct td_op *op, struct td_error *err)
{
    int64_t number = td_json_get_i64(o, "op", -1);
    int rc;

    memset(op, 0, sizeof *op);
    if (!cJSON_IsObject(o) || number < 0)
        return td_fail(err, TD_ECORRUPT, "op: no object with an \"op\" number");
    op->op = number;
    op->step = td_json_get_i64(o, "step", -1);
    op->pid = td_json_get_i64(o, "pid", 0);
    op->t_ns = td_json_get_i64(o, "t_ns", 0);
    op->kind = td_rec_dup(o, "kind");
    op->layer = td_rec_dup(o, "layer");
    op->attrs = copy_object(o, "attrs");
    op->act_rounding = td_rec_dup(o, "act_rounding");
    op->origin = copy_object(o, "origin");
    op->judge = copy_object(o, "judge");
    op->extra = td_rec_extra(o, KNOWN);
    read_impl(td_json_get(o, "impl"), op);
    rc = td_rec_count(td_json_get(o, "impl"), "launches", TD_REC_MAX_LAUNCHES, err) < 0 ? TD_ELIMIT : read_tensors(o, op, err);
    if (!rc && !op->kind)
        rc = td_fail(err, TD_ECORRUPT, "no \"kind\"");
    if (rc) {
        td_op_release(op);
        return td_fail_at(err, "op %lld", (long long)number);
    }
    return TD_OK;
}

int td_op_take(cJSON *line, struct td_op *op, struct td_error *err)
{
    cJSON *judge = cJSON_DetachItemFromObjectCaseSensitive(line, "judge");
    int rc = td_op_read(line, op, err);

    cJSON_Delete(op->judge); /* of a second member with that name */
    op->judge = !rc && cJSON_IsObject(judge) ? judge : NULL;
    if (!op->judge)
        cJSON_Delete(judge);
    return rc;
}

const struct td_tensor_rec *td_op_rec_in(const struct td_op *op, const char *role)
{
    int32_t i;

    for (i = 0; i < op->n_in; i++)
        if (!strcmp(op->in[i].role, role))
            return &op->in[i];
    return NULL;
}

bool td_op_named(const struct td_op *op, const char *pattern)
{
    const char *const names[] = {op->layer, op->kind, op->impl.symbol};
    size_t i;

    for (i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] && (strstr(names[i], pattern) || !fnmatch(pattern, names[i], 0)))
            return true;
    return false;
}
