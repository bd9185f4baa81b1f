/* slices.h - sums of an output's errors over slices of its rows and columns (docs/format.md, "slices").
 * SPDX-License-Identifier: Apache-2.0
 *
 * A wrong constant moves all elements of some slice the same way, and rounding does not. So a replay
 * keeps, for each slice, four sums over its elements, of
 *   e = (c - r1) / d, the error with its sign, and x = r1 / d, where d is the score's denominator
 *       (replayer/judge.h), so that all elements weigh alike.
 * sum(e x) / sum(x x) is then by how much the slice is too large (0.001: 0.1 %), sum(e) / n how much
 * too high, in units of what correct rounding allows, and sqrt(sum(e e) / n) how far off.
 *
 * Slices, in this order: the whole output; columns by j mod TD_SLICES_COLS; rows by i mod
 * TD_SLICES_ROWS (of an output with one row: none); the last tile of columns, then of rows, for each
 * size of tiles from first_tail to TD_SLICES_LAST_TAIL, 1 (the last column alone), 2, 4 ... 128, that
 * is smaller than the output. Replays of older versions begin with tiles of 8. In JSON the tiles below
 * that are a member of their own, so that older versions read the others. */
#ifndef TD_FORMAT_SLICES_H
#define TD_FORMAT_SLICES_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#define TD_SLICES_COLS 64
#define TD_SLICES_ROWS 16
#define TD_SLICES_TAILS 8
#define TD_SLICES_FIRST_TAIL 1
#define TD_SLICES_LAST_TAIL 128
#define TD_SLICES_OLDER_FIRST_TAIL 8
#define TD_SLICES_MAX (1 + TD_SLICES_COLS + TD_SLICES_ROWS + 2 * TD_SLICES_TAILS)

enum td_slice_sum { TD_SUM_E, TD_SUM_EX, TD_SUM_XX, TD_SUM_EE, TD_SLICE_SUMS };

struct td_slices {
    int64_t rows, cols;          /* of the output; 0: there are no sums */
    int first_tail;              /* the smallest tile: TD_SLICES_FIRST_TAIL or TD_SLICES_OLDER_FIRST_TAIL */
    float sum[TD_SLICE_SUMS][TD_SLICES_MAX];
};

/* Where the slices of one kind stand, [first, first + n). */
struct td_slice_range { int first, n; };
struct td_slices_layout {
    struct td_slice_range cols, rows, col_tails, row_tails;
    int n;                       /* of all kinds, the whole output among them */
};
/* Here, for differ asks for them millions of times. */
static inline struct td_slice_range td_slices_cols_of(int64_t cols)
{
    return (struct td_slice_range){1, cols < TD_SLICES_COLS ? (int)cols : TD_SLICES_COLS};
}
static inline struct td_slice_range td_slices_rows_of(int64_t rows, int64_t cols)
{
    return (struct td_slice_range){1 + td_slices_cols_of(cols).n, rows <= 1 ? 0 : rows < TD_SLICES_ROWS ? (int)rows : TD_SLICES_ROWS};
}
void td_slices_layout_of(int64_t rows, int64_t cols, int first_tail, struct td_slices_layout *out);

/* The first row (column) of the last tile of an output with `all` of them. Tail t is that of tiles of
 * first_tail << t. */
int64_t td_slices_tail_start(int64_t all, int tile);
/* How many of 0 ... all - 1 are `rest` modulo `mod`. */
int64_t td_slices_count(int64_t all, int mod, int rest);

/* As JSON, owned by the caller; NULL: out of memory. A sum keeps 16 bits of its fraction. */
cJSON *td_slices_json(const struct td_slices *s);
/* Read them. False: what stands there are no such sums (out->rows is 0). json NULL: there are none. */
bool td_slices_read(const cJSON *json, struct td_slices *out);
/* Can errors have these sums, of an output with this score (not finite: not known), judged with this
 * u_out (0: not known)? NULL: they can; else what would hold of sums that can. */
const char *td_slices_fault(const struct td_slices *s, double score, double u_out);

#endif
