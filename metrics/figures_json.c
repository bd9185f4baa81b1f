/* figures_json.c - the figures of measured exchanges as JSON.
 * SPDX-License-Identifier: Apache-2.0 */
#include "metrics/figures_json.h"

#include <stdio.h>
#include <stdlib.h>

int td_wanted_read(const char *goodput, const char *percentiles, enum td_dialect d, struct td_wanted *out, struct td_error *err)
{
    int rc = td_percentiles_parse(percentiles ? percentiles : TD_PERCENTILES_DEFAULT, &out->percentiles, err);

    out->goodput_text = goodput;
    return rc || !goodput ? rc : td_goodput_parse(goodput, d, &out->goodput, err);
}

void td_terms_write(enum td_dialect d, struct td_jw *w)
{
    const struct td_term_def *def;
    size_t i;

    td_jw_cstr(w, "terms", td_dialect_name(d));
    td_jw_cstr(w, "source", td_dialect_source(d));
    td_jw_obj(w, "names");
    for (i = 0; (def = td_term_def(d, i)); i++)
        td_jw_cstr(w, td_term_key(def->term), def->name);
    td_jw_end(w);
    td_jw_obj(w, "definitions");
    for (i = 0; (def = td_term_def(d, i)); i++)
        td_jw_cstr(w, td_term_key(def->term), def->definition);
    td_jw_end(w);
}

void td_spread_write(struct td_jw *w, const char *key, const struct td_spread *s, const struct td_percentiles *p)
{
    char name[24];
    size_t i;

    td_jw_obj(w, key);
    td_jw_i64(w, "n", (int64_t)s->n);
    td_jw_num_or_null(w, "mean_s", s->mean);
    td_jw_num_or_null(w, "std_s", s->std);
    td_jw_num_or_null(w, "min_s", s->min);
    for (i = 0; i < p->n; i++) {
        snprintf(name, sizeof name, "p%g_s", p->p[i]);
        td_jw_num_or_null(w, name, s->at[i]);
    }
    td_jw_num_or_null(w, "max_s", s->max);
    td_jw_end(w);
}

static void write_rates(const struct td_figures *f, const struct td_wanted *wanted, struct td_jw *w)
{
    td_jw_i64(w, "input_tokens", f->input_tokens);
    td_jw_i64(w, "output_tokens", f->output_tokens);
    td_jw_num_or_null(w, "duration_s", f->duration_s);
    td_jw_num_or_null(w, "requests_per_s", f->requests_per_s);
    td_jw_num_or_null(w, "output_tokens_per_s", f->output_per_s);
    td_jw_num_or_null(w, "tokens_per_s", f->tokens_per_s);
    if (!wanted->goodput.asked)
        return;
    td_jw_obj(w, "goodput");
    td_jw_cstr(w, "limits", wanted->goodput_text);
    td_jw_i64(w, "good", f->good);
    td_jw_i64(w, "judged", f->judged);
    td_jw_num_or_null(w, "requests_per_s", f->good_per_s);
    td_jw_end(w);
}

/* The figures of all exchanges, or of a part, into the open object. */
static int write_these(const struct td_measured_set *of, const struct td_part *part, const struct td_wanted *wanted, struct td_jw *w,
                       struct td_error *err)
{
    const struct td_term_def *def;
    struct td_figures f;
    size_t i;
    int rc = td_figures_of(of, part, &wanted->goodput, &wanted->percentiles, &f, err);

    if (rc)
        return rc;
    td_jw_i64(w, "exchanges", f.exchanges);
    td_jw_i64(w, "failed", f.failed);
    for (i = 0; (def = td_term_def(of->dialect, i)); i++)
        td_spread_write(w, td_term_key(def->term), &f.term[def->term], &wanted->percentiles);
    write_rates(&f, wanted, w);
    return TD_OK;
}

int td_figures_write(const struct td_measured_set *of, const struct td_wanted *wanted, struct td_jw *w, struct td_error *err)
{
    struct td_part *part = NULL;
    size_t n = 0, i;
    int rc = write_these(of, NULL, wanted, w, err);

    if (!rc)
        rc = td_parts_of(of, &part, &n, err);
    td_jw_arr(w, "parts");
    for (i = 0; !rc && i < n; i++) {
        td_jw_obj(w, NULL);
        td_jw_cstr(w, "category", part[i].category);
        td_jw_i64(w, "concurrency", part[i].concurrency);
        if (part[i].by_others)
            td_jw_i64(w, "concurrency_to", part[i].up_to);
        rc = write_these(of, &part[i], wanted, w, err);
        td_jw_end(w);
    }
    td_jw_end(w);
    free(part);
    return rc;
}
