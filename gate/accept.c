/* accept.c - findings that somebody has accepted: leave them out of a verdict, and say so.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/accept.h"

#include <stdio.h>
#include <string.h>

#include "gate/accept_file.h"
#include "gate/biases.h"
#include "gate/findings.h"
#include "gate/ops_accepted.h"
#include "gate/places.h"
#include "report/report.h"

static bool is(const cJSON *obj, const char *key, const char *text)
{
    return strcmp(td_json_get_str(obj, key, ""), text) == 0;
}

static bool passes(const char *verdict)
{
    return !strcmp(verdict, "pass") || !strcmp(verdict, "note") || !strcmp(verdict, "not judged");
}

/* The fixture of a report: the id of its baseline; "" when it was never opened. */
static const char *fixture_of(const cJSON *report)
{
    return td_json_get_str(cJSON_GetArrayItem(td_json_get(report, "fixtures"), 0), "id", "");
}

/* ---- does an entry excuse a lane? ------------------------------------------------------------ */

/* Its figures are the baseline's: no more of the candidate is excused where they are others. */
static bool is_of_baseline(const char *text)
{
    static const char BEGIN[] = "the baseline build itself is bad on ";

    return strncmp(text, BEGIN, sizeof BEGIN - 1) == 0;
}

/* A sentence that regressed may have other numbers than the accepted one, for the findings have
 * their own limits, and so may one about the baseline; any other must be the same to the letter. */
static bool same_note(const cJSON *note, const char *accepted)
{
    struct td_buf a = TD_BUF_INIT(1 << 16), b = TD_BUF_INIT(1 << 16);
    const char *text = td_json_get_str(note, "text", "");
    bool same;

    if (!is(note, "verdict", "regressed") && !is_of_baseline(text))
        return strcmp(text, accepted) == 0;
    td_note_skeleton(text, &a);
    td_note_skeleton(accepted, &b);
    same = strcmp(td_buf_str(&a), td_buf_str(&b)) == 0;
    td_buf_release(&a);
    td_buf_release(&b);
    return same;
}

static bool note_is_accepted(const cJSON *report, const cJSON *note, const cJSON *accepted)
{
    const cJSON *one;

    if (passes(td_json_get_str(note, "verdict", "broken")) ||
        td_biases_say(report, td_json_get_str(note, "text", "")))
        return true;
    cJSON_ArrayForEach(one, td_json_get(accepted, "notes"))
        if (same_note(note, one->valuestring))
            return true;
    return false;
}

/* Are there ops that nobody judged? What they would have shown may be anything. */
static bool has_unjudged_ops(const cJSON *report)
{
    const cJSON *op;

    cJSON_ArrayForEach(op, td_json_get(td_json_get(report, "ops"), "not_ok"))
        if (is(op, "status", "unsupported") || is(op, "status", "broken"))
            return true;
    return false;
}

/* Is evidence of this lane missing? */
static bool lacks_evidence(const cJSON *report, const char *lane)
{
    const cJSON *a;

    if (!strcmp(lane, "ops") && has_unjudged_ops(report))
        return true;
    cJSON_ArrayForEach(a, td_json_get(report, "absent"))
        if (is(a, "lane", lane) && !passes(td_json_get_str(a, "verdict", "broken")))
            return true;
    return false;
}

/* Can this lane's verdict be accepted by anybody? */
static bool is_acceptable(const cJSON *report, const cJSON *lane)
{
    return (is(lane, "verdict", "regressed") ||
            (is(lane, "verdict", "inconclusive") && !strcmp(lane->string, "tokens"))) &&
           !lacks_evidence(report, lane->string);
}

/* Is each finding of this lane the accepted one? Those of ops are told by more than their figures. */
static bool findings_agree(const cJSON *report, const cJSON *lane, const cJSON *now, const cJSON *accepted)
{
    const cJSON *f, *was;

    if (strcmp(lane->string, "ops") == 0)
        return td_ops_are_accepted(report, now, accepted);
    cJSON_ArrayForEach(f, now) {
        was = td_json_get(td_json_get(accepted, "findings"), f->string);
        if (!was || !td_finding_within(lane->string, f->string, td_json_num(f, 0), td_json_num(was, 0)))
            return false;
    }
    return true;
}

