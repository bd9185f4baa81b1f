/* report_screen.c - the parts of the first screen of a report, in their order: verdict, WHY, WHICH,
 * FIRST, TEXT, what was not checked, NEXT, verdict line.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/report_screen.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/blame_words.h"
#include "report/parts.h"
#include "report/text.h"
#include "report/text_table.h"

#define LANE_INDENT 19    /* columns before the text of a lane in WHY */
#define TEXT_INDENT 12    /* ... of an answer in TEXT */
#define WHY_LINES 6
#define LANE_LINES 2
#define WHICH_ROWS 3
#define MOST_ABOVE_TEXT (TD_SCREEN_LINES - TD_SCREEN_NEXT_LINES - 5) /* TEXT, what was not checked,
                                                                         the verdict */

static const char *const LANES[] = {"tokens", "collapse", "scores", "ops", "speed"};
#define N_LANES ((int)(sizeof LANES / sizeof LANES[0]))

static bool is_asked(const cJSON *lane)
{
    return td_json_get_bool(lane, "asked", false);
}

/* ---- verdict --------------------------------------------------------------------------------- */

void td_screen_add_head(struct td_buf *out, const cJSON *report)
{
    const cJSON *names = td_json_get(report, "names");
    struct td_buf words = TD_BUF_INIT(1 << 16);
    const long long gemms = td_json_get_i64(names, "gemms", 0),
                    answers = td_json_get_i64(names, "answers", 0);
    char head[32];

    if (cJSON_IsObject(names)) {
        td_buf_addf(&words, "%s%s%s", td_report_name(report),
                    *td_part_str(names, "new") ? " -> " : "", td_part_str(names, "new"));
        if (*td_part_str(names, "model"))
            td_buf_addf(&words, "   %s", td_part_str(names, "model"));
        if (gemms)
            td_buf_addf(&words, "   %lld ops", gemms);
        if (answers)
            td_buf_addf(&words, "%s%lld answers", gemms ? ", " : "   ", answers);
    }
    if (!words.len)
        td_buf_adds(&words, td_part_str(report, "name"));
    snprintf(head, sizeof head, "%s  ", td_json_get_str(report, "headline", "BROKEN"));
    td_text_wrap(out, head, (int)strlen(head), td_buf_str(&words), 1);
    words.len = 0;
    td_part_add_facts(report, &words);
    if (words.len)
        td_text_wrap(out, "", TD_SCREEN_INDENT, td_buf_str(&words), 1);
    words.len = 0;
    td_part_add_plan(report, &words);
    if (words.len)
        td_text_wrap(out, "", TD_SCREEN_INDENT, td_buf_str(&words), 1);
    td_buf_release(&words);
}

/* ---- why ------------------------------------------------------------------------------------- */

/* x: regressed or broken; ?: cannot be decided. */
static char mark_of(const cJSON *lane)
{
    const char *verdict = td_part_str(lane, "verdict");

    return !strcmp(verdict, "regressed") || !strcmp(verdict, "broken") ? 'x'
           : !strcmp(verdict, "inconclusive")                          ? '?'
                                                                       : ' ';
}

/* Append the names of the lanes that passed, on one line. */
static int add_passed(struct td_buf *out, const cJSON *report, const char *head)
{
    struct td_buf names = TD_BUF_INIT(4096);
    int i, lines = 0;

    for (i = 0; i < N_LANES; i++) {
        const cJSON *lane = td_json_get(td_json_get(report, "lanes"), LANES[i]);

        if (is_asked(lane) && !strcmp(td_part_str(lane, "verdict"), "pass"))
            td_buf_addf(&names, "%s%s", names.len ? ", " : "", LANES[i]);
    }
    if (names.len)
        lines = td_text_wrap(out, *head ? head : "       ok passed", LANE_INDENT, td_buf_str(&names), 1);
    td_buf_release(&names);
    return lines;
}

/* How many lanes have this mark, from lane `first` on? */
static int count_lanes(const cJSON *report, char mark, int first)
{
    int i, n = 0;

    for (i = first; i < N_LANES; i++) {
        const cJSON *lane = td_json_get(td_json_get(report, "lanes"), LANES[i]);

        n += is_asked(lane) && mark_of(lane) == mark;
    }
    return n;
}

