/* op_judge.c - judge the runs of a batch of ops, on several threads.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_judge.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "kernels/ops/op_kinds.h"
#include "kernels/ops/product_share.h"
#include "replayer/op_compare.h"
#include "replayer/op_digest.h"
#include "replayer/op_judge_item.h"
#include "replayer/op_judge_json.h"
#include "replayer/op_variety.h"
#include "replayer/reference_batch.h"
#include "replayer/replay_times.h"

#define MAX_JOINED 64
#define MAX_THREADS 16
#define THREAD_SPACE ((int64_t)256 << 20) /* of the address space: with less for each thread, there are fewer of them */

/* ---- batches --------------------------------------------------------------------------------- */

/* Items that share a reference; n 0: one item without one. Who takes it computes the reference, and then all threads that are free judge
 * its items. */
struct work {
    int first, n; int64_t size;
    struct work_refs *refs;        /* NULL: there was no memory; released with the last item */
    int64_t refs_ns;               /* what they took */
    atomic_bool is_open;           /* from now on its items are judged */
    atomic_int next, left;         /* item that is taken next; not judged yet */
};

/* How an item was before it was judged. */
struct before { enum td_op_status status; char reason[480]; bool again; };

struct batch {
    struct td_op_item *items; int n;
    struct before *before;         /* [n]: what a GPU judged may have to be judged again, and one may come meanwhile */
    struct td_reference_makers *makers;
    struct work *works; int n_works;
    struct td_ref_cache *cache;
    atomic_int next, done;         /* work that is taken next; items judged */
    atomic_int unfinished;         /* works */
    td_op_judged_fn *tell; void *ctx;
};

static bool needs_reference(const struct td_op_item *it)
{
    return it->loaded && it->status != TD_OP_BROKEN && it->limits.u_out > 0 &&
           (it->recorded || it->candidate.repeats || it->baseline.repeats || it->reference_alone);
}

static bool can_compare(const struct td_op_item *it)
{
    return it->loaded && it->status != TD_OP_BROKEN && it->without_reference && it->candidate.repeats;
}

static bool has_same_roundings(const struct td_op_item *a, const struct td_op_item *b)
{
    return !strcmp(td_op_item_rounding(a, &a->candidate), td_op_item_rounding(b, &b->candidate)) &&
           !strcmp(td_op_item_rounding(a, &a->baseline), td_op_item_rounding(b, &b->baseline));
}

/* The references of a work's items, by one activation rounding. */
struct side_refs {
    const char *rounding;
    struct td_op_ref refs[MAX_JOINED];
    bool found[MAX_JOINED];         /* in the cache: these own their memory */
    struct td_reference_batch how; int n_computed; /* as td_reference_batch_compute() */
    int rc;
    struct td_error err;
};

/* The references of a work. made : [n] of different roundings; side : which of them each side of an item is judged by */
struct work_refs { struct side_refs made[TD_SIDES], *side[TD_SIDES]; int n; };

/* Compute the references that were not found.
 *   which : [n] their places in s->refs */
static void compute_refs(const struct batch *b, const struct td_op_kind *kind, uint64_t weights, const struct td_op_call *const *calls,
                         const int *which, int n, struct side_refs *s)
{
    struct td_op_ref refs[MAX_JOINED];
    int i;

    s->rc = kind ? td_reference_batch_compute(b->makers, kind, calls, n, weights, s->rounding, refs, &s->how, &s->err)
                 : td_fail(&s->err, TD_EUNSUPPORTED, "no reference");
    if (s->rc)
        return;
    s->n_computed = n;
    for (i = 0; i < n; i++) {
        td_ref_cache_round(&refs[i]); /* each by itself: which ops are joined is chance */
        s->refs[which[i]] = refs[i];
    }
}

/* Find the references of a work in the cache, or compute them and keep them there. A GPU computes faster than a
 * disk reads: what it computes is counted alone. */
