/* links_pump.c - from the rings of a server into the fixture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What lies in a ring was written by another process, which may be broken or dying: every length is checked before it is used, and a
 * ring that does not hold together is not read any further. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "model/gptq.h"
#include "recorder/links_parts.h"

#define WEIGHTS_MAX 1000000u
#define WEIGHT_BYTES_MAX (16ULL << 30)
#define DRAIN_MAX 256                 /* records of a ring in one go, while others wait for the lock */

static const char *const weight_role[TAP_WEIGHT_TENSORS] = {"qweight", "qzeros", "scales", "g_idx"};
static const char *const weight_dtype[TAP_WEIGHT_TENSORS] = {"I32", "I32", "F16", "I32"};

static void keep_failure(struct td_links *l, int rc, const char *what)
{
    if (rc)
        td_fail(&l->failed, rc, "the tap's %s could not be written to the fixture", what);
}

/* ---- ledger -------------------------------------------------------------------------------------------------------- */

static const struct { const char *seen, *name; } counted[TAP_COUNTS] = {
    [TAP_OPS_SAMPLING] = {"ops.seen", "ops.dropped.sampling"},   [TAP_OPS_BUDGET] = {"ops.seen", "ops.dropped.budget"},
    [TAP_OPS_RING] = {"ops.seen", "ops.dropped.ring"},           [TAP_OPS_WEIGHTS] = {"ops.seen", "ops.dropped.weights"},
    [TAP_OPS_PARTIAL] = {"ops.seen", "ops.dropped.partial"},     [TAP_OPS_FAILED] = {"ops.seen", "ops.dropped.failed"},
    [TAP_OPS_THREADS] = {"ops.seen", "ops.dropped.threads"},     [TAP_STEPS_SAMPLING] = {"steps.seen", "steps.dropped.sampling"},
    [TAP_STEPS_BUDGET] = {"steps.seen", "steps.dropped.budget"}, [TAP_STEPS_RING] = {"steps.seen", "steps.dropped.ring"},
    [TAP_STEPS_THREADS] = {"steps.seen", "steps.dropped.threads"},
}; /* what was sent is counted when it is written: see took() */

static void took(struct td_links *l, const char *seen, const char *name, int64_t bytes)
{
    td_writer_count(l->opt.writer, seen, 1, bytes);
    td_writer_count(l->opt.writer, name, 1, bytes);
}

static void count_one(struct td_links *l, struct tap_counter *now, struct tap_counter *before)
{
    int i;

    for (i = 0; i < TAP_COUNTS; i++) {
        uint64_t n = atomic_load_explicit(&now[i].n, memory_order_relaxed), bytes = atomic_load_explicit(&now[i].bytes, memory_order_relaxed);
        int64_t dn = (int64_t)(n - before[i].n), db = (int64_t)(bytes - before[i].bytes);

        if (!counted[i].name || dn <= 0 || db < 0)
            continue;
        td_writer_count(l->opt.writer, counted[i].seen, dn, db);
        td_writer_count(l->opt.writer, counted[i].name, dn, db);
        if (i < TAP_STEPS_SENT)
            l->state.ops_dropped += dn;
        before[i].n = n;
        before[i].bytes = bytes;
    }
}

void links_count(struct td_links *l, struct link *lk)
{
    uint32_t i;

    if (!lk->shared)
        return;
    count_one(l, lk->shared->counts, lk->seen);
    for (i = 0; i < lk->rings; i++)
        count_one(l, lk->ring[i].shared->counts, lk->ring[i].seen);
}

/* ---- steps --------------------------------------------------------------------------------------------------------- */

