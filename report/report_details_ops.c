/* report_details_ops.c - --verbose: ops, blame and speed.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/parts.h"
#include "report/report_details.h"
#include "report/text.h"
#include "report/text_table.h"

#define OPS_OF_GROUP 3 /* ops of a group that are shown one by one */

static long long count_of(const cJSON *o, const char *key)
{
    return td_json_get_i64(o, key, 0);
}

static void add_header(struct td_table *t, const char *const *names)
{
    for (; *names; names++)
        td_table_add(t, "%s", *names);
}

static void add_number(struct td_table *t, const cJSON *o, const char *key)
{
    char number[TD_TEXT_NUMBER];

    td_table_add(t, "%s", td_text_number(td_json_get(o, key), number));
}

/* ---- ops ------------------------------------------------------------------------------------- */

static bool is_without_reference(const cJSON *g)
{
    return count_of(g, "compared") + count_of(g, "not_compared") > 0;
}

/* "2-8", "> 512". */
static const char *m_class_words(const cJSON *group)
{
    const char *m = td_part_str(group, "m_class");

    return !strncmp(m, "M=", 2) ? m + 2 : m + (*m == 'M');
}

static void add_groups(struct td_buf *out, const cJSON *groups)
{
    const cJSON *g;
    struct td_table t;

    td_report_add_title(out, "ops (error 1 is a correctly rounded result; rms: of the worst row, "
                             "column or tile)");
    td_table_init(&t, "lllrrrrrrrrr", 2);
    add_header(&t, (const char *const[]){"kernel", "N x K", "M", "ops", "bad", "equal", "old", "new",
                                         "limit", "rms old", "new", "limit", NULL});
    cJSON_ArrayForEach(g, groups) {
        if (!count_of(g, "judged") && is_without_reference(g))
            continue;
        td_table_add(&t, "%s", td_part_str(g, "kind"));
        td_table_add(&t, "%s", td_part_str(g, "shape"));
        td_table_add(&t, "%s", m_class_words(g));
        td_table_add(&t, "%lld", count_of(g, "judged"));
        td_table_add(&t, "%lld%s", count_of(g, "bad"),
                     count_of(g, "undecided") + count_of(g, "broken") ? "?" : "");
        td_table_add(&t, "%lld", count_of(g, "bit_equal"));
        add_number(&t, g, "old_score");
        add_number(&t, g, "new_score");
        add_number(&t, g, "limit");
        add_number(&t, g, "old_rms");
        add_number(&t, g, "new_rms");
        add_number(&t, g, "limit_rms");
    }
    td_table_write(&t, out);
    td_table_release(&t);
}

static void add_op(struct td_buf *out, const cJSON *op)
{
    struct td_buf words = TD_BUF_INIT(1 << 16);
    char head[32];

    snprintf(head, sizeof head, "  op %lld", count_of(op, "op"));
    td_buf_addf(&words, "%s %s", td_part_str(op, "kind"), td_part_str(op, "shape"));
    if (td_json_get_i64(op, "m", -1) >= 0)
        td_buf_addf(&words, " M=%lld", count_of(op, "m"));
    if (*td_part_str(op, "layer"))
        td_buf_addf(&words, " %s", td_part_str(op, "layer"));
    if (*td_part_str(op, "layer") && td_json_get_i64(op, "rank", -1) >= 0)
        td_buf_addf(&words, " of rank %lld", count_of(op, "rank"));
    td_buf_addf(&words, ": %s: %s", td_part_str(op, "result"), td_part_str(op, "why"));
    td_text_item(out, head, 12, td_buf_str(&words), 4);
    td_buf_release(&words);
}

/* Ops without a reference, a line for each kind: groups of one kind stand together. */
static void add_compared_ops(struct td_buf *out, const cJSON *groups)
{
    long long ops = 0, equal = 0, skipped = 0;
    double worst = NAN;
    struct td_table t;
    const cJSON *g;

    td_table_init(&t, "lrrrr", 2);
    add_header(&t, (const char *const[]){"kind", "ops", "equal", "not compared", "largest departure",
                                         NULL});
    cJSON_ArrayForEach(g, groups) {
        ops += count_of(g, "compared");
        equal += count_of(g, "compared_equal");
        skipped += count_of(g, "not_compared");
        worst = fmax(worst, td_json_get_num(g, "departs", NAN));
        if (g->next && !strcmp(td_part_str(g, "kind"), td_part_str(g->next, "kind")))
            continue;
        if (ops + skipped) {
            td_table_add(&t, "%s", td_part_str(g, "kind"));
            td_table_add(&t, "%lld", ops);
            td_table_add(&t, "%lld", equal);
            td_table_add(&t, "%lld", skipped);
            if (isnan(worst))
                td_table_add(&t, "-");
            else
                td_table_add(&t, "%.3g", worst);
        }
        ops = equal = skipped = 0;
        worst = NAN;
    }
    if (t.n_cells > 5) {
        td_report_add_title(out, "ops without a reference (relative distance to the old output, under "
                                 "equal input)");
        td_table_write(&t, out);
    }
    td_table_release(&t);
}

