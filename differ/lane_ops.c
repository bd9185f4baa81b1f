/* lane_ops.c - the lane "ops": does every replayed op compute what the baseline's did, and which
 * one went wrong first?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lane_ops.h"

#include <math.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/number_words.h"
#include "common/replay_args.h"
#include "differ/comparison.h"
#include "differ/op_variety_notes.h"
#include "differ/report_blame.h"
#include "differ/report_ops.h"

#define MOST_BIAS_NOTES 4

/* What is said of the first op with that result. */
static const char *why_of_first(const struct td_judged_ops *s, enum td_op_result r)
{
    size_t i;

    for (i = 0; i < s->n; i++)
        if (s->op[i].status != TD_OP_NONE && s->op[i].result == r)
            return s->op[i].why;
    return "no reason given";
}

/* What is said of the first op that is broken for another reason than damage. */
static const char *why_first_broken(const struct td_judged_ops *s)
{
    size_t i;

    for (i = 0; i < s->n; i++)
        if (s->op[i].status != TD_OP_NONE && s->op[i].result == TD_RESULT_BROKEN &&
            !s->op[i].damaged)
            return s->op[i].why;
    return "no reason given";
}

static void note_halves(const struct td_numerics *n, struct td_lane *lane)
{
    for (int i = 0; i < 2; i++)
        if (n->halves_refused[i])
            td_lane_note(lane, TD_NOT_JUDGED,
                         "the %s build declares sums in halves of blocks of %lld; fewer than 32 are not taken: it is "
                         "judged as if it declared none",
                         i ? "new" : "baseline", (long long)n->halves_refused[i]);
    if (n->halves)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "a kernel of %zu op%s keeps its sums in halves, as it declares, and what it is compared with does "
                     "not: right sums in halves (error %.3g at the worst) stand beside it",
                     n->halves, td_plural((int64_t)n->halves), n->halves_score);
}

static void note_runs(const struct td_numerics *n, struct td_lane *lane)
{
    const struct td_judged_group *g = n->vary_as_baseline_first;
    char words[240];

    if (n->repeats.less) {
        td_repeats_words(&n->repeats.group[0], words, sizeof words);
        td_lane_note(lane, TD_NOT_JUDGED, "results repeat less often than the baseline's in %zu of %zu groups (first: %s)",
                     n->repeats.less, n->repeats.n, words);
    }
    if (n->vary_newly)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "%zu of %zu op%s differ%s between runs, and the baseline's repeat bit for bit: by %.2g roundings at "
                     "most, as sums in any order do (numerics.must_repeat in a policy forbids it)",
                     n->vary_newly, n->judged, td_plural((int64_t)n->judged), td_verb((int64_t)n->vary_newly),
                     n->vary_newly_spread);
    if (n->ran_once)
        td_lane_note(lane, TD_INCONCLUSIVE,
                     "the policy has numerics.must_repeat, and %zu of %zu op%s ran once: nothing says whether results repeat "
                     "(" TD_MORE_RUNS ")",
                     n->ran_once, n->judged, td_plural((int64_t)n->judged));
    if (g)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "%zu op%s differ%s between runs and did not in the baseline, whose %s differs in "
                     "%zu of %zu: judged by their errors alone",
                     n->vary_as_baseline, td_plural((int64_t)n->vary_as_baseline),
                     td_verb((int64_t)n->vary_as_baseline), g->kind, g->runs.old_varied, g->runs.ops);
}

static void note_compared(const struct td_numerics *n, struct td_lane *lane)
{
    char place[200];

    if (n->compared)
        td_lane_note(lane, TD_NOT_JUDGED, "%zu op%s without reference: bit-equal %zu", n->compared,
                     td_plural((int64_t)n->compared), n->compared_equal);
    if (n->departed && n->first_departs) {
        td_op_place(n->first_departs, place, sizeof place);
        td_lane_note(lane, TD_NOT_JUDGED, "first op that departs under equal input: %s (op %lld)",
                     place, (long long)n->first_departs->op);
    }
    if (n->not_compared)
        td_lane_note(lane, TD_NOT_JUDGED, "%zu op%s without reference %s not compared (first: %s)",
                     n->not_compared, td_plural((int64_t)n->not_compared),
                     td_was((int64_t)n->not_compared), n->not_compared_first->why);
}

