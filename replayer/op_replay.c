/* op_replay.c - replay a fixture's ops in batches.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The main thread loads a batch and has the builds' processes run and time it. Then several threads
 * judge the batch, and the main thread writes it. So nothing else computes while a build is being
 * timed. Which ops: op_list.h, op_plan.h; for how long: op_pace.h. */
#include "replayer/op_replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/memory.h"
#include "common/number_words.h"
#include "common/progress.h"
#include "format/planned.h"
#include "replayer/build_pair.h"
#include "replayer/op_judge.h"
#include "replayer/op_load.h"
#include "replayer/op_pace.h"
#include "replayer/op_rewrite.h"
#include "replayer/op_run.h"
#include "replayer/op_timing.h"
#include "replayer/op_variety.h"
#include "replayer/op_window.h"

#define BATCH_OPS 256
#define BATCH_BYTES ((size_t)1 << 30)

struct op_replay {
    struct td_fixture *fx;
    struct td_writer *w;
    struct td_op_run run;
    struct td_op_rows rows;
    struct td_op_window *window;       /* the ops that come next */
    struct td_op_item *items; int n;   /* [BATCH_OPS] the batch */
    int64_t total;                     /* ops that are to be replayed */
    struct td_op_pace pace;
    struct td_reference_makers makers;
    int64_t by_gpu;                    /* ops that were written, judged by a GPU's references */
    struct td_ref_cache *cache;
    struct td_op_variety variety;
    int64_t ran_ns, judged_ns, wrote_ns; /* where the time went */
};

static bool stopped(const struct op_replay *j)
{
    return j->run.opt->stop && *j->run.opt->stop;
}

void td_op_replay_stats_release(struct td_op_replay_stats *s)
{
    free(s->rows);
    memset(s, 0, sizeof *s);
}

/* ---- builds -------------------------------------------------------------------------------------------------------- */

static int open_builds(const struct td_replay_options *o, struct td_build_pair *b,
                       struct td_op_replay_stats *s, struct td_error *err)
{
    int rc = td_build_pair_open(o, b, err);

    if (rc)
        return rc;
    snprintf(s->provider, sizeof s->provider, "%s", b->found[0].provider);
    snprintf(s->baseline_provider, sizeof s->baseline_provider, "%s", o->baseline_build ? b->found[1].provider : "");
    memcpy(s->build, b->words[0], sizeof s->build);
    memcpy(s->baseline_build, b->words[1], sizeof s->baseline_build);
    return TD_OK;
}

int td_op_replay_probe(const struct td_replay_options *o, struct td_op_replay_stats *s,
                       struct td_error *err)
{
    struct td_build_pair *b = calloc(1, sizeof *b);
    int rc = b ? open_builds(o, b, s, err) : td_fail(err, TD_ENOMEM, "out of memory");