/* Each build is judged by its own format's reference; the distance to exact arithmetic is what the
 * format costs. */
static void add_formats(struct td_buf *out, const cJSON *groups)
{
    struct td_table t;
    const cJSON *g;

    td_table_init(&t, "llllrr", 2);
    add_header(&t, (const char *const[]){"kernel", "N x K", "rounding: old", "new", "distance: old",
                                         "new", NULL});
    cJSON_ArrayForEach(g, groups) {
        if (!count_of(g, "format_changed"))
            continue;
        td_table_add(&t, "%s", td_part_str(g, "kind"));
        td_table_add(&t, "%s", td_part_str(g, "shape"));
        td_table_add(&t, "%s", td_part_str(g, "old_rounding"));
        td_table_add(&t, "%s", td_part_str(g, "new_rounding"));
        add_number(&t, g, "old_r0_rel_l2");
        add_number(&t, g, "new_r0_rel_l2");
    }
    if (t.n_cells > 6) {
        td_report_add_title(out, "formats that changed (relative distance to exact arithmetic)");
        td_table_write(&t, out);
    }
    td_table_release(&t);
}

/* What the first screen has no room for. */
static void add_blame(struct td_buf *out, const cJSON *blame)
{
    const cJSON *same, *nan = td_json_get(blame, "first_nan");
    struct td_buf words = TD_BUF_INIT(1 << 16);
    const char *symbol = td_part_str(td_json_get(blame, "first"), "symbol");

    td_report_add_title(out, "blame");
    td_text_wrap(out, "  rule", 10, td_part_str(blame, "pattern"), 4);
    cJSON_ArrayForEach(same, td_json_get(blame, "same"))
        if (cJSON_IsString(same))
            td_text_wrap(out, "  as well", 12, same->valuestring, 4);
    if (count_of(blame, "unseen"))
        td_buf_addf(&words, "no rule was tried on %lld of these ops: there are too many different ones; ",
                    count_of(blame, "unseen"));
    if (count_of(blame, "untried"))
        td_buf_addf(&words, "%lld terms were not tried in a rule: there are too many",
                    count_of(blame, "untried"));
    if (words.len)
        td_text_wrap(out, "", 2, td_buf_str(&words), 3);
    if (*symbol)
        td_text_wrap(out, "  symbol", 10, symbol, 6);
    words.len = 0;
    td_buf_addf(&words, "op %lld, %s: %lld NaN, %lld Inf in its output", count_of(nan, "op"),
                td_json_get_str(nan, "layer", "unknown layer"),
                count_of(td_json_get(nan, "candidate"), "nan"),
                count_of(td_json_get(nan, "candidate"), "inf"));
    if (cJSON_IsObject(nan))
        td_text_wrap(out, "  first NaN or Inf", 20, td_buf_str(&words), 3);
    td_buf_release(&words);
}

static bool is_of_group(const cJSON *op, const cJSON *group)
{
    return !strcmp(td_part_str(op, "kind"), td_part_str(group, "kind")) &&
           !strcmp(td_part_str(op, "shape"), td_part_str(group, "shape")) &&
           !strcmp(td_part_str(op, "m_class"), td_part_str(group, "m_class"));
}

/* The first ops of a group that are not ok, and how many more there are. */
static void add_ops_of(struct td_buf *out, const cJSON *group, const cJSON *not_ok)
{
    struct td_buf of = TD_BUF_INIT(1 << 16);
    const cJSON *op;
    long long n = 0;

    cJSON_ArrayForEach(op, not_ok)
        if (is_of_group(op, group) && n++ < OPS_OF_GROUP)
            add_op(out, op);
    td_buf_addf(&of, "of %s %s %s", td_part_str(group, "kind"), td_part_str(group, "shape"),
                td_part_str(group, "m_class"));
    td_report_add_more(out, n - OPS_OF_GROUP, td_buf_str(&of));
    td_buf_release(&of);
}

/* Group by group, that with the bad op that ran first first. */
static void add_not_ok(struct td_buf *out, const cJSON *groups, const cJSON *not_ok)
{
    bool *shown = calloc((size_t)cJSON_GetArraySize(groups) + 1, sizeof *shown);
    const cJSON *g, *op;
    size_t i;

    if (cJSON_GetArraySize(not_ok))
        td_buf_addc(out, '\n');
    cJSON_ArrayForEach(op, not_ok) {
        for (g = groups ? groups->child : NULL, i = 0; g && !is_of_group(op, g); g = g->next)
            i++;
        if (!g || !shown || shown[i])
            continue;
        shown[i] = true;
        add_ops_of(out, g, not_ok);
    }
    free(shown);
}

