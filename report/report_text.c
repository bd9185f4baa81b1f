/* report_text.c - the report for a person: what a screen shows, at most 25 lines of 100 columns.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pass has six lines. What is left out here is shown with --verbose (report_details.c) and stands
 * in the JSON. docs/reading-a-report.md explains every word. */
#include <stdio.h>
#include <string.h>

#include "common/out_of_memory.h"
#include "report/parts.h"
#include "report/report.h"
#include "report/report_details.h"
#include "report/report_screen.h"
#include "report/text.h"
#include "report/text_table.h"

#define PASS_LINES 6
#define TABLE_LINES 3 /* of the fixtures of a failure, at least wanted */

static bool has_compared(const cJSON *report)
{
    return td_report_is_joined(report) || cJSON_IsObject(td_json_get(report, "names"));
}

/* All that is said of a run that compared nothing: its cause stands nowhere else, and is whole. */
static void add_cause_line(struct td_buf *out, const cJSON *report)
{
    td_text_clip(out, td_json_get_str(report, "line", "verdict: broken"), (int)TD_TEXT_MAX);
    td_text_end_line(out);
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void add_one(struct td_buf *out, const cJSON *report, bool verbose)
{
    const bool pass = !strcmp(td_report_verdict(report), "pass");
    struct td_buf apart = TD_BUF_INIT(1 << 16);

    td_screen_add_head(out, report);
    td_screen_add_absent(&apart, report);
    td_screen_add_accepted(&apart, report);
    if (pass) {
        const cJSON *tokens = td_json_get(td_json_get(report, "lanes"), "tokens");

        if (td_screen_count_lines(&apart) < 2 &&
            td_json_get_i64(td_json_get(report, "answers"), "equal", 0) !=
                td_json_get_i64(td_json_get(report, "answers"), "compared", 0))
            td_text_wrap(out, "", TD_SCREEN_INDENT, td_part_str(tokens, "headline"), 1);
    } else {
        td_buf_addc(out, '\n');
        td_screen_add_why(out, report);
        td_screen_add_which(out, report);
        td_screen_add_first(out, report);
        td_screen_add_text(out, report);
    }
    td_buf_add(out, td_buf_str(&apart), apart.len);
    td_buf_release(&apart);
    td_screen_add_not_checked(
        out, report, (pass ? PASS_LINES : TD_SCREEN_LINES - TD_SCREEN_NEXT_LINES) - 1);
    if (!pass)
        td_screen_add_next(out, report, TD_SCREEN_NEXT_LINES);
    if (verbose)
        td_report_add_details(out, report);
    td_report_add_terms(out, report);
    td_screen_add_verdict_line(out, report);
}

/* ---- several --------------------------------------------------------------------------------- */

/* The table of verdicts, the gravest first, in at most max_lines. */
static void add_fixtures(struct td_buf *out, const cJSON *report, int max_lines)
{
    const int n = cJSON_GetArraySize(td_json_get(report, "reports")),
              shown = n <= max_lines ? n : max_lines - 1;
    struct td_table t;
    int i;

    td_table_init(&t, "lll", TD_SCREEN_INDENT);
    for (i = 0; i < shown; i++) {
        const cJSON *r = td_report_part(report, (size_t)i);
        const char *line = td_part_str(r, "line"), *behind = strchr(line, ' ');

        behind = behind ? strchr(behind + 1, ' ') : NULL;
        td_table_add(&t, "%s", td_json_get_str(r, "headline", "BROKEN"));
        td_table_add(&t, "%s", td_report_name(r));
        td_table_add(&t, "%s", behind ? behind + 1 : "");
    }
    td_table_write(&t, out);
    td_table_release(&t);
    if (n > shown)
        td_buf_addf(out, "%*s%s%d%s; --verbose shows each report\n", TD_SCREEN_INDENT, "",
                    shown ? "and " : "", n - shown, shown ? " more" : " in all");
}

/* What is said of one fixture of several: the first of the gravest. */
static void add_gravest(struct td_buf *out, const cJSON *report)
{
    struct td_buf words = TD_BUF_INIT(1 << 16);

    td_buf_addf(&words, "the first of the gravest is %s", td_report_name(report));
    td_text_wrap(out, "", TD_SCREEN_INDENT, td_buf_str(&words), 1);
    td_screen_add_why(out, report);
    td_screen_add_which(out, report);
    td_screen_add_first(out, report);
    td_buf_release(&words);
}

/* Below the table: the first of the gravest, and of all what is absent, was accepted, was not checked.
 * NEXT gets the lines that are left beside a table of TABLE_LINES, at least one. */
static void add_below(struct td_buf *out, const cJSON *report, bool pass, bool verbose)
{
    const cJSON *first = td_report_part(report, 0);
    int left;

    if (!pass && !verbose)
        add_gravest(out, first);
    td_screen_add_absent(out, report);
    td_screen_add_accepted(out, report);
    td_screen_add_not_checked(out, report, 0);
    left = TD_SCREEN_LINES - 2 - TABLE_LINES - td_screen_count_lines(out);
    if (!pass && !verbose)
        td_screen_add_next(out, first,
                           left > TD_SCREEN_NEXT_LINES ? TD_SCREEN_NEXT_LINES : left < 1 ? 1 : left);
}

static void add_several(struct td_buf *out, const cJSON *report, bool verbose)
{
    const bool pass = !strcmp(td_report_verdict(report), "pass");
    struct td_buf below = TD_BUF_INIT(TD_TEXT_MAX);
    const cJSON *r;
    size_t i;

    for (i = 0; verbose && (r = td_report_part(report, i)); i++) {
        add_one(out, r, true);
        td_buf_addc(out, '\n');
    }
    add_below(&below, report, pass, verbose);
    td_buf_addf(out, "%s  %d fixtures\n", td_json_get_str(report, "headline", "BROKEN"),
                cJSON_GetArraySize(td_json_get(report, "reports")));
    add_fixtures(out, report,
                 (pass ? PASS_LINES : TD_SCREEN_LINES) - 2 - td_screen_count_lines(&below));
    td_buf_add(out, td_buf_str(&below), below.len);
    td_screen_add_verdict_line(out, report);
    td_buf_release(&below);
}

/* ---- colours --------------------------------------------------------------------------------- */

static const char *colour_of(const char *verdict)
{
    return !strcmp(verdict, "pass") ? "\033[32m" : !strcmp(verdict, "inconclusive") ? "\033[33m" : "\033[31m";
}

/* Print the lines; the headline, the verdict line and the marks of lanes are coloured. */
static void print_lines(const struct td_buf *text, FILE *out, const cJSON *report, bool colour)
{
    const char *line = td_buf_str(text), *end, *own = colour_of(td_report_verdict(report));

    for (; *line; line = end + (*end == '\n')) {
        const int len = (int)((end = strchrnul(line, '\n')) - line);
        const int word = (int)strcspn(line, " \n");
        const bool mark = len > TD_SCREEN_INDENT && (line[TD_SCREEN_INDENT] == 'x' || line[TD_SCREEN_INDENT] == '?') &&
                          line[TD_SCREEN_INDENT + 1] == ' ' && line[TD_SCREEN_INDENT - 1] == ' ';

        if (!colour)
            fprintf(out, "%.*s\n", len, line);
        else if (!strncmp(line, "verdict: ", 9))
            fprintf(out, "%s%.*s\033[0m\n", own, len, line);
        else if (mark)
            fprintf(out, "%.*s%s%c\033[0m%.*s\n", TD_SCREEN_INDENT, line,
                    line[TD_SCREEN_INDENT] == 'x' ? "\033[31m" : "\033[33m", line[TD_SCREEN_INDENT], len - TD_SCREEN_INDENT - 1,
                    line + TD_SCREEN_INDENT + 1);
        else if (word > 3 && line == td_buf_str(text))
            fprintf(out, "%s%.*s\033[0m%.*s\n", own, word, line, len - word, line + word);
        else
            fprintf(out, "%.*s\n", len, line);
    }
}

int td_report_print(const cJSON *report, FILE *out, const struct td_report_outputs *o)
{
    const unsigned failed_before = td_out_of_memory_count(); /* of a part of the text, too */
    struct td_buf text = TD_BUF_INIT(TD_TEXT_MAX);

    if (!has_compared(report))
        add_cause_line(&text, report);
    else if (o->quiet)
        td_screen_add_verdict_line(&text, report);
    else if (td_report_is_joined(report))
        add_several(&text, report, o->verbose);
    else
        add_one(&text, report, o->verbose);
    const int rc = text.failed || td_out_of_memory_count() != failed_before ? TD_ENOMEM : TD_OK;

    if (rc)
        fputs("verdict: broken cause=\"out of memory\"\n", out);
    else
        print_lines(&text, out, report, o->colour);
    td_buf_release(&text);
    return rc;
}
