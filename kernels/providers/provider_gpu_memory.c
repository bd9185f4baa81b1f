/* provider_gpu_memory.c - device memory for the tensors of a prepared op.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/providers/provider_gpu_memory.h"

#include <string.h>

const char *const td_gpu_place_names[TD_GPU_N_PLACES] = {
    "a", "qweight", "qzeros", "scales", "g_idx", "c", "bias", "c_tmp", "locks",
    "the reconstructed weights", "w"};

static void free_all(struct td_gpu_state *s, struct td_gpu_memory memory[TD_GPU_N_PLACES])
{
    for (int i = 0; i < TD_GPU_N_PLACES && !s->driver->is_dead(s->device); i++)
        s->driver->free(s->device, &memory[i]);
}

void td_gpu_memory_free_held(struct td_gpu_state *s)
{
    while (s->n_held)
        free_all(s, s->held[--s->n_held]);
    td_gpu_build_drop(s->build);
}

void td_gpu_memory_release(struct td_gpu_state *s, struct td_gpu_prepared *p)
{
    if (!p->hold) {
        free_all(s, p->memory);
        return;
    }
    if (s->n_held == TD_GPU_HELD)
        td_gpu_memory_free_held(s);
    memcpy(s->held[s->n_held++], p->memory, sizeof p->memory);
}

int td_gpu_memory_alloc(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at,
                        size_t bytes, size_t align, struct td_error *err)
{
    struct td_gpu_memory *m = &p->memory[at];
    int rc;

    bytes = bytes ? bytes : 1;
    align = align < 16 ? 16 : align; /* kernels load 16 bytes at once */
    if (s->n_held && s->driver->alloc(s->device, bytes, align, p->op->guard, m, NULL) == TD_ENOMEM)
        td_gpu_memory_free_held(s); /* a start at an old place is better than none */
    rc = m->address ? TD_OK : s->driver->alloc(s->device, bytes, align, p->op->guard, m, err);
    if (!rc && m->reserved)
        rc = s->driver->set(s->device, m->reserved, TD_GPU_GAP_BYTE, m->mapped_bytes, err);
    return rc ? td_fail_at(err, "%s", td_gpu_place_names[at]) : TD_OK;
}

int td_gpu_memory_upload(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at,
                         const void *data, size_t bytes, size_t align, struct td_error *err)
{
    int rc = td_gpu_memory_alloc(s, p, at, bytes, align, err);

    return rc ? rc : s->driver->copy_in(s->device, p->memory[at].address, data, bytes, err);
}

void td_gpu_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes, int64_t rows)
{
    int64_t i;

    for (i = 0; i < rows; i++)
        memcpy((char *)to + (size_t)i * to_stride, (const char *)from + (size_t)i * from_stride, bytes);
}
