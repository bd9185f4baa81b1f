/* lib_fake_cublas.c - cublasHgemm over the fake driver, for the one form of call that vLLM makes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A handle is struct fake_cublas: the kernel that computes, and the stream it goes to. */
#include <dlfcn.h>
#include <stdint.h>

#include "tests/helpers/fake_cuda/fake_api.h"

struct fake_cublas { void *kernel, *stream; };

int cublasHgemm(struct fake_cublas *h, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, const uint16_t *a, int lda, const uint16_t *b, int ldb,
                const uint16_t *beta, uint16_t *c, int ldc);

int cublasHgemm(struct fake_cublas *h, int trans_a, int trans_b, int m, int n, int k, const uint16_t *alpha, const uint16_t *a, int lda, const uint16_t *b, int ldb,
                const uint16_t *beta, uint16_t *c, int ldc)
{
    int (*launch) FAKE_CUDA_LAUNCH_ARGS = (int (*) FAKE_CUDA_LAUNCH_ARGS)dlsym(RTLD_DEFAULT, "cuLaunchKernel");
    void *at[] = {&b, &a, &c, &n, &m, &k};

    if (trans_a || trans_b || *alpha != 0x3c00 || *beta || lda != m || ldb != k || ldc != m || !launch)
        return 7;                      /* CUBLAS_STATUS_INVALID_VALUE */
    return launch(h->kernel, 1, 1, 1, 128, 1, 1, 0, h->stream, at, NULL) ? 13 : 0;
}
