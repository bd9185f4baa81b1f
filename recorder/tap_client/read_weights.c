/* read_weights.c - weight sets: put together from chunks, stored at the first op that uses them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/read_weights.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "recorder/tap_client/client_ledger.h"

#define ALIGN 64u                     /* of each tensor in memory */
#define WEIGHTS_MAX 1000000u
#define WEIGHTS_AHEAD 16384u          /* ids count up; so many may be given and not sent */
#define OPAQUE_MAX 16384u
#define WEIGHT_BYTES_MAX (16ULL << 30)

/* A set whose bytes are sent. Its index in the ring's list is the tap's id for it. */
struct client_sent_set {
    uint8_t *data;                    /* until it is stored: each tensor at a multiple of ALIGN */
    uint64_t have, total, bytes[TAP_MAX_WEIGHTS];
    uint64_t booked;                  /* of data, not written to yet: the kernel gives no memory for
                                         it before, and the maximum would not see it */
    struct td_hash key;               /* of how the tap described it: all ops of the set must
                                         agree */
    struct client_weight_set *set;    /* NULL: not stored yet */
};

/* A set whose bytes cannot be read, found by how the tap described it. */
struct client_opaque_set { struct td_hash key; struct client_weight_set *set; };

/* Bytes of a set that were booked count as memory by themselves now, or were given back. */
static void unbook(struct client_sent_set *w, uint64_t n)
{
    td_memory_beside(-(int64_t)n);
    w->booked -= n;
}

static void free_data(struct client_sent_set *w)
{
    unbook(w, w->booked);
    free(w->data);
    w->data = NULL;
}

void client_weights_release(struct client_ring *r)
{
    uint32_t i;

    for (i = 0; i < r->n_weights; i++) {
        free_data(&r->weights[i]);
        client_weight_set_free(r->weights[i].set);
    }
    for (i = 0; i < r->n_opaque; i++)
        client_weight_set_free(r->opaque[i].set);
    free(r->weights);
    free(r->opaque);
    r->weights = NULL;
    r->opaque = NULL;
    r->n_weights = r->n_opaque = 0;
    client_index_release(&r->opaque_index);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* The set of an id; made if need be. NULL: no tap gives such an id, or out of memory. */
static struct client_sent_set *find_sent_set(struct client_ring *r, uint32_t id)
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

/* Make room for the set. False: sizes that no set has, or out of memory. */
static bool begin_set(struct td_tap_client *c, struct client_sent_set *w,
                      const struct tap_weight *rec)
{
    uint64_t room = 0;
    int t;

    w->total = 0;
    for (t = 0; t < TAP_MAX_WEIGHTS; t++) {
        if (rec->bytes[t] > WEIGHT_BYTES_MAX)
            return false;
        w->bytes[t] = rec->bytes[t];
        w->total += rec->bytes[t];
        room += tap_round_up(rec->bytes[t], ALIGN);
    }
    if (!w->total || w->total > WEIGHT_BYTES_MAX)
        return false;
    if (!td_memory_room(room, "weights", &c->failed))
        w->data = aligned_alloc(ALIGN, room);
    if (!w->data)
        client_ledger_failure(c, TD_ENOMEM, "weights");
    w->booked = w->data ? room : 0;
    td_memory_beside((int64_t)w->booked);
    return w->data != NULL;
}

/* Where the bytes of tensor t begin. */
static uint8_t *tensor_bytes(const struct client_sent_set *w, int t)
{
    uint64_t at = 0;
    int i;

    for (i = 0; i < t; i++)
        at += tap_round_up(w->bytes[i], ALIGN);
    return w->data + at;
}

/* Append len bytes to the set, each to its tensor. */
static void append_bytes(struct client_sent_set *w, const uint8_t *from, uint64_t len)
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
        memcpy(tensor_bytes(w, t) + offset, from, n);
        from += n;
        len -= n;
        offset = 0;
    }
}

bool client_read_chunk(struct td_tap_client *c, struct client_ring *r, const struct tap_weight *rec,
                       const uint8_t *data)
{
    struct client_sent_set *w = find_sent_set(r, rec->id);

    if (!w || rec->len > rec->rec.size - sizeof *rec || w->set ||
        (!w->data && !begin_set(c, w, rec)))
        return false;
    if (rec->offset != w->have || rec->len > w->total - w->have)
        return false;
    append_bytes(w, data, rec->len);
    unbook(w, rec->len);
    w->have += rec->len;
    return true;
}

/* ---- the set of an op ------------------------------------------------------------------------ */

/* A hash of how the tap described the weights; of opaque ones also of their name and fingerprint,
 * as no bytes tell them apart. */
static struct td_hash hash_description(const struct client_op *op, bool opaque)
{
    struct {
        char kind[sizeof op->rec->kind], layout[sizeof op->rec->layout], name[TAP_NAME];
        struct tap_tensor w[TAP_MAX_WEIGHTS];
        struct td_weight_fingerprint fingerprint;
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

static bool is_opaque_set(const void *list, uint32_t entry, const void *key)
{
    return td_hash_eq(((const struct client_opaque_set *)list)[entry].key,
                      *(const struct td_hash *)key);
}

static int find_opaque_weights(struct td_tap_client *c, struct client_ring *r,
                               const struct client_op *op, const struct client_weight_set **out)
{
    static const uint8_t *const none[TAP_MAX_WEIGHTS];
    struct td_hash key = hash_description(op, true);
    struct client_opaque_set *more;
    struct client_weight_set *set;
    uint32_t i;
    int rc;

    for (i = 0; i < op->rec->n_w; i++)
        if (op->tensor[i].bytes)
            return TD_ECORRUPT;
    i = client_index_find(&r->opaque_index, key.lo, is_opaque_set, r->opaque, &key);
    if (i != CLIENT_INDEX_NONE) {
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
    rc = client_store_weights(c, op, none, &set);
    if (rc)
        return rc;
    if (!client_index_add(&r->opaque_index, key.lo, r->n_opaque)) {
        client_weight_set_free(set);
        return TD_ENOMEM;
    }
    r->opaque[r->n_opaque++] = (struct client_opaque_set){key, set};
    *out = set;
    return TD_OK;
}

static int find_sent_weights(struct td_tap_client *c, struct client_ring *r,
                             const struct client_op *op, const struct client_weight_set **out)
{
    struct client_sent_set *w =
        op->rec->weight < r->n_weights ? &r->weights[op->rec->weight] : NULL;
    const uint8_t *bytes[TAP_MAX_WEIGHTS] = {NULL};
    struct td_hash key = hash_description(op, false);
    int t, rc;

    if (!w || !w->total || w->have != w->total || (w->set && !td_hash_eq(w->key, key)))
        return TD_ECORRUPT;
    for (t = 0; t < TAP_MAX_WEIGHTS; t++) {
        bool sent = t < op->rec->n_w && !op->tensor[t].opaque;

        if (w->bytes[t] != (sent ? op->tensor[t].bytes : 0))
            return TD_ECORRUPT;
        if (sent && !w->set)
            bytes[t] = tensor_bytes(w, t);
    }
    if (!w->set) {
        rc = client_store_weights(c, op, bytes, &w->set);
        if (rc)
            return rc;
        w->key = key;
        free_data(w);
    }
    *out = w->set;
    return TD_OK;
}

int client_op_weights(struct td_tap_client *c, struct client_ring *r, const struct client_op *op,
                      const struct client_weight_set **set)
{
    *set = NULL;
    if (op->rec->weight)
        return find_sent_weights(c, r, op, set);
    return op->rec->n_w ? find_opaque_weights(c, r, op, set) : TD_OK;
}
