/* report_blame.c - the pattern of the bad ops and the first of them, in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_blame.h"

#include "differ/report_ops.h"
#include "differ/report_which.h"

void td_blame_write_json(struct td_jw *w, const struct td_blame *b, const struct td_judged_ops *ops)
{
    int i;

    if (!b) {
        td_jw_null(w, "blame");
        return;
    }
    td_jw_obj(w, "blame");
    td_jw_cstr(w, "pattern", b->text);
    td_jw_i64(w, "bad", (int64_t)b->bad);
    td_jw_i64(w, "good", (int64_t)b->good);
    td_jw_i64(w, "unsure", (int64_t)b->unsure);
    td_jw_i64(w, "bad_hit", (int64_t)b->rule.bad_hit);
    td_jw_i64(w, "good_hit", (int64_t)b->rule.good_hit);
    td_jw_i64(w, "unseen", (int64_t)b->unseen);
    td_jw_i64(w, "untried", (int64_t)b->untried);
    td_jw_arr(w, "same");
    for (i = 0; i < b->n_same; i++)
        td_jw_cstr(w, NULL, b->same_text[i]);
    td_jw_end(w);
    td_which_write_json(w, ops);
    td_op_write_json(w, "first", b->first);
    if (b->first_nan)
        td_op_write_json(w, "first_nan", b->first_nan);
    else
        td_jw_null(w, "first_nan");
    td_jw_cstr(w, "prompt_id", *b->prompt_id ? b->prompt_id : NULL);
    td_jw_i64(w, "repeat", b->repeat);
    td_jw_i64(w, "position", b->position);
    td_jw_bool(w, "reading", *b->prompt_id && !b->decode);
    td_jw_bool(w, "inferred", b->inferred);
    td_jw_bool(w, "padding", b->padding);
    td_jw_i64(w, "sharing", b->n_sharing);
    td_jw_arr(w, "among");
    for (i = 0; i < b->n_among; i++)
        td_jw_cstr(w, NULL, b->among[i]);
    td_jw_end(w);
    td_jw_end(w);
}
