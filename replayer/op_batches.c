/* op_batches.c - how ops go through a replay: read, run, judged, written, in batches.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_batches.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/beside.h"
#include "common/clock.h"
#include "common/memory.h"
#include "replayer/handover.h"
#include "replayer/op_batch_read.h"
#include "replayer/op_batch_write.h"
#include "replayer/op_judge.h"
#include "replayer/replay_times.h"

#define MOST_ASIDE (TD_OP_BATCH_OPS + TD_OP_BATCHES * (TD_OP_BATCH_BESIDE_OPS + 1)) /* all there are; nothing is read as long as an op waits */
#define JUDGES 2 /* batches that are judged at once: while one waits for its last work, the other has some */
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
            of->item = calloc(i ? TD_OP_BATCH_BESIDE_OPS : TD_OP_BATCH_OPS, sizeof *of->item);
        ok = ok && of->item;
    }
    if (!b->aside)
        b->aside = calloc(MOST_ASIDE, sizeof *b->aside);
    return ok && b->aside ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory for %d batches of ops", batches);
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

static int run_batch(struct td_op_batches *b, struct td_op_batch *of, struct td_error *err)
{
    const int64_t began_ns = td_clock_mono_ns();
    int rc = TD_OK;

    while (of->ran < of->n && !rc && !is_over(b) && !td_op_pace_is_late(b->pace, b->run)) {
        struct td_op_item *it = &of->item[of->ran++];

        rc = td_op_run(b->run, it, err);
        if (rc == TD_EINTR && is_over(b)) { /* it did not come to its end */
            td_error_clear(err);
            of->ran--;
            rc = TD_OK;
            break;
        }
        td_op_pace_ran(b->pace, it);
        td_replay_is_at(TD_AT_FIRST_OP);
        atomic_fetch_add(&b->run->ran, 1);
    }
    td_replay_is_at(TD_AT_LAST_OP);
    if (!rc) /* what ran is timed, though the time may be over */
        td_op_pace_rest(b->pace, td_op_run_time(b->run, of->item, of->ran));
    b->ran_ns += td_clock_mono_ns() - began_ns;
    return rc > 0 ? TD_EIO : rc;
}

static void show_progress(void *ctx)
{
    struct td_op_batches *b = ctx;

    is_over(b);
    td_op_run_show_progress(b->run);
}

/* Make a batch empty, once it was written, or where it cannot be. What lacked memory is put aside. */
static void empty_batch(struct td_op_batches *b, struct td_op_batch *of)
{
    for (int i = 0; i < of->ran; i++)
        if (td_op_item_may_try_again(&of->item[i])) {
            td_op_batch_set_aside(b, &of->item[i]);
            atomic_fetch_sub(&b->run->ran, 1);
        }
    release_items(b, of, 0);
    of->ran = of->told = 0;
    of->bytes = 0;
}

/* ---- one stage at a time ------------------------------------------------------------------------------------------- */

/* Judging beside the main thread, which shows the progress. */
struct judging { struct td_op_batches *b; struct td_op_batch *of; int rc; struct td_error err; };

static void judge_beside(void *arg)
{
    struct judging *x = arg;

    x->rc = td_op_batch_judge(x->b, x->of, x->b->threads, &x->err);
}