    if (b)
        td_build_pair_close(b);
    free(b);
    return rc;
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static void count_status(struct op_replay *j, const struct td_op_item *it)
{
    char name[40];

    snprintf(name, sizeof name, "ops.%s", td_op_status_name(it->status));
    td_writer_count(j->w, name, 1, 0);
    j->run.stats->count[it->status]++;
    if (it->reason[0] && !j->run.stats->refusal[0])
        snprintf(j->run.stats->refusal, sizeof j->run.stats->refusal, "%s: %.400s", td_op_status_name(it->status), it->reason);
    td_op_rows_count(&j->rows, it);
}

static int write_judged_op(struct op_replay *j, struct td_op_item *it, struct td_error *err)
{
    int rc;

    count_status(j, it);
    j->by_gpu += it->by_gpu > 0;
    rc = td_op_rewrite(it, j->w, td_fixture_id(j->fx), j->run.opt->build, j->run.stats->build[0] ? j->run.stats->build : j->run.stats->provider, err);
    if (!rc && (rc = td_writer_op(j->w, &it->rec)))
        td_fail(err, rc, "cannot write op %lld", (long long)it->rec.op);
    return rc;
}

/* ---- batches ------------------------------------------------------------------------------------------------------- */

static int choose_threads(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > 16 ? 16 : (int)n;
}

static size_t item_bytes(const struct td_op_item *it)
{
    size_t n = (size_t)(it->candidate.repeats + it->baseline.repeats) * it->call.out.size_bytes;
    int t;

    for (t = 0; t < it->call.n_in; t++)
        n += it->call.in[t].size_bytes;
    return n;
}

/* Take the next op of the window. 1: it is the last item of the batch; 0: the batch ends here. */
static int take_op(struct op_replay *j, struct td_error *err)
{
    const struct td_op_choice *next = td_op_pace_next(&j->pace, &j->run, j->window, j->n == 0, err);
    struct td_op_item *it = &j->items[j->n];
    struct td_op rec = {0};
    int rc;

    if (!next)
        return err && err->code ? err->code : 0;
    rc = td_op_window_next(j->window, &rec, err);
    if (rc <= 0)
        return rc;
    memset(it, 0, sizeof *it);
    it->rec = rec;
    it->group = next->group;
    j->run.list.items[next - j->run.list.items].done = true;
    it->weights = next->weights;
    it->turn = next->rank;
    it->is_timed = next->turn < TD_OP_TIMING_PER_GROUP;
    it->status = TD_OP_OK;
    it->equal = -1;
    j->n++;
    return 1;
}

/* Run ops until the batch is full or the window is at its end. */
static int run_batch(struct op_replay *j, struct td_error *err)
{
    const size_t part = (size_t)td_memory_max() / 8, most = part < BATCH_BYTES ? part : BATCH_BYTES;
    const int64_t began_ns = td_clock_mono_ns();
    size_t bytes = 0;
    int rc = TD_OK;

    j->n = 0;
    while (j->n < BATCH_OPS && bytes < most && !stopped(j) && !rc && (rc = take_op(j, err)) > 0) {
        rc = td_op_run(&j->run, &j->items[j->n - 1], err);
        bytes += item_bytes(&j->items[j->n - 1]);
        td_op_pace_ran(&j->pace, &j->items[j->n - 1]);
        j->run.ran++;
    }
    j->ran_ns += td_clock_mono_ns() - began_ns;
    return rc > 0 ? TD_EIO : rc;
}

static void on_judged(void *ctx, int n)
{
    struct op_replay *j = ctx;

    j->run.judged = j->run.stats->replayed + n;
    td_op_run_show_progress(&j->run);
}

static int judge_batch(struct op_replay *j, struct td_error *err)
{
    const int64_t began_ns = td_clock_mono_ns();
    double products = 0;
    int i, rc;

    for (i = 0; i < j->n; i++)
        products += (double)td_op_attr(&j->items[i].call, "m", 0) * (double)td_op_attr(&j->items[i].call, "n", 0) *
                    (double)td_op_attr(&j->items[i].call, "k", 0);
    td_reference_makers_expect(&j->makers, products);
    rc = td_op_judge_batch(j->items, j->n, &j->makers, j->cache, choose_threads(), on_judged, j, err);
    if (j->run.has_baseline && j->run.opt->op_timing)
        td_reference_makers_settle(&j->makers);
    j->judged_ns += td_clock_mono_ns() - began_ns;
    return rc;
}

/* rc: of the run; what ran before it failed is released, too. */
static int finish_batch(struct op_replay *j, int rc, struct td_error *err)
{
    const int64_t began_ns = td_clock_mono_ns();
    int64_t wrote_ns;
    int i;

    snprintf(j->run.now, sizeof j->run.now, "judging against the reference");
    if (!rc)
        rc = judge_batch(j, err);
    wrote_ns = td_clock_mono_ns();
    for (i = 0; i < j->n; i++) {
        struct td_op_item *it = &j->items[i];

        if (!rc)
            rc = write_judged_op(j, it, err);
        td_op_variety_add(&j->variety, it);
        td_op_loader_put(j->run.loader, &it->hold);
        td_op_item_release(it);
    }
    j->wrote_ns += td_clock_mono_ns() - wrote_ns;
    if (rc)
        return rc;
    td_op_pace_judged(&j->pace, &j->run, j->items, j->n, td_clock_mono_ns() - began_ns);
    j->run.stats->replayed += j->n;
    j->run.judged = j->run.stats->replayed;
    return TD_OK;
}

/* Replay the ops of the list, in the order of their weights, or of their ranks before there is a plan.
 * which : taken */
static int replay_listed(struct op_replay *j, int32_t *which, size_t n, struct td_error *err)
{
    int rc = td_op_window_open(j->fx, &j->run.list, which, n, &j->window, err);

    while (!rc && !stopped(j)) {
        rc = run_batch(j, err);
        if (!j->n && !rc)
            break;
        rc = finish_batch(j, rc, err);
    }
    td_op_window_close(j->window);
    j->window = NULL;
    return rc;
}

/* ---- what is planned ------------------------------------------------------------------------------------------------ */

static void count_list(struct op_replay *j)
{
    struct td_op_replay_stats *s = j->run.stats;
    const struct td_op_list *l = &j->run.list;
    const struct { const char *name; int64_t n; } counts[] = {{"ops.seen", (int64_t)l->n},
                                                             {"ops.dropped.filter", l->not_matching},
                                                             {"ops.dropped.shard", l->other_shards},
                                                             {"ops.dropped.sampled", l->not_sampled},
                                                             {"ops.broken.frames", l->bad_frames}};
    size_t i;

    s->seen = (int64_t)l->n;
    s->not_matching = l->not_matching;
    s->other_shards = l->other_shards;
    s->not_sampled = l->not_sampled;
    s->bad_frames = l->bad_frames;
    for (i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].n)
            td_writer_count(j->w, counts[i].name, counts[i].n, 0);
    j->total = s->seen - s->not_matching - s->other_shards - s->not_sampled;
    td_planned_write(j->w, "ops", j->total);
}

