/* report_blame.c - the pattern of the bad ops and the first of them, in the text and the JSON
 * report.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_blame.h"

#include "differ/report_ops.h"

/* Print whose row the first bad op computed. */
static void print_place(const struct td_page *p, const struct td_blame *b)
{
    int i;

    if (*b->prompt_id) {
        fprintf(p->out, "           while the server %s prompt %s, repeat %d",
                b->decode ? "answered" : "read", b->prompt_id, b->repeat);
        if (b->position >= 0)
            fprintf(p->out, ", at position %d", b->position);
        fprintf(p->out, b->inferred ? " (inferred)\n" : "\n");
    } else if (b->n_among) {
        fprintf(p->out, "           while the server computed %s",
                b->n_sharing > 1 ? "together, and it is not known which row is whose, prompts"
                                 : "prompt");
        for (i = 0; i < b->n_among; i++)
            fprintf(p->out, "%s %s", i ? "," : "", b->among[i]);
        fprintf(p->out, "%s%s\n",
                b->n_among == TD_BLAME_AMONG && b->n_sharing > b->n_among ? " and more" : "",
                b->inferred ? " (inferred)" : "");
    }
}

void td_blame_print(const struct td_page *p, const struct td_blame *b)
{
    const struct td_judged_op *op = b->first;
    char layer[300];
    int i;

    td_page_title(p, "blame");
    if (b->good == 0)
        fprintf(p->out, "  pattern  every op that could be decided is bad (%zu)\n", b->bad);
    else if (b->rule.n_terms == 0 && b->good * 20 < b->bad)
        fprintf(p->out, "  pattern  nearly every op: %zu bad, %zu good\n", b->bad, b->good);
    else if (b->rule.n_terms == 0)
        fprintf(p->out,
                "  pattern  none: no simple rule separates %zu bad ops from %zu good ones\n",
                b->bad, b->good);
    else
        fprintf(p->out, "  pattern  %s: holds for %zu of %zu bad ops and %zu of %zu good ones\n",
                b->text, b->rule.bad_hit, b->bad, b->rule.good_hit, b->good);
    for (i = 0; i < b->n_same && b->good; i++)
        fprintf(p->out, "           %s separates these ops equally well\n", b->same_text[i]);
    if (b->unseen)
        fprintf(
            p->out,
            "           no rule was tried on %zu of these ops: there are too many different ones\n",
            b->unseen);
    if (b->untried)
        fprintf(p->out,
                "           %zu terms were not tried in a rule: at most %d values of a feature and "
                "%d terms are\n",
                b->untried, TD_BLAME_MAX_VALUES, TD_BLAME_MAX_TERMS);
    fprintf(p->out, "  first    op %lld", (long long)op->op);
    if (op->step >= 0)
        fprintf(p->out, ", step %lld", (long long)op->step);
    fprintf(p->out, ": %s/%s, %s, M=%lld%s%s%s\n           %s\n",
            td_judged_op_layer_words(op, "unknown layer", layer, sizeof layer), op->kind, op->shape,
            (long long)op->m, op->symbol ? " (" : "", op->symbol ? op->symbol : "",
            op->symbol ? ")" : "", op->why);
    print_place(p, b);
    if (b->first_nan && b->first_nan != op)
        fprintf(
            p->out,
            "  first NaN or Inf: op %lld, %s/%s, %s, M=%lld: %lld NaN, %lld Inf in its output\n",
            (long long)b->first_nan->op,
            b->first_nan->layer ? b->first_nan->layer : "unknown layer", b->first_nan->kind,
            b->first_nan->shape, (long long)b->first_nan->m, (long long)b->first_nan->candidate.nan,
            (long long)b->first_nan->candidate.inf);
}

void td_blame_write_json(struct td_jw *w, const struct td_blame *b)
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
    td_jw_i64(w, "bad_hit", (int64_t)b->rule.bad_hit);
    td_jw_i64(w, "good_hit", (int64_t)b->rule.good_hit);
    td_jw_i64(w, "unseen", (int64_t)b->unseen);
    td_jw_i64(w, "untried", (int64_t)b->untried);
    td_jw_arr(w, "same");
    for (i = 0; i < b->n_same; i++)
        td_jw_cstr(w, NULL, b->same_text[i]);
    td_jw_end(w);
    td_op_write_json(w, "first", b->first);
    if (b->first_nan)
        td_op_write_json(w, "first_nan", b->first_nan);
    else
        td_jw_null(w, "first_nan");
    td_jw_cstr(w, "prompt_id", *b->prompt_id ? b->prompt_id : NULL);
    td_jw_i64(w, "repeat", b->repeat);
    td_jw_i64(w, "position", b->position);
    td_jw_bool(w, "inferred", b->inferred);
    td_jw_arr(w, "among");
    for (i = 0; i < b->n_among; i++)
        td_jw_cstr(w, NULL, b->among[i]);
    td_jw_end(w);
    td_jw_end(w);
}
