/* op_timing.h - time ops in two builds, alternating, with caches hot and cold.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_TIMING_H
#define TD_REPLAYER_OP_TIMING_H

#include <cjson/cJSON.h>

#include "replayer/build_process.h"

#define TD_OP_TIMING_PER_GROUP 2     /* ops timed per kernel, shape and M class */
#define TD_OP_TIMING_STARTS 8        /* both builds start anew so often, in other memory: where the
                                        tensors lie changes times by 1-6 %, at times by half. Two ops
                                        make 16 samples, enough for a row of its own among 1600 */
#define TD_OP_TIMING_STARTS_SHARED 24 /* where all ops share the starts, a sample each: as many as 2 % take where processes
                                        differ by 1.2 % */
#define TD_OP_TIMING_PAIRS 3         /* per start; 1 where all pairs would pass the budget */
#define TD_OP_TIMING_SAMPLE_NS 50000 /* shortest sample; it holds as many runs as that takes */
#define TD_OP_TIMING_BUDGET_NS 4000000000LL

/* An op that is to be timed, and what came of it. */
struct td_op_timed {
    const struct td_op_call *call;
    int64_t op;                      /* its number */
    cJSON *found;                    /* as docs/format.md, "speed", has it; the caller owns it. NULL: it could not be timed */
    struct td_error err;             /* why not: TD_ECRASH, TD_EUNSUPPORTED and others */
};

/* Time ops in pairs of samples, a sample in each build. Samples never overlap; which build comes first in a pair takes turns from
 * start to start, the first turn being drawn; in a start they alternate, so that no build runs twice in a row. A number is the mean
 * time of a single run. The pairs stand in order of the starts, equally many of each.
 * Where processes take long to begin (both CUDA or HIP), each start is shared by all ops; else each op has its own.
 *   tell : called as each start begins, from 0 on; NULL: not */
void td_op_timing_measure(struct td_build_process *baseline, struct td_build_process *candidate, struct td_op_timed *ops, int n,
                          void (*tell)(void *ctx, int start, int starts), void *ctx);
/* Do ops share their starts? Then those that are timed should come together. */
bool td_op_timing_shares(const struct td_build_process *baseline, const struct td_build_process *candidate);

#endif
