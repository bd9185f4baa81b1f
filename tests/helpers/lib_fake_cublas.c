/* lib_fake_cublas.c - a fake libcublas.so.13 over the fake driver: cublasHgemm as vLLM calls it,
 * and cublasGemmEx as torch calls it for a linear layer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Provider cuda and the fake CUDA server (lib_cuda_model.c) use it. Any other form of call is
 * refused. A handle is a struct fake_blas. The library reports version 13.0.2. TD_FAKE_BLAS
 * (fake_blas.h) makes its products wrong. */
#include <stdint.h>

#include "kernels/abi/cublas_abi.h"
#include "tests/helpers/fake_blas.h"
#include "tests/helpers/fake_cublaslt.h"

#define DECLARE(name, hip, member, args) int name args;
TD_BLAS_FUNCTIONS(DECLARE)
#undef DECLARE
#define DECLARE(name, member, args) int name args;
TD_CUBLAS_FUNCTIONS(DECLARE)
#undef DECLARE
int cublasGetPointerMode_v2(struct fake_blas *h, int *mode);
int cublasGetStream_v2(struct fake_blas *h, void **stream);

extern int (*fake_cublas_lt) TD_CUBLASLT_MATMUL_ARGS;
/* A test may set this: cublasGemmEx then calls cublasLtMatmul for the product, as the real one
 * may. */
int (*fake_cublas_lt) TD_CUBLASLT_MATMUL_ARGS;

static int needs_workspace;            /* cublasCreate was called, and cublasSetWorkspace not yet */

int cublasCreate_v2(void **handle)
{
    needs_workspace = 1;
    return fake_blas_create(handle, "TD_CUDA_LIBRARY");
}

int cublasDestroy_v2(void *handle)
{
    return fake_blas_destroy(handle);
}

int cublasSetStream_v2(void *handle, void *stream)
{
    ((struct fake_blas *)handle)->stream = stream;
    return 0;
}

/* Accept only the workspace that torch gives on compute capability 9.0. */
int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes)
{
    (void)handle;
    needs_workspace = !workspace || bytes != 32u << 20;
    return needs_workspace ? 7 : 0;
}

int cublasGetProperty(int which, int *value)
{
    *value = which == TD_CUBLAS_MAJOR ? 13 : which == TD_CUBLAS_PATCH ? 2 : 0;
    return 0;
}

int cublasHgemm TD_BLAS_HGEMM_ARGS
{
    struct fake_blas *h = handle;

    if (trans_a || trans_b || needs_workspace || (!h->mode && (*alpha != 0x3c00 || (*beta && *beta != 0x3c00))) || lda != m || ldb != k || ldc != m)
        return 7;                      /* CUBLAS_STATUS_INVALID_VALUE */
    if (fake_blas_is("refuse"))
        return 14;                     /* CUBLAS_STATUS_INTERNAL_ERROR */
    return fake_blas_launch(h, n, m, k, b, a, c) ? 13 : 0;
}

static int by_lt(struct fake_blas *h, int m, int n, int k, const void *alpha, const void *a, int type, const void *b, const void *beta, void *c)
{
    struct fake_lt desc = fake_lt_desc(0), w = fake_lt_layout(type, (uint64_t)k, (uint64_t)m, (uint64_t)k), in = fake_lt_layout(type, (uint64_t)k, (uint64_t)n, (uint64_t)k);
    struct fake_lt out = fake_lt_layout(type, (uint64_t)m, (uint64_t)n, (uint64_t)m);

    fake_lt_set(&desc, TD_CUBLASLT_DESC_POINTER_MODE, 4, (uint64_t)h->mode);
    return fake_cublas_lt(h, &desc, alpha, a, &w, b, &in, beta, c, &out, c, &out, h, h, 1 << 20, h->stream);
}

/* A handle of cublasCreate is provider cuda's: only torch's exact form of call is accepted. Any
 * other handle belongs to a test of the tap, which brings its own kernel for a dense product with a
 * transposed W. */
int cublasGemmEx TD_CUBLAS_GEMM_EX_ARGS
{
    struct fake_blas *h = handle;

    if (trans_a == TD_CUBLAS_OP_N && !fake_blas_is_ours(h)) /* torch.matmul, by W [k, n] */
        return trans_b != TD_CUBLAS_OP_N || a_type != TD_CUBLAS_F16 || c_type != a_type || lda != m || ldb != k || ldc != m ||
                       compute != TD_CUBLAS_COMPUTE_32F ? 7 : fake_blas_launch(h, n, m, k, b, a, c) ? 13 : 0;
    if (trans_a != TD_CUBLAS_OP_T || trans_b != TD_CUBLAS_OP_N || lda != k || a_type != b_type || a_type != c_type || (a_type != TD_CUBLAS_F16 && a_type != TD_CUBLAS_BF16)
        || compute != TD_CUBLAS_COMPUTE_32F || (!h->mode && *(const float *)alpha != 1))
        return 7;
    if (!fake_blas_is_ours(h) && fake_cublas_lt)
        return by_lt(h, m, n, k, alpha, a, a_type, b, beta, c);
    if (!fake_blas_is_ours(h))
        return ldb != k || ldc != m ? 7 : fake_blas_launch(h, n, m, k, b, a, c) ? 13 : 0;
    if (needs_workspace || *(const float *)beta != 0 || ldb < k || ldc < m || algorithm != TD_CUBLAS_TENSOR_OP)
        return 7;
    if (fake_blas_is("refuse"))
        return 14;
    return fake_blas_launch_linear(h, n, m, k, b, ldb, a, c, ldc, a_type == TD_CUBLAS_BF16, NULL) ? 13 : 0;
}

int cublasGetPointerMode_v2(struct fake_blas *h, int *mode)
{
    *mode = h->mode;
    return 0;
}

int cublasGetStream_v2(struct fake_blas *h, void **stream)
{
    *stream = h->stream;
    return 0;
}
