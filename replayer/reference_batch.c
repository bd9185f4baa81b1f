/* reference_batch.c - compute the references of several ops with the same weights at once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/reference_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replayer/op_list.h"

/* The input whose rows can be stacked; NULL: this op has none. Rows that are routed to experts belong
 * to their routing, those with scales of their own to these. What is no product may need all of its
 * rows at once. */
static const struct td_tensor *batchable_rows(const struct td_op_call *op)
{
    const struct td_tensor *a = td_op_in(op, "a");
    int i;

    for (i = 0; i < op->n_in; i++)
        if (strcmp(op->in[i].role, "a") && td_op_input_is_of_the_call(op->in[i].role))
            return NULL;
    return a && td_op_attr(op, "k", 0) > 0 && a->ndim == 2 && op->out.ndim == 2 && a->strides[1] == 1 && a->shape[0] == td_op_attr(op, "m", -1) ? a : NULL;
}

bool td_reference_batch_fits(const struct td_op_call *first, const struct td_op_call *next)
{
    const struct td_tensor *a = batchable_rows(first), *b = batchable_rows(next);
    int i;

    if (!a || !b || strcmp(first->act_rounding, next->act_rounding) || a->dtype != b->dtype ||
        a->shape[1] != b->shape[1] || strcmp(first->kind, next->kind) ||
        first->n_attrs != next->n_attrs || first->n_in != next->n_in || first->out.dtype != next->out.dtype ||
        first->out.shape[1] != next->out.shape[1])
        return false;
    for (i = 0; i < first->n_attrs; i++)
        if (strcmp(first->attrs[i].name, next->attrs[i].name) ||
            (strcmp(first->attrs[i].name, "m") && first->attrs[i].value != next->attrs[i].value))
            return false;
    return true;
}

/* Make one op of n: the first, with the rows of all. *memory holds the rows, for the caller to
 * free. */
static int stack_rows(const struct td_op_call *const *ops, int n, struct td_op_call *all,
                      void **memory, struct td_error *err)
{
    const struct td_tensor *a = batchable_rows(ops[0]);
    size_t w = td_dtype_size(a->dtype), line = (size_t)a->shape[1] * w;
    int64_t rows = 0, r;
    char *to;
    int i;

    for (i = 0; i < n; i++)
        rows += batchable_rows(ops[i])->shape[0];
    *memory = to = malloc((size_t)rows * line + 1);
    if (!to)
        return td_fail(err, TD_ENOMEM, "out of memory for %lld rows of a reference", (long long)rows);
    *all = *ops[0];
    for (i = 0; i < n; i++)
        for (a = batchable_rows(ops[i]), r = 0; r < a->shape[0]; r++, to += line)
            memcpy(to, (const char *)a->data + (size_t)(r * a->strides[0]) * w, line);
    for (i = 0; i < all->n_attrs; i++)
        if (!strcmp(all->attrs[i].name, "m"))
            all->attrs[i].value = rows;
    for (i = 0; i < all->n_in; i++)
        if (!strcmp(all->in[i].role, "a")) {
            all->in[i].shape[0] = rows;
            all->in[i].strides[0] = all->in[i].shape[1];
            all->in[i].data = *memory;
            all->in[i].size_bytes = (size_t)rows * line;
        }
    all->out.shape[0] = rows;
    all->out.strides[0] = all->out.shape[1];
    all->out.size_bytes = (size_t)(rows * all->out.shape[1]) * td_dtype_size(all->out.dtype);
    all->out.data = NULL;
    return TD_OK;
}

static int compute(struct td_reference_makers *makers, const struct td_op_kind *kind, const struct td_op_call *op, int n,
                   uint64_t weights, struct td_op_ref *ref, bool *by_gpu, struct td_error *err)
{
    struct td_error not_there = {0};
    int rc = makers->gpu ? td_reference_gpu_compute(makers->gpu, op, weights, ref, &not_there) : TD_EUNSUPPORTED;

    *by_gpu = !rc;
    if (rc != TD_EUNSUPPORTED && rc != TD_ECORRUPT) {
        atomic_fetch_add(&makers->by_gpu, n);
        return rc ? td_fail(err, rc, "%s", not_there.msg) : rc;
    }
    atomic_fetch_add(&makers->by_cpu, n);
    return kind->reference(op, ref, err);
}

int td_reference_batch_compute(struct td_reference_makers *makers, const struct td_op_kind *kind,
                               const struct td_op_call *const *ops, int n, uint64_t weights,
                               const char *rounding, struct td_op_ref *refs, struct td_reference_batch *how,
                               struct td_error *err)
{
    struct td_op_ref *all = &how->all;
    struct td_op_call stacked = *ops[0];
    void *memory = NULL;
    int64_t at = 0;
    int i, rc = TD_OK;

    how->by_gpu = false;
    how->joined = n > 1;
    if (how->joined)
        rc = stack_rows(ops, n, &stacked, &memory, err);
    snprintf(stacked.act_rounding, sizeof stacked.act_rounding, "%s", rounding);
    if (!rc)
        rc = compute(makers, kind, &stacked, n, weights, how->joined ? all : &refs[0], &how->by_gpu, err);
    if (!how->joined)
        return rc;
    free(memory);
    for (i = 0; !rc && i < n; i++) {
        int64_t rows = batchable_rows(ops[i])->shape[0];

        refs[i] = *all;
        refs[i].rows = rows;
        refs[i].r0 += at;
        refs[i].r1 += at;
        refs[i].mag += at;
        refs[i].slack = all->slack ? all->slack + at : NULL;
        refs[i].ordered = all->ordered ? all->ordered + at : NULL;
        at += rows * all->cols;
    }
    return rc;
}
