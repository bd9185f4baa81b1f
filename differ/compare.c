/* compare.c - compare a baseline with candidates: check, read, measure, judge.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/compare.h"

#include <stdlib.h>

#include "differ/absence.h"
#include "differ/end_marks.h"
#include "differ/lanes.h"
#include "differ/tops.h"
#include "format/fixture_check.h"

static int check_sides(const struct td_comparison *c, struct td_error *err)
{
    const struct td_side *base = &c->side[0];
    size_t i;
    int rc = TD_OK;

    for (i = 1; i < c->n_sides && !rc; i++)
        rc = td_align_check(td_fixture_manifest(base->fx), td_fixture_dir(base->fx),
                            td_fixture_manifest(c->side[i].fx), td_fixture_dir(c->side[i].fx), err);
    for (i = 1; i < c->n_sides && !rc; i++)
        if (c->side[i].role == TD_NEW || c->side[i].role == TD_LIVE)
            rc = td_align_check_origin(td_fixture_manifest(base->fx), td_fixture_dir(base->fx),
                                       td_fixture_manifest(c->side[i].fx), td_fixture_dir(c->side[i].fx), err);
    return rc;
}

/* Refuse sides that have answers, but not one prompt in common: they come from different suites. */
static int check_prompts(const struct td_comparison *c, struct td_error *err)
{
    const struct td_prompt_group *base = NULL, *other = NULL;
    size_t i;

    for (i = 0; i < c->groups.n; i++) {
        const struct td_prompt_group *g = &c->groups.group[i];

        if (g->n[TD_BASE] && g->n[TD_NEW])
            return TD_OK;
        if (g->n[TD_BASE] && !base)
            base = g;
        if (g->n[TD_NEW] && !other)
            other = g;
    }
    if (!base || !other)
        return TD_OK;
    return td_fail(err, TD_EINVAL,
                   "these must not be compared: %s has prompts such as \"%s\", %s has none of them "
                   "but others such as \"%s\"",
                   td_fixture_dir(c->side[0].fx), base->prompt_id, td_fixture_dir(c->side[1].fx),
                   other->prompt_id);
}

static void check_pack(void *arg)
{
    struct td_baseline_pack *p = arg;

    td_fixture_check(p->fx, 1u << TD_FILE_PACK, &p->why);
}

/* Begin where the ops may be judged: then the pack's checksum is asked for, unless a replayed op met damage in it. */
static void begin_pack(struct td_comparison *c)
{
    struct td_file_fact ops;
    bool asked = c->lane[TD_LANE_OPS].asked, any = false;
    int i;

    for (i = 0; i < TD_N_LANES; i++)
        any |= c->lane[i].asked;
    if ((any && !asked) || td_manifest_get_file(td_fixture_manifest(c->side[1].fx), td_file_names[TD_FILE_OPS], &ops) || !ops.records)
        return;
    c->pack.fx = c->side[0].fx;
    td_beside_start(&c->pack.thread, check_pack, &c->pack);
}

/* The baseline's ops, which are read beside the candidate's. */
struct base_load { struct td_comparison *c; size_t bad; int rc; struct td_error err; };

static void load_base(void *arg)
{
    struct base_load *b = arg;

    b->rc = td_judged_ops_load(&b->c->base_ops, b->c->side[0].fx, &b->bad, &b->err);
}

static int load_ops(struct td_comparison *c, struct td_error *err)
{
    struct base_load base = {.c = c};
    struct td_error why = {0};
    struct td_beside thread;
    size_t i;
    int rc = TD_OK;

    td_beside_start(&thread, load_base, &base);
    for (i = 1; i < c->n_sides && !rc; i++)
        if (c->side[i].role == TD_NEW)
            rc = td_judged_ops_load(&c->ops, c->side[i].fx, &c->bad_frames, &why);
    td_beside_wait(&thread, NULL, NULL);
    c->bad_frames += base.bad;
    if (base.rc)
        return td_fail(err, base.rc, "%s", base.err.msg);
    if (rc)
        return td_fail(err, rc, "%s", why.msg);
    td_judged_ops_join(&c->ops, &c->base_ops);
    td_coverage_read(c->side[0].fx, &c->coverage);
    return td_judged_ops_check_origins(&c->ops, err);
}

