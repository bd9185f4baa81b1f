/* report_json.c - turn a comparison into its report, a JSON document.
 * SPDX-License-Identifier: Apache-2.0
 *
 * docs/report.schema.json says what each member means. */
#include <math.h>
#include <string.h>

#include "differ/absence.h"
#include "differ/lane_ops.h"
#include "differ/lane_tokens.h"
#include "differ/lanes.h"
#include "differ/report_advice.h"
#include "differ/report_speed.h"
#include "differ/report_terms.h"
#include "differ/report_tokens.h"
#include "differ/reports.h"
#include "format/planned.h"
#include "report/report.h"

/* ---- head ------------------------------------------------------------------------------------ */

/* The last name of a path. One like libtdkernels.so is told apart by its folder, unless that has
 * a name of no meaning. */
static void name_of_path(const char *path, char *out, size_t size)
{
    static const char *const PLAIN[] = {"lib", "bin", "build", ".", ".."};
    const size_t len = strlen(path);
    const char *last = path, *folder = NULL, *p;
    size_t i;

    for (p = path; *p; p++)
        if (*p == '/' && p + 1 < path + len) {
            folder = last;
            last = p + 1;
        }
    for (i = 0; folder && i < sizeof PLAIN / sizeof PLAIN[0]; i++)
        if (strlen(PLAIN[i]) == (size_t)(last - folder - 1) && !strncmp(PLAIN[i], folder, strlen(PLAIN[i])))
            folder = NULL;
    if (folder && last - folder > 1 && strstr(last, ".so"))
        snprintf(out, size, "%.*s", (int)(last - folder - 1), folder);
    else
        snprintf(out, size, "%.*s", (int)strcspn(last, "/"), last);
}

/* What is new: the build, else the server, else the folder of the fixture. */
static void name_candidate(const struct td_comparison *c, char *out, size_t size)
{
    const cJSON *m = td_fixture_manifest(c->side[1].fx);
    const char *build = td_json_get_str(td_json_get(m, "replay"), "build", ""),
               *url = td_json_get_str(td_json_get(m, "server"), "url", "");
    const char *scheme = strstr(url, "://");

    if (*build)
        name_of_path(build, out, size);
    else if (td_json_get(m, "replay") && *url)
        snprintf(out, size, "%.*s", (int)strcspn(scheme ? scheme + 3 : url, "/"),
                 scheme ? scheme + 3 : url);
    else
        name_of_path(td_fixture_dir(c->side[1].fx), out, size);
}

static void write_names(struct td_jw *w, const struct td_comparison *c)
{
    const struct td_tokens *t = c->lane[TD_LANE_TOKENS].measured;
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    char old[256], new[256];

    name_of_path(td_fixture_dir(c->side[0].fx), old, sizeof old);
    name_candidate(c, new, sizeof new);
    td_jw_obj(w, "names");
    td_jw_cstr(w, "old", old);
    td_jw_cstr(w, "new", new);
    td_jw_cstr(w, "model",
               td_json_get_str(td_json_get(td_fixture_manifest(c->side[0].fx), "server"), "model",
                               NULL));
    td_jw_i64(w, "gemms", c->lane[TD_LANE_OPS].asked ? (int64_t)found->numerics.judged : 0);
    td_jw_i64(w, "answers", c->lane[TD_LANE_TOKENS].asked ? (int64_t)t->answers : 0);
    td_jw_end(w);
}

/* Ops whose output equals the recorded one bit for bit, of those that have one to compare with. */
static void write_ops_equal(struct td_jw *w, const struct td_comparison *c)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    const struct td_numerics *n = &found->numerics;
    const size_t compared = n->with_total + n->compared;

    if (!c->lane[TD_LANE_OPS].asked || !compared) {
        td_jw_null(w, "ops_equal");
        return;
    }
    td_jw_obj(w, "ops_equal");
    td_jw_i64(w, "equal", (int64_t)(n->bit_equal + n->compared_equal));
    td_jw_i64(w, "compared", (int64_t)compared);
    td_jw_end(w);
}

static void write_share(struct td_jw *w, const cJSON *plan)
{
    td_jw_obj(w, "op_plan");
    td_jw_cstr(w, "by", td_json_get_str(plan, "by", ""));
    td_jw_i64(w, "planned", td_json_get_i64(plan, "planned", 0));
    td_jw_i64(w, "of", td_json_get_i64(plan, "of", 0));
    td_jw_value(w, "each", td_json_get(plan, "each"));
    td_jw_end(w);
}

/* The share of the recording that the replay planned, where it left ops out (docs/format.md,
 * "replay.op_plan"). Which ops they are stands among the facts of the replay. */
static void write_op_plan(struct td_jw *w, const struct td_comparison *c)
{
    const cJSON *plan = td_json_get(td_json_get(td_fixture_manifest(c->side[1].fx), "replay"), "op_plan");

    if (c->lane[TD_LANE_OPS].asked && td_json_get_i64(plan, "planned", 0) < td_json_get_i64(plan, "of", 0))
        write_share(w, plan);
    else
        td_jw_null(w, "op_plan");
}

/* The sentence that makes the run broken. */
static const char *cause_of(const struct td_comparison *c)
{
    int i, j;

    for (i = 0; i < TD_N_LANES; i++)
        for (j = 0; c->lane[i].asked && j < c->lane[i].n_notes; j++)
            if (c->lane[i].notes[j].verdict == TD_BROKEN)
                return c->lane[i].notes[j].text;
    return NULL;
}

