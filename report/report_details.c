/* report_details.c - --verbose: what was compared, answers, scores, limits, lanes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/number_words.h"
#include "report/parts.h"
#include "report/report_details.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/text.h"
#include "report/text_table.h"

#define LISTED_MAX 20 /* answers of a list */

static long long count_of(const cJSON *o, const char *key)
{
    return td_json_get_i64(o, key, 0);
}

void td_report_add_more(struct td_buf *out, long long n, const char *of)
{
    struct td_buf words = TD_BUF_INIT(1 << 16);

    td_buf_addf(&words, "... %lld more%s%s; --json has all", n, *of ? " " : "", of);
    if (n > 0)
        td_text_item(out, "", 2, td_buf_str(&words), 2);
    td_buf_release(&words);
}

void td_report_add_title(struct td_buf *out, const char *title)
{
    td_buf_addc(out, '\n');
    td_text_wrap(out, "", 0, title, 2);
}

/* ---- what was compared ----------------------------------------------------------------------- */

static const char *role_words(const char *role)
{
    return !strcmp(role, "baseline")        ? "old"
           : !strcmp(role, "candidate")     ? "new"
           : !strcmp(role, "baseline-live") ? "old, live"
                                            : "honest";
}

static void add_compared(struct td_buf *out, const cJSON *report)
{
    const cJSON *f;

    td_report_add_title(out, "compared");
    cJSON_ArrayForEach(f, td_json_get(report, "fixtures")) {
        const cJSON *server = td_json_get(f, "server"), *replay = td_json_get(f, "replay");
        const char *state = td_json_get_str(f, "state", "not stated"),
                   *build = td_part_str(replay, "build"),
                   *against = td_part_str(replay, "baseline_build");
        struct td_buf words = TD_BUF_INIT(1 << 16);
        char head[32];

        snprintf(head, sizeof head, "  %s", role_words(td_part_str(f, "role")));
        td_buf_addf(&words, "%s: %.*s", td_part_str(f, "dir"), (int)strcspn(state, ":"), state);
        if (*td_part_str(server, "model"))
            td_buf_addf(&words, "; %s on %s %s", td_part_str(server, "model"),
                        td_part_str(server, "kind"), td_part_str(server, "version"));
        if (*build)
            td_buf_addf(&words, "; build %s", build);
        if (*against)
            td_buf_addf(&words, " against %s", against);
        td_text_item(out, head, 13, td_buf_str(&words), 8);
        td_buf_release(&words);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static void add_texts(struct td_buf *out, const cJSON *answer)
{
    if (*td_part_str(answer, "old"))
        td_text_wrap(out, "    old", 10, td_part_str(answer, "old"), 3);
    if (*td_part_str(answer, "new"))
        td_text_wrap(out, "    new", 10, td_part_str(answer, "new"), 3);
}

/* Why a server that was ready answered nothing, where replay found out. */
static void add_dead_engines(struct td_buf *out, const cJSON *report)
{
    const cJSON *f;

    cJSON_ArrayForEach(f, td_json_get(report, "fixtures"))
        if (*td_part_str(td_json_get(f, "replay"), "engine"))
            td_text_item(out, "", 2, td_part_str(td_json_get(f, "replay"), "engine"), 8);
}

/* Requests that could not connect come after those that were cut: they say more about the cause. */
static void add_lost_of(struct td_buf *out, const cJSON *lost, bool unsent)
{
    struct td_buf words = TD_BUF_INIT(1 << 16);
    const cJSON *x;
    int n = 0;

    cJSON_ArrayForEach(x, lost) {
        if (!strcmp(td_part_str(x, "kind"), "connect") != unsent || n++ >= LISTED_MAX)
            continue;
        words.len = 0;
        td_buf_addf(&words, "%s, repeat %lld: %s%s%s", td_part_str(x, "prompt_id"), count_of(x, "repeat"),
                    td_part_str(x, "kind"), *td_part_str(x, "kind") ? ": " : "", td_part_str(x, "error"));
        td_text_item(out, "", 2, td_buf_str(&words), 4);
    }
    td_report_add_more(out, n - LISTED_MAX, "");
    td_buf_release(&words);
}

static void add_lost(struct td_buf *out, const cJSON *report)
{
    const cJSON *lost = td_json_get(td_json_get(report, "tokens"), "lost");

    if (!cJSON_GetArraySize(lost))
        return;
    td_report_add_title(out, "requests that failed where the old server answered");
    add_dead_engines(out, report);
    add_lost_of(out, lost, false);
    add_lost_of(out, lost, true);
}

static void add_collapsed(struct td_buf *out, const cJSON *report)
{
    const cJSON *all = td_json_get(td_json_get(report, "collapse"), "collapsed"), *x;
    struct td_buf words = TD_BUF_INIT(1 << 16);
    int n = 0;

    if (cJSON_GetArraySize(all))
        td_report_add_title(out, "collapsed answers");
    cJSON_ArrayForEach(x, all) {
        if (n++ >= LISTED_MAX)
            continue;
        words.len = 0;
        td_buf_addf(&words, "%s, repeat %lld: %s: %s", td_part_str(x, "prompt_id"), count_of(x, "repeat"),
                    td_part_str(x, "kind"), td_part_str(x, "why"));
        td_text_item(out, "", 2, td_buf_str(&words), 2);
        add_texts(out, x);
    }
    td_report_add_more(out, n - LISTED_MAX, "");
    td_buf_release(&words);
}

static void add_forks(struct td_buf *out, const cJSON *report)
{
    const cJSON *all = td_json_get(td_json_get(report, "tokens"), "forks"), *x;
    struct td_buf words = TD_BUF_INIT(1 << 16);
    int n = 0;

    if (cJSON_GetArraySize(all))
        td_report_add_title(out, "answers that fork from the old ones");
    cJSON_ArrayForEach(x, all) {
        const double gap = td_json_get_num(x, "gap", NAN);

        if (n++ >= LISTED_MAX)
            continue;

        words.len = 0;
        td_buf_addf(&words, "%s, repeat %lld: forks at %s %lld", td_part_str(x, "prompt_id"),
                    count_of(x, "repeat"), td_part_str(x, "unit"), count_of(x, "position"));
        if (!isnan(gap))
            td_buf_addf(&words, ", gap %s%.3f nats",
                        td_json_get_bool(x, "outside_top_k", false) ? ">= " : "", gap);
        td_text_item(out, "", 2, td_buf_str(&words), 2);
        add_texts(out, x);
    }
    td_report_add_more(out, n - LISTED_MAX, "");
    td_buf_release(&words);
}

/* Answers whose tokens equal the old ones. */
static void add_unlike(struct td_buf *out, const cJSON *report)
{
    const cJSON *all = td_json_get(td_json_get(report, "tokens"), "unlike"), *x;
    struct td_buf words = TD_BUF_INIT(1 << 16);
    int n = 0;

    if (cJSON_GetArraySize(all))
        td_report_add_title(out, "answers of the same tokens with another text or end");
    cJSON_ArrayForEach(x, all) {
        const char *what = td_part_str(x, "what");
        const bool is_end = !strcmp(what, "end");

        if (n++ >= LISTED_MAX)
            continue;
        words.len = 0;
        td_buf_addf(&words, "%s, repeat %lld: %s%s", td_part_str(x, "prompt_id"),
                    count_of(x, "repeat"), !strcmp(what, "parts") ? "" : "another ",
                    !strcmp(what, "parts") ? "other thoughts or calls of tools" : what);
        if (is_end)
            td_buf_addf(&words, ": %s, now %s", td_json_get_str(x, "old_end", "none"),
                        td_json_get_str(x, "new_end", "none"));
        td_text_item(out, "", 2, td_buf_str(&words), 2);
        if (!is_end)
            add_texts(out, x);
    }
    td_report_add_more(out, n - LISTED_MAX, "");
    td_buf_release(&words);
}

/* "old against itself", "old, live, round 1", "honest build 1". */
static const char *noise_name(const cJSON *z, char *out, size_t n)
{
    const char *of = td_part_str(z, "of");
    const long long round = count_of(z, "round") + 1;

    if (!strcmp(of, "baseline"))
        snprintf(out, n, "old against itself");
    else if (!strcmp(of, "baseline-live"))
        snprintf(out, n, "old, live, round %lld", round);
    else
        snprintf(out, n, "honest build %lld", round);
    return out;
}

static void add_noise_row(struct td_table *t, const char *what, long long forked, long long prompts,
                          double gap)
{
    td_table_add(t, "%s", what);
    td_table_add(t, "%lld", forked);
    td_table_add(t, "%lld", prompts);
    if (isnan(gap))
        td_table_add(t, "-");
    else
        td_table_add(t, "%.3f", gap);
}

/* What the two tests of forks against noise came to. A small p: more than noise. */
static void add_tests(struct td_buf *out, const cJSON *tokens, const cJSON *policy)
{
    struct td_buf words = TD_BUF_INIT(1 << 16);
    const double level = td_json_get_num(td_json_get(policy, "tokens"), "alpha", NAN);

    td_buf_addf(&words,
                "forks are noise where both p reach %.3g: share of prompts p=%.3g, gaps over noise's "
                "largest p=%.3g; and where no gap exceeds %.3g nats",
                level, td_json_get_num(tokens, "share_p", NAN), td_json_get_num(tokens, "gap_p", NAN),
                td_json_get_num(tokens, "gap_limit", NAN));
    td_text_item(out, "", 2, td_buf_str(&words), 3);
    td_buf_release(&words);
}

static void add_noise(struct td_buf *out, const cJSON *report)
{
    const cJSON *tokens = td_json_get(report, "tokens"), *z;
    double largest = NAN;
    struct td_table t;
    char name[64];

    if (!count_of(tokens, "answers"))
        return;
    cJSON_ArrayForEach(z, td_json_get(tokens, "forks"))
        largest = fmax(largest, td_json_get_num(z, "gap", NAN));
    td_report_add_title(out, "forks, and how close the calls were");
    td_table_init(&t, "lrrr", 2);
    for (const char *const *p = (const char *const[]){"", "forked", "prompts", "largest gap (nats)", NULL};
         *p; p++)
        td_table_add(&t, "%s", *p);
    add_noise_row(&t, "new", count_of(tokens, "prompts_forked"), count_of(tokens, "prompts"), largest);
    cJSON_ArrayForEach(z, td_json_get(tokens, "noise"))
        if (count_of(z, "prompts"))
            add_noise_row(&t, noise_name(z, name, sizeof name), count_of(z, "prompts_forked"),
                          count_of(z, "prompts"), td_json_get_num(z, "gap_max", NAN));
    td_table_write(&t, out);
    td_table_release(&t);
    if (count_of(tokens, "prompts_forked") && !cJSON_IsNull(td_json_get(tokens, "gap_noise")))
        add_tests(out, tokens, td_json_get(report, "policy"));
}

/* ---- scores ---------------------------------------------------------------------------------- */

static void add_part(struct td_table *t, const char *name, const cJSON *part)
{
    const long long known = count_of(part, "top_known");

    if (!count_of(part, "comparisons"))
        return;
    td_table_add(t, "%s", name);
    td_table_add(t, "%lld", count_of(part, "tokens"));
    td_table_add(t, "%.4f", td_json_get_num(part, "nll", NAN));
    td_table_add(t, "%+.4f +- %.4f", td_json_get_num(part, "nll_shift", NAN),
                 td_json_get_num(part, "standard_error", NAN));
    td_table_add(t, "%.4f", td_json_get_num(part, "mean_dlogprob", NAN));
    td_table_add(t, "%.1f %%",
                 known ? 100.0 * (double)count_of(part, "top_changed") / (double)known : 0.0);
}

static void add_worst_score(struct td_buf *out, const cJSON *worst)
{
    struct td_buf words = TD_BUF_INIT(1 << 16);

    td_buf_addf(&words, "largest change: %s, token %lld of the %s (id %lld): logprob %.3f, now %.3f",
                td_part_str(worst, "prompt_id"), count_of(worst, "position"), td_part_str(worst, "part"),
                count_of(worst, "token_id"), td_json_get_num(worst, "logprob", NAN),
                td_json_get_num(worst, "new_logprob", NAN));
    if (cJSON_IsObject(worst))
        td_text_item(out, "", 2, td_buf_str(&words), 2);
    td_buf_release(&words);
}

static void add_scores(struct td_buf *out, const cJSON *report)
{
    const cJSON *scores = td_json_get(report, "scores"), *x;
    struct td_table t;
    char name[64];

    if (!count_of(scores, "compared") || !td_report_asked(report, "scores"))
        return;
    td_report_add_title(out, "scores: the recorded texts, token by token, as likely as both find them");
    td_table_init(&t, "lrrrrr", 2);
    for (const char *const *p = (const char *const[]){"", "tokens", "NLL", "shift", "mean |dlogprob|",
                                                      "top token changed", NULL};
         *p; p++)
        td_table_add(&t, "%s", *p);
    add_part(&t, "answers", td_json_get(scores, "answers"));
    cJSON_ArrayForEach(x, td_json_get(scores, "texts"))
        add_part(&t, td_part_str(x, "prompt_id"), td_json_get(x, "answer"));
    add_part(&t, "prompts", td_json_get(scores, "prompts"));
    cJSON_ArrayForEach(x, td_json_get(scores, "noise"))
        add_part(&t, noise_name(x, name, sizeof name), td_json_get(x, "answers"));
    td_table_write(&t, out);
    td_table_release(&t);
    add_worst_score(out, td_json_get(scores, "worst"));
}

/* ---- limits and lanes ------------------------------------------------------------------------ */

/* The thresholds, a line a section: "numerics: floor 4, floor_rms 2, factor 4". */
/* Kinds whose floors are others than the policy's: their judge proposes them. */
static void add_floors(struct td_buf *out, const cJSON *report)
{
    const double own = td_json_get_num(td_json_get(td_json_get(report, "policy"), "numerics"), "floor", NAN);
    const cJSON *g, *groups = td_json_get(td_json_get(report, "ops"), "groups");
    struct td_buf words = TD_BUF_INIT(1 << 16);
    char floor[TD_TEXT_NUMBER], rms[TD_TEXT_NUMBER];

    cJSON_ArrayForEach(g, groups) {
        const double used = td_json_get_num(g, "floor", NAN);

        if (isnan(used) || used == own ||
            (g->prev && g != groups->child && !strcmp(td_part_str(g->prev, "kind"), td_part_str(g, "kind"))))
            continue;
        td_buf_addf(&words, "%s%s floor %s, floor_rms %s", words.len ? "; " : "", td_part_str(g, "kind"),
                    td_text_number(td_json_get(g, "floor"), floor),
                    td_text_number(td_json_get(g, "floor_rms"), rms));
    }
    if (words.len)
        td_text_wrap(out, "  in use", 13, td_buf_str(&words), 4);
    td_buf_release(&words);
}

static void add_limits(struct td_buf *out, const cJSON *report)
{
    const cJSON *policy = td_json_get(report, "policy"), *section, *v;
    struct td_buf words = TD_BUF_INIT(1 << 16);
    char number[TD_TEXT_NUMBER], head[64];

    if (!cJSON_IsObject(policy))
        return;
    snprintf(head, sizeof head, "limits (policy %.40s)", td_part_str(policy, "name"));
    td_report_add_title(out, head);
    cJSON_ArrayForEach(section, policy) {
        words.len = 0;
        cJSON_ArrayForEach(v, section)
            if (cJSON_IsNumber(v))
                td_buf_addf(&words, "%s%s %s", words.len ? ", " : "", v->string,
                            td_text_number(v, number));
            else if (cJSON_IsBool(v))
                td_buf_addf(&words, "%s%s %s", words.len ? ", " : "", v->string,
                            cJSON_IsTrue(v) ? "yes" : "no");
        snprintf(head, sizeof head, "  %.9s", section->string);
        if (words.len)
            td_text_wrap(out, head, 13, td_buf_str(&words), 4);
    }
    add_floors(out, report);
    td_buf_release(&words);
}

static void add_lanes(struct td_buf *out, const cJSON *report)
{
    const cJSON *lane, *note;
    char head[64];

    td_report_add_title(out, "lanes");
    cJSON_ArrayForEach(lane, td_json_get(report, "lanes")) {
        int n = 0;

        snprintf(head, sizeof head, "  %-9s %s", lane->string, td_part_str(lane, "verdict"));
        cJSON_ArrayForEach(note, td_json_get(lane, "notes"))
            td_text_item(out, n++ ? "" : head, 25, td_part_str(note, "text"), 8);
        if (!n)
            td_text_item(out, head, 25, td_part_str(lane, "headline"), 8);
    }
    if (count_of(report, "bad_frames"))
        td_buf_addf(out, "  %lld frame%s of the fixtures %s corrupt and %s skipped\n",
                    count_of(report, "bad_frames"), td_plural(count_of(report, "bad_frames")),
                    td_is(count_of(report, "bad_frames")), td_was(count_of(report, "bad_frames")));
    td_buf_addc(out, '\n');
}

void td_report_add_details(struct td_buf *out, const cJSON *report)
{
    if (!cJSON_GetArraySize(td_json_get(report, "fixtures")))
        return;
    add_compared(out, report);
    if (td_report_asked(report, "tokens"))
        add_lost(out, report);
    if (td_report_asked(report, "collapse"))
        add_collapsed(out, report);
    if (td_report_asked(report, "tokens")) {
        add_forks(out, report);
        add_unlike(out, report);
        add_noise(out, report);
    }
    add_scores(out, report);
    if (td_report_asked(report, "ops"))
        td_report_add_ops(out, report);
    if (td_report_asked(report, "speed") || td_report_asked(report, "tokens"))
        td_report_add_speed(out, report);
    add_limits(out, report);
    add_lanes(out, report);
}