static bool excuses(const cJSON *entry, const cJSON *report, const cJSON *lane)
{
    const cJSON *accepted = td_json_get(td_json_get(entry, "lanes"), lane->string), *note;
    cJSON *findings;
    bool all;

    if (!accepted || !is_acceptable(report, lane))
        return false;
    findings = td_findings_of(report, lane->string);
    all = findings && findings->child && findings_agree(report, lane, findings, accepted);
    cJSON_ArrayForEach(note, td_json_get(lane, "notes"))
        all = all && note_is_accepted(report, note, accepted);
    cJSON_Delete(findings);
    return all;
}

/* ---- applying -------------------------------------------------------------------------------- */

static void set_text(cJSON *obj, const char *key, const char *text)
{
    cJSON_DeleteItemFromObjectCaseSensitive(obj, key);
    cJSON_AddStringToObject(obj, key, text);
}

static void pass_list(cJSON *report, const char *part, const char *list)
{
    cJSON *item, *items = cJSON_GetObjectItemCaseSensitive(
                     cJSON_GetObjectItemCaseSensitive(report, part), list);

    cJSON_ArrayForEach(item, items) {
        if (!passes(td_json_get_str(item, "verdict", "pass")))
            set_text(item, "verdict", "pass");
        cJSON_DeleteItemFromObjectCaseSensitive(item, "accepted");
        cJSON_AddBoolToObject(item, "accepted", true);
    }
}

static bool lane_passes(const cJSON *report, const char *lane)
{
    return passes(td_json_get_str(td_json_get(td_json_get(report, "lanes"), lane), "verdict",
                                  "pass"));
}

/* The things that a lane lists pass with it, in every format that lists them. A prompt belongs to
 * two lanes. */
static void pass_items(cJSON *report, const char *lane)
{
    if (strcmp(lane, "ops") == 0)
        pass_list(report, "ops", "groups");
    if (strcmp(lane, "speed") == 0)
        pass_list(report, "speed", "rows");
    if (lane_passes(report, "tokens") && lane_passes(report, "collapse"))
        pass_list(report, "tokens", "by_prompt");
}

static void pass_lane(cJSON *report, cJSON *lane, const cJSON *entry)
{
    cJSON *notes = cJSON_GetObjectItemCaseSensitive(lane, "notes"), *note;
    char words[1200];

    snprintf(words, sizeof words, "accepted until %s by %.100s: %.400s (was %s: %.500s)",
             td_json_get_str(entry, "until", ""), td_json_get_str(entry, "who", ""),
             td_json_get_str(entry, "reason", ""), td_json_get_str(lane, "verdict", ""),
             td_json_get_str(lane, "headline", ""));
    cJSON_ArrayForEach(note, notes)
        set_text(note, "verdict", "note");
    set_text(lane, "was", td_json_get_str(lane, "verdict", ""));
    set_text(lane, "verdict", "pass");
    set_text(lane, "headline", words);
    cJSON_AddBoolToObject(lane, "accepted", true);
    note = cJSON_CreateObject();
    cJSON_AddStringToObject(note, "verdict", "note");
    cJSON_AddStringToObject(note, "text", words);
    cJSON_InsertItemInArray(notes, 0, note);
    pass_items(report, lane->string);
}

/* Is a lane that the entry names as it is without it? */
static bool falls_short(const cJSON *report, const cJSON *entry)
{
    const cJSON *lane;

    cJSON_ArrayForEach(lane, td_json_get(report, "lanes"))
        if (td_json_get(td_json_get(entry, "lanes"), lane->string) && td_json_get_bool(lane, "asked", false) &&
            !lane_passes(report, lane->string))
            return true;
    return false;
}

