/* op_batch_read.c - read a batch of ops for a replay, and put aside what is too large to lie beside others.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_batch_read.h"

#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "replayer/op_timing.h"
#include "replayer/replay_times.h"

#define AHEAD_OPS 32                     /* of which tensors are read at once, */
#define AHEAD_BYTES ((uint64_t)64 << 20) /* or so many bytes of them */
#define BATCH_BYTES ((size_t)1 << 30)    /* with so many in all batches together, or an eighth of the memory, none is begun */
#define PARTS 3                          /* of these an op may be one; a larger one is alone */

/* How much a batch may hold, and one op of it. */
struct limit { int ops; size_t bytes, op_bytes; };

size_t td_op_batch_most_bytes(void)
{
    const size_t part = (size_t)td_memory_max() / 8;

    return part < BATCH_BYTES ? part : BATCH_BYTES;
}

static struct limit limit_of(bool beside)
{
    const size_t most = td_op_batch_most_bytes();

    return beside ? (struct limit){TD_OP_BATCH_BESIDE_OPS, most / TD_OP_BATCHES, most / PARTS} : (struct limit){TD_OP_BATCH_OPS, most, SIZE_MAX};
}

/* What an item adds to a batch: its tensors, without weights that the item before has too, and the outputs to come. */
static size_t item_bytes(const struct td_op_batches *b, const struct td_op_item *it, const struct td_op_item *before)
{
    const size_t runs = (size_t)b->run->opt->op_repeat * (b->run->has_baseline ? 2 : 1);
    size_t n = (runs + (it->recorded != NULL)) * it->call.out.size_bytes;
    int t;

    for (t = 0; t < it->call.n_in; t++)
        if (!before || before->weights != it->weights || td_op_input_is_of_the_call(it->call.in[t].role))
            n += it->call.in[t].size_bytes;
    return n;
}

/* Take the next op of the window. 1: done; 0: the batch ends here. */
static int take_op(struct td_op_batches *b, struct td_op_item *it, bool is_first, struct td_error *err)
{
    const struct td_op_choice *next = td_op_pace_next(b->pace, b->run, b->window, is_first, err);
    struct td_op rec = {0};
    int64_t began_ns;
    int rc;

    if (!next)
        return err && err->code ? err->code : 0;
    began_ns = td_clock_mono_ns();
    rc = td_op_window_next(b->window, &rec, err);
    td_replay_spent(TD_TIME_READ_RECORDS, began_ns);
    if (rc <= 0)
        return rc;
    memset(it, 0, sizeof *it);
    it->rec = rec;
    it->group = next->group;
    b->run->list.items[next - b->run->list.items].done = true;
    it->weights = next->weights;
    it->turn = next->rank;
    it->is_timed = next->turn < TD_OP_TIMING_PER_GROUP;
    it->status = TD_OP_OK;
    it->equal = -1;
    return 1;
}

void td_op_batch_set_aside(struct td_op_batches *b, struct td_op_item *it)
{
    cJSON *judged = it->rec.judge, *speed = it->speed ? it->speed : cJSON_DetachItemFromObjectCaseSensitive(judged, "speed");

    b->aside[b->n_aside++] = (struct td_op_waiting){.rec = it->rec, .group = it->group, .turn = it->turn, .weights = it->weights,
                                                    .is_timed = it->is_timed && !speed, .speed = speed};
    td_op_loader_put(b->run->loader, &it->hold);
    if (td_op_item_has_finding(it)) {
        b->aside[b->n_aside - 1].candidate = it->candidate;
        memset(&it->candidate, 0, sizeof it->candidate);
    }
    memset(&it->rec, 0, sizeof it->rec);
    it->speed = NULL;
    td_op_item_release(it);
}

/* Take an op that was put aside. */
static void take_waiting(struct td_op_batches *b, struct td_op_item *it)
{
    const struct td_op_waiting *x = &b->aside[--b->n_aside];

    *it = (struct td_op_item){.rec = x->rec, .group = x->group, .turn = x->turn, .weights = x->weights, .is_timed = x->is_timed,
                              .speed = x->speed, .candidate = x->candidate, .status = TD_OP_OK, .equal = -1, .is_alone = true};
    td_op_loader_forget(b->run->loader);
}

/* Load an op that was taken. False: it is put aside, since it is too large for a batch beside others, or there is no memory for it
 * while these are there. */
static bool load_op(struct td_op_batches *b, struct td_op_item *it, const struct td_op_item *before, const struct limit *most, size_t *bytes)
{
    const int64_t began_ns = td_clock_mono_ns();
    size_t n;

    td_op_run_load(b->run->loader, it);
    td_replay_spent(TD_TIME_READ_BLOBS, began_ns);
    n = item_bytes(b, it, before);
    if (!it->is_alone && (it->no_memory || n > most->op_bytes)) {
        td_op_batch_set_aside(b, it);
        return false;
    }
    *bytes += n;
    return true;
}

/* Read the tensors of the ops that come next, with several threads. */
static void read_ahead(struct td_op_batches *b)
{
    const int64_t began_ns = td_clock_mono_ns();
    const struct td_op *ops[AHEAD_OPS];
    int n = 0;

    while (n < AHEAD_OPS && (ops[n] = td_op_window_ahead(b->window, (size_t)n)))
        n++;
    b->read_ahead = n ? td_op_loader_read_ahead(b->run->loader, ops, n, b->threads, AHEAD_BYTES) : 0;
    td_replay_spent(TD_TIME_READ_BLOBS, began_ns);
}

int td_op_batch_read(struct td_op_batches *b, struct td_op_batch *to, bool beside, struct td_error *err)
{
    const int64_t began_ns = td_clock_mono_ns();
    struct limit most = limit_of(beside);
    size_t bytes = 0;
    int rc = TD_OK;

    to->n = to->ran = 0;
    if (b->n_aside) {
        take_waiting(b, &to->item[to->n++]);
        load_op(b, &to->item[0], NULL, &most, &bytes);
        most.ops = 1;
    }
    while (to->n < most.ops && bytes < most.bytes && !atomic_load(&b->ends)) {
        if (beside && !b->read_ahead)
            read_ahead(b);
        if ((rc = take_op(b, &to->item[to->n], to->n == 0, err)) <= 0)
            break;
        b->read_ahead -= b->read_ahead > 0;
        if (!load_op(b, &to->item[to->n], to->n ? &to->item[to->n - 1] : NULL, &most, &bytes))
            break;
        to->n++;
    }
    to->bytes = bytes;
    b->read_ns += td_clock_mono_ns() - began_ns;
    return rc > 0 ? TD_OK : rc;
}
