/* op_batch_write.c - judge a batch of ops that ran, and write it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_batch_write.h"

#include <stdio.h>

#include "common/clock.h"
#include "replayer/op_judge.h"
#include "replayer/op_rewrite.h"
#include "replayer/replay_times.h"

static void on_judged(void *ctx, int n)
{
    struct td_op_batches *b = ctx;

    atomic_store(&b->run->judged, b->run->stats->replayed + n);
}

int td_op_batch_judge(struct td_op_batches *b, struct td_op_batch *of, int64_t *took_ns, struct td_error *err)
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

int td_op_batch_write(struct td_op_batches *b, struct td_op_batch *of, int64_t took_ns, struct td_error *err)
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
