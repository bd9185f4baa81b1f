/* provider_gpu_upload_marlin.c - an op's weights on the GPU as vLLM's Marlin kernel reads them, and the memory that it works in.
 * SPDX-License-Identifier: Apache-2.0
 *
 * c_tmp and locks are as large as vLLM makes them. c_tmp is filled with NaN, so that reading it before it
 * is written shows in C. */
#include "kernels/providers/provider_gpu_upload_marlin.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/gpu/geometry_marlin.h"
#include "kernels/providers/provider_gpu_memory.h"
#include "model/gptq.h"
#include "model/marlin_layout.h"

#define NAN_BYTE 0xff

/* Upload the kernel's bytes, which lie in `data`, and free it. rc: how making them went; nothing is
 * uploaded after an error. */
static int upload_and_free(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at,
                           void *data, size_t bytes, int rc, struct td_error *err)
{
    if (!rc)
        rc = td_gpu_memory_upload(s, p, at, data, bytes, 16, err);
    free(data);
    return rc;
}

static void *alloc_host(size_t bytes, struct td_error *err)
{
    void *p = malloc(bytes + 1);

    if (!p)
        td_fail(err, TD_ENOMEM, "out of memory for weights in Marlin's layout");
    return p;
}

int32_t *td_gpu_marlin_perm(const struct td_gptq_op *x)
{
    const struct td_gptq_weight w = {.k = x->k, .groups = x->groups, .g_idx = x->g_idx};
    int32_t *perm = x->g_idx ? malloc((size_t)x->k * sizeof *perm * 2) : NULL, *again;

    if (!perm)
        return NULL;
    again = perm + x->k;
    td_gptq_argsort_groups(&w, perm);
    td_gptq_g_idx_of_perm(perm, x->k, x->group_size, again);
    if (!memcmp(again, x->g_idx, (size_t)x->k * sizeof *again))
        return perm;
    free(perm);
    return NULL;
}

bool td_gpu_marlin_sorts(const struct td_gptq_op *x)
{
    int32_t *perm = td_gpu_marlin_perm(x);
    bool sorts = perm;

    free(perm);
    return sorts;
}

static int upload_qweight(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_gptq_op *x = &p->x;
    const size_t bytes = (size_t)x->k * (size_t)x->bits / 8 * (size_t)x->n;
    uint32_t *to;
    int32_t *perm;
    int rc;

    if (td_gpu_memory_has(s, p, TD_GPU_AT_QWEIGHT, bytes))
        return td_gpu_memory_upload(s, p, TD_GPU_AT_QWEIGHT, NULL, bytes, 16, err);
    to = alloc_host(bytes, err);
    perm = p->sorts_rows ? td_gpu_marlin_perm(x) : NULL;
    rc = !to || (p->sorts_rows && !perm) ? td_fail(err, TD_ENOMEM, "out of memory") : TD_OK;

    if (!rc)
        rc = td_marlin_repack(x->bits, x->k, x->n, x->qweight, perm, to, err);
    free(perm);
    return upload_and_free(s, p, TD_GPU_AT_QWEIGHT, to, bytes, rc, err);
}

/* Upload scales, or a bias, which is laid out as the scales of one group. */
static int upload_scales(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at,
                         int64_t groups, const void *from, struct td_error *err)
{
    const size_t bytes = (size_t)groups * (size_t)p->x.n * 2;
    uint16_t *to = alloc_host(bytes, err);

    return to ? upload_and_free(s, p, at, to, bytes, td_marlin_permute_scales(groups, p->x.n, from, to, err), err) : TD_ENOMEM;
}

static int upload_zeros(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_gptq_op *x = &p->x;
    const size_t bytes = (size_t)x->groups * (size_t)x->n * (size_t)x->bits / 8;
    uint32_t *to = alloc_host(bytes, err);

    return to ? upload_and_free(s, p, TD_GPU_AT_QZEROS, to, bytes,
                                td_marlin_pack_zeros(x->bits, x->groups, x->n, x->qzeros,
                                                     x->zero_offset, to, err),
                                err)
              : TD_ENOMEM;
}

/* Groups of several sizes, as one rank has: the kernel has no perm, so rows must be sorted by group already. A recording
 * of Marlin's launches has them sorted, with A's columns to match. */
static int upload_g_idx(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_gptq_op *x = &p->x;
    int32_t *to = alloc_host((size_t)x->k * sizeof *to, err);
    int64_t k;
    int rc = TD_OK;

    if (!to)
        return TD_ENOMEM;
    for (k = 0; k < x->k; k++)
        to[k] = x->g_idx ? x->g_idx[k] : (int32_t)(k / x->group_size);
    for (k = 1; k < x->k && !rc; k++)
        if (to[k] < to[k - 1])
            rc = td_fail(err, TD_EUNSUPPORTED,
                         "Marlin reads rows sorted by group; this op was recorded from a kernel "
                         "that does not");
    return upload_and_free(s, p, TD_GPU_AT_ORDER, to, (size_t)x->k * sizeof *to, rc, err);
}

static int make_scratch(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const size_t locks = (size_t)s->facts.multiprocessors * TD_MARLIN_LOCKS * 4,
                 c_tmp = td_gpu_marlin_c_tmp_bytes(p->x.m, s->facts.multiprocessors);
    int rc = td_gpu_memory_alloc(s, p, TD_GPU_AT_C_TMP, c_tmp, 256, err);

    if (!rc)
        rc = s->driver->set(s->device, p->memory[TD_GPU_AT_C_TMP].address, NAN_BYTE, c_tmp, err);
    if (!rc)
        rc = td_gpu_memory_alloc(s, p, TD_GPU_AT_LOCKS, locks, 256, err);
    return rc ? rc : s->driver->set(s->device, p->memory[TD_GPU_AT_LOCKS].address, 0, locks, err);
}

int td_gpu_upload_marlin(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_gptq_op *x = &p->x;
    int rc = upload_qweight(s, p, err);

    if (!rc)
        rc = upload_scales(s, p, TD_GPU_AT_SCALES, x->groups, x->scales, err);
    if (!rc && td_gpu_field_at(p->adapter, "qzeros") >= 0)
        rc = upload_zeros(s, p, err);
    if (!rc && td_gpu_field_at(p->adapter, "g_idx") >= 0)
        rc = upload_g_idx(s, p, err);
    if (!rc && x->bias)
        rc = upload_scales(s, p, TD_GPU_AT_BIAS, 1, x->bias->data, err);
    return rc ? rc : make_scratch(s, p, err);
}