static void find_refs(const struct batch *b, const struct td_op_kind *kind, const struct work *w, struct side_refs *s)
{
    const bool looks = !td_reference_makers_have_gpu(b->makers) || !td_reference_gpu_takes(b->items[w->first].call.kind);
    static const struct td_op_ref nothing; /* is counted alone */
    const struct td_op_call *calls[MAX_JOINED];
    int which[MAX_JOINED], i, n = 0;

    for (i = 0; i < w->n; i++) {
        const struct td_op_item *it = &b->items[w->first + i];

        s->found[i] = looks && td_ref_cache_get(b->cache, &it->call, &it->hold, s->rounding, &s->refs[i]);
        if (!s->found[i]) {
            which[n] = i;
            calls[n++] = &it->call;
        }
    }
    if (n)
        compute_refs(b, kind, b->items[w->first].weights, calls, which, n, s);
    for (i = 0; i < n && !s->rc; i++) {
        struct td_op_item *it = &b->items[w->first + which[i]];

        it->by_gpu += s->how.by_gpu;
        td_ref_cache_put(b->cache, calls[i], &it->hold, s->rounding, looks && !s->how.by_gpu ? &s->refs[which[i]] : &nothing);
    }
}

static void release_refs(struct side_refs *s, int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (s->found[i] || (s->n_computed && !s->how.joined))
            td_op_ref_release(&s->refs[i]);
    if (s->n_computed && s->how.joined)
        td_op_ref_release(&s->how.all);
}

/* Judge one item. An item whose candidate has no reference is unsupported or broken, whatever its
 * runs gave. */
static void judge_or_refuse_item(struct td_op_item *it, struct side_refs *const side[TD_SIDES],
                                 int i)
{
    const struct td_op_ref *ref[TD_SIDES];
    struct td_error err = {0};
    int s;

    for (s = 0; s < TD_SIDES; s++)
        ref[s] = side[s]->rc ? NULL : &side[s]->refs[i];
    td_op_variety_find_largest(it, ref[TD_SIDE_RECORDED]);
    if (!ref[TD_SIDE_CANDIDATE])
        err = side[TD_SIDE_CANDIDATE]->err;
    if (ref[TD_SIDE_CANDIDATE] && it->reference_alone)
        return;
    if (ref[TD_SIDE_CANDIDATE] ? td_op_judge_item(it, ref, &err) : (td_op_judge_item(it, ref, NULL), true)) {
        if (err.code != TD_ENOMEM || !td_op_item_has_finding(it))
            it->status = TD_OP_OK;
        it->no_memory |= err.code == TD_ENOMEM;
        td_op_item_fail(it, err.code == TD_EUNSUPPORTED ? TD_OP_UNSUPPORTED : TD_OP_BROKEN, err.code ? err.msg : "no reference");
    }
}

static struct work_refs *find_all_refs(const struct batch *b, const struct work *w)
{
    const struct td_op_item *first = &b->items[w->first];
    const struct td_op_kind *kind = td_op_kind_find(first->call.kind);
    struct work_refs *refs = calloc(1, sizeof *refs);
    const char *rounding[TD_SIDES] = {td_op_item_rounding(first, NULL), td_op_item_rounding(first, &first->candidate),
                                     td_op_item_rounding(first, &first->baseline)};
    int s, k;

    for (s = 0; refs && s < TD_SIDES; s++) {
        for (k = 0; k < refs->n && strcmp(refs->made[k].rounding, rounding[s]); k++)
            ;
        if (k == refs->n) {
            refs->made[k].rounding = rounding[s];
            find_refs(b, kind, w, &refs->made[refs->n++]);
        }
        refs->side[s] = &refs->made[k];
    }
    return refs;
}

static void release_all_refs(struct work_refs *refs, int n)
{
    for (int k = 0; refs && k < refs->n; k++)
        release_refs(&refs->made[k], n);
    free(refs);
}

static void compare_work(struct td_op_item *it)
{
    struct td_error err = {0};

    if (td_op_compare(it, &err)) {
        it->no_memory |= err.code == TD_ENOMEM;
        td_op_item_fail(it, TD_OP_BROKEN, err.msg);
    }
}

static void tell_done(struct batch *b, int n, bool tell)
{
    const int done = atomic_fetch_add(&b->done, n) + n;

    if (tell)
        b->tell(b->ctx, done);
}

static void end_work(struct batch *b)
{
    if (atomic_fetch_sub(&b->unfinished, 1) == 1)
        td_product_wake();
}