/* rec : our copy of the head of the record; data : what follows it in the ring */
static bool take_step(struct td_links *l, struct link *lk, const struct tap_step *rec, const uint8_t *data)
{
    size_t room = rec->rec.size - sizeof *rec;
    const struct tap_span *spans = (const struct tap_span *)data;
    struct td_step s = {.step = (int64_t)rec->step, .t_ns = rec->rec.t_ns, .how = TD_HOW_EXACT, .n_spans = rec->n_spans, .pid = lk->pid};
    const char *id;
    int32_t i;
    int rc;

    if (rec->n_spans < 0 || rec->n_spans > TAP_MAX_SPANS || (size_t)rec->n_spans * sizeof *spans > room)
        return false;
    room -= (size_t)rec->n_spans * sizeof *spans;
    id = (const char *)(spans + rec->n_spans);
    s.spans = calloc((size_t)rec->n_spans + 1, sizeof *s.spans);
    if (!s.spans) {
        keep_failure(l, TD_ENOMEM, "steps");
        return true;
    }
    for (i = 0; i < rec->n_spans; i++) {
        struct tap_span from = spans[i];
        char name[TAP_MAX_ID + 1];

        if (from.id_len > TAP_MAX_ID || from.id_len > room) {
            free(s.spans);
            return false;
        }
        memcpy(name, id, from.id_len);
        name[from.id_len] = '\0';
        id += from.id_len;
        room -= from.id_len;
        s.spans[i] = (struct td_span){l->nonce[0] ? td_links_request_stream(l->nonce, name) : -1, from.first_row, from.n_rows, from.position, from.decode != 0};
    }
    rc = td_writer_step(l->opt.writer, &s);
    keep_failure(l, rc, "steps");
    took(l, "steps.seen", rc ? "steps.dropped.recorder" : "steps.kept", 0);
    l->state.steps_kept += !rc;
    free(s.spans);
    return true;
}

/* ---- weights ------------------------------------------------------------------------------------------------------- */

void links_weights_release(struct link_ring *r)
{
    uint32_t i;
    int t;

    for (i = 0; i < r->n_weights; i++) {
        free(r->weights[i].data);
        free(r->weights[i].layer);
        for (t = 0; t < TAP_WEIGHT_TENSORS; t++)
            cJSON_Delete(r->weights[i].tensor[t].ref);
    }
    free(r->weights);
    r->weights = NULL;
    r->n_weights = 0;
}

static struct link_weight *weight_slot(struct link_ring *r, uint32_t id)
{
    if (!id || id > WEIGHTS_MAX)
        return NULL;
    if (id >= r->n_weights) {
        uint32_t n = id + 64;
        struct link_weight *more = realloc(r->weights, n * sizeof *more);

        if (!more)
            return NULL;
        memset(more + r->n_weights, 0, (n - r->n_weights) * sizeof *more);
        r->weights = more;
        r->n_weights = n;
    }
    return &r->weights[id];
}

static bool take_chunk(struct td_links *l, struct link_ring *r, const struct tap_weight *rec, const uint8_t *data)
{
    struct link_weight *w = weight_slot(r, rec->id);
    int t;

    if (!w || rec->len > rec->rec.size - sizeof *rec || w->settled)
        return false;
    if (!w->data) {
        for (t = 0; t < TAP_WEIGHT_TENSORS; t++) {
            w->bytes[t] = rec->bytes[t];
            if (rec->bytes[t] > WEIGHT_BYTES_MAX)
                return false;
            w->total += rec->bytes[t];
        }
        if (!w->total || w->total > WEIGHT_BYTES_MAX)
            return false;
        w->data = malloc(w->total);
        if (!w->data) {
            keep_failure(l, TD_ENOMEM, "weights");
            return false;
        }
    }
    if (rec->offset != w->have || rec->len > w->total - w->have)
        return false;
    memcpy(w->data + w->have, data, rec->len);
    w->have += rec->len;
    return true;
}

