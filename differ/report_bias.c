/* report_bias.c - bias and coarseness of groups of ops in the report, and how often their results repeat.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_bias.h"

#include "format/m_class.h"

static void write_finding(struct td_jw *w, const struct td_bias_finding *f)
{
    static const char *const OF[] = {"slope", "mean", "coarseness"};
    char words[160], slice[64];

    td_bias_words(f, words, sizeof words);
    td_slice_words(&f->test.slice, slice, sizeof slice);
    td_jw_obj(w, NULL);
    td_jw_cstr(w, "kind", f->kind);
    td_jw_cstr(w, "shape", f->shape);
    td_jw_cstr(w, "dtype", f->dtype);
    td_jw_cstr(w, "m_class", f->m_class < 0 ? NULL : td_m_class_name(f->m_class));
    td_jw_cstr(w, "layer", f->layer);
    td_jw_i64(w, "layers", (int64_t)f->layers);
    td_jw_i64(w, "ops", (int64_t)f->ops);
    td_jw_i64(w, "ops_left_out", (int64_t)f->left_out);
    td_jw_i64(w, "blocks", (int64_t)f->test.blocks);
    td_jw_i64(w, "bad", (int64_t)f->marked);
    td_jw_cstr(w, "slice", slice);
    td_jw_i64(w, "slices", (int64_t)f->slices);
    td_jw_cstr(w, "of", OF[f->test.measure]);
    td_jw_num(w, "estimate", f->test.est);
    td_jw_num(w, "low", f->lo);
    td_jw_num(w, "high", f->hi);
    td_jw_num(w, "p", f->test.p);
    td_jw_num(w, "old_size", f->test.old_size);
    td_jw_num(w, "new_size", f->test.now_size);
    td_jw_cstr(w, "text", words);
    td_jw_end(w);
}

void td_bias_write_json(struct td_jw *w, const struct td_bias *b)
{
    size_t i;

    td_jw_obj(w, "bias");
    td_jw_i64(w, "groups", (int64_t)b->groups);
    td_jw_i64(w, "groups_of_few_ops", (int64_t)b->few);
    td_jw_i64(w, "ops", (int64_t)b->ops);
    td_jw_i64(w, "ops_without_slices", (int64_t)b->without);
    td_jw_i64(w, "tests", (int64_t)b->tests);
    td_jw_i64(w, "more_exact", (int64_t)b->better);
    td_jw_arr(w, "found");
    for (i = 0; i < b->n; i++)
        write_finding(w, &b->found[i]);
    td_jw_end(w);
    td_jw_end(w);
}

void td_repeats_write_json(struct td_jw *w, const struct td_repeats *r)
{
    size_t i;

    td_jw_obj(w, "repeats");
    td_jw_i64(w, "groups", (int64_t)r->n);
    td_jw_arr(w, "less");
    for (i = 0; i < r->less; i++) {
        const struct td_repeats_group *g = &r->group[i];

        td_jw_obj(w, NULL);
        td_jw_cstr(w, "kind", g->kind);
        td_jw_cstr(w, "shape", g->shape);
        td_jw_cstr(w, "dtype", g->dtype);
        td_jw_cstr(w, "m_class", g->m_class < 0 ? NULL : td_m_class_name(g->m_class));
        td_jw_i64(w, "ops", (int64_t)g->ops);
        td_jw_i64(w, "runs", g->runs);
        td_jw_num(w, "old_share", g->old_share);
        td_jw_num(w, "new_share", g->new_share);
        td_jw_num(w, "low", g->lo);
        td_jw_num(w, "high", g->hi);
        td_jw_num(w, "p", g->p);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_end(w);
}
