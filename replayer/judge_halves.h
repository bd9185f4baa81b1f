/* judge_halves.h - judge what a right kernel would give that keeps its sums in halves.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where a build declares such sums (td_gptq.h, provider.h), and what it is compared with has none, the errors of
 * the one say nothing about the other. So a third output stands beside both: right sums in halves (half_sums.h). */
#ifndef TD_REPLAYER_JUDGE_HALVES_H
#define TD_REPLAYER_JUDGE_HALVES_H

#include "replayer/op_item.h"

#define TD_HALVES_LEAST_STEP 8 /* exllama's of 8 bits */
#define TD_HALVES_LEAST 32 /* products of a block: what smaller blocks lose would excuse kernels that are wrong */

/* The block that a run declares and that is not taken, since it is too small; 0: there is none. Such a run is judged
 * as if it declared nothing. */
int td_halves_refused(const struct td_run_result *run);

/* Fill it->e_halves, it->halves and it->halves_of_baseline if they are wanted: the products that are added before their sum is rounded.
 *   ref : of the candidate
 * TD_OK, also where the op has no such sums: then halves is 0. TD_ENOMEM. */
int td_judge_halves(struct td_op_item *it, const struct td_op_ref *ref, struct td_error *err);

#endif
