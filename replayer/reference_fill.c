/* reference_fill.c - compute the references of a fixture's ops into the cache, without a build.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/reference_fill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/memory.h"
#include "common/number_words.h"
#include "common/progress.h"
#include "format/fixture_check.h"
#include "replayer/op_filter.h"
#include "replayer/op_judge.h"
#include "replayer/op_order.h"
#include "replayer/op_run.h"
#include "replayer/op_window.h"

#define BATCH_OPS 256
#define BATCH_BYTES ((size_t)1 << 30)

struct fill {
    const struct td_replay_options *opt;
    struct td_reference_fill *out;
    struct td_op_list list;
    struct td_op_loader *loader;
    struct td_op_window *window;
    struct td_op_item *items; int n;  /* [BATCH_OPS] the batch */
    struct td_reference_makers makers;
    struct td_ref_cache *cache;
    struct td_progress progress;
    int64_t done;                     /* ops of earlier batches */
};

static bool stopped(const struct fill *f)
{
    return f->opt->stop && *f->opt->stop;
}

static size_t bytes_of(const struct td_op_item *it)
{
    size_t n = 0;
    int t;

    for (t = 0; t < it->call.n_in; t++)
        n += it->call.in[t].size_bytes;
    return n;
}

/* Load ops until the batch is full, or the window is at its end. */
static int load_batch(struct fill *f, struct td_error *err)
{
    const size_t part = (size_t)td_memory_max() / 8, most = part < BATCH_BYTES ? part : BATCH_BYTES;
    const struct td_op_choice *next;
    size_t bytes = 0;
    int rc = 1;

    f->n = 0;
    while (rc > 0 && f->n < BATCH_OPS && bytes < most && !stopped(f) && (next = td_op_window_peek(f->window))) {
        struct td_op_item *it = &f->items[f->n];

        memset(it, 0, sizeof *it);
        it->weights = next->weights;
        it->status = TD_OP_OK;
        it->equal = -1;
        it->reference_alone = true;
        rc = td_op_window_next(f->window, &it->rec, err);
        f->n += rc > 0;
        if (rc > 0 && td_op_run_load(f->loader, it))
            bytes += bytes_of(it);
    }
    return rc < 0 ? rc : TD_OK;
}

static void on_made(void *ctx, int n)
{
    struct fill *f = ctx;

    td_progress_at(&f->progress, f->done + n, NULL);
}

static void count_item(struct td_reference_fill *out, const struct td_op_item *it)
{
    out->without += it->without_reference;
    if (it->status == TD_OP_OK)
        return;
    if (it->status == TD_OP_UNSUPPORTED) {
        if (!out->unknown++)
            snprintf(out->why_unknown, sizeof out->why_unknown, "op %lld: %.440s", (long long)it->rec.op, it->reason);
        return;
    }
    if (!out->failed++)
        snprintf(out->why, sizeof out->why, "op %lld: %.440s", (long long)it->rec.op, it->reason);
}

static int make_batch(struct fill *f, struct td_error *err)
{
    int rc = td_op_judge_batch(f->items, f->n, &f->makers, f->cache, td_op_judge_threads(), on_made, f, err), i;

    for (i = 0; i < f->n; i++) {
        if (!rc)
            count_item(f->out, &f->items[i]);
        td_op_loader_put(f->loader, &f->items[i].hold);
        td_op_item_release(&f->items[i]);
    }
    f->done += f->n;
    return rc;
}

static int make_all(struct fill *f, struct td_error *err)
{
    int rc = TD_OK;

    td_progress_start(&f->progress, "references", f->out->ops);
    while (!rc && !stopped(f)) {
        rc = load_batch(f, err);
        if (!f->n)
            break;
        rc = rc ? (make_batch(f, NULL), rc) : make_batch(f, err);
    }
    td_progress_done(&f->progress);
    if (!rc && stopped(f))
        rc = td_fail(err, TD_EINTR, "stopped after %lld of %lld ops; what was computed is kept", (long long)f->done,
                     (long long)f->out->ops);
    return rc;
}

