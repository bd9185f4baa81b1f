/* provider_gpu_blas.c - the GPU's library of products for a prepared op, and the W that it multiplies.
 * SPDX-License-Identifier: Apache-2.0
 *
 * W is poisoned like an output: elements that the kernel leaves out become NaN in C. */
#include "kernels/providers/provider_gpu_blas.h"

#include <stdio.h>

#include "kernels/providers/provider_gpu_memory.h"

#define NAN_BYTE 0xff

bool td_gpu_find_blas(struct td_gpu_state *s)
{
    struct td_error err = {0};

    if (!s->blas && !s->no_blas[0] &&
        td_gpu_blas_open(s->driver, s->device, &s->facts, td_gpu_build_image(s->build), &s->blas,
                         &err))
        snprintf(s->no_blas, sizeof s->no_blas, "%.399s", err.msg);
    return s->blas;
}

static size_t dequant_w_bytes(const struct td_gpu_prepared *p)
{
    return (size_t)p->x.k * (size_t)p->x.n * 2;
}

int td_gpu_dequant_w_alloc(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    int rc = td_gpu_blas_start(s->blas, err);

    if (!rc)
        rc = td_gpu_memory_alloc(s, p, TD_GPU_AT_DEQUANT_W, dequant_w_bytes(p), 256, err);
    return rc ? rc : td_gpu_dequant_w_poison(s, p, err);
}

int td_gpu_dequant_w_poison(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    return s->driver->set(s->device, p->memory[TD_GPU_AT_DEQUANT_W].address, NAN_BYTE, dequant_w_bytes(p), err);
}

int td_gpu_dequant_w_multiply(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    return td_gpu_blas_product(s->blas, p->x.m, p->x.n, p->x.k, p->memory[TD_GPU_AT_A].address,
                               p->memory[TD_GPU_AT_DEQUANT_W].address,
                               p->memory[TD_GPU_AT_C].address, err);
}