void td_report_add_ops(struct td_buf *out, const cJSON *report)
{
    const cJSON *ops = td_json_get(report, "ops"), *groups = td_json_get(ops, "groups");

    add_compared_ops(out, groups);
    if (count_of(ops, "judged"))
        add_groups(out, groups);
    add_not_ok(out, groups, td_json_get(ops, "not_ok"));
    add_formats(out, groups);
    if (cJSON_IsObject(td_json_get(report, "blame")))
        add_blame(out, td_json_get(report, "blame"));
}

/* ---- speed ----------------------------------------------------------------------------------- */

static void add_value(struct td_table *t, const cJSON *row, const char *key)
{
    const double v = td_json_get_num(row, key, NAN);

    if (isnan(v))
        td_table_add(t, "-");
    else if (!strcmp(td_part_str(row, "unit"), "tok/s"))
        td_table_add(t, "%.1f tok/s", v);
    else if (v >= 1e6)
        td_table_add(t, "%.2f ms", v / 1e6);
    else
        td_table_add(t, "%.2f us", v / 1e3);
}

/* "[+2.1, +9.8]" and the number of pairs; what it means. */
static void add_change(struct td_table *t, const cJSON *row)
{
    const double lo = td_json_get_num(row, "change_lo", NAN), hi = td_json_get_num(row, "change_hi", NAN);
    const char *verdict = td_part_str(row, "verdict");

    td_table_add(t, "%+.1f %%", td_json_get_num(row, "change", NAN) * 100);
    if (isnan(lo) || isnan(hi))
        td_table_add(t, "too few pairs");
    else
        td_table_add(t, "[%+.1f, %+.1f]", lo * 100, hi * 100);
    td_table_add(t, "%lld", count_of(row, "n"));
    td_table_add(t, "%s",
                 !strcmp(verdict, "regressed") ? "slower"
                 : td_json_get_bool(row, "faster", false) && strcmp(verdict, "not judged") != 0
                     ? "faster"
                     : "");
}

static bool is_of_ops(const cJSON *row)
{
    return !strncmp(td_part_str(row, "metric"), "op, ", 4);
}

/* Rows of ops hold many sizes: a second median would mislead. */
static void add_op_speed(struct td_buf *out, const cJSON *rows)
{
    const cJSON *row;
    struct td_table t;
    int total;

    td_table_init(&t, "llrrrrl", 2);
    add_header(&t, (const char *const[]){"", "", "median", "paired", "", "", "", NULL});
    add_header(&t, (const char *const[]){"cache", "ops", "old", "change", "interval", "samples", "", NULL});
    for (total = 1; total >= 0; total--) /* totals first */
        cJSON_ArrayForEach(row, rows)
            if (is_of_ops(row) && td_json_get_bool(row, "total", false) == (total == 1)) {
                td_table_add(&t, "%s", strstr(td_part_str(row, "metric"), "cold") ? "cold" : "hot");
                td_table_add(&t, "%s", td_part_str(row, "what"));
                add_value(&t, row, "old");
                add_change(&t, row);
            }
    if (t.n_cells > 14)
        td_table_write(&t, out);
    td_table_release(&t);
}

static void add_server_speed(struct td_buf *out, const cJSON *rows)
{
    const cJSON *row;
    struct td_table t;
    int total;

    td_table_init(&t, "llrrrrrl", 2);
    add_header(&t, (const char *const[]){"", "", "median", "median", "paired", "", "", "", NULL});
    add_header(&t, (const char *const[]){"metric", "prompts", "old", "new", "change", "interval", "samples",
                                         "", NULL});
    for (total = 1; total >= 0; total--)
        cJSON_ArrayForEach(row, rows)
            if (!is_of_ops(row) && td_json_get_bool(row, "total", false) == (total == 1)) {
                td_table_add(&t, "%s", td_part_str(row, "metric"));
                td_table_add(&t, "%s", td_part_str(row, "what"));
                add_value(&t, row, "old");
                add_value(&t, row, "new");
                add_change(&t, row);
            }
    if (t.n_cells > 16)
        td_table_write(&t, out);
    td_table_release(&t);
}

void td_report_add_speed(struct td_buf *out, const cJSON *report)
{
    const cJSON *rows = td_json_get(td_json_get(report, "speed"), "rows");

    if (!cJSON_GetArraySize(rows))
        return;
    td_report_add_title(out, "speed (of a time + is slower, of a throughput - is slower; all intervals "
                             "hold together)");
    add_op_speed(out, rows);
    add_server_speed(out, rows);
}