static void set_ref(struct td_tensor_rec *t, const struct td_layers *layers, const char *layer)
{
    cJSON *ref = cJSON_CreateObject(), *names = cJSON_CreateArray();
    char name[512], hex[TD_HASH_HEX];

    snprintf(name, sizeof name, "%s.%s", layer, t->role);
    td_hash_hex(t->blob, hex);
    cJSON_AddItemToArray(names, cJSON_CreateString(name));
    cJSON_AddStringToObject(ref, "checkpoint", td_layers_folder(layers));
    cJSON_AddItemToObject(ref, "tensors", names);
    cJSON_AddNullToObject(ref, "slice");
    cJSON_AddItemToObject(ref, "transforms", cJSON_CreateArray());
    cJSON_AddStringToObject(ref, "hash", hex);
    t->ref = ref;
}

static int64_t align_of(uint8_t log2)
{
    return (int64_t)1 << (log2 <= 12 ? log2 : 0);
}

static void set_tensor(struct td_tensor_rec *t, const char *role, const char *dtype, int ndim, int64_t rows, int64_t cols, uint8_t align)
{
    memset(t, 0, sizeof *t);
    snprintf(t->role, sizeof t->role, "%s", role);
    snprintf(t->dtype, sizeof t->dtype, "%s", dtype);
    t->ndim = ndim;
    t->shape[0] = rows;
    t->strides[0] = ndim == 2 ? cols : 1;
    if (ndim == 2) {
        t->shape[1] = cols;
        t->strides[1] = 1;
    }
    t->align = align_of(align);
}

/* Do the sizes of the set belong to these arguments? */
static bool weight_fits(const struct link_weight *w, const struct tap_op *op)
{
    uint64_t groups, n = (uint64_t)op->n, k = (uint64_t)op->k;

    if (op->n <= 0 || op->k <= 0 || op->group_size <= 0 || (op->bits != 4 && op->bits != 8))
        return false;
    groups = k / (uint64_t)op->group_size;
    return w->bytes[TAP_QWEIGHT] == k * (uint64_t)op->bits / 32 * n * 4 && w->bytes[TAP_QZEROS] == groups * (n * (uint64_t)op->bits / 32) * 4 &&
           w->bytes[TAP_SCALES] == groups * n * 2 && (!w->bytes[TAP_G_IDX] || w->bytes[TAP_G_IDX] == k * 4);
}

/* Name the layer, store the bytes: once per set, at the first op that uses it. */
static int settle(struct td_links *l, struct link_weight *w, const struct tap_op *op)
{
    int64_t groups = op->k / op->group_size;
    int64_t rows[] = {(int64_t)op->k * op->bits / 32, groups, groups, op->k}, cols[] = {op->n, (int64_t)op->n * op->bits / 32, op->n, 0};
    struct td_layers_key key = {.bits = op->bits, .group_size = op->group_size, .k = op->k, .n = op->n};
    const uint8_t *at = w->data;
    const char *layer = NULL;
    int t, matches = 0, rc = TD_OK;

    for (t = 0; t < TAP_WEIGHT_TENSORS; at += w->bytes[t++]) {
        set_tensor(&w->tensor[t], weight_role[t], weight_dtype[t], t == TAP_G_IDX ? 1 : 2, rows[t], cols[t], op->align_w[t]);
        if (w->bytes[t])
            w->tensor[t].blob = td_hash_bytes(at, w->bytes[t]);
        if (t == TAP_G_IDX && w->bytes[t]) {
            int32_t *copy = malloc(w->bytes[t]); /* aligned */

            if (!copy)
                return TD_ENOMEM;
            memcpy(copy, at, w->bytes[t]);
            w->act_order = !td_gptq_g_idx_is_trivial(copy, op->k, op->group_size);
            free(copy);
        }
    }
    key.qweight = w->tensor[TAP_QWEIGHT].blob;
    key.qzeros = w->tensor[TAP_QZEROS].blob;
    key.scales = w->tensor[TAP_SCALES].blob;
    if (w->act_order)
        key.g_idx = w->tensor[TAP_G_IDX].blob;
    if (l->layers)
        matches = td_layers_find(l->layers, &key, &layer);
    if (matches == 1)
        w->layer = strdup(layer);
    for (t = 0, at = w->data; t < TAP_WEIGHT_TENSORS && !rc; at += w->bytes[t++]) {
        if (!w->bytes[t])
            continue;
        if (matches)
            set_ref(&w->tensor[t], l->layers, layer);
        if (matches && l->opt.weights_by_reference)
            continue;
        rc = td_writer_blob(l->opt.writer, at, w->bytes[t], t == TAP_SCALES ? 2 : 1, &w->tensor[t].blob);
        w->tensor[t].stored = !rc;
    }
    td_writer_count(l->opt.writer, "weights.seen", 1, (int64_t)w->total);
    td_writer_count(l->opt.writer, matches == 1 ? "weights.matched" : matches ? "weights.ambiguous" : "weights.unmatched", 1, (int64_t)w->total);
    if (!rc && !(matches && l->opt.weights_by_reference))
        td_writer_count(l->opt.writer, "weights.stored", 1, (int64_t)w->total);
    free(w->data);
    w->data = NULL;
    w->settled = true;
    return rc;
}

