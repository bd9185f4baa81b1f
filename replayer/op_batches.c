/* op_batches.c - how ops go through a replay: read, run, judged, written, in batches.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_batches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "common/time_spent.h"
#include "replayer/beside.h"
#include "replayer/op_judge.h"
#include "replayer/op_rewrite.h"
#include "replayer/op_timing.h"

#define BATCH_OPS 256                    /* of a batch that is alone */
#define BESIDE_OPS 128                   /* of one of three */
#define MOST_ASIDE (TD_OP_BATCH_STAGES * (BATCH_OPS + 1)) /* each stage's batch; nothing is read as long as an op waits */
#define AHEAD_OPS 32                     /* of which tensors are read at once, */
#define AHEAD_BYTES ((uint64_t)64 << 20) /* or so many bytes of them */
#define BATCH_BYTES ((size_t)1 << 30)    /* of all batches together, but at most an eighth of the memory */
#define BESIDE_MEMORY ((int64_t)4 << 30) /* with less, one stage works at a time: judging takes memory of its own */

/* Is nothing more begun? The main thread asks, and then the reader knows it too. */
static bool is_over(struct td_op_batches *b)
{
    const bool over = (b->run->opt->stop && *b->run->opt->stop) || b->pace->late;

    if (over)
        atomic_store(&b->ends, true);
    return over;
}

/* Release a batch's items from number `from` on. */
static void release_items(struct td_op_batches *b, struct td_op_batch *of, int from)
{
    for (int i = from; i < of->n; i++) {
        td_op_loader_put(b->run->loader, &of->item[i].hold);
        td_op_item_release(&of->item[i]);
    }
    of->n = from < of->n ? from : of->n;
}

static void release_waiting(struct td_op_waiting *x)
{
    td_op_release(&x->rec);
    cJSON_Delete(x->speed);
    td_run_result_release(&x->candidate);
}

static void release_all(struct td_op_batches *b)
{
    for (int i = 0; i < TD_OP_BATCH_STAGES; i++)
        release_items(b, &b->batch[i], 0);
    while (b->n_aside > 0)
        release_waiting(&b->aside[--b->n_aside]);
}

void td_op_batches_release(struct td_op_batches *b)
{
    for (int i = 0; i < TD_OP_BATCH_STAGES; i++)
        free(b->batch[i].item);
    free(b->aside);
}

