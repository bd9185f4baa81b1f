/* smoke_report.c - one recording judged by absolute rules, as a report.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "common/out_of_memory.h"
#include "differ/align.h"
#include "differ/judge_pair.h"
#include "differ/smoke.h"
#include "format/planned.h"
#include "report/excerpt.h"
#include "report/report.h"

#define EXCERPT_BYTES 100

/* The line of a smoke test that could not be made. */
static cJSON *broken_smoke(const char *recording, const struct td_error *err)
{
    cJSON *report = td_judge_broken(recording, err);
    char line[sizeof err->msg + 32];

    snprintf(line, sizeof line, "smoke: failed: %s", err->msg);
    cJSON_ReplaceItemInObjectCaseSensitive(report, "line", cJSON_CreateString(line));
    return report;
}

static void write_answers(struct td_jw *w, const struct td_side *side)
{
    size_t i;

    td_jw_arr(w, "answers");
    for (i = 0; i < side->n_xs; i++) {
        const struct td_exchange *x = &side->xs[i];
        struct td_buf text = TD_BUF_INIT(1 << 16);

        td_excerpt(x->text ? x->text : "", x->text_len, 0, 0, EXCERPT_BYTES, &text);
        td_jw_obj(w, NULL);
        td_jw_cstr(w, "prompt_id", x->prompt_id);
        td_jw_cstr(w, "error", x->error);
        td_jw_str(w, "text", td_buf_str(&text), text.len);
        td_jw_end(w);
        td_buf_release(&text);
    }
    td_jw_end(w);
}

/* The rules stand as a lane, so that every format shows them as it shows lanes. */
static void write_lane(struct td_jw *w, const struct td_smoke *s, const char *verdict)
{
    td_jw_obj(w, "lanes");
    td_jw_obj(w, "smoke");
    td_jw_bool(w, "asked", true);
    td_jw_cstr(w, "verdict", verdict);
    td_jw_cstr(w, "headline", *s->first ? s->first : "every prompt was answered soundly");
    td_jw_arr(w, "notes");
    if (*s->first) {
        td_jw_obj(w, NULL);
        td_jw_cstr(w, "verdict", verdict);
        td_jw_cstr(w, "text", s->first);
        td_jw_end(w);
    }
    td_jw_end(w);
    td_jw_end(w);
    td_jw_end(w);
}

static void write_figures(struct td_jw *w, const struct td_smoke *s, const struct td_side *side)
{
    td_jw_obj(w, "smoke");
    td_jw_i64(w, "prompts", (int64_t)s->prompts);
    td_jw_i64(w, "ok", (int64_t)s->ok);
    td_jw_i64(w, "errors", (int64_t)s->errors);
    td_jw_i64(w, "collapsed", (int64_t)s->collapsed);
    td_jw_i64(w, "empty", (int64_t)s->empty);
    td_jw_num_or_null(w, "ttft_p50_ms", s->ttft_p50_ns / 1e6);
    td_jw_num_or_null(w, "tokens_per_s", s->tokens_per_s);
    write_answers(w, side);
    td_jw_end(w);
}

static void write_side(struct td_jw *w, const struct td_side *side, const char *recording)
{
    const cJSON *server = td_json_get(td_fixture_manifest(side->fx), "server");

    td_jw_arr(w, "fixtures");
    td_jw_obj(w, NULL);
    td_jw_cstr(w, "role", td_role_key(TD_NEW));
    td_jw_i64(w, "round", 0);
    td_jw_cstr(w, "dir", recording);
    td_jw_cstr(w, "id", td_fixture_id(side->fx));
    td_jw_i64(w, "exchanges", (int64_t)side->n_xs);
    if (server)
        td_jw_value(w, "server", server);
    td_jw_end(w);
    td_jw_end(w);
}

