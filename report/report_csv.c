/* report_csv.c - a report as CSV: one table, whose column `row` tells what a row is about.
 * SPDX-License-Identifier: Apache-2.0
 *
 * RFC 4180, UTF-8, lines that end with CR LF. A column has one meaning and, where the JSON report
 * has the same figure, its name there. A cell that does not apply is empty. Columns may be added at
 * the end (docs/report-formats.md). */
#include <stdio.h>
#include <string.h>

#include "report/csv_text.h"
#include "report/metric_rows.h"
#include "report/parts.h"
#include "report/report.h"

/* clang-format off */
#define COLUMNS(X) \
    X(row) X(fixture) X(candidate) X(verdict) X(name) X(what) X(why) \
    X(compared) X(equal) X(tokens_equal) \
    X(planned) X(seen) \
    X(m_class) X(dtype) X(recorded) X(judged) X(bad) X(undecided) X(broken) X(bit_equal) \
    X(old_score) X(new_score) X(limit) X(old_rms) X(new_rms) X(limit_rms) \
    X(old_rel_l2) X(new_rel_l2) \
    X(total) X(unit) X(old) X(new) X(slower) X(lo) X(hi) X(n) X(faster) X(accepted) \
    X(statistic) X(value)
/* clang-format on */

enum column {
#define COLUMN(name) COL_##name,
    COLUMNS(COLUMN)
#undef COLUMN
    N_COLUMNS
};

static const char *const NAMES[N_COLUMNS] = {
#define COLUMN(name) #name,
    COLUMNS(COLUMN)
#undef COLUMN
};

/* One row: borrowed texts, and figures. */
struct row {
    const char *text[N_COLUMNS];
    char figure[N_COLUMNS][TD_FIGURE_MAX];
};

static void set_text(struct row *r, enum column c, const char *text)
{
    r->text[c] = text;
}

/* Fill the columns from first to last with the members of these names. */
static void set_figures(struct row *r, enum column first, enum column last, const cJSON *part)
{
    int c;

    for (c = (int)first; c <= (int)last; c++)
        td_part_number(part, NAMES[c], r->figure[c]);
}

static void set_bool(struct row *r, enum column c, const cJSON *part)
{
    const cJSON *v = td_json_get(part, NAMES[c]);

    set_text(r, c, cJSON_IsBool(v) ? cJSON_IsTrue(v) ? "true" : "false" : NULL);
}

/* ---- cells ---------------------------------------------------------------------------------- */

