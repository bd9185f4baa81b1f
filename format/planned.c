/* planned.c - what a fixture was meant to hold, and what its state says about it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/planned.h"

#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "format/fixture.h"
#include "format/manifest.h"

#define PLAN "plan"
#define SEEN "seen"
#define MOST 1000000000000LL /* no plan is larger: figures can be added without overflow */

static int64_t figure(const cJSON *section, const char *name)
{
    int64_t n = td_json_get_i64(section, name, TD_PLAN_UNKNOWN);

    return n < 0 ? TD_PLAN_UNKNOWN : n > MOST ? MOST : n;
}

static int64_t times(int64_t a, int64_t b)
{
    return a < 0 || b < 0 ? TD_PLAN_UNKNOWN : a && b > MOST / a ? MOST : a * b;
}

/* Older fixtures name their suite and how often it was sent; older replays how many requests they
 * sent. An extract without requests keeps those facts, and has none. */
static void infer_plan(const struct td_fixture *fx, struct td_planned *out)
{
    const cJSON *m = td_fixture_manifest(fx), *suite = td_json_get(m, "suite"),
                *replay = td_json_get(m, "replay");
    struct td_file_fact xs;

    if (replay || td_json_get(m, "merge")) {
        out->timed = figure(replay, "requests");
        return;
    }
    if (td_json_get(m, "extract") &&
        (td_manifest_get_file(m, td_file_names[TD_FILE_EXCHANGES], &xs) || !xs.records))
        return;
    out->prompts = figure(suite, "prompts");
    out->repeats = figure(suite, "repeat");
    out->timed = times(out->prompts, out->repeats);
    out->tapped = td_json_get_bool(td_json_get(m, "tap"), "present", false)
                      ? times(out->prompts, figure(td_json_get(m, "options"), "tapped_repeat"))
                      : 0;
}

void td_planned_read(const struct td_fixture *fx, struct td_planned *out)
{
    const cJSON *m = td_fixture_manifest(fx), *plan = td_json_get(m, PLAN);

    *out = (struct td_planned){.stated = cJSON_IsObject(plan),
                               .prompts = TD_PLAN_UNKNOWN,
                               .repeats = TD_PLAN_UNKNOWN,
                               .timed = TD_PLAN_UNKNOWN,
                               .tapped = TD_PLAN_UNKNOWN,
                               .scores = TD_PLAN_UNKNOWN,
                               .ops = TD_PLAN_UNKNOWN};
    if (!out->stated) {
        infer_plan(fx, out);
        return;
    }
    out->failures_allowed = td_json_get_bool(plan, "failures_allowed", false);
    out->prompts = figure(plan, "prompts");
    out->repeats = figure(plan, "repeats");
    out->timed = figure(plan, "timed");
    out->tapped = figure(plan, "tapped");
    out->scores = figure(plan, "scores");
    out->ops = figure(plan, "ops");
    out->lost = figure(plan, "lost");
    if (out->lost < 0)
        out->lost = 0;
}

int64_t td_planned_starts(const cJSON *manifest)
{
    const cJSON *plan = td_json_get(manifest, PLAN);
    const int64_t starts = figure(plan, "starts"), repeats = figure(plan, "repeats");

    return starts > 1 && repeats > 0 && !(repeats % starts) ? starts : 1;
}

void td_planned_write(struct td_writer *w, const char *name, int64_t n)
{
    td_writer_fact_num(w, PLAN, name, (double)n);
}

void td_planned_seen(struct td_writer *w, const char *name, int64_t n)
{
    td_writer_fact_num(w, SEEN, name, (double)n);
}

void td_planned_causes(struct td_writer *w, const char *const *causes, int n)
{
    cJSON *list = n > 0 ? cJSON_CreateStringArray(causes, n) : NULL;

    if (list)
        td_writer_fact(w, SEEN, "causes", list);
    cJSON_Delete(list);
}

bool td_fixture_is_whole(const cJSON *manifest)
{
    const char *state = td_json_get_str(manifest, "state", "");

    return !strcmp(state, "complete") || !strcmp(state, "failures_allowed");
}

/* Words from a fixture may hold control characters of a terminal. */
static void make_printable(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7F)
            *s = '?';
}

const char *td_fixture_state_words(const cJSON *manifest, char out[TD_STATE_WORDS])
{
    const char *state = td_json_get_str(manifest, "state", NULL),
               *failure = td_json_get_str(manifest, "failure", NULL), *between = ": ";
    const cJSON *cause;
    size_t n;

    if (!state)
        state = "not stated";
    else if (!strcmp(state, "failures_allowed"))
        state = "failures allowed";
    n = (size_t)snprintf(out, TD_STATE_WORDS, "%.60s", state);
    if (failure)
        n += (size_t)snprintf(out + n, TD_STATE_WORDS - n, "%s%.150s", between, failure);
    if (failure)
        between = "; ";
    cJSON_ArrayForEach(cause, td_json_get(td_json_get(manifest, SEEN), "causes")) {
        if (!cJSON_IsString(cause) || n >= TD_STATE_WORDS - 1)
            continue;
        n += (size_t)snprintf(out + n, TD_STATE_WORDS - n, "%s%.150s", between, cause->valuestring);
        between = "; ";
    }
    make_printable(out);
    return out;
}
