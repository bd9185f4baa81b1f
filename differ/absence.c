/* absence.c - count what a comparison lacks against what was planned, on every side, for every
 * lane.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/absence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/out_of_memory.h"
#include "differ/absence_type.h"

/* ---- planned at all? ------------------------------------------------------------------------- */

static bool plans(const struct td_side *s, enum td_lane_id lane)
{
    const cJSON *m = td_fixture_manifest(s->fx);
    struct td_planned p;

    td_planned_read(s->fx, &p);
    switch (lane) {
    case TD_LANE_TOKENS:
    case TD_LANE_COLLAPSE: return p.timed > 0 || p.tapped > 0;
    case TD_LANE_SCORES: return p.scores > 0;
    case TD_LANE_OPS: return p.ops > 0;
    case TD_LANE_SPEED: return p.ops > 0 && td_json_get(td_json_get(m, "replay"), "baseline_build");
    default: return false;
    }
}

/* What a replay plans follows from the recording. Two recordings may hold different things. */
bool td_absence_is_planned(const struct td_comparison *c, enum td_lane_id lane)
{
    size_t i;

    for (i = 0; i < c->n_sides; i++)
        if (c->side[i].role == TD_NEW &&
            td_json_get(td_fixture_manifest(c->side[i].fx), "replay") && plans(&c->side[i], lane))
            return true;
    return false;
}

/* ---- counting -------------------------------------------------------------------------------- */

static int add_absent(struct td_absences *a, const struct td_absent *one, const char *text,
                      struct td_error *err)
{
    struct td_absent *more = realloc(a->list, (a->n + 1) * sizeof *more);

    if (more)
        a->list = more;
    if (!more || !(a->list[a->n] = *one, a->list[a->n].text = td_strdup(text)))
        return td_fail(err, TD_ENOMEM, "no memory to note what is absent");
    a->n++;
    return TD_OK;
}

static void make_sentence(const struct td_absence_type *t, const struct td_side *s,
                          const struct td_absence_count *n, char *out, size_t size)
{
    static const char *const SIDE[TD_N_ROLES] = {"baseline", "live baseline", "candidate",
                                                 "calibration"};

    char round[24] = "";

    if (s->round)
        snprintf(round, sizeof round, ", round %d,", s->round);
    if (*n->say)
        snprintf(out, size, "%s", n->say);
    else
        snprintf(out, size, "the %s%s holds %lld of %lld planned %s%s%s", SIDE[s->role], round,
                 (long long)n->seen, (long long)n->planned, t->noun, *n->why ? ": " : "", n->why);
}

/* Count one line of the table for one fixture, and note it for each lane that was asked for. */
static int count_one(const struct td_comparison *c, const struct td_absence_type *t,
                     const struct td_side *s, const struct td_planned *p, struct td_absences *out,
                     struct td_error *err)
{
    struct td_absence_count n = {0};
    char text[900];
    int i, rc = TD_OK;

    t->count(c, s, p, &n);
    if (n.seen >= n.planned)
        return TD_OK;
    make_sentence(t, s, &n, text, sizeof text);
    for (i = 0; i < TD_N_LANES && !rc; i++)
        if (c->lane[i].asked && t->lanes >> i & 1)
            rc = add_absent(out,
                            &(struct td_absent){.what = t->name,
                                                .lane = (enum td_lane_id)i,
                                                .role = s->role,
                                                .round = s->round,
                                                .planned = n.planned,
                                                .seen = n.seen,
                                                .verdict = t->verdict},
                            text, err);
    return rc;
}

int td_absences_measure(const struct td_comparison *c, struct td_absences *out,
                        struct td_error *err)
{
    size_t i, k;
    int rc = TD_OK;

    for (i = 0; i < c->n_sides && !rc; i++) {
        struct td_planned p;

        td_planned_read(c->side[i].fx, &p);
        for (k = 0; k < td_n_absence_types && !rc; k++)
            if (td_absence_types[k].roles >> c->side[i].role & 1)
                rc = count_one(c, &td_absence_types[k], &c->side[i], &p, out, err);
    }
    return rc;
}

/* ---- results --------------------------------------------------------------------------------- */

void td_absences_judge(const struct td_absences *a, struct td_lane *lane)
{
    size_t i;

    for (i = 0; i < a->n; i++)
        if (a->list[i].lane == lane->id)
            td_lane_note(lane, a->list[i].verdict, "%s", a->list[i].text);
}

void td_absences_write(const struct td_absences *a, struct td_jw *w)
{
    size_t i;

    td_jw_arr(w, "absent");
    for (i = 0; i < a->n; i++) {
        const struct td_absent *x = &a->list[i];

        td_jw_obj(w, NULL);
        td_jw_cstr(w, "what", x->what);
        td_jw_cstr(w, "lane", td_lane_name(x->lane));
        td_jw_cstr(w, "side", td_role_key(x->role));
        td_jw_i64(w, "round", x->round);
        td_jw_i64(w, "planned", x->planned);
        td_jw_i64(w, "seen", x->seen);
        td_jw_cstr(w, "verdict",
                   x->verdict == TD_NOT_JUDGED ? "note" : td_verdict_name(x->verdict));
        td_jw_cstr(w, "text", x->text);
        td_jw_end(w);
    }
    td_jw_end(w);
}

void td_absences_release(struct td_absences *a)
{
    while (a->n)
        free(a->list[--a->n].text);
    free(a->list);
    *a = (struct td_absences){0};
}
