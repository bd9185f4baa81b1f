/* op_place.h - where in its output a bad op is over the limit, as the replayer found it, in words.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_OP_PLACE_H
#define TD_DIFFER_OP_PLACE_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/json.h"

/* Rows, or columns, with an element over the limit (docs/format.md, "judge", P). */
struct td_op_lines {
    int64_t bad, all, first, last;
    int64_t period, from, to;           /* period 0: there is none */
};

struct td_op_over {
    bool of_rms;                        /* no element, but the rms of rows or columns is over */
    bool is_finite;                     /* no NaN or Inf stands where a number is due */
    double limit;
    struct td_op_lines rows, cols;
};

/* score : of the worst element */
void td_op_over_read(const cJSON *over, double score, struct td_op_over *out);
void td_op_over_write(const struct td_op_over *o, struct td_jw *w, const char *key); /* o NULL: null */

/* Append which columns, or rows, are over the limit: "columns 64-127 of each 128", "rows >= 16".
 * Nothing is appended where they follow no pattern.
 *   what : "column" or "row" */
void td_op_lines_add_words(const struct td_op_lines *l, const char *what, struct td_buf *out);
/* Are elements over the limit all over the output, without a pattern: in half of its rows and of its
 * columns at least? */
bool td_op_over_is_everywhere(const struct td_op_over *o);
/* Append all of it: "columns >= 250, rows >= 16", "everywhere", or nothing where only a few
 * elements here and there are over the limit. */
void td_op_over_add_words(const struct td_op_over *o, struct td_buf *out);

#endif
