/* op_rows.h - count the replayed ops by kernel and shape, for replay's summary.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_ROWS_H
#define TD_REPLAYER_OP_ROWS_H

#include "replayer/op_item.h"
#include "replayer/op_list.h"

struct td_op_replay_row {              /* a line of the summary: one kernel and shape */
    char kernel[64], shape[TD_OP_SHAPE_WORDS];
    int64_t count[TD_OP_STATUS_COUNT];
    int64_t over;                      /* ops whose worst element is over the limit; after finish() */
    double worst, worst_baseline, worst_recorded; /* scores; -1: none */
    int64_t worst_op;
    char reason[200];                  /* why the first op was not ok; "": all are */
};

/* While ops are replayed: what of each op decides whether it is over its limit. */
struct td_op_rows {
    struct td_op_replay_row *row; size_t n; /* handed over to the caller's summary by finish() */
    int32_t *row_of;                   /* [n_groups] */
    double *worst_base;                /* [n_groups] the baseline's own worst score; -1: none */
    struct { int32_t group; double score, floor; } *judged; size_t n_judged, most;
};

/* A row for each kernel and shape of the list; room for n_ops judgements. TD_ENOMEM. */
int td_op_rows_make(struct td_op_rows *r, const struct td_op_list *list, size_t n_ops, struct td_error *err);
void td_op_rows_count(struct td_op_rows *r, const struct td_op_item *it);
/* Count the ops over their limit: the judge's floor or 4 times the baseline's own worst of the same kernel,
 * shape and class of M, whichever is larger. `differ` decides by the same rule, and by more. */
void td_op_rows_finish(struct td_op_rows *r);
/* Frees all but the rows. */
void td_op_rows_release(struct td_op_rows *r);

#endif
