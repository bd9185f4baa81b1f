/* cuda_twin_memory.c - what twins take of the GPU, and its bound.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "recorder/tap/core/tap_environ.h"
#include "recorder/tap/cuda/cuda_twin_memory.h"
#include "recorder/tap/gpu/gpu_captures.h"

#define BOUND_MIB 256u
#define MOST_MIB (64ull << 10)
#define SMALLEST (64ull << 10)        /* bytes; a smaller arena is not worth having */
#define RETRY_NS 1000000000LL         /* how soon a GPU without memory is asked again */
#define NODE (38ull << 10)            /* a graph of 384 kernel nodes took 14 MiB of an H100 */

static struct {
    uint64_t bound, twins;            /* bytes; twins: what those that there are count for */
    /* The arena's context, and its number, for another one may get its handle. */
    void *context;
    unsigned long long id;
    uint64_t arena, bytes;            /* 0 bytes: there is none */
    int64_t refused_ns;               /* when there was no memory for it; 0: that was not so */
} memory = {.bound = (uint64_t)BOUND_MIB << 20};

void tap_cuda_twin_memory_bound(void)
{
    char value[32], *end;
    unsigned long long mib;

    tap_environ_get("TD_TAP_TWINS_MIB", value, sizeof value);
    mib = strtoull(value, &end, 10);
    if (end == value || *end || !mib || mib > MOST_MIB)
        mib = BOUND_MIB;
    memory.bound = (uint64_t)mib << 20;
}

/* ---- the arena ------------------------------------------------------------------------------- */

static bool is_in(const void *context)
{
    unsigned long long id;

    return memory.bytes && memory.context == context && !tap_driver.context_id(memory.context, &id) &&
           memory.id == id;
}

bool tap_cuda_twin_memory_open(void *context)
{
    uint64_t bytes, at;

    if (is_in(context))
        return true;
    memory.bytes = 0;                 /* of a context that was reset, and took it along */
    if (memory.refused_ns && tap_now() - memory.refused_ns < RETRY_NS)
        return false;                 /* a tick is some ms, and each try a dozen calls of the driver */
    if (tap_driver.context_id(context, &memory.id))
        return false;
    memory.context = context;
    for (bytes = memory.bound / 2; bytes >= SMALLEST; bytes /= 2)
        if (!tap_driver.mem_alloc(&at, bytes)) {
            memory.arena = at;
            memory.bytes = bytes;
            memory.refused_ns = 0;
            return true;
        }
    memory.refused_ns = tap_now();
    return false;
}

void tap_cuda_twin_memory_close(void)
{
    void *context = memory.context;

    if (!is_in(context) || tap_gpu_captures_any() || tap_driver.ctx_push(context))
        return;
    if (!tap_driver.mem_free(memory.arena))
        memory.bytes = 0;
    tap_driver.ctx_pop(&context);
}

void tap_cuda_twin_memory_forget(void)
{
    memory.context = NULL;
    memory.bytes = memory.twins = 0;
}

uint64_t tap_cuda_twin_arena(uint64_t *bytes)
{
    *bytes = memory.bytes;
    return memory.arena;
}

/* ---- twins ----------------------------------------------------------------------------------- */

uint64_t tap_cuda_twin_memory_of(uint64_t nodes)
{
    return nodes * NODE;
}

bool tap_cuda_twin_memory_take(uint64_t bytes)
{
    if (bytes > memory.bound || memory.bytes + memory.twins > memory.bound - bytes)
        return false;
    memory.twins += bytes;
    return true;
}

void tap_cuda_twin_memory_give(uint64_t bytes)
{
    memory.twins -= bytes < memory.twins ? bytes : memory.twins;
}
