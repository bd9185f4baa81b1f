/* op_replay.c - replay a fixture's ops in batches.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The main thread loads a batch and has the builds' processes run and time it. Then several threads
 * judge the batch, and the main thread writes it. So nothing else computes while a build is being
 * timed. */
#include "replayer/op_replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/memory.h"
#include "common/progress.h"
#include "format/planned.h"
#include "kernels/ops/op_kinds.h"
#include "replayer/build_pair.h"
#include "replayer/op_judge.h"
#include "replayer/op_load.h"
#include "replayer/op_rewrite.h"
#include "replayer/op_timing.h"

#define BATCH_OPS 256
#define BATCH_BYTES ((size_t)1 << 30)
#define MAX_CRASHES 20  /* of one group; the rest of the group is not tried then */
#define MAX_EARLY 3     /* the same as long as no op of this build has come to its kernel: all may fail alike */
#define MAX_HANGS 3     /* of one group; each costs a deadline */
#define MAX_ALL_HANGS 9 /* of a build: three minutes at the default deadline */

struct group_state {
    int crashes, hangs;
    uint32_t reached;                  /* the last stage that a crashed or hung op of it came to */
    int64_t seen_for_timing, timed;
};

struct op_replay {
    struct td_fixture *fx;
    struct td_writer *w;
    const struct td_replay_options *opt;
    struct td_op_replay_stats *stats;
    struct td_op_list list;
    struct group_state *groups;
    struct td_op_rows rows;
    struct td_op_item *items; size_t n;
    struct td_op_loader *loader;
    struct td_build_pair *builds;
    bool has_baseline;
    int hangs;                         /* of the candidate, in all groups */
    int64_t ran, judged;               /* for the progress: an op is half done when it ran */
    char now[160];                     /* what is being done */
    struct td_progress progress;
};

