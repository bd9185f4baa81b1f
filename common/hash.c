/* hash.c - XXH3 through libxxhash.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/hash.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "common/error.h"

struct td_hash td_hash_bytes(const void *data, size_t n)
{
    XXH128_hash_t h = XXH3_128bits(data, n);

    return (struct td_hash){h.high64, h.low64};
}

uint64_t td_hash64(const void *data, size_t n)
{
    return XXH3_64bits(data, n);
}

/* libxxhash's own state under our name. */
int td_hash_pieces_add(struct td_hash_pieces **s, const void *data, size_t n)
{
    XXH3_state_t *state = (XXH3_state_t *)*s;

    if (!state) {
        state = XXH3_createState();
        if (!state)
            return TD_ENOMEM;
        XXH3_128bits_reset(state);
        *s = (struct td_hash_pieces *)state;
    }
    XXH3_128bits_update(state, data, n);
    return TD_OK;
}

struct td_hash td_hash_pieces_end(struct td_hash_pieces **s)
{
    XXH3_state_t *state = (XXH3_state_t *)*s;
    XXH128_hash_t h;

    if (!state)
        return td_hash_bytes("", 0);
    h = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    *s = NULL;
    return (struct td_hash){h.high64, h.low64};
}

bool td_hash_eq(struct td_hash a, struct td_hash b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

bool td_hash_is_zero(struct td_hash h)
{
    return !h.hi && !h.lo;
}

void td_hash_hex(struct td_hash h, char out[TD_HASH_HEX])
{
    snprintf(out, TD_HASH_HEX, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
}

int td_hash_parse(const char *hex, struct td_hash *out)
{
    uint64_t v[2] = {0, 0};
    int i;

    if (!hex || strlen(hex) != TD_HASH_HEX - 1)
        return TD_EINVAL;
    for (i = 0; i < TD_HASH_HEX - 1; i++) {
        char c = hex[i];
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

        if (d < 0)
            return TD_EINVAL;
        v[i / 16] = v[i / 16] << 4 | (uint64_t)d;
    }
    *out = (struct td_hash){v[0], v[1]};
    return TD_OK;
}