static int measure_lanes(struct td_comparison *c, struct td_error *err)
{
    int i, rc = TD_OK;

    for (i = 0; i < TD_N_LANES && !rc; i++) {
        struct td_lane *lane = &c->lane[i];

        lane->measured = calloc(1, td_lane_types[i]->measured_size);
        if (!lane->measured)
            return td_fail(err, TD_ENOMEM, "no memory for lane %s", td_lane_name(lane->id));
        rc = td_lane_types[i]->measure(c, lane->measured, err);
    }
    return rc;
}

/* When the user named no lane, ask for those that have evidence, and for those whose evidence was
 * planned and did not come. A lane that was planned is never merely not judged. */
static void ask_where_evidence_is(struct td_comparison *c)
{
    bool any = false;
    int i;

    for (i = 0; i < TD_N_LANES; i++)
        any |= c->lane[i].asked;
    for (i = 0; i < TD_N_LANES; i++) {
        const bool planned = td_absence_is_planned(c, (enum td_lane_id)i);

        if (c->lane[i].may_join && td_lane_types[i]->joins && td_lane_types[i]->joins(c->lane[i].measured))
            c->lane[i].asked = true;
        if (!any)
            c->lane[i].asked = planned || td_lane_types[i]->has_evidence(c->lane[i].measured);
        c->lane[i].by_name |= c->lane[i].asked && planned;
    }
}

static int judge_lanes(struct td_comparison *c, struct td_error *err)
{
    int i, rc;

    td_beside_wait(&c->pack.thread, NULL, NULL);
    rc = td_absences_measure(c, &c->absent, err);
    for (i = 0; i < TD_N_LANES; i++)
        if (c->lane[i].asked) {
            td_lane_types[i]->judge(c, &c->lane[i]);
            td_absences_judge(&c->absent, &c->lane[i]);
        }
    c->verdict = td_lanes_verdict(c->lane);
    return rc;
}

int td_compare(struct td_comparison *c, struct td_error *err)
{
    size_t i;
    int rc = check_sides(c, err);

    if (!rc)
        td_end_marks_judge(c->side, c->n_sides);
    if (!rc)
        begin_pack(c);
    if (!rc)
        rc = td_align_exchanges(c->side, c->n_sides, &c->groups, err);
    if (!rc)
        rc = td_groups_of_first_rounds(&c->groups, &c->compared, err);
    if (!rc)
        rc = check_prompts(c, err);
    if (!rc)
        rc = td_tops_fetch(c->side, c->n_sides, &c->compared, err);
    for (i = 0; i < c->n_sides; i++)
        c->bad_frames += c->side[i].bad_frames;
    if (!rc)
        rc = load_ops(c, err);
    if (!rc)
        rc = measure_lanes(c, err);
    if (rc)
        return rc;
    ask_where_evidence_is(c);
    return judge_lanes(c, err);
}

void td_comparison_release(struct td_comparison *c)
{
    size_t i;

    td_beside_wait(&c->pack.thread, NULL, NULL);
    for (i = 0; i < TD_N_LANES; i++) {
        if (c->lane[i].measured && td_lane_types[i]->release)
            td_lane_types[i]->release(c->lane[i].measured);
        free(c->lane[i].measured);
        c->lane[i].measured = NULL;
    }
    td_judged_ops_release(&c->ops);
    td_judged_ops_release(&c->base_ops);
    td_groups_release(&c->groups);
    td_groups_release(&c->compared);
    td_absences_release(&c->absent);
    td_lanes_release(c->lane);
    for (i = 0; i < c->n_sides; i++)
        td_side_close(&c->side[i]);
    free(c->side);
}
