/* judged_ops.c - read the ops of a fixture into a compact form, and join them by origin.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/judged_ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/out_of_memory.h"
#include "differ/judged_slices.h"
#include "differ/op_along_k.h"
#include "format/judgement.h"

/* ---- interned strings: open addressing, grown at half full ----------------------------------- */

struct td_strings { char **slot; size_t n, cap; };

static size_t slot_of(char **slot, size_t cap, const char *s)
{
    size_t i = (size_t)td_hash64(s, strlen(s)) & (cap - 1);

    while (slot[i] && strcmp(slot[i], s) != 0)
        i = (i + 1) & (cap - 1);
    return i;
}

static const char *intern(struct td_judged_ops *set, const char *s)
{
    struct td_strings *t = set->strings;
    size_t i;

    if (!s)
        return NULL;
    if (!t) {
        t = set->strings = calloc(1, sizeof *t);
        if (!t)
            return "";
    }
    if (t->n * 2 >= t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 64;
        char **slot = calloc(cap, sizeof *slot);

        if (!slot)
            return "";
        for (i = 0; i < t->cap; i++)
            if (t->slot[i])
                slot[slot_of(slot, cap, t->slot[i])] = t->slot[i];
        free(t->slot);
        t->slot = slot;
        t->cap = cap;
    }
    i = slot_of(t->slot, t->cap, s);
    if (!t->slot[i]) {
        t->slot[i] = td_strdup(s);
        if (!t->slot[i])
            return "";
        t->n++;
    }
    return t->slot[i];
}