/* The clearest findings of bias; the report has all. */
static void note_bias(const struct td_bias *b, struct td_lane *lane)
{
    char words[160], place[240];
    size_t i;

    for (i = 0; i < b->n && i < MOST_BIAS_NOTES; i++) {
        td_bias_words(&b->found[i], words, sizeof words);
        td_bias_place(&b->found[i], place, sizeof place);
        td_lane_note(lane, TD_REGRESSED, "%s (%s)", words, place);
    }
    if (b->n > i)
        td_lane_note(lane, TD_REGRESSED, "%zu more groups of ops are biased or coarser", b->n - i);
}

/* Was a baseline build named? Then it gave no outputs where none are known. */
static bool names_baseline(const struct td_judged_ops *set)
{
    size_t i = 0;

    while (i < set->n && !set->op[i].baseline.present && !set->op[i].baseline_failed)
        i++;
    return i < set->n;
}

/* What digests in the place of outputs lose. */
static void note_digests(const struct td_numerics *n, const struct td_judged_ops *candidate, struct td_lane *lane)
{
    if (n->digests)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "%zu op%s give%s another output than was recorded, of which there is a digest alone (record --outputs "
                     "digest): the limits of their groups hold for them, and bias is judged of the ops with whole outputs; "
                     "%s",
                     n->digests, td_plural((int64_t)n->digests), td_verb((int64_t)n->digests),
                     names_baseline(candidate) ? "the baseline build failed in them" : "--baseline-build PATH gives the old outputs");
}

/* Which ops no test of bias covers, and whether the candidate is the more exact build. */
static void note_bias_tests(const struct td_bias *b, struct td_lane *lane)
{
    if (b->better)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "more exact than the baseline in %zu group%s of ops (first: %s %s, %.2g roundings, before %.2g)",
                     b->better, td_plural((int64_t)b->better), b->better_kind, b->better_shape, b->better_new, b->better_old);
    if (b->groups)
        td_lane_note(lane, TD_NOT_JUDGED, "bias: %zu group%s of ops tested together (%zu ops, %zu tests)", b->groups,
                     td_plural((int64_t)b->groups), b->ops, b->tests);
    if (b->few)
        td_lane_note(lane, TD_NOT_JUDGED, "bias is not judged in %zu group%s of fewer than %d ops with different inputs",
                     b->few, td_plural((int64_t)b->few), TD_BIAS_LEAST_OPS);
    if (b->without)
        td_lane_note(lane, TD_NOT_JUDGED, "bias is not judged of %zu op%s whose errors were not summed over slices",
                     b->without, td_plural((int64_t)b->without));
    if (b->thinned)
        td_lane_note(lane, TD_NOT_JUDGED, "bias is judged of one op in %d, since there are so many", 1 << b->thinned);
}

/* Note which format changed, and how much less or more exact the results are. */
static void note_format(const struct td_numerics *n, struct td_lane *lane)
{
    const struct td_judged_group *first = NULL;
    double now = NAN, was = NAN;
    char change[360];
    size_t i;

    for (i = 0; i < n->n; i++) {
        if (!n->group[i].format_changed)
            continue;
        first = first ? first : &n->group[i];
        now = fmax(now, n->group[i].new_r0);
        was = fmax(was, n->group[i].old_r0);
    }
    if (!first)
        return;
    td_op_rounding_change(first->new_rounding, first->old_rounding, change, sizeof change);
    td_lane_note(lane, TD_NOT_JUDGED,
                 "%zu op%s %s computed in another format: %s; each is judged by its own",
                 n->format_changed, td_plural((int64_t)n->format_changed),
                 td_is((int64_t)n->format_changed), change);
    td_lane_note(lane, TD_NOT_JUDGED,
                 "largest relative distance to exact arithmetic: %.3g, before %.3g%s", now, was,
                 n->format_undecided ? "; numerics.accept_format_change in a policy accepts the change"
                 : n->format_accepted ? " (the policy accepts the change)"
                                      : "");
}