/* A line or two for each lane of this mark. The second line is left out where a later lane would
 * lose its first one. */
static void add_lanes(struct td_buf *out, const cJSON *report, char mark, int *lines)
{
    char head[64];
    int i;

    for (i = 0; i < N_LANES; i++) {
        const cJSON *lane = td_json_get(td_json_get(report, "lanes"), LANES[i]);
        const int later = count_lanes(report, mark, i + 1) +
                          (mark == 'x' ? count_lanes(report, '?', 0) : 0),
                  left = WHY_LINES - *lines - later;

        if (!is_asked(lane) || mark_of(lane) != mark)
            continue;
        snprintf(head, sizeof head, "%-7s%c %s", *lines ? "" : "WHY", mark, LANES[i]);
        *lines += td_text_wrap(out, head, LANE_INDENT, td_part_str(lane, "headline"),
                               left < LANE_LINES ? left : LANE_LINES);
    }
}

void td_screen_add_why(struct td_buf *out, const cJSON *report)
{
    int lines = 0;

    if (*td_part_str(report, "cause"))
        lines += td_text_wrap(out, "WHY", TD_SCREEN_INDENT, td_part_str(report, "cause"), 4);
    else
        add_lanes(out, report, 'x', &lines);
    add_lanes(out, report, '?', &lines);
    if (lines && lines < WHY_LINES)
        add_passed(out, report, "");
}

/* ---- which ----------------------------------------------------------------------------------- */

static void add_rule(struct td_buf *out, const cJSON *report)
{
    struct td_buf words = TD_BUF_INIT(1 << 16);

    td_blame_add_rule(report, &words);
    td_text_wrap(out, "WHICH", TD_SCREEN_INDENT, td_buf_str(&words), 2);
    td_buf_release(&words);
}

static void add_rows(struct td_buf *out, const cJSON *rows)
{
    struct td_table t;
    const cJSON *row;
    int shown = 0, column;

    if (!cJSON_GetArraySize(rows))
        return;
    td_table_init(&t, "llrrrrll", TD_SCREEN_INDENT);
    for (column = 0; column < TD_BLAME_COLUMNS; column++)
        td_table_add(&t, "%s", td_blame_column(column));
    cJSON_ArrayForEach(row, rows) {
        if (shown++ == WHICH_ROWS)
            break;
        for (column = 0; column < TD_BLAME_COLUMNS; column++) {
            struct td_buf cell = TD_BUF_INIT(4096);

            td_blame_add_cell(row, column, &cell);
            td_table_add(&t, "%s", td_buf_str(&cell));
            td_buf_release(&cell);
        }
    }
    td_table_write(&t, out);
    td_table_release(&t);
}

void td_screen_add_which(struct td_buf *out, const cJSON *report)
{
    const cJSON *blame = td_json_get(report, "blame");
    struct td_buf words = TD_BUF_INIT(4096);
    int rows;

    if (!cJSON_IsObject(blame))
        return;
    add_rule(out, report);
    add_rows(out, td_json_get(blame, "rows"));
    rows = cJSON_GetArraySize(td_json_get(blame, "rows"));
    if (*td_part_str(blame, "matrix"))
        td_buf_addf(&words, "worst places: %s", td_part_str(blame, "matrix"));
    if (rows > WHICH_ROWS)
        td_buf_addf(&words, "%s%d of %d shapes are shown", words.len ? "; " : "", WHICH_ROWS, rows);
    if (words.len)
        td_text_wrap(out, "", TD_SCREEN_INDENT, td_buf_str(&words), 1);
    td_buf_release(&words);
}

/* ---- first ----------------------------------------------------------------------------------- */

void td_screen_add_first(struct td_buf *out, const cJSON *report)
{
    struct td_buf words = TD_BUF_INIT(1 << 16);

    td_blame_add_first(td_json_get(report, "blame"), &words);
    if (words.len)
        td_text_wrap(out, "FIRST", TD_SCREEN_INDENT, td_buf_str(&words), 2);
    td_buf_release(&words);
}

/* ---- text ------------------------------------------------------------------------------------ */

int td_screen_count_lines(const struct td_buf *text)
{
    int n = 0;
    size_t i;

    for (i = 0; i < text->len; i++)
        n += text->data[i] == '\n';
    return n;
}

