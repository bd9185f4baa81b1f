/* identify_gguf.c - weights of llama.cpp: found in its GGUF file, by the name that ggml gives them or by their bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bytes that came along are kept as they are; equal ones in the file make the reference. Bytes that could not be read (repacked by ggml's CPU
 * backend, or in another memory) are taken from the file by name, shape and type alone, unless the file has shown that it is another model's. */
#include <stdio.h>
#include <string.h>

#include "model/gguf.h"
#include "model/identify/identify.h"

static void release_nothing(void *p)
{
    (void)p;
}

/* Has a weight of the same name other bytes than the server's? Then this file is not what the server loaded. */
static void **strange(const struct td_identify *s)
{
    return td_layer_index_state(s->layers, "gguf", release_nothing);
}

static bool same_form(const struct td_gguf_tensor *t, const struct tap_tensor *w)
{
    int i;

    for (i = 1; i <= t->ndim || i <= w->ndim; i++) /* from the last dimension on; leading dimensions of 1 say nothing */
        if ((i <= t->ndim ? t->shape[t->ndim - i] : 1) != (i <= w->ndim ? w->shape[w->ndim - i] : 1))
            return false;
    return !strcmp(t->dtype, w->dtype) && t->data;
}

static bool same_bytes(const struct td_gguf_tensor *t, const struct tap_tensor *w, const uint8_t *bytes)
{
    return same_form(t, w) && t->bytes == w->bytes && !memcmp(t->data, bytes, t->bytes);
}

static void refer(struct td_identify *s, int i, const struct td_gguf_tensor *t)
{
    const char *names[] = {t->name};

    td_identify_set_ref(&s->t[i], td_layer_index_path(s->layers), names, 1, NULL, td_hash_bytes(t->data, t->bytes));
}

/* The tensor of the file that has these bytes: the one of that name if it does, else any. */
static const struct td_gguf_tensor *by_content(const struct td_identify *s, const struct td_gguf *g, const struct tap_tensor *w, const uint8_t *bytes)
{
    const struct td_gguf_tensor *t = s->name ? td_gguf_find(g, s->name) : NULL;
    void **other = strange(s);
    size_t i;

    if (t && same_bytes(t, w, bytes))
        return t;
    if (t && other && same_form(t, w))
        *other = (void *)t;
    for (i = 0; i < td_gguf_count(g); i++)
        if (same_bytes(td_gguf_at(g, i), w, bytes))
            return td_gguf_at(g, i);
    return NULL;
}

static bool identify_sent(struct td_identify *s, const struct td_gguf *g, int i)
{
    const struct td_gguf_tensor *t = g ? by_content(s, g, &s->w[i], s->bytes[i]) : NULL;

    td_identify_as_sent(s, i);
    if (t)
        refer(s, s->n - 1, t);
    return t != NULL;
}

/* Dense, as the file has it. */
static void take(struct td_identify *s, int i, const struct td_gguf_tensor *t)
{
    struct td_tensor_rec *rec = &s->t[s->n];
    int64_t stride = 1;
    int d;

    td_identify_tensor(rec, &s->w[i]);
    for (d = rec->ndim; d--; stride *= rec->shape[d])
        rec->strides[d] = stride;
    s->data[s->n] = t->data;
    s->size[s->n] = t->bytes;
    refer(s, s->n++, t);
}

static bool identify_opaque(struct td_identify *s, const struct td_gguf *g, int i)
{
    const struct td_gguf_tensor *t = g && s->name ? td_gguf_find(g, s->name) : NULL;
    void **other = g ? strange(s) : NULL;

    if (!t || !same_form(t, &s->w[i]) || (other && *other)) {
        td_identify_as_sent(s, i);
        return false;
    }
    take(s, i, t);
    return true;
}

int td_identify_gguf(struct td_identify *s, struct td_error *err)
{
    const struct td_gguf *g = s->layers ? td_layer_index_gguf(s->layers) : NULL;
    size_t len = s->name ? strlen(s->name) : 0, tail = strlen(".weight");
    bool all = s->n_w > 0, product = !strncmp(s->kind, "ggml_mul_mat", 12);
    int i;

    (void)err;
    for (i = 0; i < s->n_w; i++)
        all &= s->bytes[i] ? identify_sent(s, g, i) : identify_opaque(s, g, i);
    s->matches = all;
    s->named_by_call = !product;       /* a norm's weights may serve many nodes; those of a product name it */
    if (len > tail && !strcmp(s->name + len - tail, ".weight"))
        len -= tail;
    snprintf(s->layer, sizeof s->layer, "%.*s", (int)len, s->name ? s->name : "");
    return TD_OK;
}
