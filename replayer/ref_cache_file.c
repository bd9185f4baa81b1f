/* ref_cache_file.c - a reference as the bytes of a file of the cache.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/ref_cache_file.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

#define MAGIC "tdref01"
#define DOUBLES_MAX 5 /* for each element: r1, r0, mag, slack, ordered */

enum { R0 = 1, SLACK = 2, ORDERED = 4, UNJUDGED = 8, MAG_F32 = 16, SLACK_F32 = 32 };

struct head {
    char magic[8];
    struct td_hash key;
    uint64_t checksum;      /* of all that follows it */
    int64_t rows, cols, inner;
    uint32_t flags, unused;
};

_Static_assert(sizeof(struct head) == 64, "the head has no gaps");
#define CHECKED (offsetof(struct head, checksum) + sizeof(uint64_t))

static bool fit_floats(const double *v, int64_t n)
{
    int64_t i;

    for (i = 0; i < n; i++)
        if (v[i] != (double)(float)v[i])
            return false;
    return true;
}

static uint32_t flags_of(const struct td_op_ref *r)
{
    const int64_t n = r->rows * r->cols;

    return (r->r0 != r->r1 && memcmp(r->r0, r->r1, (size_t)n * sizeof(double)) ? R0 : 0) | (r->slack ? SLACK : 0) |
           (r->ordered ? ORDERED : 0) | (r->unjudged ? UNJUDGED : 0) | (fit_floats(r->mag, n) ? MAG_F32 : 0) |
           (r->slack && fit_floats(r->slack, n) ? SLACK_F32 : 0);
}

static size_t bytes_of(uint32_t flags, int64_t rows, int64_t cols)
{
    const size_t n = (size_t)(rows * cols), doubles = n * sizeof(double), floats = n * sizeof(float);

    return sizeof(struct head) + doubles + (flags & R0 ? doubles : 0) + (flags & MAG_F32 ? floats : doubles) +
           (flags & SLACK ? flags & SLACK_F32 ? floats : doubles : 0) + (flags & ORDERED ? doubles : 0) +
           (flags & UNJUDGED ? (size_t)rows : 0);
}

size_t td_ref_file_most(int64_t rows, int64_t cols)
{
    return bytes_of(R0 | SLACK | ORDERED | UNJUDGED, rows, cols);
}

static char *put(char *to, const double *v, int64_t n, bool floats)
{
    int64_t i;

    if (!floats)
        return (char *)memcpy(to, v, (size_t)n * sizeof *v) + (size_t)n * sizeof *v;
    for (i = 0; i < n; i++, to += sizeof(float)) {
        const float f = (float)v[i];

        memcpy(to, &f, sizeof f);
    }
    return to;
}

void *td_ref_file_make(const struct td_op_ref *r, struct td_hash key, size_t *n)
{
    struct head h = {.magic = MAGIC, .key = key, .rows = r->rows, .cols = r->cols, .inner = r->inner, .flags = flags_of(r)};
    const int64_t count = r->rows * r->cols;
    char *bytes, *at;

    *n = bytes_of(h.flags, r->rows, r->cols);
    bytes = td_memory_room(*n, "a reference to keep", NULL) ? NULL : malloc(*n);
    if (!bytes)
        return NULL;
    at = put(bytes + sizeof h, r->r1, count, false);
    if (h.flags & R0)
        at = put(at, r->r0, count, false);
    at = put(at, r->mag, count, h.flags & MAG_F32);
    if (h.flags & SLACK)
        at = put(at, r->slack, count, h.flags & SLACK_F32);
    if (h.flags & ORDERED)
        at = put(at, r->ordered, count, false);
    if (h.flags & UNJUDGED)
        memcpy(at, r->unjudged, (size_t)r->rows);
    memcpy(bytes, &h, sizeof h);
    h.checksum = td_hash64(bytes + CHECKED, *n - CHECKED);
    memcpy(bytes, &h, sizeof h);
    return bytes;
}

/* Returns where the next part begins; NULL in *out: no memory. */
static const char *take(const char *from, double **out, int64_t n, bool floats)
{
    int64_t i;

    *out = malloc((size_t)n * sizeof **out + 1);
    if (!floats) {
        if (*out)
            memcpy(*out, from, (size_t)n * sizeof **out);
        return from + (size_t)n * sizeof **out;
    }
    for (i = 0; *out && i < n; i++) {
        float f;

        memcpy(&f, from + (size_t)i * sizeof f, sizeof f);
        (*out)[i] = (double)f;
    }
    return from + (size_t)n * sizeof(float);
}

static bool head_fits(const struct head *h, const char *bytes, size_t n, struct td_hash key, int64_t rows, int64_t cols)
{
    return !memcmp(h->magic, MAGIC, sizeof h->magic) && td_hash_eq(h->key, key) && h->rows == rows && h->cols == cols &&
           h->flags < 2 * SLACK_F32 && n == bytes_of(h->flags, rows, cols) && h->checksum == td_hash64(bytes + CHECKED, n - CHECKED);
}

int td_ref_file_read(const void *data, size_t n, struct td_hash key, int64_t rows, int64_t cols, struct td_op_ref *r)
{
    const char *bytes = data, *at = bytes + sizeof(struct head);
    const int64_t count = rows * cols;
    struct head h;
    bool whole;

    memset(r, 0, sizeof *r);
    if (n < sizeof h)
        return TD_ECORRUPT;
    memcpy(&h, bytes, sizeof h);
    if (!head_fits(&h, bytes, n, key, rows, cols))
        return TD_ECORRUPT;
    if (td_memory_room((uint64_t)count * DOUBLES_MAX * sizeof(double) + (uint64_t)rows, "a reference that was kept", NULL))
        return TD_ENOMEM;
    r->rows = rows;
    r->cols = cols;
    r->inner = h.inner;
    at = take(at, &r->r1, count, false);
    if (h.flags & R0)
        at = take(at, &r->r0, count, false);
    else
        r->r0 = r->r1;
    at = take(at, &r->mag, count, h.flags & MAG_F32);
    if (h.flags & SLACK)
        at = take(at, &r->slack, count, h.flags & SLACK_F32);
    if (h.flags & ORDERED)
        at = take(at, &r->ordered, count, false);
    if (h.flags & UNJUDGED && (r->unjudged = malloc((size_t)rows + 1)))
        memcpy(r->unjudged, at, (size_t)rows);
    whole = r->r0 && r->r1 && r->mag && (r->slack || !(h.flags & SLACK)) && (r->ordered || !(h.flags & ORDERED)) &&
            (r->unjudged || !(h.flags & UNJUDGED));
    if (!whole)
        td_op_ref_release(r);
    return whole ? TD_OK : TD_ENOMEM;
}