static void write_report(struct td_jw *w, const struct td_smoke *s, const struct td_side *side,
                         const char *recording)
{
    static const char *const LISTS[] = {"absent", "not_checked", "next", "accepted"};
    const char *verdict = td_verdict_name(s->verdict),
               *model = td_json_get_str(
                   td_json_get(td_fixture_manifest(side->fx), "server"), "model", "");
    struct td_buf line = TD_BUF_INIT(4096);
    size_t i;

    td_smoke_line(s, model, &line);
    td_jw_obj(w, NULL);
    td_jw_cstr(w, "schema", TD_REPORT_SCHEMA);
    td_jw_cstr(w, "tool", TD_DIFFER_TOOL);
    td_jw_cstr(w, "verdict", verdict);
    td_jw_i64(w, "exit", td_verdict_exit(s->verdict));
    td_jw_cstr(w, "headline", td_report_headline(verdict, false));
    td_jw_cstr(w, "cause", s->verdict == TD_BROKEN ? s->first : NULL);
    td_jw_str(w, "line", td_buf_str(&line), line.len);
    td_jw_null(w, "names");
    td_jw_null(w, "answers");
    td_jw_null(w, "speed_change");
    write_side(w, side, recording);
    write_lane(w, s, verdict);
    for (i = 0; i < sizeof LISTS / sizeof LISTS[0]; i++) {
        td_jw_arr(w, LISTS[i]);
        td_jw_end(w);
    }
    write_figures(w, s, side);
    td_jw_end(w);
    td_buf_release(&line);
}

/* The end of an interrupted recording cuts off what is in flight: that is not the server's. */
static void excuse_cut_off(struct td_side *side)
{
    size_t i;

    if (strcmp(td_json_get_str(td_fixture_manifest(side->fx), "state", ""), "interrupted") != 0)
        return;
    for (i = 0; i < side->n_xs; i++) {
        struct td_exchange *x = &side->xs[i];

        if (!x->error_kind || strcmp(x->error_kind, "cut") != 0)
            continue;
        free(x->error_kind);
        x->error_kind = td_strdup(TD_ERROR_UNSEEN);
    }
}

/* A recording that this machine could not make says nothing of the server. */
static void check_state(const struct td_side *side, struct td_smoke *s)
{
    const cJSON *m = td_fixture_manifest(side->fx);
    char words[TD_STATE_WORDS];

    if (strcmp(td_json_get_str(m, "state", ""), "failed") != 0)
        return;
    s->verdict = TD_BROKEN;
    snprintf(s->first, sizeof s->first, "%.280s", td_fixture_state_words(m, words));
}

/* A recording that was stopped holds fewer answers than were planned: that those are sound says
 * nothing of the others. */
static void check_plan(const struct td_side *side, struct td_smoke *s)
{
    const cJSON *m = td_fixture_manifest(side->fx);
    struct td_planned p;
    char words[TD_STATE_WORDS];
    int64_t seen = 0;
    size_t i;

    td_planned_read(side->fx, &p);
    for (i = 0; i < side->n_xs; i++)
        seen += side->xs[i].phase == TD_PHASE_TIMED;
    if (s->verdict != TD_PASS || seen >= p.timed)
        return;
    s->verdict = TD_BROKEN;
    snprintf(s->first, sizeof s->first, "the recording holds %lld of %lld planned answers: %.200s",
             (long long)seen, (long long)p.timed, td_fixture_state_words(m, words));
}

/* llama.cpp's "49152 vocab, 134515008 params, ..."; 0: not stated. */
static int64_t vocab_of(const struct td_side *side)
{
    const char *meta = td_json_get_str(td_json_get(td_fixture_manifest(side->fx), "server"), "model_meta", "");
    char *end;
    const long long n = strtoll(meta, &end, 10);

    return n > 0 && !strncmp(end, " vocab", 6) ? n : 0;
}

cJSON *td_judge_smoke(const char *recording)
{
    struct td_buf text = TD_BUF_INIT(1 << 20);
    struct td_error err = {0, ""};
    struct td_side side;
    struct td_smoke s;
    cJSON *report = NULL;
    struct td_jw w;

    if (td_side_open(recording, TD_NEW, 0, &side, &err) || td_side_check(&side, &err) ||
        td_fixture_exchanges(side.fx, &side.xs, &side.n_xs, &side.bad_frames, &err)) {
        td_side_close(&side);
        return broken_smoke(recording, &err);
    }
    excuse_cut_off(&side);
    td_smoke_check(side.xs, side.n_xs, vocab_of(&side), &s);
    check_plan(&side, &s);
    check_state(&side, &s);
    td_jw_init(&w, &text, false);
    write_report(&w, &s, &side, recording);
    if (!text.failed)
        report = td_json_parse(text.data, text.len, &err);
    else
        td_fail(&err, TD_ELIMIT, "the report of the smoke test is too large");
    td_buf_release(&text);
    td_side_close(&side);
    return report ? report : broken_smoke(recording, &err);
}
