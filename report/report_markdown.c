/* report_markdown.c - a report for a comment on a pull request or the summary of a job.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The verdict and its reasons come first; lists are folded. GitHub refuses a comment of more than
 * 65,536 characters, so the whole is kept below TD_MARKDOWN_MAX: a list that does not fit ends with
 * a line that says how many rows are left out. */
#include <string.h>

#include "report/blame_words.h"
#include "report/markdown.h"
#include "report/markdown_tables.h"
#include "report/parts.h"
#include "report/report.h"

#define PART_MIN    3000 /* the fewest bytes for one of several reports */
#define LIST_MAX    20   /* items of a list that is not folded */
#define SUMMARY_MAX 600  /* bytes of the frame around one of several reports */

/* ---- what stands at the top ----------------------------------------------------------------- */

/* "answers equal 47/50, tokens equal 98.1 %; ops bit-equal ...": a line, when something is known. */
static void write_figures(const cJSON *report, struct td_buf *out)
{
    struct td_buf words = TD_BUF_INIT(1 << 16);

    td_part_add_facts(report, &words);
    if (words.len) {
        td_markdown_text(td_buf_str(&words), TD_MARKDOWN_LINE_MAX, out);
        td_buf_addf(out, "%s\n\n",
                    cJSON_IsNumber(td_json_get(report, "speed_change")) ? " (+ is slower)" : "");
    }
    words.len = 0;
    td_part_add_plan(report, &words);
    if (words.len) {
        td_markdown_text(td_buf_str(&words), TD_MARKDOWN_LINE_MAX, out);
        td_buf_adds(out, "\n\n");
    }
    td_buf_release(&words);
}

/* ", 1064 ops"; nothing for none. */
static void add_count(const cJSON *names, const char *key, const char *of, struct td_buf *out)
{
    const int n = (int)td_json_get_i64(names, key, 0);

    if (n)
        td_buf_addf(out, ", %d %s", n, of);
}

static void add_title(const struct td_markdown_page *p, const cJSON *report)
{
    const cJSON *names = td_json_get(report, "names");
    struct td_buf piece = TD_BUF_INIT(TD_MARKDOWN_MAX);

    td_buf_adds(&piece, "### ");
    td_markdown_text(td_part_str(report, "headline"), TD_MARKDOWN_LINE_MAX, &piece);
    td_buf_adds(&piece, ": ");
    td_markdown_code(td_report_name(report), TD_MARKDOWN_LINE_MAX, &piece);
    if (*td_part_str(names, "new")) {
        td_buf_adds(&piece, " → ");
        td_markdown_code(td_part_str(names, "new"), TD_MARKDOWN_LINE_MAX, &piece);
    }
    td_buf_adds(&piece, "\n\n");
    if (*td_part_str(names, "model")) {
        td_markdown_code(td_part_str(names, "model"), TD_MARKDOWN_LINE_MAX, &piece);
        add_count(names, "gemms", "ops", &piece);
        add_count(names, "answers", "answers", &piece);
        td_buf_adds(&piece, "\n\n");
    }
    write_figures(report, &piece);
    td_markdown_add_piece(p, &piece, TD_MARKDOWN_ROOM);
    td_buf_release(&piece);
}

static void add_cause(const struct td_markdown_page *p, const cJSON *report)
{
    struct td_buf piece = TD_BUF_INIT(TD_MARKDOWN_MAX);

    if (*td_part_str(report, "cause")) {
        td_buf_adds(&piece, "**Cause:** ");
        td_markdown_text(td_part_str(report, "cause"), 2000, &piece);
        td_buf_adds(&piece, "\n\n");
        td_markdown_add_piece(p, &piece, TD_MARKDOWN_ROOM);
    }
    td_buf_release(&piece);
}

static void add_lanes(const struct td_markdown_page *p, const cJSON *report)
{
    struct td_buf piece = TD_BUF_INIT(TD_MARKDOWN_MAX);
    const cJSON *lane;
    int n = 0;

    cJSON_ArrayForEach(lane, td_json_get(report, "lanes")) {
        if (!td_json_get_bool(lane, "asked", false) || n == LIST_MAX)
            continue;
        if (n++ == 0)
            td_buf_adds(&piece, "| lane | verdict | why |\n|---|---|---|\n");
        td_markdown_text_cell(td_part_key(lane), &piece);
        td_buf_adds(&piece, "| **");
        td_markdown_text(td_part_str(lane, "verdict"), TD_MARKDOWN_LINE_MAX, &piece);
        td_buf_adds(&piece, "** ");
        td_markdown_text_cell(td_part_lane_reason(lane), &piece);
        td_buf_adds(&piece, "|\n");
    }
    if (n)
        td_buf_addc(&piece, '\n');
    td_markdown_add_piece(p, &piece, TD_MARKDOWN_ROOM);
    td_buf_release(&piece);
}

