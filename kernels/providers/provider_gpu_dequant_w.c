/* provider_gpu_dequant_w.c - ops that vLLM computes in two halves: a kernel of the build makes W whole, in float16, and the GPU's library multiplies.
 * SPDX-License-Identifier: Apache-2.0
 *
 * W is poisoned like an output: what the kernel leaves out is NaN in C. The library's own code stays where it is when a timed op starts anew (renew): for
 * it, as for the context, one draw stands for the run. */
#include <stdio.h>

#include "kernels/providers/provider_gpu.h"

#define NAN_BYTE 0xff

bool td_gpu_find_blas(struct td_gpu_state *s)
{
    struct td_error err = {0};

    if (!s->blas && !s->no_blas[0] && td_gpu_blas_open(s->driver, s->device, &s->facts, td_gpu_build_image(s->build), &s->blas, &err))
        snprintf(s->no_blas, sizeof s->no_blas, "%.399s", err.msg);
    return s->blas;
}

static size_t whole_bytes(const struct td_gpu_prepared *p)
{
    return (size_t)p->x.k * (size_t)p->x.n * 2;
}

int td_gpu_put_dequant_w(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    int rc = td_gpu_blas_start(s->blas, err);

    if (!rc)
        rc = td_gpu_make_room(s, p, TD_GPU_AT_WHOLE, whole_bytes(p), 256, err);
    return rc ? rc : td_gpu_poison_w(s, p, err);
}

int td_gpu_poison_w(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    return s->driver->set(s->device, p->memory[TD_GPU_AT_WHOLE].address, NAN_BYTE, whole_bytes(p), err);
}

int td_gpu_multiply_w(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    return td_gpu_blas_product(s->blas, p->x.m, p->x.n, p->x.k, p->memory[TD_GPU_AT_A].address, p->memory[TD_GPU_AT_WHOLE].address, p->memory[TD_GPU_AT_C].address, err);
}
