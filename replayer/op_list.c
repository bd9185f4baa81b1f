/* op_list.c - choose which of a fixture's ops are replayed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/log.h"
#include "replayer/op_order.h"

#define MAX_GROUPS 100000

/* ---- what an op is called -------------------------------------------------------------------- */

void td_op_shape_words(const struct td_op *op, char *out, size_t n)
{
    static const struct { const char *attr, *prefix; } parts[] = {{"n", "N="}, {"k", "K="}, {"bits", "b"}, {"group_size", "g"}, {"part", "part "}};
    const struct td_tensor_rec *w = td_op_rec_in(op, "w");
    size_t i, at = 0;

    at = (size_t)snprintf(out, n, "%s", w ? w->dtype : "");
    if (!td_json_get(op->attrs, "n") && !td_json_get(op->attrs, "k")) { /* no GEMM: name its output */
        for (i = 0; i < (size_t)op->out.ndim && at < n; i++)
            at += (size_t)snprintf(out + at, n - at, "%s%lld", i ? "x" : at ? " " : "", (long long)op->out.shape[i]);
        return;
    }
    for (i = 0; i < sizeof parts / sizeof *parts && at < n; i++) {
        int64_t v = td_json_get_i64(op->attrs, parts[i].attr, INT64_MIN);

        if (v != INT64_MIN)
            at += (size_t)snprintf(out + at, n - at, "%s%s%lld", at ? " " : "", parts[i].prefix, (long long)v);
    }
    if (at < n && td_json_get_i64(op->attrs, "act_order", 0))
        snprintf(out + at, n - at, "%sact", at ? " " : "");
}

static uint64_t mix_hash(uint64_t h, uint64_t v)
{
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    return h * 0xff51afd7ed558ccdu;
}

uint64_t td_op_weights_key(const struct td_op *op)
{
    uint64_t h = td_hash64(op->kind ? op->kind : "", op->kind ? strlen(op->kind) : 0);
    const cJSON *a;
    int32_t t;

    cJSON_ArrayForEach(a, op->attrs)
        if (a->string && strcmp(a->string, "m"))
            h = mix_hash(h, td_hash64(a->string, strlen(a->string)) ^ (uint64_t)td_json_i64(a, 0));
    for (t = 0; t < op->n_in; t++)
        if (!td_op_input_is_of_the_call(op->in[t].role))
            h = mix_hash(mix_hash(h, op->in[t].blob.hi), op->in[t].blob.lo);
    return h;
}

static uint64_t mix_text(uint64_t h, const char *text)
{
    return mix_hash(h, td_hash64(text ? text : "", text ? strlen(text) : 0));
}

/* What is summed up apart beside the sizes: an op of one element type, rounding or kernel stands for none of
 * another. */
static uint64_t format_key(const struct td_op *op)
{
    const struct td_tensor_rec *a = td_op_rec_in(op, "a");

    return mix_text(mix_text(mix_text(mix_text(0, op->has_out ? op->out.dtype : ""), a ? a->dtype : ""),
                             op->act_rounding ? op->act_rounding : "none"), op->impl.symbol);
}

/* ---- the list -------------------------------------------------------------------------------- */

void td_op_list_release(struct td_op_list *l)
{
    free(l->items);
    free(l->groups);
    free(l->order);
    memset(l, 0, sizeof *l);
}

static double products_of(const struct td_op *op)
{
    if (!op->kind || !td_reference_gpu_takes(op->kind))
        return 0;
    return td_json_get_num(op->attrs, "m", 0) * td_json_get_num(op->attrs, "n", 0) * td_json_get_num(op->attrs, "k", 0);
}

double td_op_list_products(const struct td_op_list *l)
{
    double sum = 0;

    for (size_t i = 0; i < l->n_groups; i++)
        sum += l->groups[i].products * (double)l->groups[i].chosen / (double)l->groups[i].seen;
    return sum;
}

