/* read_ops.c - ops as the tap sends them, into the fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/read_ops.h"

#include <stdio.h>
#include <string.h>

#include "model/dtype.h"
#include "recorder/tap_client/client_ledger.h"
#include "recorder/tap_client/read_steps.h"
#include "recorder/tap_client/read_weights.h"
#include "recorder/tap_client/wanted_layers.h"

/* ---- writing --------------------------------------------------------------------------------- */

/* An integer as docs/format.md has it: a string of digits where a double would round. */
static cJSON *make_integer(int64_t v)
{
    const int64_t exact = (int64_t)1 << 53;
    char digits[24];

    snprintf(digits, sizeof digits, "%lld", (long long)v);
    return v >= -exact && v <= exact ? cJSON_CreateNumber((double)v) : cJSON_CreateString(digits);
}

static void set_attr(cJSON *o, const char *name, int64_t value)
{
    if (cJSON_GetObjectItemCaseSensitive(o, name))
        cJSON_ReplaceItemInObjectCaseSensitive(o, name, make_integer(value));
    else
        cJSON_AddItemToObject(o, name, make_integer(value));
}

/* The attributes of the call; those that the weights decide replace those of the same name. */
static cJSON *merge_attributes(const struct client_op *op, const struct client_weight_set *set)
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

/* The launches that the op is made of; NULL: it is not made of launches. */
static cJSON *describe_launches(const struct client_op *op)
{
    cJSON *all = op->rec->n_launches ? cJSON_CreateArray() : NULL;
    int i;

    for (i = 0; i < op->rec->n_launches; i++) {
        const struct td_op_launch *launch = &op->launch[i];
        cJSON *o = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(o, "rows");

        cJSON_AddItemToArray(rows, cJSON_CreateNumber((double)launch->rows[0]));
        cJSON_AddItemToArray(rows, cJSON_CreateNumber((double)launch->rows[1]));
        add_three(o, "grid", launch->grid);
        add_three(o, "block", launch->block);
        if (launch->shared_bytes)
            cJSON_AddNumberToObject(o, "shared_bytes", launch->shared_bytes);
        if (launch->symbol[0])
            cJSON_AddStringToObject(o, "symbol", launch->symbol);
        if (launch->flags & TD_LAUNCH_IN_GRAPH)
            cJSON_AddTrueToObject(o, "graph");
        cJSON_AddItemToArray(all, o);
    }
    return all;
}

/* How td_writer_blob() is to pack it. 0, not at all: zstd takes 6 % off 32-bit activations, for
 * half of the recorder's time. */
static int elem_bytes(const char *dtype)
{
    size_t size = td_dtype_size(td_dtype_parse(dtype));

    return size == 4 ? 0 : size == 2 ? 2 : 1;
}

static int store_tensor(struct td_tap_client *c, const struct tap_tensor *from, const uint8_t *data,
                        struct td_tensor_rec *to)
{
    int rc = TD_OK;

    client_tensor_rec(to, from);
    if (data)
        rc = td_writer_blob(c->opt.writer, data, from->bytes, elem_bytes(from->dtype), &to->blob);
    to->stored = data && !rc;
    return rc;
}

/* Store the output, or keep a digest of it, where that is asked for and enough. */
static int store_output(struct td_tap_client *c, const struct client_op *op, const struct client_weight_set *set,
                        struct td_tensor_rec *to)
{
    const struct tap_op *rec = op->rec;
    const struct tap_tensor *from = &op->tensor[rec->n_w + rec->n_in];
    struct td_hash digest;

    if ((set && set->layout_unknown) ||
        !client_outputs_repeat(&c->outputs, op, set ? set->t : NULL, set ? set->n : 0, &digest))
        return store_tensor(c, from, op->data[rec->n_in], to);
    client_tensor_rec(to, from);
    to->blob = digest;
    td_writer_count(c->opt.writer, "outputs.digests", 1, (int64_t)from->bytes);
    c->state.digests++;
    c->state.digest_bytes += (int64_t)from->bytes;
    return TD_OK;
}

/* Fill out->out and out->in: inputs, then weights. */
static int store_tensors(struct td_tap_client *c, const struct client_op *op,
                         const struct client_weight_set *set, struct td_op *out)
{
    const struct tap_op *rec = op->rec;
    int i, rc = store_output(c, op, set, &out->out);

    for (i = 0; i < rec->n_in && !rc; i++)
        rc = store_tensor(c, &op->tensor[rec->n_w + i], op->data[i], &out->in[out->n_in++]);
    for (i = 0; set && i < set->n && !rc; i++)
        out->in[out->n_in++] = set->t[i];
    return rc;
}

static cJSON *make_extra(const struct client_tap *tap, const struct tap_op *rec)
{
    cJSON *o = cJSON_CreateObject();

    cJSON_AddNumberToObject(o, "tid", rec->rec.tid);
    cJSON_AddItemToObject(o, "seq", make_integer((int64_t)rec->seq));
    if (tap->rank >= 0)
        cJSON_AddNumberToObject(o, "rank", tap->rank);
    if (client_flight_reason(rec))
        cJSON_AddStringToObject(o, "flight", client_flight_reason(rec));
    return o;
}

/* NULL: the op has no name. */
static const char *layer_name(const struct client_op *op, const struct client_weight_set *set)
{
    return set && !set->named_by_call && set->layer ? set->layer : op->name;
}

