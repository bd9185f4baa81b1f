/* lane_tokens.c - the lane "tokens": do the candidate's answers equal the baseline's, and if
 * not, can noise explain it?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lane_tokens.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/number_words.h"
#include "differ/comparison.h"
#include "differ/lane_collapse.h"
#include "differ/lane_ops.h"
#include "differ/lane_scores.h"
#include "differ/report_tokens.h"

/* ---- verdict --------------------------------------------------------------------------------- */

static void judge_lost(const struct td_tokens *t, struct td_lane *lane)
{
    char names[400] = "";
    size_t i, len = 0;

    for (i = 0; i < t->n_lost && i < 3; i++)
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%.60s/%d: %.60s", i ? "; " : "",
                                t->lost[i]->prompt_id, t->lost[i]->repeat, t->lost[i]->error);
    td_lane_note(lane, TD_REGRESSED,
                 "%zu of %zu request%s failed where the baseline answered (%s%s)", t->n_lost,
                 t->attempts, td_plural((int64_t)t->attempts), names, t->n_lost > 3 ? "; ..." : "");
}

/* Note where the difference began, when every GEMM is bit-equal to the recorded one and texts
 * differ. */
static void note_where_difference_begins(const struct td_ops_view *ops, struct td_lane *lane)
{
    if (ops->first_departs)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "all %zu GEMMs are bit-equal and texts differ: the difference begins at %s",
                     ops->ops, ops->first_departs);
    else if (ops->compared && ops->compared_equal == ops->compared)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "all %zu GEMMs and all %zu other ops are bit-equal: the difference begins "
                     "elsewhere, in what was not recorded",
                     ops->ops, ops->compared);
    else
        td_lane_note(lane, TD_NOT_JUDGED,
                     "all %zu judged ops are bit-equal: the difference begins elsewhere (record "
                     "--all-ops finds the op)",
                     ops->ops);
}

/* Why the gap of the first fork without one is unknown, and what would help. */
static const char *why_gap_unknown(const struct td_tokens *t)
{
    size_t i = 0;

    while (i + 1 < t->n_forks && !isnan(t->forks[i].gap))
        i++;
    if (!t->n_forks || !t->forks[i].good->logprobs)
        return "record with logprobs";
    if (t->forks[i].at.unit == TD_UNIT_BYTES)
        return "the answers were compared as text, for their tokens are not known on both sides";
    return "the server gave logprobs without alternatives";
}

/* Note why noise does not explain the forks. */
static void note_gaps_and_shares(const struct td_tokens *t, const struct td_policy *policy,
                                 size_t noise_forks, struct td_lane *lane)
{
    if (noise_forks && t->share_p < policy->tokens_alpha)
        td_lane_note(lane, TD_NOT_JUDGED, "more prompts fork than noise explains (p=%.2g)",
                     t->share_p);
    if (noise_forks && t->gap_p < policy->tokens_alpha)
        td_lane_note(
            lane, TD_NOT_JUDGED,
            "%zu of %zu forked prompts have a larger gap than noise's largest, %.3g nats (p=%.2g)",
            t->prompts_over, t->gap_prompts, t->gap_noise, t->gap_p);
    if (t->gaps_hopeless)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "%zu fork%s %s no close call: a gap over %.3g nats, or a choice outside the "
                     "recorded alternatives",
                     t->gaps_hopeless, td_plural((int64_t)t->gaps_hopeless),
                     td_is((int64_t)t->gaps_hopeless), t->gap_limit);
    if (t->gaps_unknown)
        td_lane_note(lane, TD_NOT_JUDGED, "the gap of %zu fork%s is unknown: %s", t->gaps_unknown,
                     td_plural((int64_t)t->gaps_unknown),
                     why_gap_unknown(t));
}

/* Note what the ops show about answers that differ. */
static void note_ops(const struct td_ops_view *ops, struct td_lane *lane)
{
    if (!ops->judged)
        td_lane_note(lane, TD_NOT_JUDGED, "no op was judged");
    else if (ops->ops && ops->bit_equal == ops->ops)
        note_where_difference_begins(ops, lane);
    else
        td_lane_note(lane, TD_NOT_JUDGED, "no judged op is bad");
    if (ops->coverage && *ops->coverage)
        td_lane_note(lane, TD_NOT_JUDGED, "covered: %s", ops->coverage);
}

