/* provider_gpu_put.c - an op's tensors on the GPU: weights in the layout that the chosen kernel reads, guards, room for the output.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "kernels/providers/provider_gpu.h"
#include "model/exllama_layout.h"
#include "model/gptq.h"

const char *const td_gpu_place_names[TD_GPU_N_PLACES] = {"a", "qweight", "qzeros", "scales", "g_idx", "c", "bias", "c_tmp", "locks", "the reconstructed weights", "w"};

/* ---- memory -------------------------------------------------------------------------------------------------------- */

static void free_all(struct td_gpu_state *s, struct td_gpu_memory memory[TD_GPU_N_PLACES])
{
    for (int i = 0; i < TD_GPU_N_PLACES && !s->driver->is_dead(s->device); i++)
        s->driver->free(s->device, &memory[i]);
}

void td_gpu_drop_kept(struct td_gpu_state *s)
{
    while (s->n_kept)
        free_all(s, s->kept[--s->n_kept]);
    td_gpu_build_drop(s->build);
}

void td_gpu_take_back(struct td_gpu_state *s, struct td_gpu_prepared *p)
{
    if (!p->keep) {
        free_all(s, p->memory);
        return;
    }
    if (s->n_kept == TD_GPU_KEPT)
        td_gpu_drop_kept(s);
    memcpy(s->kept[s->n_kept++], p->memory, sizeof p->memory);
}

/* ---- putting ------------------------------------------------------------------------------------------------------- */

/* Is the order of rows what k / group_size says? Then no kernel needs to be told. */
static bool is_in_order(const struct td_gptq_op *x)
{
    int64_t k = 0;

    while (x->g_idx && k < x->k && x->g_idx[k] == k / x->group_size)
        k++;
    return !x->g_idx || k == x->k;
}

int td_gpu_make_room(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at, size_t bytes, size_t align, struct td_error *err)
{
    struct td_gpu_memory *m = &p->memory[at];
    int rc;

    bytes = bytes ? bytes : 1;
    align = align < 16 ? 16 : align; /* kernels load 16 bytes at once */
    if (s->n_kept && s->driver->alloc(s->device, bytes, align, p->op->guard, m, NULL) == TD_ENOMEM)
        td_gpu_drop_kept(s); /* a start in a place of before is better than none */
    rc = m->address ? TD_OK : s->driver->alloc(s->device, bytes, align, p->op->guard, m, err);
    if (!rc && m->reserved)
        rc = s->driver->set(s->device, m->reserved, TD_GPU_GAP_BYTE, m->mapped_bytes, err);
    return rc ? td_fail_at(err, "%s", td_gpu_place_names[at]) : TD_OK;
}

int td_gpu_put_bytes(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at, const void *data, size_t bytes, size_t align, struct td_error *err)
{
    int rc = td_gpu_make_room(s, p, at, bytes, align, err);

    return rc ? rc : s->driver->copy_in(s->device, p->memory[at].address, data, bytes, err);
}

void td_gpu_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes, int64_t rows)
{
    int64_t i;

    for (i = 0; i < rows; i++)
        memcpy((char *)to + (size_t)i * to_stride, (const char *)from + (size_t)i * from_stride, bytes);
}