static void strings_free(struct td_strings *t)
{
    size_t i;

    if (!t)
        return;
    for (i = 0; i < t->cap; i++)
        free(t->slot[i]);
    free(t->slot);
    free(t);
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *td_op_result_name(enum td_op_result r)
{
    static const char *const NAMES[] = {"ok", "inconclusive", "broken", "bad", "compared"};

    return NAMES[r];
}

/* Most ops of a large set have none, so it is no array in each. */
void td_judged_op_set_why(struct td_judged_op *op, const char *text)
{
    char *copy = *text ? td_strdup(text) : NULL;

    if (op->why && *op->why)
        free((char *)(uintptr_t)op->why);
    op->why = copy ? copy : "";
}

bool td_judged_op_runs_before(const struct td_judged_op *a, const struct td_judged_op *b)
{
    if (a->step >= 0 && b->step >= 0 && a->step != b->step)
        return a->step < b->step;
    return a->op < b->op;
}

int64_t td_judged_op_attr(const struct td_judged_op *op, const char *name, int64_t missing)
{
    int i;

    for (i = 0; i < op->n_attrs; i++)
        if (strcmp(op->attr[i].name, name) == 0)
            return op->attr[i].value;
    return missing;
}

/* ---- reading --------------------------------------------------------------------------------- */

static double number_at(const cJSON *array, int i)
{
    return td_json_num(cJSON_GetArrayItem(array, i), NAN);
}

static int64_t integer_at(const cJSON *array, int i)
{
    return td_json_i64(cJSON_GetArrayItem(array, i), -1);
}

static void read_op_error(struct td_judged_ops *set, const cJSON *e, struct td_op_error *out)
{
    const cJSON *row = td_json_get(e, "worst_row"), *col = td_json_get(e, "worst_col"),
                *tile = td_json_get(e, "worst_tile");

    memset(out, 0, sizeof *out);
    if (!cJSON_IsObject(e))
        return;
    out->present = true;
    out->score = td_json_get_num(e, "score", NAN);
    out->rel_l2 = td_json_get_num(e, "rel_l2", NAN);
    out->r0_rel_l2 = td_json_get_num(e, "r0_rel_l2", NAN);
    out->max_abs = td_json_get_num(e, "max_abs", NAN);
    out->spread = td_json_get_num(e, "spread", 0);
    out->row_at = integer_at(row, 0);
    out->row = number_at(row, 1);
    out->col_at = integer_at(col, 0);
    out->col = number_at(col, 1);
    out->tile_row = integer_at(tile, 0);
    out->tile_col = integer_at(tile, 1);
    out->tile = number_at(tile, 2);
    out->nan = td_json_get_i64(e, "nan", 0);
    out->inf = td_json_get_i64(e, "inf", 0);
    out->zero = td_json_get_i64(e, "zero", 0);
    out->ref_nonzero = td_json_get_i64(e, "ref_nonzero", 0);
    out->repeats = td_json_get_i64(e, "repeats", 1);
    out->unstable = td_json_get_i64(e, "unstable", 0);
    out->worst_run = td_json_get_i64(e, "worst_run", 0);
    /* older replays did not count the runs: one differed at least */
    out->odd_runs = td_json_get_i64(e, "odd_runs", out->unstable > 0);
    out->varies = cJSON_IsTrue(td_json_get(e, "varies"));
    out->crash = intern(set, td_json_get_str(e, "crash", NULL));
}

/* Is it a time in ns? More than thirty years are none, and would overflow where times are multiplied. */
static bool is_time(double ns)
{
    return ns > 1e-9 && ns < 1e18;
}

/* Read [[base_ns, new_ns], ...] into [*n][2]. Pairs that are not two times are left out. */
static double *read_pairs(const cJSON *pairs, size_t *n)
{
    const cJSON *p;
    double *out;

    *n = 0;
    if (!cJSON_IsArray(pairs) || !pairs->child)
        return NULL;
    out = malloc((size_t)cJSON_GetArraySize(pairs) * 2 * sizeof *out);
    if (!out)
        return NULL;
    cJSON_ArrayForEach(p, pairs) {
        double a = number_at(p, 0), b = number_at(p, 1);

        if (!is_time(a) || !is_time(b))
            continue;
        out[*n * 2] = a;
        out[*n * 2 + 1] = b;
        ++*n;
    }
    return out;
}

/* Read how an op without a reference compares. The baseline build's output is preferred to the
 * recorded one, because it was computed on the same machine. */
static void read_compared(const cJSON *j, struct td_judged_op *x)
{
    bool base = td_json_get(j, "baseline_equal") != NULL;

    x->without_reference = !td_json_get_bool(j, "reference", true);
    x->departs = td_json_get_num(j, base ? "baseline_departs" : "departs", NAN);
    x->same = x->total > 0 && td_json_get_i64(j, base ? "baseline_equal" : "equal", -1) == x->total;
}

static void read_device(struct td_judged_ops *set, const cJSON *device,
                        struct td_judged_op_device *d)
{
    static const char *const side[2] = {"baseline", "candidate"};

    for (int i = 0; i < 2; i++) {
        const cJSON *of = td_json_get(device, side[i]), *after = td_json_get(of, "after");
        const double samples = td_json_get_num(after, "samples", 0);
        const char *by = cJSON_GetStringValue(
                       cJSON_GetArrayItem(td_json_get(after, "throttled_by"), 0)),
                   *unknown = td_json_get_str(of, "unknown", NULL);

        d->sm_mhz[i] =
            td_json_get(after, "sm_mhz") ? number_at(td_json_get(after, "sm_mhz"), 1) : NAN;
        d->throttled[i] = samples > 0 ? td_json_get_num(after, "throttled", 0) / samples : 0;
        d->throttled_by[i] = intern(set, by);
        if (unknown)
            d->unknown = intern(set, unknown);
    }
}

/* A recording of an older replay does not say how far the op came. */
static bool failed_before_its_kernel(const cJSON *j, enum td_op_status status)
{
    const char *stage = td_json_get_str(j, "stage", "");

    return (status == TD_OP_FAILED || status == TD_OP_CRASHED || status == TD_OP_HUNG) &&
           (strcmp(stage, "idle") == 0 || strcmp(stage, "load") == 0 ||
            strcmp(stage, "prepare") == 0);
}

static void read_errors(struct td_judged_ops *set, const cJSON *j, struct td_judged_op *x)
{
    read_op_error(set, td_json_get(j, "recorded"), &x->recorded);
    read_op_error(set, td_json_get(j, "baseline"), &x->baseline);
    read_op_error(set, td_json_get(j, "candidate"), &x->candidate);
    read_op_error(set, td_json_get(j, "halves"), &x->halves);
    x->halves_block = td_json_get_i64(td_json_get(j, "halves"), "block", 0);
    x->halves_of_baseline = !strcmp(td_json_get_str(td_json_get(j, "halves"), "side", "candidate"), "baseline");
    x->halves_refused[0] = td_json_get_i64(td_json_get(j, "halves_refused"), "baseline", 0);
    x->halves_refused[1] = td_json_get_i64(td_json_get(j, "halves_refused"), "candidate", 0);
    if (cJSON_IsObject(td_json_get(j, "over")) && (x->over = malloc(sizeof *x->over)))
        td_op_over_read(td_json_get(j, "over"), x->candidate.score, x->over);
    x->along_k = td_op_along_k_read(td_json_get(j, "along_k"));
    td_judged_slices_read(set, j, x);
}

static void distrust(struct td_judged_ops *set, struct td_judged_op *x)
{
    x->status = TD_OP_BROKEN;
    x->reason = intern(set, "its reference is of a GPU that computed another one wrong (replay with --reference cpu)");
}

static void read_judge(struct td_judged_ops *set, const cJSON *j, struct td_judged_op *x)
{
    const int64_t starts_of = td_json_get_i64(td_json_get(j, "speed"), "starts_of", -1);

    x->status = td_op_status_parse(td_json_get_str(j, "status", "broken"));
    x->reason = intern(set, td_json_get_str(j, "reason", NULL));
    x->never_ran = failed_before_its_kernel(j, x->status);
    x->damaged = x->status == TD_OP_BROKEN && td_json_get_bool(j, "damaged", false);
    x->judge_floor = td_json_get_num(td_json_get(j, "limits"), "floor", NAN);
    x->format_cost = td_json_get_num(j, "format_cost", NAN);
    x->equal = td_json_get_i64(j, "equal", 0);
    x->total = td_json_get_i64(j, "total", 0);
    x->digest_found = x->total && td_json_get(j, "digest_equal");
    x->digest_differs = !x->total && !td_json_get_bool(j, "digest_equal", true);
    x->turn = td_json_get_i64(j, "turn", -1);
    x->recorded_rounding =
        intern(set, td_json_get_str(td_json_get(j, "roundings"), "recorded", NULL));
    x->baseline_rounding =
        intern(set, td_json_get_str(td_json_get(j, "roundings"), "baseline", NULL));
    read_compared(j, x);
    if (set->distrusts_gpu && td_json_get_bool(j, "by_gpu", false))
        distrust(set, x);
    else
        read_errors(set, j, x);
    x->baseline_failed = intern(set, td_json_get_str(j, "baseline_status", NULL));
    if (!x->baseline.present && x->baseline_failed && !strcmp(x->baseline_failed, "failed")) {
        x->baseline.present = true; /* a baseline that fails is known to fail */
        x->baseline.crash = intern(set, td_json_get_str(j, "baseline_reason", "failed"));
    }
    if (!strcmp(td_json_get_str(j, "baseline_status", ""), "unsupported") || !strcmp(td_json_get_str(j, "baseline_status", ""), "broken"))
        x->baseline_lacks = intern(set, td_json_get_str(j, "baseline_reason", "no reason given"));
    x->hot = read_pairs(td_json_get(td_json_get(j, "speed"), "hot"), &x->n_hot);
    read_device(set, td_json_get(td_json_get(j, "speed"), "device"), &x->device);
    x->starts = (size_t)td_json_get_i64(td_json_get(j, "speed"), "starts", 1);
    x->starts_of = starts_of >= 0 && starts_of < INT64_MAX ? starts_of + 1 : 0;
    x->cold = read_pairs(td_json_get(td_json_get(j, "speed"), "cold"), &x->n_cold);
    x->untimed = intern(set, td_json_get_str(j, "untimed", NULL));
}

/* Read every integer among the attributes: one that is left out could not be blamed for a bad
 * op. */
static int read_attrs(struct td_judged_ops *set, const struct td_op *op, struct td_judged_op *x,
                      struct td_error *err)
{
    const cJSON *a;
    int n = 0;

    cJSON_ArrayForEach(a, op->attrs)
        n += td_json_i64(a, INT64_MIN) != INT64_MIN;
    if (n > TD_OP_MAX_ATTRS)
        return td_fail(err, TD_ELIMIT, "op %lld (%.60s) has %d attributes; this version takes %d",
                       (long long)op->op, x->kind, n, TD_OP_MAX_ATTRS);
    x->attr = calloc((size_t)n + 1, sizeof *x->attr);
    if (!x->attr)
        return td_fail(err, TD_ENOMEM, "no memory for the attributes of op %lld",
                       (long long)op->op);
    cJSON_ArrayForEach(a, op->attrs) {
        int64_t v = td_json_i64(a, INT64_MIN);

        if (v != INT64_MIN)
            x->attr[x->n_attrs++] = (struct td_attr_view){intern(set, a->string), v};
    }
    x->m = td_judged_op_attr(x, "m", -1);
    x->n = td_judged_op_attr(x, "n", -1);
    x->k = td_judged_op_attr(x, "k", -1);
    x->m_class = td_m_class(x->m);
    return TD_OK;
}

/* What tells kernels apart: a GEMM's sizes but for M, with bits, group size and act-order; or the
 * length of a row, and which output of the call it is; or the sizes of the output. */
static const char *shape_of(struct td_judged_ops *set, const struct td_judged_op *x,
                            const struct td_tensor_rec *out)
{
    char shape[200];
    int len = snprintf(shape, sizeof shape, "%s%s", x->weights ? x->weights : "",
                       x->weights ? " " : ""),
        d;
    int64_t v;

    if (x->n < 0 && x->k < 0) {
        for (d = 0; d < out->ndim; d++)
            len += snprintf(shape + len, sizeof shape - (size_t)len, "%s%lld", d ? "x" : "",
                            (long long)out->shape[d]);
        return intern(set, shape);
    }
    len += snprintf(shape + len, sizeof shape - (size_t)len, x->k < 0 ? "%lld" : "%lldx%lld",
                    (long long)x->n, (long long)x->k);
    if ((v = td_judged_op_attr(x, "part", -1)) >= 0)
        len += snprintf(shape + len, sizeof shape - (size_t)len, " part %lld", (long long)v);
    if ((v = td_judged_op_attr(x, "bits", -1)) >= 0)
        len += snprintf(shape + len, sizeof shape - (size_t)len, " b%lld", (long long)v);
    if ((v = td_judged_op_attr(x, "group_size", 0)) != 0)
        len += snprintf(shape + len, sizeof shape - (size_t)len, " g%lld", (long long)v);
    if (td_judged_op_attr(x, "act_order", 0))
        snprintf(shape + len, sizeof shape - (size_t)len, " act");
    return intern(set, shape);
}

const char *td_judged_op_layer_words(const struct td_judged_op *op, const char *unknown, char *out,
                                     size_t size)
{
    /* a replay does not repeat the rank */
    const struct td_judged_op *recorded = op->origin ? op->origin : op;

    if (recorded->rank < 0)
        return op->layer ? op->layer : unknown;
    snprintf(out, size, "%s of rank %d", op->layer ? op->layer : unknown, recorded->rank);
    return out;
}

int td_judged_ops_add(struct td_judged_ops *s, const char *fixture_id, const struct td_op *op,
                      struct td_error *err)
{
    const struct td_tensor_rec *w = td_op_rec_in(op, "w");
    struct td_judged_op *x;
    int rc;

    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 256;
        struct td_judged_op *grown = realloc(s->op, cap * sizeof *grown);

        if (!grown)
            return td_fail(err, TD_ENOMEM, "no memory for %zu ops", cap);
        s->op = grown;
        s->cap = cap;
    }
    x = &s->op[s->n++];
    memset(x, 0, sizeof *x);
    x->fixture = intern(s, op->origin ? td_json_get_str(op->origin, "fixture", "") : fixture_id);
    x->op = op->origin ? td_json_get_i64(op->origin, "op", -1) : op->op;
    x->step = op->step;
    x->pid = op->pid;
    x->turn = -1;
    x->why = "";
    x->rank = (int)td_json_get_i64(op->extra, "rank", -1);
    x->kind = intern(s, op->kind ? op->kind : "?");
    x->layer = intern(s, op->layer);
    x->symbol = intern(s, op->impl.symbol);
    x->dtype = intern(s, op->has_out ? op->out.dtype : "");
    x->act_rounding = intern(s, op->act_rounding ? op->act_rounding : "none");
    x->judge_floor = x->format_cost = x->departs = NAN;
    x->has_output = op->has_out && op->out.stored;
    x->weights = w ? intern(s, w->dtype) : NULL;
    x->input = td_judged_slices_input(op);
    if ((rc = read_attrs(s, op, x, err))) {
        s->n--;
        return rc;
    }
    x->shape = shape_of(s, x, &op->out);
    if (op->judge)
        read_judge(s, op->judge, x);
    return TD_OK;
}

