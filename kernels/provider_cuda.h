/* provider_cuda.h - what the parts of providers cuda and hip share: provider_cuda.c chooses, launches and times, provider_cuda_put.c brings tensors to the GPU.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_PROVIDER_CUDA_H
#define TD_KERNELS_PROVIDER_CUDA_H

#include "kernels/gpu/build.h"
#include "kernels/gpu/driver.h"
#include "kernels/gpu/geometry.h"

#define TD_CUDA_GAP_BYTE 0xa7      /* around guarded tensors; as replayer/guard.h */
#define TD_CUDA_KEPT 8             /* more than a timed op has starts (TD_SPEED_STARTS) */

enum td_cuda_place { TD_CUDA_A, TD_CUDA_QWEIGHT, TD_CUDA_QZEROS, TD_CUDA_SCALES, TD_CUDA_ORDER, TD_CUDA_C, TD_CUDA_N_PLACES };

struct td_cuda_state {
    const struct td_gpu_driver *driver;
    void *device;
    struct td_gpu_facts facts;
    struct td_gpu_build *build;
    struct td_gpu_memory sweep;    /* fills the caches; made when first timed cold */
    bool renewed;                  /* and nothing was prepared since */
    struct td_gpu_memory kept[TD_CUDA_KEPT][TD_CUDA_N_PLACES]; int n_kept; /* of earlier starts of a timed op: taken, so that the next lies elsewhere */
    const char *choice;            /* the variable that `only` comes from */
    char only[96], words[256], why[480];
};

struct td_cuda_prepared {
    const struct td_op_call *op;
    struct td_gptq_op x;
    const char *identifier;        /* of the kernels */
    const struct td_gpu_offer *offers;
    struct td_gpu_plan plan;
    struct td_gpu_memory memory[TD_CUDA_N_PLACES];
    size_t c_bytes;
    bool c_dense;                  /* on the device; op->out may have gaps */
    bool keep;                     /* prepared for a start of a timed op: its memory stays taken when it is released */
    struct { const struct td_gpu_function *f; struct td_gpu_values v; void *params[TD_GPU_PARAMS]; } launch[TD_GPU_PLAN_MAX];
};

extern const char *const td_cuda_place_names[TD_CUDA_N_PLACES];

/* Every tensor in the layout that the chosen kernel reads, and room for C; fills memory, c_bytes, c_dense. What was made before an error is p's. */
int td_cuda_put(struct td_cuda_state *s, struct td_cuda_prepared *p, struct td_error *err);
/* Let go of p's memory, or keep it taken where p->keep says so. */
void td_cuda_take_back(struct td_cuda_state *s, struct td_cuda_prepared *p);
/* Let go of what was kept, memory and code. */
void td_cuda_drop_kept(struct td_cuda_state *s);
/* Rows of so many bytes, each `stride` bytes from the next, to another distance. */
void td_cuda_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes, int64_t rows);

#endif
