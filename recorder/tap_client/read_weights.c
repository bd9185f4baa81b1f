/* read_weights.c - sets of weights: put together from their chunks, identified at the first op that uses them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/read_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/identify/identify.h"
#include "recorder/tap_client/client_ledger.h"
#include "recorder/tap_client/wanted_layers.h"

#define ALIGN 64u                     /* of each tensor in memory */
#define WEIGHTS_MAX 1000000u
#define WEIGHTS_AHEAD 16384u          /* ids count up; so many may be given and not sent */
#define OPAQUE_MAX 16384u
#define WEIGHT_BYTES_MAX (16ULL << 30)

/* A set that is sent; its index in the ring's list is the tap's id for it. */
struct client_sent_set {
    uint8_t *data;                    /* until it is identified: each tensor at a multiple of ALIGN */
    uint64_t have, total, bytes[TAP_MAX_WEIGHTS];
    struct client_weight_set *set;           /* NULL: not identified yet */
};

/* A set whose bytes cannot be read, known by its description. */
struct client_opaque_set { struct td_hash key; struct client_weight_set *set; }; /* keys side by side: they are searched */

static void free_set(struct client_weight_set *set)
{
    int t;

    for (t = 0; set && t < set->n; t++)
        cJSON_Delete(set->t[t].ref);
    if (set)
        free(set->layer);
    free(set);
}

void client_weights_release(struct client_ring *r)
{
    uint32_t i;

    for (i = 0; i < r->n_weights; i++) {
        free(r->weights[i].data);
        free_set(r->weights[i].set);
    }
    for (i = 0; i < r->n_opaque; i++)
        free_set(r->opaque[i].set);
    free(r->weights);
    free(r->opaque);
    r->weights = NULL;
    r->opaque = NULL;
    r->n_weights = r->n_opaque = 0;
}

/* ---- chunks -------------------------------------------------------------------------------------------------------- */

static struct client_sent_set *weight_slot(struct client_ring *r, uint32_t id)
{
    if (!id || id > WEIGHTS_MAX || id > r->n_weights + WEIGHTS_AHEAD)
        return NULL;
    if (id >= r->n_weights) {
        uint32_t n = id + 64;
        struct client_sent_set *more = realloc(r->weights, n * sizeof *more);

        if (!more)
            return NULL;
        memset(more + r->n_weights, 0, (n - r->n_weights) * sizeof *more);
        r->weights = more;
        r->n_weights = n;
    }
    return &r->weights[id];
}

/* Room for the set, each tensor aligned. */
static bool begin_set(struct td_tap_client *c, struct client_sent_set *w, const struct tap_weight *rec)
{
    uint64_t room = 0;
    int t;

    w->total = 0;
    for (t = 0; t < TAP_MAX_WEIGHTS; t++) {
        if (rec->bytes[t] > WEIGHT_BYTES_MAX)
            return false;
        w->bytes[t] = rec->bytes[t];
        w->total += rec->bytes[t];
        room += tap_round(rec->bytes[t], ALIGN);
    }
    if (!w->total || w->total > WEIGHT_BYTES_MAX)
        return false;
    w->data = aligned_alloc(ALIGN, room);
    if (!w->data)
        client_ledger_failure(c, TD_ENOMEM, "weights");
    return w->data != NULL;
}

/* Where tensor t begins. */
static uint8_t *piece(const struct client_sent_set *w, int t)
{
    uint64_t at = 0;
    int i;

    for (i = 0; i < t; i++)
        at += tap_round(w->bytes[i], ALIGN);
    return w->data + at;
}

static void scatter(struct client_sent_set *w, const uint8_t *from, uint64_t len)
{
    uint64_t offset = w->have;
    int t;

    for (t = 0; t < TAP_MAX_WEIGHTS && len; t++) {
        uint64_t n;

        if (offset >= w->bytes[t]) {
            offset -= w->bytes[t];
            continue;
        }
        n = w->bytes[t] - offset < len ? w->bytes[t] - offset : len;
        memcpy(piece(w, t) + offset, from, n);
        from += n;
        len -= n;
        offset = 0;
    }
}

bool client_read_chunk(struct td_tap_client *c, struct client_ring *r, const struct tap_weight *rec, const uint8_t *data)
{
    struct client_sent_set *w = weight_slot(r, rec->id);

    if (!w || rec->len > rec->rec.size - sizeof *rec || w->set || (!w->data && !begin_set(c, w, rec)))
        return false;
    if (rec->offset != w->have || rec->len > w->total - w->have)
        return false;
    scatter(w, data, rec->len);
    w->have += rec->len;
    return true;
}

/* ---- identifying --------------------------------------------------------------------------------------------------- */

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
        rc = td_writer_blob(c->opt.writer, from->data, from->size, elem_bytes(from->rec.dtype), &from->rec.blob);
        from->rec.stored = !rc;
        stored = true;
    }
    td_writer_count(c->opt.writer, "weights.seen", 1, bytes);
    td_writer_count(c->opt.writer, s->matches == 1 ? "weights.matched" : s->matches ? "weights.ambiguous" : "weights.unmatched", 1, bytes);
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
}

/* The weights of an op in the words of model/identify. */
struct identify_input {
    struct td_weight_tensor sent[TAP_MAX_WEIGHTS];
    struct td_weight_attr attrs[TAP_MAX_ATTRS];
    struct td_weight_fingerprint fingerprint;
};