static int make_room(struct td_op_batches *b, int batches, int ops, struct td_error *err)
{
    bool ok = true;

    for (int i = 0; i < batches; i++) {
        struct td_op_batch *of = &b->batch[i];

        if (!of->item)
            of->item = calloc((size_t)ops, sizeof *of->item);
        ok = ok && of->item;
    }
    if (!b->aside)
        b->aside = calloc(MOST_ASIDE, sizeof *b->aside);
    return ok && b->aside ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory for a batch of %d ops", ops);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

/* How much a batch may hold. */
struct limit { int ops; size_t bytes; bool beside; };

static struct limit limit_of(bool beside)
{
    const size_t part = (size_t)td_memory_max() / 8, most = part < BATCH_BYTES ? part : BATCH_BYTES;

    return beside ? (struct limit){BESIDE_OPS, most / TD_OP_BATCH_STAGES, true} : (struct limit){BATCH_OPS, most, false};
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
    td_time_spent(TD_TIME_READ_RECORDS, began_ns);
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

/* Put an op aside until it is alone. Its record stays, how fast it was, and what the candidate's run found. */
static void set_aside(struct td_op_batches *b, struct td_op_item *it)
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
    td_time_spent(TD_TIME_READ_BLOBS, began_ns);
    n = item_bytes(b, it, before);
    if (!it->is_alone && (it->no_memory || (most->beside && n > most->bytes))) {
        set_aside(b, it);
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
    td_time_spent(TD_TIME_READ_BLOBS, began_ns);
}

static int read_batch(struct td_op_batches *b, struct td_op_batch *to, struct limit most, struct td_error *err)
{
    const int64_t began_ns = td_clock_mono_ns();
    size_t bytes = 0;
    int rc = TD_OK;

    to->n = to->ran = 0;
    if (b->n_aside) {
        take_waiting(b, &to->item[to->n++]);
        load_op(b, &to->item[0], NULL, &most, &bytes);
        most.ops = 1;
    }
    while (to->n < most.ops && bytes < most.bytes && !atomic_load(&b->ends)) {
        if (most.beside && !b->read_ahead)
            read_ahead(b);
        if ((rc = take_op(b, &to->item[to->n], to->n == 0, err)) <= 0)
            break;
        b->read_ahead -= b->read_ahead > 0;
        if (!load_op(b, &to->item[to->n], to->n ? &to->item[to->n - 1] : NULL, &most, &bytes))
            break;
        to->n++;
    }
    b->read_ns += td_clock_mono_ns() - began_ns;
    return rc > 0 ? TD_OK : rc;
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

static int run_batch(struct td_op_batches *b, struct td_op_batch *of, struct td_error *err)
{
    const int64_t began_ns = td_clock_mono_ns();
    int rc = TD_OK;

    while (of->ran < of->n && !rc && !is_over(b) && !td_op_pace_is_late(b->pace, b->run)) {
        struct td_op_item *it = &of->item[of->ran++];

        rc = td_op_run(b->run, it, err);
        td_op_pace_ran(b->pace, it);
        b->run->ran++;
    }
    b->ran_ns += td_clock_mono_ns() - began_ns;
    return rc > 0 ? TD_EIO : rc;
}

/* ---- judging ------------------------------------------------------------------------------------------------------- */

static void on_judged(void *ctx, int n)
{
    struct td_op_batches *b = ctx;

    atomic_store(&b->run->judged, b->run->stats->replayed + n);
}

static void show_progress(void *ctx)
{
    struct td_op_batches *b = ctx;

    is_over(b);
    td_op_run_show_progress(b->run);
}

/* A batch that is being judged, or read, beside the main thread. */
struct work {
    struct td_op_batches *b;
    struct td_op_batch *of;
    struct limit most;                   /* of reading */
    struct td_beside thread;
    int64_t took_ns;                     /* by judging */
    int rc;
    struct td_error err;
};

static void judge_batch(void *arg)
{
    struct work *x = arg;
    struct td_op_batches *b = x->b;
    struct td_op_batch *of = x->of;
    const int64_t began_ns = td_clock_mono_ns();
    double products = 0;
    int64_t at;
    int i;

    for (i = 0; i < of->n; i++)
        products += (double)td_op_attr(&of->item[i].call, "m", 0) * (double)td_op_attr(&of->item[i].call, "n", 0) *
                    (double)td_op_attr(&of->item[i].call, "k", 0);
    td_reference_makers_expect(b->makers, products);
    x->rc = td_op_judge_batch(of->item, of->n, b->makers, b->cache, b->threads, on_judged, b, &x->err);
    if (b->run->has_baseline && b->run->opt->op_timing)
        td_reference_makers_settle(b->makers);
    at = td_clock_mono_ns();
    for (i = 0; i < of->n; i++)
        if (!td_op_item_may_try_again(&of->item[i]))
            td_op_variety_add(b->variety, &of->item[i]);
    td_time_spent(TD_TIME_JUDGE_VARIETY, at);
    x->took_ns = td_clock_mono_ns() - began_ns;
    b->judged_ns += x->took_ns;
}

/* What a piece of work ended with. */
static int wait_for(struct work *x, struct td_error *err)
{
    td_beside_wait(&x->thread, show_progress, x->b);
    return x->rc ? td_fail(err, x->rc, "%s", x->err.msg) : TD_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static void count_status(struct td_op_batches *b, const struct td_op_item *it)
{
    struct td_op_replay_stats *s = b->run->stats;
    char name[40];

    snprintf(name, sizeof name, "ops.%s", td_op_status_name(it->status));
    td_writer_count(b->w, name, 1, 0);
    s->count[it->status]++;
    if (it->reason[0] && !s->refusal[0])
        snprintf(s->refusal, sizeof s->refusal, "%s: %.400s", td_op_status_name(it->status), it->reason);
    td_op_rows_count(b->rows, it);
}

static int write_op(struct td_op_batches *b, struct td_op_item *it, struct td_error *err)
{
    const struct td_op_replay_stats *s = b->run->stats;
    int rc;

    count_status(b, it);
    b->by_gpu += it->by_gpu > 0;
    rc = td_op_rewrite(it, b->w, td_fixture_id(b->fx), b->run->opt->build, s->build[0] ? s->build : s->provider, err);
    if (!rc && (rc = td_writer_op(b->w, &it->rec)))
        td_fail(err, rc, "cannot write op %lld", (long long)it->rec.op);
    return rc;
}

/* What lacked memory beside others is tried again; the rest of the batch stays. */
static void put_aside_what_lacked_memory(struct td_op_batches *b, struct td_op_batch *of)
{
    int i, n = 0;

    for (i = 0; i < of->n; i++) {
        if (td_op_item_may_try_again(&of->item[i])) {
            set_aside(b, &of->item[i]);
            b->run->ran--;
        } else if (n++ < i) {
            of->item[n - 1] = of->item[i];
        }
    }
    of->ran = of->n = n;
}

/* took_ns: the judging. */
static int write_batch(struct td_op_batches *b, struct td_op_batch *of, int64_t took_ns, struct td_error *err)
{
    const int64_t began_ns = td_clock_mono_ns();
    int i, rc = TD_OK;

    put_aside_what_lacked_memory(b, of);
    for (i = 0; i < of->n && !rc; i++)
        rc = write_op(b, &of->item[i], err);
    if (!rc) {
        td_op_pace_judged(b->pace, b->run, of->item, of->n, took_ns, td_clock_mono_ns() - began_ns);
        b->run->stats->replayed += of->n;
        atomic_store(&b->run->judged, b->run->stats->replayed);
    }
    release_items(b, of, 0);
    b->wrote_ns += td_clock_mono_ns() - began_ns;
    return rc;
}

/* ---- one stage at a time ------------------------------------------------------------------------------------------- */

/* A batch through all stages. *more: it was not empty. */
static int replay_alone(struct td_op_batches *b, bool *more, struct td_error *err)
{
    struct work judging = {.b = b, .of = &b->batch[0]};
    int rc = make_room(b, 1, BATCH_OPS, err);

    if (!rc)
        rc = read_batch(b, judging.of, limit_of(false), err);
    *more = judging.of->n > 0;
    if (!rc)
        rc = run_batch(b, judging.of, err);
    release_items(b, judging.of, judging.of->ran);
    if (!rc && judging.of->n) {
        snprintf(b->run->now, sizeof b->run->now, "judging against the reference");
        td_beside_start(&judging.thread, judge_batch, &judging);
        rc = wait_for(&judging, err);
    }
    rc = rc ? rc : write_batch(b, judging.of, judging.took_ns, err);
    *more |= b->n_aside > 0;
    return rc;
}

/* ---- all stages at once -------------------------------------------------------------------------------------------- */

bool td_op_batches_overlap(const struct td_op_batches *b)
{
    return td_op_judge_threads() > 1 && !(b->run->has_baseline && b->run->opt->op_timing) && td_memory_max() >= BESIDE_MEMORY &&
           td_memory_address_space() / 2 >= BESIDE_MEMORY;
}

static bool may_overlap(const struct td_op_batches *b)
{
    return !b->pace->measures && td_op_batches_overlap(b);
}

static void read_beside(void *arg)
{
    struct work *x = arg;

    x->rc = read_batch(x->b, x->of, x->most, &x->err);
}

/* Read one batch, run the next and judge the one after that; write what was judged. An error is that of the batch which came first.
 *   reading->of : NULL: nothing more is read */
static int step(struct td_op_batches *b, struct work *reading, struct td_op_batch *running, struct work *judging, struct td_error *err)
{
    struct td_error ran = {0};
    int rc, run_rc;

    if (judging->of->n)
        td_beside_start(&judging->thread, judge_batch, judging);
    if (reading->of)
        td_beside_start(&reading->thread, read_beside, reading);
    run_rc = run_batch(b, running, &ran);
    snprintf(b->run->now, sizeof b->run->now, "judging against the reference");
    rc = wait_for(judging, err);
    wait_for(reading, NULL);
    release_items(b, running, running->ran); /* the loader is the reader's until it has ended */
    if (!rc)
        rc = write_batch(b, judging->of, judging->took_ns, err);
    return rc || !run_rc ? rc : td_fail(err, run_rc, "%s", ran.msg);
}

/* Replay until the window is at its end, or an op must be alone. A batch that could not be read is the last. */
static int replay_overlapped(struct td_op_batches *b, struct td_error *err)
{
    struct td_op_batch *to = &b->batch[0], *running = &b->batch[1], *judged = &b->batch[2];
    struct td_error unread = {0};
    bool more = true;
    int rc = make_room(b, TD_OP_BATCH_STAGES, BATCH_OPS, err);

    td_memory_keep_freed(); /* there is much, or the stages would not work at once */
    while (!rc && (more || running->n || judged->n)) {
        struct work judging = {.b = b, .of = judged},
                    reading = {.b = b, .of = more && !is_over(b) ? to : NULL, .most = limit_of(true)};

        rc = step(b, &reading, running, &judging, err);
        if (reading.rc) {
            unread = reading.err;
            release_items(b, to, 0);
        }
        more = reading.of && to->n > 0 && !b->n_aside;
        judged = running;
        running = to;
        to = judging.of;
    }
    return rc || !unread.code ? rc : td_fail(err, unread.code, "%s", unread.msg);
}

int td_op_batches_replay(struct td_op_batches *b, struct td_op_window *w, struct td_error *err)
{
    bool more = true;
    int rc = TD_OK;

    b->window = w;
    b->threads = td_op_judge_threads();
    b->read_ahead = 0;
    while (!rc && more && !is_over(b)) {
        if (b->n_aside || !may_overlap(b)) {
            rc = replay_alone(b, &more, err);
        } else {
            rc = replay_overlapped(b, err);
            more = b->n_aside > 0;
        }
    }
    release_all(b);
    b->window = NULL;
    return rc;
}
