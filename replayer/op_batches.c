/* op_batches.c - how ops go through a replay: read, run, judged, written, in batches.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_batches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "replayer/beside.h"
#include "replayer/handover.h"
#include "replayer/op_judge.h"
#include "replayer/op_rewrite.h"
#include "replayer/op_timing.h"
#include "replayer/replay_times.h"

#define BATCH_OPS 256                    /* of a batch that is alone */
#define BESIDE_OPS 64                    /* of one of several */
#define MOST_ASIDE (BATCH_OPS + TD_OP_BATCHES * (BESIDE_OPS + 1)) /* all there are; nothing is read as long as an op waits */
#define AHEAD_OPS 32                     /* of which tensors are read at once, */
#define AHEAD_BYTES ((uint64_t)64 << 20) /* or so many bytes of them */
#define BATCH_BYTES ((size_t)1 << 30)    /* with so many in all batches together, or an eighth of the memory, none is begun */
#define PARTS 3                          /* of these an op may be one; a larger one is alone */
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
    for (int i = 0; i < TD_OP_BATCHES; i++)
        release_items(b, &b->batch[i], 0);
    while (b->n_aside > 0)
        release_waiting(&b->aside[--b->n_aside]);
}

void td_op_batches_release(struct td_op_batches *b)
{
    for (int i = 0; i < TD_OP_BATCHES; i++)
        free(b->batch[i].item);
    free(b->aside);
}

