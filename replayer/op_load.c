/* op_load.c - load an op into memory, from its record.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "common/memory.h"
#include "model/safetensors.h"
#include "replayer/weight_ref.h"

#define IDLE_MAX_BYTES ((size_t)512 << 20) /* of tensors kept although no op holds them */
#define MAX_ENTRIES 4096
#define AHEAD_MAX 256        /* tensors that are read ahead at once */
#define AHEAD_THREADS 4      /* as many read as fast as most disks can */
#define MAX_CHECKPOINTS 8
#define MAX_ELEM 256 /* bytes of an element or a block, at most */

struct entry { struct td_hash hash; void *data; size_t size; int uses; uint64_t last; };

struct td_op_loader {
    struct td_fixture *fx;
    const char *checkpoint;
    struct entry *entries; size_t n;
    size_t idle_bytes;
    uint64_t clock;
    struct checkpoint { char *path; struct td_safetensors *st; struct td_gguf *gguf; } checkpoints[MAX_CHECKPOINTS];
    int n_checkpoints;
};

struct td_op_loader *td_op_loader_new(struct td_fixture *fx, const char *checkpoint)
{
    struct td_op_loader *l = calloc(1, sizeof *l);

    if (l) {
        l->fx = fx;
        l->checkpoint = checkpoint;
        l->entries = calloc(MAX_ENTRIES, sizeof *l->entries);
    }
    if (l && !l->entries) {
        free(l);
        return NULL;
    }
    return l;
}

void td_op_loader_free(struct td_op_loader *l)
{
    size_t i;

    if (!l)
        return;
    for (i = 0; i < l->n; i++)
        free(l->entries[i].data);
    for (i = 0; i < (size_t)l->n_checkpoints; i++) {
        free(l->checkpoints[i].path);
        td_safetensors_close(l->checkpoints[i].st);
        td_gguf_close(l->checkpoints[i].gguf);
    }
    free(l->entries);
    free(l);
}

/* ---- bytes --------------------------------------------------------------------------------------------------------- */

/* The hash of a tensor's bytes: its content address, or the hash in its reference. Zero: neither is
 * known. */
static struct td_hash content_key(const struct td_tensor_rec *t)
{
    struct td_hash h = t->blob;

    if (td_hash_is_zero(h) && td_hash_parse(td_json_get_str(t->ref, "hash", ""), &h))
        h = (struct td_hash){0, 0};
    return h;
}

static struct entry *find_entry(struct td_op_loader *l, struct td_hash h)
{
    size_t i;

    for (i = l->n; i-- > 0;)
        if (td_hash_eq(l->entries[i].hash, h))
            return &l->entries[i];
    return NULL;
}

/* Free the entry that no op has held for longest. False: ops hold all of them. */
static bool evict_one(struct td_op_loader *l)
{
    struct entry *oldest = NULL;
    size_t i;

    for (i = 0; i < l->n; i++)
        if (!l->entries[i].uses && (!oldest || l->entries[i].last < oldest->last))
            oldest = &l->entries[i];
    if (!oldest)
        return false;
    l->idle_bytes -= oldest->size;
    free(oldest->data);
    *oldest = l->entries[--l->n];
    return true;
}

void td_op_loader_forget(struct td_op_loader *l)
{
    while (evict_one(l))
        ;
}

static bool is_gguf(const char *path)
{
    size_t n = strlen(path);

    return n > 5 && !strcasecmp(path + n - 5, ".gguf");
}

static int open_checkpoint(struct td_op_loader *l, const char *path, const struct checkpoint **out,
                           struct td_error *err)
{
    struct checkpoint *c;
    int i, rc;

