/* msgpack.c - MessagePack, pulled value by value.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpucode/msgpack.h"

#include <string.h>

/* n bytes, big-endian. False: they are not there. */
static bool take_bytes(struct td_msgpack *m, int n, uint64_t *u)
{
    int i;

    if (m->end - m->p < n)
        return false;
    for (*u = 0, i = 0; i < n; i++)
        *u = *u << 8 | *m->p++;
    return true;
}

static bool bytes(struct td_msgpack *m, enum td_msgpack_kind kind, uint64_t len, struct td_msgpack_value *v)
{
    v->kind = kind;
    if (len > (uint64_t)(m->end - m->p))
        return false;
    v->str = (const char *)m->p;
    v->len = (uint32_t)len;
    m->p += len;
    return true;
}

/* Every element takes a byte at least. */
static bool read_head(struct td_msgpack *m, enum td_msgpack_kind kind, uint64_t count, struct td_msgpack_value *v)
{
    v->kind = kind;
    v->u = count;
    return count * (kind == TD_MP_MAP ? 2 : 1) <= (uint64_t)(m->end - m->p);
}

static bool read_number(struct td_msgpack *m, enum td_msgpack_kind kind, int n, struct td_msgpack_value *v)
{
    int unused = 64 - 8 * n;

    v->kind = kind;
    if (!take_bytes(m, n, &v->u))
        return false;
    if (kind == TD_MP_INT)
        v->u = (uint64_t)((int64_t)(v->u << unused) >> unused);
    if (kind == TD_MP_INT && (int64_t)v->u >= 0)
        v->kind = TD_MP_UINT;
    return true;
}

static bool read_sized(struct td_msgpack *m, enum td_msgpack_kind kind, int length_bytes, struct td_msgpack_value *v)
{
    uint64_t len;

    if (!take_bytes(m, length_bytes, &len))
        return false;
    return kind == TD_MP_ARRAY || kind == TD_MP_MAP ? read_head(m, kind, len, v) : bytes(m, kind, len + (kind == TD_MP_EXT), v);
}

/* 0xc0 to 0xdf: what says its kind in its first byte and its size after it. */
static bool read_typed(struct td_msgpack *m, uint8_t b, struct td_msgpack_value *v)
{
    switch (b) {
    case 0xc0: v->kind = TD_MP_NIL; return true;
    case 0xc2: case 0xc3: v->kind = TD_MP_BOOL; v->u = b & 1; return true;
    case 0xc4: case 0xc5: case 0xc6: return read_sized(m, TD_MP_BIN, 1 << (b - 0xc4), v);
    case 0xc7: case 0xc8: case 0xc9: return read_sized(m, TD_MP_EXT, 1 << (b - 0xc7), v);
    case 0xca: case 0xcb: return read_number(m, TD_MP_FLOAT, 4 << (b - 0xca), v);
    case 0xcc: case 0xcd: case 0xce: case 0xcf: return read_number(m, TD_MP_UINT, 1 << (b - 0xcc), v);
    case 0xd0: case 0xd1: case 0xd2: case 0xd3: return read_number(m, TD_MP_INT, 1 << (b - 0xd0), v);
    case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8: return bytes(m, TD_MP_EXT, 1 + (1u << (b - 0xd4)), v);
    case 0xd9: case 0xda: case 0xdb: return read_sized(m, TD_MP_STR, 1 << (b - 0xd9), v);
    case 0xdc: case 0xdd: return read_sized(m, TD_MP_ARRAY, 2 << (b - 0xdc), v);
    case 0xde: case 0xdf: return read_sized(m, TD_MP_MAP, 2 << (b - 0xde), v);
    default: return false; /* 0xc1 is never used */
    }
}

bool td_msgpack_next(struct td_msgpack *m, struct td_msgpack_value *v)
{
    uint8_t b;

    memset(v, 0, sizeof *v);
    if (m->p >= m->end)
        return false;
    b = *m->p++;
    if (b < 0x80 || b >= 0xe0) {
        v->kind = b < 0x80 ? TD_MP_UINT : TD_MP_INT;
        v->u = (uint64_t)(int64_t)(int8_t)b;
        return true;
    }
    if (b < 0xa0)
        return read_head(m, b < 0x90 ? TD_MP_MAP : TD_MP_ARRAY, b & 15, v);
    return b < 0xc0 ? bytes(m, TD_MP_STR, b & 31, v) : read_typed(m, b, v);
}

bool td_msgpack_skip(struct td_msgpack *m)
{
    uint64_t due = 1;
    struct td_msgpack_value v;

    while (due) {
        if (!td_msgpack_next(m, &v))
            return false;
        due--;
        if (v.kind == TD_MP_ARRAY || v.kind == TD_MP_MAP)
            due += v.u * (v.kind == TD_MP_MAP ? 2 : 1); /* no overflow: each count is at most the bytes that were left */
    }
    return true;
}

bool td_msgpack_is(const struct td_msgpack_value *v, const char *text)
{
    return v->kind == TD_MP_STR && v->len == strlen(text) && !memcmp(v->str, text, v->len);
}

int td_msgpack_find(struct td_msgpack *m, uint64_t pairs, const char *key, struct td_msgpack_value *v)
{
    while (pairs--) {
        struct td_msgpack_value k;

        if (!td_msgpack_next(m, &k))
            return -1;
        if (td_msgpack_is(&k, key))
            return td_msgpack_next(m, v) ? 1 : -1;
        if (k.kind == TD_MP_ARRAY || k.kind == TD_MP_MAP || !td_msgpack_skip(m))
            return -1; /* keys are scalars */
    }
    return 0;
}