void td_numerics_judge(const struct td_numerics *n, const struct td_judged_ops *candidate,
                       size_t ops_recorded, struct td_lane *lane)
{
    if (n->judged == 0 && n->compared) {
        td_lane_no_evidence(lane, "no op with a reference was judged");
        note_compared(n, lane);
        return;
    }
    if (n->judged == 0) {
        if (ops_recorded == 0)
            td_lane_no_evidence(lane, "the fixture holds no ops: record with a tap (record --run "
                                      "-- SERVER ..., or record --tap-env)");
        else if (candidate->n)
            td_lane_no_evidence(lane, "the candidate is a recording of its own: ops are judged by "
                                      "replay --build PATH");
        else
            td_lane_no_evidence(
                lane, "no op was replayed (replay --build PATH does it; the fixture holds %zu)",
                ops_recorded);
        return;
    }
    if (n->joined == 0) {
        td_lane_no_evidence(lane, "the replayed ops come from another recording than the baseline");
        return;
    }
    if (n->worse)
        td_lane_note(lane, TD_REGRESSED, "%zu of %zu op%s %s bad", n->worse, n->judged,
                     td_plural((int64_t)n->judged), td_is((int64_t)n->worse));
    note_bias(&n->bias, lane);
    if (n->never_ran)
        td_lane_note(lane, TD_BROKEN,
                     "none of %zu op%s came as far as its kernel (%s: %s); all fail alike, so replay "
                     "or the pairing of this build with this fixture is at fault until shown "
                     "otherwise",
                     n->never_ran, td_plural((int64_t)n->never_ran), td_op_status_name(n->never_ran_first->status),
                     n->never_ran_first->reason ? n->never_ran_first->reason : "no reason given");
    else if (n->broken == n->judged && !n->damaged)
        td_lane_note(lane, TD_BROKEN, "none of %zu op%s could be judged (first: %s)", n->judged,
                     td_plural((int64_t)n->judged), why_first_broken(candidate));
    else if (n->broken > n->damaged) /* the damaged ones are an absence of their own */
        td_lane_note(lane, TD_INCONCLUSIVE, "%zu of %zu op%s could not be judged (first: %s)",
                     n->broken - n->damaged, n->judged, td_plural((int64_t)n->judged), why_first_broken(candidate));
    if (n->baseline_bad)
        td_lane_note(lane, TD_INCONCLUSIVE,
                     "the baseline build itself is bad on %zu of %zu op%s, beside what was recorded "
                     "(first: op %lld, error %.3g, recorded %.3g): its errors are no limit; leave "
                     "--baseline-build out, or name the build that was recorded",
                     n->baseline_bad, n->judged, td_plural((int64_t)n->judged), (long long)n->baseline_bad_first->op,
                     n->baseline_bad_first->baseline.score, n->baseline_bad_first->recorded.score);
    if (n->undecided)
        td_lane_note(lane, TD_INCONCLUSIVE, "%zu of %zu op%s %s undecided (first: %s)",
                     n->undecided, n->judged, td_plural((int64_t)n->judged),
                     td_is((int64_t)n->undecided), why_of_first(candidate, TD_RESULT_UNDECIDED));
    if (lane->verdict == TD_NOT_JUDGED && n->judged > n->damaged)
        td_lane_note(lane, TD_PASS, "no op of %zu is bad%s", n->judged - n->damaged,
                     n->with_total == n->judged && n->bit_equal == n->judged ? "; all are bit-equal"
                                                                             : "");
    if (n->bit_equal < n->judged && n->with_total)
        td_lane_note(lane, TD_NOT_JUDGED, "%zu of %zu op%s %s bit-equal to the recorded output",
                     n->bit_equal, n->with_total, td_plural((int64_t)n->with_total),
                     td_is((int64_t)n->bit_equal));
    note_digests(n, candidate, lane);
    note_bias_tests(&n->bias, lane);
    note_halves(n, lane);
    note_runs(n, lane);
    note_format(n, lane);
    note_compared(n, lane);
    td_lane_note(lane, TD_NOT_JUDGED, "covered: %s", n->coverage);
    if (n->not_replayed)
        td_lane_note(lane, TD_NOT_JUDGED, "%zu recorded ops were not replayed", n->not_replayed);
}

