/* lib_fake_cublas.c - cublasHgemm over the fake driver, for the one form of call that vLLM makes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A handle is struct fake_cublas: the kernel that computes, the stream it goes to, where the factors lie (1: on the device). */
#include <dlfcn.h>
#include <stdint.h>

#include "tests/helpers/fake_cuda/fake_api.h"

struct fake_cublas { void *kernel, *stream; int mode; };

int cublasGetPointerMode_v2(struct fake_cublas *h, int *mode);
int cublasGetStream_v2(struct fake_cublas *h, void **stream);

int cublasHgemm(struct fake_cublas *h, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, const uint16_t *a, int lda, const uint16_t *b, int ldb,
                const uint16_t *beta, uint16_t *c, int ldc);

int cublasHgemm(struct fake_cublas *h, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, const uint16_t *a, int lda, const uint16_t *b, int ldb,
                const uint16_t *beta, uint16_t *c, int ldc)
{
    int (*launch) FAKE_CUDA_LAUNCH_ARGS = (int (*) FAKE_CUDA_LAUNCH_ARGS)dlsym(RTLD_DEFAULT, "cuLaunchKernel");
    void *at[] = {&b, &a, &c, &n, &m, &k};

    if (trans_a || trans_b || (!h->mode && (*alpha != 0x3c00 || (*beta && *beta != 0x3c00))) || lda != m || ldb != k || ldc != m || !launch)
        return 7;                      /* CUBLAS_STATUS_INVALID_VALUE */
    return launch(h->kernel, 1, 1, 1, 128, 1, 1, 0, h->stream, at, NULL) ? 13 : 0;
}

int cublasGetPointerMode_v2(struct fake_cublas *h, int *mode)
{
    *mode = h->mode;
    return 0;
}

int cublasGetStream_v2(struct fake_cublas *h, void **stream)
{
    *stream = h->stream;
    return 0;
}
