/* lib_hip_model_blas.c - the hipBLAS of the fake server (lib_hip_model.c): hipblasHgemm over the
 * fake HIP runtime, in the one form of call that vLLM makes. Like rocBLAS it launches by
 * hipExtModuleLaunchKernel with one packed block of parameters.
 * SPDX-License-Identifier: Apache-2.0
 *
 * lib_fake_hipblas.c is the hipBLAS of provider hip, and makes handles of its own. */
#include "kernels/abi/hip_abi.h"

struct fake_hipblas { void *kernel, *stream; int mode; }; /* mode 1: alpha and beta lie on the device */

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