static int make_room(struct td_op_batches *b, int batches, struct td_error *err)
{
    bool ok = true;

    for (int i = 0; i < batches; i++) {
        struct td_op_batch *of = &b->batch[i];

        if (!of->item)
            of->item = calloc(i ? BESIDE_OPS : BATCH_OPS, sizeof *of->item);
        ok = ok && of->item;
    }
    if (!b->aside)
        b->aside = calloc(MOST_ASIDE, sizeof *b->aside);
    return ok && b->aside ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory for %d batches of ops", batches);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

/* How much a batch may hold, and one op of it. */
struct limit { int ops; size_t bytes, op_bytes; };

static size_t most_bytes(void)
{
    const size_t part = (size_t)td_memory_max() / 8;

    return part < BATCH_BYTES ? part : BATCH_BYTES;
}

static struct limit limit_of(bool beside)
{
    const size_t most = most_bytes();

    return beside ? (struct limit){BESIDE_OPS, most / TD_OP_BATCHES, most / PARTS} : (struct limit){BATCH_OPS, most, SIZE_MAX};
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
    td_replay_spent(TD_TIME_READ_BLOBS, began_ns);
    n = item_bytes(b, it, before);
    if (!it->is_alone && (it->no_memory || n > most->op_bytes)) {
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
    td_replay_spent(TD_TIME_READ_BLOBS, began_ns);
}

static int read_batch(struct td_op_batches *b, struct td_op_batch *to, bool beside, struct td_error *err)
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

/* ---- running ------------------------------------------------------------------------------------------------------- */

static int run_batch(struct td_op_batches *b, struct td_op_batch *of, struct td_error *err)
{
    const int64_t began_ns = td_clock_mono_ns();
    int rc = TD_OK;

    while (of->ran < of->n && !rc && !is_over(b) && !td_op_pace_is_late(b->pace, b->run)) {
        struct td_op_item *it = &of->item[of->ran++];

        rc = td_op_run(b->run, it, err);
        td_op_pace_ran(b->pace, it);
        atomic_fetch_add(&b->run->ran, 1);
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

/* Judge what ran. *took_ns: how long that took. */
static int judge_batch(struct td_op_batches *b, struct td_op_batch *of, int64_t *took_ns, struct td_error *err)
{
    const int64_t began_ns = td_clock_mono_ns();
    double products = 0;
    int64_t at;
    int i, rc;

    for (i = 0; i < of->ran; i++)
        products += (double)td_op_attr(&of->item[i].call, "m", 0) * (double)td_op_attr(&of->item[i].call, "n", 0) *
                    (double)td_op_attr(&of->item[i].call, "k", 0);
    td_reference_makers_expect(b->makers, products);
    rc = td_op_judge_batch(of->item, of->ran, b->makers, b->cache, b->threads, on_judged, b, err);
    if (b->run->has_baseline && b->run->opt->op_timing)
        td_reference_makers_settle(b->makers);
    at = td_clock_mono_ns();
    for (i = 0; i < of->ran; i++)
        if (!td_op_item_may_try_again(&of->item[i]))
            td_op_variety_add(b->variety, &of->item[i]);
    td_replay_spent(TD_TIME_JUDGE_VARIETY, at);
    *took_ns = td_clock_mono_ns() - began_ns;
    b->judged_ns += *took_ns;
    return rc;
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

/* Write what ran, but for what lacked memory: that is tried again.
 *   took_ns : the judging */
static int write_batch(struct td_op_batches *b, struct td_op_batch *of, int64_t took_ns, struct td_error *err)
{
    const int64_t began_ns = td_clock_mono_ns();
    int i, n = 0, rc = TD_OK;

    for (i = 0; i < of->ran && !rc; i++) {
        if (td_op_item_may_try_again(&of->item[i]))
            continue;
        rc = write_op(b, &of->item[i], err);
        n++;
    }
    if (!rc) {
        td_op_pace_judged(b->pace, b->run, of->item, of->ran, took_ns, td_clock_mono_ns() - began_ns);
        b->run->stats->replayed += n;
        atomic_store(&b->run->judged, b->run->stats->replayed);
    }
    b->wrote_ns += td_clock_mono_ns() - began_ns;
    return rc;
}

/* Make a batch empty, once it was written, or where it cannot be. What lacked memory is put aside. */
static void empty_batch(struct td_op_batches *b, struct td_op_batch *of)
{
    for (int i = 0; i < of->ran; i++)
        if (td_op_item_may_try_again(&of->item[i])) {
            set_aside(b, &of->item[i]);
            atomic_fetch_sub(&b->run->ran, 1);
        }
    release_items(b, of, 0);
    of->ran = 0;
    of->bytes = 0;
}

/* ---- one stage at a time ------------------------------------------------------------------------------------------- */

/* Judging beside the main thread, which shows the progress. */
struct judging { struct td_op_batches *b; struct td_op_batch *of; int64_t took_ns; int rc; struct td_error err; };

static void judge_beside(void *arg)
{
    struct judging *x = arg;

    x->rc = judge_batch(x->b, x->of, &x->took_ns, &x->err);
}

/* A batch through all stages. *more: it was not empty. */
static int replay_alone(struct td_op_batches *b, bool *more, struct td_error *err)
{
    struct judging x = {.b = b, .of = &b->batch[0]};
    struct td_beside thread = {0};
    int rc = make_room(b, 1, err);

    if (!rc)
        rc = read_batch(b, x.of, false, err);
    *more = x.of->n > 0;
    if (!rc)
        rc = run_batch(b, x.of, err);
    if (!rc && x.of->ran) {
        snprintf(b->run->now, sizeof b->run->now, "judging against the reference");
        td_beside_start(&thread, judge_beside, &x);
        td_beside_wait(&thread, show_progress, b);
        rc = x.rc ? td_fail(err, x.rc, "%s", x.err.msg) : write_batch(b, x.of, x.took_ns, err);
    }
    empty_batch(b, x.of);
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
    return !b->pace->measures && !b->no_threads && td_op_batches_overlap(b);
}

/* The stages, each in its thread, and what is between them. */
struct stages {
    struct td_op_batches *b;
    struct td_handover empty, read, ran; /* batches: for the reader, for the main thread, for who judges */
    atomic_bool failed;                  /* to judge or to write */
    int read_rc, judge_rc;
    struct td_error read_err, judge_err;
};

/* Read batches, until the window is at its end, or an op must be alone. A batch that could not be read is the last. */
static void read_beside(void *arg)
{
    struct stages *s = arg;
    struct td_op_batches *b = s->b;
    struct td_op_batch *spare[TD_OP_BATCHES], *of;
    const size_t most = most_bytes();
    size_t bytes = 0;
    int n = 0;

    while (!s->read_rc && !atomic_load(&b->ends) && !b->n_aside) {
        if (n && bytes < most) {
            of = spare[--n];
            s->read_rc = read_batch(b, of, true, &s->read_err);
            if (s->read_rc || !of->n)
                break;
            bytes += of->bytes;
            td_handover_put(&s->read, of);
        } else if ((of = td_handover_take(&s->empty, NULL, NULL))) {
            bytes -= of->bytes;
            empty_batch(b, of);
            spare[n++] = of;
        } else {
            break;
        }
    }
    td_handover_close(&s->read);
}

/* Judge and write what ran. */
static void judge_and_write(void *arg)
{
    struct stages *s = arg;
    struct td_op_batch *of;
    int64_t took_ns;

    while ((of = td_handover_take(&s->ran, NULL, NULL))) {
        if (!s->judge_rc)
            s->judge_rc = judge_batch(s->b, of, &took_ns, &s->judge_err);
        if (!s->judge_rc)
            s->judge_rc = write_batch(s->b, of, took_ns, &s->judge_err);
        if (s->judge_rc)
            atomic_store(&s->failed, true);
        td_handover_put(&s->empty, of);
    }
}

/* Run what was read, until nothing more comes. */
static int run_batches(struct stages *s, struct td_error *err)
{
    struct td_op_batch *of;
    int rc = TD_OK;

    while (!rc && !atomic_load(&s->failed) && !is_over(s->b) && (of = td_handover_take(&s->read, show_progress, s->b))) {
        rc = run_batch(s->b, of, err);
        if (!rc)
            td_handover_put(&s->ran, of);
    }
    return rc;
}

/* Replay until the window is at its end, or an op must be alone. An error is that of the batch which came first. */
static int replay_overlapped(struct td_op_batches *b, struct td_error *err)
{
    struct stages s = {.b = b};
    struct td_beside reader = {0}, judge = {0};
    struct td_error ran = {0};
    int i, rc = make_room(b, TD_OP_BATCHES, err);

    if (rc)
        return rc;
    td_memory_keep_freed(); /* there is much, or the stages would not work at once */
    td_handover_init(&s.empty);
    td_handover_init(&s.read);
    td_handover_init(&s.ran);
    for (i = 0; i < TD_OP_BATCHES; i++)
        td_handover_put(&s.empty, &b->batch[i]);
    b->no_threads = !td_beside_try(&judge, judge_and_write, &s) || !td_beside_try(&reader, read_beside, &s);
    if (!b->no_threads) {
        rc = run_batches(&s, &ran);
        if (rc || atomic_load(&s.failed))
            atomic_store(&b->ends, true);
    }
    td_handover_close(&s.empty);
    td_handover_close(&s.ran);
    snprintf(b->run->now, sizeof b->run->now, "judging against the reference");
    td_beside_wait(&judge, show_progress, b);
    td_beside_wait(&reader, NULL, NULL);
    td_handover_release(&s.empty);
    td_handover_release(&s.read);
    td_handover_release(&s.ran);
    for (i = 0; i < TD_OP_BATCHES; i++)
        empty_batch(b, &b->batch[i]);
    if (s.judge_rc)
        return td_fail(err, s.judge_rc, "%s", s.judge_err.msg);
    if (rc)
        return td_fail(err, rc, "%s", ran.msg);
    return s.read_rc ? td_fail(err, s.read_rc, "%s", s.read_err.msg) : TD_OK;
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
            more = b->n_aside > 0 || b->no_threads;
        }
    }
    release_all(b);
    b->window = NULL;
    return rc;
}
