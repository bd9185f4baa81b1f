/* report_junit.c - a report as JUnit XML: a suite for each comparison; in it a case for the
 * verdict, and for each lane, prompt, group of ops, row of speed and absence.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/blame_words.h"
#include "common/clean.h"
#include "report/junit.h"
#include "report/metric_rows.h"
#include "report/parts.h"
#include "report/report.h"

#define BODY_MAX   32768 /* bytes of the details of a case */
#define LISTED_MAX 10    /* forks of a prompt, ops of a group */

/* Regressed is a <failure>. Inconclusive and broken are an <error>: the build is not known to be
 * good. What was not judged is <skipped>. */
static void add_case(struct td_junit *j, const char *class, const char *name, double seconds,
                     const char *verdict, const char *message, const char *body)
{
    const struct td_junit_case c = {
        .class = class,
        .name = name,
        .seconds = seconds,
        .result = !strcmp(verdict, "pass")         ? TD_JUNIT_PASSED
                  : !strcmp(verdict, "regressed")  ? TD_JUNIT_FAILED
                  : !strcmp(verdict, "not judged") ? TD_JUNIT_SKIPPED
                                                   : TD_JUNIT_ERROR,
        .type =
            !strcmp(verdict, "regressed") || !strcmp(verdict, "inconclusive") ||
                    !strcmp(verdict, "usage")
                ? verdict
                : "broken",
        .message = message,
        .body = body,
    };

    td_junit_add(j, &c);
}

/* Append "<label> <text>" as a line, when there is a text. */
static void add_line(struct td_buf *out, const char *label, const char *text)
{
    if (!*text)
        return;
    td_buf_addf(out, "%s%s", label, *label ? " " : "");
    td_clean_line(text, 2000, out);
    td_buf_addc(out, '\n');
}

/* ---- the run and its lanes ------------------------------------------------------------------ */

static void add_list(struct td_buf *out, const cJSON *list, const char *label, const char *key)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, list)
        add_line(out, label, td_part_text(item, key));
}

static void write_blame(const cJSON *report, struct td_buf *out)
{
    const cJSON *blame = td_json_get(report, "blame");
    struct td_buf words = TD_BUF_INIT(1 << 16);

    if (!cJSON_IsObject(blame))
        return;
    td_blame_add_rule(report, &words);
    add_line(out, "which:", td_buf_str(&words));
    td_buf_clear(&words);
    td_blame_add_first(blame, &words);
    add_line(out, "first:", td_buf_str(&words));
    td_buf_release(&words);
}

static void write_accepted(const cJSON *list, struct td_buf *out)
{
    const cJSON *accepted;

    cJSON_ArrayForEach(accepted, list) {
        struct td_buf words = TD_BUF_INIT(1 << 16);

        td_part_add_accepted(accepted, &words);
        add_line(out, "accepted:", td_buf_str(&words));
        td_buf_release(&words);
    }
}

/* What stands on the first screen of the text report. */
static void write_summary(const cJSON *report, struct td_buf *out)
{
    const cJSON *lane, *next;

    add_line(out, "cause:", td_part_str(report, "cause"));
    cJSON_ArrayForEach(lane, td_json_get(report, "lanes")) {
        td_buf_addf(out, "%.40s %s: ", td_part_key(lane), td_part_str(lane, "verdict"));
        td_clean_line(td_part_lane_reason(lane), 2000, out);
        td_buf_addc(out, '\n');
    }
    write_blame(report, out);
    add_list(out, td_json_get(report, "absent"), "absent:", "text");
    add_list(out, td_json_get(report, "not_checked"), "not checked:", NULL);
    write_accepted(td_json_get(report, "accepted"), out);
    cJSON_ArrayForEach(next, td_json_get(report, "next")) {
        add_line(out, "next:", td_part_str(next, "text"));
        add_line(out, "     ", td_part_str(next, "command"));
    }
    add_line(out, "", td_part_str(report, "line"));
}

