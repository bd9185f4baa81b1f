/* read_ops.c - an op as the tap sends it: its record checked, then written to the fixture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Another process wrote the record and may go on writing it: its head is copied first, and what was checked is what is used. */
#include <stdio.h>
#include <string.h>

#include "model/dtype.h"
#include "recorder/tap_client/client_state.h"

/* ---- checks -------------------------------------------------------------------------------------------------------- */

bool client_is_text(const char *s, size_t n, bool may_be_empty)
{
    size_t i, len = strnlen(s, n);

    for (i = 0; i < len; i++)
        if (s[i] < ' ' || s[i] > '~')
            return false;
    return len < n && (len || may_be_empty);
}

/* Do the elements that shape and strides speak of lie within the bytes? */
static bool fits(const struct tap_tensor *t)
{
    size_t size = td_dtype_size(td_dtype_parse(t->dtype));
    uint64_t last = 0, all, part;
    int i;

    for (i = 0; i < t->ndim; i++)
        if (!t->shape[i])
            return true;
    for (i = 0; i < t->ndim; i++)
        if (__builtin_mul_overflow((uint64_t)t->shape[i] - 1, (uint64_t)t->strides[i], &part) || __builtin_add_overflow(last, part, &last))
            return false;
    return t->opaque || !size || (!__builtin_mul_overflow(last + 1, (uint64_t)size, &all) && all <= t->bytes);
}

static bool check_tensor(const struct tap_tensor *t)
{
    uint64_t elements = 1;
    int i;

    if (!client_is_text(t->role, sizeof t->role, false) || !client_is_text(t->dtype, sizeof t->dtype, false) || t->ndim < 0 || t->ndim > TAP_DIMS || t->opaque > 1 ||
        (t->opaque && t->bytes))
        return false;
    for (i = 0; i < t->ndim; i++)
        if (t->shape[i] < 0 || t->strides[i] < 0 || __builtin_mul_overflow(elements, (uint64_t)t->shape[i], &elements) || elements > INT64_MAX)
            return false;
    return fits(t);
}

static bool check_head(const struct tap_op *rec)
{
    return client_is_text(rec->kind, sizeof rec->kind, false) && client_is_text(rec->symbol, sizeof rec->symbol, false) && client_is_text(rec->layout, sizeof rec->layout, true) &&
           client_is_text(rec->rounding, sizeof rec->rounding, true) && strnlen(rec->name, sizeof rec->name) < sizeof rec->name && rec->has_step <= 1 &&
           rec->has_fingerprint <= 1 && rec->flight < TAP_FLIGHTS && rec->n_attrs <= TAP_MAX_ATTRS && rec->n_w <= TAP_MAX_WEIGHTS && rec->n_in <= TAP_MAX_INPUTS &&
           rec->n_launches <= TAP_MAX_LAUNCHES;
}

/* Copy n bytes at *pos of the record, and move on. */
static bool copy_out(const struct tap_op *rec, const uint8_t *at, size_t *pos, void *to, size_t n)
{
    if (n > rec->rec.size - *pos)
        return false;
    memcpy(to, at + *pos, n);
    *pos += n;
    return true;
}

static bool find_data(struct client_op *op, const uint8_t *at, size_t pos)
{
    int i;

    pos = tap_round(pos, TAP_REC_ALIGN); /* size is a multiple of it too: pos stays within */
    for (i = 0; i <= op->rec->n_in; i++) {
        const struct tap_tensor *t = &op->tensor[op->rec->n_w + i];

        if (t->bytes > op->rec->rec.size - pos)
            return false;
        op->data[i] = t->opaque ? NULL : at + pos;
        op->bytes += t->bytes;
        pos += tap_round(t->bytes, TAP_REC_ALIGN);
    }
    return pos == op->rec->rec.size && op->data[op->rec->n_in];
}