/* ---- ops ----------------------------------------------------------------------------------------------------------- */

static cJSON *attributes(const struct tap_op *op, bool act_order)
{
    const struct { const char *name; int64_t v; } all[] = {
        {"m", op->m}, {"n", op->n}, {"k", op->k}, {"bits", op->bits}, {"group_size", op->group_size}, {"zero_offset", op->zero_offset},
        {"act_order", act_order}, {"flags", op->flags}, {"lda", op->lda}, {"ldc", op->ldc}};
    cJSON *o = cJSON_CreateObject();
    size_t i;

    for (i = 0; i < sizeof all / sizeof *all; i++)
        cJSON_AddNumberToObject(o, all[i].name, (double)all[i].v);
    return o;
}

static int write_op(struct td_links *l, struct link *lk, const struct tap_op *rec, struct link_weight *w, const uint8_t *a)
{
    uint64_t a_bytes = (uint64_t)rec->m * (uint64_t)rec->k * 2, c_bytes = (uint64_t)rec->m * (uint64_t)rec->n * 2;
    const uint8_t *c = a + tap_round(a_bytes, TAP_REC_ALIGN);
    struct td_tensor_rec in[1 + TAP_WEIGHT_TENSORS];
    char kind[] = "gptq_gemm", symbol[] = "td_gptq_gemm", layout[] = "checkpoint", clock[] = "monotonic", rounding[] = "none";
    struct td_op op = {.op = l->next_op, .step = rec->has_step ? (int64_t)rec->step : -1, .pid = lk->pid, .t_ns = rec->rec.t_ns, .kind = kind,
                       .layer = w->layer, .act_rounding = rounding, .in = in, .n_in = 1, .has_out = true,
                       .impl = {.symbol = symbol, .library = lk->library[0] ? lk->library : NULL, .build = lk->build[0] ? lk->build : NULL,
                                .layout = layout, .duration_ns = rec->duration_ns, .clock = clock}};
    int t, rc;

    set_tensor(&in[0], "a", "F16", 2, rec->m, rec->k, rec->align_a);
    set_tensor(&op.out, "c", "F16", 2, rec->m, rec->n, rec->align_c);
    rc = td_writer_blob(l->opt.writer, a, a_bytes, 2, &in[0].blob);
    if (!rc)
        rc = td_writer_blob(l->opt.writer, c, c_bytes, 2, &op.out.blob);
    if (rc)
        return rc;
    in[0].stored = op.out.stored = true;
    for (t = 0; t < TAP_WEIGHT_TENSORS; t++)
        if (w->bytes[t])
            in[op.n_in++] = w->tensor[t];
    op.attrs = attributes(rec, w->act_order);
    op.extra = cJSON_CreateObject();
    cJSON_AddNumberToObject(op.extra, "tid", rec->rec.tid);
    cJSON_AddNumberToObject(op.extra, "seq", (double)rec->seq);
    rc = td_writer_op(l->opt.writer, &op);
    cJSON_Delete(op.attrs);
    cJSON_Delete(op.extra);
    return rc;
}

