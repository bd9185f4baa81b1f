/* array.c - growable arrays.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/array.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

#define FIRST_CAP 16

int td_array_grow(void *array, size_t n, size_t *cap, size_t elem_bytes, size_t max)
{
    size_t want = *cap ? *cap * 2 : FIRST_CAP;
    void *old, *more;

    if (n >= max)
        return TD_ELIMIT;
    if (n < *cap)
        return TD_OK;
    memcpy(&old, array, sizeof old);
    more = realloc(old, want * elem_bytes);
    if (!more)
        return TD_ENOMEM;
    memcpy(array, &more, sizeof more);
    *cap = want;
    return TD_OK;
}