/* Write down which ops are planned, and how many of those that could be. */
static int write_plan(struct op_replay *j, const char *by, int64_t left_out, struct td_error *err)
{
    struct td_op_replay_stats *s = j->run.stats;
    cJSON *plan;
    int rc = td_op_plan_share(&j->run.list, &s->share, err);

    if (rc)
        return rc;
    s->not_planned = left_out;
    s->planned_by = by;
    j->total -= left_out;
    if (left_out)
        td_writer_count(j->w, "ops.dropped.plan", left_out, 0);
    td_planned_write(j->w, "ops", j->total);
    plan = td_op_plan_json(&j->run.list, &s->share, by, j->run.opt->time_s, td_fixture_id(j->fx));
    rc = plan ? td_writer_fact(j->w, "replay", "op_plan", plan) : td_fail(err, TD_ENOMEM, "out of memory for the plan");
    cJSON_Delete(plan);
    return rc;
}

/* Replay the chosen ops that are not done, so that those with equal weights are neighbours. */
static int replay_chosen(struct op_replay *j, struct td_error *err)
{
    size_t n = 0;
    int32_t *which = td_op_list_by_weights(&j->run.list, &n);

    if (!which)
        return td_fail(err, TD_ENOMEM, "out of memory for %zu ops; --max-ops N replays fewer", j->run.list.n);
    return replay_listed(j, which, n, err);
}

static void say_plan(const struct op_replay *j)
{
    const struct td_op_share *s = &j->run.stats->share;
    char words[TD_OP_SHARE_WORDS];

    if (j->run.stats->not_planned)
        td_log_note("%s", td_op_share_words(s, words));
}

/* Measure, make the plan, replay the rest of it. */
static int replay_in_time(struct op_replay *j, struct td_error *err)
{
    int64_t left_out = 0;
    size_t n = 0;
    int32_t *which = td_op_pace_measure(&j->pace, &j->run.list, &n);
    int rc = which ? replay_listed(j, which, n, err) : td_fail(err, TD_ENOMEM, "out of memory for a plan");

    if (!rc && !stopped(j))
        rc = td_op_pace_plan(&j->pace, &j->run, &left_out, err);
    if (!rc && !stopped(j))
        rc = write_plan(j, "time", left_out, err);
    if (rc || stopped(j))
        return rc;
    j->run.progress.total = j->total;
    say_plan(j);
    return replay_chosen(j, err);
}

static int replay_as_planned(struct op_replay *j, const char *by, int64_t left_out, struct td_error *err)
{
    int rc = write_plan(j, by, left_out, err);

    if (j->run.opt->time_s > 0)
        j->pace.stop_s = j->run.opt->time_s;
    j->run.progress.total = j->total;
    return rc ? rc : replay_chosen(j, err);
}

/* Take the plan of --plan. */
static int replay_given_plan(struct op_replay *j, struct td_error *err)
{
    int64_t left_out = 0;
    cJSON *plan = NULL;
    int rc = td_op_plan_load(j->run.opt->plan, td_fixture_id(j->fx), &plan, err);

    if (!rc)
        rc = td_op_plan_choose(plan, &j->run.list, &left_out, err);
    cJSON_Delete(plan);
    return rc ? rc : replay_as_planned(j, "plan", left_out, err);
}