/* "applied" with the lanes that it excuses, "expired", "other findings", or "not needed". */
static void note_entry(cJSON *report, const cJSON *entry, int64_t days_left, cJSON *lanes)
{
    cJSON *list = cJSON_GetObjectItemCaseSensitive(report, "accepted"), *one = cJSON_CreateObject();
    static const char *const KEYS[] = {"reason", "who", "since", "until"};
    size_t i;

    for (i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++)
        cJSON_AddStringToObject(one, KEYS[i], td_json_get_str(entry, KEYS[i], ""));
    cJSON_AddNumberToObject(one, "days_left", (double)days_left);
    cJSON_AddStringToObject(one, "state",
                            days_left < 0                  ? "expired"
                            : cJSON_GetArraySize(lanes)      ? "applied"
                            : falls_short(report, entry) ? "other findings"
                                                           : "not needed");
    cJSON_AddItemToObject(one, "lanes", lanes);
    cJSON_AddItemToArray(list, one);
}

static int gravity(const char *verdict)
{
    static const char *const RISING[] = {"pass", "inconclusive", "regressed", "broken"};
    int i;

    for (i = 0; i < 4; i++)
        if (strcmp(verdict, RISING[i]) == 0)
            return i;
    return strcmp(verdict, "not judged") == 0 ? 0 : 3;
}

/* The report's verdict follows from its lanes. The line keeps its figures. */
static void judge_again(cJSON *report, const char *accepted)
{
    static const struct { const char *verdict; int code; } VERDICTS[] = {
        {"pass", TD_EXIT_OK}, {"inconclusive", TD_EXIT_INCONCLUSIVE},
        {"regressed", TD_EXIT_REGRESSED}, {"broken", TD_EXIT_BROKEN}};
    const char *line = td_json_get_str(report, "line", "verdict: ?"), *figures;
    struct td_buf words = TD_BUF_INIT(1 << 16);
    int worst = 0, others = 0;
    const cJSON *lane;

    cJSON_ArrayForEach(lane, td_json_get(report, "lanes")) {
        const int g = gravity(td_json_get_str(lane, "verdict", "broken"));

        if (!td_json_get_bool(lane, "asked", false))
            continue;
        worst = g > worst ? g : worst;
        others = strcmp(lane->string, "speed") && g > others ? g : others;
    }
    figures = strchr(line, ' ') ? strchr(strchr(line, ' ') + 1, ' ') : NULL;
    td_buf_addf(&words, "verdict: %s accepted=%s%s", VERDICTS[worst].verdict, accepted,
                figures ? figures : "");
    set_text(report, "line", td_buf_str(&words));
    set_text(report, "verdict", VERDICTS[worst].verdict);
    set_text(report, "headline", td_report_headline(VERDICTS[worst].verdict, others < 2));
    cJSON_ReplaceItemInObjectCaseSensitive(report, "exit", cJSON_CreateNumber(VERDICTS[worst].code));
    td_buf_release(&words);
}

static void apply_entry(const cJSON *entry, int64_t today, cJSON *report, struct td_buf *accepted)
{
    cJSON *lanes = cJSON_CreateArray(), *lane;
    int64_t until = 0;

    td_accept_parse_date(td_json_get_str(entry, "until", ""), &until, NULL);
    cJSON_ArrayForEach(lane, cJSON_GetObjectItemCaseSensitive(report, "lanes")) {
        if (until < today || !td_json_get_bool(lane, "asked", false) ||
            !excuses(entry, report, lane))
            continue;
        pass_lane(report, lane, entry);
        cJSON_AddItemToArray(lanes, cJSON_CreateString(lane->string));
        td_buf_addf(accepted, "%s%s", accepted->len ? "," : "", lane->string);
    }
    note_entry(report, entry, until - today, lanes);
}

static int apply_to_one(const cJSON *file, int64_t today, cJSON *report, struct td_error *err)
{
    struct td_buf accepted = TD_BUF_INIT(4096);
    const cJSON *entry;
    int rc;

    cJSON_ArrayForEach(entry, td_json_get(file, "accepted"))
        if (*fixture_of(report) && is(entry, "fixture", fixture_of(report)))
            apply_entry(entry, today, report, &accepted);
    if (accepted.len)
        judge_again(report, td_buf_str(&accepted));
    rc = accepted.failed ? td_fail(err, TD_ENOMEM, "out of memory") : TD_OK;
    td_buf_release(&accepted);
    return rc;
}

