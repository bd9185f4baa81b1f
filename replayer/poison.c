/* poison.c - fill outputs with patterns, and find what a run left of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/poison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replayer/judge.h"

#define FILL_BYTES 8192 /* as much is copied at once */

static uint64_t poison_pattern(enum td_dtype dt, int repeat)
{
    bool odd = repeat & 1;

    switch (dt) {
    case TD_DT_F16: return odd ? 0x9155 : 0x7e00;
    case TD_DT_BF16: return odd ? 0xba2b : 0x7fc0;
    case TD_DT_F32: return odd ? 0xba2aa000 : 0x7fc00000;
    case TD_DT_F64: return odd ? 0xbf45540000000000 : 0x7ff8000000000000;
    default: return odd ? 0x5a5a5a5a5a5a5a5a : 0xa5a5a5a5a5a5a5a5;
    }
}

void td_poison_fill(enum td_dtype dt, int repeat, void *image, size_t size)
{
    const uint64_t p = poison_pattern(dt, repeat);
    const size_t known = td_dtype_size(dt), w = known ? known : 1, end = size / w * w;
    size_t at = end ? w : 0, n = w;
    char *to = image;

    for (size_t i = 0; i < at; i++)
        to[i] = (char)(p >> 8 * (i % 8)); /* little-endian: the low bytes are the pattern */
    for (; at < end; at += n) {
        n = at < FILL_BYTES ? at : n;     /* doubled until a piece is long, and still in the cache */
        n = n < end - at ? n : end - at;
        memcpy(to + at, to, n);
    }
    memset(to + end, 0xa5, size - end);
}

/* Count bytes that belong to no element and lost their pattern. */
static int64_t count_between_rows(const struct td_tensor *out, const void *image, int repeat)
{
    size_t w = td_dtype_size(out->dtype), at;
    int64_t rows = td_judge_rows(out), cols = td_judge_cols(out), i, j, n = 0;
    char *is_element, *fresh;

    if ((size_t)(rows * cols) * w == out->size_bytes)
        return 0; /* dense: nothing lies between */
    is_element = calloc(1, out->size_bytes + 1);
    fresh = malloc(out->size_bytes + 1);
    if (is_element && fresh) {
        td_poison_fill(out->dtype, repeat, fresh, out->size_bytes);
        for (i = 0; i < rows; i++)
            for (j = 0; j < cols; j++)
                memset(is_element + (size_t)td_judge_offset(out, i, j) * w, 1, w);
        for (at = 0; at < out->size_bytes; at++)
            n += !is_element[at] && ((const char *)image)[at] != fresh[at];
    }
    free(is_element);
    free(fresh);
    return n;
}

/* Is an element of row i no number? What was not written is none in the first image, nor what was added to
 * it; true where it is not known. */
static bool has_nan(const struct td_tensor *out, const void *image, int64_t i)
{
    const uint16_t inf = out->dtype == TD_DT_F16 ? 0x7c00 : 0x7f80;
    const char *row = (const char *)image + (size_t)td_judge_offset(out, i, 0) * 2;
    const int64_t cols = td_judge_cols(out);
    unsigned found = 0;

    if ((out->dtype != TD_DT_F16 && out->dtype != TD_DT_BF16) || !out->ndim || out->strides[out->ndim - 1] != 1)
        return true;
    for (int64_t j = 0; j < cols; j++) {
        uint16_t bits;

        memcpy(&bits, row + 2 * j, 2);
        found |= (bits & 0x7fff) > inf;
    }
    return found;
}

void td_poison_find(const struct td_op_ref *ref, const struct td_tensor *out,
                    const void *const *images, int n, struct td_poison_found *found)
{
    uint64_t p0 = poison_pattern(out->dtype, 0), p1 = poison_pattern(out->dtype, 1);
    size_t w = td_dtype_size(out->dtype);
    int64_t i, j;

    memset(found, 0, sizeof *found);
    found->between = count_between_rows(out, images[0], 0);
    if (n < 2)
        return;
    for (i = 0; i < ref->rows; i++)
        for (j = 0; td_op_ref_has_row(ref, i) && (j || (ref->cols && has_nan(out, images[0], i))) && j < ref->cols; j++) {
            size_t at = (size_t)td_judge_offset(out, i, j) * w;
            const char *a = (const char *)images[0] + at, *b = (const char *)images[1] + at;

            if (!memcmp(a, &p0, w) && !memcmp(b, &p1, w))
                found->unwritten++;
            else if (isnan(td_dtype_get(out->dtype, a, 0)) && isfinite(td_dtype_get(out->dtype, b, 0)) &&
                     isfinite(ref->r1[i * ref->cols + j]))
                found->not_cleared++;
        }
}