/* Note, in one line, what a person can do so that the next run decides. */
static void note_what_decides(const struct td_ops_view *ops, bool calibrated, struct td_lane *lane)
{
    const char *ways[3];
    int n = 0;

    if (!ops->judged)
        ways[n++] = "--build DIR (judges the kernels)";
    if (!calibrated)
        ways[n++] = "--calibrate FIXTURE (the replay of an honest build: what rounding alone does)";
    if (ops->judged && !ops->compared)
        ways[n++] = "record --all-ops (finds the op where the difference begins)";
    if (n)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "text alone cannot tell rounding from a bug; what would decide: %s%s%s%s%s",
                     ways[0], n > 1 ? ", " : "", n > 1 ? ways[1] : "", n > 2 ? ", " : "",
                     n > 2 ? ways[2] : "");
}

/* Note that noise does not explain the forks, and neither does anything else. */
static void judge_unexplained(const struct td_tokens *t, const struct td_policy *policy,
                              const struct td_ops_view *ops, size_t noise_forks, bool calibrated,
                              struct td_lane *lane)
{
    td_lane_note(lane, TD_INCONCLUSIVE,
                 "%zu of %zu answer%s (%zu of %zu prompt%s) differ%s from every repeat of the "
                 "baseline",
                 t->n_forks, t->answers, td_plural((int64_t)t->answers), t->prompts_forked,
                 t->prompts, td_plural((int64_t)t->prompts), td_verb((int64_t)t->n_forks));
    if (noise_forks == 0)
        td_lane_note(
            lane, TD_NOT_JUDGED, "%s",
            t->repeats_min < 2 && !calibrated
                ? "the baseline was recorded once per prompt, so it shows no spread: record with "
                  "--repeat 5"
                : "the baseline repeats itself exactly, which says nothing about another build");
    note_gaps_and_shares(t, policy, noise_forks, lane);
    note_ops(ops, lane);
    note_what_decides(ops, calibrated, lane);
}

/* Can noise explain the forks? */
static bool is_like_noise(const struct td_tokens *t, const struct td_policy *policy)
{
    return !isnan(t->gap_noise) && !(t->share_p < policy->tokens_alpha) &&
           !(t->gap_p < policy->tokens_alpha) && t->gaps_hopeless == 0 && t->gaps_unknown == 0;
}

/* Note that no rounding explains the forks. */
static void judge_damage(const struct td_tokens *t, const struct td_damage *d,
                         const struct td_policy *policy, const struct td_ops_view *ops,
                         struct td_lane *lane)
{
    struct td_buf words = TD_BUF_INIT(1024);

    td_damage_words(d, policy, &words);
    if (t->n_forks)
        td_lane_note(lane, TD_REGRESSED,
                     "%zu of %zu answer%s differ%s by more than any rounding explains: %s",
                     t->n_forks, t->answers, td_plural((int64_t)t->answers),
                     td_verb((int64_t)t->n_forks), td_buf_str(&words));
    else
        td_lane_note(lane, TD_REGRESSED,
                     "the texts of all %zu answers are equal, but no rounding explains this: %s",
                     t->answers, td_buf_str(&words));
    td_buf_release(&words);
    note_ops(ops, lane);
}

static void judge_forks(const struct td_tokens_found *found, const struct td_policy *policy,
                        const struct td_ops_view *ops, struct td_lane *lane)
{
    const struct td_tokens *t = &found->tokens;
    size_t i, noise_forks = 0, calibrations = 0;

    for (i = 0; i < t->n_noise; i++) {
        noise_forks += t->noise[i].forks;
        calibrations += i > 0 && t->noise[i].answers > 0;
    }
    if (ops->judged && ops->worse)
        td_lane_note(
            lane, TD_REGRESSED,
            "%zu of %zu answer%s differ%s from every repeat of the baseline, and %zu op%s %s bad",
            t->n_forks, t->answers, td_plural((int64_t)t->answers), td_verb((int64_t)t->n_forks),
            ops->worse, td_plural((int64_t)ops->worse), td_is((int64_t)ops->worse));
    else if (policy->tokens_exact)
        td_lane_note(lane, TD_REGRESSED,
                     "%zu of %zu answer%s differ%s from every repeat of the baseline, and equal "
                     "tokens were asked for (tokens.exact)",
                     t->n_forks, t->answers, td_plural((int64_t)t->answers),
                     td_verb((int64_t)t->n_forks));
    else if (td_damage_found(&found->damage))
        judge_damage(t, &found->damage, policy, ops, lane);
    else if (noise_forks && is_like_noise(t, policy))
        td_lane_note(lane, TD_PASS,
                     "%zu of %zu answer%s differ%s, as noise does: prompts forked %zu of %zu "
                     "(p=%.2g that this is no more than noise), of these with a larger gap "
                     "than noise's largest, %.3g nats, %zu (p=%.2g)",
                     t->n_forks, t->answers, td_plural((int64_t)t->answers),
                     td_verb((int64_t)t->n_forks), t->prompts_forked, t->prompts, t->share_p,
                     t->gap_noise, t->prompts_over, t->gap_p);
    else
        judge_unexplained(t, policy, ops, noise_forks, calibrations > 0, lane);
}

