/* gpu_weight_chunks.h - weights on their way to the sender: chunk after chunk through the stage's
 * ring.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All of it by the holder of the gate. */
#ifndef TD_RECORDER_TAP_GPU_GPU_WEIGHT_CHUNKS_H
#define TD_RECORDER_TAP_GPU_GPU_WEIGHT_CHUNKS_H

#include "recorder/tap/gpu/gpu_weight_sets.h"

#pragma GCC visibility push(hidden)

/* Stage what is missing of the set, as far as there is room. True: all of the set is on its way. */
bool tap_gpu_weight_chunks_put(struct tap_gpu_weight_set *s, void *stream);
bool tap_gpu_weight_chunk_fits(void); /* is there room for the next chunk, however large it is? */

#pragma GCC visibility pop
#endif
