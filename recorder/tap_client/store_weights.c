/* store_weights.c - identify the weights of an op, and store them in the fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/store_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/identify/identify.h"
#include "recorder/tap_client/wanted_layers.h"

void client_weight_set_free(struct client_weight_set *set)
{
    int t;

    for (t = 0; set && t < set->n; t++)
        cJSON_Delete(set->t[t].ref);
    if (set)
        free(set->layer);
    free(set);
}

/* How td_writer_blob() is to pack it. */
static int elem_bytes(const char *dtype)
{
    return strcmp(dtype, "F16") && strcmp(dtype, "BF16") ? 1 : 2;
}

/* Store the set in the fixture; or, where a reference is enough, only its hashes. */
static int store_set(struct td_tap_client *c, struct td_weight_set *s)
{
    bool by_reference = s->matches && c->opt.weights_by_reference, stored = false;
    int64_t bytes = 0;
    int t, rc = TD_OK;

    for (t = 0; t < s->n && !rc; t++) {
        struct td_weight_tensor *from = &s->t[t];

        if (!from->data)
            continue;
        bytes += (int64_t)from->size;
        if (by_reference && from->rec.ref) {
            from->rec.blob = td_hash_bytes(from->data, from->size);
            continue;
        }
        rc = td_writer_blob(c->opt.writer, from->data, from->size, elem_bytes(from->rec.dtype),
                            &from->rec.blob);
        from->rec.stored = !rc;
        stored = true;
    }
    td_writer_count(c->opt.writer, "weights.seen", 1, bytes);
    td_writer_count(c->opt.writer,
                    s->matches == 1 ? "weights.matched"
                    : s->matches    ? "weights.ambiguous"
                                    : "weights.unmatched",
                    1, bytes);
    if (!rc && stored)
        td_writer_count(c->opt.writer, "weights.stored", 1, bytes);
    return rc;
}

/* The output of s becomes the set; its refs change hands. */
static void move_output(struct client_weight_set *set, struct td_weight_set *s)
{
    int i;

    for (i = 0; i < s->n; i++) {
        set->t[i] = s->t[i].rec;
        s->t[i].rec.ref = NULL;
    }
    set->n = s->n;
    memcpy(set->extra, s->extra, sizeof set->extra);
    set->n_extra = s->n_extra;
    set->named_by_call = s->named_by_call;
    set->layout_unknown = s->layout_unknown;
}

/* Weights that no replay can use: count them, and keep the first reason for record's summary. */
static void note_unknown_layout(struct td_tap_client *c, const struct td_weight_set *s)
{
    struct td_tap_client_state *state = &c->state;

    td_writer_count(c->opt.writer, "weights.layout_unknown", 1, 0);
    if (!state->unknown_layout[0])
        snprintf(state->unknown_layout, sizeof state->unknown_layout, "%s: %s", s->layout,
                 s->why_unknown);
}

/* The weights of an op in the words of model/identify. */
struct identify_input {
    struct td_weight_tensor sent[TAP_MAX_WEIGHTS];
    struct td_attr attrs[TAP_MAX_ATTRS];
};

/* bytes : of each weight of the op, or NULL. s borrows from in and op. */
static void fill_input(struct td_weight_set *s, struct identify_input *in,
                       const struct client_op *op, const uint8_t *const *bytes)
{
    int i;

    for (i = 0; i < op->rec->n_w; i++) {
        client_tensor_rec(&in->sent[i].rec, &op->tensor[i]);
        in->sent[i].data = bytes[i];
        in->sent[i].size = op->tensor[i].bytes;
    }
    for (i = 0; i < op->rec->n_attrs; i++) {
        snprintf(in->attrs[i].name, sizeof in->attrs[i].name, "%s", op->attr[i].name);
        in->attrs[i].value = op->attr[i].value;
    }
    s->fingerprint = op->rec->has_fingerprint ? &op->fingerprint : NULL;
    s->kind = op->rec->kind;
    s->layout = op->rec->layout;
    s->name = op->name;
    s->sent = in->sent, s->n_sent = op->rec->n_w;
    s->attrs = in->attrs, s->n_attrs = op->rec->n_attrs;
}

int client_store_weights(struct td_tap_client *c, const struct client_op *op,
                         const uint8_t *const *bytes, struct client_weight_set **out)
{
    struct identify_input in = {0};
    struct td_weight_set s = {.layers = c->layers};
    struct client_weight_set *set = calloc(1, sizeof *set);
    struct td_error err = {0};
    bool unwanted = false;
    int rc = TD_ENOMEM;

    if (set) {
        fill_input(&s, &in, op, bytes);
        rc = td_identify_weights(&s, &err);
    }
    if (rc == TD_ELIMIT)               /* the reader only counts the op: the sentence is ours */
        td_fail(&c->failed, rc, "%s", err.msg);
    if (!rc && s.layer[0] && !(set->layer = strdup(s.layer)))
        rc = TD_ENOMEM;
    unwanted = !rc && !s.named_by_call && !client_wants_layer(c, set->layer);
    if (!rc && !unwanted)
        rc = store_set(c, &s);
    if (unwanted)
        td_writer_count(c->opt.writer, "weights.unwanted", 1, 0);
    if (!rc && !unwanted && s.layout_unknown)
        note_unknown_layout(c, &s);
    if (!rc) {
        set->unwanted = unwanted;
        move_output(set, &s);
        *out = set;
    } else {
        client_weight_set_free(set);
    }
    td_weight_set_release(&s);
    return rc;
}