/* How much of a layer's name says which layer of the model it is: "model.layers.3" of
 * "model.layers.3.mlp.up_proj". 0: it has no number. */
static size_t number_ends(const char *layer)
{
    const char *p = layer;
    size_t n;

    while ((p = strchr(p, '.')) != NULL) {
        n = strspn(++p, "0123456789");
        if (n && (!p[n] || p[n] == '.'))
            return (size_t)(p + n - layer);
    }
    return 0;
}

/* An op beside products that no weight of its own names is of the layer of the op before it, in its
 * process and step; not one of weights alone, which may as well begin a layer. The name is made in
 * tap->beside. */
static void name_by_place(struct client_tap *tap, struct client_op *op, const char *layer)
{
    const struct tap_op *rec = op->rec;

    if (layer && rec->has_step) {
        snprintf(tap->near, sizeof tap->near, "%.*s", (int)number_ends(layer), layer);
        tap->near_step = rec->step;
    } else if (!layer && client_op_is_beside(op) && rec->n_in && rec->has_step && tap->near[0] &&
               tap->near_step == rec->step) {
        snprintf(tap->beside, sizeof tap->beside, "%s.%s", tap->near, rec->kind);
        op->name = tap->beside;
    }
}

static int write_op(struct td_tap_client *c, struct client_tap *tap, const struct client_op *op,
                    const struct client_weight_set *set)
{
    struct tap_op rec = *op->rec;     /* a copy: td_op's strings are not const */
    const char *layer = layer_name(op, set);
    char clock[] = "monotonic";
    bool timed = rec.duration_ns >= 0;
    struct td_tensor_rec in[TD_OP_MAX_TENSORS];
    struct td_op out = {.op = c->next_op,
                        .step = rec.has_step ? (int64_t)rec.step : -1,
                        .pid = tap->pid,
                        .t_ns = rec.rec.t_ns + c->opt.clock_shift_ns,
                        .kind = rec.kind,
                        .layer = (char *)layer,
                        .act_rounding = rec.rounding[0] ? rec.rounding : NULL,
                        .in = in,
                        .has_out = true};
    int rc = store_tensors(c, op, set, &out);

    if (rc)
        return rc;
    out.impl = (struct td_impl){.symbol = rec.symbol,
                                .library = tap->library[0] ? tap->library : NULL,
                                .build = tap->build[0] ? tap->build : NULL,
                                .layout = rec.layout[0] ? rec.layout : NULL,
                                .duration_ns = timed ? rec.duration_ns : -1,
                                .clock = timed ? clock : NULL,
                                .launches = describe_launches(op)};
    out.attrs = merge_attributes(op, set);
    out.extra = make_extra(tap, &rec);
    rc = td_writer_op(c->opt.writer, &out);
    if (!rc && c->mode.flight_mib)
        client_flight_check_op(&c->flight, op, layer, out.op);
    cJSON_Delete(out.attrs);
    cJSON_Delete(out.impl.launches);
    cJSON_Delete(out.extra);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Does --layers want the op? */
static bool is_wanted(struct td_tap_client *c, const struct client_op *op,
                      const struct client_weight_set *set)
{
    bool named_by_set = set && !set->named_by_call;

    if (!c->filter || (named_by_set && !set->unwanted))
        return true;
    c->nameless |= !layer_name(op, set);
    return set && set->unwanted ? false : client_wants_layer(c, layer_name(op, set));
}

static void drop_unwanted(struct td_tap_client *c, struct client_ring *r,
                          const struct client_op *op, const struct client_weight_set *set)
{
    client_refuse_weight(r, set && set->unwanted ? op->rec->weight : 0);
    client_ledger_count(c, "ops.seen", "ops.dropped.layers", (int64_t)op->bytes);
    c->state.ops_dropped++;
    c->state.ops_layers++;
}

bool client_read_op(struct td_tap_client *c, struct client_tap *tap, struct client_ring *r,
                    const struct tap_op *rec, const uint8_t *at)
{
    const struct client_weight_set *set;
    struct client_op op;
    bool crowded;
    int rc;

    if (!client_op_read(&op, rec, at))
        return false;
    if (!c->outputs.rehearses)
        client_note_rows(c, tap, &op);
    rc = client_op_weights(c, r, &op, &set);
    if (rc == TD_ECORRUPT)
        return false;
    if (c->outputs.rehearses) {
        if (!rc)
            client_outputs_rehearse(&c->outputs, &op, set ? set->t : NULL, set ? set->n : 0);
        return true; /* what could not be stored shows again when it is recorded */
    }
    if (!rc)
        name_by_place(tap, &op, layer_name(&op, set));
    if (!rc && !is_wanted(c, &op, set)) {
        drop_unwanted(c, r, &op, set);
        return true;
    }
    crowded = rc == TD_ELIMIT;         /* a server that multiplies with ever new weights: no
                                          failure, its ops are dropped and counted */
    if (!rc)
        rc = write_op(c, tap, &op, set);
    if (!crowded)
        client_ledger_failure(c, rc, "ops");
    client_ledger_count(c, "ops.seen", rc ? "ops.dropped.recorder" : "ops.kept", (int64_t)op.bytes);
    c->next_op += !rc;
    c->state.ops_kept += !rc;
    c->state.ops_beside += !rc && client_op_is_beside(&op);
    c->state.ops_layout_unknown += !rc && set && set->layout_unknown;
    c->state.ops_dropped += rc != 0;
    c->state.ops_crowded += crowded;
    return true;
}