/* ---- the lane -------------------------------------------------------------------------------- */

static int measure_ops(struct td_comparison *c, void *measured, struct td_error *err)
{
    struct td_ops_found *found = measured;
    struct td_error ignored = {0, ""};
    struct td_step *steps = NULL;
    size_t n = 0, bad = 0;
    int rc = td_numerics_measure(&c->ops, &c->base_ops, &c->policy, &found->numerics, err);

    if (rc)
        return rc;
    found->blamed = td_blame_ops(&c->ops, &found->blame);
    if (found->blamed && td_fixture_steps(c->side[0].fx, &steps, &n, &bad, &ignored) == TD_OK) {
        td_blame_place(&found->blame, steps, n, c->side[0].xs, c->side[0].n_xs);
        td_steps_free(steps, n);
    } /* without steps it stays unknown which prompt the bad op served */
    return TD_OK;
}

static void release_ops(void *measured)
{
    struct td_ops_found *found = measured;

    td_numerics_release(&found->numerics);
}

static bool has_ops(const void *measured)
{
    const struct td_ops_found *found = measured;

    return found->numerics.judged + found->numerics.compared > 0;
}

/* Who computed the references, where it was not the CPU alone. */
static void note_references(const struct td_comparison *c, struct td_lane *lane)
{
    const char *words;
    size_t i;

    for (i = 0; i < c->n_sides; i++)
        if (c->side[i].role == TD_NEW &&
            (words = td_json_get_str(td_json_get(td_fixture_manifest(c->side[i].fx), "replay"), "references", NULL)))
            td_lane_note(lane, TD_NOT_JUDGED, "references: %.600s", words);
}

static void judge_ops(const struct td_comparison *c, struct td_lane *lane)
{
    const struct td_ops_found *found = lane->measured;
    char words[TD_COVERAGE_WORDS];

    td_numerics_judge(&found->numerics, &c->ops, c->base_ops.n, lane);
    note_references(c, lane);
    td_coverage_words(&c->coverage, words); /* ops that no verdict covers */
    if (*words)
        td_lane_note(lane, TD_NOT_JUDGED, "%s", words);
    if (found->numerics.judged && c->n_sides > 1)
        td_op_variety_notes(td_json_get(td_json_get(td_fixture_manifest(c->side[1].fx), "replay"), "variety"), lane);
}

static void add_op_figures(const struct td_comparison *c, struct td_buf *line)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;

    if (c->lane[TD_LANE_OPS].asked && found->numerics.judged)
        td_buf_addf(line, " ops=%zu/%zu", found->numerics.worse, found->numerics.judged);
}

static void add_first_bad_op(const struct td_comparison *c, struct td_buf *line)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    const struct td_judged_op *first = found->blame.first;

    if (c->lane[TD_LANE_OPS].asked && found->blamed)
        td_buf_addf(line, " first=%s/%s", first->layer ? first->layer : "?", first->kind);
}

static void write_ops(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;

    td_ops_write_json(w, c, &found->numerics);
    td_blame_write_json(w, c->lane[TD_LANE_OPS].asked && found->blamed ? &found->blame : NULL,
                        &c->ops);
}

static void write_headline(const struct td_comparison *c, struct td_buf *out)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;

    td_ops_headline(&c->ops, &found->numerics, found->blamed ? found->blame.first->why : "", out);
}

const struct td_lane_type td_lane_ops = {
    .judges = TD_REPLAYED_OPS,
    .measured_size = sizeof(struct td_ops_found),
    .measure = measure_ops,
    .release = release_ops,
    .has_evidence = has_ops,
    .headline = write_headline,
    .judge = judge_ops,
    .add_op_figures = add_op_figures,
    .add_cause = add_first_bad_op,
    .write_json = write_ops,
};