/* The first entry of a lane's list, unless the lane passed or was not asked for; else NULL. */
static const cJSON *first_finding(const cJSON *report, const char *lane, const char *list)
{
    const cJSON *l = td_json_get(td_json_get(report, "lanes"), lane);

    return is_asked(l) && mark_of(l) != ' '
               ? cJSON_GetArrayItem(td_json_get(td_json_get(report, lane), list), 0)
               : NULL;
}

void td_screen_add_text(struct td_buf *out, const cJSON *report)
{
    const cJSON *answer = first_finding(report, "collapse", "collapsed");

    if (!answer)
        answer = first_finding(report, "tokens", "forks");
    if (!answer)
        answer = first_finding(report, "tokens", "unlike");
    if (!*td_part_str(answer, "new") ||
        !strcmp(td_part_str(answer, "new"), td_part_str(answer, "old")) ||
        td_screen_count_lines(out) > MOST_ABOVE_TEXT)
        return;
    if (*td_part_str(answer, "old"))
        td_text_wrap(out, "TEXT   old", TEXT_INDENT, td_part_str(answer, "old"), 1);
    td_text_wrap(out, *td_part_str(answer, "old") ? "       new" : "TEXT   new", TEXT_INDENT,
                 td_part_str(answer, "new"), 1);
}

/* ---- what comes last ------------------------------------------------------------------------- */

/* Is the text an item of this list? */
static bool is_item(const cJSON *list, const char *text)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, list)
        if (cJSON_IsString(item) && !strcmp(item->valuestring, text))
            return true;
    return false;
}

/* In how many of the reports does no lane look at this? */
static int count_not_checked(const cJSON *reports, const char *text)
{
    const cJSON *r;
    int n = 0;

    cJSON_ArrayForEach(r, reports)
        n += is_item(td_json_get(r, "not_checked"), text);
    return n;
}

/* What was not checked in one report. Of several (reports) first what is so in all of them, then, with
 * the name of its fixture, the rest. */
static void add_not_checked_words(struct td_buf *words, const cJSON *report, const cJSON *reports,
                                  bool common)
{
    const int all = cJSON_GetArraySize(reports);
    const cJSON *item;
    bool named = false;

    cJSON_ArrayForEach(item, td_json_get(report, "not_checked")) {
        if (!cJSON_IsString(item) ||
            (reports && (count_not_checked(reports, item->valuestring) == all) != common))
            continue;
        td_buf_addf(words, "%s", words->len ? "; " : "");
        if (reports && !common && !named)
            td_buf_addf(words, "%s: ", td_report_name(report));
        named = true;
        td_buf_adds(words, item->valuestring);
    }
}

/* A second line where there is room: max is the number of lines that may stand above NEXT. */
void td_screen_add_not_checked(struct td_buf *out, const cJSON *report, int max)
{
    const cJSON *reports = td_json_get(report, "reports"), *r; /* NULL: it is one report */
    struct td_buf words = TD_BUF_INIT(1 << 16);

    if (!reports)
        add_not_checked_words(&words, report, NULL, true);
    else
        add_not_checked_words(&words, cJSON_GetArrayItem(reports, 0), reports, true);
    cJSON_ArrayForEach(r, reports)
        add_not_checked_words(&words, r, reports, false);
    if (words.len)
        td_text_wrap(out, "NOT CHECKED  ", 13, td_buf_str(&words),
                     td_screen_count_lines(out) + 2 <= max ? 2 : 1);
    td_buf_release(&words);
}

/* "until 2027-01-31, ann: zeros are fine"; one that is not applied has its state in front. The date
 * comes first: a long reason is cut. */
static void add_one_accepted(struct td_buf *words, const cJSON *a)
{
    const char *state = td_part_str(a, "state");
    const bool applied = !*state || !strcmp(state, "applied");
    struct td_buf one = TD_BUF_INIT(1 << 14);

    td_buf_addf(&one, "%s%suntil %s, %s: %s", applied ? "" : state, applied ? "" : ": ",
                td_json_get_str(a, "until", "?"), td_json_get_str(a, "who", "?"),
                td_part_str(a, "reason"));
    if (!words->len || !strstr(td_buf_str(words), td_buf_str(&one))) /* of several fixtures once */
        td_buf_addf(words, "%s%s", words->len ? "; " : "", td_buf_str(&one));
    td_buf_release(&one);
}