static int open_all(struct fill *f, struct td_fixture *fx, struct td_error *err)
{
    struct td_reference_fill *out = f->out;
    size_t n = 0;
    int32_t *which;
    const int rc = td_op_list_scan(fx, f->opt, &f->list, err);

    if (rc)
        return rc;
    which = td_op_list_by_weights(&f->list, &n);
    f->items = calloc(BATCH_OPS, sizeof *f->items);
    f->loader = td_op_loader_new(fx, f->opt->checkpoint);
    f->cache = td_ref_cache_open(f->opt->cache, f->opt->cache_bytes);
    if (!which || !f->items || !f->loader || !f->cache) {
        free(which);
        return td_fail(err, TD_ENOMEM, "out of memory for %zu ops; --max-ops N takes fewer", f->list.n);
    }
    out->ops = (int64_t)n;
    out->left_out = (int64_t)(f->list.n - n);
    out->keeps = td_ref_cache_is_open(f->cache);
    td_reference_makers_start(&f->makers, TD_REFERENCE_CPU, 0, 0);
    return td_op_window_open(fx, &f->list, which, n, &f->window, err);
}

int td_reference_fill(struct td_fixture *fx, const struct td_replay_options *opt, struct td_reference_fill *out,
                      struct td_error *err)
{
    struct fill f = {.opt = opt, .out = out};
    int rc;

    memset(out, 0, sizeof *out);
    rc = td_op_filter_check(fx, &opt->only, err);
    if (!rc)
        rc = open_all(&f, fx, err);
    if (!rc && out->keeps)
        rc = make_all(&f, err);
    if (f.cache)
        td_ref_cache_counts(f.cache, &out->cache);
    td_op_window_close(f.window);
    td_reference_makers_close(&f.makers);
    td_op_loader_free(f.loader);
    td_op_list_release(&f.list);
    td_ref_cache_close(f.cache);
    free(f.items);
    return rc;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void print_result(const struct td_reference_fill *r)
{
    const struct td_ref_cache_counts *n = &r->cache;

    if (r->left_out && !td_log_quiet())
        printf("  %lld left out by --only or --max-ops\n", (long long)r->left_out);
    printf("judge: %lld op%s: %lld reference%s computed, %lld found", (long long)r->ops, td_plural(r->ops), (long long)n->computed,
           td_plural(n->computed), (long long)n->found);
    if (r->without)
        printf(", %lld of kinds without one", (long long)r->without);
    printf("\n");
}

/* What is not as it was meant. Returns the exit code. */
static int say_what_lacks(const struct td_reference_fill *r)
{
    const int64_t lost = r->cache.computed - r->cache.kept;

    if (r->cache.damaged)
        td_log(TD_LOG_WARN, "replay", "%lld reference%s in the cache %s damaged: computed again", (long long)r->cache.damaged,
               td_plural(r->cache.damaged), td_was(r->cache.damaged));
    if (lost > 0)
        td_log(TD_LOG_WARN, "replay", "%lld reference%s found no room in the cache, and %s computed in each run: --cache-size",
               (long long)lost, td_plural(lost), td_is(lost));
    if (r->unknown)
        td_log(TD_LOG_WARN, "replay", "%lld op%s left out: a replay leaves %s undecided, too (first: %s)", (long long)r->unknown,
               r->unknown == 1 ? " is" : "s are", r->unknown == 1 ? "it" : "them", r->why_unknown);
    if (r->failed)
        td_log(TD_LOG_ERROR, "replay", "%lld op%s no reference (first: %s)", (long long)r->failed,
               r->failed == 1 ? " has" : "s have", r->why);
    return r->failed || r->unknown == r->ops ? TD_EXIT_BROKEN : TD_EXIT_OK;
}

int td_reference_fill_run(const char *path, const struct td_replay_options *opt)
{
    struct td_reference_fill result = {0};
    struct td_fixture *fx = NULL;
    struct td_error err = {0};
    int rc = td_fixture_open(path, &fx, &err);

    if (!rc)
        rc = td_fixture_check(fx, TD_FILES_JUDGED, &err);
    if (!rc)
        rc = td_reference_fill(fx, opt, &result, &err);
    td_fixture_close(fx);
    if (!rc && result.ops && !result.keeps)
        rc = td_fail(&err, TD_EIO, "%s: no references are kept, so none were computed", path);
    if (!rc && !result.ops)
        rc = td_fail(&err, TD_ENOTFOUND, "%s: holds no ops; record them with the server under `{record} --run -- ...`", path);
    if (rc)
        td_log(TD_LOG_ERROR, "replay", "%s", err.code ? err.msg : td_code_name(rc));
    if (rc == TD_EINTR && opt->stop && *opt->stop)
        return 128 + *opt->stop;
    if (rc)
        return td_exit_code(rc);
    print_result(&result);
    return say_what_lacks(&result);
}
