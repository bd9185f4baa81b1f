/* opitem.h - one op on its way through a replay: record, memory, runs, judgement.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OPITEM_H
#define TD_REPLAYER_OPITEM_H

#include "format/records.h"
#include "replayer/judge.h"
#include "replayer/opload.h"
#include "replayer/poison.h"
#include "replayer/runner.h"

/* The status of docs/format.md "judge"; the order is that of the summary's columns. */
enum td_op_status { TD_OP_OK, TD_OP_UNSUPPORTED, TD_OP_FAILED, TD_OP_CRASHED, TD_OP_HUNG, TD_OP_BROKEN, TD_OP_STATUS_COUNT };
const char *td_op_status_name(enum td_op_status s);

struct td_op_item {
    struct td_op rec;                 /* owned; becomes the replay's record */
    int32_t group;
    uint64_t weights;
    /* loaded; tensors borrow from the loader */
    bool loaded;
    struct td_op_call call;
    const void *recorded;             /* the recorded output's bytes, or NULL */
    struct td_hold hold;
    /* run */
    struct td_run_result candidate, baseline;
    bool has_baseline;
    cJSON *speed;                     /* owned until the judgement takes it */
    /* judged */
    enum td_op_status status;
    char reason[480];
    struct td_judge_limits limits;
    struct td_judge_result e_candidate, e_baseline, e_recorded;
    bool judged_candidate, judged_baseline, judged_recorded;
    double format_cost;
    int64_t equal;                    /* -1: there is nothing to compare with */
};

/* Judge n items (some may have a status other than ok already) with `threads` threads. Every item ends with its status,
 * its results and rec.judge filled. Items with equal weights should stand next to each other. */
int td_op_judge_batch(struct td_op_item *items, int n, int threads, struct td_error *err);

void td_op_item_release(struct td_op_item *it); /* but for what the loader holds */

#endif
