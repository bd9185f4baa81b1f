/* opitem.h - one op on its way through a replay: record, memory, runs, judgement.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OPITEM_H
#define TD_REPLAYER_OPITEM_H

#include "format/op_status.h"
#include "format/records.h"
#include "replayer/judge.h"
#include "replayer/opload.h"
#include "replayer/poison.h"
#include "replayer/runner.h"

/* The candidate's output beside the recorded one and beside the baseline build's, where there is no reference. */
struct td_op_compared {
    bool done;                        /* false: the kind has a reference, or nothing ran */
    int64_t total, baseline_equal;    /* baseline_equal -1: no baseline build ran it */
    int64_t unstable;                 /* elements that are not bitwise equal in all repeats */
    double departs, baseline_departs; /* relative L2 of what is new from what it is compared with; NaN: nothing there */
};

struct td_op_item {
    struct td_op rec;                 /* owned; becomes the replay's record */
    int32_t group;
    uint64_t weights;
    /* loaded; tensors borrow from the loader */
    bool loaded, without_reference;
    struct td_op_call call;
    const void *recorded;             /* the recorded output's bytes, or NULL */
    struct td_hold hold;
    /* run */
    struct td_run_result candidate, baseline;
    bool has_baseline;
    cJSON *speed;                     /* owned until the judgement takes it */
    /* judged */
    enum td_op_status status;         /* OK until something is found */
    char reason[480];
    struct td_judge_limits limits;
    struct td_judge_result e_candidate, e_baseline, e_recorded; /* each against the R1 of its own rounding */
    bool judged_candidate, judged_baseline, judged_recorded;
    double format_cost;               /* of the candidate's rounding */
    int64_t equal;                    /* -1: there is nothing to compare with */
    struct td_op_compared compared;   /* of a kind without a reference */
};

/* The rounding by which a run is judged: what its build says, else the op's. run NULL: the recorded output. */
const char *td_op_item_rounding(const struct td_op_item *it, const struct td_run_result *run);

/* opcompare.c: fill equal, compared, and the status where the new output is no number though the recorded one is, or was left
 * unwritten. TD_ENOMEM. */
int td_op_compare(struct td_op_item *it, struct td_error *err);
/* opjudge_json.c: the judgement as docs/format.md has it; takes it->speed. */
cJSON *td_op_item_json(struct td_op_item *it);
/* The first reason that an op is not ok stands. */
void td_op_item_fail(struct td_op_item *it, enum td_op_status s, const char *reason);

/* Judge n items (some may have a status other than ok already) with `threads` threads. Every item ends with its status,
 * its results and rec.judge filled. Items with equal weights should stand next to each other. */
int td_op_judge_batch(struct td_op_item *items, int n, int threads, struct td_error *err);

void td_op_item_release(struct td_op_item *it); /* but for what the loader holds */

#endif
