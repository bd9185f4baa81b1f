/* tap_weights.c - the weights of a layer: known again, and sent once an arm in chunks.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_weights.h"

#include <string.h>

#include "recorder/tap/core/tap_budget.h"
#include "recorder/tap/core/tap_hash.h"
#include "recorder/tap/core/tap_plan.h"
#include "recorder/tap/core/tap_time.h"

#define SAMPLES 64                    /* words of each tensor that are looked at in every call */

/* ---- knowing them again ---------------------------------------------------------------------- */

static uint32_t word_at(const struct tap_operand *o, uint64_t offset)
{
    uint32_t v;

    if (o->row_bytes)
        tap_operand_copy((uint8_t *)&v, o, offset, 4);
    else
        memcpy(&v, (const uint8_t *)o->data + offset, 4); /* by far the most: no call */
    return v;
}

/* A cheap look at the content. */
static uint64_t hash_content(const struct tap_call *call)
{
    uint64_t h = 0;
    int t, i;

    for (t = 0; t < call->n_w; t++) {
        uint64_t words = call->w[t].data ? call->w[t].bytes / 4 : 0;

        h = tap_mix(h ^ call->w[t].bytes);
        for (i = 0; i < SAMPLES && words; i++)
            h = (h ^ word_at(&call->w[t], words * (uint64_t)i / SAMPLES * 4)) * 0x100000001b3u +
                (h >> 29);
    }
    return h;
}

static uint64_t fold(uint64_t h, uint64_t v)
{
    return (h ^ v) * 0x9e3779b97f4a7c15u + (h >> 32);
}

/* By its letters: a front end may build every kind in the same place. */
static uint64_t fold_word(uint64_t h, const char *word)
{
    while (word && *word)
        h = fold(h, (unsigned char)*word++);
    return fold(h, 0);
}

/* The same bytes under another description are another set: what the recorder makes of them depends
 * on it. So are those that stand beside other opaque weights: layers may share a bias. */
static uint64_t hash_description(const struct tap_call *call)
{
    uint64_t h = fold_word(fold_word(0, call->kind), call->layout);
    int t, i;

    for (i = 0; call->fingerprint && i < TD_FINGERPRINT_WORDS; i++)
        h = fold(h, call->fingerprint->word[i]);

    for (t = 0; t < call->n_w; t++) {
        const struct tap_operand *w = &call->w[t];

        h = fold(fold(h, (uintptr_t)w->role), (uintptr_t)w->dtype);
        h = fold(fold(h, w->row_bytes), w->pitch);
        for (i = 0; i < w->ndim; i++)
            h = fold(fold(h, (uint64_t)w->shape[i]), (uint64_t)w->strides[i]);
    }
    return h;
}

static bool same_set(const struct tap_known_weights *a, const struct tap_known_weights *b)
{
    return a->description_hash == b->description_hash && !memcmp(a->ptr, b->ptr, sizeof a->ptr) &&
           !memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

static struct tap_known_weights *find_known(struct tap_ring_slot *s,
                                            const struct tap_known_weights *key)
{
    uint64_t h = key->description_hash;
    unsigned i, tries;

    for (i = 0; i < TAP_MAX_WEIGHTS; i++)
        h = tap_mix(h ^ (uintptr_t)key->ptr[i]);
    i = (unsigned)(h % TAP_KNOWN_WEIGHTS);
    for (tries = 0; tries < 64; tries++, i = (i + 1) % TAP_KNOWN_WEIGHTS)
        if (!s->weights[i].id || same_set(&s->weights[i], key))
            return &s->weights[i];
    return &s->weights[i];              /* crowded: this one is sent again when it comes back */
}

/* ---- sending --------------------------------------------------------------------------------- */

static void copy_stream(const struct tap_call *call, uint64_t offset, uint64_t len, uint8_t *to)
{
    int t;

    for (t = 0; t < call->n_w && len; t++) {
        uint64_t has = call->w[t].data ? call->w[t].bytes : 0, n;

        if (offset >= has) {
            offset -= has;
            continue;
        }
        n = has - offset < len ? has - offset : len;
        tap_operand_copy(to, &call->w[t], offset, n);
        to += n;
        len -= n;
        offset = 0;
    }
}

void *tap_weights_chunk(struct tap_ring_slot *s, uint32_t id, const uint64_t bytes[TAP_MAX_WEIGHTS],
                        uint64_t offset, uint64_t len, uint64_t *size)
{
    struct tap_weight *rec = tap_ring_slot_head(s);

    *size = tap_round_up(sizeof *rec + len, TAP_REC_ALIGN);
    if (tap_ring_slot_room(s) < *size)
        return NULL;
    *rec =
        (struct tap_weight){.rec = tap_ring_slot_rec(s, TAP_REC_WEIGHT, (uint32_t)*size, tap_now()),
                            .id = id,
                            .len = (uint32_t)len,
                            .offset = offset};
    memcpy(rec->bytes, bytes, sizeof rec->bytes);
    return rec + 1;
}

static bool send_chunk(struct tap_ring_slot *s, struct tap_known_weights *w,
                       const struct tap_call *call)
{
    uint64_t len = w->total - w->sent < TAP_MAX_CHUNK ? w->total - w->sent : TAP_MAX_CHUNK, size;
    uint8_t *to;

    if (len > tap_plan.ring_bytes / 4)
        len = tap_plan.ring_bytes / 4;
    to = tap_weights_chunk(s, w->id, w->bytes, w->sent, len, &size);
    if (!to)
        return false;
    copy_stream(call, w->sent, len, to);
    w->sent += len;
    tap_ring_slot_publish(s, (uint32_t)size);
    return true;
}

bool tap_weights_are_refused(const struct tap_ring_slot *s, uint32_t id)
{
    return id < TAP_REFUSABLE_SETS &&
           atomic_load_explicit(&s->ring->refused_sets[id / 64], memory_order_relaxed) >> id % 64 &
               1;
}

bool tap_weights_send(struct tap_ring_slot *s, const struct tap_call *call, uint32_t *id)
{
    struct tap_known_weights key = {0}, *w;
    uint64_t before;
    int t;

    *id = call->weight_set;
    if (call->weight_set)
        return !tap_weights_are_refused(s, call->weight_set);
    for (t = 0; t < call->n_w; t++) {
        key.ptr[t] = call->w[t].data;
        key.bytes[t] = call->w[t].data ? call->w[t].bytes : 0;
        key.total += key.bytes[t];
    }
    if (!key.total)
        return true;
    key.description_hash = hash_description(call);
    key.content_hash = hash_content(call);
    w = find_known(s, &key);
    if (!w->id || w->content_hash != key.content_hash || !same_set(w, &key)) {
        *w = key;
        w->id = ++s->last_weight_set;
    }
    *id = w->id;
    if (tap_weights_are_refused(s, w->id))
        return false;
    if (w->sent == w->total)
        return true;
    if (!tap_thread.may_send_weights)
        return false;
    before = w->sent;
    while (w->sent < w->total && send_chunk(s, w, call))
        ;
    tap_budget_charge_weights(w->sent - before);
    return w->sent == w->total;
}
