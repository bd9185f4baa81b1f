/* provider_gpu_memory.h - device memory for the tensors of a prepared op.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_PROVIDERS_PROVIDER_GPU_MEMORY_H
#define TD_KERNELS_PROVIDERS_PROVIDER_GPU_MEMORY_H

#include "kernels/providers/provider_gpu_state.h"

#define TD_GPU_GAP_BYTE 0xa7       /* fills the mapping around guarded tensors; as replayer/child/guard.h */

/* "qweight", for sentences. */
extern const char *const td_gpu_place_names[TD_GPU_N_PLACES];

/* Allocate p->memory[at] (at least one byte), where guards are asked for with TD_GPU_GAP_BYTE around
 * it. align: of the tensor's address when recorded. When the device is full, held memory is freed
 * first. TD_ENOMEM, and what the driver returns. */
int td_gpu_memory_alloc(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at,
                        size_t bytes, size_t align, struct td_error *err);
/* The same, and copy `bytes` bytes of data there. */
int td_gpu_memory_upload(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at,
                         const void *data, size_t bytes, size_t align, struct td_error *err);
/* Free p's memory, or hold it where p->hold asks for that. */
void td_gpu_memory_release(struct td_gpu_state *s, struct td_gpu_prepared *p);
/* Free all held memory, and the code of earlier starts. */
void td_gpu_memory_free_held(struct td_gpu_state *s);

/* Copy rows of `bytes` bytes each between two distances from row to row (host memory). */
void td_gpu_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes,
                      int64_t rows);

#endif
