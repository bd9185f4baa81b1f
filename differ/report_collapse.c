/* report_collapse.c - collapsed answers in the report.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_collapse.h"

#include "common/number_words.h"
#include "differ/comparison.h"
#include "differ/lane_collapse.h"
#include "differ/report_answer.h"

void td_collapse_write_json(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_collapses *all = c->lane[TD_LANE_COLLAPSE].measured;
    size_t i;

    td_jw_obj(w, "collapse");
    td_jw_i64(w, "answers", (int64_t)all->answers);
    td_jw_i64(w, "excused", (int64_t)all->excused);
    td_jw_i64(w, "prompts", (int64_t)all->prompts);
    td_jw_i64(w, "filled_new", (int64_t)all->filled_new);
    td_jw_i64(w, "filled_old", (int64_t)all->filled_old);
    td_jw_i64(w, "filled_both", (int64_t)all->filled_both);
    td_jw_num(w, "filled_p", all->filled_p);
    td_jw_arr(w, "collapsed");
    for (i = 0; i < all->n; i++) {
        const struct td_collapsed *f = &all->found[i];
        const size_t at = f->good ? td_answers_common_prefix(f->good, f->bad) : 0;

        td_jw_obj(w, NULL);
        td_answer_write_name(w, f->group->prompt_id, f->group->category, f->bad);
        td_jw_cstr(w, "kind", td_collapse_name(f->what.kind));
        td_jw_i64(w, "position", f->what.position);
        td_jw_i64(w, "length", f->what.length);
        td_jw_i64(w, "period", f->what.period);
        td_jw_num(w, "strength", f->what.strength);
        td_jw_cstr(w, "why", f->what.why);
        if (f->good)
            td_answer_write_text(w, "old", f->good, at);
        td_answer_write_text(w, "new", f->bad, at);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_end(w);
}

void td_collapse_headline(const struct td_comparison *c, struct td_buf *out)
{
    const struct td_collapses *all = c->lane[TD_LANE_COLLAPSE].measured;
    const struct td_collapsed *first = all->n ? &all->found[0] : NULL;

    if (all->filled_more)
        td_buf_addf(out, "%zu of %zu prompts loop or are mute where the old ones are not, %zu the other "
                         "way (p=%.2g); ",
                    all->filled_new, all->prompts, all->filled_old, all->filled_p);
    if (first)
        td_buf_addf(out, "%zu of %zu answer%s collapsed; first: %s at token %d: %s", all->n,
                    all->answers, td_plural((int64_t)all->answers), first->group->prompt_id, first->what.position, first->what.why);
}
