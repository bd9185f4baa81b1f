/* lib_hip_model_blas.c - hipblasHgemm over the fake HIP runtime, for the one form of call that vLLM makes. It launches as rocBLAS does: hipExtModuleLaunchKernel
 * and one packed block.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A handle is struct fake_hipblas: the kernel that computes, the stream it goes to, where the factors lie (1: on the device). */
#include "kernels/abi/hip_abi.h"

struct fake_hipblas { void *kernel, *stream; int mode; };

int TD_HIP_EXT_MANGLED TD_HIP_EXT_ARGUMENTS;
int hipblasGetPointerMode(struct fake_hipblas *h, int *mode);
int hipblasGetStream(struct fake_hipblas *h, void **stream);
int hipblasHgemm(struct fake_hipblas *h, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, const uint16_t *a, int lda, const uint16_t *b, int ldb,
                 const uint16_t *beta, uint16_t *c, int ldc);

int hipblasHgemm(struct fake_hipblas *h, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, const uint16_t *a, int lda, const uint16_t *b, int ldb,
                 const uint16_t *beta, uint16_t *c, int ldc)
{
    struct { const void *b, *a, *c; int n, m, k; } block = {b, a, c, n, m, k};
    size_t bytes = 36;                 /* of the kernel's parameters */
    void *extra[] = {(void *)TD_HIP_PARAM_BUFFER_POINTER, &block, (void *)TD_HIP_PARAM_BUFFER_SIZE, &bytes, (void *)TD_HIP_PARAM_END};

    if (trans_a != 111 || trans_b != 111 || h->mode || *alpha != 0x3c00 || *beta || lda != m || ldb != k || ldc != m)
        return 3;                      /* HIPBLAS_STATUS_INVALID_VALUE */
    return TD_HIP_EXT_MANGLED(h->kernel, 128, 1, 1, 128, 1, 1, 0, h->stream, NULL, extra, NULL, NULL, 0) ? 5 : 0;
}

int hipblasGetPointerMode(struct fake_hipblas *h, int *mode)
{
    *mode = h->mode;
    return 0;
}

int hipblasGetStream(struct fake_hipblas *h, void **stream)
{
    *stream = h->stream;
    return 0;
}