static void fill_fingerprint(struct td_weight_fingerprint *to, const struct tap_fingerprint *from)
{
    _Static_assert(sizeof to->word == sizeof from->word, "the same sample");
    to->n = from->n;
    to->k = from->k;
    snprintf(to->dtype, sizeof to->dtype, "%s", from->dtype);
    memcpy(to->word, from->word, sizeof to->word);
}

/* bytes : of each weight of the op, or NULL. s borrows from in and op. */
static void fill_input(struct td_weight_set *s, struct identify_input *in, const struct client_op *op, const uint8_t *const *bytes)
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
    if (op->rec->has_fingerprint) {
        fill_fingerprint(&in->fingerprint, &op->fingerprint);
        s->fingerprint = &in->fingerprint;
    }
    s->kind = op->rec->kind;
    s->layout = op->rec->layout;
    s->name = op->name;
    s->sent = in->sent, s->n_sent = op->rec->n_w;
    s->attrs = in->attrs, s->n_attrs = op->rec->n_attrs;
}

/* Identify and store the weights of an op, which is the first to use them. bytes : of each weight, or NULL */
static int identify_set(struct td_tap_client *c, const struct client_op *op, const uint8_t *const *bytes, struct td_hash key, struct client_weight_set **out)
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
    if (!rc && s.layer[0] && !(set->layer = strdup(s.layer)))
        rc = TD_ENOMEM;
    unwanted = !rc && !s.named_by_call && !client_wants_layer(c, set->layer);
    if (!rc && !unwanted)
        rc = store_set(c, &s);
    if (unwanted)
        td_writer_count(c->opt.writer, "weights.unwanted", 1, 0);
    if (!rc) {
        set->unwanted = unwanted;
        set->key = key;
        move_output(set, &s);
        *out = set;
    } else {
        free_set(set);
    }
    td_weight_set_release(&s);
    return rc;
}

/* How the tap described the weights; with their name and fingerprint where no bytes tell them apart. */
static struct td_hash key_of(const struct client_op *op, bool opaque)
{
    struct {
        char kind[sizeof op->rec->kind], layout[sizeof op->rec->layout], name[TAP_NAME];
        struct tap_tensor w[TAP_MAX_WEIGHTS];
        struct tap_fingerprint fingerprint;
    } all;

    memset(&all, 0, sizeof all);
    memcpy(all.kind, op->rec->kind, sizeof all.kind);
    memcpy(all.layout, op->rec->layout, sizeof all.layout);
    memcpy(all.w, op->tensor, op->rec->n_w * sizeof *all.w);
    if (opaque)
        memcpy(all.name, op->rec->name, sizeof all.name);
    if (opaque && op->rec->has_fingerprint)
        all.fingerprint = op->fingerprint;
    return td_hash_bytes(&all, sizeof all);
}

static int opaque_weights(struct td_tap_client *c, struct client_ring *r, const struct client_op *op, const struct client_weight_set **out)
{
    static const uint8_t *const none[TAP_MAX_WEIGHTS];
    struct td_hash key = key_of(op, true);
    struct client_opaque_set *more;
    struct client_weight_set *set;
    uint32_t i;
    int rc;

    for (i = 0; i < op->rec->n_w; i++)
        if (op->tensor[i].bytes)
            return TD_ECORRUPT;
    for (i = 0; i < r->n_opaque; i++)
        if (td_hash_eq(r->opaque[i].key, key)) {
            *out = r->opaque[i].set;
            return TD_OK;
        }
    if (r->n_opaque == OPAQUE_MAX)
        return TD_ELIMIT;
    if (!(r->n_opaque & (r->n_opaque - 1))) { /* a power of two, or none: full */
        more = realloc(r->opaque, (r->n_opaque ? 2 * r->n_opaque : 1) * sizeof *more);
        if (!more)
            return TD_ENOMEM;
        r->opaque = more;
    }
    rc = identify_set(c, op, none, key, &set);
    if (rc)
        return rc;
    r->opaque[r->n_opaque++] = (struct client_opaque_set){key, set};
    *out = set;
    return TD_OK;
}

static int sent_weights(struct td_tap_client *c, struct client_ring *r, const struct client_op *op, const struct client_weight_set **out)
{
    struct client_sent_set *w = op->rec->weight < r->n_weights ? &r->weights[op->rec->weight] : NULL;
    const uint8_t *bytes[TAP_MAX_WEIGHTS] = {NULL};
    struct td_hash key = key_of(op, false);
    int t, rc;

    if (!w || !w->total || w->have != w->total || (w->set && !td_hash_eq(w->set->key, key)))
        return TD_ECORRUPT;
    for (t = 0; t < TAP_MAX_WEIGHTS; t++) {
        bool sent = t < op->rec->n_w && !op->tensor[t].opaque;

        if (w->bytes[t] != (sent ? op->tensor[t].bytes : 0))
            return TD_ECORRUPT;
        if (sent && !w->set)
            bytes[t] = piece(w, t);
    }
    if (!w->set) {
        rc = identify_set(c, op, bytes, key, &w->set);
        if (rc)
            return rc;
        free(w->data);
        w->data = NULL;
    }
    *out = w->set;
    return TD_OK;
}

int client_op_weights(struct td_tap_client *c, struct client_ring *r, const struct client_op *op, const struct client_weight_set **set)
{
    *set = NULL;
    if (op->rec->weight)
        return sent_weights(c, r, op, set);
    return op->rec->n_w ? opaque_weights(c, r, op, set) : TD_OK;
}
