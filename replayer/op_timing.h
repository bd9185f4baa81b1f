/* op_timing.h - time one op in two builds, alternating, with caches hot and cold.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_TIMING_H
#define TD_REPLAYER_OP_TIMING_H

#include <cjson/cJSON.h>

#include "replayer/runner.h"

#define TD_SPEED_PER_GROUP 2        /* ops timed per kernel, shape and M class */
#define TD_SPEED_STARTS 5           /* both builds start anew so often (runner.h, restart): where memory lies moves times by 1-6 % */
#define TD_SPEED_PAIRS 3            /* per start; 1 for an op so slow that 15 pairs would pass the budget */
#define TD_SPEED_SAMPLE_NS 50000    /* a sample lasts at least so long, in as many runs as that takes */
#define TD_SPEED_BUDGET_NS 4000000000LL

/* Pairs are taken one after the other, never at the same time; which build comes first within a pair is drawn from `seed`.
 * *out: {"hot":[[base_ns,new_ns],...],"cold":[...],"starts":5,"runs_hot":n,"runs_cold":n,"start":"process",
 * "clock":"monotonic","cold_by":"clflush"}, and on a GPU "device" (condition.h): each number is the mean of a single run in ns; the pairs stand in order of the starts, equally many
 * of each. The caller owns it. TD_ECRASH, TD_EUNSUPPORTED ...: no timing, *out is NULL. */
int td_op_timing_measure(struct td_runner *baseline, struct td_runner *candidate, const struct td_op_call *op, uint64_t seed,
                         cJSON **out, struct td_error *err);

#endif
