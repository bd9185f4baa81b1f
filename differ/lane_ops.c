/* lane_ops.c - what the ops lane says about what numerics.c measured.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "differ/numerics.h"

static const struct td_judged_op *first_with(const struct td_op_set *s, enum td_op_result r)
{
    size_t i;

    for (i = 0; i < s->n; i++)
        if (s->op[i].status != TD_OP_NONE && s->op[i].result == r)
            return &s->op[i];
    return NULL;
}

static void say_compared(const struct td_numerics *n, struct td_lane *lane)
{
    char place[200];

    if (n->compared)
        td_lane_say(lane, TD_NOT_JUDGED, "%zu ops without reference: bit-equal %zu", n->compared, n->compared_equal);
    if (n->departed && n->first_departs) {
        td_op_place(n->first_departs, place, sizeof place);
        td_lane_say(lane, TD_NOT_JUDGED, "first op that departs under equal input: %s (op %lld)", place, (long long)n->first_departs->op);
    }
    if (n->not_compared)
        td_lane_say(lane, TD_NOT_JUDGED, "%zu ops without reference were not compared (first: %s)", n->not_compared,
                    n->not_compared_first->why);
}

/* What changed, and what that means for how exact the results are. */
static void say_format(const struct td_numerics *n, struct td_lane *lane)
{
    const struct td_op_group *first = NULL;
    double now = NAN, was = NAN;
    char change[200];
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
    td_lane_say(lane, TD_NOT_JUDGED, "%zu ops are computed in another format: %s; each is judged by its own", n->format_changed, change);
    td_lane_say(lane, TD_NOT_JUDGED, "largest relative distance to exact arithmetic: %.3g, before %.3g%s", now, was,
                n->undecided ? "; numerics.accept_format_change in a policy accepts the change" : " (the policy accepts the change)");
}

void td_numerics_judge(const struct td_numerics *n, const struct td_op_set *candidate, size_t ops_recorded, struct td_lane *lane)
{
    if (n->judged == 0 && n->compared) {
        td_lane_no_evidence(lane, "no op with a reference was judged");
        say_compared(n, lane);
        return;
    }
    if (n->judged == 0) {
        if (ops_recorded == 0)
            td_lane_no_evidence(lane, "the fixture holds no ops: record with a tap (record --run -- SERVER ..., or record --tap-env)");
        else if (candidate->n)
            td_lane_no_evidence(lane, "the candidate is a recording of its own: ops are judged by replay --build PATH");
        else
            td_lane_no_evidence(lane, "no op was replayed (replay --build PATH does it; the fixture holds %zu)", ops_recorded);
        return;
    }
    if (n->joined == 0) {
        td_lane_no_evidence(lane, "the replayed ops come from another recording than the baseline");
        return;
    }
    if (n->worse)
        td_lane_say(lane, TD_REGRESSED, "%zu of %zu ops are worse than the baseline", n->worse, n->judged);
    if (n->broken == n->judged)
        td_lane_say(lane, TD_BROKEN, "none of %zu ops could be judged (first: %s)", n->judged,
                    first_with(candidate, TD_RESULT_BROKEN)->why);
    else if (n->broken)
        td_lane_say(lane, TD_INCONCLUSIVE, "%zu of %zu ops could not be judged (first: %s)", n->broken, n->judged,
                    first_with(candidate, TD_RESULT_BROKEN)->why);
    if (n->undecided)
        td_lane_say(lane, TD_INCONCLUSIVE, "%zu of %zu ops are undecided (first: %s)", n->undecided, n->judged,
                    first_with(candidate, TD_RESULT_UNDECIDED)->why);
    if (lane->verdict == TD_NOT_JUDGED)
        td_lane_say(lane, TD_PASS, "no op of %zu is worse%s", n->judged,
                    n->with_total == n->judged && n->bit_equal == n->judged ? "; all are bit-equal" : "");
    if (n->bit_equal < n->judged && n->with_total)
        td_lane_say(lane, TD_NOT_JUDGED, "%zu of %zu ops are bit-equal to the recorded output", n->bit_equal, n->with_total);
    say_format(n, lane);
    say_compared(n, lane);
    td_lane_say(lane, TD_NOT_JUDGED, "covered: %s", n->coverage);
    if (n->not_replayed)
        td_lane_say(lane, TD_NOT_JUDGED, "%zu recorded ops were not replayed", n->not_replayed);
}