static int by_origin(const void *a, const void *b)
{
    const struct td_judged_op *p = *(const struct td_judged_op *const *)a,
                              *q = *(const struct td_judged_op *const *)b;
    int c = strcmp(p->fixture, q->fixture);

    return c ? c : (p->op > q->op) - (p->op < q->op);
}

/* A replay that holds an op twice would have one judgement of a pair weighed for another op. */
static int check_once(const struct td_judged_ops *s, size_t first, const char *dir, struct td_error *err)
{
    const size_t n = s->n - first;
    const struct td_judged_op **all = malloc((n + 1) * sizeof *all);
    size_t i;
    int rc = TD_OK;

    if (!all)
        return td_fail(err, TD_ENOMEM, "no memory for %zu ops", n);
    for (i = 0; i < n; i++)
        all[i] = &s->op[first + i];
    qsort(all, n, sizeof *all, by_origin);
    for (i = 1; i < n && !rc; i++)
        if (all[i]->status != TD_OP_NONE && by_origin(&all[i - 1], &all[i]) == 0)
            rc = td_fail(err, TD_ECORRUPT, "%.200s: op %lld is there twice", dir, (long long)all[i]->op);
    free(all);
    return rc;
}

int td_judged_ops_load(struct td_judged_ops *s, struct td_fixture *fx, size_t *bad,
                       struct td_error *err)
{
    struct td_cursor *c;
    const size_t first = s->n;
    struct td_op op;
    int rc = td_cursor_open(fx, TD_STREAM_OPS, &c, err);