static bool stopped(const struct op_replay *j)
{
    return j->opt->stop && *j->opt->stop;
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

/* ---- the chosen ops -------------------------------------------------------------------------- */

static int by_weights(const void *a, const void *b)
{
    const struct td_op_item *x = a, *y = b;

    if (x->weights != y->weights)
        return x->weights < y->weights ? -1 : 1;
    return (x->rec.op > y->rec.op) - (x->rec.op < y->rec.op);
}

/* Read the records of the chosen ops, and sort them so that equal weights are neighbours. */
static int read_chosen(struct op_replay *j, struct td_error *err)
{
    struct td_cursor *c = NULL;
    struct td_op op = {0};
    struct td_error bad = {0};
    size_t i = 0, chosen = 0;
    int rc;

    for (i = 0; i < j->list.n; i++)
        chosen += j->list.items[i].chosen;
    j->items = calloc(chosen + 1, sizeof *j->items);
    if (!j->items)
        return td_fail(err, TD_ENOMEM, "out of memory for %zu ops; --max-ops N replays fewer", chosen);
    if (!chosen)
        return TD_OK;
    rc = td_cursor_open(j->fx, TD_STREAM_OPS, &c, err);
    if (rc)
        return rc;
    for (i = 0; i < j->list.n && (rc = td_cursor_op(c, &op, &bad)) != 0;) {
        const struct td_op_choice *ch = &j->list.items[i];

        if (rc < 0) {
            if (rc != TD_ECORRUPT && rc != TD_ETRUNCATED && rc != TD_ELIMIT)
                break;
            td_error_clear(&bad);
            continue;
        }
        i++;
        if (!ch->chosen)
            continue;
        j->items[j->n++] = (struct td_op_item){
            .rec = op, .group = ch->group, .weights = ch->weights, .status = TD_OP_OK, .equal = -1};
        memset(&op, 0, sizeof op);
    }
    td_op_release(&op);
    td_cursor_close(c);
    qsort(j->items, j->n, sizeof *j->items, by_weights);
    return bad.code ? td_fail(err, bad.code, "%s", bad.msg) : TD_OK;
}

/* ---- one op -------------------------------------------------------------------------------------------------------- */

static void give_status(struct td_op_item *it, enum td_op_status s, const char *reason)
{
    it->status = s;
    snprintf(it->reason, sizeof it->reason, "%.479s", reason);
}

/* Load an op and check it. False: it cannot be run, and has its status. */
static bool load_item(struct op_replay *j, struct td_op_item *it)
{
    const struct td_op_kind *kind = td_op_kind_find(it->rec.kind ? it->rec.kind : "");
    struct td_error err = {0};
    char text[160];

    if (!kind) {
        snprintf(text, sizeof text, "this version knows no op of kind %.60s, so it can neither run nor judge it",
                 it->rec.kind ? it->rec.kind : "(none)");
        give_status(it, TD_OP_UNSUPPORTED, text);
        return false;
    }
    it->loaded = !td_op_loader_get(j->loader, &it->rec, &it->call, &it->recorded, &it->hold, &err);
    if (!it->loaded || td_op_check(kind, &it->call, &err)) {
        give_status(it, err.code == TD_EUNSUPPORTED ? TD_OP_UNSUPPORTED : TD_OP_BROKEN, err.msg);
        return false;
    }
    it->without_reference = !kind->reference;
    if (it->without_reference)
        return true;
    if (td_judge_limits_find(it->call.kind, it->call.out.dtype, &it->limits, &err)) {
        give_status(it, TD_OP_UNSUPPORTED, err.msg);
        return false;
    }
    return true;
}

/* Is an op not tried any more because others crashed or hung? Then text says so. TD_RUN_OK: it is
 * tried. */
static enum td_run_status check_given_up(const struct op_replay *j, const struct group_state *g,
                                         char *text, size_t n)
{
    if (g->crashes >= (j->stats->came_to_run ? MAX_CRASHES : MAX_EARLY)) {
        snprintf(text, n, "not tried: %d ops of this kernel, shape and M class crashed before", g->crashes);
        return TD_RUN_CRASHED;
    }
    if (g->hangs >= MAX_HANGS)
        snprintf(text, n, "not tried: %d ops of this kernel, shape and M class hung before", g->hangs);
    else if (j->hangs >= MAX_ALL_HANGS)
        snprintf(text, n, "not tried: %d ops of this build hung before", j->hangs);
    else
        return TD_RUN_OK;
    return TD_RUN_HUNG;
}

static enum td_op_status status_of(enum td_run_status s)
{
    static const enum td_op_status status[] = {[TD_RUN_OK] = TD_OP_OK,
                                               [TD_RUN_UNSUPPORTED] = TD_OP_UNSUPPORTED,
                                               [TD_RUN_FAILED] = TD_OP_FAILED,
                                               [TD_RUN_CRASHED] = TD_OP_CRASHED,
                                               [TD_RUN_HUNG] = TD_OP_HUNG,
                                               [TD_RUN_BROKEN] = TD_OP_BROKEN};

    return status[s];
}

static int run_candidate(struct op_replay *j, struct td_op_item *it, struct td_error *err)
{
    struct group_state *g = &j->groups[it->group];
    char text[200];
    int rc;

    it->candidate.status = check_given_up(j, g, text, sizeof text);
    if (it->candidate.status != TD_RUN_OK) {
        snprintf(it->candidate.reason, sizeof it->candidate.reason, "%s", text);
        it->candidate.reached = g->reached;
        j->stats->skipped_after_crashes++;
    } else {
        rc = td_build_process_run(&j->builds->candidate, &it->call, (int)j->opt->op_repeat,
                                  &it->candidate, err);
        if (rc)
            return rc;
        j->stats->came_to_run |= it->candidate.reached >= TD_STAGE_RUN;
        if (it->candidate.reached > g->reached)
            g->reached = it->candidate.reached;
        g->crashes += it->candidate.status == TD_RUN_CRASHED;
        g->hangs += it->candidate.status == TD_RUN_HUNG;
        j->hangs += it->candidate.status == TD_RUN_HUNG;
    }
    if (it->candidate.status != TD_RUN_OK)
        give_status(it, status_of(it->candidate.status), it->candidate.reason);
    return TD_OK;
}

/* Timed are a few ops of each group, evenly spread over it. */
static bool is_due_for_timing(struct op_replay *j, const struct td_op_item *it)
{
    struct group_state *g = &j->groups[it->group];
    int64_t have = j->list.groups[it->group].chosen, p = g->seen_for_timing++;

    return have <= TD_OP_TIMING_PER_GROUP ||
           p * TD_OP_TIMING_PER_GROUP / have != (p + 1) * TD_OP_TIMING_PER_GROUP / have;
}

static void show_progress(struct op_replay *j)
{
    td_progress_at(&j->progress, (j->ran + j->judged) / 2, j->now);
}

/* Say what is done with the op: "timing both builds: gptq_gemm N=256 K=640 b4 g128 M=1-8". */
static void show_op(struct op_replay *j, const struct td_op_item *it, const char *doing)
{
    const struct td_op_group *g = &j->list.groups[it->group];

    snprintf(j->now, sizeof j->now, "%s: %.40s %.60s %s", doing, g->kernel, g->shape, td_m_class_name(g->m_class));
    show_progress(j);
}

static int run_op(struct op_replay *j, struct td_op_item *it, struct td_error *err)
{
    struct td_error slow = {0};
    int rc;

    show_op(j, it, j->has_baseline ? "running both builds" : "running");

    if (!load_item(j, it))
        return TD_OK;
    rc = run_candidate(j, it, err);
    if (rc || !j->has_baseline)
        return rc;
    rc = td_build_process_run(&j->builds->baseline, &it->call, (int)j->opt->op_repeat,
                              &it->baseline, err);
    if (rc)
        return rc;
    it->has_baseline = true;
    if (j->opt->op_timing && !it->without_reference && is_due_for_timing(j, it) &&
        it->candidate.status == TD_RUN_OK && it->baseline.status == TD_RUN_OK) {
        show_op(j, it, "timing both builds");
        if (td_op_timing_measure(&j->builds->baseline, &j->builds->candidate, &it->call,
                                 (uint64_t)it->rec.op, &it->speed, &slow))
            td_log(TD_LOG_INFO, "replay", "op %lld was not timed: %s", (long long)it->rec.op, slow.msg);
        j->stats->timed += it->speed != NULL;
    }
    return TD_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static void count_status(struct op_replay *j, const struct td_op_item *it)
{
    char name[40];

    snprintf(name, sizeof name, "ops.%s", td_op_status_name(it->status));
    td_writer_count(j->w, name, 1, 0);
    j->stats->count[it->status]++;
    if (it->reason[0] && !j->stats->refusal[0])
        snprintf(j->stats->refusal, sizeof j->stats->refusal, "%s: %.400s", td_op_status_name(it->status), it->reason);
    td_op_rows_count(&j->rows, it);
}

static int write_judged_op(struct op_replay *j, struct td_op_item *it, struct td_error *err)
{
    int rc;

    count_status(j, it);
    rc = td_op_rewrite(it, j->w, td_fixture_id(j->fx), j->opt->build, j->stats->build[0] ? j->stats->build : j->stats->provider, err);
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

/* Run items from `first` on until the batch is full. Returns how many, or < 0. */
static int run_batch(struct op_replay *j, size_t first, struct td_error *err)
{
    const size_t part = (size_t)td_memory_max() / 8, most = part < BATCH_BYTES ? part : BATCH_BYTES;
    size_t i, bytes = 0;

    for (i = first; i < j->n && i < first + BATCH_OPS && bytes < most && !stopped(j); i++) {
        int rc = run_op(j, &j->items[i], err);

        if (rc)
            return rc < 0 ? rc : TD_EIO;
        bytes += item_bytes(&j->items[i]);
        j->ran++;
    }
    return (int)(i - first);
}

static void on_judged(void *ctx, int n)
{
    struct op_replay *j = ctx;

    j->judged = j->stats->replayed + n;
    show_progress(j);
}

static int finish_batch(struct op_replay *j, size_t first, int n, struct td_error *err)
{
    int i, rc;

    snprintf(j->now, sizeof j->now, "judging against the reference");
    rc = td_op_judge_batch(j->items + first, n, choose_threads(), on_judged, j, err);

    for (i = 0; i < n; i++) {
        struct td_op_item *it = &j->items[first + (size_t)i];

        if (!rc)
            rc = write_judged_op(j, it, err);
        td_op_loader_put(j->loader, &it->hold);
        td_op_item_release(it);
    }
    j->stats->replayed += n;
    j->judged = j->stats->replayed;
    return rc;
}

static int run_all(struct op_replay *j, struct td_error *err)
{
    size_t first = 0;
    int n, rc = TD_OK;

    td_progress_start(&j->progress, "ops", (int64_t)j->n);
    while (!rc && first < j->n && !stopped(j)) {
        n = run_batch(j, first, err);
        rc = n < 0 ? n : finish_batch(j, first, n, err);
        first += n > 0 ? (size_t)n : 0;
    }
    td_progress_done(&j->progress);
    if (!rc && stopped(j)) {
        j->stats->interrupted = true;
        td_writer_count(j->w, "ops.dropped.interrupted", (int64_t)(j->n - first), 0);
        rc = td_fail(err, TD_EINTR, "stopped after %zu of %zu ops", first, j->n);
    }
    return rc;
}

static void count_list(struct op_replay *j)
{
    static const char *const names[] = {"ops.seen", "ops.dropped.filter", "ops.dropped.shard", "ops.dropped.sampled",
                                        "ops.broken.frames"};
    int64_t values[5];
    size_t i;

    j->stats->seen = (int64_t)j->list.n;
    j->stats->not_matching = j->list.not_matching;
    j->stats->other_shards = j->list.other_shards;
    j->stats->not_sampled = j->list.not_sampled;
    j->stats->bad_frames = j->list.bad_frames;
    values[0] = j->stats->seen;
    values[1] = j->stats->not_matching;
    values[2] = j->stats->other_shards;
    values[3] = j->stats->not_sampled;
    values[4] = j->stats->bad_frames;
    for (i = 0; i < 5; i++)
        if (values[i])
            td_writer_count(j->w, names[i], values[i], 0);
    td_planned_write(j->w, "ops", values[0] - values[1] - values[2] - values[3]);
}

static void release_replay(struct op_replay *j)
{
    size_t i;

    if (j->builds)
        td_build_pair_close(j->builds);
    free(j->builds);
    for (i = 0; i < j->n; i++)
        td_op_item_release(&j->items[i]);
    free(j->items);
    free(j->groups);
    td_op_rows_release(&j->rows);
    td_op_loader_free(j->loader);
    td_op_list_release(&j->list);
}

int td_op_replay(struct td_fixture *fx, struct td_writer *w, const struct td_replay_options *opt,
                 struct td_op_replay_stats *stats, struct td_error *err)
{
    struct op_replay j = {
        .fx = fx, .w = w, .opt = opt, .stats = stats, .has_baseline = opt->baseline_build != NULL};
    int64_t start = td_clock_mono_ns();
    int rc;

    rc = td_op_list_scan(fx, opt, &j.list, err);
    if (!rc) {
        count_list(&j);
        rc = read_chosen(&j, err);
    }
    if (!rc && !(j.groups = calloc(j.list.n_groups + 1, sizeof *j.groups)))
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    if (!rc) {
        rc = td_op_rows_make(&j.rows, &j.list, j.n, err);
        stats->rows = j.rows.row;
        stats->n_rows = j.rows.n;
    }
    if (!rc && !(j.loader = td_op_loader_new(fx, opt->checkpoint)))
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    if (!rc && !(j.builds = calloc(1, sizeof *j.builds)))
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    if (!rc && j.n)
        rc = open_builds(opt, j.builds, stats, err);
    if (!rc && j.n)
        rc = run_all(&j, err);
    td_op_rows_finish(&j.rows);
    stats->children = j.builds ? j.builds->candidate.starts : 0;
    stats->seconds = (double)(td_clock_mono_ns() - start) / TD_NS_PER_S;
    release_replay(&j);
    return rc;
}
