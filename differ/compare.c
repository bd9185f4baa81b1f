/* compare.c - run the lanes over aligned fixtures and join their verdicts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/compare.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"

static int check_sides(const struct td_weighing *w, struct td_error *err)
{
    const struct td_side *base = &w->side[0];
    size_t i;
    int rc = TD_OK;

    for (i = 1; i < w->n_sides && !rc; i++)
        rc = td_align_check(td_fixture_manifest(base->fx), td_fixture_dir(base->fx), td_fixture_manifest(w->side[i].fx),
                            td_fixture_dir(w->side[i].fx), err);
    return rc;
}

/* Answers on both sides, but not one prompt in common: another suite. */
static int check_prompts(const struct td_weighing *w, struct td_error *err)
{
    const struct td_prompt_group *base = NULL, *other = NULL;
    size_t i;

    for (i = 0; i < w->groups.n; i++) {
        const struct td_prompt_group *g = &w->groups.group[i];

        if (g->n[TD_BASE] && g->n[TD_NEW])
            return TD_OK;
        if (g->n[TD_BASE] && !base)
            base = g;
        if (g->n[TD_NEW] && !other)
            other = g;
    }
    if (!base || !other)
        return TD_OK;
    return td_fail(err, TD_EINVAL, "these must not be compared: %s has prompts such as \"%s\", %s has none of them but others such as \"%s\"",
                   td_fixture_dir(w->side[0].fx), base->prompt_id, td_fixture_dir(w->side[1].fx), other->prompt_id);
}

static int load_ops(struct td_weighing *w, struct td_error *err)
{
    size_t i;
    int rc = td_op_set_load(&w->base_ops, w->side[0].fx, &w->bad_frames, err);

    for (i = 1; i < w->n_sides && !rc; i++)
        if (w->side[i].role == TD_NEW)
            rc = td_op_set_load(&w->ops, w->side[i].fx, &w->bad_frames, err);
    if (rc)
        return rc;
    td_op_set_join(&w->ops, &w->base_ops);
    td_coverage_read(w->side[0].fx, &w->coverage);
    return TD_OK;
}

/* Without --lanes: what there is evidence for. */
static void choose_lanes(struct td_weighing *w)
{
    bool any = false;
    int i;

    for (i = 0; i < TD_N_LANES; i++)
        any |= w->lane[i].asked;
    if (any)
        return;
    w->lane[TD_LANE_TOKENS].asked = w->lane[TD_LANE_COLLAPSE].asked = w->tokens.attempts > 0;
    w->lane[TD_LANE_SCORES].asked = w->rescore.n + w->rescore.n_nan + w->rescore.n_failed > 0;
    w->lane[TD_LANE_OPS].asked = w->numerics.judged + w->numerics.compared > 0;
    w->lane[TD_LANE_SPEED].asked = w->speed.op_pairs > 0 || w->speed.server_judged;
}

static void blame(struct td_weighing *w)
{
    struct td_step *steps = NULL;
    size_t n = 0, bad = 0;
    struct td_error ignored = {0, ""};

    w->blamed = td_blame_ops(&w->ops, &w->blame);
    if (!w->blamed || td_fixture_steps(w->side[0].fx, &steps, &n, &bad, &ignored) != TD_OK)
        return; /* no steps: the place stays unknown */
    td_blame_place(&w->blame, steps, n, w->side[0].xs, w->side[0].n_xs);
    td_steps_free(steps, n);
}

/* What cannot be read any more was not compared: never a pass. */
static void judge_damage(struct td_weighing *w)
{
    const char *next = "fixture verify DIR names them, fixture repair DIR derives what it can";
    size_t i, exchanges = 0;

    for (i = 0; i < w->n_sides; i++)
        exchanges += w->side[i].bad_frames;
    for (i = TD_LANE_TOKENS; exchanges && i <= TD_LANE_SCORES; i++)
        if (w->lane[i].asked)
            td_lane_say(&w->lane[i], TD_INCONCLUSIVE, "%zu frames of exchanges are corrupt and were not compared (%s)", exchanges, next);
    if (w->bad_frames > exchanges && w->lane[TD_LANE_OPS].asked)
        td_lane_say(&w->lane[TD_LANE_OPS], TD_INCONCLUSIVE, "%zu frames of ops are corrupt and were not judged (%s)",
                    w->bad_frames - exchanges, next);
}

