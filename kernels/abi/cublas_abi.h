/* cublas_abi.h - the functions of cuBLAS and hipBLAS that Tapedeck calls.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Declared here so that Tapedeck builds without them. Source: cublas_api.h of CUDA 13.0, unchanged since
 * CUDA 11 (tests/e2e/050-cuda-abi compares); hipblas.h of ROCm, which has the same argument lists: copies of
 * it in public sources were read, but it was never run, nor compared with a header. A status is an int, a
 * handle and a stream a void *, a half two bytes. */
#ifndef TD_KERNELS_ABI_CUBLAS_ABI_H
#define TD_KERNELS_ABI_CUBLAS_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { TD_CUBLAS_OP_N = 0, TD_CUBLAS_OP_T = 1, TD_HIPBLAS_OP_N = 111 };
enum { TD_CUBLAS_F16 = 2, TD_CUBLAS_BF16 = 14 };               /* cudaDataType */
enum { TD_CUBLAS_COMPUTE_32F = 68 };                           /* cublasComputeType_t */
enum { TD_CUBLAS_TENSOR_OP = 99 };                             /* CUBLAS_GEMM_DEFAULT_TENSOR_OP */
enum { TD_CUBLAS_MAJOR = 0, TD_CUBLAS_MINOR = 1, TD_CUBLAS_PATCH = 2 }; /* libraryPropertyType */

#define TD_BLAS_HGEMM_ARGS (void *handle, int trans_a, int trans_b, int m, int n, int k, \
                            const uint16_t *alpha, const uint16_t *a, int lda, const uint16_t *b, int ldb, \
                            const uint16_t *beta, uint16_t *c, int ldc)
#define TD_CUBLAS_GEMM_EX_ARGS (void *handle, int trans_a, int trans_b, int m, int n, int k, \
                                const void *alpha, const void *a, int a_type, int lda, \
                                const void *b, int b_type, int ldb, const void *beta, \
                                void *c, int c_type, int ldc, int compute, int algorithm)

/* For both libraries: X(cuBLAS's name, hipBLAS's name, member, arguments). All are needed. */
#define TD_BLAS_FUNCTIONS(X) \
    X(cublasCreate_v2, hipblasCreate, create, (void **handle)) \
    X(cublasDestroy_v2, hipblasDestroy, destroy, (void *handle)) \
    X(cublasSetStream_v2, hipblasSetStream, set_stream, (void *handle, void *stream)) \
    X(cublasHgemm, hipblasHgemm, hgemm, TD_BLAS_HGEMM_ARGS)

/* For cuBLAS alone: X(name, member, arguments). */
#define TD_CUBLAS_FUNCTIONS(X) \
    X(cublasGemmEx, gemm_ex, TD_CUBLAS_GEMM_EX_ARGS) \
    X(cublasSetWorkspace_v2, set_workspace, (void *handle, void *workspace, size_t bytes)) \
    X(cublasGetProperty, property, (int which, int *value))

#endif
