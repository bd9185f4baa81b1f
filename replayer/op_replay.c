/* op_replay.c - replay a fixture's ops in batches.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which ops: op_list.h, op_plan.h; for how long: op_pace.h; how they are read, run, judged and written:
 * op_batches.h. */
#include "replayer/op_replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/number_words.h"
#include "common/progress.h"
#include "format/planned.h"
#include "replayer/build_pair.h"
#include "replayer/op_batches.h"
#include "replayer/op_judge.h"
#include "replayer/op_load.h"
#include "replayer/op_pace.h"
#include "replayer/op_run.h"
#include "replayer/op_timing.h"
#include "replayer/op_variety.h"
#include "replayer/op_window.h"
#include "replayer/replay_times.h"

struct td_op_replay {
    struct td_fixture *fx;
    struct td_writer *w;
    struct td_op_run run;
    struct td_op_rows rows;
    struct td_op_batches batches;
    int64_t total;                     /* ops that are to be replayed */
    struct td_op_pace pace;
    struct td_reference_makers makers;
    struct td_ref_cache *cache;
    struct td_op_variety variety;
    bool is_listed;
    int64_t left_by_plan;              /* ops that the plan of --plan leaves out */
    int64_t began_ns;
};

static bool stopped(const struct td_op_replay *j)
{
    return j->run.opt->stop && *j->run.opt->stop;
}

void td_op_replay_stats_release(struct td_op_replay_stats *s)
{
    free(s->rows);
    memset(s, 0, sizeof *s);
}

/* Replay the ops of the list, in the order of their weights, or of their ranks before there is a plan.
 * which : taken */
static int replay_listed(struct td_op_replay *j, int32_t *which, size_t n, struct td_error *err)
{
    struct td_op_window *w;
    int rc = td_op_window_open(j->fx, &j->run.list, which, n, &w, err);

    if (!rc)
        rc = td_op_batches_replay(&j->batches, w, err);
    td_op_window_close(w);
    return rc;
}

/* ---- what is planned ------------------------------------------------------------------------------------------------ */

static void count_list(struct td_op_replay *j)
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
static int write_plan(struct td_op_replay *j, const char *by, int64_t left_out, struct td_error *err)
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

/* Put those that will be timed in front, each part in its order, where they share their starts: each batch that holds some of them
 * costs all these starts.
 *   which : [n] */
static int put_timed_first(const struct td_op_replay *j, int32_t *which, size_t n)
{
    const struct td_op_choice *items = j->run.list.items;
    int32_t *rest;
    size_t i, timed = 0, others = 0;

    if (!j->run.has_baseline || !j->run.opt->op_timing || !td_op_timing_shares(&j->run.builds->baseline, &j->run.builds->candidate))
        return TD_OK;
    if (!(rest = malloc((n + 1) * sizeof *rest)))
        return TD_ENOMEM;
    for (i = 0; i < n; i++) {
        if (items[which[i]].turn < TD_OP_TIMING_PER_GROUP)
            which[timed++] = which[i];
        else
            rest[others++] = which[i];
    }
    memcpy(which + timed, rest, others * sizeof *rest);
    free(rest);
    return TD_OK;
}

/* Replay the chosen ops that are not done, so that those with equal weights are neighbours. */
static int replay_chosen(struct td_op_replay *j, struct td_error *err)
{
    size_t n = 0;
    int32_t *which = td_op_list_by_weights(&j->run.list, &n);

    if (!which || put_timed_first(j, which, n)) {
        free(which);
        return td_fail(err, TD_ENOMEM, "out of memory for %zu ops; --max-ops N replays fewer", j->run.list.n);
    }
    return replay_listed(j, which, n, err);
}

static void say_plan(const struct td_op_replay *j)
{
    const struct td_op_share *s = &j->run.stats->share;
    char words[TD_OP_SHARE_WORDS];

    if (j->run.stats->not_planned)
        td_log_note("%s", td_op_share_words(s, words));
}