static int find_or_add_group(struct td_op_list *l, const struct td_op *op, int32_t *out,
                             struct td_error *err)
{
    struct td_op_group g = {.m_class = td_m_class(td_json_get_i64(op->attrs, "m", 1)), .format = format_key(op)};
    size_t i;

    snprintf(g.kernel, sizeof g.kernel, "%s", op->kind ? op->kind : "?");
    td_op_shape_words(op, g.shape, sizeof g.shape);
    for (i = l->n_groups; i-- > 0;)
        if (l->groups[i].m_class == g.m_class && l->groups[i].format == g.format && !strcmp(l->groups[i].shape, g.shape) &&
            !strcmp(l->groups[i].kernel, g.kernel))
            break;
    if (i == SIZE_MAX) {
        if (l->n_groups == l->cap_groups) {
            size_t cap = l->cap_groups ? l->cap_groups * 2 : 64;
            struct td_op_group *more =
                l->n_groups < MAX_GROUPS ? realloc(l->groups, cap * sizeof *more) : NULL;

            if (!more)
                return td_fail(err, TD_ELIMIT, "more than %d kinds and shapes of ops", MAX_GROUPS);
            l->groups = more;
            l->cap_groups = cap;
        }
        i = l->n_groups++;
        l->groups[i] = g;
    }
    l->groups[i].seen++;
    l->groups[i].products += products_of(op);
    *out = (int32_t)i;
    return TD_OK;
}

int td_op_list_add(struct td_op_list *l, const struct td_op *op, bool chosen, struct td_error *err)
{
    struct td_op_choice c = {.op = op->op, .step = op->step, .weights = td_op_weights_key(op), .matches = chosen, .chosen = chosen};
    const char *layer = op->layer ? op->layer : "";

    c.layer = (uint32_t)td_hash64(layer, strlen(layer));
    if (l->n == INT32_MAX)
        return td_fail(err, TD_ELIMIT, "more than %d ops", INT32_MAX);

    if (find_or_add_group(l, op, &c.group, err))
        return err ? err->code : TD_ELIMIT;
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 1024;
        struct td_op_choice *more = realloc(l->items, cap * sizeof *more);

        if (!more)
            return td_fail(err, TD_ENOMEM, "out of memory for a list of %zu ops", cap);
        l->items = more;
        l->cap = cap;
    }
    l->groups[c.group].chosen += chosen;
    l->items[l->n++] = c;
    return TD_OK;
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* The largest quota q such that the sum over groups of min(chosen, q) is at most max. */
static int64_t group_quota(const struct td_op_list *l, int64_t max)
{
    int64_t low = 0, high = max;

    while (low < high) {
        int64_t q = low + (high - low + 1) / 2, sum = 0;
        size_t g;

        for (g = 0; g < l->n_groups && sum <= max; g++)
            sum += l->groups[g].chosen < q ? l->groups[g].chosen : q;
        if (sum <= max)
            low = q;
        else
            high = q - 1;
    }
    return low > 0 ? low : 1; /* a group always keeps one op, however small the maximum */
}

int64_t td_op_list_keep(struct td_op_list *l, const int64_t *keep)
{
    int64_t left_out = 0;
    size_t g;

    for (g = 0; g < l->n_groups; g++) {
        struct td_op_group *group = &l->groups[g];
        int64_t kept = 0, i;

        for (i = 0; i < group->seen; i++) {
            struct td_op_choice *c = &l->items[l->order[group->first + i]];

            if (!c->chosen)
                continue;
            if (kept < keep[g])
                kept++;
            else
                c->chosen = false;
        }
        left_out += group->chosen - kept;
        group->chosen = kept;
    }
    return left_out;
}

void td_op_list_give_turns(struct td_op_list *l)
{
    size_t g;

    for (g = 0; g < l->n_groups; g++) {
        const struct td_op_group *group = &l->groups[g];
        int32_t turn = 0;
        int64_t i;

        for (i = 0; i < group->seen; i++) {
            struct td_op_choice *c = &l->items[l->order[group->first + i]];

            c->turn = c->chosen ? turn++ : -1;
        }
    }
}