static int run_all(struct op_replay *j, struct td_error *err)
{
    const struct td_replay_options *o = j->run.opt;
    const int64_t *done = &j->run.stats->replayed;
    int rc;

    td_progress_start(&j->run.progress, "ops", o->plan || o->time_s > 0 ? 0 : j->total);
    if (o->plan)
        rc = replay_given_plan(j, err);
    else if (o->time_s > 0)
        rc = replay_in_time(j, err);
    else
        rc = replay_as_planned(j, j->run.list.not_sampled ? "max-ops" : "all", 0, err);
    td_progress_done(&j->run.progress);
    td_log(TD_LOG_INFO, "replay", "%lld ops: %.2f s reading and running builds, %.2f s judging, %.2f s writing", (long long)*done,
           (double)j->ran_ns / TD_NS_PER_S, (double)j->judged_ns / TD_NS_PER_S, (double)j->wrote_ns / TD_NS_PER_S);
    if (!rc && stopped(j)) {
        j->run.stats->interrupted = true;
        td_writer_count(j->w, "ops.dropped.interrupted", j->total - *done, 0);
        rc = td_fail(err, TD_EINTR, "stopped after %lld of %lld ops", (long long)*done, (long long)j->total);
    } else if (!rc && j->pace.late) {
        j->run.stats->late = true;
        td_writer_count(j->w, "ops.dropped.time", j->total - *done, 0);
    }
    return rc;
}

static void count_references(struct op_replay *j)
{
    struct td_ref_cache_counts *n = &j->run.stats->cache;
    cJSON *fact = cJSON_CreateObject();

    td_ref_cache_counts(j->cache, n);
    if (n->damaged)
        td_log(TD_LOG_WARN, "replay", "%lld reference%s in the cache %s damaged: computed again", (long long)n->damaged,
               td_plural(n->damaged), td_was(n->damaged));
    cJSON_AddNumberToObject(fact, "computed", (double)n->computed);
    cJSON_AddNumberToObject(fact, "found", (double)n->found);
    td_writer_fact(j->w, "replay", "reference_cache", fact);
    cJSON_Delete(fact);
}

static void write_variety(struct op_replay *j)
{
    cJSON *fact = td_op_variety_json(&j->variety);

    td_writer_fact(j->w, "replay", "variety", fact);
    cJSON_Delete(fact);
}

static void release_replay(struct op_replay *j)
{
    td_op_variety_release(&j->variety);
    if (j->run.builds)
        td_build_pair_close(j->run.builds);
    free(j->run.builds);
    free(j->items);
    free(j->run.groups);
    td_op_rows_release(&j->rows);
    td_op_loader_free(j->run.loader);
    td_op_list_release(&j->run.list);
    td_ref_cache_close(j->cache);
}

static int make_room(struct op_replay *j, struct td_error *err)
{
    int rc = td_op_rows_make(&j->rows, &j->run.list, (size_t)j->total, err);

    j->run.stats->rows = j->rows.row;
    j->run.stats->n_rows = j->rows.n;
    if (rc)
        return rc;
    j->run.groups = calloc(j->run.list.n_groups + 1, sizeof *j->run.groups);
    j->items = calloc(BATCH_OPS, sizeof *j->items);
    j->run.loader = td_op_loader_new(j->fx, j->run.opt->checkpoint);
    j->run.builds = calloc(1, sizeof *j->run.builds);
    j->cache = td_ref_cache_open(j->run.opt->cache, j->run.opt->cache_bytes);
    return j->cache && j->run.groups && j->items && j->run.loader && j->run.builds ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory");
}

int td_op_replay(struct td_fixture *fx, struct td_writer *w, const struct td_replay_options *opt,
                 struct td_op_replay_stats *stats, struct td_error *err)
{
    struct op_replay j = {.fx = fx,
                          .w = w,
                          .run = {.opt = opt, .stats = stats, .has_baseline = opt->baseline_build != NULL}};
    int64_t start = td_clock_mono_ns();
    int rc;

    td_op_pace_begin(&j.pace, opt->time_s);
    rc = td_op_list_scan(fx, opt, &j.run.list, err);
    j.pace.pass_s = (double)(td_clock_mono_ns() - start) / TD_NS_PER_S;
    if (!rc) {
        count_list(&j);
        rc = make_room(&j, err);
    }
    if (!rc && j.total)
        rc = open_builds(opt, j.run.builds, stats, err);
    if (!rc && j.total)
        rc = td_reference_makers_open(&j.makers, opt->reference, err);
    if (!rc && j.total)
        rc = run_all(&j, err);
    td_reference_makers_settle(&j.makers);
    if (j.by_gpu && td_reference_makers_are_wrong(&j.makers))
        td_writer_count(w, "ops.distrusted", j.by_gpu, 0);
    td_reference_makers_words(&j.makers, stats->references, sizeof stats->references);
    stats->driver_hangs = !td_reference_makers_close(&j.makers);
    td_op_rows_finish(&j.rows);
    if (j.cache)
        count_references(&j);
    if (j.variety.n)
        write_variety(&j);
    stats->children = j.run.builds ? j.run.builds->candidate.starts : 0;
    stats->seconds = (double)(td_clock_mono_ns() - start) / TD_NS_PER_S;
    release_replay(&j);
    return rc;
}
