/* msgpack.h - read MessagePack value by value, out of bytes that are not believed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: the MessagePack specification (msgpack.org). Nothing is copied and nothing recurses. A value
 * that ends after the bytes is refused, and so is an array or map of more values than bytes are left. */
#ifndef TD_KERNELS_GPUCODE_MSGPACK_H
#define TD_KERNELS_GPUCODE_MSGPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden) /* also in the tap's library, which must not export it */

enum td_msgpack_kind {
    TD_MP_NIL,
    TD_MP_BOOL,
    TD_MP_UINT,
    TD_MP_INT,
    TD_MP_FLOAT,
    TD_MP_STR,
    TD_MP_BIN,
    TD_MP_ARRAY,
    TD_MP_MAP,
    TD_MP_EXT
};

struct td_msgpack { const uint8_t *p, *end; };

struct td_msgpack_value {
    enum td_msgpack_kind kind;
    uint64_t u; /* BOOL, UINT; INT: negative, as two's complement; FLOAT: its bits; ARRAY: elements;
                   MAP: pairs */
    const char *str; uint32_t len; /* STR, BIN, EXT: not NUL-terminated */
};

/* Read the next value; of an array or map only the head, whose elements follow. False: the bytes end, or
 * hold no value. */
bool td_msgpack_next(struct td_msgpack *m, struct td_msgpack_value *v);
/* Pass over one value with all its elements. */
bool td_msgpack_skip(struct td_msgpack *m);
/* Find a key in the map of so many pairs whose head was just read. 1: found, and m is behind the value's
 * head. 0: not there, and m is behind the map. -1: broken. */
int td_msgpack_find(struct td_msgpack *m, uint64_t pairs, const char *key, struct td_msgpack_value *v);
/* Is the value this string? */
bool td_msgpack_is(const struct td_msgpack_value *v, const char *text);

#pragma GCC visibility pop

#endif