    if (rc)
        return rc == TD_ENOTFOUND ? (td_error_clear(err), TD_OK) : rc;
    memset(&op, 0, sizeof op);
    s->distrusts_gpu = td_fixture_ledger(fx, "ops.distrusted") > 0;
    for (;;) {
        struct td_error frame = {0, ""};

        rc = td_cursor_op(c, &op, &frame);
        if (rc == 0)
            break;
        if (rc < 0) {
            ++*bad;
            if (rc != TD_ECORRUPT && rc != TD_ETRUNCATED) {
                rc = td_fail(err, rc, "%s", frame.msg);
                break;
            }
            continue;
        }
        rc = td_judgement_check(&op, err);
        if (rc)
            td_fail_at(err, "%.200s", td_fixture_dir(fx));
        else
            rc = td_judged_ops_add(s, td_fixture_id(fx), &op, err);
        if (rc)
            break;
    }
    td_op_release(&op);
    td_cursor_close(c);
    return rc ? rc : check_once(s, first, td_fixture_dir(fx), err);
}

void td_judged_ops_release(struct td_judged_ops *s)
{
    size_t i;

    for (i = 0; i < s->n; i++) {
        td_judged_op_set_why(&s->op[i], "");
        free(s->op[i].over);
        free(s->op[i].attr);
        free(s->op[i].hot);
        free(s->op[i].cold);
        td_judged_slices_free(&s->op[i]);
        free(s->op[i].along_k);
    }
    free(s->op);
    strings_free(s->strings);
    memset(s, 0, sizeof *s);
}