/* The run's own case carries its whole time, so that the sum over the cases is the suite's. */
static void add_verdict(const cJSON *report, struct td_junit *j, const char *summary)
{
    const char *cause = td_part_str(report, "cause");

    add_case(j, "run", "verdict", td_json_get_num(report, "seconds", 0), td_report_verdict(report),
             *cause ? cause : td_part_str(report, "line"), summary);
}

static void add_lanes(const cJSON *report, struct td_junit *j)
{
    const cJSON *lane, *note;

    cJSON_ArrayForEach(lane, td_json_get(report, "lanes")) {
        struct td_buf body = TD_BUF_INIT(BODY_MAX);

        cJSON_ArrayForEach(note, td_json_get(lane, "notes")) {
            td_buf_addf(&body, "%s: ", td_part_str(note, "verdict"));
            add_line(&body, "", td_part_str(note, "text"));
        }
        add_case(j, "lane", td_part_key(lane), 0, td_part_str(lane, "verdict"),
                 td_part_lane_reason(lane), td_buf_str(&body));
        td_buf_release(&body);
    }
}

static void add_absences(const cJSON *report, struct td_junit *j)
{
    const cJSON *a;

    cJSON_ArrayForEach(a, td_json_get(report, "absent")) {
        char name[300];

        snprintf(name, sizeof name, "%.200s, %.80s", td_part_str(a, "what"),
                 td_part_str(a, "side"));
        add_case(j, "absent", name, 0, td_part_str(a, "verdict"), td_part_str(a, "text"), "");
    }
}

/* ---- prompts -------------------------------------------------------------------------------- */

/* Append the two answers of a fork or of a collapse. */
static void add_answers(const cJSON *item, struct td_buf *out)
{
    add_line(out, "  old", td_part_str(item, "old"));
    add_line(out, "  new", td_part_str(item, "new"));
}

/* Append what the list says about this prompt. */
static void add_found(const cJSON *list, const char *prompt_id, struct td_buf *out,
                      void (*describe)(const cJSON *item, struct td_buf *out))
{
    const cJSON *item;
    int n = 0;

    cJSON_ArrayForEach(item, list) {
        if (strcmp(td_part_str(item, "prompt_id"), prompt_id) != 0)
            continue;
        if (n++ == LISTED_MAX) {
            td_buf_adds(out, "(more are in the JSON report)\n");
            return;
        }
        td_buf_addf(out, "repeat %d: ", (int)td_json_get_i64(item, "repeat", 0));
        describe(item, out);
    }
}

static void describe_fork(const cJSON *fork, struct td_buf *out)
{
    char gap[TD_FIGURE_MAX];

    td_part_figure(fork, "gap", gap);
    td_buf_addf(out, "forks at %.20s %d", td_part_str(fork, "unit"),
                (int)td_json_get_i64(fork, "position", 0));
    td_buf_addf(out, "%s%s%s\n", *gap ? ", gap " : "", gap, *gap ? " nats" : "");
    add_answers(fork, out);
}

static void describe_collapse(const cJSON *collapse, struct td_buf *out)
{
    add_line(out, "collapsed:", td_part_str(collapse, "why"));
    add_answers(collapse, out);
}

static void describe_loss(const cJSON *lost, struct td_buf *out)
{
    add_line(out, "failed:", td_part_str(lost, "error"));
}

static void add_prompts(const cJSON *report, struct td_junit *j)
{
    const cJSON *tokens = td_json_get(report, "tokens"),
                *collapse = td_json_get(report, "collapse");
    const cJSON *prompt;

    cJSON_ArrayForEach(prompt, td_json_get(tokens, "by_prompt")) {
        const char *id = td_part_str(prompt, "prompt_id"),
                   *verdict = td_part_str(prompt, "verdict");
        struct td_buf body = TD_BUF_INIT(BODY_MAX);

        if (strcmp(verdict, "pass") != 0) {
            add_found(td_json_get(tokens, "forks"), id, &body, describe_fork);
            add_found(td_json_get(collapse, "collapsed"), id, &body, describe_collapse);
            add_found(td_json_get(tokens, "lost"), id, &body, describe_loss);
        }
        add_case(j, "prompt", id, 0, verdict, td_part_str(prompt, "why"), td_buf_str(&body));
        td_buf_release(&body);
    }
}