/* Compute the references of a work, and let all threads judge its items. */
static void open_work(struct batch *b, struct work *w, bool tell)
{
    const int64_t began_ns = td_clock_mono_ns();

    if (!w->n) {
        compare_work(&b->items[w->first]);
        b->items[w->first].judge_ns = td_clock_mono_ns() - began_ns;
        tell_done(b, 1, tell);
        end_work(b);
        return;
    }
    w->refs = find_all_refs(b, w);
    td_replay_spent(TD_TIME_JUDGE_REFERENCES, began_ns);
    w->refs_ns = td_clock_mono_ns() - began_ns;
    atomic_store(&w->left, w->n);
    atomic_store(&w->is_open, true);
    td_product_wake();
}

static bool has_items(const struct work *w)
{
    return atomic_load(&w->is_open) && atomic_load(&w->next) < w->n;
}

/* Judge an item of a work that is open. False: there is none. */
static bool judge_an_item(struct batch *b, bool tell)
{
    const int64_t began_ns = td_clock_mono_ns();
    struct work *w = b->works;
    struct td_op_item *it;
    int i = -1;

    for (; i < 0 && w < b->works + b->n_works; w += i < 0)
        if (has_items(w) && (i = atomic_fetch_add(&w->next, 1)) >= w->n)
            i = -1;
    if (i < 0)
        return false;
    it = &b->items[w->first + i];
    if (w->refs) {
        judge_or_refuse_item(it, w->refs->side, i);
    } else {
        it->no_memory = true;
        td_op_item_fail(it, TD_OP_BROKEN, "out of memory for the reference");
    }
    it->judge_ns = td_clock_mono_ns() - began_ns + w->refs_ns / w->n;
    td_replay_spent(TD_TIME_JUDGE_OUTPUTS, began_ns);
    tell_done(b, 1, tell);
    if (atomic_fetch_sub(&w->left, 1) == 1) {
        release_all_refs(w->refs, w->n);
        end_work(b);
    }
    return true;
}

/* Is an item to be judged, or all done? */
static bool is_due(const void *batch)
{
    const struct batch *b = batch;

    if (!atomic_load(&b->unfinished))
        return true;
    for (const struct work *w = b->works; w < b->works + b->n_works; w++)
        if (has_items(w))
            return true;
    return false;
}

/* Judge items, and open another work where none is left: so few references are in memory at once. With nothing else to do, help those who
 * still compute one. tell: may this thread report how far all of them are? */
static void judge_works(struct batch *b, bool tell)
{
    while (atomic_load(&b->unfinished)) {
        int w;

        if (judge_an_item(b, tell))
            continue;
        if (atomic_load(&b->next) < b->n_works && (w = atomic_fetch_add(&b->next, 1)) < b->n_works)
            open_work(b, &b->works[w], tell);
        else
            td_product_help_until(is_due, b);
    }
}

static void *judge_thread(void *arg)
{
    judge_works(arg, false);
    return NULL;
}

static int64_t item_rows(const struct td_op_item *it)
{
    return td_op_attr(&it->call, "m", TD_REFERENCE_BATCH_MAX_ROWS);
}

/* Rows that a work of such items may have. */
static int64_t most_rows(const struct td_op_item *it)
{
    const int64_t by_size = TD_REFERENCE_BATCH_MAX_RESULTS / (td_judge_cols(&it->call.out) + 1);

    return by_size < TD_REFERENCE_BATCH_MAX_ROWS ? by_size : TD_REFERENCE_BATCH_MAX_ROWS;
}

/* Large works first: the last ones end at about the same time then. */
static int larger_first(const void *a, const void *b)
{
    const struct work *x = a, *y = b;

    return x->size != y->size ? (x->size < y->size) - (x->size > y->size) : x->first - y->first;
}

