/* gguf_read.c - read the header of one GGUF file into keys and tensors; nothing in it is believed unchecked.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/gguf_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ALIGNMENT 32u
#define MAX_ALIGNMENT (1u << 20)

/* Types of tensors by their number in files. Source: gguf-py/gguf/constants.py of llama.cpp b11434,
 * GGMLQuantizationType and GGML_QUANT_SIZES. */
static const struct { const char *name; uint16_t block, size; } types[] = {
    [0] = {"F32", 1, 4},         [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},      [3] = {"Q4_1", 32, 20},
    [6] = {"Q5_0", 32, 22},      [7] = {"Q5_1", 32, 24},      [8] = {"Q8_0", 32, 34},      [9] = {"Q8_1", 32, 36},
    [10] = {"Q2_K", 256, 84},    [11] = {"Q3_K", 256, 110},   [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},
    [14] = {"Q6_K", 256, 210},   [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66}, [17] = {"IQ2_XS", 256, 74},
    [18] = {"IQ3_XXS", 256, 98}, [19] = {"IQ1_S", 256, 50},   [20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},
    [22] = {"IQ2_S", 256, 82},   [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},
    [26] = {"I32", 1, 4},        [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},        [29] = {"IQ1_M", 256, 56},
    [30] = {"BF16", 1, 2},       [34] = {"TQ1_0", 256, 54},   [35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},
    [40] = {"NVFP4", 64, 36},    [41] = {"Q1_0", 128, 18},    [42] = {"Q2_0", 64, 18},
};
#define N_TYPES (sizeof types / sizeof *types)

