/* provider_gpu_upload.c - the tensors of a gptq_gemm on the GPU: weights in the layout that the chosen kernel reads, room for C.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/providers/provider_gpu_upload.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/providers/provider_gpu_blas.h"
#include "kernels/providers/provider_gpu_memory.h"
#include "kernels/providers/provider_gpu_upload_marlin.h"
#include "model/exllama_layout.h"
#include "model/gptq.h"

/* Is row k in group k / group_size throughout? Then no kernel needs an order. */
static bool is_in_order(const struct td_gptq_op *x)
{
    int64_t k = 0;

    while (x->g_idx && k < x->k && x->g_idx[k] == k / x->group_size)
        k++;
    return !x->g_idx || k == x->k;
}

/* Upload A dense, its columns sorted by the groups of W's rows. */
static int upload_sorted_a(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_tensor *a = td_op_in(p->op, "a");
    const size_t bytes = (size_t)p->x.k * (size_t)p->x.m * 2;
    int32_t *perm = td_gpu_marlin_perm(&p->x);
    uint16_t *copy = malloc(bytes + 1);
    int64_t i, j;
    int rc = perm && copy ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory");

    for (i = 0; !rc && i < p->x.m; i++)
        for (j = 0; j < p->x.k; j++)
            copy[i * p->x.k + j] = ((const uint16_t *)a->data)[i * p->x.lda + perm[j]];
    if (!rc)
        rc = td_gpu_memory_upload(s, p, TD_GPU_AT_A, copy, bytes, a->align, err);
    free(perm);
    free(copy);
    return rc;
}

/* Upload A dense, or with the recorded lda if the kernel takes one (Marlin takes only multiples of 8). */
static int upload_a(struct td_gpu_state *s, struct td_gpu_prepared *p, bool dense, struct td_error *err)
{
    const struct td_tensor *a = td_op_in(p->op, "a");
    const size_t row = (size_t)p->x.k * 2;
    void *copy;
    int rc;

    if (!dense || p->x.lda == p->x.k)
        return td_gpu_memory_upload(s, p, TD_GPU_AT_A, a->data, a->size_bytes, a->align, err);
    if (!(copy = malloc(row * (size_t)p->x.m + 1)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    td_gpu_copy_rows(copy, row, a->data, (size_t)p->x.lda * 2, row, p->x.m);
    rc = td_gpu_memory_upload(s, p, TD_GPU_AT_A, copy, row * (size_t)p->x.m, a->align, err);
    free(copy);
    return rc;
}

/* Upload qweight and the order of rows in exllama's layout. */
static int upload_exllama(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_gptq_op *x = &p->x;
    const struct td_gptq_weight w = {.bits = x->bits,
                                     .group_size = x->group_size,
                                     .k = x->k,
                                     .n = x->n,
                                     .groups = x->groups,
                                     .g_idx = x->g_idx};
    const size_t bytes = (size_t)x->k * (size_t)x->bits / 8 * (size_t)x->n;
    const bool there = td_gpu_memory_has(s, p, TD_GPU_AT_QWEIGHT, bytes);
    uint32_t *shuffled = there ? NULL : malloc(bytes + 1);
    int32_t *perm = malloc((size_t)x->k * sizeof *perm * 2), *again = perm ? perm + x->k : NULL;
    bool ordered = !is_in_order(x);
    int rc = (there || shuffled) && perm ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory");

    if (!rc && ordered) {
        td_gptq_argsort_groups(&w, perm);
        td_gptq_g_idx_of_perm(perm, x->k, x->group_size, again);
        if (memcmp(again, x->g_idx, (size_t)x->k * sizeof *again))
            rc =
                td_fail(err, TD_EUNSUPPORTED,
                        "groups of other sizes than %d rows cannot be sorted into exllama's layout",
                        x->group_size);
    }
    if (!rc && !there)
        rc = td_exllama_shuffle(x->bits, x->k, x->n, x->qweight, ordered ? perm : NULL, shuffled, err);
    if (!rc)
        rc = td_gpu_memory_upload(s, p, TD_GPU_AT_QWEIGHT, shuffled, bytes, td_op_in(p->op, "qweight")->align, err);
    if (!rc && ordered)
        rc = td_gpu_memory_upload(s, p, TD_GPU_AT_ORDER, perm, (size_t)x->k * sizeof *perm, 16, err);
    free(shuffled);
    free(perm);
    return rc;
}

static int upload_checkpoint(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_tensor *q = td_op_in(p->op, "qweight");
    int rc = td_gpu_memory_upload(s, p, TD_GPU_AT_QWEIGHT, q->data, q->size_bytes, q->align, err);

    if (!rc && !is_in_order(&p->x))
        rc = td_gpu_memory_upload(s, p, TD_GPU_AT_ORDER, p->x.g_idx, (size_t)p->x.k * sizeof *p->x.g_idx, 16, err);
    return rc;
}

/* Upload the weights of kernels that read zero points and scales as the checkpoint has them. */
static int upload_weights(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_tensor *z = td_op_in(p->op, "qzeros"), *sc = td_op_in(p->op, "scales");
    int rc = strcmp(p->adapter->layout, "exllama") ? upload_checkpoint(s, p, err) : upload_exllama(s, p, err);

    if (!rc)
        rc = td_gpu_memory_upload(s, p, TD_GPU_AT_QZEROS, z->data, z->size_bytes, z->align, err);
    if (!rc)
        rc = td_gpu_memory_upload(s, p, TD_GPU_AT_SCALES, sc->data, sc->size_bytes, sc->align, err);
    return rc;
}

int td_gpu_upload_gptq(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_gpu_adapter *adapter = p->adapter;
    const struct td_tensor *out = &p->op->out;
    const bool marlin = !strcmp(adapter->layout, "marlin");
    int rc;

    td_gpu_memory_name_weights(p, adapter->layout);
    rc = p->sorts_rows ? upload_sorted_a(s, p, err)
                       : upload_a(s, p, marlin || td_gpu_field_at(adapter, "lda") < 0, err);

    if (!rc && p->plan.dequant_w)
        rc = td_gpu_dequant_w_alloc(s, p, err);
    if (!rc)
        rc = marlin ? td_gpu_upload_marlin(s, p, err) : upload_weights(s, p, err);
    p->c_dense = td_gpu_field_at(adapter, "ldc") < 0 && p->x.ldc != p->x.n;
    p->c_bytes = p->c_dense ? (size_t)p->x.m * (size_t)p->x.n * 2 : out->size_bytes;
    return rc ? rc : td_gpu_memory_alloc(s, p, TD_GPU_AT_C, p->c_bytes, out->align, err);
}
