/* lib_fake_vllm.c - vLLM's CPU build and torch for tests of the tap's vLLM CPU front: the same
 * symbols and the same calling convention, with kernels that write made-up bytes, or what a test
 * lets them compute.
 * SPDX-License-Identifier: Apache-2.0
 *
 * tests/unit/recorder/tap/fake_vllm.h declares the tensors. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/recorder/tap/fake_vllm.h"

static const struct fake_impl *impl(const void *handle)
{
    return ((const struct fake_tensor *)handle)->impl;
}

/* ---- torch's C functions --------------------------------------------------------------------- */

int32_t aoti_torch_get_dim(const void *t, int64_t *out);
int32_t aoti_torch_get_sizes(const void *t, const int64_t **out);
int32_t aoti_torch_get_strides(const void *t, const int64_t **out);
int32_t aoti_torch_get_dtype(const void *t, int32_t *out);
int32_t aoti_torch_get_device_type(const void *t, int32_t *out);
int32_t aoti_torch_get_data_ptr(const void *t, void **out);
int32_t torch_get_const_data_ptr(const void *t, const void **out);

int64_t fake_writable;                 /* calls that asked for writable memory */

int32_t aoti_torch_get_dim(const void *t, int64_t *out) { return *out = impl(t)->ndim, 0; }
int32_t aoti_torch_get_sizes(const void *t, const int64_t **out) { return *out = impl(t)->sizes, 0; }
int32_t aoti_torch_get_strides(const void *t, const int64_t **out) { return *out = impl(t)->strides, 0; }
int32_t aoti_torch_get_dtype(const void *t, int32_t *out) { return *out = impl(t)->dtype, 0; }
int32_t aoti_torch_get_device_type(const void *t, int32_t *out) { return *out = impl(t)->device, 0; }
int32_t aoti_torch_get_data_ptr(const void *t, void **out) { return fake_writable++, *out = impl(t)->data, impl(t)->no_storage; }
int32_t torch_get_const_data_ptr(const void *t, const void **out) { return *out = impl(t)->data, impl(t)->no_storage; }

/* ---- vLLM's functions ------------------------------------------------------------------------ */

int64_t fake_calls;                    /* calls of the GEMMs */
void (*fake_throw)(void);              /* if set: called in a GEMM, leaves it as an exception would */

/* If set: computes c. w: the weights, or the tensor that holds their handler. */
void (*fake_gemm)(const struct fake_impl *c, const struct fake_impl *x, const struct fake_impl *w);

static void fill(const struct fake_impl *c, const void *x, const void *w)
{
    int64_t i, bytes = c->sizes[0] * c->sizes[1] * (c->dtype == FAKE_F32 ? 4 : 2);

    if (fake_gemm)
        fake_gemm(c, impl(x), impl(w));
    for (i = 0; i < bytes && !fake_gemm; i++)
        ((uint8_t *)c->data)[i] = (uint8_t)(fake_calls + i);
    fake_calls++;
    if (fake_throw)
        fake_throw();
}

FAKE_DECLARE

struct fake_impl fake_result;          /* the next tensor to return */

void *FAKE_INT4(void *ret, const void *x, const void *w, const void *zeros, const void *scales, const void *bias)
{
    (void)zeros, (void)scales, (void)bias;
    fill(&fake_result, x, w);
    ((struct fake_tensor *)ret)->impl = &fake_result;
    return ret;
}

void FAKE_WNA16(const void *x, const void *w, const void *out, const void *scales, const void *zeros, const void *bias, int64_t pack, const void *isa)
{
    (void)scales, (void)zeros, (void)bias, (void)pack, (void)isa;
    fill(impl(out), x, w);
}

void FAKE_ONEDNN(const void *out, const void *x, const void *bias, const void *handler)
{
    (void)bias;
    fill(impl(out), x, handler);
}

void *FAKE_LINEAR(void *ret, const void *x, const void *w, const void *bias)
{
    (void)bias;
    fill(&fake_result, x, w);
    ((struct fake_tensor *)ret)->impl = &fake_result;
    return ret;
}

int64_t FAKE_CREATE(const void *b, int64_t cache)
{
    static int64_t next = 0x7000;

    (void)b;
    return cache ? cache : (next += 64); /* here the caller may choose */
}
