/* op_item.h - one op on its way through a replay: its record, its tensors, its runs, its judgement.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_ITEM_H
#define TD_REPLAYER_OP_ITEM_H

#include "format/op_status.h"
#include "format/records.h"
#include "replayer/along_k.h"
#include "replayer/build_process.h"
#include "replayer/judge_place.h"
#include "replayer/op_load.h"

#define TD_OP_BATCH_OPS 256 /* of a batch that is alone: at most so many run, and are timed, together */

/* An op without a reference: its new output against the recorded one and against the baseline
 * build's. */
struct td_op_compared {
    bool done;                        /* false: the kind has a reference, or nothing ran */
    int64_t total, baseline_equal;    /* elements; baseline_equal -1: no baseline build ran it */
    int64_t unstable;                 /* elements that are not bitwise equal in all repeats */
    double departs, baseline_departs; /* relative L2 distance of the new output; NaN: unknown */
};

/* Of an op whose output was recorded as a digest: is it that of the candidate's first run? NONE: it was not so recorded,
 * or nothing ran. */
enum td_op_digest { TD_DIGEST_NONE, TD_DIGEST_EQUAL, TD_DIGEST_DIFFERS };

struct td_op_item {
    struct td_op rec;                 /* owned; becomes the replay's record */
    int32_t group;                    /* index in td_op_list.groups */
    uint64_t weights;                 /* equal where the weights are (td_op_weights_key) */
    int32_t turn;                     /* its place in the order of its group (op_order.h) */
    bool is_timed;                    /* if there are two builds, and it runs */
    bool is_alone;                    /* it was put aside before: no other op is in memory */
    /* once loaded; tensors borrow from the loader */
    bool loaded, without_reference;
    bool reference_alone;             /* nothing ran, and nothing is judged: its reference is to be kept */
    bool is_ready;                    /* loaded, and checked: it can be run */
    bool no_memory;                   /* for loading, running or judging it: it may be tried again */
    struct td_op_call call;
    const void *recorded;             /* the recorded output's bytes, or NULL */
    enum td_op_digest digest;         /* td_op_digest_find() */
    struct td_op_hold hold;
    /* once run */
    struct td_run_result candidate, baseline;
    bool has_baseline;
    int64_t load_ns;                  /* what loading took */
    int64_t run_ns, aside_ns;         /* what loading and running took; what waiting for a hung build took */
    int64_t judge_ns;                 /* its share of the judging, of one thread */
    cJSON *speed;                     /* of td_op_timing_measure; owned until it is in rec.judge */
    char untimed[240];                /* why it has no times; "": it has, or it was not to be timed */
    /* once judged */
    enum td_op_status status;         /* OK until something is found */
    char reason[480];
    struct td_judge_limits limits;
    struct td_judge_result e_candidate, e_baseline, e_recorded; /* against R1 */
    bool judged_candidate, judged_baseline, judged_recorded;
    struct td_judge_result e_halves;  /* of right sums in halves (judge_halves.h) */
    int halves;                       /* products that these add before they round, at the least; 0: there is no e_halves */
    bool halves_of_baseline;          /* the baseline build declares them, not the candidate */
    struct td_along_k along_k;        /* which part of K the candidate's errors come from; step 0: not asked */
    struct td_judge_place place;      /* of the candidate's errors; limit 0: it is under its limit */
    double format_cost;               /* of the candidate's rounding */
    double largest_a, largest_sum;    /* td_op_variety_find_largest() */
    int by_gpu;                       /* of the references of its sides: computed by a GPU */
    int64_t equal;                    /* elements equal to the recorded ones; -1: none recorded */
    struct td_op_compared compared;   /* of a kind without a reference */
};

/* The activation rounding by which an output is judged: the one the build reported, else the op's own.
 * run NULL: of the recorded output. Never NULL; "none" where nothing is rounded. */
const char *td_op_item_rounding(const struct td_op_item *it, const struct td_run_result *run);

/* Give the op a status other than ok, with the reason. The first one stands; later calls change nothing. */
void td_op_item_fail(struct td_op_item *it, enum td_op_status s, const char *reason);

/* Did the candidate's run find something about the build: a crash, a hang, a broken rule of memory? */
bool td_op_item_has_finding(const struct td_op_item *it);
/* Is it to be tried again alone, since memory lacked beside others? Where the candidate's run found something, only the rest is: what
 * crashed once need not crash again. */
bool td_op_item_may_try_again(const struct td_op_item *it);

/* Free the item's record, runs and timing. The tensors it borrows from the loader are released by td_op_loader_put(). */
void td_op_item_release(struct td_op_item *it);

#endif
