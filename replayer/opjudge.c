/* opjudge.c - from the runs of a batch of ops to their judgements, on several threads.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replayer/opitem.h"
#include "replayer/refbatch.h"

#define MAX_JOINED 64
#define MAX_THREADS 16

const char *td_op_status_name(enum td_op_status s)
{
    static const char *const names[] = {"ok", "unsupported", "failed", "crashed", "hung", "broken"};

    return s < TD_OP_STATUS_COUNT ? names[s] : "?";
}

void td_op_item_release(struct td_op_item *it)
{
    td_op_release(&it->rec);
    td_run_result_release(&it->candidate);
    td_run_result_release(&it->baseline);
    cJSON_Delete(it->speed);
    it->speed = NULL;
}

/* ---- one item, its reference known --------------------------------------------------------------------------------- */

static void set_status(struct td_op_item *it, enum td_op_status s, const char *reason)
{
    if (it->status != TD_OP_OK)
        return;
    it->status = s;
    snprintf(it->reason, sizeof it->reason, "%.479s", reason);
}

/* Elements that a run left as they were are a failure of its own kind, whatever the score says. */
static void look_for_poison(struct td_op_item *it, const struct td_op_ref *ref)
{
    struct td_poison_found f;
    char text[160];

    td_poison_look(ref, &it->call.out, (const void *const *)it->candidate.images, it->candidate.repeats, &f);
    if (f.not_cleared)
        snprintf(text, sizeof text, "added to %lld elements of its output instead of setting them", (long long)f.not_cleared);
    else if (f.unwritten)
        snprintf(text, sizeof text, "left %lld of %lld elements of its output unwritten", (long long)f.unwritten,
                 (long long)(ref->rows * ref->cols));
    else if (f.between)
        snprintf(text, sizeof text, "wrote %lld bytes between the rows of its output", (long long)f.between);
    else
        return;
    set_status(it, TD_OP_FAILED, text);
}

static int judge_item(struct td_op_item *it, const struct td_op_ref *ref, struct td_error *err)
{
    const struct td_tensor *out = &it->call.out;
    int rc = TD_OK;

    it->format_cost = td_judge_format_cost(ref);
    if (it->recorded) {
        rc = td_judge_output(ref, out, &it->recorded, 1, &it->limits, &it->e_recorded, err);
        it->judged_recorded = !rc;
    }
    if (!rc && it->candidate.repeats) {
        rc = td_judge_output(ref, out, (const void *const *)it->candidate.images, it->candidate.repeats, &it->limits,
                             &it->e_candidate, err);
        it->judged_candidate = !rc;
        if (!rc && it->recorded)
            it->equal = td_judge_equal(out, it->candidate.images[0], it->recorded);
        if (!rc)
            look_for_poison(it, ref);
    }
    if (!rc && it->baseline.repeats) {
        rc = td_judge_output(ref, out, (const void *const *)it->baseline.images, it->baseline.repeats, &it->limits,
                             &it->e_baseline, err);
        it->judged_baseline = !rc;
    }
    return rc;
}

/* ---- the judgement as JSON ----------------------------------------------------------------------------------------- */

/* E of one side: its numbers, its crash, or null. */
static cJSON *side_json(bool judged, const struct td_judge_result *e, const struct td_run_result *run)
{
    bool died = run && (run->status == TD_RUN_CRASHED || run->status == TD_RUN_HUNG);
    struct td_judge_result none = {0};

    if (!judged && !died)
        return cJSON_CreateNull();
    return td_judge_result_json(judged ? e : &none, died ? run->reason : NULL);
}

static void add_digest(cJSON *j, const struct td_op_item *it)
{
    const struct td_hash h = it->rec.out.blob;

    if (!it->recorded && !td_hash_is_zero(h) && it->candidate.repeats)
        cJSON_AddBoolToObject(j, "digest_equal",
                              td_hash_eq(h, td_hash_bytes(it->candidate.images[0], it->call.out.size_bytes)));
}