static int sample(struct td_op_list *l, int64_t max, struct td_error *err)
{
    int64_t total = 0, quota, *keep;
    size_t i;
    int rc = td_op_order_make(l, err);

    for (i = 0; i < l->n_groups; i++)
        total += l->groups[i].chosen;
    if (rc || max <= 0 || total <= max)
        return rc;
    quota = group_quota(l, max);
    keep = malloc(l->n_groups * sizeof *keep);
    if (!keep)
        return td_fail(err, TD_ENOMEM, "out of memory for a sample of %zu kinds and shapes of ops", l->n_groups);
    for (i = 0; i < l->n_groups; i++)
        keep[i] = quota;
    l->not_sampled += td_op_list_keep(l, keep);
    free(keep);
    return TD_OK;
}

int td_op_list_sample(struct td_op_list *l, int64_t max, struct td_error *err)
{
    int rc = sample(l, max, err);

    if (!rc)
        td_op_list_give_turns(l);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool matches_filter(const struct td_op *op, const struct td_arg_list *only)
{
    int i;

    for (i = 0; i < only->n; i++)
        if (td_op_named(op, only->item[i]))
            return true;
    return only->n == 0;
}

static int scan_op(struct td_op_list *l, const struct td_op *op, const struct td_replay_options *opt, struct td_error *err)
{
    bool match = matches_filter(op, &opt->only), ours = td_shard_has(&opt->shard, op->op);

    l->not_matching += !match;
    l->other_shards += match && !ours;
    return td_op_list_add(l, op, match && ours, err);
}

int td_op_list_scan(struct td_fixture *fx, const struct td_replay_options *opt, struct td_op_list *l, struct td_error *err)
{
    struct td_cursor *c = NULL;
    struct td_op op = {0};
    struct td_error bad = {0};
    int rc;

    memset(l, 0, sizeof *l);
    rc = td_cursor_open(fx, TD_STREAM_OPS, &c, err);
    if (rc)
        return rc == TD_ENOTFOUND ? (err ? td_error_clear(err) : (void)0, TD_OK) : rc;
    while ((rc = td_cursor_op(c, &op, &bad)) != 0) {
        if (rc < 0) { /* what can be read is replayed */
            td_log(TD_LOG_WARN, "replay", "%s", bad.msg);
            td_error_clear(&bad);
            if (rc != TD_ECORRUPT && rc != TD_ETRUNCATED && rc != TD_ELIMIT) {
                td_fail(err, rc, "the recorded ops cannot be read to their end");
                break;
            }
            continue;
        }
        if (scan_op(l, &op, opt, err))
            break;
        l->items[l->n - 1].line = (uint32_t)(td_cursor_lines(c) - 1);
    }
    td_op_release(&op);
    l->bad_frames = td_cursor_bad_frames(c);
    td_cursor_close(c);
    if (err && err->code)
        return err->code;
    return td_op_list_sample(l, opt->max_ops, err);
}

static int by_weights(const void *a, const void *b, void *list)
{
    const struct td_op_list *l = list;
    const struct td_op_choice *x = &l->items[*(const int32_t *)a], *y = &l->items[*(const int32_t *)b];

    if (x->weights != y->weights)
        return x->weights < y->weights ? -1 : 1;
    return (x->op > y->op) - (x->op < y->op);
}

int32_t *td_op_list_by_weights(const struct td_op_list *l, size_t *n)
{
    int32_t *which = malloc((l->n + 1) * sizeof *which);
    size_t i;

    *n = 0;
    for (i = 0; which && i < l->n; i++)
        if (l->items[i].chosen && !l->items[i].done)
            which[(*n)++] = (int32_t)i;
    if (which)
        qsort_r(which, *n, sizeof *which, by_weights, (void *)(uintptr_t)l);
    return which;
}