    for (i = 0; i < l->n_checkpoints; i++)
        if (!strcmp(l->checkpoints[i].path, path)) {
            *out = &l->checkpoints[i];
            return TD_OK;
        }
    if (l->n_checkpoints == MAX_CHECKPOINTS)
        return td_fail(err, TD_ELIMIT, "%s: more than %d checkpoints in one fixture", path, MAX_CHECKPOINTS);
    c = &l->checkpoints[i];
    memset(c, 0, sizeof *c);
    if (!(c->path = strdup(path)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    rc = is_gguf(path) ? td_gguf_open(path, &c->gguf, err) : td_safetensors_open(path, &c->st, err);
    if (rc) {
        free(c->path);
        td_fail_at(err, "the checkpoint of these weights (--checkpoint PATH says where it lies now)");
        return rc;
    }
    *out = c;
    l->n_checkpoints++;
    return TD_OK;
}

/* The bytes of a weight that was stored as a reference: tensors of a checkpoint, found unchanged by their hash. */
static int load_from_checkpoint(struct td_op_loader *l, const struct td_tensor_rec *t, void **data,
                           size_t *size, struct td_error *err)
{
    const char *path = l->checkpoint ? l->checkpoint : td_json_get_str(t->ref, "checkpoint", NULL);
    const struct checkpoint *c = NULL;
    int rc;

    if (!path)
        return td_fail(err, TD_EUNSUPPORTED,
                       "%s: the reference names no checkpoint; name it with --checkpoint PATH",
                       t->role);
    if ((rc = open_checkpoint(l, path, &c, err)))
        return rc;
    rc = c->gguf ? td_weight_ref_load_gguf(c->gguf, path, t, data, size, err)
                 : td_weight_ref_load(c->st, path, t, data, size, err);
    if (rc)
        return rc;
    if (td_hash_eq(td_hash_bytes(*data, *size), content_key(t)))
        return TD_OK;
    free(*data);
    return td_fail(err, TD_ECORRUPT, "%s: %s in %s is not what the server used; is it another checkpoint?", t->role,
                   td_json_get_str(cJSON_GetArrayItem(td_json_get(t->ref, "tensors"), 0), NULL, "its tensor"), path);
}

/* Read a tensor's bytes into new memory, from the pack or from a checkpoint. */
static int fetch_bytes(struct td_op_loader *l, const struct td_tensor_rec *t, void **data,
                       size_t *size, struct td_error *err)
{
    int rc;

    if (t->stored) {
        rc = td_fixture_blob(l->fx, t->blob, td_tensor_rec_max_bytes(t), data, size, err);
        return rc ? (td_fail_at(err, "%s", t->role), rc) : TD_OK;
    }
    return load_from_checkpoint(l, t, data, size, err);
}

static bool can_fetch(const struct td_tensor_rec *t)
{
    return t->stored || cJSON_IsObject(t->ref);
}

/* Is that the error of a stored blob that is not as it was written? A fixture that lost blobs when
 * it was repaired says so. */
static bool is_damage(const struct td_op_loader *l, int rc)
{
    return rc == TD_ECORRUPT || rc == TD_ETRUNCATED ||
           (rc == TD_ENOTFOUND && !td_json_get(td_fixture_manifest(l->fx), "repaired"));
}

/* Make room for one more entry among those that no op holds. False: ops hold too many. */
static bool make_entry_room(struct td_op_loader *l)
{
    const size_t part = (size_t)td_memory_max() / 8, idle = part < IDLE_MAX_BYTES ? part : IDLE_MAX_BYTES;

    while ((l->idle_bytes > idle || l->n == MAX_ENTRIES) && evict_one(l))
        ;
    return l->n < MAX_ENTRIES;
}

/* Keep bytes, which are taken, although no op holds them yet. */
static struct entry *add_entry(struct td_op_loader *l, struct td_hash key, void *data, size_t size)
{
    struct entry *e = &l->entries[l->n++];

    *e = (struct entry){.hash = key, .data = data, .size = size, .last = ++l->clock};
    l->idle_bytes += size;
    return e;
}

static int hold_bytes(struct td_op_loader *l, const struct td_tensor_rec *t,
                      struct td_op_hold *hold, void **data, size_t *size, struct td_error *err)
{
    struct td_hash key = content_key(t);
    struct entry *e = find_entry(l, key);
    int rc;

    if (td_hash_is_zero(key))
        return td_fail(err, TD_ENOTFOUND, "%s: neither its bytes nor their hash were recorded", t->role);
    if (!can_fetch(t)) /* though they may be here, for an op that stored them: which ops are is chance */
        return td_fail(err, TD_ENOTFOUND, "%s: its bytes were not recorded, only their hash", t->role);
    if (!e) {
        if (!make_entry_room(l))
            return td_fail(err, TD_ELIMIT, "more than %d tensors in use at once", MAX_ENTRIES);
        rc = fetch_bytes(l, t, data, size, err);
        if (rc) {
            hold->damaged = t->stored && is_damage(l, rc);
            return rc;
        }
        e = add_entry(l, key, *data, *size);
    }
    if (!e->uses++)
        l->idle_bytes -= e->size;
    e->last = ++l->clock;
    *data = e->data;
    *size = e->size;
    hold->keys[hold->n++] = key;
    return TD_OK;
}

void td_op_loader_put(struct td_op_loader *l, struct td_op_hold *hold)
{
    while (hold->n) {
        struct entry *e = find_entry(l, hold->keys[--hold->n]);

        if (e && e->uses && !--e->uses)
            l->idle_bytes += e->size;
    }
}

/* ---- reading ahead ------------------------------------------------------------------------------------------------- */

/* Tensors that threads read, each the next one that none has begun. */
struct ahead {
    struct td_fixture *fx;
    struct { const struct td_tensor_rec *t; void *data; size_t size; } item[AHEAD_MAX];
    int n;
    uint64_t bytes;
    atomic_int next;
};

static void *read_ahead(void *arg)
{
    struct ahead *a = arg;
    int i;

    while ((i = atomic_fetch_add(&a->next, 1)) < a->n) {
        const struct td_tensor_rec *t = a->item[i].t;

        if (td_fixture_blob(a->fx, t->blob, td_tensor_rec_max_bytes(t), &a->item[i].data, &a->item[i].size, NULL))
            a->item[i].data = NULL;
    }
    return NULL;
}

static void add_ahead(struct td_op_loader *l, struct ahead *a, const struct td_tensor_rec *t)
{
    if (!t->stored || td_hash_is_zero(t->blob) || a->n == AHEAD_MAX || find_entry(l, t->blob))
        return;
    for (int i = 0; i < a->n; i++)
        if (td_hash_eq(a->item[i].t->blob, t->blob))
            return;
    a->item[a->n++].t = t;
    a->bytes += td_tensor_rec_max_bytes(t);
}

int td_op_loader_read_ahead(struct td_op_loader *l, const struct td_op *const *ops, int n, int threads, uint64_t most_bytes)
{
    struct ahead a = {.fx = l->fx};
    pthread_t ids[AHEAD_THREADS];
    int started = 0, i, t;

    for (i = 0; i < n && a.bytes < most_bytes && a.n + ops[i]->n_in < AHEAD_MAX; i++) {
        for (t = 0; t < ops[i]->n_in; t++)
            add_ahead(l, &a, &ops[i]->in[t]);
        if (ops[i]->has_out)
            add_ahead(l, &a, &ops[i]->out);
    }
    threads = threads < AHEAD_THREADS ? threads : AHEAD_THREADS;
    for (t = 1; t < threads && t < a.n; t++)
        if (!pthread_create(&ids[started], NULL, read_ahead, &a))
            started++;
    read_ahead(&a);
    for (t = 0; t < started; t++)
        pthread_join(ids[t], NULL);
    for (t = 0; t < a.n; t++)
        if (a.item[t].data && make_entry_room(l))
            add_entry(l, a.item[t].t->blob, a.item[t].data, a.item[t].size);
        else
            free(a.item[t].data);
    return i;
}

/* ---- ops ----------------------------------------------------------------------------------------------------------- */

static int describe_tensor(const struct td_tensor_rec *r, struct td_tensor *t, struct td_error *err)
{
    int64_t last = 0, elems = 1;
    int d;

    memset(t, 0, sizeof *t);
    memcpy(t->role, r->role, sizeof t->role);
    t->role[sizeof t->role - 1] = '\0';
    t->dtype = td_dtype_parse(r->dtype);
    t->ndim = r->ndim;
    t->align = r->align > 0 ? (size_t)(r->align & -r->align) : 0;
    if (t->align > 4096)
        t->align = 4096;
    if (t->dtype == TD_DT_NONE)
        return td_fail(err, TD_EUNSUPPORTED, "%s: dtype %s is unknown to this version", t->role, r->dtype);
    if (r->ndim < 0 || r->ndim > TD_OP_MAX_DIMS)
        return td_fail(err, TD_EINVAL, "%s: %d dimensions", t->role, r->ndim);
    for (d = 0; d < r->ndim; d++) {
        int64_t reach = 0;

        t->shape[d] = r->shape[d];
        t->strides[d] = r->strides[d];
        if (t->shape[d] < 0 || t->strides[d] < 0 || __builtin_mul_overflow(elems, t->shape[d], &elems) ||
            (t->shape[d] && __builtin_mul_overflow(t->shape[d] - 1, t->strides[d], &reach)) ||
            __builtin_add_overflow(last, reach, &last) || last > INT64_MAX / MAX_ELEM)
            return td_fail(err, TD_EINVAL, "%s: its shape and strides make no sense", t->role);
    }
    t->size_bytes = elems ? (size_t)(last + 1) * td_dtype_size(t->dtype) : 0;
    return TD_OK;
}

static int load_input(struct td_op_loader *l, const struct td_tensor_rec *r, struct td_tensor *t,
                   struct td_op_hold *hold, struct td_error *err)
{
    size_t need, size;
    int rc = describe_tensor(r, t, err);

    need = t->size_bytes;
    if (!rc)
        rc = hold_bytes(l, r, hold, &t->data, &size, err);
    if (rc)
        return rc;
    t->size_bytes = size;
    t->content = content_key(r);
    return size >= need ? TD_OK : td_fail(err, TD_EINVAL, "%s: %zu bytes were recorded, its shape and strides need %zu", t->role,
                                          size, need);
}

/* Copy a string of the record. One that does not fit is refused: half a name is another name. from NULL: "". */
static int copy_text(const char *what, const char *from, char *to, size_t size, struct td_error *err)
{
    size_t len = from ? strlen(from) : 0;

    if (len >= size)
        return td_fail(err, TD_ELIMIT, "the %s \"%.60s...\" has %zu bytes; this version takes %zu", what, from, len, size - 1);
    memcpy(to, from ? from : "", len + 1);
    return TD_OK;
}

/* Attributes are integers: what is none belongs to no kind of op that this version knows. No
 * integer is left out, for a kernel must not run with a default in place of what was recorded. */
static int copy_attrs(const struct td_op *rec, struct td_op_call *op, struct td_error *err)
{
    const cJSON *a;
    int n = 0;

    cJSON_ArrayForEach(a, rec->attrs)
        n += td_json_i64(a, INT64_MIN) != INT64_MIN;
    if (n > TD_OP_MAX_ATTRS)
        return td_fail(err, TD_ELIMIT, "%d attributes; this version takes %d", n, TD_OP_MAX_ATTRS);
    cJSON_ArrayForEach(a, rec->attrs) {
        int64_t v = td_json_i64(a, INT64_MIN);
        struct td_attr *to = &op->attrs[op->n_attrs];

        if (v == INT64_MIN)
            continue;
        if (copy_text("name of an attribute", a->string, to->name, sizeof to->name, err))
            return TD_ELIMIT;
        to->value = v;
        op->n_attrs++;
    }
    return TD_OK;
}

/* Copy n numbers of at most max. */
static bool copy_numbers(const cJSON *array, uint32_t *out, int n, int64_t max)
{
    for (int i = 0; i < n; i++) {
        int64_t v = td_json_i64(cJSON_GetArrayItem(array, i), -1);

        if (v < 0 || v > max)
            return false;
        out[i] = (uint32_t)v;
    }
    return cJSON_GetArraySize(array) == n;
}

/* False: it makes no sense, or, with an error, it exceeds a limit. */
static bool copy_launch(const cJSON *from, struct td_op_launch *l, struct td_error *err)
{
    const char *symbol = td_json_get_str(from, "symbol", "");
    int64_t shared = td_json_get_i64(from, "shared_bytes", 0);
    uint32_t rows[2];

    memset(l, 0, sizeof *l);
    if (!copy_numbers(td_json_get(from, "rows"), rows, 2, INT32_MAX) ||
        !copy_numbers(td_json_get(from, "grid"), l->grid, 3, INT32_MAX) ||
        !copy_numbers(td_json_get(from, "block"), l->block, 3, 65535) || shared < 0 ||
        shared > INT32_MAX)
        return false;
    if (td_json_get_bool(from, "graph", false))
        l->flags |= TD_LAUNCH_IN_GRAPH;
    l->rows[0] = rows[0];
    l->rows[1] = rows[1];
    l->shared_bytes = (uint32_t)shared;
    return !copy_text("symbol of a launch", symbol, l->symbol, sizeof l->symbol, err);
}

/* All launches or none: a provider must not make half an op of them. They are help, so that no op
 * is broken for want of them, or where they make no sense; more or longer ones than this version
 * takes are refused. */
static int copy_launches(const struct td_op *rec, struct td_op_call *op, struct td_error *err)
{
    const cJSON *l;
    int n = cJSON_GetArraySize(rec->impl.launches);

    if (n > TD_OP_MAX_LAUNCHES)
        return td_fail(err, TD_ELIMIT, "%d launches; this version takes %d", n, TD_OP_MAX_LAUNCHES);
    cJSON_ArrayForEach(l, rec->impl.launches) {
        struct td_error refused = {0};

        if (copy_launch(l, &op->launches[op->n_launches++], &refused))
            continue;
        op->n_launches = 0;
        return refused.code ? td_fail(err, refused.code, "%s", refused.msg) : TD_OK;
    }
    return TD_OK;
}

/* An output that was stored has to be there: judged without it, a bad op could pass. One of another
 * size than the op's output counts for nothing. */
static int load_recorded(struct td_op_loader *l, const struct td_op *rec,
                         const struct td_op_call *op, const void **recorded,
                         struct td_op_hold *hold, struct td_error *err)
{
    void *data;
    size_t size;
    int rc = rec->out.stored ? hold_bytes(l, &rec->out, hold, &data, &size, err) : TD_OK;

    if (!rc && rec->out.stored && size == op->out.size_bytes)
        *recorded = data;
    return rc;
}

int td_op_loader_get(struct td_op_loader *l, const struct td_op *rec, struct td_op_call *op,
                     const void **recorded, struct td_op_hold *hold, struct td_error *err)
{
    int t, rc;

    memset(op, 0, sizeof *op);
    hold->n = 0;
    hold->damaged = false;
    *recorded = NULL;
    if (rec->act_rounding && strlen(rec->act_rounding) >= sizeof op->act_rounding)
        return td_fail(err, TD_EUNSUPPORTED, "activation rounding \"%.40s...\" is unknown to this version", rec->act_rounding);
    snprintf(op->act_rounding, sizeof op->act_rounding, "%s",
             rec->act_rounding && rec->act_rounding[0] ? rec->act_rounding : "none");
    if ((rc = copy_text("kind", rec->kind, op->kind, sizeof op->kind, err)) ||
        (rc = copy_text("symbol", rec->impl.symbol, op->symbol, sizeof op->symbol, err)) ||
        (rc = copy_text("layout", rec->impl.layout, op->layout, sizeof op->layout, err)) || (rc = copy_launches(rec, op, err)) ||
        (rc = copy_attrs(rec, op, err)))
        return rc;
    if (!rec->has_out)
        return td_fail(err, TD_EINVAL, "the record does not describe its output");
    if (rec->n_in > TD_OP_MAX_TENSORS)
        return td_fail(err, TD_ELIMIT, "%d input tensors; this version takes %d", rec->n_in, TD_OP_MAX_TENSORS);
    rc = describe_tensor(&rec->out, &op->out, err);
    for (t = 0; !rc && t < rec->n_in; t++)
        rc = load_input(l, &rec->in[t], &op->in[op->n_in++], hold, err);
    if (!rc)
        rc = load_recorded(l, rec, op, recorded, hold, err);
    if (rc)
        td_op_loader_put(l, hold);
    return rc;
}
