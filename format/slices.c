/* slices.c - sums of an output's errors over slices, in JSON.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/slices.h"

#include <math.h>
#include <string.h>

#include "common/json.h"
#include "format/base64.h"

#define MOST_ELEMENTS ((int64_t)1 << 62)
#define BYTES 3 /* of a sum: those of a float but for its last byte; four letters of base64 */

static const char *const KEYS[TD_SLICE_SUMS] = {"e", "ex", "xx", "ee"};

/* ---- which slices there are ------------------------------------------------------------------ */

static int tails(int64_t all, int first)
{
    int n = 0;

    while (first << n <= TD_SLICES_LAST_TAIL && first << n < all)
        n++;
    return n;
}

void td_slices_layout_of(int64_t rows, int64_t cols, int first_tail, struct td_slices_layout *out)
{
    out->cols = td_slices_cols_of(cols);
    out->rows = td_slices_rows_of(rows, cols);
    out->col_tails = (struct td_slice_range){out->rows.first + out->rows.n, tails(cols, first_tail)};
    out->row_tails = (struct td_slice_range){out->col_tails.first + out->col_tails.n, tails(rows, first_tail)};
    out->n = out->row_tails.first + out->row_tails.n;
}

int64_t td_slices_tail_start(int64_t all, int tile)
{
    return (all - 1) / tile * tile;
}

int64_t td_slices_count(int64_t all, int mod, int rest)
{
    return rest < all ? (all - 1 - rest) / mod + 1 : 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* The upper three bytes of a float, rounded. */
static void put_sum(unsigned char *to, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    bits += 0x7f + (bits >> 8 & 1);
    to[0] = (unsigned char)(bits >> 24);
    to[1] = (unsigned char)(bits >> 16);
    to[2] = (unsigned char)(bits >> 8);
}

static float get_sum(const unsigned char *from)
{
    const uint32_t bits = (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8;
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

/* The slices of one member, [n]: those of the last tiles from TD_SLICES_OLDER_FIRST_TAIL on and all others, or those of smaller tiles,
 * which older versions do not have. */
static int list_slices(const struct td_slices *s, bool small, int out[TD_SLICES_MAX])
{
    struct td_slices_layout l;
    int i, n = 0;

    td_slices_layout_of(s->rows, s->cols, s->first_tail, &l);
    for (i = 0; i < l.n; i++) {
        const int t = i < l.col_tails.first ? -1 : i < l.row_tails.first ? i - l.col_tails.first : i - l.row_tails.first;

        if ((t >= 0 && s->first_tail << t < TD_SLICES_OLDER_FIRST_TAIL) == small)
            out[n++] = i;
    }
    return n;
}

static bool add_sums(cJSON *to, const char *key, const float *sum, const int *slice, int n)
{
    struct td_buf text = TD_BUF_INIT((size_t)4096);
    unsigned char bytes[TD_SLICES_MAX * BYTES];
    bool added;
    int i;

    for (i = 0; i < n; i++)
        put_sum(bytes + BYTES * i, sum[slice[i]]);
    td_base64_add(&text, bytes, (size_t)(BYTES * n));
    added = !text.failed && cJSON_AddStringToObject(to, key, td_buf_str(&text));
    td_buf_release(&text);
    return added;
}

static bool add_member(cJSON *to, const struct td_slices *s, bool small)
{
    int slice[TD_SLICES_MAX], n = list_slices(s, small, slice), k;

    for (k = 0; k < TD_SLICE_SUMS; k++)
        if (!add_sums(to, KEYS[k], s->sum[k], slice, n))
            return false;
    return true;
}

cJSON *td_slices_json(const struct td_slices *s)
{
    cJSON *o = cJSON_CreateObject(), *small;

    if (o && cJSON_AddNumberToObject(o, "rows", (double)s->rows) && cJSON_AddNumberToObject(o, "cols", (double)s->cols) &&
        add_member(o, s, false) &&
        (s->first_tail == TD_SLICES_OLDER_FIRST_TAIL || ((small = cJSON_AddObjectToObject(o, "small_tiles")) && add_member(small, s, true))))
        return o;
    cJSON_Delete(o);
    return NULL;
}

/* Sums of squares are from 0 on; all are finite. */
static bool read_sums(const cJSON *from, const char *key, float *sum, const int *slice, int n, bool of_squares)
{
    struct td_buf bytes = TD_BUF_INIT((size_t)4096);
    const char *text = td_json_get_str(from, key, NULL);
    bool fits = text && strlen(text) == (size_t)(4 * n) && td_base64_decode(text, &bytes) == TD_OK &&
                bytes.len == (size_t)(BYTES * n);
    int i;

    for (i = 0; i < n && fits; i++) {
        const float v = get_sum((const unsigned char *)bytes.data + BYTES * i);

        sum[slice[i]] = v;
        fits = isfinite(v) && (!of_squares || v >= 0);
    }
    td_buf_release(&bytes);
    return fits;
}

static bool read_member(const cJSON *from, struct td_slices *s, bool small)
{
    int slice[TD_SLICES_MAX], n = list_slices(s, small, slice), k;

    for (k = 0; k < TD_SLICE_SUMS; k++)
        if (!read_sums(from, KEYS[k], s->sum[k], slice, n, k == TD_SUM_XX || k == TD_SUM_EE))
            return false;
    return true;
}

bool td_slices_read(const cJSON *json, struct td_slices *out)
{
    const int64_t rows = td_json_get_i64(json, "rows", 0), cols = td_json_get_i64(json, "cols", 0);
    const cJSON *small = td_json_get(json, "small_tiles");

    memset(out, 0, sizeof *out);
    if (rows <= 0 || cols <= 0 || rows > MOST_ELEMENTS / cols)
        return false;
    out->rows = rows;
    out->cols = cols;
    out->first_tail = small ? TD_SLICES_FIRST_TAIL : TD_SLICES_OLDER_FIRST_TAIL;
    if (read_member(json, out, false) && (!small || read_member(small, out, true)))
        return true;
    out->rows = out->cols = 0;
    return false;
}
