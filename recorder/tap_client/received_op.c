/* received_op.c - one op as the tap sent it: read out of its ring, and checked.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/received_op.h"

#include <stdio.h>
#include <string.h>

#include "model/dtype.h"
#include "recorder/tap_client/client_text.h"

/* ---- checks ---------------------------------------------------------------------------------- */

/* Do all elements that shape and strides can reach lie within the bytes? */
static bool elements_fit(const struct tap_tensor *t)
{
    size_t size = td_dtype_size(td_dtype_parse(t->dtype));
    uint64_t last = 0, all, part;
    int i;

    for (i = 0; i < t->ndim; i++)
        if (!t->shape[i])
            return true;
    for (i = 0; i < t->ndim; i++)
        if (__builtin_mul_overflow((uint64_t)t->shape[i] - 1, (uint64_t)t->strides[i], &part) ||
            __builtin_add_overflow(last, part, &last))
            return false;
    return t->opaque || !size ||
           (!__builtin_mul_overflow(last + 1, (uint64_t)size, &all) && all <= t->bytes);
}

static bool check_tensor(const struct tap_tensor *t)
{
    if (!client_is_text(t->role, sizeof t->role, false) ||
        !client_is_text(t->dtype, sizeof t->dtype, false))
        return false;
    if (t->ndim < 0 || t->ndim > TAP_DIMS || t->opaque > 1 || (t->opaque && t->bytes))
        return false;
    return td_tensor_sizes_fit(t->shape, t->strides, t->ndim) && elements_fit(t);
}

static bool check_head(const struct tap_op *rec)
{
    return client_is_text(rec->kind, sizeof rec->kind, false) &&
           client_is_text(rec->symbol, sizeof rec->symbol, false) &&
           client_is_text(rec->layout, sizeof rec->layout, true) &&
           client_is_text(rec->rounding, sizeof rec->rounding, true) &&
           strnlen(rec->name, sizeof rec->name) < sizeof rec->name && rec->has_step <= 1 &&
           rec->has_fingerprint <= 1 && rec->dump_reason < TAP_DUMP_REASONS &&
           rec->n_attrs <= TAP_MAX_ATTRS && rec->n_w <= TAP_MAX_WEIGHTS &&
           rec->n_in <= TAP_MAX_INPUTS && rec->n_launches <= TAP_MAX_LAUNCHES;
}

/* Copy n bytes at *pos of the record, and move *pos behind them. False: the record ends before. */
static bool copy_out(const struct tap_op *rec, const uint8_t *at, size_t *pos, void *to, size_t n)
{
    if (n > rec->rec.size - *pos)
        return false;
    memcpy(to, at + *pos, n);
    *pos += n;
    return true;
}

/* Find the bytes of inputs and output, which begin at pos of the record. */
static bool find_tensor_bytes(struct client_op *op, const uint8_t *at, size_t pos)
{
    int i;

    pos = tap_round_up(pos, TAP_REC_ALIGN); /* size is a multiple of it too: pos stays within */
    for (i = 0; i <= op->rec->n_in; i++) {
        const struct tap_tensor *t = &op->tensor[op->rec->n_w + i];

        if (t->bytes > op->rec->rec.size - pos)
            return false;
        op->data[i] = t->opaque ? NULL : at + pos;
        op->bytes += t->bytes;
        pos += tap_round_up(t->bytes, TAP_REC_ALIGN);
    }
    return pos == op->rec->rec.size && op->data[op->rec->n_in];
}

/* Copy all but the bytes of tensors; *pos becomes where these begin. */
static bool copy_parts(struct client_op *op, const uint8_t *at, size_t *pos)
{
    const struct tap_op *rec = op->rec;
    size_t tensors = (size_t)rec->n_w + rec->n_in + 1;

    return copy_out(rec, at, pos, op->attr, rec->n_attrs * sizeof *op->attr) &&
           copy_out(rec, at, pos, op->tensor, tensors * sizeof *op->tensor) &&
           (!rec->has_fingerprint ||
            copy_out(rec, at, pos, &op->fingerprint, sizeof op->fingerprint)) &&
           copy_out(rec, at, pos, op->launch, rec->n_launches * sizeof *op->launch);
}

static bool check_launch(const struct td_op_launch *l)
{
    return client_is_text(l->symbol, sizeof l->symbol, true) && l->rows[0] >= 0 &&
           l->rows[1] >= l->rows[0];
}

static bool check_parts(const struct client_op *op)
{
    const struct tap_op *rec = op->rec;
    int i;

    for (i = 0; i < rec->n_attrs; i++)
        if (!client_is_text(op->attr[i].name, sizeof op->attr[i].name, false))
            return false;
    for (i = 0; i < rec->n_w + rec->n_in + 1; i++)
        if (!check_tensor(&op->tensor[i]))
            return false;
    for (i = 0; i < rec->n_launches; i++)
        if (!check_launch(&op->launch[i]))
            return false;
    return !rec->has_fingerprint ||
           client_is_text(op->fingerprint.dtype, sizeof op->fingerprint.dtype, false);
}

bool client_op_read(struct client_op *op, const struct tap_op *rec, const uint8_t *at)
{
    size_t pos = sizeof *rec;

    op->rec = rec;
    op->bytes = 0;
    if (!check_head(rec) || !copy_parts(op, at, &pos) || !check_parts(op))
        return false;
    /* a model's author may call a tensor anything: a name that does not print is none */
    op->name =
        rec->name[0] && client_is_text(rec->name, sizeof rec->name, false) ? rec->name : NULL;
    return find_tensor_bytes(op, at, pos);
}

/* ---- what it holds --------------------------------------------------------------------------- */

int64_t client_op_attr(const struct client_op *op, const char *name, int64_t otherwise)
{
    int i;

    for (i = 0; i < op->rec->n_attrs; i++)
        if (!strcmp(op->attr[i].name, name))
            return op->attr[i].value;
    return otherwise;
}

bool client_op_is_beside(const struct client_op *op)
{
    return (client_op_attr(op, "k", -1) < 0 || !op->rec->n_in) && strncmp(op->rec->kind, "ggml_", 5);
}

void client_tensor_rec(struct td_tensor_rec *t, const struct tap_tensor *from)
{
    int i;

    memset(t, 0, sizeof *t);
    snprintf(t->role, sizeof t->role, "%s", from->role);
    snprintf(t->dtype, sizeof t->dtype, "%s", from->dtype);
    t->ndim = from->ndim;
    for (i = 0; i < from->ndim; i++) {
        t->shape[i] = from->shape[i];
        t->strides[i] = from->strides[i];
    }
    t->align = from->opaque ? 0 : (int64_t)1 << (from->align <= 12 ? from->align : 0);
}
