/* name_index.c - find an entry of a list by a hash of its name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/name_index.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64u               /* a power of two, as every later number of slots */

uint32_t client_index_find(const struct client_index *x, uint64_t hash, client_index_is is,
                           const void *list, const void *key)
{
    uint32_t i;

    if (!x->cap)
        return CLIENT_INDEX_NONE;
    for (i = (uint32_t)hash & (x->cap - 1); x->slot[i].used; i = (i + 1) & (x->cap - 1))
        if (x->slot[i].hash == hash && is(list, x->slot[i].entry, key))
            return x->slot[i].entry;
    return CLIENT_INDEX_NONE;
}

static void put(struct client_index *x, const struct client_index_slot *s)
{
    uint32_t i = (uint32_t)s->hash & (x->cap - 1);

    while (x->slot[i].used)
        i = (i + 1) & (x->cap - 1);
    x->slot[i] = *s;
}

/* At most half of the slots are used: every search ends soon, at one that is not. */
static bool make_room(struct client_index *x)
{
    struct client_index more = {.n = x->n, .cap = x->cap ? 2 * x->cap : FIRST_SLOTS};
    uint32_t i;

    if (x->n < x->cap / 2)
        return true;
    more.slot = calloc(more.cap, sizeof *more.slot);
    if (!more.slot)
        return false;
    for (i = 0; i < x->cap; i++)
        if (x->slot[i].used)
            put(&more, &x->slot[i]);
    free(x->slot);
    *x = more;
    return true;
}

bool client_index_add(struct client_index *x, uint64_t hash, uint32_t entry)
{
    const struct client_index_slot s = {.hash = hash, .entry = entry, .used = true};

    if (!make_room(x))
        return false;
    put(x, &s);
    x->n++;
    return true;
}

void client_index_release(struct client_index *x)
{
    free(x->slot);
    memset(x, 0, sizeof *x);
}
