/* op_batch_write.c - judge a batch of ops that ran, and write it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_batch_write.h"

#include <stdio.h>

#include "common/clock.h"
#include "replayer/op_judge.h"
#include "replayer/op_rewrite.h"
#include "replayer/replay_times.h"

struct judging { struct td_op_run *run; struct td_op_batch *of; };

static void on_judged(void *ctx, int n)
{
    struct judging *x = ctx;

    atomic_fetch_add(&x->run->judged, n - x->of->told);
    x->of->told = n;
}

int td_op_batch_judge(struct td_op_batches *b, struct td_op_batch *of, int threads, struct td_error *err)
{
    struct judging x = {b->run, of};
    const int64_t began_ns = td_clock_mono_ns();
    const int rc = td_op_judge_batch(of->item, of->ran, b->makers, b->cache, threads, on_judged, &x, err);

    of->judged_ns = td_clock_mono_ns() - began_ns;
    return rc;
}

static void add_variety(struct td_op_batches *b, const struct td_op_batch *of)
{
    const int64_t began_ns = td_clock_mono_ns();

    for (int i = 0; i < of->ran; i++)
        if (!td_op_item_may_try_again(&of->item[i]))
            td_op_variety_add(b->variety, &of->item[i]);
    td_replay_spent(TD_TIME_JUDGE_VARIETY, began_ns);
}

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

int td_op_batch_write(struct td_op_batches *b, struct td_op_batch *of, struct td_error *err)
{
    const int64_t began_ns = td_clock_mono_ns();
    int i, n = 0, rc = TD_OK;

    add_variety(b, of);
    for (i = 0; i < of->ran && !rc; i++) {
        if (td_op_item_may_try_again(&of->item[i]))
            continue;
        rc = write_op(b, &of->item[i], err);
        n++;
    }
    if (!rc) {
        td_op_pace_judged(b->pace, b->run, of->item, of->ran, of->judged_ns, td_clock_mono_ns() - began_ns);
        b->run->stats->replayed += n;
        atomic_fetch_add(&b->run->judged, n - of->told);
    }
    b->judged_ns += of->judged_ns;
    b->wrote_ns += td_clock_mono_ns() - began_ns;
    return rc;
}