/* ---- joining --------------------------------------------------------------------------------- */

size_t td_judged_ops_join(struct td_judged_ops *candidate, const struct td_judged_ops *base)
{
    const struct td_judged_op **index = malloc((base->n + 1) * sizeof(*index));
    size_t i, joined = 0;

    if (!index)
        return 0;
    for (i = 0; i < base->n; i++)
        index[i] = &base->op[i];
    qsort(index, base->n, sizeof(*index), by_origin);
    for (i = 0; i < candidate->n; i++) {
        const struct td_judged_op *key = &candidate->op[i];
        const struct td_judged_op **hit = bsearch(&key, index, base->n, sizeof(*index), by_origin);

        candidate->op[i].origin = hit ? *hit : NULL;
        if (!hit)
            continue;
        joined++;
        if (!candidate->op[i].layer)
            candidate->op[i].layer = (*hit)->layer; /* lives as long as base */
        if (candidate->op[i].step < 0)
            candidate->op[i].step = (*hit)->step;
    }
    free(index);
    return joined;
}

/* An attribute of the recording that its replay has otherwise or not at all, or NULL. */
static const char *changed_attr(const struct td_judged_op *x, const struct td_judged_op *o)
{
    int i;

    for (i = 0; i < o->n_attrs; i++)
        if (td_judged_op_attr(x, o->attr[i].name, ~o->attr[i].value) != o->attr[i].value)
            return o->attr[i].name;
    return NULL;
}

int td_judged_ops_check_origins(const struct td_judged_ops *candidate, struct td_error *err)
{
    const char *name;
    size_t i;

    for (i = 0; i < candidate->n; i++) {
        const struct td_judged_op *x = &candidate->op[i], *o = x->origin;

        if (!o || x->status == TD_OP_NONE)
            continue;
        if ((name = changed_attr(x, o)))
            return td_fail(err, TD_ECORRUPT,
                           "op %lld is no replay of the op that was recorded: its \"%.40s\" is not %lld", (long long)x->op,
                           name, (long long)td_judged_op_attr(o, name, 0));
        if (o->has_output && x->status == TD_OP_OK && !x->without_reference && !x->recorded.present)
            return td_fail(err, TD_ECORRUPT,
                           "op %lld: its judgement is damaged: it lacks \"recorded\", and the output was recorded",
                           (long long)x->op);
        if (strcmp(x->dtype, o->dtype) != 0)
            return td_fail(err, TD_ECORRUPT,
                           "op %lld is no replay of the op that was recorded: its output is %.20s, not %.20s", (long long)x->op,
                           x->dtype, o->dtype);
    }
    return TD_OK;
}