enum { V_U8, V_I8, V_U16, V_I16, V_U32, V_I32, V_F32, V_BOOL, V_STR, V_ARRAY, V_U64, V_I64, V_F64, V_COUNT };
static const uint8_t value_bytes[V_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* The place in the header; the first error is remembered. */
struct cursor {
    const char *path;
    const uint8_t *at, *end;
    struct td_error *err;
    int rc;
};

static bool read_bytes(struct cursor *c, void *to, size_t n)
{
    if (!c->rc && (size_t)(c->end - c->at) < n)
        c->rc = td_fail(c->err, TD_ETRUNCATED,
                        "%s: truncated: its header ends after %zu bytes; fetch it again", c->path,
                        (size_t)(c->end - c->at));
    if (c->rc) {
        memset(to, 0, n);
        return false;
    }
    memcpy(to, c->at, n);
    c->at += n;
    return true;
}

static uint32_t read_u32(struct cursor *c)
{
    uint32_t v;

    read_bytes(c, &v, sizeof v);
    return v;
}

static uint64_t read_u64(struct cursor *c)
{
    uint64_t v;

    read_bytes(c, &v, sizeof v);
    return v;
}

static void skip_bytes(struct cursor *c, uint64_t n)
{
    if (!c->rc && (uint64_t)(c->end - c->at) < n)
        c->rc = td_fail(
            c->err, TD_ETRUNCATED,
            "%s: truncated: %llu more bytes of metadata are due, %zu are there; fetch it again",
            c->path, (unsigned long long)n, (size_t)(c->end - c->at));
    if (!c->rc)
        c->at += n;
}

/* Copy a string of the file and put a NUL behind it. NULL: c->rc has the error. */
static char *read_text(struct cursor *c, size_t *len)
{
    uint64_t n = read_u64(c);
    const uint8_t *from = c->at;
    char *s;

    skip_bytes(c, n);
    if (c->rc)
        return NULL;
    s = malloc((size_t)n + 1);
    if (!s) {
        c->rc = td_fail(c->err, TD_ENOMEM, "%s: out of memory", c->path);
        return NULL;
    }
    memcpy(s, from, (size_t)n);
    s[n] = '\0';
    *len = (size_t)n;
    return s;
}

/* A key or a tensor's name: of bounded length, without NUL. */
static char *read_name(struct cursor *c, const char *what)
{
    size_t n = 0;
    char *s = read_text(c, &n);

    if (s && (!n || n > TD_GGUF_MAX_NAME || strlen(s) != n)) {
        c->rc = td_fail(c->err, TD_ECORRUPT,
                        "%s: a name of a %s is empty, longer than %d bytes, or holds a NUL",
                        c->path, what, TD_GGUF_MAX_NAME);
        free(s);
        s = NULL;
    }
    return s;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static void skip_array(struct cursor *c, struct td_gguf_value *v)
{
    uint32_t type = read_u32(c);
    uint64_t n = read_u64(c), i;

    *v = (struct td_gguf_value){.kind = TD_GGUF_ARRAY, .len = (size_t)n};
    if (type >= V_COUNT || type == V_ARRAY) {
        if (!c->rc)
            c->rc = td_fail(c->err, TD_ECORRUPT,
                            "%s: an array of values of type %u, which the format does not know",
                            c->path, type);
    } else if (type != V_STR) {
        skip_bytes(c, n > UINT64_MAX / 8 ? UINT64_MAX : n * value_bytes[type]);
    } else {
        for (i = 0; i < n && !c->rc; i++)
            skip_bytes(c, read_u64(c));
    }
}

static struct td_gguf_value integer_value(enum td_gguf_kind kind, int64_t i)
{
    return (struct td_gguf_value){.kind = kind, .v.i = i};
}

static void read_scalar(struct cursor *c, uint32_t type, struct td_gguf_value *v)
{
    uint8_t raw[8] = {0};
    float f;

    read_bytes(c, raw, value_bytes[type]);
    switch (type) {
    case V_I8: *v = integer_value(TD_GGUF_INT, (int8_t)raw[0]); break;
    case V_I16: *v = integer_value(TD_GGUF_INT, (int16_t)(raw[0] | raw[1] << 8)); break;
    case V_I32: { int32_t i; memcpy(&i, raw, 4); *v = integer_value(TD_GGUF_INT, i); break; }
    case V_I64: { int64_t i; memcpy(&i, raw, 8); *v = integer_value(TD_GGUF_INT, i); break; }
    case V_F32: memcpy(&f, raw, 4); *v = (struct td_gguf_value){.kind = TD_GGUF_FLOAT, .v.f = (double)f}; break;
    case V_F64: v->kind = TD_GGUF_FLOAT; memcpy(&v->v.f, raw, 8); break;
    case V_BOOL: *v = (struct td_gguf_value){.kind = TD_GGUF_BOOL, .v.b = raw[0] != 0}; break;
    default: v->kind = TD_GGUF_UINT; memcpy(&v->v.u, raw, 8); /* the high bytes are zero */
    }
}

static void read_value(struct cursor *c, struct td_gguf_value *v)
{
    uint32_t type = read_u32(c);

    *v = (struct td_gguf_value){.kind = TD_GGUF_NONE};
    if (type == V_STR) {
        v->kind = TD_GGUF_STR;
        v->str = read_text(c, &v->len);
    } else if (type == V_ARRAY) {
        skip_array(c, v);
    } else if (type < V_COUNT) {
        read_scalar(c, type, v);
    } else if (!c->rc) {
        c->rc = td_fail(c->err, TD_ECORRUPT, "%s: a value of type %u, which the format does not know", c->path, type);
    }
}

void td_gguf_release_keys(struct td_gguf_key *keys, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        free(keys[i].name);
        free((char *)keys[i].value.str);
    }
    free(keys);
}

struct td_gguf_value td_gguf_find_key(const struct td_gguf_key *keys, size_t n, const char *name)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (!strcmp(keys[i].name, name))
            return keys[i].value;
    return (struct td_gguf_value){.kind = TD_GGUF_NONE};
}

/* Memory grows with the keys that are really there, because the count is only a claim. */
static void read_keys(struct cursor *c, uint64_t n, struct td_gguf_key **out, size_t *count)
{
    size_t cap = 0;

    while (*count < n && !c->rc) {
        if (*count == cap) {
            size_t more = cap ? cap * 2 : 64;
            struct td_gguf_key *grown = realloc(*out, more * sizeof *grown);

            if (!grown) {
                c->rc = td_fail(c->err, TD_ENOMEM, "%s: out of memory", c->path);
                return;
            }
            *out = grown;
            cap = more;
        }
        memset(&(*out)[*count], 0, sizeof **out);
        (*out)[*count].name = read_name(c, "key");
        if (!(*out)[*count].name)
            return;
        read_value(c, &(*out)[(*count)++].value);
    }
}

/* ---- tensors --------------------------------------------------------------------------------- */

