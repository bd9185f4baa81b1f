/* seen_outputs.c - which outputs of ops repeat bit for bit, and need not be stored.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/seen_outputs.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/memory.h"
#include "format/m_class.h"
#include "model/dtype.h"

#define FIRST_ROOM 1024

/* ---- the table ------------------------------------------------------------------------------- */

/* The slot of a key, or the free one where it would be. */
static struct client_seen *slot_of(const struct client_seen_table *t, struct td_hash key)
{
    size_t at = (size_t)key.lo & (t->cap - 1);

    while (!td_hash_is_zero(t->slot[at].key) && !td_hash_eq(t->slot[at].key, key))
        at = (at + 1) & (t->cap - 1);
    return &t->slot[at];
}

/* Room for one entry more: half of the slots stay free. */
static bool make_room(struct client_seen_table *t)
{
    struct client_seen_table more = {.n = t->n, .cap = t->cap ? 2 * t->cap : FIRST_ROOM};
    size_t i;

    if (2 * t->n < t->cap)
        return true;
    if (t->n >= CLIENT_OUTPUTS_MAX || td_memory_room(more.cap * sizeof *more.slot, "outputs that were seen", NULL))
        return false;
    more.slot = calloc(more.cap, sizeof *more.slot);
    if (!more.slot)
        return false;
    for (i = 0; i < t->cap; i++)
        if (!td_hash_is_zero(t->slot[i].key))
            *slot_of(&more, t->slot[i].key) = t->slot[i];
    free(t->slot);
    *t = more;
    return true;
}

static struct client_seen *find(const struct client_seen_table *t, struct td_hash key)
{
    struct client_seen *e = t->cap ? slot_of(t, key) : NULL;

    return e && !td_hash_is_zero(e->key) ? e : NULL;
}

/* The entry of a key, which is made if need be. NULL: there is no room for another. A full table still finds the entries
 * that it has: what they give in another way must be seen. */
static struct client_seen *entry_of(struct client_seen_table *t, struct td_hash key, bool *is_new)
{
    struct client_seen *e = find(t, key);

