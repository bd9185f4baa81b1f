/* report.c - make, join and read reports; their verdicts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hidden.h"
#include "common/out_of_memory.h"
#include "report/report_names.h"

/* In rising order of gravity. */
static const struct { const char *verdict, *headline; int code; } VERDICTS[] = {
    {"pass", "PASS", TD_EXIT_OK},
    {"inconclusive", "INCONCLUSIVE", TD_EXIT_INCONCLUSIVE},
    {"regressed", "SLOWER", TD_EXIT_REGRESSED},
    {"regressed", "WRONG", TD_EXIT_REGRESSED},
    {"broken", "BROKEN", TD_EXIT_BROKEN},
    {"usage", "USAGE", TD_EXIT_USAGE},
};
#define N_VERDICTS ((int)(sizeof VERDICTS / sizeof VERDICTS[0]))
#define GRAVEST (N_VERDICTS - 1)
#define USAGE GRAVEST
#define BROKEN (USAGE - 1)

/* The place of a report's verdict in VERDICTS. One that is not known counts as broken. */
int td_report_gravity(const cJSON *report)
{
    const char *verdict = td_json_get_str(report, "verdict", ""),
               *headline = td_json_get_str(report, "headline", "");
    int i = GRAVEST;

    while (i > 0 && strcmp(VERDICTS[i].verdict, verdict) != 0)
        i--;
    if (strcmp(VERDICTS[i].verdict, verdict) != 0)
        return BROKEN;
    return i > 0 && !strcmp(VERDICTS[i - 1].headline, headline) ? i - 1 : i;
}

const char *td_report_headline(const char *verdict, bool speed_alone)
{
    int i = GRAVEST;

    while (i > 0 && strcmp(VERDICTS[i].verdict, verdict) != 0)
        i--;
    if (!strcmp(VERDICTS[i].headline, "WRONG") && speed_alone)
        i--;
    return VERDICTS[i].headline;
}

bool td_report_is_joined(const cJSON *report)
{
    return !strcmp(td_json_get_str(report, "schema", ""), TD_REPORTS_SCHEMA);
}

int td_report_exit(const cJSON *report)
{
    return (int)td_json_get_i64(report, "exit", TD_EXIT_BROKEN);
}

const char *td_report_verdict(const cJSON *report)
{
    return VERDICTS[td_report_gravity(report)].verdict;
}

/* Parse what was written with td_jw, so that a report made here reads like one from a file. */
static cJSON *parse_written(struct td_buf *text)
{
    struct td_error err = {0, ""};
    cJSON *report = text->failed ? NULL : td_json_parse(text->data, text->len, &err);

    td_buf_release(text);
    return report;
}

static void write_head(struct td_jw *w, const char *schema, const char *tool, int gravity, int code)
{
    td_jw_cstr(w, "schema", schema);
    td_jw_cstr(w, "tool", tool);
    td_jw_cstr(w, "verdict", VERDICTS[gravity].verdict);
    td_jw_i64(w, "exit", code);
    td_jw_cstr(w, "headline", VERDICTS[gravity].headline);
}

/* ---- a report without a comparison ----------------------------------------------------------- */

/* The members of a comparison that are empty here, so that no reader needs a special case. */
static void write_nothing_compared(struct td_jw *w)
{
    static const char *const LISTS[] = {"fixtures", "absent", "not_checked", "next", "accepted"};
    size_t i;

    td_jw_null(w, "names");
    td_jw_null(w, "answers");
    td_jw_null(w, "ops_equal");
    td_jw_null(w, "op_plan");
    td_jw_null(w, "speed_change");
    td_jw_obj(w, "lanes");
    td_jw_end(w);
    for (i = 0; i < sizeof LISTS / sizeof LISTS[0]; i++) {
        td_jw_arr(w, LISTS[i]);
        td_jw_end(w);
    }
}

cJSON *td_report_broken(const char *tool, int code, const char *cause, ...)
{
    struct td_buf text = TD_BUF_INIT(1 << 20), line = TD_BUF_INIT(1 << 16);
    const int gravity = code == TD_EXIT_USAGE ? USAGE : BROKEN;
    char sentence[2048];
    struct td_jw w;
    cJSON *report;
    va_list ap;

    va_start(ap, cause);
    vsnprintf(sentence, sizeof sentence, cause, ap);
    va_end(ap);
    td_buf_addf(&line, "verdict: %s cause=\"%s\"", VERDICTS[gravity].verdict, sentence);
    td_jw_init(&w, &text, false);
    td_jw_obj(&w, NULL);
    write_head(&w, TD_REPORT_SCHEMA, tool, gravity, code);
    td_jw_cstr(&w, "cause", sentence);
    td_jw_str(&w, "line", td_buf_str(&line), line.len);
    write_nothing_compared(&w);
    td_jw_end(&w);
    td_buf_release(&line);
    report = parse_written(&text);
    td_report_stamp(report, td_clock_mono_ns());
    return report;
}