static bool read_op(struct client_op *op, const struct tap_op *rec, const uint8_t *at)
{
    size_t pos = sizeof *rec;
    int i, n = rec->n_w + rec->n_in + 1;

    op->rec = rec;
    op->bytes = 0;
    if (!check_head(rec) || !copy_out(rec, at, &pos, op->attr, rec->n_attrs * sizeof *op->attr) || !copy_out(rec, at, &pos, op->tensor, (size_t)n * sizeof *op->tensor) ||
        (rec->has_fingerprint && !copy_out(rec, at, &pos, &op->print, sizeof op->print)) || !copy_out(rec, at, &pos, op->launch, rec->n_launches * sizeof *op->launch))
        return false;
    for (i = 0; i < rec->n_attrs; i++)
        if (!client_is_text(op->attr[i].name, sizeof op->attr[i].name, false))
            return false;
    for (i = 0; i < n; i++)
        if (!check_tensor(&op->tensor[i]))
            return false;
    for (i = 0; i < rec->n_launches; i++)
        if (!client_is_text(op->launch[i].symbol, sizeof op->launch[i].symbol, true) || op->launch[i].rows[0] < 0 || op->launch[i].rows[1] < op->launch[i].rows[0])
            return false;
    if (rec->has_fingerprint && !client_is_text(op->print.dtype, sizeof op->print.dtype, false))
        return false;
    op->name = rec->name[0] && client_is_text(rec->name, sizeof rec->name, false) ? rec->name : NULL; /* a model's author may call a tensor anything */
    return find_data(op, at, pos);
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

void client_tensor_rec(struct td_tensor_rec *t, const struct tap_tensor *from)
{
    int i;

    memset(t, 0, sizeof *t);
    snprintf(t->role, sizeof t->role, "%s", from->role);
    snprintf(t->dtype, sizeof t->dtype, "%s", from->dtype);
    t->ndim = from->ndim;
    for (i = 0; i < from->ndim; i++) {
        t->shape[i] = from->shape[i];
        t->strides[i] = from->strides[i];
    }
    t->align = from->opaque ? 0 : (int64_t)1 << (from->align <= 12 ? from->align : 0);
}

static void set_attr(cJSON *o, const char *name, int64_t value)
{
    cJSON *old = cJSON_GetObjectItemCaseSensitive(o, name);

    if (old)
        cJSON_SetNumberValue(old, (double)value);
    else
        cJSON_AddNumberToObject(o, name, (double)value);
}

static cJSON *attributes(const struct client_op *op, const struct client_set *set)
{
    cJSON *o = cJSON_CreateObject();
    int i;

    for (i = 0; i < op->rec->n_attrs; i++)
        set_attr(o, op->attr[i].name, op->attr[i].value);
    for (i = 0; set && i < set->n_extra; i++)
        set_attr(o, set->extra[i].name, set->extra[i].value);
    return o;
}

static void add_three(cJSON *o, const char *name, const uint32_t v[3])
{
    cJSON *list = cJSON_AddArrayToObject(o, name);
    int i;

    for (i = 0; i < 3; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(v[i]));
}

/* NULL: the op is not made of launches. */
static cJSON *launches_of(const struct client_op *op)
{
    cJSON *all = op->rec->n_launches ? cJSON_CreateArray() : NULL;
    int i;

    for (i = 0; i < op->rec->n_launches; i++) {
        const struct tap_launch *l = &op->launch[i];
        cJSON *o = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(o, "rows");

        cJSON_AddItemToArray(rows, cJSON_CreateNumber((double)l->rows[0]));
        cJSON_AddItemToArray(rows, cJSON_CreateNumber((double)l->rows[1]));
        add_three(o, "grid", l->grid);
        add_three(o, "block", l->block);
        if (l->shared_bytes)
            cJSON_AddNumberToObject(o, "shared_bytes", l->shared_bytes);
        if (l->symbol[0])
            cJSON_AddStringToObject(o, "symbol", l->symbol);
        if (l->flags & TAP_LAUNCH_IN_GRAPH)
            cJSON_AddTrueToObject(o, "graph");
        cJSON_AddItemToArray(all, o);
    }
    return all;
}

/* How td_writer_blob packs it: of activations in 32 bits zstd takes 6 % off, for half of the recorder's time. */
static int elem_bytes(const char *dtype)
{
    size_t size = td_dtype_size(td_dtype_parse(dtype));

    return size == 4 ? 0 : size == 2 ? 2 : 1;
}

static int store(struct td_tap_client *l, const struct tap_tensor *from, const uint8_t *data, struct td_tensor_rec *to)
{
    int rc = TD_OK;

    client_tensor_rec(to, from);
    if (data)
        rc = td_writer_blob(l->opt.writer, data, from->bytes, elem_bytes(from->dtype), &to->blob);
    to->stored = data && !rc;
    return rc;
}

static int write_op(struct td_tap_client *l, struct client_tap *lk, const struct client_op *op, const struct client_set *set)
{
    struct tap_op rec = *op->rec;     /* td_op's strings are not const */
    char clock[] = "monotonic";
    struct td_tensor_rec in[TAP_MAX_INPUTS + TD_WEIGHT_SET_TENSORS];
    struct td_op out = {.op = l->next_op, .step = rec.has_step ? (int64_t)rec.step : -1, .pid = lk->pid, .t_ns = rec.rec.t_ns, .kind = rec.kind,
                        .layer = set && !set->named_by_call ? set->layer : op->name ? rec.name : NULL, .act_rounding = rec.rounding[0] ? rec.rounding : NULL, .in = in, .has_out = true,
                        .impl = {.symbol = rec.symbol, .library = lk->library[0] ? lk->library : NULL, .build = lk->build[0] ? lk->build : NULL,
                                 .layout = rec.layout[0] ? rec.layout : NULL, .duration_ns = rec.duration_ns < 0 ? -1 : rec.duration_ns,
                                 .clock = rec.duration_ns < 0 ? NULL : clock}};
    int i, rc = store(l, &op->tensor[rec.n_w + rec.n_in], op->data[rec.n_in], &out.out);

    for (i = 0; i < rec.n_in && !rc; i++)
        rc = store(l, &op->tensor[rec.n_w + i], op->data[i], &in[out.n_in++]);
    if (rc)
        return rc;
    for (i = 0; set && i < set->n; i++)
        in[out.n_in++] = set->t[i];
    out.attrs = attributes(op, set);
    out.impl.launches = launches_of(op);
    out.extra = cJSON_CreateObject();
    cJSON_AddNumberToObject(out.extra, "tid", rec.rec.tid);
    cJSON_AddNumberToObject(out.extra, "seq", (double)rec.seq);
    if (lk->rank >= 0)
        cJSON_AddNumberToObject(out.extra, "rank", lk->rank);
    if (client_flight_word(&rec))
        cJSON_AddStringToObject(out.extra, "flight", client_flight_word(&rec));
    rc = td_writer_op(l->opt.writer, &out);
    if (!rc)
        client_flight_look(l, op, out.layer, out.op);
    cJSON_Delete(out.attrs);
    cJSON_Delete(out.impl.launches);
    cJSON_Delete(out.extra);
    return rc;
}

bool client_take_op(struct td_tap_client *l, struct client_tap *lk, struct client_ring *r, const struct tap_op *rec, const uint8_t *at)
{
    const struct client_set *set;
    struct client_op op;
    bool crowded;
    int rc;

    if (!read_op(&op, rec, at))
        return false;
    client_step_rows(l, lk, &op);
    rc = client_op_weights(l, r, &op, &set);
    if (rc == TD_ECORRUPT)
        return false;
    if (!rc && !client_wants(l, &op, set)) {
        client_refuse(r, set && set->unwanted ? rec->weight : 0);
        client_took(l, "ops.seen", "ops.dropped.layers", (int64_t)op.bytes);
        l->state.ops_dropped++;
        return true;
    }
    crowded = rc == TD_ELIMIT;         /* a server that multiplies with ever new weights: these ops are dropped, and counted */
    if (!rc)
        rc = write_op(l, lk, &op, set);
    if (!rc)
        l->next_op++;
    if (!crowded)
        client_keep_failure(l, rc, "ops");
    client_took(l, "ops.seen", rc ? "ops.dropped.recorder" : "ops.kept", (int64_t)op.bytes);
    l->state.ops_kept += !rc;
    l->state.ops_dropped += rc != 0;
    return true;
}
