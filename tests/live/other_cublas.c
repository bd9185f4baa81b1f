/* other_cublas.c - cuBLAS by others of its algorithms, for the stage other-cublas of vllm_gpu.sh.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A library for TD_CUBLAS_LIBRARY. It is linked to the real one, which answers all that is not here:
 *   cc -shared -fPIC -I ROOT other_cublas.c -Wl,--no-as-needed /PATH/libcublas.so.13 -o other_cublas.so
 * OTHER_CUBLAS says how it multiplies:
 *   workspace  without a workspace: no sum is split along K
 *   pedantic   CUBLAS_COMPUTE_32F_PEDANTIC
 *   halves     the output in two parts along its rows of C^T (cuBLAS's m), so that other tiles are chosen
 *   second     products with a bias: the second of the algorithms that cublasLt proposes
 *   wrong      the second of those two parts is 0.1 % too large: a judge must find it */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/abi/cublas_abi.h"
#include "kernels/abi/cublaslt_abi.h"

#define COMPUTE_32F_PEDANTIC 69 /* cublasComputeType_t */
#define BYTES_OF_HALF 2         /* float16 and bfloat16 */
#define SUCCESS 0
#define NOT_SUPPORTED 15        /* cublasStatus_t */
#define MOST 8

typedef int gemm_fn TD_CUBLAS_GEMM_EX_ARGS;
typedef int workspace_fn(void *handle, void *memory, size_t bytes);
typedef int heuristic_fn TD_CUBLASLT_HEURISTIC_ARGS;

static int is(const char *how)
{
    const char *said = getenv("OTHER_CUBLAS");

    return said && !strcmp(said, how);
}

gemm_fn cublasGemmEx;
heuristic_fn cublasLtMatmulAlgoGetHeuristic;

int cublasGemmEx TD_CUBLAS_GEMM_EX_ARGS
{
    gemm_fn *const real = (gemm_fn *)dlsym(RTLD_NEXT, "cublasGemmEx");
    const float of_second = *(const float *)alpha * (is("wrong") ? 1.001f : 1);
    const int half = m / 2;
    int status;

    if (is("workspace")) {
        status = ((workspace_fn *)dlsym(RTLD_NEXT, "cublasSetWorkspace_v2"))(handle, NULL, 0);
        if (status != SUCCESS)
            return status;
    }
    if (is("pedantic"))
        compute = COMPUTE_32F_PEDANTIC;
    if (!is("halves") && !is("wrong"))
        return real(handle, trans_a, trans_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algorithm);
    if (trans_a != TD_CUBLAS_OP_T) /* A is [k, m] with trans_a: its columns are rows of C */
        return NOT_SUPPORTED;
    status = real(handle, trans_a, trans_b, half, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algorithm);
    if (status != SUCCESS)
        return status;
    return real(handle, trans_a, trans_b, m - half, n, k, &of_second, (const char *)a + (size_t)half * (size_t)lda * BYTES_OF_HALF, a_type, lda, b,
                b_type, ldb, beta, (char *)c + (size_t)half * BYTES_OF_HALF, c_type, ldc, compute, algorithm);
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, const void *desc, const void *a_layout, const void *b_layout, const void *c_layout,
                                   const void *d_layout, const void *preference, int wanted, struct td_cublaslt_choice *found, int *n_found)
{
    heuristic_fn *const real = (heuristic_fn *)dlsym(RTLD_NEXT, "cublasLtMatmulAlgoGetHeuristic");
    struct td_cublaslt_choice all[MOST];
    int n = 0, status;

    if (!is("second") || wanted < 1)
        return real(handle, desc, a_layout, b_layout, c_layout, d_layout, preference, wanted, found, n_found);
    status = real(handle, desc, a_layout, b_layout, c_layout, d_layout, preference, MOST, all, &n);
    if (status == SUCCESS && n > 0)
        found[0] = all[n > 1 ? 1 : 0];
    *n_found = n > 0;
    return status;
}
