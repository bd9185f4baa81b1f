/* cuda_graph_arena.c - the memory that all graphs copy to: whose copies lie there.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "recorder/tap/cuda/cuda_graph_arena.h"
#include "recorder/tap/gpu/gpu_queue.h"

static struct {
    /* Number of the stream that graphs with slots are launched on in this arm; 0: none was. */
    uint64_t stream;
    _Atomic bool crossed;             /* they are launched on more than one */
    unsigned inside;                  /* launches */
    uint64_t launches;                /* since the process began: the number of the last */
    uint64_t first;                   /* the one that came in when none was inside */
    _Atomic uint64_t mixed;           /* launches up to this one were not alone */
} arena;

void tap_cuda_arena_note_stream(uint64_t stream)
{
    if (!arena.stream)
        arena.stream = stream;
    if (arena.crossed || (stream && stream == arena.stream))
        return;
    arena.crossed = true;
    tap_gpu_queue_void(1, arena.launches);
}

bool tap_cuda_arena_is_free(void)
{
    return !arena.inside;
}

/* All that came in since the arena was free. */
static void void_all_inside(void)
{
    arena.mixed = arena.launches;
    tap_gpu_queue_void(arena.first, arena.launches);
}

uint64_t tap_cuda_arena_enter(void)
{
    const uint64_t launch = ++arena.launches;

    if (!arena.inside++)
        arena.first = launch;
    else
        void_all_inside();
    return launch;
}

void tap_cuda_arena_leave(void)
{
    arena.inside--;
}

bool tap_cuda_arena_is_sound(uint64_t launch)
{
    return !arena.crossed && (!launch || launch > arena.mixed);
}

/* A launch that began in another arm belongs to none. */
void tap_cuda_arena_arm(void)
{
    arena.stream = 0;
    arena.crossed = false;
    if (arena.inside)
        void_all_inside();
}

/* The threads that were inside are not there. */
void tap_cuda_arena_forget(void)
{
    arena.inside = 0;
}
