/* judge_runs.h - judge all runs of an op on one build.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_JUDGE_RUNS_H
#define TD_REPLAYER_JUDGE_RUNS_H

#include "replayer/judge.h"

/* Judge the first run, then each later one that gave other bits. *res is the first run's, with the worst of all runs in
 * what a limit holds for: score, max_abs, worst_row, worst_col, worst_tile, and the counts of NaN, Inf and zeros.
 * res->worst_run is the run that has the worst score. Means (rel_l2, slices) stay the first run's.
 *   made : the reference; each run is held against its own view of it (judge_order.h)
 * Others as td_judge_output(). */
int td_judge_runs(const struct td_op_ref *made, const struct td_tensor *out, const void *const *images, int n_images,
                  const struct td_judge_limits *lim, struct td_judge_result *res, struct td_error *err);

#endif