static void add_row(const struct row *r, struct td_buf *out)
{
    int c;

    for (c = 0; c < N_COLUMNS; c++) {
        if (c)
            td_buf_addc(out, ',');
        if (r->text[c])
            td_csv_text(r->text[c], out);
        else
            td_buf_adds(out, r->figure[c]);
    }
    td_buf_adds(out, "\r\n");
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void begin_row(struct row *r, const cJSON *report, const char *kind)
{
    memset(r, 0, sizeof *r);
    set_text(r, COL_row, kind);
    set_text(r, COL_fixture, td_report_name(report));
    set_text(r, COL_candidate, td_part_str(td_json_get(report, "names"), "new"));
}

static void add_run(const cJSON *report, struct td_buf *out)
{
    const char *cause = td_part_str(report, "cause");
    struct row r;

    begin_row(&r, report, "run");
    set_text(&r, COL_verdict, td_report_verdict(report));
    set_text(&r, COL_name, td_part_str(report, "headline"));
    set_text(&r, COL_what, td_part_str(td_json_get(report, "names"), "model"));
    set_text(&r, COL_why, *cause ? cause : td_part_str(report, "line"));
    set_figures(&r, COL_compared, COL_tokens_equal, td_json_get(report, "answers"));
    td_part_number(report, "speed_change", r.figure[COL_slower]);
    add_row(&r, out);
}

static void add_lanes(const cJSON *report, struct td_buf *out)
{
    const cJSON *lane;
    struct row r;

    cJSON_ArrayForEach(lane, td_json_get(report, "lanes")) {
        begin_row(&r, report, "lane");
        set_text(&r, COL_verdict, td_part_str(lane, "verdict"));
        set_text(&r, COL_name, td_part_key(lane));
        set_text(&r, COL_why, td_part_lane_reason(lane));
        set_bool(&r, COL_accepted, lane);
        add_row(&r, out);
    }
}

/* A list of the report that becomes rows: which member of an item fills which column. Figures and
 * true-or-false have the column's name. */
struct list {
    const char *row, *lane, *part, *key; /* lane: must be asked for; part: NULL: the report itself */
    struct { enum column column; const char *member; } text[5];
    enum column first, last;             /* figures */
    enum column truth[3];                /* COL_row: none */
    const char *(*verdict)(const cJSON *item);
};

static const char *verdict_of(const cJSON *item)
{
    return td_part_str(item, "verdict");
}

static const struct list LISTS[] = {
    {"absent", NULL, NULL, "absent",
     {{COL_name, "what"}, {COL_what, "side"}, {COL_why, "text"}},
     COL_planned, COL_seen, {COL_row}, verdict_of},
    {"prompt", "tokens", "tokens", "by_prompt",
     {{COL_name, "prompt_id"}, {COL_what, "category"}, {COL_why, "why"}},
     COL_compared, COL_equal, {COL_accepted}, verdict_of},
    {"op", "ops", "ops", "groups",
     {{COL_name, "kind"}, {COL_what, "shape"}, {COL_m_class, "m_class"}, {COL_dtype, "dtype"}},
     COL_recorded, COL_new_rel_l2, {COL_accepted}, td_part_group_verdict},
    {"speed", "speed", "speed", "rows",
     {{COL_name, "metric"}, {COL_what, "what"}, {COL_unit, "unit"}},
     COL_old, COL_n, {COL_total, COL_faster, COL_accepted}, verdict_of},
};

static void add_item(const cJSON *report, const struct list *list, const cJSON *item,
                     struct td_buf *out)
{
    struct row r;
    size_t i;

    begin_row(&r, report, list->row);
    set_text(&r, COL_verdict, list->verdict(item));
    for (i = 0; i < sizeof list->text / sizeof list->text[0] && list->text[i].member; i++)
        set_text(&r, list->text[i].column, td_part_str(item, list->text[i].member));
    set_figures(&r, list->first, list->last, item);
    for (i = 0; i < sizeof list->truth / sizeof list->truth[0]; i++)
        if (list->truth[i] != COL_row)
            set_bool(&r, list->truth[i], item);
    add_row(&r, out);
}

static void add_list(const cJSON *report, const struct list *list, struct td_buf *out)
{
    const cJSON *part = list->part ? td_json_get(report, list->part) : report, *item;

    if (list->lane && !td_report_asked(report, list->lane))
        return;
    cJSON_ArrayForEach(item, td_json_get(part, list->key))
        add_item(report, list, item, out);
}

/* The figure `value` of a term, or a rate, of a fixture. */
static void add_metric(const cJSON *report, const char *name, const char *fixture, const char *unit, const char *statistic,
                       const char *value, struct td_buf *out)
{
    struct row r;

    begin_row(&r, report, "metric");
    set_text(&r, COL_name, name);
    set_text(&r, COL_what, fixture);
    set_text(&r, COL_why, td_part_str(td_json_get(report, "metrics"), "terms"));
    set_text(&r, COL_unit, unit);
    set_text(&r, COL_statistic, statistic);
    snprintf(r.figure[COL_value], TD_FIGURE_MAX, "%s", value);
    add_row(&r, out);
}

static void add_metrics(const cJSON *report, struct td_buf *out)
{
    struct td_metric_row term;
    struct td_metric_rate rate;
    char statistic[40], value[TD_FIGURE_MAX];
    const char *unit;
    const cJSON *v;
    size_t i;

    for (i = 0; td_metric_row_at(report, i, &term); i++)
        cJSON_ArrayForEach(v, term.figures)
            if (td_metric_figure(v, statistic, sizeof statistic, &unit))
                add_metric(report, term.key, term.fixture, unit, statistic, td_part_number(term.figures, td_part_key(v), value), out);
    for (i = 0; td_metric_rate_at(report, i, &rate); i++)
        if (*rate.value)
            add_metric(report, rate.key, rate.fixture, "1/s", "rate", rate.value, out);
}

int td_report_csv(const cJSON *report, struct td_buf *out, struct td_error *err)
{
    const cJSON *part;
    size_t i, list;
    int c;

    for (c = 0; c < N_COLUMNS; c++)
        td_buf_addf(out, "%s%s", c ? "," : "", NAMES[c]);
    td_buf_adds(out, "\r\n");
    for (i = 0; (part = td_report_part(report, i)); i++) {
        add_run(part, out);
        add_lanes(part, out);
        for (list = 0; list < sizeof LISTS / sizeof LISTS[0]; list++)
            add_list(part, &LISTS[list], out);
        add_metrics(part, out);
    }
    return out->failed ? td_fail(err, TD_ELIMIT, "the report as CSV is too large") : TD_OK;
}