static bool speed_alone(const struct td_comparison *c)
{
    int i;

    for (i = 0; i < TD_N_LANES; i++)
        if (i != TD_LANE_SPEED && c->lane[i].asked && c->lane[i].verdict == TD_REGRESSED)
            return false;
    return c->lane[TD_LANE_SPEED].verdict == TD_REGRESSED;
}

static void write_head(struct td_jw *w, const struct td_comparison *c)
{
    const enum td_verdict v = c->verdict == TD_NOT_JUDGED ? TD_INCONCLUSIVE : c->verdict;
    struct td_buf line = TD_BUF_INIT(1 << 16);

    td_report_verdict_line(c, &line);
    td_jw_cstr(w, "schema", TD_REPORT_SCHEMA);
    td_jw_cstr(w, "tool", "tapedeck differ " TD_VERSION);
    td_jw_cstr(w, "verdict", td_verdict_name(v));
    td_jw_i64(w, "exit", td_verdict_exit(v));
    td_jw_cstr(w, "headline", td_report_headline(td_verdict_name(v), speed_alone(c)));
    td_jw_cstr(w, "cause", v == TD_BROKEN ? cause_of(c) : NULL);
    td_jw_str(w, "line", td_buf_str(&line), line.len);
    write_names(w, c);
    td_tokens_write_answers(c, w);
    write_ops_equal(w, c);
    write_op_plan(w, c);
    td_speed_write_change(c, w);
    td_buf_release(&line);
}

/* ---- what was compared, lane by lane --------------------------------------------------------- */

static void write_sides(struct td_jw *w, const struct td_comparison *c)
{
    char state[TD_STATE_WORDS];
    size_t i;

    td_jw_arr(w, "fixtures");
    for (i = 0; i < c->n_sides; i++) {
        const cJSON *m = td_fixture_manifest(c->side[i].fx);

        td_jw_obj(w, NULL);
        td_jw_cstr(w, "role", td_role_key(c->side[i].role));
        td_jw_i64(w, "round", c->side[i].round);
        td_jw_cstr(w, "dir", td_fixture_dir(c->side[i].fx));
        td_jw_cstr(w, "id", td_fixture_id(c->side[i].fx));
        td_jw_i64(w, "exchanges", (int64_t)c->side[i].n_xs);
        td_jw_cstr(w, "state", td_fixture_state_words(m, state));
        if (td_json_get(m, "server"))
            td_jw_value(w, "server", td_json_get(m, "server"));
        if (td_json_get(m, "replay"))
            td_jw_value(w, "replay", td_json_get(m, "replay"));
        td_jw_end(w);
    }
    td_jw_end(w);
}

/* The first sentence as grave as the lane's verdict. */
static const char *gravest_note(const struct td_lane *l)
{
    int j;

    for (j = 0; j < l->n_notes; j++)
        if (l->notes[j].verdict == l->verdict)
            return l->notes[j].text;
    return l->n_notes ? l->notes[0].text : "nothing was found";
}

static void write_lane(struct td_jw *w, const struct td_comparison *c, const struct td_lane *l)
{
    struct td_buf words = TD_BUF_INIT(1 << 16);
    int j;

    if (l->asked && td_lane_types[l->id]->headline)
        td_lane_types[l->id]->headline(c, &words);
    td_jw_obj(w, td_lane_name(l->id));
    td_jw_bool(w, "asked", l->asked);
    td_jw_cstr(w, "verdict", td_verdict_name(l->asked ? l->verdict : TD_NOT_JUDGED));
    td_jw_cstr(w, "headline",
               !l->asked   ? "not asked for"
               : words.len ? td_buf_str(&words)
                           : gravest_note(l));
    td_jw_arr(w, "notes");
    for (j = 0; j < l->n_notes; j++) {
        td_jw_obj(w, NULL);
        td_jw_cstr(w, "verdict",
                   l->notes[j].verdict == TD_NOT_JUDGED ? "note"
                                                        : td_verdict_name(l->notes[j].verdict));
        td_jw_cstr(w, "text", l->notes[j].text);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_end(w);
    td_buf_release(&words);
}

static void write_empty(struct td_jw *w, const char *key)
{
    td_jw_arr(w, key);
    td_jw_end(w);
}

cJSON *td_comparison_report(const struct td_comparison *c, struct td_error *err)
{
    struct td_buf text = TD_BUF_INIT(TD_REPORT_MAX);
    struct td_jw w;
    cJSON *report = NULL;
    int i, rc;

    td_jw_init(&w, &text, false);
    td_jw_obj(&w, NULL);
    write_head(&w, c);
    write_sides(&w, c);
    td_jw_i64(&w, "bad_frames", (int64_t)c->bad_frames);
    td_jw_obj(&w, "lanes");
    for (i = 0; i < TD_N_LANES; i++)
        write_lane(&w, c, &c->lane[i]);
    td_jw_end(&w);
    td_absences_write(&c->absent, &w);
    td_advice_write_not_checked(c, &w);
    td_advice_write_next(c, &w);
    write_empty(&w, "accepted");
    for (i = 0; i < TD_N_LANES; i++)
        if (td_lane_types[i]->write_json)
            td_lane_types[i]->write_json(c, &w);
    td_policy_write(&c->policy, &w, "policy");
    rc = td_terms_of_sides_write(c, &w, err);
    td_jw_end(&w);
    if (!rc && text.failed)
        td_fail(err, TD_ELIMIT, "the report would pass %zu bytes", TD_REPORT_MAX);
    else if (!rc)
        report = td_json_parse(text.data, text.len, err);
    td_buf_release(&text);
    return report;
}