/* ---- several reports ------------------------------------------------------------------------- */

/* "verdict: regressed fixtures=3 regressed=1 pass=2 accepted=1": the gravest verdicts first, then in
 * how many fixtures something was accepted. */
static void write_joined_line(struct td_jw *w, int gravest, const int count[], int accepted)
{
    struct td_buf line = TD_BUF_INIT(4096);
    size_t n = 0;
    int i, same;

    for (i = 0; i < N_VERDICTS; i++)
        n += (size_t)count[i];
    td_buf_addf(&line, "verdict: %s fixtures=%zu", VERDICTS[gravest].verdict, n);
    for (i = GRAVEST; i >= 0; i--) {
        same = i > 0 && !strcmp(VERDICTS[i].verdict, VERDICTS[i - 1].verdict); /* two headlines */
        if (count[i] + (same ? count[i - 1] : 0))
            td_buf_addf(&line, " %s=%d", VERDICTS[i].verdict, count[i] + (same ? count[i - 1] : 0));
        i -= same;
    }
    if (accepted)
        td_buf_addf(&line, " accepted=%d", accepted);
    td_jw_str(w, "line", td_buf_str(&line), line.len);
    td_buf_release(&line);
}

cJSON *td_report_join(cJSON *const *reports, size_t n)
{
    struct td_buf text = TD_BUF_INIT(1 << 20);
    int gravest = n ? 0 : BROKEN, count[N_VERDICTS] = {0}, accepted = 0;
    cJSON *joined, *list;
    struct td_jw w;
    size_t i;

    for (i = 0; i < n; i++) {
        const int g = td_report_gravity(reports[i]);

        accepted += strstr(td_json_get_str(reports[i], "line", ""), " accepted=") != NULL;
        gravest = g > gravest ? g : gravest;
        count[g]++;
    }
    td_jw_init(&w, &text, false);
    td_jw_obj(&w, NULL);
    write_head(&w, TD_REPORTS_SCHEMA, n ? td_json_get_str(reports[0], "tool", "tapedeck") : "tapedeck",
               gravest, VERDICTS[gravest].code);
    write_joined_line(&w, gravest, count, accepted);
    td_jw_end(&w);
    joined = parse_written(&text);
    list = joined ? cJSON_AddArrayToObject(joined, "reports") : NULL;
    for (i = 0; i < n && list; i++)
        cJSON_AddItemToArray(list, cJSON_Duplicate(reports[i], true));
    if (joined && (!list || cJSON_GetArraySize(list) != (int)n ||
                   td_report_names_set(list, NULL))) {
        cJSON_Delete(joined);
        return NULL;
    }
    return joined;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Set a member; the old one of this name is freed. */
static void set_member(cJSON *report, const char *key, cJSON *value)
{
    if (cJSON_HasObjectItem(report, key))
        cJSON_ReplaceItemInObjectCaseSensitive(report, key, value);
    else
        cJSON_AddItemToObject(report, key, value);
}

void td_report_stamp(cJSON *report, int64_t began_ns)
{
    const int64_t took_ns = td_clock_mono_ns() - began_ns;
    char started[24];

    if (!report)
        return;
    td_clock_iso(td_clock_wall_ns() - took_ns, started, sizeof started);
    set_member(report, "started", cJSON_CreateString(started));
    set_member(report, "seconds", cJSON_CreateNumber((double)(took_ns / TD_NS_PER_MS) / 1000));
}

/* ---- reading --------------------------------------------------------------------------------- */

cJSON *td_report_load(const char *path, struct td_error *err)
{
    cJSON *report = td_json_load(path, TD_REPORT_MAX, err);
    const char *schema = td_json_get_str(report, "schema", "");

    if (report && strcmp(schema, TD_REPORT_SCHEMA) != 0 && strcmp(schema, TD_REPORTS_SCHEMA) != 0) {
        td_fail(err, TD_EVERSION, "%s: no report of this version (schema \"%.40s\")", path, schema);
        cJSON_Delete(report);
        return NULL;
    }
    return report;
}

/* Without memory for it a text is overwritten entirely, its verdict too: nobody may believe the rest. */
static void hide_text(char *text)
{
    const size_t n = strlen(text);
    char *shown = td_hidden_copy(text, n);

    if (shown)
        memcpy(text, shown, n);
    else
        memset(text, '*', n), td_out_of_memory_note();
    free(shown);
}

void td_report_hide(cJSON *report)
{
    cJSON *item;

    if (!report || !td_hidden_is_set())
        return;
    if (cJSON_IsString(report))
        hide_text(report->valuestring);
    cJSON_ArrayForEach(item, report)
        td_report_hide(item);
}