/* ---- which ops, and the first of them ------------------------------------------------------- */

/* The table of bad shapes; not folded, as it is what a person looks for. */
static void add_bad_shapes(const cJSON *rows, struct td_buf *piece)
{
    const cJSON *row;
    int column, n = 0;

    cJSON_ArrayForEach(row, rows) {
        if (n++ == LIST_MAX)
            break;
        if (n == 1) {
            for (column = 0; column < TD_BLAME_COLUMNS; column++)
                td_buf_addf(piece, "| %s ", td_blame_column(column));
            td_buf_adds(piece, "|\n");
            for (column = 0; column < TD_BLAME_COLUMNS; column++)
                td_buf_adds(piece, "|---");
            td_buf_adds(piece, "|\n");
        }
        for (column = 0; column < TD_BLAME_COLUMNS; column++) {
            struct td_buf cell = TD_BUF_INIT(4096);

            td_blame_add_cell(row, column, &cell);
            td_markdown_text_cell(td_buf_str(&cell), piece);
            td_buf_release(&cell);
        }
        td_buf_adds(piece, "|\n");
    }
    if (n)
        td_buf_addc(piece, '\n');
}

/* "**title:** words", as a paragraph; nothing for no words. */
static void add_words(const char *title, const struct td_buf *words, struct td_buf *piece)
{
    if (!words->len)
        return;
    td_buf_addf(piece, "**%s:** ", title);
    td_markdown_text(td_buf_str(words), 2000, piece);
    td_buf_adds(piece, "\n\n");
}

static void add_blame(const struct td_markdown_page *p, const cJSON *report)
{
    const cJSON *blame = td_json_get(report, "blame");
    struct td_buf piece = TD_BUF_INIT(TD_MARKDOWN_MAX), words = TD_BUF_INIT(1 << 16);

    if (!cJSON_IsObject(blame))
        return;
    td_blame_add_rule(report, &words);
    add_words("Which", &words, &piece);
    add_bad_shapes(td_json_get(blame, "rows"), &piece);
    if (*td_part_str(blame, "matrix")) {
        td_buf_adds(&piece, "Worst places: ");
        td_markdown_text(td_part_str(blame, "matrix"), TD_MARKDOWN_LINE_MAX, &piece);
        td_buf_adds(&piece, "\n\n");
    }
    td_buf_clear(&words);
    td_blame_add_first(blame, &words);
    add_words("First", &words, &piece);
    td_markdown_add_piece(p, &piece, TD_MARKDOWN_ROOM);
    td_buf_release(&piece);
    td_buf_release(&words);
}

/* ---- what is missing, and what to do -------------------------------------------------------- */

/* A list of sentences: those of `key` in each item, or the items themselves. */
static void add_list(const struct td_markdown_page *p, const char *title, const cJSON *list,
                     const char *key)
{
    struct td_buf piece = TD_BUF_INIT(TD_MARKDOWN_MAX);
    const cJSON *item;
    int n = 0;

    cJSON_ArrayForEach(item, list) {
        const char *text = td_part_text(item, key);

        if (!*text || ++n > LIST_MAX)
            continue;
        td_buf_addf(&piece, n == 1 ? "**%s:**\n\n- " : "- ", title);
        td_markdown_text(text, TD_MARKDOWN_LINE_MAX, &piece);
        td_buf_addc(&piece, '\n');
    }
    if (n > LIST_MAX)
        td_buf_addf(&piece, "- %d more are in the JSON report\n", n - LIST_MAX);
    if (n)
        td_buf_addc(&piece, '\n');
    td_markdown_add_piece(p, &piece, TD_MARKDOWN_ROOM);
    td_buf_release(&piece);
}

static void add_accepted(const struct td_markdown_page *p, const cJSON *report)
{
    struct td_buf piece = TD_BUF_INIT(TD_MARKDOWN_MAX);
    const cJSON *accepted;
    int n = 0;

    cJSON_ArrayForEach(accepted, td_json_get(report, "accepted")) {
        struct td_buf words = TD_BUF_INIT(1 << 16);

        if (n == LIST_MAX)
            break;
        td_part_add_accepted(accepted, &words);
        td_buf_adds(&piece, n++ ? "- " : "**Accepted:**\n\n- ");
        td_markdown_text(td_buf_str(&words), 2 * TD_MARKDOWN_LINE_MAX, &piece);
        td_buf_addc(&piece, '\n');
        td_buf_release(&words);
    }
    if (n)
        td_buf_addc(&piece, '\n');
    td_markdown_add_piece(p, &piece, TD_MARKDOWN_ROOM);
    td_buf_release(&piece);
}

