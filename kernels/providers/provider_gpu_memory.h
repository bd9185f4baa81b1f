/* provider_gpu_memory.h - device memory for the tensors of a prepared op.
 * SPDX-License-Identifier: Apache-2.0
 *
 * To map guarded memory takes the driver longer than most ops take, and weights are most of what is copied to the GPU. So
 * the memory of an op is used for the next one, if that fits as tightly; and weights stay on the GPU, in memory that no
 * kernel is given, from where each op gets a copy. Each op finds its tensors as if they came anew. */
#ifndef TD_KERNELS_PROVIDERS_PROVIDER_GPU_MEMORY_H
#define TD_KERNELS_PROVIDERS_PROVIDER_GPU_MEMORY_H

#include "kernels/providers/provider_gpu_state.h"

#define TD_GPU_GAP_BYTE 0xa7       /* fills the mapping around guarded tensors; as replayer/child/guard.h */

/* "qweight", for sentences. */
extern const char *const td_gpu_place_names[TD_GPU_N_PLACES];

/* Allocate p->memory[at] (at least one byte), where guards are asked for with TD_GPU_GAP_BYTE around
 * it. align: of the tensor's address when recorded. When the device is full, what earlier ops left is freed first. TD_ENOMEM, and what the driver returns. */
int td_gpu_memory_alloc(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at,
                        size_t bytes, size_t align, struct td_error *err);
/* The same, and copy `bytes` bytes of data there.
 *   data : NULL: td_gpu_memory_has() them */
int td_gpu_memory_upload(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at,
                         const void *data, size_t bytes, size_t align, struct td_error *err);
/* Are the bytes of this place on the GPU, because an op with the same weights was there before? */
bool td_gpu_memory_has(const struct td_gpu_state *s, const struct td_gpu_prepared *p, enum td_gpu_place at, size_t bytes);
/* Name p's weights and how they lie on the GPU: fills p->content.
 *   layout : of the kernel; what else decides where a weight's bytes lie are the op's attributes, without m */
void td_gpu_memory_name_weights(struct td_gpu_prepared *p, const char *layout);
/* Leave p's memory to the next op. */
void td_gpu_memory_release(struct td_gpu_state *s, struct td_gpu_prepared *p);
/* Free what earlier ops left. */
void td_gpu_memory_free_left(struct td_gpu_state *s);

/* Copy rows of `bytes` bytes each between two distances from row to row (host memory). */
void td_gpu_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes,
                      int64_t rows);

#endif
