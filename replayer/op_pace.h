/* op_pace.h - how long the ops of a replay take: find it out from a few, make a plan, keep to the time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The clock runs from td_op_pace_begin() on. It stands still while two builds are timed, and while a build
 * hangs: how many ops are timed, and how many may hang, has limits of its own. */
#ifndef TD_REPLAYER_OP_PACE_H
#define TD_REPLAYER_OP_PACE_H

#include "replayer/op_run.h"
#include "replayer/op_window.h"

#define TD_OP_PACE_TURNS 3      /* ops of each group that are judged before there is a plan, where they are cheap */

struct td_op_pace {
    double time_s;              /* the time that was asked for; 0: any */
    double stop_s;              /* no op is begun later than this; 0: there is no such time */
    bool measures;              /* there is no plan yet */
    int32_t turn;               /* of the batch, while it measures */
    bool overlaps; int cpus;    /* what is planned is read, run and judged at once (op_batches.h), on so many CPUs */
    int64_t began_ns, aside_ns; /* when the clock began to run; how long it stood still */
    double pass_s;              /* that reading the records once takes */
    bool late;                  /* an op was not begun, for it was too late */
};

/* Start the clock.
 *   time_s : the time that was asked for; 0: any */
void td_op_pace_begin(struct td_op_pace *p, double time_s);
/* The op of the window that joins the batch. NULL: the batch ends here, or the window does. err->code is set when the recording cannot be read. */
const struct td_op_choice *td_op_pace_next(struct td_op_pace *p, const struct td_op_run *r, struct td_op_window *w,
                                           bool is_first, struct td_error *err);
/* Is it too late to begin an op? One op at least is begun, however late it is. */
bool td_op_pace_is_late(struct td_op_pace *p, const struct td_op_run *r);
void td_op_pace_ran(struct td_op_pace *p, const struct td_op_item *it);
/* Builds were timed for so long. */
void td_op_pace_rest(struct td_op_pace *p, int64_t timed_ns);
/* The batch was judged in judged_ns, and written in wrote_ns. */
void td_op_pace_judged(struct td_op_pace *p, struct td_op_run *r, const struct td_op_item *items, int n, int64_t judged_ns, int64_t wrote_ns);

/* Begin to measure. The ops to do so with, in their order, from malloc; NULL: out of memory.
 *   *n : how many */
int32_t *td_op_pace_measure(struct td_op_pace *p, const struct td_op_list *list, size_t *n);
/* What an op takes of the time where the stages work at once: the longest of them, in seconds. Judging uses all CPUs, so reading and
 * running, which use one each, take their share of them away. Writing waits for all. Pure. */
double td_op_pace_beside(double load_s, double run_s, double judge_s, double write_s, int cpus);
/* Make the plan: what does not fit is not chosen any more. *left_out: how many. TD_ENOMEM. */
int td_op_pace_plan(struct td_op_pace *p, struct td_op_run *r, int64_t *left_out, struct td_error *err);

#endif
