/* gpu_stage.h - the way from the device to the host: a ring of the device's memory, and its mirror
 * in pinned memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * 1. The holder of the gate reserves a piece of the ring and copies tensors into it, on the stream
 *    of the launch.
 * 2. It marks the stream: what was copied until now belongs to the batch that is being filled.
 * 3. At the end of a step, or after 1 MiB, it hands the batch over: a stream of the tap's own
 *    copies the new bytes to the mirror, then writes the batch's number into a word there.
 * 4. The sender sees the number, reads the mirror, and frees the piece.
 *
 * Nothing here waits for the GPU. */
#ifndef TD_RECORDER_TAP_GPU_GPU_STAGE_H
#define TD_RECORDER_TAP_GPU_GPU_STAGE_H

#include "recorder/tap/gpu/gpu_copies.h"

#pragma GCC visibility push(hidden)

#define TAP_GPU_STAGE_BYTES (64u << 20)
#define TAP_GPU_FULL UINT64_MAX

/* ---- the tap's thread ------------------------------------------------------------------------ */
/* Allocate ring and mirror in that context, once: they are kept for the life of the process,
 * because cuMemFree waits for the device. Returns NULL, or the reason why not. */
const char *tap_gpu_stage_open(void *context);
/* Replace ring and mirror by larger ones if this arm's recorder takes larger records and there is
 * memory. The old ones stay allocated (all together are less than twice the largest). While the
 * stage is quiet and nobody is inside the tap. */
void tap_gpu_stage_grow(void);
/* A sentence if the ring is smaller than this arm's recorder asked for; NULL: it is not, or it is
 * not open yet. */
const char *tap_gpu_stage_shortage(void);
bool tap_gpu_stage_is_gone(void);     /* its context was reset, and its memory went with it */
bool tap_gpu_stage_is_quiet(void);    /* all batches that were handed over have come */
/* In the child of a fork; or when it is gone, and the sender rests. */
void tap_gpu_stage_forget(void);

/* ---- any thread ------------------------------------------------------------------------------ */
void *tap_gpu_stage_context(void);    /* NULL: not open */
/* May it be used for launches of this context? False too when the context was reset: from then on
 * the stage is gone and broken. */
bool tap_gpu_stage_is_for(const void *context);
bool tap_gpu_stage_is_broken(void);   /* the driver refused: nothing is staged any more */

/* ---- the holder of the gate ------------------------------------------------------------------ */
uint64_t tap_gpu_stage_bytes(void);   /* of the ring */
uint64_t tap_gpu_stage_room(void);
/* Reserve n bytes in one piece, until the sender frees them. Their offset, or TAP_GPU_FULL. */
uint64_t tap_gpu_stage_reserve(uint64_t n);
/* Ring position just after the last reservation; the sender frees up to it with the next entry. */
uint64_t tap_gpu_stage_end(void);
uint64_t tap_gpu_stage_address(uint64_t at); /* of an offset, on the device */
/* The tap's own stream: work on it comes behind all that was handed over. */
void *tap_gpu_stage_stream(void);
/* Copy rows to an offset. As tap_gpu_copy_rows(). */
bool tap_gpu_stage_copy(uint64_t at, uint64_t from, uint64_t rows, uint64_t row_bytes,
                        uint64_t pitch, void *stream);
/* Set the stream that later marks belong to, by its number; 0: none of the server's. The stage has
 * one event, so bytes marked on another stream are handed over first. False: the driver refused. */
bool tap_gpu_stage_use_stream(uint64_t number);
/* What was copied on the stream until now belongs to the batch that is being filled. False: the
 * driver refused. */
bool tap_gpu_stage_mark(void *stream);
/* Hand over what was marked. False: the driver refused, and the stage is broken. */
bool tap_gpu_stage_hand_over(void);
/* A batch is handed over when it has so many bytes, and at the end of each step. */
#define TAP_GPU_BATCH_BYTES (1u << 20)
uint64_t tap_gpu_stage_waiting(void); /* bytes marked and not handed over */
uint32_t tap_gpu_stage_batch(void);   /* number of the batch that is being filled */

/* ---- the sender ------------------------------------------------------------------------------ */
bool tap_gpu_stage_has_batch(uint32_t batch); /* has it come? */
const uint8_t *tap_gpu_stage_bytes_at(uint64_t at); /* in the mirror */
void tap_gpu_stage_free(uint64_t end);

#pragma GCC visibility pop
#endif
