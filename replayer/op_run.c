/* op_run.c - run ops of a replay on the builds, and time them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "kernels/ops/op_kinds.h"
#include "replayer/op_timing.h"

#define MAX_CRASHES 20  /* of one group; the rest of the group is not tried then */
#define MAX_EARLY 3     /* the same as long as no op of this build has come to its kernel: all may fail alike */
#define MAX_HANGS 3     /* of one group; each costs a deadline */
#define MAX_ALL_HANGS 9 /* of a build: three minutes at the default deadline */

static void give_status(struct td_op_item *it, enum td_op_status s, const char *reason)
{
    it->status = s;
    snprintf(it->reason, sizeof it->reason, "%.479s", reason);
}

/* False: it cannot be run, and has its status. */
static bool load_item(struct td_op_loader *loader, struct td_op_item *it)
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
    it->loaded = !td_op_loader_get(loader, &it->rec, &it->call, &it->recorded, &it->hold, &err);
    if (!it->loaded || td_op_check(kind, &it->call, &err)) {
        give_status(it, err.code == TD_EUNSUPPORTED ? TD_OP_UNSUPPORTED : TD_OP_BROKEN, err.msg);
        it->no_memory = err.code == TD_ENOMEM;
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

bool td_op_run_load(struct td_op_loader *loader, struct td_op_item *it)
{
    const int64_t began_ns = td_clock_mono_ns();

    it->is_ready = load_item(loader, it);
    it->load_ns = it->run_ns = td_clock_mono_ns() - began_ns;
    return it->is_ready;
}

/* Is an op not tried any more because others crashed or hung? Then text says so. TD_RUN_OK: it is
 * tried. */
static enum td_run_status check_given_up(const struct td_op_run *r, const struct td_op_run_group *g,
                                         char *text, size_t n)
{
    if (g->crashes >= (r->stats->came_to_run ? MAX_CRASHES : MAX_EARLY)) {
        snprintf(text, n, "not tried: %d ops of this kernel, shape and M class crashed before", g->crashes);
        return TD_RUN_CRASHED;
    }
    if (g->hangs >= MAX_HANGS)
        snprintf(text, n, "not tried: %d ops of this kernel, shape and M class hung before", g->hangs);
    else if (r->hangs >= MAX_ALL_HANGS)
        snprintf(text, n, "not tried: %d ops of this build hung before", r->hangs);
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

static int run_candidate(struct td_op_run *r, struct td_op_item *it, struct td_error *err)
{
    struct td_op_run_group *g = &r->groups[it->group];
    char text[200];
    int rc;

    it->candidate.status = check_given_up(r, g, text, sizeof text);
    if (it->candidate.status != TD_RUN_OK) {
        snprintf(it->candidate.reason, sizeof it->candidate.reason, "%s", text);
        it->candidate.reached = g->reached;
        r->stats->skipped_after_crashes++;
    } else {
        rc = td_build_process_run(&r->builds->candidate, &it->call, (int)r->opt->op_repeat,
                                  &it->candidate, err);
        if (rc)
            return rc;
        r->stats->came_to_run |= it->candidate.reached >= TD_STAGE_RUN;
        if (it->candidate.reached > g->reached)
            g->reached = it->candidate.reached;
        g->crashes += it->candidate.status == TD_RUN_CRASHED;
        g->hangs += it->candidate.status == TD_RUN_HUNG;
        r->hangs += it->candidate.status == TD_RUN_HUNG;
    }
    if (it->candidate.status != TD_RUN_OK)
        give_status(it, status_of(it->candidate.status), it->candidate.reason);
    return TD_OK;
}

/* What the candidate's run found stands, though memory lacked for the rest, or lacks now to read the op again. */
static void keep_finding(struct td_op_item *it)
{
    give_status(it, status_of(it->candidate.status), it->candidate.reason);
    if (!it->loaded)
        it->candidate.repeats = 0; /* of what shape its output is, is not known */
}

void td_op_run_show_progress(struct td_op_run *r)
{
    td_progress_at(&r->progress, (atomic_load(&r->ran) + atomic_load(&r->judged)) / 2, r->now);
}

/* Say what is done with the op: "timing both builds: gptq_gemm N=256 K=640 b4 g128 M=1-8". */
static void show_op(struct td_op_run *r, const struct td_op_item *it, const char *doing)
{
    const struct td_op_group *g = &r->list.groups[it->group];

    snprintf(r->now, sizeof r->now, "%s: %.40s %.60s %s", doing, g->kernel, g->shape, td_m_class_name(g->m_class));
    td_op_run_show_progress(r);
}

/* Is the op one of those that are timed? Of an op that could not be loaded nothing but its kind is known. */
static bool is_planned(const struct td_op_run *r, const struct td_op_item *it)
{
    const struct td_op_kind *kind = td_op_kind_find(it->rec.kind ? it->rec.kind : "");

    return r->has_baseline && it->is_timed && kind && kind->reference;
}

static bool is_stopped(const struct td_op_run *r)
{
    return r->opt->stop && *r->opt->stop;
}

/* An op that was to be timed, and that a build did not run, or that is not timed for another reason: its record says so, or nobody would miss its
 * times. */
static void note_not_run(struct td_op_item *it, const char *why)
{
    if (why)
        snprintf(it->untimed, sizeof it->untimed, "%s", why);
    else if (it->status != TD_OP_OK)
        snprintf(it->untimed, sizeof it->untimed, "candidate: %s: %.200s", td_op_status_name(it->status), it->reason);
    else
        snprintf(it->untimed, sizeof it->untimed, "baseline: %s: %.200s", td_run_status_name(it->baseline.status), it->baseline.reason);
}

static bool runs_in_both(const struct td_op_item *it)
{
    return it->is_ready && it->has_baseline && it->status == TD_OP_OK && it->candidate.status == TD_RUN_OK && it->baseline.status == TD_RUN_OK;
}

/* What td_op_timing_measure() is at. */
struct timing { struct td_op_run *run; const struct td_op_item *first; int n; };

static void show_start(void *ctx, int start, int starts)
{
    const struct timing *t = ctx;

    if (t->n == 1) {
        show_op(t->run, t->first, "timing both builds");
        return;
    }
    snprintf(t->run->now, sizeof t->run->now, "timing both builds, %d ops, start %d of %d", t->n, start + 1, starts);
    td_op_run_show_progress(t->run);
}

/* That a build crashes, hangs, refuses or cannot be loaded again while it is timed is seen in no op's status: the op's record has it,
 * and it is said once. That a replay is stopped needs no words. */
static void note_untimed(struct td_op_run *r, const struct td_op_timed *of, struct td_op_item *it)
{
    const bool is_news = !r->told_untimed && of->err.code != TD_EINTR;

    snprintf(it->untimed, sizeof it->untimed, "%s", *of->err.msg ? of->err.msg : td_code_name(of->err.code));
    td_log(is_news ? TD_LOG_WARN : TD_LOG_INFO, "replay", "op %lld was not timed: %s", (long long)of->op, it->untimed);
    r->told_untimed |= is_news;
}

int64_t td_op_run_time(struct td_op_run *r, struct td_op_item *items, int n)
{
    const int64_t began_ns = td_clock_mono_ns();
    const int most = r->has_baseline && td_op_timing_shares(&r->builds->baseline, &r->builds->candidate) ? n : 1;
    struct td_op_timed *timed = calloc((size_t)most + 1, sizeof *timed);
    struct td_op_item **of = calloc((size_t)most + 1, sizeof *of);
    int i, k, due = 0;

    for (i = 0; i < n; i++) {
        const char *why = !r->opt->op_timing ? "--op-timing off" : is_stopped(r) ? "stopped by a signal" : timed && of ? NULL : "out of memory";
        const bool planned = is_planned(r, &items[i]), can_be = !why && runs_in_both(&items[i]);

        if (planned && !can_be)
            note_not_run(&items[i], why);
        if (planned && can_be) {
            timed[due] = (struct td_op_timed){.call = &items[i].call, .op = items[i].rec.op};
            of[due++] = &items[i];
        }
        if (!due || (due < most && i < n - 1))
            continue;
        td_op_timing_measure(&r->builds->baseline, &r->builds->candidate, timed, due, show_start, &(struct timing){r, of[0], due});
        for (k = 0; k < due; k++) {
            of[k]->speed = timed[k].found;
            if (!timed[k].found)
                note_untimed(r, &timed[k], of[k]);
            r->stats->timed += timed[k].found != NULL;
        }
        due = 0;
    }
    free(timed);
    free(of);
    return td_clock_mono_ns() - began_ns;
}

int td_op_run(struct td_op_run *r, struct td_op_item *it, struct td_error *err)
{
    const int64_t began_ns = td_clock_mono_ns();
    int rc;

    show_op(r, it, r->has_baseline ? "running both builds" : "running");
    if (td_op_item_has_finding(it))
        keep_finding(it);
    if (!it->is_ready)
        return TD_OK;
    rc = td_op_item_has_finding(it) ? TD_OK : run_candidate(r, it, err);
    if (!rc && r->has_baseline) {
        rc = td_build_process_run(&r->builds->baseline, &it->call, (int)r->opt->op_repeat, &it->baseline, err);
        it->has_baseline = !rc;
    }
    it->no_memory = it->candidate.no_memory || it->baseline.no_memory;
    if (it->candidate.status == TD_RUN_HUNG)
        it->aside_ns = td_clock_mono_ns() - began_ns;
    else
        it->run_ns += td_clock_mono_ns() - began_ns - it->aside_ns;
    return rc;
}
