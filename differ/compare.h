/* compare.h - one comparison from open fixtures to a verdict; what the reports print.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_COMPARE_H
#define TD_DIFFER_COMPARE_H

#include <stdio.h>

#include "differ/blame.h"
#include "differ/lane_collapse.h"
#include "differ/numerics.h"
#include "differ/rescore.h"
#include "differ/speed.h"
#include "differ/tokens.h"
#include "format/coverage.h"

struct td_weighing {
    struct td_policy policy;
    bool verbose;
    struct td_side *side; size_t n_sides;   /* [0] the baseline, [1] the first candidate */
    struct td_groups groups;
    struct td_op_set base_ops, ops;
    size_t bad_frames;
    struct td_coverage coverage;            /* what the baseline holds of what its server computed */
    struct td_lane lane[TD_N_LANES];        /* asked and by_name are set by the caller */
    struct td_tokens tokens;
    struct td_collapses collapses;
    struct td_rescore rescore;
    struct td_numerics numerics;
    struct td_speed speed;
    bool blamed; struct td_blame blame;
    enum td_verdict verdict;
};

/* Check that the fixtures may be compared, read their ops, measure and judge the lanes that were asked for. Without any lane
 * asked for, those are asked that have evidence. TD_EINVAL: must not be compared. */
int td_compare(struct td_weighing *w, struct td_error *err);
void td_weighing_release(struct td_weighing *w);   /* closes the sides too */

/* ---- reports ------------------------------------------------------------------------------------------------------- */

/* "verdict: regressed tokens=12/60 collapsed=3 ..." without a line feed. Figures of lanes that were not judged are left out. */
void td_report_verdict_line(const struct td_weighing *w, struct td_buf *out);
void td_report_text(const struct td_weighing *w, FILE *out, bool colour);
int td_report_json(const struct td_weighing *w, const char *path, struct td_error *err);
void td_report_json_scores(struct td_jw *w, const struct td_rescore *r); /* its member "scores" */
int td_report_junit(const struct td_weighing *w, const char *path, struct td_error *err);

/* Bytes around `at` as one line of clean UTF-8 in quotes: what would hurt a terminal is escaped, "..." where it was cut. */
void td_report_excerpt(const char *text, size_t len, size_t at, size_t before, size_t after, struct td_buf *out);
size_t td_report_common_prefix(const struct td_exchange *a, const struct td_exchange *b); /* bytes of text, at a character */

#endif