/* Measure, make the plan, replay the rest of it. */
static int replay_in_time(struct td_op_replay *j, struct td_error *err)
{
    int64_t left_out = 0;
    size_t n = 0;
    int32_t *which = td_op_pace_measure(&j->pace, &j->run.list, &n);
    int rc;

    j->pace.overlaps = td_op_batches_overlap(&j->batches);
    j->pace.cpus = td_op_judge_threads();
    rc = which ? replay_listed(j, which, n, err) : td_fail(err, TD_ENOMEM, "out of memory for a plan");

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

static int replay_as_planned(struct td_op_replay *j, const char *by, int64_t left_out, struct td_error *err)
{
    int rc = write_plan(j, by, left_out, err);

    if (j->run.opt->time_s > 0)
        j->pace.stop_s = j->run.opt->time_s;
    j->run.progress.total = j->total;
    return rc ? rc : replay_chosen(j, err);
}

static int run_all(struct td_op_replay *j, struct td_error *err)
{
    const struct td_replay_options *o = j->run.opt;
    const struct td_op_batches *b = &j->batches;
    const int64_t *done = &j->run.stats->replayed;
    int rc;

    td_progress_start(&j->run.progress, "ops", o->plan || o->time_s > 0 ? 0 : j->total);
    if (o->plan)
        rc = replay_as_planned(j, "plan", j->left_by_plan, err);
    else if (o->time_s > 0)
        rc = replay_in_time(j, err);
    else
        rc = replay_as_planned(j, j->run.list.not_sampled ? "max-ops" : "all", 0, err);
    td_progress_done(&j->run.progress);
    td_replay_is_at(TD_AT_JUDGED);
    td_log(TD_LOG_INFO, "replay", "%lld ops: %.2f s reading, %.2f s running builds, %.2f s judging, %.2f s writing", (long long)*done,
           (double)b->read_ns / TD_NS_PER_S, (double)b->ran_ns / TD_NS_PER_S, (double)b->judged_ns / TD_NS_PER_S,
           (double)b->wrote_ns / TD_NS_PER_S);
    td_replay_times_log();
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

static void count_references(struct td_op_replay *j)
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

static void write_variety(struct td_op_replay *j)
{
    cJSON *fact = td_op_variety_json(&j->variety);

    td_writer_fact(j->w, "replay", "variety", fact);
    cJSON_Delete(fact);
}

static int make_room(struct td_op_replay *j, struct td_error *err)
{
    int rc = td_op_rows_make(&j->rows, &j->run.list, (size_t)j->total, err);

    j->run.stats->rows = j->rows.row;
    j->run.stats->n_rows = j->rows.n;
    if (rc)
        return rc;
    j->run.groups = calloc(j->run.list.n_groups + 1, sizeof *j->run.groups);
    j->run.loader = td_op_loader_new(j->fx, j->run.opt->checkpoint);
    j->batches.cache = j->cache = td_ref_cache_open(j->run.opt->cache, j->run.opt->cache_bytes);
    return j->cache && j->run.groups && j->run.loader ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory");
}

/* ---- open, run, close ---------------------------------------------------------------------------------------------- */

/* Take the plan of --plan, before anything is decided by what will be judged. */
static int take_plan(struct td_op_replay *j, struct td_error *err)
{
    cJSON *plan = NULL;
    int rc = td_op_plan_load(j->run.opt->plan, td_fixture_id(j->fx), &plan, err);

    if (!rc)
        rc = td_op_plan_choose(plan, &j->run.list, &j->left_by_plan, err);
    cJSON_Delete(plan);
    return rc;
}

static int list_ops(struct td_op_replay *j, struct td_error *err)
{
    const int64_t began_ns = td_clock_mono_ns();
    int rc = td_op_list_scan(j->fx, j->run.opt, &j->run.list, err);

    j->pace.pass_s = (double)(td_clock_mono_ns() - began_ns) / TD_NS_PER_S;
    j->total = (int64_t)j->run.list.n - j->run.list.not_matching - j->run.list.other_shards - j->run.list.not_sampled;
    if (!rc && j->run.opt->plan)
        rc = take_plan(j, err);
    td_replay_is_at(TD_AT_LISTED);
    return rc;
}

static int await_builds(struct td_op_replay *j, struct td_error *err)
{
    const struct td_replay_options *o = j->run.opt;
    const struct td_build_pair *b = j->run.builds;
    struct td_op_replay_stats *s = j->run.stats;
    int rc = td_build_pair_await(o, j->run.builds, err);

    if (rc)
        return rc;
    td_replay_is_at(TD_AT_BUILDS_OPEN);
    snprintf(s->provider, sizeof s->provider, "%s", b->found[0].provider);
    snprintf(s->baseline_provider, sizeof s->baseline_provider, "%s", o->baseline_build ? b->found[1].provider : "");
    memcpy(s->build, b->words[0], sizeof s->build);
    memcpy(s->baseline_build, b->words[1], sizeof s->baseline_build);
    return TD_OK;
}

/* Load the builds, and do the rest meanwhile. */
static int open_all(struct td_op_replay *j, bool at_once, struct td_error *err)
{
    const double pass_s = j->pace.pass_s; /* the second time nothing is listed */
    struct td_error unlisted = {0};
    int rc;

    j->began_ns = td_clock_mono_ns();
    td_op_pace_begin(&j->pace, j->run.opt->time_s);
    j->pace.pass_s = pass_s;
    rc = td_build_pair_begin(j->run.opt, &j->run.builds, err);
    if (rc)
        return rc;
    if (!j->is_listed && !list_ops(j, &unlisted))
        j->is_listed = true;
    if (at_once && j->is_listed && j->total)
        td_reference_makers_start(&j->makers, j->run.opt->reference, td_op_list_products(&j->run.list), j->run.opt->time_s);
    rc = await_builds(j, err);
    return !rc && !j->is_listed ? td_fail(err, unlisted.code, "%s", unlisted.msg) : rc;
}

int td_op_replay_open(struct td_fixture *fx, const struct td_replay_options *opt, bool at_once, struct td_op_replay_stats *stats,
                      struct td_op_replay **out, struct td_error *err)
{
    struct td_op_replay *j = calloc(1, sizeof *j);
    int rc;

    *out = NULL;
    if (!j)
        return td_fail(err, TD_ENOMEM, "out of memory");
    j->fx = fx;
    j->run.opt = opt;
    j->run.stats = stats;
    j->run.has_baseline = opt->baseline_build != NULL;
    rc = open_all(j, at_once, err);
    if (rc) {
        td_op_replay_close(j);
        return rc;
    }
    if (!at_once) {
        td_build_pair_free(j->run.builds);
        j->run.builds = NULL;
    }
    *out = j;
    return TD_OK;
}

int td_op_replay_run(struct td_op_replay *j, struct td_writer *w, struct td_error *err)
{
    struct td_op_replay_stats *stats = j->run.stats;
    int rc = j->run.builds ? TD_OK : open_all(j, true, err);

    j->w = w;
    j->batches = (struct td_op_batches){.fx = j->fx, .w = w, .run = &j->run, .pace = &j->pace, .rows = &j->rows, .makers = &j->makers, .variety = &j->variety};
    if (!rc) {
        count_list(j);
        rc = make_room(j, err);
    }
    if (!rc && j->total)
        rc = td_reference_makers_check(&j->makers, j->run.opt->reference, err);
    if (j->run.has_baseline && j->run.opt->op_timing) /* nothing may be busy from now on */
        td_reference_makers_settle(&j->makers);
    if (!rc && j->total)
        rc = run_all(j, err);
    if (j->run.builds)
        td_build_pair_leave(j->run.builds);
    td_reference_makers_settle(&j->makers);
    td_reference_makers_leave(&j->makers);
    if (j->batches.by_gpu && td_reference_makers_are_wrong(&j->makers))
        td_writer_count(w, "ops.distrusted", j->batches.by_gpu, 0);
    td_reference_makers_words(&j->makers, stats->references, sizeof stats->references);
    td_op_rows_finish(&j->rows);
    if (j->cache)
        count_references(j);
    if (j->variety.n)
        write_variety(j);
    stats->children = j->run.builds ? j->run.builds->candidate.starts : 0;
    stats->seconds = (double)(td_clock_mono_ns() - j->began_ns) / TD_NS_PER_S;
    return rc;
}

void td_op_replay_close(struct td_op_replay *j)
{
    if (!j)
        return;
    td_reference_makers_leave(&j->makers); /* where nothing ran */
    j->run.stats->driver_hangs = !td_reference_makers_close(&j->makers);
    td_op_variety_release(&j->variety);
    td_build_pair_free(j->run.builds);
    td_op_batches_release(&j->batches);
    free(j->run.groups);
    td_op_loader_free(j->run.loader);
    td_op_list_release(&j->run.list);
    td_ref_cache_close(j->cache);
    td_op_rows_release(&j->rows);
    free(j);
}