static void name_type(struct cursor *c, struct td_gguf_tensor *t, uint32_t type)
{
    char *text = NULL;

    if (type < N_TYPES && types[type].name) {
        t->dtype = types[type].name;
        t->td = td_dtype_parse(t->dtype);
    } else if (asprintf(&text, "type-%u", type) < 0) {
        c->rc = td_fail(c->err, TD_ENOMEM, "%s: out of memory", c->path);
    }
    if (!t->dtype)
        t->dtype = text;
}

bool td_gguf_known_type(const struct td_gguf_tensor *t)
{
    return t->dtype && strncmp(t->dtype, "type-", 5);
}

/* Compute shape and bytes from ne; an unknown type has neither blocks nor a size. */
static void measure_tensor(struct cursor *c, struct td_gguf_tensor *t, uint32_t type)
{
    uint64_t block = td_gguf_known_type(t) ? types[type].block : 1, bytes = td_gguf_known_type(t) ? types[type].size : 0;
    int i;

    for (i = 0; i < t->ndim; i++)
        t->shape[i] = t->ne[t->ndim - 1 - i];
    if ((uint64_t)t->ne[0] % block) {
        c->rc = td_fail(c->err, TD_ECORRUPT,
                        "%s: tensor \"%s\": rows of %lld elements are no whole blocks of %s",
                        c->path, t->name, (long long)t->ne[0], t->dtype);
        return;
    }
    if (t->ndim)
        t->shape[t->ndim - 1] = t->ne[0] / (int64_t)block;
    for (i = 0; i < TD_GGUF_DIMS; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)t->ne[i] / (i ? 1 : block), &bytes)) {
            c->rc = td_fail(c->err, TD_ECORRUPT, "%s: tensor \"%s\": its shape overflows", c->path, t->name);
            return;
        }
    t->bytes = bytes;
}

static void read_tensor(struct cursor *c, struct td_gguf_tensor *t, uint64_t *offset)
{
    uint32_t ndim, type;
    int i;

    t->path = c->path;
    t->name = read_name(c, "tensor");
    if (!t->name)
        return;
    ndim = read_u32(c);
    if (!c->rc && ndim > TD_GGUF_DIMS)
        c->rc = td_fail(c->err, TD_ECORRUPT,
                        "%s: tensor \"%s\": %u dimensions, the format has at most %d", c->path,
                        t->name, ndim, TD_GGUF_DIMS);
    t->ndim = c->rc ? 0 : (int)ndim;
    for (i = 0; i < TD_GGUF_DIMS; i++) {
        t->ne[i] = i < t->ndim ? (int64_t)read_u64(c) : 1;
        if (!c->rc && t->ne[i] < 0)
            c->rc = td_fail(c->err, TD_ECORRUPT, "%s: tensor \"%s\": dimension %d is negative", c->path, t->name, i);
    }
    type = read_u32(c);
    *offset = read_u64(c);
    if (!c->rc)
        name_type(c, t, type);
    if (!c->rc)
        measure_tensor(c, t, type);
}

static struct td_gguf_tensor *new_tensor(struct td_gguf *g, struct cursor *c)
{
    if (g->n == g->cap) {
        size_t cap = g->cap ? g->cap * 2 : 64;
        struct td_gguf_tensor *grown = cap <= 2 * TD_GGUF_MAX_TENSORS ? realloc(g->tensors, cap * sizeof *grown) : NULL;

        if (!grown) {
            c->rc = td_fail(c->err, TD_ENOMEM, "%s: out of memory", c->path);
            return NULL;
        }
        g->tensors = grown;
        g->cap = cap;
    }
    memset(&g->tensors[g->n], 0, sizeof *g->tensors);
    return &g->tensors[g->n++];
}

/* *offsets is relative to the start of the data, which is known once the header has been read. */
static void read_tensors(struct td_gguf *g, struct cursor *c, uint64_t n, uint64_t **offsets)
{
    size_t first = g->n, cap = 0, i;

    for (i = 0; i < n && !c->rc; i++) {
        struct td_gguf_tensor *t = new_tensor(g, c);

        if (i == cap) {
            uint64_t *grown = realloc(*offsets, (cap = cap ? cap * 2 : 64) * sizeof *grown);

            if (!grown)
                c->rc = td_fail(c->err, TD_ENOMEM, "%s: out of memory", c->path);
            else
                *offsets = grown;
        }
        if (!c->rc)
            read_tensor(c, t, &(*offsets)[g->n - 1 - first]);
    }
}

