/* markdown_tables.c - the folded tables of a comparison in Markdown.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/markdown_tables.h"

#include <stdio.h>

#include "common/json.h"
#include "report/markdown.h"
#include "report/metric_rows.h"
#include "report/parts.h"

static void add_groups(const struct td_markdown_page *p, const cJSON *report)
{
    static const char *const FIGURES[] = {"judged", "bad", "old_score", "new_score", "limit"};
    struct td_markdown_table t = {
        p, "Ops",
        "| kernel | shape | M | ops | bad | error, old | error, new | limit |\n"
        "|---|---|---|--:|--:|--:|--:|--:|\n",
        0, 0};
    struct td_buf row = TD_BUF_INIT(TD_MARKDOWN_MAX);
    const cJSON *g;
    size_t i;
    int bad;

    for (bad = 1; bad >= 0; bad--) /* bad groups first */
        cJSON_ArrayForEach(g, td_json_get(td_json_get(report, "ops"), "groups")) {
            if (!td_part_group_is_judged(g) || (td_json_get_num(g, "bad", 0) > 0) != bad)
                continue;
            td_markdown_code_cell(td_part_str(g, "kind"), &row);
            td_markdown_code_cell(td_part_str(g, "shape"), &row);
            td_markdown_text_cell(td_part_str(g, "m_class"), &row);
            for (i = 0; i < sizeof FIGURES / sizeof FIGURES[0]; i++)
                td_markdown_figure_cell(g, FIGURES[i], &row);
            td_buf_adds(&row, "|\n");
            td_markdown_add_row(&t, &row);
        }
    td_markdown_end_table(&t);
    td_buf_release(&row);
}

static void add_prompts(const struct td_markdown_page *p, const cJSON *report)
{
    struct td_markdown_table t = {
        p, "Prompts that are not equal",
        "| prompt | verdict | equal | compared | why |\n|---|---|--:|--:|---|\n", 0, 0};
    struct td_buf row = TD_BUF_INIT(TD_MARKDOWN_MAX);
    const cJSON *prompt;

    cJSON_ArrayForEach(prompt, td_json_get(td_json_get(report, "tokens"), "by_prompt")) {
        if (!*td_part_str(prompt, "why"))
            continue;
        td_markdown_code_cell(td_part_str(prompt, "prompt_id"), &row);
        td_markdown_text_cell(td_part_str(prompt, "verdict"), &row);
        td_markdown_figure_cell(prompt, "equal", &row);
        td_markdown_figure_cell(prompt, "compared", &row);
        td_markdown_text_cell(td_part_str(prompt, "why"), &row);
        td_buf_adds(&row, "|\n");
        td_markdown_add_row(&t, &row);
    }
    td_markdown_end_table(&t);
    td_buf_release(&row);
}

static void add_speed_rows(const struct td_markdown_page *p, const cJSON *report)
{
    struct td_markdown_table t = {
        p, "Speed",
        "| metric | of | change | interval | n | verdict |\n|---|---|--:|---|--:|---|\n", 0, 0};
    struct td_buf row = TD_BUF_INIT(TD_MARKDOWN_MAX);
    char a[TD_FIGURE_MAX], b[TD_FIGURE_MAX];
    const cJSON *r;

    cJSON_ArrayForEach(r, td_json_get(td_json_get(report, "speed"), "rows")) {
        td_markdown_text_cell(td_part_str(r, "metric"), &row);
        td_markdown_code_cell(td_part_str(r, "what"), &row);
        td_buf_addf(&row, "| %s ", td_part_percent(r, "change", a));
        td_part_percent(r, "change_lo", a);
        td_part_percent(r, "change_hi", b);
        td_buf_addf(&row, *a && *b ? "| %s to %s " : "| ", a, b);
        td_markdown_figure_cell(r, "n", &row);
        td_markdown_text_cell(td_part_str(r, "verdict"), &row);
        td_buf_adds(&row, "|\n");
        td_markdown_add_row(&t, &row);
    }
    td_markdown_end_table(&t);
    td_buf_release(&row);
}