/* A as the kernel reads it: dense, or as recorded when it takes lda (Marlin only in steps of 8). */
static int put_a(struct td_gpu_state *s, struct td_gpu_prepared *p, bool dense, struct td_error *err)
{
    const struct td_tensor *a = td_op_in(p->op, "a");
    const size_t row = (size_t)p->x.k * 2;
    void *copy;
    int rc;

    if (!dense || p->x.lda == p->x.k)
        return td_gpu_put_bytes(s, p, TD_GPU_AT_A, a->data, a->size_bytes, a->align, err);
    if (!(copy = malloc(row * (size_t)p->x.m + 1)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    td_gpu_copy_rows(copy, row, a->data, (size_t)p->x.lda * 2, row, p->x.m);
    rc = td_gpu_put_bytes(s, p, TD_GPU_AT_A, copy, row * (size_t)p->x.m, a->align, err);
    free(copy);
    return rc;
}

/* qweight and the order of rows, as exllama has them. */
static int put_exllama(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_gptq_op *x = &p->x;
    const struct td_gptq_weight w = {.bits = x->bits, .group_size = x->group_size, .k = x->k, .n = x->n, .groups = x->groups, .g_idx = x->g_idx};
    const size_t bytes = (size_t)x->k * (size_t)x->bits / 8 * (size_t)x->n;
    uint32_t *shuffled = malloc(bytes + 1);
    int32_t *perm = malloc((size_t)x->k * sizeof *perm * 2), *again = perm ? perm + x->k : NULL;
    bool ordered = !is_in_order(x);
    int rc = shuffled && perm ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory");

    if (!rc && ordered) {
        td_gptq_argsort_groups(&w, perm);
        td_gptq_g_idx_of_perm(perm, x->k, x->group_size, again);
        if (memcmp(again, x->g_idx, (size_t)x->k * sizeof *again))
            rc = td_fail(err, TD_EUNSUPPORTED, "groups of other sizes than %d rows cannot be sorted into exllama's layout", x->group_size);
    }
    if (!rc)
        rc = td_exllama_shuffle(x->bits, x->k, x->n, x->qweight, ordered ? perm : NULL, shuffled, err);
    if (!rc)
        rc = td_gpu_put_bytes(s, p, TD_GPU_AT_QWEIGHT, shuffled, bytes, td_op_in(p->op, "qweight")->align, err);
    if (!rc && ordered)
        rc = td_gpu_put_bytes(s, p, TD_GPU_AT_ORDER, perm, (size_t)x->k * sizeof *perm, 16, err);
    free(shuffled);
    free(perm);
    return rc;
}

static int put_checkpoint(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_tensor *q = td_op_in(p->op, "qweight");
    int rc = td_gpu_put_bytes(s, p, TD_GPU_AT_QWEIGHT, q->data, q->size_bytes, q->align, err);

    if (!rc && !is_in_order(&p->x))
        rc = td_gpu_put_bytes(s, p, TD_GPU_AT_ORDER, p->x.g_idx, (size_t)p->x.k * sizeof *p->x.g_idx, 16, err);
    return rc;
}

/* Of kernels that read zero points and scales as the checkpoint has them. */
static int put_weights(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_tensor *z = td_op_in(p->op, "qzeros"), *sc = td_op_in(p->op, "scales");
    int rc = strcmp(p->row->layout, "exllama") ? put_checkpoint(s, p, err) : put_exllama(s, p, err);

    if (!rc)
        rc = td_gpu_put_bytes(s, p, TD_GPU_AT_QZEROS, z->data, z->size_bytes, z->align, err);
    if (!rc)
        rc = td_gpu_put_bytes(s, p, TD_GPU_AT_SCALES, sc->data, sc->size_bytes, sc->align, err);
    return rc;
}

int td_gpu_put_gptq(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_gpu_adapter *row = p->row;
    const struct td_tensor *out = &p->op->out;
    const bool marlin = !strcmp(row->layout, "marlin");
    int rc = put_a(s, p, marlin || td_gpu_field_at(row, "lda") < 0, err);

    if (!rc && p->plan.whole)
        rc = td_gpu_put_dequant_w(s, p, err);
    if (!rc)
        rc = marlin ? td_gpu_put_marlin(s, p, err) : put_weights(s, p, err);
    p->c_dense = td_gpu_field_at(row, "ldc") < 0 && p->x.ldc != p->x.n;
    p->c_bytes = p->c_dense ? (size_t)p->x.m * (size_t)p->x.n * 2 : out->size_bytes;
    return rc ? rc : td_gpu_make_room(s, p, TD_GPU_AT_C, p->c_bytes, out->align, err);
}