static cJSON *judgement(struct td_op_item *it)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "status", td_op_status_name(it->status));
    if (it->status != TD_OP_OK)
        cJSON_AddStringToObject(j, "reason", it->reason);
    if (it->limits.u_out > 0)
        cJSON_AddItemToObject(j, "limits", td_judge_limits_json(&it->limits));
    cJSON_AddItemToObject(j, "recorded", side_json(it->judged_recorded, &it->e_recorded, NULL));
    cJSON_AddItemToObject(j, "baseline", side_json(it->judged_baseline, &it->e_baseline, it->has_baseline ? &it->baseline : NULL));
    cJSON_AddItemToObject(j, "candidate", side_json(it->judged_candidate, &it->e_candidate, &it->candidate));
    if (it->has_baseline && it->baseline.status != TD_RUN_OK) {
        cJSON_AddStringToObject(j, "baseline_status", td_run_status_name(it->baseline.status));
        cJSON_AddStringToObject(j, "baseline_reason", it->baseline.reason);
    }
    if (it->equal >= 0) {
        cJSON_AddNumberToObject(j, "equal", (double)it->equal);
        cJSON_AddNumberToObject(j, "total", (double)it->e_candidate.total);
    }
    if (it->judged_candidate || it->judged_recorded || it->judged_baseline)
        td_judge_add_num(j, "format_cost", it->format_cost);
    add_digest(j, it);
    if (it->speed)
        cJSON_AddItemToObject(j, "speed", it->speed);
    it->speed = NULL;
    return j;
}

/* ---- batches ------------------------------------------------------------------------------------------------------- */

struct work { int first, n; };   /* items that share one reference computation */

struct batch {
    struct td_op_item *items;
    struct work *works; int n_works;
    atomic_int next;
};

static bool needs_reference(const struct td_op_item *it)
{
    return it->loaded && it->status != TD_OP_BROKEN && it->limits.u_out > 0 &&
           (it->recorded || it->candidate.repeats || it->baseline.repeats);
}

static void judge_work(struct td_op_item *items, const struct work *w)
{
    const struct td_op_kind *kind = td_op_kind_find(items[w->first].call.kind);
    const struct td_op_call *calls[MAX_JOINED];
    struct td_op_ref refs[MAX_JOINED], whole;
    struct td_error err = {0};
    bool joined = false;
    int i, rc;

    for (i = 0; i < w->n; i++)
        calls[i] = &items[w->first + i].call;
    rc = kind ? td_refbatch_compute(kind, calls, w->n, refs, &whole, &joined, &err) : TD_EUNSUPPORTED;
    for (i = 0; i < w->n; i++) {
        struct td_error one = err;

        if (rc || judge_item(&items[w->first + i], &refs[i], &one)) {
            items[w->first + i].status = TD_OP_OK; /* without a reference nothing else counts */
            set_status(&items[w->first + i], TD_OP_BROKEN, one.code ? one.msg : "no reference");
        }
    }
    if (!rc)
        td_op_ref_release(joined ? &whole : &refs[0]);
}

static void *worker(void *arg)
{
    struct batch *b = arg;
    int w;

    while ((w = atomic_fetch_add(&b->next, 1)) < b->n_works)
        judge_work(b->items, &b->works[w]);
    return NULL;
}

static int64_t rows_of(const struct td_op_item *it)
{
    return td_op_attr(&it->call, "m", TD_REFBATCH_MAX_ROWS);
}

/* Neighbours with equal weights are joined until their rows are too many. */
static void divide(struct td_op_item *items, int n, struct batch *b)
{
    struct work *w = NULL;
    int64_t rows = 0;
    int i;

    for (i = 0; i < n; i++) {
        struct td_op_item *it = &items[i];

        if (!needs_reference(it)) {
            w = NULL;
            continue;
        }
        if (w && w->n < MAX_JOINED && rows + rows_of(it) <= TD_REFBATCH_MAX_ROWS && it->weights == items[w->first].weights &&
            td_refbatch_fits(&items[w->first].call, &it->call)) {
            w->n++;
            rows += rows_of(it);
        } else {
            w = &b->works[b->n_works++];
            *w = (struct work){i, 1};
            rows = rows_of(it);
        }
    }
}

int td_op_judge_batch(struct td_op_item *items, int n, int threads, struct td_error *err)
{
    struct batch b = {.items = items, .works = calloc((size_t)n + 1, sizeof *b.works)};
    pthread_t ids[MAX_THREADS];
    int started = 0, i;

    if (!b.works)
        return td_fail(err, TD_ENOMEM, "out of memory for a batch of %d ops", n);
    divide(items, n, &b);
    for (i = 1; i < threads && i < MAX_THREADS && i < b.n_works; i++)
        if (!pthread_create(&ids[started], NULL, worker, &b))
            started++;
    worker(&b);
    for (i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    free(b.works);
    for (i = 0; i < n; i++) {
        cJSON_Delete(items[i].rec.judge);
        items[i].rec.judge = judgement(&items[i]);
    }
    return TD_OK;
}
