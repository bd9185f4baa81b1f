/* weight_set.c - the weights of one layer: look into what was sent, build what is stored.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/identify/weight_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/dtype.h"

/* ---- the input ------------------------------------------------------------------------------- */

static bool has_form(const struct td_weight_tensor *t, const char *dtype, int ndim,
                     const int64_t *shape)
{
    uint64_t bytes = td_dtype_size(td_dtype_parse(dtype));
    int i;

    for (i = 0; i < ndim; i++)
        bytes *= (uint64_t)shape[i];
    return !strcmp(t->rec.dtype, dtype) && t->rec.ndim == ndim &&
           !memcmp(t->rec.shape, shape, (size_t)ndim * sizeof *shape) && t->size == bytes;
}

const void *td_weight_set_sent(const struct td_weight_set *s, const char *role, const char *dtype,
                               int ndim, const int64_t *shape)
{
    int i;

    for (i = 0; i < s->n_sent; i++)
        if (!strcmp(s->sent[i].rec.role, role))
            return has_form(&s->sent[i], dtype, ndim, shape) ? s->sent[i].data : NULL;
    return NULL;
}

const void *td_weight_set_sent_16bit(const struct td_weight_set *s, const char *role,
                                     enum td_dtype *dtype, int ndim, const int64_t *shape)
{
    const void *data = td_weight_set_sent(s, role, "F16", ndim, shape);

    *dtype = data ? TD_DT_F16 : TD_DT_BF16;
    return data ? data : td_weight_set_sent(s, role, "BF16", ndim, shape);
}

bool td_weight_set_has(const struct td_weight_set *s, const char *role)
{
    int i;

    for (i = 0; i < s->n_sent; i++)
        if (!strcmp(s->sent[i].rec.role, role))
            return true;
    return false;
}

int64_t td_weight_set_attr(const struct td_weight_set *s, const char *name, int64_t otherwise)
{
    int i;

    for (i = 0; i < s->n_attrs; i++)
        if (!strcmp(s->attrs[i].name, name))
            return s->attrs[i].value;
    return otherwise;
}

/* ---- the output ------------------------------------------------------------------------------ */

/* NULL: there is no room for another tensor. */
static struct td_weight_tensor *new_tensor(struct td_weight_set *s)
{
    if (s->n < TD_OP_MAX_STORED_WEIGHTS)
        return &s->t[s->n++];
    s->no_room = "tensors";
    return NULL;
}

struct td_weight_tensor *td_weight_set_add_sent(struct td_weight_set *s,
                                                const struct td_weight_tensor *from)
{
    struct td_weight_tensor *t = new_tensor(s);

    if (!t)
        return NULL;
    *t = *from;
    t->owned = NULL;
    if (!t->data)
        t->size = 0;
    return t;
}

void td_weight_set_add_dense(struct td_weight_set *s, const char *role, const char *dtype,
                             int64_t rows, int64_t cols, void *data)
{
    struct td_weight_tensor *t = new_tensor(s);

    if (!t) {
        free(data);
        return;
    }
    memset(t, 0, sizeof *t);
    snprintf(t->rec.role, sizeof t->rec.role, "%s", role);
    snprintf(t->rec.dtype, sizeof t->rec.dtype, "%s", dtype);
    t->rec.ndim = cols ? 2 : 1;
    t->rec.shape[0] = rows, t->rec.shape[1] = cols;
    t->rec.strides[0] = cols ? cols : 1, t->rec.strides[1] = cols ? 1 : 0;
    t->data = t->owned = data;
    t->size = (size_t)(rows * (cols ? cols : 1)) * td_dtype_size(td_dtype_parse(dtype));
}

void td_weight_set_add_stack(struct td_weight_set *s, const char *role, const char *dtype,
                             int64_t count, int64_t rows, int64_t cols, void *data)
{
    const int before = s->n;
    struct td_tensor_rec *r = &s->t[before < TD_OP_MAX_STORED_WEIGHTS ? before : 0].rec;

    td_weight_set_add_dense(s, role, dtype, cols ? count * rows : count, cols ? cols : rows, data);
    if (s->n == before || !cols)
        return;
    r->ndim = 3;
    r->shape[0] = count, r->shape[1] = rows, r->shape[2] = cols;
    r->strides[0] = rows * cols, r->strides[1] = cols, r->strides[2] = 1;
}

void td_weight_set_add_attr(struct td_weight_set *s, const char *name, int64_t value)
{
    struct td_attr *a;

    if (s->n_extra == TD_OP_MAX_WEIGHT_ATTRS) {
        s->no_room = "attributes";
        return;
    }
    a = &s->extra[s->n_extra];
    snprintf(a->name, sizeof a->name, "%s", name);
    a->value = value;
    s->n_extra++;
}

int td_weight_set_check(const struct td_weight_set *s, struct td_error *err)
{
    if (!s->no_room)
        return TD_OK;
    return td_fail(err, TD_ELIMIT,
                   "weights of %s with more %s than an op has room for (at most %d tensors and %d "
                   "attributes)",
                   s->kind, s->no_room, TD_OP_MAX_STORED_WEIGHTS, TD_OP_MAX_WEIGHT_ATTRS);
}

void td_weight_set_release(struct td_weight_set *s)
{
    int i;

    for (i = 0; i < TD_OP_MAX_STORED_WEIGHTS; i++) {
        cJSON_Delete(s->t[i].rec.ref);
        free(s->t[i].owned);
    }
    memset(s->t, 0, sizeof s->t);
    s->n = s->matches = s->n_extra = 0;
    s->no_room = NULL;
    s->layer[0] = '\0';
    s->named_by_call = false;
    s->layout_unknown = false;
    s->why_unknown[0] = '\0';
}
