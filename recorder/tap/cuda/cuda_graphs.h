/* cuda_graphs.h - CUDA graphs whose capture the tap watches (record --graphs), and what their
 * launches bring.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Chosen when the server starts (TD_TAP_GRAPHS in its environment): the tap is then CUPTI's
 * subscriber from the start to the end of the process. Around each captured launch of a kernel that
 * has an adapter it has copies captured too, of A before and of C after it, into a slot of a piece
 * of device memory, the arena. So each launch of the graph leaves the true operands there. While
 * armed, after such a launch, on its stream, the slots are recorded as eager launches are: through
 * the gate, into the stage.
 *
 * All captures use the arena from its start: of the graphs of one server one runs after the other,
 * on one stream. Where two threads launch graphs at once, nothing of either launch is recorded; where
 * two streams are seen, nothing of graphs is any more in that arm.
 *
 * Whose slots an executable graph has: capture -> CUgraph (cuStreamGetCaptureInfo) -> CUgraphExec
 * (cuGraphInstantiate*, cuGraphExecUpdate*). A graph that is changed by hand after its capture is
 * forgotten, and is one "whose capture was not watched". */
#ifndef TD_RECORDER_TAP_CUDA_CUDA_GRAPHS_H
#define TD_RECORDER_TAP_CUDA_CUDA_GRAPHS_H

#include "kernels/abi/cupti_abi.h"
#include "recorder/tap/gpu/gpu_gemm.h"

#pragma GCC visibility push(hidden)

struct tap_cuda_captured;

/* ---- the process's start, and the tap's thread ----------------------------------------------- */
/* Bytes of the arena that the server was started with; 0: graphs are not watched. */
uint64_t tap_cuda_graphs_wanted(void);
/* Once, before the tap subscribes to CUPTI. NULL: from now on tap_cuda_graphs_on(); else why
 * not. */
const char *tap_cuda_graphs_open(uint64_t arena_bytes);
void tap_cuda_graphs_close(void);     /* the tap could not subscribe */
void tap_cuda_graphs_forget(void);    /* in the child of a fork */
/* Callback i that graphs need beside those of launches; 0 after the last. */
uint32_t tap_cuda_graphs_watched(unsigned i);

/* ---- any thread ------------------------------------------------------------------------------ */
bool tap_cuda_graphs_on(void);

/* ---- CUPTI's callback, armed or not ---------------------------------------------------------- */
/* Before and after a call that makes, changes or destroys graphs. False: it is no such call. */
bool tap_cuda_graphs_call(uint32_t cbid, const struct td_cupti_data *d);
/* Before a launch. True: it is captured. *captured: for leave; NULL: leave need not be called. */
bool tap_cuda_graphs_enter(const struct tap_gpu_launch *l, const char *symbol,
                           struct tap_cuda_captured **captured);
void tap_cuda_graphs_leave(const struct tap_cuda_captured *captured, const struct tap_gpu_launch *l,
                           bool ok);
/* Before a graph is launched. Not 0: its launch has that number, and _over() must be called once it
 * is launched, or was not, and what it copied is taken over. */
uint64_t tap_cuda_graphs_launch(const void *exec, void *stream);
/* While armed, after the launch: count the graph's launches, and record what they computed. */
void tap_cuda_graphs_launched(const void *exec, void *stream, void *context, uint64_t launch);
void tap_cuda_graphs_launch_over(void);

#pragma GCC visibility pop
#endif
