/* op_batch.h - ops on their way through a replay, in batches (op_batches.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_BATCH_H
#define TD_REPLAYER_OP_BATCH_H

#include <stdatomic.h>

#include "format/fixture.h"
#include "replayer/op_pace.h"
#include "replayer/op_rows.h"
#include "replayer/op_variety.h"
#include "replayer/op_window.h"
#include "replayer/ref_cache.h"
#include "replayer/reference_choice.h"

#define TD_OP_BATCHES 8

/* Ops that are in the same stage. */
struct td_op_batch {
    struct td_op_item *item; int n;      /* loaded, or with the reason why not; item NULL before the first use */
    int ran;                             /* of these, begun: the rest is released as if it had not been read */
    size_t bytes;                        /* its tensors, and outputs to come */
    int told;                            /* ops of it that count as judged in what progress shows */
    int64_t judged_ns;                   /* how long judging took */
};

/* An op that is put aside until it is alone: its record, and what the list says of it. */
struct td_op_waiting {
    struct td_op rec;                    /* owned */
    int32_t group, turn;
    uint64_t weights;
    bool is_timed;
    cJSON *speed;                        /* it was timed already; owned */
    struct td_run_result candidate;      /* it found something, and is not run again; owned */
};

struct td_op_batches {
    struct td_fixture *fx; struct td_writer *w; /* these are borrowed, and set by the user */
    struct td_op_run *run;
    struct td_op_pace *pace;
    struct td_op_rows *rows;
    struct td_reference_makers *makers;
    struct td_ref_cache *cache;
    struct td_op_variety *variety;
    int64_t read_ns, ran_ns, judged_ns, wrote_ns; /* how long each stage worked; both judges together */
    int64_t by_gpu;                      /* ops that were written, judged by a GPU's references */
    /* the rest is zeroed by the user, and then the module's */
    struct td_op_window *window;
    struct td_op_batch batch[TD_OP_BATCHES];
    struct td_op_waiting *aside; int n_aside; /* as many as there are in all batches at most */
    int threads;
    int read_ahead;                      /* ops that come next, whose tensors were read */
    atomic_bool ends;                    /* nothing more is read */
    bool no_threads;                     /* none can be had: one stage works at a time */
};

#endif