/* Note a live baseline that is broken itself: beside it nothing can pass. */
static void judge_live_baseline(const struct td_departure *live, struct td_lane *lane)
{
    td_lane_note(lane, TD_INCONCLUSIVE,
                 "the live baseline itself departs from the recording by more than rounding explains "
                 "(%zu of %zu prompts fork at a clear call, logprobs are %.3g nats apart, its own "
                 "tokens less likely by %.3g): start it with the build that was recorded",
                 live->clear, live->prompts, live->shift.mean, live->unsure.mean);
}

/* Note what was made of the same tokens. */
static void judge_same_tokens(const struct td_same_tokens *s, const struct td_tokens *t,
                              struct td_lane *lane)
{
    struct td_buf words = TD_BUF_INIT(4096);

    td_same_tokens_words(s, &words);
    if (words.len)
        td_lane_note(lane, TD_REGRESSED, "%s", td_buf_str(&words));
    else
        td_lane_note(lane, t->n_forks ? TD_NOT_JUDGED : TD_PASS,
                     "%zu of %zu answer%s %s the same tokens and another text or end, as the "
                     "baseline's own do",
                     s->n, s->answers, td_plural((int64_t)s->answers), td_has((int64_t)s->n));
    td_buf_release(&words);
}

void td_tokens_judge(const struct td_tokens_found *found, const struct td_policy *policy,
                     const struct td_ops_view *ops, struct td_lane *lane)
{
    const struct td_tokens *t = &found->tokens;

    if (t->attempts == 0) {
        td_lane_no_evidence(
            lane, "the candidate holds no exchanges (replay --server HOST:PORT makes them)");
        return;
    }
    if (t->unreached) {
        td_lane_note(lane, TD_BROKEN, "the candidate's server was never reached: %s",
                     t->n_lost ? t->lost[0]->error : "no connection");
        return;
    }
    if (t->n_lost)
        judge_lost(t, lane);
    if (t->answers == 0 && !t->n_lost) {
        td_lane_note(lane, TD_INCONCLUSIVE,
                     "no answer of the candidate has an answer of the baseline to compare with");
        return;
    }
    if (t->n_forks)
        judge_forks(found, policy, ops, lane);
    else if (t->answers && td_damage_found(&found->damage))
        judge_damage(t, &found->damage, policy, ops, lane);
    else if (t->answers && !found->same.n)
        td_lane_note(lane, TD_PASS, "all %zu answers equal the baseline's", t->answers);
    if (found->same.n)
        judge_same_tokens(&found->same, t, lane);
    if (found->damage.live.prompts)
        judge_live_baseline(&found->damage.live, lane);
    if (t->missing)
        td_lane_note(lane, TD_INCONCLUSIVE, "%zu prompt%s of the baseline %s not replayed",
                     t->missing, td_plural((int64_t)t->missing), td_was((int64_t)t->missing));
    if (t->errors_alike)
        td_lane_note(lane, TD_NOT_JUDGED, "%zu request%s failed as the baseline's did",
                     t->errors_alike, td_plural((int64_t)t->errors_alike));
}

/* What the lane "ops" measured, if it was asked for. `place` is written to. */
static struct td_ops_view view_of_ops(const struct td_comparison *c, char *place, size_t size)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    const struct td_numerics *n = &found->numerics;
    struct td_ops_view view = {
        .judged = c->lane[TD_LANE_OPS].asked && n->judged > n->broken && n->joined > 0,
        .ops = n->judged,
        .worse = n->worse,
        .bit_equal = n->bit_equal,
        .undecided = n->undecided + n->broken,
        .compared = n->compared,
        .compared_equal = n->compared_equal,
    };

    if (n->first_departs) {
        td_op_place(n->first_departs, place, size);
        view.first_departs = place;
    }
    view.coverage = view.judged ? n->coverage : "";
    return view;
}