/* Behind a fork the texts say nothing, but the recorded one was scored to its end. This informs: it never makes a pass of forks (docs/verdicts.md). */
static void support_forks(struct td_weighing *w)
{
    char words[400];

    td_rescore_words(&w->rescore, words, sizeof words);
    td_lane_say(&w->lane[TD_LANE_TOKENS], TD_NOT_JUDGED, "%s", words);
}

/* No verdict is about ops that are not in the fixture: the reader should know how many those are. */
static void say_coverage(const struct td_coverage *c, struct td_lane *lane)
{
    char words[TD_COVERAGE_WORDS];

    td_coverage_words(c, words);
    if (*words)
        td_lane_say(lane, TD_NOT_JUDGED, "%s", words);
}

static void judge(struct td_weighing *w)
{
    struct td_ops_view view = {0};
    struct td_lane *tokens = &w->lane[TD_LANE_TOKENS], *ops = &w->lane[TD_LANE_OPS];
    struct td_lane unheard = {0};
    char born[200];
    int i;

    view.judged = ops->asked && w->numerics.judged > w->numerics.broken && w->numerics.joined > 0;
    view.ops = w->numerics.judged;
    view.worse = w->numerics.worse;
    view.undecided = w->numerics.undecided + w->numerics.broken;
    view.bit_equal = w->numerics.bit_equal;
    view.compared = w->numerics.compared;
    view.compared_equal = w->numerics.compared_equal;
    if (w->numerics.first_departs) {
        td_op_place(w->numerics.first_departs, born, sizeof born);
        view.born = born;
    }
    view.coverage = view.judged ? w->numerics.coverage : "";
    td_tokens_judge(&w->tokens, &w->policy, &view, tokens->asked ? tokens : &unheard);
    td_collapse_judge(&w->collapses, w->lane[TD_LANE_COLLAPSE].asked ? &w->lane[TD_LANE_COLLAPSE] : &unheard);
    td_rescore_judge(&w->rescore, &w->policy, w->lane[TD_LANE_SCORES].asked ? &w->lane[TD_LANE_SCORES] : &unheard);
    if (tokens->asked && tokens->verdict == TD_INCONCLUSIVE && w->tokens.n_forks && w->rescore.n)
        support_forks(w);
    td_numerics_judge(&w->numerics, &w->ops, w->base_ops.n, ops->asked ? ops : &unheard);
    td_speed_judge(&w->speed, &w->policy, w->lane[TD_LANE_SPEED].asked ? &w->lane[TD_LANE_SPEED] : &unheard);
    if (ops->asked)
        say_coverage(&w->coverage, ops);
    judge_damage(w);
    for (i = 0; i < unheard.n_notes; i++)
        free(unheard.notes[i].text);
    w->verdict = td_lanes_verdict(w->lane);
}

int td_compare(struct td_weighing *w, struct td_error *err)
{
    size_t i;
    int rc = check_sides(w, err);

    if (!rc)
        rc = td_align_exchanges(w->side, w->n_sides, &w->groups, err);
    if (!rc)
        rc = check_prompts(w, err);
    for (i = 0; i < w->n_sides; i++)
        w->bad_frames += w->side[i].bad_frames;
    if (!rc)
        rc = load_ops(w, err);
    if (!rc)
        rc = td_tokens_measure(&w->groups, &w->policy, &w->tokens, err);
    if (!rc)
        rc = td_collapse_measure(&w->groups, &w->collapses, err);
    if (!rc)
        rc = td_rescore_measure(w->side, w->n_sides, &w->rescore, err);
    if (!rc)
        rc = td_numerics_measure(&w->ops, &w->base_ops, &w->policy, &w->numerics, err);
    if (!rc)
        rc = td_speed_compare(&w->ops, &w->groups, &w->policy, &w->speed, err);
    if (rc)
        return rc;
    choose_lanes(w);
    judge(w);
    blame(w);
    return TD_OK;
}

void td_weighing_release(struct td_weighing *w)
{
    size_t i;

    td_speed_release(&w->speed);
    td_numerics_release(&w->numerics);
    td_rescore_release(&w->rescore);
    td_collapses_release(&w->collapses);
    td_tokens_release(&w->tokens);
    td_op_set_release(&w->ops);
    td_op_set_release(&w->base_ops);
    td_groups_release(&w->groups);
    td_lanes_release(w->lane);
    for (i = 0; i < w->n_sides; i++)
        td_side_close(&w->side[i]);
    free(w->side);
}
