/* shared_starts.c - find the sample of a start in which several ops were timed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/shared_starts.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/hash.h"

/* The slot that holds it, or would. slots : a power of two, and one is empty */
static struct td_shared_start *slot_of(struct td_shared_start *slot, size_t slots, int64_t of, size_t start)
{
    const uint64_t key[2] = {(uint64_t)of, start};
    size_t i = (size_t)td_hash64(key, sizeof key) & (slots - 1);

    while (slot[i].ops && (slot[i].of != of || slot[i].start != start))
        i = (i + 1) & (slots - 1);
    return &slot[i];
}

struct td_shared_start *td_shared_starts_find(const struct td_shared_starts *s, int64_t of, size_t start)
{
    struct td_shared_start *at = s->n ? slot_of(s->slot, s->slots, of, start) : NULL;

    return at && at->ops ? at : NULL;
}

static int grow(struct td_shared_starts *s)
{
    const size_t slots = s->slots ? 2 * s->slots : 64;
    struct td_shared_start *grown = calloc(slots, sizeof *grown);

    if (!grown)
        return TD_ENOMEM;
    for (size_t i = 0; i < s->slots; i++)
        if (s->slot[i].ops)
            *slot_of(grown, slots, s->slot[i].of, s->slot[i].start) = s->slot[i];
    free(s->slot);
    s->slot = grown;
    s->slots = slots;
    return TD_OK;
}

int td_shared_starts_add(struct td_shared_starts *s, int64_t of, size_t start, size_t sample)
{
    if (2 * s->n >= s->slots && grow(s))
        return TD_ENOMEM;
    *slot_of(s->slot, s->slots, of, start) = (struct td_shared_start){of, start, sample, 1};
    s->n++;
    return TD_OK;
}

void td_shared_starts_release(struct td_shared_starts *s)
{
    free(s->slot);
    memset(s, 0, sizeof *s);
}
