/* op_timing.h - time one op in two builds, alternating, with caches hot and cold.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_TIMING_H
#define TD_REPLAYER_OP_TIMING_H

#include <cjson/cJSON.h>

#include "replayer/build_process.h"

#define TD_OP_TIMING_PER_GROUP 2     /* ops timed per kernel, shape and M class */
#define TD_OP_TIMING_STARTS 8        /* both builds start anew so often, in other memory: where the
                                        tensors lie changes times by 1-6 %, at times by half. Two ops
                                        make 16 samples, enough for a row of its own among 1600 */
#define TD_OP_TIMING_PAIRS 3         /* per start; 1 where all pairs would pass the budget */
#define TD_OP_TIMING_SAMPLE_NS 50000 /* shortest sample; it holds as many runs as that takes */
#define TD_OP_TIMING_BUDGET_NS 4000000000LL

/* Time an op in pairs of samples, a sample in each build. Samples never overlap; which build comes
 * first in a pair takes turns from start to start, the first turn being drawn from `seed`; in a start they alternate, so that no
 * build runs twice in a row.
 *   *out : {"hot":[[base_ns,new_ns],...],"cold":[...],"starts":5,"runs_hot":n,"runs_cold":n,
 *          "start":"process","clock":"monotonic","cold_by":"clflush"}, on a GPU also "device"
 *          (device_condition.h); the caller owns it
 * A number is the mean time of a single run. The pairs stand in order of the starts, equally many of
 * each. TD_ECRASH, TD_EUNSUPPORTED and others: this op could not be timed, and *out is NULL. */
int td_op_timing_measure(struct td_build_process *baseline, struct td_build_process *candidate,
                         const struct td_op_call *op, uint64_t seed, cJSON **out,
                         struct td_error *err);

#endif
