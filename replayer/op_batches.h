/* op_batches.h - how ops go through a replay: read, run, judged, written, in batches.
 * SPDX-License-Identifier: Apache-2.0
 *
 *      reader            main thread            judge
 *     reads a batch --->  runs it on  --->  judges it, writes it,
 *                         the builds        and gives it back to be filled again
 *
 * There are TD_OP_BATCHES, each in one stage at a time, and no stage waits for another one as long as it has a batch. The
 * reader alone touches the window, the loader and what is put aside; the main thread the builds; the judge, who has up to
 * 15 threads more, references, writer and counts. So there are no locks but those of the queues between them, and each op
 * has the result, and its place in the file, that it has where one stage works at a time. That is so while builds are
 * timed, while there is no plan yet, with one CPU, with less than 4 GiB of --max-memory or 8 GiB of address space, and for
 * an op of more than a third of what all batches may hold.
 *
 * Memory: once the tensors and outputs of all batches take 1 GiB, or an eighth of --max-memory, no batch is begun; so they
 * take 1.5 GiB at most.
 *
 * An op for which there is no memory, while others hold theirs, is put aside. Once the stages are empty it is tried alone; what comes
 * of that counts. */
#ifndef TD_REPLAYER_OP_BATCHES_H
#define TD_REPLAYER_OP_BATCHES_H

#include <stdatomic.h>

#include "format/fixture.h"
#include "replayer/op_pace.h"
#include "replayer/op_rows.h"
#include "replayer/op_variety.h"
#include "replayer/op_window.h"
#include "replayer/ref_cache.h"
#include "replayer/reference_choice.h"

#define TD_OP_BATCHES 6

/* Ops that are in the same stage. */
struct td_op_batch {
    struct td_op_item *item; int n;      /* loaded, or with the reason why not; item NULL before the first use */
    int ran;                             /* of these, begun: the rest is released as if it had not been read */
    size_t bytes;                        /* its tensors, and outputs to come */
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
    int64_t read_ns, ran_ns, judged_ns, wrote_ns; /* how long each stage worked */
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

/* Will the stages work at once, now, or once there is a plan? */
bool td_op_batches_overlap(const struct td_op_batches *b);
/* Replay the window's ops until it is at its end, until the user stops it, or the time is over (pace->late): what was run by then is
 * judged and written. Errors are those of the replayer; of what was run, batches before the error are written. */
int td_op_batches_replay(struct td_op_batches *b, struct td_op_window *w, struct td_error *err);
void td_op_batches_release(struct td_op_batches *b);

#endif
