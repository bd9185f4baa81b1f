/* cuda_graph_arena.h - the memory that all graphs copy to: whose copies lie there, and are they right?
 * SPDX-License-Identifier: Apache-2.0
 *
 * One graph of a server runs after the other, on one stream, so all of them copy to the same memory.
 * What a graph copied lies there until the thread that launched it has had it copied on. Two things
 * spoil it: a graph on another stream, after which nothing of graphs is recorded any more in that arm;
 * and another thread that launches a graph on that stream meanwhile. A launch that copies is therefore
 * inside the arena from before it until what it copied is taken over, and has a number.
 *
 * With the plans' lock held (cuda_graph_follow.h), but for is_sound(). */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_GRAPH_ARENA_H
#define TD_RECORDER_TAP_CUDA_CUDA_GRAPH_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* ---- threads that launch graphs -------------------------------------------------------------- */
/* A graph with slots is launched on that stream; 0: its number is not known. */
void tap_cuda_arena_note_stream(uint64_t stream);
bool tap_cuda_arena_is_free(void);    /* no launch is inside */
/* The number of the launch that goes in. Where another one is inside, neither copies anything that
 * may be sent. */
uint64_t tap_cuda_arena_enter(void);
void tap_cuda_arena_leave(void);
/* Can what that launch copied be right, as far as is known by now? 0: what copies nothing. What was
 * copied on before this is asked may be void all the same: the sender asks tap_gpu_queue_is_void(). */
bool tap_cuda_arena_is_sound(uint64_t launch);

/* ---- the tap's thread ------------------------------------------------------------------------ */
void tap_cuda_arena_arm(void);        /* at each arm */
void tap_cuda_arena_forget(void);     /* in the child of a fork; without the lock */

#pragma GCC visibility pop
#endif
