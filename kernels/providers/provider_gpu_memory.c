/* provider_gpu_memory.c - device memory for the tensors of a prepared op.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/providers/provider_gpu_memory.h"

#include <string.h>

#include "kernels/providers/provider_gpu_stage.h"

#define LARGE_SPARE ((size_t)64 << 20)

const char *const td_gpu_place_names[TD_GPU_N_PLACES] = {
    "a", "qweight", "qzeros", "scales", "g_idx", "c", "bias", "c_tmp", "locks",
    "the reconstructed weights", "w"};

static bool has_left(const struct td_gpu_state *s)
{
    bool any = false;

    for (int i = 0; i < TD_GPU_N_PLACES; i++) {
        any = any || s->kept[i].memory.address;
        for (int k = 0; k < TD_GPU_SPARES; k++)
            any = any || s->spare[i][k].address;
    }
    return any;
}

void td_gpu_memory_free_left(struct td_gpu_state *s)
{
    for (int i = 0; i < TD_GPU_N_PLACES && !s->driver->is_dead(s->device); i++)
        for (int k = 0; k < TD_GPU_SPARES; k++)
            s->driver->free(s->device, &s->spare[i][k]);
    for (int i = 0; i < TD_GPU_N_PLACES; i++) {
        s->kept_is_lost = s->kept_is_lost || s->kept[i].memory.address;
        if (!s->driver->is_dead(s->device))
            s->driver->free(s->device, &s->kept[i].memory);
        s->kept[i].content = (struct td_hash){0, 0};
    }
}

/* Keep memory for the next op with such a tensor. Of large tensors a device may have room for one alone. */
static void leave(struct td_gpu_state *s, int at, const struct td_gpu_memory *m)
{
    const bool large = m->bytes > LARGE_SPARE;
    int k = 0;

    while (!large && k < TD_GPU_SPARES && s->spare[at][k].address)
        k++;
    if (k == TD_GPU_SPARES) {
        k = s->oldest_spare[at];
        s->oldest_spare[at] = (k + 1) % TD_GPU_SPARES;
    }
    s->driver->free(s->device, &s->spare[at][k]);
    s->spare[at][k] = *m;
}

void td_gpu_memory_release(struct td_gpu_state *s, struct td_gpu_prepared *p)
{
    for (int i = 0; i < TD_GPU_N_PLACES; i++)
        if (p->memory[i].address && !s->driver->is_dead(s->device))
            leave(s, i, &p->memory[i]);
}

/* Place another tensor where one lay. False: it would not lie there as in memory of its own. */
static bool place_again(struct td_gpu_memory *m, size_t bytes, size_t align, bool guard)
{
    if (guard != (m->reserved != 0))
        return false;
    if (!guard)
        return m->bytes == bytes && !(m->address & (align - 1));
    if (bytes > m->mapped_bytes || m->mapped_bytes - bytes >= m->range_bytes - m->mapped_bytes) /* one granule */
        return false;
    m->address = (m->reserved + m->mapped_bytes - bytes) & ~(uint64_t)(align - 1);
    m->bytes = bytes;
    return true;
}

static bool use_spare(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at, size_t bytes, size_t align)
{
    for (int k = 0; k < TD_GPU_SPARES; k++) {
        struct td_gpu_memory *m = &s->spare[at][k];

        if (!m->address || !place_again(m, bytes, align, p->op->guard))
            continue;
        p->memory[at] = *m;
        memset(m, 0, sizeof *m);
        return true;
    }
    return false;
}

int td_gpu_memory_alloc(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at,
                        size_t bytes, size_t align, struct td_error *err)
{
    struct td_gpu_memory *m = &p->memory[at];
    int rc;

    bytes = bytes ? bytes : 1;
    align = align < 16 ? 16 : align; /* kernels load 16 bytes at once */
    if (!use_spare(s, p, at, bytes, align) && has_left(s) &&
        s->driver->alloc(s->device, bytes, align, p->op->guard, m, NULL) == TD_ENOMEM)
        td_gpu_memory_free_left(s);
    rc = m->address ? TD_OK : s->driver->alloc(s->device, bytes, align, p->op->guard, m, err);
    if (!rc && m->reserved)
        rc = s->driver->set(s->device, m->reserved, TD_GPU_GAP_BYTE, m->mapped_bytes, err);
    return rc ? td_fail_at(err, "%s", td_gpu_place_names[at]) : TD_OK;
}