static void place_tensor(struct cursor *c, struct td_gguf_tensor *t, uint64_t offset, uint64_t alignment, const uint8_t *data)
{
    uint64_t room = (uint64_t)(c->end - data);

    if (offset % alignment) {
        c->rc = td_fail(c->err, TD_ECORRUPT, "%s: tensor \"%s\": its offset is no multiple of %llu",
                        c->path, t->name, (unsigned long long)alignment);
    } else if (offset > room || t->bytes > room - offset) {
        c->rc = td_fail(c->err, TD_ETRUNCATED,
                        "%s: truncated: tensor \"%s\" needs %llu bytes from offset %llu of the "
                        "data, which has %llu; fetch it again",
                        c->path, t->name, (unsigned long long)t->bytes, (unsigned long long)offset,
                        (unsigned long long)room);
    } else if (t->bytes) {
        t->data = data + offset;
    }
}

static uint64_t alignment_of(struct cursor *c, const struct td_gguf_key *keys, size_t n)
{
    struct td_gguf_value v = td_gguf_find_key(keys, n, "general.alignment");

    if (v.kind == TD_GGUF_NONE)
        return DEFAULT_ALIGNMENT;
    if (v.kind == TD_GGUF_UINT && v.v.u && v.v.u <= MAX_ALIGNMENT && !(v.v.u & (v.v.u - 1)))
        return v.v.u;
    c->rc = td_fail(c->err, TD_ECORRUPT, "%s: general.alignment is no power of two up to %u", c->path, MAX_ALIGNMENT);
    return DEFAULT_ALIGNMENT;
}

static void place_tensors(struct td_gguf *g, struct cursor *c, const struct td_gguf_file *f,
                          size_t first, const uint64_t *offsets, uint64_t alignment)
{
    uint64_t at = ((uint64_t)(c->at - f->data) + alignment - 1) / alignment * alignment;
    size_t i;

    if (at > f->n)                     /* a file of metadata only may end without the padding */
        at = f->n;
    for (i = first; i < g->n && !c->rc; i++)
        place_tensor(c, &g->tensors[i], offsets[i - first], alignment, f->data + at);
}

/* ---- one file -------------------------------------------------------------------------------- */

static void read_head(struct cursor *c, uint64_t *tensors, uint64_t *keys)
{
    char magic[4];
    uint32_t version;

    if (read_bytes(c, magic, 4) && memcmp(magic, "GGUF", 4))
        c->rc = td_fail(c->err, TD_ECORRUPT, "%s: no GGUF file: it does not begin with \"GGUF\"", c->path);
    version = read_u32(c);
    if (!c->rc && version != 2 && version != 3)
        c->rc = td_fail(c->err, TD_EVERSION, "%s: GGUF version %u%s; versions 2 and 3 are read", c->path, version,
                        version && !(version & 0xffff) ? " (big-endian?)" : "");
    *tensors = read_u64(c);
    *keys = read_u64(c);
    if (!c->rc && (*tensors > TD_GGUF_MAX_TENSORS || *keys > TD_GGUF_MAX_KEYS))
        c->rc =
            td_fail(c->err, TD_ELIMIT, "%s: %llu tensors and %llu keys, at most %d and %d are read",
                    c->path, (unsigned long long)*tensors, (unsigned long long)*keys,
                    TD_GGUF_MAX_TENSORS, TD_GGUF_MAX_KEYS);
}

int td_gguf_read_file(struct td_gguf *g, const struct td_gguf_file *f, struct td_error *err)
{
    struct cursor c = {f->path, f->data, f->data + f->n, err, 0};
    uint64_t n_tensors, n_keys, *offsets = NULL, alignment;
    size_t first = g->n, count = 0;
    struct td_gguf_key *keys = NULL;

    read_head(&c, &n_tensors, &n_keys);
    read_keys(&c, n_keys, &keys, &count);
    alignment = c.rc ? DEFAULT_ALIGNMENT : alignment_of(&c, keys, count);
    read_tensors(g, &c, n_tensors, &offsets);
    if (!c.rc)
        place_tensors(g, &c, f, first, offsets, alignment);
    free(offsets);
    if (c.rc || g->keys) {
        td_gguf_release_keys(keys, count);
    } else {
        g->keys = keys;
        g->n_keys = count;
    }
    return c.rc;
}
