/* op_place.c - where in its output a bad op is over the limit, in words.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/op_place.h"

#include <math.h>
#include <string.h>

#define MANY 0.5 /* of an axis: so many bad lines without a pattern are not a few here and there */
#define CHANCE 1e-2 /* that so many bad lines lie so close together */

/* ---- from and to JSON ------------------------------------------------------------------------ */

static void read_lines(const cJSON *j, struct td_op_lines *out)
{
    *out = (struct td_op_lines){.bad = td_json_get_i64(j, "bad", 0),
                                .all = td_json_get_i64(j, "all", 0),
                                .first = td_json_get_i64(j, "first", -1),
                                .last = td_json_get_i64(j, "last", -1),
                                .period = td_json_get_i64(j, "period", 0),
                                .from = td_json_get_i64(j, "from", -1),
                                .to = td_json_get_i64(j, "to", -1)};
    if (out->bad < 0 || out->bad > out->all || out->first > out->last || out->last >= out->all)
        *out = (struct td_op_lines){.first = -1, .last = -1};
    if (out->period <= 0 || out->from < 0 || out->from > out->to || out->to >= out->period)
        out->period = 0;
}

void td_op_over_read(const cJSON *over, double score, struct td_op_over *out)
{
    *out = (struct td_op_over){.of_rms = !strcmp(td_json_get_str(over, "of", ""), "rms"),
                               .is_finite = isfinite(score),
                               .limit = td_json_get_num(over, "limit", NAN)};
    read_lines(td_json_get(over, "rows"), &out->rows);
    read_lines(td_json_get(over, "cols"), &out->cols);
}

static void write_lines(const struct td_op_lines *l, struct td_jw *w, const char *key)
{
    td_jw_obj(w, key);
    td_jw_i64(w, "bad", l->bad);
    td_jw_i64(w, "all", l->all);
    td_jw_i64(w, "first", l->first);
    td_jw_i64(w, "last", l->last);
    if (l->period) {
        td_jw_i64(w, "period", l->period);
        td_jw_i64(w, "from", l->from);
        td_jw_i64(w, "to", l->to);
    }
    td_jw_end(w);
}

void td_op_over_write(const struct td_op_over *o, struct td_jw *w, const char *key)
{
    struct td_buf words = TD_BUF_INIT(1024);

    if (!o) {
        td_jw_null(w, key);
        return;
    }
    td_op_over_add_words(o, &words);
    td_jw_obj(w, key);
    td_jw_num(w, "limit", o->limit);
    td_jw_cstr(w, "of", o->of_rms ? "rms" : "element");
    write_lines(&o->rows, w, "rows");
    write_lines(&o->cols, w, "cols");
    td_jw_cstr(w, "words", words.len ? td_buf_str(&words) : NULL);
    td_jw_end(w);
    td_buf_release(&words);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Do the bad ones lie so close together, or so close to an end, that it is hardly chance? */
static bool is_range(const struct td_op_lines *l)
{
    const double share = (double)(l->last - l->first + 1) / (double)(l->all ? l->all : 1),
                 n = (double)l->bad;
    const bool at_end = !l->first || l->last == l->all - 1;

    if (l->all < 2 || l->bad < 1 || share >= 1)
        return false;
    return l->bad == 1 || (at_end ? 2 * pow(share, n) : n * pow(share, n - 1)) < CHANCE;
}

void td_op_lines_add_words(const struct td_op_lines *l, const char *what, struct td_buf *out)
{
    const long long first = l->first, last = l->last, from = l->from, to = l->to;

    if (l->bad >= l->all || !(l->period || is_range(l)))
        return;
    if (l->period && from == to)
        td_buf_addf(out, "%s %lld of each %lld", what, from, (long long)l->period);
    else if (l->period)
        td_buf_addf(out, "%ss %lld-%lld of each %lld", what, from, to, (long long)l->period);
    else if (first == last)
        td_buf_addf(out, "%s %lld", what, first);
    else if (last == l->all - 1)
        td_buf_addf(out, "%ss >= %lld", what, first);
    else if (!first)
        td_buf_addf(out, "%ss <= %lld", what, last);
    else
        td_buf_addf(out, "%ss %lld-%lld", what, first, last);
}

bool td_op_over_is_everywhere(const struct td_op_over *o)
{
    return o->cols.bad > 1 && !is_range(&o->cols) && !o->cols.period &&
           !is_range(&o->rows) && !o->rows.period &&
           (double)o->cols.bad >= MANY * (double)o->cols.all &&
           (double)o->rows.bad >= MANY * (double)o->rows.all;
}

void td_op_over_add_words(const struct td_op_over *o, struct td_buf *out)
{
    struct td_buf rows = TD_BUF_INIT(512);
    const size_t had = out->len;

    td_op_lines_add_words(&o->cols, "column", out);
    td_op_lines_add_words(&o->rows, "row", &rows);
    if (rows.len)
        td_buf_addf(out, "%s%s", out->len > had ? ", " : "", td_buf_str(&rows));
    else if (out->len == had && td_op_over_is_everywhere(o))
        td_buf_adds(out, "everywhere");
    td_buf_release(&rows);
}