/* A batch through all stages. *more: it was not empty. */
static int replay_alone(struct td_op_batches *b, bool *more, struct td_error *err)
{
    struct judging x = {.b = b, .of = &b->batch[0]};
    struct td_beside thread = {0};
    int rc = make_room(b, 1, err);

    if (!rc)
        rc = td_op_batch_read(b, x.of, false, err);
    *more = x.of->n > 0;
    if (!rc)
        rc = run_batch(b, x.of, err);
    if (!rc && x.of->ran) {
        snprintf(b->run->now, sizeof b->run->now, "judging against the reference");
        td_beside_start(&thread, judge_beside, &x);
        td_beside_wait(&thread, show_progress, b);
        rc = x.rc ? td_fail(err, x.rc, "%s", x.err.msg) : td_op_batch_write(b, x.of, err);
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

/* The stages, each in its thread or threads, and what is between them. */
struct stages {
    struct td_op_batches *b;
    struct td_handover empty, read, ran; /* batches: for the reader, for the main thread, for those who judge */
    atomic_bool failed;                  /* to judge or to write */
    int read_rc, judge_rc;
    struct td_error read_err, judge_err;
    atomic_int judged_now;               /* batches */
    pthread_mutex_t taking, writing;     /* who takes a batch to judge it; who writes one: guards what follows */
    pthread_cond_t wrote;
    int64_t n_taken, n_written;          /* batches: they are written in the order in which they are taken */
};

/* Read batches, until the window is at its end, or an op must be alone. A batch that could not be read is the last. */
static void read_beside(void *arg)
{
    struct stages *s = arg;
    struct td_op_batches *b = s->b;
    struct td_op_batch *spare[TD_OP_BATCHES], *of;
    const size_t most = td_op_batch_most_bytes();
    size_t bytes = 0;
    int n = 0;

    while (!s->read_rc && !atomic_load(&b->ends) && !b->n_aside) {
        if (n && bytes < most) {
            of = spare[--n];
            s->read_rc = td_op_batch_read(b, of, true, &s->read_err);
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

/* The batch that ran next, and its number. NULL: there is none, and none will come. */
static struct td_op_batch *take_ran(struct stages *s, int64_t *number)
{
    struct td_op_batch *of;

    pthread_mutex_lock(&s->taking);
    of = td_handover_take(&s->ran, NULL, NULL);
    *number = s->n_taken++;
    pthread_mutex_unlock(&s->taking);
    return of;
}

/* Write a batch that was judged with that result, once all before it are written. After an error nothing is. */
static void write_in_turn(struct stages *s, struct td_op_batch *of, int64_t number, int judged, const struct td_error *why)
{
    pthread_mutex_lock(&s->writing);
    while (s->n_written != number)
        pthread_cond_wait(&s->wrote, &s->writing);
    if (!s->judge_rc && judged)
        s->judge_rc = td_fail(&s->judge_err, judged, "%s", why->msg);
    if (!s->judge_rc)
        s->judge_rc = td_op_batch_write(s->b, of, &s->judge_err);
    if (s->judge_rc)
        atomic_store(&s->failed, true);
    s->n_written++;
    pthread_cond_broadcast(&s->wrote);
    pthread_mutex_unlock(&s->writing);
}

/* Judge a batch with all threads, or with its share of them where another one is judged. */
static int judge_with_others(struct stages *s, struct td_op_batch *of, struct td_error *err)
{
    const int others = atomic_fetch_add(&s->judged_now, 1);
    const int rc = td_op_batch_judge(s->b, of, others ? (s->b->threads + 1) / JUDGES : s->b->threads, err);

    atomic_fetch_sub(&s->judged_now, 1);
    return rc;
}

/* Judge and write what ran, beside another thread that does so too. */
static void judge_and_write(void *arg)
{
    struct stages *s = arg;
    struct td_op_batch *of;
    int64_t number;

    while ((of = take_ran(s, &number))) {
        struct td_error why = {0};
        const int rc = atomic_load(&s->failed) ? TD_OK : judge_with_others(s, of, &why);

        write_in_turn(s, of, number, rc, &why);
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
    struct td_beside reader = {0}, judge[JUDGES] = {0};
    struct td_error ran = {0};
    int i, rc = make_room(b, TD_OP_BATCHES, err);

    if (rc)
        return rc;
    td_memory_keep_freed(); /* there is much, or the stages would not work at once */
    td_handover_init(&s.empty);
    td_handover_init(&s.read);
    td_handover_init(&s.ran);
    pthread_mutex_init(&s.taking, NULL);
    pthread_mutex_init(&s.writing, NULL);
    pthread_cond_init(&s.wrote, NULL);
    for (i = 0; i < TD_OP_BATCHES; i++)
        td_handover_put(&s.empty, &b->batch[i]);
    b->no_threads = !td_beside_try(&judge[0], judge_and_write, &s) || !td_beside_try(&reader, read_beside, &s);
    for (i = 1; i < JUDGES && !b->no_threads; i++)
        if (!td_beside_try(&judge[i], judge_and_write, &s))
            break; /* the others judge all */
    if (!b->no_threads) {
        rc = run_batches(&s, &ran);
        if (rc || atomic_load(&s.failed))
            atomic_store(&b->ends, true);
    }
    td_handover_close(&s.empty);
    td_handover_close(&s.ran);
    snprintf(b->run->now, sizeof b->run->now, "judging against the reference");
    for (i = 0; i < JUDGES; i++)
        td_beside_wait(&judge[i], show_progress, b);
    td_beside_wait(&reader, NULL, NULL);
    td_handover_release(&s.empty);
    td_handover_release(&s.read);
    td_handover_release(&s.ran);
    pthread_mutex_destroy(&s.taking);
    pthread_mutex_destroy(&s.writing);
    pthread_cond_destroy(&s.wrote);
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