/* ---- weights that stay ----------------------------------------------------------------------- */

static struct td_hash mix(struct td_hash h, const void *data, size_t n)
{
    const struct td_hash both[2] = {h, td_hash_bytes(data, n)};

    return td_hash_bytes(both, sizeof both);
}

void td_gpu_memory_name_weights(struct td_gpu_prepared *p, const char *layout)
{
    struct td_hash h = td_hash_bytes(layout, strlen(layout));
    int i;

    p->content = (struct td_hash){0, 0};
    h = mix(h, p->op->kind, strlen(p->op->kind));
    for (i = 0; i < p->op->n_attrs; i++)
        if (strcmp(p->op->attrs[i].name, "m")) {
            h = mix(h, p->op->attrs[i].name, strlen(p->op->attrs[i].name));
            h = mix(h, &p->op->attrs[i].value, sizeof p->op->attrs[i].value);
        }
    for (i = 0; i < p->op->n_in; i++) {
        const struct td_tensor *t = &p->op->in[i];

        if (td_op_input_is_of_the_call(t->role))
            continue;
        if (td_hash_is_zero(t->content))
            return;
        h = mix(h, t->role, strlen(t->role));
        h = mix(h, &t->dtype, sizeof t->dtype);
        h = mix(h, t->strides, sizeof t->strides);
        h = mix(h, &t->content, sizeof t->content);
    }
    p->content = h;
}

bool td_gpu_memory_has(const struct td_gpu_state *s, const struct td_gpu_prepared *p, enum td_gpu_place at, size_t bytes)
{
    return at != TD_GPU_AT_A && !td_hash_is_zero(p->content) && td_hash_eq(s->kept[at].content, p->content) &&
           s->kept[at].memory.bytes == bytes;
}

/* Keep what was uploaded, if there is memory for it. */
static void keep(struct td_gpu_state *s, const struct td_gpu_prepared *p, enum td_gpu_place at, size_t bytes)
{
    struct td_gpu_memory *m = &s->kept[at].memory;

    s->kept[at].content = (struct td_hash){0, 0};
    if (at == TD_GPU_AT_A || !bytes || td_hash_is_zero(p->content))
        return;
    if (m->bytes != bytes) {
        s->driver->free(s->device, m);
        if (s->driver->alloc(s->device, bytes, 256, false, m, NULL))
            return;
    }
    if (!s->driver->copy(s->device, m->address, p->memory[at].address, bytes, NULL))
        s->kept[at].content = p->content;
}

int td_gpu_memory_upload(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at,
                         const void *data, size_t bytes, size_t align, struct td_error *err)
{
    const bool has = td_gpu_memory_has(s, p, at, bytes);
    int rc = td_gpu_memory_alloc(s, p, at, bytes, align, err);

    if (rc)
        return rc;
    if (has && td_gpu_memory_has(s, p, at, bytes)) /* it may have been freed for want of memory */
        return s->driver->copy(s->device, p->memory[at].address, s->kept[at].memory.address, bytes, err);
    if (!data)
        return td_fail(err, TD_ENOMEM, "%s: no memory on the GPU", td_gpu_place_names[at]);
    rc = td_gpu_stage_copy_in(s, p->memory[at].address, data, bytes, err);
    if (!rc)
        keep(s, p, at, bytes);
    return rc;
}

void td_gpu_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes, int64_t rows)
{
    int64_t i;

    for (i = 0; i < rows; i++)
        memcpy((char *)to + (size_t)i * to_stride, (const char *)from + (size_t)i * from_stride, bytes);
}