/* ---- ops ------------------------------------------------------------------------------------ */

/* Append the ops of the group that are not ok. */
static void add_bad_ops(const cJSON *ops, const cJSON *group, struct td_buf *out)
{
    const cJSON *op;
    int n = 0;

    cJSON_ArrayForEach(op, td_json_get(ops, "not_ok")) {
        if (strcmp(td_part_str(op, "kind"), td_part_str(group, "kind")) != 0 ||
            strcmp(td_part_str(op, "shape"), td_part_str(group, "shape")) != 0 ||
            strcmp(td_part_str(op, "m_class"), td_part_str(group, "m_class")) != 0)
            continue;
        if (n++ == LISTED_MAX) {
            td_buf_adds(out, "(more are in the JSON report)\n");
            return;
        }
        td_buf_addf(out, "op %lld ", (long long)td_json_get_i64(op, "op", -1));
        td_clean_line(td_part_str(op, "layer"), 300, out);
        td_buf_addf(out, " %s: ", td_part_str(op, "result"));
        add_line(out, "", td_part_str(op, "why"));
    }
}

static void add_groups(const cJSON *report, struct td_junit *j)
{
    const cJSON *ops = td_json_get(report, "ops"), *g;

    cJSON_ArrayForEach(g, td_json_get(ops, "groups")) {
        struct td_buf body = TD_BUF_INIT(BODY_MAX);
        char name[400], why[300], a[TD_FIGURE_MAX], b[TD_FIGURE_MAX], c[TD_FIGURE_MAX];

        if (!td_part_group_is_judged(g))
            continue;
        snprintf(name, sizeof name, "%.150s %.150s %.40s", td_part_str(g, "kind"),
                 td_part_str(g, "shape"), td_part_str(g, "m_class"));
        snprintf(why, sizeof why, "%d of %d bad, %d undecided; error: old %s, new %s, limit %s",
                 (int)td_json_get_i64(g, "bad", 0), (int)td_json_get_i64(g, "judged", 0),
                 (int)(td_json_get_i64(g, "undecided", 0) + td_json_get_i64(g, "broken", 0)),
                 td_part_figure(g, "old_score", a), td_part_figure(g, "new_score", b),
                 td_part_figure(g, "limit", c));
        td_buf_addf(&body,
                    "%s\nerror of the worst row, column or tile (rms): old %s, new %s, limit %s\n",
                    why, td_part_figure(g, "old_rms", a), td_part_figure(g, "new_rms", b),
                    td_part_figure(g, "limit_rms", c));
        add_bad_ops(ops, g, &body);
        add_case(j, "op", name, 0, td_part_group_verdict(g), why, td_buf_str(&body));
        td_buf_release(&body);
    }
}

/* ---- speed ---------------------------------------------------------------------------------- */

static void add_speed_rows(const cJSON *report, struct td_junit *j)
{
    const cJSON *row;

    cJSON_ArrayForEach(row, td_json_get(td_json_get(report, "speed"), "rows")) {
        char name[300], why[300], body[400], a[TD_FIGURE_MAX], b[TD_FIGURE_MAX], c[TD_FIGURE_MAX];

        snprintf(name, sizeof name, "%.80s %.200s", td_part_str(row, "metric"),
                 td_part_str(row, "what"));
        snprintf(why, sizeof why, "%s [%s, %s], n=%d", td_part_percent(row, "change", a),
                 td_part_percent(row, "change_lo", b), td_part_percent(row, "change_hi", c),
                 (int)td_json_get_i64(row, "n", 0));
        snprintf(body, sizeof body, "%s\nmedian: old %s, new %s %.20s\n", why,
                 td_part_figure(row, "old", a), td_part_figure(row, "new", b),
                 td_part_str(row, "unit"));
        add_case(j, "speed", name, 0, td_part_str(row, "verdict"), why, body);
    }
}

