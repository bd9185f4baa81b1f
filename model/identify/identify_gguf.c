/* identify_gguf.c - identify weights of llama.cpp, by name or by their bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bytes that were sent are stored as they are; equal bytes in the file make the reference. Bytes
 * that could not be read (repacked by ggml's CPU backend, or in another memory) are read from the
 * file, found there by name, shape and type alone, unless the file has shown that it is another
 * model's. */
#include <stdio.h>
#include <string.h>

#include "model/gguf.h"
#include "model/identify/checkpoint_ref.h"
#include "model/identify/identify_entries.h"

static void release_nothing(void *p)
{
    (void)p;
}

/* A slot that lives as long as the file is open, not NULL once a weight had other bytes than the
 * file's tensor of the same name: then this file is not what the server loaded. NULL: there is no
 * room for the slot. */
static void **other_model(const struct td_weight_set *s)
{
    return td_layer_index_state(s->layers, "gguf", release_nothing);
}

/* Leading dimensions of 1 are ignored. */
static bool same_form(const struct td_gguf_tensor *t, const struct td_weight_tensor *w)
{
    const struct td_tensor_rec *r = &w->rec;
    int i;

    for (i = 1; i <= t->ndim || i <= r->ndim; i++) /* from the last dimension on */
        if ((i <= t->ndim ? t->shape[t->ndim - i] : 1) !=
            (i <= r->ndim ? r->shape[r->ndim - i] : 1))
            return false;
    return !strcmp(t->dtype, r->dtype) && t->data;
}

static bool same_bytes(const struct td_gguf_tensor *t, const struct td_weight_tensor *w)
{
    return same_form(t, w) && t->bytes == w->size && !memcmp(t->data, w->data, t->bytes);
}

static void refer_tensor(struct td_weight_set *s, int i, const struct td_gguf_tensor *t)
{
    const char *names[] = {t->name};

    td_checkpoint_ref_set(&s->t[i].rec, td_layer_index_path(s->layers), names, 1, NULL,
                          td_hash_bytes(t->data, t->bytes));
}

/* ---- weights whose bytes were sent ----------------------------------------------------------- */

/* The tensor of the file that has these bytes: the one of that name if it does, else any. */
static const struct td_gguf_tensor *find_by_content(const struct td_weight_set *s,
                                                    const struct td_gguf *g,
                                                    const struct td_weight_tensor *w)
{
    const struct td_gguf_tensor *t = s->name ? td_gguf_find(g, s->name) : NULL;
    void **other = other_model(s);
    size_t i;

    if (t && same_bytes(t, w))
        return t;
    if (t && other && same_form(t, w))
        *other = (void *)t;
    for (i = 0; i < td_gguf_count(g); i++)
        if (same_bytes(td_gguf_at(g, i), w))
            return td_gguf_at(g, i);
    return NULL;
}

static bool identify_sent(struct td_weight_set *s, const struct td_gguf *g,
                          const struct td_weight_tensor *w)
{
    const struct td_gguf_tensor *t = g ? find_by_content(s, g, w) : NULL;

    if (td_weight_set_add_sent(s, w) && t)
        refer_tensor(s, s->n - 1, t);
    return t != NULL;
}

/* ---- weights that could not be read ---------------------------------------------------------- */

/* Add w with the bytes of the file's tensor, dense as they lie there. */
static void add_from_file(struct td_weight_set *s, const struct td_weight_tensor *w,
                          const struct td_gguf_tensor *t)
{
    struct td_weight_tensor *out = td_weight_set_add_sent(s, w);
    int64_t stride = 1;
    int d;

    if (!out)
        return;
    for (d = out->rec.ndim; d--; stride *= out->rec.shape[d])
        out->rec.strides[d] = stride;
    out->data = t->data;
    out->size = t->bytes;
    refer_tensor(s, s->n - 1, t);
}

static bool identify_opaque(struct td_weight_set *s, const struct td_gguf *g,
                            const struct td_weight_tensor *w)
{
    const struct td_gguf_tensor *t = g && s->name ? td_gguf_find(g, s->name) : NULL;
    void **other = g ? other_model(s) : NULL;

    if (!t || !same_form(t, w) || (other && *other)) {
        td_weight_set_add_sent(s, w);
        return false;
    }
    add_from_file(s, w, t);
    return true;
}

int td_identify_gguf(struct td_weight_set *s, struct td_error *err)
{
    const struct td_gguf *g = s->layers ? td_layer_index_gguf(s->layers) : NULL;
    size_t len = s->name ? strlen(s->name) : 0, tail = strlen(".weight");
    bool all = s->n_sent > 0, product = !strncmp(s->kind, "ggml_mul_mat", 12);
    int i;

    (void)err;
    for (i = 0; i < s->n_sent; i++)
        all &=
            s->sent[i].data ? identify_sent(s, g, &s->sent[i]) : identify_opaque(s, g, &s->sent[i]);
    s->matches = all;
    s->named_by_call = !product;       /* a norm's weights may serve many nodes; those of a product
                                          name it */
    if (len > tail && !strcmp(s->name + len - tail, ".weight"))
        len -= tail;
    snprintf(s->layer, sizeof s->layer, "%.*s", (int)len, s->name ? s->name : "");
    return TD_OK;
}