/* Does it have a NaN where the baseline's have none? */
static bool has_nan(const struct td_exchange *x)
{
    int32_t i;

    for (i = 0; x->logprobs && i < x->n_tokens; i++)
        if (isnan(x->logprobs[i]))
            return true;
    return false;
}

/* Note answers whose logprobs are NaN where the baseline's are numbers: no rule above sees them. The
 * lane "collapse" says so, too, when it was asked for. */
static void judge_nan(const struct td_groups *g, struct td_lane *lane)
{
    const char *first = NULL;
    size_t i, j, n = 0;

    for (i = 0; i < g->n; i++) {
        const struct td_prompt_group *p = &g->group[i];
        bool before = false;

        for (j = 0; j < p->n[TD_BASE]; j++)
            before |= has_nan(p->by_role[TD_BASE][j].x);
        for (j = 0; j < p->n[TD_NEW] && p->n[TD_BASE] && !before; j++)
            if (has_nan(p->by_role[TD_NEW][j].x)) {
                first = first ? first : p->prompt_id;
                n++;
            }
    }
    if (n)
        td_lane_note(lane, TD_REGRESSED,
                     "%zu answers have NaN logprobs where the baseline's are numbers; first: %.80s",
                     n, first);
}

static void judge_tokens(const struct td_comparison *c, struct td_lane *lane)
{
    const struct td_tokens *t = lane->measured;
    const struct td_rescore *scores = c->lane[TD_LANE_SCORES].measured;
    char place[200], words[400];
    const struct td_ops_view view = view_of_ops(c, place, sizeof place);

    td_tokens_judge(lane->measured, &c->policy, &view, lane);
    if (!c->lane[TD_LANE_COLLAPSE].asked)
        judge_nan(&c->compared, lane);
    /* Behind a fork the texts cannot be compared, but the recorded answer was scored to its end.
     * This is information: it never turns forks into a pass (docs/verdicts.md). */
    if (lane->verdict == TD_INCONCLUSIVE && t->n_forks && scores->n) {
        td_rescore_words(scores, words, sizeof words);
        td_lane_note(lane, TD_NOT_JUDGED, "%s", words);
    }
}

static int measure_tokens(struct td_comparison *c, void *measured, struct td_error *err)
{
    struct td_tokens_found *found = measured;
    int rc = td_tokens_measure(&c->compared, &c->policy, &found->tokens, err);

    if (!rc)
        td_damage_measure(&c->compared, &c->policy, &found->tokens, &found->damage);
    if (!rc)
        rc = td_same_tokens_measure(&c->compared, &c->policy, &found->same, err);
    return rc;
}

static void release_tokens(void *measured)
{
    struct td_tokens_found *found = measured;

    td_tokens_release(&found->tokens);
    td_same_tokens_release(&found->same);
}

static bool has_exchanges(const void *measured)
{
    const struct td_tokens *t = measured;

    return t->attempts > 0;
}

static void add_token_figures(const struct td_comparison *c, struct td_buf *line)
{
    const struct td_tokens_found *found = c->lane[TD_LANE_TOKENS].measured;
    const struct td_tokens *t = &found->tokens;

    if (!c->lane[TD_LANE_TOKENS].asked || !t->attempts)
        return;
    td_buf_addf(line, " tokens=%zu/%zu", t->n_forks, t->answers);
    if (found->same.n)
        td_buf_addf(line, " unlike=%zu/%zu", found->same.n, t->answers);
    if (t->n_lost)
        td_buf_addf(line, " lost=%zu/%zu", t->n_lost, t->attempts);
}

const struct td_lane_type td_lane_tokens = {
    .judges = TD_REPLAYED_ANSWERS,
    .measured_size = sizeof(struct td_tokens_found),
    .measure = measure_tokens,
    .release = release_tokens,
    .has_evidence = has_exchanges,
    .headline = td_tokens_headline,
    .judge = judge_tokens,
    .add_answer_figures = add_token_figures,
    .write_json = td_tokens_write_json,
};