int td_accept_apply(const cJSON *file, int64_t today, cJSON *report, struct td_error *err)
{
    cJSON *one;
    int rc = TD_OK;

    if (!td_report_is_joined(report))
        return apply_to_one(file, today, report, err);
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(report, "reports"))
        if (!rc)
            rc = apply_to_one(file, today, one, err);
    return rc;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static int add_lane(cJSON *lanes, const cJSON *report, const cJSON *lane, struct td_error *err)
{
    cJSON *findings = td_findings_of(report, lane->string), *one, *notes;
    const cJSON *note;

    if (!findings || !findings->child || !is_acceptable(report, lane)) {
        cJSON_Delete(findings);
        return td_fail(err, TD_EINVAL,
                       "--accept: lane %s is %s (%.200s); only what was found can be accepted, not "
                       "what could not be judged",
                       lane->string, td_json_get_str(lane, "verdict", "broken"),
                       td_json_get_str(lane, "headline", ""));
    }
    one = cJSON_AddObjectToObject(lanes, lane->string);
    cJSON_AddStringToObject(one, "verdict", td_json_get_str(lane, "verdict", ""));
    notes = cJSON_AddArrayToObject(one, "notes");
    cJSON_ArrayForEach(note, td_json_get(lane, "notes"))
        if (!passes(td_json_get_str(note, "verdict", "broken")) &&
            !td_biases_say(report, td_json_get_str(note, "text", "")))
            cJSON_AddItemToArray(notes, cJSON_CreateString(td_json_get_str(note, "text", "")));
    cJSON_AddItemToObject(one, "findings", findings);
    if (strcmp(lane->string, "ops") == 0) {
        cJSON_AddItemToObject(one, "places", td_places_of(report));
        cJSON_AddItemToObject(one, "biases", td_biases_of(report));
    }
    return TD_OK;
}

static int add_one(cJSON *file, const cJSON *report, const char *reason, const char *who,
                   int64_t today, int64_t until, struct td_error *err)
{
    cJSON *entry, *lanes;
    const cJSON *lane;
    char date[TD_ACCEPT_DATE];
    int rc = TD_OK;

    if (passes(td_report_verdict(report)))
        return 0;
    if (is(report, "verdict", "broken") || is(report, "verdict", "usage") || !*fixture_of(report))
        return td_fail(err, TD_EINVAL, "--accept: the verdict is %s (%.200s); there is nothing that "
                                       "could be accepted",
                       td_report_verdict(report), td_json_get_str(report, "cause", ""));
    entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "reason", reason);
    cJSON_AddStringToObject(entry, "who", who);
    td_accept_date_text(today, date);
    cJSON_AddStringToObject(entry, "since", date);
    td_accept_date_text(until, date);
    cJSON_AddStringToObject(entry, "until", date);
    cJSON_AddStringToObject(entry, "fixture", fixture_of(report));
    cJSON_AddStringToObject(
        entry, "fixture_dir",
        td_json_get_str(cJSON_GetArrayItem(td_json_get(report, "fixtures"), 0), "dir", ""));
    lanes = cJSON_AddObjectToObject(entry, "lanes");
    cJSON_ArrayForEach(lane, td_json_get(report, "lanes"))
        if (!rc && td_json_get_bool(lane, "asked", false) &&
            !passes(td_json_get_str(lane, "verdict", "broken")))
            rc = add_lane(lanes, report, lane, err);
    if (rc) {
        cJSON_Delete(entry);
        return rc;
    }
    cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(file, "accepted"), entry);
    return 1;
}

int td_accept_add(cJSON *file, const cJSON *report, const char *reason, const char *who,
                  int64_t today, int64_t until, struct td_error *err)
{
    const cJSON *one;
    int rc, n = 0;

    if (!td_report_is_joined(report))
        return add_one(file, report, reason, who, today, until, err);
    cJSON_ArrayForEach(one, td_json_get(report, "reports")) {
        rc = add_one(file, one, reason, who, today, until, err);
        if (rc < 0)
            return rc;
        n += rc;
    }
    return n;
}
