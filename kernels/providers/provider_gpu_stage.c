/* provider_gpu_stage.c - memory of this process that the GPU copies from and to by itself.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/providers/provider_gpu_stage.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

#define STAGE_BYTES ((size_t)32 << 20)
#define LARGEST (STAGE_BYTES / 2) /* what is larger comes once, with the weights */

static bool make(struct td_gpu_state *s)
{
    void *memory = NULL;

    s->stage.tried = true;
    if (!s->driver->copies_async(s->device) || td_memory_room(STAGE_BYTES, "memory for copies", NULL) || posix_memalign(&memory, 4096, STAGE_BYTES))
        return false;
    if (!s->driver->pin(s->device, memory, STAGE_BYTES)) {
        free(memory);
        return false;
    }
    s->stage.memory = memory;
    return true;
}

static void *take(struct td_gpu_state *s, size_t bytes)
{
    const size_t room = (bytes + 63) & ~(size_t)63;
    char *piece;

    if (bytes > LARGEST || (!s->stage.memory && (s->stage.tried || !make(s))) || STAGE_BYTES - s->stage.used < room)
        return NULL;
    piece = (char *)s->stage.memory + s->stage.used;
    s->stage.used += room;
    return piece;
}

void td_gpu_stage_reuse(struct td_gpu_state *s)
{
    s->stage.used = 0;
}

void td_gpu_stage_begin(struct td_gpu_state *s)
{
    if (s->stage.used && !s->driver->is_dead(s->device))
        s->driver->wait(s->device, NULL);
    td_gpu_stage_reuse(s);
}

int td_gpu_stage_copy_in(struct td_gpu_state *s, uint64_t to, const void *from, size_t bytes, struct td_error *err)
{
    void *piece = bytes ? take(s, bytes) : NULL;

    if (!piece)
        return s->driver->copy_in(s->device, to, from, bytes, err);
    memcpy(piece, from, bytes);
    return s->driver->copy_in_async(s->device, to, piece, bytes, err);
}

int td_gpu_stage_ask(struct td_gpu_state *s, uint64_t from, size_t bytes, void **piece, struct td_error *err)
{
    *piece = take(s, bytes);
    return *piece ? s->driver->copy_out_async(s->device, *piece, from, bytes, err) : TD_OK;
}

void td_gpu_stage_close(struct td_gpu_state *s)
{
    if (!s->stage.memory)
        return;
    td_gpu_stage_begin(s);
    if (!s->driver->is_dead(s->device))
        s->driver->unpin(s->device, s->stage.memory);
    free(s->stage.memory);
    s->stage.memory = NULL;
}