/* Put neighbours with equal weights into one work, until it has as many rows as it may. */
static void divide_into_works(struct batch *b, bool again)
{
    struct td_op_item *items = b->items;
    struct work *w = NULL;
    int64_t rows = 0;
    int i;

    b->n_works = 0;
    for (i = 0; i < b->n; i++) {
        struct td_op_item *it = &items[i];

        if (!needs_reference(it) || (again && !b->before[i].again)) {
            w = NULL;
            if (can_compare(it) && !again)
                b->works[b->n_works++] = (struct work){.first = i};
            continue;
        }
        if (w && w->n < MAX_JOINED && rows + item_rows(it) <= most_rows(it) &&
            it->weights == items[w->first].weights && has_same_roundings(&items[w->first], it) &&
            td_reference_batch_fits(&items[w->first].call, &it->call)) {
            w->n++;
            rows += item_rows(it);
        } else {
            w = &b->works[b->n_works++];
            *w = (struct work){.first = i, .n = 1};
            rows = item_rows(it);
        }
        w->size += item_rows(it) * td_judge_cols(&it->call.out);
    }
    qsort(b->works, (size_t)b->n_works, sizeof *b->works, larger_first);
}

int td_op_judge_threads(void)
{
    const int64_t room = td_memory_address_space() / THREAD_SPACE;
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);

    n = n > MAX_THREADS ? MAX_THREADS : n;
    n = n > room ? (int)room : n;
    return n < 1 ? 1 : n;
}

static void judge_all_works(struct batch *b, int threads)
{
    pthread_t ids[MAX_THREADS];
    int started = 0, i;

    atomic_store(&b->next, 0);
    atomic_store(&b->unfinished, b->n_works);
    for (i = 1; i < threads && i < MAX_THREADS && b->n_works; i++)
        if (!pthread_create(&ids[started], NULL, judge_thread, b))
            started++;
    judge_works(b, true);
    for (i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
}

static void remember(struct batch *b)
{
    int i;

    for (i = 0; i < b->n; i++) {
        b->before[i].status = b->items[i].status;
        memcpy(b->before[i].reason, b->items[i].reason, sizeof b->before[i].reason);
    }
}

static void take_back(struct td_op_item *it, struct before *was)
{
    it->status = was->status;
    memcpy(it->reason, was->reason, sizeof it->reason);
    memset(&it->e_candidate, 0, sizeof it->e_candidate);
    memset(&it->e_baseline, 0, sizeof it->e_baseline);
    memset(&it->e_recorded, 0, sizeof it->e_recorded);
    it->judged_candidate = it->judged_baseline = it->judged_recorded = false;
    it->halves = 0;
    it->along_k.step = 0;
    memset(&it->place, 0, sizeof it->place);
    it->equal = -1;
    it->by_gpu = 0;
    was->again = true;
}

/* The GPU computed wrong: what was judged by its other references is judged again, by the CPU's. */
static void judge_again(struct batch *b, int threads)
{
    int i, n = 0;

    for (i = 0; i < b->n; i++)
        if (b->items[i].by_gpu) {
            atomic_fetch_sub(&b->makers->by_gpu, b->items[i].by_gpu);
            take_back(&b->items[i], &b->before[i]);
            n++;
        }
    atomic_fetch_sub(&b->done, n);
    divide_into_works(b, true);
    judge_all_works(b, threads);
}

int td_op_judge_batch(struct td_op_item *items, int n, struct td_reference_makers *makers, struct td_ref_cache *cache, int threads,
                      td_op_judged_fn *tell, void *ctx, struct td_error *err)
{
    struct batch b = {.items = items,
                      .n = n,
                      .makers = makers,
                      .cache = cache,
                      .works = calloc((size_t)n + 1, sizeof *b.works),
                      .before = calloc((size_t)n + 1, sizeof *b.before),
                      .tell = tell,
                      .ctx = ctx};
    int i;

    if (!b.works || !b.before) {
        free(b.works);
        free(b.before);
        return td_fail(err, TD_ENOMEM, "out of memory for a batch of %d ops", n);
    }
    remember(&b);
    for (i = 0; i < n; i++)
        td_op_digest_find(&items[i]);
    divide_into_works(&b, false);
    judge_all_works(&b, threads);
    if (td_reference_makers_are_wrong(makers))
        judge_again(&b, threads);
    tell(ctx, n);
    free(b.works);
    free(b.before);
    for (i = 0; i < n; i++) {
        cJSON_Delete(items[i].rec.judge);
        items[i].rec.judge = td_op_judge_json(&items[i]);
    }
    return TD_OK;
}