/* The columns of a term, from its first row: "| term | of | n | mean, s | p50, s |". */
static void add_metric_head(const cJSON *figures, struct td_buf *head)
{
    char name[40], words[60];
    const char *unit;
    const cJSON *v;
    int n = 0;

    td_buf_adds(head, "| term | of ");
    cJSON_ArrayForEach(v, figures)
        if (td_metric_figure(v, name, sizeof name, &unit)) {
            snprintf(words, sizeof words, "%s%s%s", name, *unit ? ", " : "", unit);
            td_markdown_text_cell(words, head);
            n++;
        }
    td_buf_adds(head, "|\n|---|---");
    while (n-- > 0)
        td_buf_adds(head, "|--:");
    td_buf_adds(head, "|\n");
}

static void add_metrics(const struct td_markdown_page *p, const cJSON *report)
{
    char title[120], name[40];
    struct td_buf head = TD_BUF_INIT(4096), row = TD_BUF_INIT(TD_MARKDOWN_MAX);
    struct td_markdown_table t = {p, title, NULL, 0, 0};
    struct td_metric_row term;
    const char *unit;
    const cJSON *v;
    size_t i;

    snprintf(title, sizeof title, "Times in terms of %.40s (nothing is judged by them)",
             td_part_str(td_json_get(report, "metrics"), "terms"));
    for (i = 0; td_metric_row_at(report, i, &term); i++) {
        if (i == 0)
            add_metric_head(term.figures, &head);
        t.head = td_buf_str(&head);
        td_markdown_text_cell(term.name, &row);
        td_markdown_text_cell(term.fixture, &row);
        cJSON_ArrayForEach(v, term.figures)
            if (td_metric_figure(v, name, sizeof name, &unit))
                td_markdown_figure_cell(term.figures, td_part_key(v), &row);
        td_buf_adds(&row, "|\n");
        td_markdown_add_row(&t, &row);
    }
    td_markdown_end_table(&t);
    td_buf_release(&head);
    td_buf_release(&row);
}

static void add_metric_rates(const struct td_markdown_page *p, const cJSON *report)
{
    struct td_markdown_table t = {p, "Rates", "| rate | of | a second |\n|---|---|--:|\n", 0, 0};
    struct td_buf row = TD_BUF_INIT(TD_MARKDOWN_MAX);
    struct td_metric_rate rate;
    size_t i;

    for (i = 0; td_metric_rate_at(report, i, &rate); i++) {
        if (!*rate.value)
            continue;
        td_markdown_code_cell(rate.key, &row);
        td_markdown_text_cell(rate.fixture, &row);
        td_buf_addf(&row, "| %s |\n", rate.value);
        td_markdown_add_row(&t, &row);
    }
    td_markdown_end_table(&t);
    td_buf_release(&row);
}

/* What the lanes have to say besides their reasons. */
static void add_notes(const struct td_markdown_page *p, const cJSON *report)
{
    struct td_markdown_table t = {p, "Notes", "| lane | | note |\n|---|---|---|\n", 0, 0};
    struct td_buf row = TD_BUF_INIT(TD_MARKDOWN_MAX);
    const cJSON *lane, *note;

    cJSON_ArrayForEach(lane, td_json_get(report, "lanes"))
        cJSON_ArrayForEach(note, td_json_get(lane, "notes")) {
        if (!td_json_get_bool(lane, "asked", false))
            continue;
        td_markdown_text_cell(td_part_key(lane), &row);
        td_markdown_text_cell(td_part_str(note, "verdict"), &row);
        td_buf_adds(&row, "| ");
        td_markdown_text(td_part_str(note, "text"), 1000, &row);
        td_buf_adds(&row, " |\n");
        td_markdown_add_row(&t, &row);
    }
    td_markdown_end_table(&t);
    td_buf_release(&row);
}

void td_markdown_add_tables(const struct td_markdown_page *p, const cJSON *report)
{
    if (td_report_asked(report, "ops"))
        add_groups(p, report);
    if (td_report_asked(report, "tokens"))
        add_prompts(p, report);
    if (td_report_asked(report, "speed"))
        add_speed_rows(p, report);
    add_metrics(p, report);
    add_metric_rates(p, report);
    add_notes(p, report);
}