/* ---- the document --------------------------------------------------------------------------- */

static void add_properties(const cJSON *report, struct td_junit *j)
{
    static const char *const NAMES[] = {"old", "new", "model"};
    const cJSON *names = td_json_get(report, "names"), *ops = td_json_get(report, "ops");
    size_t i;

    td_junit_property(j, "tool", td_part_str(report, "tool"));
    td_junit_property(j, "verdict", td_part_str(report, "verdict"));
    td_junit_property(j, "headline", td_part_str(report, "headline"));
    for (i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (*td_part_str(names, NAMES[i]))
            td_junit_property(j, NAMES[i], td_part_str(names, NAMES[i]));
    if (td_report_asked(report, "ops") && *td_part_str(ops, "gemms"))
        td_junit_property(j, "coverage", td_part_str(ops, "gemms"));
}

/* "n 12, mean 0.0415, p50 0.0402 ..." */
static void add_figures(const cJSON *figures, struct td_buf *out)
{
    char name[40], value[TD_FIGURE_MAX];
    const char *unit;
    const cJSON *v;

    cJSON_ArrayForEach(v, figures) {
        if (!td_metric_figure(v, name, sizeof name, &unit) || !*td_part_figure(figures, td_part_key(v), value))
            continue;
        td_buf_addf(out, "%s%s %s%s%s", out->len ? ", " : "", name, value, *unit ? " " : "", unit);
    }
}

/* Times in the terms of a tool are properties, as nothing is judged by them: "metric.vllm.ttft.baseline". */
static void add_metrics(const cJSON *report, struct td_junit *j)
{
    const char *terms = td_part_str(td_json_get(report, "metrics"), "terms");
    struct td_metric_row row;
    struct td_metric_rate rate;
    char name[160];
    size_t i;

    for (i = 0; td_metric_row_at(report, i, &row); i++) {
        struct td_buf words = TD_BUF_INIT(4096);

        add_figures(row.figures, &words);
        snprintf(name, sizeof name, "metric.%.30s.%.30s.%s", terms, row.key, row.fixture);
        td_junit_property(j, name, td_buf_str(&words));
        td_buf_release(&words);
    }
    for (i = 0; td_metric_rate_at(report, i, &rate); i++) {
        snprintf(name, sizeof name, "metric.%.30s.%s.%s", terms, rate.key, rate.fixture);
        if (*rate.value)
            td_junit_property(j, name, rate.value);
    }
}

static void add_suite(const cJSON *report, size_t id, struct td_buf *out)
{
    struct td_buf summary = TD_BUF_INIT(BODY_MAX);
    struct td_junit j;

    write_summary(report, &summary);
    td_junit_init(&j, td_report_name(report));
    add_properties(report, &j);
    add_metrics(report, &j);
    add_verdict(report, &j, td_buf_str(&summary));
    add_lanes(report, &j);
    add_absences(report, &j);
    if (td_report_asked(report, "tokens"))
        add_prompts(report, &j);
    if (td_report_asked(report, "ops"))
        add_groups(report, &j);
    if (td_report_asked(report, "speed"))
        add_speed_rows(report, &j);
    td_junit_write(&j, id, td_part_str(report, "started"), td_json_get_num(report, "seconds", 0),
                   td_buf_str(&summary), out);
    td_junit_release(&j);
    td_buf_release(&summary);
}

int td_report_junit(const cJSON *report, struct td_buf *out, struct td_error *err)
{
    const cJSON *part;
    size_t i;

    td_junit_begin(out);
    for (i = 0; (part = td_report_part(report, i)); i++)
        add_suite(part, i, out);
    td_junit_end(out);
    return out->failed ? td_fail(err, TD_ELIMIT, "the report as JUnit XML is too large") : TD_OK;
}
