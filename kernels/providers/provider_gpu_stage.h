/* provider_gpu_stage.h - memory of this process that the GPU copies from and to by itself, in the order of the stream.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A copy of pageable memory waits for the stream and then for itself, and an op has some thirty: together longer than most
 * kernels. Through pinned memory all copies of a run are asked for at once, and waited for once.
 *
 * Pieces are handed out until td_gpu_stage_begin(). Where there is no piece, since the driver cannot pin, or since the
 * memory is used up, copies wait. */
#ifndef TD_KERNELS_PROVIDERS_PROVIDER_GPU_STAGE_H
#define TD_KERNELS_PROVIDERS_PROVIDER_GPU_STAGE_H

#include "kernels/providers/provider_gpu_state.h"

/* Hand out all of it anew, once the stream is at its end. */
void td_gpu_stage_begin(struct td_gpu_state *s);
/* The same where the stream is known to be at its end, and all that came back was read. */
void td_gpu_stage_reuse(struct td_gpu_state *s);
/* Copy to the GPU; the bytes may change afterwards. */
int td_gpu_stage_copy_in(struct td_gpu_state *s, uint64_t to, const void *from, size_t bytes, struct td_error *err);
/* Ask for a copy from the GPU. *piece: where the bytes lie once the stream was waited for; NULL: none could be had, and nothing was
 * asked for. */
int td_gpu_stage_ask(struct td_gpu_state *s, uint64_t from, size_t bytes, void **piece, struct td_error *err);
void td_gpu_stage_close(struct td_gpu_state *s);

#endif
