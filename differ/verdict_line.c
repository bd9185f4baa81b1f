/* verdict_line.c - the last line of every report: the verdict and the figures of the lanes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lanes.h"
#include "differ/report_advice.h"
#include "differ/reports.h"

/* A subtle bug forks as rounding does: who reads one line must know that no kernel was looked at; and that speed, which was asked
 * for, was not judged. */
static void add_not_checked(const struct td_comparison *c, struct td_buf *out)
{
    const struct td_lane *speed = &c->lane[TD_LANE_SPEED];
    const bool kernels = c->lane[TD_LANE_TOKENS].asked && !c->lane[TD_LANE_OPS].asked,
               no_speed = speed->asked && speed->verdict == TD_NOT_JUDGED;

    td_buf_addf(out, "%s", kernels && no_speed ? " (kernels, speed not checked)"
                           : kernels           ? " (kernels not checked)"
                           : no_speed          ? " (speed not checked)"
                                               : "");
}

void td_report_verdict_line(const struct td_comparison *c, struct td_buf *out)
{
    const char *own = td_own_kernels(c);
    int i;

    td_buf_addf(out, "verdict: %s",
                td_verdict_name(c->verdict == TD_NOT_JUDGED ? TD_INCONCLUSIVE : c->verdict));
    for (i = 0; i < TD_N_LANES; i++)
        if (td_lane_types[i]->add_answer_figures)
            td_lane_types[i]->add_answer_figures(c, out);
    for (i = 0; i < TD_N_LANES; i++)
        if (td_lane_types[i]->add_op_figures)
            td_lane_types[i]->add_op_figures(c, out);
    for (i = 0; i < TD_N_LANES; i++)
        if (td_lane_types[i]->add_cause)
            td_lane_types[i]->add_cause(c, out);
    if (c->verdict == TD_PASS)
        add_not_checked(c, out);
    /* The recording is sound, and that is all that a pass of our own kernels says. */
    if (c->verdict == TD_PASS && own)
        td_buf_addf(out, " (no build: Tapedeck's own %s kernels)", own);
}
