/* report_junit.c - the report as JUnit XML for CI: a case for each lane, and the cases of the
 * lanes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lanes.h"
#include "differ/report_verdict.h"
#include "differ/reports.h"

/* The sentence that stands for a lane: the first one as grave as its verdict. */
static const char *reason_of(const struct td_lane *l)
{
    int j;

    for (j = 0; j < l->n_notes; j++)
        if (l->notes[j].verdict == l->verdict)
            return l->notes[j].text;
    return l->n_notes ? l->notes[0].text : "not asked for";
}

int td_report_junit(const struct td_comparison *c, const char *path, struct td_error *err)
{
    char coverage[TD_COVERAGE_WORDS];
    struct td_junit junit;
    int i, rc;

    td_junit_init(&junit);
    td_coverage_words(&c->coverage, coverage);
    if (c->lane[TD_LANE_OPS].asked && *coverage)
        td_junit_property(&junit, "coverage", coverage);
    for (i = 0; i < TD_N_LANES; i++) {
        const struct td_lane *l = &c->lane[i];

        td_junit_verdict(&junit, "lane", td_lane_name(l->id), l->asked ? l->verdict : TD_NOT_JUDGED,
                         reason_of(l));
    }
    for (i = 0; i < TD_N_LANES; i++)
        if (td_lane_types[i]->add_cases)
            td_lane_types[i]->add_cases(c, &junit);
    rc = td_junit_save(&junit, path, err);
    td_junit_release(&junit);
    return rc;
}