/* What was accepted by name, and until when; of several reports that of all. */
void td_screen_add_accepted(struct td_buf *out, const cJSON *report)
{
    struct td_buf words = TD_BUF_INIT(1 << 16);
    const cJSON *a, *r;

    cJSON_ArrayForEach(a, td_json_get(report, "accepted"))
        add_one_accepted(&words, a);
    cJSON_ArrayForEach(r, td_json_get(report, "reports"))
        cJSON_ArrayForEach(a, td_json_get(r, "accepted"))
            add_one_accepted(&words, a);
    if (words.len)
        td_text_wrap(out, "ACCEPTED  ", 10, td_buf_str(&words), 1);
    td_buf_release(&words);
}

/* The fixtures that do not hold all that was planned: "old: incomplete, new: interrupted". */
static void add_states(struct td_buf *words, const cJSON *report)
{
    const cJSON *f;

    cJSON_ArrayForEach(f, td_json_get(report, "fixtures")) {
        const char *state = td_json_get_str(f, "state", "complete"),
                   *role = td_part_str(f, "role");

        if (strcmp(state, "complete"))
            td_buf_addf(words, "%s%s: %.*s", words->len ? ", " : "",
                        !strcmp(role, "baseline")    ? "old"
                        : !strcmp(role, "candidate") ? "new"
                                                     : role,
                        (int)strcspn(state, ":"), state);
    }
}

/* What is absent in one report, behind the name of its fixture where there are several. */
static void add_absent_words(struct td_buf *words, const cJSON *report, const char *name)
{
    struct td_buf own = TD_BUF_INIT(1 << 16);
    const cJSON *a;

    add_states(&own, report);
    cJSON_ArrayForEach(a, td_json_get(report, "absent"))
        if (*td_part_str(a, "text"))
            td_buf_addf(&own, "%s%s", own.len ? "; " : "", td_part_str(a, "text"));
    if (own.len)
        td_buf_addf(words, "%s%s%s%s", words->len ? "; " : "", name, *name ? ": " : "",
                    td_buf_str(&own));
    td_buf_release(&own);
}

void td_screen_add_absent(struct td_buf *out, const cJSON *report)
{
    struct td_buf words = TD_BUF_INIT(1 << 16);
    const cJSON *r;

    add_absent_words(&words, report, "");
    cJSON_ArrayForEach(r, td_json_get(report, "reports"))
        add_absent_words(&words, r, td_report_name(r));
    if (words.len)
        td_text_wrap(out, "ABSENT  ", 8, td_buf_str(&words), 1);
    td_buf_release(&words);
}

/* One step in `lines` lines: its command, or its words where it has none or the command is too
 * long. Returns how many lines; 0: it does not fit. */
static int add_step(struct td_buf *out, const char *head, const cJSON *step, int lines)
{
    struct td_buf part = TD_BUF_INIT(1 << 16);
    const char *command = td_part_str(step, "command");
    int n = *command ? td_text_command(&part, head, TD_SCREEN_INDENT, command) : lines + 1;

    if (n > lines && *td_part_str(step, "text")) {
        td_buf_clear(&part);
        n = td_text_wrap(&part, head, TD_SCREEN_INDENT, td_part_str(step, "text"),
                         TD_SCREEN_NEXT_LINES);
    }
    if (n <= lines)
        td_buf_add(out, td_buf_str(&part), part.len);
    td_buf_release(&part);
    return n <= lines ? n : 0;
}

void td_screen_add_next(struct td_buf *out, const cJSON *report, int max)
{
    const cJSON *step;
    int lines = 0;

    cJSON_ArrayForEach(step, td_json_get(report, "next"))
        if (lines < max)
            lines += add_step(out, lines ? "" : "NEXT", step, max - lines);
}

/* What does not fit is left out, from the last figure that fits on. */
void td_screen_add_verdict_line(struct td_buf *out, const cJSON *report)
{
    td_text_wrap(out, "", 0, td_json_get_str(report, "line", "verdict: broken"), 1);
}