static bool take_op(struct td_links *l, struct link *lk, struct link_ring *r, const struct tap_op *rec, const uint8_t *data)
{
    struct link_weight *w = rec->weight && rec->weight < r->n_weights ? &r->weights[rec->weight] : NULL;
    uint64_t a_bytes, c_bytes;
    int rc = TD_OK;

    if (!w || rec->m < 0 || !weight_fits(w, rec))
        return false;
    a_bytes = (uint64_t)rec->m * (uint64_t)rec->k * 2;
    c_bytes = (uint64_t)rec->m * (uint64_t)rec->n * 2;
    if (sizeof *rec + tap_round(a_bytes, TAP_REC_ALIGN) + tap_round(c_bytes, TAP_REC_ALIGN) != rec->rec.size)
        return false;
    if (!w->settled)
        rc = w->have == w->total ? settle(l, w, rec) : TD_ECORRUPT;
    if (!rc)
        rc = write_op(l, lk, rec, w, data);
    if (!rc)
        l->next_op++;
    keep_failure(l, rc, "ops");
    took(l, "ops.seen", rc ? "ops.dropped.recorder" : "ops.kept", (int64_t)(a_bytes + c_bytes));
    l->state.ops_kept += !rc;
    l->state.ops_dropped += rc != 0;
    return true;
}

/* ---- rings --------------------------------------------------------------------------------------------------------- */

/* at : the record in the ring; size was read once and checked. Its head is copied: what was checked is what is used. */
static bool take_record(struct td_links *l, struct link *lk, struct link_ring *r, const uint8_t *at, uint32_t size)
{
    static const size_t least[] = {[TAP_REC_STEP] = sizeof(struct tap_step), [TAP_REC_WEIGHT] = sizeof(struct tap_weight), [TAP_REC_OP] = sizeof(struct tap_op)};
    union { struct tap_rec rec; struct tap_step step; struct tap_weight weight; struct tap_op op; } head;
    unsigned type = ((const struct tap_rec *)at)->type;

    if (type < TAP_REC_STEP || type > TAP_REC_OP || size < least[type])
        return false;
    memcpy(&head, at, least[type]);
    head.rec.size = size;
    if (type == TAP_REC_STEP)
        return take_step(l, lk, &head.step, at + sizeof head.step);
    if (type == TAP_REC_WEIGHT)
        return take_chunk(l, r, &head.weight, at + sizeof head.weight);
    return take_op(l, lk, r, &head.op, at + sizeof head.op);
}

static int drain_ring(struct td_links *l, struct link *lk, struct link_ring *r)
{
    uint64_t tail = atomic_load_explicit(&r->shared->tail, memory_order_relaxed);
    int n = 0;

    while (!r->corrupt && n < DRAIN_MAX) {
        uint64_t head = atomic_load_explicit(&r->shared->head, memory_order_acquire), have = head - tail;
        const uint8_t *at = r->data + tail % lk->ring_bytes;
        uint32_t size;

        if (!have)
            break;
        size = *(const volatile uint32_t *)at;
        r->corrupt = have > lk->ring_bytes || size < sizeof(struct tap_rec) || size > have || size % TAP_REC_ALIGN || !take_record(l, lk, r, at, size);
        if (r->corrupt) {
            td_log(TD_LOG_WARN, "tap", "process %d: a ring holds what no tap writes; it is not read any further", (int)lk->pid);
            td_writer_count(l->opt.writer, "links.corrupt", 1, 0);
            break;
        }
        tail += size;
        atomic_store_explicit(&r->shared->tail, tail, memory_order_release);
        n++;
    }
    return n;
}

int links_drain(struct td_links *l, struct link *lk)
{
    uint32_t i;
    int n = 0;

    for (i = 0; lk->shared && i < lk->rings; i++)
        n += drain_ring(l, lk, &lk->ring[i]);
    return n;
}