static void add_next(const struct td_markdown_page *p, const cJSON *report)
{
    struct td_buf piece = TD_BUF_INIT(TD_MARKDOWN_MAX);
    const cJSON *next;
    int n = 0;

    cJSON_ArrayForEach(next, td_json_get(report, "next")) {
        if (n == LIST_MAX)
            break;
        td_buf_adds(&piece, n++ ? "- " : "**Next:**\n\n- ");
        td_markdown_text(td_part_str(next, "text"), TD_MARKDOWN_LINE_MAX, &piece);
        td_buf_addc(&piece, '\n');
        if (*td_part_str(next, "command"))
            td_markdown_block(td_part_str(next, "command"), 2000, "  ", &piece);
    }
    if (n)
        td_buf_addc(&piece, '\n');
    td_markdown_add_piece(p, &piece, TD_MARKDOWN_ROOM);
    td_buf_release(&piece);
}

/* ---- the document --------------------------------------------------------------------------- */

/* One comparison. */
static void add_report(const struct td_markdown_page *p, const cJSON *report)
{
    struct td_buf piece = TD_BUF_INIT(TD_MARKDOWN_MAX);

    add_title(p, report);
    add_cause(p, report);
    add_lanes(p, report);
    add_blame(p, report);
    add_list(p, "Absent", td_json_get(report, "absent"), "text");
    add_accepted(p, report);
    add_list(p, "Not checked", td_json_get(report, "not_checked"), NULL);
    add_next(p, report);
    td_markdown_code(td_part_str(report, "line"), 1000, &piece);
    td_buf_addc(&piece, '\n');
    td_markdown_add_piece(p, &piece, TD_MARKDOWN_ROOM);
    td_markdown_add_tables(p, report);
    td_buf_release(&piece);
}

/* A table of all comparisons; it takes half of the page at most. */
static void add_overview(const cJSON *report, struct td_buf *out)
{
    const struct td_markdown_page p = {out, TD_MARKDOWN_MAX / 2};
    struct td_buf row = TD_BUF_INIT(TD_MARKDOWN_MAX);
    size_t i, left_out = 0;
    const cJSON *part;

    td_buf_adds(&row, "### ");
    td_markdown_text(td_part_str(report, "headline"), TD_MARKDOWN_LINE_MAX, &row);
    td_buf_adds(&row, "\n\n");
    td_markdown_code(td_part_str(report, "line"), 1000, &row);
    td_buf_adds(&row, "\n\n| fixture | verdict | |\n|---|---|---|\n");
    td_markdown_add_piece(&p, &row, TD_MARKDOWN_ROOM);
    for (i = 0; (part = td_report_part(report, i)); i++) {
        td_markdown_code_cell(td_report_name(part), &row);
        td_buf_adds(&row, "| **");
        td_markdown_text(td_part_str(part, "headline"), TD_MARKDOWN_LINE_MAX, &row);
        td_buf_adds(&row, "** ");
        td_markdown_code_cell(*td_part_str(part, "cause") ? td_part_str(part, "cause")
                                                          : td_part_str(part, "line"),
                              &row);
        td_buf_adds(&row, "|\n");
        if (left_out || !td_markdown_add_piece(&p, &row, TD_MARKDOWN_ROOM))
            left_out++;
        td_buf_clear(&row);
    }
    if (left_out)
        td_buf_addf(out, "\n%zu more fixtures are in the JSON report.\n", left_out);
    td_buf_release(&row);
}

/* Each comparison in a fold, the gravest first, as long as there is room. */
static void add_folded(const cJSON *report, size_t left, struct td_buf *out)
{
    const cJSON *part;
    size_t i;

    for (i = 0; (part = td_report_part(report, i)); i++) {
        struct td_markdown_page p = {out, 0};
        const size_t room = out->len + TD_MARKDOWN_ROOM < TD_MARKDOWN_MAX
                                ? TD_MARKDOWN_MAX - TD_MARKDOWN_ROOM - out->len
                                : 0;
        size_t share;

        share = room / left--;
        share = share < PART_MIN ? PART_MIN : share;
        if (room < share)
            continue;
        td_buf_adds(out, "\n<details><summary>");
        td_markdown_html(td_part_str(part, "headline"), 40, out);
        td_buf_adds(out, ": ");
        td_markdown_html(td_report_name(part), 60, out);
        td_buf_adds(out, "</summary>\n\n");
        p.limit = out->len + share - SUMMARY_MAX;
        add_report(&p, part);
        td_buf_adds(out, "\n</details>\n");
    }
}

int td_report_markdown(const cJSON *report, struct td_buf *out, struct td_error *err)
{
    const struct td_markdown_page p = {out, TD_MARKDOWN_MAX};
    size_t n = (size_t)cJSON_GetArraySize(td_json_get(report, "reports"));

    if (n == 0) {
        add_report(&p, report);
    } else {
        add_overview(report, out);
        add_folded(report, n, out);
    }
    return out->failed ? td_fail(err, TD_ELIMIT, "the report as Markdown is too large") : TD_OK;
}