    *is_new = !e && make_room(t);
    if (!*is_new)
        return e;
    e = slot_of(t, key);
    e->key = key;
    t->n++;
    return e;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static int add_text(struct td_hash_pieces **s, const char *text)
{
    return td_hash_pieces_add(s, text, strlen(text) + 1);
}

static int add_tensor(struct td_hash_pieces **s, const struct tap_tensor *t, const void *data)
{
    int rc = add_text(s, t->role);

    if (!rc)
        rc = add_text(s, t->dtype);
    if (!rc)
        rc = td_hash_pieces_add(s, t->shape, (size_t)t->ndim * sizeof t->shape[0]);
    if (!rc)
        rc = td_hash_pieces_add(s, t->strides, (size_t)t->ndim * sizeof t->strides[0]);
    return rc || !data ? rc : td_hash_pieces_add(s, data, t->bytes);
}

static int add_call(struct td_hash_pieces **s, const struct client_op *op)
{
    const struct tap_op *rec = op->rec;
    int i, rc = add_text(s, rec->kind);

    if (!rc)
        rc = add_text(s, rec->symbol);
    if (!rc)
        rc = add_text(s, rec->layout);
    if (!rc)
        rc = add_text(s, rec->rounding);
    for (i = 0; i < rec->n_attrs && !rc; i++)
        if (!(rc = add_text(s, op->attr[i].name)))
            rc = td_hash_pieces_add(s, &op->attr[i].value, sizeof op->attr[i].value);
    return rc;
}

/* A weight by its bytes, or by those of the checkpoint that it was found in. TD_ENOTFOUND: nobody knows them. */
static int add_weight(struct td_hash_pieces **s, const struct td_tensor_rec *w)
{
    const char *ref = td_json_get_str(w->ref, "hash", NULL);
    int rc = add_text(s, w->role);

    if (!rc && td_hash_is_zero(w->blob))
        return ref ? add_text(s, ref) : TD_ENOTFOUND;
    return rc ? rc : td_hash_pieces_add(s, &w->blob, sizeof w->blob);
}

/* A hash of all that the op was given. False: something of it is not known, or memory is lacking. */
static bool key_of(const struct client_op *op, const struct td_tensor_rec *weights, int n, struct td_hash *key)
{
    const struct tap_op *rec = op->rec;
    struct td_hash_pieces *s = NULL;
    int i, rc = add_call(&s, op);

    for (i = 0; i <= rec->n_in && !rc; i++) /* of the output, which is the last, the form alone */
        rc = add_tensor(&s, &op->tensor[rec->n_w + i], i < rec->n_in ? op->data[i] : NULL);
    for (i = 0; i < n && !rc; i++)
        rc = add_weight(&s, &weights[i]);
    *key = td_hash_pieces_end(&s);
    return !rc && !td_hash_is_zero(*key);
}

/* From which power of two on M is: 0 for 1, 1 for 2 and 3 ... */
static int octave_of(int64_t m)
{
    int n = 0;

    for (; m > 1; m /= 2)
        n++;
    return n;
}

/* What the judge takes together, of one set of weights, and of each octave of M: kernels switch at some M. */
static bool group_of(const struct client_op *op, const struct td_tensor_rec *weights, int n, struct td_hash *key)
{
    const int64_t m = client_op_attr(op, "m", -1),
                  size[] = {client_op_attr(op, "n", -1), client_op_attr(op, "k", -1), client_op_attr(op, "bits", -1),
                            client_op_attr(op, "group_size", -1), td_m_class(m), octave_of(m)};
    struct td_hash_pieces *s = NULL;
    int i, rc = add_text(&s, op->rec->kind);

    if (!rc)
        rc = add_text(&s, op->tensor[op->rec->n_w + op->rec->n_in].dtype);
    if (!rc)
        rc = td_hash_pieces_add(&s, size, sizeof size);
    for (i = 0; i < n && !rc; i++)
        rc = add_weight(&s, &weights[i]);
    *key = td_hash_pieces_end(&s);
    return !rc && !td_hash_is_zero(*key);
}

/* ---- ops ------------------------------------------------------------------------------------- */

static bool is_dense(const struct tap_tensor *t)
{
    uint64_t n = 1;
    int i;

    for (i = t->ndim; i-- > 0;) {
        if (t->shape[i] != 1 && (uint64_t)t->strides[i] != n)
            return false;
        n *= (uint64_t)t->shape[i]; /* the tap's sizes were checked: the product fits */
    }
    return n && n <= t->bytes && n * td_dtype_size(td_dtype_parse(t->dtype)) == t->bytes;
}

/* A product, all of whose inputs are known, with an output without gaps. What is compared with the recorded output
 * alone needs that output. */
static bool may_be_digest(const struct client_op *op)
{
    const struct tap_op *rec = op->rec;
    int i;

    if (client_op_attr(op, "k", -1) < 0 || !rec->n_in || rec->dump_reason)
        return false;
    for (i = 0; i < rec->n_in; i++)
        if (!op->data[i])
            return false;
    return is_dense(&op->tensor[rec->n_w + rec->n_in]);
}

static struct td_hash output_of(const struct client_op *op)
{
    return td_hash_bytes(op->data[op->rec->n_in], op->tensor[op->rec->n_w + op->rec->n_in].bytes);
}

/* Another number for each n, without order: the last step of MurmurHash3 (Appleby, 2011). */
static uint32_t lot_of(uint32_t n)
{
    n = (n ^ n >> 16) * 0x85ebca6bu;
    n = (n ^ n >> 13) * 0xc2b2ae35u;
    return n ^ n >> 16;
}

void client_outputs_rehearse(struct client_outputs *o, const struct client_op *op, const struct td_tensor_rec *weights, int n)
{
    struct client_seen *e, *group;
    struct td_hash key, group_key, output;
    bool is_new;

    o->rehearsed++;
    o->chosen = false;
    if (!may_be_digest(op) || !key_of(op, weights, n, &key) || !group_of(op, weights, n, &group_key))
        return;
    group = entry_of(&o->groups, group_key, &is_new);
    if (group && is_new)
        group->group = (uint32_t)o->groups.n;
    e = group ? entry_of(&o->ops, key, &is_new) : NULL;
    o->full |= !e;
    if (!e)
        return;
    output = output_of(op);
    if (is_new) {
        e->output = output;
        e->group = group->group;
        e->lot = lot_of((uint32_t)o->ops.n);
    }
    e->varies |= !td_hash_eq(e->output, output);
}

static int by_group(const void *a, const void *b)
{
    const struct client_seen *x = *(struct client_seen *const *)a, *y = *(struct client_seen *const *)b;

    return x->group != y->group ? (x->group > y->group) - (x->group < y->group) : (x->lot > y->lot) - (x->lot < y->lot);
}

/* Mark the ops of each group that the judge needs. False: no memory for that. */
static bool choose(struct client_outputs *o)
{
    struct client_seen **all = td_memory_room(o->ops.n * sizeof *all, "outputs that were seen", NULL)
                                   ? NULL : malloc((o->ops.n + 1) * sizeof *all);
    size_t i, n = 0, of_group = 0;

    if (!all)
        return false;
    for (i = 0; i < o->ops.cap; i++)
        if (!td_hash_is_zero(o->ops.slot[i].key) && !o->ops.slot[i].varies)
            all[n++] = &o->ops.slot[i];
    qsort(all, n, sizeof(struct client_seen *), by_group);
    for (i = 0; i < n; i++) {
        of_group = i && all[i]->group == all[i - 1]->group ? of_group + 1 : 0;
        all[i]->whole = of_group < CLIENT_OUTPUTS_WHOLE;
    }
    free(all);
    return o->chosen = true;
}

bool client_outputs_repeat(struct client_outputs *o, const struct client_op *op, const struct td_tensor_rec *weights, int n,
                           struct td_hash *digest)
{
    struct client_seen *e;
    struct td_hash key;

    if (!o->ops.n || !may_be_digest(op) || !key_of(op, weights, n, &key) || !(e = find(&o->ops, key)))
        return false;
    *digest = output_of(op);
    e->varies |= !td_hash_eq(e->output, *digest);
    return !e->varies && (o->chosen || choose(o)) && !e->whole;
}

void client_outputs_release(struct client_outputs *o)
{
    free(o->ops.slot);
    free(o->groups.slot);
    memset(o, 0, sizeof *o);
}
