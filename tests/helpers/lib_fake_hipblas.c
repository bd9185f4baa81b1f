/* lib_fake_hipblas.c - the fake hipBLAS of provider hip: hipblasHgemm over the fake HIP runtime
 * (lib_fake_hip.c), in the one form of call that vLLM makes. TD_FAKE_BLAS (fake_blas.h) makes it
 * wrong.
 * SPDX-License-Identifier: Apache-2.0
 *
 * lib_hip_model_blas.c is the hipBLAS inside the fake server. */
#include "kernels/abi/cublas_abi.h"
#include "tests/helpers/fake_blas.h"

#define DECLARE(cuda, name, member, args) int name args;
TD_BLAS_FUNCTIONS(DECLARE)

int hipblasCreate(void **handle)
{
    return fake_blas_create(handle, "TD_HIP_LIBRARY");
}

int hipblasDestroy(void *handle)
{
    return fake_blas_destroy(handle);
}

int hipblasSetStream(void *handle, void *stream)
{
    ((struct fake_blas *)handle)->stream = stream;
    return 0;
}

int hipblasHgemm TD_BLAS_HGEMM_ARGS
{
    if (trans_a != 111 || trans_b != 111 || *alpha != 0x3c00 || *beta || lda != m || ldb != k || ldc != m) /* HIPBLAS_OP_N */
        return 3;                      /* HIPBLAS_STATUS_INVALID_VALUE */
    return fake_blas_launch(handle, n, m, k, b, a, c) ? 6 : 0;
}
