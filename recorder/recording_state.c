/* recording_state.c - what a recording plans, and at its end whether all of it was recorded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/recording_state.h"

#include <stdarg.h>
#include <stdio.h>

#include "format/planned.h"
#include "recorder/ops_causes.h"

/* ---- the plan -------------------------------------------------------------------------------- */

void td_recording_plan_begin(struct td_recording *r)
{
    const struct td_record_options *o = r->opt;
    const int64_t prompts = (int64_t)r->suite.n,
                  texts = o->scores < prompts ? o->scores : prompts;

    td_planned_write(r->writer, "prompts", prompts);
    td_planned_write(r->writer, "repeats", r->load.repeats);
    if (o->starts > 1)
        td_planned_write(r->writer, "starts", o->starts);
    td_planned_write(r->writer, "timed", r->load.requests);
    r->planned_timed = r->load.requests;
    /* Until it is known which answers can be scored, all of them are meant to be. */
    r->planned_scores = td_scores_offered(&r->server) ? texts * TD_SCORES_PASSES : 0;
    td_planned_write(r->writer, "scores", r->planned_scores);
    if (o->allow_failures) {
        cJSON *yes = cJSON_CreateTrue();

        td_writer_fact(r->writer, "plan", "failures_allowed", yes);
        cJSON_Delete(yes);
    }
}

void td_recording_plan_repeat(struct td_recording *r, int64_t repeats)
{
    r->planned_timed = (int64_t)r->suite.n * repeats;
    td_planned_write(r->writer, "repeats", repeats);
    td_planned_write(r->writer, "timed", r->planned_timed);
}

void td_recording_plan_tapped(struct td_recording *r)
{
    r->planned_tapped = r->client ? (int64_t)r->suite.n * r->opt->tapped_repeat : 0;
    td_planned_write(r->writer, "tapped", r->planned_tapped);
}

void td_recording_plan_scores(struct td_recording *r)
{
    r->planned_scores =
        td_scores_offered(&r->server) ? (int64_t)r->scores.n * TD_SCORES_PASSES : 0;
    td_planned_write(r->writer, "scores", r->planned_scores);
}

void td_recording_plan_without_refused(struct td_recording *r)
{
    const int64_t *count = r->scores.count;

    if (!count[TD_SCORED_REFUSED])
        return;
    /* the first one is sent alone: when it is refused, the others are not sent */
    r->planned_scores = count[TD_SCORED] ? r->planned_scores - count[TD_SCORED_REFUSED] : 0;
    td_planned_write(r->writer, "scores", r->planned_scores);
}

/* ---- the end --------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3)))
static void add_cause(struct td_recording_state *s, const char *fmt, ...)
{
    va_list ap;

    if (s->n == TD_RECORDING_CAUSES)
        return;
    va_start(ap, fmt);
    vsnprintf(s->causes[s->n++], sizeof s->causes[0], fmt, ap);
    va_end(ap);
}

static int64_t answered(const struct td_recording *r, enum td_phase phase)
{
    const struct td_phase_summary *p = &r->summary.phase[phase];

    return p->requests - p->failed;
}

/* Name what is missing of one phase. Failed requests and requests that were never sent are told
 * apart: the latter are the recorder's end, not the server's fault. */
static void check_phase(const struct td_recording *r, enum td_phase phase, const char *name,
                        int64_t planned, struct td_recording_state *s)
{
    const struct td_phase_summary *p = &r->summary.phase[phase];

    if (p->failed)
        add_cause(s, "%lld of %lld %s requests failed, the first: %.110s", (long long)p->failed,
                  (long long)planned, name, p->first_error);
    if (p->requests < planned)
        add_cause(s, "%lld of %lld %s requests were not sent", (long long)(planned - p->requests),
                  (long long)planned, name);
}

static void check_scores(const struct td_recording *r, struct td_recording_state *s)
{
    const int64_t failed = r->scores.count[TD_SCORED_FAILED] + r->scores.count[TD_SCORED_UNSEEN],
                  sent = r->scores.count[TD_SCORED] + r->scores.count[TD_SCORED_NAN] + failed;

    if (failed)
        add_cause(s, "%lld of %lld requests to score answers failed, the first: %.110s",
                  (long long)failed, (long long)r->planned_scores, r->scores.why);
    if (sent < r->planned_scores)
        add_cause(s, "%lld of %lld requests to score answers were not sent",
                  (long long)(r->planned_scores - sent), (long long)r->planned_scores);
}

static void check_ops(const struct td_recording *r, struct td_recording_state *s)
{
    struct td_ops_causes causes;

    td_ops_causes_find(r->opt, &r->ops, r->have_ops, r->interrupted || r->server_gone, r->tap_failure, &causes);
    for (int i = 0; i < causes.n; i++)
        add_cause(s, "%s", causes.text[i]);
}

static void write_seen(struct td_recording *r, const struct td_recording_state *s)
{
    const char *causes[TD_RECORDING_CAUSES];
    int i;

    td_planned_seen(r->writer, "timed", answered(r, TD_PHASE_TIMED));
    td_planned_seen(r->writer, "tapped", answered(r, TD_PHASE_TAPPED));
    td_planned_seen(r->writer, "scores", r->scores.count[TD_SCORED]);
    for (i = 0; i < s->n; i++)
        causes[i] = s->causes[i];
    td_planned_causes(r->writer, causes, s->n);
}

void td_recording_state_end(struct td_recording *r, int rc, struct td_recording_state *out)
{
    *out = (struct td_recording_state){.name = "complete"};
    if (r->interrupted)
        add_cause(out, "stopped by a signal");
    if (r->server_gone)
        add_cause(out, "the server ended (%.100s)",
                  *r->started.how ? r->started.how : "it was not started by record");
    check_phase(r, TD_PHASE_TIMED, "timed", r->planned_timed, out);
    check_phase(r, TD_PHASE_TAPPED, "tapped", r->planned_tapped, out);
    check_scores(r, out);
    check_ops(r, out);
    if (r->interrupted || rc)
        out->name = "interrupted";
    else if (out->n)
        out->name = r->opt->allow_failures ? "failures_allowed" : "incomplete";
    write_seen(r, out);
}
